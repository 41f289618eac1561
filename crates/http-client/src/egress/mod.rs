//! Requests to URLs from untrusted sources.

mod addresses;
mod client;
mod connector;
mod error;
mod policy;
mod tls;

pub use addresses::{IpNetwork, ParseNetworkError};
pub use client::{EgressClient, read_body};
pub use connector::{HostLookup, LookupFuture, system_lookup};
pub use error::FetchError;
pub use policy::{EgressPolicy, is_loopback};
pub use tls::TlsFailure;
