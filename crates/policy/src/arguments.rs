use std::collections::HashSet;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::pattern::AmbiguityBias;

/// Arguments of a call, parsed strictly so that they have only one interpretation.
///
/// Parsers disagree about an object with a duplicate key, so the server might use another value than the rules have
/// seen. The same holds for keys that differ only in case, because some parsers ignore case. Such arguments are
/// rejected.
#[derive(Clone, Debug, PartialEq)]
pub struct CallArguments(Map<String, Value>);

/// Error for arguments that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the arguments are ambiguous: {0}")]
pub struct CallArgumentsError(String);

impl CallArguments {
    /// Returns the arguments of a call without any.
    #[must_use]
    pub fn none() -> Self {
        Self(Map::new())
    }

    /// Parses the JSON object in `arguments` of a call.
    ///
    /// # Errors
    /// If it is not an object, has a duplicate key at any depth (ignoring case), or is nested deeper than 128 levels.
    pub fn read(json: &str) -> Result<Self, CallArgumentsError> {
        match serde_json::from_str(json) {
            Ok(StrictValue(Value::Object(members))) => Ok(Self(members)),
            Ok(_) => Err(CallArgumentsError("they are not an object".to_owned())),
            Err(error) => Err(CallArgumentsError(error.to_string())),
        }
    }

    /// Returns the members.
    #[must_use]
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns true if every argument has one of these names. If `doubt` is [`AmbiguityBias::Counts`], names are compared
    /// without regard to case, and an argument that is `null` counts as absent.
    pub(crate) fn has_only<'n>(
        &self,
        names: &(impl Iterator<Item = &'n str> + Clone),
        doubt: AmbiguityBias,
    ) -> bool {
        self.0.iter().all(|(key, value)| match doubt {
            AmbiguityBias::Refuses => names.clone().any(|name| name == key),
            AmbiguityBias::Counts => {
                value.is_null() || names.clone().any(|name| fold_case(name) == fold_case(key))
            }
        })
    }
}

/// A JSON value without duplicate keys in any object.
struct StrictValue(Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictValueVisitor).map(Self)
    }
}

struct StrictValueVisitor;

impl<'de> Visitor<'de> for StrictValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(StrictValue(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        let mut keys = HashSet::new();
        while let Some(key) = members.next_key::<String>()? {
            if !keys.insert(fold_case(&key)) {
                return Err(de::Error::custom(format_args!("duplicate key `{}`", key.escape_debug())));
            }
            let StrictValue(value) = members.next_value()?;
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}

/// Folds the case of a text, including letters such as `ſ`, which some readers treat as `s`.
fn fold_case(text: &str) -> String {
    text.to_uppercase().to_lowercase()
}

/// Values found at an [`ArgumentPointer`] in the arguments.
#[derive(Debug, Default)]
pub(crate) struct FoundValues<'a> {
    pub(crate) values: Vec<&'a Value>,
    /// True if the path could not be followed to its end for some item.
    pub(crate) missed: bool,
    /// True if a member was skipped because its name differs in case.
    pub(crate) alike: bool,
}

/// Path of a value in the arguments: `a.b`, or `/a/b` as a JSON pointer; `*` selects every member or item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArgumentPointer(Vec<String>);

impl ArgumentPointer {
    pub(crate) fn new(text: &str) -> Self {
        Self(match text.strip_prefix('/') {
            Some(pointer) => {
                // In this order, so that `~01` becomes `~1` and not a slash (RFC 6901, section 4).
                pointer.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
            }
            None => text.split('.').map(str::to_owned).collect(),
        })
    }

    /// Returns the name of the argument in which the path begins.
    pub(crate) fn first(&self) -> Option<&str> {
        self.0.first().map(String::as_str)
    }

    /// Returns the values at this path. A final array counts as its items. If `doubt` is [`AmbiguityBias::Counts`],
    /// names are matched without regard to case.
    pub(crate) fn follow<'a>(&self, arguments: &'a CallArguments, doubt: AmbiguityBias) -> FoundValues<'a> {
        let mut found = FoundValues::default();
        let Some((first, rest)) = self.0.split_first() else { return found };
        let mut here: Vec<&Value> = Vec::new();
        follow_segment(&arguments.0, first, doubt, &mut here, &mut found);
        for part in rest {
            let mut next = Vec::new();
            for value in here {
                match value {
                    Value::Object(members) => follow_segment(members, part, doubt, &mut next, &mut found),
                    Value::Array(items) if part == "*" => next.extend(items),
                    Value::Array(items) => match part.parse().ok().and_then(|at: usize| items.get(at)) {
                        Some(item) => next.push(item),
                        None => found.missed = true,
                    },
                    _ => found.missed = true,
                }
            }
            here = next;
        }
        for value in here {
            flatten_arrays(value, &mut found.values);
        }
        found
    }
}

