//! Writing, moving and deleting of entries, always by name in an open folder.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use hospes::{Error, Result};

use super::entry_location::EntryLocation;
use super::folder::EntryKind;
use crate::platform::EntryStat;

/// Condition on an existing file at the destination of a write.
pub(super) enum OverwriteMode {
    /// A file may be replaced or created.
    File,
    /// The place must be free.
    Nothing,
    /// Only this file may be replaced, if it has not changed since it was read.
    This(EntryStat),
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
    // Created in the destination's folder, because a rename works only within one file system.
    let mut part = PartialFile::new(spot, before.is_some())?;
    part.write(content, before.as_ref()).map_err(|why| spot.failed("write", &why))?;
    // Checked again, because writing may take long; only the rename comes after this.
    if let OverwriteMode::This(read) = over {
        let now = spot.stat_if_present()?.ok_or_else(|| changed_error(spot))?;
        if !now.is_same(read) {
            return Err(changed_error(spot));
        }
    }
    let there = match over {
        OverwriteMode::Nothing => spot.handle.rename_to_free(&part.name, &spot.handle, &spot.name),
        _ => spot.handle.rename(&part.name, &spot.handle, &spot.name),
    };
    match there {
        Ok(()) => {}
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => return Err(taken_error(spot)),
        Err(why) => return Err(spot.failed("write", &why)),
    }
    part.is_renamed = true;
    spot.handle.sync();
    Ok(before.is_none())
}

/// Moves an entry to another location, where nothing may exist.
pub(super) fn rename(from: &EntryLocation<'_>, to: &EntryLocation<'_>) -> Result<()> {
    from.stat().map_err(|why| from.failed("move", &why))?;
    // Only for a clear message: the rename itself must not replace anything.
    if to.stat_if_present()?.is_some() {
        return Err(taken_error(to));
    }
    from.handle.rename_to_free(&from.name, &to.handle, &to.name).map_err(|why| match why.kind() {
        io::ErrorKind::AlreadyExists => taken_error(to),
        io::ErrorKind::CrossesDevices => Error::msg(format!(
            "{} and {} are on different file systems: write it there as a new file instead",
            from.shown(),
            to.shown()
        )),
        io::ErrorKind::InvalidInput => Error::msg("a folder cannot be moved into itself"),
        _ => from.failed("move", &why),
    })
}

/// Deletes a file, a link, or an empty folder.
pub(super) fn delete(spot: &EntryLocation<'_>) -> Result<EntryKind> {
    let kind = spot.stat().map_err(|why| spot.failed("delete", &why))?.kind();
    match spot.handle.remove(&spot.name, kind) {
        Ok(()) => Ok(kind),
        Err(why) if why.kind() == io::ErrorKind::DirectoryNotEmpty => {
            Err(Error::msg(format!("{} is not empty: delete its contents first", spot.shown())))
        }
        Err(why) => Err(spot.failed("delete", &why)),
    }
}

fn may_be_replaced(spot: &EntryLocation<'_>, stat: &EntryStat, over: &OverwriteMode) -> Result<()> {
    if matches!(over, OverwriteMode::Nothing) {
        return Err(taken_error(spot));
    }
    match stat.kind() {
        EntryKind::File => {}
        EntryKind::Folder => return Err(Error::msg(format!("{} is a folder", spot.shown()))),
        _ => return Err(Error::msg(format!("{} is not a regular file", spot.shown()))),
    }
    // A new file could replace it regardless of its mode, but it was made read-only for a reason.
    spot.handle.check_writable(&spot.name).map_err(|why| spot.failed("write", &why))
}

/// Temporary file with a unique name that is being written. It is removed if it does not reach its destination.
struct PartialFile<'s> {
    spot: &'s EntryLocation<'s>,
    name: OsString,
    file: std::fs::File,
    is_renamed: bool,
}

impl<'s> PartialFile<'s> {
    fn new(spot: &'s EntryLocation<'_>, is_private: bool) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            // Only uniqueness matters, so no order with other memory is needed.
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(format!(".hospes-{}-{count}.part", std::process::id()));
            // A replacement gets the permissions of the old file in the end, and is private before.
            match spot.handle.create_file(&name, is_private) {
                Ok(file) => return Ok(Self { spot, name, file, is_renamed: false }),
                // Left over from another process with the same id.
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(spot.failed("write", &why)),
            }
        }
    }

    fn write(&self, content: &[u8], like: Option<&EntryStat>) -> io::Result<()> {
        (&self.file).write_all(content)?;
        if let Some(like) = like {
            like.apply_to(&self.file)?;
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
        let _ = self.spot.handle.remove(&self.name, EntryKind::File);
    }
}

fn taken_error(spot: &EntryLocation<'_>) -> Error {
    Error::msg(format!("{} already exists", spot.shown()))
}

fn changed_error(spot: &EntryLocation<'_>) -> Error {
    Error::msg(format!("{} was changed in the meantime: read it again", spot.shown()))
}
