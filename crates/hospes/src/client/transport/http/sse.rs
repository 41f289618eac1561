//! HTTP+SSE, the transport of 2024-11-05, calling side: one stream that brings everything, and a POST for each message.
//!
//! Here it becomes a pair of pipes, so that everything above is the same as over a child's stdin and stdout: lines
//! written to one are posted, messages of the stream are lines of the other.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use hospes_model::message::{self, Frame, JsonRpcMessage};
use hospes_model::{Method, RawJson, RequestId, Revision, RpcError};
use hospes_proto::frame::line::end_line;
use hospes_proto::frame::{FramedLine, LineFramer, OversizeSubject};
use http::header::CONTENT_TYPE;
use http::{Method as Verb, StatusCode, Uri};
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::client::error::{CallError, ConnectStage, ConnectionClosed};
use crate::client::link::NegotiatedProtocol;
use crate::client::link::inbox;
use crate::client::transport::duplex::{DuplexTransport, write_answer};
use crate::client::transport::http::answer::{self, failure};
use crate::client::transport::http::event_stream::OpenedStream;
use crate::client::transport::http::http_link::HttpLink;
use crate::client::transport::http::link_shared::{HttpLinkShared, path_of};
use crate::client::transport::http::pool::HttpConnection;
use crate::client::transport::http::reader::{SseItem, SseReader};
use crate::client::transport::http::session::HttpClientSession;

/// Maximum time until the first event, which contains the URL for messages.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of requests being sent at once.
const MAX_POSTS: usize = 64;
/// Maximum number of requests waiting to be sent; further ones fail.
const MAX_WAITING: usize = 1024;
/// Maximum number of answers and notifications being sent at once.
const MAX_ANSWERS: usize = 64;
/// Maximum number of refusals of oversized messages waiting to be posted; further ones are dropped.
const MAX_REFUSALS: usize = 64;
/// Maximum time of one POST. Some servers answer a POST only when all its work is done.
const POST_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Maximum time that a notification waits for earlier messages, and that later messages wait for it. Requests and
/// answers are sent concurrently.
const ORDER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time to send the last messages when the connection is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Size of the buffers between the connection and its pipes, in bytes.
const PIPE_BYTES: usize = 64 * 1024;

impl HttpLink {
    /// Opens a stream at the link's URL and waits until it says where messages go. From then on the link has no other
    /// use.
    pub(crate) async fn open_sse(
        &self,
        patience: Duration,
    ) -> Result<DuplexTransport<DuplexStream, DuplexStream>, CallError> {
        let (stream, messages) = self
            .shared
            .away
            .timeout(patience.min(ENDPOINT_TIMEOUT), pin!(self.shared.open_sse()))
            .await
            .unwrap_or_else(|| Err(no_sse("no endpoint event was received in time")))?;
        // SSE-04: nothing is sent anywhere else any more.
        *self.shared.path.write().unwrap_or_else(PoisonError::into_inner) = messages;
        self.shared.is_announced.store(true, Ordering::Relaxed);
        let (read, to_client) = tokio::io::duplex(PIPE_BYTES);
        let (from_client, write) = tokio::io::duplex(PIPE_BYTES);
        let (ended, gone) = oneshot::channel();
        let pump = SsePump {
            shared: Arc::clone(&self.shared),
            to_client: Mutex::new(to_client),
            revision: std::sync::Mutex::new(None),
        };
        tokio::spawn(async move {
            // Nobody may be listening.
            let _ = ended.send(pump.run(stream, from_client).await);
        });
        let gone =
            async { ConnectionClosed::new(gone.await.unwrap_or_else(|_| "the connection was lost".into())) };
        Ok(DuplexTransport { gone: Some(Box::pin(gone)), ..DuplexTransport::new(read, write) })
    }
}

/// A stream, and what has been read of it.
struct SseStream {
    body: Incoming,
    connection: HttpConnection,
    reader: SseReader,
}

impl SseStream {
    async fn next(&mut self) -> Option<SseItem> {
        self.reader.next(&mut self.body, &mut self.connection).await
    }
}

