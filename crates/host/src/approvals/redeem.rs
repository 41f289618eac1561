//! Redemption of decisions.

use hospes_store::{AuditEntry, DecisionBasis};

use super::approval::ApprovalState;
use super::decision::{ApprovalDecision, ApprovalOutcome, DecideError, DecisionRecord};
use super::decision_records::decision_entry;
use super::grant::ApprovalGrant;
use super::persistence::stored_grant;
use super::queue::{ApprovalQueue, DecisionReport};
use super::queue_error::ApprovalQueueError;
use super::queued_approval::{ApprovalHolding, BindingDigest, PersistenceState, QueuedApproval};
use crate::deciders::DecisionAuthor;

/// Decision that an application reports for its person, and its author for the audit log.
type ApplicationAnswer = (ApprovalDecision, &'static str);

/// Redemption of an approval in memory.
struct MemoryRedemption {
    /// None while the approval is undecided.
    outcome: Option<ApprovalOutcome>,
    /// Audit entry of the decision, if the answer of an application made it.
    entry: Option<AuditEntry>,
    /// Grant of that decision, if there is one.
    grant: Option<ApprovalGrant>,
}

impl ApprovalQueue {
    /// Redeems the decision about an approval. `answer` is the decision that the application reports for its person,
    /// which counts unless another decision came first; of a persisted approval it is stored before it is used. None while
    /// the approval is undecided. A persisted approval is removed from the host's state, or marked as used there, before
    /// this returns.
    pub(crate) async fn redeem(
        &self,
        id: &str,
        bond: &BindingDigest,
        mut answer: Option<ApplicationAnswer>,
    ) -> Result<Option<ApprovalOutcome>, ApprovalQueueError> {
        if let Some((decision, by)) = answer.take_if(|answer| self.is_decided_by(id, bond, answer)) {
            // The person has answered the form of the application.
            let author = DecisionAuthor::person(by);
            match self.decide_as(id, decision, author, DecisionReport::ByApplication).await {
                // Somebody may have been quicker; what they made of it is found below.
                Ok(_) | Err(DecideError::Over | DecideError::Unknown) => (),
                Err(error) => {
                    tracing::error!(%error, "the answer of an application cannot be stored");
                    return Err(ApprovalQueueError::Store);
                }
            }
        }
        let is_persisted = {
            let mut state = self.state();
            self.expire(&mut state);
            let is_usable =
                |entry: &&mut QueuedApproval| entry.is_shown() && entry.holding != ApprovalHolding::Elsewhere;
            let entry = state.entries.get_mut(id).filter(is_usable);
            let entry = entry.ok_or(ApprovalQueueError::Expired)?;
            let is_heeded = answer.as_ref().is_some_and(|answer| entry.accepts_answer(answer));
            match entry.keeping {
                PersistenceState::No => false,
                PersistenceState::Yes if entry.bond == *bond && entry.is_open() && !is_heeded => {
                    return Ok(None);
                }
                // Marked under the lock, so that only one of two askers takes it out.
                PersistenceState::Yes => {
                    entry.keeping = PersistenceState::Taking;
                    true
                }
                // Somebody is about to use it.
                PersistenceState::Writing | PersistenceState::Taking => {
                    return Err(ApprovalQueueError::Expired);
                }
            }
        };
        // Once begun it is done, even if whoever wants it goes away: then it was used up for nothing, and not twice.
        let (queue, id, bond) = (self.clone(), id.to_owned(), *bond);
        let done = tokio::spawn(async move {
            if is_persisted {
                queue.take_persisted(&id).await?;
            }
            queue.redeem_and_keep(&id, &bond, answer).await
        });
        done.await.unwrap_or(Err(ApprovalQueueError::Store))
    }

    /// Redeems an approval that is not, or no longer, persisted, and stores a grant that outlives this process.
    async fn redeem_and_keep(
        &self,
        id: &str,
        bond: &BindingDigest,
        answer: Option<ApplicationAnswer>,
    ) -> Result<Option<ApprovalOutcome>, ApprovalQueueError> {
        // Held until the grant is stored: grants that are read again in between would replace it.
        let turn = if answer.is_some() { Some(self.0.turn.lock().await) } else { None };
        let MemoryRedemption { outcome, mut entry, grant } = self.redeem_in_memory(id, bond, answer)?;
        if let (Some(grant), Some(kept)) = (grant.filter(ApprovalGrant::is_kept), &self.0.kept) {
            let put = async {
                let stored = stored_grant(&grant).map_err(|error| error.to_string())?;
                kept.insert(stored, entry.clone()).await.map_err(|error| error.to_string())
            };
            match put.await {
                Ok(()) if self.records_in_state() => entry = None,
                Ok(()) => (),
                Err(error) => {
                    tracing::warn!(error, "lasting decision could not be stored; it ends with this process");
                }
            }
        }
        drop(turn);
        if let Some(entry) = entry {
            self.try_record(entry);
        }
        Ok(outcome)
    }

    /// Returns true if the answer of an application decides a persisted approval.
    fn is_decided_by(&self, id: &str, bond: &BindingDigest, answer: &ApplicationAnswer) -> bool {
        let state = self.state();
        state.entries.get(id).is_some_and(|entry| {
            entry.keeping == PersistenceState::Yes
                && entry.holding != ApprovalHolding::Elsewhere
                && entry.bond == *bond
                && entry.is_open()
                && entry.accepts_answer(answer)
        })
    }

    /// Redeems an approval that is not, or no longer, persisted.
    fn redeem_in_memory(
        &self,
        id: &str,
        bond: &BindingDigest,
        answer: Option<ApplicationAnswer>,
    ) -> Result<MemoryRedemption, ApprovalQueueError> {
        let mut state = self.state();
        self.expire(&mut state);
        let Some(entry) = state.entries.get_mut(id) else { return Err(ApprovalQueueError::Expired) };
        if entry.bond != *bond {
            // The try uses it up: who holds it for something else is not who was given it.
            let withdrawn = self.finish(&mut state, id, ApprovalState::Withdrawn);
            drop(state);
            if let Some(approval) = withdrawn {
                self.record_withdrawn(&approval, "the requester, with an answer for another call");
            }
            self.notify_changed();
            return Err(ApprovalQueueError::Changed);
        }
        let (mut made, mut given, now) = (None, None, self.now());
        if entry.is_open()
            && let Some((decision, by)) = answer.filter(|answer| entry.accepts_answer(answer))
        {
            // What was not offered was not meant.
            let lasting = entry.validate_decision(&decision, self.0.checker.get(), now);
            let lasts = lasting.as_ref().ok().and_then(Option::as_ref);
            let grant =
                lasts.map(|lasts| ApprovalGrant { weak: true, ..entry.grant(lasts.clone(), (now, by)) });
            if let Some(grant) = grant {
                let session = entry.session_of(&grant);
                match self.0.grants.insert(grant.clone(), session) {
                    Ok(()) => given = Some(grant),
                    Err(_) => {
                        tracing::warn!("limit of lasting permissions reached; the user will be asked again");
                    }
                }
            }
            let decision = if lasting.is_err() { decision.once() } else { decision };
            // The person has answered the form of the application.
            let basis = DecisionBasis::Person;
            let decided = DecisionRecord { at: now, by: by.to_owned(), basis, approver: None, decision };
            made = Some(decision_entry(&entry.approval, &decided));
            entry.settle(decided);
        }
        let settled = match entry.holding {
            ApprovalHolding::Here => entry.settled_by_holder(),
            ApprovalHolding::None | ApprovalHolding::Elsewhere => entry.settled(),
        };
        if settled.is_some() {
            let state_now = entry.approval.state;
            self.finish(&mut state, id, state_now);
        }
        drop(state);
        self.notify_changed();
        Ok(MemoryRedemption { outcome: settled, entry: made, grant: given })
    }
}

impl QueuedApproval {
    /// Returns true if the application's decision counts. An approval may be reserved for another person; a denial
    /// always counts.
    fn accepts_answer(&self, (decision, _): &ApplicationAnswer) -> bool {
        let may_allow = self.is_weak && self.approval.approvers.is_none();
        may_allow || matches!(decision, ApprovalDecision::Deny { .. })
    }
}
