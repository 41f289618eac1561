//! Validated JSON text, kept unchanged.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A JSON value as text: validated, not decoded, and cheap to clone.
///
/// It usually is a slice of the message it was received in, so forwarding it copies nothing until the bytes are written
/// out.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Bytes);

impl RawJson {
    /// Returns the value `null`.
    #[must_use]
    pub const fn null() -> Self {
        Self(Bytes::from_static(b"null"))
    }

    /// Returns the value `{}`.
    #[must_use]
    pub const fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// Validates `text` as one JSON value.
    ///
    /// # Errors
    /// If the text is not exactly one well-formed JSON value.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, serde_json::Error> {
        let text = text.into();
        let raw: &RawValue = serde_json::from_slice(&text)?;
        // Without surrounding whitespace, because `is_object` looks at the first byte only.
        let inner = text.slice_ref(raw.get().as_bytes());
        Ok(Self(inner))
    }

    /// Creates a value from the part `raw` of the message `owner`, sharing its memory.
    ///
    /// # Panics
    /// If `raw` is not inside `owner`.
    #[must_use]
    pub fn slice_of(owner: &Bytes, raw: &RawValue) -> Self {
        Self(owner.slice_ref(raw.get().as_bytes()))
    }

    /// Serializes `value` as JSON.
    ///
    /// # Errors
    /// If the value's `Serialize` implementation fails, or a map has keys that are not strings.
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_vec(value).map(|text| Self(text.into()))
    }

    /// Copies the value into memory of its own. Use it for values that outlive their message, because a slice keeps the
    /// whole message buffer alive.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// Returns the text as UTF-8 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("JSON text is validated on construction")
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Wraps part of a value that has already been validated.
    pub(crate) fn from_trusted_bytes(part: Bytes) -> Self {
        Self(part)
    }

    /// Returns the bytes, sharing memory.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// Returns true if this is a JSON object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Returns true if this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.0.as_ref() == b"null"
    }

    /// Decodes into a type, which may borrow from this text.
    ///
    /// # Errors
    /// If the value does not match the type.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// Decodes into an owned [`serde_json::Value`].
    ///
    /// # Errors
    /// If the value is nested deeper than 128 levels or has a number out of the range of `f64`.
    pub fn to_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        self.decode()
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Writes the struct that serde_json's `RawValue` writes, which avoids validating the text again. A test below
        // guards this use of an internal name. Other serializers write a struct with one string.
        let mut raw = serializer.serialize_struct(RAW_VALUE, 1)?;
        raw.serialize_field(RAW_VALUE, self.as_str())?;
        raw.end()
    }
}

/// Name by which serde_json recognizes text that already is JSON.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        // No copy: each conversion takes over the memory of the one before.
        Ok(Self(Bytes::from(String::from(Box::<str>::from(raw)))))
    }
}

impl From<&RawValue> for RawJson {
    fn from(raw: &RawValue) -> Self {
        Self(Bytes::copy_from_slice(raw.get().as_bytes()))
    }
}

impl From<serde_json::Value> for RawJson {
    fn from(value: serde_json::Value) -> Self {
        Self(serde_json::to_vec(&value).expect("serializing a JSON value cannot fail").into())
    }
}

/// Decodes `null` and `{}` alike into a type whose members are all optional; other values are decoded unchanged.
///
/// # Errors
/// If the value does not match the type.
pub fn decode_params<T: DeserializeOwned>(params: &RawJson) -> Result<T, serde_json::Error> {
    if params.is_null() { serde_json::from_str("{}") } else { params.decode() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_json_is_written_as_it_is_everywhere() {
        let raw = RawJson::parse(r#"{"a": [1, 2.50, "\u00e9"]}"#).unwrap();
        #[derive(Serialize)]
        struct Outer<'a> {
            raw: &'a RawJson,
        }
        let text = serde_json::to_string(&Outer { raw: &raw }).unwrap();
        assert_eq!(text, r#"{"raw":{"a": [1, 2.50, "\u00e9"]}}"#);
        assert_eq!(serde_json::to_value(&raw).unwrap(), serde_json::json!({"a": [1, 2.5, "é"]}));
        #[derive(Serialize)]
        struct Flat<'a> {
            #[serde(flatten)]
            outer: Outer<'a>,
        }
        assert_eq!(serde_json::to_string(&Flat { outer: Outer { raw: &raw } }).unwrap(), text);
        let back: RawJson = serde_json::from_str(&serde_json::to_string(&raw).unwrap()).unwrap();
        assert_eq!(back, raw);
    }

    #[test]
    fn raw_json_is_shown_as_it_is() {
        let raw = RawJson::parse(r#"{"a": 1}"#).unwrap();
        assert_eq!(
            (raw.to_string(), format!("{raw:?}")),
            (r#"{"a": 1}"#.to_owned(), r#"{"a": 1}"#.to_owned())
        );
    }

    #[test]
    fn only_one_whole_value_is_taken() {
        for text in ["", " ", "{", "1 2", "{\"a\":}", "nul", "\u{feff}{}"] {
            assert!(RawJson::parse(text.to_owned()).is_err(), "{text:?}");
        }
        assert_eq!(RawJson::parse(" {\"a\" : 1}\n").unwrap().as_str(), "{\"a\" : 1}");
        assert!(RawJson::parse(b"\"\xff\"".to_vec()).is_err(), "not UTF-8");
    }
}
