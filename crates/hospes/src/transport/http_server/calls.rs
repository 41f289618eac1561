//! The calls of one POST: answered in one piece where that can be, else as a stream of events; and, in the older
//! revisions, going on by themselves when their client is lost.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use hospes_model::{Era, RequestId, Revision};
use hospes_proto::frame::sse::{self, SseEventHead};
use http::{Response, StatusCode};
use tokio::time::Sleep;

use super::body::{Body, EventSource};
use super::endpoint_inner::CallPermit;
use super::event_log::{EventLog, EventLogReader};
use super::response::{events, json, status};
use super::session_handover::ActivityGuard;
use super::sessions::SessionGuard;
use super::shared_log::SharedLog;
use super::shared_sessions::{NewStream, StreamRequest};
use crate::transport::adapter::{CallStopReason, CallTable, RunningCall, RunningCallOutput};

/// Maximum size of one chunk of the stream, in bytes.
const MAX_CHUNK_BYTES: usize = 64 * 1024;
/// Room for a small answer.
const SMALL_ANSWER_BYTES: usize = 512;

/// The calls of one POST.
#[derive(Debug)]
pub(super) struct PostCalls {
    permit: Option<CallPermit>,
    running: Vec<RunningCall>,
    /// The session, in the older revisions.
    legacy: Option<LegacyPost>,
    /// The answers of a batch that are there.
    batch: Option<Vec<Vec<u8>>>,
    /// True once others may stop the calls; they may not during the first poll.
    entered: bool,
    text: Vec<u8>,
}

#[derive(Debug)]
struct LegacyPost {
    session: SessionGuard,
    activity: ActivityGuard,
    /// Log of the events, once the answer is a stream.
    log: Option<Arc<EventLog>>,
    /// Reads the log for this response, if processes share the session: an event is sent once the directory has it.
    reader: Option<Box<EventLogReader>>,
}

impl LegacyPost {
    fn new(session: SessionGuard) -> Self {
        let activity = ActivityGuard::add(session.get());
        Self { session, activity, log: None, reader: None }
    }
}

impl PostCalls {
    pub(super) fn one(permit: CallPermit, call: RunningCall, session: Option<SessionGuard>) -> Self {
        let legacy = session.map(LegacyPost::new);
        Self {
            permit: Some(permit),
            running: vec![call],
            legacy,
            batch: None,
            entered: false,
            text: Vec::new(),
        }
    }

    pub(super) fn batch(
        permit: CallPermit,
        calls: Vec<RunningCall>,
        answers: Vec<Vec<u8>>,
        session: SessionGuard,
    ) -> Self {
        Self {
            permit: Some(permit),
            running: calls,
            legacy: Some(LegacyPost::new(session)),
            batch: Some(answers),
            entered: false,
            text: Vec::new(),
        }
    }

    fn era(&self) -> Era {
        if self.legacy.is_some() { Era::Legacy } else { Era::Modern }
    }

    /// Polls the calls in place. If they finish before any other output, the answer is plain JSON.
    pub(super) async fn respond(mut self) -> Response<Body> {
        let mut text = Vec::with_capacity(SMALL_ANSWER_BYTES);
        let mut silence: Option<Pin<Box<Sleep>>> = None;
        let first = std::future::poll_fn(|cx| self.poll_first(cx, &mut text, &mut silence)).await;
        match first {
            FirstOutput::Answer(code) => json(status(code, self.era()), self.lend(text)),
            FirstOutput::Batch => json(StatusCode::OK, self.array()),
            // CANC-06: no answer follows a cancellation, and an HTTP response must: a stream without events.
            FirstOutput::Silence => events(Body::ended(Vec::new())),
            FirstOutput::Stream => self.stream(&text),
        }
    }

    /// An answer on its way out.
    fn lend(&self, text: Vec<u8>) -> Bytes {
        match &self.permit {
            Some(permit) => permit.endpoint().adapter.buffers().share(text),
            None => text.into(),
        }
    }

