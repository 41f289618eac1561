//! Tests of the public interface of the SDK: one binary, so that it is linked once.

mod blocking;
mod both_sides;
#[allow(clippy::unwrap_used, reason = "a test")]
mod client;
mod client_eras;
mod client_http;
mod client_npm;
mod client_peer;
mod client_service;
mod client_sse;
mod client_stdio;
mod macros;
mod module_order;
mod mounted;
mod process;
mod stray_output;
mod tasks;
