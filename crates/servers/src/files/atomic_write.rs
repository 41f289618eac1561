//! Writing, moving and deleting of entries, always by name in an open folder.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use hospes::{Error, Result};
use rustix::fs::{Access, AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::entry_location::EntryLocation;
use super::folder::{FileMetadata, Kind};

/// Condition on an existing file at the destination of a write.
pub(super) enum OverwriteMode {
    /// A file may be replaced or created.
    File,
    /// The place must be free.
    Nothing,
    /// Only this file may be replaced, if it has not changed since it was read.
    This(Stat),
}

/// Writes a file atomically: readers see either the old or the new content, even if this process is killed. The
/// permissions of an existing file, and its owner if possible, are kept. Returns true if the file is new.
pub(super) fn save(spot: &EntryLocation<'_>, content: &[u8], over: &OverwriteMode) -> Result<bool> {
    let before = spot.stat_if_present()?;
    if let Some(stat) = &before {
        may_be_replaced(spot, stat, over)?;
    } else if matches!(over, OverwriteMode::This(_)) {
        return Err(changed_error(spot));
    }
    let failed = |why: Errno| spot.failed("write", &why.into());
    // Created in the destination's folder, because a rename works only within one file system.
    let mut part = PartialFile::new(spot, before.is_some())?;
    part.write(content, before.as_ref()).map_err(|why| spot.failed("write", &why))?;
    // Checked again, because writing may take long; only the rename comes after this.
    if let OverwriteMode::This(read) = over {
        let now = spot.stat_if_present()?.ok_or_else(|| changed_error(spot))?;
        if !is_same(&now, read) {
            return Err(changed_error(spot));
        }
    }
    let there = match over {
        OverwriteMode::Nothing => rename_to_free(spot, &part.name, spot),
        _ => rustix::fs::renameat(&spot.descriptor, &part.name, &spot.descriptor, &spot.name),
    };
    match there {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(taken_error(spot)),
        Err(why) => return Err(failed(why)),
    }
    part.is_renamed = true;
    // So that the entry survives a power failure; not every file system supports this.
    let _ = rustix::fs::fsync(&spot.descriptor);
    Ok(before.is_none())
}

/// Moves an entry to another location, where nothing may exist.
pub(super) fn rename(from: &EntryLocation<'_>, to: &EntryLocation<'_>) -> Result<()> {
    from.stat().map_err(|why| from.failed("move", &why))?;
    // Only for a clear message: the rename itself must not replace anything.
    if to.stat_if_present()?.is_some() {
        return Err(taken_error(to));
    }
    rename_to_free(from, &from.name, to).map_err(|why| match why {
        Errno::EXIST => taken_error(to),
        Errno::XDEV => Error::msg(format!(
            "{} and {} are on different file systems: write it there as a new file instead",
            from.shown(),
            to.shown()
        )),
        Errno::INVAL => Error::msg("a folder cannot be moved into itself"),
        why => from.failed("move", &why.into()),
    })
}

/// Deletes a file, a link, or an empty folder.
pub(super) fn delete(spot: &EntryLocation<'_>) -> Result<Kind> {
    let kind = FileMetadata::of(&spot.stat().map_err(|why| spot.failed("delete", &why))?).kind;
    let flags = if kind == Kind::Folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    match rustix::fs::unlinkat(&spot.descriptor, &spot.name, flags) {
        Ok(()) => Ok(kind),
        // POSIX allows either error for a folder that is not empty.
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            Err(Error::msg(format!("{} is not empty: delete its contents first", spot.shown())))
        }
        Err(why) => Err(spot.failed("delete", &why.into())),
    }
}

