//! Decoding of results. The method determines the type, unless `resultType` names another one.

use std::fmt;

use serde::de::value::CowStrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use super::Reply;
use crate::revision::lift::Lift;
use crate::revision::v2025_11_25::{WireCreateTask, WireTaskWithMeta, WireTasks};
use crate::types::tagged::BorrowedText;
use crate::types::*;
use crate::{Method, RawJson, Revision};

/// Result of a request as a peer sent it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PeerResult {
    /// The complete result, in the form of the newest revision.
    Complete(Reply),
    /// Input requests that come before the result (2026-07-28).
    InputRequired(InputRequiredResult),
    /// The request became a task.
    Task(CreateTaskResult),
}

/// Reasons a result cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerResultError {
    /// The result does not match the method.
    #[error("invalid result of {method}")]
    Shape {
        /// The method.
        method: Method,
        /// Cause of the failure.
        #[source]
        source: serde_json::Error,
    },
    /// The `resultType` is not valid for the method (MSG-27, MRTR-02, TSKX-03).
    #[error("the result of {method} cannot have the resultType {result_type:?}")]
    ResultType {
        /// The method.
        method: Method,
        /// The `resultType`.
        result_type: Box<str>,
    },
}

impl PeerResult {
    /// Decodes the result of a request with this method. A result without `resultType` is complete (MSG-26).
    ///
    /// # Errors
    /// If the result does not match the method, or its `resultType` is not valid for it.
    pub fn decode(method: &Method, from: Revision, json: &RawJson) -> Result<Self, PeerResultError> {
        match method {
            Method::Ping
            | Method::SetLevel
            | Method::ResourcesSubscribe
            | Method::ResourcesUnsubscribe
            | Method::TasksUpdate => decode_result::<EmptyResult>(method, from, json),
            Method::Initialize => decode_result::<InitializeResult>(method, from, json),
            Method::Discover => decode_result::<DiscoverResult>(method, from, json),
            Method::ToolsList => decode_result::<ListToolsResult>(method, from, json),
            Method::ToolsCall => decode_result::<CallToolResult>(method, from, json),
            Method::PromptsList => decode_result::<ListPromptsResult>(method, from, json),
            Method::PromptsGet => decode_result::<GetPromptResult>(method, from, json),
            Method::ResourcesList => decode_result::<ListResourcesResult>(method, from, json),
            Method::ResourceTemplatesList => decode_result::<ListResourceTemplatesResult>(method, from, json),
            Method::ResourcesRead => decode_result::<ReadResourceResult>(method, from, json),
            Method::Complete => decode_result::<CompleteResult>(method, from, json),
            Method::SubscriptionsListen => decode_result::<SubscriptionsListenResult>(method, from, json),
            Method::CreateMessage => decode_result::<CreateMessageResult>(method, from, json),
            Method::RootsList => decode_result::<ListRootsResult>(method, from, json),
            Method::Elicit => decode_result::<ElicitResult>(method, from, json),
            Method::TasksGet | Method::TasksCancel if from.is_legacy() => {
                let wire: WireTaskWithMeta = decode(method, json)?;
                let mut result = GetTaskResult::new(wire.task.into());
                result.meta = wire.meta;
                Ok(Self::Complete(result.into()))
            }
            Method::TasksGet => decode_result::<GetTaskResult>(method, from, json),
            Method::TasksCancel => decode_result::<EmptyResult>(method, from, json),
            Method::TasksList => {
                let wire: WireTasks = decode(method, json)?;
                let mut result = ListTasksResult::new(wire.tasks.into_iter().map(Task::from).collect());
                (result.meta, result.next_cursor) = (wire.meta, wire.next_cursor);
                Ok(Self::Complete(result.into()))
            }
            // The result of tasks/result has the type of another method, and unknown methods have a type that only the
            // peers know.
            _ => other(method, from, json),
        }
    }

