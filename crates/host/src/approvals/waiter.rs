//! Handle with which a requester waits for a decision.

use std::borrow::Cow;

use tokio::time::{Instant, timeout_at};

use super::approval::ApprovalState;
use super::decision::ApprovalOutcome;
use super::queue::ApprovalQueue;
use super::queue_error::ApprovalQueueError;
use super::queued_approval::{ApprovalHolding, BindingDigest, PersistenceState};

/// A pending approval whose requester waits. Dropping it withdraws the approval, unless it is persisted.
pub(crate) struct ApprovalWaiter {
    pub(super) queue: ApprovalQueue,
    pub(super) id: String,
    pub(super) bond: BindingDigest,
    /// True if the approval stays in the queue after the waiter is dropped.
    pub(super) detached: bool,
}

impl ApprovalWaiter {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Describes what the requester waits for.
    pub(crate) fn describe_wait(&self) -> Cow<'static, str> {
        let state = self.queue.state();
        let approvers = state.entries.get(&self.id).and_then(|entry| entry.approval.approvers.as_ref());
        match approvers {
            Some(approvers) => format!("waiting for the approval of a member of {approvers}").into(),
            None => "waiting for the person's approval".into(),
        }
    }

    /// Detaches the approval from this waiter. It stays in the queue, and the asker can come back for it while the host
    /// runs.
    #[cfg(test)]
    pub(crate) fn detach(mut self) -> String {
        self.detached = true;
        self.id.clone()
    }

    /// Detaches the approval. It stays in the queue, and the asker can come back for it while the host runs. If its
    /// requester returns and the approval queue has a state, it is persisted, so that it survives a restart; in a fleet
    /// it is shared with the other nodes. When this returns, the approval is stored and shown.
    ///
    /// # Errors
    /// [`ApprovalQueueError::Store`] when it cannot be kept; then it is withdrawn.
    pub(crate) async fn persist(mut self) -> Result<String, ApprovalQueueError> {
        self.queue.keep(&self.id).await?;
        self.detached = true;
        Ok(self.id.clone())
    }

    /// Waits for the decision, and uses it up.
    pub(crate) async fn wait_settled(&self) -> Result<ApprovalOutcome, ApprovalQueueError> {
        // In a fleet, so that all nodes show it. Otherwise nothing is written.
        self.queue.keep(&self.id).await?;
        let mut changes = self.queue.subscribe();
        loop {
            // Before looking: a decision that comes in between wakes the wait below.
            changes.mark_unchanged();
            // The lock ends with the block, because redeeming takes it as well.
            let until = {
                let state = self.queue.state();
                state.entries.get(&self.id).map_or_else(Instant::now, |entry| entry.until)
            };
            if let Some(settled) = self.queue.redeem_quietly(&self.id, &self.bond).await? {
                return Ok(settled);
            }
            // Too late is found out by looking again.
            let _ = timeout_at(until, changes.changed()).await;
        }
    }
}

impl ApprovalQueue {
    async fn redeem_quietly(
        &self,
        id: &str,
        bond: &BindingDigest,
    ) -> Result<Option<ApprovalOutcome>, ApprovalQueueError> {
        let is_open = {
            let state = self.state();
            let entry = state.entries.get(id);
            entry.is_some_and(|entry| entry.is_open() && entry.until > Instant::now() && entry.bond == *bond)
        };
        // Looking is no change, or everybody who waits would wake everybody else.
        if is_open { Ok(None) } else { self.redeem(id, bond, None).await }
    }
}

impl Drop for ApprovalWaiter {
    fn drop(&mut self) {
        if self.detached {
            return;
        }
        let mut state = self.queue.state();
        // One that is kept is not theirs alone who wait here at the moment: their state is good for another try.
        let is_own = state.entries.get(&self.id).is_some_and(|entry| match entry.keeping {
            PersistenceState::No | PersistenceState::Writing => true,
            PersistenceState::Yes => entry.holding == ApprovalHolding::Here,
            PersistenceState::Taking => false,
        });
        if is_own {
            let withdrawn = self.queue.finish(&mut state, &self.id, ApprovalState::Withdrawn);
            drop(state);
            if let Some(approval) = withdrawn {
                self.queue.record_withdrawn(&approval, "the requester, which disconnected");
            }
            self.queue.notify_changed();
        }
    }
}
