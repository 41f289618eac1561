//! Configuration model, independent of file format and spelling.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::accounts::AccountsConfig;
use super::argument_check::ArgumentCheck;
use super::auth::AuthConfig;
use super::auto_update::AutoUpdate;
use super::console_team::ConsoleTeamConfig;
use super::decision_source::DecisionSource;
use super::error::{ConfigErrors, ConfigSource, ConfigWarning};
use super::fleet::FleetConfig;
use super::models::ModelsConfig;
use super::notify::NotificationChannels;
use super::pins::PinMode;
use super::placement::ServerPlacement;
use super::profiles::ProfileConfig;
use super::server_transport::{AccountChoice, SandboxConfig, ServerTransport};
use super::telemetry::TelemetryConfig;
use super::tool_filter::ToolFilter;

/// Complete configuration of the host, from one or several files.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct HostConfig {
    /// Address on which the endpoint listens.
    pub listen: Option<SocketAddr>,
    /// Names of this machine, besides loopback, that requests may be addressed to (the `Host` header).
    pub allowed_hosts: Vec<String>,
    /// Web origins, besides loopback, whose pages may send requests (the `Origin` header).
    pub allowed_origins: Vec<String>,
    /// Programs that may use the endpoint if no tokens of `[auth]` are required, if configured.
    pub callers: Option<AllowedCallers>,
    /// Authentication settings of the endpoint, if configured.
    pub auth: Option<AuthConfig>,
    /// Address on which the console listens, if configured.
    pub console: Option<ConsoleConfig>,
    /// Sign-in of the people of a team to the console. Without it, the console is for the person of this machine.
    pub console_team: Option<ConsoleTeamConfig>,
    /// Address on which metrics are served, if configured.
    pub metrics_listen: Option<SocketAddr>,
    /// Settings of a node, if this host is one of several behind one address.
    pub fleet: Option<FleetConfig>,
    /// Export of telemetry, if the configuration has one.
    pub telemetry: Option<TelemetryConfig>,
    /// True if the audit log records arguments of calls too.
    pub audit_arguments: bool,
    /// Retention time of audit log entries; none for no limit.
    pub audit_kept_for: Option<Duration>,
    /// Base URL of the MCP registry that commands use, if configured. The host itself uses none.
    pub registry: Option<String>,
    /// Policy file of an organisation, which the policy file of a user cannot loosen, if configured.
    pub organization_policy: Option<PathBuf>,
    /// Settings of the accounts of users at servers.
    pub accounts: AccountsConfig,
    /// True if questions of servers to a person are answered at the console where the application cannot ask. By default
    /// wherever a console is served.
    pub console_questions: Option<bool>,
    /// Maximum number of event streams of each kind of the console's clients. If several files set it, the smallest applies.
    pub console_streams: Option<usize>,
    /// True if a notification on the desktop tells that something waits for a decision. By default it does.
    pub desktop_notifications: Option<bool>,
    /// Other ways in which a person is notified.
    pub notifications: NotificationChannels,
    /// Sources from which decisions are accepted, if configured. If several files set it, the strictest value applies.
    pub decisions_from: Option<DecisionSource>,
    /// Models, and what servers may spend on them.
    pub models: ModelsConfig,
    /// Time that the first lists wait for servers that are being started.
    pub start_wait: Option<Duration>,
    /// The servers, in the order of the files.
    pub servers: Vec<ServerConfig>,
    /// Profiles: named sets of servers and tools, in the order of the files.
    pub profiles: Vec<ProfileConfig>,
    /// Servers of profiles with secrets of their own: each runs for its profile alone.
    pub profile_servers: Vec<ServerConfig>,
    /// Servers with an invalid entry. Always empty unless the loader was told to continue after errors.
    pub rejected: Vec<RejectedServer>,
    /// Servers of other applications that Hospes cannot use. A warning names each of them, too.
    pub skipped: Vec<SkippedServer>,
    /// Values that a file of another application has its application ask for.
    pub inputs: Vec<ConfigInput>,
    /// Warnings about ignored settings.
    pub warnings: Vec<ConfigWarning>,
}

