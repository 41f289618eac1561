//! The transport of 2024-11-05, HTTP+SSE: a stream that brings everything, and a POST for each message to it.
//!
//! A stream is a connection like one over pipes: what the client posts are its lines, the events are ours, and the same
//! connection serves it. It ends with the stream. (Where the endpoint is `/mcp`, clients listen at `/sse`.)

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use futures::task::AtomicWaker;
use hospes_model::{JsonRpcMessage, RpcError, message};
use hospes_proto::frame::FramedLine;
use hospes_proto::frame::sse::{self, SseEventHead};
use hospes_proto::http::{HttpRejection, SessionId, SseEndpoint};
use http::request::Parts;
use http::{Response, StatusCode};
use tokio::sync::mpsc;

use super::body::{Body, EventSource};
use super::call_guard::{check_messages, check_request};
use super::caller::sender;
use super::endpoint_inner::EndpointInner;
use super::receive;
use super::response::{busy_rejection, empty, events, rejection_response};
use super::sse_share::{self, SharedSseStream};
use super::sse_transport::{SESSION_PARAMETER, SseStreamHandle, SseTransport};
use crate::transport::adapter::random_bytes;
use crate::transport::duplex::{DuplexConnection, MAX_UNWRITTEN_BYTES};

/// Maximum number of messages queued for one stream: the limit `max_waiting_messages`.
const MAX_WAITING_MESSAGES: usize = 256;
/// Answers a request to one of the two endpoints.
pub(super) async fn answer<B>(
    inner: &Arc<EndpointInner>,
    sse: &Arc<SseTransport>,
    endpoint: SseEndpoint,
    parts: &Parts,
    body: Pin<&mut B>,
) -> Response<Body>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: fmt::Display,
{
    if let Some(response) = super::cors::preflight(&inner.admission, parts) {
        return response;
    }
    let admitted = inner.admission.admit_sse(endpoint, &parts.method, parts.uri.authority(), &parts.headers);
    let head = match admitted {
        Ok(head) => head,
        Err(rejection) => {
            receive::drain(body).await;
            return rejection_response(&rejection);
        }
    };
    let done = match endpoint {
        SseEndpoint::Stream => {
            if !sse.adapter.has_identity() {
                sse.adapter.load_identity().await;
            }
            open(inner, sse, parts).await
        }
        SseEndpoint::Messages => match receive::read(inner, body, head.content_length).await {
            Ok(body) => accept_message(inner, sse, parts, body).await,
            Err(rejection) => Err(rejection),
        },
    };
    let mut response = done.unwrap_or_else(|rejection| rejection_response(&rejection));
    if let Some(origin) = head.origin {
        super::cors::allow(&mut response, origin);
    }
    response
}

async fn open(
    inner: &Arc<EndpointInner>,
    sse: &Arc<SseTransport>,
    parts: &Parts,
) -> Result<Response<Body>, HttpRejection> {
    if inner.is_closing() {
        return Err(busy_rejection(None, "the server is shutting down".into()));
    }
    // 128 bits that nobody can guess: whoever knows the URL speaks for the client.
    let id = SessionId::from_random(random_bytes());
    let share = SharedSseStream::enter(inner, parts, &id).await?;
    let (inbox, posted) = mpsc::channel(MAX_WAITING_MESSAGES);
    let sender = sender(parts);
    let stream = Arc::new(SseStreamHandle {
        principal: sender.principal.clone(),
        inbox,
        waker: AtomicWaker::new(),
        calls: AtomicUsize::new(0),
    });
    {
        // Counted and entered under one lock, so that the maximum holds.
        let mut streams = sse.streams();
        if streams.len() >= sse.max {
            return Err(busy_rejection(
                None,
                format!("too many streams: the limit is {} (setting max_sessions)", sse.max),
            ));
        }
        streams.insert(id.as_str().into(), Arc::clone(&stream));
    }
    // SSE-03: a path, so that it holds under whichever name we were called.
    let uri = format!("{}?{SESSION_PARAMETER}={}", sse.messages_path, id.as_str());
    let mut first = Vec::new();
    sse::write_event(
        &mut first,
        SseEventHead { name: Some("endpoint"), id: None, retry: None },
        uri.as_bytes(),
    );
    let open = OpenSseStream {
        endpoint: Arc::clone(inner),
        sse: Arc::clone(sse),
        id,
        stream,
        posted,
        duplex: DuplexConnection::new(Arc::clone(&sse.adapter), sse.connection_limits, sender),
        share,
        lines: Vec::new(),
        stage: SseStreamStage::Serving,
    };
    Ok(events(Body::events(first, open, inner.limits.keep_alive)))
}

