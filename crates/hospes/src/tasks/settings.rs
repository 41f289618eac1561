//! Lifetimes and limits of tasks.

use std::time::Duration;

/// Default lifetime of a task from its creation, unless its caller asks for another.
pub const DEFAULT_TTL: Duration = Duration::from_secs(60 * 60);
/// The longest that a task is kept, whatever its caller asks for, unless the settings say otherwise.
pub const DEFAULT_MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Default interval between two polls that callers are told.
pub const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Default maximum number of requests a second that one task answers. For tasks that do not exist, the maximum over all
/// of them.
pub const DEFAULT_MAX_REQUESTS_PER_SECOND: u32 = 100;

/// Lifetimes and limits of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskSettings {
    /// Lifetime of a task from its creation, unless its caller asks for another.
    pub ttl: Duration,
    /// The longest that a task is kept, whatever its caller asks for. Then it ends, even if it still runs.
    pub max_ttl: Duration,
    /// Interval between two polls that callers are told.
    pub poll_interval: Duration,
    /// Maximum number of requests a second that one task answers.
    pub max_requests_per_second: u32,
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            ttl: DEFAULT_TTL,
            max_ttl: DEFAULT_MAX_TTL,
            poll_interval: DEFAULT_POLL_INTERVAL,
            max_requests_per_second: DEFAULT_MAX_REQUESTS_PER_SECOND,
        }
    }
}

impl TaskSettings {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the lifetime of a task from its creation, unless its caller asks for another.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The longest that a task is kept, whatever its caller asks for.
    #[must_use]
    pub fn with_max_ttl(mut self, ttl: Duration) -> Self {
        self.max_ttl = ttl;
        self
    }

    /// Sets the interval between two polls that callers are told.
    #[must_use]
    pub fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }

    /// Sets the maximum number of requests a second that one task answers.
    #[must_use]
    pub fn with_max_requests_per_second(mut self, requests: u32) -> Self {
        self.max_requests_per_second = requests;
        self
    }
}
