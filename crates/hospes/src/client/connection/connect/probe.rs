//! The search for the revision that a server speaks, and the description of a failed one.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use bytes::Bytes;
use hospes_model::{
    ClientStamp, DiscoverResult, Implementation, InitializeParams, InitializeResult, Method, PeerResult,
    RawJson, Reply, Revision, TASKS_EXTENSION, meta_key,
};
use hospes_proto::era::{
    NegotiatedRevision, Negotiation, NegotiationError, NegotiationOutcome, NegotiationStep, PROBE_TIMEOUT,
    ResponseWait,
};
use hospes_proto::session::client::TimeLimits;
use tokio::time::Instant;

use crate::client::connection::core::{ClientCore, ServerDescription};
use crate::client::connection::handle::Client;
use crate::client::connection::parked_calls::ParkedCalls;
use crate::client::connection::settings::ClientSettings;
use crate::client::connection::task_state::ServerTaskState;
use crate::client::error::{CallError, ConnectAttempt, ConnectError, ConnectStage};
use crate::client::inbound::dispatcher::InboundDispatcher;
use crate::client::link::Link;
use crate::client::link::NegotiatedProtocol;
use crate::client::link::{LinkEvent, OutgoingParams, OutgoingRequest, json_members};

/// Begin of the description of a failure without an answer.
pub(super) const SILENCE: &str = "no response from the server";

/// A connection whose revision is not known yet.
pub(super) struct RevisionProbe<'s> {
    pub(super) settings: &'s ClientSettings,
    pub(super) shown: String,
    pub(super) negotiation: Negotiation,
    began: Instant,
    pub(super) tried: Vec<ConnectAttempt>,
    server: ServerDescription,
    /// Time spent on authorization. It is not counted against the server.
    away: Duration,
    /// Error of the last failed step.
    pub(super) last: Option<CallError>,
}

impl<'s> RevisionProbe<'s> {
    pub(super) fn new(settings: &'s ClientSettings, shown: String) -> Self {
        Self {
            settings,
            shown,
            negotiation: Negotiation::new(settings.revision, settings.era),
            began: Instant::now(),
            tried: Vec::new(),
            server: ServerDescription::default(),
            away: Duration::ZERO,
            last: None,
        }
    }

    pub(super) fn remaining_time(&self) -> Duration {
        self.settings.connect_timeout.saturating_sub(self.began.elapsed().saturating_sub(self.away))
    }

    fn step_timeout(&self, patience: ResponseWait) -> Duration {
        let left = self.remaining_time();
        match patience {
            // Something must be left for those who say nothing to what they do not know.
            ResponseWait::Probe => PROBE_TIMEOUT.min(left / 2),
            ResponseWait::Half => left / 2,
            ResponseWait::Full => left,
        }
    }

    /// Asks until a step is no question to this link: it has to be replaced, or it is agreed, or it failed.
    pub(super) async fn run_steps(&mut self, link: &dyn Link) -> NegotiationStep {
        loop {
            let step = self.negotiation.poll_step().clone();
            let (method, revision, patience) = match step {
                NegotiationStep::Discover { revision, patience } => (Method::Discover, revision, patience),
                NegotiationStep::Initialize { revision, patience } => {
                    (Method::Initialize, revision, patience)
                }
                other => return other,
            };
            let began = Instant::now();
            let patience = self.step_timeout(patience);
            let outcome = match send_probe(self.settings, link, &method, revision, patience).await {
                Ok(answer) => self.interpret_answer(&method, &answer),
                Err(error) => {
                    let outcome = outcome_of(&error);
                    self.last = Some(error);
                    outcome
                }
            };
            self.away = link.authorization_time();
            let said = match &outcome {
                NegotiationOutcome::Discovered(versions) => format!("speaks {}", versions.join(", ")),
                NegotiationOutcome::Initialized(version) => format!("speaks {version}"),
                NegotiationOutcome::Silence => format!("no answer within {patience:.1?}"),
                _ => self.last.as_ref().map_or_else(String::new, ToString::to_string),
            };
            tracing::debug!(%method, %revision, outcome = %said, "negotiated the protocol revision with the server");
            self.tried.push(ConnectAttempt::new(format!("{method} ({revision})"), said, began.elapsed()));
            self.negotiation.handle_outcome(outcome);
        }
    }

