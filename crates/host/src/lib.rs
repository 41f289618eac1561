//! The MCP host: many servers, one person, one endpoint.
//!
//! [`HostBuilder::start`] starts the servers of a configuration, all at once, and keeps them up; [`Host::gateway`] is all of
//! them as one [`Service`](hospes::Service), to be served over any transport.

pub mod accounts;
pub mod callers;
pub mod catalogue;
pub mod config;
pub mod deciders;
pub mod desk;
mod gateway;
mod guard;
mod host;
mod looks;
pub mod pins;
mod roots;
pub mod sampling;
mod servers;
mod settings;
mod status;
pub mod upstream;

pub use accounts::{AccountLimits, Accounts};
pub use desk::Desk;
pub use gateway::Gateway;
pub use guard::{DEFAULT_APPROVAL_TIMEOUT, Guard, LocalLinks};
pub use host::{BuiltinError, Builtins, Host, HostBuilder, RequestState, StartError, builtin_labels};
pub use pins::{PinMode, Pinning, Pins};
pub use sampling::Sampler;
pub use servers::{NoSuchServer, Servers};
pub use settings::{
    DEFAULT_CALL_WAIT, DEFAULT_CONNECT_TIMEOUT, DEFAULT_FIRST_START_WAIT, DEFAULT_GREETING_WAIT,
    DEFAULT_HEALTH_CHECK, DEFAULT_IDLE_AFTER, DEFAULT_MAX_CONNECTIONS, DEFAULT_MAX_VIEWS, DEFAULT_START_WAIT,
    DEFAULT_STARTING_PER_CORE, Settings,
};
pub use status::Status;

/// Returns the name and version of the host.
#[must_use]
pub fn implementation() -> hospes_model::Implementation {
    hospes_model::Implementation::new("hospes", env!("CARGO_PKG_VERSION")).with_title("Hospes")
}
