//! Rules for requests to URLs from untrusted sources, and a connector that enforces them.
//!
//! [`EgressPolicy`] holds the rules and [`build_connector`] enforces them: the address that is checked is the address
//! that is dialled. Clients must call [`EgressPolicy::check`] for each URL, including redirects. They must not keep
//! connections, because a reused connection is not checked again.

mod addresses;
mod connector;
mod error;
mod policy;

pub use addresses::{IpNetwork, ParseNetworkError};
pub use connector::{
    EgressConnector, EgressResolver, HostLookup, LookupFuture, build_connector, classify_send_error,
    system_lookup,
};
pub use error::FetchError;
pub use policy::{EgressPolicy, is_loopback};
