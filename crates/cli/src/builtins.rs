//! The servers that are part of the program.

use std::sync::Arc;

use hospes::BoxService;
use hospes_host::config::nearest;
use hospes_host::{BuiltinError, Builtins};

/// Their names.
pub(crate) const NAMES: [&str; 3] = ["files", "time", "everything"];

/// Finds them for the host.
pub(crate) fn all() -> Builtins {
    Arc::new(find)
}

/// The built-in server of that name.
pub(crate) fn find(name: &str, args: &[String]) -> Result<BoxService, BuiltinError> {
    let builtin = hospes_servers::builtin(name).ok_or_else(|| BuiltinError::new(unknown(name)))?;
    let server = builtin.server(args).map_err(|error| {
        let mut why = error.to_string();
        if !builtin.usage.is_empty() {
            why.push_str(&format!("; usage: {name} {}", builtin.usage));
        }
        BuiltinError::new(why)
    })?;
    Ok(BoxService::new(server))
}

fn unknown(name: &str) -> String {
    let there_are = NAMES.join(", ");
    match nearest(name, NAMES) {
        Some(meant) => format!("there is no built-in server `{name}`; did you mean `{meant}`?"),
        None => format!("there is no built-in server `{name}`; there are {there_are}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_a_server() {
        let mut names = NAMES;
        names.sort_unstable();
        let there_are: Vec<_> = hospes_servers::BUILTINS.iter().map(|builtin| builtin.name).collect();
        assert_eq!(names[..], there_are[..]);
        assert!(find("time", &[]).is_ok());
    }

    #[test]
    fn mistakes_say_what_was_meant() {
        let why = |name: &str, args: &[String]| find(name, args).unwrap_err().to_string();
        assert_eq!(why("tmie", &[]), "there is no built-in server `tmie`; did you mean `time`?");
        assert_eq!(why("files", &[]), "no folder to serve files from; usage: files FOLDER…");
    }
}
