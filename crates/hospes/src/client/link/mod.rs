//! Interface between the calls of a client and the transports that carry them.
//!
//! A transport implements [`Link`], and hands what the server sends unasked to an [`InboundMessages`]. Neither side knows
//! the other's types.

pub(crate) mod inbox;
mod request;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, Either, Ready};
use hospes_model::{ListToolsResult, Method, Notification, RawJson, RequestId, RpcError};
use tokio::sync::watch;

use super::error::{CallError, ConnectionClosed};

pub(crate) use request::{
    EventInterest, NegotiatedProtocol, OutgoingParams, OutgoingRequest, json_members, write_json_string,
    written_notification,
};

/// Maximum number of pages of one list. It ends the listing of a server that always returns another cursor.
pub const MAX_PAGES: usize = 10_000;

/// Limits on what is in memory at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLimits {
    pub(crate) max_in_flight: usize,
    pub(crate) max_server_requests: usize,
    pub(crate) max_request_bytes: usize,
    pub(crate) max_message_bytes: usize,
}

/// A future that is ready as a rule, and boxed only where it has to wait.
pub(crate) type LinkFuture<'a, T> = Either<Ready<T>, BoxFuture<'a, T>>;

/// Returns a future that is ready.
pub(crate) fn ready<'a, T>(value: T) -> LinkFuture<'a, T> {
    Either::Left(futures::future::ready(value))
}

/// Returns a future that has to wait.
pub(crate) fn waiting<'a, T>(future: impl Future<Output = T> + Send + 'a) -> LinkFuture<'a, T> {
    Either::Right(Box::pin(future))
}

/// A connection that carries messages.
pub(crate) trait Link: fmt::Debug + Send + Sync {
    /// Sends a request.
    fn open<'a>(
        &'a self,
        outgoing: &'a OutgoingRequest<'a>,
        protocol: &'a NegotiatedProtocol,
    ) -> LinkFuture<'a, Result<LinkCall, CallError>>;

    /// Begins to use the revision that was agreed on, and notifies an older server that the session is open.
    fn start_session<'a>(&'a self, protocol: &'a NegotiatedProtocol) -> LinkFuture<'a, ()>;

    /// Sends a notification; delivery is not confirmed.
    fn notify(&self, notification: &Notification, protocol: &NegotiatedProtocol);

    /// Sends a notification of an extension, as it is written; resolves once it was handed over.
    fn tell<'a>(
        &'a self,
        method: &'a Method,
        body: Vec<u8>,
        protocol: &'a NegotiatedProtocol,
    ) -> LinkFuture<'a, Result<(), CallError>>;

    /// Closes the connection; resolves when nothing of it is left.
    fn close(&self) -> LinkFuture<'_, ()>;

    /// Closes the connection to a server that no longer responds, without waiting.
    fn close_with_reason(&self, closed: ConnectionClosed);

    /// Returns true if a call waits for its answer; a listen stream does not count.
    fn is_busy(&self) -> bool;

    /// Returns the number of lines that were not messages, and the first of them.
    fn noise(&self) -> (u64, Option<String>) {
        (0, None)
    }

    /// Returns the time spent on authorization.
    fn authorization_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Reads from a list of tools what calls of them need, and removes the tools that must not be called.
    fn record_tools(&self, _: &mut ListToolsResult, _: &NegotiatedProtocol) {
        // A transport without headers may ignore the annotations (HHDR-31).
    }

    /// Returns true if the transport needs the lists of tools.
    fn needs_tool_list(&self, _: &NegotiatedProtocol) -> bool {
        false
    }

    /// Sets the callback for when a new session has replaced one that ended.
    fn on_renewed(&self, _: Box<dyn Fn() + Send + Sync>) {}
}

/// Event of an outgoing request.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// A notification that belongs to it.
    Notification(Method, Option<RawJson>),
    /// A request of the server on behalf of the call (up to 2025-11-25).
    Question(RequestId, Method, Option<RawJson>),
    /// The answer. Nothing comes after it.
    Done(Result<RawJson, CallError>),
}

/// A request in progress. Dropping it cancels it.
#[derive(Debug)]
pub(crate) enum LinkCall {
    /// An entry of its connection's table; it costs no allocation.
    Entry(CallEntry),
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the HTTP link needs it"))]
    Boxed(Box<dyn InFlightRequest>),
}

impl LinkCall {
    /// Returns the handle of the request with this id in `table`.
    pub(crate) fn entry(table: Arc<dyn CallTable>, id: i64) -> Self {
        Self::Entry(CallEntry { table, id, finished: false })
    }

