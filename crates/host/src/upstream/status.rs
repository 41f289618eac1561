//! How a server is, for people and programs.

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::line::Server;
use super::phase::Phase;
use super::process::Process;

/// How a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum State {
    /// Being connected.
    Starting,
    /// Connected.
    Ready,
    /// Not connected; it is tried again soon.
    Retrying,
    /// Not connected after many tries; it is tried only rarely.
    Failed,
    /// Not started until a person has accepted it.
    Withheld,
    /// Not wanted any more.
    Stopped,
}

impl State {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Retrying => "retrying",
            Self::Failed => "failed",
            Self::Withheld => "withheld",
            Self::Stopped => "stopped",
        }
    }
}

/// A server's state with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpstreamStatus {
    /// What the operator calls it.
    pub name: String,
    /// The command, URL or built-in server, without secrets.
    pub target: String,
    /// How it is reached: `stdio`, `http` or `builtin`.
    #[serde(default)]
    pub transport: String,
    /// How it is.
    pub state: State,
    /// The revision that is spoken with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The name it gives itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// How many tools it offers.
    pub tools: usize,
    /// How many prompts it offers.
    pub prompts: usize,
    /// How many resources it offers.
    pub resources: usize,
    /// How many templates of resources it offers.
    pub templates: usize,
    /// How long it has been as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// How often it failed in a row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_ms: Option<u64>,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What else is wrong with it: lists that cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How many connections there are to it.
    #[serde(default)]
    pub connections: usize,
    /// How its process was started the last time, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// The folders that it is told of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
    /// The extensions of the protocol that it declares, by identifier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// How many users there are connections for, where each has an account of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<usize>,
}

impl UpstreamStatus {
    /// That of a server at which each user has an account: it stands by for whoever comes.
    pub(crate) fn per_user(server: &Server, users: usize) -> Self {
        let mut status = Self::of(server, &Phase::Stopped);
        (status.state, status.connections, status.users) = (State::Ready, users, Some(users));
        status
    }

    pub(crate) fn of(server: &Server, phase: &Phase) -> Self {
        let mut status = Self {
            name: server.name.to_string(),
            target: server.shown.clone(),
            transport: server.transport.to_owned(),
            state: State::Stopped,
            revision: None,
            implementation: None,
            tools: 0,
            prompts: 0,
            resources: 0,
            templates: 0,
            since_ms: None,
            failures: 0,
            next_try_ms: None,
            problem: None,
            hint: None,
            warnings: Vec::new(),
            connections: 0,
            process: None,
            roots: Vec::new(),
            extensions: Vec::new(),
            users: None,
        };
        let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).ok();
        match phase {
            Phase::Starting { since, failures, .. } => {
                status.state = State::Starting;
                status.since_ms = millis(since.elapsed());
                status.failures = *failures;
            }
            Phase::Ready(live) => {
                status.state = State::Ready;
                status.since_ms = millis(live.since.elapsed());
                status.warnings = live.listing.problems.iter().map(ToString::to_string).collect();
                status.warnings.extend(live.results.warnings());
            }
            Phase::Waiting { until, failures, problem, quarantined, .. } => {
                status.state = match problem.withheld {
                    true => State::Withheld,
                    false if *quarantined => State::Failed,
                    false => State::Retrying,
                };
                status.failures = *failures;
                status.next_try_ms = millis(until.saturating_duration_since(Instant::now()));
                status.problem = Some(problem.message.to_string());
                status.hint = problem.hint.as_deref().map(str::to_owned);
            }
            Phase::Stopped => {}
        }
        if status.state == State::Withheld {
            (status.next_try_ms, status.failures) = (None, 0);
        } else if phase.offers().is_some()
            && let Some(warning) = server.gate.as_ref().and_then(|gate| gate.warning())
        {
            status.warnings.push(warning);
        }
        if let Some(live) = phase.offers() {
            status.revision = Some(live.revision().to_string());
            status.implementation = live.implementation().map(|who| match who.version.as_str() {
                "" => who.name.clone(),
                version => format!("{} {version}", who.name),
            });
            status.extensions = live.capabilities().extensions.keys().cloned().collect();
            status.tools = live.listing.tools.len();
            status.prompts = live.listing.prompts.len();
            status.resources = live.listing.resources.len();
            status.templates = live.listing.templates.len();
        }
        status
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