    fn interpret_answer(&mut self, method: &Method, raw: &RawJson) -> NegotiationOutcome {
        let answer = PeerResult::decode(method, revision_of(method), raw);
        match answer {
            Ok(PeerResult::Complete(Reply::Discover(result))) => {
                let supported = result.supported_versions.clone();
                self.server = description_from_discover(*result);
                NegotiationOutcome::Discovered(supported)
            }
            Ok(PeerResult::Complete(Reply::Initialize(result))) => {
                let version = result.protocol_version.clone();
                self.server = description_from_initialize(*result);
                NegotiationOutcome::Initialized(version)
            }
            Ok(_) => NegotiationOutcome::Status(200),
            Err(error) => {
                self.last = Some(crate::client::error::malformed(method, &error.to_string()));
                NegotiationOutcome::Status(200)
            }
        }
    }

    /// Returns true if the last request ended because the connection closed.
    #[cfg(feature = "stdio")]
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.last, Some(CallError::Closed(_)))
    }

    /// The failure where a server would have to be started again that was not started by us.
    pub(super) fn into_respawn_error(self) -> ConnectError {
        let silent = matches!(self.last, Some(CallError::Timeout { .. }));
        self.into_error(if silent { &NegotiationError::Silent } else { &NegotiationError::Exited })
    }

    /// Returns the stage of a failure, what happened, and a hint if there is one.
    fn describe_failure(&self, failure: &NegotiationError) -> (ConnectStage, String, Option<String>) {
        let asked = match self.tried.last() {
            Some(attempt) if attempt.what.starts_with(Method::Discover.name()) => ConnectStage::Discover,
            _ => ConnectStage::Initialize,
        };
        match failure {
            NegotiationError::NothingInCommon(theirs) => (
                ConnectStage::Negotiate,
                format!("no common protocol revision: the server supports {}", theirs.join(", ")),
                self.settings
                    .revision
                    .map(|pin| format!("revision {pin} is pinned; remove the pin to allow any revision")),
            ),
            NegotiationError::Refused(error) => (asked, format!("the server answered: {error}"), None),
            NegotiationError::Silent => (
                asked,
                format!("{SILENCE} within {:.1?}", self.began.elapsed()),
                Some("is it an MCP server? If it is only slow to start, set a longer connect_timeout".into()),
            ),
            NegotiationError::Exited => (
                asked,
                match &self.last {
                    Some(CallError::Closed(closed)) => closed.what.clone(),
                    _ => "the server exited".into(),
                },
                (!self.negotiation.is_over_sse())
                    .then(|| "run the command manually to see why it ends".into()),
            ),
            NegotiationError::Unauthorized(status) => (
                ConnectStage::Http,
                match &self.last {
                    #[cfg(feature = "http")]
                    Some(CallError::NotAuthorized(why)) => why.what.clone(),
                    _ => format!("the server answered with status {status}: authentication required"),
                },
                match &self.last {
                    #[cfg(feature = "http")]
                    Some(CallError::NotAuthorized(why)) => why.hint.clone(),
                    _ => Some("set an Authorization header".into()),
                },
            ),
            NegotiationError::NoTransport(status) => (
                ConnectStage::Http,
                match &self.last {
                    Some(CallError::Http(failure)) if failure.status != Some(*status) => failure.what.clone(),
                    _ => format!("the server answered with status {status}: not an MCP endpoint"),
                },
                Some("is the path correct? It is often /mcp, or /sse for older servers".into()),
            ),
            NegotiationError::Unreachable => (
                ConnectStage::Tcp,
                self.last.as_ref().map_or_else(String::new, ToString::to_string),
                Some("is the server running, and are host and port correct?".into()),
            ),
            NegotiationError::Status(0) => (
                ConnectStage::Http,
                self.last.as_ref().map_or_else(String::new, ToString::to_string),
                Some("is it an HTTP server?".into()),
            ),
            NegotiationError::Status(status) => match &self.last {
                Some(CallError::Http(failure)) => (ConnectStage::Http, failure.what.clone(), None),
                None => (ConnectStage::Http, format!("the server answered with status {status}"), None),
                // There was an answer, but not to what was asked.
                Some(error) => (asked, error.to_string(), None),
            },
        }
    }

    /// The whole story of a failure.
    pub(super) fn into_error(self, failure: &NegotiationError) -> ConnectError {
        let (stage, what, hint) = self.describe_failure(failure);
        let error = ConnectError::new(self.shown, stage, what);
        let error = match &self.last {
            Some(last) => error.with_cause(last),
            None => error,
        };
        let tried = self.tried;
        error.with(|failure| {
            failure.tried = tried;
            failure.hint = hint;
        })
    }
}

fn revision_of(method: &Method) -> Revision {
    if *method == Method::Discover { Revision::LATEST } else { Revision::LATEST_LEGACY }
}

