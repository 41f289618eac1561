//! A call's params: raw, with the few members that routing needs looked up once.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hospes_model::{RawJson, RpcError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// The params of a call, not decoded. Cheap to clone; every clone is the same params.
#[derive(Clone, Debug)]
pub struct Params(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    raw: RawJson,
    view: OnceLock<View>,
}

/// The members by which calls are routed; slices of the same memory.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct View {
    /// `name`: the tool or the prompt.
    pub name: Option<Box<str>>,
    /// `uri`: the resource.
    pub uri: Option<Box<str>>,
    /// `taskId`.
    pub task_id: Option<Box<str>>,
    /// `arguments`, not decoded.
    pub arguments: Option<RawJson>,
    /// `_meta`, not decoded.
    pub meta: Option<RawJson>,
    /// `inputResponses`, not decoded.
    pub input_responses: Option<RawJson>,
    /// `requestState`.
    pub request_state: Option<Box<str>>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "taskId")]
    task_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "inputResponses")]
    input_responses: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "requestState")]
    request_state: Option<&'a RawValue>,
}

impl Params {
    /// Keeps `raw`; `null` stands for `{}`.
    #[must_use]
    pub fn new(raw: RawJson) -> Self {
        let raw = if raw.is_null() { RawJson::empty_object() } else { raw };
        Self(Arc::new(Inner { raw, view: OnceLock::new() }))
    }

    /// The text.
    #[must_use]
    pub fn raw(&self) -> &RawJson {
        &self.0.raw
    }

    /// The members that routing needs. A member of the wrong type counts as absent here and is refused when the
    /// whole is decoded.
    pub fn view(&self) -> &View {
        self.0.view.get_or_init(|| view(&self.0.raw).unwrap_or_default())
    }

    /// The params as the method's type.
    ///
    /// # Errors
    /// `-32602` naming the path of the first value that does not fit.
    pub fn decode<P: DeserializeOwned>(&self) -> Result<P, RpcError> {
        let mut reader = serde_json::Deserializer::from_slice(self.0.raw.as_bytes());
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            let why = error.into_inner();
            if path == "." {
                RpcError::invalid_params(format!("invalid params: {why}"))
            } else {
                RpcError::invalid_params(format!("invalid params at {path}: {why}"))
            }
        })
    }
}

fn view(raw: &RawJson) -> Option<View> {
    let whole: Bytes = raw.to_bytes();
    let wire: Wire<'_> = serde_json::from_slice(&whole).ok()?;
    let part = |value: Option<&RawValue>| value.map(|value| RawJson::within(&whole, value));
    Some(View {
        name: text(wire.name),
        uri: text(wire.uri),
        task_id: text(wire.task_id),
        arguments: part(wire.arguments),
        meta: part(wire.meta),
        input_responses: part(wire.input_responses),
        request_state: text(wire.request_state),
    })
}

fn text(value: Option<&RawValue>) -> Option<Box<str>> {
    let raw = value?.get();
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str::<Cow<'_, str>>(raw).ok().map(|text| text.into_owned().into());
    }
    Some(inner.into())
}
