//! Requests to URLs from untrusted parties, limited in destination and size, without following redirects.

mod http_client;

pub use hospes_http_client::{EgressPolicy, FetchError, IpNetwork, ParseNetworkError};
pub use http_client::GuardedClient;
