//! JSON-RPC state of one duplex connection: turns lines into calls, answers and sessions. It does no I/O.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll};
use std::time::Instant;

use bytes::Bytes;
use hospes_model::{JsonRpcMessage, Method, RawJson, RequestId, Revision, RpcError, code, message};
use hospes_proto::frame::line::end_line;
use hospes_proto::frame::{FramedLine, OversizeSubject};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

use super::background::{BackgroundCall, CallCounters, finish_answer, listen, run_in_background};
use super::limits::ConnectionLimits;
use super::outbox::{MAX_UNWRITTEN_BYTES, Outbox};
use super::queue::RequestQueue;
use crate::params::Params;
use crate::peer::RequestSender;
use crate::transport::adapter::{
    AdmittedRequest, BatchAnswers, CallStopReason, CallStopSwitch, CallTable, Heard, InitializedSession,
    LegacySession, ModernCalls, ModernRequest, PeerCache, RunningCall, RunningCallOutput, ServiceAdapter,
    cancelled_request, read_meta, write_refusal,
};

/// Maximum number of streams of changes that one client may hold open: the limit `max_streams`.
const MAX_STREAMS: usize = 64;

/// JSON-RPC state of one duplex connection.
#[derive(Debug)]
pub(in crate::transport) struct DuplexConnection {
    adapter: Arc<ServiceAdapter>,
    limits: ConnectionLimits,
    /// Identity of the client, if known.
    sender: RequestSender,
    outbox: Arc<Outbox>,
    counters: Arc<CallCounters>,
    /// The legacy session, once `initialize` has opened it.
    session: Option<Arc<LegacySession>>,
    opening: Option<SessionOpening>,
    /// The task of the session's stream of changes.
    listen: Option<JoinHandle<()>>,
    /// The calls of 2026-07-28; those of a session are entered there.
    modern: Arc<ModernCalls>,
    streams: Vec<Arc<CallStopSwitch>>,
    peers: PeerCache,
    queue: RequestQueue,
    closed: bool,
    /// True if tasks run side by side here.
    spreads: bool,
}

/// Output of the connection while it handles a message.
struct TurnOutput<'a, 'cx> {
    cx: &'a mut TaskContext<'cx>,
    out: &'a mut Vec<u8>,
    /// The batch that the message is part of; it collects the answers.
    batch: Option<&'a Arc<BatchAnswers>>,
}

impl TurnOutput<'_, '_> {
    /// Ends the answer that was written from `start` on.
    fn finish_answer(&mut self, start: usize) {
        finish_answer(self.out, start, self.batch, None);
    }
}

struct SessionOpening(Pin<Box<dyn Future<Output = Result<InitializedSession, Vec<u8>>> + Send>>);

impl std::fmt::Debug for SessionOpening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionOpening")
    }
}

impl DuplexConnection {
    pub(in crate::transport) fn new(
        adapter: Arc<ServiceAdapter>,
        limits: ConnectionLimits,
        sender: RequestSender,
    ) -> Self {
        Self {
            adapter,
            limits,
            sender,
            outbox: Arc::default(),
            counters: Arc::default(),
            session: None,
            opening: None,
            listen: None,
            modern: Arc::default(),
            streams: Vec::new(),
            peers: PeerCache::default(),
            queue: RequestQueue::default(),
            closed: false,
            spreads: Handle::try_current()
                .is_ok_and(|runtime| !matches!(runtime.runtime_flavor(), RuntimeFlavor::CurrentThread)),
        }
    }

    /// Counts running work in shared counters.
    #[cfg(feature = "stdio")]
    pub(super) fn share_counters(&mut self, counters: Arc<CallCounters>) {
        self.counters = counters;
    }

    pub(in crate::transport) fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// Returns true while `initialize` is being answered; later messages have to wait.
    pub(in crate::transport) fn is_opening(&self) -> bool {
        self.opening.is_some()
    }

