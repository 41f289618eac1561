//! One duplex connection of a server: stdio, HTTP+SSE and memory use it.
//!
//! [`DuplexConnection`] is the JSON-RPC side of a connection; it does no I/O. [`StreamConnection`] drives it over a pair of
//! byte streams.

mod background;
mod connection;
mod duplex_connection;
mod limits;
mod outbox;
mod queue;

#[cfg(feature = "stdio")]
pub(super) use background::CallCounters;
pub(super) use connection::StreamConnection;
#[cfg(feature = "http")]
pub(super) use duplex_connection::DuplexConnection;
pub(in crate::transport) use limits::ConnectionLimits;
pub use limits::{
    DEFAULT_MAX_ANSWER_BYTES, DEFAULT_MAX_CONCURRENT_CALLS, DEFAULT_MAX_QUEUED_BYTES,
    DEFAULT_SHUTDOWN_TIMEOUT,
};
#[cfg(feature = "http")]
pub(super) use outbox::MAX_UNWRITTEN_BYTES;
