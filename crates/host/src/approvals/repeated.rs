use std::collections::BTreeMap;

use hospes_model::RawJson;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Number of like answers after which a permission is suggested.
const MIN_ANSWERS: usize = 3;

/// Maximum length of a value in a suggested permission, in bytes.
const MAX_VALUE_LENGTH: usize = 200;

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
    /// there are too few answers, or if this call has another value or argument than those.
    pub(crate) fn of<'a>(allowed: impl Iterator<Item = &'a RawJson>, now: &RawJson) -> Option<Self> {
        let read = |json: &RawJson| match json.to_value().ok()? {
            Value::Object(members) => Some(members),
            _ => None,
        };
        let allowed: Vec<Map<String, Value>> = allowed.map(read).collect::<Option<_>>()?;
        let now = read(now)?;
        if allowed.len() < MIN_ANSWERS || now.is_empty() {
            return None;
        }
        let mut arguments = BTreeMap::new();
        for (name, value) in &now {
            let answers: Vec<&Value> = allowed.iter().filter_map(|one| one.get(name)).collect();
            let mut values: Vec<&Value> = Vec::new();
            for answer in &answers {
                if !values.contains(answer) {
                    values.push(answer);
                }
            }
            // An argument that was sometimes missing, or a value that was never approved, is no like answer.
            if answers.len() < allowed.len() || !values.contains(&value) || !is_plain_name(name) {
                return None;
            }
            arguments.insert(name.clone(), condition(&values)?);
        }
        let is_alike = allowed.iter().all(|one| one.len() == now.len());
        is_alike.then_some(Self { answers: allowed.len(), arguments })
    }

    /// Returns true if a call with these arguments would be allowed.
    #[must_use]
    pub fn allows(&self, arguments: &Value) -> bool {
        let Value::Object(members) = arguments else { return false };
        self.arguments.iter().all(|(name, condition)| {
            members.get(name).is_some_and(|value| match condition {
                Value::Array(values) => values.contains(value),
                condition => condition.get("is") == Some(value),
            })
        })
    }
}

/// Returns true for a name that a condition takes as it is: these characters address parts of arguments.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['.', '/', '*'])
}

/// Returns the condition that exactly these values meet.
fn condition(values: &[&Value]) -> Option<Value> {
    match values {
        [Value::String(text)] if text.len() > MAX_VALUE_LENGTH => None,
        [value @ (Value::String(_) | Value::Number(_) | Value::Bool(_))] => Some(json!({ "is": value })),
        several => {
            // A list is one of patterns, so only texts without their characters mean themselves.
            let text = |value: &&Value| match value {
                Value::String(text)
                    if !text.is_empty()
                        && text.len() <= MAX_VALUE_LENGTH
                        && !text.contains(['*', '?', '[', ']', '{', '}', '\\', '!']) =>
                {
                    Some(Value::String(text.clone()))
                }
                _ => None,
            };
            several.iter().map(text).collect::<Option<Vec<_>>>().map(Value::Array)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::grant::GrantConditions;
    use super::*;

    fn suggested(allowed: &[Value], now: &Value) -> Option<BTreeMap<String, Value>> {
        let allowed: Vec<RawJson> = allowed.iter().map(|value| value.clone().into()).collect();
        RepeatedAnswers::of(allowed.iter(), &now.clone().into()).map(|found| found.arguments)
    }

    #[test]
    fn three_like_answers_suggest_what_was_approved_and_nothing_wider() {
        let call = |to: &str| json!({ "to": to, "urgent": false });
        let allowed = [call("a@x.example"), call("b@x.example"), call("a@x.example")];
        assert_eq!(suggested(&allowed[..2], &allowed[0]), None, "two are too few");
        let found = suggested(&allowed, &allowed[1]).unwrap();
        assert_eq!(json!(found), json!({ "to": ["a@x.example", "b@x.example"], "urgent": { "is": false } }));
        let rule = RepeatedAnswers { answers: 3, arguments: found };
        assert!(GrantConditions::new(&rule.arguments, &[]).is_ok(), "it is a rule");
        assert!(rule.allows(&allowed[0]) && rule.allows(&allowed[1]));
        for other in
            [call("c@x.example"), json!({ "to": "a@x.example", "urgent": true }), json!({ "urgent": false })]
        {
            assert!(!rule.allows(&other), "{other}");
            assert_eq!(suggested(&allowed, &other), None, "{other} was not approved");
        }
    }

    #[test]
    fn what_has_no_narrow_pattern_suggests_nothing() {
        let three = |value: &Value| vec![value.clone(), value.clone(), value.clone()];
        for value in [
            json!({}),
            json!({ "a.b": 1 }),
            json!({ "a": { "b": 1 } }),
            json!({ "a": "x".repeat(201) }),
            json!([1]),
        ] {
            assert_eq!(suggested(&three(&value), &value), None, "{value}");
        }
        // A text with characters of a pattern would mean more than itself among several.
        let several = [json!({ "a": "*" }), json!({ "a": "b" }), json!({ "a": "b" })];
        assert_eq!(suggested(&several, &several[1]), None);
        let same = json!({ "a": "*" });
        assert_eq!(
            suggested(&three(&same), &same),
            Some(BTreeMap::from([("a".to_owned(), json!({ "is": "*" }))]))
        );
    }
}
