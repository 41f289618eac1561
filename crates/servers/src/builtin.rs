//! Registry of the built-in servers, for programs that start them by name.

mod options;

use std::ffi::OsString;
use std::fmt;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use hospes::Server;

use crate::{FilesError, GitError, InvalidUserAgent, MemoryError};

/// A server that a program can start by its name.
#[derive(Clone, Copy)]
pub struct BuiltinServer {
    /// Name of the server.
    pub name: &'static str,
    /// Short description.
    pub about: &'static str,
    options: fn(Command) -> Command,
    make: fn(&ArgMatches) -> Result<Server, BuiltinOptionsError>,
}

/// All built-in servers in alphabetical order.
pub const BUILTINS: &[BuiltinServer] = &[
    BuiltinServer {
        name: "everything",
        about: "One of each thing a server can offer, for testing clients",
        options: |command| command,
        make: |_| Ok(crate::everything()),
    },
    BuiltinServer {
        name: "fetch",
        about: "Fetches pages of the web, as Markdown",
        options: options::FetchOptions::augment_args,
        make: |matches| make(matches, options::FetchOptions::server),
    },
    BuiltinServer {
        name: "files",
        about: "Lists, reads and searches files, and writes them with --write",
        options: options::FilesOptions::augment_args,
        make: |matches| make(matches, options::FilesOptions::server),
    },
    BuiltinServer {
        name: "git",
        about: "Shows what changed in git repositories, and commits with --write",
        options: options::GitOptions::augment_args,
        make: |matches| make(matches, options::GitOptions::server),
    },
    BuiltinServer {
        name: "memory",
        about: "Remembers entities and relations from conversation to conversation",
        options: options::MemoryOptions::augment_args,
        make: |matches| make(matches, options::MemoryOptions::server),
    },
    BuiltinServer {
        name: "time",
        about: "The current time, and conversions between time zones",
        options: |command| command,
        make: |_| Ok(crate::time()),
    },
];

/// Returns the server with this name, if there is one.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static BuiltinServer> {
    BUILTINS.iter().find(|builtin| builtin.name == name)
}

impl BuiltinServer {
    /// Returns the parser for the arguments after the server's name on a command line.
    #[must_use]
    pub fn command(&self) -> Command {
        // Under a heading of their own, separate from the options of every server.
        (self.options)(Command::new(self.name).about(self.about).next_help_heading("Server options"))
    }

    /// Returns the usage on one line: `files [OPTIONS] [FOLDER]...`.
    #[must_use]
    pub fn usage(&self) -> String {
        let usage = self.command().disable_help_flag(true).render_usage().to_string();
        usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned()
    }

    /// Creates the server from the arguments after its name on the command line.
    ///
    /// # Errors
    /// If the arguments are invalid.
    pub fn server<A: Into<OsString>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Server, BuiltinOptionsError> {
        // The arguments begin after the server's name; clap would take the first one for the program's name.
        let command = self.command().no_binary_name(true).disable_help_flag(true);
        let arguments = arguments.into_iter().map(Into::<OsString>::into);
        self.server_of(&command.try_get_matches_from(arguments).map_err(BuiltinOptionsError::arguments)?)
    }

    /// Creates the server from the parsed arguments of [`BuiltinServer::command`].
    ///
    /// # Errors
    /// If the server cannot be created with the arguments.
    pub fn server_of(&self, matches: &ArgMatches) -> Result<Server, BuiltinOptionsError> {
        (self.make)(matches)
    }
}

fn make<T: FromArgMatches>(
    matches: &ArgMatches,
    server: fn(T) -> Result<Server, BuiltinOptionsError>,
) -> Result<Server, BuiltinOptionsError> {
    server(T::from_arg_matches(matches).map_err(BuiltinOptionsError::arguments)?)
}

impl fmt::Debug for BuiltinServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltinServer").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reasons a server cannot be created with its arguments.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuiltinOptionsError {
    /// The arguments are invalid, with the parser's message.
    #[error("{0}")]
    Arguments(String),
    /// A folder of the files server cannot be served.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The user agent is not a valid header value.
    #[error(transparent)]
    Fetch(#[from] InvalidUserAgent),
    /// A folder cannot be served, or `git` was not found.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The memory file cannot be opened.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// No memory file is given, and there is no home folder for a default one.
    #[error("no file for the memory; set one with --file FILE")]
    NoFile,
}

impl BuiltinOptionsError {
    /// Returns an error with the parser's message, without its hints for the terminal.
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    fn arguments(error: clap::Error) -> Self {
        let text = error.to_string();
        // The message is the first paragraph; clap's usage and hints follow an empty line.
        let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
        let why = lines.collect::<Vec<_>>().join(" ");
        Self::Arguments(why.strip_prefix("error: ").unwrap_or(&why).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_by_name() {
        let names: Vec<_> = BUILTINS.iter().map(|builtin| builtin.name).collect();
        assert!(names.is_sorted(), "{names:?}");
        for name in ["everything", "time"] {
            let server = builtin(name).unwrap().server::<&str>([]).unwrap();
            assert_eq!(server.info().name, name);
        }
        assert!(builtin("nothing").is_none());
    }

    #[test]
    fn arguments_that_are_none_are_refused() {
        let refused = |name: &str, arguments: &[&str]| {
            builtin(name).unwrap().server(arguments.iter().copied()).unwrap_err().to_string()
        };
        assert_eq!(refused("time", &["now"]), "unexpected argument 'now' found");
        assert_eq!(refused("files", &["--within-roots"]), "no folder to serve files from");
        assert!(refused("files", &["--delete", "."]).contains("--write"));
        assert!(refused("files", &["--help"]).contains("unexpected argument '--help'"));
    }

    /// Models know only the descriptions. (The fixture has the texts that its suite expects.)
    #[tokio::test]
    async fn every_tool_is_described() {
        let folder = tempfile::TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name).into_os_string();
        for (name, arguments) in [
            ("fetch", vec![]),
            ("files", vec!["--write".into(), "--delete".into(), at("")]),
            ("git", vec!["--write".into(), at("")]),
            ("memory", vec!["--file".into(), at("memory.db")]),
            ("time", vec![]),
        ] {
            let server = builtin(name).unwrap().server::<OsString>(arguments).unwrap();
            crate::testing::is_well_described(&server).await;
        }
    }

    #[test]
    fn usage_is_one_line() {
        for builtin in BUILTINS {
            builtin.command().debug_assert();
            assert!(builtin.usage().starts_with(builtin.name), "{}", builtin.usage());
            assert!(!builtin.usage().contains('\n'), "{}", builtin.usage());
        }
    }
}
