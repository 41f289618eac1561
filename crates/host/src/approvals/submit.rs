//! Submission of approvals to the queue, within its limits.

use std::sync::Arc;
use std::time::Duration;

use hospes_policy::RequiredApprovers;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::approval::{Approval, ApprovalCard, ApprovalState, DecisionOptions};
use super::limits::ApprovalLimitExceeded;
use super::queue::{ApprovalQueue, ApprovalQueueState};
use super::queue_error::ApprovalQueueError;
use super::queued_approval::{
    ApprovalHolding, BindingDigest, EditCheck, MAX_WAIT, PersistenceState, QueuedApproval, generate_id,
    program_share_key,
};
use super::session::GrantSession;
use super::waiter::ApprovalWaiter;

/// A new approval for the queue.
pub(crate) struct NewApproval {
    pub(crate) principal: Option<String>,
    /// Groups of the principal, by which edits are checked.
    pub(crate) groups: Vec<String>,
    /// People who decide in place of the principal.
    pub(crate) approvers: Option<RequiredApprovers>,
    pub(crate) application: Option<String>,
    pub(crate) server: String,
    /// Profile for which the server runs, if it has the secrets of one.
    pub(crate) profile: Option<String>,
    /// Profile whose endpoint the application uses.
    pub(crate) endpoint_profile: Option<String>,
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
    /// [`ApprovalWaiter::persist`] must then be called; the approval is hidden until then. In a fleet, an approval whose
    /// requester waits is hidden until it waits.
    pub(crate) returns: bool,
}

impl ApprovalQueue {
    /// Adds an approval to the queue.
    pub(crate) fn submit(&self, asking: NewApproval) -> Result<ApprovalWaiter, ApprovalQueueError> {
        let id = generate_id()?;
        let NewApproval { principal, application, server, profile, offers, card, .. } = asking;
        let NewApproval { timeout, bond, asker, caller, is_weak, definition, target, check, .. } = asking;
        let NewApproval { session, returns, endpoint_profile, groups, approvers, .. } = asking;
        let (now, asked_at) = (Instant::now(), self.now());
        let until = now.checked_add(timeout).unwrap_or(now + MAX_WAIT);
        let span = SignedDuration::try_from(timeout).ok();
        let expires_at = span.and_then(|span| asked_at.checked_add(span).ok()).unwrap_or(Timestamp::MAX);
        let share = program_share_key(caller.as_deref(), application.as_deref());
        let approval = Approval {
            id: id.clone(),
            asked_at,
            expires_at,
            state: ApprovalState::Open,
            decided: None,
            principal,
            groups: if approvers.is_some() { groups.clone() } else { Vec::new() },
            approvers,
            application,
            server,
            profile,
            endpoint_profile,
            node_ended: false,
            session: session.as_ref().filter(|_| offers.session).map(GrantSession::describe),
            offers,
            card,
        };
        let size = serde_json::to_vec(&approval.card).map_or(0, |card| card.len());
        let is_shared = !returns && self.holds_for_fleet();
        let attempt = if is_shared { Some(generate_id()?) } else { None };
        {
            let mut state = self.state();
            // First, so that approvals whose time is over leave their room to new ones.
            self.expire(&mut state);
            state.check_room(&asker, &share, size).map_err(ApprovalQueueError::TooMany)?;
            state.bytes += size;
            state.count += 1;
            let number = state.count;
            let (keeping, holding) = if returns && self.0.approvals.is_some() {
                (PersistenceState::Writing, ApprovalHolding::None)
            } else if is_shared {
                (PersistenceState::Writing, ApprovalHolding::Here)
            } else {
                (PersistenceState::No, ApprovalHolding::None)
            };
            let entry = QueuedApproval {
                size,
                keeping,
                holding,
                attempt,
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
                groups,
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
}

impl ApprovalQueueState {
    /// Returns an error if one more approval of this asker and program, of this size, would exceed a limit.
    fn check_room(
        &self,
        asker: &BindingDigest,
        share: &BindingDigest,
        size: usize,
    ) -> Result<(), ApprovalLimitExceeded> {
        let limits = self.limits;
        if self.entries.len() >= limits.waiting {
            return Err(ApprovalLimitExceeded::Waiting(limits.waiting));
        }
        let of_asker = || self.entries.values().filter(|entry| entry.asker == *asker);
        let free = limits.of_one.saturating_sub(of_asker().count());
        if free == 0 {
            return Err(ApprovalLimitExceeded::OfOne(limits.of_one));
        }
        // A program that already waits leaves as much room as it takes: whoever comes next has a share as well.
        let of_program = of_asker().filter(|entry| entry.share == *share).count();
        if of_program >= free {
            return Err(ApprovalLimitExceeded::OfProgram { waiting: of_program, limit: limits.of_one });
        }
        if self.bytes.saturating_add(size) > limits.bytes {
            return Err(ApprovalLimitExceeded::Bytes(limits.bytes));
        }
        Ok(())
    }
}
