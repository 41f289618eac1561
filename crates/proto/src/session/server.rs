//! The server's side of a legacy session.
//!
//! ```text
//!                 initialize               initialized, or the
//!                 is answered              first ordinary request
//!  Uninitialised ────────────► Initialising ────────────► Ready
//!        │                          │                       │
//!        └──────────────────────────┴───────────┬───────────┘
//!                                               ▼ the transport ends
//!                                             ConnectionClosed
//! ```
//!
//! | | Uninitialised | Initialising | Ready | Closed |
//! |---|---|---|---|---|
//! | `ping` from the client | yes | yes | yes | no |
//! | `initialize` | yes | no | no | no |
//! | other requests of the client | no | yes | yes | no |
//! | `ping` to the client | yes | yes | yes | no |
//! | other requests to the client | no | no | yes | no |

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use hospes_model::{
    CancelledParams, ClientCapabilities, Direction, InitializeParams, MessageKind, Method, ProgressParams,
    RequestId, Revision, RpcError,
};
use serde_json::value::RawValue;

use super::inflight::{InFlightRequests, RequestTicket};
use super::outstanding::{ExpiredRequest, OutstandingRequests, TimeLimits, TooManyRequests};
use crate::RevisionSet;

/// Limits of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionLimits {
    /// Maximum number of client requests served concurrently: the setting `max_in_flight`.
    pub max_in_flight: usize,
    /// Maximum number of pending requests to the client: the setting `max_open_questions`.
    pub max_open_questions: usize,
    /// Maximum number of resource subscriptions: the setting `max_subscriptions`.
    pub max_subscriptions: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { max_in_flight: 1024, max_open_questions: 256, max_subscriptions: 1024 }
    }
}

/// Reasons a request must not be sent to the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientRequestError {
    /// The session has ended.
    #[error("the session has ended")]
    Closed,
    /// The handshake is not complete; until then only pings may be sent (LIFE-08).
    #[error("the session is not ready: {0} cannot be sent before the handshake")]
    NotReady(Method),
    /// The negotiated revision has no such request.
    #[error("{method} is not part of revision {revision}")]
    NotInRevision {
        /// Method of the request.
        method: Method,
        /// Revision of the session.
        revision: Revision,
    },
    /// The client did not declare the capability for this request (CAP-01, CAP-05).
    #[error("the client did not declare the capability required for {0}")]
    NotDeclared(Method),
    /// Too many requests to the client are pending.
    #[error("too many requests waiting for the client: the limit is {0} (setting max_open_questions)")]
    TooMany(usize),
}

impl From<TooManyRequests> for ClientRequestError {
    fn from(TooManyRequests(limit): TooManyRequests) -> Self {
        Self::TooMany(limit)
    }
}

/// State of the legacy session of one client. See the [module](self) for its phases.
#[derive(Debug)]
pub struct ServerSession<T, W> {
    state: SessionPhase,
    revisions: RevisionSet,
    limits: SessionLimits,
    served: InFlightRequests<T>,
    asked: OutstandingRequests<W>,
    announced: bool,
    /// True if nothing more is received from the client.
    inbound_closed: bool,
    subscribed: HashSet<Box<str>>,
}

#[derive(Debug)]
enum SessionPhase {
    Uninitialised,
    Initialising(NegotiatedSession),
    Ready(NegotiatedSession),
    Closed,
}

/// Result of the handshake.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NegotiatedSession {
    /// Revision of the session.
    pub revision: Revision,
    /// Params that the client sent with `initialize`.
    pub client: Arc<InitializeParams>,
}

/// Action for a request of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every case must be handled")]
pub enum RequestAction {
    /// Decode the params, call [`ServerSession::initialize`], and respond.
    Initialize,
    /// Respond immediately with an empty result (PING-02).
    Ping,
    /// Serve the request. Work that is done immediately may be answered directly; otherwise call
    /// [`ServerSession::begin`].
    Call,
}

/// Meaning of a notification of the client.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "every case must be handled")]
pub enum ServerEvent<T> {
    /// The client is ready. Reported once.
    Initialized,
    /// Stop the work on this request. No response is sent.
    Cancelled {
        /// Id of the request.
        id: RequestId,
        /// Value that stops the work.
        stop: T,
        /// Reason, for the log (CANC-10).
        reason: Option<String>,
    },
    /// Progress of an outgoing request; see [`ServerSession::waiter`]. The value has grown (PROG-05).
    Progress {
        /// Id of the outgoing request.
        id: i64,
        /// Progress of the request.
        params: ProgressParams,
    },
    /// The client's roots changed.
    RootsListChanged,
    /// The session does not need the notification; handlers of custom notifications may.
    Other,
    /// Nothing: the notification is malformed, late or out of place.
    Ignored,
}

