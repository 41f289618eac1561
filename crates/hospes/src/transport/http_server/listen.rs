//! GET and DELETE: the stream of a legacy session, streams taken up again, and the session's end.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use hospes_model::RpcError;
use hospes_proto::http::{AdmittedHead, HttpRejection};
use http::request::Parts;
use http::{Response, StatusCode};

use super::body::{Body, EventSource};
use super::endpoint_inner::EndpointInner;
use super::event_log::{EventCursor, EventLog, EventLogReader};
use super::post::find_session;
use super::response::{empty, events};
use super::sessions::{HttpSession, SessionGuard};
use crate::transport::adapter::{SessionListenCalls, StreamAttendance};

/// Opens the session's stream, or takes up the one that `Last-Event-ID` points into.
pub(super) fn get(
    inner: &Arc<EndpointInner>,
    parts: &Parts,
    head: &AdmittedHead<'_>,
) -> Result<Response<Body>, HttpRejection> {
    let session = find_session(inner, parts, head, None)?;
    let Some(last) = head.last_event_id else {
        return Ok(listen(inner, &session, session.begin_stream(true), Vec::new()));
    };
    let cursor = last.to_str().ok().and_then(EventCursor::read);
    let found = cursor.and_then(|cursor| Some((session.stream(cursor)?, cursor)));
    let Some((log, cursor)) = found else {
        let why = "Last-Event-ID does not name a stream of this session, or the stream was discarded";
        return Err(HttpRejection::new(StatusCode::BAD_REQUEST, RpcError::invalid_request(why)));
    };
    let mut reader = log.reader(cursor.position);
    let mut first = Vec::new();
    if log.is_listen() {
        // What was missed, then what comes.
        log.catch_up(&mut reader, &mut first);
        return Ok(listen(inner, &session, log, first));
    }
    let source = ResumedStream { log, reader, _session: session.hold() };
    Ok(events(Body::events(first, source, inner.limits.keep_alive)))
}

fn listen(
    inner: &Arc<EndpointInner>,
    session: &Arc<HttpSession>,
    log: Arc<EventLog>,
    first: Vec<u8>,
) -> Response<Body> {
    // The call for changes is taken over from the last stream, so that nothing is missed between the two.
    let (number, listen) = session.become_listener();
    let listen = Some(listen.unwrap_or_else(|| SessionListenCalls::new(&inner.adapter)));
    let attending = session.session().attach_reader();
    let (endpoint, session) = (Arc::clone(inner), session.hold());
    let source = SessionEventStream { endpoint, session, number, listen, log, _attending: attending };
    events(Body::events(first, source, inner.limits.keep_alive))
}

/// Ends the session.
pub(super) fn delete(
    inner: &Arc<EndpointInner>,
    parts: &Parts,
    head: &AdmittedHead<'_>,
) -> Result<Response<Body>, HttpRejection> {
    let session = find_session(inner, parts, head, None)?;
    inner.sessions.remove(&session);
    Ok(empty(StatusCode::NO_CONTENT))
}

/// A session's stream of changes.
struct SessionEventStream {
    endpoint: Arc<EndpointInner>,
    session: SessionGuard,
    number: u64,
    listen: Option<SessionListenCalls>,
    log: Arc<EventLog>,
    _attending: StreamAttendance,
}

impl EventSource for SessionEventStream {
    fn poll_events(&mut self, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<()> {
        let session = self.session.get();
        if !session.is_listener(self.number) || self.endpoint.is_closing() {
            return Poll::Ready(());
        }
        let Some(listen) = &mut self.listen else { return Poll::Ready(()) };
        let mut text = Vec::new();
        while listen.poll_message(session.session(), cx, &mut text).is_ready() {
            self.log.append(&text, out);
            text.clear();
        }
        Poll::Pending
    }
}

impl Drop for SessionEventStream {
    fn drop(&mut self) {
        if let Some(listen) = self.listen.take() {
            self.session.get().return_listen(self.number, listen);
        }
    }
}

/// Rest of a stream whose call continues without it.
struct ResumedStream {
    log: Arc<EventLog>,
    reader: EventLogReader,
    _session: SessionGuard,
}

impl EventSource for ResumedStream {
    fn is_lasting(&self) -> bool {
        false
    }

    fn poll_events(&mut self, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<()> {
        self.log.poll(&mut self.reader, cx, out)
    }
}