pub(super) fn outcome_of(error: &CallError) -> NegotiationOutcome {
    match error {
        CallError::Rpc(error) => NegotiationOutcome::Error(error.clone()),
        CallError::Timeout { .. } => NegotiationOutcome::Silence,
        CallError::Closed(_) => NegotiationOutcome::Exited,
        CallError::Http(failure)
            if matches!(failure.stage, ConnectStage::Dns | ConnectStage::Tcp | ConnectStage::Tls) =>
        {
            NegotiationOutcome::Unreachable
        }
        CallError::Http(failure) => NegotiationOutcome::Status(failure.status.unwrap_or_default()),
        #[cfg(feature = "http")]
        CallError::NotAuthorized(why) => {
            NegotiationOutcome::Status(why.status.map_or(401, |status| status.as_u16()))
        }
        _ => NegotiationOutcome::Status(200),
    }
}

async fn send_probe(
    settings: &ClientSettings,
    link: &dyn Link,
    method: &Method,
    revision: Revision,
    patience: Duration,
) -> Result<RawJson, CallError> {
    // Both limits, so that progress cannot stretch the negotiation.
    let limits = TimeLimits { timeout: Some(patience), max_timeout: Some(patience) };
    let speech = build_protocol(settings, revision);
    let params;
    let mut outgoing = OutgoingRequest::new(method, limits);
    if *method == Method::Initialize {
        let capabilities = settings.capabilities.for_revision(revision).into_owned();
        let info = settings.info.for_revision(revision).into_owned();
        params = json_members(&InitializeParams::new(revision.as_str(), capabilities, info))?;
        outgoing.members = OutgoingParams::Text(&params);
    }
    let mut call = link.open(&outgoing, &speech).await?;
    loop {
        if let LinkEvent::Done(outcome) = std::future::poll_fn(|cx| call.poll_event(cx)).await {
            return outcome;
        }
    }
}

/// Builds the `_meta` members that every request carries in this revision.
fn build_protocol(settings: &ClientSettings, revision: Revision) -> NegotiatedProtocol {
    let stamp = if revision.is_legacy() {
        Bytes::new()
    } else {
        let stamp = ClientStamp::new(&settings.capabilities, Some(&settings.info));
        Bytes::copy_from_slice(stamp.members().as_bytes())
    };
    NegotiatedProtocol { revision, stamp }
}

/// Builds the `_meta` members of a request that may be answered with a task (TSKX-01).
pub(crate) fn build_task_protocol(settings: &ClientSettings, revision: Revision) -> NegotiatedProtocol {
    let mut settings = settings.clone();
    settings.capabilities.extensions.insert(TASKS_EXTENSION.to_owned(), RawJson::empty_object());
    build_protocol(&settings, revision)
}

fn description_from_discover(result: DiscoverResult) -> ServerDescription {
    ServerDescription {
        info: result.meta.read::<Implementation>(meta_key::SERVER_INFO),
        capabilities: Some(result.capabilities),
        instructions: result.instructions,
        supported: result.supported_versions,
    }
}

fn description_from_initialize(result: InitializeResult) -> ServerDescription {
    ServerDescription {
        info: Some(result.server_info),
        capabilities: Some(result.capabilities),
        instructions: result.instructions,
        supported: vec![result.protocol_version],
    }
}

/// The last step: from here on it is a client.
pub(super) async fn build_client(
    probing: RevisionProbe<'_>,
    agreed: NegotiatedRevision,
    link: Box<dyn Link>,
    dispatcher: Arc<InboundDispatcher>,
) -> Client {
    let speech = build_protocol(probing.settings, agreed.revision);
    // Before `initialized` is sent: the server may ask at once after it.
    dispatcher.set_revision(agreed.revision);
    link.start_session(&speech).await;
    let core = ClientCore {
        link,
        dispatcher,
        settings: probing.settings.clone(),
        protocol: speech,
        server: probing.server,
        over_sse: probing.negotiation.is_over_sse(),
        // No position in `LoggingLevel::ALL`: no level was asked for.
        log_level: AtomicU8::new(u8::MAX),
        parked: ParkedCalls::default(),
        tasks: ServerTaskState::default(),
        subscribing: tokio::sync::Mutex::new(()),
    };
    Client::new(core)
}

/// Finds the revision over a link that cannot be replaced.
pub(super) async fn negotiate_fixed_link(
    mut probing: RevisionProbe<'_>,
    link: Box<dyn Link>,
    dispatcher: Arc<InboundDispatcher>,
) -> Result<Client, ConnectError> {
    match probing.run_steps(&*link).await {
        NegotiationStep::Agreed(agreed) => Ok(build_client(probing, agreed, link, dispatcher).await),
        NegotiationStep::Failed(failure) => Err(probing.into_error(&failure)),
        // There is no process to start again. `ask` deals with the rest.
        _ => Err(probing.into_respawn_error()),
    }
}
