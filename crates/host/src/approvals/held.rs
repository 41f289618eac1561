//! Approvals of calls that wait at a node of a fleet.
//!
//! The node at which a call waits is the holder of its approval. The approval is stored like those whose requesters come
//! back, so each node shows and decides it. The holder sees the decision and uses it. If the holder ends, another node
//! withdraws the approval. If it was allowed by then, the same call can use the decision at any node.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hospes_store::StoreError;
use hospes_store::approvals::{ApprovalHolder, ApprovalRecords};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use super::approval::{Approval, ApprovalState};
use super::approval_nodes::ApprovalNodes;
use super::decision::{ApprovalDecision, ApprovalOutcome};
use super::persistence::read_decision;
use super::queue::{ApprovalQueue, ApprovalQueueInner, ApprovalQueueState};
use super::queued_approval::{ApprovalHolding, BindingDigest, PersistenceState, QueuedApproval, generate_id};
use super::submit::NewApproval;

/// Interval at which it is looked whether other nodes have ended, and whether this one has a new id.
const NODE_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Number of those checks after which approvals that ended are removed from the state.
const CHECKS_PER_REMOVAL: u32 = 120;

/// This process as a node of a fleet.
pub(super) struct HoldingNode {
    pub(super) nodes: Arc<dyn ApprovalNodes>,
    /// Ids under which this process has held approvals. The last is the present one.
    ids: Mutex<Vec<String>>,
    /// Wakes the synchronization with the state before its next turn.
    pub(super) sync: Arc<Notify>,
}

impl HoldingNode {
    pub(super) fn new(nodes: Arc<dyn ApprovalNodes>) -> Self {
        Self { nodes, ids: Mutex::default(), sync: Arc::new(Notify::new()) }
    }

    /// Returns the present id. Without one, that of before.
    fn id(&self) -> Option<String> {
        let mut ids = self.ids.lock();
        if let Some(id) = self.nodes.node()
            && ids.last() != Some(&id)
        {
            ids.retain(|former| *former != id);
            ids.push(id);
        }
        ids.last().cloned()
    }

    /// Returns the ids before the present one under which approvals may still be held.
    fn former_ids(&self) -> Vec<String> {
        let ids = self.ids.lock();
        ids.split_last().map(|(_, former)| former.to_vec()).unwrap_or_default()
    }
}

impl ApprovalQueue {
    /// Returns true if approvals of calls that wait here are shared with the other nodes of a fleet.
    pub(super) fn holds_for_fleet(&self) -> bool {
        self.0.approvals.is_some() && self.0.node.as_ref().is_some_and(|node| node.id().is_some())
    }

    /// Stores an approval whose call waits at this node.
    pub(super) async fn insert_held(
        &self,
        approvals: &ApprovalRecords,
        (id, text): (String, String),
        (until, bond): (Timestamp, BindingDigest),
    ) -> Result<(), StoreError> {
        let node = self.0.node.as_ref().and_then(HoldingNode::id).unwrap_or_default();
        let (queue, approvals) = (self.clone(), approvals.clone());
        let inserting = async move {
            approvals.insert_held(id.clone(), text, until, ApprovalHolder::new(node, bond)).await?;
            // Whoever waits may have gone away meanwhile, and the removal may have come before the row.
            let is_here = |entry: &QueuedApproval| entry.holding == ApprovalHolding::Here;
            if !queue.state().entries.get(&id).is_some_and(is_here) {
                approvals.remove(vec![id], queue.now()).await?;
            }
            Ok(())
        };
        // Once begun it is done, even if the call is dropped.
        tokio::spawn(inserting).await.unwrap_or_else(|_| Err(StoreError::Closed))
    }

    /// Uses the decision about the same call at a node that has ended. Returns the id of its approval and the decision.
    /// `approval` is that of the call, which has the same people to decide as that of the node.
    pub(crate) async fn redeem_orphaned(&self, approval: &NewApproval) -> Option<(String, ApprovalOutcome)> {
        let bond = &approval.bond;
        let approvals = self.0.approvals.as_ref().filter(|_| self.0.node.is_some())?;
        let same =
            |entry: &QueuedApproval| entry.holding == ApprovalHolding::Elsewhere && entry.bond == *bond;
        // Without such an approval the state is not asked. A decision may be there that is not known here yet.
        while self.state().entries.values().any(same) {
            let used = async {
                self.withdraw_ended().await?;
                let attempt = generate_id().map_err(|_| StoreError::Closed)?;
                approvals.use_orphaned(*bond, attempt, self.now()).await
            };
            let (id, decided) = match used.await {
                Ok(used) => used?,
                Err(error) => {
                    tracing::warn!(%error, "approvals of nodes that have ended cannot be read; the person is asked again");
                    return None;
                }
            };
            let decided = decided.as_deref().and_then(read_decision);
            let mut state = self.state();
            if let Some(entry) = state.entries.get_mut(&id) {
                if let (true, Some(decided)) = (entry.is_open(), &decided) {
                    entry.settle(decided.clone());
                }
                entry.keeping = PersistenceState::No;
                self.finish(&mut state, &id, ApprovalState::Withdrawn);
            }
            drop(state);
            self.notify_changed();
            // What was denied is asked again: the application has not heard of the denial.
            let outcome = decided
                .map(|decided| decided.outcome(approval.approvers.as_ref(), approval.principal.as_deref()));
            if let Some(outcome @ ApprovalOutcome::Allowed { .. }) = outcome {
                return Some((id, outcome));
            }
        }
        None
    }