async fn accept_message(
    inner: &Arc<EndpointInner>,
    sse: &SseTransport,
    parts: &Parts,
    body: Bytes,
) -> Result<Response<Body>, HttpRejection> {
    let id = sse.stream_id(parts)?;
    let stream = match sse.find(parts, id) {
        Ok(stream) => stream,
        Err(unknown) => match sse_share::forward(inner, parts, id, &body).await? {
            Some(response) => return Ok(response),
            None => return Err(unknown),
        },
    };
    // What is no message is refused here; what is wrong with a message is said on the stream.
    let frame = message::decode(&body).map_err(HttpRejection::malformed)?;
    let allowed = match &frame {
        message::Frame::Single(JsonRpcMessage::Request(request)) => check_request(parts, &body, request),
        message::Frame::Single(_) => Ok(()),
        message::Frame::Batch(messages) => {
            check_messages(parts, &body, messages.iter().filter_map(|message| message.as_ref().ok()))
        }
    };
    if let Err(refusal) = allowed {
        return Ok(*refusal);
    }
    if let message::Frame::Single(JsonRpcMessage::Request(request)) = &frame {
        let limit = inner.limits.concurrent_calls;
        if inner.calls_running() >= limit {
            let why =
                format!("too many concurrent calls: the limit is {limit} (setting max_concurrent_calls)");
            return Err(busy_rejection(Some(request.id.clone()), why));
        }
    }
    drop(frame);
    stream.inbox.try_send(body).map_err(|error| match error {
        mpsc::error::TrySendError::Full(_) => {
            let why = format!(
                "too many queued messages: the limit is {MAX_WAITING_MESSAGES} (limit max_waiting_messages)"
            );
            busy_rejection(None, why)
        }
        mpsc::error::TrySendError::Closed(_) => {
            HttpRejection::new(StatusCode::NOT_FOUND, RpcError::invalid_request("the stream has ended"))
        }
    })?;
    Ok(empty(StatusCode::ACCEPTED))
}

/// Open stream. All its work ends with it.
struct OpenSseStream {
    endpoint: Arc<EndpointInner>,
    sse: Arc<SseTransport>,
    id: SessionId,
    stream: Arc<SseStreamHandle>,
    posted: mpsc::Receiver<Bytes>,
    duplex: DuplexConnection,
    /// The stream in the directory, if processes share them.
    share: Option<SharedSseStream>,
    /// Output of the connection, as lines.
    lines: Vec<u8>,
    stage: SseStreamStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SseStreamStage {
    Serving,
    /// Accepted messages are still handled, but no new ones.
    Ending,
    /// Calls may finish.
    Draining,
    /// Calls were told to stop.
    Stopping,
}

impl OpenSseStream {
    fn advance_stage(&mut self) {
        if matches!(self.stage, SseStreamStage::Serving | SseStreamStage::Ending)
            && self.endpoint.is_closing()
        {
            self.stage = SseStreamStage::Draining;
            self.duplex.close();
        }
        if self.stage == SseStreamStage::Draining && self.endpoint.is_closed() {
            self.stage = SseStreamStage::Stopping;
            self.duplex.stop(&mut self.lines);
        }
    }

    /// Calls of this stream are calls of the endpoint.
    fn count_calls(&self, calls: usize) {
        let before = self.stream.calls.swap(calls, Ordering::AcqRel);
        self.endpoint.count_calls(before, calls);
    }
}

impl EventSource for OpenSseStream {
    /// All answers of its session come on it, so those that are owed still go out.
    fn end(&mut self) {
        if self.stage == SseStreamStage::Serving {
            self.stage = SseStreamStage::Ending;
            self.posted.close();
        }
    }

    fn lingers(&self) -> bool {
        true
    }

    fn poll_events(&mut self, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<()> {
        self.stream.waker.register(cx.waker());
        if let Some(share) = &mut self.share {
            share.poll_touch(cx);
        }
        self.advance_stage();
        self.duplex.poll_opening(cx, &mut self.lines);
        while matches!(self.stage, SseStreamStage::Serving | SseStreamStage::Ending)
            && !self.duplex.is_opening()
            && self.lines.len() < MAX_UNWRITTEN_BYTES
            && let Poll::Ready(posted) = self.posted.poll_recv(cx)
        {
            match posted {
                Some(body) => self.duplex.handle_line(FramedLine::Message(body), cx, &mut self.lines),
                None => {
                    self.stage = SseStreamStage::Draining;
                    self.duplex.close();
                }
            }
        }
        self.duplex.start_queued(cx, &mut self.lines);
        // Before the output is taken: the answer of a call that ends in between is sent with the next turn.
        let idle = self.duplex.is_idle();
        self.duplex.outbox().take(cx, &mut self.lines);
        self.count_calls(self.duplex.calls());
        if self.lines.len() >= MAX_UNWRITTEN_BYTES {
            // Once this has gone out there may be more.
            cx.waker().wake_by_ref();
        }
        for line in self.lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            // SSE-05.
            sse::write_event(out, SseEventHead { name: Some("message"), id: None, retry: None }, line);
        }
        self.lines.clear();
        // A stream lives long, and must not keep the memory of its largest answer.
        self.lines.shrink_to(MAX_UNWRITTEN_BYTES);
        if idle && self.stage != SseStreamStage::Serving { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for OpenSseStream {
    fn drop(&mut self) {
        self.sse.streams().remove(self.id.as_str());
        // The calls end with the stream, and must not count any more.
        self.count_calls(0);
    }
}
