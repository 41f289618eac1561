//! Authorization of the Model Context Protocol: OAuth 2.1 for every role.
//!
//! The flows are state machines without I/O: time, randomness and the answers of servers come in, what is to be done
//! goes out. So the same rules serve the SDK's client, the host, the gateway and the tests. What does the I/O stands
//! beside them and decides nothing.

mod account_connections;
mod bounded_cache;
mod challenge;
pub mod client;
mod client_address;
mod clock;
pub mod dpop;
pub mod egress;
mod error;
mod exchange;
mod fetch;
mod ids;
pub mod jwt;
mod key_pair;
mod keys;
pub mod metadata;
pub mod pkce;
pub mod resource;
mod rotating_key;
mod scopes;
mod secret;
pub mod server;
mod single_flight;
#[cfg(test)]
mod tests;

pub use account_connections::{
    AccountConnectionFuture, AccountConnections, AccountLink, AccountStatus, ConnectAccountError,
    DisconnectResult,
};
pub use bounded_cache::BoundedCache;
pub use challenge::Challenge;
pub use client_address::{InvalidProxyNetwork, TrustedProxies, is_forwarded};
pub use clock::{CLOCK_SKEW, UnixClock};
pub use error::{ErrorBody, ErrorCode, shown};
pub use exchange::{
    DecodeDocumentError, FetchRequest, FetchResponse, InvalidJson, MAX_CLIENT_BYTES, MAX_KEYS_BYTES,
    MAX_METADATA_BYTES, MAX_TOKEN_BYTES, without_query,
};
pub use fetch::{FetchFuture, HttpFetch};
pub use ids::{ClientId, InvalidIdentifier, Issuer, RedirectUri, Resource};
pub use key_pair::{KeyPair, KeyPairError};
pub use keys::{JwksLocation, KEYS_MAX_AGE_SECONDS, PublishedKeys, PublishedKeysError};
pub use rotating_key::RotatingKey;
pub use scopes::Scopes;
pub use secret::{Seed, fingerprint};
pub use single_flight::SingleFlight;
