use std::collections::BTreeMap;

use hospes_model::RawJson;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::like_calls::{LikeCallConditions, are_met, listed_parameters};

/// Suggestion of a lasting permission after like answers: it allows the approved values and nothing wider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RepeatedAnswers {
    /// Number of calls that were allowed.
    pub answers: usize,
    /// Conditions on the arguments, as in [`LastingPermission`](super::LastingPermission).
    pub arguments: BTreeMap<String, Value>,
}

impl RepeatedAnswers {
    /// Creates the suggestion from the arguments of allowed calls and of the call that is asked about. Returns `None` if
    /// there are too few like answers, if this call is not like them, or if the schema of the tool does not list its
    /// parameters.
    pub(crate) fn of<'a>(
        allowed: impl Iterator<Item = &'a RawJson>,
        now: &RawJson,
        schema: Option<&RawJson>,
    ) -> Option<Self> {
        let parameters = listed_parameters(schema?)?;
        let read = |json: &RawJson| match json.to_value().ok()? {
            Value::Object(members) => Some(members),
            _ => None,
        };
        let allowed: Vec<Map<String, Value>> = allowed.map(read).collect::<Option<_>>()?;
        let found = LikeCallConditions::find(&allowed, &[], &parameters, Some(&read(now)?))?;
        Some(Self { answers: found.calls, arguments: found.arguments })
    }

    /// Returns true if a call with these arguments would be allowed.
    #[must_use]
    pub fn allows(&self, arguments: &Value) -> bool {
        arguments.as_object().is_some_and(|arguments| are_met(&self.arguments, arguments))
    }
}