/// Flattens nested arrays to their items; an empty array stays one value.
fn flatten_arrays<'a>(value: &'a Value, to: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) if !items.is_empty() => items.iter().for_each(|item| flatten_arrays(item, to)),
        other => to.push(other),
    }
}

fn follow_segment<'a>(
    members: &'a Map<String, Value>,
    part: &str,
    doubt: AmbiguityBias,
    to: &mut Vec<&'a Value>,
    found: &mut FoundValues<'a>,
) {
    if part == "*" {
        to.extend(members.values());
        return;
    }
    if let Some(value) = members.get(part) {
        to.push(value);
        return;
    }
    let wanted = fold_case(part);
    match members.iter().find(|(key, _)| fold_case(key) == wanted) {
        Some((_, value)) if doubt == AmbiguityBias::Counts => to.push(value),
        Some(_) => found.alike = true,
        None => found.missed = true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_refused_at_any_depth() {
        for json in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":[{"b":1,"b":1}]}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"path":1,"PATH":2}"#,
            r#"{"dest":1,"deſt":2}"#,
        ] {
            let error = CallArguments::read(json).expect_err(json).to_string();
            assert!(error.contains("duplicate key"), "{error}");
        }
        assert!(CallArguments::read(r#"{"a":{"b":1},"b":{"b":1}}"#).is_ok());
    }

    #[test]
    fn what_is_no_object_or_bottomless_is_refused() {
        assert!(CallArguments::read("[]").is_err());
        assert!(CallArguments::read("").is_err());
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(CallArguments::read(&deep).is_err());
    }

    #[test]
    fn a_way_reaches_inside_and_spreads_over_lists() {
        let arguments =
            CallArguments::read(r#"{"a":{"b":[1,2]},"list":[{"to":"x"},{"to":["y","z"]}],"a.b":3,"":4}"#)
                .unwrap();
        let follow = |way: &str| {
            ArgumentPointer::new(way)
                .follow(&arguments, AmbiguityBias::Refuses)
                .values
                .into_iter()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(follow("a.b"), [1, 2]);
        assert_eq!(follow("/a.b"), [3]);
        assert_eq!(follow("list.*.to"), ["x", "y", "z"]);
        assert_eq!(follow("/list/1/to/0"), ["y"]);
        assert_eq!(follow("/"), [4]);
        assert!(follow("a.c").is_empty());
        assert!(follow("list.7.to").is_empty());
    }

    #[test]
    fn a_name_in_another_case_is_another_reading() {
        let arguments = CallArguments::read(r#"{"Path":"/etc"}"#).unwrap();
        let way = ArgumentPointer::new("path");
        assert_eq!(way.follow(&arguments, AmbiguityBias::Counts).values, ["/etc"]);
        let found = way.follow(&arguments, AmbiguityBias::Refuses);
        assert!(found.values.is_empty() && found.alike);
    }

    #[test]
    fn what_cannot_be_followed_is_told() {
        let arguments =
            CallArguments::read(r#"{"list":[{"to":"x"},"y",{"cc":1}],"even":[{"to":1}]}"#).unwrap();
        assert!(ArgumentPointer::new("list.*.to").follow(&arguments, AmbiguityBias::Refuses).missed);
        assert!(!ArgumentPointer::new("even.*.to").follow(&arguments, AmbiguityBias::Refuses).missed);
    }
}
