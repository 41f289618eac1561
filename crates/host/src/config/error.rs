//! Locations in configuration files, and configuration errors.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Message of the error for a document without a value.
pub(super) const EMPTY_DOCUMENT: &str = "the file is empty";

/// A place in a configuration file, printed as `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConfigSource {
    file: Arc<Path>,
    line: u32,
    column: u32,
}

impl ConfigSource {
    pub(super) fn new(file: &Arc<Path>, line: u32, column: u32) -> Self {
        Self { file: Arc::clone(file), line, column }
    }

    /// Returns the position after a text.
    pub(super) fn end_of(file: &Arc<Path>, text: &str) -> Self {
        let count = |items: usize| u32::try_from(items + 1).unwrap_or(u32::MAX);
        let line = text.rsplit('\n').next().unwrap_or_default();
        Self::new(file, count(text.matches('\n').count()), count(line.chars().count()))
    }

    /// Creates the source of a server that no file defines: given on the command line, or built in.
    pub fn unwritten(what: &str) -> Self {
        Self { file: Path::new(what).into(), line: 0, column: 0 }
    }

    /// Returns the file, under the name with which it was requested.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the line, from 1, or 0 without a file.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Returns the column in characters, from 1, or 0 without a file.
    pub fn column(&self) -> u32 {
        self.column
    }
}

impl fmt::Display for ConfigSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file.display()),
            line => write!(f, "{}:{line}:{}", self.file.display(), self.column),
        }
    }
}

/// A setting, as messages call it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettingPath {
    /// The server it belongs to, if it belongs to one.
    pub server: Option<String>,
    /// The key, with index or name where it has parts: `args[2]`, `env.TOKEN`; empty for the server itself.
    pub field: String,
}

impl fmt::Display for SettingPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Some(server) if self.field.is_empty() => write!(f, "server `{server}`"),
            Some(server) => write!(f, "`{}` of server `{server}`", self.field),
            None => write!(f, "`{}`", self.field),
        }
    }
}

/// A warning about something in a file that was ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigWarning {
    /// Location of the ignored setting.
    pub at: ConfigSource,
    /// The server it concerns, if one.
    pub server: Option<String>,
    /// Explanation of what was ignored and why.
    pub message: String,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.at)?;
        if let Some(server) = &self.server {
            write!(f, "server `{server}`: ")?;
        }
        f.write_str(&self.message)
    }
}

fn secret_problem(name: &str, why: Option<&str>) -> String {
    match why {
        Some(why) => format!("the secret `{name}` cannot be read: {why}"),
        None => format!("the secret `{name}` is not stored"),
    }
}

