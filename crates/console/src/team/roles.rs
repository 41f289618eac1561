//! Roles of people, from the groups of their claims.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use hospes_auth::{GroupsClaim, ReadGroupsError};
use serde::Serialize;
use serde_json::{Map, Value};

/// Maximum length of the name of a group that a rule of the policy can name, in bytes.
const MAX_GROUP_NAME: usize = hospes_policy::RequiredApprovers::MAX_GROUP_LENGTH;

/// Role of a person at a console.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TeamRole {
    /// Sees and decides approvals of own calls, and sees own permissions, sessions and activity.
    Member,
    /// Sees and decides approvals for which a rule of the policy names one of their groups, and none of their own.
    Approver,
    /// Sees servers, definitions, rules and everybody's record, besides what a member does.
    Admin,
    /// Reads everybody's record, without arguments of calls.
    Auditor,
}

/// There is no role of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no role is named `{0}`: expected `admin`, `approver`, `auditor` or `member`")]
#[non_exhaustive]
pub struct InvalidTeamRole(pub String);

impl TeamRole {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Member, Self::Approver, Self::Admin, Self::Auditor];

    /// Returns its name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Approver => "approver",
            Self::Admin => "admin",
            Self::Auditor => "auditor",
        }
    }
}

impl FromStr for TeamRole {
    type Err = InvalidTeamRole;

    fn from_str(name: &str) -> Result<Self, InvalidTeamRole> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == name);
        found.ok_or_else(|| InvalidTeamRole(name.to_owned()))
    }
}

impl fmt::Display for TeamRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Roles of one person.
pub(crate) type RoleSet = BTreeSet<TeamRole>;

/// Groups that have each role, and the claim that has the groups of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamRoles {
    claim: GroupsClaim,
    groups: BTreeMap<TeamRole, Vec<String>>,
}

/// Reasons that a person has no role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoRole {
    /// Groups of which none has a role.
    NoGroup,
    /// The claim is missing.
    NoClaim,
    /// The provider sends a reference instead of the groups, or too many of them.
    Overage,
}

impl TeamRoles {
    /// Creates the roles of these groups, which are values of this claim.
    #[must_use]
    pub fn new(claim: impl Into<String>, groups: impl IntoIterator<Item = (TeamRole, Vec<String>)>) -> Self {
        Self { claim: GroupsClaim::new(claim), groups: groups.into_iter().collect() }
    }

    /// Returns the name of the claim.
    pub(crate) fn claim(&self) -> &str {
        self.claim.name()
    }

    /// Returns the groups of a person who has a role. A rule of the policy may name groups without one, except those with
    /// a name that no rule can have.
    ///
    /// # Errors
    /// If no group has a role, why.
    pub(crate) fn known_groups(&self, claims: &Map<String, Value>) -> Result<Vec<String>, NoRole> {
        let is_known = |group: &String| self.groups.values().flatten().any(|known| known == group);
        let may_be_named = |group: &String| group.len() <= MAX_GROUP_NAME || is_known(group);
        let groups = self.claim.read(claims).map_err(|error| match error {
            ReadGroupsError::Overage | ReadGroupsError::TooMany => NoRole::Overage,
            _ => NoRole::NoClaim,
        })?;
        if !groups.iter().any(is_known) {
            return Err(NoRole::NoGroup);
        }
        Ok(groups.into_iter().filter(may_be_named).collect())
    }

    /// Returns the roles of these groups.
    pub(crate) fn of(&self, groups: &[String]) -> RoleSet {
        let has = |known: &Vec<String>| known.iter().any(|group| groups.contains(group));
        self.groups.iter().filter(|(_, known)| has(known)).map(|(role, _)| *role).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn roles_come_of_whole_groups_and_of_nothing_else() {
        let roles = TeamRoles::new(
            "groups",
            [
                (TeamRole::Member, vec!["staff".to_owned(), "it".to_owned()]),
                (TeamRole::Admin, vec!["it".to_owned()]),
            ],
        );
        let of = |claims: Value| {
            let known = roles.known_groups(claims.as_object().unwrap());
            known.map(|groups| roles.of(&groups).into_iter().map(TeamRole::as_str).collect::<Vec<_>>())
        };
        assert_eq!(of(json!({ "groups": ["it", "x"] })), Ok(vec!["member", "admin"]));
        assert_eq!(of(json!({ "groups": "staff" })), Ok(vec!["member"]));
        let claims = json!({ "groups": ["staff", "finance", "x".repeat(257)] });
        let kept = roles.known_groups(claims.as_object().unwrap()).unwrap();
        assert_eq!(kept, ["staff", "finance"], "a rule may name the second");
        for none in [json!(["IT"]), json!(["it "]), json!([]), json!(["admin"]), json!([["it"]])] {
            assert_eq!(of(json!({ "groups": none })), Err(NoRole::NoGroup), "{none}");
        }
        for none in [json!({}), json!({ "groups": { "it": true } }), json!({ "roles": ["it"] })] {
            assert_eq!(of(none), Err(NoRole::NoClaim));
        }
        assert_eq!(of(json!({ "_claim_names": { "groups": "src1" } })), Err(NoRole::Overage));
    }
}
