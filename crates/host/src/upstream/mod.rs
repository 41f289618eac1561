//! The servers behind the host: started all at once, watched, and started again when they go away.
//!
//! Each server has a *primary* connection, which begins when the host does and is kept up for good. A server of the
//! older era learns once, when the connection opens, what its client can be asked for; such a server gets a further
//! connection for every other set of [`Abilities`] that an application comes with, opened when it is first needed
//! and closed when nobody has used it for a while. A server of the new era learns it with every request, and one
//! connection serves all.

mod abilities;
mod backoff;
mod client;
mod connector;
mod line;
mod listing;
mod memory;
mod server;
mod status;

pub use abilities::Abilities;
pub use backoff::{
    Backoff, DEFAULT_FIRST_DELAY, DEFAULT_HEALTHY_AFTER, DEFAULT_MAX_DELAY, DEFAULT_QUARANTINE_AFTER,
    DEFAULT_QUARANTINE_DELAY, Policy, Verdict,
};
pub(crate) use client::client_connector;
pub use client::target;
pub use connector::{BoxFuture, ConnectProblem, Connection, Connector, Wish};
pub(crate) use line::{Epoch, Line, Live, Phase, Server, listen};
pub use listing::{Kinds, Listing, MAX_ITEMS, MAX_PAGES};
pub(crate) use listing::{complete, decoded};
pub use memory::{MAX_REMEMBERED, Memory, definition};
pub(crate) use server::Upstream;
pub use status::{State, UpstreamStatus};
