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
    let _ = args;
    Err(BuiltinError::new(unknown(name)))
}

fn unknown(name: &str) -> String {
    let there_are = NAMES.join(", ");
    match nearest(name, NAMES) {
        Some(meant) => format!("there is no built-in server `{name}`; did you mean `{meant}`?"),
        None => format!("there is no built-in server `{name}`; there are {there_are}"),
    }
}
