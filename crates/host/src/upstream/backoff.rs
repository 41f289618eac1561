//! Delays before a failed server is restarted.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use crate::config::BackoffPolicy;

/// Exponential backoff with jitter, so that servers that failed together are not restarted together. Only time in a
/// healthy state resets the count, not a connection that breaks immediately.
#[derive(Clone, Debug)]
pub struct Backoff {
    policy: BackoffPolicy,
    failures: u32,
    random: u64,
}

/// Reaction to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackoffDecision {
    /// Number of failures in a row.
    pub failures: u32,
    /// Delay before the next attempt.
    pub delay: Duration,
    /// True if the server counts as failed.
    pub quarantined: bool,
}

impl Backoff {
    /// Creates a backoff without failures.
    #[must_use]
    pub fn new(policy: BackoffPolicy) -> Self {
        // The keys of `RandomState` differ from process to process, which is all that jitter needs of randomness.
        Self::seeded(policy, RandomState::new().build_hasher().finish())
    }

    /// Creates a back-off with predictable jitter.
    #[must_use]
    pub fn seeded(policy: BackoffPolicy, seed: u64) -> Self {
        // The generator below never leaves zero.
        Self { policy, failures: 0, random: seed | 1 }
    }

    /// Records a failure: the server could not be started, or disconnected after being healthy for `up`.
    pub fn failed(&mut self, up: Option<Duration>) -> BackoffDecision {
        if up.is_some_and(|up| up >= self.policy.healthy_after) {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let quarantined = self.failures >= self.policy.quarantine_after;
        let base = if quarantined {
            self.policy.quarantine
        } else {
            // The shift fails from the 33rd failure on, if `quarantine_after` is set that high; `max` bounds it anyway.
            let doubled = 1_u32.checked_shl(self.failures - 1).unwrap_or(u32::MAX);
            self.policy.first.saturating_mul(doubled).min(self.policy.max)
        };
        // Between half and the whole of it.
        let delay = base.mul_f64(0.5 + self.fraction() / 2.0);
        BackoffDecision { failures: self.failures, delay, quarantined }
    }

    /// Returns a pseudorandom number between 0 and 1 (xorshift).
    fn fraction(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // The upper half always fits, so the other value is never used.
        f64::from(u32::try_from(self.random >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DEFAULT_HEALTHY_AFTER, DEFAULT_QUARANTINE_DELAY};

    fn delays(seed: u64, times: usize) -> Vec<BackoffDecision> {
        let mut backoff = Backoff::seeded(BackoffPolicy::default(), seed);
        std::iter::repeat_with(|| backoff.failed(None)).take(times).collect()
    }

    #[test]
    fn each_wait_is_about_twice_the_last_until_the_longest() {
        let policy = BackoffPolicy { quarantine_after: u32::MAX, ..BackoffPolicy::default() };
        let mut backoff = Backoff::seeded(policy, 7);
        for failure in 0..40 {
            let nominal = policy.first.saturating_mul(1 << failure.min(20)).min(policy.max);
            let delay = backoff.failed(None).delay;
            assert!(delay >= nominal / 2 && delay <= nominal, "{failure}: {delay:?} of {nominal:?}");
        }
    }

    #[test]
    fn servers_that_went_together_do_not_come_back_together() {
        assert_ne!(delays(1, 3), delays(2, 3));
        assert_eq!(delays(3, 3), delays(3, 3));
    }

    #[test]
    fn only_time_in_health_is_forgiveness() {
        let mut backoff = Backoff::seeded(BackoffPolicy::default(), 7);
        backoff.failed(None);
        backoff.failed(None);
        let short = DEFAULT_HEALTHY_AFTER - Duration::from_millis(1);
        assert_eq!(backoff.failed(Some(short)).failures, 3);
        assert_eq!(backoff.failed(Some(DEFAULT_HEALTHY_AFTER)).failures, 1);
    }

    #[test]
    fn a_server_that_keeps_failing_is_left_alone_for_long() {
        let last = delays(7, 8).pop().unwrap();
        assert!(last.quarantined);
        assert!(last.delay >= DEFAULT_QUARANTINE_DELAY / 2);
        assert!(!delays(7, 7)[6].quarantined);
    }
}
