//! Limits on the time, the size and the retries of a request to a model.

use std::time::Duration;

/// Limits on one request to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelLimits {
    /// Time to open a connection, including TLS (`connect_timeout`; 10 s).
    pub connect: Duration,
    /// Time from the request to the first byte of the body (`first_byte_timeout`; 2 min, because a local model may have
    /// to be loaded first).
    pub first_byte: Duration,
    /// Maximum pause within an answer (`idle_timeout`; 1 min).
    pub idle: Duration,
    /// Total time, including retries (`timeout`; 5 min).
    pub whole: Duration,
    /// Maximum size of an answer, in bytes (`max_answer_bytes`; 16 MiB).
    pub max_answer_bytes: usize,
    /// Maximum number of retries (`retries`; 2) after 408, 429, 5xx or a lost connection. A request is retried only if
    /// no byte of an answer has been received.
    pub retries: u32,
    /// Delay before the first retry, doubled for each further one (half a second). A delay requested by the provider
    /// (`Retry-After`) takes precedence.
    pub backoff: Duration,
    /// Maximum delay before a retry (`max_retry_wait`; 30 s). If a provider requests a longer one, there is no retry.
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
