//! Input requests and their responses. A server sends them as requests of its own (legacy) or inside a result
//! (2026-07-28).

use std::borrow::Cow;

use serde::Serialize;

use crate::revision::step::{self, Lower};
use crate::types::*;
use crate::{LoweringError, LoweringErrorKind, Method, RawJson, Revision, RpcError};

impl InputRequest {
    /// Checks that the client declared the capability that this input request needs. A request of an extension needs
    /// any extension, because its name does not say which one.
    ///
    /// # Errors
    /// `-32021` that names the missing capability (MRTR-05, ELIC-03, SAMP-31), or `-32601` for a request of an
    /// extension.
    pub fn check_required_capability(&self, client: &ClientCapabilities) -> Result<(), RpcError> {
        let empty = || Some(RawJson::empty_object());
        let mut required = ClientCapabilities::new();
        let declared = match self {
            Self::CreateMessage(params) => {
                let tools = !params.tools.is_empty() || params.tool_choice.is_some();
                let mut sampling = SamplingCapability::new();
                sampling.tools = empty().filter(|_| tools);
                required.sampling = Some(sampling);
                client.sampling.is_some() && (!tools || client.samples_with_tools())
            }
            Self::Elicit(params) => {
                let mut elicitation = ElicitationCapability::new();
                let declared = match **params {
                    ElicitParams::Form(_) => {
                        elicitation.form = empty();
                        client.elicits_forms()
                    }
                    ElicitParams::Url(_) => {
                        elicitation.url = empty();
                        client.elicits_urls()
                    }
                };
                required.elicitation = Some(elicitation);
                declared
            }
            Self::ListRoots(_) => {
                required.roots = Some(RootsCapability::new());
                client.roots.is_some()
            }
            Self::Other { method, .. } => {
                let declared = is_of_extension(method) && client.has_own_extensions();
                return if declared { Ok(()) } else { Err(RpcError::method_not_found(method)) };
            }
        };
        if declared { Ok(()) } else { Err(RpcError::missing_client_capability(&required)) }
    }

    /// Converts the input request to its method and params in a revision.
    ///
    /// # Errors
    /// If the revision has no such request.
    pub fn lower(&self, to: Revision) -> Result<(Method, RawJson), LoweringError> {
        let unsayable = |kind| LoweringError::new(to, kind);
        let raw = |written: Result<RawJson, _>| written.map_err(|_| unsayable(LoweringErrorKind::Question));
        match self.lowered(to).map_err(unsayable)?.as_ref() {
            Self::CreateMessage(params) => Ok((Method::CreateMessage, raw(RawJson::from_serialize(params))?)),
            Self::Elicit(params) => Ok((Method::Elicit, raw(RawJson::from_serialize(params))?)),
            Self::ListRoots(params) => Ok((Method::RootsList, raw(RawJson::from_serialize(params))?)),
            Self::Other { method, params } => Ok((Method::from_name(method), params.clone())),
        }
    }

    pub(crate) fn lowered(&self, to: Revision) -> Result<Cow<'_, Self>, LoweringErrorKind> {
        let mut lowered = self.clone();
        match &mut lowered {
            Self::CreateMessage(params) => step::create_message(params, to)?,
            Self::Elicit(params) => step::elicit(params, to)?,
            Self::ListRoots(params) => step::list_roots(params, to),
            Self::Other { method, .. } if is_of_extension(method) => {}
            Self::Other { .. } => return Err(LoweringErrorKind::Question),
        }
        Ok(Cow::Owned(lowered))
    }

    /// Decodes a request from a legacy server as an input request.
    ///
    /// # Errors
    /// `-32601` if the method is not an input request, `-32602` if the params do not match the method.
    pub fn decode(method: &Method, params: &RawJson) -> Result<Self, RpcError> {
        let wrong = |error: serde_json::Error| RpcError::invalid_params(format!("{method}: {error}"));
        match method {
            Method::CreateMessage => params.decode().map(Self::CreateMessage).map_err(wrong),
            Method::Elicit => params.decode().map(Self::Elicit).map_err(wrong),
            Method::RootsList => crate::decode_params(params).map(Self::ListRoots).map_err(wrong),
            Method::Other(name) => Ok(Self::Other { method: name.to_string(), params: params.clone() }),
            other => Err(RpcError::method_not_found(other.name())),
        }
    }
}

