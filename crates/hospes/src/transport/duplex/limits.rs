//! Limits of a duplex connection.

use std::time::Duration;

/// Default maximum number of concurrent calls of one client: the setting `max_concurrent_calls`.
pub const DEFAULT_MAX_CONCURRENT_CALLS: usize = 1024;
/// Default maximum size of queued requests, in bytes: the setting `max_queued_bytes`.
pub const DEFAULT_MAX_QUEUED_BYTES: usize = 16 * 1024 * 1024;
/// The longest answer that is written unless told otherwise: the setting `max_answer_bytes`. The official
/// TypeScript clients end the session at a line of more than 10 MiB.
pub const DEFAULT_MAX_ANSWER_BYTES: usize = 10 * 1024 * 1024 - 64 * 1024;
/// Default time that calls have to finish after the client has closed its side: the setting `shutdown_timeout`.
pub const DEFAULT_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(in crate::transport) struct ConnectionLimits {
    pub(in crate::transport) message_bytes: usize,
    pub(in crate::transport) concurrent_calls: usize,
    pub(in crate::transport) queued_bytes: usize,
    pub(in crate::transport) shutdown: Duration,
}
