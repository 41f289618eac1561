//! Status of a server, for people and programs.

use hospes_store::pins::ItemKind;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::phase::{ReadyConnection, UpstreamPhase};
use crate::server::{BlockReason, DefinitionGate, ServerProcess, UpstreamServer};

/// State of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum UpstreamState {
    /// Connecting.
    Starting,
    /// Connected.
    Ready,
    /// Not connected; it is tried again soon.
    Retrying,
    /// Not connected after many tries; it is tried only rarely.
    Failed,
    /// Not started until a person has accepted it.
    Withheld,
    /// Stopped, because it is no longer needed.
    Stopped,
}

impl UpstreamState {
    /// Returns the name of the state.
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

/// Beginning of the warning about a server that prints other text than messages. The first line of it follows.
pub const NOISE_WARNING: &str = "the server prints other text to stdout, where only messages may be";

/// Status of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpstreamStatus {
    /// Name of the server in the configuration.
    pub name: String,
    /// The command, URL or built-in server, without secrets.
    pub target: String,
    /// Transport: `stdio`, `http` or `builtin`.
    #[serde(default)]
    pub transport: String,
    /// State of the server.
    pub state: UpstreamState,
    /// The revision that is spoken with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The name it gives itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub implementation: Option<String>,
    /// Number of tools.
    pub tools: usize,
    /// Number of prompts.
    pub prompts: usize,
    /// Number of resources.
    pub resources: usize,
    /// Number of resource templates.
    pub templates: usize,
    /// Time in the current state, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// Number of failures in a row.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// Time until the next attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_try_ms: Option<u64>,
    /// Reason the server is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Suggested remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// True if the server requires a sign-in, and there are no tokens for it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub needs_sign_in: bool,
    /// True if the server is connected and a person has to review it before any of its tools can be called.
    #[serde(default, skip_serializing_if = "is_false")]
    pub needs_review: bool,
    /// Other problems: lists that cannot be read, results that do not fit their schema, tools that are not listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Number of connections to the server.
    #[serde(default)]
    pub connections: usize,
    /// Address of the node of a fleet that runs the server, if this one does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Last launch of the server's process, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ServerProcess>,
    /// Folders reported to the server as roots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
    /// The extensions of the protocol that it declares, by identifier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Number of users with connections, if each user has an account of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<usize>,
}

impl UpstreamStatus {
    /// Returns true if nothing of the server can be used until a person has reviewed it, be it connected or not.
    #[must_use]
    pub fn waits_for_review(&self) -> bool {
        self.needs_review || self.state == UpstreamState::Withheld
    }

    /// Returns the word for the state, for people.
    #[must_use]
    pub fn state_word(&self) -> &'static str {
        if self.waits_for_review() { "waits for review" } else { self.state.as_str() }
    }

    /// Returns the status of a server with per-user accounts, which connects when a user arrives.
    pub(crate) fn per_user(server: &UpstreamServer, users: usize) -> Self {
        let mut status = Self::of(server, &UpstreamPhase::Stopped);
        (status.state, status.connections, status.users) = (UpstreamState::Ready, users, Some(users));
        status
    }

    pub(crate) fn of(server: &UpstreamServer, phase: &UpstreamPhase) -> Self {
        let mut status = Self {
            name: server.label(),
            target: server.shown.clone(),
            transport: server.transport.to_owned(),
            state: UpstreamState::Stopped,
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
            needs_sign_in: false,
            needs_review: false,
            warnings: Vec::new(),
            connections: 0,
            node: None,
            process: None,
            roots: Vec::new(),
            extensions: Vec::new(),
            users: None,
        };
        let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).ok();
        match phase {
            UpstreamPhase::Starting { since, failures, .. } => {
                status.state = UpstreamState::Starting;
                status.since_ms = millis(since.elapsed());
                status.failures = *failures;
            }
            UpstreamPhase::Ready(live) => {
                status.state = UpstreamState::Ready;
                status.since_ms = millis(live.since.elapsed());
                status.warnings = live.listing.problems.iter().map(ToString::to_string).collect();
                status.warnings.extend(live.results.warnings());
                let noise = (live.connection.noise)();
                status.warnings.extend(noise.map(|line| format!("{NOISE_WARNING}: {line}")));
                // Another list may be open to everybody.
                let missing = (live.connection.missing_sign_in)().filter(|_| live.listing.lost() > 0);
                status.needs_sign_in = missing.is_some();
            }
            UpstreamPhase::Waiting { until, failures, problem, quarantined, .. } => {
                // The supervisor marks withheld servers as quarantined, too, so that is asked first.
                status.state = match problem.withheld {
                    true => UpstreamState::Withheld,
                    false if *quarantined => UpstreamState::Failed,
                    false => UpstreamState::Retrying,
                };
                status.failures = *failures;
                status.next_try_ms = millis(until.saturating_duration_since(Instant::now()));
                status.problem = Some(problem.message.to_string());
                status.hint = problem.hint.as_deref().map(str::to_owned);
                status.needs_sign_in = problem.needs_sign_in;
            }
            UpstreamPhase::Stopped => {}
        }
        if status.state == UpstreamState::Withheld {
            // It has not failed, and what is next is a look at the decision and not at the server.
            (status.next_try_ms, status.failures) = (None, 0);
        } else if phase.offers().is_some()
            && let Some(warning) = server.gate.as_ref().and_then(|gate| gate.warning())
        {
            status.warnings.push(warning);
        }
        if let UpstreamPhase::Ready(live) = phase {
            status.needs_review = server.gate.as_ref().is_some_and(|gate| needs_review(gate.as_ref(), live));
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

/// Returns true if the whole server, or each of its tools, waits for a person.
fn needs_review(gate: &dyn DefinitionGate, live: &ReadyConnection) -> bool {
    match gate.server_block_reason() {
        Some(BlockReason::Unreadable(_)) => return false,
        Some(_) => return true,
        None => {}
    }
    // Tools that the configuration leaves out are not offered.
    let reason = |name: &str| gate.item_block_reason(&live.hashes, ItemKind::Tool, name);
    let tools = live.listing.tools.iter().filter_map(|tool| match reason(&tool.name) {
        Some(BlockReason::NotOffered) => None,
        reason => Some(reason),
    });
    let mut tools = tools.peekable();
    tools.peek().is_some() && tools.all(|why| matches!(why, Some(BlockReason::New | BlockReason::Changed)))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
