//! The servers by name, for programs that start them.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use hospes::Server;

use crate::{FilesConfig, FilesError};

/// A server that a program can start by its name.
#[derive(Clone, Copy)]
pub struct Builtin {
    /// The name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// What its arguments are, for the line that says how to use it; empty where it takes none.
    pub usage: &'static str,
    make: fn(&[OsString]) -> Result<Server, BadOptions>,
}

/// All of them, in the order of the alphabet.
pub const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "everything",
        about: "one of each thing a server can offer, to try a client on",
        usage: "",
        make: |arguments| none(arguments).map(|()| crate::everything()),
    },
    Builtin {
        name: "files",
        about: "lists, reads and searches files in the folders it is given, and changes nothing",
        usage: "[--within-roots] FOLDER…",
        make: |arguments| {
            let (within_roots, folders) = match arguments {
                [first, folders @ ..] if first == "--within-roots" => (true, folders),
                folders => (false, folders),
            };
            let config = FilesConfig::new(folders.iter().map(PathBuf::from)).within_roots(within_roots);
            crate::files(config).map_err(BadOptions::Files)
        },
    },
    Builtin {
        name: "time",
        about: "the current time, and conversions between time zones",
        usage: "",
        make: |arguments| none(arguments).map(|()| crate::time()),
    },
];

/// The server called `name`, if there is one.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.name == name)
}

impl Builtin {
    /// Makes the server, with what stood after its name on the command line.
    ///
    /// # Errors
    /// When these are no arguments for it.
    pub fn server<A: Into<OsString>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Server, BadOptions> {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        (self.make)(&arguments)
    }
}

impl fmt::Debug for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builtin").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a server cannot be made with the arguments it was given.
#[derive(Debug)]
#[non_exhaustive]
pub enum BadOptions {
    /// It takes none.
    NotTaken {
        /// The first of them.
        argument: OsString,
    },
    /// Its folders are no folders.
    Files(FilesError),
}

impl fmt::Display for BadOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTaken { argument } => {
                write!(f, "this server takes no arguments, and was given {}", argument.to_string_lossy())
            }
            Self::Files(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BadOptions {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotTaken { .. } => None,
            Self::Files(error) => error.source(),
        }
    }
}

fn none(arguments: &[OsString]) -> Result<(), BadOptions> {
    match arguments {
        [] => Ok(()),
        [argument, ..] => Err(BadOptions::NotTaken { argument: argument.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_by_name() {
        let names: Vec<_> = BUILTINS.iter().map(|builtin| builtin.name).collect();
        assert_eq!(names, ["everything", "files", "time"]);
        for name in ["everything", "time"] {
            let server = builtin(name).unwrap().server::<&str>([]).unwrap();
            assert_eq!(server.info().name, name);
        }
        assert!(builtin("nothing").is_none());
    }

    #[test]
    fn arguments_that_are_none_are_refused() {
        let refused = builtin("time").unwrap().server(["now"]).unwrap_err();
        assert_eq!(refused.to_string(), "this server takes no arguments, and was given now");
        for arguments in [&[][..], &["--within-roots"]] {
            let refused = builtin("files").unwrap().server(arguments).unwrap_err();
            assert_eq!(refused.to_string(), "no folder to serve files from");
        }
    }
}
