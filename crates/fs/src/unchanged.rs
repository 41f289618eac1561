//! Changes of files that another program may write at the same moment. A file is compared as the last step before it is
//! changed, and again after it has left its place, so that no version of another program is lost.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use tempfile::{NamedTempFile, TempPath};

use super::retry::retry_while_in_use;
use super::{persist, system};

/// Maximum size of a file that is compared, in bytes.
const MAX_COMPARED: u64 = 64 << 20;
/// Maximum number of versions of another program that are put back. Each is one that it wrote within microseconds.
const MAX_EXCHANGES: usize = 16;

/// Something at a path, as far as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Occupant {
    File(Vec<u8>),
    /// A link, a folder, a device, or a file that is too large.
    Other,
}

impl Occupant {
    fn at(path: &Path) -> io::Result<Self> {
        let about = fs::symlink_metadata(path)?;
        if !about.is_file() || about.len() > MAX_COMPARED {
            return Ok(Self::Other);
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_COMPARED).read_to_end(&mut bytes)?;
        Ok(Self::File(bytes))
    }

    fn is(&self, content: &[u8]) -> bool {
        matches!(self, Self::File(bytes) if bytes == content)
    }
}

/// Returns true if there is a file with this content.
fn has_content(path: &Path, content: &[u8]) -> io::Result<bool> {
    match Occupant::at(path) {
        Ok(found) => Ok(found.is(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Moves a temporary file, which is in the same folder, to the place of a file with the content `before`. Returns false,
/// and leaves the file alone, if it has another content, is a link, or is gone.
///
/// On Linux and macOS the two files are exchanged in one step and compared afterwards, so that a version that another
/// program writes in the meantime is put back. Where the system or the file system cannot exchange files, a version
/// that is written between comparison and replacement is lost. A program that has opened the old file before, and
/// writes into it afterwards, writes into a file that is gone.
///
/// # Errors
/// If a file cannot be read or moved. If a version of another program cannot be put back, the error names its file.
pub fn replace_unchanged(temporary: NamedTempFile, to: &Path, before: &[u8]) -> io::Result<bool> {
    replace_with(system::exchange, temporary, to, before)
}

fn replace_with(
    mut exchange: impl FnMut(&Path, &Path) -> io::Result<()>,
    temporary: NamedTempFile,
    to: &Path,
    before: &[u8],
) -> io::Result<bool> {
    let mut replacement = Occupant::at(temporary.path())?;
    if !has_content(to, before)? {
        return Ok(false);
    }
    match exchange(temporary.path(), to) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            return persist(temporary, to).map(|()| true);
        }
        Err(error) => return Err(error),
    }
    let mut expected = Occupant::File(before.to_owned());
    let mut is_unchanged = true;
    // What has come out is the newest version of another program, unless it is what was there before.
    for _ in 0..MAX_EXCHANGES {
        let put_back = Occupant::at(temporary.path()).and_then(|found| {
            if found == expected {
                return Ok(true);
            }
            is_unchanged = false;
            exchange(temporary.path(), to)?;
            expected = std::mem::replace(&mut replacement, found);
            Ok(false)
        });
        match put_back {
            Ok(true) => return Ok(is_unchanged),
            Ok(false) => {}
            Err(error) => return Err(keep(temporary.into_temp_path(), &error)),
        }
    }
    Err(keep(temporary.into_temp_path(), &io::ErrorKind::ResourceBusy.into()))
}

/// Moves a temporary file, which is in the same folder, to a place at which there is nothing. Returns false if there is
/// something.
///
/// # Errors
/// If the file cannot be moved.
pub fn persist_new(temporary: NamedTempFile, to: &Path) -> io::Result<bool> {
    move_to_new(temporary.into_temp_path(), to).map_err(|(_, error)| error)
}

/// Moves a file to a place at which there is nothing. An error returns the file.
fn move_to_new(temporary: TempPath, to: &Path) -> Result<bool, (Option<TempPath>, io::Error)> {
    let mut temporary = Some(temporary);
    let moved = retry_while_in_use(|| {
        let Some(path) = temporary.take() else { return Ok(()) };
        path.persist_noclobber(to).map_err(|failed| {
            temporary = Some(failed.path);
            failed.error
        })
    });
    match (moved, temporary) {
        (Ok(()), _) => Ok(true),
        // The file is deleted: there is a newer one.
        (Err(error), _) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        // A file system without hard links.
        (Err(_), Some(path)) if fs::symlink_metadata(to).is_err() => {
            path.persist(to).map(|()| true).map_err(|failed| (Some(failed.path), failed.error))
        }
        (Err(error), temporary) => Err((temporary, error)),
    }
}

/// Deletes a file with this content. Returns false, and leaves the file alone, if it has another content, is a link, or
/// is gone.
///
/// The file is renamed and compared again before it is deleted. A version that another program writes in the meantime is
/// moved back, unless there is a newer one by then.
///
/// # Errors
/// If the file cannot be read, renamed or deleted. If it cannot be moved back, the error names its new place.
pub fn remove_unchanged(path: &Path, content: &[u8]) -> io::Result<bool> {
    remove_with(super::rename, path, content)
}

fn remove_with(
    rename: impl FnOnce(&Path, &Path) -> io::Result<()>,
    path: &Path,
    content: &[u8],
) -> io::Result<bool> {
    if !has_content(path, content)? {
        return Ok(false);
    }
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    // Closed, because Windows may not rename to an open file.
    let aside =
        tempfile::Builder::new().prefix(super::TEMPORARY_PREFIX).tempfile_in(folder)?.into_temp_path();
    match rename(path, &aside) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    match has_content(&aside, content) {
        Ok(true) => aside.close().map(|()| true),
        Ok(false) => match move_to_new(aside, path) {
            Ok(_) => Ok(false),
            Err((Some(aside), error)) => Err(keep(aside, &error)),
            Err((None, error)) => Err(error),
        },
        Err(error) => Err(keep(aside, &error)),
    }
}

/// Keeps a temporary file that has a version of another program.
fn keep(temporary: TempPath, error: &io::Error) -> io::Error {
    let what = match temporary.keep() {
        Ok(path) => format!("what another program has written is in {}", path.display()),
        Err(failed) => format!("what another program has written is lost: {}", failed.error),
    };
    io::Error::new(error.kind(), format!("{error}; {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(folder: &Path, text: &str) -> NamedTempFile {
        let file = NamedTempFile::new_in(folder).unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    fn is_alone(path: &Path, text: &str) {
        assert_eq!(fs::read_to_string(path).unwrap(), text);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "a file is left");
    }

    /// Replaces another program's file: before each exchange it writes the next of its versions, by renaming.
    #[cfg(not(windows))]
    fn race(versions: &[&str], in_place: bool) -> (io::Result<bool>, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "before").unwrap();
        let mut versions = versions.iter();
        let exchange = |one: &Path, other: &Path| {
            if let Some(version) = versions.next() {
                if in_place {
                    fs::write(&path, version).unwrap();
                } else {
                    temporary(folder.path(), version).persist(&path).unwrap();
                }
            }
            system::exchange(one, other)
        };
        let result = replace_with(exchange, temporary(folder.path(), "ours"), &path, b"before");
        let left = fs::read_to_string(&path).unwrap();
        is_alone(&path, &left);
        (result, left)
    }

    #[cfg(not(windows))]
    #[test]
    fn the_newest_version_of_another_program_stays() {
        assert!(matches!(race(&[], false), (Ok(true), text) if text == "ours"));
        for in_place in [false, true] {
            for versions in [&["1"][..], &["1", "2"], &["1", "2", "3"], &["1", "2", "3", "4"], &["", "1"]] {
                let (result, text) = race(versions, in_place);
                assert!(matches!(result, Ok(false)), "{versions:?}: {result:?}");
                assert_eq!(Some(&text.as_str()), versions.last());
            }
        }
    }

    #[test]
    fn without_an_exchange_a_file_is_compared_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "before").unwrap();
        let cannot = |_: &Path, _: &Path| Err(io::ErrorKind::Unsupported.into());
        assert!(!replace_with(cannot, temporary(folder.path(), "ours"), &path, b"other").unwrap());
        is_alone(&path, "before");
        assert!(replace_with(cannot, temporary(folder.path(), "ours"), &path, b"before").unwrap());
        is_alone(&path, "ours");
    }

    #[cfg(not(windows))]
    #[test]
    fn a_version_that_cannot_be_put_back_is_kept_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "before").unwrap();
        let mut count = 0;
        let exchange = |one: &Path, other: &Path| {
            count += 1;
            if count > 1 {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            fs::write(&path, "theirs").unwrap();
            system::exchange(one, other)
        };
        let error = replace_with(exchange, temporary(folder.path(), "ours"), &path, b"before")
            .unwrap_err()
            .to_string();
        let kept = error.rsplit(' ').next().unwrap();
        assert_eq!(fs::read_to_string(kept).unwrap(), "theirs", "{error}");
    }

    #[test]
    fn only_the_expected_file_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        assert!(!remove_unchanged(&path, b"a").unwrap(), "there is none");
        fs::write(&path, "b").unwrap();
        assert!(!remove_unchanged(&path, b"a").unwrap());
        is_alone(&path, "b");
        assert!(remove_unchanged(&path, b"b").unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_version_that_is_written_before_a_file_is_deleted_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "ours").unwrap();
        let writes_before = |from: &Path, to: &Path| {
            fs::write(&path, "theirs").unwrap();
            fs::rename(from, to)
        };
        assert!(!remove_with(writes_before, &path, b"ours").unwrap());
        is_alone(&path, "theirs");
        let writes_twice = |from: &Path, to: &Path| {
            fs::write(&path, "1").unwrap();
            fs::rename(from, to)?;
            fs::write(&path, "2")
        };
        assert!(!remove_with(writes_twice, &path, b"theirs").unwrap());
        is_alone(&path, "2");
        let deletes = |from: &Path, to: &Path| fs::remove_file(&path).and_then(|()| fs::rename(from, to));
        assert!(!remove_with(deletes, &path, b"2").unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_new_file_takes_the_place_of_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        assert!(persist_new(temporary(folder.path(), "a"), &path).unwrap());
        assert!(!persist_new(temporary(folder.path(), "b"), &path).unwrap());
        is_alone(&path, "a");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_taken_for_their_targets() {
        let folder = tempfile::tempdir().unwrap();
        let (path, real) = (folder.path().join("a.json"), folder.path().join("real"));
        fs::write(&real, "a").unwrap();
        std::os::unix::fs::symlink(&real, &path).unwrap();
        assert!(!remove_unchanged(&path, b"a").unwrap());
        assert!(!replace_unchanged(temporary(folder.path(), "b"), &path, b"a").unwrap());
        assert!(path.is_symlink() && fs::read_to_string(&real).unwrap() == "a");
        fs::remove_file(&real).unwrap();
        assert!(
            !persist_new(temporary(folder.path(), "b"), &path).unwrap(),
            "a link to nothing is something"
        );
    }
}
