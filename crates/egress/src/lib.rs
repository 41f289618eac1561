//! Rules for requests to URLs from untrusted sources, and a connector that enforces them.
//!
//! For clients that follow URLs which somebody else has chosen: authorization metadata, web pages, client documents.
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
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `policy` | [`EgressPolicy`] |
//! | `addresses` | which addresses belong to the public internet |
//! | `connector` | [`build_connector`], and the lookup of names |
//! | `error` | [`FetchError`] |

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
