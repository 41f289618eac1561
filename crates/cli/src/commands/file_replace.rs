//! Replacement of a configuration file, of Hospes or of an application.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use hospes_host::config::MAX_FILE;

use crate::exit::{CliError, CliResult};
use crate::paths;

/// Reads a configuration file. Returns an empty text if it does not exist.
pub(super) fn read_text(file: &Path) -> CliResult<String> {
    let failed = |error: &io::Error| {
        CliError::usage(format!("cannot read {}", paths::display_path(file))).with_cause(error)
    };
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
    let failed = |error: &io::Error| {
        CliError::usage(format!("cannot write {}", paths::display_path(file))).with_cause(error)
    };
    let target = match fs::canonicalize(file) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => file.to_owned(),
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
    let mut written =
        tempfile::Builder::new().prefix(".hospes-").tempfile_in(&folder).map_err(|e| failed(&e))?;
    let filled = written.write_all(after.as_bytes()).and_then(|()| {
        // A new file stays readable by its owner only.
        if let Some(permissions) = permissions {
            written.as_file().set_permissions(permissions)?;
        }
        written.as_file().sync_all()
    });
    filled.map_err(|error| failed(&error))?;
    if read_text(&target)? != before {
        return Err(CliError::usage(format!("{} was changed in the meantime", paths::display_path(file)))
            .hint("the file was not changed; run the command again"));
    }
    hospes_fs::persist(written, &target).map_err(|error| failed(&error))
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
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "a temporary file is left");
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