    /// Decodes the result of a request that asked for a task (2025-11-25, TASK-09).
    ///
    /// # Errors
    /// If the result is not a task.
    pub fn decode_task(method: &Method, json: &RawJson) -> Result<CreateTaskResult, PeerResultError> {
        let wire: WireCreateTask = decode(method, json)?;
        Ok(CreateTaskResult::new(wire.task.into()).with_meta(wire.meta))
    }
}

fn decode<T: DeserializeOwned>(method: &Method, json: &RawJson) -> Result<T, PeerResultError> {
    json.decode().map_err(|source| PeerResultError::Shape { method: method.clone(), source })
}

fn decode_result<T>(method: &Method, from: Revision, json: &RawJson) -> Result<PeerResult, PeerResultError>
where
    T: DeserializeOwned + Lift,
    Reply: From<T>,
{
    let complete = |mut value: T| {
        value.lift(from);
        PeerResult::Complete(value.into())
    };
    if from.is_legacy() {
        return decode(method, json).map(complete);
    }
    // The value is decoded as a complete result, which it nearly always is, and `resultType` is captured on the way.
    // Only if that fails is it decoded again.
    let mut result_type = None;
    let value = T::deserialize(ResultTypeDeserializer {
        inner: &mut serde_json::Deserializer::from_slice(json.as_bytes()),
        result_type: &mut result_type,
    });
    match (value, result_type.as_deref()) {
        (Ok(value), None | Some("complete")) => Ok(complete(value)),
        (Err(source), Some("complete")) => Err(PeerResultError::Shape { method: method.clone(), source }),
        // Decoding may have failed before it reached `resultType`.
        (Err(source), None) => match peek(json) {
            None => Err(PeerResultError::Shape { method: method.clone(), source }),
            Some(result_type) if &*result_type == "complete" => {
                Err(PeerResultError::Shape { method: method.clone(), source })
            }
            Some(result_type) => incomplete(method, json, &result_type),
        },
        (_, Some(result_type)) => incomplete(method, json, result_type),
    }
}

fn incomplete(method: &Method, json: &RawJson, result_type: &str) -> Result<PeerResult, PeerResultError> {
    match result_type {
        "input_required" if method.allows_input_requests() => {
            decode(method, json).map(PeerResult::InputRequired)
        }
        "task" if *method == Method::ToolsCall => decode(method, json).map(PeerResult::Task),
        _ => Err(PeerResultError::ResultType { method: method.clone(), result_type: result_type.into() }),
    }
}

/// Decodes a result whose type is unknown.
fn other(method: &Method, from: Revision, json: &RawJson) -> Result<PeerResult, PeerResultError> {
    match (!from.is_legacy()).then(|| peek(json)).flatten() {
        Some(result_type) if &*result_type != "complete" => incomplete(method, json, &result_type),
        _ => Ok(PeerResult::Complete(Reply::raw(from, json.clone()))),
    }
}

fn peek(json: &RawJson) -> Option<Box<str>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ResultTypeField {
        result_type: Option<Box<str>>,
    }
    json.decode::<ResultTypeField>().ok()?.result_type
}

/// Deserializer that captures `resultType` from the object it reads.
struct ResultTypeDeserializer<'w, D> {
    inner: D,
    result_type: &'w mut Option<Box<str>>,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ResultTypeDeserializer<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(ResultTypeVisitor { visitor, result_type: self.result_type })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct ResultTypeVisitor<'w, V> {
    visitor: V,
    result_type: &'w mut Option<Box<str>>,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for ResultTypeVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a result, an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(ResultTypeMapAccess { map, result_type: self.result_type })
    }
}

struct ResultTypeMapAccess<'w, A> {
    map: A,
    result_type: &'w mut Option<Box<str>>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ResultTypeMapAccess<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(BorrowedText(key)) = self.map.next_key::<BorrowedText<'de>>()? {
            if key != "resultType" {
                let key: CowStrDeserializer<'_, A::Error> = key.into_deserializer();
                return seed.deserialize(key).map(Some);
            }
            let BorrowedText(value) =
                self.map.next_value().map_err(|_| de::Error::custom("\"resultType\" must be a string"))?;
            *self.result_type = Some(value.into());
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