    fn poll_first(
        &mut self,
        cx: &mut TaskContext<'_>,
        text: &mut Vec<u8>,
        silence: &mut Option<Pin<Box<Sleep>>>,
    ) -> Poll<FirstOutput> {
        self.close_streams();
        let mut at = 0;
        while let Some(call) = self.running.get_mut(at) {
            match call.poll_output(cx, text) {
                Poll::Ready(RunningCallOutput::Message) => return Poll::Ready(FirstOutput::Stream),
                Poll::Ready(RunningCallOutput::Answer(code)) => {
                    self.running.remove(at);
                    match &mut self.batch {
                        None => return Poll::Ready(FirstOutput::Answer(code)),
                        Some(answers) => answers.push(std::mem::take(text)),
                    }
                }
                Poll::Ready(RunningCallOutput::Silence) => {
                    self.running.remove(at);
                }
                Poll::Pending => at += 1,
            }
        }
        if self.running.is_empty() {
            let some = self.batch.as_ref().is_some_and(|answers| !answers.is_empty());
            return Poll::Ready(if some { FirstOutput::Batch } else { FirstOutput::Silence });
        }
        // Only now: most calls end with their first poll, and need no entry that others could stop them by.
        if !self.entered {
            self.enter();
            // Whoever ends a call from now on must wake this task, which has not looked for that yet.
            if self.running.iter().any(|call| call.is_stopping(cx)) {
                cx.waker().wake_by_ref();
            }
        }
        if self.wants_closed() {
            return Poll::Ready(FirstOutput::Stream);
        }
        let Some(permit) = &self.permit else { return Poll::Ready(FirstOutput::Silence) };
        let after = permit.endpoint().limits.stream_after;
        let listens = self.running.iter().any(RunningCall::is_listen);
        if listens {
            // HTTP-40: somebody waits for this stream to be open.
            return Poll::Ready(FirstOutput::Stream);
        }
        let silence = silence.get_or_insert_with(|| Box::pin(tokio::time::sleep(after)));
        silence.as_mut().poll(cx).map(|()| FirstOutput::Stream)
    }

    /// The answers of a batch as one array.
    fn array(&mut self) -> Vec<u8> {
        let answers = self.batch.take().unwrap_or_default();
        let mut text = Vec::with_capacity(answers.iter().map(|answer| answer.len() + 1).sum::<usize>() + 1);
        for (at, answer) in answers.iter().enumerate() {
            text.push(if at == 0 { b'[' } else { b',' });
            text.extend_from_slice(answer);
        }
        text.push(b']');
        text
    }

    /// Becomes a stream that begins with `message`, if that is not empty.
    fn stream(mut self, message: &[u8]) -> Response<Body> {
        self.enter();
        let mut out = Vec::new();
        let answers = self.batch.take().unwrap_or_default();
        let messages = answers.iter().map(Vec::as_slice).chain([message]).filter(|text| !text.is_empty());
        let (mut keep_alive, mut retry) = Default::default();
        if let Some(permit) = &self.permit {
            (keep_alive, retry) = (permit.endpoint().limits.keep_alive, permit.endpoint().limits.retry);
        }
        match &mut self.legacy {
            Some(legacy) => {
                let session = legacy.session.get();
                let log = session.begin_stream(|| NewStream::Requests(stream_requests(&self.running)));
                let primed = session.session().peer().revision == Revision::V2025_11_25;
                if log.shared_log().is_some() {
                    legacy.reader = Some(Box::new(log.first_reader(primed.then_some(retry))));
                    messages.for_each(|text| log.store(text, None));
                    // Also without a message: the client is told where the stream begins.
                    SharedLog::start(&log);
                } else {
                    if primed {
                        log.prime(retry, &mut out);
                    }
                    messages.for_each(|text| log.append(text, &mut out));
                }
                legacy.log = Some(log);
            }
            None => messages.for_each(|text| sse::write_event(&mut out, SseEventHead::default(), text)),
        }
        events(Body::events(out, self, keep_alive))
    }