    /// Returns true if no work is running.
    pub(in crate::transport) fn is_idle(&self) -> bool {
        self.opening.is_none()
            && self.queue.is_empty()
            && self.counters.calls.load(Ordering::Acquire) == 0
            && self.counters.streams.load(Ordering::Acquire) == 0
    }

    /// Returns the number of calls that run in tasks of their own.
    #[cfg(feature = "http")]
    pub(in crate::transport) fn calls(&self) -> usize {
        self.counters.calls.load(Ordering::Acquire)
    }

    /// Nothing more will be read: streams end, and questions that wait cannot be answered any more.
    pub(in crate::transport) fn close(&mut self) {
        self.closed = true;
        if let Some(session) = &self.session {
            session.fail_questions("the client closed the connection before it answered");
        }
        for stream in self.streams.drain(..) {
            stream.stop(CallStopReason::ShuttingDown);
        }
        if let Some(listen) = self.listen.take() {
            listen.abort();
        }
    }

    /// Stops the running work; each request gets an error.
    pub(in crate::transport) fn stop(&mut self, out: &mut Vec<u8>) {
        for id in std::mem::take(&mut self.queue).into_ids() {
            self.refuse(out, Some(&id), RpcError::internal("the server is shutting down"));
        }
        self.stop_all(CallStopReason::ShuttingDown);
    }

    fn stop_all(&self, why: CallStopReason) {
        self.modern.stop_all(why);
        if let Some(session) = &self.session {
            session.stop(why);
        }
    }

    pub(in crate::transport) fn handle_line(
        &mut self,
        line: FramedLine,
        cx: &mut TaskContext<'_>,
        out: &mut Vec<u8>,
    ) {
        match line {
            FramedLine::Message(whole) => match message::decode(&whole) {
                Ok(message::Frame::Single(message)) => {
                    self.handle(&whole, message, &mut TurnOutput { cx, out, batch: None });
                }
                Ok(message::Frame::Batch(parts)) => self.handle_batch(&whole, parts, cx, out),
                Err(fault) if fault.is_for_response() => self.fail_question(fault),
                Err(fault) => self.refuse(out, fault.id.as_ref(), fault.error),
            },
            FramedLine::Oversize(over) => match &over.subject {
                OversizeSubject::Request(id) => self.refuse(out, Some(id), over.to_error()),
                OversizeSubject::Response(id) => {
                    if let Some(session) = &self.session {
                        session.handle_lost_response(id, over.to_error());
                    }
                }
                OversizeSubject::Unknown => self.refuse(out, None, over.to_error()),
            },
        }
    }

    fn handle(&mut self, whole: &Bytes, message: JsonRpcMessage<'_>, output: &mut TurnOutput<'_, '_>) {
        match message {
            JsonRpcMessage::Request(request) => self.request(whole, request, output),
            JsonRpcMessage::Notification(notification) => self.notification(whole, &notification),
            JsonRpcMessage::Response(response) => {
                if let Some(session) = &self.session {
                    session.handle_response(whole, response);
                }
            }
        }
    }

    /// BATCH-01, BATCH-05: 2025-03-26 has batches; BATCH-09: no other revision.
    fn handle_batch(
        &mut self,
        whole: &Bytes,
        parts: Vec<Result<JsonRpcMessage<'_>, message::DecodeError>>,
        cx: &mut TaskContext<'_>,
        out: &mut Vec<u8>,
    ) {
        if self.session.as_ref().is_none_or(|session| !session.has_batches()) {
            let why = "only revision 2025-03-26 supports batches: send one message per line";
            return self.refuse(out, None, RpcError::invalid_request(why));
        }
        let is_owed = |part: &_| match part {
            Ok(message) => matches!(message, JsonRpcMessage::Request(_)),
            Err(fault) => !message::DecodeError::is_for_response(fault),
        };
        let owed = parts.iter().filter(|part| is_owed(part)).count();
        let batch = Arc::new(BatchAnswers::new(owed));
        for part in parts {
            match part {
                Ok(message) => {
                    self.handle(whole, message, &mut TurnOutput { cx, out, batch: Some(&batch) });
                }
                Err(fault) if fault.is_for_response() => self.fail_question(fault),
                Err(fault) => {
                    let mut text = Vec::new();
                    message::write_error(&mut text, fault.id.as_ref(), &fault.error);
                    finish_answer(out, 0, Some(&batch), Some(text));
                }
            }
        }
    }

