//! Rules of the Model Context Protocol, without I/O.
//!
//! For people who write a transport of their own, and for tests that drive both ends without I/O.
//!
//! Nothing here waits, opens a socket, reads a clock or draws a random number: time, random bytes and received bytes
//! are arguments. Methods named `handle_*` process an event, plain verbs are commands, and `poll_*` returns the next
//! action. The SDK (`hospes`) drives these state machines with tokio.
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | [`frame`] | bytes to messages: lines for stdio, server-sent events for HTTP |
//! | [`http`] | Streamable HTTP before and after the handler: admission, era, headers |
//! | [`session`] | the two ends of a connection |
//! | [`era`] | detection of the revision of an unknown server |
//! | [`request_state`] | sealed state between two rounds of questions |
//! | [`sealing`] | authenticated encryption of bytes, for request state and shared stores |
//! | `revision_set` | [`RevisionSet`] |

pub mod era;
pub mod frame;
pub mod http;
mod number;
pub mod request_state;
mod revision_set;
pub mod sealing;
pub mod session;

pub use revision_set::RevisionSet;
