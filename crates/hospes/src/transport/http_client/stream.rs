//! Answers that stream: events in, messages out, and going on where a broken stream stopped.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use hospes_model::message::{self, Frame, Message};
use hospes_model::{Id, Method, ProgressToken, RawJson, Revision, RpcError};
use hospes_proto::frame::{Oversize, SseDecoder, Subject};
use hospes_proto::session::client::TimeLimits;
use hyper::body::{Body as _, Incoming};
use serde_json::value::RawValue;
use tokio::time::{Instant, Sleep, sleep_until};

use super::answer;
use super::pool::Connection;
use super::session::{Opened, pause};
use super::{Shared, deadline};
use crate::client::core::Speech;
use crate::client::desk::ReplyTo;
use crate::client::error::{CallError, TimeLimit};
use crate::client::inbox::{self, Inbox, Progress};
use crate::client::link::{Ears, LinkEvent, Outgoing};

/// How often in a row a stream is resumed without anything coming of it.
const MAX_RESUMPTIONS: u32 = 5;
/// How many pieces of a body that say nothing are read in one go. Whoever waits also has a clock to look at.
const MAX_FRAMES_A_TURN: usize = 16;

/// Cuts a body into messages.
#[derive(Debug)]
pub(super) struct Reader {
    decoder: SseDecoder,
    chunk: Bytes,
    last_id: String,
    retry: Option<Duration>,
    limit: usize,
    /// Whether more has come than one turn reads.
    crowded: bool,
}

/// What an event held.
#[derive(Debug)]
pub(super) enum Item {
    Message(Bytes),
    Oversize(Oversize),
    /// Where messages go (HTTP+SSE).
    Endpoint(Bytes),
    /// Nothing but a sign of life.
    Mark,
}

impl Reader {
    pub(super) fn new(limit: usize) -> Self {
        let decoder = SseDecoder::new(limit);
        Self { decoder, chunk: Bytes::new(), last_id: String::new(), retry: None, limit, crowded: false }
    }

    /// A new body follows; where the last one stopped is remembered.
    pub(super) fn begin(&mut self) {
        self.decoder = SseDecoder::new(self.limit);
        self.chunk = Bytes::new();
    }

    pub(super) fn last_event_id(&self) -> &str {
        &self.last_id
    }

    pub(super) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// The next item; none at the body's end, however it came about.
    pub(super) async fn next(&mut self, body: &mut Incoming, connection: &mut Connection) -> Option<Item> {
        poll_fn(|cx| self.poll_next(body, connection, cx)).await
    }

    fn poll_next(
        &mut self,
        body: &mut Incoming,
        connection: &mut Connection,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Item>> {
        let mut frames = 0;
        self.crowded = false;
        loop {
            if let Some(event) = self.decoder.poll_event(&mut self.chunk) {
                let event = match event {
                    Ok(event) => event,
                    Err(over) => return Poll::Ready(Some(Item::Oversize(over))),
                };
                if event.has_id {
                    self.last_id.clear();
                    self.last_id.push_str(self.decoder.last_event_id());
                }
                self.retry = event.retry.or(self.retry);
                let item = match event.data {
                    Some(data) if !data.is_empty() && event.name() == "message" => Item::Message(data),
                    Some(data) if event.name() == "endpoint" => Item::Endpoint(data),
                    _ => Item::Mark,
                };
                return Poll::Ready(Some(item));
            }
            if frames == MAX_FRAMES_A_TURN {
                self.crowded = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            frames += 1;
            let frame = match connection.poll_drive(cx, |cx| Pin::new(&mut *body).poll_frame(cx)) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(_) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            };
            if let Ok(data) = frame.into_data() {
                self.chunk = data;
            }
        }
    }
}

/// Where the answer to a request is put that comes on another stream than its own. That must not happen (HTTP-33), and
/// does, where servers take any stream of the client for the one that broke.
#[derive(Debug)]
pub(super) struct Mailbox {
    answer: Mutex<Option<Result<RawJson, CallError>>>,
    /// Questions that came on the session's own stream.
    questions: Mutex<Inbox>,
    /// Whether its caller can pass questions on, and for whom.
    asks: bool,
    principal: Option<Arc<str>>,
    waker: AtomicWaker,
}

impl Mailbox {
    fn of(outgoing: &Outgoing<'_>) -> Self {
        Self {
            answer: Mutex::default(),
            questions: Mutex::default(),
            asks: outgoing.ears == Ears::Questions && outgoing.method.may_ask(),
            principal: outgoing.principal.cloned(),
            waker: AtomicWaker::new(),
        }
    }

