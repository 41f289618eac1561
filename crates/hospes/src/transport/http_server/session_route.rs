//! Requests of shared sessions: served here, continued here from a snapshot, or forwarded to the process that owns the
//! session.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use hospes_model::{JsonRpcMessage, Method, RawJson, RequestId, RpcError, message};
use hospes_proto::http::{AdmittedHead, EndpointMethod, HttpRejection, SessionId};
use http::request::Parts;
use http::{Response, StatusCode};
use tokio::time::Instant;

use super::body::Body;
use super::call_guard::check_messages;
use super::caller::sender;
use super::endpoint_inner::EndpointInner;
use super::listen;
use super::outcome_unknown::{self, AnswerForm, OpenRequest};
use super::request_route;
use super::response::{busy_rejection, empty, json, rejection_response};
use super::session_handover::ActivityGuard;
use super::session_share::SessionShare;
use super::sessions::{HttpSession, SessionTableFull, new_session_id};
use super::shared_sessions::{
    AdoptedSession, DirectoryError, ForwardResult, ForwardedRequest, NewStreamEvent, SessionDirectory,
    SessionForwarder, SessionName, SessionPlace, SharedSession,
};
use crate::peer::RequestSender;
use crate::transport::adapter::{LegacySession, PeerCache, RestoredSession};

/// Maximum time for which a request looks for a process that serves its session.
pub(super) const MAX_SEARCH: Duration = Duration::from_secs(3);
/// Pause between two looks.
pub(super) const SEARCH_PAUSE: Duration = Duration::from_millis(50);
/// Pause until a session that is being given away has a new owner.
const GIVING_PAUSE: Duration = Duration::from_millis(5);

/// Locks of the sessions that are being adopted, so that each is made from its snapshot once.
#[derive(Debug, Default)]
pub(super) struct AdoptionLocks(Mutex<HashMap<Box<str>, Arc<tokio::sync::Mutex<()>>>>);

impl AdoptionLocks {
    fn of(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody holds: few sessions are adopted at once.
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(locks.entry(id.into()).or_default())
    }
}

/// The response to a request of a shared session, later; in a box, because the future of every request would be as large.
pub(super) type RoutedResponse<'a> = Pin<Box<dyn Future<Output = Response<Body>> + Send + 'a>>;

/// Answers a request that names a session, if processes share sessions.
pub(super) fn answer<'a>(
    inner: &'a Arc<EndpointInner>,
    peers: &'a PeerCache,
    parts: &'a Parts,
    head: &AdmittedHead<'a>,
    whole: &Bytes,
) -> Option<RoutedResponse<'a>> {
    let directory = inner.directory.as_ref()?;
    let Some(session) = head.session else {
        return request_route::answer(inner, directory, peers, parts, head, whole);
    };
    let request = RoutedRequest { inner, directory, parts, head: *head, session, whole: whole.clone() };
    Some(Box::pin(request.answer(peers)))
}

/// Request that names a session which processes share.
struct RoutedRequest<'a> {
    inner: &'a Arc<EndpointInner>,
    directory: &'a Arc<dyn SessionDirectory>,
    parts: &'a Parts,
    head: AdmittedHead<'a>,
    /// Value of `Mcp-Session-Id`.
    session: &'a str,
    /// The body of a POST.
    whole: Bytes,
}

/// Server of a routed request.
enum RequestServer {
    Local(Arc<HttpSession>),
    Remote(Arc<dyn SessionForwarder>),
}

/// Outcome of an attempt to forward a request.
enum ForwardOutcome {
    Response(Response<Body>),
    /// The node has refused it, because it does not own the session.
    Refused,
    /// The node was not reached.
    NotReached,
}

