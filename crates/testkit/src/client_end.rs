//! The client's end of a [`MemoryPair`](crate::MemoryPair).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hospes_model::message::{self, Frame};
use hospes_model::{
    ClientCapabilities, Era, Implementation, InitializeParams, JsonRpcMessage, Method, ProgressParams,
    RawJson, RequestId, Revision, RootsCapability, RpcError, meta_key,
};
use hospes_proto::era::{
    NegotiatedRevision, Negotiation, NegotiationError, NegotiationOutcome, NegotiationStep, PROBE_TIMEOUT,
    ResponseWait,
};
use hospes_proto::session::{ClientSession, ElapsedLimit, TimeLimits};
use serde_json::{Value, json};

/// Outcome of a call made by the client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every way a call can end")]
pub enum ClientCallEnd {
    /// The call was answered.
    Answered(Result<RawJson, RpcError>),
    /// The client cancelled the call.
    Cancelled,
    /// A time limit of the call elapsed.
    Expired(ElapsedLimit),
    /// The connection ended.
    Lost,
}

/// A request that waits for its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestWaiter {
    /// The current step of the negotiation.
    Step,
    /// A call made by the test.
    Call,
}

/// A client that negotiates the revision and then makes the calls that the test requests.
#[derive(Debug)]
pub struct ClientEnd {
    negotiation: Negotiation,
    session: ClientSession<RequestWaiter>,
    /// Id of the request of the current step.
    step: Option<i64>,
    begun: bool,
    respawn: bool,
    connect_timeout: Duration,
    outbox: Vec<Vec<u8>>,
    /// Outcome of each call.
    ends: BTreeMap<i64, ClientCallEnd>,
    /// Violations of the protocol's guarantees.
    faults: Vec<String>,
    progress: Vec<(i64, f64)>,
}

impl ClientEnd {
    /// Creates a client. `pinned` allows one revision only; `known` is a remembered era.
    #[must_use]
    pub fn new(pinned: Option<Revision>, known: Option<Era>) -> Self {
        Self {
            negotiation: Negotiation::new(pinned, known),
            session: ClientSession::default(),
            step: None,
            begun: false,
            respawn: false,
            connect_timeout: Duration::from_secs(30),
            outbox: Vec::new(),
            ends: BTreeMap::new(),
            faults: Vec::new(),
            progress: Vec::new(),
        }
    }

    /// Returns the agreed revision and capabilities, once there are any.
    #[must_use]
    pub fn agreed(&self) -> Option<NegotiatedRevision> {
        match self.negotiation.poll_step() {
            NegotiationStep::Agreed(agreed) => Some(*agreed),
            _ => None,
        }
    }

    /// Returns the reason the negotiation failed.
    #[must_use]
    pub fn failure(&self) -> Option<&NegotiationError> {
        match self.negotiation.poll_step() {
            NegotiationStep::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Calls a tool, which the server holds until the test finishes it. Returns the id of the call, or `None` before
    /// the negotiation has succeeded.
    pub fn call(&mut self, now: Instant, limits: TimeLimits) -> Option<i64> {
        let revision = self.agreed()?.revision;
        let id = self.session.begin(now, limits, RequestWaiter::Call).ok()?;
        let mut params = json!({"name": "hold", "arguments": {}});
        params["_meta"] = meta(revision);
        params["_meta"][meta_key::PROGRESS_TOKEN] = json!(id);
        self.send_request(id, &Method::ToolsCall, &params);
        Some(id)
    }

    /// Cancels a call and notifies the server. Returns true if the call was pending.
    pub fn cancel(&mut self, id: i64) -> bool {
        if self.session.cancel(id).is_none() {
            return false;
        }
        self.end(id, ClientCallEnd::Cancelled);
        self.tell_cancelled(id);
        true
    }

    /// Returns the outcome of the call, if it has ended.
    #[must_use]
    pub fn end_of(&self, id: i64) -> Option<&ClientCallEnd> {
        self.ends.get(&id)
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.session.in_flight()
    }

    /// Returns the number of responses without a matching request.
    #[must_use]
    pub fn strays(&self) -> u64 {
        self.session.stray_response_count()
    }

    /// Returns the reported progress as pairs of call id and value.
    #[must_use]
    pub fn progress(&self) -> &[(i64, f64)] {
        &self.progress
    }

    /// Returns the violations of the protocol's guarantees.
    #[must_use]
    pub fn faults(&self) -> &[String] {
        &self.faults
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.session.poll_timeout()
    }

    /// Returns true if the server is to be restarted.
    pub(crate) fn take_respawn(&mut self) -> bool {
        std::mem::take(&mut self.respawn)
    }

    pub(crate) fn take_outbox(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.outbox)
    }

    /// Starts the current step of the negotiation unless it is already running.
    pub(crate) fn drive(&mut self, now: Instant) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        match self.negotiation.poll_step().clone() {
            NegotiationStep::Discover { revision, patience } => {
                let params = json!({"_meta": meta(revision)});
                self.begin_step(now, patience, &Method::Discover, &params);
            }
            NegotiationStep::Initialize { revision, patience } => {
                let params = InitializeParams::new(revision.as_str(), capabilities(), info());
                let params = serde_json::to_value(params).unwrap_or_default();
                self.begin_step(now, patience, &Method::Initialize, &params);
            }
            NegotiationStep::Respawn => self.respawn = true,
            NegotiationStep::Agreed(agreed) => {
                if agreed.revision.is_legacy() {
                    self.send_notification(&Method::Initialized, &json!({}));
                }
            }
            NegotiationStep::Failed(_) | NegotiationStep::OpenSse => {}
        }
    }

