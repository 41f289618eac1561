//! Input requests inside a result, and their responses (2026-07-28).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::types::lenient::or_default;
use crate::{CreateMessageParams, ElicitParams, ListRootsParams, Meta, RawJson};

/// Input requests by key. The server chooses the keys, which are unique in the request.
pub type InputRequests = BTreeMap<String, InputRequest>;

/// Undecoded responses by the key of their input request. The request's method determines the type
/// ([`InputResponse::decode`](crate::InputResponse::decode)).
pub type InputResponses = BTreeMap<String, RawJson>;

/// A request from the server for input: from the client, the model or the user.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InputRequest {
    /// `sampling/createMessage`: input from the model.
    CreateMessage(Box<CreateMessageParams>),
    /// `elicitation/create`: input from the user.
    Elicit(Box<ElicitParams>),
    /// `roots/list`: input from the client.
    ListRoots(ListRootsParams),
    /// A request of an extension, unchanged. Also a method of the specification that is not an input request, which no
    /// revision can express.
    Other {
        /// The method.
        method: String,
        /// Params of the request.
        params: RawJson,
    },
}

impl Serialize for InputRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct InputRequestRef<'a, P> {
            method: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            params: Option<&'a P>,
        }
        match self {
            Self::CreateMessage(params) => {
                InputRequestRef { method: self.method(), params: Some(params) }.serialize(serializer)
            }
            Self::Elicit(params) => {
                InputRequestRef { method: self.method(), params: Some(params) }.serialize(serializer)
            }
            Self::ListRoots(params) => {
                let params = (!params.meta.is_empty()).then_some(params);
                InputRequestRef { method: self.method(), params }.serialize(serializer)
            }
            Self::Other { method, params } => {
                InputRequestRef { method, params: Some(params) }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for InputRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct RawInputRequest {
            method: String,
            params: Option<RawJson>,
        }
        let RawInputRequest { method, params } = RawInputRequest::deserialize(deserializer)?;
        let params = params.unwrap_or_else(RawJson::empty_object);
        let wrong = |error| serde::de::Error::custom(format_args!("the params of {method}: {error}"));
        Ok(match method.as_str() {
            "sampling/createMessage" => Self::CreateMessage(params.decode().map_err(wrong)?),
            "elicitation/create" => Self::Elicit(params.decode().map_err(wrong)?),
            "roots/list" => Self::ListRoots(params.decode().map_err(wrong)?),
            _ => Self::Other { method, params },
        })
    }
}

impl InputRequest {
    /// Returns the name of the method.
    #[must_use]
    pub fn method(&self) -> &str {
        match self {
            Self::CreateMessage(_) => "sampling/createMessage",
            Self::Elicit(_) => "elicitation/create",
            Self::ListRoots(_) => "roots/list",
            Self::Other { method, .. } => method,
        }
    }
}

/// A result that requires input first: input requests, a request state, or both (MRTR-03).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InputRequiredResult {
    /// Metadata.
    #[serde(
        default,
        rename = "_meta",
        skip_serializing_if = "Meta::is_empty",
        deserialize_with = "or_default"
    )]
    pub meta: Meta,
    /// Input requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "or_default")]
    pub input_requests: InputRequests,
    /// Opaque state that the client returns byte for byte with the responses (MRTR-08).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
}

impl InputRequiredResult {
    /// Creates a result without input requests.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

setters!(InputRequiredResult {
    set with_input_requests(input_requests: InputRequests);
    some with_request_state(request_state: String);
    set with_meta(meta: Meta);
});
