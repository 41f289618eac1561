//! JSON text as received: indented for reading, with every number and string unchanged.

use std::fmt;

use hospes::model::RawJson;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Indentation of each level, in columns.
const STEP: usize = 2;

/// Formats a value over several lines, without changing its text.
pub(crate) fn pretty(json: &RawJson) -> String {
    let text = json.as_str();
    let mut laid = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut rest = text;
    // Token by token over the text: a tree of values would round long numbers and drop repeated members.
    while let Some(character) = rest.chars().next() {
        let (token, after) = rest.split_at(match character {
            '"' => end_of_text(rest),
            other => other.len_utf8(),
        });
        rest = after;
        match character {
            ' ' | '\t' | '\r' | '\n' => {}
            '{' | '[' => {
                laid.push(character);
                if !rest.trim_start().starts_with(['}', ']']) {
                    depth += 1;
                    break_line(&mut laid, depth);
                }
            }
            '}' | ']' => {
                if !laid.ends_with(['{', '[']) {
                    depth = depth.saturating_sub(1);
                    break_line(&mut laid, depth);
                }
                laid.push(character);
            }
            ',' => {
                laid.push(',');
                break_line(&mut laid, depth);
            }
            ':' => laid.push_str(": "),
            _ => laid.push_str(token),
        }
    }
    laid
}

fn break_line(laid: &mut String, depth: usize) {
    laid.push('\n');
    laid.extend(std::iter::repeat_n(' ', depth * STEP));
}

/// Returns the length in bytes of the JSON string at the start of a text.
fn end_of_text(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns true if both values have the same JSON text, apart from whitespace.
pub(crate) fn is_same(one: &RawJson, other: &RawJson) -> bool {
    pretty(one) == pretty(other)
}

/// Returns the members of an object in order, including repeated names. Returns `None` for any other value.
pub(crate) fn members(json: &RawJson) -> Option<Vec<(String, RawJson)>> {
    json.is_object().then(|| json.decode::<OrderedMembers>().ok().map(|members| members.0))?
}

/// Returns the content of a JSON string. Returns `None` for any other value.
pub(crate) fn text(json: &RawJson) -> Option<String> {
    json.as_str().starts_with('"').then(|| json.decode().ok())?
}

struct OrderedMembers(Vec<(String, RawJson)>);

impl<'de> Deserialize<'de> for OrderedMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A map would keep one of several members with the same name, but a person has to see all of them.
        struct OrderedMembersVisitor;
        impl<'de> Visitor<'de> for OrderedMembersVisitor {
            type Value = OrderedMembers;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedMembers, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(OrderedMembers(members))
            }
        }
        deserializer.deserialize_map(OrderedMembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> RawJson {
        RawJson::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn what_is_laid_out_is_what_came() {
        let came = raw(r#"{"n":12345678901234567890123,"f":1.10,"e":{},"l":[ ],"a":[1, {"x":"a: {\"b, "}]}"#);
        let expected = "{\n  \"n\": 12345678901234567890123,\n  \"f\": 1.10,\n  \"e\": {},\n  \"l\": [],\n  \"a\": [\n    \
                        1,\n    {\n      \"x\": \"a: {\\\"b, \"\n    }\n  ]\n}";
        assert_eq!(pretty(&came), expected);
        assert_eq!(pretty(&raw(&pretty(&came))), expected);
        assert!(is_same(&came, &raw(expected)));
        assert!(!is_same(&raw("1.0"), &raw("1.00")));
    }

    #[test]
    fn members_stay_in_their_order_and_are_as_they_came() {
        let members = members(&raw(r#"{"z":9007199254740993,"a":"x","z":1}"#)).unwrap();
        let told: Vec<_> = members.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(told, [("z", "9007199254740993"), ("a", "\"x\""), ("z", "1")]);
        assert!(super::members(&raw("[1]")).is_none());
        assert_eq!(text(&raw(r#""a\nb""#)).as_deref(), Some("a\nb"));
    }
}
