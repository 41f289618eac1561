//! Applications that keep a configuration of MCP servers: where their files are, how they write a server, and when a
//! change takes effect.
//!
//! [`APPLICATIONS`] is the one table of them. [`ApplicationFolders`] finds their files on a system whose folders are
//! arguments, so that the paths of every system can be tested on one.

mod folders;
mod table;
#[cfg(test)]
mod tests;

pub use folders::{ApplicationFile, ApplicationFolders, SystemKind};
pub use table::APPLICATIONS;

/// An application with a configuration of MCP servers.
#[derive(Debug)]
#[non_exhaustive]
pub struct Application {
    /// Short name, used on the command line.
    pub id: &'static str,
    /// Name for people.
    pub name: &'static str,
    /// Places of its configuration files.
    pub places: &'static [ApplicationPlace],
    /// Form in which it writes servers.
    pub shape: EntryShape,
    /// What makes a change of the file take effect.
    pub takes_effect: &'static str,
}

/// A place where an application looks for a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApplicationPlace {
    /// Servers of the user, or of one project.
    pub scope: PlaceScope,
    /// Systems that have the place.
    pub systems: &'static [SystemKind],
    /// Folder in which the path begins.
    pub base: PlaceBase,
    /// Path below the base, with `/` between its parts. A part may have one `*`.
    pub path: &'static str,
    /// True if the file is read, but servers are not added to it: it has another form, or belongs to a part of the
    /// application only.
    pub is_read_only: bool,
}

/// Owner of the servers in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PlaceScope {
    /// The user, in every project.
    User,
    /// One project. Such a file may come from somebody else, with the project.
    Project,
}

impl PlaceScope {
    /// Returns the name used in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
        }
    }
}

/// Folder in which a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceBase {
    /// The user's home folder.
    Home,
    /// `$XDG_CONFIG_HOME`, by default `~/.config`.
    Config,
    /// The folder in which Electron programs keep their data: that of [`Self::Config`] on Linux,
    /// `~/Library/Application Support` on macOS, and that of [`Self::RoamingData`] on Windows.
    ElectronData,
    /// `%APPDATA%`, on Windows.
    RoamingData,
    /// `%LOCALAPPDATA%`, on Windows.
    LocalData,
    /// A folder that this variable names, or a file if the path is empty. Without the variable the place does not exist.
    Variable(&'static str),
    /// The folder of the project.
    Project,
}

/// Format of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileFormat {
    /// JSON; a reader may accept comments.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// Form in which an application writes a server.
#[derive(Debug)]
#[non_exhaustive]
pub struct EntryShape {
    /// Format of the file.
    pub format: FileFormat,
    /// True if the application reads JSON as the standard has it, and refuses a file with comments or trailing commas.
    pub is_strict: bool,
    /// Keys from the top of the file to the servers.
    pub key: &'static [&'static str],
    /// Form of the table of servers.
    pub listing: ServerListing,
    /// Form of a server that is a child process.
    pub stdio: StdioShape,
    /// Form of a server at a URL. `None` if the file cannot name one.
    pub http: Option<HttpShape>,
    /// Key by which a server is switched off, with the value that does it.
    pub off: Option<(&'static str, bool)>,
    /// References to variables.
    pub variables: VariableSyntax,
    /// Members that every server needs besides those above, with their values.
    pub required: &'static [(&'static str, RequiredValue)],
    /// Timeouts that an entry can have.
    pub timeouts: TimeoutShape,
    /// Text at the beginning of a new file, with `\n` as line break.
    pub preamble: &'static str,
}

/// Timeouts that an entry of an application can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeoutShape {
    /// None.
    Nothing,
    /// `timeout` of a request, in seconds.
    Seconds,
    /// `timeout` of a request, in milliseconds.
    Milliseconds,
    /// `startup_timeout_sec` and `tool_timeout_sec`, in seconds with fractions.
    StartAndTool,
    /// A table `timeout` with `startup` and `execution`, in milliseconds.
    StartAndExecution,
}

/// Value of a member that every server of an application needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequiredValue {
    /// `true`.
    True,
    /// A list of one text.
    OneText(&'static str),
}

impl RequiredValue {
    /// Returns the value as it is written.
    pub(in crate::config) fn written(self) -> super::export_value::ExportValue {
        use super::export_value::ExportValue;
        match self {
            Self::True => ExportValue::Boolean(true),
            Self::OneText(text) => ExportValue::texts(&[text.to_owned()]),
        }
    }
}

/// Form of the table of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerListing {
    /// An object with the servers by their names.
    Object,
    /// An object, and each server repeats its name under `name`.
    NamedObject,
    /// A list of servers, each with its name under `name`.
    List,
}

/// Form of a server that is a child process.
#[derive(Debug)]
#[non_exhaustive]
pub struct StdioShape {
    /// Value of `type`, if it is written.
    pub kind: Option<&'static str>,
    /// Key of the program.
    pub command: &'static str,
    /// True if the program and its arguments are one array.
    pub is_array: bool,
    /// Key of the environment variables.
    pub env: &'static str,
    /// True if `cwd` is supported.
    pub has_cwd: bool,
}

/// Form of a server at a URL.
#[derive(Debug)]
#[non_exhaustive]
pub struct HttpShape {
    /// Value of `type` for Streamable HTTP, if it is written.
    pub kind: Option<&'static str>,
    /// Value of `type` for HTTP+SSE. `None` if the application does not support it, or does not tell it by `type`.
    pub sse: Option<&'static str>,
    /// Key of the URL.
    pub url: &'static str,
    /// Keys from the entry to the headers.
    pub headers: &'static [&'static str],
}

/// Form of a reference to an environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariableSyntax {
    /// The application resolves no references.
    None,
    /// `${NAME}`.
    Braces,
    /// `${env:NAME}`.
    EnvBraces,
    /// `${env:NAME}`; for secrets `${input:NAME}`, which the application asks for.
    Inputs,
    /// `{env:NAME}`.
    OpenCode,
    /// `${{ secrets.NAME }}`.
    Secrets,
}

impl VariableSyntax {
    /// Writes a reference to a variable. `None` if the application has none.
    #[must_use]
    pub fn reference(self, name: &str, is_secret: bool) -> Option<String> {
        match self {
            Self::None => None,
            Self::Braces => Some(format!("${{{name}}}")),
            Self::Inputs if is_secret => Some(format!("${{input:{name}}}")),
            Self::EnvBraces | Self::Inputs => Some(format!("${{env:{name}}}")),
            Self::OpenCode => Some(format!("{{env:{name}}}")),
            Self::Secrets => Some(format!("${{{{ secrets.{name} }}}}")),
        }
    }
}

impl Application {
    /// Returns the application with this id or shown name, regardless of case.
    #[must_use]
    pub fn find(word: &str) -> Option<&'static Self> {
        let is_named = |application: &&Self| {
            [application.id, application.name].iter().any(|name| name.eq_ignore_ascii_case(word))
        };
        APPLICATIONS.iter().find(is_named)
    }

    /// Returns the application that has the same files, in another form. `None` if the files are its own.
    #[must_use]
    pub fn sharing_files(&self) -> Option<&'static Self> {
        APPLICATIONS.iter().find(|other| other.id != self.id && other.places == self.places)
    }
}
