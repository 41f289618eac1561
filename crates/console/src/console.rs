//! The console: the host that it shows, its sessions, and its settings.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use hospes_host::callers::ProgramTokenStore;
use hospes_host::deciders::DecisionSource;
use hospes_host::{ApprovalQueue, Host, HostServers, PinManager, PolicyEnforcer, Sampler};
use hospes_store::{AuditLog, AuditReader};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use crate::additions::RunningAdditions;
use crate::client_quota::ClientQuota;
use crate::environment::ConsoleEnvironment;
use crate::events::ConsoleEvents;
use crate::rule_undo::RuleUndo;
use crate::server_undo::ServerUndo;
use crate::sessions::{BrowserSessions, ConsoleLink, SessionLifetimes};
use crate::team::TeamConsole;

/// Default address of the console.
pub const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7338);

/// Maximum number of tool calls that people make at the console at the same time.
pub(crate) const MAX_PERSON_CALLS: usize = 8;

/// Maximum number of checks and sign-ins of pages at the same time.
pub(crate) const MAX_FOLLOWED_COMMANDS: usize = 4;

/// Settings for decisions: where they may be made, and the tokens of programs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeciderSettings {
    /// Source from which decisions are accepted.
    pub from: DecisionSource,
    /// Tokens of programs. Without them no token is valid.
    pub tokens: Option<ProgramTokenStore>,
}

impl DeciderSettings {
    /// Creates settings that accept decisions from this source, without tokens.
    #[must_use]
    pub fn new(from: DecisionSource) -> Self {
        Self { from, tokens: None }
    }

    /// Sets the tokens with which programs may decide.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Option<ProgramTokenStore>) -> Self {
        self.tokens = tokens;
        self
    }
}

/// The console of a host. Cheap to clone.
#[derive(Clone)]
pub struct Console(Arc<ConsoleInner>);

struct ConsoleInner {
    servers: HostServers,
    guard: Option<Arc<PolicyEnforcer>>,
    pins: Option<PinManager>,
    sampler: Option<Arc<Sampler>>,
    sessions: BrowserSessions,
    news: ConsoleEvents,
    streams: ClientQuota,
    deciders: DeciderSettings,
    environment: ConsoleEnvironment,
    person_calls: Arc<Semaphore>,
    commands: Arc<Semaphore>,
    rule_undo: Mutex<Option<RuleUndo>>,
    server_undo: Mutex<Option<ServerUndo>>,
    additions: RunningAdditions,
    /// Address of the listener, once it is listening.
    address: OnceLock<SocketAddr>,
}

impl Console {
    /// Creates the console of this host.
    #[must_use]
    pub fn new(host: &Host) -> Self {
        Self::with(host, SessionLifetimes::default(), DeciderSettings::default())
    }

    /// Creates the console of this host with the given lifetimes of links and sessions, and with the callers that may
    /// decide.
    #[must_use]
    pub fn with(host: &Host, lifetimes: SessionLifetimes, deciders: DeciderSettings) -> Self {
        Self::in_environment(host, lifetimes, deciders, ConsoleEnvironment::default())
    }

    /// Creates the console of this host as [`Console::with`], with what the program knows about the host.
    #[must_use]
    pub fn in_environment(
        host: &Host,
        lifetimes: SessionLifetimes,
        deciders: DeciderSettings,
        environment: ConsoleEnvironment,
    ) -> Self {
        let (sessions, news) = (BrowserSessions::new(lifetimes), ConsoleEvents::default());
        Self(Arc::new(ConsoleInner {
            servers: host.servers(),
            guard: host.guard().cloned(),
            pins: host.pins().cloned(),
            sampler: host.sampler().cloned(),
            sessions,
            news,
            streams: ClientQuota::new(environment.max_streams()),
            deciders,
            environment,
            person_calls: Arc::new(Semaphore::new(MAX_PERSON_CALLS)),
            commands: Arc::new(Semaphore::new(MAX_FOLLOWED_COMMANDS)),
            rule_undo: Mutex::default(),
            server_undo: Mutex::default(),
            additions: RunningAdditions::default(),
            address: OnceLock::new(),
        }))
    }

    /// Creates a link that signs in one browser. With a team it leads to the sign-in, and signs nobody in.
    pub(crate) fn link(&self) -> ConsoleLink {
        if let Some(team) = self.team() {
            return ConsoleLink::to_sign_in(team.origin());
        }
        let (token, lifetime) = self.sessions().create_link();
        ConsoleLink::new(&format!("http://{}", self.address()), &token, lifetime)
    }

    /// Records the address of the listener. Returns false if the console is already being served.
    pub(crate) fn set_address(&self, address: SocketAddr) -> bool {
        self.0.address.set(address).is_ok()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        // Set before the first route is served, so the default is never shown.
        self.0.address.get().copied().unwrap_or(DEFAULT_LISTEN)
    }

    pub(crate) fn servers(&self) -> &HostServers {
        &self.0.servers
    }

    pub(crate) fn audit(&self) -> Option<&AuditLog> {
        self.guard()?.audit()
    }

    /// Returns the audit log that people read: of a node, that of all nodes, because it has the decisions.
    pub(crate) fn audit_reader(&self) -> Option<AuditReader> {
        self.guard()?.shared_audit().cloned().or_else(|| self.audit().cloned().map(AuditReader::from))
    }

    pub(crate) fn pins(&self) -> Option<&PinManager> {
        self.0.pins.as_ref()
    }

    pub(crate) fn sampler(&self) -> Option<&Sampler> {
        self.0.sampler.as_deref()
    }

    pub(crate) fn guard(&self) -> Option<&PolicyEnforcer> {
        self.0.guard.as_deref()
    }

    pub(crate) fn queue(&self) -> Option<&ApprovalQueue> {
        self.guard().map(PolicyEnforcer::approvals)
    }

    pub(crate) fn sessions(&self) -> &BrowserSessions {
        &self.0.sessions
    }

    pub(crate) fn deciders(&self) -> &DeciderSettings {
        &self.0.deciders
    }

    pub(crate) fn environment(&self) -> &ConsoleEnvironment {
        &self.0.environment
    }

    /// Returns the settings of a team. `None` if the console is for the person of this machine.
    pub(crate) fn team(&self) -> Option<&TeamConsole> {
        self.0.environment.team.as_ref()
    }

    /// Returns the rule that was saved last, to undo it.
    pub(crate) fn rule_undo(&self) -> &Mutex<Option<RuleUndo>> {
        &self.0.rule_undo
    }

    /// Returns the last change of a server's settings, to undo it.
    pub(crate) fn server_undo(&self) -> &Mutex<Option<ServerUndo>> {
        &self.0.server_undo
    }

    /// Returns the servers that are being added.
    pub(crate) fn additions(&self) -> &RunningAdditions {
        &self.0.additions
    }

    /// Returns the places for event streams.
    pub(crate) fn streams(&self) -> &ClientQuota {
        &self.0.streams
    }

    /// Reserves a place for one tool call of a person. Returns `None` if all of them are in use.
    pub(crate) fn person_call_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.person_calls).try_acquire_owned().ok()
    }

    /// Reserves a place for a check or a sign-in. Returns `None` if all of them are in use.
    pub(crate) fn command_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.commands).try_acquire_owned().ok()
    }

    pub(crate) fn news(&self) -> &ConsoleEvents {
        &self.0.news
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}
