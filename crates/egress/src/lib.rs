//! Rules for requests to URLs from untrusted sources, and a connector that enforces them.
//!
//! [`EgressPolicy`] holds the rules and [`build_connector`] enforces them: the address that is checked is the address that is
//! dialled. Clients must call [`EgressPolicy::check`] for each URL, including redirects. They must not keep connections,
//! because a reused connection is not checked again.
//!
//! ```
//! use hospes_egress::EgressPolicy;
//!
//! let egress = EgressPolicy::public();
//! assert!(egress.check(&"https://example.com/".parse()?).is_ok());
//! assert!(egress.check(&"https://169.254.169.254/latest".parse()?).is_err());
//! # Ok::<(), url::ParseError>(())
//! ```

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
