//! Approval queue: pending decisions of a person, and the person's lasting decisions.
//!
//! Everything that needs a decision by a person is submitted as an [`Approval`]. A console, a terminal or the application
//! that asked decides; the first decision counts. No decision in time, or a requester that disconnects, means denied.

mod approval;
mod decision;
mod decision_records;
mod grant;
mod grants;
mod limits;
mod local_links;
mod persistence;
mod queued_approval;
mod redeem;
mod registrations;
mod session;
mod state_sync;
#[cfg(test)]
mod tests;
mod waiter;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hospes::transport::{StateKey, StateKeyRing};
use hospes_model::RawJson;
use hospes_store::{AuditLog, StateStore, StoreError};
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

use persistence::PersistenceState;
pub(crate) use persistence::StoredEditCheck;
use queued_approval::QueuedApproval;
pub(crate) use waiter::ApprovalWaiter;

pub use approval::{
    Approval, ApprovalCallKind, ApprovalCard, ApprovalState, CallCard, DecisionOptions, DeclaredEffects,
    FormCard, ResultCard, SamplingRequestCard, SamplingResultCard, UrlCard,
};
pub use decision::{ApprovalDecision, DecideError, DecisionRecord, MAX_REASON_BYTES};
pub use grant::{
    ApprovalGrant, ApprovalScope, DEFAULT_PERMISSION_LIFETIME, GrantEffect, LastingPermission,
    MAX_PERMISSION_LIFETIME,
};
pub(crate) use grants::GrantQuery;
pub use grants::MAX_GRANTS;
pub(crate) use limits::ApprovalLimitExceeded;
pub use limits::ApprovalLimits;
pub use local_links::LocalLinks;
pub use registrations::{ConsoleRegistration, ViewerRegistration};
pub(crate) use session::GrantSession;
pub use session::SESSION_LIFETIME;

/// Maximum number of finished approvals that can still be read.
const MAX_FINISHED: usize = 256;

/// Maximum size of all finished approvals, in bytes.
const MAX_FINISHED_BYTES: usize = 16 * 1024 * 1024;

/// Maximum wait, in effect unlimited.
const MAX_WAIT: Duration = Duration::from_secs(366 * 24 * 3600);

/// A digest of everything that a decision is bound to.
pub(crate) type BindingDigest = [u8; 32];

/// Looks whether an edit can be done.
pub(crate) type EditCheck = Box<dyn Fn(&RawJson) -> Result<(), String> + Send + Sync>;

/// Queue of approvals. Cheap to clone; all clones share one queue.
#[derive(Clone, Default)]
pub struct ApprovalQueue(Arc<ApprovalQueueInner>);

#[derive(Default)]
struct ApprovalQueueInner {
    state: Mutex<ApprovalQueueState>,
    grants: grants::GrantTable,
    /// Held while persisted grants are written or read again, so that an older read never replaces a newer state.
    turn: tokio::sync::Mutex<()>,
    /// State of the host, if approvals are persisted.
    store: Option<StateStore>,
    /// Store of lasting decisions.
    kept: Option<hospes_store::grants::GrantRecords>,
    /// Store of approvals whose requesters come back for them.
    approvals: Option<hospes_store::approvals::ApprovalRecords>,
    /// Looks at edits of those that were asked before a restart.
    checker: OnceLock<StoredEditCheck>,
    changes: watch::Sender<u64>,
    /// Audit log in which every decision is recorded.
    audit: OnceLock<AuditLog>,
}

#[derive(Default)]
struct ApprovalQueueState {
    /// Open, or decided and not yet used.
    entries: HashMap<String, QueuedApproval>,
    limits: ApprovalLimits,
    /// Size of the pending approvals, as they are shown, in bytes.
    bytes: usize,
    /// Over, the newest last, each with its size.
    done: VecDeque<(Approval, usize)>,
    done_bytes: usize,
    /// Ids of finished approvals that have not been removed from the store yet.
    over: HashSet<String>,
    /// Ids of persisted approvals that cannot be decrypted and are not shown.
    unreadable: HashSet<String>,
    /// Number of approvals submitted so far.
    count: u64,
    /// Viewers that show the approval queue to a person.
    attending: Vec<(u64, Option<Arc<str>>)>,
    /// Number of served consoles at which a person can decide.
    consoles: usize,
}

