//! From a target to a client: start or reach the server, find the revision to speak, and say exactly what failed.

#[cfg(feature = "stdio")]
mod child;
#[cfg(feature = "http")]
mod http;
mod streams;

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::time::Duration;

use bytes::Bytes;
use hospes_model::{
    Answer, ClientStamp, DiscoverResult, Implementation, InitializeParams, InitializeResult, Method,
    Notification, RawJson, Reply, Revision, TASKS_EXTENSION, meta_key,
};
use hospes_proto::era::{Agreed, Failure, Negotiation, Outcome, PROBE_PATIENCE, Patience, Step};
use hospes_proto::session::client::TimeLimits;
use tokio::time::Instant;

use super::Client;
use super::builder::ClientBuilder;
use super::core::{Core, Link, ServerFacts, Speech};
use super::desk::Desk;
use super::error::{Attempt, CallError, ConnectError, Stage};
use super::link::{Exchange as _, LinkEvent, Members, Outgoing};
use super::parked::Parked;
use super::settings::Settings;
use super::target::Target;
use super::tasks::TaskFacts;

pub(super) use streams::{connect as connect_streams, dial};

pub(super) async fn connect(builder: ClientBuilder, target: Target) -> Result<Client, ConnectError> {
    let shown = target.to_string();
    match target {
        #[cfg(feature = "stdio")]
        Target::Command(command) => child::connect(builder, &command, shown).await,
        #[cfg(feature = "http")]
        Target::Url(url) => http::connect(builder, &url, shown).await,
        Target::Invalid { why, .. } => Err(ConnectError::new(shown, Stage::Target, why)),
        #[allow(unreachable_patterns, reason = "which targets are left depends on the features")]
        _ => Err(ConnectError::new(shown, Stage::Target, "this transport is not built in")),
    }
}

/// A connection whose revision is not known yet.
struct Probing<'s> {
    settings: &'s Settings,
    shown: String,
    negotiation: Negotiation,
    began: Instant,
    tried: Vec<Attempt>,
    server: ServerFacts,
    /// Time spent on authorization. It is not counted against the server.
    away: Duration,
    /// Error of the last failed step.
    last: Option<CallError>,
}

impl<'s> Probing<'s> {
    fn new(settings: &'s Settings, shown: String) -> Self {
        Self {
            settings,
            shown,
            negotiation: Negotiation::new(settings.revision, settings.era),
            began: Instant::now(),
            tried: Vec::new(),
            server: ServerFacts::default(),
            away: Duration::ZERO,
            last: None,
        }
    }

    fn left(&self) -> Duration {
        self.settings.connect_timeout.saturating_sub(self.began.elapsed().saturating_sub(self.away))
    }

    fn patience(&self, patience: Patience) -> Duration {
        let left = self.left();
        match patience {
            // Something must be left for those who say nothing to what they do not know.
            Patience::Probe => PROBE_PATIENCE.min(left / 2),
            Patience::Half => left / 2,
            Patience::Full => left,
        }
    }

    /// Asks until a step is no question to this link: it has to be replaced, or it is agreed, or it failed.
    async fn ask(&mut self, link: &Link) -> Step {
        loop {
            let step = self.negotiation.poll_step().clone();
            let (method, revision, patience) = match step {
                Step::Discover { revision, patience } => (Method::Discover, revision, patience),
                Step::Initialize { revision, patience } => (Method::Initialize, revision, patience),
                other => return other,
            };
            let began = Instant::now();
            let patience = self.patience(patience);
            let outcome = match ask_once(self.settings, link, &method, revision, patience).await {
                Ok(answer) => self.understand(&method, &answer),
                Err(error) => {
                    let outcome = outcome_of(&error);
                    self.last = Some(error);
                    outcome
                }
            };
            self.away = link.away();
            let said = match &outcome {
                Outcome::Discovered(versions) => format!("speaks {}", versions.join(", ")),
                Outcome::Initialized(version) => format!("speaks {version}"),
                Outcome::Silence => format!("no answer within {patience:.1?}"),
                _ => self.last.as_ref().map_or_else(String::new, ToString::to_string),
            };
            tracing::debug!(%method, %revision, outcome = %said, "asked the server what it speaks");
            self.tried.push(Attempt::new(format!("{method} ({revision})"), said, began.elapsed()));
            self.negotiation.handle_outcome(outcome);
        }
    }

