//! A call's params: raw, with the few members that routing needs looked up once.

use std::sync::{Arc, OnceLock};

use hospes_model::{RawJson, RpcError};
use serde::de::DeserializeOwned;

/// The params of a call, not decoded. Cheap to clone; every clone is the same params.
#[derive(Clone, Debug)]
pub struct Params(Arc<ParamsInner>);

#[derive(Debug)]
struct ParamsInner {
    raw: RawJson,
    view: OnceLock<ParamsView>,
}

/// The members by which calls are routed; slices of the same memory.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ParamsView {
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
    /// A duplicate member. All others are then absent, and the params must be rejected.
    pub repeated: Option<&'static str>,
}

impl Params {
    /// Keeps `raw`; `null` is replaced by `{}`.
    #[must_use]
    pub fn new(raw: RawJson) -> Self {
        let raw = if raw.is_null() { RawJson::empty_object() } else { raw };
        Self(Arc::new(ParamsInner { raw, view: OnceLock::new() }))
    }

    /// Returns the JSON text.
    #[must_use]
    pub fn raw(&self) -> &RawJson {
        &self.0.raw
    }

    /// Returns the members needed for routing. A member of the wrong type counts as absent here and is rejected when
    /// the params are decoded.
    pub fn view(&self) -> &ParamsView {
        self.0.view.get_or_init(|| view(&self.0.raw))
    }

    /// The params as the method's type.
    ///
    /// # Errors
    /// `-32602` naming the path of the first value that does not fit.
    pub fn decode<P: DeserializeOwned>(&self) -> Result<P, RpcError> {
        decode_part(self.0.raw.as_bytes(), "params")
    }
}

/// Reads a part of a message. Where it does not fit, `what` and the path inside it are named.
///
/// What is read rarely is read this way throughout, so that there is one copy of each type's reader in a program.
pub(crate) fn decode_part<T: DeserializeOwned>(json: &[u8], what: &str) -> Result<T, RpcError> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let why = error.into_inner();
        if path == "." {
            RpcError::invalid_params(format!("invalid {what}: {why}"))
        } else {
            RpcError::invalid_params(format!("invalid {what} at {path}: {why}"))
        }
    })
}

/// Nothing where a member stands twice: who reads the first and who reads the last must not be told different things.
fn view(raw: &RawJson) -> ParamsView {
    const KNOWN: [&str; 7] =
        ["name", "arguments", "_meta", "uri", "taskId", "inputResponses", "requestState"];

    let mut view = ParamsView::default();
    let mut seen = [false; KNOWN.len()];
    for member in raw.members() {
        let key = member.key();
        let Some(index) = KNOWN.iter().position(|known| *known == key) else { continue };
        if std::mem::replace(&mut seen[index], true) {
            return ParamsView { repeated: Some(KNOWN[index]), ..ParamsView::default() };
        }
        if member.is_null() {
            continue;
        }
        let text = || member.text().map(|text| Box::from(&*text));
        match KNOWN[index] {
            "name" => view.name = text(),
            "uri" => view.uri = text(),
            "taskId" => view.task_id = text(),
            // One of the wrong type must not count as absent, which would begin the call anew: no state is empty, so
            // that this is refused like any other that is not ours.
            "requestState" => view.request_state = Some(text().unwrap_or_default()),
            "arguments" => view.arguments = Some(member.value()),
            "_meta" => view.meta = Some(member.value()),
            _ => view.input_responses = Some(member.value()),
        }
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> Params {
        Params::new(RawJson::parse(text.to_owned()).unwrap())
    }

    #[test]
    fn what_routing_needs_is_found_in_any_order_and_spelling() {
        let params = params(
            r#"{ "_meta" : {"name":"inner"}, "n\u0061me":"a\"b", "arguments":{"uri":1}, "uri":5, "taskId":null }"#,
        );
        let view = params.view();
        assert_eq!(view.name.as_deref(), Some("a\"b"));
        assert_eq!(view.arguments.as_ref().map(RawJson::as_str), Some(r#"{"uri":1}"#));
        assert_eq!(view.meta.as_ref().map(RawJson::as_str), Some(r#"{"name":"inner"}"#));
        assert!(view.uri.is_none() && view.task_id.is_none() && view.request_state.is_none());
    }

    #[test]
    fn a_member_that_stands_twice_leaves_nothing() {
        for twice in
            [r#"{"name":"a","name":"b"}"#, r#"{"name":5,"name":"b"}"#, r#"{"name":"a","n\u0061me":null}"#]
        {
            let params = params(twice);
            assert!(params.view().name.is_none() && params.view().repeated == Some("name"), "{twice}");
        }
    }
}
