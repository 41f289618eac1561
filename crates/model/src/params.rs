//! Params: read once without copying, lowered for older servers, written with what every request carries.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::revision::step::Lower;
use crate::revision::{v2025_06_18, v2025_11_25};
use crate::types::tagged::Text;
use crate::write::{Members, SkipFirst, object_text, write_text};
use crate::{Era, InitializeParams, Meta, Method, RawJson, RequestMeta, Revision, meta_key};

/// The params of any request, read in one pass: what decides where it goes, the rest as it came.
///
/// This is what a server needs before (and for `tools/call` instead of) the method's own type.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ParamsHead<'a> {
    /// `_meta`, if there is any.
    pub meta: Option<RequestMeta<'a>>,
    /// `name`: of a tool or a prompt.
    pub name: Option<Cow<'a, str>>,
    /// `uri`: of a resource.
    pub uri: Option<Cow<'a, str>>,
    /// `taskId`.
    pub task_id: Option<Cow<'a, str>>,
    /// `cursor`.
    pub cursor: Option<Cow<'a, str>>,
    /// `arguments`, not decoded; absent where they are `null`.
    pub arguments: Option<&'a RawValue>,
    /// `inputResponses`, not decoded.
    pub input_responses: Option<&'a RawValue>,
    /// `requestState`.
    pub request_state: Option<Cow<'a, str>>,
    /// `task`, not decoded (2025-11-25).
    pub task: Option<&'a RawValue>,
}

impl<'a> ParamsHead<'a> {
    /// Reads params; none are like an empty object.
    ///
    /// # Errors
    /// When they are not an object, or one of the members has the wrong shape.
    pub fn read(params: Option<&'a RawValue>) -> Result<Self, serde_json::Error> {
        params.map_or_else(|| Ok(Self::default()), |raw| serde_json::from_str(raw.get()))
    }

    /// The value that the header `Mcp-Name` repeats for this method.
    #[must_use]
    pub fn routing_name(&self, method: &Method) -> Option<&str> {
        match method.info()?.name_param? {
            "name" => self.name.as_deref(),
            "uri" => self.uri.as_deref(),
            "taskId" => self.task_id.as_deref(),
            _ => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ParamsHead<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeadVisitor)
    }
}

struct HeadVisitor;

impl<'de> Visitor<'de> for HeadVisitor {
    type Value = ParamsHead<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("params, an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        fn text<'de, A: MapAccess<'de>>(map: &mut A, key: &str) -> Result<Option<Cow<'de, str>>, A::Error> {
            map.next_value::<Option<Text<'de>>>()
                .map(|text| text.map(|text| text.0))
                .map_err(|error| de::Error::custom(format_args!("the member {key:?}: {error}")))
        }
        let mut head = ParamsHead::default();
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            match &*key {
                "_meta" => head.meta = map.next_value()?,
                "name" => head.name = text(&mut map, &key)?,
                "uri" => head.uri = text(&mut map, &key)?,
                "taskId" => head.task_id = text(&mut map, &key)?,
                "cursor" => head.cursor = text(&mut map, &key)?,
                "requestState" => head.request_state = text(&mut map, &key)?,
                "arguments" => head.arguments = present(map.next_value()?),
                "inputResponses" => head.input_responses = present(map.next_value()?),
                "task" => head.task = present(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(head)
    }
}

fn present(raw: &RawValue) -> Option<&RawValue> {
    (raw.get() != "null").then_some(raw)
}

/// What a client says about itself on every request of 2026-07-28, written once.
#[derive(Clone, Debug)]
pub struct ClientStamp {
    /// The members of `_meta`, without braces.
    members: String,
}

impl ClientStamp {
    /// A client of 2026-07-28 that can do `capabilities`; without `info` it does not say who it is.
    #[must_use]
    pub fn new(capabilities: &crate::ClientCapabilities, info: Option<&crate::Implementation>) -> Self {
        let to = Revision::LATEST;
        let mut members = format!("\"{}\":\"{to}\"", meta_key::PROTOCOL_VERSION);
        let mut member = |key: &str, value: Option<RawJson>| {
            if let Some(value) = value {
                members.push_str(&format!(",\"{key}\":{}", value.as_str()));
            }
        };
        // Capabilities must be there, so what cannot be written becomes "none".
        let capabilities =
            RawJson::from_serialize(&capabilities.lowered(to)).unwrap_or_else(|_| RawJson::empty_object());
        member(meta_key::CLIENT_CAPABILITIES, Some(capabilities));
        member(meta_key::CLIENT_INFO, info.and_then(|info| RawJson::from_serialize(&info.lowered(to)).ok()));
        Self { members }
    }