    fn understand(&mut self, method: &Method, raw: &RawJson) -> Outcome {
        let answer = Answer::decode(method, revision_of(method), raw);
        match answer {
            Ok(Answer::Complete(Reply::Discover(result))) => {
                let supported = result.supported_versions.clone();
                self.server = facts_of_discover(*result);
                Outcome::Discovered(supported)
            }
            Ok(Answer::Complete(Reply::Initialize(result))) => {
                let version = result.protocol_version.clone();
                self.server = facts_of_initialize(*result);
                Outcome::Initialized(version)
            }
            Ok(_) => Outcome::Status(200),
            Err(error) => {
                self.last = Some(super::core::malformed(method, &error.to_string()));
                Outcome::Status(200)
            }
        }
    }

    /// Returns true if the last request ended because the connection closed.
    fn is_closed(&self) -> bool {
        matches!(self.last, Some(CallError::Closed(_)))
    }

    /// The failure where a server would have to be started again that was not started by us.
    fn gave_up(self) -> ConnectError {
        let silent = matches!(self.last, Some(CallError::Timeout { .. }));
        self.failure(if silent { &Failure::Silent } else { &Failure::Exited })
    }

    /// The whole story of a failure.
    fn failure(self, failure: &Failure) -> ConnectError {
        let asked = match self.tried.last() {
            Some(attempt) if attempt.what.starts_with(Method::Discover.name()) => Stage::Discover,
            _ => Stage::Initialize,
        };
        let (stage, what, hint) = match failure {
            Failure::NothingInCommon(theirs) => (
                Stage::Negotiate,
                format!("no revision in common: the server speaks {}", theirs.join(", ")),
                self.settings
                    .revision
                    .map(|pin| format!("revision {pin} was pinned; leave that out to speak any")),
            ),
            Failure::Refused(error) => (asked, format!("the server answered: {error}"), None),
            Failure::Silent => (
                asked,
                format!("the server said nothing for {:.1?}", self.began.elapsed()),
                Some("is it an MCP server? If it is only slow to start, set a longer connect_timeout".into()),
            ),
            Failure::Exited => (
                asked,
                match &self.last {
                    Some(CallError::Closed(closed)) => closed.what.clone(),
                    _ => "the server ended".into(),
                },
                (!self.negotiation.over_sse()).then(|| "run the command by hand to see what it needs".into()),
            ),
            Failure::Unauthorized(status) => (
                Stage::Http,
                match &self.last {
                    #[cfg(feature = "http")]
                    Some(CallError::NotAuthorized(why)) => why.what.clone(),
                    _ => format!("the server answered with status {status}: it wants to know who is there"),
                },
                match &self.last {
                    #[cfg(feature = "http")]
                    Some(CallError::NotAuthorized(why)) => why.hint.clone(),
                    _ => Some("give it an Authorization header".into()),
                },
            ),
            Failure::NoTransport(status) => (
                Stage::Http,
                match &self.last {
                    Some(CallError::Http(failure)) if failure.status != Some(*status) => failure.what.clone(),
                    _ => format!("the server answered with status {status}: no MCP is spoken here"),
                },
                Some("is the path right? It often is /mcp, or /sse where the server is older".into()),
            ),
            Failure::Unreachable => (
                Stage::Tcp,
                self.last.as_ref().map_or_else(String::new, ToString::to_string),
                Some("is the server running, and are host and port right?".into()),
            ),
            Failure::Status(0) => (
                Stage::Http,
                self.last.as_ref().map_or_else(String::new, ToString::to_string),
                Some("is it an HTTP server?".into()),
            ),
            Failure::Status(status) => match &self.last {
                Some(CallError::Http(failure)) => (Stage::Http, failure.what.clone(), None),
                None => (Stage::Http, format!("the server answered with status {status}"), None),
                // There was an answer, but not to what was asked.
                Some(error) => (asked, error.to_string(), None),
            },
        };
        let error = ConnectError::new(self.shown, stage, what);
        let error = match &self.last {
            Some(last) => error.because(last),
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

fn outcome_of(error: &CallError) -> Outcome {
    match error {
        CallError::Rpc(error) => Outcome::Error(error.clone()),
        CallError::Timeout { .. } => Outcome::Silence,
        CallError::Closed(_) => Outcome::Exited,
        CallError::Http(failure) if matches!(failure.stage, Stage::Dns | Stage::Tcp | Stage::Tls) => {
            Outcome::Unreachable
        }
        CallError::Http(failure) => Outcome::Status(failure.status.unwrap_or_default()),
        #[cfg(feature = "http")]
        CallError::NotAuthorized(why) => Outcome::Status(why.status.map_or(401, |status| status.as_u16())),
        _ => Outcome::Status(200),
    }
}

async fn ask_once(
    settings: &Settings,
    link: &Link,
    method: &Method,
    revision: Revision,
    patience: Duration,
) -> Result<RawJson, CallError> {
    let limits = TimeLimits { timeout: Some(patience), max_timeout: Some(patience) };
    let speech = speech(settings, revision);
    let params;
    let mut outgoing = Outgoing::new(method, limits);
    if *method == Method::Initialize {
        let capabilities = settings.capabilities.for_revision(revision).into_owned();
        let info = settings.info.for_revision(revision).into_owned();
        params = members(&InitializeParams::new(revision.as_str(), capabilities, info))?;
        outgoing.members = Members::Text(&params);
    }
    let mut call = link.open(&outgoing, &speech).await?;
    loop {
        if let LinkEvent::Done(outcome) = std::future::poll_fn(|cx| call.poll_event(cx)).await {
            return outcome;
        }
    }
}

/// The members of a value, written out, without the braces.
pub(super) fn members<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, CallError> {
    let mut text = serde_json::to_vec(value).map_err(|error| CallError::Arguments(Arc::new(error)))?;
    text.pop();
    if !text.is_empty() {
        text.remove(0);
    }
    Ok(text)
}

/// Builds the `_meta` members that every request carries in this revision.
fn speech(settings: &Settings, revision: Revision) -> Speech {
    let stamp = if revision.is_legacy() {
        Bytes::new()
    } else {
        let stamp = ClientStamp::new(&settings.capabilities, Some(&settings.info));
        Bytes::copy_from_slice(stamp.members().as_bytes())
    };
    Speech { revision, stamp }
}

/// Builds the `_meta` members of a request that may be answered with a task (TSKX-01).
pub(super) fn speech_with_tasks(settings: &Settings, revision: Revision) -> Speech {
    let mut settings = settings.clone();
    settings.capabilities.extensions.insert(TASKS_EXTENSION.to_owned(), RawJson::empty_object());
    speech(&settings, revision)
}

fn facts_of_discover(result: DiscoverResult) -> ServerFacts {
    ServerFacts {
        info: result.meta.read::<Implementation>(meta_key::SERVER_INFO),
        capabilities: Some(result.capabilities),
        instructions: result.instructions,
        supported: result.supported_versions,
    }
}

fn facts_of_initialize(result: InitializeResult) -> ServerFacts {
    ServerFacts {
        info: Some(result.server_info),
        capabilities: Some(result.capabilities),
        instructions: result.instructions,
        supported: vec![result.protocol_version],
    }
}

/// The last step: from here on it is a client.
async fn ready(probing: Probing<'_>, agreed: Agreed, link: Link, desk: Arc<Desk>) -> Client {
    let speech = speech(probing.settings, agreed.revision);
    desk.agree(agreed.revision);
    match &link {
        Link::Duplex(duplex, _) => {
            duplex.agree(agreed.revision);
            if agreed.revision.is_legacy() {
                link.notify(&Notification::Initialized, &speech);
            }
        }
        #[cfg(feature = "http")]
        Link::Http(http) if agreed.revision.is_legacy() => http.opened(&speech).await,
        #[cfg(feature = "http")]
        Link::Http(_) => {}
    }
    let core = Core {
        link,
        desk,
        settings: probing.settings.clone(),
        speech,
        server: probing.server,
        over_sse: probing.negotiation.over_sse(),
        log_level: AtomicU8::new(u8::MAX),
        parked: Parked::default(),
        tasks: TaskFacts::default(),
        subscribing: tokio::sync::Mutex::new(()),
    };
    Client::new(core)
}

/// Finds the revision over a link that cannot be replaced.
async fn settle(mut probing: Probing<'_>, link: Link, desk: Arc<Desk>) -> Result<Client, ConnectError> {
    match probing.ask(&link).await {
        Step::Agreed(agreed) => Ok(ready(probing, agreed, link, desk).await),
        Step::Failed(failure) => Err(probing.failure(&failure)),
        // There is no process to start again. `ask` deals with the rest.
        _ => Err(probing.gave_up()),
    }
}
