//! The Streamable HTTP transport, calling side: one POST for each message, answers as JSON or as a stream, both eras.
//! HTTP+SSE, its predecessor, is in [`sse`].

mod answer;
mod authorize;
mod call;
mod pool;
mod reader;
mod session;
mod sse;
mod stream;
mod unsolicited;

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use hospes_http_client::NetworkSettings;
use hospes_model::{ListToolsResult, Method, Notification, RawJson, RequestId, RpcError};
use hospes_proto::http::{HeaderParams, headers};
use http::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use http::{HeaderMap, Method as Verb, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use self::authorize::{AuthorizationWait, RequestSubject};
use self::call::HttpCall;
use self::pool::{HttpConnection, HttpConnectionPool, PoolSendError, RequestBody};
use self::session::{HandshakeRecord, HttpClientSession};
use self::stream::CallMailbox;
use crate::client::error::{CallError, ConnectStage, ConnectionClosed, HttpFailure};
use crate::client::link::{
    self, AnswerSink, ClientLimits, InFlightRequest, InboundMessages, Link, LinkCall, LinkEvent, LinkFuture,
    NegotiatedProtocol, OutgoingRequest, ReplyTo,
};
use crate::client::target::UrlTarget;
use crate::client::target::authorizer::Authorizer;
use crate::client::transport::duplex::{write_answer, write_cancelled};

/// Maximum time to deliver a message that has no answer.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of answers being sent at once; further ones are dropped.
const MAX_ANSWERS: usize = 256;
/// Maximum number of redirects followed within the origin.
const MAX_REDIRECTS: usize = 3;

const SESSION_ID_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A server that is reached over HTTP. Dropping it ends the session, in the background.
#[derive(Debug)]
pub(crate) struct HttpLink {
    shared: Arc<HttpLinkShared>,
}

/// State shared by calls, the session's own stream and answers.
pub(crate) struct HttpLinkShared {
    pool: Arc<HttpConnectionPool>,
    /// The path, and the query if there is one; a redirect may change it.
    path: RwLock<Uri>,
    /// The server has said on its stream that messages go there.
    is_announced: AtomicBool,
    /// Headers of every request.
    headers: HeaderMap,
    last_id: AtomicI64,
    session: RwLock<Arc<HttpClientSession>>,
    /// True once no session is needed any more.
    ended: AtomicBool,
    /// Held while a session is opened in the place of one that ended.
    reopening: tokio::sync::Mutex<()>,
    /// Record of the handshake, to be repeated for a new session.
    introduction: Mutex<HandshakeRecord>,
    /// Arguments that are repeated in headers, by tool; only tools with such arguments.
    mirrors: RwLock<HashMap<Box<str>, Arc<HeaderParams>>>,
    /// Requests of this client whose answer streams. The answer may arrive on another stream.
    streaming: Mutex<HashMap<i64, Arc<CallMailbox>>>,
    /// Places of answers that are on their way.
    answers: Arc<Semaphore>,
    /// Number of calls that the server works on.
    calls: AtomicUsize,
    /// Number of answered requests of the server.
    answered: AtomicU64,
    /// Called when a new session has taken the place of one that ended.
    on_renewed: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Authorizer, called when the server requires credentials.
    authorizer: Option<Arc<dyn Authorizer>>,
    /// Notified when a request with a waiting caller was accepted, so its credentials are valid.
    taken: Notify,
    away: AuthorizationWait,
    limits: ClientLimits,
    inbound: Arc<dyn InboundMessages>,
}

impl HttpLink {
    /// A link to `url`; nothing is sent yet.
    pub(crate) fn new(
        target: &UrlTarget,
        limits: ClientLimits,
        network: &NetworkSettings,
        inbound: Arc<dyn InboundMessages>,
    ) -> Result<Self, String> {
        let url = url::Url::parse(&target.url).map_err(|error| format!("not a URL: {error}"))?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or("the URL has no host")?;
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        if url.scheme() == "https" && cfg!(not(feature = "tls")) {
            return Err("https support is not compiled in (feature tls)".into());
        }
        let origin =
            format!("{}://{authority}", url.scheme()).parse::<Uri>().map_err(|error| error.to_string())?;
        let path = path_of(&url).map_err(|error| error.to_string())?;
        let mut headers = HeaderMap::new();
        let value = |text: &str| {
            HeaderValue::from_str(text).map_err(|_| "a header value contains invalid characters")
        };
        headers.insert(HOST, value(&authority)?);
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("hospes/", env!("CARGO_PKG_VERSION"))));
        if !url.username().is_empty() || url.password().is_some() {
            use base64::Engine as _;
            let pair = format!("{}:{}", url.username(), url.password().unwrap_or_default());
            let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
            headers.insert(AUTHORIZATION, value(&format!("Basic {encoded}"))?);
        }
        for (name, text) in &target.headers {
            let name =
                name.parse::<HeaderName>().map_err(|_| format!("{name:?} is not a valid header name"))?;
            let mut text = value(text)?;
            text.set_sensitive(true);
            headers.append(name, text);
        }
        let shared = HttpLinkShared {
            pool: Arc::new(HttpConnectionPool::new(origin, network)?),
            path: RwLock::new(path),
            is_announced: AtomicBool::new(false),
            headers,
            last_id: AtomicI64::new(0),
            session: RwLock::default(),
            ended: AtomicBool::new(false),
            reopening: tokio::sync::Mutex::new(()),
            introduction: Mutex::default(),
            mirrors: RwLock::default(),
            streaming: Mutex::default(),
            answers: Arc::new(Semaphore::new(MAX_ANSWERS)),
            calls: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            on_renewed: OnceLock::new(),
            authorizer: target.authorizer.as_ref().map(|shared| Arc::clone(&shared.0)),
            taken: Notify::new(),
            away: AuthorizationWait::default(),
            limits,
            inbound,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    fn fail_all(&self, closed: ConnectionClosed) {
        let closed = Arc::new(closed);
        // The receiver first: a stream that is entered from now
        // on finds the end there, the others are told below.
        self.shared.inbound.handle_connection_lost(Arc::clone(&closed));
        for mailbox in self.shared.streaming().values() {
            mailbox.put_answer(Err(CallError::Closed(Arc::clone(&closed))));
        }
    }
}

impl Link for HttpLink {
    fn open<'a>(
        &'a self,
        outgoing: &'a OutgoingRequest<'a>,
        protocol: &'a NegotiatedProtocol,
    ) -> LinkFuture<'a, Result<LinkCall, CallError>> {
        link::waiting(async move {
            // An answer that is there wins over the end of the
            // connection. Dropping `call::open` cancels the request.
            let opened = tokio::select! {
                biased;
                opened = call::open(&self.shared, outgoing, protocol), if self.shared.closed().is_none() => opened,
                closed = link::wait_closed(self.shared.inbound.subscribe_closed()) => Err(CallError::Closed(closed)),
            };
            Ok(LinkCall::Boxed(Box::new(OpenHttpCall { call: opened?, shared: Arc::clone(&self.shared) })))
        })
    }

    /// Unlike other notifications, the one that the session is open must arrive before anything else is sent.
    fn start_session<'a>(&'a self, protocol: &'a NegotiatedProtocol) -> LinkFuture<'a, ()> {
        if !protocol.revision.is_legacy() {
            return link::ready(());
        }
        link::waiting(async move {
            self.shared.post_initialized(protocol).await;
            session::wait_until_listening(self.shared.keep_listening(protocol)).await;
        })
    }

    /// Sends a notification in the background; a failure is not reported.
    fn notify(&self, notification: &Notification, protocol: &NegotiatedProtocol) {
        let mut body = Vec::new();
        if notification.encode(protocol.revision, None, &mut body).unwrap_or(false) {
            let method = notification.method();
            let session = self.shared.session();
            self.shared.post_in_background(body, Some(method), protocol.clone(), session);
        }
    }

    /// Waits until the server has accepted it.
    fn tell<'a>(
        &'a self,
        method: &'a Method,
        body: Vec<u8>,
        protocol: &'a NegotiatedProtocol,
    ) -> LinkFuture<'a, Result<(), CallError>> {
        let session = self.shared.session();
        link::waiting(async move { self.shared.post(body, Some(method), protocol, &session).await })
    }

    /// Ends the session. What still waits fails, and so does everything after it.
    fn close(&self) -> LinkFuture<'_, ()> {
        link::waiting(async move {
            self.fail_all(ConnectionClosed::new("the connection was closed"));
            self.shared.end_session().await;
        })
    }

    fn close_with_reason(&self, closed: ConnectionClosed) {
        self.fail_all(closed);
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move { shared.end_session().await });
    }

    fn is_busy(&self) -> bool {
        // There are servers that do one thing at a time, over HTTP too.
        self.shared.calls.load(Ordering::Relaxed) > 0
    }

    fn authorization_time(&self) -> Duration {
        self.shared.away.total()
    }

    /// Learns which arguments go into headers, and drops tools whose annotations break the rules (HHDR-29).
    fn record_tools(&self, result: &mut ListToolsResult, protocol: &NegotiatedProtocol) {
        if !protocol.revision.is_legacy() {
            self.shared.learn_tools(result);
        }
    }

    fn needs_tool_list(&self, protocol: &NegotiatedProtocol) -> bool {
        !protocol.revision.is_legacy()
    }

    fn on_renewed(&self, then: Box<dyn Fn() + Send + Sync>) {
        // Set once, when the client is made.
        let _ = self.shared.on_renewed.set(then);
    }
}

