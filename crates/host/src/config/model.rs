//! Configuration model, independent of file format and spelling.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hospes_auth::{ClientId, Issuer};
use hospes_oauth::PreregisteredOAuthClient;
use hospes_sandbox::SandboxProfile;

use super::accounts::AccountsConfig;
use super::argument_check::ArgumentCheck;
use super::auth::AuthConfig;
use super::command_line::{SplitCommandError, split_command};
use super::decision_source::DecisionSource;
use super::error::{ConfigErrors, ConfigSource, ConfigWarning};
use super::models::ModelsConfig;
use super::notify::NotificationChannels;
use super::pins::PinMode;
use super::profiles::ProfileConfig;
use super::secret::{ExpandedText, Secret, ServerUrl, redact_command};

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
    /// Retention time of audit log entries; none for no limit.
    pub audit_kept_for: Option<Duration>,
    /// Base URL of the MCP registry that commands use, if configured. The host itself uses none.
    pub registry: Option<String>,
    /// Settings of the accounts of users at servers.
    pub accounts: AccountsConfig,
    /// True if questions of servers to a person are answered at the console where the application cannot ask. By default
    /// wherever a console is served.
    pub console_questions: Option<bool>,
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
    /// Filter of the tools that are listed.
    pub tools: ToolFilter,
    /// Mode in which its definitions are accepted, if configured.
    pub pins: Option<PinMode>,
    /// Strictness with which arguments of its tools are checked.
    pub check_arguments: ArgumentCheck,
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
    /// Full name in the registry, such as `io.github.owner/server`.
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
            tools: ToolFilter::default(),
            pins: None,
            check_arguments: ArgumentCheck::default(),
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

/// Transport that reaches a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerTransport {
    /// A child process, spoken to over its standard input and output.
    Stdio(StdioTransport),
    /// A URL.
    Http(HttpTransport),
    /// A server that is part of this program.
    Builtin(BuiltinTransport),
}

impl ServerTransport {
    /// Creates the transport of a child process, from a program and its arguments.
    pub fn stdio<'a>(program: &str, args: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Stdio(StdioTransport {
            command: ExpandedText::literal(program),
            args: args.into_iter().map(ExpandedText::literal).collect(),
            env: BTreeMap::new(),
            cwd: None,
            env_file: None,
            pass_env: Vec::new(),
        })
    }

    /// Returns the kind of the transport: `stdio`, `http` or `builtin`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "http",
            Self::Builtin(_) => "builtin",
        }
    }

    /// Creates the transport of a URL without additional headers.
    pub fn http(url: url::Url) -> Self {
        Self::Http(HttpTransport {
            url: ServerUrl::new(url),
            headers: Vec::new(),
            flavour: HttpFlavour::Any,
            plain_http: true,
            account: AccountChoice::Shared,
            client: None,
        })
    }

    /// Parses a target as typed by a person: a URL that begins with `http://` or `https://`, else a command line for
    /// [`split_command`].
    pub fn target(text: &str) -> Result<Self, ParseTargetError> {
        if ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Ok(Self::http(text.parse()?));
        }
        let words = split_command(text)?;
        let mut words = words.iter().map(String::as_str);
        // Empty quotes are a word, and no program.
        let program = words.next().filter(|program| !program.is_empty()).ok_or(SplitCommandError::Empty)?;
        Ok(Self::stdio(program, words))
    }

    /// Creates the transport of a built-in server.
    pub fn builtin<'a>(name: &str, args: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Builtin(BuiltinTransport {
            name: name.to_owned(),
            args: args.into_iter().map(ExpandedText::literal).collect(),
        })
    }
}

/// Error of parsing a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseTargetError {
    /// It begins like a URL but is not a valid one.
    #[error("not a URL")]
    Url(#[from] url::ParseError),
    /// The command line cannot be split.
    #[error("expected a URL, or {0}")]
    Words(SplitCommandError),
}

