//! Approved calls whose servers request input: their next round is approved too.

use std::collections::HashMap;
use std::time::Duration;

use hospes_model::RawJson;
use hospes_store::DecisionBasis;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::approval_binding::ApprovalBinding;
use super::planned_call::RunningStep;
use crate::approvals::{ApprovalLimitExceeded, ApprovalQueueError, generate_id};

/// Key of the round's step that marks its call as approved.
pub(super) const APPROVED_STEP: &str = "hospes.approved";

/// Maximum number of approved calls that wait for the answer to a server's question.
const MAX_RUNNING: usize = 4096;

/// Lifetime of such an approval; longer than any call of an older server is kept waiting.
const APPROVAL_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Binding of the approved call, and the arguments that replace the original ones.
#[derive(Debug)]
pub(super) struct ApprovedCall {
    pub(super) bond: ApprovalBinding,
    pub(super) edited: Option<RawJson>,
    /// True if the person was shown a concern: data of the session that could be sent out, or what the guard found.
    pub(super) flow: bool,
    /// Basis of the approval.
    pub(super) basis: DecisionBasis,
    /// The step that the call is, if it was approved with a plan.
    pub(super) step: Option<RunningStep>,
}

#[derive(Debug, Default)]
pub(super) struct ApprovedRounds(Mutex<HashMap<String, (ApprovedCall, Instant)>>);

impl ApprovedRounds {
    /// Creates a token with which the next round is approved.
    pub(super) fn issue_token(&self, approved: ApprovedCall) -> Result<String, ApprovalQueueError> {
        let (id, now) = (generate_id()?, Instant::now());
        let mut running = self.0.lock();
        if running.len() >= MAX_RUNNING {
            // Overdue ones go only when they take up room; `resume` looks at the time itself.
            running.retain(|_, (_, until)| *until > now);
        }
        if running.len() >= MAX_RUNNING {
            return Err(ApprovalQueueError::TooMany(ApprovalLimitExceeded::Running(MAX_RUNNING)));
        }
        running.insert(id.clone(), (approved, now + APPROVAL_LIFETIME));
        Ok(id)
    }

    /// Removes an approved call that was abandoned.
    pub(super) fn forget(&self, id: &str) {
        self.0.lock().remove(id);
    }

    /// Redeems a token. Returns the approved call.
    pub(super) fn redeem_token(
        &self,
        id: &str,
        bond: &ApprovalBinding,
    ) -> Result<ApprovedCall, ApprovalQueueError> {
        // Removed before it is looked at: the word is good for one try, and a wrong one is a try.
        let given = self.0.lock().remove(id);
        match given {
            Some((_, until)) if until <= Instant::now() => Err(ApprovalQueueError::Expired),
            Some((approved, _)) if approved.bond == *bond => Ok(approved),
            Some(_) => Err(ApprovalQueueError::Changed),
            None => Err(ApprovalQueueError::Expired),
        }
    }
}
