//! A connection that carries messages in both directions: a child's pipes, or any pair of byte streams.
//!
//! Callers write their request into a shared buffer and wait in a table; one task moves bytes. Whatever has gathered
//! in the buffer since its last turn leaves in one write, and whatever has come is handed out in one go.

mod driver;
mod incoming;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use hospes_model::{Method, Notification, RawJson, RequestId, Revision, RpcError, message};
use hospes_proto::frame::line::end_line;
use hospes_proto::session::ClientSession;
use hospes_proto::session::client::ElapsedLimit;
use tokio::time::Instant;

use crate::client::error::{CallError, ConnectionClosed, TimeLimit};
use crate::client::link::inbox::CallInbox;
use crate::client::link::{
    self, AnswerSink, CallTable, ClientLimits, EventInterest, InboundMessages, Link, LinkCall, LinkEvent,
    LinkFuture, NegotiatedProtocol, OutgoingRequest,
};
use crate::client::target::env_secrets::EnvSecrets;

pub(crate) use driver::{DuplexTransport, spawn};

/// Maximum number of queued output bytes before callers have to wait.
pub(crate) const MAX_QUEUED_BYTES: usize = 4 * 1024 * 1024;
/// Messages from this size on are worth a warning: there are peers whose reader gives up at 10 MiB.
const LARGE_MESSAGE_BYTES: usize = 8 * 1024 * 1024;

/// A connection. Dropping it closes it, in the background.
#[derive(Debug)]
pub(crate) struct DuplexLink {
    shared: Arc<DuplexShared>,
    guard: Option<Arc<dyn ConnectionGuard>>,
}

/// Resource that ends with the connection.
pub(crate) trait ConnectionGuard: fmt::Debug + Send + Sync {
    /// Resolves when nothing of it is left.
    fn wait_terminated(&self) -> BoxFuture<'_, ()>;
}

/// State shared between callers and the driver.
#[derive(Debug)]
pub(crate) struct DuplexShared {
    state: Mutex<DuplexState>,
    driver: AtomicWaker,
    limits: ClientLimits,
    inbound: Arc<dyn InboundMessages>,
}

#[derive(Debug)]
struct DuplexState {
    session: ClientSession<PendingDuplexRequest>,
    /// Requests that have their answer, until their callers fetch it.
    done: HashMap<i64, CompletedDuplexRequest>,
    out: Vec<u8>,
    /// Callers that wait for room in `out`.
    blocked_callers: Vec<Waker>,
    revision: Option<Revision>,
    closing: bool,
    /// Reason for closing the connection, if the client did not request it.
    close_reason: Option<ConnectionClosed>,
    closed: Option<Arc<ConnectionClosed>>,
    noise: StdoutNoise,
    hidden: Arc<EnvSecrets>,
}

/// Lines on the server's stdout that are no messages.
#[derive(Debug, Default)]
struct StdoutNoise {
    count: u64,
    first: Option<String>,
}

#[derive(Debug)]
struct PendingDuplexRequest {
    method: Method,
    interest: EventInterest,
    principal: Option<Arc<str>>,
    inbox: CallInbox,
    /// The task whose result is fetched.
    task: Option<Box<str>>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct CompletedDuplexRequest {
    inbox: CallInbox,
    outcome: Result<RawJson, CallError>,
}

impl DuplexLink {
    /// Sends a request as soon as there is room; a server that does not read is not waited for longer than one that
    /// does not answer.
    async fn open_when_there_is_room(
        &self,
        outgoing: &OutgoingRequest<'_>,
        stamp: &[u8],
    ) -> Result<LinkCall, CallError> {
        let room = std::future::poll_fn(|cx| {
            self.try_open(outgoing, stamp, Some(cx.waker())).map_or(Poll::Pending, Poll::Ready)
        });
        let Some(after) = outgoing.limits.timeout.or(outgoing.limits.max_timeout) else { return room.await };
        tokio::time::timeout(after, room).await.unwrap_or_else(|_| {
            let method = outgoing.method.name().into();
            Err(CallError::Timeout { method, limit: TimeLimit::Timeout, after })
        })
    }