/// A request of [`HttpLink`], with what its answers to questions need.
#[derive(Debug)]
struct OpenHttpCall {
    call: HttpCall,
    shared: Arc<HttpLinkShared>,
}

impl InFlightRequest for OpenHttpCall {
    fn poll_event(&mut self, cx: &mut TaskContext<'_>) -> Poll<LinkEvent> {
        self.call.poll_event(cx)
    }

    fn reply_to(&self) -> ReplyTo {
        // The session may have been replaced since the call: the
        // answer goes to the one that the question came from.
        let session = self.call.session().cloned().unwrap_or_else(|| self.shared.session());
        self.shared.reply_to(&session)
    }
}

/// One session as the destination of answers.
#[derive(Debug)]
struct SessionAnswers {
    shared: Arc<HttpLinkShared>,
    session: Arc<HttpClientSession>,
}

impl AnswerSink for SessionAnswers {
    fn answer(self: Arc<Self>, id: &RequestId, outcome: Result<&RawJson, &RpcError>) {
        self.shared.answer(&self.session, id, outcome);
    }
}

impl Drop for HttpLink {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        shared.ended.store(true, Ordering::Relaxed);
        shared.stop_listening();
        if shared.session().id.is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move { shared.end_session().await });
        }
    }
}

impl HttpLinkShared {
    fn next_id(&self) -> i64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The session that there is now.
    pub(crate) fn session(&self) -> Arc<HttpClientSession> {
        Arc::clone(&self.session.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The headers of a POST.
    fn headers(
        &self,
        speech: &NegotiatedProtocol,
        method: Option<&Method>,
        name: Option<&str>,
        session: &HttpClientSession,
    ) -> HeaderMap {
        let mut all = self.headers.clone();
        // An answer to the server has no method of its own; its headers are those of any legacy message.
        headers::add_request_headers(&mut all, speech.revision, method.unwrap_or(&Method::Ping), name);
        if let Some(id) = session.id.as_ref().filter(|_| method != Some(&Method::Initialize)) {
            all.insert(SESSION_ID_HEADER, id.clone());
        }
        all
    }

    /// Sends a request about `subject` to the endpoint, wherever within its origin that has moved.
    async fn send(
        &self,
        verb: &Verb,
        subject: RequestSubject<'_>,
        headers: impl Fn() -> HeaderMap,
        body: &Bytes,
    ) -> Result<(Response<Incoming>, HttpConnection), CallError> {
        let (mut redirects, mut attempt) = (0, 0);
        loop {
            let mut request: Request<RequestBody> = Request::new(Full::new(body.clone()));
            *request.method_mut() = verb.clone();
            *request.uri_mut() = self.path.read().unwrap_or_else(PoisonError::into_inner).clone();
            *request.headers_mut() = headers();
            let sent = self.authorize_request(verb, subject, request.headers_mut()).await?;
            let (response, connection) = self.pool.send(request).await.map_err(send_error)?;
            let status = response.status();
            if !status.is_redirection() {
                if self.should_retry(verb, subject, &sent, &response, attempt).await? {
                    // Read to its end, so that the next attempt can use the same connection.
                    answer::drain_response(self, response, connection).await;
                    attempt += 1;
                    continue;
                }
                if status.is_success() && !subject.background {
                    self.taken.notify_waiters();
                }
                return Ok((response, connection));
            }
            let Some(there) = self.location(&response) else { return Ok((response, connection)) };
            self.follow_redirect(status, &there, redirects)?;
            redirects += 1;
        }
    }

    /// Returns the target of a redirect.
    fn location(&self, response: &Response<Incoming>) -> Option<url::Url> {
        let location = response.headers().get(LOCATION)?.to_str().ok()?;
        self.url()?.join(location).ok()
    }

    /// Returns the URL that messages are sent to.
    fn url(&self) -> Option<url::Url> {
        let path = self.path.read().unwrap_or_else(PoisonError::into_inner).to_string();
        self.pool.url()?.join(&path).ok()
    }

    /// Adopts the target of a redirect. It must be the same server, because credentials are sent nowhere else, and the
    /// status must keep the message unchanged.
    fn follow_redirect(
        &self,
        status: StatusCode,
        there: &url::Url,
        redirects: usize,
    ) -> Result<(), CallError> {
        // With other redirects a POST may become a GET (RFC 9110, section 15.4).
        let kept = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let same = self.pool.url().is_some_and(|here| here.origin() == there.origin());
        if kept
            && same
            && redirects < MAX_REDIRECTS
            && let Ok(path) = path_of(there)
        {
            let mut before = self.path.write().unwrap_or_else(PoisonError::into_inner);
            // A redirect may be anybody's; but the slash at the end is a matter of taste.
            if before.path().trim_end_matches('/') != path.path().trim_end_matches('/') {
                self.is_announced.store(false, Ordering::Relaxed);
            }
            *before = path;
            return Ok(());
        }
        // The query may hold a secret.
        let mut shown = there.clone();
        shown.set_query(None);
        let why = match (same, kept) {
            (false, _) => "a different origin, which is not followed",
            (true, false) => "which would change the request method",
            (true, true) => "which exceeds the redirect limit",
        };
        let what = format!("the server answered with status {status} and redirects to {shown}, {why}");
        Err(CallError::Http(Arc::new(HttpFailure {
            status: Some(status.as_u16()),
            ..failure(ConnectStage::Http, &what)
        })))
    }

    /// Sends what wants no answer.
    async fn post(
        &self,
        body: Vec<u8>,
        method: Option<&Method>,
        speech: &NegotiatedProtocol,
        session: &HttpClientSession,
    ) -> Result<(), CallError> {
        let headers = || self.headers(speech, method, None, session);
        // The handshake is waited for, and nothing else that wants no answer.
        let subject = RequestSubject::new(method.map_or("response", Method::name), None)
            .background(method != Some(&Method::Initialized));
        let sent = pin!(async {
            let (response, connection) = self.send(&Verb::POST, subject, headers, &body.into()).await?;
            let status = response.status();
            answer::drain_response(self, response, connection).await;
            Ok(status)
        });
        match self.away.timeout(NOTIFICATION_TIMEOUT, sent).await {
            Some(Ok(status)) if status.is_success() => Ok(()),
            Some(Ok(status)) => Err(answer::refusal_error(status, None, &[])),
            Some(Err(error)) => Err(error),
            None => Err(CallError::Http(Arc::new(failure(
                ConnectStage::Http,
                "a message was not accepted in time",
            )))),
        }
    }

    fn post_in_background(
        self: &Arc<Self>,
        body: Vec<u8>,
        method: Option<Method>,
        speech: NegotiatedProtocol,
        session: Arc<HttpClientSession>,
    ) {
        let shared = Arc::clone(self);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let place = match method {
            // How much else there is to say is up to us.
            Some(_) => None,
            None => match Arc::clone(&self.answers).try_acquire_owned() {
                Ok(place) => Some(place),
                Err(_) => {
                    // The server asks without end, and takes nothing.
                    tracing::warn!("response dropped: {MAX_ANSWERS} others are being sent");
                    return;
                }
            },
        };
        runtime.spawn(async move {
            let _place = place;
            if let Err(error) = shared.post(body, method.as_ref(), &speech, &session).await {
                tracing::debug!(%error, "cannot deliver a message");
            }
        });
    }

    /// Notifies an older server that a request is cancelled. (A modern one sees the stream closed.)
    fn cancel(
        self: &Arc<Self>,
        id: i64,
        method: &Method,
        speech: &NegotiatedProtocol,
        session: &Arc<HttpClientSession>,
    ) {
        // `initialize` is never cancelled (CANC-03), and a session that is over no longer knows the id.
        if speech.revision.is_legacy() && *method != Method::Initialize && !session.is_over() {
            let mut body = Vec::new();
            write_cancelled(&mut body, id, "no longer wanted");
            self.post_in_background(body, Some(Method::Cancelled), speech.clone(), Arc::clone(session));
        }
    }

    /// Returns the destination of answers to questions of `session`.
    fn reply_to(self: &Arc<Self>, session: &Arc<HttpClientSession>) -> ReplyTo {
        ReplyTo::new(Arc::new(SessionAnswers { shared: Arc::clone(self), session: Arc::clone(session) }))
    }

    /// Returns the reason the connection ended, if it has ended.
    fn closed(&self) -> Option<Arc<ConnectionClosed>> {
        self.inbound.subscribe_closed().borrow().clone()
    }

    /// Answers a request that the server made in `session`, unless it no longer wants that, or that session is over.
    pub(crate) fn answer(
        self: &Arc<Self>,
        session: &Arc<HttpClientSession>,
        id: &RequestId,
        outcome: Result<&RawJson, &RpcError>,
    ) {
        if !session.remove_server_request(id) {
            return;
        }
        self.answered.fetch_add(1, Ordering::Relaxed);
        let Some(speech) = self.negotiated() else { return };
        let mut body = Vec::new();
        write_answer(&mut body, id, outcome);
        self.post_in_background(body, None, speech, Arc::clone(session));
    }

    fn handshake(&self) -> MutexGuard<'_, HandshakeRecord> {
        self.introduction.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn streaming(&self) -> MutexGuard<'_, HashMap<i64, Arc<CallMailbox>>> {
        self.streaming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn_tools(&self, result: &mut ListToolsResult) {
        let mut mirrors = self.mirrors.write().unwrap_or_else(PoisonError::into_inner);
        result.tools.retain(|tool| match HeaderParams::from_schema(&tool.input_schema) {
            Ok(mirror) if mirror.is_empty() => {
                mirrors.remove(tool.name.as_str());
                true
            }
            Ok(mirror) => {
                mirrors.insert(tool.name.as_str().into(), Arc::new(mirror));
                true
            }
            Err(error) => {
                tracing::warn!(tool = tool.name, %error, "tool dropped: invalid x-mcp-header");
                false
            }
        });
    }

    fn header_params(&self, tool: &str) -> Option<Arc<HeaderParams>> {
        self.mirrors.read().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }
}

fn send_error(error: PoolSendError) -> CallError {
    CallError::Http(Arc::new(match error {
        PoolSendError::Connect(failure) => failure,
        PoolSendError::Broken(what) => failure(ConnectStage::Http, &what),
    }))
}

fn failure(stage: ConnectStage, what: &str) -> HttpFailure {
    HttpFailure { stage, status: None, challenge: None, body: None, what: what.to_owned() }
}

fn path_of(url: &url::Url) -> Result<Uri, http::uri::InvalidUri> {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()).parse(),
        None => url.path().parse(),
    }
}

impl fmt::Debug for HttpLinkShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLinkShared").field("pool", &self.pool).finish_non_exhaustive()
    }
}

/// The moment from which on waiting is over.
fn deadline(from: Instant, limit: Option<Duration>) -> Option<Instant> {
    limit.and_then(|limit| from.checked_add(limit))
}
