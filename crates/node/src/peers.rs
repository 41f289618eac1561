//! Connections to the other nodes: HTTP/2 with mutual TLS.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hospes::transport::http_server::Body;
use hospes::transport::http_server::shared_sessions::ForwardResult;
use hospes_fleet::node::{NodeId, NodeRecord};
use hospes_telemetry::{
    AttributeKey, AttributeValue, RecordedSpan, SpanKind, SpanParent, SpanTracer, TraceContext,
};
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{HeaderName, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::caller_context::{CALLER, CallerContext, ContextKeys, EXPORTER_LABEL};
use crate::certificates::{FleetSecrets, NodeTls, server_name};
use crate::membership::Membership;
use crate::node_metrics::{NodeMetrics, forward_text};
use crate::node_server::{MAX_REASON_BYTES, REVISION};
use crate::transport::NodeTransport;

/// Maximum time to connect to a node.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after a failed attempt to connect, within which no other one is made.
const CONNECT_PAUSE: Duration = Duration::from_millis(100);
/// Interval of signs of life on a connection, and the time for their answer.
const PING_INTERVAL: Duration = Duration::from_secs(1);
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of requests at one node that have no response yet: the limit `max_forwarded`.
const MAX_FORWARDED: usize = 4096;
/// Windows of flow control. That of a connection is large, so that a reader that does not read stops only itself.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// Longest answer that is not a stream, in bytes: the limit `max_forwarded_answer_bytes`.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;
/// Maximum number of nodes whose connections are kept.
const MAX_PEERS: usize = 256;

/// Byte stream between a node and a server at another one.
pub type NodeStream = TokioIo<Upgraded>;

/// Stream to a server that another node runs.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a pair that callers take apart")]
pub struct ServerConnection {
    /// Revision that the server speaks.
    pub revision: String,
    /// Its messages, as lines.
    pub stream: NodeStream,
}

/// Connections of a node to the others.
pub struct NodePeers {
    membership: Membership,
    tls: Arc<NodeTls>,
    peers: Mutex<HashMap<NodeId, Arc<NodePeer>>>,
    metrics: NodeMetrics,
    tracer: Option<SpanTracer>,
}

/// Connections to one node: short calls must not wait behind streams.
#[derive(Debug, Default)]
struct NodePeer {
    calls: PeerConnection,
    streams: PeerConnection,
    pending: Arc<std::sync::atomic::AtomicUsize>,
}

#[derive(Debug, Default)]
struct PeerConnection {
    /// Locked while it connects, so that requests at once wait for one connection.
    open: tokio::sync::Mutex<Option<OpenConnection>>,
    failed: Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct OpenConnection {
    /// Own id in its certificate.
    from: NodeId,
    sender: SendRequest<Full<Bytes>>,
    keys: Arc<ContextKeys>,
}

/// Reason why a connection was not opened.
#[derive(Debug)]
enum ConnectError {
    /// Refusal: nothing listens at the address.
    Refused,
    Other(String),
}

impl From<String> for ConnectError {
    fn from(error: String) -> Self {
        Self::Other(error)
    }
}

impl From<&str> for ConnectError {
    fn from(error: &str) -> Self {
        Self::Other(error.to_owned())
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("connection refused"),
            Self::Other(error) => f.write_str(error),
        }
    }
}

impl fmt::Debug for OpenConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenConnection").field("from", &self.from).finish_non_exhaustive()
    }
}

impl NodePeers {
    /// Creates the connections, which are opened when they are needed.
    #[must_use]
    pub fn new(membership: Membership, secrets: FleetSecrets) -> Self {
        let (metrics, tracer) = (NodeMetrics::default(), None);
        Self { membership, tls: Arc::new(NodeTls::new(secrets)), peers: Mutex::default(), metrics, tracer }
    }

