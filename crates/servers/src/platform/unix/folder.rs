//! Open folders by their descriptor, and what is in them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{Access, AtFlags, Dir, FileType, Mode, OFlags, Stat};

use super::super::EntryKind;

/// Flags of a folder that is opened inside another one.
const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Flags of a file. Without blocking, because opening a pipe without a writer would block before it can be recognized.
const FILE_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// An open folder. Names are looked up in it whatever becomes of its path, and are never followed as links.
#[derive(Debug)]
pub(crate) struct FolderHandle(OwnedFd);

impl FolderHandle {
    /// Opens the folder at a path whose links have been resolved.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Returns the metadata of the folder.
    pub(crate) fn stat(&self) -> io::Result<EntryStat> {
        Ok(EntryStat(rustix::fs::fstat(&self.0)?))
    }

    /// Returns the metadata of an entry.
    pub(crate) fn stat_entry(&self, name: &OsStr) -> io::Result<EntryStat> {
        Ok(EntryStat(rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Returns the entries. Those that have disappeared in the meantime are skipped.
    pub(crate) fn entries(&self) -> io::Result<Vec<(OsString, EntryStat)>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(self.0.as_fd())? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(stat) = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            entries.push((OsString::from_vec(name.to_bytes().to_vec()), EntryStat(stat)));
        }
        Ok(entries)
    }

    /// Opens a folder in this one.
    pub(crate) fn open_folder(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(&self.0, name, FOLDER_FLAGS, Mode::empty())?))
    }

    /// Opens an entry for reading.
    pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        Ok(rustix::fs::openat(&self.0, name, FILE_FLAGS, Mode::empty())?.into())
    }

    /// Opens a folder below this one in one call. `None` if the system has no call for it.
    pub(crate) fn open_folder_beneath(&self, inside: &Path) -> Option<io::Result<Self>> {
        self.open_beneath(inside, FOLDER_FLAGS).map(|opened| opened.map(Self))
    }

    /// Opens a file below this folder in one call. `None` if the system has no call for it.
    pub(crate) fn open_file_beneath(&self, inside: &Path) -> Option<io::Result<File>> {
        self.open_beneath(inside, FILE_FLAGS).map(|opened| opened.map(File::from))
    }

    #[cfg(target_os = "linux")]
    fn open_beneath(&self, inside: &Path, flags: OFlags) -> Option<io::Result<OwnedFd>> {
        use rustix::fs::ResolveFlags;
        use rustix::io::Errno;

        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&self.0, inside, flags, Mode::empty(), how) {
            // An old kernel, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => None,
            opened => Some(opened.map_err(Into::into)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn open_beneath(&self, _: &Path, _: OFlags) -> Option<io::Result<OwnedFd>> {
        None
    }

    pub(crate) fn create_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777))?)
    }

    /// Creates a file that does not exist. An existing file or link is never written to.
    pub(crate) fn create_file(&self, name: &OsStr, is_private: bool) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if is_private { 0o600 } else { 0o666 });
        Ok(rustix::fs::openat(&self.0, name, flags, mode)?.into())
    }

    /// Moves an entry, in place of an entry of that name.
    pub(crate) fn rename(&self, name: &OsStr, folder: &Self, new_name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, name, &folder.0, new_name)?)
    }

    /// Moves an entry to a name that must be free.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    pub(crate) fn rename_to_free(&self, name: &OsStr, folder: &Self, new_name: &OsStr) -> io::Result<()> {
        use rustix::fs::RenameFlags;
        use rustix::io::Errno;

        match rustix::fs::renameat_with(&self.0, name, &folder.0, new_name, RenameFlags::NOREPLACE) {
            // The file system does not support this flag. That nothing exists was checked just before.
            Err(Errno::INVAL | Errno::NOSYS) => self.rename(name, folder, new_name),
            done => Ok(done?),
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    pub(crate) fn rename_to_free(&self, name: &OsStr, folder: &Self, new_name: &OsStr) -> io::Result<()> {
        self.rename(name, folder, new_name)
    }

    /// Deletes a file, a link, or an empty folder.
    pub(crate) fn remove(&self, name: &OsStr, kind: EntryKind) -> io::Result<()> {
        let flags = if kind == EntryKind::Folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match rustix::fs::unlinkat(&self.0, name, flags) {
            // POSIX allows either error for a folder that is not empty.
            Err(rustix::io::Errno::EXIST) => Err(io::ErrorKind::DirectoryNotEmpty.into()),
            done => Ok(done?),
        }
    }

    /// Returns an error if this process may not write an existing file.
    pub(crate) fn check_writable(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::accessat(&self.0, name, Access::WRITE_OK, AtFlags::empty())?)
    }

    /// Lets entries survive a power failure, where the file system supports it.
    pub(crate) fn sync(&self) {
        let _ = rustix::fs::fsync(&self.0);
    }
}

/// Metadata of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryStat(Stat);

impl EntryStat {
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        Ok(Self(rustix::fs::fstat(file)?))
    }

    /// Returns the metadata of what a path leads to, with links followed.
    pub(crate) fn of_path(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::stat(path)?))
    }

    pub(crate) fn kind(&self) -> EntryKind {
        match FileType::from_raw_mode(self.0.st_mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Folder,
            FileType::Symlink => EntryKind::Link,
            _ => EntryKind::Other,
        }
    }

    /// Returns the length in bytes.
    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.0.st_size).unwrap_or(0)
    }

    pub(crate) fn modified(&self) -> Option<Timestamp> {
        Timestamp::from_second(self.0.st_mtime).ok()
    }

    /// Returns the permissions in the format `rw-r--r--`.
    pub(crate) fn permissions(&self) -> String {
        let letter = |at: u32| {
            let letters = [b'x', b'w', b'r'];
            if (self.0.st_mode >> at) & 1 == 0 { '-' } else { char::from(letters[at as usize % 3]) }
        };
        (0..9).rev().map(letter).collect()
    }

    /// Returns the numbers that identify the entry on this machine.
    #[expect(clippy::unnecessary_cast, reason = "the widths differ from system to system")]
    pub(crate) fn id(&self) -> (u64, u64) {
        (self.0.st_dev as u64, self.0.st_ino as u64)
    }

    /// Returns true if both describe the same, unchanged file.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        // The time alone is not sufficient: file systems record it in steps, and programs can set it.
        let of = |stat: &Stat| {
            (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_mode)
        };
        of(&self.0) == of(&other.0)
    }

    /// Gives a file the owner, if possible, and the permissions of this one.
    pub(crate) fn apply_to(&self, file: &File) -> io::Result<()> {
        let (user, group) =
            (rustix::fs::Uid::from_raw(self.0.st_uid), rustix::fs::Gid::from_raw(self.0.st_gid));
        // Only the administrator may change the owner; the files of other users are their own anyway.
        let _ = rustix::fs::fchown(file, Some(user), Some(group));
        // Without the setuid and setgid bits.
        Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(self.0.st_mode & 0o777))?)
    }
}
