//! Files of Hospes on every system: private ones, and ones that are replaced as a whole.
//!
//! A **private** file is accessible to the user of this process alone. On Unix that is its mode, `0600`. On Windows it is
//! an access list that inherits nothing and names the user, the system and the administrators.
//!
//! A file is **replaced** by a new one that is written beside it and then renamed. On Windows this fails as long as another
//! program has the file open, such as a virus scanner, so it is repeated for less than a second.
//!
//! A file of another program is only changed if it is still **unchanged**: [`replace_unchanged`], [`remove_unchanged`] and
//! [`persist_new`].

#[cfg(any(windows, test))]
mod access_list;
mod lock;
mod retry;
mod unchanged;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

/// Beginning of the names of temporary files. A process that was killed may have left one.
pub const TEMPORARY_PREFIX: &str = ".hospes-";

pub use lock::{FileLock, FileLockError, LockHolder};
pub use retry::retry_while_in_use;
pub use unchanged::{persist_new, remove_unchanged, replace_unchanged};

/// Creates a private file, open for reading and writing. No link is followed.
///
/// # Errors
/// If there is already something of this name, or the file cannot be created or made private.
pub fn create_private(path: &Path) -> io::Result<File> {
    system::create_private(path)
}

/// Opens a file for reading and writing. A missing one is created private; an existing one keeps its permissions and its
/// content.
///
/// # Errors
/// If the file cannot be opened, created or made private.
pub fn open_private(path: &Path) -> io::Result<File> {
    system::open_private(path)
}

/// Replaces a private file, or creates it, so that there is always the old content or the new one, also after a crash of
/// the system. Its folder must exist. Callers hold a lock: the temporary file has one name, so that a process that was
/// killed leaves one at most, which the next call replaces.
///
/// # Errors
/// If the file cannot be written, made private or replaced.
pub fn replace_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temporary = std::ffi::OsString::from(TEMPORARY_PREFIX);
    temporary.push(name);
    let temporary = path.with_file_name(temporary);
    let _none = fs::remove_file(&temporary);
    let written = create_private(&temporary)
        .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_all()))
        .and_then(|()| rename(&temporary, path));
    if written.is_err() {
        let _none = fs::remove_file(&temporary);
    } else if let Some(folder) = path.parent() {
        sync_folder(folder);
    }
    written
}

/// Writes the names in a folder to the disk, where the system can do so, so that a renamed file has its new name after a
/// crash.
pub fn sync_folder(folder: &Path) {
    // A file system that cannot do so keeps the order of changes, or promises nothing.
    if cfg!(unix) {
        let _best_effort = File::open(folder).and_then(|folder| folder.sync_all());
    }
}

/// Creates a private folder, with its parents. Files that are created in it on Windows are private, too. An existing
/// folder keeps its permissions.
///
/// # Errors
/// If a folder cannot be created or made private.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_private_folder(parent)?;
    }
    match system::create_private_folder(path) {
        // Another process was first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        result => result,
    }
}

/// Returns true if other users can read or write a file or a folder. Administrators and the system do not count on
/// Windows, nor root on Unix. A link is not followed, and counts as open to others.
///
/// # Errors
/// If its permissions cannot be read.
pub fn is_open_to_others(path: &Path) -> io::Result<bool> {
    if fs::symlink_metadata(path)?.is_symlink() {
        return Ok(true);
    }
    system::is_open_to_others(path)
}

/// Makes an existing file private. Returns true if it was open to others. Links are followed.
///
/// # Errors
/// If its permissions cannot be changed, for example because it belongs to another user.
pub fn restrict(path: &Path) -> io::Result<bool> {
    // SQLite names the files beside a database after what a link leads to, and so does this function.
    let real = fs::canonicalize(path)?;
    if !real.is_file() || !system::is_open_to_others(&real)? {
        return Ok(false);
    }
    system::make_private(&real).map(|()| true)
}

/// Makes the files private that SQLite keeps beside an open database. On Unix they have the mode of the database already,
/// on Windows they inherit the access list of the folder.
///
/// # Errors
/// If their permissions cannot be changed.
pub fn restrict_database_files(database: &Path) -> io::Result<()> {
    let real = fs::canonicalize(database)?;
    for ending in ["-wal", "-shm"] {
        let mut beside = real.as_os_str().to_owned();
        beside.push(ending);
        match restrict(Path::new(&beside)) {
            // Another process was the last to close the database.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => drop(result?),
        }
    }
    Ok(())
}

/// Returns a command that makes a file private.
#[must_use]
pub fn protection_hint(path: &Path) -> String {
    system::protection_hint(path)
}

/// Renames a file. One of the new name is replaced.
///
/// # Errors
/// If the file cannot be renamed, on Windows also if another program keeps one of them open.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    retry_while_in_use(|| fs::rename(from, to))
}

/// Moves a temporary file to its place. A file that is there is replaced.
///
/// # Errors
/// If it cannot be renamed, on Windows also if another program keeps the replaced file open. The temporary file is then
/// removed.
pub fn persist(temporary: tempfile::NamedTempFile, to: &Path) -> io::Result<()> {
    let mut temporary = Some(temporary);
    retry_while_in_use(|| {
        let Some(file) = temporary.take() else { return Ok(()) };
        file.persist(to).map(drop).map_err(|failed| {
            temporary = Some(failed.file);
            failed.error
        })
    })
}

#[cfg(test)]
mod tests;
