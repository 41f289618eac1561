//! Conditions that answers to like calls suggest: they allow the approved calls and nothing wider.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::suggested_permission::{MAX_VALUE_LENGTH, SuggestedPermission, is_plain_name};

/// Number of like answers after which a permission is suggested.
const MIN_ANSWERS: usize = 3;

/// Maximum number of different values of one argument.
const MAX_VALUES: usize = 8;

/// Conditions on the arguments of a tool that the approved calls meet, and no call with other arguments.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LikeCallConditions {
    /// Number of allowed calls that meet the conditions.
    pub calls: usize,
    /// Permission for these calls. Its conditions are `{ "is": VALUE }` or a list of texts, and it allows no other
    /// arguments.
    pub permission: SuggestedPermission,
}

impl LikeCallConditions {
    /// Finds the conditions that most of the allowed calls meet, at least three, and none of the denied ones. At most one
    /// argument has several values, so that no combination is allowed that was not. The call `including` meets the
    /// conditions, if it is given.
    #[must_use]
    pub fn find(
        allowed: &[Map<String, Value>],
        denied: &[Map<String, Value>],
        including: Option<&Map<String, Value>>,
    ) -> Option<Self> {
        let names: BTreeSet<&String> = allowed.iter().flat_map(Map::keys).collect();
        let mut best: Option<Self> = None;
        // Without a varying argument first: of conditions that allow as much, the narrower ones stay.
        for varying in std::iter::once(None).chain(names.iter().map(|name| Some(name.as_str()))) {
            for group in groups(allowed, varying) {
                let calls = group.len();
                if calls < MIN_ANSWERS || best.as_ref().is_some_and(|best| best.calls >= calls) {
                    continue;
                }
                let Some(permission) = permission(&group, varying) else { continue };
                let fits = |call: &Map<String, Value>| are_met(&permission, call);
                if !denied.iter().any(fits) && including.is_none_or(fits) {
                    best = Some(Self { calls, permission });
                }
            }
        }
        best
    }
}

/// Returns true if the arguments of a call meet conditions that [`LikeCallConditions::find`] has made.
pub(super) fn are_met(permission: &SuggestedPermission, arguments: &Map<String, Value>) -> bool {
    let conditions = &permission.arguments;
    let has_others = arguments.keys().any(|name| !conditions.contains_key(name));
    !has_others
        && conditions.iter().all(|(name, condition)| {
            let given = arguments.get(name);
            match condition {
                Value::Array(values) => given.is_some_and(|value| values.contains(value)),
                condition => given.is_some() && condition.get("is") == given,
            }
        })
}

/// Sorts calls into those that are equal but for one argument.
fn groups<'a>(calls: &'a [Map<String, Value>], varying: Option<&str>) -> Vec<Vec<&'a Map<String, Value>>> {
    let mut groups: BTreeMap<String, Vec<&Map<String, Value>>> = BTreeMap::new();
    for call in calls {
        if varying.is_some_and(|name| !call.contains_key(name)) {
            continue;
        }
        // Sorted, because two applications may write the same arguments in another order.
        let rest: BTreeMap<&String, &Value> =
            call.iter().filter(|(name, _)| varying != Some(name.as_str())).collect();
        let key = serde_json::to_string(&rest).unwrap_or_default();
        groups.entry(key).or_default().push(call);
    }
    groups.into_values().collect()
}

/// Returns the permission for the calls of a group and no others, or `None` if there are no narrow conditions.
fn permission(group: &[&Map<String, Value>], varying: Option<&str>) -> Option<SuggestedPermission> {
    let first = group.first()?;
    let mut permission = SuggestedPermission::default();
    for (name, value) in *first {
        let condition = match varying == Some(name.as_str()) {
            true => one_of(group.iter().map(|call| &call[name]))?,
            false => json!({ "is": Some(value).filter(|value| is_exact(value))? }),
        };
        permission.arguments.insert(name.clone(), condition);
    }
    permission.arguments.keys().all(|name| is_plain_name(name)).then_some(permission)
}

/// Returns true for a value that `is` compares without a doubt.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() <= MAX_VALUE_LENGTH,
        Value::Bool(_) => true,
        Value::Number(number) => number.as_i64().is_some(),
        _ => false,
    }
}

/// Returns the condition that exactly these texts meet.
fn one_of<'a>(values: impl Iterator<Item = &'a Value>) -> Option<Value> {
    // A list is one of patterns, so only texts without their characters mean themselves.
    let is_plain = |text: &&str| {
        !text.is_empty()
            && text.len() <= MAX_VALUE_LENGTH
            && !text.contains(['*', '?', '[', ']', '{', '}', '\\', '!'])
    };
    let texts: BTreeSet<&str> = values.map(|value| value.as_str().filter(is_plain)).collect::<Option<_>>()?;
    (texts.len() <= MAX_VALUES).then(|| json!(texts))
}