impl HttpLinkShared {
    async fn open_sse(&self) -> Result<(SseStream, Uri), CallError> {
        // The revision is still to be negotiated.
        let opened = self
            .get_stream(&speech(None), Some(&Method::Initialize), &HttpClientSession::default(), "", false)
            .await?;
        let (body, connection) = match opened {
            OpenedStream::Stream(body, connection) => (body, connection),
            OpenedStream::Refused(status) if status.is_success() => {
                return Err(no_sse("the response is not an event stream"));
            }
            OpenedStream::Refused(status) => return Err(answer::refusal_error(status, None, &[])),
        };
        let mut stream =
            SseStream { body, connection, reader: SseReader::new(self.limits.max_message_bytes) };
        loop {
            match stream.next().await {
                Some(SseItem::Endpoint(uri)) => return Ok((stream, self.messages(&uri)?)),
                Some(SseItem::Mark) => {}
                Some(SseItem::Message(_) | SseItem::Oversize(_)) => {
                    return Err(no_sse("the stream does not begin with an endpoint event"));
                }
                None => return Err(no_sse("the stream ended before an endpoint event")),
            }
        }
    }

    /// Returns the URL for messages, which may be absolute or relative to the URL of the stream. It must have the same
    /// origin, because credentials are sent there, too.
    fn messages(&self, uri: &Bytes) -> Result<Uri, CallError> {
        let here = self.pool.url().and_then(|origin| {
            let path = self.path.read().unwrap_or_else(PoisonError::into_inner).to_string();
            origin.join(&path).ok()
        });
        let there = std::str::from_utf8(uri).ok().zip(here.as_ref());
        let there = there.and_then(|(uri, here)| here.join(uri.trim()).ok());
        let (Some(here), Some(there)) = (here, there) else {
            return Err(no_sse("the endpoint event does not contain a valid URL"));
        };
        if there.origin() != here.origin() {
            let other = there.origin().ascii_serialization();
            return Err(no_sse(&format!(
                "the endpoint event names a different origin ({other}), which is refused"
            )));
        }
        path_of(&there).map_err(|error| no_sse(&error.to_string()))
    }
}

fn no_sse(what: &str) -> CallError {
    CallError::Http(Arc::new(failure(ConnectStage::Http, what)))
}

fn speech(revision: Option<Revision>) -> NegotiatedProtocol {
    NegotiatedProtocol { revision: revision.unwrap_or(Revision::LATEST_LEGACY), stamp: Bytes::new() }
}

/// Moves messages between the stream and the pipes.
struct SsePump {
    shared: Arc<HttpLinkShared>,
    to_client: Mutex<DuplexStream>,
    /// Negotiated revision, once known; it is sent in a header.
    revision: std::sync::Mutex<Option<Revision>>,
}

impl SsePump {
    /// Until either side ends; says why.
    async fn run(self, stream: SseStream, from_client: DuplexStream) -> String {
        let (refuse, refusals) = mpsc::channel(MAX_REFUSALS);
        // With either side the connection ends; what the other one still had to do is dropped with it.
        tokio::select! {
            why = self.receive(stream, refuse) => why,
            why = self.send(from_client, refusals) => why,
        }
    }

    async fn receive(&self, mut stream: SseStream, refuse: mpsc::Sender<Vec<u8>>) -> String {
        while let Some(item) = stream.next().await {
            match item {
                SseItem::Message(data) => {
                    self.record_revision(&data);
                    if !self.deliver_line(data.into()).await {
                        break;
                    }
                }
                SseItem::Oversize(over) => match &over.subject {
                    OversizeSubject::Response(id) => self.fail(id, &over.to_error()).await,
                    OversizeSubject::Request(id) => {
                        let mut refusal = Vec::new();
                        write_answer(&mut refusal, id, Err(&over.to_error()));
                        // Reading goes on: the server may take this only when something else has been read.
                        if refuse.try_send(refusal).is_err() {
                            tracing::warn!(%id, "oversize request not answered: too many are pending");
                        }
                    }
                    OversizeSubject::Unknown => {
                        tracing::warn!(bytes = over.seen, limit = over.limit, "oversize message skipped");
                    }
                },
                SseItem::Mark | SseItem::Endpoint(_) => {}
            }
        }
        "the server ended the stream".into()
    }

    /// Gives the client a line; false when it takes none any more.
    async fn deliver_line(&self, mut line: Vec<u8>) -> bool {
        end_line(&mut line, 0);
        // An async lock that is held for the whole line: concurrent writers must not mix theirs.
        self.to_client.lock().await.write_all(&line).await.is_ok()
    }

