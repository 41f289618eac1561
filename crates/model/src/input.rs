//! What a server may ask, as a request of its own (legacy) or inside a result (2026-07-28), and the answers.

use std::borrow::Cow;

use serde::Serialize;

use crate::revision::step::{self, Lower};
use crate::types::*;
use crate::{Method, RawJson, Revision, RpcError, Unsayable, UnsayableKind};

impl InputRequest {
    /// Whether the client declared what this question needs.
    ///
    /// # Errors
    /// `-32021` that names what is missing (MRTR-05, ELIC-03, SAMP-31).
    pub fn required_capability(&self, client: &ClientCapabilities) -> Result<(), RpcError> {
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
            Self::Unknown { .. } => false,
        };
        if declared { Ok(()) } else { Err(RpcError::missing_client_capability(&required)) }
    }

    /// The method and the params of this question in a revision.
    ///
    /// # Errors
    /// When the revision cannot say it.
    pub fn lower(&self, to: Revision) -> Result<(Method, RawJson), Unsayable> {
        let unsayable = |kind| Unsayable::new(to, kind);
        let raw = |written: Result<RawJson, _>| written.map_err(|_| unsayable(UnsayableKind::Question));
        match self.lowered(to).map_err(unsayable)?.as_ref() {
            Self::CreateMessage(params) => Ok((Method::CreateMessage, raw(RawJson::from_serialize(params))?)),
            Self::Elicit(params) => Ok((Method::Elicit, raw(RawJson::from_serialize(params))?)),
            Self::ListRoots(params) => Ok((Method::RootsList, raw(RawJson::from_serialize(params))?)),
            Self::Unknown { .. } => Err(unsayable(UnsayableKind::Question)),
        }
    }

    pub(crate) fn lowered(&self, to: Revision) -> Result<Cow<'_, Self>, UnsayableKind> {
        let mut lowered = self.clone();
        match &mut lowered {
            Self::CreateMessage(params) => step::create_message(params, to)?,
            Self::Elicit(params) => step::elicit(params, to)?,
            Self::ListRoots(params) => step::list_roots(params, to),
            Self::Unknown { .. } => return Err(UnsayableKind::Question),
        }
        Ok(Cow::Owned(lowered))
    }

    /// The question that a request of an older server is.
    ///
    /// # Errors
    /// `-32601` for a method that is no question, `-32602` for params of another shape.
    pub fn decode(method: &Method, params: &RawJson) -> Result<Self, RpcError> {
        let wrong = |error: serde_json::Error| RpcError::invalid_params(format!("{method}: {error}"));
        match method {
            Method::CreateMessage => params.decode().map(Self::CreateMessage).map_err(wrong),
            Method::Elicit => params.decode().map(Self::Elicit).map_err(wrong),
            Method::RootsList => crate::decode_params(params).map(Self::ListRoots).map_err(wrong),
            other => Err(RpcError::method_not_found(other.name())),
        }
    }
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

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum InputResponse {
    /// What the model answered.
    CreateMessage(Box<CreateMessageResult>),
    /// What the person answered.
    Elicit(ElicitResult),
    /// The client's roots.
    ListRoots(ListRootsResult),
}

impl InputResponse {
    /// Reads the answer to a question with this method.
    ///
    /// # Errors
    /// When it does not have the shape that the method says, or the method is no question's.
    pub fn decode(method: &Method, answer: &RawJson) -> Result<Self, RpcError> {
        let wrong = |error: serde_json::Error| {
            RpcError::invalid_params(format!("the answer to {method} has another shape: {error}"))
        };
        match method {
            Method::CreateMessage => answer.decode().map(Self::CreateMessage).map_err(wrong),
            Method::Elicit => answer.decode().map(Self::Elicit).map_err(wrong),
            Method::RootsList => answer.decode().map(Self::ListRoots).map_err(wrong),
            other => Err(RpcError::invalid_params(format!("{other} is no question"))),
        }
    }

    /// The answer in a revision: a result of its own in older ones, a member of `inputResponses` in 2026-07-28.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn encode(&self, to: Revision) -> Result<RawJson, serde_json::Error> {
        fn write<T: Lower + Serialize>(value: &T, to: Revision) -> Result<RawJson, serde_json::Error> {
            RawJson::from_serialize(&value.lowered(to))
        }
        match self {
            Self::CreateMessage(result) => write(result.as_ref(), to),
            Self::Elicit(result) => write(result, to),
            Self::ListRoots(result) => write(result, to),
        }
    }

    /// The method of the question that this answers.
    #[must_use]
    pub fn method(&self) -> Method {
        match self {
            Self::CreateMessage(_) => Method::CreateMessage,
            Self::Elicit(_) => Method::Elicit,
            Self::ListRoots(_) => Method::RootsList,
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
            /// This value as a revision has it: itself, where there is no difference.
            #[must_use]
            pub fn for_revision(&self, to: Revision) -> Cow<'_, Self> {
                self.lowered(to)
            }
        }
    )+};
}

for_revision!(ClientCapabilities ServerCapabilities Implementation Tool Prompt Resource ResourceTemplate);
