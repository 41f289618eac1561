//! Outgoing HTTP connections of the workspace. Each rule stands here once: trusted certificates, proxies, time limits, and
//! the destinations of requests to URLs from untrusted sources.
//!
//! Four kinds of clients need connections:
//!
//! | Client | Connections | Proxy | Destinations |
//! |---|---|---|---|
//! | SDK (`hospes`) | a pool that callers drive themselves, over [`OriginConnector`] | forwards `http`, tunnels `https` | one origin, which a person chose |
//! | model providers | `hyper_util`'s pool over [`OriginConnector::tunnelling`] | tunnels both | one origin, which a person chose |
//! | authorization, registries | one connection for each request, by `EgressClient` | none | `EgressPolicy` |
//! | the server `fetch` | one connection for each request, by `EgressClient` | none | `EgressPolicy` |
//!
//! - **Trust.** [`tls_config`] trusts the built-in authorities, or those of the environment, and additional files.
//! - **Proxies.** [`ProxyRoute`] follows [`ProxySetting`], or the environment. Servers on this machine are never reached
//!   through a proxy. `EgressClient` uses no proxy, because a proxy would look names up again and dial unchecked
//!   addresses.
//! - **Time limits.** The connector limits the time to connect. The clients limit requests and bodies, because their
//!   limits differ: the SDK has one for each call, providers have one for the first byte and for pauses.
//! - **Redirects.** Nothing here follows them. `fetch` does it itself, and checks each URL anew.
//!
//! The feature `connect` contains the connections, `tls` adds `https`, and `egress` adds `EgressClient` with its rules.
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `connector` | [`OriginConnector`] |
//! | `network_settings`, `proxy` | [`NetworkSettings`], and the choice of a [`ProxyRoute`] |
//! | `trust` | [`tls_config`] |
//! | `egress` | `EgressClient`, `EgressPolicy`, the classification of addresses, and `TlsFailure` |

#[cfg(feature = "connect")]
mod connector;
#[cfg(feature = "egress")]
mod egress;
#[cfg(feature = "connect")]
mod network_settings;
#[cfg(feature = "connect")]
mod proxy;
#[cfg(feature = "tls")]
mod trust;

#[cfg(feature = "connect")]
pub use connector::{ConnectTimeout, ConnectionFuture, ConnectionIo, ConnectorError, OriginConnector};
#[cfg(feature = "egress")]
pub use egress::{
    EgressClient, EgressPolicy, FetchError, HostLookup, IpNetwork, LookupFuture, ParseNetworkError,
    TlsFailure, is_loopback, read_body, system_lookup,
};
#[cfg(feature = "connect")]
pub use network_settings::{NetworkSettings, ProxySetting};
#[cfg(feature = "connect")]
pub use proxy::{ProxyRoute, is_this_machine};
#[cfg(feature = "tls")]
pub use trust::tls_config;