    /// None when there is no room; `waker` is woken when there is.
    fn try_open(
        &self,
        outgoing: &OutgoingRequest<'_>,
        stamp: &[u8],
        waker: Option<&Waker>,
    ) -> Option<Result<LinkCall, CallError>> {
        let shared = &self.shared;
        let mut state = shared.lock();
        if let Some(closed) = &state.closed {
            return Some(Err(CallError::Closed(Arc::clone(closed))));
        }
        if state.closing {
            let closed = ConnectionClosed::new("the connection was closed");
            return Some(Err(CallError::Closed(Arc::new(closed))));
        }
        // Only what waits already counts: a single request longer than the bound must still get its turn.
        if state.out.len() > MAX_QUEUED_BYTES {
            state.blocked_callers.extend(waker.cloned());
            return None;
        }
        let slot = PendingDuplexRequest {
            method: outgoing.method.clone(),
            interest: outgoing.interest,
            principal: outgoing.principal.cloned(),
            inbox: CallInbox::default(),
            task: outgoing.name.filter(|_| *outgoing.method == Method::TasksResult).map(Into::into),
            waker: None,
        };
        let now = Instant::now().into_std();
        let id = match state.session.begin(now, outgoing.limits, slot) {
            Ok(id) => id,
            Err(too_many) => {
                let (what, max) = ("calls at once", too_many.0);
                return Some(Err(CallError::TooMany { what, max, setting: "max_in_flight" }));
            }
        };
        let start = state.out.len();
        outgoing.write(&mut state.out, id, stamp);
        if let Err(error) = shared.end_message(&mut state.out, start) {
            // It was entered before it was written, and is not sent now.
            state.session.cancel(id);
            return Some(Err(error));
        }
        drop(state);
        shared.driver.wake();
        Some(Ok(LinkCall::entry(Arc::<DuplexShared>::clone(shared), id)))
    }
}

impl Link for DuplexLink {
    fn open<'a>(
        &'a self,
        outgoing: &'a OutgoingRequest<'a>,
        protocol: &'a NegotiatedProtocol,
    ) -> LinkFuture<'a, Result<LinkCall, CallError>> {
        // There usually is room, and then neither a waker nor a timer nor a box is needed.
        match self.try_open(outgoing, &protocol.stamp, None) {
            Some(opened) => link::ready(opened),
            None => link::waiting(self.open_when_there_is_room(outgoing, &protocol.stamp)),
        }
    }

    fn start_session<'a>(&'a self, protocol: &'a NegotiatedProtocol) -> LinkFuture<'a, ()> {
        self.shared.lock().revision = Some(protocol.revision);
        if protocol.revision.is_legacy() {
            self.notify(&Notification::Initialized, protocol);
        }
        link::ready(())
    }

    fn notify(&self, notification: &Notification, protocol: &NegotiatedProtocol) {
        self.shared.send_message(|out| {
            // A notification of ours can always be written; one that the revision lacks leaves nothing.
            let _ = notification.encode(protocol.revision, None, out);
        });
    }

    fn tell<'a>(
        &'a self,
        _: &'a Method,
        body: Vec<u8>,
        _: &'a NegotiatedProtocol,
    ) -> LinkFuture<'a, Result<(), CallError>> {
        link::ready(if self.shared.send_message(|out| out.extend_from_slice(&body)) {
            Ok(())
        } else {
            let what = "bytes queued to be sent";
            Err(CallError::TooMany { what, max: MAX_QUEUED_BYTES, setting: "MAX_QUEUED_BYTES" })
        })
    }

    fn close(&self) -> LinkFuture<'_, ()> {
        self.shared.close();
        match &self.guard {
            Some(guard) => link::waiting(guard.wait_terminated()),
            None => link::ready(()),
        }
    }

    fn close_with_reason(&self, closed: ConnectionClosed) {
        self.shared.lock().close_reason = Some(closed);
        self.shared.close();
    }

    fn is_busy(&self) -> bool {
        let mut state = self.shared.lock();
        state.session.all_waiting_mut().any(|(_, slot)| slot.method != Method::SubscriptionsListen)
    }

    fn noise(&self) -> (u64, Option<String>) {
        let state = self.shared.lock();
        (state.noise.count, state.noise.first.clone())
    }
}

