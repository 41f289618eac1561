//! Replacement of one member of params without decoding the others.

use hospes_model::{RawJson, RpcError};

/// Returns `object` with the string `to` as its member `key`. Everything else stays unchanged, byte for byte.
///
/// # Errors
/// If it is not an object.
pub(super) fn with_text(object: &RawJson, key: &str, to: &str) -> Result<RawJson, serde_json::Error> {
    if !object.is_object() {
        return Err(serde::de::Error::custom("not an object"));
    }
    Ok(object.with_member(key, &RawJson::from_serialize(to)?))
}

/// Returns `object` with `to` as its arguments. Everything else stays unchanged, byte for byte.
///
/// # Errors
/// If it is not an object.
pub(super) fn with_arguments(object: &RawJson, to: &RawJson) -> Result<RawJson, serde_json::Error> {
    let refused = || serde::de::Error::custom("not an object");
    let text = object.as_str().trim_start().strip_prefix('{').ok_or_else(refused)?;
    if object.members().any(|member| member.key() == "arguments") {
        return Ok(object.with_member("arguments", to));
    }
    // An object that is otherwise empty takes no comma.
    let comma = if text.trim_start().starts_with('}') { "" } else { "," };
    RawJson::parse(format!("{{\"arguments\":{to}{comma}{text}"))
}

/// Returns the error for params that are not an object.
pub(super) fn not_an_object(error: &serde_json::Error) -> RpcError {
    RpcError::invalid_params(format!("invalid params: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_changes() {
        let before =
            r#"{"name":"files__read","arguments":{"name":"x",  "a":[1.0, 1e400]},"_meta":{"k":"\u00e9"}}"#;
        let raw = RawJson::parse(before).unwrap();
        let after = with_text(&raw, "name", "re\"ad").unwrap();
        let expected = before.replacen("files__read", r#"re\"ad"#, 1);
        assert_eq!(after.as_str(), expected);
    }

    #[test]
    fn other_arguments_stand_where_there_were_some_or_none() {
        let to = RawJson::parse("{\"a\":2}").unwrap();
        for (before, after) in [
            (
                r#"{"name":"x","arguments":{"a":1},"n":1e400}"#,
                r#"{"name":"x","arguments":{"a":2},"n":1e400}"#,
            ),
            (r#"{"name":"x","n":1e400}"#, r#"{"arguments":{"a":2},"name":"x","n":1e400}"#),
            ("{}", r#"{"arguments":{"a":2}}"#),
        ] {
            let raw = RawJson::parse(before).unwrap();
            assert_eq!(with_arguments(&raw, &to).unwrap().as_str(), after);
        }
        assert!(with_arguments(&RawJson::parse("[1]").unwrap(), &to).is_err());
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(with_text(&RawJson::parse("[1]").unwrap(), "name", "x").is_err());
    }
}
