//! The Model Context Protocol's rules, without I/O.
//!
//! Nothing here waits, opens a socket, reads a clock or draws a random number: time and randomness are arguments,
//! and bytes are handed in and out. Methods named `handle_*` report what happened, plain verbs are commands,
//! `poll_*` yields what to do next. The SDK (`hospes`) drives these machines with tokio.

pub mod era;
pub mod frame;
pub mod http;
mod number;
pub mod request_state;
mod revision_set;
pub mod session;

pub use revision_set::RevisionSet;