    /// The answer to a request that has none.
    async fn fail(&self, id: &RequestId, error: &RpcError) {
        let mut line = Vec::new();
        write_answer(&mut line, id, Err(error));
        self.deliver_line(line).await;
    }

    fn revision(&self) -> Option<Revision> {
        *self.revision.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first answer is that to `initialize`.
    fn record_revision(&self, data: &Bytes) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct InitializeResultPeek {
            protocol_version: String,
        }
        if self.revision().is_none()
            && let Ok(Frame::Single(JsonRpcMessage::Response(response))) = message::decode(data)
            && let Ok(result) = response.outcome
            && let Ok(agreed) = serde_json::from_str::<InitializeResultPeek>(result.get())
        {
            let revision = agreed.protocol_version.parse().ok();
            *self.revision.lock().unwrap_or_else(PoisonError::into_inner) = revision;
        }
    }

    /// Posts what the client says, and the refusals.
    async fn send(&self, mut from_client: DuplexStream, mut refusals: mpsc::Receiver<Vec<u8>>) -> String {
        // The client has made sure that none is longer.
        let mut lines = LineFramer::new(self.shared.limits.max_request_bytes);
        let mut posts = PendingPosts::default();
        loop {
            while let Some(line) = lines.poll_line() {
                let FramedLine::Message(line) = line else { continue };
                let lost = match OutgoingKind::of(&line) {
                    OutgoingKind::Request(id, method) => {
                        self.post_request(line, id, method, &mut posts).await
                    }
                    OutgoingKind::Notification(cancelled) if posts.forget(cancelled.as_ref()) => None,
                    kind @ OutgoingKind::Notification(_) => {
                        let before = posts.settle().await;
                        posts.others.push(Box::pin(self.deliver(line, kind)));
                        match before {
                            None => posts.settle().await,
                            lost => lost,
                        }
                    }
                    OutgoingKind::Answer => {
                        posts.others.push(Box::pin(self.deliver(line, OutgoingKind::Answer)));
                        match posts.others.len() < MAX_ANSWERS {
                            true => None,
                            false => posts.others.next().await.flatten(),
                        }
                    }
                };
                if let Some(why) = lost {
                    return why;
                }
            }
            // No branch loses anything when it is dropped: the
            // bytes stay in the buffer, the posts in their sets.
            tokio::select! {
                read = from_client.read_buf(lines.buffer()) => {
                    if !matches!(read, Ok(1..)) {
                        // What was said last must still arrive.
                        let _ = tokio::time::timeout(CLOSE_TIMEOUT, posts.drain()).await;
                        return "the connection was closed".into();
                    }
                }
                Some(refusal) = refusals.recv(), if posts.others.len() < MAX_ANSWERS => {
                    posts.others.push(Box::pin(self.deliver(refusal.into(), OutgoingKind::Answer)));
                }
                Some(lost) = posts.next() => {
                    if let Some(why) = lost {
                        return why;
                    }
                }
            }
            while posts.requests.len() < MAX_POSTS
                && let Some((line, kind)) = posts.waiting.pop_front()
            {
                posts.requests.push(Box::pin(self.deliver(line, kind)));
            }
        }
    }