    /// The question fails whose answer cannot be read.
    fn fail_question(&self, fault: message::DecodeError) {
        tracing::warn!(error = %fault, "invalid response from the client");
        if let (Some(session), Some(id)) = (&self.session, &fault.answers) {
            session.handle_lost_response(id, fault.error);
        }
    }

    fn notification(&mut self, whole: &Bytes, notification: &message::JsonRpcNotification<'_>) {
        if notification.method == Method::Cancelled.name()
            && let Some(id) = cancelled_request(notification)
            && !self.modern.cancel(&id)
        {
            self.queue.remove(&id);
        }
        let params = || notification.params.map(|raw| RawJson::slice_of(whole, raw));
        let Some(session) = self.session.clone() else {
            let method = Method::from_name(&notification.method);
            if matches!(method, Method::Other(_)) {
                let params = Params::new(params().unwrap_or_else(RawJson::empty_object));
                self.adapter.notified_statelessly(method, &params, self.sender.clone(), &self.peers);
            }
            return;
        };
        match session.handle_notification(notification) {
            Heard::Ready if !self.closed => {
                self.listen = Some(tokio::spawn(listen(session, &self.adapter, Arc::clone(&self.outbox))));
            }
            Heard::Extension => {
                let method = Method::from_name(&notification.method);
                self.adapter.notified(Arc::clone(session.peer()), method, params());
            }
            Heard::Ready | Heard::Nothing => {}
        }
    }

    fn request(
        &mut self,
        whole: &Bytes,
        request: message::JsonRpcRequest<'_>,
        output: &mut TurnOutput<'_, '_>,
    ) {
        if self.is_full() && !is_immediate(&request.method) {
            // The queue keeps whole lines, so that a part of a batch cannot wait in it.
            let queued =
                if output.batch.is_some() { Err(self.busy()) } else { self.enqueue(&request.id, whole) };
            if let Err(error) = queued {
                self.answer_error(output, &request.id, error);
            }
            return;
        }
        self.start(whole, request, output);
    }

    /// Starts a request, be it read just now or taken from the queue.
    fn start(
        &mut self,
        whole: &Bytes,
        request: message::JsonRpcRequest<'_>,
        output: &mut TurnOutput<'_, '_>,
    ) {
        let start = output.out.len();
        if let Some(session) = &self.session
            && !is_modern_only(&request)
        {
            if output.batch.is_some() && request.method == Method::Initialize.name() {
                // BATCH-03.
                let error = RpcError::invalid_request("initialize cannot be part of a batch");
                return self.answer_error(output, &request.id, error);
            }
            match self.adapter.admit(session, whole, request, None, output.out) {
                AdmittedRequest::Answered => output.finish_answer(start),
                AdmittedRequest::Call(running) => self.run(running, output),
            }
            return;
        }
        let method = Method::from_name(&request.method);
        let id = request.id;
        let params = match request.params {
            Some(raw) => RawJson::slice_of(whole, raw),
            None => RawJson::empty_object(),
        };
        let params = Params::new(params);
        let meta = match read_meta(params.view()) {
            Ok(meta) => meta,
            Err(error) => return self.answer_error(output, &id, error),
        };
        if meta.protocol_version.is_none() {
            // VER-15: who opens with `initialize` is of the older era.
            match method {
                Method::Initialize => return self.open(id, &params, output.cx, output.out),
                Method::Ping => {
                    // PING-01: even before the session is open.
                    let Ok(()) = message::write_result(output.out, &id, |out| {
                        out.extend_from_slice(b"{}");
                        Ok::<(), std::convert::Infallible>(())
                    });
                    return output.finish_answer(start);
                }
                _ => {}
            }
        }
        let sender = self.sender.clone();
        let request = ModernRequest { id: id.clone(), method, params: params.clone(), sender, http: None };
        let begun = self.modern.check(&id).and_then(|()| self.adapter.begin(request, &meta, &self.peers));
        match begun {
            Ok(running) => self.run(running, output),
            Err(error) => self.answer_error(output, &id, error),
        }
    }

