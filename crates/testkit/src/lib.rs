//! Tools for tests of MCP programs: both ends of a connection in memory, a clock that tests control, a peer that
//! follows a script, and a record of all messages.
//!
//! For tests of servers, clients and transports, of this repository and of others.
//!
//! The feature `transport` (on by default) adds a suite of behaviours that every [`transport`] must have.
//!
//! Nothing else here sleeps, opens a socket or starts a thread. [`MemoryPair`] connects the state machines of
//! `hospes-proto` by two byte streams. [`PeerScript`] replaces a peer in tests of real transports, which feed it the
//! received lines and send the lines it returns.
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `pair`, `client_end`, `server_end` | [`MemoryPair`] and its ends |
//! | `clock` | [`ManualClock`] |
//! | `script`, `record` | a peer that follows a script; a record of what was said |
//! | `transport` | one suite of behaviours for every transport (feature `transport`) |
//! | `usage` | memory and threads of this process, for leak tests |

mod client_end;
mod clock;
mod pair;
mod record;
mod script;
mod server_end;
#[cfg(feature = "transport")]
pub mod transport;
mod usage;

pub use client_end::{ClientCallEnd, ClientEnd};
pub use clock::ManualClock;
pub use pair::{MemoryPair, PairTraffic};
pub use record::{MessageRecord, PairSide, RecordedMessage};
pub use script::{PeerScript, ScriptError};
pub use server_end::{HeldCall, ServerEnd, UnknownMethodManner};
pub use usage::{ProcessUsage, resident};