impl From<SplitCommandError> for ParseTargetError {
    fn from(error: SplitCommandError) -> Self {
        Self::Words(error)
    }
}

/// The server as a person would write it on a command line, without secrets.
impl fmt::Display for ServerTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdio(stdio) => f.write_str(&stdio.command_line()),
            Self::Http(http) => http.url.fmt(f),
            Self::Builtin(builtin) => {
                let words = builtin.args.iter().map(ExpandedText::written);
                f.write_str(&redact_command(["built-in", &builtin.name].into_iter().chain(words)))
            }
        }
    }
}

/// Transport of a child process.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StdioTransport {
    /// Program to run.
    pub command: ExpandedText,
    /// Its arguments; no shell is involved.
    pub args: Vec<ExpandedText>,
    /// Variables set besides the few that every child gets.
    pub env: BTreeMap<String, Secret>,
    /// The folder it starts in.
    pub cwd: Option<PathBuf>,
    /// File with further variables. Set only if the loader keeps references; otherwise the variables are in `env`.
    pub env_file: Option<PathBuf>,
    /// Names of variables that it gets from the host's environment. Set only if the loader keeps references.
    pub pass_env: Vec<String>,
}

impl StdioTransport {
    /// Returns the command line for display, with references in place of their values and without secrets.
    pub fn command_line(&self) -> String {
        self.command_line_of(self.command.written())
    }

    /// Returns the command line with another text in place of the program, such as the path of the executed file.
    pub fn command_line_of(&self, program: &str) -> String {
        redact_command(std::iter::once(program).chain(self.args.iter().map(ExpandedText::written)))
    }

    /// Returns true for the variable with the search path. On Windows, letter case does not count: it is `Path` there.
    pub(crate) fn is_search_path(name: &std::ffi::OsStr) -> bool {
        if cfg!(windows) { name.eq_ignore_ascii_case("PATH") } else { name == "PATH" }
    }

    /// Iterates over the names of its variables that determine which code it loads, regardless of the command line.
    pub fn loader_variables(&self) -> impl Iterator<Item = &str> {
        self.env.keys().map(String::as_str).filter(|name| hospes_sandbox::is_loader_variable(name))
    }
}

impl fmt::Debug for StdioTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One text for the arguments: what hides a value may be the option before it.
        f.debug_struct("StdioTransport")
            .field("command_line", &self.command_line())
            .field("env", &self.env)
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// Sandbox settings of a server that runs as a child process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxConfig {
    /// Profile that is enforced.
    pub profile: SandboxProfile,
    /// Names of the host's variables that it gets instead of the few that every child process gets.
    pub environment: Option<Vec<String>>,
}

/// A server at a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpTransport {
    /// URL of the server.
    pub url: ServerUrl,
    /// Headers sent with every request, names as written.
    pub headers: Vec<(String, Secret)>,
    /// HTTP transport that the server supports.
    pub flavour: HttpFlavour,
    /// True if the server may be reached without encryption. Loopback addresses always may. A URL that was typed as a
    /// target may, too: whoever typed it has seen its scheme.
    pub plain_http: bool,
    /// Account with which the server is used.
    pub account: AccountChoice,
    /// Client that is registered with its authorization server, if there is one.
    pub client: Option<Box<PreregisteredClient>>,
}

/// Returns true if what is sent to a URL, and every answer, can be read and changed on the way: it has no encryption
/// and leads to another machine.
pub(crate) fn is_exposed(url: &url::Url) -> bool {
    url.scheme() == "http" && !is_loopback(url)
}

/// Returns true if a URL names this machine.
pub(crate) fn is_loopback(url: &url::Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Client that was registered in advance with a server's authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreregisteredClient {
    /// Client id.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<Secret>,
    /// Issuer with which the client is registered. `None` means the issuer that the server names first, and only that
    /// one from then on.
    pub issuer: Option<String>,
}

