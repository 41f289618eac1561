//! OAuth 2.1 authorization server, for deployments of MCP endpoints without another one and for tests.
//!
//! Decisions are functions over records, storage is behind [`AuthStore`], and the pages and endpoints share a socket with
//! the MCP endpoint. Access tokens are looked up, so that a revocation takes effect at once. By default they are random.
//!
//! - [`AuthServer`], [`AuthServerSettings`]: the server. [`AuthServerFront`] is its middleware, before a
//!   [`BearerAuth`](hospes_oauth_resource::BearerAuth)
//! - [`OwnTokenVerifier`]: the tokens of this server, for the resource server beside it
//! - [`LocalSignIn`], [`PasswordHash`]: users with a password of this server
//! - [`SignInProvider`]: users of another OpenID provider. [`PersonSignIn`] signs them in for other pages
//! - [`RegisteredClient`], [`TrustedDocuments`]: clients that are configured, registered or have a metadata document
//! - [`AuthStore`]: the records, in memory, in a SQLite file (feature `sqlite`) or in a PostgreSQL database that several
//!   nodes share (feature `postgres`)
//! - [`AuthServer::connecting`]: the pages on which users connect their accounts at other servers
//!
//! ```
//! use std::sync::Arc;
//!
//! use hospes_auth::{Issuer, Resource};
//! use hospes_oauth_resource::BearerAuth;
//! use hospes_oauth_server::{AuthServer, AuthServerSettings, LocalSignIn, MemoryAuthStore};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (issuer, resource) = (Issuer::new("http://127.0.0.1:4180")?, Resource::new("http://127.0.0.1:4180/mcp")?);
//! let settings = AuthServerSettings::new(issuer.clone(), resource.clone()).scope("mcp", "Use the tools");
//! let server = AuthServer::new(settings, Arc::new(MemoryAuthStore::new()), LocalSignIn::default())?;
//! let tokens = server.tokens_for([resource.clone()]);
//! let front = server.in_front_of(BearerAuth::builder(resource, vec![issuer], tokens).build());
//! # drop(front);
//! # Ok(())
//! # }
//! ```
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `auth_server`, `settings`, `routes` | [`AuthServer`], its settings and its HTTP endpoints |
//! | `authorize`, `consent`, `pages` | authorization requests, sign-in and consent, and their pages |
//! | `sign_in`, `browser`, `limits` | passwords and codes of users, browser sessions, and limits of attempts |
//! | `shared_limits` | [`SharedRateLimits`]: limits that several servers share |
//! | `provider`, `delegated` | sign-in at another provider |
//! | `person_sign_in` | [`PersonSignIn`]: the same for pages of another program part |
//! | `tokens` | token, revocation and introspection endpoints; [`OwnTokenVerifier`] |
//! | `clients`, `registration`, `documents`, `redirects` | clients: configured, registered, or with a metadata document; their redirects |
//! | `connect` | pages on which users connect accounts at other servers |
//! | `store` | [`AuthStore`] and its implementations; keys of the server |
//! | `form` | request parameters, each at most once |

mod auth_server;
mod authorize;
mod browser;
mod clients;
mod connect;
mod consent;
mod delegated;
mod documents;
mod form;
mod limits;
mod logout_token;
mod pages;
mod person_sign_in;
mod provider;
mod redirects;
mod registration;
mod routes;
mod settings;
mod shared_limits;
mod sign_in;
mod store;
#[cfg(test)]
mod tests;
mod tokens;

pub use auth_server::{AuthServer, InsecureIssuer};
pub use clients::{ClientAuthMethod, ClientKeys, ClientOrigin, InvalidClientKeys, RegisteredClient};
pub use delegated::provider_user;
#[cfg(feature = "postgres")]
pub use hospes_sql::{PostgresSettings, PostgresSettingsError};
pub use logout_token::ProviderLogout;
pub use person_sign_in::{BegunSignIn, PersonSignIn, PersonSignInError, SignedInPerson};
pub use provider::{OWN_PARAMETERS, ProviderResponse, SignInProvider, UserAdmissionRules};
pub use redirects::{matches, may_configure, may_register};
pub use routes::AuthServerFront;
pub use settings::{
    AccessTokenFormat, AuthServerSettings, GrantLifetimes, MAX_ACCESS_LIFETIME, TrustedDocuments,
};
pub use shared_limits::{LimitedParty, SharedLimitFuture, SharedLimitVerdict, SharedRateLimits};
pub use sign_in::{InvalidPasswordHash, LocalSignIn, OWNER, PasswordHash};
#[cfg(feature = "sqlite")]
pub use store::SqlAuthStore;
#[cfg(feature = "postgres")]
pub use store::auth_copy;
pub use store::server_keys::InvalidSealKey;
pub use store::{
    AuthRecord, AuthStore, AuthStoreError, AuthStoreFuture, MemoryAuthStore, RecordKind, RefreshSwapResult,
    TakeRecordResult,
};
pub use tokens::OwnTokenVerifier;