impl<T, W> ServerSession<T, W> {
    /// Creates a session before the handshake.
    #[must_use]
    pub fn new(revisions: RevisionSet, limits: SessionLimits) -> Self {
        Self {
            state: SessionPhase::Uninitialised,
            revisions,
            limits,
            served: InFlightRequests::new(limits.max_in_flight),
            asked: OutstandingRequests::new(limits.max_open_questions),
            announced: false,
            inbound_closed: false,
            subscribed: HashSet::new(),
        }
    }

    /// Uses ids above `last` for requests to the client, because it may still answer those of an earlier server of the
    /// session.
    #[must_use]
    pub fn with_request_ids_after(mut self, last: i64) -> Self {
        self.asked.continue_ids_after(last);
        self
    }

    /// Returns true once the client may be sent requests: it has said `initialized`, or sent a request.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.state, SessionPhase::Ready(_))
    }

    /// Result of the handshake, once it is complete.
    #[must_use]
    pub fn initialized(&self) -> Option<&NegotiatedSession> {
        match &self.state {
            SessionPhase::Initialising(opened) | SessionPhase::Ready(opened) => Some(opened),
            SessionPhase::Uninitialised | SessionPhase::Closed => None,
        }
    }

    /// Returns the revision of the session, once negotiated.
    #[must_use]
    pub fn revision(&self) -> Option<Revision> {
        self.initialized().map(|opened| opened.revision)
    }

    /// Returns true if batches may be sent in either direction (BATCH-01, BATCH-09). Returns false before the
    /// handshake, which may not be part of a batch (BATCH-03).
    #[must_use]
    pub fn has_batches(&self) -> bool {
        self.revision().is_some_and(|revision| revision <= Revision::V2025_03_26)
    }

    /// Returns true if the session has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, SessionPhase::Closed)
    }

    /// Handles a request from the client.
    ///
    /// # Errors
    /// The error to respond with, if the request is rejected.
    pub fn handle_request(&mut self, id: &RequestId, method: &Method) -> Result<RequestAction, RpcError> {
        match (&self.state, method) {
            (SessionPhase::Closed, _) => return Err(RpcError::invalid_request("the session has ended")),
            // "Either side may ping at any time" (PING-01), even before the handshake.
            (_, Method::Ping) => return Ok(RequestAction::Ping),
            (SessionPhase::Uninitialised, Method::Initialize) => return Ok(RequestAction::Initialize),
            (_, Method::Initialize) => {
                return Err(RpcError::invalid_request("the session is already initialized"));
            }
            // "Initialization is the first interaction" (LIFE-01).
            (SessionPhase::Uninitialised, _) => {
                return Err(RpcError::invalid_request(
                    "the session is not initialized; send initialize first",
                ));
            }
            (SessionPhase::Initialising(opened) | SessionPhase::Ready(opened), method) => {
                if !is_request(method, Direction::ToServer, opened.revision) {
                    return Err(RpcError::method_not_found(method.name()));
                }
            }
        }
        // Over HTTP `initialized` and the first request may overtake each other: a client that sends a request is
        // ready.
        self.mark_ready();
        self.served.check(id).map(|()| RequestAction::Call)
    }

    /// Registers a request that takes longer, so that it can be cancelled. `stop` is the handle that stops the work.
    ///
    /// # Errors
    /// The error to respond with, if the id is in use or too many requests are being served.
    pub fn begin(&mut self, id: &RequestId, stop: T) -> Result<RequestTicket, RpcError> {
        self.served.begin(id, stop)
    }

    /// Opens the session with the requested version if it is supported, else with the latest one (VER-03..05). Sessions
    /// can share equal params.
    ///
    /// # Errors
    /// The error to respond with, if the session is already open or no legacy revision is supported (VER-10).
    pub fn initialize(
        &mut self,
        params: impl Into<Arc<InitializeParams>>,
    ) -> Result<&NegotiatedSession, RpcError> {
        let params = params.into();
        if !matches!(self.state, SessionPhase::Uninitialised) {
            return Err(RpcError::invalid_request("the session is already initialized"));
        }
        let Some(revision) = self.revisions.negotiate(&params.protocol_version) else {
            return Err(self.revisions.unsupported_version_error(&params.protocol_version));
        };
        self.state = SessionPhase::Initialising(NegotiatedSession { revision, client: params });
        self.initialized().ok_or_else(|| RpcError::internal("the session was not opened"))
    }

    /// Handles a notification from the client.
    pub fn handle_notification(
        &mut self,
        now: Instant,
        method: &Method,
        params: Option<&RawValue>,
    ) -> ServerEvent<T> {
        if self.is_closed() {
            return ServerEvent::Ignored;
        }
        match method {
            Method::Initialized if self.initialized().is_some() => {
                self.mark_ready();
                if std::mem::replace(&mut self.announced, true) {
                    ServerEvent::Ignored
                } else {
                    ServerEvent::Initialized
                }
            }
            Method::Initialized => ServerEvent::Ignored,
            Method::Cancelled => {
                cancelled(&mut self.served, params).map_or(ServerEvent::Ignored, |(id, stop, reason)| {
                    ServerEvent::Cancelled { id, stop, reason }
                })
            }
            Method::Progress => match progress(&mut self.asked, params, now) {
                Some((id, params)) => ServerEvent::Progress { id, params },
                None => ServerEvent::Ignored,
            },
            Method::RootsListChanged => ServerEvent::RootsListChanged,
            _ => ServerEvent::Other,
        }
    }

    /// Handles a response. Returns the waiter of its request, or `None` if no request is pending.
    pub fn handle_response(&mut self, id: Option<&RequestId>) -> Option<W> {
        self.asked.handle_response(id?)
    }

    /// Finishes a request. `None` means that it was cancelled and must not be answered (CANC-06).
    pub fn finish(&mut self, id: &RequestId, ticket: RequestTicket) -> Option<T> {
        self.served.finish(id, ticket)
    }

    /// Returns the requests that are being served.
    #[must_use]
    pub fn served(&self) -> &InFlightRequests<T> {
        &self.served
    }

    /// Checks that a request may be sent to the client now.
    ///
    /// # Errors
    /// [`ClientRequestError`] with the reason.
    pub fn check_client_request(&self, method: &Method) -> Result<(), ClientRequestError> {
        let opened = match &self.state {
            SessionPhase::Closed => return Err(ClientRequestError::Closed),
            _ if self.inbound_closed => return Err(ClientRequestError::Closed),
            _ if *method == Method::Ping => return Ok(()),
            // "No requests other than pings before `initialized`" (LIFE-08).
            SessionPhase::Uninitialised | SessionPhase::Initialising(_) => {
                return Err(ClientRequestError::NotReady(method.clone()));
            }
            SessionPhase::Ready(opened) => opened,
        };
        if !is_request(method, Direction::ToClient, opened.revision) {
            return Err(ClientRequestError::NotInRevision {
                method: method.clone(),
                revision: opened.revision,
            });
        }
        if !declares(&opened.client.capabilities, method) {
            return Err(ClientRequestError::NotDeclared(method.clone()));
        }
        Ok(())
    }

    /// Registers a request to the client, which must be sent with the returned id.
    ///
    /// # Errors
    /// [`ClientRequestError`] with the reason why it may not be sent.
    pub fn begin_client_request(
        &mut self,
        now: Instant,
        method: &Method,
        limits: TimeLimits,
        waiter: W,
    ) -> Result<i64, ClientRequestError> {
        self.check_client_request(method)?;
        Ok(self.asked.begin(now, limits, waiter)?)
    }

    /// Cancels a request to the client. If this returns a waiter, send `notifications/cancelled`; `None` means that the
    /// request is already done.
    pub fn cancel(&mut self, id: i64) -> Option<W> {
        self.asked.cancel(id)
    }

    /// Waiter of a pending outgoing request.
    pub fn waiter(&mut self, id: i64) -> Option<&mut W> {
        self.asked.waiting_mut(id)
    }

    /// Latest time at which to call [`ServerSession::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.asked.poll_timeout()
    }

    /// Ends requests to the client that timed out, oldest first. Send `notifications/cancelled` for each (TIME-02).
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<ExpiredRequest<W>> {
        self.asked.handle_timeout(now)
    }

    /// Number of responses that matched no pending request.
    #[must_use]
    pub fn stray_response_count(&self) -> u64 {
        self.asked.stray_response_count()
    }

    /// Adds a resource subscription. Returns true if it is new.
    ///
    /// # Errors
    /// The error to respond with, if the client has too many subscriptions.
    pub fn subscribe(&mut self, uri: &str) -> Result<bool, RpcError> {
        if self.subscribed.contains(uri) {
            return Ok(false);
        }
        let limit = self.limits.max_subscriptions;
        if self.subscribed.len() >= limit {
            let why =
                format!("too many subscribed resources: the limit is {limit} (setting max_subscriptions)");
            return Err(RpcError::invalid_request(why));
        }
        Ok(self.subscribed.insert(uri.into()))
    }

    /// Removes a resource subscription. Returns true if it existed.
    pub fn unsubscribe(&mut self, uri: &str) -> bool {
        self.subscribed.remove(uri)
    }

    /// Returns true if the client subscribed to the resource.
    #[must_use]
    pub fn is_subscribed(&self, uri: &str) -> bool {
        self.subscribed.contains(uri)
    }

    /// Iterates over the subscribed resources.
    pub fn subscriptions(&self) -> impl Iterator<Item = &str> {
        self.subscribed.iter().map(AsRef::as_ref)
    }

    /// Closes the inbound direction: nothing more is received from the client, though it may still read. Its own
    /// requests continue, and no more requests can be sent to it. Returns the waiters of pending requests.
    pub fn close_inbound(&mut self) -> Vec<W> {
        self.inbound_closed = true;
        self.asked.drain().map(|(_, waiter)| waiter).collect()
    }

    /// Closes the session at the end of the transport (LIFE-12). Returns the handles that stop the work, and the
    /// waiters of pending requests.
    pub fn close(&mut self) -> (Vec<T>, Vec<W>) {
        self.state = SessionPhase::Closed;
        self.subscribed.clear();
        (
            self.served.drain().map(|(_, stop)| stop).collect(),
            self.asked.drain().map(|(_, waiter)| waiter).collect(),
        )
    }

    fn mark_ready(&mut self) {
        if let SessionPhase::Initialising(opened) = &self.state {
            // The clone is cheap, because the params of the client are behind an `Arc`.
            self.state = SessionPhase::Ready(opened.clone());
        }
    }
}

