//! DPoP at a server (RFC 9449): proofs, their nonces, and the memory of used proofs.

mod nonces;
mod proof;
mod replay_cache;
mod shared_store;

use http::HeaderName;

pub use nonces::ProofNonces;
pub use proof::{DpopProof, PRIVATE_JWK_MEMBERS, PROOF_TOLERANCE_SECONDS, algorithm_names, read_proof};
pub use replay_cache::ProofReplayCache;
pub use shared_store::{ProofStoreError, ProofStoreFuture, SharedProofStore};

/// The header that carries a proof.
pub const DPOP: HeaderName = HeaderName::from_static("dpop");
/// Header with the nonce that the next proof must contain.
pub const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
