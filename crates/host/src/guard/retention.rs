//! Retention of the audit log: entries are deleted when they reach their maximum age.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use hospes_store::AuditReader;
use jiff::{SignedDuration, Timestamp};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::enforcer::PolicyEnforcer;

/// Interval at which entries that are too old are deleted.
const RETENTION_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

impl PolicyEnforcer {
    /// Deletes entries older than `kept_for` now and once a day, for as long as the guard lives. The deletion and the
    /// new beginning of the log are sealed. Must be called within a runtime.
    pub fn spawn_retention(self: &Arc<Self>, kept_for: Duration) -> JoinHandle<()> {
        // The task must not keep the guard alive, as it would run for ever then.
        let guard = Arc::downgrade(self);
        tokio::spawn(daily(move || {
            let guard = guard.upgrade();
            async move {
                let Some(guard) = guard else { return ControlFlow::Break(()) };
                guard.forget(kept_for).await;
                ControlFlow::Continue(())
            }
        }))
    }

    async fn forget(&self, kept_for: Duration) {
        let Some(audit) = &self.audit else { return };
        // What is too long to be expressed means that nothing is ever too old.
        let before = SignedDuration::try_from(kept_for).unwrap_or(SignedDuration::MAX);
        let before = Timestamp::now().saturating_sub(before).unwrap_or(Timestamp::MIN);
        let shared = self.shared_audit.clone();
        for log in std::iter::once(AuditReader::from(audit.clone())).chain(shared) {
            match log.delete_before(before).await {
                Ok(0) => {}
                Ok(entries) => {
                    tracing::info!(entries, ?log, "audit entries past the retention period deleted")
                }
                Err(error) => {
                    tracing::error!(%error, ?log, "cannot delete audit entries past the retention period")
                }
            }
        }
    }
}

/// Does it now and once a day.
async fn daily<F: Future<Output = ControlFlow<()>>>(mut work: impl FnMut() -> F) {
    let mut days = interval(RETENTION_INTERVAL);
    // Days that the machine slept through are not made up for.
    days.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        days.tick().await;
        if work().await.is_break() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, AuditQuery};

    use super::*;

    const DAY: i64 = 24 * 60 * 60 * 1_000_000;

    async fn record(audit: &AuditLog, days_ago: i64) {
        let mut entry = AuditEntry::new(AuditEntryKind::Call);
        entry.at -= days_ago * DAY;
        audit.record(entry).await.unwrap();
    }

    async fn left(audit: &AuditLog) -> Vec<u64> {
        let found = audit.search(AuditQuery::new()).await.unwrap();
        found.iter().rev().map(|one| one.seq).collect()
    }

    #[tokio::test]
    async fn what_is_too_old_is_forgotten_and_the_rest_holds_together() {
        let folder = tempfile::tempdir().unwrap();
        let audit = AuditLog::open(folder.path().join("db"), folder.path().join("key")).unwrap();
        for days_ago in [40, 31, 29, 0] {
            record(&audit, days_ago).await;
        }
        let guard = PolicyEnforcer::new(None).with_audit(audit.clone());
        guard.forget(30 * RETENTION_INTERVAL).await;
        assert_eq!(left(&audit).await, [3, 4]);
        guard.forget(30 * RETENTION_INTERVAL).await;
        guard.forget(Duration::MAX).await;
        let verified = audit.verify(None).await.unwrap();
        assert_eq!((verified.entries, verified.cut), (2, 2));
        record(&audit, 0).await;
        assert_eq!(left(&audit).await, [3, 4, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_looked_at_once_and_each_day_until_the_guard_is_gone() {
        let (guard, begun) = (Arc::new(PolicyEnforcer::new(None)), tokio::time::Instant::now());
        let (weak, mut looks) = (Arc::downgrade(&guard), Vec::new());
        let mut guard = Some(guard);
        daily(|| {
            looks.push(begun.elapsed());
            if looks.len() == 3 {
                guard = None;
            }
            let goes_on = weak.upgrade().is_some();
            async move { if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) } }
        })
        .await;
        assert_eq!(looks, [Duration::ZERO, RETENTION_INTERVAL, 2 * RETENTION_INTERVAL]);
    }
}