/// One mistake in a configuration.
///
/// No message repeats a value from the file: it could be a secret in the wrong place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{}: cannot be read", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The file is no text in UTF-8.
    #[error("{at}: the byte here is not UTF-8{hint}")]
    NotText {
        /// Location of the first invalid byte.
        at: ConfigSource,
        /// Encoding that the file may have instead.
        hint: &'static str,
    },
    /// The file is larger than [`MAX_FILE`](super::MAX_FILE).
    #[error("{}: larger than {limit} bytes, the maximum size of a configuration file", .file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The most it may have.
        limit: usize,
    },
    /// The file does not have the format that its extension implies.
    #[error("{at}: not valid {format}: {message}")]
    Syntax {
        /// Location at which parsing stopped.
        at: ConfigSource,
        /// The format it was read as.
        format: &'static str,
        /// Message of the parser.
        message: String,
    },
    /// The file names no servers under any key we know.
    #[error("{at}: names no servers; expected them under `mcpServers` (or `servers`, `mcp`, …){hint}")]
    NoServers {
        /// The beginning of the file.
        at: ConfigSource,
        /// The key that may have been meant.
        hint: String,
    },
    /// A value has the wrong type.
    #[error("{at}: {place}: expected {expected}, found {found}")]
    WrongType {
        /// Location of the value.
        at: ConfigSource,
        /// The setting.
        place: SettingPath,
        /// The types that would do.
        expected: &'static str,
        /// Actual type of the value.
        found: &'static str,
    },
    /// A value has the right type and still cannot be used.
    #[error("{at}: {place}: expected {expected}{hint}")]
    Invalid {
        /// Location of the value.
        at: ConfigSource,
        /// The setting.
        place: SettingPath,
        /// Description of valid values.
        expected: String,
        /// Suggested value.
        hint: String,
    },
    /// Unknown key.
    #[error("{at}: unknown key {place}{hint}")]
    UnknownKey {
        /// Location of the key.
        at: ConfigSource,
        /// The key.
        place: SettingPath,
        /// The key that may have been meant, or those that exist.
        hint: String,
    },
    /// A key is there twice, perhaps in two spellings.
    #[error("{at}: {place} is set a second time; the first is in line {first}")]
    Repeated {
        /// Location of the second value.
        at: ConfigSource,
        /// The setting.
        place: SettingPath,
        /// The line of the first.
        first: u32,
    },
    /// A server has neither a command nor a URL.
    #[error("{at}: server `{server}` has neither `command` nor `url`{hint}")]
    NoTransport {
        /// Location of the server's entry.
        at: ConfigSource,
        /// Name of the server.
        server: String,
        /// The key that may have been meant.
        hint: String,
    },
    /// Two settings exclude each other.
    #[error("{at}: server `{server}` has {first} and {second}, which exclude each other")]
    Contradiction {
        /// Location of the second setting.
        at: ConfigSource,
        /// Name of the server.
        server: String,
        /// One setting.
        first: String,
        /// The other.
        second: String,
    },
    /// A secret is not stored, or the store cannot be read.
    #[error("{at}: {place}: {}; `hospes secret set {name}` stores it", secret_problem(.name, .why.as_deref()))]
    Secret {
        /// Location of the text that names it.
        at: ConfigSource,
        /// The setting.
        place: SettingPath,
        /// Name of the secret.
        name: String,
        /// Reason why the store cannot be read; none if it has no such secret.
        why: Option<String>,
    },
    /// A text would insert the output of a command.
    #[error(
        "{at}: {place}: `{command}` runs a command, which Hospes does not do; put the value into an environment \
         variable and refer to it"
    )]
    Command {
        /// Location of the text.
        at: ConfigSource,
        /// The setting.
        place: SettingPath,
        /// The command, without its arguments.
        command: String,
    },
    /// A variable is not set and has no default.
    #[error("{at}: {place}: the environment variable `{variable}` is not set, and no default is given")]
    Unset {
        /// Location of the text that names it.
        at: ConfigSource,
        /// The setting.
        place: SettingPath,
        /// The variable.
        variable: String,
    },
    /// `${input:…}` refers to an input whose value is not set.
    #[error(
        "{at}: {place}: `${{input:{id}}}`{description} needs interactive input; set the environment variable \
         `{variable}` instead"
    )]
    Input {
        /// Location of the text that names it.
        at: ConfigSource,
        /// The setting.
        place: SettingPath,
        /// The input's id.
        id: String,
        /// Description from the file, in parentheses.
        description: String,
        /// The environment variable that answers it.
        variable: String,
    },
    /// `${…}` is not a valid reference.
    #[error("{at}: {place}: expected {expected} in the reference that begins with `{start}`")]
    Reference {
        /// Location of the text.
        at: ConfigSource,
        /// The setting.
        place: SettingPath,
        /// Description of valid references.
        expected: String,
        /// The beginning of the reference, without a default.
        start: String,
    },
    /// A file that a setting names could not be read.
    #[error("{at}: {place}: cannot read {}", .file.display())]
    File {
        /// Location of the setting.
        at: ConfigSource,
        /// The setting.
        place: SettingPath,
        /// The file it names.
        file: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// Two files, or two parts of one, describe a server of one name.
    #[error("{second}: server `{name}` is already described in {first}; rename or remove one")]
    DuplicateServer {
        /// The server.
        name: String,
        /// Location of the first occurrence.
        first: ConfigSource,
        /// Location of the second occurrence.
        second: ConfigSource,
    },
    /// Two files describe a profile of one name.
    #[error("{second}: profile `{name}` is already described in {first}; rename or remove one")]
    DuplicateProfile {
        /// The profile.
        name: String,
        /// Location of the first occurrence.
        first: ConfigSource,
        /// Location of the second occurrence.
        second: ConfigSource,
    },
    /// A profile would have the endpoint of a server.
    #[error(
        "{at}: profile `{name}` has the name of a server, whose own endpoint has the same path; rename the profile"
    )]
    ProfileIsServer {
        /// Location of the profile.
        at: ConfigSource,
        /// Name of the profile.
        name: String,
    },
    /// A profile replaces secrets of a server at which each user has an account.
    #[error(
        "{at}: profile `{name}` cannot replace secrets of the server `{server}`, at which each user has an account"
    )]
    ProfileSecrets {
        /// Location of the profile.
        at: ConfigSource,
        /// Name of the profile.
        name: String,
        /// Name of the server.
        server: String,
    },
    /// Two files disagree about a setting there is only one of.
    #[error("{second}: `{setting}` is already set differently in {first}")]
    DuplicateSetting {
        /// The setting.
        setting: &'static str,
        /// Location of the first occurrence.
        first: ConfigSource,
        /// Location of the second occurrence.
        second: ConfigSource,
    },
}

impl ConfigError {
    /// Returns true if the file is only without servers, as most files of settings are, or has no content at all.
    pub fn names_no_servers(&self) -> bool {
        match self {
            Self::NoServers { .. } => true,
            Self::Syntax { message, .. } => message == EMPTY_DOCUMENT,
            _ => false,
        }
    }
}

/// Everything that is wrong with a configuration, one mistake to a line.
#[derive(Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    pub(super) fn new(errors: Vec<ConfigError>) -> Self {
        Self(errors)
    }

    pub(super) fn into_inner(self) -> Vec<ConfigError> {
        self.0
    }

    /// Iterates over the errors in the order they were found.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }

    /// Returns the text with the causes of each error, one error to a line, for output that follows no chain of causes.
    pub fn full_text(&self) -> String {
        self.0.iter().map(with_causes).collect::<Vec<_>>().join("\n")
    }
}

/// Formats an error with its causes.
fn with_causes(error: &ConfigError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [error] => write!(f, "{error}"),
            // With several mistakes there is no one chain of causes for the reporter to walk.
            _ => f.write_str(&self.full_text()),
        }
    }
}

impl std::error::Error for ConfigErrors {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.0.as_slice() {
            [error] => error.source(),
            _ => None,
        }
    }
}
