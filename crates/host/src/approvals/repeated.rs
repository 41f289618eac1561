use hospes_model::RawJson;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::like_calls::{LikeCallConditions, are_met};
use super::suggested_permission::SuggestedPermission;

/// Suggestion of a lasting permission after like answers: it allows the approved values and nothing wider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RepeatedAnswers {
    /// Number of calls that were allowed.
    pub answers: usize,
    /// Limits of the permission.
    #[serde(flatten)]
    pub permission: SuggestedPermission,
}

impl RepeatedAnswers {
    /// Creates the suggestion from the arguments of allowed calls and of the call that is asked about. Returns `None` if
    /// there are too few like answers, or if this call is not like them.
    pub(crate) fn of<'a>(allowed: impl Iterator<Item = &'a RawJson>, now: &RawJson) -> Option<Self> {
        let read = |json: &RawJson| match json.to_value().ok()? {
            Value::Object(members) => Some(members),
            _ => None,
        };
        let allowed: Vec<Map<String, Value>> = allowed.map(read).collect::<Option<_>>()?;
        let found = LikeCallConditions::find(&allowed, &[], Some(&read(now)?))?;
        Some(Self { answers: found.calls, permission: found.permission })
    }

    /// Returns true if a call with these arguments would be allowed.
    #[must_use]
    pub fn allows(&self, arguments: &Value) -> bool {
        arguments.as_object().is_some_and(|arguments| are_met(&self.permission, arguments))
    }
}
