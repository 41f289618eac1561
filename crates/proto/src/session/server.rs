//! A legacy session, as the server sees it.
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
    /// The most requests of the client that are served at once: the setting `max_in_flight`.
    pub max_in_flight: usize,
    /// The most questions to the client that wait for answers: the setting `max_open_questions`.
    pub max_open_questions: usize,
    /// The most resources that the client may subscribe to: the setting `max_subscriptions`.
    pub max_subscriptions: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { max_in_flight: 1024, max_open_questions: 256, max_subscriptions: 1024 }
    }
}

/// Reasons a request must not be sent to the client now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientRequestError {
    /// The session has ended.
    #[error("the session has ended")]
    Closed,
    /// The handshake is not complete; until then only pings may be sent (LIFE-08).
    #[error("the session is not ready: {0} cannot be sent before the handshake")]
    NotReady(Method),
    /// The revision that was agreed on has no such request.
    #[error("{method} is not part of revision {revision}")]
    NotInRevision {
        /// Method of the request.
        method: Method,
        /// Revision of the session.
        revision: Revision,
    },
    /// The client did not declare that it can answer this (CAP-01, CAP-05).
    #[error("the client did not declare the capability required for {0}")]
    NotDeclared(Method),
    /// Too many questions wait for answers.
    #[error("too many requests waiting for the client: the limit is {0} (setting max_open_questions)")]
    TooMany(usize),
}

impl From<TooManyRequests> for ClientRequestError {
    fn from(TooManyRequests(limit): TooManyRequests) -> Self {
        Self::TooMany(limit)
    }
}

/// A legacy session of one client. See the [module](self) for its states.
#[derive(Debug)]
pub struct ServerSession<T, W> {
    state: SessionPhase,
    revisions: RevisionSet,
    limits: SessionLimits,
    served: InFlightRequests<T>,
    asked: OutstandingRequests<W>,
    announced: bool,
    /// Nothing can be heard from the client any more.
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
    /// The revision of the session.
    pub revision: Revision,
    /// Params that the client sent with `initialize`.
    pub client: Arc<InitializeParams>,
}

/// Action for a request of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every case must be handled")]
pub enum RequestAction {
    /// Decode its params, call [`ServerSession::initialize`], answer.
    Initialize,
    /// Answer with an empty result at once (PING-02).
    Ping,
    /// Serve it. Work that is done at once may be answered at once; for any other, [`ServerSession::begin`].
    Call,
}

/// Meaning of a notification of the client.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "every case must be handled")]
pub enum ServerEvent<T> {
    /// The client is ready; reported once.
    Initialized,
    /// Stop this work; no answer is sent.
    Cancelled {
        /// The request.
        id: RequestId,
        /// Value that stops the work.
        stop: T,
        /// Reason, for the log (CANC-10).
        reason: Option<String>,
    },
    /// Progress of an outgoing request; see [`ServerSession::waiter`]. The value has grown (PROG-05).
    Progress {
        /// Our request.
        id: i64,
        /// Progress of the request.
        params: ProgressParams,
    },
    /// The client's roots changed.
    RootsListChanged,
    /// The session does not need the notification; handlers of custom notifications may.
    Other,
    /// Nothing at all: malformed, late, out of place.
    Ignored,
}

impl<T, W> ServerSession<T, W> {
    /// A session that has not been opened.
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

    /// Result of the handshake, once it is complete.
    #[must_use]
    pub fn initialized(&self) -> Option<&NegotiatedSession> {
        match &self.state {
            SessionPhase::Initialising(opened) | SessionPhase::Ready(opened) => Some(opened),
            SessionPhase::Uninitialised | SessionPhase::Closed => None,
        }
    }

    /// The revision of the session, once agreed on.
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

    /// A request came.
    ///
    /// # Errors
    /// The answer, when it is refused.
    pub fn handle_request(&mut self, id: &RequestId, method: &Method) -> Result<RequestAction, RpcError> {
        match (&self.state, method) {
            (SessionPhase::Closed, _) => return Err(RpcError::invalid_request("the session has ended")),
            // "Either side may ping at any time" (PING-01): before the handshake, too.
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
        // Over HTTP `initialized` and the first request may overtake each other: a client that asks is ready.
        self.mark_ready();
        self.served.check(id).map(|()| RequestAction::Call)
    }

    /// Remembers a request that takes longer, so that it can be cancelled. `stop` is what stops it.
    ///
    /// # Errors
    /// The answer, when its id is in use or too many requests are served.
    pub fn begin(&mut self, id: &RequestId, stop: T) -> Result<RequestTicket, RpcError> {
        self.served.begin(id, stop)
    }

    /// Opens the session: the version is the one asked for if it is spoken here, else our latest (VER-03..05).
    /// Thousands of sessions may share params that say the same.
    ///
    /// # Errors
    /// The answer, when the session is open already or no legacy revision is spoken here (VER-10).
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

    /// A notification came.
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

    /// An answer came. `None`: to nothing that waits.
    pub fn handle_response(&mut self, id: Option<&RequestId>) -> Option<W> {
        self.asked.handle_response(id?)
    }

    /// The work on a request is done. `None`: it was cancelled, do not answer (CANC-06).
    pub fn finish(&mut self, id: &RequestId, ticket: RequestTicket) -> Option<T> {
        self.served.finish(id, ticket)
    }

    /// The requests that are being served.
    #[must_use]
    pub fn served(&self) -> &InFlightRequests<T> {
        &self.served
    }

    /// Checks that a request could be sent to the client now.
    ///
    /// # Errors
    /// [`ClientRequestError`].
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

    /// Opens a request to the client: send it with the id that this returns.
    ///
    /// # Errors
    /// [`ClientRequestError`].
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

    /// Gives a request to the client up. `None`: it is done. Else send `notifications/cancelled`.
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

    /// Gives up the questions that were not answered in time, oldest first: send `notifications/cancelled` for each
    /// (TIME-02).
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<ExpiredRequest<W>> {
        self.asked.handle_timeout(now)
    }

    /// Number of responses that matched no pending request.
    #[must_use]
    pub fn stray_response_count(&self) -> u64 {
        self.asked.stray_response_count()
    }

    /// `resources/subscribe` was accepted. Whether that is news.
    ///
    /// # Errors
    /// The answer, when the client has too many subscriptions.
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

    /// `resources/unsubscribe` came. Whether that is news.
    pub fn unsubscribe(&mut self, uri: &str) -> bool {
        self.subscribed.remove(uri)
    }

    /// Returns true if the client subscribed to the resource.
    #[must_use]
    pub fn is_subscribed(&self, uri: &str) -> bool {
        self.subscribed.contains(uri)
    }

    /// The resources that the client subscribed to.
    pub fn subscriptions(&self) -> impl Iterator<Item = &str> {
        self.subscribed.iter().map(AsRef::as_ref)
    }

    /// Closes the inbound direction: nothing more is received from the client, though it may still read. Its own
    /// requests continue, and no more requests can be sent to it. Returns the waiters of pending requests.
    pub fn close_inbound(&mut self) -> Vec<W> {
        self.inbound_closed = true;
        self.asked.drain().map(|(_, waiter)| waiter).collect()
    }

    /// The transport has ended, and with it the session (LIFE-12). What stops the work, and who waits in vain.
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
            // The clone is cheap: the params of the client are behind an `Arc`.
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

/// The request that `notifications/cancelled` ends, if there is one (CANC-12).
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
