//! OAuth 2.1 client of the Model Context Protocol: from a refused request to an access token.
//!
//! It is for MCP clients whose servers want tokens. [`OAuthClient`] is the
//! [`Authorizer`](hospes::client::Authorizer) of an SDK client: it finds the authorization server, registers, has the
//! user sign in, stores the tokens and renews them.
//!
//! - [`OAuthClient`], [`OAuthClientBuilder`]: one server's tokens
//! - [`flow`]: one authorization as a state machine without I/O. Time, randomness and responses come in, and the next
//!   action goes out
//! - [`sign_in`]: browser, device code, deferred and unattended sign-in
//! - [`store`]: tokens in a sealed file, in memory, with a key in the keyring (feature `keyring`)
//! - [`GrantType`], [`WorkloadToken`], [`IdentityProvider`]: grants that need no user
//!
//! ```
//! use hospes_oauth::{BrowserSignIn, OAuthClient};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let oauth = OAuthClient::builder("https://mcp.example/mcp")?.sign_in(BrowserSignIn::new(|url| {
//!     println!("Please open {url}");
//!     Ok(())
//! }));
//! let oauth = oauth.build();
//! # drop(oauth);
//! # Ok(())
//! # }
//! ```
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `oauth`, `settings` | [`OAuthClient`] and its settings: runs the flows, stores tokens, authorizes requests |
//! | [`flow`] | one authorization, without I/O |
//! | [`sign_in`] | handlers that ask the user to sign in |
//! | [`store`] | storage of tokens and registrations |
//! | [`pending`] | storage of sign-ins that wait for their redirect, and of links to them |
//! | `token_request`, `token_refresh`, `tokens` | requests to a token endpoint, renewal, and what they return |
//! | `credentials`, `proof_key`, `workload` | client authentication, DPoP proofs, and tokens of a platform |
//! | `error` | [`FlowError`], [`RedirectError`] and [`StepError`] |

mod credentials;
mod error;
pub mod flow;
mod oauth;
pub mod pending;
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
    InvalidEndpoint, NO_SIGN_IN_HINT, OAuthClient, OAuthClientBuilder, RESOURCE_MISMATCH_HINT, RepairReport,
    RepairStep, RevocationResult,
};
pub use pending::{MemoryPendingStore, PendingStore};
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
