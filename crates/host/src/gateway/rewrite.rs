//! Changing one member of params without reading the others.

use hospes_model::RawJson;

/// `object` with the text `to` for its member `key`; everything else stays as it came, byte for byte.
///
/// # Errors
/// When it is no object.
pub(super) fn with_text(object: &RawJson, key: &str, to: &str) -> Result<RawJson, serde_json::Error> {
    if !object.is_object() {
        return Err(serde::de::Error::custom("not an object"));
    }
    Ok(object.with_member(key, &RawJson::from_serialize(to)?))
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
    fn what_is_no_object_is_refused() {
        assert!(with_text(&RawJson::parse("[1]").unwrap(), "name", "x").is_err());
    }
}
