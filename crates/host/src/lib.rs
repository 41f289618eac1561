//! The MCP host: many servers, one person, one endpoint.
//!
//! [`HostBuilder::start`] starts the servers of a configuration, all at once, and keeps them up; [`Host::gateway`] is all of
//! them as one [`Service`](hospes::Service), to be served over any transport.

pub mod accounts;
pub mod approvals;
pub mod callers;
pub mod catalogue;
pub mod config;
mod confusables;
pub mod deciders;
mod gateway;
mod guard;
mod host;
pub mod pins;
mod roots;
pub mod sampling;
mod servers;
mod status;
pub mod upstream;

pub use accounts::{AccountLimits, UpstreamAccounts};
pub use approvals::ApprovalQueue;
pub use config::{
    DEFAULT_CALL_WAIT, DEFAULT_CONNECT_TIMEOUT, DEFAULT_FIRST_START_WAIT, DEFAULT_GREETING_WAIT,
    DEFAULT_HEALTH_CHECK, DEFAULT_IDLE_AFTER, DEFAULT_MAX_CONNECTIONS, DEFAULT_MAX_VIEWS, DEFAULT_START_WAIT,
    DEFAULT_STARTING_PER_CORE, HostSettings, PinMode,
};
pub use gateway::Gateway;
pub use guard::{DEFAULT_APPROVAL_TIMEOUT, LocalLinks, PolicyEnforcer};
pub use host::{
    BuiltinError, BuiltinFactory, Host, HostBuilder, HostStartError, RequestStateConfig, builtin_labels,
};
pub use pins::{PinManager, PinningConfig};
pub use sampling::Sampler;
pub use servers::{HostServers, UnknownServerError};
pub use status::HostStatus;

/// Returns the name and version of the host.
#[must_use]
pub fn implementation() -> hospes_model::Implementation {
    hospes_model::Implementation::new("hospes", env!("CARGO_PKG_VERSION")).with_title("Hospes")
}
