//! Interface to the store in which several processes share the state of DPoP checks.

use std::pin::Pin;
use std::sync::Arc;

use crate::rotating_key::RotatingKey;

/// Error of a [`SharedProofStore`].
#[derive(Clone, Debug, thiserror::Error)]
#[error("the shared store of DPoP proofs failed: {0}")]
#[non_exhaustive]
pub struct ProofStoreError(pub Arc<str>);

impl ProofStoreError {
    /// Creates an error with this cause.
    #[must_use]
    pub fn new(cause: impl Into<Arc<str>>) -> Self {
        Self(cause.into())
    }
}

/// Future of an operation of a [`SharedProofStore`].
pub type ProofStoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ProofStoreError>> + Send + 'a>>;

/// Store that several processes behind one address share: a proof is accepted by one of them, and a nonce of one is
/// valid at all. Times are in seconds since 1970.
pub trait SharedProofStore: Send + Sync + 'static {
    /// Claims a proof until then, by its identifier; false if it is already claimed.
    fn claim_proof<'a>(&'a self, proof: &'a str, until: u64, now: u64) -> ProofStoreFuture<'a, bool>;

    /// Returns the keys of nonces that are valid at `now` or later.
    fn nonce_keys(&self, now: u64) -> ProofStoreFuture<'_, Vec<RotatingKey>>;

    /// Stores a key of nonces until then.
    fn store_nonce_key<'a>(&'a self, key: &'a RotatingKey, until: u64) -> ProofStoreFuture<'a, ()>;
}