impl RoutedRequest<'_> {
    /// Answers the request.
    async fn answer(self, peers: &PeerCache) -> Response<Body> {
        if *self.inner.sessions_held.borrow() && self.begins_work() {
            // The sender is part of the endpoint, so waiting does not fail.
            let _ = self.inner.sessions_held.subscribe().wait_for(|held| !held).await;
        }
        let mut deadline = Instant::now() + MAX_SEARCH;
        loop {
            match self.find().await {
                Ok(RequestServer::Local(session)) => {
                    let Some(_activity) = ActivityGuard::begin(&session) else {
                        tokio::time::sleep(GIVING_PAUSE).await;
                        continue;
                    };
                    let response = self.answer_here(&session, peers).await;
                    return response.unwrap_or_else(|rejection| rejection_response(&rejection));
                }
                // Whoever forwarded it looks again.
                found @ (Ok(RequestServer::Remote(_)) | Err(_)) if self.is_forwarded() => {
                    if let Ok(RequestServer::Remote(owner)) = found {
                        owner.forget();
                    }
                    let why = "this process does not own the session";
                    let status = StatusCode::MISDIRECTED_REQUEST;
                    let rejection = HttpRejection::new(status, RpcError::invalid_request(why));
                    return rejection_response(&rejection);
                }
                Ok(RequestServer::Remote(owner)) => {
                    let sent = Instant::now();
                    match self.forward(&*owner).await {
                        ForwardOutcome::Response(response) if self.head.verb == EndpointMethod::Get => {
                            return response.map(|body| body.end_with(self.leaving()));
                        }
                        ForwardOutcome::Response(response) => return response,
                        // An owner that ends holds requests before it refuses them: that is no part of the search.
                        ForwardOutcome::Refused => deadline += sent.elapsed(),
                        ForwardOutcome::NotReached => {}
                    }
                    if Instant::now() >= deadline {
                        let error = DirectoryError::Unavailable("the owner does not answer".to_owned());
                        return rejection_response(&directory_rejection(self.request_id(), &error));
                    }
                    // Its owner was another one a moment ago.
                    tokio::time::sleep(SEARCH_PAUSE).await;
                }
                Err(rejection) => return rejection_response(&rejection),
            }
        }
    }

    /// Waits until this process is about to end.
    fn leaving(&self) -> BoxFuture<'static, ()> {
        let mut leaving = self.inner.leaving.subscribe();
        Box::pin(async move {
            // Without a sender the endpoint is gone, and its streams end.
            let _ = leaving.wait_for(|leaving| *leaving).await;
        })
    }

    /// Returns true unless running calls may wait for it.
    fn begins_work(&self) -> bool {
        match self.head.verb {
            EndpointMethod::Post => {
                let messages = self.messages().unwrap_or_default();
                messages.iter().any(|message| matches!(message, JsonRpcMessage::Request(_)))
            }
            EndpointMethod::Get | EndpointMethod::Delete => true,
        }
    }

    fn is_forwarded(&self) -> bool {
        self.parts.extensions.get::<ForwardedRequest>().is_some()
    }

    /// Finds who serves the session.
    async fn find(&self) -> Result<RequestServer, HttpRejection> {
        let RequestSender { principal, .. } = sender(self.parts);
        let unknown = || HttpRejection::session_unknown(self.request_id());
        let local = self.inner.sessions.find(self.session);
        if let Some(session) = &local {
            if session.session().peer().principal != principal {
                return Err(unknown());
            }
            if session.shared().is_none_or(|shared| shared.handle().is_owned()) && !session.has_ended() {
                return Ok(RequestServer::Local(Arc::clone(session)));
            }
        }
        let name = SessionName { id: self.session, principal: principal.as_deref() };
        let place = match self.directory.locate(name).await {
            Ok(place) => place,
            Err(error) => return Err(directory_rejection(self.request_id(), &error)),
        };
        match place {
            SessionPlace::Here(adopted) => {
                self.adopt(adopted, principal.as_ref()).await.map(RequestServer::Local)
            }
            elsewhere => {
                // Somebody else owns it by now, or nobody.
                if let Some(session) = local {
                    self.inner.sessions.forget(&session);
                }
                match elsewhere {
                    SessionPlace::Elsewhere(owner) => Ok(RequestServer::Remote(owner)),
                    _ => Err(unknown()),
                }
            }
        }
    }

    /// Continues a session from its snapshot, unless it is here.
    async fn adopt(
        &self,
        adopted: AdoptedSession,
        principal: Option<&Arc<str>>,
    ) -> Result<Arc<HttpSession>, HttpRejection> {
        let lock = self.inner.adoptions.of(self.session);
        let _adopting = lock.lock().await;
        if let Some(session) = self.inner.sessions.find(self.session) {
            let same = session.shared().is_some_and(|shared| shared.generation() >= adopted.generation);
            if same && !session.has_ended() {
                return Ok(session);
            }
            // Another process has served it in between.
            self.inner.sessions.forget(&session);
        }
        let AdoptedSession { session: handle, snapshot, generation, unanswered } = adopted;
        let unavailable =
            |why: String| directory_rejection(self.request_id(), &DirectoryError::Unavailable(why));
        let restored = self.inner.adapter.restore(&snapshot, principal.cloned(), generation).await;
        let RestoredSession { session, initialize } =
            restored.map_err(|error| unavailable(error.to_string()))?;
        for stream in unanswered {
            let mut number = stream.last;
            for request in stream.requests {
                let answer = outcome_unknown::answer(&request.id, &request.method, AnswerForm::Legacy);
                let event =
                    NewStreamEvent { number: number + 1, answers: Some(&request.id), message: &answer };
                let appended = stream.stream.append(event).await;
                let appended = appended.map_err(|error| directory_rejection(self.request_id(), &error))?;
                // Without an id nothing was appended, because it was answered, and the number is free.
                number += u64::from(appended.is_some());
            }
        }
        let id = http::HeaderValue::from_str(self.session).ok();
        let id = id.as_ref().and_then(|id| SessionId::try_from(id).ok());
        let id = id.ok_or_else(|| HttpRejection::session_unknown(self.request_id()))?;
        let state = session.state();
        let share = SessionShare::new(handle, generation, initialize, Some(state));
        let entered = self.inner.sessions.enter_as(id, session, Some(share));
        let session = entered.map_err(|SessionTableFull(max)| {
            let why = format!("too many sessions: the limit is {max} (setting max_sessions)");
            busy_rejection(self.request_id(), why)
        })?;
        self.inner.start_sweeping();
        tracing::info!(id = ?session.id(), generation, "session continued");
        Ok(session)
    }

    /// Serves the request from the session in memory.
    async fn answer_here(
        &self,
        session: &Arc<HttpSession>,
        peers: &PeerCache,
    ) -> Result<Response<Body>, HttpRejection> {
        match self.head.verb {
            EndpointMethod::Post => {
                let response =
                    super::post::serve(self.inner, peers, self.parts, &self.head, &self.whole).await?;
                // The client relies on what it is told, whichever process it asks next.
                match session.save().await {
                    Ok(()) => Ok(response),
                    Err(error) => {
                        self.lose(session, &error);
                        // What a tool has done, a repeat would do again.
                        let messages = self.messages()?;
                        match messages.iter().any(is_tool_call) {
                            true => Ok(lost_answer(&messages, self.answer_form())),
                            false => Err(directory_rejection(self.request_id(), &error)),
                        }
                    }
                }
            }
            EndpointMethod::Get => self.get(session).await,
            EndpointMethod::Delete => {
                let Some(shared) = session.shared() else { return Ok(empty(StatusCode::NO_CONTENT)) };
                match shared.handle().end().await {
                    Ok(()) => {}
                    Err(error) => return Err(directory_rejection(None, &error)),
                }
                self.inner.sessions.end(session);
                Ok(empty(StatusCode::NO_CONTENT))
            }
        }
    }

    async fn get(&self, session: &Arc<HttpSession>) -> Result<Response<Body>, HttpRejection> {
        let Some(last) = self.head.last_event_id else {
            return Ok(listen::open_listen_stream(self.inner, session));
        };
        let last = last.to_str().map_err(|_| listen::unknown_event())?;
        if let Some((log, position)) = session.stream(last) {
            return Ok(listen::resume(self.inner, session, log, position));
        }
        let Some(shared) = session.shared() else { return Err(listen::unknown_event()) };
        let resumed = shared.handle().resume(last).await;
        let resumed = resumed.map_err(|error| {
            self.lose(session, &error);
            directory_rejection(None, &error)
        })?;
        let Some(resumed) = resumed else { return Err(listen::unknown_event()) };
        let after = resumed.after;
        let log = session.continue_stream(resumed);
        Ok(listen::resume(self.inner, session, log, after))
    }

    /// Lets go of the session if another process owns it.
    fn lose(&self, session: &HttpSession, error: &DirectoryError) {
        if *error == DirectoryError::NotOwned {
            self.inner.sessions.forget(session);
        }
    }

    /// Forwards the request.
    async fn forward(&self, owner: &dyn SessionForwarder) -> ForwardOutcome {
        let messages = match self.messages() {
            Ok(messages) => messages,
            Err(rejection) => return ForwardOutcome::Response(rejection_response(&rejection)),
        };
        // Here, where the request came in: the owner knows who sends it, but not all that guards it.
        if let Err(refusal) = check_messages(self.parts, &self.whole, &messages) {
            return ForwardOutcome::Response(*refusal);
        }
        match owner.forward(self.parts.clone(), self.whole.clone()).await {
            ForwardResult::Response(response) if response.status() == StatusCode::MISDIRECTED_REQUEST => {
                ForwardOutcome::Refused
            }
            ForwardResult::Response(response) => {
                ForwardOutcome::Response(with_answer(response, &messages, self.answer_form()))
            }
            ForwardResult::NotProcessed => ForwardOutcome::NotReached,
            ForwardResult::OutcomeUnknown => {
                ForwardOutcome::Response(lost_answer(&messages, self.answer_form()))
            }
        }
    }

    /// The form of answers to requests whose owner was lost while it had them.
    fn answer_form(&self) -> AnswerForm {
        let is_batch = self.whole.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
        if is_batch { AnswerForm::LegacyBatch } else { AnswerForm::Legacy }
    }

    fn messages(&self) -> Result<Vec<JsonRpcMessage<'_>>, HttpRejection> {
        if self.head.verb != EndpointMethod::Post {
            return Ok(Vec::new());
        }
        match message::decode(&self.whole).map_err(HttpRejection::malformed)? {
            message::Frame::Single(message) => Ok(vec![message]),
            // What cannot be read is the owner's to answer.
            message::Frame::Batch(messages) => Ok(messages.into_iter().filter_map(Result::ok).collect()),
        }
    }

    /// The id of the request, if it is a single one.
    fn request_id(&self) -> Option<RequestId> {
        match message::decode(&self.whole) {
            Ok(message::Frame::Single(JsonRpcMessage::Request(request))) => Some(request.id),
            _ => None,
        }
    }
}

