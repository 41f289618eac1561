//! `_meta`: metadata of messages.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::types::key::BadMetaKey;
use crate::types::tagged::BorrowedText;
use crate::{RawJson, RequestId};

/// The keys of `_meta` that the specification reserves.
pub mod meta_key {
    /// Token for progress notifications, on a request (every revision).
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// The task a message belongs to (2025-11-25).
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// Immediate response for the model while a task runs (2025-11-25, provisional).
    pub const MODEL_IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
    /// The revision a request is written in (2026-07-28, required).
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// Capabilities of the client, on a request (2026-07-28, required).
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Name and version of the client, on a request (2026-07-28).
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// Minimum severity of log messages, on a request (2026-07-28, deprecated).
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Name and version of the server, on a result (2026-07-28).
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// The listen request a message belongs to (2026-07-28).
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// W3C Trace Context (2026-07-28).
    pub const TRACEPARENT: &str = "traceparent";
    /// W3C Trace Context (2026-07-28).
    pub const TRACESTATE: &str = "tracestate";
    /// W3C Baggage (2026-07-28).
    pub const BAGGAGE: &str = "baggage";
    /// Prefix of the keys of the specification and of its official extensions.
    pub const OFFICIAL_PREFIX: &str = "io.modelcontextprotocol/";

    use crate::types::key::{self, BadMetaKey};

    /// Checks the syntax of a key: an optional prefix of dot-separated labels with a `/`, and a name.
    ///
    /// # Errors
    /// The invalid part.
    pub fn check(key: &str) -> Result<(), BadMetaKey> {
        key::check(key)
    }

    /// Returns true if the prefix of the key is reserved for the specification in any revision.
    #[must_use]
    pub fn is_reserved(key: &str) -> bool {
        key::is_reserved(key)
    }

    /// Checks a key that a program chooses for its own metadata: its form, and that its prefix is not reserved.
    /// [`OFFICIAL_PREFIX`] is allowed for the official extensions of the specification.
    ///
    /// # Errors
    /// The reason why the key is not allowed.
    pub fn check_chosen(key: &str) -> Result<(), BadMetaKey> {
        key::check_chosen(key)
    }

    /// Checks the identifier of an extension: a key with a prefix.
    ///
    /// # Errors
    /// The reason why the identifier is not allowed.
    pub fn check_extension(identifier: &str) -> Result<(), BadMetaKey> {
        key::check_extension(identifier)
    }
}

/// Members of a `_meta` object, each as unchanged JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Meta(BTreeMap<String, RawJson>);

impl Meta {
    /// Creates an empty `_meta` object.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Returns true if there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the member with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&RawJson> {
        self.0.get(key)
    }

    /// Returns the member with this key, decoded. `None` if it is absent or has another type.
    #[must_use]
    pub fn read<'a, T: Deserialize<'a>>(&'a self, key: &str) -> Option<T> {
        self.0.get(key).and_then(|value| value.decode().ok())
    }

    /// Returns true if there is a member with this key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Sets a member and returns the previous value.
    pub fn insert(&mut self, key: impl Into<String>, value: RawJson) -> Option<RawJson> {
        self.0.insert(key.into(), value)
    }

    /// Removes a member and returns it.
    pub fn remove(&mut self, key: &str) -> Option<RawJson> {
        self.0.remove(key)
    }

    /// Adds a member. A value that cannot be serialized is left out.
    #[must_use]
    pub fn with<T: Serialize + ?Sized>(mut self, key: impl Into<String>, value: &T) -> Self {
        if let Ok(value) = RawJson::from_serialize(value) {
            self.0.insert(key.into(), value);
        }
        self
    }

    /// Checks every key with [`meta_key::check_chosen`].
    ///
    /// # Errors
    /// When a key is invalid or reserved; the error names the first one and the reason.
    pub fn check_keys(&self) -> Result<(), BadMetaKey> {
        self.0.keys().try_for_each(|key| meta_key::check_chosen(key))
    }

    /// Iterates over the members in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Keeps the members for whose keys `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0.retain(|key, _| keep(key));
    }

    /// Returns the progress token of a request.
    #[must_use]
    pub fn progress_token(&self) -> Option<ProgressToken> {
        self.read(meta_key::PROGRESS_TOKEN)
    }

    /// Adds a progress token.
    #[must_use]
    pub fn with_progress_token(self, token: &ProgressToken) -> Self {
        self.with(meta_key::PROGRESS_TOKEN, token)
    }
}

