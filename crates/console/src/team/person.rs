//! A person who is signed in.

use hospes_host::deciders::TeamDecider;

use super::roles::{RoleSet, TeamRole};

/// A person who is signed in with a browser.
#[derive(Clone, Debug)]
pub(crate) struct TeamPerson {
    /// Id of the session, which is not secret.
    pub(crate) session: String,
    /// Hash of the secret of the session.
    pub(crate) session_key: String,
    /// Name of the principal, as the person's calls have it.
    pub(crate) principal: String,
    /// Display name. It identifies nobody.
    pub(crate) name: String,
    pub(crate) roles: RoleSet,
    /// Groups, as the provider has sent them last.
    pub(crate) groups: Vec<String>,
}

impl TeamPerson {
    pub(crate) fn has(&self, role: TeamRole) -> bool {
        self.roles.contains(&role)
    }

    /// Returns true if the person may read what others have done.
    pub(crate) fn reads_everybody(&self) -> bool {
        self.has(TeamRole::Admin) || self.has(TeamRole::Auditor)
    }

    /// Returns the person as somebody who reads and decides approvals.
    pub(crate) fn decider(&self) -> TeamDecider {
        let decides_own = self.has(TeamRole::Member) || self.has(TeamRole::Admin);
        TeamDecider::new(self.principal.clone(), self.groups.clone(), decides_own)
    }

    /// Returns true if something of this principal is the person's own. What has no principal is nobody's.
    pub(crate) fn owns(&self, principal: Option<&str>) -> bool {
        principal == Some(self.principal.as_str())
    }
}
