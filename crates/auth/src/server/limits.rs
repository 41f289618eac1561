//! How often somebody may try.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How many parties are remembered: the limit `max_limited_parties`. At the cap those go who could try again anyway, and
/// if there are none, all.
const MAX_PARTIES: usize = 16 * 1024;

/// The cell-rate rule: `due` is when one who came evenly would come next. Later than `now` by more than a burst is too
/// often; the answer is then how long to wait.
pub(super) fn pace(due: &mut Instant, now: Instant, interval: Duration, burst: u32) -> Result<(), Duration> {
    let next = (*due).max(now) + interval;
    let ahead = next.saturating_duration_since(now);
    match ahead.checked_sub(interval * burst) {
        Some(wait) if !wait.is_zero() => Err(wait),
        _ => {
            *due = next;
            Ok(())
        }
    }
}

/// So many a minute for each party.
#[derive(Debug)]
pub(super) struct Limit<K> {
    per_minute: u32,
    due: Mutex<HashMap<K, Instant>>,
}

impl<K: Eq + Hash> Limit<K> {
    pub(super) fn per_minute(times: u32) -> Self {
        Self { per_minute: times.max(1), due: Mutex::default() }
    }

    /// Whether this party may try now.
    ///
    /// # Errors
    /// How long it has to wait.
    pub(super) fn check(&self, party: K) -> Result<(), Duration> {
        let now = Instant::now();
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        if due.len() >= MAX_PARTIES {
            due.retain(|_, due| *due > now);
            if due.len() >= MAX_PARTIES {
                due.clear();
            }
        }
        let interval = Duration::from_secs(60) / self.per_minute;
        pace(due.entry(party).or_insert(now), now, interval, self.per_minute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_tries_too_often_waits() {
        let limit = Limit::per_minute(10);
        for _ in 0..10 {
            assert_eq!(limit.check("ann"), Ok(()));
        }
        assert_eq!(limit.check("ann"), Err(Duration::from_secs(6)));
        assert_eq!(limit.check("bob"), Ok(()), "others do not");
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(limit.check("ann"), Ok(()));
        assert!(limit.check("ann").is_err());
        for party in 0..MAX_PARTIES {
            let _ = Limit::per_minute(1).check(party);
        }
    }
}