    fn begin_step(&mut self, now: Instant, patience: ResponseWait, method: &Method, params: &Value) {
        let timeout = match patience {
            ResponseWait::Probe => PROBE_TIMEOUT,
            ResponseWait::Half => self.connect_timeout / 2,
            ResponseWait::Full => self.connect_timeout,
        };
        let limits = TimeLimits { timeout: Some(timeout), max_timeout: None };
        if let Ok(id) = self.session.begin(now, limits, RequestWaiter::Step) {
            self.step = Some(id);
            self.send_request(id, method, params);
        }
    }

    fn end_step(&mut self, outcome: NegotiationOutcome) {
        self.step = None;
        self.begun = false;
        self.negotiation.handle_outcome(outcome);
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for expired in self.session.handle_timeout(now) {
            match expired.value {
                // A step is not cancelled: `initialize` never is, and the late response to a probe does no harm.
                RequestWaiter::Step => self.end_step(NegotiationOutcome::Silence),
                RequestWaiter::Call => {
                    self.end(expired.id, ClientCallEnd::Expired(expired.ran));
                    self.tell_cancelled(expired.id);
                }
            }
        }
    }

    pub(crate) fn handle_line(&mut self, now: Instant, line: &Bytes) {
        match message::decode(line) {
            Ok(Frame::Single(message)) => self.handle_message(now, message),
            Ok(Frame::Batch(_)) => self.faults.push("the server sent a batch".into()),
            Err(error) => self.faults.push(format!("the server sent no message: {error}")),
        }
    }

    fn handle_message(&mut self, now: Instant, message: JsonRpcMessage<'_>) {
        match message {
            JsonRpcMessage::Response(response) => {
                let Some(id) = response.id else { return };
                let outcome = response.outcome.map(RawJson::from);
                match (self.session.handle_response(&id), id) {
                    (Some(RequestWaiter::Call), RequestId::Number(id)) => {
                        self.end(id, ClientCallEnd::Answered(outcome))
                    }
                    (Some(RequestWaiter::Step), _) => self.end_step(outcome_of(outcome)),
                    _ => {}
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ("notifications/progress", Some(params)) = (&*notification.method, notification.params)
                    && let Ok(params) = serde_json::from_str::<ProgressParams>(params.get())
                    && self.session.handle_progress(now, &params.progress_token, params.progress).is_some()
                    && let RequestId::Number(id) = params.progress_token.0
                {
                    self.progress.push((id, params.progress));
                }
            }
            JsonRpcMessage::Request(request) => {
                // Such a server never sends requests (MSG-23).
                let modern = self.agreed().is_some_and(|agreed| !agreed.revision.is_legacy());
                if modern {
                    self.faults.push(format!("a modern server asked {}", request.method));
                }
                let mut out = Vec::new();
                let answer = json!({"roots": []});
                // Writing to memory cannot fail.
                let _ =
                    message::write_result(&mut out, &request.id, |out| serde_json::to_writer(out, &answer));
                self.outbox.push(out);
            }
        }
    }

    /// Handles the end of the connection.
    pub(crate) fn handle_exit(&mut self) {
        let stepping = self.step.is_some();
        for (id, waiter) in self.session.close() {
            if waiter == RequestWaiter::Call {
                self.end(id, ClientCallEnd::Lost);
            }
        }
        if stepping {
            self.end_step(NegotiationOutcome::Exited);
        }
    }

    /// Handles the restart of the server.
    pub(crate) fn handle_respawned(&mut self) {
        self.end_step(NegotiationOutcome::Respawned);
    }

    fn end(&mut self, id: i64, end: ClientCallEnd) {
        if let Some(before) = self.ends.insert(id, end) {
            self.faults.push(format!("call {id} ended twice, first as {before:?}"));
        }
    }

    fn tell_cancelled(&mut self, id: i64) {
        self.send_notification(&Method::Cancelled, &json!({"requestId": id}));
    }

    fn send_request(&mut self, id: i64, method: &Method, params: &Value) {
        let mut out = Vec::new();
        // Writing to memory cannot fail.
        let _ = message::write_request(&mut out, &RequestId::Number(id), method.name(), Some(params));
        self.outbox.push(out);
    }

    fn send_notification(&mut self, method: &Method, params: &Value) {
        let mut out = Vec::new();
        // Writing to memory cannot fail.
        let _ = message::write_notification(&mut out, method.name(), Some(params));
        self.outbox.push(out);
    }
}

fn outcome_of(outcome: Result<RawJson, RpcError>) -> NegotiationOutcome {
    let result = match outcome {
        Ok(result) => result.to_value().unwrap_or_default(),
        Err(error) => return NegotiationOutcome::Error(error),
    };
    // Only `initialize` returns one version; discovery lists all of them.
    if let Some(version) = result["protocolVersion"].as_str() {
        return NegotiationOutcome::Initialized(version.to_owned());
    }
    let versions = result["supportedVersions"].as_array().into_iter().flatten();
    NegotiationOutcome::Discovered(
        versions.filter_map(|version| version.as_str().map(str::to_owned)).collect(),
    )
}

fn meta(revision: Revision) -> Value {
    if revision.is_legacy() {
        return json!({});
    }
    json!({
        meta_key::PROTOCOL_VERSION: revision,
        meta_key::CLIENT_INFO: info(),
        meta_key::CLIENT_CAPABILITIES: capabilities(),
    })
}

fn capabilities() -> ClientCapabilities {
    ClientCapabilities::new().with_roots(RootsCapability::default())
}

fn info() -> Implementation {
    Implementation::new("testkit", "1")
}
