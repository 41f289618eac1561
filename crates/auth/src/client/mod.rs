//! The client's side: from a refusal to a token.

mod credentials;
mod error;
pub mod flow;
mod oauth;
mod proof_key;
mod settings;
pub mod sign_in;
pub mod store;
mod token_refresh;
mod token_request;
mod tokens;
mod workload;

pub use credentials::{ClientAuth, ClientIdentity, ClientSigningKey, InvalidKey};
pub use error::{FlowError, RedirectError, StepError};
pub use oauth::{
    InvalidEndpoint, OAuthClient, OAuthClientBuilder, RESOURCE_MISMATCH_HINT, RepairReport, RepairStep,
    RevocationResult,
};
pub use proof_key::ProofKey;
pub use settings::{
    ClientRegistration, GrantType, IdentityProvider, InvalidDocument, LegacyDiscovery, OAuthClientSettings,
    PreregisteredOAuthClient,
};
pub use sign_in::{BrowserSignIn, DeferredSignIn, DeviceCodeSignIn, SignInHandler, UnattendedSignIn};
pub use store::{
    CredentialStore, FileCredentialStore, MemoryCredentialStore, StoreKey, StoredTokens,
    check_store_conformance, shown_endpoint,
};
#[cfg(feature = "keyring")]
pub use store::{KeyringError, SystemKeyring};
pub use token_refresh::{TokenRefresh, TokenRefreshStep};
pub use tokens::{AccessTokenType, TokenSet};
pub use workload::WorkloadToken;
