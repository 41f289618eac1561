//! Rules of the Model Context Protocol, without I/O.
//!
//! Nothing here waits, opens a socket, reads a clock or draws a random number: time, random bytes and received bytes
//! are arguments. Methods named `handle_*` process an event, plain verbs are commands, and `poll_*` returns the next
//! action. The SDK (`hospes`) drives these state machines with tokio.

pub mod era;
pub mod frame;
pub mod http;
mod number;
pub mod request_state;
mod revision_set;
pub mod session;

pub use revision_set::RevisionSet;