    /// Posts a request, now or when there is room. One must not keep the answers behind it from being posted: there are
    /// servers that answer the POST of a request only when what they ask is answered.
    async fn post_request<'a>(
        &'a self,
        line: Bytes,
        id: RequestId,
        method: Method,
        posts: &mut PendingPosts<'a>,
    ) -> Option<String> {
        if posts.waiting.len() >= MAX_WAITING {
            let why = format!(
                "too many requests: {MAX_POSTS} are being sent (MAX_POSTS) and {MAX_WAITING} are queued (MAX_WAITING)"
            );
            self.fail(&id, &RpcError::internal(why)).await;
            return None;
        }
        posts.waiting.push_back((line, OutgoingKind::Request(id, method)));
        while posts.requests.len() < MAX_POSTS
            && let Some((line, kind)) = posts.waiting.pop_front()
        {
            posts.requests.push(Box::pin(self.deliver(line, kind)));
        }
        None
    }

    /// Posts one message. Says why the connection is lost, if it is.
    async fn deliver(&self, line: Bytes, kind: OutgoingKind) -> Option<String> {
        let error = match self.post(line, kind.method()).await {
            Ok(status) if status.is_success() => return None,
            Ok(StatusCode::NOT_FOUND | StatusCode::GONE) => {
                return Some("the server no longer recognizes the stream".into());
            }
            Ok(status) => answer::refusal_error(status, None, &[]),
            Err(error) => error,
        };
        tracing::debug!(%error, "cannot deliver a message");
        if let OutgoingKind::Request(id, _) = &kind {
            self.fail(id, &RpcError::internal(error.to_string())).await;
        }
        None
    }

    async fn post(&self, body: Bytes, method: Option<&Method>) -> Result<StatusCode, CallError> {
        let revision = self.revision();
        // Until it is agreed, no revision is named.
        let method = if revision.is_none() { Some(&Method::Initialize) } else { method };
        let (speech, session) = (speech(revision), HttpClientSession::default());
        let headers = || self.shared.headers(&speech, method, None, &session);
        let subject = crate::client::transport::http::request_subject::RequestSubject::new(
            method.map_or("response", Method::name),
            None,
        );
        let posted = pin!(async {
            let (response, connection) = self.shared.send(&Verb::POST, subject, headers, &body).await?;
            let status = response.status();
            let said = response.headers().get(CONTENT_TYPE).is_some();
            if status.is_success() || !said {
                answer::drain_response(&self.shared.pool, response, connection).await;
                return Ok(status);
            }
            match answer::read_refusal(&self.shared.pool, 0, None, response, connection).await {
                _ if matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) => Ok(status),
                error => Err(error),
            }
        });
        let posted = self.shared.away.timeout(POST_TIMEOUT, posted).await;
        posted.unwrap_or_else(|| Err(no_sse("a message was not accepted in time")))
    }
}

/// Messages being sent to the server.
#[derive(Default)]
struct PendingPosts<'a> {
    requests: FuturesUnordered<BoxFuture<'a, Option<String>>>,
    /// Answers and notifications: they have room of their own.
    others: FuturesUnordered<BoxFuture<'a, Option<String>>>,
    /// Requests for which there is no room yet.
    waiting: VecDeque<(Bytes, OutgoingKind)>,
}

impl PendingPosts<'_> {
    /// Waits for the next message to be sent and returns its failure, if any. None if no message is being sent.
    async fn next(&mut self) -> Option<Option<String>> {
        tokio::select! {
            Some(lost) = self.requests.next() => Some(lost),
            Some(lost) = self.others.next() => Some(lost),
            else => None,
        }
    }

    /// Waits until everything sent has arrived; says why the connection is lost, if it is.
    async fn drain(&mut self) -> Option<String> {
        while let Some(lost) = self.next().await {
            if lost.is_some() {
                return lost;
            }
        }
        None
    }

    /// Waits like `drain`, but no longer than the order timeout.
    async fn settle(&mut self) -> Option<String> {
        tokio::time::timeout(ORDER_TIMEOUT, self.drain()).await.ok().flatten()
    }

    /// Removes a cancelled request that was still waiting. Returns true if there was one; then nothing is sent.
    fn forget(&mut self, cancelled: Option<&RequestId>) -> bool {
        let before = self.waiting.len();
        self.waiting
            .retain(|(_, kind)| !matches!(kind, OutgoingKind::Request(id, _) if Some(id) == cancelled));
        self.waiting.len() < before
    }
}

/// Kind of an outgoing line.
#[derive(Debug, PartialEq, Eq)]
enum OutgoingKind {
    Request(RequestId, Method),
    /// The request that it cancels, if it does.
    Notification(Option<RequestId>),
    Answer,
}

impl OutgoingKind {
    fn of(line: &Bytes) -> Self {
        match message::decode(line) {
            Ok(Frame::Single(JsonRpcMessage::Request(request))) => {
                Self::Request(request.id, Method::from_name(&request.method))
            }
            Ok(Frame::Single(JsonRpcMessage::Notification(notification))) => {
                let cancels = Method::from_name(&notification.method) == Method::Cancelled;
                let params =
                    notification.params.filter(|_| cancels).map(|params| RawJson::slice_of(line, params));
                Self::Notification(inbox::parse_cancelled(params.as_ref()).map(|(id, _)| id))
            }
            _ => Self::Answer,
        }
    }

    fn method(&self) -> Option<&Method> {
        match self {
            Self::Request(_, method) => Some(method),
            Self::Notification(_) | Self::Answer => None,
        }
    }
}
