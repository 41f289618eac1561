//! The time that authorization takes.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Time spent on obtaining authorization. It counts towards no limit: a person may have to find their password.
#[derive(Debug)]
pub(super) struct AuthorizationWait(watch::Sender<AuthorizationPauses>);

#[derive(Clone, Copy, Debug, Default)]
struct AuthorizationPauses {
    /// Number of authorizations in progress, and their start if there is one.
    now: u32,
    since: Option<Instant>,
    /// All earlier absences.
    before: Duration,
}

impl Default for AuthorizationWait {
    fn default() -> Self {
        Self(watch::Sender::new(AuthorizationPauses::default()))
    }
}

impl AuthorizationWait {
    /// Counts the time that `work` takes.
    pub(super) async fn measure<T>(&self, work: impl Future<Output = T>) -> T {
        // A guard, so that the pause also ends when the future is dropped.
        let _away = AuthorizationPause::new(self);
        work.await
    }

    /// In all.
    pub(super) fn total(&self) -> Duration {
        let absence = *self.0.borrow();
        absence.before + absence.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Waits for `work` until `by`, extended by the time spent on authorization meanwhile. None when it took too long.
    pub(super) async fn timeout_at<T>(
        &self,
        by: Instant,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let before = self.total();
        let mut back = self.0.subscribe();
        loop {
            let until = by + self.total().saturating_sub(before);
            if let Ok(done) = timeout_at(until, &mut work).await {
                return Some(done);
            }
            // Finished work counts even if it comes with the end
            // of the pause; a dropped `wait_for` loses nothing.
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                _ = back.wait_for(|absence| absence.now == 0) => {}
            }
            if by + self.total().saturating_sub(before) <= Instant::now() {
                return None;
            }
        }
    }

    /// Waits for `work` for `limit` from now, like `timeout_at`.
    pub(super) async fn timeout<T>(
        &self,
        limit: Duration,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        self.timeout_at(Instant::now() + limit, work).await
    }
}

struct AuthorizationPause<'a>(&'a AuthorizationWait);

impl<'a> AuthorizationPause<'a> {
    fn new(away: &'a AuthorizationWait) -> Self {
        away.0.send_modify(|absence| {
            absence.now += 1;
            absence.since.get_or_insert_with(Instant::now);
        });
        Self(away)
    }
}

impl Drop for AuthorizationPause<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|absence| {
            absence.now -= 1;
            if absence.now == 0
                && let Some(since) = absence.since.take()
            {
                absence.before += since.elapsed();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_absence_counts_towards_no_limit() {
        let away = AuthorizationWait::default();
        let minute = Duration::from_secs(60);
        let slow = away.timeout(minute, pin!(std::future::pending::<()>())).await;
        assert_eq!(slow, None);
        let work = async {
            away.measure(tokio::time::sleep(10 * minute)).await;
            tokio::time::sleep(minute / 2).await;
        };
        assert_eq!(away.timeout(minute, pin!(work)).await, Some(()));
        assert!(away.total() >= 10 * minute && away.total() < 11 * minute);
        let too_long = async {
            away.measure(tokio::time::sleep(10 * minute)).await;
            std::future::pending::<()>().await;
        };
        let began = Instant::now();
        assert_eq!(away.timeout(minute, pin!(too_long)).await, None);
        assert!(began.elapsed() >= 11 * minute && began.elapsed() < 12 * minute);
    }
}