#[cfg(test)]
mod tests {
    use hospes_model::RawJson;
    use hospes_policy::{CallArguments, PolicyAction, PolicyRequest, ToolEffectSet};
    use jiff::Timestamp;

    use super::super::grant::GrantConditions;
    use super::super::repeated::RepeatedAnswers;
    use super::*;

    fn suggested(allowed: &[Value], now: &Value) -> Option<RepeatedAnswers> {
        let allowed: Vec<RawJson> = allowed.iter().map(|value| value.clone().into()).collect();
        RepeatedAnswers::of(allowed.iter(), &now.clone().into())
    }

    /// The decision of the grant that the suggestion becomes, and of the count that the card shows.
    fn is_granted(suggestion: &RepeatedAnswers, call: &Value) -> bool {
        let SuggestedPermission { arguments, other_arguments } = &suggestion.permission;
        let grant = GrantConditions::new(arguments, Some(other_arguments), &[]).unwrap();
        let arguments = CallArguments::read(&call.to_string()).unwrap();
        let action = PolicyAction::tool("send", ToolEffectSet::unknown(), &arguments);
        let is_granted = grant.fit(&PolicyRequest::new("mail", action), Timestamp::now());
        assert_eq!(suggestion.allows(call), is_granted, "the card counts what the grant decides: {call}");
        is_granted
    }

    #[test]
    fn a_suggestion_grants_the_approved_calls_and_none_with_more_arguments() {
        let call = |to: &str| json!({ "to": to, "body": "hi", "urgent": false });
        let allowed = [call("a@x.example"), call("b@x.example"), call("a@x.example")];
        assert_eq!(suggested(&allowed[..2], &allowed[0]), None, "two are too few");
        let found = suggested(&allowed, &allowed[1]).unwrap();
        assert_eq!(found.answers, 3);
        assert!(is_granted(&found, &allowed[0]) && is_granted(&found, &allowed[1]));
        let with = |name: &str, value: Value| {
            let mut call = call("a@x.example");
            call[name] = value;
            call
        };
        for other in [
            with("bcc", json!("evil@x.example")),
            with("bcc", json!(null)),
            with("bcc", json!([])),
            with("urgent", json!(true)),
            with("body", json!("other")),
            call("c@x.example"),
            json!({ "to": "a@x.example", "body": "hi" }),
            json!({}),
        ] {
            assert!(!is_granted(&found, &other), "{other}");
            assert_eq!(suggested(&allowed, &other), None, "{other} was not approved");
        }
    }

    #[test]
    fn no_combination_of_values_is_granted_that_was_not_approved() {
        let call = |to: &str, body: &str| json!({ "to": to, "body": body });
        let allowed = [call("a", "x"), call("b", "y"), call("a", "y")];
        assert_eq!(suggested(&allowed, &allowed[0]), None);
        // Three that differ in one argument are enough, whatever else was approved.
        let allowed = [call("a", "x"), call("b", "y"), call("a", "y"), call("c", "y")];
        let found = suggested(&allowed, &allowed[1]).unwrap();
        assert!(is_granted(&found, &call("c", "y")) && !is_granted(&found, &call("b", "x")));
        assert_eq!(suggested(&allowed, &allowed[0]), None, "this one is not among them");
    }

    #[test]
    fn calls_without_arguments_suggest_a_permission_for_such_calls() {
        let none = json!({});
        let found = suggested(&vec![none.clone(); 3], &none).unwrap();
        assert!(is_granted(&found, &none) && !is_granted(&found, &json!({ "all": true })));
    }

    #[test]
    fn what_has_no_narrow_pattern_suggests_nothing() {
        for value in [
            json!({ "to": { "b": 1 } }),
            json!({ "to": "x".repeat(201) }),
            json!({ "to": 1.5 }),
            json!({ "to": null }),
            json!({ "a.b": 1 }),
            json!([1]),
        ] {
            assert_eq!(suggested(&vec![value.clone(); 3], &value), None, "{value}");
        }
        // A text with characters of a pattern would mean more than itself among several.
        let several = [json!({ "to": "*" }), json!({ "to": "b" }), json!({ "to": "b" })];
        assert_eq!(suggested(&several, &several[1]), None);
        let same = json!({ "to": "*" });
        let found = suggested(&vec![same.clone(); 3], &same).unwrap();
        assert!(is_granted(&found, &same) && !is_granted(&found, &json!({ "to": "b" })));
    }
}
