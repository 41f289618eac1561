//! Approvals as they exist for one reader: a person of a team, or without one those at the machine of the host.

use super::approval::Approval;
use super::decision::{ApprovalDecision, DecideError};
use super::queue::{ApprovalQueue, ApprovalQueueState};
use crate::deciders::{ApproverRecord, TeamDecider};

/// Rights of a reader at an approval that exists for them. They include a denial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalRights {
    /// True if the call is one of the reader's own.
    pub is_own: bool,
    /// True if the reader can allow the call.
    pub may_allow: bool,
    /// The reader as an approver, if the call needs one and the reader is one.
    pub approver: Option<ApproverRecord>,
}

impl Approval {
    /// Returns the rights of a person of a team, or without one of those who are at the machine of the host: its person
    /// and programs. `None` if the approval does not exist for the person.
    ///
    /// An approver has to be signed in, so those at the machine deny a call that needs one, and do not allow it.
    #[must_use]
    pub fn rights_of(&self, person: Option<&TeamDecider>) -> Option<ApprovalRights> {
        let (requester, approvers) = (self.principal.as_deref(), self.approvers.as_ref());
        let approver = person.zip(approvers).and_then(|(person, named)| person.as_approver(named, requester));
        let is_own = person.is_none_or(|person| person.owns(requester));
        let may_allow = approver.is_some() || approvers.is_none();
        (is_own || approver.is_some()).then_some(ApprovalRights { is_own, may_allow, approver })
    }

    /// Checks that a reader may make this decision. Returns the approver whose permission it is, if one is needed.
    pub(super) fn check_reader(
        &self,
        decision: &ApprovalDecision,
        person: Option<&TeamDecider>,
    ) -> Result<Option<ApproverRecord>, DecideError> {
        let rights = self.rights_of(person).ok_or(DecideError::Unknown)?;
        match (&self.approvers, decision) {
            (Some(approvers), ApprovalDecision::Allow { .. }) if !rights.may_allow => {
                Err(DecideError::NotApprover(approvers.to_string()))
            }
            (_, ApprovalDecision::Allow { .. }) => Ok(rights.approver),
            (_, ApprovalDecision::Deny { .. }) => Ok(None),
        }
    }
}

impl ApprovalQueue {
    /// Returns the pending approvals that exist for a person of a team, oldest first. Without one: all of them.
    #[must_use]
    pub fn pending_of(&self, person: Option<&TeamDecider>) -> Vec<Approval> {
        let mut pending = self.pending();
        pending.retain(|approval| approval.rights_of(person).is_some());
        pending
    }

    /// Returns the approvals that were finished lately and exist for a person of a team, the newest first. Without one: all
    /// of them.
    #[must_use]
    pub fn recent_of(&self, person: Option<&TeamDecider>) -> Vec<Approval> {
        let mut recent = self.recent();
        recent.retain(|approval| approval.rights_of(person).is_some());
        recent
    }

    /// Returns a pending or recently closed approval, if it exists for a person of a team. Without one: for anybody.
    #[must_use]
    pub fn get_of(&self, id: &str, person: Option<&TeamDecider>) -> Option<Approval> {
        self.get(id).filter(|approval| approval.rights_of(person).is_some())
    }
}

impl ApprovalQueueState {
    /// Returns true if there is an approval with this id that exists for a person of a team, pending or not.
    pub(super) fn exists_for(&self, id: &str, person: Option<&TeamDecider>) -> bool {
        let pending = self.entries.get(id).map(|entry| &entry.approval);
        let done = || self.done.iter().map(|(approval, _)| approval).find(|approval| approval.id == id);
        pending.or_else(done).is_some_and(|approval| approval.rights_of(person).is_some())
    }
}
