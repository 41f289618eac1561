//! Synchronization of the queue with the host's state.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;

use super::queue::{ApprovalQueue, ApprovalQueueInner};

/// Interval at which the last uses of lasting permissions are written.
const USAGE_FLUSH_INTERVAL: Duration = Duration::from_secs(10);

/// Synchronizes lasting decisions and approvals with the host's state, for as long as the approval queue exists.
pub(super) async fn sync_with_state(queue: Weak<ApprovalQueueInner>, mut changes: watch::Receiver<u64>) {
    let mut is_stale = false;
    let mut ticks = tokio::time::interval(USAGE_FLUSH_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    // Kept apart from the queue, so that waiting for it does not keep the queue alive. Without a fleet nobody wakes it.
    let wake = queue.upgrade().and_then(|inner| inner.node.as_ref().map(|node| Arc::clone(&node.sync)));
    let wake = wake.unwrap_or_default();
    loop {
        let changed = tokio::select! {
            changed = changes.changed() => changed.is_ok(),
            _ = ticks.tick() => false,
            () = wake.notified() => true,
        };
        // Held for one turn only, so that the queue can end between two of them.
        let Some(inner) = queue.upgrade() else { return };
        let Some(kept) = &inner.kept else { return };
        let used = inner.grants.take_used();
        if !used.is_empty()
            && let Err(error) = kept.record_uses(used).await
        {
            tracing::warn!(%error, "last use of permissions cannot be stored");
        }
        // It stays set after a failure, so that the next tick reads again.
        is_stale |= changed;
        let queue = ApprovalQueue(Arc::clone(&inner));
        queue.remove_finished().await;
        if is_stale {
            let turn = inner.turn.lock().await;
            match kept.all(queue.now()).await {
                Ok(all) => {
                    inner.grants.replace(all);
                    is_stale = false;
                }
                // Some may have been revoked meanwhile: until that is known the person is asked.
                Err(error) => {
                    inner.grants.suspend();
                    tracing::error!(%error, "lasting permissions cannot be read and are ignored until they can");
                }
            }
            drop(turn);
            // Who decides, and who takes, is found out where they are kept, whatever is shown meanwhile.
            if let Err(error) = queue.reload_persisted().await {
                is_stale = true;
                tracing::error!(%error, "pending approvals cannot be read");
            }
            inner.changes.send_modify(|count| *count += 1);
        }
    }
}