/// A new approval for the queue.
pub(crate) struct NewApproval {
    pub(crate) principal: Option<String>,
    pub(crate) application: Option<String>,
    pub(crate) server: String,
    pub(crate) offers: DecisionOptions,
    pub(crate) card: ApprovalCard,
    pub(crate) timeout: Duration,
    /// Digest to which the decision is bound.
    pub(crate) bond: BindingDigest,
    /// Identity of the asker, to which the limit for one asker applies.
    pub(crate) asker: BindingDigest,
    /// Calling program, if known. It has a limited share of its user's pending approvals.
    pub(crate) caller: Option<Arc<str>>,
    /// True if the application may report its person's decision.
    pub(crate) is_weak: bool,
    pub(crate) definition: Option<String>,
    /// The hash of the server's command line or URL, where a decision may last.
    pub(crate) target: String,
    pub(crate) check: Option<EditCheck>,
    /// The session that asks, where a permission for it is offered.
    pub(crate) session: Option<GrantSession>,
    /// True if the requester disconnects and comes back for the decision, perhaps after a restart.
    /// [`ApprovalWaiter::store`] must then be called; the approval is hidden until then.
    pub(crate) returns: bool,
}

/// Reasons an approval cannot be submitted or redeemed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApprovalQueueError {
    /// It was used, or its time is over, or it never was.
    Expired,
    /// The decision was made for a different call.
    Changed,
    /// The approval queue is full.
    TooMany(ApprovalLimitExceeded),
    /// No random id could be generated.
    NoId,
    /// It cannot be kept, or not be used up, in the host's state.
    Store,
}

