//! Transports that the SDK does not bring, each in a page: a Unix-domain socket, and WebSocket.
//!
//! Both pass the transport suite of `hospes-testkit` (`tests/transports.rs`), so both speak every revision of the
//! protocol. Each says how a connection is set up and how messages travel, as a transport of one's own should.

#[cfg(unix)]
pub mod unix;
pub mod websocket;

/// Maximum number of clients that are served at once; further ones wait to be accepted.
pub const MAX_CONNECTIONS: usize = 256;

/// Prints a line, which is what the programs are for.
#[expect(clippy::print_stdout, reason = "what the programs are for")]
pub fn say(text: &str) {
    println!("{text}");
}