/// A server of another application that Hospes cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedServer {
    /// Name of the server.
    pub name: String,
    /// Location of its entry.
    pub source: ConfigSource,
    /// Reason why it cannot be used.
    pub reason: String,
}

/// A value that an application asks its user for, to which `${input:ID}` refers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigInput {
    /// Id of the input.
    pub id: String,
    /// Description from the file; empty without one.
    pub description: String,
    /// True if the typed value is hidden.
    pub is_secret: bool,
    /// Values to choose from; empty for any text.
    pub options: Vec<String>,
    /// Value that is proposed.
    pub default: Option<String>,
}

/// Programs that may use an endpoint without sign-in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AllowedCallers {
    /// Programs of the user that runs the host, but for the servers that it has started; others need the endpoint's token.
    #[default]
    SameUser,
    /// Programs that show the endpoint's token.
    Token,
    /// All programs that can reach it.
    Any,
}

/// Address on which the console listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsoleConfig {
    /// The console is disabled.
    Off,
    /// At this address, a loopback one.
    Listen(SocketAddr),
}

impl HostConfig {
    /// Returns the profile with this name.
    pub fn profile(&self, name: &str) -> Option<&ProfileConfig> {
        self.profiles.iter().find(|profile| profile.name == name)
    }

    /// Returns the server with this name.
    pub fn server(&self, name: &str) -> Option<&ServerConfig> {
        self.servers.iter().find(|server| server.name == name)
    }
}

/// A server whose entry is invalid.
#[derive(Debug)]
#[non_exhaustive]
pub struct RejectedServer {
    /// Name of the server.
    pub name: String,
    /// Location of its entry.
    pub source: ConfigSource,
    /// The mistakes.
    pub errors: ConfigErrors,
    /// Names of the stored secrets to which the entry refers.
    pub(crate) secrets: BTreeSet<String>,
}

/// Configuration of one server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Name of the server in the configuration.
    pub name: String,
    /// Transport that reaches the server.
    pub transport: ServerTransport,
    /// True if the server is configured but is not started.
    pub disabled: bool,
    /// True if the host does not start without the server.
    pub required: bool,
    /// Timeouts of the server.
    pub timeouts: ServerTimeouts,
    /// Maximum number of connections to the server.
    pub max_connections: Option<usize>,
    /// Nodes of a fleet that run the server, if configured.
    pub placement: Option<ServerPlacement>,
    /// Filter of the tools that are listed.
    pub tools: ToolFilter,
    /// Mode in which its definitions are accepted, if configured.
    pub pins: Option<PinMode>,
    /// Strictness with which arguments of its tools are checked.
    pub check_arguments: ArgumentCheck,
    /// Updates that are made without a person. The host makes none itself.
    pub auto_update: AutoUpdate,
    /// The era to speak with it, if it is not to be found out.
    pub era: Option<EraChoice>,
    /// Sandbox of the server, if it is a child process.
    pub sandbox: SandboxConfig,
    /// Folders that it is given as roots. None if it is given those that the host gives to all servers.
    pub roots: Option<Vec<PathBuf>>,
    /// Registry entry or package that it was added from. The host does not use it.
    pub origin: PackageOrigin,
    /// Profile for which the server runs, with the secrets of that profile. None for everybody.
    pub profile: Option<String>,
    /// Location of its entry.
    pub source: ConfigSource,
}

/// Origin of a server that was added from a registry or as a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackageOrigin {
    /// Full name in the registry, such as `io.github.owner/server`, or a package, such as `npm:NAME`.
    pub registry: Option<String>,
    /// Version of the package.
    pub version: Option<String>,
    /// Digest of the package, such as `sha256:…`.
    pub digest: Option<String>,
}

