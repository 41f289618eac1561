//! People who decide about a call in place of the person whose call it is: the keys `approver` and `not_self`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::document::quoted;

/// Maximum number of groups of one rule, so that a message can name all of them.
const MAX_GROUPS: usize = 16;

/// People who decide about a call, by their groups. Nobody else does, and the person whose call it is decides only as one
/// of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequiredApprovers {
    /// Lists of groups, at most one of each layer. Never empty, unless a stored text says so; then nobody decides.
    groups: Vec<Vec<String>>,
    /// True if the person whose call it is never decides.
    #[serde(default)]
    not_self: bool,
}

impl RequiredApprovers {
    /// Maximum length of the name of a group, in bytes.
    pub const MAX_GROUP_LENGTH: usize = 256;

    /// Creates the approvers of a rule: the members of these groups.
    ///
    /// # Errors
    /// If a name cannot be that of a group, or there are too many.
    pub(crate) fn new(groups: &[String], not_self: bool) -> Result<Self, String> {
        if groups.len() > MAX_GROUPS {
            return Err(format!("a rule has at most {MAX_GROUPS} groups"));
        }
        for group in groups {
            if group.trim().is_empty() || group.len() > Self::MAX_GROUP_LENGTH {
                let most = Self::MAX_GROUP_LENGTH;
                return Err(format!("expected names of groups, with at most {most} bytes each"));
            }
            // Such a pattern would name nobody, and each call would wait in vain.
            if group.contains(['*', '?', '{', '[']) {
                return Err(format!(
                    "`{}` is a pattern, and this key has names of groups: name each group",
                    quoted(group)
                ));
            }
        }
        Ok(Self { groups: vec![groups.to_vec()], not_self })
    }

    /// Returns the approvers that both allow: a person is in a group of each.
    pub(crate) fn and(mut self, other: Self) -> Self {
        for groups in other.groups {
            if !self.groups.contains(&groups) {
                self.groups.push(groups);
            }
        }
        self.not_self |= other.not_self;
        self
    }

    /// Returns the groups by which a person in `groups` decides. `None` if the person does not. `is_requester` is true for
    /// the person whose call it is.
    #[must_use]
    pub fn deciding_groups(&self, groups: &[String], is_requester: bool) -> Option<Vec<String>> {
        if self.groups.is_empty() || is_requester && self.not_self {
            return None;
        }
        let mut deciding: Vec<String> = Vec::new();
        for named in &self.groups {
            let found = named.iter().find(|group| groups.contains(group))?;
            if !deciding.contains(found) {
                deciding.push(found.clone());
            }
        }
        Some(deciding)
    }

    /// Returns true if the person whose call it is never decides.
    #[must_use]
    pub fn excludes_requester(&self) -> bool {
        self.not_self
    }
}

/// Names the groups, to be read after "a member of": `` `finance` or `board`, and of `legal` ``.
impl fmt::Display for RequiredApprovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, groups) in self.groups.iter().enumerate() {
            let names: Vec<String> = groups.iter().map(|group| format!("`{}`", quoted(group))).collect();
            let before = if index == 0 { "" } else { ", and of " };
            write!(f, "{before}{}", names.join(" or "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_person_decides_by_a_group_of_each_layer() {
        let one = RequiredApprovers::new(&groups(&["finance", "board"]), false).unwrap();
        assert_eq!(one.deciding_groups(&groups(&["staff", "board"]), true), Some(groups(&["board"])));
        for other in [&["Finance"][..], &["finance "], &["staff"], &[]] {
            assert_eq!(one.deciding_groups(&groups(other), false), None, "{other:?}");
        }
        let both = one.clone().and(RequiredApprovers::new(&groups(&["legal"]), true).unwrap());
        assert_eq!(both.deciding_groups(&groups(&["finance"]), false), None);
        assert_eq!(both.deciding_groups(&groups(&["legal"]), false), None);
        let all = groups(&["legal", "finance"]);
        assert_eq!(both.deciding_groups(&all, false), Some(groups(&["finance", "legal"])));
        assert_eq!(both.deciding_groups(&all, true), None, "the stricter of both");
        assert_eq!(both.to_string(), "`finance` or `board`, and of `legal`");
        assert_eq!(one.clone().and(one.clone()), one);
    }

    #[test]
    fn a_stored_text_without_groups_lets_nobody_decide() {
        let none: RequiredApprovers = serde_json::from_str(r#"{"groups":[]}"#).unwrap();
        assert_eq!(none.deciding_groups(&groups(&["finance"]), false), None);
        assert!(serde_json::from_str::<RequiredApprovers>("{}").is_err());
    }
}