impl FromIterator<(String, RawJson)> for Meta {
    fn from_iter<I: IntoIterator<Item = (String, RawJson)>>(members: I) -> Self {
        Self(members.into_iter().collect())
    }
}

impl Extend<(String, RawJson)> for Meta {
    fn extend<I: IntoIterator<Item = (String, RawJson)>>(&mut self, members: I) {
        self.0.extend(members);
    }
}

impl IntoIterator for Meta {
    type Item = (String, RawJson);
    type IntoIter = std::collections::btree_map::IntoIter<String, RawJson>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Token that links progress notifications to their request: a string or an integer, chosen by the sender of the
/// request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
#[expect(clippy::exhaustive_structs, reason = "a newtype of what the specification allows")]
pub struct ProgressToken(pub RequestId);

impl From<i64> for ProgressToken {
    fn from(number: i64) -> Self {
        Self(RequestId::Number(number))
    }
}

impl From<&str> for ProgressToken {
    fn from(text: &str) -> Self {
        Self(RequestId::from(text))
    }
}

/// The borrowed `_meta` of a request: one field for each reserved key, and the other members.
///
/// Objects are decoded on demand. A reserved member of the wrong type is reported in [`RequestMeta::malformed`] and
/// treated as absent.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RequestMeta<'a> {
    /// Token for progress notifications.
    pub progress_token: Option<ProgressToken>,
    /// Name of the revision, which may be unsupported.
    pub protocol_version: Option<Cow<'a, str>>,
    /// Name and version of the client ([`Implementation`](crate::Implementation)), not decoded.
    pub client_info: Option<&'a RawValue>,
    /// Capabilities of the client ([`ClientCapabilities`](crate::ClientCapabilities)), not decoded.
    pub client_capabilities: Option<&'a RawValue>,
    /// Minimum severity of log messages to send.
    pub log_level: Option<crate::LoggingLevel>,
    /// W3C Trace Context.
    pub traceparent: Option<Cow<'a, str>>,
    /// W3C Trace Context.
    pub tracestate: Option<Cow<'a, str>>,
    /// W3C Baggage.
    pub baggage: Option<Cow<'a, str>>,
    /// All other members.
    pub rest: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// First reserved key whose value has the wrong type.
    pub malformed: Option<&'static str>,
}

impl RequestMeta<'_> {
    /// Decodes the name and version of the client.
    ///
    /// # Errors
    /// If the member has another type.
    pub fn decode_client_info(&self) -> Result<Option<crate::Implementation>, serde_json::Error> {
        self.client_info.map(|raw| serde_json::from_str(raw.get())).transpose()
    }

    /// Decodes the capabilities of the client.
    ///
    /// # Errors
    /// If the member has another type.
    pub fn decode_client_capabilities(&self) -> Result<Option<crate::ClientCapabilities>, serde_json::Error> {
        self.client_capabilities.map(|raw| serde_json::from_str(raw.get())).transpose()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RequestMeta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Accepts any value, because some peers write `null` instead of omitting the metadata.
        deserializer.deserialize_any(RequestMetaVisitor).map(Option::unwrap_or_default)
    }
}

struct RequestMetaVisitor;

impl<'de> Visitor<'de> for RequestMetaVisitor {
    type Value = Option<RequestMeta<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of metadata")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        use meta_key::{
            BAGGAGE, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROGRESS_TOKEN, PROTOCOL_VERSION,
            TRACEPARENT, TRACESTATE,
        };
        let mut meta = RequestMeta::default();
        while let Some(BorrowedText(key)) = map.next_key::<BorrowedText<'de>>()? {
            let raw: &'de RawValue = map.next_value()?;
            let fault = match &*key {
                PROGRESS_TOKEN => read(raw, &mut meta.progress_token).then_some(PROGRESS_TOKEN),
                PROTOCOL_VERSION => text(raw, &mut meta.protocol_version).then_some(PROTOCOL_VERSION),
                CLIENT_INFO => object(raw, &mut meta.client_info).then_some(CLIENT_INFO),
                CLIENT_CAPABILITIES => {
                    object(raw, &mut meta.client_capabilities).then_some(CLIENT_CAPABILITIES)
                }
                LOG_LEVEL => read(raw, &mut meta.log_level).then_some(LOG_LEVEL),
                TRACEPARENT => text(raw, &mut meta.traceparent).then_some(TRACEPARENT),
                TRACESTATE => text(raw, &mut meta.tracestate).then_some(TRACESTATE),
                BAGGAGE => text(raw, &mut meta.baggage).then_some(BAGGAGE),
                _ => {
                    meta.rest.push((key, raw));
                    None
                }
            };
            meta.malformed = meta.malformed.or(fault);
        }
        Ok(Some(meta))
    }
}

