//! Content of a folder, read through its descriptor. Links are listed but not followed.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;

use hospes::schemars::JsonSchema;
use hospes::serde::Serialize;
use jiff::Timestamp;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

use super::closed_folders::ClosedFolders;

/// What something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    File,
    Folder,
    Link,
    Other,
}

/// Metadata of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileMetadata {
    pub(super) kind: Kind,
    pub(super) size: u64,
    modified: Option<Timestamp>,
    mode: u32,
}

impl FileMetadata {
    pub(super) fn of(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Link,
            _ => Kind::Other,
        };
        Self {
            kind,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: Timestamp::from_second(stat.st_mtime).ok(),
            mode: stat.st_mode,
        }
    }

    /// Returns the time of the last change, in the format of RFC 3339.
    pub(super) fn modified(&self) -> Option<String> {
        self.modified.map(|time| time.to_string())
    }

    /// Returns the permissions in the format `rw-r--r--`.
    pub(super) fn permissions(&self) -> String {
        let letter = |at: u32| {
            let letters = [b'x', b'w', b'r'];
            if self.mode & (1 << at) == 0 { '-' } else { char::from(letters[at as usize % 3]) }
        };
        (0..9).rev().map(letter).collect()
    }
}

/// An entry of a folder.
pub(super) struct FolderEntry {
    pub(super) name: OsString,
    pub(super) meta: FileMetadata,
}

/// Returns all entries of a folder, sorted by name.
pub(super) fn entries(folder: &OwnedFd) -> io::Result<Vec<FolderEntry>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder.as_fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        // Entries that have disappeared in the meantime are skipped.
        let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        entries.push(FolderEntry {
            name: OsString::from_vec(name.to_bytes().to_vec()),
            meta: FileMetadata::of(&stat),
        });
    }
    // File systems have an order of their own, but a limit must cut off the same entries in each call.
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// Opens a folder inside a folder. Fails for links and closed folders.
pub(super) fn enter(folder: &OwnedFd, name: &OsString, closed: &ClosedFolders) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(closed.admit(rustix::fs::openat(folder, name.as_os_str(), flags, Mode::empty())?)?)
}

/// Opens a file inside a folder without blocking. Fails for links.
pub(super) fn open(folder: &OwnedFd, name: &OsString) -> io::Result<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name.as_os_str(), flags, Mode::empty())?.into())
}
