//! One request over HTTP, from its POST to its answer.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use hospes_model::{Method, PeerResult, RawJson, Reply, code};
use hospes_proto::session::client::TimeLimits;
use http::{Method as Verb, StatusCode};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::client::error::malformed;
use crate::client::error::{CallError, TimeLimit};
use crate::client::link::NegotiatedProtocol;
use crate::client::link::{LinkEvent, OutgoingParams, OutgoingRequest, write_json_string};
use crate::client::transport::http::active_call::{ActiveCall, CallStart};
use crate::client::transport::http::answer::{self, ResponseKind};
use crate::client::transport::http::link_shared::HttpLinkShared;
use crate::client::transport::http::request_subject::RequestSubject;
use crate::client::transport::http::session::HttpClientSession;
use crate::client::transport::http::stream::{ResponseStream, deadline};

/// A request whose answer is there, or streams.
#[derive(Debug)]
pub(crate) struct HttpCall(HttpCallState);

#[derive(Debug)]
enum HttpCallState {
    Done(Option<Result<RawJson, CallError>>),
    Stream(Box<ResponseStream>),
}

impl HttpCall {
    /// The session in which it is asked what it is asked on its own stream; none where there is no stream.
    pub(crate) fn session(&self) -> Option<&Arc<HttpClientSession>> {
        match &self.0 {
            HttpCallState::Done(_) => None,
            HttpCallState::Stream(stream) => Some(stream.session()),
        }
    }

    /// Polls for the next event. Must not be called again after [`LinkEvent::Done`].
    pub(super) fn poll_event(&mut self, cx: &mut TaskContext<'_>) -> Poll<LinkEvent> {
        match &mut self.0 {
            HttpCallState::Done(outcome) => {
                let outcome = outcome
                    .take()
                    .unwrap_or_else(|| Err(answer::broken_error("the response was already consumed")));
                Poll::Ready(LinkEvent::Done(outcome))
            }
            HttpCallState::Stream(stream) => stream.poll_event(cx),
        }
    }
}

/// Sends a request and waits until its answer, or a stream that will bring it, is there.
pub(super) async fn open(
    shared: &Arc<HttpLinkShared>,
    outgoing: &OutgoingRequest<'_>,
    speech: &NegotiatedProtocol,
) -> Result<HttpCall, CallError> {
    let method = outgoing.method;
    if *method == Method::Initialize
        && let OutgoingParams::Text(text) = outgoing.members
    {
        // Recorded, because a session that the server forgets
        // is opened again with the same handshake (HSES-08).
        shared.record_handshake(text, speech);
    }
    let session = shared.session();
    match open_once(shared, outgoing, speech, &session).await {
        // The server has forgotten the session: a new one takes its place (HSES-08). It refused the request itself by
        // this status, so nothing of it was done, and even a tool may be called again; but only once.
        Err(error) if session.id.is_some() && status(&error) == Some(404) => {
            shared.reopen(&session).await?;
            open_once(shared, outgoing, speech, &shared.session()).await
        }
        // The server has tools whose mirrored arguments we do not know, or know no longer.
        Ok(HttpCall(HttpCallState::Done(Some(Err(CallError::Rpc(error))))))
            if error.code == code::HEADER_MISMATCH && *method == Method::ToolsCall =>
        {
            // Boxed: this is rare, and every call's future would hold another request's.
            Box::pin(refresh_tools(shared, outgoing.limits, speech)).await?;
            open_once(shared, outgoing, speech, &session).await
        }
        other => other,
    }
}

fn status(error: &CallError) -> Option<u16> {
    match error {
        CallError::Http(failure) => failure.status,
        _ => None,
    }
}

/// Sends a request once, without a second attempt.
pub(super) async fn open_once(
    shared: &Arc<HttpLinkShared>,
    outgoing: &OutgoingRequest<'_>,
    speech: &NegotiatedProtocol,
    session: &Arc<HttpClientSession>,
) -> Result<HttpCall, CallError> {
    let method = outgoing.method;
    let id = shared.next_id();
    let mut body = Vec::with_capacity(256);
    outgoing.write(&mut body, id, &speech.stamp);
    // A closure: after a redirect or a new authorization the request is sent again with headers of its own.
    let headers = || {
        let mut headers = shared.headers(speech, Some(method), outgoing.name, session);
        if *method == Method::ToolsCall
            && !speech.revision.is_legacy()
            && let Some(mirror) = outgoing.name.and_then(|name| shared.header_params(name))
        {
            let arguments = outgoing.arguments.and_then(|arguments| arguments.decode::<&RawValue>().ok());
            mirror.add_headers(arguments, &mut headers);
        }
        headers
    };
    let now = Instant::now();
    let limits = outgoing.limits;
    let (limit, after) = first_limit(limits);
    // Whoever drops this future, or waits too long, wants the request no longer.
    let mut unwanted = CancelRequestOnDrop { shared, session, id, method, speech, armed: true };
    let body = Bytes::from(body);
    let subject = RequestSubject::new(method.name(), outgoing.name);
    let begun = CallStart { at: now, away: shared.away.total(), busy: ActiveCall::with(shared, method) };
    let answered = async {
        let (response, connection) = shared.send(&Verb::POST, subject, headers, &body).await?;
        receive(shared, session, outgoing, speech, id, (response, connection), begun).await
    };
    let outcome = match deadline(now, after) {
        None => answered.await,
        Some(by) => match shared.away.timeout_at(by, pin!(answered)).await {
            Some(outcome) => outcome,
            None => {
                let (method, after) = (method.name().into(), after.unwrap_or_default());
                return Err(CallError::Timeout { method, limit, after });
            }
        },
    };
    unwanted.armed = false;
    outcome
}

