//! Transports that reach a server: a child process, a URL, or a server of this program.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use hospes_auth::{ClientId, Issuer};
use hospes_oauth::PreregisteredOAuthClient;
use hospes_sandbox::SandboxProfile;

use super::command_line::{SplitCommandError, split_command};
use super::secret::{ExpandedText, Secret, ServerUrl, join_command, redact_command};

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
            scopes: Vec::new(),
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

    /// Returns the command line as it is written, with its references. What looks like a secret is not hidden.
    pub fn written_command_line(&self) -> String {
        join_command(std::iter::once(&self.command).chain(&self.args).map(ExpandedText::written))
    }

    /// Returns the command line with another text in place of the program, such as the path of the executed file.
    pub fn command_line_of(&self, program: &str) -> String {
        redact_command(std::iter::once(program).chain(self.args.iter().map(ExpandedText::written)))
    }

    /// Returns true for the variable with the search path. On Windows, letter case does not count: it is `Path` there.
    pub(crate) fn is_search_path(name: &OsStr) -> bool {
        if cfg!(windows) { name.eq_ignore_ascii_case("PATH") } else { name == "PATH" }
    }

    /// Returns the search path in which the program is found, and which the server gets. `inherited` is
    /// [`SandboxConfig::environment`].
    pub fn search_path(&self, inherited: Option<&[String]>) -> Option<OsString> {
        let own = self.env.iter().find(|(name, _)| Self::is_search_path(name.as_ref()));
        Self::search_path_of_child(own.map(|(_, path)| path.reveal().into()), inherited)
    }

    /// Returns the search path in which a server's program is found: its `own`, else the host's if the server gets that.
    /// `inherited` are names of variables that the server gets from the host; `None` is the usual few, of which `PATH`
    /// is one.
    pub(crate) fn search_path_of_child(
        own: Option<OsString>,
        inherited: Option<&[impl AsRef<OsStr>]>,
    ) -> Option<OsString> {
        let is_inherited =
            inherited.is_none_or(|names| names.iter().any(|name| Self::is_search_path(name.as_ref())));
        own.or_else(|| hospes_sandbox::search_path().filter(|_| is_inherited))
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
    /// Scopes to request at a sign-in. If empty, those that the server names.
    pub scopes: Vec<String>,
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
