//! Outgoing HTTP of the workspace: rules for requests to URLs from untrusted sources, and a connector that enforces them.
//!
//! ```
//! use hospes_http_client::EgressPolicy;
//!
//! let egress = EgressPolicy::public();
//! assert!(egress.check(&"https://example.com/".parse()?).is_ok());
//! assert!(egress.check(&"https://169.254.169.254/latest".parse()?).is_err());
//! # Ok::<(), url::ParseError>(())
//! ```

mod egress;

pub use egress::{
    EgressConnector, EgressPolicy, EgressResolver, FetchError, HostLookup, IpNetwork, LookupFuture,
    ParseNetworkError, build_connector, classify_send_error, is_loopback, system_lookup,
};
