//! The two ends of a connection.
//!
//! The machines are cheap per message and hold no bytes: the driver reads the envelope, asks the machine, and does what
//! it says.

pub mod client;
mod inflight;
mod outstanding;
pub mod server;

pub use client::ClientSession;
pub use inflight::{InFlightRequests, RequestTicket};
pub use outstanding::{ElapsedLimit, ExpiredRequest, TimeLimits, TooManyRequests};
pub use server::ServerSession;