    /// Measures forwarded requests.
    #[must_use]
    pub fn metrics(mut self, metrics: NodeMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Exports a span of each forwarded request.
    #[must_use]
    pub fn tracer(mut self, tracer: Option<SpanTracer>) -> Self {
        self.tracer = tracer;
        self
    }

    /// Begins the span in which a message is forwarded, and puts its context into the request.
    fn begin_span(&self, parts: &mut Parts, body: &[u8]) -> Option<RecordedSpan> {
        // A stream may be open for as long as its session.
        let tracer = self.tracer.as_ref().filter(|_| parts.method == Method::POST)?;
        let parent = sent_context(body);
        let parent = parent.as_ref().map_or(SpanParent::None, SpanParent::Remote);
        let (context, span) = tracer.begin(SpanKind::Internal, parent);
        // Also if it is not recorded: the owner does not decide again.
        parts.extensions.insert(context);
        let mut span = span?;
        span.set_name("hospes.forward");
        Some(span)
    }

    fn peer(&self, node: NodeId) -> Arc<NodePeer> {
        let mut peers = self.peers.lock();
        if peers.len() >= MAX_PEERS && !peers.contains_key(&node) {
            // Nodes that are gone: each start of a process has another id.
            peers.retain(|_, peer| Arc::strong_count(peer) > 1);
        }
        Arc::clone(peers.entry(node).or_default())
    }

    async fn connect(&self, node: &NodeRecord, from: NodeId) -> Result<OpenConnection, ConnectError> {
        let name = server_name(node.id).ok_or("its id is no name")?;
        let tls = self.tls.client(from).map_err(|error| error.to_string())?;
        let opened = async {
            let stream = TcpStream::connect(&node.address).await.map_err(|error| match error.kind() {
                ErrorKind::ConnectionRefused => ConnectError::Refused,
                _ => ConnectError::Other(error.to_string()),
            })?;
            let _ = stream.set_nodelay(true);
            let stream = TlsConnector::from(tls).connect(name, stream).await;
            let stream = stream.map_err(|error| error.to_string())?;
            let (_, session) = stream.get_ref();
            let exported = session.export_keying_material(Zeroizing::new([0; 32]), EXPORTER_LABEL, None);
            let exported = exported.map_err(|error| error.to_string())?;
            let keys = Arc::new(ContextKeys::new(self.tls.secrets(), &exported));
            let handshake = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_TIMEOUT)
                .keep_alive_while_idle(true)
                .handshake(TokioIo::new(stream))
                .await;
            let (sender, connection) = handshake.map_err(|error| error.to_string())?;
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to a node has ended");
                }
            });
            Ok(OpenConnection { from, sender, keys })
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, opened).await {
            Ok(opened) => opened,
            Err(_) => Err(ConnectError::Other(format!("no connection within {CONNECT_TIMEOUT:?}"))),
        }
    }

    /// Returns an open connection; `None` if the node cannot be reached now.
    async fn connection(&self, node: &NodeRecord, slot: &PeerConnection) -> Option<OpenConnection> {
        // Also without a lease: requests that need no session are forwarded while the engine is away.
        let from = self.membership.id();
        let mut open = slot.open.lock().await;
        if let Some(open) = open.as_ref().filter(|open| open.from == from && !open.sender.is_closed()) {
            return Some(open.clone());
        }
        *open = None;
        if slot.failed.lock().is_some_and(|at| at.elapsed() < CONNECT_PAUSE) {
            return None;
        }
        match self.connect(node, from).await {
            Ok(opened) => {
                *open = Some(opened.clone());
                *slot.failed.lock() = None;
                Some(opened)
            }
            Err(error) => {
                tracing::debug!(node = %node.id, address = %node.address, %error, "a node cannot be reached");
                *slot.failed.lock() = Some(Instant::now());
                drop(open);
                if matches!(error, ConnectError::Refused) && self.membership.end_silent_lease(node.id).await {
                    tracing::info!(node = %node.id, "a node has ended: its address refuses connections");
                }
                None
            }
        }
    }

    /// Opens a stream to a server that another node runs.
    ///
    /// # Errors
    /// Returns why there is none, as a sentence.
    pub async fn open_server(&self, node: &NodeRecord, server: &str) -> Result<ServerConnection, String> {
        let address = &node.address;
        let unreached = || format!("the node {address}, which runs the server, cannot be reached");
        let peer = self.peer(node.id);
        // Not among the short calls: it stays open.
        let mut open = self.connection(node, &peer.streams).await.ok_or_else(unreached)?;
        let mut request = Request::new(Full::new(Bytes::new()));
        (*request.method_mut(), *request.uri_mut()) =
            (Method::CONNECT, Uri::from_static("servers.hospes:443"));
        let (mut parts, body) = request.into_parts();
        let mut context = CallerContext::of(&parts, open.from, node.id);
        context.server = Some(server.to_owned());
        let signed = open.keys.sign(&context, &parts, b"").ok_or_else(unreached)?;
        parts.headers.insert(CALLER, signed);
        open.sender.ready().await.map_err(|_| unreached())?;
        let response = open.sender.send_request(Request::from_parts(parts, body)).await;
        let mut response = response.map_err(|error| format!("{}: {error}", unreached()))?;
        if response.status() != StatusCode::OK {
            let status = response.status();
            let reason = Limited::new(response.into_body(), MAX_REASON_BYTES).collect().await;
            let reason = reason.map(|reason| String::from_utf8_lossy(&reason.to_bytes()).into_owned());
            let reason = reason.ok().filter(|reason| !reason.is_empty());
            return Err(reason
                .unwrap_or_else(|| format!("the node {address} does not run the server now ({status})")));
        }
        let revision = response.headers().get(REVISION).and_then(|revision| revision.to_str().ok());
        let revision =
            revision.ok_or_else(|| format!("the node {address} did not say the revision"))?.to_owned();
        let stream =
            hyper::upgrade::on(&mut response).await.map_err(|error| format!("{}: {error}", unreached()))?;
        Ok(ServerConnection { revision, stream: TokioIo::new(stream) })
    }

    async fn forward_to(&self, node: &NodeRecord, parts: Parts, body: Bytes) -> ForwardResult {
        let peer = self.peer(node.id);
        let Some(_pending) = PendingForward::new(&peer.pending) else { return busy() };
        let slot = if parts.method == Method::GET { &peer.streams } else { &peer.calls };
        let Some(mut open) = self.connection(node, slot).await else { return ForwardResult::NotProcessed };
        let context = CallerContext::of(&parts, open.from, node.id);
        let Some(request) = forwarded_request(parts, &body, &context, &open.keys) else {
            return ForwardResult::NotProcessed;
        };
        if open.sender.ready().await.is_err() {
            return ForwardResult::NotProcessed;
        }
        match open.sender.try_send_request(request).await {
            Ok(response) => received(response).await,
            Err(mut error) => match error.take_message() {
                // It was not sent.
                Some(_) => ForwardResult::NotProcessed,
                None => {
                    tracing::warn!(node = %node.id, error = %error.into_error(), "a forwarded request was lost");
                    ForwardResult::OutcomeUnknown
                }
            },
        }
    }
}

