//! State shared by the calls, the session's own stream and the answers of one link, and the sending of its requests.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use hospes_model::{ListToolsResult, Method, RawJson, RequestId, RpcError};
use hospes_proto::http::{HeaderParams, headers};
use http::header::{HeaderName, LOCATION};
use http::{HeaderMap, Method as Verb, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::{Notify, Semaphore};

use crate::client::error::{CallError, ConnectStage, ConnectionClosed, HttpFailure};
use crate::client::link::{AnswerSink, ClientLimits, InboundMessages, NegotiatedProtocol, ReplyTo};
use crate::client::target::authorizer::Authorizer;
use crate::client::transport::duplex::{write_answer, write_cancelled};
use crate::client::transport::http::answer::{self, failure};
use crate::client::transport::http::authorization_wait::AuthorizationWait;
use crate::client::transport::http::mailbox::CallMailbox;
use crate::client::transport::http::pool::{HttpConnection, HttpConnectionPool, PoolSendError, RequestBody};
use crate::client::transport::http::request_subject::RequestSubject;
use crate::client::transport::http::session::{HandshakeRecord, HttpClientSession};

/// Maximum time to deliver a message that has no answer.
pub(super) const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of answers being sent at once; further ones are dropped.
const MAX_ANSWERS: usize = 256;
/// Maximum number of redirects followed within the origin.
const MAX_REDIRECTS: usize = 3;

pub(super) const SESSION_ID_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");

/// State shared by calls, the session's own stream and answers.
pub(crate) struct HttpLinkShared {
    pub(super) pool: Arc<HttpConnectionPool>,
    /// The path, and the query if there is one; a redirect may change it.
    pub(super) path: RwLock<Uri>,
    /// The server has said on its stream that messages go there.
    pub(super) is_announced: AtomicBool,
    /// Headers of every request.
    pub(super) headers: HeaderMap,
    pub(super) last_id: AtomicI64,
    pub(super) session: RwLock<Arc<HttpClientSession>>,
    /// True once no session is needed any more.
    pub(super) ended: AtomicBool,
    /// Held while a session is opened in the place of one that ended.
    pub(super) reopening: tokio::sync::Mutex<()>,
    /// Record of the handshake, to be repeated for a new session.
    pub(super) introduction: Mutex<HandshakeRecord>,
    /// Arguments that are repeated in headers, by tool; only tools with such arguments.
    pub(super) mirrors: RwLock<HashMap<Box<str>, Arc<HeaderParams>>>,
    /// Requests of this client whose answer streams. The answer may arrive on another stream.
    pub(super) streaming: Mutex<HashMap<i64, Arc<CallMailbox>>>,
    /// Places of answers that are on their way.
    pub(super) answers: Arc<Semaphore>,
    /// Number of calls that the server works on.
    pub(super) calls: AtomicUsize,
    /// Number of answered requests of the server.
    pub(super) answered: AtomicU64,
    /// Called when a new session has taken the place of one that ended.
    pub(super) on_renewed: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Authorizer, called when the server requires credentials.
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    /// Notified when a request with a waiting caller was accepted, so its credentials are valid.
    pub(super) taken: Notify,
    pub(super) away: AuthorizationWait,
    pub(super) limits: ClientLimits,
    pub(super) inbound: Arc<dyn InboundMessages>,
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

impl HttpLinkShared {
    /// Creates the state of a link that has sent nothing yet.
    pub(super) fn new(
        pool: HttpConnectionPool,
        path: Uri,
        headers: HeaderMap,
        authorizer: Option<Arc<dyn Authorizer>>,
        limits: ClientLimits,
        inbound: Arc<dyn InboundMessages>,
    ) -> Self {
        Self {
            pool: Arc::new(pool),
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
            authorizer,
            taken: Notify::new(),
            away: AuthorizationWait::default(),
            limits,
            inbound,
        }
    }

    pub(super) fn next_id(&self) -> i64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The session that there is now.
    pub(crate) fn session(&self) -> Arc<HttpClientSession> {
        Arc::clone(&self.session.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The headers of a POST.
    pub(super) fn headers(
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
    pub(super) async fn send(
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
                    answer::drain_response(&self.pool, response, connection).await;
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
    pub(super) fn url(&self) -> Option<url::Url> {
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
    pub(super) async fn post(
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
            answer::drain_response(&self.pool, response, connection).await;
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

    pub(super) fn post_in_background(
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
    pub(super) fn cancel(
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
    pub(super) fn reply_to(self: &Arc<Self>, session: &Arc<HttpClientSession>) -> ReplyTo {
        ReplyTo::new(Arc::new(SessionAnswers { shared: Arc::clone(self), session: Arc::clone(session) }))
    }

    /// Returns the reason the connection ended, if it has ended.
    pub(super) fn closed(&self) -> Option<Arc<ConnectionClosed>> {
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

    pub(super) fn handshake(&self) -> MutexGuard<'_, HandshakeRecord> {
        self.introduction.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn streaming(&self) -> MutexGuard<'_, HashMap<i64, Arc<CallMailbox>>> {
        self.streaming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn learn_tools(&self, result: &mut ListToolsResult) {
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

    pub(super) fn header_params(&self, tool: &str) -> Option<Arc<HeaderParams>> {
        self.mirrors.read().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }
}

fn send_error(error: PoolSendError) -> CallError {
    CallError::Http(Arc::new(match error {
        PoolSendError::Connect(failure) => failure,
        PoolSendError::Broken(what) => failure(ConnectStage::Http, &what),
    }))
}

/// Returns the path of a URL, with its query.
pub(super) fn path_of(url: &url::Url) -> Result<Uri, http::uri::InvalidUri> {
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