fn may_be_replaced(spot: &EntryLocation<'_>, stat: &Stat, over: &OverwriteMode) -> Result<()> {
    if matches!(over, OverwriteMode::Nothing) {
        return Err(taken_error(spot));
    }
    match FileMetadata::of(stat).kind {
        Kind::File => {}
        Kind::Folder => return Err(Error::msg(format!("{} is a folder", spot.shown()))),
        _ => return Err(Error::msg(format!("{} is not a regular file", spot.shown()))),
    }
    // A new file could replace it regardless of its mode, but it was made read-only for a reason.
    rustix::fs::accessat(&spot.descriptor, &spot.name, Access::WRITE_OK, AtFlags::empty())
        .map_err(|why| spot.failed("write", &why.into()))
}

/// Temporary file with a unique name that is being written. It is removed if it does not reach its destination.
struct PartialFile<'s> {
    spot: &'s EntryLocation<'s>,
    name: String,
    file: std::fs::File,
    is_renamed: bool,
}

impl<'s> PartialFile<'s> {
    fn new(spot: &'s EntryLocation<'_>, is_private: bool) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // `EXCL` and `NOFOLLOW`: an existing file or link is never written to.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A replacement gets the permissions of the old file in the end, and is private before.
        let mode = Mode::from_raw_mode(if is_private { 0o600 } else { 0o666 });
        loop {
            // Only uniqueness matters, so no order with other memory is needed.
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".hospes-{}-{count}.part", std::process::id());
            match rustix::fs::openat(&spot.descriptor, &name, flags, mode) {
                Ok(file) => return Ok(Self { spot, name, file: file.into(), is_renamed: false }),
                // Left over from another process with the same id.
                Err(Errno::EXIST) => {}
                Err(why) => return Err(spot.failed("write", &why.into())),
            }
        }
    }

    fn write(&self, content: &[u8], like: Option<&Stat>) -> io::Result<()> {
        (&self.file).write_all(content)?;
        if let Some(like) = like {
            let (user, group) =
                (rustix::fs::Uid::from_raw(like.st_uid), rustix::fs::Gid::from_raw(like.st_gid));
            // Only the administrator may change the owner; the files of other users are their own anyway.
            let _ = rustix::fs::fchown(&self.file, Some(user), Some(group));
            // Without the setuid and setgid bits.
            rustix::fs::fchmod(&self.file, Mode::from_raw_mode(like.st_mode & 0o777))?;
        }
        // Before the rename, or after a power failure the new name could refer to an empty file.
        self.file.sync_all()
    }
}

impl Drop for PartialFile<'_> {
    fn drop(&mut self) {
        // After the rename, another write may use the name.
        if self.is_renamed {
            return;
        }
        // Errors cannot be reported in a drop; a remaining file has a hidden name of its own.
        let _ = rustix::fs::unlinkat(&self.spot.descriptor, &self.name, AtFlags::empty());
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn rename_to_free(
    from: &EntryLocation<'_>,
    name: impl rustix::path::Arg + Copy,
    to: &EntryLocation<'_>,
) -> rustix::io::Result<()> {
    use rustix::fs::RenameFlags;

    match rustix::fs::renameat_with(&from.descriptor, name, &to.descriptor, &to.name, RenameFlags::NOREPLACE)
    {
        // The file system does not support this flag. That nothing exists was checked just before.
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::renameat(&from.descriptor, name, &to.descriptor, &to.name)
        }
        done => done,
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn rename_to_free(
    from: &EntryLocation<'_>,
    name: impl rustix::path::Arg + Copy,
    to: &EntryLocation<'_>,
) -> rustix::io::Result<()> {
    rustix::fs::renameat(&from.descriptor, name, &to.descriptor, &to.name)
}

fn is_same(a: &Stat, b: &Stat) -> bool {
    // The time alone is not sufficient: file systems record it in steps, and programs can set it.
    let of = |stat: &Stat| {
        (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_mode)
    };
    of(a) == of(b)
}

fn taken_error(spot: &EntryLocation<'_>) -> Error {
    Error::msg(format!("{} already exists", spot.shown()))
}

fn changed_error(spot: &EntryLocation<'_>) -> Error {
    Error::msg(format!("{} was changed in the meantime: read it again", spot.shown()))
}
