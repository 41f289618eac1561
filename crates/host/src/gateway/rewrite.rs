//! Changing one member of params without reading the others.

use std::borrow::Cow;
use std::fmt;

use hospes_model::RawJson;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// `object` with the text `to` for its member `key`; everything else stays as it came, byte for byte.
pub(super) fn with_text(object: &RawJson, key: &str, to: &str) -> Result<RawJson, serde_json::Error> {
    let members: Members<'_> = object.decode()?;
    RawJson::from_serialize(&Changed { members, key, to })
}

/// The members of an object, in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

struct Changed<'a> {
    members: Members<'a>,
    key: &'a str,
    to: &'a str,
}

impl Serialize for Changed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in &self.members.0 {
            if *key == self.key {
                map.serialize_entry(key, self.to)?;
            } else {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

/// A member's name, borrowed where nothing in it is escaped.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(4);
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    members.push((key, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
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