impl Drop for DuplexLink {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl DuplexShared {
    fn new(limits: ClientLimits, hidden: Arc<EnvSecrets>, inbound: Arc<dyn InboundMessages>) -> Self {
        let state = DuplexState {
            session: ClientSession::new(limits.max_in_flight, limits.max_server_requests),
            done: HashMap::new(),
            out: Vec::new(),
            blocked_callers: Vec::new(),
            revision: None,
            closing: false,
            close_reason: None,
            closed: None,
            noise: StdoutNoise::default(),
            hidden,
        };
        Self { state: Mutex::new(state), driver: AtomicWaker::new(), limits, inbound }
    }

    fn lock(&self) -> MutexGuard<'_, DuplexState> {
        // The state is consistent after every statement, so a panic elsewhere while it was held spoils nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the message that begins at `start`, or takes it back.
    fn end_message(&self, out: &mut Vec<u8>, start: usize) -> Result<(), CallError> {
        let (bytes, max) = (out.len() - start, self.limits.max_request_bytes);
        if bytes > max {
            out.truncate(start);
            return Err(CallError::TooLarge {
                what: "the request",
                bytes,
                max,
                setting: "max_request_bytes",
            });
        }
        if bytes > LARGE_MESSAGE_BYTES {
            tracing::warn!(bytes, "request is large: some servers close the connection");
        }
        end_line(out, start);
        Ok(())
    }

    /// Sends what is no request. Never waits: what a dead peer does not read is dropped.
    fn send_message(&self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut state = self.lock();
        // Twice the bound of requests: answers cannot wait, and
        // must find room behind callers that fill the queue.
        if state.closed.is_some() || state.closing || state.out.len() > 2 * MAX_QUEUED_BYTES {
            return false;
        }
        let start = state.out.len();
        write(&mut state.out);
        let sent = self.end_message(&mut state.out, start).is_ok();
        drop(state);
        self.driver.wake();
        sent
    }

    /// Answers a request of the server, unless it no longer wants that.
    fn answer_request(&self, id: &RequestId, outcome: Result<&RawJson, &RpcError>) {
        if !self.lock().session.finish_request(id) || self.send_message(|out| write_answer(out, id, outcome))
        {
            return;
        }
        // One that is too long is not sent, and the server waits for one.
        let error =
            RpcError::internal("the answer is over the limit of the client (setting max_request_bytes)");
        self.send_message(|out| write_answer(out, id, Err(&error)));
    }

    fn close(&self) {
        self.lock().closing = true;
        self.driver.wake();
    }

    /// Gives up what was not answered in time, and tells the server.
    fn expire_requests(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        let expired = state.session.handle_timeout(now.into_std());
        let mut wakers = Vec::new();
        for late in expired {
            let (limit, after) = match late.ran {
                ElapsedLimit::Timeout => (TimeLimit::Timeout, late.after),
                ElapsedLimit::MaxTimeout => (TimeLimit::MaxTimeout, late.after),
            };
            let method = late.value.method.name().into();
            if is_cancellable(&late.value.method) {
                let start = state.out.len();
                write_cancelled(&mut state.out, late.id, "no answer in time");
                end_line(&mut state.out, start);
            }
            state.complete_request(
                late.id,
                late.value,
                Err(CallError::Timeout { method, limit, after }),
                &mut wakers,
            );
        }
        let next = state.session.poll_timeout().map(Instant::from_std);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        next
    }