    /// The members of `_meta`, without braces.
    #[must_use]
    pub fn members(&self) -> &str {
        &self.members
    }
}

/// Appends params that say nothing in `_meta` themselves, with `meta` and, for 2026-07-28, the stamp.
///
/// The stamp wins over members of `meta` with the same key: what one leg of a conversation says of itself never
/// crosses to another.
///
/// # Errors
/// When `params` is not an object, or cannot be written as JSON.
pub fn write_params<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    params: &P,
    meta: &Meta,
    stamp: Option<&ClientStamp>,
) -> Result<(), serde_json::Error> {
    let start = out.len();
    out.push(b'{');
    let mut first = true;
    if let Some(stamp) = stamp {
        out.extend_from_slice(b"\"_meta\":{");
        out.extend_from_slice(stamp.members.as_bytes());
        first = false;
    }
    for (key, value) in meta.iter() {
        if stamp.is_some() && STAMPED.contains(&key) {
            continue;
        }
        out.extend_from_slice(if first { b"\"_meta\":{" } else { b"," });
        first = false;
        write_text(out, key);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    }
    if !first {
        out.extend_from_slice(b"},");
    }
    let written = SkipFirst::write(out, 1, params);
    if written.is_err() || out.last() != Some(&b'}') {
        out.truncate(start);
        written?;
        return Err(de::Error::custom("params must be an object"));
    }
    close_object(out);
    Ok(())
}

const STAMPED: &[&str] = &[meta_key::PROTOCOL_VERSION, meta_key::CLIENT_CAPABILITIES, meta_key::CLIENT_INFO];

/// Takes back a comma that nothing followed.
fn close_object(out: &mut Vec<u8>) {
    if out.ends_with(b",}") {
        out.truncate(out.len() - 2);
        out.push(b'}');
    }
}

/// Params as `to` has them; the same memory where there is no difference.
///
/// For requests and notifications of a client to a server. What a client says about itself on requests of
/// 2026-07-28 is left out for older servers; it is [`write_params`] that puts it in for newer ones.
#[must_use]
pub fn lower_params(method: &Method, to: Revision, params: RawJson) -> RawJson {
    if *method == Method::Initialize {
        return lower_initialize(to, &params).unwrap_or(params);
    }
    lower_members(method, to, &params).unwrap_or(params)
}

fn lower_initialize(to: Revision, params: &RawJson) -> Option<RawJson> {
    let params: InitializeParams = params.decode().ok()?;
    let lowered = params.lowered(to);
    matches!(lowered, Cow::Owned(_)).then(|| RawJson::from_serialize(&lowered).ok()).flatten()
}

/// The members that stay, where not all do.
fn lower_members(method: &Method, to: Revision, params: &RawJson) -> Option<RawJson> {
    let members: Members<'_> = params.decode().ok()?;
    let mut changed = false;
    let mut kept: Vec<(Cow<'_, str>, Cow<'_, str>)> = Vec::with_capacity(members.0.len());
    for (key, raw) in members.0 {
        let value = match &*key {
            key if leaves_out_param(method, to, key) => {
                changed = true;
                continue;
            }
            "_meta" => {
                let meta = serde_json::from_str::<Members<'_>>(raw.get()).ok();
                let meta = meta.and_then(|meta| {
                    let count = meta.0.len();
                    let kept: Vec<_> =
                        meta.0.into_iter().filter(|(key, _)| !leaves_out_meta(to, key)).collect();
                    (kept.len() < count).then_some(kept)
                });
                match meta {
                    None => Cow::Borrowed(raw.get()),
                    Some(meta) => {
                        changed = true;
                        if meta.is_empty() {
                            continue;
                        }
                        Cow::Owned(object_text(meta.iter().map(|(key, raw)| (&**key, raw.get()))))
                    }
                }
            }
            "ref" if *method == Method::Complete && to <= Revision::V2025_03_26 => {
                match serde_json::from_str::<Members<'_>>(raw.get()) {
                    Ok(reference) if reference.0.iter().any(|(key, _)| key == "title") => {
                        changed = true;
                        let kept = reference.0.iter().filter(|(key, _)| key != "title");
                        Cow::Owned(object_text(kept.map(|(key, raw)| (&**key, raw.get()))))
                    }
                    _ => Cow::Borrowed(raw.get()),
                }
            }
            _ => Cow::Borrowed(raw.get()),
        };
        kept.push((key, value));
    }
    changed.then(|| RawJson::parse(object_text(kept.iter().map(|(k, v)| (&**k, &**v)))).ok()).flatten()
}

fn leaves_out_param(method: &Method, to: Revision, key: &str) -> bool {
    (to.era() == Era::Legacy && method.may_ask() && v2025_11_25::NEWER_PARAMS.contains(&key))
        || (to != Revision::V2025_11_25
            && *method == Method::ToolsCall
            && v2025_06_18::NEWER_PARAMS.contains(&key))
        || (to <= Revision::V2025_03_26 && *method == Method::Complete && key == "context")
}

fn leaves_out_meta(to: Revision, key: &str) -> bool {
    (to.era() == Era::Legacy && v2025_11_25::NEWER_META.contains(&key))
        || (to != Revision::V2025_11_25 && v2025_06_18::NEWER_META.contains(&key))
}
