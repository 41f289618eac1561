//! Limits on the time, the size and the retries of a request to a model.

use std::time::Duration;

/// Limits on one request to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelLimits {
    /// Opening a connection, TLS included (`connect_timeout`; 10 s).
    pub connect: Duration,
    /// From the request to the first byte of the answer's body (`first_byte_timeout`; 2 min: a local model may have to be
    /// loaded first).
    pub first_byte: Duration,
    /// The longest pause within an answer (`idle_timeout`; 1 min).
    pub idle: Duration,
    /// All of it, repetitions included (`timeout`; 5 min).
    pub whole: Duration,
    /// The bytes of an answer (`max_answer_bytes`; 16 MiB).
    pub max_answer_bytes: usize,
    /// Maximum number of retries (`retries`; 2) after 408, 429, 5xx or a lost connection. A request is sent again only
    /// if no byte of an answer has come.
    pub retries: u32,
    /// The wait before the first repetition, doubled for each further one (half a second). What the provider wants
    /// (`Retry-After`) goes before.
    pub backoff: Duration,
    /// The longest wait before a repetition (`max_retry_wait`; 30 s). A provider that wants a longer one is not asked
    /// again.
    pub max_wait: Duration,
}

impl Default for ModelLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            whole: Duration::from_secs(300),
            max_answer_bytes: 16 * 1024 * 1024,
            retries: 2,
            backoff: Duration::from_millis(500),
            max_wait: Duration::from_secs(30),
        }
    }
}
