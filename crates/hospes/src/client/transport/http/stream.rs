//! Answers that stream: events in, messages out, and going on where a broken stream stopped.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use hospes_model::message::{self, Frame, JsonRpcMessage};
use hospes_model::{Method, ProgressToken, RawJson, RequestId, RpcError};
use hospes_proto::session::client::TimeLimits;
use hyper::body::{Body as _, Incoming};
use serde_json::value::RawValue;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::client::error::{CallError, TimeLimit};
use crate::client::link::NegotiatedProtocol;
use crate::client::link::inbox::{CallInbox, ProgressParamsPeek};
use crate::client::link::{EventInterest, LinkEvent, OutgoingRequest};
use crate::client::transport::http::active_call::{ActiveCall, CallStart};
use crate::client::transport::http::answer;
use crate::client::transport::http::event_stream::{OpenedStream, retry_delay};
use crate::client::transport::http::link_shared::HttpLinkShared;
use crate::client::transport::http::mailbox::CallMailbox;
use crate::client::transport::http::pool::HttpConnection;
use crate::client::transport::http::reader::{SseItem, SseReader};
use crate::client::transport::http::session::HttpClientSession;

/// Maximum number of consecutive resumptions of a stream without progress.
const MAX_RESUMPTIONS: u32 = 5;

/// A request whose answer streams.
pub(super) struct ResponseStream {
    shared: Arc<HttpLinkShared>,
    /// The session that it was made in; what is asked on it is answered there.
    session: Arc<HttpClientSession>,
    speech: NegotiatedProtocol,
    id: i64,
    method: Method,
    ears: EventInterest,
    reader: SseReader,
    source: ResponseSource,
    inbox: CallInbox,
    done: Option<Result<RawJson, CallError>>,
    finished: bool,
    failures: u32,
    progress: f64,
    clock: CallClock,
    mailbox: Arc<CallMailbox>,
    /// Until it is over the server is at work.
    _busy: Option<ActiveCall>,
}

