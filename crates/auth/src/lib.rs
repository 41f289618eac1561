//! Types and rules that the OAuth crates of Hospes share: the client (`hospes-oauth`), the resource server
//! (`hospes-oauth-resource`) and the authorization server (`hospes-oauth-server`).
//!
//! An application uses one of those crates. It needs this one for the types that all of them name: [`Issuer`],
//! [`Resource`], [`ClientId`], [`RedirectUri`], [`Scopes`] and [`Challenge`].
//!
//! - [`metadata`]: the documents of resources, authorization servers and clients
//! - [`egress`], [`HttpFetch`], [`FetchRequest`], [`FetchResponse`]: requests to URLs that others supplied
//! - [`jwt`], [`PublishedKeys`]: signed tokens of others, and the keys that they publish
//! - [`dpop`]: proofs, their nonces and the memory of used proofs
//! - [`pkce`]: code verifiers and challenges
//! - [`KeyPair`], [`RotatingKey`], [`Seed`], [`UnixClock`]: own keys, randomness and time
//! - [`BoundedCache`], [`SingleFlight`]: caches with limits
//! - [`AccountConnections`], [`TrustedProxies`]: what the account pages and the host agree on
//!
//! ```
//! use hospes_auth::{Issuer, Scopes, metadata::server_metadata_urls};
//!
//! let issuer = Issuer::new("https://as.example")?;
//! let first = &server_metadata_urls(&issuer)[0];
//! assert_eq!(first.as_str(), "https://as.example/.well-known/oauth-authorization-server");
//! assert!(Scopes::parse("mcp files").contains("files"));
//! # Ok::<_, hospes_auth::InvalidIdentifier>(())
//! ```
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `ids`, `scopes` | [`Issuer`], [`Resource`], [`ClientId`] and [`RedirectUri`], compared as received; [`Scopes`] |
//! | `challenge`, `error` | [`Challenge`] of `WWW-Authenticate`; errors of OAuth endpoints |
//! | [`metadata`] | documents of resources, authorization servers and clients |
//! | [`egress`], `fetch`, `exchange` | the guarded HTTP client, its interface, and requests with their complete responses |
//! | [`jwt`], `keys` | tokens signed by others, and the cache of their published keys |
//! | `key_pair`, `rotating_key` | keys that are generated here |
//! | [`dpop`] | proofs, their nonces and the memory of used proofs |
//! | [`pkce`], `secret`, `clock` | code verifiers, randomness, and the clock that is passed to code without I/O |
//! | `bounded_cache`, `single_flight` | caches with limits; deduplication of equal requests |
//! | `account_connections`, `client_address` | interface of the account pages; addresses of clients behind proxies |

mod account_connections;
mod bounded_cache;
mod challenge;
mod client_address;
mod clock;
pub mod dpop;
pub mod egress;
mod error;
mod exchange;
mod fetch;
mod groups;
mod ids;
pub mod jwt;
mod key_pair;
mod keys;
pub mod metadata;
pub mod pkce;
mod rotating_key;
mod scopes;
mod secret;
mod single_flight;

pub use account_connections::{
    AccountConnectionFuture, AccountConnections, AccountLink, AccountStatus, ConnectAccountError,
    DisconnectResult,
};
pub use bounded_cache::BoundedCache;
pub use challenge::Challenge;
pub use client_address::{InvalidProxyNetwork, TrustedProxies, is_forwarded};
/// Style sheet of the pages that a user sees while signing in.
pub const PAGE_STYLE: &str = include_str!("page_style.css");

pub use clock::{CLOCK_SKEW, UnixClock};
pub use error::{ErrorBody, ErrorCode, shown};
pub use exchange::{
    DecodeDocumentError, FetchRequest, FetchResponse, InvalidJson, MAX_CLIENT_BYTES, MAX_KEYS_BYTES,
    MAX_METADATA_BYTES, MAX_TOKEN_BYTES, without_query,
};
pub use fetch::{FetchFuture, HttpFetch};
pub use groups::{GroupsClaim, MAX_GROUPS, ReadGroupsError};
pub use ids::{ClientId, InvalidIdentifier, Issuer, RedirectUri, Resource};
pub use key_pair::{KeyPair, KeyPairError};
pub use keys::{JwksLocation, KEYS_MAX_AGE_SECONDS, PublishedKeys, PublishedKeysError};
pub use rotating_key::RotatingKey;
pub use scopes::Scopes;
pub use secret::{Seed, fingerprint};
pub use single_flight::SingleFlight;
