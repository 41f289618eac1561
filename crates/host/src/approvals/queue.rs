//! The queue of approvals, and the decisions about them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, OnceLock};

use hospes::Peer;
use hospes::transport::{StateKey, StateKeyRing};
use hospes_policy::visible_line;
use hospes_store::approvals::ApprovalRecords;
use hospes_store::grants::GrantRecords;
use hospes_store::{AuditEntry, AuditLog, DecisionBasis, StateClock, StateStore, StoreError};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

use super::approval::{Approval, ApprovalState};
use super::approval_nodes::ApprovalNodes;
use super::decision::{ApprovalDecision, DecideError, DecisionRecord};
use super::decision_records::{decision_entry, revocation_entry};
use super::grant::{ApprovalGrant, GrantEffect};
use super::grants::{GrantQuery, GrantTable};
use super::held::{HoldingNode, follow_nodes, is_held_here};
use super::limits::ApprovalLimits;
use super::persistence::stored_grant;
use super::queued_approval::{
    ApprovalHolding, BindingDigest, PersistenceState, QueuedApproval, StoredEditCheck,
};
use super::state_sync::sync_with_state;
use crate::deciders::DecisionAuthor;
use crate::metrics::HostMetrics;

/// Maximum number of finished approvals that can still be read.
const MAX_FINISHED: usize = 256;

/// Maximum size of all finished approvals, in bytes.
pub(super) const MAX_FINISHED_BYTES: usize = 16 * 1024 * 1024;

/// Source of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecisionReport {
    /// Whoever decides: what is not offered is an error.
    Direct,
    /// An application, for its person. What is not offered is left out, and what lasts is weak.
    ByApplication,
}

/// Queue of approvals. Cheap to clone; all clones share one queue.
#[derive(Clone, Default)]
pub struct ApprovalQueue(pub(super) Arc<ApprovalQueueInner>);

#[derive(Default)]
pub(super) struct ApprovalQueueInner {
    pub(super) state: Mutex<ApprovalQueueState>,
    pub(super) grants: GrantTable,
    /// Clock of the state, so that nodes whose own clocks differ agree when an approval is over.
    pub(super) clock: StateClock,
    /// Held while persisted grants are written or read again, so that an older read never replaces a newer state.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// State of the host, if approvals are persisted.
    pub(super) store: Option<StateStore>,
    /// Store of lasting decisions.
    pub(super) kept: Option<GrantRecords>,
    /// Store of approvals whose requesters come back for them.
    pub(super) approvals: Option<ApprovalRecords>,
    /// This process as a node of a fleet, if it is one.
    pub(super) node: Option<HoldingNode>,
    /// Looks at edits of those that were asked before a restart.
    pub(super) checker: OnceLock<StoredEditCheck>,
    pub(super) changes: watch::Sender<u64>,
    /// Audit log in which every decision is recorded.
    pub(super) audit: OnceLock<AuditLog>,
    /// Metrics of the host, once it has started.
    pub(super) metrics: OnceLock<Arc<HostMetrics>>,
}

#[derive(Default)]
pub(super) struct ApprovalQueueState {
    /// Open, or decided and not yet used.
    pub(super) entries: HashMap<String, QueuedApproval>,
    pub(super) limits: ApprovalLimits,
    /// Size of the pending approvals, as they are shown, in bytes.
    pub(super) bytes: usize,
    /// Over, the newest last, each with its size.
    pub(super) done: VecDeque<(Approval, usize)>,
    pub(super) done_bytes: usize,
    /// Ids of finished approvals that have not been removed from the store yet.
    pub(super) over: HashSet<String>,
    /// Ids of persisted approvals that cannot be decrypted and are not shown.
    pub(super) unreadable: HashSet<String>,
    /// Number of approvals submitted so far.
    pub(super) count: u64,
    /// Viewers that show the approval queue to a person.
    pub(super) attending: Vec<(u64, Option<Arc<str>>)>,
    /// Number of served consoles at which a person can decide.
    pub(super) consoles: usize,
    /// Number of those to which people of a team sign in.
    pub(super) team_consoles: usize,
}

