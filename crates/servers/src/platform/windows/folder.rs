//! Open folders by their handle, and what is in them.
//!
//! A folder is opened such that it cannot be renamed or deleted as long as it is open. Entries are opened relative to
//! its handle. So a path of it, which some calls need, leads to the same folder.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use cap_fs_ext::{DirExt as _, FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, OpenOptions};
use hospes_fs::retry_while_in_use;
use jiff::Timestamp;

use super::super::EntryKind;
use super::name_problem;

/// An open folder. Names are looked up in it whatever becomes of its path, and are never followed as links.
#[derive(Debug)]
pub(crate) struct FolderHandle(Dir);

impl FolderHandle {
    /// Opens the folder at a path whose links have been resolved.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Dir::open_ambient_dir(path, ambient_authority()).map(Self)
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Returns the metadata of the folder.
    pub(crate) fn stat(&self) -> io::Result<EntryStat> {
        Ok(EntryStat::new(&self.0.dir_metadata()?))
    }

    /// Returns the metadata of an entry.
    pub(crate) fn stat_entry(&self, name: &OsStr) -> io::Result<EntryStat> {
        check(name)?;
        Ok(EntryStat::new(&self.0.symlink_metadata(name)?))
    }

    /// Returns the entries. Those that have disappeared in the meantime, or whose name no path can have, are skipped.
    pub(crate) fn entries(&self) -> io::Result<Vec<(OsString, EntryStat)>> {
        let mut entries = Vec::new();
        for entry in self.0.entries()? {
            let name = entry?.file_name();
            let Ok(stat) = self.stat_entry(&name) else { continue };
            entries.push((name, stat));
        }
        Ok(entries)
    }

    /// Opens a folder in this one.
    pub(crate) fn open_folder(&self, name: &OsStr) -> io::Result<Self> {
        if name == "." {
            return self.try_clone();
        }
        check(name)?;
        self.0.open_dir_nofollow(name).map(Self)
    }

    /// Opens an entry for reading.
    pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        check(name)?;
        let mut options = OpenOptions::new();
        options.read(true).follow(FollowSymlinks::No);
        self.0.open_with(name, &options).map(cap_std::fs::File::into_std)
    }

    /// `None`: the system has no call for it.
    pub(crate) fn open_folder_beneath(&self, _: &Path) -> Option<io::Result<Self>> {
        None
    }

    /// `None`: the system has no call for it.
    pub(crate) fn open_file_beneath(&self, _: &Path) -> Option<io::Result<File>> {
        None
    }

    pub(crate) fn create_folder(&self, name: &OsStr) -> io::Result<()> {
        check(name)?;
        self.0.create_dir(name)
    }

    /// Creates a file that does not exist. An existing file or link is never written to. It inherits the access list of
    /// the folder, so that `_is_private` changes nothing.
    pub(crate) fn create_file(&self, name: &OsStr, _is_private: bool) -> io::Result<File> {
        check(name)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).follow(FollowSymlinks::No);
        self.0.open_with(name, &options).map(cap_std::fs::File::into_std)
    }

    /// Moves an entry, in place of an entry of that name.
    pub(crate) fn rename(&self, name: &OsStr, folder: &Self, new_name: &OsStr) -> io::Result<()> {
        check(name)?;
        check(new_name)?;
        retry_while_in_use(|| self.0.rename(name, &folder.0, new_name))
    }

    /// Moves an entry to a name that must be free.
    pub(crate) fn rename_to_free(&self, name: &OsStr, folder: &Self, new_name: &OsStr) -> io::Result<()> {
        check(name)?;
        check(new_name)?;
        // A second name, which the system refuses where there is one: a rename would replace it.
        if self.stat_entry(name)?.kind == EntryKind::File {
            match self.0.hard_link(name, &folder.0, new_name) {
                Ok(()) => return retry_while_in_use(|| self.0.remove_file(name)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
                // The file system has no second names. That nothing exists was checked just before.
                Err(_) => {}
            }
        }
        match folder.stat_entry(new_name) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.rename(name, folder, new_name),
            Err(error) => Err(error),
        }
    }

    /// Deletes a file, a link, or an empty folder.
    pub(crate) fn remove(&self, name: &OsStr, kind: EntryKind) -> io::Result<()> {
        check(name)?;
        match kind {
            EntryKind::Folder => self.0.remove_dir(name),
            EntryKind::Link => self.0.remove_file_or_symlink(name),
            EntryKind::File | EntryKind::Other => retry_while_in_use(|| self.0.remove_file(name)),
        }
    }

    /// Returns an error if an existing file is read-only.
    pub(crate) fn check_writable(&self, name: &OsStr) -> io::Result<()> {
        if self.stat_entry(name)?.is_read_only { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    /// The system writes entries of folders itself.
    pub(crate) fn sync(&self) {}
}

/// Returns an error for a text that names no file, or another one than it seems.
fn check(name: &OsStr) -> io::Result<()> {
    match name_problem(name) {
        Some(problem) => Err(io::Error::new(io::ErrorKind::InvalidInput, problem)),
        None => Ok(()),
    }
}

/// Metadata of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EntryStat {
    kind: EntryKind,
    size: u64,
    modified: Option<SystemTime>,
    is_read_only: bool,
    id: (u64, u64),
}

impl EntryStat {
    fn new(metadata: &Metadata) -> Self {
        let kind = match metadata.file_type() {
            kind if kind.is_symlink() => EntryKind::Link,
            kind if kind.is_dir() => EntryKind::Folder,
            kind if kind.is_file() => EntryKind::File,
            _ => EntryKind::Other,
        };
        Self {
            kind,
            size: metadata.len(),
            modified: metadata.modified().ok().map(cap_std::time::SystemTime::into_std),
            is_read_only: metadata.permissions().readonly(),
            id: (metadata.dev(), metadata.ino()),
        }
    }

    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        Ok(Self::new(&Metadata::from_file(file)?))
    }

    /// Returns the metadata of what a path leads to, with links followed.
    pub(crate) fn of_path(path: &Path) -> io::Result<Self> {
        use std::os::windows::fs::OpenOptionsExt as _;

        /// Without this flag, folders cannot be opened: `FILE_FLAG_BACKUP_SEMANTICS`.
        const FOLDERS_TOO: u32 = 0x0200_0000;
        // With no access at all, which suffices for metadata.
        Self::of_file(&std::fs::OpenOptions::new().access_mode(0).custom_flags(FOLDERS_TOO).open(path)?)
    }

    pub(crate) fn kind(&self) -> EntryKind {
        self.kind
    }

    /// Returns the length in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn modified(&self) -> Option<Timestamp> {
        let time = Timestamp::try_from(self.modified?).ok()?;
        // In whole seconds, as on other systems.
        Timestamp::from_second(time.as_second()).ok()
    }

    /// Returns the permissions in the format `rw-rw-rw-`. Windows knows only whether a file is read-only; its access
    /// list is not shown.
    pub(crate) fn permissions(&self) -> String {
        if self.is_read_only { "r--r--r--" } else { "rw-rw-rw-" }.to_owned()
    }

    /// Returns the numbers that identify the entry on this machine: volume and file.
    pub(crate) fn id(&self) -> (u64, u64) {
        self.id
    }

    /// Returns true if both describe the same, unchanged file.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self == other
    }

    /// Does nothing: the access list is inherited from the folder, and a read-only file is not replaced.
    #[expect(clippy::unused_self, reason = "the same function as on other systems")]
    pub(crate) fn apply_to(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
}
