//! Builder of a call's context.

use std::sync::atomic::AtomicU8;
use std::sync::{Arc, Mutex, OnceLock};

use hospes_model::{LoggingLevel, ProgressToken, RawJson, RequestId};

use super::{Context, ContextInner, ContextState, STREAM_CLOSABLE, STREAM_FIXED};
use crate::peer::Peer;
use crate::replay_cache::StateNonce;
use crate::round::Round;
use crate::tasks::TaskPreference;

/// Builder of a [`Context`]; for adapters, gateways and tests.
#[derive(Debug)]
pub struct ContextBuilder {
    pub(super) peer: Arc<Peer>,
    pub(super) request_id: Option<RequestId>,
    pub(super) meta: Option<RawJson>,
    pub(super) log_level: Option<LoggingLevel>,
    pub(super) progress_token: Option<ProgressToken>,
    pub(super) http: Option<Box<http::request::Parts>>,
    pub(super) extensions: http::Extensions,
    pub(super) task: TaskPreference,
    pub(super) closable: bool,
    pub(super) round: Round,
    pub(super) state_nonce: Option<StateNonce>,
}

impl ContextBuilder {
    /// The request's id on the wire.
    #[must_use]
    pub fn request_id(mut self, id: RequestId) -> Self {
        self.request_id = Some(id);
        self
    }

    /// The request's `_meta`.
    #[must_use]
    pub fn meta(mut self, meta: Option<RawJson>) -> Self {
        self.meta = meta;
        self
    }

    /// The level of this one request (2026-07-28); the session's level is the peer's.
    #[must_use]
    pub fn log_level(mut self, level: Option<LoggingLevel>) -> Self {
        self.log_level = level;
        self
    }

    /// The token under which the peer wants progress.
    #[must_use]
    pub fn progress_token(mut self, token: Option<ProgressToken>) -> Self {
        self.progress_token = token;
        self
    }

    /// The head of the HTTP request that brought the call.
    #[must_use]
    pub fn http(mut self, head: Box<http::request::Parts>) -> Self {
        self.http = Some(head);
        self
    }

    /// Sets the values that the transport passes to handlers.
    #[must_use]
    pub fn extensions(mut self, extensions: http::Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    /// Sets whether the caller accepts or asks for a task.
    #[must_use]
    pub fn task(mut self, wish: TaskPreference) -> Self {
        self.task = wish;
        self
    }

    /// Sets whether the stream of the answer can be resumed after it was closed.
    #[must_use]
    pub fn closable(mut self, closable: bool) -> Self {
        self.closable = closable;
        self
    }

    /// Sets the state from earlier rounds.
    #[must_use]
    pub fn round(mut self, round: Round) -> Self {
        self.round = round;
        self
    }

    /// The right to use the state that these rounds were sealed in.
    #[cfg(feature = "server")]
    pub(crate) fn state_nonce(mut self, ticket: Option<StateNonce>) -> Self {
        self.state_nonce = ticket;
        self
    }

    /// The context.
    #[must_use]
    pub fn build(self) -> Context {
        let state = ContextState { round: self.round, ..ContextState::default() };
        Context(Arc::new(ContextInner {
            peer: self.peer,
            request_id: self.request_id,
            meta: self.meta,
            log_level: self.log_level,
            progress_token: self.progress_token,
            http: self.http,
            extensions: self.extensions,
            task: self.task,
            stream: AtomicU8::new(if self.closable { STREAM_CLOSABLE } else { STREAM_FIXED }),
            log_rules: OnceLock::new(),
            state_nonce: self.state_nonce,
            answerable: std::sync::OnceLock::new(),
            progress_observer: std::sync::OnceLock::new(),
            state: Mutex::new(state),
        }))
    }
}