/// Returns true if the specification does not define the method.
fn is_of_extension(method: &str) -> bool {
    matches!(Method::from_name(method), Method::Other(_))
}

impl From<CreateMessageParams> for InputRequest {
    fn from(params: CreateMessageParams) -> Self {
        Self::CreateMessage(Box::new(params))
    }
}

impl From<ElicitParams> for InputRequest {
    fn from(params: ElicitParams) -> Self {
        Self::Elicit(Box::new(params))
    }
}

impl From<ListRootsParams> for InputRequest {
    fn from(params: ListRootsParams) -> Self {
        Self::ListRoots(params)
    }
}

/// Response to an input request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InputResponse {
    /// Result of the sampling request.
    CreateMessage(Box<CreateMessageResult>),
    /// Result of the elicitation.
    Elicit(ElicitResult),
    /// The client's roots.
    ListRoots(ListRootsResult),
    /// The result of an extension's request, unchanged.
    Other {
        /// The method of the request.
        method: Method,
        /// The result, a JSON object.
        result: RawJson,
    },
}

impl InputResponse {
    /// Decodes the response to an input request with this method.
    ///
    /// # Errors
    /// If the response does not match the method, or the method is not an input request.
    pub fn decode(method: &Method, answer: &RawJson) -> Result<Self, RpcError> {
        let wrong = |error: serde_json::Error| {
            RpcError::invalid_params(format!("invalid answer to {method}: {error}"))
        };
        match method {
            Method::CreateMessage => answer.decode().map(Self::CreateMessage).map_err(wrong),
            Method::Elicit => answer.decode().map(Self::Elicit).map_err(wrong),
            Method::RootsList => answer.decode().map(Self::ListRoots).map_err(wrong),
            Method::Other(_) if answer.is_object() => {
                Ok(Self::Other { method: method.clone(), result: answer.clone() })
            }
            Method::Other(_) => {
                Err(RpcError::invalid_params(format!("the answer to {method} must be an object")))
            }
            other => Err(RpcError::invalid_params(format!("{other} is not an input request"))),
        }
    }

    /// Encodes the response for a revision: a separate result in older ones, a member of `inputResponses` in
    /// 2026-07-28.
    ///
    /// # Errors
    /// If it cannot be serialized.
    pub fn encode(&self, to: Revision) -> Result<RawJson, serde_json::Error> {
        fn write<T: Lower + Serialize>(value: &T, to: Revision) -> Result<RawJson, serde_json::Error> {
            RawJson::from_serialize(&value.lowered(to))
        }
        match self {
            Self::CreateMessage(result) => write(result.as_ref(), to),
            Self::Elicit(result) => write(result, to),
            Self::ListRoots(result) => write(result, to),
            Self::Other { result, .. } => Ok(result.clone()),
        }
    }

    /// Returns the method of the input request that this responds to.
    #[must_use]
    pub fn method(&self) -> Method {
        match self {
            Self::CreateMessage(_) => Method::CreateMessage,
            Self::Elicit(_) => Method::Elicit,
            Self::ListRoots(_) => Method::RootsList,
            Self::Other { method, .. } => method.clone(),
        }
    }
}

impl From<CreateMessageResult> for InputResponse {
    fn from(result: CreateMessageResult) -> Self {
        Self::CreateMessage(Box::new(result))
    }
}

impl From<ElicitResult> for InputResponse {
    fn from(result: ElicitResult) -> Self {
        Self::Elicit(result)
    }
}

impl From<ListRootsResult> for InputResponse {
    fn from(result: ListRootsResult) -> Self {
        Self::ListRoots(result)
    }
}

macro_rules! for_revision {
    ($($type:ident)+) => {$(
        impl $type {
            /// Converts the value to a revision. Borrows it if nothing changes.
            #[must_use]
            pub fn for_revision(&self, to: Revision) -> Cow<'_, Self> {
                self.lowered(to)
            }
        }
    )+};
}

