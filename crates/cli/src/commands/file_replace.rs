//! Replacement of a configuration file, of Hospes or of an application.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use hospes_host::config::MAX_FILE;

use crate::exit::{CliError, CliResult};
use crate::paths;

/// Maximum number of entries of a folder among which temporary files are found.
const MAX_ENTRIES: usize = 10_000;

/// Reads a configuration file. Returns an empty text if it does not exist.
pub(super) fn read_text(file: &Path) -> CliResult<String> {
    let failed = |error: &io::Error| {
        CliError::usage(format!("cannot read {}", paths::display_path(file))).with_cause(error)
    };
    match fs::metadata(file) {
        // A pipe would be waited for, and a device has no end.
        Ok(about) if !about.is_file() => {
            return Err(CliError::usage(format!("{} is not a regular file", paths::display_path(file)))
                .hint("nothing was changed; move it away, or choose another file"));
        }
        // The link would be replaced by a file.
        Err(error) if error.kind() == io::ErrorKind::NotFound && file.is_symlink() => {
            return Err(CliError::usage(format!(
                "{} is a link to a file that does not exist",
                paths::display_path(file)
            ))
            .hint("create the file, or delete the link"));
        }
        _ => {}
    }
    let opened = match fs::File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(failed(&error)),
    };
    let mut bytes = Vec::new();
    opened.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() > MAX_FILE {
        return Err(failed(&io::ErrorKind::FileTooLarge.into())
            .hint(format!("at most {} MiB are read; make the file smaller", MAX_FILE >> 20)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let place = paths::display_path(file);
        // What the shell of Windows writes with `>`.
        match error.as_bytes() {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => CliError::usage(format!("{place} is UTF-16, not UTF-8"))
                .hint(format!(
                    "nothing was changed; save it as UTF-8: iconv -f UTF-16 -t UTF-8 {place} > NEW"
                )),
            _ => CliError::usage(format!("{place} is not UTF-8 (byte {})", error.utf8_error().valid_up_to()))
                .hint("nothing was changed; save the file as UTF-8"),
        }
    })
}

/// Replaces a file atomically, unless it was changed since `before` was read. A symbolic link stays, and its target is
/// replaced.
pub(super) fn replace(file: &Path, before: &str, after: &str) -> CliResult {
    let failed = |error: &io::Error| change_error("write", file, error);
    let (target, is_new) = match fs::canonicalize(file) {
        Ok(target) => (target, false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (file.to_owned(), true),
        Err(error) => return Err(failed(&error)),
    };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(|| PathBuf::from("."), Path::to_owned);
    fs::create_dir_all(&folder).map_err(|error| failed(&error))?;
    let permissions = fs::metadata(&target).ok().map(|about| about.permissions());
    if permissions.as_ref().is_some_and(fs::Permissions::readonly) {
        return Err(CliError::usage(format!("{} is read-only", paths::display_path(file)))
            .hint("nothing was changed; make the file writable, or choose another one"));
    }
    let mut written = tempfile::Builder::new()
        .prefix(hospes_fs::TEMPORARY_PREFIX)
        .tempfile_in(&folder)
        .map_err(|e| failed(&e))?;
    let filled = written.write_all(after.as_bytes()).and_then(|()| {
        // A new file stays readable by its owner only.
        if let Some(permissions) = permissions {
            written.as_file().set_permissions(permissions)?;
        }
        written.as_file().sync_all()
    });
    filled.map_err(|error| failed(&error))?;
    let replaced = match is_new {
        true if before.is_empty() => hospes_fs::persist_new(written, &target),
        true => Ok(false),
        false => hospes_fs::replace_unchanged(written, &target, before.as_bytes()),
    };
    if !replaced.map_err(|error| failed(&error))? {
        return Err(changed_meanwhile(file));
    }
    hospes_fs::sync_folder(&folder);
    Ok(())
}

/// Deletes a file, unless it was changed since `before` was read.
pub(super) fn remove(file: &Path, before: &str) -> CliResult {
    match hospes_fs::remove_unchanged(file, before.as_bytes()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(changed_meanwhile(file)),
        Err(error) => Err(change_error("delete", file, &error)),
    }
}

/// Deletes temporary files that were left beside a file when a command was killed, if their text is a known one. Another
/// one may be a version of the application, which an error has named.
pub(super) fn remove_leftovers(file: &Path, is_known: impl Fn(&str) -> bool) {
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    for path in target.parent().map(leftovers).unwrap_or_default() {
        if read_text(&path).is_ok_and(|text| text.is_empty() || is_known(&text)) {
            let _still_there = fs::remove_file(path);
        }
    }
}

/// Returns the temporary files in a folder.
pub(super) fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES).flatten();
    let is_temporary =
        |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(hospes_fs::TEMPORARY_PREFIX);
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    entries.filter(|entry| is_temporary(entry) && is_file(entry)).map(|entry| entry.path()).collect()
}

fn changed_meanwhile(file: &Path) -> CliError {
    CliError::usage(format!("{} was changed in the meantime", paths::display_path(file)))
        .hint("the file was not changed; run the command again")
}

fn change_error(what: &str, file: &Path, error: &io::Error) -> CliError {
    let problem = CliError::usage(format!("cannot {what} {}", paths::display_path(file))).with_cause(error);
    let folder = paths::display_path(file.parent().unwrap_or(file));
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            problem.hint(format!("the file was not changed; make the folder {folder} writable"))
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            problem.hint("the file was not changed; make room on the disk")
        }
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn a_file_that_was_changed_in_the_meantime_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/config.toml");
        replace(&file, "", "a").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "a");
        fs::write(&file, "other").unwrap();
        assert!(replace(&file, "a", "b").unwrap_err().message.contains("changed in the meantime"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "other");
        assert!(remove(&file, "a").unwrap_err().message.contains("changed in the meantime"));
        assert!(replace(&folder.path().join("none"), "a", "b").is_err(), "it was deleted in the meantime");
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "a temporary file is left");
        remove(&file, "other").unwrap();
        assert!(!file.exists());
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_regular_file_is_neither_read_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("config.json");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for place in [socket.as_path(), folder.path(), Path::new("/dev/zero")] {
            assert!(read_text(place).unwrap_err().message.contains("is not a regular file"), "{place:?}");
        }
        assert!(replace(&socket, "", "a").is_err() && remove(&socket, "").is_err() && socket.exists());
        let link = folder.path().join("link.json");
        std::os::unix::fs::symlink(folder.path().join("none"), &link).unwrap();
        assert!(read_text(&link).unwrap_err().message.contains("is a link to a file that does not exist"));
        assert!(replace(&link, "", "a").is_err());
        assert!(link.is_symlink());
    }

    #[cfg(unix)]
    #[test]
    fn links_and_modes_stay() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.toml"), folder.path().join("config.toml"));
        fs::write(&real, "a").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&real, &link).unwrap();
        replace(&link, "a", "b").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "b");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        fs::set_permissions(&real, fs::Permissions::from_mode(0o440)).unwrap();
        assert!(replace(&link, "b", "c").unwrap_err().message.contains("read-only"));
    }
}
