//! Persistence of approvals whose requesters disconnect and come back. Pending and decided but unused approvals are
//! stored in the host's state and survive a restart.
//!
//! The host's state is authoritative; memory holds a copy of it. All processes that share a state therefore show the
//! same approvals. The first decision counts for all of them, and a decision is used exactly once, by one of them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use hospes_store::approvals::{NewDecision, StoredApproval};
use hospes_store::grants::NewGrant;
use hospes_store::{AuditEntry, StoreError};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::approval::{Approval, ApprovalState};
use super::decision::{DecideError, DecisionRecord};
use super::grant::ApprovalGrant;
use super::queue::{ApprovalQueue, ApprovalQueueState};
use super::queue_error::ApprovalQueueError;
use super::queued_approval::{
    ApprovalHolding, BindingDigest, MAX_WAIT, PersistenceState, QueuedApproval, StoredEditCheck,
    program_share_key,
};
use super::session::GrantSession;

/// Serialized form of an approval.
#[derive(Serialize, Deserialize)]
struct ApprovalBody {
    // The key of the stored form, which files of earlier versions have.
    #[serde(rename = "matter")]
    approval: Approval,
    bond: BindingDigest,
    asker: BindingDigest,
    weak: bool,
    timeout_ms: u64,
    definition: Option<String>,
    target: String,
    /// Process that made the request. Persisted approvals belong to 2026-07-28, in which the process identifies the
    /// session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caller: Option<String>,
    /// Groups of the principal, by which edits are checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
}

impl ApprovalQueue {
    /// Has edits looked at so that nothing else looks at. The first such look stays.
    pub(crate) fn set_edit_check(&self, checker: StoredEditCheck) {
        let _another = self.0.checker.set(checker);
    }

    /// Writes down one that is to be kept, and shows it then.
    pub(super) async fn keep(&self, id: &str) -> Result<(), ApprovalQueueError> {
        let Some(approvals) = &self.0.approvals else { return Ok(()) };
        // The lock ends with the block, so that it is not held while the store writes.
        let (text, until, bond, holding) = {
            let state = self.state();
            let entry = state.entries.get(id).ok_or(ApprovalQueueError::Expired)?;
            if entry.keeping != PersistenceState::Writing {
                return Ok(());
            }
            (entry.written(), entry.approval.expires_at, entry.bond, entry.holding)
        };
        let text = text.map_err(|error| store("pending approval cannot be serialized", &error))?;
        let put = match holding {
            ApprovalHolding::Here => self.insert_held(approvals, (id.to_owned(), text), (until, bond)).await,
            ApprovalHolding::None | ApprovalHolding::Elsewhere => {
                approvals.insert(id.to_owned(), text, until).await
            }
        };
        put.map_err(|error| store("pending approval cannot be stored", &error))?;
        let mut state = self.state();
        state.entries.get_mut(id).ok_or(ApprovalQueueError::Expired)?.keeping = PersistenceState::Yes;
        drop(state);
        self.notify_changed();
        // A decision that was made before it was shown here is read again.
        if let (ApprovalHolding::Here, Some(node)) = (holding, &self.0.node) {
            node.sync.notify_one();
        }
        Ok(())
    }

    /// Decides a persisted approval, first in the state, so that all processes that share it see the decision. A lasting
    /// grant and the audit entry are written in the same transaction, the entry if the state records decisions.
    pub(super) async fn settle_persisted(
        &self,
        id: &str,
        decided: DecisionRecord,
        grant: Option<ApprovalGrant>,
        entry: AuditEntry,
    ) -> Result<Approval, DecideError> {
        let failed = |error: &dyn std::error::Error| DecideError::Store(error.to_string());
        let approvals = self.0.approvals.as_ref().ok_or(DecideError::Unknown)?;
        let text = serde_json::to_string(&decided).map_err(|error| failed(&error))?;
        let (mut approval, until, session) = {
            let mut state = self.state();
            let waiting = self.undecided(&mut state, id, None)?;
            let session = grant.as_ref().and_then(|grant| waiting.session_of(grant));
            // Once decided it can be used for as long as there was time to decide.
            (waiting.approval.clone(), deadline(decided.at, waiting.timeout), session)
        };
        let mut decision = NewDecision::new(text, until);
        let lasting = grant.as_ref().filter(|grant| grant.is_kept());
        (decision.grant, decision.entry) = (lasting.map(stored_grant).transpose()?, Some(entry));
        let done = approvals.decide(id.to_owned(), decision, self.now()).await;
        if !done.map_err(|error| failed(&error))? {
            // Somebody was quicker, perhaps elsewhere: what is shown is what they made of it.
            if let Err(error) = self.reload_persisted().await {
                tracing::warn!(%error, "decisions made elsewhere cannot be read yet");
            }
            return Err(DecideError::Over);
        }
        // Only now, so that nobody believes in what is not stored. There was room for it before.
        if let Some(grant) = grant
            && let Err(error) = self.0.grants.insert(grant, session)
        {
            tracing::warn!(%error, "the lasting part of a decision is not in force here yet");
        }
        let mut state = self.state();
        match state.entries.get_mut(id).filter(|entry| entry.is_open()) {
            Some(entry) => Ok(entry.settle(decided)),
            // It was used in the meantime, or is seen as decided already.
            None => {
                approval.state = decided.decision.state();
                approval.decided = Some(decided);
                Ok(approval)
            }
        }
    }