impl ApprovalQueue {
    /// Creates an empty approval queue in memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens an approval queue that persists in the host's state: grants, and approvals whose requester comes back for
    /// them, undecided or not used yet. All processes that share the state share them, and see changes within a second.
    ///
    /// # Errors
    /// If the state or its key cannot be read.
    pub async fn open(state: &StateStore) -> Result<Self, StoreError> {
        Self::open_at(state, None).await
    }

    /// Opens an approval queue that the nodes of a fleet share. Approvals of calls that wait at a node are then stored,
    /// too: each node shows and decides them. If the node ends, its pending approvals are withdrawn, and what was allowed
    /// can be used once by the same call at any node.
    ///
    /// # Errors
    /// If the state or its key cannot be read.
    pub async fn open_shared(state: &StateStore, nodes: Arc<dyn ApprovalNodes>) -> Result<Self, StoreError> {
        Self::open_at(state, Some(HoldingNode::new(nodes))).await
    }

    async fn open_at(state: &StateStore, node: Option<HoldingNode>) -> Result<Self, StoreError> {
        let (kept, approvals, clock) = (state.grants(), state.approvals()?, state.clock());
        let mut changes = kept.changes();
        // Before everything is read, so that what changes meanwhile is read again.
        changes.mark_unchanged();
        let all = kept.all(clock.now()).await?;
        approvals.remove(Vec::new(), clock.now()).await?;
        let store = Some(state.clone());
        let inner = ApprovalQueueInner {
            store,
            grants: GrantTable::new(clock.clone()),
            clock,
            kept: Some(kept),
            approvals: Some(approvals),
            node,
            ..ApprovalQueueInner::default()
        };
        let queue = Self(Arc::new(inner));
        queue.0.grants.replace(all);
        queue.reload_persisted().await?;
        // The task must not keep the queue alive.
        tokio::spawn(sync_with_state(Arc::downgrade(&queue.0), changes));
        if queue.0.node.is_some() {
            tokio::spawn(follow_nodes(Arc::downgrade(&queue.0)));
        }
        Ok(queue)
    }

    /// Returns the present time, by which approvals and grants expire.
    pub(super) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Returns the keys that seal the request state, the same after a restart. None without a store.
    pub(crate) fn request_keys(&self) -> Result<Option<StateKeyRing>, StoreError> {
        let Some(state) = &self.0.store else { return Ok(None) };
        let secret = state.secret("request state")?;
        Ok(Some(StateKeyRing::single(StateKey::from_bytes(*secret))))
    }

    /// Sets the limits of new approvals. Approvals that already wait stay.
    pub fn set_limits(&self, limits: ApprovalLimits) {
        self.state().limits = limits;
    }

    /// Measures approvals from now on. Only the first call has an effect.
    pub(crate) fn set_metrics(&self, metrics: &Arc<HostMetrics>) {
        self.0.metrics.get_or_init(|| Arc::clone(metrics));
    }