    fn open(&mut self, id: RequestId, params: &Params, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) {
        // Kept as long as the session: it must not hold the read buffer.
        let params = params.raw().detached();
        self.opening =
            Some(SessionOpening(Box::pin(Arc::clone(&self.adapter).open(id, params, self.sender.clone()))));
        // At once: most services answer without waiting, and the next line need not wait either.
        self.poll_opening(cx, out);
    }

    pub(in crate::transport) fn poll_opening(&mut self, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) {
        let Some(SessionOpening(opening)) = &mut self.opening else { return };
        let Poll::Ready(opened) = opening.as_mut().poll(cx) else { return };
        self.opening = None;
        let answer = match opened {
            Ok(InitializedSession { session, answer }) => {
                self.session = Some(session);
                answer
            }
            Err(answer) => answer,
        };
        let start = out.len();
        out.extend_from_slice(&answer);
        end_line(out, start);
    }

    /// Polls a call in place; if it does not finish at once it moves to a task of its own. A call that is not known to
    /// return quickly starts in its own task, so that the connection is served whatever the handler does.
    fn run(&mut self, mut running: RunningCall, output: &mut TurnOutput<'_, '_>) {
        // On a single thread a task of its own would not keep the connection served either.
        let kind = if self.spreads { running.kind() } else { None };
        let unknown = kind.filter(|kind| !self.adapter.call_timings().is_quick(*kind));
        if unknown.is_none() {
            let start = kind.map(|_| Instant::now());
            let done = Self::run_in_place(&mut running, output);
            if let (Some(kind), Some(start)) = (kind, start) {
                running.record_timing(kind, start);
            }
            if done {
                return;
            }
        }
        if let Err(error) = self.spawn(&mut running, output.batch) {
            return self.answer_error(output, running.id(), error);
        }
        let slot = BackgroundCall::of(&running, &self.counters, &self.outbox, output.batch);
        tokio::spawn(run_in_background(running, slot, unknown));
    }

    /// Polls a call for as long as it has something to say; whether it is done.
    fn run_in_place(running: &mut RunningCall, output: &mut TurnOutput<'_, '_>) -> bool {
        let begin = output.out.len();
        // A call that talks without end must not keep the others waiting.
        while output.out.len() - begin < MAX_UNWRITTEN_BYTES {
            let start = output.out.len();
            match running.poll_output(output.cx, output.out) {
                Poll::Ready(RunningCallOutput::Message) => end_line(output.out, start),
                Poll::Ready(RunningCallOutput::Answer(_)) => {
                    output.finish_answer(start);
                    return true;
                }
                Poll::Ready(RunningCallOutput::Silence) => {
                    finish_answer(output.out, start, output.batch, Some(Vec::new()));
                    return true;
                }
                Poll::Pending => return false,
            }
        }
        false
    }