    /// The end: everything that waits fails.
    fn fail_all(&self, mut closed: ConnectionClosed) {
        let mut state = self.lock();
        if let Some(why) = state.close_reason.take() {
            closed.what = why.what;
        }
        closed.noise.clone_from(&state.noise.first);
        let closed = Arc::new(closed);
        state.closed = Some(Arc::clone(&closed));
        let mut wakers = std::mem::take(&mut state.blocked_callers);
        for (id, slot) in state.session.close() {
            state.complete_request(id, slot, Err(CallError::Closed(Arc::clone(&closed))), &mut wakers);
        }
        state.out = Vec::new();
        drop(state);
        // Before anybody hears of it: whoever looks then finds that the connection is gone.
        self.inbound.handle_connection_lost(closed);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl DuplexState {
    fn complete_request(
        &mut self,
        id: i64,
        slot: PendingDuplexRequest,
        outcome: Result<RawJson, CallError>,
        wakers: &mut Vec<Waker>,
    ) {
        self.done.insert(id, CompletedDuplexRequest { inbox: slot.inbox, outcome });
        wakers.extend(slot.waker);
    }
}

impl AnswerSink for DuplexShared {
    fn answer(self: Arc<Self>, id: &RequestId, outcome: Result<&RawJson, &RpcError>) {
        self.answer_request(id, outcome);
    }
}

impl CallTable for DuplexShared {
    fn poll_event(&self, id: i64, cx: &mut TaskContext<'_>) -> Poll<LinkEvent> {
        let mut state = self.lock();
        if let Some(slot) = state.session.waiting_mut(id) {
            if let Some(event) = slot.inbox.pop() {
                return Poll::Ready(event);
            }
            if !slot.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                slot.waker = Some(cx.waker().clone());
            }
            return Poll::Pending;
        }
        // What came before the answer is delivered before it.
        if let Some(event) = state.done.get_mut(&id).and_then(|done| done.inbox.pop()) {
            return Poll::Ready(event);
        }
        let outcome = match state.done.remove(&id) {
            Some(done) => done.outcome,
            None => Err(CallError::Closed(Arc::new(ConnectionClosed::new("the request was abandoned")))),
        };
        Poll::Ready(LinkEvent::Done(outcome))
    }

    fn abandon(&self, id: i64) {
        let mut state = self.lock();
        // The questions that nobody will answer now; those that came before an answer that nobody took are among them.
        let mut unanswered: Vec<RequestId> = Vec::new();
        if let Some(done) = state.done.remove(&id) {
            unanswered.extend(done.inbox.questions().cloned());
        }
        let slot = state.session.cancel(id);
        unanswered.extend(slot.iter().flat_map(|slot| slot.inbox.questions()).cloned());
        // `send` and `answer` take the lock themselves.
        drop(state);
        if slot.is_some_and(|slot| is_cancellable(&slot.method)) {
            self.send_message(|out| write_cancelled(out, id, "no longer wanted"));
        }
        let gone = RpcError::internal("the call that this request belongs to was cancelled");
        unanswered.iter().for_each(|id| self.answer_request(id, Err(&gone)));
    }
}

/// The specification wants `initialize` never cancelled.
fn is_cancellable(method: &Method) -> bool {
    *method != Method::Initialize
}

pub(crate) fn write_cancelled(out: &mut Vec<u8>, id: i64, reason: &str) {
    use std::io::Write as _;
    tracing::debug!(id, reason, "sending notifications/cancelled");
    // Writing into memory cannot fail.
    let _ = write!(
        out,
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id},\"reason\":\"{reason}\"}}}}"
    );
}

pub(crate) fn write_answer(out: &mut Vec<u8>, id: &RequestId, outcome: Result<&RawJson, &RpcError>) {
    match outcome {
        Ok(result) => {
            let written = message::write_result(out, id, |out| {
                out.extend_from_slice(result.as_bytes());
                Ok::<(), std::convert::Infallible>(())
            });
            match written {
                Ok(()) => {}
            }
        }
        Err(error) => message::write_error(out, Some(id), error),
    }
}
