//! The servers behind the host: started all at once, watched, and started again when they go away.
//!
//! Each server has a *primary* connection, which starts with the host and is kept up permanently. A server learns the
//! client's capabilities when the connection opens, or with every request on it. Every other set of [`Abilities`] that
//! an application comes with has a further connection, opened on first use and closed when idle. The last set is
//! remembered, and the next run begins with it. The connection pool assigns the calls of applications to connections.

mod abilities;
mod application;
mod backoff;
mod client;
mod connector;
mod declared;
mod ear;
mod launches;
mod line;
mod listing;
mod memory;
mod phase;
mod process;
mod results;
mod seats;
mod server;
mod slot;
mod status;

pub use abilities::Abilities;
pub(crate) use application::Application;
pub use backoff::{
    Backoff, DEFAULT_FIRST_DELAY, DEFAULT_HEALTHY_AFTER, DEFAULT_MAX_DELAY, DEFAULT_QUARANTINE_AFTER,
    DEFAULT_QUARANTINE_DELAY, Policy, Verdict,
};
pub use client::target;
pub(crate) use client::{client_connector, wants_sign_in};
#[cfg(test)]
pub(crate) use client::{connection as in_memory, declaring};
pub use connector::{
    BoxFuture, ConnectProblem, Connection, Connector, Entrances, OnLog, OnNotification, Wish,
};
pub(crate) use declared::{Settings as Extensions, own_extensions};
pub use hospes_model::Era;
pub(crate) use launches::Launches;
pub(crate) use line::{Line, Server, Turn, listen};
pub use listing::{Kinds, Listing, MAX_ITEMS, MAX_PAGES, Problem};
pub(crate) use listing::{complete, decoded};
pub use memory::{Known, MAX_REMEMBERED, Memory, definition};
pub(crate) use phase::{Epoch, Live, Phase};
pub use process::{Process, guarded};
pub(crate) use seats::{Lease, TaskHold};
pub(crate) use server::Upstream;
pub(crate) use slot::Slot;
pub use status::{State, UpstreamStatus};