    /// Enters the calls of a session among those that may be cancelled.
    fn enter(&mut self) {
        if std::mem::replace(&mut self.entered, true) {
            return;
        }
        if let Some(legacy) = &self.legacy {
            let table = CallTable::Session(Arc::clone(legacy.session.get().session()));
            for call in &mut self.running {
                if let Err(error) = call.register(table.clone()) {
                    call.fail(error);
                }
            }
        }
    }

    fn close_streams(&mut self) {
        let Some(permit) = &self.permit else { return };
        if permit.endpoint().is_closing() {
            let closed = permit.endpoint().is_closed();
            for call in self.running.iter_mut().filter(|call| closed || call.is_listen()) {
                call.end(CallStopReason::ShuttingDown);
            }
        }
    }

    /// Returns true if a handler wants the stream closed, or its client has resumed on another one.
    fn wants_closed(&self) -> bool {
        self.running.iter().any(|call| call.context().wants_stream_closed())
            || self.log().is_some_and(|log| log.was_resumed())
    }

    fn log(&self) -> Option<&Arc<EventLog>> {
        self.legacy.as_ref()?.log.as_ref()
    }

    /// Detaches the calls of a session, which continue without their client; their output is kept for it (HTTP-25).
    fn detach(&mut self) {
        // Without their stream they can still be cancelled, by a notification (HTTP-26).
        self.enter();
        let running = std::mem::take(&mut self.running);
        let (Some(legacy), Some(permit)) = (self.legacy.take(), self.permit.take()) else { return };
        if running.is_empty() || legacy.session.get().has_ended() {
            return;
        }
        // None while the runtime shuts down, and then nothing can go on.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        for call in &running {
            call.context().mark_stream_closed();
        }
        let begin = || legacy.session.get().begin_stream(|| NewStream::Requests(stream_requests(&running)));
        let log = legacy.log.clone().unwrap_or_else(begin);
        runtime.spawn(finish_detached(running, log, (legacy.session, legacy.activity), permit));
    }

    /// Appends what one call has to say; true when it has ended.
    fn poll_call(&mut self, at: usize, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> bool {
        let begin = out.len();
        while out.len() - begin < MAX_CHUNK_BYTES {
            let call = &mut self.running[at];
            let log = self.legacy.as_ref().and_then(|legacy| legacy.log.as_ref());
            let said = match log {
                Some(log) if log.is_congested(cx) => Poll::Pending,
                Some(log) if log.shared_log().is_some() => {
                    self.text.clear();
                    let said = call.poll_output(cx, &mut self.text);
                    store_output(log, call.id(), said, &self.text);
                    said
                }
                Some(log) => {
                    self.text.clear();
                    let said = call.poll_output(cx, &mut self.text);
                    if let Poll::Ready(RunningCallOutput::Message | RunningCallOutput::Answer(_)) = said {
                        log.append(&self.text, out);
                    }
                    said
                }
                None => {
                    // A modern stream cannot be resumed (HRES-09):
                    // nothing is kept, and the event is written in place.
                    let before = out.len();
                    let start = sse::begin_event(out, SseEventHead::default());
                    let said = call.poll_output(cx, out);
                    match said {
                        Poll::Ready(RunningCallOutput::Message | RunningCallOutput::Answer(_)) => {
                            sse::end_event(out, start)
                        }
                        Poll::Ready(RunningCallOutput::Silence) | Poll::Pending => out.truncate(before),
                    }
                    said
                }
            };
            match said {
                Poll::Ready(RunningCallOutput::Message) => {}
                Poll::Ready(RunningCallOutput::Answer(_) | RunningCallOutput::Silence) => return true,
                Poll::Pending => return false,
            }
        }
        // There is more, once this has gone out.
        cx.waker().wake_by_ref();
        false
    }
}

