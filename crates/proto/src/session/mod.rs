//! State machines for the two ends of a connection.
//!
//! They hold no message bytes: the driver decodes the envelope, passes it to the state machine, and performs the action
//! that it returns.

pub mod client;
mod inflight;
mod outstanding;
pub mod server;

pub use client::ClientSession;
pub use inflight::{InFlightRequests, RequestTicket};
pub use outstanding::{ElapsedLimit, ExpiredRequest, TimeLimits, TooManyRequests};
pub use server::ServerSession;