    /// Removes an approval from the state before it is used, or marks it as used if this node holds it. From then on it
    /// cannot be used again, whatever happens.
    pub(super) async fn take_persisted(&self, id: &str) -> Result<(), ApprovalQueueError> {
        let approvals = self.0.approvals.as_ref().ok_or(ApprovalQueueError::Expired)?;
        let attempt = self.state().entries.get(id).and_then(|entry| entry.attempt.clone());
        let taken = match attempt {
            Some(attempt) => approvals.use_held(id.to_owned(), attempt, self.now()).await,
            None => approvals.take(id.to_owned(), self.now()).await,
        };
        let mut state = self.state();
        let entry = state.entries.get_mut(id).ok_or(ApprovalQueueError::Expired)?;
        match taken {
            Ok(Some(decided)) => {
                entry.keeping = PersistenceState::No;
                // Another process may have been quicker to decide.
                if entry.is_open()
                    && let Some(decided) = decided.as_deref().and_then(read_decision)
                {
                    entry.settle(decided);
                }
                Ok(())
            }
            Ok(None) => {
                entry.keeping = PersistenceState::No;
                self.finish(&mut state, id, ApprovalState::Withdrawn);
                drop(state);
                self.notify_changed();
                Err(ApprovalQueueError::Expired)
            }
            Err(error) => {
                // It is still there, and can be taken when the asker comes again.
                entry.keeping = PersistenceState::Yes;
                Err(store("decision cannot be marked as used", &error))
            }
        }
    }

    /// Reloads the persisted approvals, with the changes of other processes: new, decided, used and withdrawn ones.
    pub(super) async fn reload_persisted(&self) -> Result<(), StoreError> {
        let Some(approvals) = &self.0.approvals else { return Ok(()) };
        let (known, kept) = {
            let mut state = self.state();
            self.expire(&mut state);
            let here = state.entries.iter().filter(|(_, entry)| entry.keeping != PersistenceState::No);
            let mut known: HashMap<String, bool> =
                here.map(|(id, entry)| (id.clone(), !entry.is_open())).collect();
            known.extend(state.over.iter().chain(&state.unreadable).map(|id| (id.clone(), true)));
            let kept = state.entries.iter().filter(|(_, entry)| entry.keeping == PersistenceState::Yes);
            (known, kept.map(|(id, _)| id.clone()).collect::<HashSet<String>>())
        };
        let now = self.now();
        let look = approvals.changes_since(now, known).await?;
        let mut state = self.state();
        for id in look.gone {
            state.unreadable.remove(&id);
            // One that is being taken is ours, and one that was being written may not have been there yet.
            if kept.contains(&id)
                && let Some(entry) =
                    state.entries.get_mut(&id).filter(|entry| entry.keeping == PersistenceState::Yes)
            {
                entry.keeping = PersistenceState::No;
                if look.withdrawn.contains(&id) {
                    self.finish_withdrawn(&mut state, &id);
                    continue;
                }
                let is_late = entry.deadline() <= now;
                let how = if is_late { ApprovalState::Expired } else { ApprovalState::Withdrawn };
                self.finish(&mut state, &id, how);
            }
        }
        for kept in look.news {
            self.merge_persisted(&mut state, kept, now);
        }
        drop(state);
        self.notify_changed();
        Ok(())
    }

    fn merge_persisted(&self, state: &mut ApprovalQueueState, kept: StoredApproval, now: Timestamp) {
        let decided = kept.decided.as_deref().and_then(read_decision);
        if let Some(entry) = state.entries.get_mut(&kept.id) {
            if let Some(decided) =
                decided.filter(|_| entry.is_open() && entry.keeping == PersistenceState::Yes)
            {
                entry.settle(decided);
                entry.until = instant(entry.deadline(), entry.timeout, now);
            }
            return;
        }
        let written = kept.matter.as_deref().map(serde_json::from_str::<ApprovalBody>);
        // A row holds only the approval of its own id, so that none can be given in place of another.
        let Some(Ok(written)) =
            written.filter(|written| written.as_ref().is_ok_and(|written| written.approval.id == kept.id))
        else {
            tracing::warn!(id = kept.id, "stored approval cannot be read; the requester has to ask again");
            state.unreadable.insert(kept.id);
            return;
        };
        state.count += 1;
        let mut entry = written.entry(state.count, decided, now);
        if kept.holder.is_some() {
            entry.hold_elsewhere();
        }
        state.bytes = state.bytes.saturating_add(entry.size);
        state.entries.insert(kept.id, entry);
    }

