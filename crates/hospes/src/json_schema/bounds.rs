//! Limits on the size of schemas.

use std::fmt;

use hospes_model::RawJson;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The most nested schemas that one tool's schema may have; beyond it checking arguments costs too much (JSCH-11).
pub const MAX_SUBSCHEMAS: usize = 10_000;
/// Maximum nesting depth of schemas.
pub const MAX_SCHEMA_DEPTH: usize = 64;

/// Returns true if a schema is small enough to check arguments against.
pub(crate) fn is_bounded(schema: &RawJson) -> bool {
    // Nearly all have fewer brackets than may stand inside one another.
    if memchr::memchr2_iter(b'{', b'[', schema.as_bytes()).count() <= 2 * MAX_SCHEMA_DEPTH {
        return true;
    }
    let mut left = MAX_SUBSCHEMAS;
    let mut json = serde_json::Deserializer::from_slice(schema.as_bytes());
    ObjectCounter { left: &mut left, depth: 0 }.deserialize(&mut json).is_ok()
}

/// Counts objects, and how deep they are, while it passes over them.
struct ObjectCounter<'l> {
    left: &'l mut usize,
    depth: usize,
}

impl ObjectCounter<'_> {
    fn nested(&mut self) -> ObjectCounter<'_> {
        ObjectCounter { left: self.left, depth: self.depth + 1 }
    }
}

impl<'de> DeserializeSeed<'de> for ObjectCounter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ObjectCounter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        // Twice, because between two schemas there mostly is the object or the list that names them.
        if self.depth > 2 * MAX_SCHEMA_DEPTH || *self.left == 0 {
            return Err(de::Error::custom("too large or too deep"));
        }
        *self.left -= 1;
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(self.nested())?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(self.nested())?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_too_large_or_too_deep_is_found_out() {
        let raw = |value: Value| RawJson::from(value);
        let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({ "not": inner }));
        assert!(is_bounded(&raw(nested(120))));
        assert!(!is_bounded(&raw(nested(2 * MAX_SCHEMA_DEPTH + 1))));
        let wide = |count: usize| json!({ "allOf": vec![json!({}); count] });
        assert!(is_bounded(&raw(wide(MAX_SUBSCHEMAS - 1))));
        assert!(!is_bounded(&raw(wide(MAX_SUBSCHEMAS))));
        let data = vec![json!([1, -1, 1.5, "{[", null, true, [{}]]); MAX_SCHEMA_DEPTH];
        assert!(is_bounded(&raw(json!({ "default": data }))));
    }
}
