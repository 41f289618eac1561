//! Conditions with which the editor of a lasting permission starts.

use std::collections::BTreeMap;

use hospes_policy::CallArguments;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Maximum length of a text that a condition repeats, in bytes.
pub(super) const MAX_VALUE_LENGTH: usize = 200;

/// Suggested limits of a lasting permission, with the keys of a [`LastingPermission`](super::LastingPermission). They
/// never allow arguments that the person has not seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SuggestedPermission {
    /// Conditions by the names of arguments, as in a rule.
    #[serde(default)]
    pub arguments: BTreeMap<String, Value>,
    /// Names of further arguments that a call may have, with any value. Default: none.
    #[serde(default)]
    pub other_arguments: Vec<String>,
}

impl SuggestedPermission {
    /// Suggests a permission that is no wider than it has to be: the folder of a path, the value of anything else that is
    /// short, and any value for the rest of the given arguments.
    pub(crate) fn of(arguments: &CallArguments) -> Self {
        let mut suggested = Self::default();
        for (name, value) in arguments.as_map() {
            match condition(value).filter(|_| is_plain_name(name)) {
                Some(condition) => {
                    suggested.arguments.insert(name.clone(), condition);
                }
                None => suggested.other_arguments.push(name.clone()),
            }
        }
        suggested
    }
}

/// Returns the condition that is suggested for a value, if there is a narrow one.
fn condition(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) if text.len() > MAX_VALUE_LENGTH => None,
        Value::String(text) if text.starts_with('/') && !text.trim_matches('/').is_empty() => {
            let folder = text.trim_end_matches('/').rsplit_once('/').map_or("", |(folder, _)| folder);
            let folder = folder.trim_end_matches('/');
            // The folder of what lies directly below `/` is everything, so the path itself is suggested.
            Some(if folder.is_empty() { json!({ "is": text }) } else { json!({ "under": folder }) })
        }
        // A policy file has no larger integers.
        Value::Number(number) if number.is_u64() && !number.is_i64() => None,
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Some(json!({ "is": value })),
        _ => None,
    }
}

/// Returns true for a name that a condition takes as it is: these characters address parts of arguments.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['.', '/', '*'])
}

#[cfg(test)]
mod tests {
    use hospes_policy::{PolicyAction, PolicyRequest, ToolEffectSet};
    use jiff::Timestamp;

    use super::super::grant::GrantConditions;
    use super::*;

    #[test]
    fn a_suggestion_fits_the_call_and_none_with_arguments_that_nobody_has_seen() {
        let shown = json!({ "path": "/srv/a/b.txt", "count": 3, "deep": { "x": 1 }, "a.b": "x", "long": "x".repeat(201),
            "large": u64::MAX });
        let suggested = SuggestedPermission::of(&CallArguments::read(&shown.to_string()).unwrap());
        assert_eq!(
            json!(suggested.arguments),
            json!({ "path": { "under": "/srv/a" }, "count": { "is": 3 } })
        );
        assert_eq!(suggested.other_arguments, ["deep", "a.b", "long", "large"]);
        let conditions =
            GrantConditions::new(&suggested.arguments, Some(&suggested.other_arguments), &[]).unwrap();
        let is_granted = |call: &Value| {
            let arguments = CallArguments::read(&call.to_string()).unwrap();
            let action = PolicyAction::tool("t", ToolEffectSet::unknown(), &arguments);
            conditions.fit(&PolicyRequest::new("s", action), Timestamp::UNIX_EPOCH)
        };
        assert!(is_granted(&shown) && is_granted(&json!({ "path": "/srv/a/c", "count": 3 })));
        for (name, value) in [("overwrite", json!(true)), ("overwrite", json!(null)), ("Long", json!("x"))] {
            let mut call = json!({ "path": "/srv/a/b.txt", "count": 3 });
            call[name] = value;
            assert!(!is_granted(&call), "{call}");
        }
    }

    #[test]
    fn the_folder_of_everything_is_never_suggested() {
        for (path, suggested) in [
            ("/", json!({ "is": "/" })),
            ("//", json!({ "is": "//" })),
            ("/x", json!({ "is": "/x" })),
            ("//x", json!({ "is": "//x" })),
            ("///x//", json!({ "is": "///x//" })),
            ("//x/y", json!({ "under": "//x" })),
            ("/x//y/", json!({ "under": "/x" })),
        ] {
            assert_eq!(condition(&json!(path)), Some(suggested), "{path}");
        }
    }

    #[test]
    fn a_call_without_arguments_suggests_that_there_are_none() {
        let suggested = SuggestedPermission::of(&CallArguments::none());
        let conditions = GrantConditions::new(&suggested.arguments, Some(&suggested.other_arguments), &[]);
        let is_granted = |arguments: &str| {
            let arguments = CallArguments::read(arguments).unwrap();
            let action = PolicyAction::tool("t", ToolEffectSet::unknown(), &arguments);
            conditions.as_ref().unwrap().fit(&PolicyRequest::new("s", action), Timestamp::UNIX_EPOCH)
        };
        assert!(is_granted("{}") && !is_granted(r#"{"all":true}"#));
    }
}
