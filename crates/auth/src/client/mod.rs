//! The client's side: from a refusal to a token.

mod credentials;
mod error;
pub mod flow;
mod oauth;
mod proof;
mod renew;
mod settings;
pub mod sign_in;
pub mod store;
mod token_request;
mod tokens;
mod workload;

pub use credentials::{Client, ClientAuth, InvalidKey, SigningKey};
pub use error::{FlowError, RedirectError, StepError};
pub use oauth::{
    InvalidEndpoint, OAuthClient, OAuthClientBuilder, RESOURCE_MISMATCH_HINT, Repair, Repaired, Revoked,
};
pub use proof::{DPOP, DPOP_NONCE, ProofKey};
pub use renew::{Renewal, Renewed};
pub use settings::{
    GivenClient, Grant, IdentityProvider, InvalidDocument, LegacyDiscovery, Registration, Settings,
};
pub use sign_in::{Browser, DeviceCode, Elsewhere, SignIn, Unattended};
pub use store::{FileStore, Kept, MemoryStore, Store, StoreKey, examine, shown_endpoint};
#[cfg(feature = "keyring")]
pub use store::{Keyring, KeyringError};
pub use tokens::{TokenKind, Tokens};
pub use workload::WorkloadToken;
