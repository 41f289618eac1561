//! Encoding of results, in one pass into one buffer.

use std::borrow::Cow;

use serde::Serialize;
use serde::ser::Error as _;

use super::{PeerResult, PeerResultError, Reply, text_result};
use crate::revision::step::Lower;
use crate::revision::v2025_11_25::{WireCreateTask, WireTask, WireTaskWithMeta, WireTasks};
use crate::types::*;
use crate::write::write_rest;
use crate::{LoweringError, LoweringErrorKind, Method, RawJson, Revision, meta_key};

/// Server metadata that is added to results that do not set it themselves.
#[derive(Clone, Debug)]
pub struct ServerStamp {
    pub(super) server_info: Option<Box<[u8]>>,
    ttl_ms: u64,
    cache_scope: CacheScope,
}

impl ServerStamp {
    /// Creates a stamp that names the server (DISC-05) and allows no caching of results.
    #[must_use]
    pub fn new(server_info: &RawJson) -> Self {
        let member = format!("\"{}\":{}", meta_key::SERVER_INFO, server_info.as_str());
        Self { server_info: Some(member.into_bytes().into()), ..Self::anonymous() }
    }

    /// Creates a stamp without a server name.
    #[must_use]
    pub const fn anonymous() -> Self {
        Self { server_info: None, ttl_ms: 0, cache_scope: CacheScope::Private }
    }

    /// Sets the time in milliseconds for which results may be cached, and the cache scope.
    #[must_use]
    pub const fn with_cache(mut self, ttl_ms: u64, cache_scope: CacheScope) -> Self {
        self.ttl_ms = ttl_ms;
        self.cache_scope = cache_scope;
        self
    }
}

