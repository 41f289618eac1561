//! The servers that are built into the program.

use std::sync::Arc;

use hospes::BoxService;
use hospes_host::config::nearest;
use hospes_host::{BuiltinError, BuiltinFactory};
use hospes_servers::{BUILTINS, builtin};

use crate::args;
use crate::exit::error_chain;

/// Servers that run without a configuration, in display order, with their arguments.
pub(crate) const DEFAULTS: [(&str, &[&str]); 3] = [("files", &["."]), ("time", &[]), ("everything", &[])];

/// Returns the default arguments of a built-in server: `files` serves the current folder, as with `up`.
pub(crate) fn default_arguments(name: &str) -> &'static [&'static str] {
    if matches!(name, "files" | "git") { &["."] } else { &[] }
}

/// Returns the names of the built-in servers.
pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
    BUILTINS.iter().map(|builtin| builtin.name)
}

/// Returns the factory with which the host starts built-in servers.
pub(crate) fn all() -> BuiltinFactory {
    Arc::new(find)
}

/// Creates the built-in server with this name.
pub(crate) fn find(name: &str, args: &[String]) -> Result<BoxService, BuiltinError> {
    let found = builtin(name).ok_or_else(|| BuiltinError::new(unknown(name)))?;
    let server = found.server(args);
    let server = server
        .map_err(|error| BuiltinError::new(format!("{}; usage: {}", error_chain(&error), found.usage())))?;
    Ok(BoxService::new(server))
}

/// Creates the built-in server that the command line names.
pub(crate) fn find_named(named: &args::BuiltinCommand) -> Result<BoxService, BuiltinError> {
    let found = builtin(&named.name).ok_or_else(|| BuiltinError::new(unknown(&named.name)))?;
    let server = found.server_of(&named.options).map_err(|error| BuiltinError::new(error_chain(&error)))?;
    Ok(BoxService::new(server))
}

fn unknown(name: &str) -> String {
    match nearest(name, names()) {
        Some(meant) => format!("unknown built-in server `{name}`; did you mean `{meant}`?"),
        None => {
            let there_are: Vec<&str> = names().collect();
            format!("unknown built-in server `{name}`; available: {}", there_are.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_of_the_defaults_start() {
        for (name, args) in DEFAULTS {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            find(name, &args).unwrap();
        }
    }

    #[test]
    fn mistakes_say_what_was_meant() {
        let why = |name: &str, args: &[String]| find(name, args).unwrap_err().to_string();
        assert_eq!(why("tmie", &[]), "unknown built-in server `tmie`; did you mean `time`?");
        assert_eq!(
            why("files", &["--within-roots".to_owned()]),
            "no folder to serve files from; usage: files [OPTIONS] [FOLDER]..."
        );
    }
}
