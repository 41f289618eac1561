//! Authorization of the Model Context Protocol: OAuth 2.1 for every role.
//!
//! The flows are state machines without I/O: time, randomness and the answers of servers come in, what is to be done
//! goes out. So the same rules serve the SDK's client, the host, the gateway and the tests. What does the I/O stands
//! beside them and decides nothing.

mod bounded_cache;
mod challenge;
pub mod client;
mod clock;
pub mod egress;
mod error;
mod exchange;
mod fetch;
mod ids;
mod key_pair;
mod keys;
pub mod metadata;
pub mod pkce;
mod proof_nonces;
mod proofs;
pub mod resource;
mod scopes;
mod secret;
pub mod server;
mod single_flight;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use challenge::Challenge;
pub use clock::{CLOCK_SKEW, UnixClock};
pub use error::{ErrorBody, ErrorCode, shown};
pub use exchange::{
    FetchRequest, FetchResponse, InvalidJson, MAX_CLIENT_BYTES, MAX_KEYS_BYTES, MAX_METADATA_BYTES,
    MAX_TOKEN_BYTES,
};
pub use fetch::{FetchFuture, HttpFetch};
pub use ids::{ClientId, InvalidIdentifier, Issuer, RedirectUri, Resource};
pub use scopes::Scopes;
pub use secret::{Seed, fingerprint};
