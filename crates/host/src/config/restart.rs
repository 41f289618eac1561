//! Policy for starting servers again.

use std::time::Duration;

/// The first wait: the setting `restart_delay`.
pub const DEFAULT_FIRST_DELAY: Duration = Duration::from_millis(500);
/// The longest wait: the setting `restart_delay_max`.
pub const DEFAULT_MAX_DELAY: Duration = Duration::from_secs(60);
/// Default time a server has to stay up until its earlier failures are forgotten: the setting `healthy_after`.
pub const DEFAULT_HEALTHY_AFTER: Duration = Duration::from_secs(30);
/// After how many failures in a row a server counts as failed, and is tried only rarely: the setting
/// `quarantine_after`.
pub const DEFAULT_QUARANTINE_AFTER: u32 = 8;
/// Default delay between attempts for a server that counts as failed: the setting `quarantine_delay`.
pub const DEFAULT_QUARANTINE_DELAY: Duration = Duration::from_secs(300);

/// Delays between the attempts to start a server that went away: the settings of [`Backoff`](crate::upstream::Backoff).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackoffPolicy {
    /// The first wait; each further one is twice as long.
    pub first: Duration,
    /// The longest wait.
    pub max: Duration,
    /// Time a server has to stay up until its earlier failures are forgotten.
    pub healthy_after: Duration,
    /// After how many failures in a row a server counts as failed.
    pub quarantine_after: u32,
    /// Delay between attempts for a server that counts as failed.
    pub quarantine: Duration,
}

impl Default for BackoffPolicy {
    fn default() -> Self {
        Self {
            first: DEFAULT_FIRST_DELAY,
            max: DEFAULT_MAX_DELAY,
            healthy_after: DEFAULT_HEALTHY_AFTER,
            quarantine_after: DEFAULT_QUARANTINE_AFTER,
            quarantine: DEFAULT_QUARANTINE_DELAY,
        }
    }
}
