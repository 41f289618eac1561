//! Rate limits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Rate limit: a number of events per period, and a number allowed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Rate {
    /// Between two, on the long run.
    interval: Duration,
    burst: u32,
}

impl Rate {
    /// Creates a limit of `times` events per second, with as many at once.
    ///
    /// # Panics
    /// When it is zero.
    #[track_caller]
    pub const fn per_second(times: u32) -> Self {
        Self::per(times, Duration::from_secs(1))
    }

    /// Creates a limit of `times` events per minute, with as many at once.
    ///
    /// # Panics
    /// When it is zero.
    #[track_caller]
    pub const fn per_minute(times: u32) -> Self {
        Self::per(times, Duration::from_secs(60))
    }

    #[track_caller]
    const fn per(times: u32, time: Duration) -> Self {
        assert!(times > 0, "a rate of zero would refuse everything");
        Self { interval: time.checked_div(times).expect("it is not zero"), burst: times }
    }

    /// Sets the number of events allowed at once after an idle time.
    ///
    /// # Panics
    /// When it is zero.
    #[track_caller]
    pub const fn burst(mut self, times: u32) -> Self {
        assert!(times > 0, "a burst of zero would refuse everything");
        self.burst = times;
        self
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let per_second = 1.0 / self.interval.as_secs_f64();
        if per_second >= 1.0 {
            write!(f, "{per_second:.0} a second")
        } else {
            write!(f, "{:.0} a minute", per_second * 60.0)
        }
    }
}

/// State of one rate limiter in a single number: the time at which the next event is due if all were spread evenly (the
/// generic cell rate algorithm).
#[derive(Debug)]
pub(crate) struct RateBucket {
    start: Instant,
    /// Nanoseconds after `start`.
    due: AtomicU64,
}

impl RateBucket {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), due: AtomicU64::new(0) }
    }

    /// Counts one more, or says how long it has to wait.
    pub(crate) fn take(&self, rate: Rate) -> Result<(), Duration> {
        let interval = nanos(rate.interval);
        // The first of a burst is due now, so that only the others may be ahead of their time.
        let ahead = interval.saturating_mul(u64::from(rate.burst - 1));
        let now = nanos(self.start.elapsed());
        let next = |due: u64| {
            let due = due.max(now);
            (due - now <= ahead).then(|| due.saturating_add(interval))
        };
        // `Relaxed`: this number is the whole state, and no other memory depends on it.
        match self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(()),
            Err(due) => Err(Duration::from_nanos(due - now - ahead)),
        }
    }

    /// Returns true if all events are old enough to be forgotten.
    #[cfg(feature = "server")]
    pub(crate) fn is_idle(&self) -> bool {
        self.due.load(Ordering::Relaxed) <= nanos(self.start.elapsed())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_let_through_and_then_the_rate() {
        let (bucket, rate) = (RateBucket::new(), Rate::per_second(10).burst(3));
        for _ in 0..3 {
            assert_eq!(bucket.take(rate), Ok(()));
        }
        assert_eq!(bucket.take(rate), Err(Duration::from_millis(100)));
        tokio::time::advance(Duration::from_millis(40)).await;
        assert_eq!(bucket.take(rate), Err(Duration::from_millis(60)));
        tokio::time::advance(Duration::from_millis(60)).await;
        assert_eq!(bucket.take(rate), Ok(()));
        assert!(bucket.take(rate).is_err());
        // After a rest the whole burst is there again, and no more than that.
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!((0..10).filter(|_| bucket.take(rate).is_ok()).count(), 3);
    }

    #[test]
    fn a_rate_is_told_in_words() {
        assert_eq!(Rate::per_second(20).to_string(), "20 a second");
        assert_eq!(Rate::per_minute(5).to_string(), "5 a minute");
    }
}
