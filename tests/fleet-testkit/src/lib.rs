//! Engines, faulty links and history checks for tests of several nodes.
//!
//! | Module | Content |
//! |---|---|
//! | `patroni_cluster` (Linux) | two PostgreSQL servers whose primary Patroni chooses, with etcd |
//! | `postgres_server` (Linux) | PostgreSQL of Debian's package: start, kill, pause |
//! | `redis_server` (Linux) | `redis-server` of Debian's package: start, kill, pause, promote |
//! | [`certificates`] | certificates for engines on loopback |
//! | [`net_proxy`] | a TCP proxy that delays, drops and cuts |
//! | [`history`] | histories of concurrent operations, and whether they are linearizable |
//!
//! Engines listen on free loopback ports and are ended by their process ids.

pub mod certificates;
pub mod history;
pub mod net_proxy;
#[cfg(target_os = "linux")]
pub mod patroni_cluster;
#[cfg(target_os = "linux")]
pub mod postgres_server;
#[cfg(target_os = "linux")]
pub mod redis_server;

use std::time::{Duration, Instant};

/// Time after which a condition that does not hold fails a test. It is no measure of speed: machines can be busy.
pub const CONDITION_LIMIT: Duration = Duration::from_secs(30);

/// Polls until the condition returns a value.
///
/// # Panics
/// If it does not within [`CONDITION_LIMIT`].
pub async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let (start, virtual_start) = (Instant::now(), tokio::time::Instant::now());
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        // A paused clock runs ahead while other things happen, so it gets more.
        let is_late = start.elapsed() >= CONDITION_LIMIT || virtual_start.elapsed() >= 10 * CONDITION_LIMIT;
        assert!(!is_late, "not within {CONDITION_LIMIT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
