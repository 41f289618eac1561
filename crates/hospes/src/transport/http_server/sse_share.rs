//! Streams of HTTP+SSE in the directory, so that a message finds its stream from any process.
//!
//! Such a stream ends with its process, because nothing of 2024-11-05 resumes. The directory knows its owner alone.

use std::sync::Arc;
use std::task::Context as TaskContext;
use std::time::Duration;

use bytes::Bytes;
use hospes_model::{JsonRpcMessage, message};
use hospes_proto::http::{HttpRejection, SessionId};
use http::Response;
use http::request::Parts;
use tokio::time::{Interval, MissedTickBehavior};

use super::body::Body;
use super::call_guard::check_messages;
use super::caller::sender;
use super::endpoint_inner::EndpointInner;
use super::response::busy_rejection;
use super::session_route::directory_rejection;
use super::session_share::SessionShare;
use super::shared_sessions::{
    DirectoryError, ForwardResult, ForwardedRequest, SessionName, SessionPlace, SharedSession,
};

/// Longest pause between two signs of life.
const MAX_TOUCH_PAUSE: Duration = Duration::from_secs(60);

/// Name of a stream in the directory. No session id has a space.
fn stream_name(id: &str) -> String {
    format!("sse {id}")
}

/// Stream that this process owns. It ends in the directory when it is dropped.
pub(super) struct SharedSseStream {
    handle: Option<Arc<dyn SharedSession>>,
    touches: Interval,
}

impl SharedSseStream {
    /// Enters a stream, if processes share them.
    pub(super) async fn enter(
        inner: &EndpointInner,
        parts: &Parts,
        id: &SessionId,
    ) -> Result<Option<Self>, HttpRejection> {
        let Some(directory) = &inner.directory else { return Ok(None) };
        let (name, principal) = (stream_name(id.as_str()), sender(parts).principal);
        let name = SessionName { id: &name, principal: principal.as_deref() };
        let unavailable = |error: DirectoryError| directory_rejection(None, &error);
        let handle = directory.reserve(name).await.map_err(unavailable)?;
        let mut touches = tokio::time::interval(
            (inner.limits.session_idle / 4).clamp(Duration::from_millis(10), MAX_TOUCH_PAUSE),
        );
        touches.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let entered = Self { handle: Some(Arc::clone(&handle)), touches };
        handle.save(&[]).await.map_err(unavailable)?;
        Ok(Some(entered))
    }

    /// Keeps the stream from expiring.
    pub(super) fn poll_touch(&mut self, cx: &mut TaskContext<'_>) {
        while self.touches.poll_tick(cx).is_ready() {
            if let Some(handle) = &self.handle {
                handle.touch();
            }
        }
    }
}

impl Drop for SharedSseStream {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            SessionShare::end_handle(handle);
        }
    }
}

/// Forwards a message to the process that has its stream. `None` if no other process has it.
pub(super) async fn forward(
    inner: &EndpointInner,
    parts: &Parts,
    id: &str,
    body: &Bytes,
) -> Result<Option<Response<Body>>, HttpRejection> {
    let Some(directory) = &inner.directory else { return Ok(None) };
    if parts.extensions.get::<ForwardedRequest>().is_some() {
        return Ok(None);
    }
    let frame = message::decode(body).map_err(HttpRejection::malformed)?;
    let (name, principal) = (stream_name(id), sender(parts).principal);
    let name = SessionName { id: &name, principal: principal.as_deref() };
    let place = directory.locate(name).await.map_err(|error| directory_rejection(None, &error))?;
    let owner = match place {
        SessionPlace::Elsewhere(owner) => owner,
        // Its process has ended, and the stream with it.
        SessionPlace::Here(adopted) => {
            SessionShare::end_handle(adopted.session);
            return Ok(None);
        }
        SessionPlace::Unknown => return Ok(None),
    };
    let messages: Vec<JsonRpcMessage<'_>> = match frame {
        message::Frame::Single(message) => vec![message],
        message::Frame::Batch(messages) => messages.into_iter().filter_map(Result::ok).collect(),
    };
    if let Err(refusal) = check_messages(parts, body, &messages) {
        return Ok(Some(*refusal));
    }
    match owner.forward(parts.clone(), body.clone()).await {
        ForwardResult::Response(response) => Ok(Some(response)),
        // The answer would come on the stream, which ends with its process.
        ForwardResult::NotProcessed | ForwardResult::OutcomeUnknown => {
            let why = "the process that has the stream does not answer";
            Err(busy_rejection(None, why.to_owned()))
        }
    }
}