    fn ask(&self, question: LinkEvent) {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).push(question);
        self.waker.wake();
    }

    fn question(&self) -> Option<LinkEvent> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    pub(super) fn put(&self, answer: Result<RawJson, CallError>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.waker.wake();
    }

    fn poll_take(&self, cx: &mut TaskContext<'_>) -> Option<Result<RawJson, CallError>> {
        self.waker.register(cx.waker());
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A request whose answer streams.
pub(super) struct Stream {
    shared: Arc<Shared>,
    speech: Speech,
    id: i64,
    method: Method,
    ears: Ears,
    reader: Reader,
    source: Source,
    inbox: Inbox,
    done: Option<Result<RawJson, CallError>>,
    finished: bool,
    failures: u32,
    progress: f64,
    clock: Clock,
    mailbox: Arc<Mailbox>,
}

enum Source {
    Open(Incoming, Connection),
    /// The stream broke; going on with it.
    Resuming(BoxFuture<'static, Result<Opened, CallError>>),
    Ended,
}

struct Clock {
    limits: TimeLimits,
    since: Instant,
    heard: Instant,
    /// How many questions had been answered when time was last looked at.
    answered: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stream {
    pub(super) fn new(
        shared: &Arc<Shared>,
        outgoing: &Outgoing<'_>,
        speech: &Speech,
        id: i64,
        body: Incoming,
        connection: Connection,
        since: Instant,
    ) -> Self {
        let mailbox = Arc::new(Mailbox::of(outgoing));
        shared.streaming().insert(id, Arc::clone(&mailbox));
        Self {
            mailbox,
            shared: Arc::clone(shared),
            speech: speech.clone(),
            id,
            method: outgoing.method.clone(),
            ears: outgoing.ears,
            reader: Reader::new(shared.limits.max_message_bytes),
            source: Source::Open(body, connection),
            inbox: Inbox::default(),
            done: None,
            finished: false,
            failures: 0,
            progress: f64::NEG_INFINITY,
            clock: Clock {
                limits: outgoing.limits,
                since,
                heard: since,
                answered: shared.answered.load(Ordering::Relaxed),
                timer: None,
            },
        }
    }

    pub(super) fn poll_event(&mut self, cx: &mut TaskContext<'_>) -> Poll<LinkEvent> {
        loop {
            if let Some(event) = self.inbox.pop() {
                return Poll::Ready(event);
            }
            if let Some(outcome) = self.done.take() {
                self.finished = true;
                self.let_go(cx);
                return Poll::Ready(LinkEvent::Done(outcome));
            }
            if let Some(answer) = self.mailbox.poll_take(cx) {
                self.done = Some(answer);
                continue;
            }
            if let Some(question) = self.mailbox.question() {
                return Poll::Ready(question);
            }
            if let Some(limit) = self.clock.poll_late(cx, &self.shared, self.reader.crowded) {
                let (method, after) = (self.method.name().into(), self.clock.after(limit));
                self.shared.cancel(self.id, &self.method, &self.speech);
                self.source = Source::Ended;
                self.done = Some(Err(CallError::Timeout { method, limit, after }));
                continue;
            }
            match &mut self.source {
                Source::Open(body, connection) => match self.reader.poll_next(body, connection, cx) {
                    Poll::Ready(Some(item)) => self.handle(item),
                    Poll::Ready(None) => self.resume(),
                    Poll::Pending => return Poll::Pending,
                },
                Source::Resuming(opening) => match opening.as_mut().poll(cx) {
                    Poll::Ready(Ok(Opened::Stream(body, connection))) => {
                        self.reader.begin();
                        self.source = Source::Open(body, connection);
                    }
                    Poll::Ready(Ok(Opened::Refused(status))) if !status.is_server_error() => {
                        let what =
                            format!("the stream broke off, and going on with it was refused ({status})");
                        self.fail(&what);
                    }
                    Poll::Ready(_) => self.resume(),
                    Poll::Pending => return Poll::Pending,
                },
                Source::Ended => self.fail("the stream broke off before the answer"),
            }
        }
    }

    fn fail(&mut self, what: &str) {
        self.source = Source::Ended;
        self.done = Some(Err(answer::broken(what)));
    }

    /// The stream has ended without the answer. Older revisions let us go on where it stopped, if it said where it was
    /// (HRES-05); a modern request is lost with its stream.
    fn resume(&mut self) {
        let last_id = self.reader.last_event_id().to_owned();
        if !self.speech.revision.is_legacy() || last_id.is_empty() || self.failures >= MAX_RESUMPTIONS {
            return self.fail("the stream broke off before the answer");
        }
        let pause = pause(self.reader.retry(), self.failures);
        self.failures += 1;
        let (shared, speech) = (Arc::clone(&self.shared), self.speech.clone());
        self.source = Source::Resuming(Box::pin(async move {
            tokio::time::sleep(pause).await;
            shared.get_stream(&speech, None, &shared.session(), &last_id).await
        }));
    }

    /// The connection can be used again if the stream ends right behind the answer.
    fn let_go(&mut self, cx: &mut TaskContext<'_>) {
        if let Source::Open(mut body, mut connection) = std::mem::replace(&mut self.source, Source::Ended)
            && matches!(connection.poll_drive(cx, |cx| Pin::new(&mut body).poll_frame(cx)), Poll::Ready(None))
        {
            self.shared.pool.put_back(connection);
        }
    }

    fn handle(&mut self, item: Item) {
        self.failures = 0;
        match item {
            Item::Message(data) => match message::decode(&data) {
                Ok(Frame::Single(message)) => self.handle_message(&data, message),
                Ok(Frame::Batch(parts)) => {
                    for message in parts.into_iter().flatten() {
                        self.handle_message(&data, message);
                    }
                }
                Err(error) => tracing::debug!(%error, "an event that is no message"),
            },
            Item::Oversize(over) => {
                if over.response() == Some(&Id::Number(self.id)) {
                    let bytes = usize::try_from(over.seen).unwrap_or(usize::MAX);
                    self.done = Some(Err(answer::too_large(bytes, over.limit)));
                } else {
                    self.shared.handle_oversize(&over);
                }
            }
            Item::Mark | Item::Endpoint(_) => {}
        }
    }

    fn handle_message(&mut self, data: &Bytes, message: Message<'_>) {
        match message {
            Message::Notification(notification) => {
                let method = Method::from_name(&notification.method);
                let params = raw(data, notification.params);
                self.handle_notification(method, params);
            }
            Message::Request(request) if self.ears == Ears::Questions && self.method.may_ask() => {
                let method = Method::from_name(&request.method);
                if self.shared.take_up(&request.id, &method, &self.speech) {
                    self.inbox.push(LinkEvent::Question(request.id, method, raw(data, request.params)));
                }
            }
            Message::Request(_) => self.shared.handle_unbidden_message(data, message, &self.speech),
            Message::Response(_) => {
                if let Some(outcome) = answer::ours(self.id, data, message) {
                    self.done = Some(outcome);
                }
            }
        }
    }

    fn handle_notification(&mut self, method: Method, params: Option<RawJson>) {
        match method {
            Method::Progress => {
                let Some(progress) = Progress::of(params.as_ref()) else { return };
                if progress.progress_token != ProgressToken::from(self.id) {
                    return;
                }
                self.clock.heard = Instant::now();
                if progress.progress > self.progress {
                    self.progress = progress.progress;
                    if self.ears != Ears::Deaf {
                        self.inbox.push(LinkEvent::Notification(method, params));
                    }
                }
            }
            // Everything on a stream of changes belongs to it.
            _ if self.method == Method::SubscriptionsListen => {
                self.inbox.push(LinkEvent::Notification(method, params))
            }
            _ => {
                if method == Method::LogMessage && self.ears != Ears::Deaf {
                    self.inbox.push(LinkEvent::Notification(method.clone(), params.clone()));
                    // Whoever relays a call relays its messages too; told twice they would arrive twice.
                    if self.ears == Ears::Questions {
                        return;
                    }
                }
                self.shared.handle_outside(&method, params.as_ref());
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.streaming().remove(&self.id);
        let gone = RpcError::internal("the call that this belongs to is over");
        // Also behind an answer: the server waits for one to each of its questions.
        while let Some(question) = self.mailbox.question() {
            self.inbox.push(question);
        }
        self.inbox.questions().for_each(|id| self.shared.answer(id, Err(&gone)));
        if self.finished {
            return;
        }
        // With the stream its connection is closed, which is what a modern server wants to see.
        self.shared.cancel(self.id, &self.method, &self.speech);
    }
}

impl Clock {
    /// Which limit has run out, if one has. While the server waits for an answer of ours it is not silent.
    fn poll_late(&mut self, cx: &mut TaskContext<'_>, shared: &Shared, crowded: bool) -> Option<TimeLimit> {
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
            let answered = shared.answered.load(Ordering::Relaxed);
            let waited_for_us = !shared.answering().is_empty() || answered > self.answered;
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

impl Shared {
    /// A message that belongs to no request of ours.
    pub(super) fn handle_unbidden(self: &Arc<Self>, item: &Item, speech: &Speech) {
        match item {
            Item::Message(data) => match message::decode(data) {
                Ok(Frame::Single(message)) => self.handle_unbidden_message(data, message, speech),
                Ok(Frame::Batch(parts)) => {
                    for message in parts.into_iter().flatten() {
                        self.handle_unbidden_message(data, message, speech);
                    }
                }
                Err(error) => tracing::debug!(%error, "an event that is no message"),
            },
            Item::Oversize(over) => self.handle_oversize(over),
            Item::Mark | Item::Endpoint(_) => {}
        }
    }

    fn handle_unbidden_message(self: &Arc<Self>, data: &Bytes, message: Message<'_>, speech: &Speech) {
        match message {
            Message::Notification(notification) => {
                let method = Method::from_name(&notification.method);
                self.handle_outside(&method, raw(data, notification.params).as_ref());
            }
            Message::Request(request) => {
                let method = Method::from_name(&request.method);
                if self.take_up(&request.id, &method, speech) {
                    let params = raw(data, request.params);
                    match self.asked_call() {
                        Ok(Some(call)) => call.ask(LinkEvent::Question(request.id, method, params)),
                        Ok(None) => {
                            self.desk.unasked(request.id, method, params, ReplyTo::Http(Arc::clone(self)));
                        }
                        Err(error) => self.answer(&request.id, Err(&error)),
                    }
                }
            }
            Message::Response(response) => {
                if let Some(Id::Number(id)) = response.id
                    && let Some(mailbox) = self.streaming().get(&id)
                {
                    let answer = response.outcome.map(|result| RawJson::within(data, result));
                    mailbox.put(answer.map_err(CallError::Rpc));
                }
            }
        }
    }

    /// The call on whose behalf the server asks on the session's own stream: there are servers that put all their
    /// questions there. As on a connection of one stream it is the youngest of those whose callers can pass a question on,
    /// and what is asked on behalf of one principal must not reach another.
    fn asked_call(&self) -> Result<Option<Arc<Mailbox>>, RpcError> {
        let streaming = self.streaming();
        let mut youngest: Option<(i64, &Arc<Mailbox>)> = None;
        for (id, mailbox) in streaming.iter().filter(|(_, mailbox)| mailbox.asks) {
            match youngest {
                Some((_, other)) if other.principal != mailbox.principal => {
                    return Err(RpcError::internal("it cannot be told whose call this question belongs to"));
                }
                Some((other, _)) if other > *id => {}
                _ => youngest = Some((*id, mailbox)),
            }
        }
        Ok(youngest.map(|(_, mailbox)| Arc::clone(mailbox)))
    }

    fn handle_outside(&self, method: &Method, params: Option<&RawJson>) {
        if *method == Method::Cancelled {
            if let Some((id, reason)) = inbox::cancelled(params)
                && self.answering().remove(&id)
            {
                self.desk.cancelled(&id, reason);
            }
            return;
        }
        self.desk.notification(method, params);
    }

    fn handle_oversize(self: &Arc<Self>, over: &Oversize) {
        tracing::warn!(bytes = over.seen, limit = over.limit, "a message over the limit was skipped");
        if let Subject::Request(id) = &over.subject {
            self.answering().insert(id.clone());
            self.answer(id, Err(&over.to_error()));
        }
    }

    /// Whether a question of the server is to be answered; if not, it has been dealt with.
    fn take_up(self: &Arc<Self>, id: &Id, method: &Method, speech: &Speech) -> bool {
        if speech.revision >= Revision::V2026_07_28 {
            // Servers send no requests from 2026-07-28 on, and clients no answers.
            tracing::warn!(%method, "the server sent a request, which its revision does not have");
            return false;
        }
        let mut answering = self.answering();
        if !answering.insert(id.clone()) {
            return false;
        }
        let many = answering.len() > self.limits.max_server_requests;
        drop(answering);
        if *method == Method::Ping {
            self.answer(id, Ok(&RawJson::empty_object()));
            return false;
        }
        if many {
            let max = self.limits.max_server_requests;
            let why = format!("more than {max} requests at once (setting max_server_requests)");
            self.answer(id, Err(&RpcError::internal(why)));
            return false;
        }
        true
    }
}

fn raw(data: &Bytes, params: Option<&RawValue>) -> Option<RawJson> {
    params.map(|params| RawJson::within(data, params))
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("id", &self.id).field("method", &self.method).finish_non_exhaustive()
    }
}
