//! The servers behind the host: started all at once, watched, and started again when they go away.
//!
//! Each server has a *primary* connection, which starts with the host and is kept up permanently. A server learns the
//! client's capabilities when the connection opens, or with every request on it. Every other [`CapabilitySet`] that an
//! application comes with has a further connection, opened on first use and closed when idle. The last set is
//! remembered, and the next run begins with it. The connection pool assigns the calls of applications to connections.
//!
//! [`CapabilitySet`]: crate::server::CapabilitySet

mod application;
mod backoff;
mod client;
mod connection_pool;
mod launcher_variables;
mod line;
mod list_changes;
mod list_reader;
mod phase;
mod placed_connector;
mod placed_server;
mod process;
mod result_validator;
mod roots;
mod server;
mod server_memory;
mod status;
mod upstream_entry;

pub(crate) use application::ApplicationIdentity;
pub use backoff::{Backoff, BackoffDecision};
pub use client::target;
pub(crate) use client::{client_connector, sign_in_required_error};
#[cfg(test)]
pub(crate) use client::{declaring, in_memory};
pub(crate) use connection_pool::{ConnectionLease, TaskHold};
pub use launcher_variables::launcher_variables;
pub(crate) use line::{SendTurn, SupervisedConnection, listen};
pub use list_reader::{MAX_ITEMS, MAX_PAGES, input_schema_fault, remove_repeated};
pub(crate) use phase::{ReadyConnection, UpstreamPhase};
pub(crate) use placed_connector::PlacedConnector;
pub use placed_server::PlacedServer;
pub use process::confine_command;
pub(crate) use roots::{RootsOwner, RootsPolicy, RootsRules};
pub(crate) use server::Upstream;
pub use server_memory::{MAX_REMEMBERED, ServerMemory, definition};
pub use status::{NOISE_WARNING, UpstreamState, UpstreamStatus};
pub(crate) use upstream_entry::UpstreamEntry;
