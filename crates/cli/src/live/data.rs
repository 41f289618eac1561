//! The state of the host that the screen shows, gathered at one moment.

use std::sync::Arc;
use std::time::Duration;

use hospes_host::approvals::Approval;
use hospes_host::upstream::{UpstreamState, UpstreamStatus};
use hospes_host::{CallSnapshot, FileProblem, HostServers, PolicyEnforcer, ServerCalls};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::approve::sentence;
use crate::commands::up::UsedFiles;
use crate::mistake_text::named_commands;
use crate::screen_log::{self, LogLine};
use crate::shown_commands::shown_command;

/// Maximum number of running, and of ended, calls that are gathered.
const MAX_CALLS: usize = 100;
/// Maximum number of lines of the log that are gathered.
const MAX_LOG_LINES: usize = 200;

/// The host, as far as the screen shows it.
#[derive(Debug)]
pub(crate) struct LiveSources {
    servers: HostServers,
    guard: Option<Arc<PolicyEnforcer>>,
    calls: Option<watch::Receiver<u64>>,
    approvals: Option<watch::Receiver<u64>>,
    /// Number of log lines at the last look.
    log_count: u64,
    endpoint: String,
    notice: Vec<String>,
    files: UsedFiles,
}

impl LiveSources {
    /// Begins to watch a host. The notice stands above the servers for as long as no configuration file is used.
    pub(crate) fn new(
        host: &hospes_host::Host,
        endpoint: String,
        (notice, files): (Vec<String>, UsedFiles),
    ) -> Self {
        let guard = host.guard().cloned();
        Self {
            servers: host.servers(),
            calls: guard.as_ref().map(|guard| guard.activity().watch()),
            approvals: guard.as_ref().map(|guard| guard.approvals().subscribe()),
            guard,
            log_count: 0,
            endpoint,
            notice,
            files,
        }
    }

    /// Returns true if there may be something new since the last call. The servers are not asked here, because only a
    /// task can wait for their changes.
    pub(super) fn has_changed(&mut self) -> bool {
        let mut has_changed = false;
        for changes in self.calls.iter_mut().chain(&mut self.approvals) {
            if changes.has_changed().unwrap_or(false) {
                changes.mark_unchanged();
                has_changed = true;
            }
        }
        let count = screen_log::count();
        has_changed | (std::mem::replace(&mut self.log_count, count) != count)
    }

    /// Gathers the state. `shown_server` is the server whose log is wanted, too.
    pub(super) fn gather(&self, shown_server: Option<&str>) -> LiveData {
        let status = self.servers.status();
        let waiting = self.guard.as_ref().map(|guard| guard.approvals().pending()).unwrap_or_default();
        let calls = self.guard.as_ref().map(|guard| guard.activity().snapshot(MAX_CALLS));
        let rules = match (status.without_policy, status.preset) {
            (true, _) => "none".to_owned(),
            (_, Some(preset)) => format!("preset {preset}"),
            _ => "policy".to_owned(),
        };
        let notice = if self.files.current().is_empty() { self.notice.clone() } else { Vec::new() };
        LiveData {
            now: Timestamp::now(),
            version: status.version,
            endpoint: self.endpoint.clone(),
            uptime: Duration::from_millis(status.uptime_ms),
            rules,
            notice,
            profiles: status.profiles.into_iter().map(|profile| profile.name).collect(),
            problem: status.record_problem,
            file_problems: status.file_problems,
            waiting: waiting.iter().map(WaitingRow::of).collect(),
            servers: status.servers,
            left_out: status.left_out.into_iter().map(LeftOutServer::new).collect(),
            calls: calls.unwrap_or_default(),
            log: screen_log::last_lines(MAX_LOG_LINES),
            server_log: shown_server
                .map(|server| screen_log::server_lines(server, MAX_LOG_LINES))
                .unwrap_or_default(),
        }
    }
}

/// The state of the host at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveData {
    pub(crate) now: Timestamp,
    pub(crate) version: String,
    pub(crate) endpoint: String,
    pub(crate) uptime: Duration,
    pub(crate) rules: String,
    /// Lines for somebody who has just begun.
    pub(crate) notice: Vec<String>,
    /// Names of the profiles, each with an endpoint of its own.
    pub(crate) profiles: Vec<String>,
    /// Problem with the audit log.
    pub(crate) problem: Option<String>,
    /// Followed files with mistakes.
    pub(crate) file_problems: Vec<FileProblem>,
    pub(crate) waiting: Vec<WaitingRow>,
    pub(crate) servers: Vec<UpstreamStatus>,
    /// Servers of the configuration that were not started.
    pub(crate) left_out: Vec<LeftOutServer>,
    pub(crate) calls: CallSnapshot,
    /// Printed lines, the oldest first.
    pub(crate) log: Vec<LogLine>,
    /// The log of the selected server.
    pub(crate) server_log: Vec<LogLine>,
}

/// A pending approval.
#[derive(Clone, Debug)]
pub(crate) struct WaitingRow {
    pub(crate) sentence: String,
    pub(crate) expires_at: Timestamp,
}

impl WaitingRow {
    fn of(approval: &Approval) -> Self {
        Self { sentence: sentence(approval), expires_at: approval.expires_at }
    }
}

/// A server of the configuration that was not started.
#[derive(Clone, Debug)]
pub(crate) struct LeftOutServer {
    pub(crate) name: String,
    /// Mistakes of its entry, each on a line, or `disabled`.
    pub(crate) reason: String,
}

impl LeftOutServer {
    fn new((name, reason): (String, String)) -> Self {
        Self { name, reason }
    }

    /// Returns true if the configuration disables the server, which is no mistake.
    pub(crate) fn is_disabled(&self) -> bool {
        self.reason == "disabled"
    }

    /// Returns the command that mends it: the one that its mistake names, or the one that explains it.
    pub(crate) fn mend(&self) -> Option<String> {
        let named = || named_commands(&self.reason).into_iter().next();
        (!self.is_disabled()).then(|| named().unwrap_or_else(|| shown_command("doctor", &self.name)))
    }
}

/// A row of the list of servers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServerRow<'a> {
    Configured(&'a UpstreamStatus),
    LeftOut(&'a LeftOutServer),
}

impl<'a> ServerRow<'a> {
    pub(crate) fn name(self) -> &'a str {
        match self {
            Self::Configured(server) => &server.name,
            Self::LeftOut(server) => &server.name,
        }
    }
}

impl LiveData {
    /// Returns all servers, those that were not started last.
    pub(crate) fn server_rows(&self) -> impl Iterator<Item = ServerRow<'_>> {
        let left_out = self.left_out.iter().map(ServerRow::LeftOut);
        self.servers.iter().map(ServerRow::Configured).chain(left_out)
    }

    /// Returns the statistics of a server, if it was called.
    pub(crate) fn calls_of(&self, server: &str) -> Option<&ServerCalls> {
        self.calls.servers.iter().find(|calls| calls.name == server)
    }
}

/// Returns the command that mends a server, or shows how. `None` if nothing is wrong with it.
pub(crate) fn mend(server: &UpstreamStatus) -> Option<String> {
    let is_well = matches!(server.state, UpstreamState::Ready | UpstreamState::Starting);
    if is_well && server.warnings.is_empty() && !server.waits_for_review() {
        return None;
    }
    if server.waits_for_review() {
        return Some(shown_command("pins show", &server.name));
    }
    // A hint names its command between backticks.
    let named = server.hint.as_deref().and_then(|hint| named_commands(hint).into_iter().next());
    Some(named.unwrap_or_else(|| shown_command("doctor", &server.name)))
}