impl NodeTransport for NodePeers {
    fn forward<'a>(
        &'a self,
        node: &'a NodeRecord,
        parts: Parts,
        body: Bytes,
    ) -> BoxFuture<'a, ForwardResult> {
        async move {
            let (begun, mut parts) = (Instant::now(), parts);
            let mut span = self.begin_span(&mut parts, &body);
            let is_message = parts.method == Method::POST;
            let result = self.forward_to(node, parts, body).await;
            if is_message {
                self.metrics.note_forward(begun.elapsed(), &result);
            }
            if let Some(span) = &mut span {
                let text = AttributeValue::fixed(forward_text(&result));
                if !matches!(result, ForwardResult::Response(_)) {
                    span.set(AttributeKey::ErrorType, text.clone());
                }
                span.set(AttributeKey::HospesForwardResult, text);
            }
            result
        }
        .boxed()
    }
}

impl fmt::Debug for NodePeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodePeers").field("nodes", &self.peers.lock().len()).finish_non_exhaustive()
    }
}

/// Returns the context of the application's span in a message.
fn sent_context(body: &[u8]) -> Option<TraceContext> {
    #[derive(Deserialize)]
    struct MessagePeek<'a> {
        #[serde(borrow)]
        params: Option<ParamsPeek<'a>>,
    }
    #[derive(Deserialize)]
    struct ParamsPeek<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Option<MetaPeek<'a>>,
    }
    #[derive(Deserialize)]
    struct MetaPeek<'a> {
        #[serde(borrow)]
        traceparent: Option<Cow<'a, str>>,
        #[serde(borrow)]
        tracestate: Option<Cow<'a, str>>,
    }
    let message: MessagePeek<'_> = serde_json::from_slice(body).ok()?;
    let meta = message.params?.meta?;
    TraceContext::parse(&meta.traceparent?, meta.tracestate.as_deref())
}

