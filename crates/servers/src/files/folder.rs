//! Content of a folder, read through its handle. Links are listed but not followed.

use std::ffi::{OsStr, OsString};
use std::io;

use super::closed_folders::ClosedFolders;
pub(super) use crate::platform::EntryKind;
use crate::platform::{EntryStat, FolderHandle};

/// An entry of a folder.
pub(super) struct FolderEntry {
    pub(super) name: OsString,
    pub(super) stat: EntryStat,
}

/// Returns all entries of a folder, sorted by name.
pub(super) fn entries(folder: &FolderHandle) -> io::Result<Vec<FolderEntry>> {
    let entries = folder.entries()?.into_iter();
    let mut entries: Vec<_> = entries.map(|(name, stat)| FolderEntry { name, stat }).collect();
    // File systems have an order of their own, but a limit must cut off the same entries in each call.
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Opens a folder inside a folder. Fails for links and closed folders.
pub(super) fn enter(folder: &FolderHandle, name: &OsStr, closed: &ClosedFolders) -> io::Result<FolderHandle> {
    closed.admit(folder.open_folder(name)?)
}

/// Returns the time of the last change, in the format of RFC 3339.
pub(super) fn modified(stat: &EntryStat) -> Option<String> {
    stat.modified().map(|time| time.to_string())
}
