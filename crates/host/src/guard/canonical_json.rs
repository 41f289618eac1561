//! One spelling for arguments that mean the same to every reader.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Returns JSON with sorted members and without white space. Each number stays as it is spelled, because readers differ
/// about its precision. `None` if the text is not valid JSON.
///
/// The text must not be nested deeply, and no object may have a duplicate key
/// ([`CallArguments::read`](hospes_policy::CallArguments::read) checks both).
pub(super) fn canonical_json(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    write(text, &mut out)?;
    Some(out)
}

fn write(text: &str, out: &mut String) -> Option<()> {
    let text = text.trim();
    match text.as_bytes().first()? {
        b'{' => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&serde_json::to_string(name).ok()?);
                out.push(':');
                write(value.get(), out)?;
            }
            out.push('}');
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item.get(), out)?;
            }
            out.push(']');
        }
        b'"' => {
            let string: String = serde_json::from_str(text).ok()?;
            out.push_str(&serde_json::to_string(&string).ok()?);
        }
        _ => {
            let _valid: &RawValue = serde_json::from_str(text).ok()?;
            out.push_str(text);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_escapes_do_not_matter_and_numbers_do() {
        let same = |one: &str, other: &str| {
            let (one, other) = (canonical_json(one).unwrap(), canonical_json(other).unwrap());
            one == other
        };
        assert!(same(
            r#"{"b": [1, {"d":null,"c":true}], "a":"x"}"#,
            r#"{"a":"\u0078","b":[1,{"c":true,"d":null}]}"#
        ));
        for (one, other) in [
            (r#"{"a":1}"#, r#"{"a":1.0}"#),
            (r#"{"a":100}"#, r#"{"a":1e2}"#),
            (r#"{"a":12345678901234567890123}"#, r#"{"a":12345678901234567890124}"#),
            (r#"{"a":"1"}"#, r#"{"a":1}"#),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
            (r#"{"a":"x"}"#, r#"{"a":"x "}"#),
            (r#"{"a":null}"#, r#"{}"#),
            (r#"{"a":{"b":1},"c":2}"#, r#"{"a":{"b":1,"c":2}}"#),
        ] {
            assert!(!same(one, other), "{one} {other}");
        }
        assert_eq!(canonical_json("{"), None);
        assert_eq!(canonical_json(""), None);
    }
}
