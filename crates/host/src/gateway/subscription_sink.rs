//! Notification sink of a subscription stream: content and order of the notifications.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hospes::Context;
use hospes_model::{Notification, SubscriptionsAcknowledgedParams};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Notification sink of an application's stream. Nothing is sent before the acknowledgement (SUBS-03).
pub(super) struct SubscriptionSink<'c> {
    pub(super) context: &'c Context,
    state: Mutex<SubscriptionSinkState>,
    starts: Arc<PendingAcknowledgements>,
}

#[derive(Default)]
struct SubscriptionSinkState {
    /// True once the acknowledgement has been sent.
    acknowledged: bool,
    /// Notifications that wait for the acknowledgement.
    held_back: Vec<Notification>,
    /// Tasks whose changes are reported: those that servers agreed to report before the acknowledgement (TSKX-16).
    tasks: BTreeSet<String>,
    /// Shown URIs of the resources that servers declined to report.
    untold: BTreeSet<String>,
}

/// Number of servers that have not yet acknowledged their subscription.
#[derive(Default)]
struct PendingAcknowledgements {
    missing: AtomicUsize,
    changed: Notify,
}

impl<'c> SubscriptionSink<'c> {
    pub(super) fn new(context: &'c Context) -> Self {
        Self { context, state: Mutex::default(), starts: Arc::default() }
    }

    pub(super) fn notify(&self, notification: Notification) {
        let mut state = self.state.lock();
        if let Notification::TasksChanged(found) = &notification {
            let id = &found.task.task_id;
            if !state.tasks.contains(id) {
                return;
            }
            // How it stood before is of no interest any more.
            state
                .held_back
                .retain(|held| !matches!(held, Notification::TasksChanged(old) if old.task.task_id == *id));
        }
        if state.acknowledged {
            // Released first, so that nothing is sent while the lock is held.
            drop(state);
            self.context.notify(notification);
        } else if !state.held_back.contains(&notification) {
            state.held_back.push(notification);
        }
    }

    /// Records that a server reports these tasks. Tasks agreed after the acknowledgement are not reported.
    pub(super) fn agree(&self, tasks: impl Iterator<Item = String>) {
        let mut state = self.state.lock();
        if !state.acknowledged {
            state.tasks.extend(tasks);
        }
    }

    /// Records that a server does not report these resources, given by shown URI. Has no effect after the
    /// acknowledgement.
    pub(super) fn decline(&self, uris: impl Iterator<Item = String>) {
        let mut state = self.state.lock();
        if !state.acknowledged {
            state.untold.extend(uris);
        }
    }

    pub(super) fn is_declined(&self, uri: &str) -> bool {
        self.state.lock().untold.contains(uri)
    }

    pub(super) fn agreed_on(&self) -> Vec<String> {
        self.state.lock().tasks.iter().cloned().collect()
    }

    pub(super) fn acknowledge(&self, honoured: SubscriptionsAcknowledgedParams) {
        // Sent before the flag is set, so that nothing can come before it (SUBS-03).
        self.context.notify(Notification::SubscriptionsAcknowledged(honoured));
        let mut state = self.state.lock();
        state.acknowledged = true;
        let held_back = std::mem::take(&mut state.held_back);
        drop(state);
        held_back.into_iter().for_each(|notification| self.context.notify(notification));
    }

    pub(super) fn expect_acknowledgement(&self) -> PendingAcknowledgement {
        self.starts.missing.fetch_add(1, Ordering::AcqRel);
        PendingAcknowledgement(Arc::clone(&self.starts))
    }

    pub(super) async fn wait_for_acknowledgements(&self) {
        loop {
            // Registered before the count is read: the last one may start in between, and would wake nobody.
            let mut changed = std::pin::pin!(self.starts.changed.notified());
            changed.as_mut().enable();
            if self.starts.missing.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }
}

/// A server that has not agreed to or declined the subscription yet.
pub(super) struct PendingAcknowledgement(Arc<PendingAcknowledgements>);

impl Drop for PendingAcknowledgement {
    fn drop(&mut self) {
        // The count falls first, so that whoever is woken reads the new one.
        self.0.missing.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}