    /// Removes finished approvals from the state.
    pub(super) async fn remove_finished(&self) {
        let Some(approvals) = &self.0.approvals else { return };
        let over: Vec<String> = {
            let mut state = self.state();
            self.expire(&mut state);
            state.over.iter().cloned().collect()
        };
        if over.is_empty() {
            return;
        }
        match approvals.remove(over.clone(), self.now()).await {
            // Not before: until then whoever looks would find them there.
            Ok(()) => {
                let mut state = self.state();
                state.over.retain(|id| !over.contains(id));
            }
            Err(error) => {
                tracing::warn!(%error, "finished approvals cannot be removed from the host's state yet");
            }
        }
    }
}

impl QueuedApproval {
    fn written(&self) -> serde_json::Result<String> {
        let Self { bond, asker, is_weak: weak, .. } = *self;
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        let (approval, definition, target) =
            (self.approval.clone(), self.definition.clone(), self.target.clone());
        let caller = match &self.session {
            Some(GrantSession::Process(caller)) => caller.as_deref().map(str::to_owned),
            // A connection does not outlive the host.
            Some(GrantSession::Connection(_)) | None => None,
        };
        serde_json::to_string(&ApprovalBody {
            approval,
            bond,
            asker,
            weak,
            timeout_ms,
            definition,
            target,
            caller,
            groups: self.groups.clone(),
        })
    }

    /// Returns the time until which the approval can be decided or, once decided, used. It is wall-clock time, because
    /// the machine may have slept, or the host may not have been running.
    fn deadline(&self) -> Timestamp {
        let decided = self.approval.decided.as_ref();
        decided.map_or(self.approval.expires_at, |decided| deadline(decided.at, self.timeout))
    }
}

impl ApprovalBody {
    fn entry(self, number: u64, decided: Option<DecisionRecord>, now: Timestamp) -> QueuedApproval {
        let Self { approval, bond, asker, weak, timeout_ms, definition, target, caller, groups } = self;
        let size = serde_json::to_vec(&approval.card).map_or(0, |card| card.len());
        let timeout = Duration::from_millis(timeout_ms);
        let share = program_share_key(None, approval.application.as_deref());
        let mut entry = QueuedApproval {
            approval,
            share,
            size,
            number,
            until: Instant::now(),
            bond,
            asker,
            is_weak: weak,
            timeout,
            definition,
            target,
            check: None,
            groups,
            keeping: PersistenceState::Yes,
            holding: ApprovalHolding::None,
            attempt: None,
            session: Some(GrantSession::Process(caller.map(Into::into))),
        };
        if let Some(decided) = decided {
            entry.settle(decided);
        }
        entry.until = instant(entry.deadline(), timeout, now);
        entry
    }
}

/// Computes the time at which this span has passed.
fn deadline(from: Timestamp, span: Duration) -> Timestamp {
    SignedDuration::try_from(span).ok().and_then(|span| from.checked_add(span).ok()).unwrap_or(Timestamp::MAX)
}

/// Converts a deadline to the monotonic clock. The remaining time never exceeds the timeout, even if the wall clock was
/// set.
fn instant(deadline: Timestamp, timeout: Duration, now: Timestamp) -> Instant {
    let left = Duration::try_from(deadline.duration_since(now)).unwrap_or_default().min(timeout);
    let now = Instant::now();
    now.checked_add(left).unwrap_or(now + MAX_WAIT)
}

/// Returns the stored form of a grant.
pub(super) fn stored_grant(grant: &ApprovalGrant) -> Result<NewGrant, DecideError> {
    let body = serde_json::to_string(grant).map_err(|error| DecideError::Store(error.to_string()))?;
    Ok(NewGrant::new(grant.id.clone(), body, grant.until))
}

pub(super) fn read_decision(decided: &str) -> Option<DecisionRecord> {
    let read = serde_json::from_str(decided);
    read.inspect_err(|error| tracing::warn!(%error, "stored decision cannot be read")).ok()
}

fn store(what: &str, error: &(dyn std::error::Error + 'static)) -> ApprovalQueueError {
    tracing::error!(error, what);
    ApprovalQueueError::Store
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The host was away for a while, and the clock on the wall was set meanwhile.
    #[tokio::test(start_paused = true)]
    async fn what_is_left_is_what_the_wall_says_and_never_more_than_was_given() {
        let (now, given) = (Timestamp::now(), Duration::from_secs(120));
        let left = |deadline: Timestamp| instant(deadline, given, now) - Instant::now();
        assert_eq!(left(deadline(now, Duration::from_secs(50))), Duration::from_secs(50));
        assert_eq!(left(now), Duration::ZERO);
        assert_eq!(left(now - Duration::from_secs(50)), Duration::ZERO);
        assert_eq!(left(deadline(now, Duration::from_secs(9000))), given);
        assert_eq!(left(deadline(now, Duration::MAX)), given);
    }
}
