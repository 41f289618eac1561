//! Files that two applications share, each with a form of its own: OpenCode 1 and 2.

use std::path::Path;
use std::sync::Arc;

use super::super::applications::{Application, EntryShape};
use super::super::document::{self, ConfigFormat, ConfigNode};

/// Returns the form of the entries of a file.
pub(super) fn shape_in(application: &'static Application, text: &str) -> &'static EntryShape {
    &application_in_form(application, text).unwrap_or(application).shape
}

/// Returns the application, or the one that shares its files, in whose form a file names servers. `None` if the files are
/// its own, or if the text names no servers.
#[must_use]
pub fn application_in_form(application: &'static Application, text: &str) -> Option<&'static Application> {
    let other = application.sharing_files()?;
    let root = document::parse(&Arc::from(Path::new("opencode.json")), ConfigFormat::Json, text).ok()?;
    let servers = root.get("mcp").and_then(ConfigNode::as_object).filter(|all| !all.is_empty())?;
    // Version 1 could have a server of this name, which has a type.
    let is_second = servers.iter().any(|entry| entry.key == "servers" && entry.node.get("type").is_none());
    [application, other].into_iter().find(|one| (one.shape.key.len() == 2) == is_second)
}