/// Place among the requests at a node.
struct PendingForward(Arc<std::sync::atomic::AtomicUsize>);

impl PendingForward {
    fn new(pending: &Arc<std::sync::atomic::AtomicUsize>) -> Option<Self> {
        use std::sync::atomic::Ordering::AcqRel;
        if pending.fetch_add(1, AcqRel) >= MAX_FORWARDED {
            pending.fetch_sub(1, AcqRel);
            return None;
        }
        Some(Self(Arc::clone(pending)))
    }
}

impl Drop for PendingForward {
    fn drop(&mut self) {
        self.0.fetch_sub(1, std::sync::atomic::Ordering::AcqRel);
    }
}

fn busy() -> ForwardResult {
    let text = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{{\"code\":-32603,\"message\":\"too many forwarded requests: \
         the limit is {MAX_FORWARDED} (limit max_forwarded)\"}}}}"
    );
    let mut response = Response::new(Body::from(Bytes::from(text)));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    headers.insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    ForwardResult::Response(response)
}

/// Headers that belong to one connection, and the credentials, which are verified where they come in.
const NOT_FORWARDED: [HeaderName; 5] =
    [CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH, http::header::AUTHORIZATION, http::header::COOKIE];

fn forwarded_request(
    mut parts: Parts,
    body: &Bytes,
    context: &CallerContext,
    keys: &ContextKeys,
) -> Option<Request<Full<Bytes>>> {
    let mut headers = std::mem::take(&mut parts.headers);
    NOT_FORWARDED.iter().for_each(|name| drop(headers.remove(name)));
    headers.remove("keep-alive");
    headers.remove("dpop");
    headers.remove(CALLER);
    // The receiver checks the host that the client has named.
    let host = headers.remove(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let mut uri = std::mem::take(&mut parts.uri).into_parts();
    uri.authority = host.or(uri.authority);
    uri.scheme = Some(Scheme::HTTPS);
    let uri = Uri::from_parts(uri).ok()?;
    let mut request = Request::new(Full::new(body.clone()));
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (parts.method, uri, headers);
    let (mut parts, sent) = request.into_parts();
    let signed = keys.sign(context, &parts, body)?;
    parts.headers.insert(CALLER, signed);
    Some(Request::from_parts(parts, sent))
}

/// Takes in a response: streams as they come, everything else as a whole, because an answer that breaks off is none.
async fn received(response: Response<Incoming>) -> ForwardResult {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.version = http::Version::HTTP_11;
    let is_stream = parts
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    if is_stream {
        return ForwardResult::Response(Response::from_parts(parts, Body::forwarded_events(body)));
    }
    match Limited::new(body, MAX_ANSWER_BYTES).collect().await {
        Ok(whole) => ForwardResult::Response(Response::from_parts(parts, Body::from(whole.to_bytes()))),
        Err(error) => {
            tracing::warn!(error, "the answer to a forwarded request was lost");
            ForwardResult::OutcomeUnknown
        }
    }
}