impl ServerConfig {
    /// Creates a server with defaults for everything but its name and transport.
    pub fn new(name: impl Into<String>, transport: ServerTransport, source: ConfigSource) -> Self {
        Self {
            name: name.into(),
            transport,
            disabled: false,
            required: false,
            timeouts: ServerTimeouts::default(),
            max_connections: None,
            placement: None,
            tools: ToolFilter::default(),
            pins: None,
            check_arguments: ArgumentCheck::default(),
            auto_update: AutoUpdate::default(),
            era: None,
            sandbox: SandboxConfig::default(),
            roots: None,
            origin: PackageOrigin::default(),
            profile: None,
            source,
        }
    }

    /// Returns the name under which the server is listed: its name, and its profile if it runs for one.
    #[must_use]
    pub fn label(&self) -> String {
        server_label(&self.name, self.profile.as_deref())
    }

    /// Returns the server without its place in a file, which changes with every line above it. Two of these are equal if
    /// the servers are.
    #[must_use]
    pub(crate) fn without_source(&self) -> Self {
        Self { source: ConfigSource::unwritten(""), ..self.clone() }
    }

    /// Returns the nodes of a fleet that run the server. The default is `per-user` for a program, whose process has a
    /// state, and `any` for all others.
    #[must_use]
    pub fn placement(&self) -> ServerPlacement {
        self.placement.unwrap_or(match self.transport {
            ServerTransport::Stdio(_) => ServerPlacement::PerUser,
            ServerTransport::Http(_) | ServerTransport::Builtin(_) => ServerPlacement::Any,
        })
    }

    /// Returns true if each user has a separate account at the server.
    #[must_use]
    pub fn is_per_user(&self) -> bool {
        matches!(&self.transport, ServerTransport::Http(http) if http.account == AccountChoice::PerUser)
    }
}

/// Returns the name under which a server is listed that runs for a profile, or for everybody.
pub(crate) fn server_label(name: &str, profile: Option<&str>) -> String {
    match profile {
        Some(profile) => format!("{name} (profile {profile})"),
        None => name.to_owned(),
    }
}

/// Timeouts of a server. Missing values default to those of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServerTimeouts {
    /// From starting or dialling until it is ready.
    pub connect: Option<Duration>,
    /// Timeout of one request, restarted by each progress notification.
    pub request: Option<Duration>,
    /// Time that a call of a server of an older revision waits for the answers to its questions.
    pub park: Option<Duration>,
    /// Interval between health checks; zero for none.
    pub health_check: Option<Duration>,
}

/// The era an operator insists on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EraChoice {
    /// Revisions up to 2025-11-25.
    Legacy,
    /// Revision 2026-07-28 and later.
    Modern,
}

impl EraChoice {
    /// The era.
    #[must_use]
    pub fn era(self) -> hospes_model::Era {
        match self {
            Self::Legacy => hospes_model::Era::Legacy,
            Self::Modern => hospes_model::Era::Modern,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::secret::Secret;

    #[test]
    fn printing_a_server_gives_no_secret_away() {
        let mut transport = ServerTransport::stdio("npx", ["server", "--api-key", "hunter2"]);
        if let ServerTransport::Stdio(stdio) = &mut transport {
            stdio.env.insert("TOKEN".into(), Secret::new("hunter2"));
        }
        let stdio = ServerConfig::new("one", transport, ConfigSource::unwritten("a test"));
        let mut transport =
            ServerTransport::http("https://me:hunter2@e.com/mcp?key=hunter2".parse().unwrap());
        if let ServerTransport::Http(http) = &mut transport {
            http.headers.push(("Authorization".into(), Secret::new("hunter2")));
        }
        let http = ServerConfig::new("two", transport, ConfigSource::unwritten("a test"));
        let builtin = ServerConfig::new(
            "three",
            ServerTransport::builtin("x", ["--token", "hunter2"]),
            stdio.source.clone(),
        );
        for server in [stdio, http, builtin] {
            let printed = format!("{server:?} {}", server.transport);
            assert!(!printed.contains("hunter2"), "{printed}");
            assert!(printed.contains("[redacted]"), "{printed}");
        }
    }
}
