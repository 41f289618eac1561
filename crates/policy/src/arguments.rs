use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The arguments of a call, read so that there is only one reading of them.
///
/// An object with one key twice is read differently by different parsers: what a rule sees need not be what the server
/// acts on. Such arguments are refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments(Map<String, Value>);

/// Why arguments could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the arguments cannot be read in one way only: {0}")]
pub struct ArgumentsError(String);

impl Arguments {
    /// Of a call that has none.
    #[must_use]
    pub fn none() -> Self {
        Self(Map::new())
    }

    /// Reads the JSON object of a call's `arguments`.
    ///
    /// # Errors
    /// When it is no object, has a key twice anywhere inside, or is deeper than 128 levels.
    pub fn read(json: &str) -> Result<Self, ArgumentsError> {
        match serde_json::from_str(json) {
            Ok(Strict(Value::Object(members))) => Ok(Self(members)),
            Ok(_) => Err(ArgumentsError("they are not an object".to_owned())),
            Err(error) => Err(ArgumentsError(error.to_string())),
        }
    }

    /// The members.
    #[must_use]
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }
}

/// A value without a key that stands twice in one object.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
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
        while let Some(Strict(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if all.contains_key(&key) {
                return Err(de::Error::custom(format_args!("`{}` stands there twice", key.escape_debug())));
            }
            let Strict(value) = members.next_value()?;
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}

/// Where in the arguments a condition looks: `a.b`, or `/a/b` as a JSON pointer; `*` is every member or item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way(Vec<String>);

impl Way {
    pub(crate) fn new(text: &str) -> Self {
        Self(match text.strip_prefix('/') {
            Some(pointer) => {
                pointer.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
            }
            None => text.split('.').map(str::to_owned).collect(),
        })
    }

    /// Everything that stands there. What is an array at the end counts as its items.
    pub(crate) fn follow<'a>(&self, arguments: &'a Arguments) -> Vec<&'a Value> {
        let mut here: Vec<&Value> = Vec::new();
        let Some((first, rest)) = self.0.split_first() else { return here };
        step_into(arguments.0.iter(), first, &mut here);
        for part in rest {
            let mut next = Vec::new();
            for value in here {
                match value {
                    Value::Object(members) => step_into(members.iter(), part, &mut next),
                    Value::Array(items) if part == "*" => next.extend(items),
                    Value::Array(items) => next.extend(part.parse().ok().and_then(|at: usize| items.get(at))),
                    _ => (),
                }
            }
            here = next;
        }
        let mut leaves = Vec::new();
        for value in here {
            match value {
                Value::Array(items) if !items.is_empty() => leaves.extend(items),
                other => leaves.push(other),
            }
        }
        leaves
    }
}

fn step_into<'a>(
    members: impl Iterator<Item = (&'a String, &'a Value)>,
    part: &str,
    to: &mut Vec<&'a Value>,
) {
    to.extend(members.filter(|(key, _)| part == "*" || *key == part).map(|(_, value)| value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_refused_at_any_depth() {
        for json in [r#"{"a":1,"a":2}"#, r#"{"a":[{"b":1,"b":1}]}"#, r#"{"a":1,"\u0061":2}"#] {
            let error = Arguments::read(json).expect_err(json).to_string();
            assert!(error.contains("stands there twice"), "{error}");
        }
        assert!(Arguments::read(r#"{"a":{"b":1},"b":{"b":1}}"#).is_ok());
    }

    #[test]
    fn what_is_no_object_or_bottomless_is_refused() {
        assert!(Arguments::read("[]").is_err());
        assert!(Arguments::read("").is_err());
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(Arguments::read(&deep).is_err());
    }

    #[test]
    fn a_way_reaches_inside_and_spreads_over_lists() {
        let arguments =
            Arguments::read(r#"{"a":{"b":[1,2]},"list":[{"to":"x"},{"to":["y","z"]}],"a.b":3,"":4}"#)
                .unwrap();
        let follow = |way: &str| Way::new(way).follow(&arguments).into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(follow("a.b"), [1, 2]);
        assert_eq!(follow("/a.b"), [3]);
        assert_eq!(follow("list.*.to"), ["x", "y", "z"]);
        assert_eq!(follow("/list/1/to/0"), ["y"]);
        assert_eq!(follow("/"), [4]);
        assert!(follow("a.c").is_empty());
        assert!(follow("list.7.to").is_empty());
    }
}
