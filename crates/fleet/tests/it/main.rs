//! One contract for both engines, and the faults of a real one.

#![expect(clippy::unwrap_used, reason = "tests may panic")]
// The harness runs servers as Debian has them.
#![cfg(target_os = "linux")]

mod broken;
mod contract;
mod fixture;
mod linearizable;
mod memory;
mod model;
mod redis_contract;
mod redis_faults;
mod redis_recovery;
mod redis_security;