fn is_tool_call(message: &JsonRpcMessage<'_>) -> bool {
    matches!(message, JsonRpcMessage::Request(request) if *request.method == *Method::ToolsCall.name())
}

/// Adds the answers to requests to a stream that ends without them because its process was lost.
pub(super) fn with_answer(
    response: Response<Body>,
    messages: &[JsonRpcMessage<'_>],
    form: AnswerForm,
) -> Response<Body> {
    match outcome_unknown::body(&open_requests(messages), form) {
        Some(lost) => response.map(|body| body.or_answer(lost)),
        None => response,
    }
}

fn open_requests<'a>(messages: &'a [JsonRpcMessage<'_>]) -> Vec<OpenRequest<'a>> {
    let open = messages.iter().filter_map(|message| match message {
        JsonRpcMessage::Request(request) => Some(OpenRequest::new(&request.id, &request.method)),
        _ => None,
    });
    open.collect()
}

/// Answers a request whose answer is lost: it may have been processed and is not repeated.
pub(super) fn lost_answer(messages: &[JsonRpcMessage<'_>], form: AnswerForm) -> Response<Body> {
    match outcome_unknown::body(&open_requests(messages), form) {
        Some(body) => json(StatusCode::OK, body),
        // A notification, a response, or a stream: its client tries again.
        None => {
            let why = "the process that serves the request was lost";
            rejection_response(&busy_rejection(None, why.to_owned()))
        }
    }
}

/// The rejection of a request whose session nobody can serve for the moment.
pub(super) fn directory_rejection(id: Option<RequestId>, error: &DirectoryError) -> HttpRejection {
    match error {
        DirectoryError::Unavailable(_) | DirectoryError::Refused(_) => busy_rejection(id, error.to_string()),
        DirectoryError::NotOwned => busy_rejection(id, format!("{error}; repeat the request")),
    }
}

/// Reason for which a session was not entered.
#[derive(Debug)]
pub(super) enum EnterError {
    Full(SessionTableFull),
    Directory(DirectoryError),
}

/// New session in the directory, which ends unless it is entered.
pub(super) struct ReservedSession {
    id: SessionId,
    handle: Option<Arc<dyn SharedSession>>,
}

impl ReservedSession {
    /// Reserves a session, if processes share them.
    pub(super) async fn new(
        inner: &EndpointInner,
        sender: &RequestSender,
    ) -> Result<Option<Self>, DirectoryError> {
        let Some(directory) = &inner.directory else { return Ok(None) };
        let id = new_session_id();
        let name = SessionName { id: id.as_str(), principal: sender.principal.as_deref() };
        let handle = directory.reserve(name).await?;
        Ok(Some(Self { id, handle: Some(handle) }))
    }

    /// Enters the session, once the directory has all that another process needs.
    pub(super) async fn enter(
        mut self,
        inner: &EndpointInner,
        session: Arc<LegacySession>,
        initialize: RawJson,
    ) -> Result<Arc<HttpSession>, EnterError> {
        let Some(handle) = self.handle.clone() else {
            return Err(EnterError::Directory(DirectoryError::NotOwned));
        };
        let share = SessionShare::new(handle, 1, initialize, None);
        share.save(&session).await.map_err(EnterError::Directory)?;
        let entered =
            inner.sessions.enter_as(self.id.clone(), session, Some(share)).map_err(EnterError::Full)?;
        self.handle = None;
        Ok(entered)
    }
}

impl Drop for ReservedSession {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            SessionShare::end_handle(handle);
        }
    }
}