enum ResponseSource {
    Open(Incoming, HttpConnection),
    /// The stream broke; going on with it.
    Resuming(BoxFuture<'static, Result<OpenedStream, CallError>>),
    Ended,
}

struct CallClock {
    limits: TimeLimits,
    since: Instant,
    heard: Instant,
    /// Time spent on authorization when the clock was last read.
    away: Duration,
    /// Number of questions answered when the clock was last read.
    answered: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl ResponseStream {
    pub(super) fn new(
        shared: &Arc<HttpLinkShared>,
        session: Arc<HttpClientSession>,
        outgoing: &OutgoingRequest<'_>,
        speech: &NegotiatedProtocol,
        id: i64,
        (body, connection): (Incoming, HttpConnection),
        CallStart { at: since, away, busy }: CallStart,
    ) -> Self {
        let mailbox = Arc::new(CallMailbox::of(outgoing, &session));
        shared.streaming().insert(id, Arc::clone(&mailbox));
        if let Some(closed) = shared.closed() {
            // Whoever closed the connection has told those that were there then.
            mailbox.put_answer(Err(CallError::Closed(closed)));
        }
        Self {
            mailbox,
            session,
            shared: Arc::clone(shared),
            speech: speech.clone(),
            id,
            method: outgoing.method.clone(),
            ears: outgoing.interest,
            reader: SseReader::new(shared.limits.max_message_bytes),
            source: ResponseSource::Open(body, connection),
            inbox: CallInbox::default(),
            done: None,
            finished: false,
            failures: 0,
            progress: f64::NEG_INFINITY,
            clock: CallClock {
                limits: outgoing.limits,
                since,
                heard: since,
                away,
                answered: shared.answered.load(Ordering::Relaxed),
                timer: None,
            },
            _busy: busy,
        }
    }

    /// The session that it was made in.
    pub(super) fn session(&self) -> &Arc<HttpClientSession> {
        &self.session
    }

    pub(super) fn poll_event(&mut self, cx: &mut TaskContext<'_>) -> Poll<LinkEvent> {
        loop {
            if let Some(event) = self.inbox.pop() {
                return Poll::Ready(event);
            }
            if let Some(outcome) = self.done.take() {
                self.finished = true;
                self.release_connection(cx);
                return Poll::Ready(LinkEvent::Done(outcome));
            }
            if let Some(answer) = self.mailbox.poll_take(cx) {
                self.done = Some(answer);
                continue;
            }
            if let Some(question) = self.mailbox.question() {
                return Poll::Ready(question);
            }
            if let Some(limit) = self.clock.poll_late(cx, &self.shared, &self.session, self.reader.crowded) {
                let (method, after) = (self.method.name().into(), self.clock.after(limit));
                self.shared.cancel(self.id, &self.method, &self.speech, &self.session);
                self.source = ResponseSource::Ended;
                self.done = Some(Err(CallError::Timeout { method, limit, after }));
                continue;
            }
            match &mut self.source {
                ResponseSource::Open(body, connection) => match self.reader.poll_next(body, connection, cx) {
                    Poll::Ready(Some(item)) => self.handle(item),
                    Poll::Ready(None) => self.resume(),
                    Poll::Pending => return Poll::Pending,
                },
                ResponseSource::Resuming(opening) => match opening.as_mut().poll(cx) {
                    Poll::Ready(Ok(OpenedStream::Stream(body, connection))) => {
                        self.reader.begin();
                        self.source = ResponseSource::Open(body, connection);
                    }
                    // A client error is final; a server error may pass, and is tried again.
                    Poll::Ready(Ok(OpenedStream::Refused(status))) if !status.is_server_error() => {
                        let what =
                            format!("the stream ended early, and the server refused to resume it ({status})");
                        self.fail(&what);
                    }
                    Poll::Ready(_) => self.resume(),
                    Poll::Pending => return Poll::Pending,
                },
                ResponseSource::Ended => self.fail("the stream ended before the response"),
            }
        }
    }

    fn fail(&mut self, what: &str) {
        self.source = ResponseSource::Ended;
        self.done = Some(Err(answer::broken_error(what)));
    }

    /// Resumes a stream that has ended without the answer. Older revisions allow this from the last event, if it had an
    /// id (HRES-05). A modern request is lost with its stream.
    fn resume(&mut self) {
        let last_id = self.reader.last_event_id().to_owned();
        if !self.speech.revision.is_legacy() || last_id.is_empty() || self.failures >= MAX_RESUMPTIONS {
            return self.fail("the stream ended before the response");
        }
        let pause = retry_delay(self.reader.retry(), self.failures);
        self.failures += 1;
        let (shared, speech) = (Arc::clone(&self.shared), self.speech.clone());
        // A session that took this one's place knows nothing of its streams.
        let session = Arc::clone(&self.session);
        self.source = ResponseSource::Resuming(Box::pin(async move {
            tokio::time::sleep(pause).await;
            shared.get_stream(&speech, None, &session, &last_id, false).await
        }));
    }

    /// The connection can be used again if the stream ends right behind the answer.
    fn release_connection(&mut self, cx: &mut TaskContext<'_>) {
        if let ResponseSource::Open(mut body, mut connection) =
            std::mem::replace(&mut self.source, ResponseSource::Ended)
            && matches!(connection.poll_drive(cx, |cx| Pin::new(&mut body).poll_frame(cx)), Poll::Ready(None))
        {
            self.shared.pool.release(connection);
        }
    }

    fn handle(&mut self, item: SseItem) {
        self.failures = 0;
        match item {
            SseItem::Message(data) => match message::decode(&data) {
                Ok(Frame::Single(message)) => self.handle_message(&data, message),
                Ok(Frame::Batch(parts)) => {
                    for message in parts.into_iter().flatten() {
                        self.handle_message(&data, message);
                    }
                }
                Err(error) => tracing::debug!(%error, "ignored an event that is not a message"),
            },
            SseItem::Oversize(over) => {
                if over.response() == Some(&RequestId::Number(self.id)) {
                    let bytes = usize::try_from(over.seen).unwrap_or(usize::MAX);
                    self.done = Some(Err(answer::too_large_error(bytes, over.limit)));
                } else {
                    self.shared.handle_oversize(&over, &self.session);
                }
            }
            SseItem::Mark | SseItem::Endpoint(_) => {}
        }
    }

    fn handle_message(&mut self, data: &Bytes, message: JsonRpcMessage<'_>) {
        match message {
            JsonRpcMessage::Notification(notification) => {
                let method = Method::from_name(&notification.method);
                let params = raw(data, notification.params);
                self.handle_notification(method, params);
            }
            JsonRpcMessage::Request(request)
                if self.ears == EventInterest::NotificationsAndRequests
                    && self.method.allows_input_requests() =>
            {
                let method = Method::from_name(&request.method);
                if self.shared.accept_request(&request.id, &method, &self.session, &self.speech) {
                    self.inbox.push(LinkEvent::Question(request.id, method, raw(data, request.params)));
                }
            }
            JsonRpcMessage::Request(_) => {
                self.shared.handle_unsolicited_message(data, message, &self.session, &self.speech)
            }
            JsonRpcMessage::Response(_) => {
                if let Some(outcome) = answer::match_answer(self.id, data, message) {
                    self.done = Some(outcome);
                }
            }
        }
    }

    fn handle_notification(&mut self, method: Method, params: Option<RawJson>) {
        match method {
            Method::Progress => {
                let Some(progress) = ProgressParamsPeek::from_params(params.as_ref()) else { return };
                if progress.progress_token != ProgressToken::from(self.id) {
                    return;
                }
                self.clock.heard = Instant::now();
                // Progress that does not grow breaks PROG-05 or repeats
                // an event: it shows life, but is not passed on.
                if progress.progress > self.progress {
                    self.progress = progress.progress;
                    if self.ears != EventInterest::AnswerOnly {
                        self.inbox.push(LinkEvent::Notification(method, params));
                    }
                }
            }
            // Everything on a stream of changes belongs to it.
            _ if self.method == Method::SubscriptionsListen => {
                self.inbox.push(LinkEvent::Notification(method, params))
            }
            _ => {
                if method == Method::LogMessage && self.ears != EventInterest::AnswerOnly {
                    self.inbox.push(LinkEvent::Notification(method.clone(), params.clone()));
                    // Whoever relays a call relays its messages too; told twice they would arrive twice.
                    if self.ears == EventInterest::NotificationsAndRequests {
                        return;
                    }
                }
                self.shared.handle_notification(&method, params.as_ref(), &self.session);
            }
        }
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        self.shared.streaming().remove(&self.id);
        let gone = RpcError::internal("the call that this request belongs to has ended");
        // Also behind an answer: the server waits for one to each of its questions.
        while let Some(question) = self.mailbox.question() {
            self.inbox.push(question);
        }
        self.inbox.questions().for_each(|id| self.shared.answer(&self.session, id, Err(&gone)));
        if self.finished {
            return;
        }
        // With the stream its connection is closed, which is what a modern server wants to see.
        self.shared.cancel(self.id, &self.method, &self.speech, &self.session);
    }
}

impl CallClock {
    /// Returns the limit that has run out, if any. While the server waits for an answer of this client it does not
    /// count as silent.
    fn poll_late(
        &mut self,
        cx: &mut TaskContext<'_>,
        shared: &HttpLinkShared,
        session: &HttpClientSession,
        crowded: bool,
    ) -> Option<TimeLimit> {
        loop {
            let (due, limit) = self.due()?;
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
            if timer.deadline() > due || timer.is_elapsed() {
                timer.as_mut().reset(due);
            }
            let waiting = timer.as_mut().poll(cx).is_pending();
            // A server that talks without end leaves the runtime little time to ring timers.
            if waiting && !crowded {
                return None;
            }
            let now = Instant::now();
            if now < due {
                if waiting {
                    return None;
                }
                continue;
            }
            let away = shared.away.total();
            if away > self.away {
                // Absence counts towards no limit. While it lasts it grows, so it is not looked at all the time.
                let longer = (away - self.away).max(Duration::from_millis(100));
                (self.since, self.heard, self.away) = (self.since + longer, self.heard + longer, away);
                continue;
            }
            let answered = shared.answered.load(Ordering::Relaxed);
            let waited_for_us = session.has_server_requests() || answered > self.answered;
            if limit == TimeLimit::Timeout && waited_for_us {
                (self.heard, self.answered) = (now, answered);
                continue;
            }
            return Some(limit);
        }
    }

    fn due(&self) -> Option<(Instant, TimeLimit)> {
        let timeout = deadline(self.heard, self.limits.timeout);
        let max = deadline(self.since, self.limits.max_timeout);
        match (timeout, max) {
            (Some(timeout), Some(max)) if max < timeout => Some((max, TimeLimit::MaxTimeout)),
            (Some(timeout), _) => Some((timeout, TimeLimit::Timeout)),
            (None, max) => max.map(|max| (max, TimeLimit::MaxTimeout)),
        }
    }

    fn after(&self, limit: TimeLimit) -> Duration {
        let after = match limit {
            TimeLimit::Timeout => self.limits.timeout,
            TimeLimit::MaxTimeout => self.limits.max_timeout,
        };
        after.unwrap_or_default()
    }
}

/// A message's params, as a part of it.
pub(super) fn raw(data: &Bytes, params: Option<&RawValue>) -> Option<RawJson> {
    params.map(|params| RawJson::slice_of(data, params))
}

impl fmt::Debug for ResponseStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseStream")
            .field("id", &self.id)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

/// The moment from which on waiting is over.
pub(super) fn deadline(from: Instant, limit: Option<Duration>) -> Option<Instant> {
    limit.and_then(|limit| from.checked_add(limit))
}
