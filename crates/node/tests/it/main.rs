//! Nodes of a fleet in one process, over a real Redis.

#![expect(clippy::unwrap_used, reason = "tests may panic")]
// The harness runs servers as Debian has them.
#![cfg(target_os = "linux")]

mod claims;
mod cluster;
mod connections;
mod rate_limits;
mod sessions;
mod telemetry;