/// Reasons a result cannot be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The value cannot be serialized: a map has keys that are not strings, or its `Serialize` implementation fails.
    #[error("cannot serialize the result as JSON")]
    Json(#[from] serde_json::Error),
    /// The peer's revision has no such result.
    #[error(transparent)]
    Unsayable(#[from] LoweringError),
    /// An input-required result has neither input requests nor a state (MRTR-03).
    #[error("an input_required result must have inputRequests or requestState")]
    NothingAsked,
    /// A result from a peer of another revision does not match its method.
    #[error("the forwarded result cannot be read")]
    Foreign(#[from] PeerResultError),
}

/// A result whose members the encoder knows. `_meta` always comes first.
trait EncodableResult: Lower + Serialize {
    fn meta(&self) -> &Meta;

    /// Cache settings of the result; `None` for results that may not have any.
    fn cache(&self) -> Option<(Option<u64>, Option<CacheScope>)> {
        None
    }
}

macro_rules! body {
    ($($type:ident)+) => {$(
        impl EncodableResult for $type {
            fn meta(&self) -> &Meta {
                &self.meta
            }
        }
    )+};
}

macro_rules! cached_body {
    ($($type:ident)+) => {$(
        impl EncodableResult for $type {
            fn meta(&self) -> &Meta {
                &self.meta
            }

            fn cache(&self) -> Option<(Option<u64>, Option<CacheScope>)> {
                Some((self.ttl_ms, self.cache_scope))
            }
        }
    )+};
}

body!(EmptyResult CallToolResult GetPromptResult CompleteResult SubscriptionsListenResult InitializeResult);
body!(CreateMessageResult ElicitResult ListRootsResult CreateTaskResult GetTaskResult);
cached_body!(DiscoverResult ListToolsResult ListPromptsResult ListResourcesResult);
cached_body!(ListResourceTemplatesResult ReadResourceResult);

impl Reply {
    /// Appends the value of `result` in revision `to`.
    ///
    /// In 2026-07-28, `resultType`, the server's name from `stamp` and the cache settings are added (MSG-25, DISC-05,
    /// CACHE-01). Parts that need no conversion are not copied. On error, `out` is unchanged.
    ///
    /// # Errors
    /// If the revision has no such result, or it cannot be serialized.
    pub fn encode(
        &self,
        method: &Method,
        to: Revision,
        stamp: &ServerStamp,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let start = out.len();
        let written = self.write(method, to, stamp, out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn write(
        &self,
        method: &Method,
        to: Revision,
        stamp: &ServerStamp,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let only = |fits: bool| {
            if fits { Ok(()) } else { Err(LoweringError::new(to, LoweringErrorKind::Result)) }
        };
        match self {
            Self::Empty => body(&EmptyResult::new(), to, stamp, out),
            Self::CallTool(result) if text_result::write_text_result(result, to, stamp, out) => Ok(()),
            Self::CallTool(result) => body(result, to, stamp, out),
            Self::ListTools(result) => body(result.as_ref(), to, stamp, out),
            Self::ListPrompts(result) => body(result.as_ref(), to, stamp, out),
            Self::GetPrompt(result) => body(result.as_ref(), to, stamp, out),
            Self::ListResources(result) => body(result.as_ref(), to, stamp, out),
            Self::ListResourceTemplates(result) => body(result.as_ref(), to, stamp, out),
            Self::ReadResource(result) => body(result.as_ref(), to, stamp, out),
            Self::Complete(result) => body(result.as_ref(), to, stamp, out),
            Self::Initialize(result) => {
                only(to.is_legacy())?;
                body(result.as_ref(), to, stamp, out)
            }
            Self::Discover(result) => {
                only(!to.is_legacy())?;
                body(result.as_ref(), to, stamp, out)
            }
            Self::Listen(result) => {
                only(!to.is_legacy())?;
                body(result.as_ref(), to, stamp, out)
            }
            // Inside a request of 2026-07-28 these are responses to input requests, which `InputResponse` encodes.
            Self::CreateMessage(result) => {
                only(to.is_legacy())?;
                body(result.as_ref(), to, stamp, out)
            }
            Self::ListRoots(result) => {
                only(to.is_legacy())?;
                body(result.as_ref(), to, stamp, out)
            }
            Self::Elicit(result) => {
                only(to.is_legacy() && to >= Revision::V2025_06_18)?;
                body(result.as_ref(), to, stamp, out)
            }
            Self::CreateTask(_) | Self::GetTask(_) | Self::ListTasks(_) => self.write_task(to, stamp, out),
            // Within one revision nothing is decoded, so that the result stays unchanged.
            Self::Raw { revision, json, .. } if *revision == to => {
                out.extend_from_slice(json.as_bytes());
                Ok(())
            }
            Self::Raw { revision, json, bridge } => bridge.write(method, (*revision, json), to, stamp, out),
            Self::Prepared(prepared) => {
                out.extend_from_slice(&prepared.bytes(method, to, stamp)?);
                Ok(())
            }
        }
    }

    fn write_task(&self, to: Revision, stamp: &ServerStamp, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match (self, to) {
            (Self::CreateTask(result), Revision::V2026_07_28) => {
                modern(result.lowered(to).as_ref(), ResultType::Task, stamp, out)
            }
            (Self::GetTask(result), Revision::V2026_07_28) => {
                let mut result = Cow::Borrowed(result.as_ref());
                lower_input_requests(&mut result, to)?;
                body(result.as_ref(), to, stamp, out)
            }
            (Self::CreateTask(result), Revision::V2025_11_25) => {
                let meta = result.lowered(to).into_owned().meta;
                let wire = WireCreateTask { meta, task: WireTask::from(&result.task) };
                Ok(serde_json::to_writer(out, &wire)?)
            }
            (Self::GetTask(result), Revision::V2025_11_25) => {
                let task = WireTask::from(result.as_ref());
                let wire = WireTaskWithMeta { meta: result.lowered(to).into_owned().meta, task };
                Ok(serde_json::to_writer(out, &wire)?)
            }
            (Self::ListTasks(result), Revision::V2025_11_25) => {
                let result = result.lowered(to);
                let tasks = result.tasks.iter().map(WireTask::from).collect();
                let wire =
                    WireTasks { meta: result.meta.clone(), tasks, next_cursor: result.next_cursor.clone() };
                Ok(serde_json::to_writer(out, &wire)?)
            }
            _ => Err(LoweringError::new(to, LoweringErrorKind::Task).into()),
        }
    }
}

impl InputRequiredResult {
    /// Appends the value of `result`, with `resultType` and the server's name from `stamp` (2026-07-28 only).
    ///
    /// # Errors
    /// If there is neither an input request nor a state, if an input request has an unknown method, or if it cannot be
    /// serialized. On error, `out` is unchanged.
    pub fn encode(&self, stamp: &ServerStamp, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        #[derive(Serialize, Clone)]
        #[serde(rename_all = "camelCase")]
        struct InputRequiredBody<'a> {
            #[serde(rename = "_meta", skip_serializing_if = "Meta::is_empty")]
            meta: &'a Meta,
            #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
            input_requests: std::collections::BTreeMap<&'a str, Cow<'a, InputRequest>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            request_state: Option<&'a str>,
        }
        if self.input_requests.is_empty() && self.request_state.is_none() {
            return Err(EncodeError::NothingAsked);
        }
        let to = Revision::V2026_07_28;

        let input_requests = self
            .input_requests
            .iter()
            .map(|(key, request)| Ok((key.as_str(), request.lowered(to)?)))
            .collect::<Result<_, LoweringErrorKind>>()
            .map_err(|kind| LoweringError::new(to, kind))?;
        let value = InputRequiredBody {
            meta: &self.meta,
            input_requests,
            request_state: self.request_state.as_deref(),
        };
        let start = out.len();
        let written = write_modern(&value, &self.meta, None, ResultType::InputRequired, stamp, out);
        if written.is_err() {
            out.truncate(start);
        }
        written
    }
}

/// Values of `resultType` that this crate writes.
#[derive(Clone, Copy)]
enum ResultType {
    Complete,
    InputRequired,
    Task,
}

fn body<T: EncodableResult>(
    value: &T,
    to: Revision,
    stamp: &ServerStamp,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let value = value.lowered(to);
    if to.is_legacy() {
        return Ok(serde_json::to_writer(out, value.as_ref())?);
    }
    modern(value.as_ref(), ResultType::Complete, stamp, out)
}

fn modern<T: EncodableResult>(
    value: &T,
    result_type: ResultType,
    stamp: &ServerStamp,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let cache = value
        .cache()
        .map(|(ttl_ms, scope)| (ttl_ms.unwrap_or(stamp.ttl_ms), scope.unwrap_or(stamp.cache_scope)));
    write_modern(value, value.meta(), cache, result_type, stamp, out)
}

/// Writes the members common to all results of 2026-07-28, then the rest of the value: after its brace, or after the
/// opening of its `_meta` if the server's name has to be added there.
fn write_modern<T: Serialize>(
    value: &T,
    meta: &Meta,
    cache: Option<(u64, CacheScope)>,
    result_type: ResultType,
    stamp: &ServerStamp,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    const META: &[u8] = b"\"_meta\":{";
    out.extend_from_slice(match result_type {
        ResultType::Complete => b"{\"resultType\":\"complete\",".as_slice(),
        ResultType::InputRequired => b"{\"resultType\":\"input_required\",",
        ResultType::Task => b"{\"resultType\":\"task\",",
    });
    if let Some((ttl_ms, scope)) = cache {
        use std::io::Write as _;
        // Writing to memory cannot fail.
        let _ = write!(out, "\"ttlMs\":{ttl_ms},\"cacheScope\":\"{}\",", scope.as_str());
    }
    let name = stamp.server_info.as_deref().filter(|_| !meta.contains_key(meta_key::SERVER_INFO));
    let skip = match name {
        None => 1,
        Some(name) => {
            out.extend_from_slice(META);
            out.extend_from_slice(name);
            if meta.is_empty() {
                out.extend_from_slice(b"},");
                1
            } else {
                out.push(b',');
                1 + META.len()
            }
        }
    };
    write_rest(out, skip, value)?;
    if out.ends_with(b",}") {
        // The value had no members.
        out.truncate(out.len() - 2);
        out.push(b'}');
    }
    Ok(())
}

/// Converts the input requests of a task from 2026-07-28.
fn lower_input_requests(result: &mut Cow<'_, GetTaskResult>, to: Revision) -> Result<(), LoweringError> {
    if result.input_requests.is_empty() {
        return Ok(());
    }
    let questions = result
        .input_requests
        .iter()
        .map(|(key, request)| Ok((key.clone(), request.lowered(to)?.into_owned())))
        .collect::<Result<_, LoweringErrorKind>>()
        .map_err(|kind| LoweringError::new(to, kind))?;
    result.to_mut().input_requests = questions;
    Ok(())
}

/// Converts a result of another revision: decodes it by its method, lifts it to the newest revision, and lowers it.
pub(super) fn write_foreign_result(
    method: &Method,
    from: Revision,
    json: &RawJson,
    to: Revision,
    stamp: &ServerStamp,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    match PeerResult::decode(method, from, json)? {
        // Only the two peers know the result of such a method, so only `resultType` is rewritten.
        PeerResult::Complete(Reply::Raw { json, .. }) => rewrite_result_type(from, &json, to, stamp, out),
        PeerResult::Complete(reply) => reply.write(method, to, stamp, out),
        PeerResult::Task(task) => Reply::from(task).write(method, to, stamp, out),
        // Only one revision has these results, and within a revision results are forwarded unchanged.
        PeerResult::InputRequired(_) => Err(LoweringError::new(to, LoweringErrorKind::InputRequired).into()),
    }
}

fn rewrite_result_type(
    from: Revision,
    json: &RawJson,
    to: Revision,
    stamp: &ServerStamp,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    // Only `resultType` is known here, and it differs only between the eras.
    if from.is_legacy() == to.is_legacy() {
        out.extend_from_slice(json.as_bytes());
        return Ok(());
    }
    if !json.is_object() {
        return Err(EncodeError::Json(serde_json::Error::custom("a result must be an object")));
    }
    if to.is_legacy() {
        let older = json.without_members(|key| key == "resultType");
        out.extend_from_slice(older.as_ref().unwrap_or(json).as_bytes());
        return Ok(());
    }
    #[derive(serde::Deserialize)]
    struct ResultMetaPeek {
        #[serde(default, rename = "_meta", deserialize_with = "crate::types::lenient::or_default")]
        meta: Meta,
    }
    // Existing metadata stays unchanged; it need not be the first member.
    let has_meta = !json.decode::<ResultMetaPeek>()?.meta.is_empty();
    let anonymous = ServerStamp::anonymous();
    let stamp = if has_meta { &anonymous } else { stamp };
    write_modern(json, &Meta::new(), None, ResultType::Complete, stamp, out)
}

/// Encodes a result by the general path. A test compares the fast path with it.
#[cfg(test)]
pub(super) fn general(
    result: &CallToolResult,
    to: Revision,
    stamp: &ServerStamp,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    body(result, to, stamp, out)
}