    /// Returns all pending approvals, oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<Approval> {
        let mut state = self.state();
        self.expire(&mut state);
        let mut open: Vec<&QueuedApproval> = state.entries.values().filter(|entry| entry.is_open()).collect();
        open.sort_by_key(|entry| entry.number);
        open.into_iter().map(|entry| entry.approval.clone()).collect()
    }

    /// Returns the pending approvals whose requesters wait at this process: without those that are persisted for
    /// applications that come back, which another process may have submitted, and without those of other nodes.
    #[must_use]
    pub fn pending_unpersisted(&self) -> Vec<Approval> {
        // Collected in a block of its own, because `approvals` takes the lock as well.
        let kept: HashSet<String> = {
            let state = self.state();
            let kept = state.entries.iter().filter(|(_, entry)| !is_held_here(entry));
            kept.map(|(id, _)| id.clone()).collect()
        };
        self.pending().into_iter().filter(|approval| !kept.contains(&approval.id)).collect()
    }

    /// Returns the approvals that were finished lately, the newest first.
    #[must_use]
    pub fn recent(&self) -> Vec<Approval> {
        let mut state = self.state();
        self.expire(&mut state);
        let decided = state.entries.values().filter(|entry| entry.is_shown() && !entry.is_open());
        let mut recent: Vec<Approval> = decided.map(|entry| entry.approval.clone()).collect();
        recent.sort_by_key(|approval| approval.asked_at);
        recent.splice(0..0, state.done.iter().map(|(approval, _)| approval.clone()));
        recent.reverse();
        recent
    }

    /// Returns a pending or recently closed approval.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Approval> {
        let mut state = self.state();
        self.expire(&mut state);
        let done = state.done.iter().map(|(approval, _)| approval).find(|approval| approval.id == id);
        let here = state.entries.get(id).filter(|entry| entry.is_shown());
        here.map(|entry| &entry.approval).or(done).cloned()
    }

    /// Decides about an approval and returns its new state. `by` is the author for the audit log. An edit and a
    /// lasting permission are validated first.
    ///
    /// # Errors
    /// [`DecideError`] if the approval is no longer pending, or the decision is not possible. In the latter case it stays pending.
    pub async fn decide(
        &self,
        id: &str,
        decision: ApprovalDecision,
        by: impl Into<DecisionAuthor>,
    ) -> Result<Approval, DecideError> {
        self.decide_as(id, decision, by.into(), DecisionReport::Direct).await
    }

    /// Decides about an approval. Once begun it is done, even if whoever decides goes away: nothing is kept that was not
    /// decided.
    pub(super) async fn decide_as(
        &self,
        id: &str,
        decision: ApprovalDecision,
        by: DecisionAuthor,
        report: DecisionReport,
    ) -> Result<Approval, DecideError> {
        let (queue, id) = (self.clone(), id.to_owned());
        let done = tokio::spawn(async move { queue.decide_and_record(&id, decision, by, report).await });
        done.await.unwrap_or_else(|error| Err(DecideError::Store(error.to_string())))
    }

    async fn decide_and_record(
        &self,
        id: &str,
        decision: ApprovalDecision,
        DecisionAuthor { mut by, basis, person }: DecisionAuthor,
        report: DecisionReport,
    ) -> Result<Approval, DecideError> {
        // The lock is not held while anything is written; `undecided` looks again after that.
        let (decided, grant, entry, is_stored) = {
            let (now, mut state) = (self.now(), self.state());
            self.expire(&mut state);
            if !state.exists_for(id, person.as_ref()) {
                return Err(DecideError::Unknown);
            }
            let waiting = find_waiting(&mut state, id)?;
            let approver = waiting.approval.check_reader(&decision, person.as_ref())?;
            if let Some(approver) = &approver {
                by.push_str(&format!(", as a member of {}", visible_line(&approver.groups.join(", "))));
            }
            let validated = waiting.validate_decision(&decision, self.0.checker.get(), now);
            let (decision, lasting) = match (validated, report) {
                (Ok(lasting), _) => (decision, lasting),
                (Err(DecideError::Over), _) => return Err(DecideError::Over),
                // What was not offered was not meant.
                (Err(_), DecisionReport::ByApplication) => (decision.once(), None),
                (Err(error), DecisionReport::Direct) => return Err(error),
            };
            let weak = report == DecisionReport::ByApplication;
            let grant = lasting.map(|lasting| ApprovalGrant { weak, ..waiting.grant(lasting, (now, &by)) });
            let grant = match grant.as_ref().map_or(Ok(()), |grant| self.0.grants.check_new(grant)) {
                Ok(()) => grant,
                Err(_) if weak => {
                    tracing::warn!("limit of lasting permissions reached; the user will be asked again");
                    None
                }
                Err(error) => return Err(error),
            };
            let decided = DecisionRecord { at: now, by, basis, approver, decision };
            let entry = decision_entry(&waiting.approval, &decided);
            (decided, grant, entry, waiting.keeping != PersistenceState::No)
        };
        let is_lasting = grant.as_ref().is_some_and(ApprovalGrant::is_kept);
        let is_recorded_in_state = self.records_in_state() && (is_stored || is_lasting);
        // What cannot be recorded is not decided.
        if let Some(audit) = self.0.audit.get().filter(|_| !is_recorded_in_state) {
            audit.check_writable().await.map_err(|error| DecideError::Store(error.to_string()))?;
        }
        let turn = if grant.is_some() { Some(self.0.turn.lock().await) } else { None };
        let settled = match is_stored {
            true => self.settle_persisted(id, decided, grant, entry.clone()).await,
            false => self.settle_unpersisted(id, decided, grant, entry.clone()).await,
        };
        drop(turn);
        self.notify_changed();
        if settled.is_ok() && !is_recorded_in_state {
            self.record(entry).await;
        }
        settled
    }

    /// Decides an approval that is in memory alone. What lasts is stored before anybody can believe that it is.
    async fn settle_unpersisted(
        &self,
        id: &str,
        decided: DecisionRecord,
        grant: Option<ApprovalGrant>,
        entry: AuditEntry,
    ) -> Result<Approval, DecideError> {
        let stored = grant.clone().filter(ApprovalGrant::is_kept).zip(self.0.kept.as_ref());
        if let Some((grant, kept)) = &stored {
            let put = kept.insert(stored_grant(grant)?, Some(entry)).await;
            put.map_err(|error| DecideError::Store(error.to_string()))?;
        }
        let settled = self.undecided(&mut self.state(), id, grant).map(|waiting| waiting.settle(decided));
        if let (Err(_), Some((grant, kept))) = (&settled, stored) {
            let by = "the host, because the call did not wait any more".to_owned();
            let by = DecisionAuthor { by, basis: DecisionBasis::Host, person: None };
            let revoked = revocation_entry(&grant, by, self.now());
            if let Err(error) = kept.remove(grant.id, Some(revoked)).await {
                tracing::warn!(%error, "late lasting decision could not be revoked");
            }
        }
        settled
    }

    /// Returns an approval that is still pending.
    pub(super) fn undecided<'s>(
        &self,
        state: &'s mut ApprovalQueueState,
        id: &str,
        grant: Option<ApprovalGrant>,
    ) -> Result<&'s mut QueuedApproval, DecideError> {
        let entry = find_waiting(state, id)?;
        // Somebody may have been quicker meanwhile.
        if !entry.is_open() || entry.until <= Instant::now() {
            return Err(DecideError::Over);
        }
        // Given before anything is settled: if there is no room for it, the approval still waits.
        if let Some(grant) = grant {
            let session = entry.session_of(&grant);
            self.0.grants.insert(grant, session)?;
        }
        Ok(entry)
    }

    /// Returns the lasting decisions, the newest first.
    #[must_use]
    pub fn grants(&self) -> Vec<ApprovalGrant> {
        self.0.grants.list()
    }

    /// Revokes a grant and returns it. `by` is the author for the audit log.
    ///
    /// # Errors
    /// [`DecideError::Unknown`] if there is no grant with this id. [`DecideError::Store`] if the removal cannot be
    /// written, and the grant then still holds, or if it is removed and cannot be recorded in the audit log.
    pub async fn revoke(
        &self,
        id: &str,
        by: impl Into<DecisionAuthor>,
    ) -> Result<ApprovalGrant, DecideError> {
        let failed = |error: StoreError| DecideError::Store(error.to_string());
        let turn = self.0.turn.lock().await;
        let grant =
            self.0.grants.list().into_iter().find(|grant| grant.id == id).ok_or(DecideError::Unknown)?;
        let entry = revocation_entry(&grant, by.into(), self.now());
        let kept = self.0.kept.as_ref().filter(|_| grant.is_kept());
        if let Some(kept) = kept {
            kept.remove(id.to_owned(), Some(entry.clone())).await.map_err(failed)?;
        }
        self.0.grants.revoke(id);
        drop(turn);
        self.notify_changed();
        // Revoked first, because a failure of the audit log must not keep a grant alive.
        if let Some(audit) = self.0.audit.get().filter(|_| kept.is_none() || !self.records_in_state()) {
            audit.record(entry).await.map_err(failed)?;
        }
        Ok(grant)
    }

    /// Returns a counter of changes of the queue.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Returns true if an approval with this id and binding exists and has not been used.
    pub(crate) fn is_redeemable(&self, id: &str, bond: &BindingDigest) -> bool {
        let mut state = self.state();
        self.expire(&mut state);
        let is_usable = |entry: &QueuedApproval| {
            entry.is_shown() && entry.bond == *bond && entry.holding != ApprovalHolding::Elsewhere
        };
        state.entries.get(id).is_some_and(is_usable)
    }

    /// Returns the matching grant with this effect, as decider for the audit log, and counts the use.
    pub(crate) fn find_grant(&self, subject: &GrantQuery<'_>, effect: GrantEffect) -> Option<Arc<str>> {
        self.0.grants.find(subject, effect)
    }

    /// Returns true if a person has made a value known to an application of this user. The value is in normal form.
    pub(crate) fn is_known(
        &self,
        value: &str,
        caller: (Option<&str>, Option<&str>),
        peer: &Arc<Peer>,
    ) -> bool {
        self.0.grants.is_known(value, caller, peer)
    }

    /// Removes the permissions that are bound to sessions.
    pub(crate) fn end_sessions(&self) {
        self.0.grants.end_sessions();
        self.notify_changed();
    }

    /// Prepares for the end of the program. Approvals that are not persisted are withdrawn, and that is recorded.
    /// Persisted approvals are available again after a restart.
    pub async fn shut_down(&self) {
        let withdrawn: Vec<Approval> = {
            let mut state = self.state();
            self.expire(&mut state);
            let held = state.entries.iter().filter(|(_, entry)| is_held_here(entry) && entry.is_open());
            // Collected first, because finishing an approval changes the map.
            let held: Vec<String> = held.map(|(id, _)| id.clone()).collect();
            held.iter().filter_map(|id| self.finish(&mut state, id, ApprovalState::Withdrawn)).collect()
        };
        for approval in &withdrawn {
            self.record_withdrawn(approval, "the host, on shutdown");
        }
        self.remove_finished().await;
        self.notify_changed();
    }

    pub(super) fn notify_changed(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ApprovalQueueState> {
        self.0.state.lock()
    }

    /// Denies approvals whose time limit has passed.
    pub(super) fn expire(&self, state: &mut ApprovalQueueState) {
        let now = Instant::now();
        let over = state.entries.iter().filter(|(_, entry)| entry.until <= now);
        // Collected first, because finishing an approval changes the map.
        let over: Vec<String> = over.map(|(id, _)| id.clone()).collect();
        for id in &over {
            self.finish(state, id, ApprovalState::Expired);
        }
        if !over.is_empty() {
            self.notify_changed();
        }
    }

    /// Removes an approval from the queue. Returns its final state if it was still undecided.
    pub(super) fn finish(
        &self,
        state: &mut ApprovalQueueState,
        id: &str,
        how: ApprovalState,
    ) -> Option<Approval> {
        let entry = state.entries.remove(id)?;
        let (is_shown, is_open) = (entry.is_shown(), entry.is_open());
        // What is being written may be there soon, and what is being taken is gone soon.
        if let PersistenceState::Yes | PersistenceState::Writing = entry.keeping {
            state.over.insert(id.to_owned());
            // Other nodes show it until it is removed.
            if let (ApprovalHolding::Here, Some(node)) = (entry.holding, &self.0.node) {
                node.sync.notify_one();
            }
        }
        let is_elsewhere = entry.holding == ApprovalHolding::Elsewhere;
        let (mut approval, size) = (entry.approval, entry.size);
        state.bytes = state.bytes.saturating_sub(size);
        if !is_shown {
            return None;
        }
        if let Some(metrics) = self.0.metrics.get().filter(|_| !is_elsewhere) {
            let end = approval.decided.as_ref().map_or_else(|| self.now(), |decided| decided.at);
            // The wall clock may have been set back.
            metrics.note_approval(end.duration_since(approval.asked_at).try_into().unwrap_or_default());
        }
        if is_open {
            approval.state = how;
        }
        let became = is_open.then(|| approval.clone());
        state.done_bytes += size;
        state.done.push_back((approval, size));
        // The newest one stays, however large it is.
        while state.done.len() > MAX_FINISHED
            || (state.done_bytes > MAX_FINISHED_BYTES && state.done.len() > 1)
        {
            let Some((_, size)) = state.done.pop_front() else { break };
            state.done_bytes = state.done_bytes.saturating_sub(size);
        }
        became
    }
}

impl std::fmt::Debug for ApprovalQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApprovalQueue").field("open", &self.state().entries.len()).finish_non_exhaustive()
    }
}

/// Returns the entry with this id.
fn find_waiting<'s>(
    state: &'s mut ApprovalQueueState,
    id: &str,
) -> Result<&'s mut QueuedApproval, DecideError> {
    let is_over = state.done.iter().any(|(approval, _)| approval.id == id);
    let entry = state.entries.get_mut(id).filter(|entry| entry.is_shown());
    entry.ok_or(if is_over { DecideError::Over } else { DecideError::Unknown })
}