/// Decodes a member. Returns true if it has the wrong type.
fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue, into: &mut Option<T>) -> bool {
    *into = serde_json::from_str(raw.get()).ok();
    into.is_none()
}

fn text<'a>(raw: &'a RawValue, into: &mut Option<Cow<'a, str>>) -> bool {
    *into = serde_json::from_str::<BorrowedText<'a>>(raw.get()).ok().map(|text| text.0);
    into.is_none()
}

fn object<'a>(raw: &'a RawValue, into: &mut Option<&'a RawValue>) -> bool {
    *into = raw.get().starts_with('{').then_some(raw);
    into.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoggingLevel;

    /// covers: META-01
    #[test]
    fn the_metadata_of_a_request_is_read_without_copying() {
        let text = r#"{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"io.modelcontextprotocol/logLevel":"error","traceparent":"00-a-b-01","tracestate":"x=1","baggage":"k=v","a/b":[1]}"#;
        let meta: RequestMeta<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(meta.progress_token, Some(7.into()));
        assert!(matches!(meta.protocol_version, Some(Cow::Borrowed("2026-07-28"))));
        assert_eq!(meta.log_level, Some(LoggingLevel::Error));
        assert_eq!(meta.decode_client_info().unwrap().unwrap().name, "c");
        assert!(meta.decode_client_capabilities().unwrap().unwrap().roots.is_some());
        assert!(matches!(meta.traceparent, Some(Cow::Borrowed("00-a-b-01"))));
        assert_eq!((meta.tracestate.as_deref(), meta.baggage.as_deref()), (Some("x=1"), Some("k=v")));
        assert_eq!(meta.rest.len(), 1);
        assert_eq!((&*meta.rest[0].0, meta.rest[0].1.get()), ("a/b", "[1]"));
        assert_eq!(meta.malformed, None);
    }

    /// covers: PROG-02
    #[test]
    fn a_reserved_member_of_another_shape_is_named() {
        for (text, key) in [
            (r#"{"progressToken":1.5}"#, meta_key::PROGRESS_TOKEN),
            (r#"{"progressToken":{}}"#, meta_key::PROGRESS_TOKEN),
            (r#"{"io.modelcontextprotocol/protocolVersion":5}"#, meta_key::PROTOCOL_VERSION),
            (r#"{"io.modelcontextprotocol/clientCapabilities":null}"#, meta_key::CLIENT_CAPABILITIES),
            (r#"{"io.modelcontextprotocol/clientInfo":"me"}"#, meta_key::CLIENT_INFO),
            (r#"{"io.modelcontextprotocol/logLevel":"loud","traceparent":1}"#, meta_key::LOG_LEVEL),
            (r#"{"traceparent":1}"#, meta_key::TRACEPARENT),
        ] {
            let meta: RequestMeta<'_> = serde_json::from_str(text).unwrap();
            assert_eq!(meta.malformed, Some(key), "{text}");
        }
        assert!(serde_json::from_str::<RequestMeta<'_>>("null").unwrap().malformed.is_none());
        for text in ["[]", "5", "\"x\""] {
            assert!(serde_json::from_str::<RequestMeta<'_>>(text).is_err(), "{text}");
        }
    }

    /// covers: META-01
    #[test]
    fn members_nobody_knows_survive_as_they_came() {
        let text = r#"{"a/b":[1, 2.50],"z":null}"#;
        let meta: Meta = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&meta).unwrap(), text);
        assert_eq!(meta.read::<Vec<f64>>("a/b"), Some(vec![1.0, 2.5]));
        assert_eq!(meta.read::<String>("a/b"), None);
        assert_eq!(Meta::new().with_progress_token(&"t".into()).progress_token(), Some("t".into()));
    }
}
