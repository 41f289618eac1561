//! Route of a tool call that a person makes at the console. The response is a stream of JSON lines.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use hospes_host::{PersonCall, PersonCallEvent};
use hospes_model::{CallToolResult, RawJson, RpcError};
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;

use super::body::JsonBody;
use crate::api_error::ApiError;
use crate::browser_auth::ConsoleCaller;
use crate::console::{Console, MAX_PERSON_CALLS};

/// Time limit of a call, including the time in which it waits for a decision.
const MAX_DURATION: Duration = Duration::from_secs(600);
/// Maximum size of a result that is sent to the page, in bytes. Of a larger one, only the size is sent.
const MAX_RESULT: usize = 4 << 20;

/// A call of a tool.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolCallRequest {
    tool: String,
    #[serde(default = "RawJson::empty_object")]
    arguments: RawJson,
    /// True if the person has confirmed a call that may destroy something.
    #[serde(default)]
    confirmed: bool,
}

/// A line of the response.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum CallLine {
    /// Progress, as the server or the host reports it.
    Progress { done: f64, total: Option<f64>, message: Option<String> },
    /// The result of the tool.
    Done {
        /// `None` if it is larger than [`MAX_RESULT`].
        result: Option<RawJson>,
        is_error: bool,
        /// Size of the result as JSON.
        bytes: usize,
        micros: u64,
    },
    /// A protocol error instead of a result.
    Failed { code: i64, message: String, micros: u64 },
}

pub(super) async fn call(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    Path(server): Path<String>,
    JsonBody(wanted): JsonBody<ToolCallRequest>,
) -> Result<Response, ApiError> {
    let ToolCallRequest { tool, arguments, confirmed } = wanted;
    let session = caller.session().ok_or(ApiError::NoSession)?;
    if !arguments.is_object() {
        return Err(ApiError::Misread("`arguments` must be a JSON object".to_owned()));
    }
    if !confirmed && may_destroy(&console, &server, &tool)? {
        return Err(ApiError::Unconfirmed(tool));
    }
    let place = console.person_call_permit().ok_or(ApiError::TooManyCalls(MAX_PERSON_CALLS))?;
    let by = format!("browser session {session}");
    let call = console.servers().call_tool(&server, &tool, &arguments, &by)?;
    let running = RunningToolCall { call, begun: Instant::now(), _place: place };
    // The browser ends the call by ending the request: the stream is then dropped, and the call with it.
    let lines = futures::stream::unfold(Some(running), async |running| {
        let mut running = running?;
        let (line, is_last) = running.next().await;
        Some((Ok::<_, Infallible>(line), (!is_last).then_some(running)))
    });
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response())
}

/// Returns true unless the server says that the tool changes nothing, or destroys nothing. Before its tools are known, all
/// of them may.
fn may_destroy(console: &Console, server: &str, tool: &str) -> Result<bool, ApiError> {
    let Some(listing) = console.servers().listing(server)? else { return Ok(true) };
    let Some(tool) = listing.tools.iter().find(|one| one.name == tool) else { return Ok(false) };
    let said = tool.annotations.as_deref();
    Ok(said.and_then(|said| said.read_only_hint) != Some(true)
        && said.and_then(|said| said.destructive_hint) != Some(false))
}

struct RunningToolCall {
    call: PersonCall,
    begun: Instant,
    _place: OwnedSemaphorePermit,
}

impl RunningToolCall {
    /// Waits for the next line. Returns true beside the last one.
    async fn next(&mut self) -> (Bytes, bool) {
        let left = MAX_DURATION.saturating_sub(self.begun.elapsed());
        // `next` only waits, and the call is dropped with the stream after the time limit.
        let event = tokio::time::timeout(left, self.call.next()).await;
        let micros = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let (line, is_last) = match event {
            Ok(PersonCallEvent::Progress(progress)) => {
                let (done, total) = (progress.progress, progress.total);
                (CallLine::Progress { done, total, message: progress.message }, false)
            }
            Ok(PersonCallEvent::Done(Ok(result))) => (done(&result, micros), true),
            Ok(PersonCallEvent::Done(Err(error))) => (failed(error, micros), true),
            Err(_) => {
                let why = format!("the call was ended after {} minutes", MAX_DURATION.as_secs() / 60);
                (failed(RpcError::internal(why), micros), true)
            }
        };
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        (text.into(), is_last)
    }
}

fn done(result: &CallToolResult, micros: u64) -> CallLine {
    let is_error = result.has_failed();
    match RawJson::from_serialize(result) {
        Ok(json) => {
            let bytes = json.as_bytes().len();
            CallLine::Done { result: (bytes <= MAX_RESULT).then_some(json), is_error, bytes, micros }
        }
        Err(error) => failed(RpcError::internal(format!("the result cannot be shown: {error}")), micros),
    }
}

fn failed(error: RpcError, micros: u64) -> CallLine {
    CallLine::Failed { code: error.code, message: error.message.into_owned(), micros }
}