/// Handles a response by its head: reads the answer, or starts a stream.
async fn receive(
    shared: &Arc<HttpLinkShared>,
    session: &Arc<HttpClientSession>,
    outgoing: &OutgoingRequest<'_>,
    speech: &NegotiatedProtocol,
    id: i64,
    (response, mut connection): (
        http::Response<hyper::body::Incoming>,
        crate::client::transport::http::pool::HttpConnection,
    ),
    begun: CallStart,
) -> Result<HttpCall, CallError> {
    let method = outgoing.method;
    let done = |outcome| HttpCall(HttpCallState::Done(Some(outcome)));
    if !response.status().is_success() {
        let session_gone = response.status() == StatusCode::NOT_FOUND && session.id.is_some();
        let error = answer::read_refusal(&shared.pool, id, Some(method), response, connection).await;
        return match error {
            // Whatever the message says, the status means that the session is gone.
            CallError::Rpc(_) if session_gone => Err(answer::refusal_error(StatusCode::NOT_FOUND, None, b"")),
            CallError::Rpc(_) => Ok(done(Err(error))),
            error => Err(error),
        };
    }
    let session = match *method == Method::Initialize {
        true => shared.begin_session(response.headers()),
        false => Arc::clone(session),
    };
    match answer::response_kind(response.headers()) {
        ResponseKind::Json => {
            let (head, mut body) = response.into_parts();
            let max = shared.limits.max_message_bytes;
            let body = answer::read_body(&mut body, &head.headers, &mut connection, max).await?;
            shared.pool.release(connection);
            Ok(done(answer::read_answer(method, id, &body)))
        }
        ResponseKind::Stream => {
            let source = (response.into_body(), connection);
            let stream = ResponseStream::new(shared, session, outgoing, speech, id, source, begun);
            Ok(HttpCall(HttpCallState::Stream(Box::new(stream))))
        }
        ResponseKind::Other => Err(answer::read_page(&shared.pool, response, connection).await),
    }
}

/// The limit that runs out first when nothing is heard.
fn first_limit(limits: TimeLimits) -> (TimeLimit, Option<std::time::Duration>) {
    match (limits.timeout, limits.max_timeout) {
        (Some(timeout), Some(max)) if max < timeout => (TimeLimit::MaxTimeout, Some(max)),
        (None, max) => (TimeLimit::MaxTimeout, max),
        (timeout, _) => (TimeLimit::Timeout, timeout),
    }
}

/// Asks for the tools again, to learn which arguments go into headers (HHDR-32).
async fn refresh_tools(
    shared: &Arc<HttpLinkShared>,
    limits: TimeLimits,
    speech: &NegotiatedProtocol,
) -> Result<(), CallError> {
    let method = Method::ToolsList;
    let mut cursor: Option<String> = None;
    for _ in 0..crate::client::link::MAX_PAGES {
        let mut text = Vec::new();
        if let Some(cursor) = &cursor {
            text.extend_from_slice(b"\"cursor\":");
            write_json_string(&mut text, cursor);
        }
        let outgoing =
            OutgoingRequest { members: OutgoingParams::Text(&text), ..OutgoingRequest::new(&method, limits) };
        let mut call = open_once(shared, &outgoing, speech, &shared.session()).await?;
        let outcome = loop {
            if let LinkEvent::Done(outcome) = std::future::poll_fn(|cx| call.poll_event(cx)).await {
                break outcome;
            }
        };
        let answer = PeerResult::decode(&method, speech.revision, &outcome?);
        let Ok(PeerResult::Complete(Reply::ListTools(mut result))) = answer else {
            return Err(malformed(&method, "unexpected result type"));
        };
        shared.learn_tools(&mut result);
        cursor = result.next_cursor.take();
        if cursor.is_none() {
            return Ok(());
        }
    }
    Err(malformed(&method, "it has too many pages"))
}

/// Cancels a request when it is dropped before its answer is there.
struct CancelRequestOnDrop<'a> {
    shared: &'a Arc<HttpLinkShared>,
    session: &'a Arc<HttpClientSession>,
    id: i64,
    method: &'a Method,
    speech: &'a NegotiatedProtocol,
    armed: bool,
}

impl Drop for CancelRequestOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.shared.cancel(self.id, self.method, self.speech, self.session);
        }
    }
}