/// Outcome of an approval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ApprovalOutcome {
    /// Allowed, possibly edited, with the decider and whether the permission lasts.
    Allowed { edited: Option<RawJson>, by: String, lasts: bool },
    /// Denied, with the reason and the decider.
    Denied { reason: Option<String>, by: String },
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
        let (kept, approvals) = (state.grants(), state.approvals()?);
        let mut changes = kept.changes();
        // Before everything is read, so that what changes meanwhile is read again.
        changes.mark_unchanged();
        let all = kept.all(Timestamp::now()).await?;
        approvals.remove(Vec::new(), Timestamp::now()).await?;
        let store = Some(state.clone());
        let inner = ApprovalQueueInner {
            store,
            kept: Some(kept),
            approvals: Some(approvals),
            ..ApprovalQueueInner::default()
        };
        let queue = Self(Arc::new(inner));
        queue.0.grants.replace(all);
        queue.reload_persisted().await?;
        // The task must not keep the queue alive.
        tokio::spawn(state_sync::sync_with_state(Arc::downgrade(&queue.0), changes));
        Ok(queue)
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

    /// Returns all pending approvals, oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<Approval> {
        let mut state = self.state();
        self.expire(&mut state);
        let mut open: Vec<&QueuedApproval> = state.entries.values().filter(|entry| entry.is_open()).collect();
        open.sort_by_key(|entry| entry.number);
        open.into_iter().map(|entry| entry.approval.clone()).collect()
    }

    /// Returns the pending approvals without those that are persisted for applications that come back, which another
    /// process may have submitted.
    #[must_use]
    pub fn pending_unpersisted(&self) -> Vec<Approval> {
        // Collected in a block of its own, because `approvals` takes the lock as well.
        let kept: HashSet<String> = {
            let state = self.state();
            let kept = state.entries.iter().filter(|(_, entry)| entry.keeping != PersistenceState::No);
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

    /// Decides about an approval and returns its new state. `by` names the author for the audit log. An edit and a
    /// lasting permission are validated first.
    ///
    /// # Errors
    /// [`DecideError`] if the approval is no longer pending, or the decision is not possible. In the latter case it stays pending.
    pub async fn decide(
        &self,
        id: &str,
        decision: ApprovalDecision,
        by: &str,
    ) -> Result<Approval, DecideError> {
        // Once begun it is done, even if whoever decided goes away: nothing is kept that was not decided.
        let (queue, id, by) = (self.clone(), id.to_owned(), by.to_owned());
        let done = tokio::spawn(async move { queue.decide_and_record(&id, decision, &by).await });
        done.await.unwrap_or_else(|error| Err(DecideError::Store(error.to_string())))
    }

    async fn decide_and_record(
        &self,
        id: &str,
        decision: ApprovalDecision,
        by: &str,
    ) -> Result<Approval, DecideError> {
        // The lock is not held while anything is written; `undecided` looks again after that.
        let (grant, is_kept) = {
            let mut state = self.state();
            self.expire(&mut state);
            let entry = find_waiting(&mut state, id)?;
            let lasting = entry.validate_decision(&decision, self.0.checker.get())?;
            (lasting.map(|lasting| entry.grant(lasting, by)), entry.keeping != PersistenceState::No)
        };
        // What cannot be recorded is not decided.
        if let Some(audit) = self.0.audit.get() {
            audit.check_writable().await.map_err(|error| DecideError::Store(error.to_string()))?;
        }
        let turn = if grant.is_some() { Some(self.0.turn.lock().await) } else { None };
        // What lasts is kept before anybody can believe that it is.
        if let (Some(grant), Some(kept)) = (grant.as_ref().filter(|grant| grant.is_kept()), &self.0.kept) {
            let body = serde_json::to_string(grant).map_err(|error| DecideError::Store(error.to_string()))?;
            let put = kept.insert(grant.id.clone(), body, grant.until).await;
            put.map_err(|error| DecideError::Store(error.to_string()))?;
        }
        let decided = DecisionRecord { at: Timestamp::now(), by: by.to_owned(), decision };
        let settled = match is_kept {
            true => self.settle_persisted(id, decided, grant.clone()).await,
            false => self.settle(id, decided, grant.clone()),
        };
        if let (Err(_), Some(grant), Some(kept)) = (&settled, grant, &self.0.kept)
            && let Err(error) = kept.remove(grant.id).await
        {
            tracing::warn!(%error, "late lasting decision could not be revoked");
        }
        drop(turn);
        self.notify_changed();
        if let Ok(approval) = &settled {
            self.record(approval).await;
        }
        settled
    }

    fn settle(
        &self,
        id: &str,
        decided: DecisionRecord,
        grant: Option<ApprovalGrant>,
    ) -> Result<Approval, DecideError> {
        Ok(self.undecided(&mut self.state(), id, grant)?.settle(decided))
    }

    /// Returns an approval that is still pending.
    fn undecided<'s>(
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

    /// Revokes a grant and returns it.
    ///
    /// # Errors
    /// [`DecideError::Unknown`] if there is no grant with this id. [`DecideError::Store`] if the removal cannot be
    /// written; the grant then still holds.
    pub async fn revoke(&self, id: &str) -> Result<ApprovalGrant, DecideError> {
        let turn = self.0.turn.lock().await;
        let grant =
            self.0.grants.list().into_iter().find(|grant| grant.id == id).ok_or(DecideError::Unknown)?;
        if let Some(kept) = self.0.kept.as_ref().filter(|_| grant.is_kept()) {
            kept.remove(id.to_owned()).await.map_err(|error| DecideError::Store(error.to_string()))?;
        }
        self.0.grants.revoke(id);
        drop(turn);
        self.notify_changed();
        Ok(grant)
    }

    /// Returns a counter of changes of the queue.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Adds an approval to the queue.
    pub(crate) fn submit(&self, asking: NewApproval) -> Result<ApprovalWaiter, ApprovalQueueError> {
        let id = generate_id()?;
        let NewApproval { principal, application, server, offers, card, .. } = asking;
        let NewApproval { timeout, bond, asker, caller, is_weak, definition, target, check, .. } = asking;
        let NewApproval { session, returns, .. } = asking;
        let (now, asked_at) = (Instant::now(), Timestamp::now());
        let until = now.checked_add(timeout).unwrap_or(now + MAX_WAIT);
        let span = SignedDuration::try_from(timeout).ok();
        let expires_at = span.and_then(|span| asked_at.checked_add(span).ok()).unwrap_or(Timestamp::MAX);
        let share = queued_approval::program_share_key(caller.as_deref(), application.as_deref());
        let approval = Approval {
            id: id.clone(),
            asked_at,
            expires_at,
            state: ApprovalState::Open,
            decided: None,
            principal,
            application,
            server,
            session: session.as_ref().filter(|_| offers.session).map(GrantSession::describe),
            offers,
            card,
        };
        let size = serde_json::to_vec(&approval.card).map_or(0, |card| card.len());
        {
            let mut state = self.state();
            // First, so that approvals whose time is over leave their room to new ones.
            self.expire(&mut state);
            let limits = state.limits;
            if state.entries.len() >= limits.waiting {
                return Err(ApprovalQueueError::TooMany(ApprovalLimitExceeded::Waiting(limits.waiting)));
            }
            let of_asker = || state.entries.values().filter(|entry| entry.asker == asker);
            let free = limits.of_one.saturating_sub(of_asker().count());
            if free == 0 {
                return Err(ApprovalQueueError::TooMany(ApprovalLimitExceeded::OfOne(limits.of_one)));
            }
            // A program that already waits leaves as much room as it takes: whoever comes next has a share as well.
            let of_program = of_asker().filter(|entry| entry.share == share).count();
            if of_program >= free {
                return Err(ApprovalQueueError::TooMany(ApprovalLimitExceeded::OfProgram {
                    waiting: of_program,
                    limit: limits.of_one,
                }));
            }
            if state.bytes.saturating_add(size) > limits.bytes {
                return Err(ApprovalQueueError::TooMany(ApprovalLimitExceeded::Bytes(limits.bytes)));
            }
            state.bytes += size;
            state.count += 1;
            let number = state.count;
            let keeping = if returns && self.0.approvals.is_some() {
                PersistenceState::Writing
            } else {
                PersistenceState::No
            };
            let entry = QueuedApproval {
                size,
                keeping,
                approval,
                number,
                until,
                bond,
                asker,
                share,
                is_weak,
                timeout,
                definition,
                target,
                check,
                session,
            };
            state.entries.insert(id.clone(), entry);
        }
        self.notify_changed();
        Ok(ApprovalWaiter { queue: self.clone(), id, bond, detached: false })
    }

    /// Waits for the decision on an approval whose requester has come back.
    pub(crate) fn resume(&self, id: &str, bond: BindingDigest) -> ApprovalWaiter {
        ApprovalWaiter { queue: self.clone(), id: id.to_owned(), bond, detached: false }
    }

    /// Returns true if an approval with this id and binding exists and has not been used.
    pub(crate) fn is_redeemable(&self, id: &str, bond: &BindingDigest) -> bool {
        let mut state = self.state();
        self.expire(&mut state);
        state.entries.get(id).is_some_and(|entry| entry.is_shown() && entry.bond == *bond)
    }

    /// Returns the matching grant with this effect.
    pub(crate) fn find_grant(&self, subject: &GrantQuery<'_>, effect: GrantEffect) -> Option<ApprovalGrant> {
        self.0.grants.find(subject, effect)
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
            let held = state
                .entries
                .iter()
                .filter(|(_, entry)| entry.keeping == PersistenceState::No && entry.is_open());
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

    fn notify_changed(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, ApprovalQueueState> {
        self.0.state.lock()
    }

    /// Denies approvals whose time limit has passed.
    fn expire(&self, state: &mut ApprovalQueueState) {
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
    fn finish(&self, state: &mut ApprovalQueueState, id: &str, how: ApprovalState) -> Option<Approval> {
        let entry = state.entries.remove(id)?;
        let (is_shown, is_open) = (entry.is_shown(), entry.is_open());
        // What is being written may be there soon, and what is being taken is gone soon.
        if let PersistenceState::Yes | PersistenceState::Writing = entry.keeping {
            state.over.insert(id.to_owned());
        }
        let (mut approval, size) = (entry.approval, entry.size);
        state.bytes = state.bytes.saturating_sub(size);
        if !is_shown {
            return None;
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

impl ApprovalQueueError {
    /// Returns the reason as the end of a sentence.
    pub(crate) fn message(self) -> Cow<'static, str> {
        match self {
            Self::Expired => {
                "its approval has expired: it was already used, or no decision was made in time (setting \
                 approval_timeout)"
                    .into()
            }
            Self::Changed => "the call differs from the one that was approved".into(),
            Self::TooMany(full) => full.message().into(),
            Self::NoId => "the system's random number generator failed".into(),
            Self::Store => {
                "pending approvals cannot be written to the host's state at the moment (see the log)".into()
            }
        }
    }

    /// Returns the decision for the audit log.
    pub(crate) fn decision(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Changed | Self::TooMany(_) | Self::NoId | Self::Store => "deny",
        }
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

/// Generates a random id that cannot be guessed.
pub(crate) fn generate_id() -> Result<String, ApprovalQueueError> {
    let mut random = [0_u8; 16];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| ApprovalQueueError::NoId)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
