//! Tools for tests of MCP programs: both ends of a connection in memory, a clock that tests control, a peer that
//! follows a script, and a record of all messages.
//!
//! With the feature `transport` (on by default): one suite of behaviours for every [`transport`].
//!
//! Nothing else here sleeps, opens a socket or starts a thread. [`Pair`] joins the machines of `hospes-proto` by two byte
//! streams; [`Script`] stands in for a peer in tests of real transports, which feed it lines and send what it says.

mod clock;
mod end_client;
mod end_server;
mod pair;
mod record;
mod script;
#[cfg(feature = "transport")]
pub mod transport;
mod usage;

pub use clock::Clock;
pub use end_client::{ClientEnd, End};
pub use end_server::{Held, Manner, ServerEnd};
pub use pair::{Pair, Traffic};
pub use record::{Entry, Record, Side};
pub use script::{Script, ScriptError};
pub use usage::{Usage, resident};
