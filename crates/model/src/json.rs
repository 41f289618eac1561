//! JSON text that has been checked, kept as it came.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value as text: known to be well formed, not decoded, cheap to clone.
///
/// Most of the time it is a slice of the message it arrived in, so forwarding it copies nothing until the bytes are
/// written out.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Bytes);

impl RawJson {
    /// The value `null`.
    #[must_use]
    pub const fn null() -> Self {
        Self(Bytes::from_static(b"null"))
    }

    /// The value `{}`.
    #[must_use]
    pub const fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// Checks `text` and keeps it.
    ///
    /// # Errors
    /// When it is not exactly one well-formed JSON value.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, serde_json::Error> {
        let text = text.into();
        let raw: &RawValue = serde_json::from_slice(&text)?;
        let inner = text.slice_ref(raw.get().as_bytes());
        Ok(Self(inner))
    }

    /// The part `raw` of the message `owner`, sharing its memory.
    ///
    /// # Panics
    /// When `raw` does not lie inside `owner`.
    #[must_use]
    pub fn within(owner: &Bytes, raw: &RawValue) -> Self {
        Self(owner.slice_ref(raw.get().as_bytes()))
    }

    /// Writes `value` as JSON.
    ///
    /// # Errors
    /// When the value's `Serialize` fails, or it has map keys that are not strings.
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_vec(value).map(|text| Self(text.into()))
    }

    /// The text, as bytes of UTF-8.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("JSON text was checked when this was made")
    }

    /// The bytes, sharing memory.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    /// Whether this is a JSON object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.0.as_ref() == b"null"
    }

    /// Decodes into a type, which may borrow from this text.
    ///
    /// # Errors
    /// When the value does not have the type's shape.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// Decodes into an owned [`serde_json::Value`].
    ///
    /// # Errors
    /// When the value nests deeper than 128 levels or holds a number that no `f64` can.
    pub fn to_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        self.decode()
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
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
        Self(value.to_string().into())
    }
}

/// Decodes `null` and `{}` alike into a type whose members are all optional, and everything else as it is.
///
/// # Errors
/// When the value does not have the type's shape.
pub fn decode_params<T: DeserializeOwned>(params: &RawJson) -> Result<T, serde_json::Error> {
    if params.is_null() { serde_json::from_str("{}") } else { params.decode() }
}