/// Returns true if the revision has this request in this direction; an absent method is "not found". Names that the
/// specification does not define are left to custom handlers.
fn is_request(method: &Method, direction: Direction, revision: Revision) -> bool {
    method.info().is_none_or(|info| {
        let towards = info.direction == direction || info.direction == Direction::Both;
        info.kind == MessageKind::Request && towards && info.in_revision(revision)
    })
}

/// Returns true if a client with these capabilities answers this request (CAP-05, ROOT-01, ELIC-01).
fn declares(capabilities: &ClientCapabilities, method: &Method) -> bool {
    match method {
        Method::CreateMessage => capabilities.sampling.is_some(),
        Method::RootsList => capabilities.roots.is_some(),
        Method::Elicit => capabilities.elicitation.is_some(),
        Method::TasksGet | Method::TasksResult | Method::TasksCancel | Method::TasksList => {
            capabilities.tasks.is_some()
        }
        _ => true,
    }
}

/// Finds the request that `notifications/cancelled` refers to, if there is one (CANC-12).
fn cancelled<T>(
    served: &mut InFlightRequests<T>,
    params: Option<&RawValue>,
) -> Option<(RequestId, T, Option<String>)> {
    let params: CancelledParams = serde_json::from_str(params?.get()).ok()?;
    let id = params.request_id?;
    let stop = served.cancel(&id)?;
    Some((id, stop, params.reason))
}

/// Finds the outgoing request that `notifications/progress` refers to, if there is one.
fn progress<W>(
    asked: &mut OutstandingRequests<W>,
    params: Option<&RawValue>,
    now: Instant,
) -> Option<(i64, ProgressParams)> {
    let params: ProgressParams = serde_json::from_str(params?.get()).ok()?;
    asked.handle_progress(now, &params.progress_token, params.progress)?;
    match params.progress_token.0 {
        RequestId::Number(id) => Some((id, params)),
        RequestId::Text(_) => None,
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
