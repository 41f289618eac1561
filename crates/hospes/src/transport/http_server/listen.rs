//! GET and DELETE: the stream of a legacy session, streams taken up again, and the session's end.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use hospes_model::RpcError;
use hospes_proto::http::{AdmittedHead, HttpRejection};
use http::request::Parts;
use http::{Response, StatusCode};

use super::body::{Body, EventSource};
use super::endpoint_inner::EndpointInner;
use super::event_log::{EventLog, EventLogReader};
use super::post::find_session;
use super::response::{empty, events};
use super::sessions::{HttpSession, SessionGuard};
use super::shared_log::SharedLog;
use super::shared_sessions::NewStream;
use crate::transport::adapter::{SessionListenCalls, StreamAttendance};

/// Opens the session's stream, or takes up the one that `Last-Event-ID` points into.
pub(super) fn get(
    inner: &Arc<EndpointInner>,
    parts: &Parts,
    head: &AdmittedHead<'_>,
) -> Result<Response<Body>, HttpRejection> {
    let session = find_session(inner, parts, head, None)?;
    let Some(last) = head.last_event_id else {
        return Ok(open_listen_stream(inner, &session));
    };
    let found = last.to_str().ok().and_then(|id| session.stream(id));
    let Some((log, position)) = found else { return Err(unknown_event()) };
    Ok(resume(inner, &session, log, position))
}

/// Opens the stream of a session.
pub(super) fn open_listen_stream(inner: &Arc<EndpointInner>, session: &Arc<HttpSession>) -> Response<Body> {
    let log = session.begin_stream(|| NewStream::Listen);
    let reader = log.first_reader(None);
    listen(inner, session, log, reader, Vec::new())
}

/// The rejection of a `Last-Event-ID` that names nothing.
pub(super) fn unknown_event() -> HttpRejection {
    let why = "Last-Event-ID does not name a stream of this session, or the stream was discarded";
    HttpRejection::new(StatusCode::BAD_REQUEST, RpcError::invalid_request(why))
}

/// Continues a stream behind a position.
pub(super) fn resume(
    inner: &Arc<EndpointInner>,
    session: &Arc<HttpSession>,
    log: Arc<EventLog>,
    position: u64,
) -> Response<Body> {
    let mut reader = log.reader(position);
    let mut first = Vec::new();
    if log.is_listen() {
        // What was missed, then what comes.
        log.catch_up(&mut reader, &mut first);
        return listen(inner, session, log, reader, first);
    }
    let source = ResumedStream { log, reader, _session: session.hold() };
    events(Body::events(first, source, inner.limits.keep_alive))
}

fn listen(
    inner: &Arc<EndpointInner>,
    session: &Arc<HttpSession>,
    log: Arc<EventLog>,
    reader: EventLogReader,
    first: Vec<u8>,
) -> Response<Body> {
    // The call for changes is taken over from the last stream, so that nothing is missed between the two.
    let (number, listen) = session.become_listener();
    let listen = Some(listen.unwrap_or_else(|| SessionListenCalls::new(&inner.adapter)));
    let attending = session.session().attach_reader();
    let reader = log.shared_log().is_some().then_some(reader);
    SharedLog::start(&log);
    let (endpoint, session) = (Arc::clone(inner), session.hold());
    let source = SessionEventStream { endpoint, session, number, listen, log, reader, _attending: attending };
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
    number: u32,
    listen: Option<SessionListenCalls>,
    log: Arc<EventLog>,
    /// Reads the log, if processes share the session: an event is sent once the directory has it.
    reader: Option<EventLogReader>,
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
        let shared = self.reader.as_mut();
        while !self.log.is_congested(cx) && listen.poll_message(session.session(), cx, &mut text).is_ready() {
            match shared {
                Some(_) => self.log.store(&text, None),
                None => self.log.append(&text, out),
            }
            text.clear();
        }
        match shared {
            Some(reader) => self.log.poll(reader, cx, out),
            None => Poll::Pending,
        }
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
