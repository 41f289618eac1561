//! Ids of tasks as applications see them: `PREFIX__ID`, with the prefix of the server and its own id of the task. After the
//! prefix come the profile of the server (`@PROFILE`), and the node whose process alone knows the task (`~NODE`).

use crate::catalogue::names::SEPARATOR;

/// Character before the profile, if the server runs for one. No prefix has it.
const PROFILE_MARK: char = '@';
/// Character before the node. Neither a prefix nor the name of a profile has it.
const NODE_MARK: char = '~';

/// Parts of the id of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskId<'a> {
    /// Prefix of the server.
    pub(super) prefix: &'a str,
    /// Profile for which the server runs.
    pub(super) profile: Option<&'a str>,
    /// Node that has the process that knows the task; `None` if every node reaches it.
    pub(super) node: Option<&'a str>,
    /// Id of the task at its server.
    pub(super) own: &'a str,
}

impl<'a> TaskId<'a> {
    /// Parses a shown id. The prefix of a name of a tool or prompt is found in the same way.
    pub(super) fn parse(shown: &'a str) -> Option<Self> {
        let (label, own) = shown.split_once(SEPARATOR)?;
        let (label, node) = split_at_mark(label, NODE_MARK);
        let (prefix, profile) = split_at_mark(label, PROFILE_MARK);
        Some(Self { prefix, profile, node, own })
    }

    /// Returns the id as it is shown.
    pub(super) fn shown(&self) -> String {
        let mut shown = self.prefix.to_owned();
        for (mark, part) in [(PROFILE_MARK, self.profile), (NODE_MARK, self.node)] {
            if let Some(part) = part {
                shown.push(mark);
                shown.push_str(part);
            }
        }
        shown.push_str(SEPARATOR);
        shown.push_str(self.own);
        shown
    }
}

fn split_at_mark(label: &str, mark: char) -> (&str, Option<&str>) {
    match label.split_once(mark) {
        Some((before, after)) => (before, Some(after)),
        None => (label, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_the_parts_it_was_made_of() {
        for (profile, node, shown) in [
            (None, None, "jobs__a__b~c@d"),
            (Some("work"), None, "jobs@work__a__b~c@d"),
            (None, Some("0af3"), "jobs~0af3__a__b~c@d"),
            (Some("work"), Some("0af3"), "jobs@work~0af3__a__b~c@d"),
        ] {
            let id = TaskId { prefix: "jobs", profile, node, own: "a__b~c@d" };
            assert_eq!(id.shown(), shown);
            assert_eq!(TaskId::parse(shown), Some(id));
        }
        assert_eq!(TaskId::parse("jobs_1"), None);
    }
}
