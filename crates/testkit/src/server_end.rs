//! The server's end of a [`MemoryPair`](crate::MemoryPair).

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use hospes_model::message::{self, Frame, JsonRpcNotification, JsonRpcRequest};
use hospes_model::{
    Era, Implementation, InitializeResult, JsonRpcMessage, Method, RequestId, Revision, RpcError,
    ServerCapabilities,
};
use hospes_proto::RevisionSet;
use hospes_proto::http::RoutingFields;
use hospes_proto::session::server::{ClientRequestError, RequestAction, ServerEvent, SessionLimits};
use hospes_proto::session::{RequestTicket, ServerSession, TimeLimits};
use serde_json::{Value, json};

/// Reaction of a server to an unknown method before the handshake, in which real servers differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what real servers were seen to do with a probe")]
pub enum UnknownMethodManner {
    /// Responds with the error that the specification requires.
    #[default]
    Proper,
    /// Exits.
    Exits,
    /// Sends no response.
    Silent,
    /// Responds with an error of this code.
    Code(i64),
}

/// A call held by the server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeldCall {
    /// Id of the request.
    pub id: RequestId,
    /// Revision of the request.
    pub revision: Revision,
    /// True if the call was answered or cancelled.
    pub over: bool,
    ticket: RequestTicket,
    progress_token: Option<Value>,
}

/// A server that holds each call until the test finishes it.
#[derive(Debug)]
pub struct ServerEnd {
    session: ServerSession<usize, ()>,
    revisions: RevisionSet,
    manner: UnknownMethodManner,
    held: Vec<HeldCall>,
    outbox: Vec<Vec<u8>>,
    exited: bool,
    asked: BTreeMap<i64, bool>,
}

impl ServerEnd {
    /// Creates a server that supports these revisions.
    #[must_use]
    pub fn new(revisions: RevisionSet, manner: UnknownMethodManner) -> Self {
        Self {
            session: ServerSession::new(revisions, SessionLimits::default()),
            revisions,
            manner,
            held: Vec::new(),
            outbox: Vec::new(),
            exited: false,
            asked: BTreeMap::new(),
        }
    }

    /// Returns the session for inspection.
    #[must_use]
    pub fn session(&self) -> &ServerSession<usize, ()> {
        &self.session
    }

    /// Returns the calls in the order of arrival.
    #[must_use]
    pub fn held(&self) -> &[HeldCall] {
        &self.held
    }

    /// Finishes the call at `position`. Returns true if a response was sent; a cancelled call gets none.
    pub fn finish(&mut self, position: usize) -> bool {
        let Some(held) = self.held.get_mut(position) else { return false };
        if self.session.finish(&held.id, held.ticket).is_none() {
            return false;
        }
        held.over = true;
        let mut result = json!({"content": [{"type": "text", "text": "done"}]});
        if !held.revision.is_legacy() {
            result["resultType"] = json!("complete");
        }
        let id = held.id.clone();
        self.answer(&id, Ok(&result));
        true
    }

    /// Reports progress of the call at `position`. Returns false if the call is over or has no progress token.
    pub fn report(&mut self, position: usize, progress: f64) -> bool {
        let Some(held) = self.held.get(position) else { return false };
        let Some(token) = held.progress_token.clone().filter(|_| !held.over) else { return false };
        if !self.session.served().is_served(&held.id, held.ticket) {
            return false;
        }
        let params = json!({"progressToken": token, "progress": progress});
        self.tell(&Method::Progress, &params);
        true
    }

    /// Asks the client for its roots.
    ///
    /// # Errors
    /// If the request may not be sent in the present state of the session.
    pub fn ask(&mut self, now: Instant, limits: TimeLimits) -> Result<i64, ClientRequestError> {
        let id = self.session.begin_client_request(now, &Method::RootsList, limits, ())?;
        self.asked.insert(id, false);
        let mut out = Vec::new();
        // Writing to memory cannot fail.
        let _ =
            message::write_request::<Value>(&mut out, &RequestId::Number(id), Method::RootsList.name(), None);
        self.outbox.push(out);
        Ok(id)
    }

    /// Returns true if the client answered the request.
    #[must_use]
    pub fn was_answered(&self, question: i64) -> bool {
        self.asked.get(&question).copied().unwrap_or_default()
    }

    /// Ends the server's process.
    pub fn exit(&mut self) {
        self.session.close();
        self.exited = true;
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.exited
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.session.poll_timeout()
    }