    /// Withdraws the approvals that nodes hold which have ended. Decided ones can be used by the same call from then on.
    /// When this returns, those nodes cannot use them. Without a fleet it does nothing.
    ///
    /// # Errors
    /// If the state cannot be read or written, or if it cannot be known which nodes have ended.
    pub async fn withdraw_ended(&self) -> Result<(), StoreError> {
        let (Some(approvals), Some(node)) = (&self.0.approvals, &self.0.node) else { return Ok(()) };
        let mut holders = approvals.holders(self.now()).await?;
        let present = node.id();
        let former = node.former_ids();
        holders.retain(|holder| Some(holder) != present.as_ref() && !former.contains(holder));
        if holders.is_empty() {
            return Ok(());
        }
        let ended = match node.nodes.ended(holders).await {
            Ok(ended) => ended,
            Err(error) => {
                tracing::debug!(%error, "it is not known which nodes have ended");
                return Ok(());
            }
        };
        for ended in ended {
            let withdrawn = approvals.withdraw_held(ended, self.now()).await?;
            for approval in self.end_withdrawn(&withdrawn) {
                self.record_withdrawn(&approval, "the host, because the node that held the call has ended");
            }
        }
        Ok(())
    }

    /// Ends approvals that were withdrawn because their node has ended.
    fn end_withdrawn(&self, ids: &[String]) -> Vec<Approval> {
        let mut state = self.state();
        let ended = ids.iter().filter_map(|id| self.finish_withdrawn(&mut state, id)).collect();
        drop(state);
        self.notify_changed();
        ended
    }

    /// Ends an approval that was withdrawn because its node has ended.
    pub(super) fn finish_withdrawn(&self, state: &mut ApprovalQueueState, id: &str) -> Option<Approval> {
        let entry = state.entries.get_mut(id)?;
        entry.keeping = PersistenceState::No;
        entry.approval.node_ended = true;
        self.finish(state, id, ApprovalState::Withdrawn)
    }

    /// Gives the approvals that were held under former ids of this node to its present one.
    async fn rehold(&self) -> Result<(), StoreError> {
        let (Some(approvals), Some(node)) = (&self.0.approvals, &self.0.node) else { return Ok(()) };
        let Some(present) = node.id() else { return Ok(()) };
        for former in node.former_ids() {
            approvals.rehold(former.clone(), present.clone()).await?;
            node.ids.lock().retain(|id| *id != former);
        }
        Ok(())
    }

    async fn check_nodes(&self) -> Result<(), StoreError> {
        self.rehold().await?;
        let is_elsewhere = |entry: &QueuedApproval| entry.holding == ApprovalHolding::Elsewhere;
        if self.state().entries.values().any(is_elsewhere) {
            self.withdraw_ended().await?;
        }
        Ok(())
    }
}

impl QueuedApproval {
    /// Changes an approval so that it can be decided at another node than its holder. What a decision for the session of
    /// the call needs is only there.
    pub(super) fn hold_elsewhere(&mut self) {
        self.holding = ApprovalHolding::Elsewhere;
        (self.approval.offers.session, self.approval.offers.values) = (false, false);
        (self.approval.session, self.session) = (None, None);
    }

    /// Checks the edit of a decision that was made at another node, which may not have been able to. An edit that cannot
    /// be used counts as a denial.
    pub(super) fn settled_by_holder(&self) -> Option<ApprovalOutcome> {
        let settled = self.settled()?;
        let Some(decided) = self.approval.decided.as_ref() else { return Some(settled) };
        let (ApprovalDecision::Allow { edited: Some(edited), .. }, Some(check)) =
            (&decided.decision, &self.check)
        else {
            return Some(settled);
        };
        Some(match check(edited) {
            Ok(()) => settled,
            Err(why) => ApprovalOutcome::Denied {
                reason: Some(format!("the edit cannot be used: {why}")),
                by: decided.by.clone(),
                basis: decided.basis,
            },
        })
    }
}

/// Returns true if the call of an approval waits at this process.
pub(super) fn is_held_here(entry: &QueuedApproval) -> bool {
    entry.keeping == PersistenceState::No || entry.holding == ApprovalHolding::Here
}

/// Looks after the approvals of nodes that have ended, for as long as the approval queue exists.
pub(super) async fn follow_nodes(queue: Weak<ApprovalQueueInner>) {
    let mut ticks = interval(NODE_CHECK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut checks = 0_u32;
    loop {
        ticks.tick().await;
        // Held for one turn only, so that the queue can end between two of them.
        let Some(inner) = queue.upgrade() else { return };
        let queue = ApprovalQueue(inner);
        if let Err(error) = queue.check_nodes().await {
            tracing::warn!(%error, "approvals of nodes that have ended cannot be withdrawn yet");
        }
        checks = checks.wrapping_add(1);
        if checks.is_multiple_of(CHECKS_PER_REMOVAL)
            && let Some(approvals) = &queue.0.approvals
            && let Err(error) = approvals.remove(Vec::new(), queue.now()).await
        {
            tracing::warn!(%error, "approvals that have ended cannot be removed yet");
        }
    }
}
