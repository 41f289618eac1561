//! Request fields needed for routing, read without decoding the rest.

use std::borrow::Cow;
use std::fmt;

use hospes_model::{Method, Revision, RpcError, meta_key};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::RevisionSet;

/// Fields of the params of a request that admission needs. [`RoutingFields::from_params`] reads them in one pass; code that decodes the
/// params anyway can fill them in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "plain facts, to be filled in by whoever knows them")]
pub struct RoutingFields<'a> {
    /// Version in `_meta`.
    pub version: Option<Cow<'a, str>>,
    /// True if `_meta` holds the capabilities of the client, as an object.
    pub capabilities: bool,
    /// True if `_meta` holds any key that only modern requests have.
    pub modern: bool,
    /// Member that `Mcp-Name` repeats; for `initialize`, the requested version.
    pub name: Option<Cow<'a, str>>,
    /// True if `_meta`, one of its relevant keys, or the name appears twice.
    pub repeated: bool,
}

impl<'a> RoutingFields<'a> {
    /// Reads the fields from the params of a request of `method`.
    #[must_use]
    pub fn from_params(method: &Method, params: Option<&'a RawValue>) -> Self {
        let mut facts = Self::default();
        let name = match method {
            Method::Initialize => Some("protocolVersion"),
            _ => method.info().and_then(|info| info.name_param),
        };
        if let Some(params) = params {
            // Params that are not an object were rejected with the envelope.
            let mut json = serde_json::Deserializer::from_str(params.get());
            let _ = json.deserialize_map(RoutingParamsVisitor { facts: &mut facts, name });
        }
        facts
    }

    /// Returns the version in a modern request.
    ///
    /// # Errors
    /// Returns `-32602` when there is no version (STLS-03).
    pub fn version(&self) -> Result<&str, RpcError> {
        if self.repeated {
            return Err(RpcError::invalid_params("a member of params or _meta appears twice"));
        }
        self.version.as_deref().ok_or_else(|| missing(meta_key::PROTOCOL_VERSION))
    }

    /// Checks the members that a modern request must carry on every transport: a supported version, and the
    /// capabilities of the client (VER-12, STLS-03).
    ///
    /// # Errors
    /// `-32602` if a member is missing, `-32022` if the version is not supported.
    pub fn check(&self, revisions: RevisionSet) -> Result<Revision, RpcError> {
        let version = self.version()?;
        let revision = revisions.find_by_name(version).filter(|revision| !revision.is_legacy());
        let Some(revision) = revision else { return Err(revisions.unsupported_version_error(version)) };
        if self.capabilities { Ok(revision) } else { Err(missing(meta_key::CLIENT_CAPABILITIES)) }
    }
}

fn missing(key: &str) -> RpcError {
    RpcError::invalid_params(format!("params._meta lacks \"{key}\""))
}

struct RoutingParamsVisitor<'f, 'a> {
    facts: &'f mut RoutingFields<'a>,
    name: Option<&'static str>,
}

impl<'de> Visitor<'de> for RoutingParamsVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("params")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // Repetitions are recorded, because an intermediary may have used the other of two values.
        let (mut meta, mut named) = (false, false);
        while let Some(key) = map.next_key::<ParamKey<'de>>()? {
            if key.0 == "_meta" {
                self.facts.repeated |= std::mem::replace(&mut meta, true);
                map.next_value_seed(RoutingMetaSeed { facts: self.facts })?;
            } else if self.name.is_some_and(|name| key.0 == name) {
                self.facts.repeated |= std::mem::replace(&mut named, true);
                self.facts.name = string(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct RoutingMetaSeed<'f, 'a> {
    facts: &'f mut RoutingFields<'a>,
}

impl<'de> DeserializeSeed<'de> for RoutingMetaSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // Read as raw text, because `_meta` may have any type, which the method rejects.
        let raw: &'de RawValue = serde::Deserialize::deserialize(deserializer)?;
        if raw.get().starts_with('{') {
            let mut json = serde_json::Deserializer::from_str(raw.get());
            // Invalid members stay absent, which the method rejects.
            let _ = json.deserialize_map(RoutingMetaVisitor { facts: self.facts });
        }
        Ok(())
    }
}

struct RoutingMetaVisitor<'f, 'a> {
    facts: &'f mut RoutingFields<'a>,
}

impl<'de> Visitor<'de> for RoutingMetaVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_meta")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let facts = self.facts;
        while let Some(key) = map.next_key::<ParamKey<'de>>()? {
            match &*key.0 {
                meta_key::PROTOCOL_VERSION => {
                    facts.modern = true;
                    facts.repeated |= facts.version.is_some();
                    facts.version = string(map.next_value()?);
                }
                meta_key::CLIENT_CAPABILITIES => {
                    facts.modern = true;
                    facts.repeated |= facts.capabilities;
                    facts.capabilities = map.next_value::<&RawValue>()?.get().starts_with('{');
                }
                meta_key::CLIENT_INFO | meta_key::LOG_LEVEL => {
                    facts.modern = true;
                    map.next_value::<IgnoredAny>()?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

struct ParamKey<'a>(Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for ParamKey<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ParamKeyVisitor;
        impl<'de> Visitor<'de> for ParamKeyVisitor {
            type Value = ParamKey<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<ParamKey<'de>, E> {
                Ok(ParamKey(Cow::Borrowed(key)))
            }

            // A key with an escape cannot be borrowed from the text.
            fn visit_str<E>(self, key: &str) -> Result<ParamKey<'de>, E> {
                Ok(ParamKey(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(ParamKeyVisitor)
    }
}

fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<ParamKey<'_>>(raw.get()).ok().map(|key| key.0)
}
