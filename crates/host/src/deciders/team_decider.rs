//! A person of a team who reads and decides approvals.

use hospes_policy::RequiredApprovers;
use serde::{Deserialize, Serialize};

/// A person of a team who reads and decides approvals, as of the claims of the person's session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamDecider {
    /// Principal, as the person's calls have it.
    principal: String,
    groups: Vec<String>,
    /// True if the person decides about calls of their own.
    decides_own: bool,
}

/// Approver who has allowed a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApproverRecord {
    /// Principal of the approver.
    pub principal: String,
    /// Groups by which the approver has decided.
    pub groups: Vec<String>,
}

impl TeamDecider {
    /// Creates a person with this principal and these groups.
    #[must_use]
    pub fn new(principal: impl Into<String>, groups: Vec<String>, decides_own: bool) -> Self {
        Self { principal: principal.into(), groups, decides_own }
    }

    /// Returns true if a call of `requester` is one of the person's own, about which the person decides.
    pub(crate) fn owns(&self, requester: Option<&str>) -> bool {
        self.decides_own && requester == Some(self.principal.as_str())
    }

    /// Returns the record of the person as an approver of a call of `requester`. `None` if the person is none.
    pub(crate) fn as_approver(
        &self,
        approvers: &RequiredApprovers,
        requester: Option<&str>,
    ) -> Option<ApproverRecord> {
        let groups = deciding_groups(approvers, requester, (&self.principal, &self.groups))?;
        Some(ApproverRecord { principal: self.principal.clone(), groups })
    }
}

impl ApproverRecord {
    /// Returns true if this is one of the approvers of a call of `requester`. A decision may have been made by a node of a
    /// fleet that does not know approvers.
    pub(crate) fn is_one_of(&self, approvers: &RequiredApprovers, requester: Option<&str>) -> bool {
        deciding_groups(approvers, requester, (&self.principal, &self.groups)).is_some()
    }
}

/// Returns the groups by which a person with this principal and these groups decides about a call of `requester`.
fn deciding_groups(
    approvers: &RequiredApprovers,
    requester: Option<&str>,
    (principal, groups): (&str, &[String]),
) -> Option<Vec<String>> {
    let is_requester = match requester {
        Some(requester) => requester == principal,
        // It may be anybody's.
        None => approvers.excludes_requester(),
    };
    approvers.deciding_groups(groups, is_requester)
}
