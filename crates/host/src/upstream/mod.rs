//! The servers behind the host: started all at once, watched, and started again when they go away.
//!
//! Each server has a *primary* connection, which starts with the host and is kept up permanently. A server learns the
//! client's capabilities when the connection opens, or with every request on it. Every other set of [`CapabilitySet`] that
//! an application comes with has a further connection, opened on first use and closed when idle. The last set is
//! remembered, and the next run begins with it. The connection pool assigns the calls of applications to connections.

mod application;
mod backoff;
mod capability_set;
mod client;
mod connection_pool;
mod connector;
mod extension_sets;
mod launch_recorder;
mod line;
mod list_changes;
mod listing;
mod phase;
mod process;
mod result_validator;
mod server;
mod server_memory;
mod status;
mod upstream_entry;

pub(crate) use application::ApplicationIdentity;
pub use backoff::{Backoff, BackoffDecision};
pub use capability_set::CapabilitySet;
pub use client::target;
pub(crate) use client::{client_connector, sign_in_required_error};
#[cfg(test)]
pub(crate) use client::{connection as in_memory, declaring};
pub(crate) use connection_pool::{ConnectionLease, TaskHold};
pub use connector::{
    ConnectOptions, ConnectorFuture, ServerLogCallback, ServerNotificationCallback, SignInChanges,
    UpstreamConnectError, UpstreamConnection, UpstreamConnector,
};
pub(crate) use extension_sets::{ExtensionSettings as Extensions, own_extensions};
pub use hospes_model::Era;
pub(crate) use launch_recorder::LaunchRecorder;
pub(crate) use line::{SendTurn, SupervisedConnection, UpstreamServer, listen};
pub use listing::{ListKinds, ListProblem, MAX_ITEMS, MAX_PAGES, UpstreamListing};
pub(crate) use listing::{complete, decoded};
pub(crate) use phase::{ReadyConnection, UpstreamEpoch, UpstreamPhase};
pub use process::{ServerProcess, confine_command};
pub(crate) use server::Upstream;
pub use server_memory::{KnownProtocol, MAX_REMEMBERED, ServerMemory, definition};
pub use status::{UpstreamState, UpstreamStatus};
pub(crate) use upstream_entry::UpstreamEntry;
