//! A person who is signed in.

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
}

impl TeamPerson {
    pub(crate) fn has(&self, role: TeamRole) -> bool {
        self.roles.contains(&role)
    }

    /// Returns true if the person may read what others have done.
    pub(crate) fn reads_everybody(&self) -> bool {
        self.has(TeamRole::Admin) || self.has(TeamRole::Auditor)
    }

    /// Returns true if something of this principal is the person's own. What has no principal is nobody's.
    pub(crate) fn owns(&self, principal: Option<&str>) -> bool {
        principal == Some(self.principal.as_str())
    }
}