    /// Polls for the next event. Must not be called again after [`LinkEvent::Done`].
    pub(crate) fn poll_event(&mut self, cx: &mut TaskContext<'_>) -> Poll<LinkEvent> {
        match self {
            Self::Entry(entry) => {
                let event = entry.table.poll_event(entry.id, cx);
                if let Poll::Ready(LinkEvent::Done(_)) = &event {
                    entry.finished = true;
                }
                event
            }
            Self::Boxed(call) => call.poll_event(cx),
        }
    }

    /// Returns the next event. With `only_ready` it returns none if no event is ready.
    pub(crate) async fn next_event(&mut self, only_ready: bool) -> Option<LinkEvent> {
        poll_fn(|cx| match self.poll_event(cx) {
            Poll::Ready(event) => Poll::Ready(Some(event)),
            Poll::Pending if only_ready => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Returns the destination of answers to questions asked on this request.
    pub(crate) fn reply_to(&self) -> ReplyTo {
        match self {
            // The compiler turns the table into the sink that it is, too.
            Self::Entry(entry) => ReplyTo::new(Arc::<dyn CallTable>::clone(&entry.table)),
            Self::Boxed(call) => call.reply_to(),
        }
    }
}

/// A request in the table of its connection. Dropping it cancels it.
#[derive(Debug)]
pub(crate) struct CallEntry {
    table: Arc<dyn CallTable>,
    id: i64,
    finished: bool,
}

impl Drop for CallEntry {
    fn drop(&mut self) {
        if !self.finished {
            self.table.abandon(self.id);
        }
    }
}

/// The requests of one connection that are under way.
pub(crate) trait CallTable: AnswerSink {
    /// Polls for the next event of a request.
    fn poll_event(&self, id: i64, cx: &mut TaskContext<'_>) -> Poll<LinkEvent>;

    /// Cancels a request whose answer is no longer wanted.
    fn abandon(&self, id: i64);
}

/// A request under way that has its own state. Dropping it cancels it.
pub(crate) trait InFlightRequest: fmt::Debug + Send {
    /// Polls for the next event. Must not be called again after [`LinkEvent::Done`].
    fn poll_event(&mut self, cx: &mut TaskContext<'_>) -> Poll<LinkEvent>;

    /// Returns the destination of answers to questions asked on this request.
    fn reply_to(&self) -> ReplyTo;
}

/// Receiver of answers to requests of the server.
pub(crate) trait AnswerSink: fmt::Debug + Send + Sync {
    /// Answers a request of the server, unless it no longer wants that.
    fn answer(self: Arc<Self>, id: &RequestId, outcome: Result<&RawJson, &RpcError>);
}

/// Destination of the answer to a question.
#[derive(Clone, Debug)]
pub(crate) struct ReplyTo(Arc<dyn AnswerSink>);

impl ReplyTo {
    pub(crate) fn new(sink: Arc<dyn AnswerSink>) -> Self {
        Self(sink)
    }

    pub(crate) fn answer(&self, id: &RequestId, outcome: Result<&RawJson, &RpcError>) {
        Arc::clone(&self.0).answer(id, outcome);
    }
}

/// Receiver of what the server sends and no call of the client waits for.
pub(crate) trait InboundMessages: fmt::Debug + Send + Sync {
    /// Handles a request of the server that belongs to no call.
    fn handle_unsolicited_request(
        self: Arc<Self>,
        id: RequestId,
        method: Method,
        params: Option<RawJson>,
        reply: ReplyTo,
    );

    /// Handles a notification that belongs to no call.
    fn handle_notification(&self, method: &Method, params: Option<&RawJson>);

    /// Handles the server's notice that it no longer wants an answer.
    fn handle_cancelled(&self, id: &RequestId, reason: Option<String>);

    /// Handles the end of the session in which the server asked: it no longer waits for answers, and may ask anew under
    /// the same ids.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the HTTP link needs it"))]
    fn abort_requests(&self);

    /// Handles the end of the connection.
    fn handle_connection_lost(&self, closed: Arc<ConnectionClosed>);

    /// Subscribes to the end of the connection. The value is none while it is open.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only the HTTP link needs it"))]
    fn subscribe_closed(&self) -> watch::Receiver<Option<Arc<ConnectionClosed>>>;
}

/// Resolves when the connection has ended.
pub(crate) async fn wait_closed(
    mut closed: watch::Receiver<Option<Arc<ConnectionClosed>>>,
) -> Arc<ConnectionClosed> {
    let ended = closed.wait_for(Option::is_some).await.ok().and_then(|closed| closed.clone());
    // The sender lives as long as the connection is used, so it cannot end otherwise.
    ended.unwrap_or_else(|| Arc::new(ConnectionClosed::new("the connection is closed")))
}