    pub(crate) fn take_outbox(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.outbox)
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for expired in self.session.handle_timeout(now) {
            self.tell(&Method::Cancelled, &json!({"requestId": expired.id}));
        }
    }

    pub(crate) fn handle_line(&mut self, now: Instant, line: &Bytes) {
        match message::decode(line) {
            Ok(Frame::Single(message)) => self.handle_message(now, message),
            Ok(Frame::Batch(parts)) if self.session.has_batches() => {
                parts.into_iter().flatten().for_each(|message| self.handle_message(now, message));
            }
            Ok(Frame::Batch(_)) => self.refuse(None, &RpcError::invalid_request("no batches")),
            Err(error) => self.refuse(error.id.as_ref(), &error.error),
        }
    }

    fn handle_message(&mut self, now: Instant, message: JsonRpcMessage<'_>) {
        match message {
            JsonRpcMessage::Request(request) => self.handle_request(&request),
            JsonRpcMessage::Notification(notification) => self.handle_notification(now, &notification),
            JsonRpcMessage::Response(response) => {
                if self.session.handle_response(response.id.as_ref()).is_some()
                    && let Some(RequestId::Number(id)) = response.id
                {
                    self.asked.insert(id, true);
                }
            }
        }
    }

    fn handle_notification(&mut self, now: Instant, notification: &JsonRpcNotification<'_>) {
        let method = Method::from_name(&notification.method);
        let event = self.session.handle_notification(now, &method, notification.params);
        if let ServerEvent::Cancelled { stop: position, .. } = event {
            self.held[position].over = true;
        }
    }

    fn handle_request(&mut self, request: &JsonRpcRequest<'_>) {
        let method = Method::from_name(&request.method);
        let facts = RoutingFields::from_params(&method, request.params);
        // A server without modern revisions does not know the fields, and treats the request as a legacy one.
        if facts.modern && self.revisions.has_era(Era::Modern) {
            match facts.check(self.revisions) {
                Ok(revision) => self.serve_modern(request, &method, revision),
                Err(error) => self.refuse(Some(&request.id), &error),
            }
        } else if self.session.initialized().is_none() && !matches!(method, Method::Ping | Method::Initialize)
        {
            self.handle_early_request(request);
        } else {
            self.serve_legacy(request, &method);
        }
    }

    /// Handles a request before the handshake.
    fn handle_early_request(&mut self, request: &JsonRpcRequest<'_>) {
        match self.manner {
            UnknownMethodManner::Proper => self.serve_legacy(request, &Method::from_name(&request.method)),
            UnknownMethodManner::Exits => self.exit(),
            UnknownMethodManner::Silent => {}
            UnknownMethodManner::Code(code) => {
                self.refuse(Some(&request.id), &RpcError::new(code, "what is this?"))
            }
        }
    }

    fn serve_modern(&mut self, request: &JsonRpcRequest<'_>, method: &Method, revision: Revision) {
        if !method.in_revision(revision) {
            self.refuse(Some(&request.id), &RpcError::method_not_found(method.name()));
        } else if *method == Method::Discover {
            let versions: Vec<_> = self.revisions.iter().filter(|revision| !revision.is_legacy()).collect();
            let result = json!({"resultType": "complete", "supportedVersions": versions,
                "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"});
            self.answer(&request.id, Ok(&result));
        } else {
            self.hold(request, revision);
        }
    }

    fn serve_legacy(&mut self, request: &JsonRpcRequest<'_>, method: &Method) {
        match self.session.handle_request(&request.id, method) {
            Err(error) => self.refuse(Some(&request.id), &error),
            Ok(RequestAction::Ping) => self.answer(&request.id, Ok(&json!({}))),
            Ok(RequestAction::Initialize) => self.initialize(request),
            Ok(RequestAction::Call) => {
                let revision = self.session.revision().unwrap_or(Revision::LATEST_LEGACY);
                self.hold(request, revision);
            }
        }
    }

    fn initialize(&mut self, request: &JsonRpcRequest<'_>) {
        let params = request.params.map_or("{}", |params| params.get());
        let outcome = match serde_json::from_str::<hospes_model::InitializeParams>(params) {
            Ok(params) => self.session.initialize(params).map(|opened| opened.revision),
            Err(error) => Err(RpcError::invalid_params(error.to_string())),
        };
        match outcome {
            Ok(revision) => {
                let info = Implementation::new("testkit", "1");
                let result = InitializeResult::new(revision.as_str(), ServerCapabilities::default(), info);
                self.answer(&request.id, Ok(&serde_json::to_value(result).unwrap_or_default()));
            }
            Err(error) => self.refuse(Some(&request.id), &error),
        }
    }

    fn hold(&mut self, request: &JsonRpcRequest<'_>, revision: Revision) {
        let position = self.held.len();
        match self.session.begin(&request.id, position) {
            Ok(ticket) => {
                let params: Value =
                    request.params.and_then(|p| serde_json::from_str(p.get()).ok()).unwrap_or_default();
                let progress_token = params["_meta"].get("progressToken").cloned();
                let id = request.id.clone();
                self.held.push(HeldCall { id, revision, over: false, ticket, progress_token });
            }
            Err(error) => self.refuse(Some(&request.id), &error),
        }
    }

    fn refuse(&mut self, id: Option<&RequestId>, error: &RpcError) {
        let mut out = Vec::new();
        message::write_error(&mut out, id, error);
        self.outbox.push(out);
    }

    fn answer(&mut self, id: &RequestId, outcome: Result<&Value, &RpcError>) {
        let mut out = Vec::new();
        match outcome {
            Ok(result) => {
                // Writing to memory cannot fail.
                let _ = message::write_result(&mut out, id, |out| serde_json::to_writer(out, result));
            }
            Err(error) => message::write_error(&mut out, Some(id), error),
        }
        self.outbox.push(out);
    }

    fn tell(&mut self, method: &Method, params: &Value) {
        let mut out = Vec::new();
        // Writing to memory cannot fail.
        let _ = message::write_notification(&mut out, method.name(), Some(params));
        self.outbox.push(out);
    }
}