    /// Moves the call to a task of its own.
    fn spawn(
        &mut self,
        running: &mut RunningCall,
        batch: Option<&Arc<BatchAnswers>>,
    ) -> Result<(), RpcError> {
        let table = match &self.session {
            Some(session) if running.revision().is_legacy() => CallTable::Session(Arc::clone(session)),
            _ => CallTable::Connection(Arc::clone(&self.modern)),
        };
        let stop = running.register(table)?;
        if running.is_listen() {
            debug_assert!(batch.is_none(), "modern sessions have no batches");
            // A switch that nobody else holds belongs to a stream that has ended.
            self.streams.retain(|stream| Arc::strong_count(stream) > 1);
            if self.streams.len() >= MAX_STREAMS {
                let why = format!("more than {MAX_STREAMS} subscription streams (limit max_streams)");
                return Err(RpcError::internal(why));
            }
            self.streams.push(stop);
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        !self.queue.is_empty() || self.counters.calls.load(Ordering::Acquire) >= self.limits.concurrent_calls
    }

    fn enqueue(&mut self, id: &RequestId, whole: &Bytes) -> Result<(), RpcError> {
        if !self.queue.has_room(whole, self.limits.queued_bytes) {
            return Err(self.busy());
        }
        match &self.session {
            Some(session) => session.check(id)?,
            None => self.modern.check(id)?,
        }
        if self.queue.contains(id) {
            return Err(RpcError::invalid_request(format!(
                "the request id {id} is still in use by an earlier request"
            )));
        }
        self.queue.push(id, whole);
        Ok(())
    }

    fn busy(&self) -> RpcError {
        let ConnectionLimits { concurrent_calls, queued_bytes, .. } = self.limits;
        RpcError::new(
            code::INTERNAL_ERROR,
            format!(
                "the server is busy: {concurrent_calls} calls are running (setting max_concurrent_calls) and \
                 {queued_bytes} bytes of requests are waiting (setting max_queued_bytes)"
            ),
        )
    }

    /// Starts requests that waited, as far as calls have ended.
    pub(in crate::transport) fn start_queued(&mut self, cx: &mut TaskContext<'_>, out: &mut Vec<u8>) {
        while self.counters.calls.load(Ordering::Acquire) < self.limits.concurrent_calls
            && out.len() < MAX_UNWRITTEN_BYTES
        {
            let Some(whole) = self.queue.pop() else { return };
            if let Ok(message::Frame::Single(JsonRpcMessage::Request(request))) = message::decode(&whole) {
                self.start(&whole, request, &mut TurnOutput { cx, out, batch: None });
            }
        }
        if !self.queue.is_empty() && out.len() >= MAX_UNWRITTEN_BYTES {
            // Once the output has been written, nothing else would wake this task for what waits.
            cx.waker().wake_by_ref();
        }
    }

    fn answer_error(&self, output: &mut TurnOutput<'_, '_>, id: &RequestId, error: RpcError) {
        let mut text = Vec::new();
        // Method and revision choose the words; for these errors there is only one way to say them.
        write_refusal(&mut text, Some(id), &Method::Ping, self.revision(), error);
        finish_answer(output.out, 0, output.batch, Some(text));
    }

    fn refuse(&self, out: &mut Vec<u8>, id: Option<&RequestId>, error: RpcError) {
        let start = out.len();
        write_refusal(out, id, &Method::Ping, self.revision(), error);
        end_line(out, start);
    }

    fn revision(&self) -> Revision {
        self.session.as_ref().map_or(Revision::LATEST, |session| session.peer().revision)
    }
}

impl Drop for DuplexConnection {
    fn drop(&mut self) {
        self.stop_all(CallStopReason::Cancelled);
        // This also wakes the calls that wait for room, so that they find their stop.
        self.outbox.close();
        if let Some(listen) = &self.listen {
            listen.abort();
        }
    }
}

/// Returns true for requests that are answered immediately, regardless of running work.
fn is_immediate(method: &str) -> bool {
    matches!(
        Method::from_name(method),
        Method::Ping
            | Method::Initialize
            | Method::SetLevel
            | Method::ResourcesSubscribe
            | Method::ResourcesUnsubscribe
    )
}

/// A client that holds a session may still look whether there is a newer era here.
fn is_modern_only(request: &message::JsonRpcRequest<'_>) -> bool {
    // A look at the text is enough: what is taken for modern here is read properly afterwards.
    matches!(Method::from_name(&request.method), Method::Discover | Method::SubscriptionsListen)
        && request.params.is_some_and(|params| {
            memchr::memmem::find(params.get().as_bytes(), hospes_model::meta_key::PROTOCOL_VERSION.as_bytes())
                .is_some()
        })
}