/// First output of the calls.
enum FirstOutput {
    Answer(Option<i64>),
    Batch,
    Silence,
    Stream,
}

impl EventSource for PostCalls {
    fn is_lasting(&self) -> bool {
        self.running.iter().any(RunningCall::is_listen)
    }

    fn end(&mut self) {
        for call in self.running.iter_mut().filter(|call| call.is_listen()) {
            call.end(CallStopReason::ShuttingDown);
        }
    }

    fn poll_events(&mut self, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) -> Poll<()> {
        self.close_streams();
        if self.wants_closed() {
            self.detach();
            return Poll::Ready(());
        }
        let mut at = 0;
        while at < self.running.len() {
            if self.poll_call(at, cx, out) {
                self.running.remove(at);
            } else {
                at += 1;
            }
        }
        if self.running.is_empty()
            && let Some(log) = self.log()
        {
            log.end();
        }
        if let Some(LegacyPost { log: Some(log), reader: Some(reader), .. }) = &mut self.legacy {
            if log.poll(reader, cx, out).is_ready() {
                self.detach();
                return Poll::Ready(());
            }
            if self.running.is_empty() {
                // The rest is on its way to the directory.
                return Poll::Pending;
            }
        }
        if self.running.is_empty() {
            return Poll::Ready(());
        }
        // Once more, because a handler may have asked for it during this poll.
        if self.wants_closed() {
            self.detach();
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for PostCalls {
    fn drop(&mut self) {
        if self.legacy.is_some() && !self.running.is_empty() {
            self.detach();
        }
    }
}

/// The requests of calls, as a stream that will answer them names them.
fn stream_requests(running: &[RunningCall]) -> Vec<StreamRequest> {
    let request = |call: &RunningCall| StreamRequest {
        id: id_json(call.id()),
        method: call.method().name().to_owned(),
    };
    running.iter().map(request).collect()
}

/// The JSON text of an id.
fn id_json(id: &RequestId) -> String {
    // A number or a string cannot fail.
    serde_json::to_string(id).unwrap_or_default()
}

/// Keeps what a call has said until the directory has it.
fn store_output(log: &Arc<EventLog>, id: &RequestId, said: Poll<RunningCallOutput>, text: &[u8]) {
    match said {
        Poll::Ready(RunningCallOutput::Message) => log.store(text, None),
        Poll::Ready(RunningCallOutput::Answer(_)) => log.store(text, Some(id_json(id))),
        Poll::Ready(RunningCallOutput::Silence) | Poll::Pending => {}
    }
}

async fn finish_detached(
    mut running: Vec<RunningCall>,
    log: Arc<EventLog>,
    session: (SessionGuard, ActivityGuard),
    permit: CallPermit,
) {
    let mut text = Vec::new();
    std::future::poll_fn(|cx| {
        running.retain_mut(|call| {
            loop {
                text.clear();
                if log.is_congested(cx) {
                    return true;
                }
                if log.shared_log().is_some() {
                    let said = call.poll_output(cx, &mut text);
                    store_output(&log, call.id(), said, &text);
                    match said {
                        Poll::Ready(RunningCallOutput::Message) => continue,
                        Poll::Ready(_) => return false,
                        Poll::Pending => return true,
                    }
                }
                match call.poll_output(cx, &mut text) {
                    Poll::Ready(RunningCallOutput::Message) => {
                        log.keep(&text);
                    }
                    Poll::Ready(RunningCallOutput::Answer(_)) => {
                        log.keep(&text);
                        return false;
                    }
                    Poll::Ready(RunningCallOutput::Silence) => return false,
                    Poll::Pending => return true,
                }
            }
        });
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    log.end();
    // Held until here: the session must not expire under its calls, and these still count.
    drop((session, permit));
}