for_revision!(ClientCapabilities ServerCapabilities Implementation Tool Prompt Resource ResourceTemplate);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::code;

    fn missing(question: &InputRequest, client: Value) -> Option<Value> {
        let client: ClientCapabilities = serde_json::from_value(client).unwrap();
        let error = question.check_required_capability(&client).err()?;
        assert_eq!(error.code, code::MISSING_CLIENT_CAPABILITY);
        Some(error.data.unwrap().to_value().unwrap()["requiredCapabilities"].clone())
    }

    /// covers: MRTR-05 ELIC-02 ELIC-03 SAMP-31
    #[test]
    fn a_question_needs_what_the_client_declared() {
        let form: InputRequest = ElicitParams::form("m", ElicitSchema::new()).into();
        let url: InputRequest = ElicitParams::url("m", "https://a/").into();
        let sample: InputRequest = CreateMessageParams::new(vec![], 1).into();
        let schema = RawJson::empty_object();
        let tools: InputRequest =
            CreateMessageParams::new(vec![], 1).with_tools(vec![Tool::new("t", schema)]).into();
        let roots: InputRequest = ListRootsParams::new().into();

        assert_eq!(missing(&form, json!({})), Some(json!({"elicitation": {"form": {}}})));
        assert_eq!(
            missing(&form, json!({"elicitation": {"url": {}}})),
            Some(json!({"elicitation": {"form": {}}}))
        );
        assert_eq!(missing(&form, json!({"elicitation": {}})), None);
        assert_eq!(missing(&url, json!({"elicitation": {}})), Some(json!({"elicitation": {"url": {}}})));
        assert_eq!(missing(&url, json!({"elicitation": {"url": {}}})), None);
        // The message names the member, because elicitation by itself was declared.
        let forms: ClientCapabilities = serde_json::from_value(json!({"elicitation": {}})).unwrap();
        let error = url.check_required_capability(&forms).unwrap_err();
        assert!(error.message.contains("`elicitation.url`"), "{}", error.message);
        assert_eq!(missing(&sample, json!({})), Some(json!({"sampling": {}})));
        assert_eq!(missing(&sample, json!({"sampling": {}})), None);
        assert_eq!(missing(&tools, json!({"sampling": {}})), Some(json!({"sampling": {"tools": {}}})));
        assert_eq!(missing(&tools, json!({"sampling": {"tools": {}}})), None);
        assert_eq!(missing(&roots, json!({})), Some(json!({"roots": {}})));
        assert_eq!(missing(&roots, json!({"roots": {}})), None);
    }

    #[test]
    fn a_question_and_its_answer_are_read_by_their_method() {
        let question = ElicitParams::url("m", "https://a/");
        let question =
            InputRequest::decode(&Method::Elicit, &RawJson::from_serialize(&question).unwrap()).unwrap();
        assert!(matches!(question, InputRequest::Elicit(_)));
        assert!(matches!(
            InputRequest::decode(&Method::RootsList, &RawJson::null()),
            Ok(InputRequest::ListRoots(_))
        ));
        let error = InputRequest::decode(&Method::ToolsCall, &RawJson::empty_object()).unwrap_err();
        assert_eq!(error.code, code::METHOD_NOT_FOUND);
        let error = InputRequest::decode(&Method::CreateMessage, &RawJson::empty_object()).unwrap_err();
        assert_eq!(error.code, code::INVALID_PARAMS);

        let roots = RawJson::from(json!({"roots": [], "action": "accept"}));
        assert!(matches!(InputResponse::decode(&Method::RootsList, &roots), Ok(InputResponse::ListRoots(_))));
        assert!(matches!(InputResponse::decode(&Method::Elicit, &roots), Ok(InputResponse::Elicit(_))));
        assert!(InputResponse::decode(&Method::CreateMessage, &roots).is_err());
        assert!(InputResponse::decode(&Method::Ping, &roots).is_err());
    }
}
