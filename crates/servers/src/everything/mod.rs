//! A server with everything in it: one tool, resource or prompt for each thing the protocol can do.
//!
//! It is the fixture of the official conformance suite, whose names and texts it therefore has, and something to try
//! a client on.

mod basic_tools;
mod contents;
mod elicitation;
mod list_changes;
mod tasks;
#[cfg(test)]
mod tests;

use hospes::Server;

/// A picture: one red pixel.
const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, // signature
    0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53,
    0xde, // 1 × 1, RGB
    0, 0, 0, 12, b'I', b'D', b'A', b'T', 0x78, 0xda, 0x63, 0xf8, 0xcf, 0xc0, 0, 0, 3, 1, 1, 0, 0xf7, 0x03,
    0x41, 0x43, // one row
    0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// A sound: four samples of silence, 8 kHz, mono, 16 bits.
const WAV: &[u8] = &[
    b'R', b'I', b'F', b'F', 44, 0, 0, 0, b'W', b'A', b'V', b'E', // container
    b'f', b'm', b't', b' ', 16, 0, 0, 0, 1, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16,
    0, // format
    b'd', b'a', b't', b'a', 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // samples
];

/// The server with everything in it.
///
/// What is first in each list needs no arguments and no capability, so that a client which calls "the first tool there
/// is" finds one that works.
pub fn everything() -> Server {
    Server::new("everything", env!("CARGO_PKG_VERSION"))
        .title("Everything")
        .description("One of each thing a server can offer, for testing clients.")
        .instructions("A server for tests: call the tools whose behavior you want to see.")
        .add(basic_tools::server())
        .add(elicitation::ElicitationTools)
        .add(list_changes::ListChangeTools)
        .add(contents::StaticContents)
        .add(tasks::TaskExampleTools)
}