impl PreregisteredClient {
    /// Converts to the client that a sign-in expects. None if the id or the issuer is invalid, which a loaded
    /// configuration excludes.
    #[must_use]
    pub fn given(&self) -> Option<PreregisteredOAuthClient> {
        let mut given = PreregisteredOAuthClient::new(ClientId::new(&*self.id).ok()?);
        if let Some(secret) = &self.secret {
            given = given.secret(secret.reveal());
        }
        match &self.issuer {
            Some(issuer) => Some(given.issuer(Issuer::new(&**issuer).ok()?)),
            None => Some(given),
        }
    }
}

/// Account with which a server at a URL is used, if it requires authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AccountChoice {
    /// The account of the operator, for all users.
    #[default]
    Shared,
    /// An account of the user on whose behalf a call is made.
    PerUser,
}

/// HTTP transport that a server supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HttpFlavour {
    /// Detected automatically.
    #[default]
    Any,
    /// Streamable HTTP.
    Streamable,
    /// HTTP with a separate stream of server-sent events, of revision 2024-11-05.
    Sse,
}

/// A server that is part of this program.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuiltinTransport {
    /// Its name in this program.
    pub name: String,
    /// Settings of the server, in the form of command-line arguments.
    pub args: Vec<ExpandedText>,
}

impl fmt::Debug for BuiltinTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltinTransport")
            .field("name", &self.name)
            .field("args", &redact_command(self.args.iter().map(ExpandedText::written)))
            .finish()
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

/// Filter of a server's tools, by the server's own names. `*` matches any text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ToolFilter {
    /// If present, only these items are offered.
    pub include: Option<Vec<String>>,
    /// Items that are never offered.
    pub exclude: Vec<String>,
}

impl ToolFilter {
    /// Returns true if the tool is listed. Exclusion takes precedence over inclusion.
    pub fn allows(&self, tool: &str) -> bool {
        let listed = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, tool));
        !listed(&self.exclude) && self.include.as_deref().is_none_or(listed)
    }
}

/// Matches a pattern in which `*` matches any text, in time linear in the text for each `*`.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = tail.split('*').collect();
    // Each middle part takes its leftmost place, the last one the end of the text.
    let last = parts.pop().unwrap_or("");
    for part in parts {
        let Some(index) = rest.find(part) else { return false };
        rest = &rest[index + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: Option<&[&str]>, exclude: &[&str]) -> ToolFilter {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        ToolFilter { include: include.map(owned), exclude: owned(exclude) }
    }

    #[test]
    fn without_a_filter_every_tool_is_shown() {
        assert!(ToolFilter::default().allows("anything"));
        assert!(!filter(Some(&[]), &[]).allows("anything"));
    }

    #[test]
    fn excluding_wins_over_including() {
        let filter = filter(Some(&["read_*", "list"]), &["*_secret"]);
        assert!(filter.allows("read_file"));
        assert!(filter.allows("list"));
        assert!(!filter.allows("read_secret"));
        assert!(!filter.allows("write_file"));
    }

    #[test]
    fn stars_match_any_text() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "x", true),
            ("a*", "a", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "acb", false),
            ("**", "x", true),
            ("", "", true),
            ("", "x", false),
            ("*ab", "aab", true),
            ("a*bc*c", "abc", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_target_is_a_url_or_a_command_line() {
        assert_eq!(
            ServerTransport::target("npx -y 'a b'").unwrap(),
            ServerTransport::stdio("npx", ["-y", "a b"])
        );
        let url = "https://e.com/mcp";
        assert_eq!(ServerTransport::target(url).unwrap(), ServerTransport::http(url.parse().unwrap()));
        for (text, message) in [
            ("", "expected a URL, or the name of a program"),
            ("'' x", "expected a URL, or the name of a program"),
            ("a 'b", "expected a URL, or a closing quotation mark"),
            ("https://", "not a URL"),
        ] {
            assert_eq!(ServerTransport::target(text).unwrap_err().to_string(), message);
        }
    }

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
