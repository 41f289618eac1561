//! Completion of paths, and folders as resources.

use hospes::prelude::*;
use hospes::server::fitting;

use super::folder::{self, EntryKind};
use super::served_folders::ServedPath;
use super::state::FilesState;

/// Media type of a folder, as defined by XDG (RES-16).
pub(super) const FOLDER: &str = "inode/directory";

/// Returns the paths that begin with `typed`, without the leading slash, as in the URI template: entries of the folder
/// typed so far, most likely first. Outside the served folders, only paths towards them are returned.
pub(super) fn completions(files: &FilesState, typed: &str) -> Vec<String> {
    let (folder, name) = typed.rsplit_once('/').unwrap_or(("", typed));
    let inside = || {
        let path = crate::platform::path_of_uri(format!("/{folder}/").into_bytes())?;
        let place = files.roots.find_path(&path, folder).ok()?;
        folder::entries(&place.open_folder().ok()?).ok()
    };
    let Some(entries) = inside() else {
        let roots = files.roots.all().into_iter().filter_map(|root| {
            let path = String::from_utf8(crate::platform::uri_path(&root.path())).ok()?;
            Some(format!("{}/", path.strip_prefix('/')?))
        });
        return roots.filter(|root| root.starts_with(typed)).collect();
    };
    let shown = entries.iter().filter_map(|entry| {
        // A name that is not valid UTF-8 cannot be typed.
        let name = entry.name.to_str()?;
        Some(if entry.stat.kind() == EntryKind::Folder { format!("{name}/") } else { name.to_owned() })
    });
    let names: Vec<String> = shown.collect();
    fitting(name, &names).into_iter().map(|name| format!("{folder}/{name}")).collect()
}

/// Returns a folder as a resource: one entry a line, folders with a slash.
pub(super) fn folder_contents(
    files: &FilesState,
    place: &ServedPath<'_>,
    uri: String,
) -> Result<ResourceContents> {
    let entries = folder::entries(&place.open_folder()?).map_err(|why| place.failed("list", &why))?;
    let (most, mut text) = (files.limits.entries, String::new());
    for entry in entries.iter().take(most) {
        text.push_str(&entry.name.to_string_lossy());
        text.push_str(if entry.stat.kind() == EntryKind::Folder { "/\n" } else { "\n" });
    }
    if let Some(more @ 1..) = entries.len().checked_sub(most) {
        text.push_str(&format!("({more} more)\n"));
    }
    Ok(ResourceContents::text(uri, text).with_mime_type(FOLDER))
}
