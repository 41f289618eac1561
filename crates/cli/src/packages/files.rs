//! Files of installed packages.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum size of a file that is read: lock files of large packages have some megabytes.
const MAX_FILE: u64 = 64 * 1024 * 1024;
/// Number of attempts to remove a folder, because processes that were killed may still write into it.
const REMOVE_ATTEMPTS: usize = 5;

/// Reads a text. `None` if the file is missing or larger than 64 MiB.
pub(super) fn read_text(file: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(file).ok()?.take(MAX_FILE + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= MAX_FILE).then_some(text)
}

/// Reads a file of JSON. `None` if it is missing or has another form.
pub(super) fn read_json<T: DeserializeOwned>(file: &Path) -> Option<T> {
    serde_json::from_str(&read_text(file)?).ok()
}

/// Writes a file of JSON. It is complete, or not there.
pub(super) fn write_json(file: &Path, value: &impl Serialize) -> io::Result<()> {
    let folder = file.parent().unwrap_or_else(|| Path::new("."));
    let written = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(written.as_file(), value)?;
    written.as_file().sync_all()?;
    hospes_fs::persist(written, file)
}

/// Removes a folder with all that is in it, if it is there.
pub(super) fn remove_folder(folder: &Path) -> io::Result<()> {
    let mut attempts = 0;
    loop {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && attempts < REMOVE_ATTEMPTS => {
                attempts += 1;
            }
            result => return result,
        }
    }
}

/// Returns a path of others below a folder. `None` if it leads out of it.
pub(super) fn below(folder: &Path, path: &str) -> Option<PathBuf> {
    let mut found = folder.to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => found.push(part),
            Component::CurDir => {}
            _ => return None,
        }
    }
    (found != folder).then_some(found)
}

/// Returns a name in the form in which PyPI compares them: `-`, `_` and `.` are the same.
pub(super) fn normalized(name: &str) -> String {
    let mut normal = String::new();
    for letter in name.chars().map(|letter| letter.to_ascii_lowercase()) {
        match letter {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            letter => normal.push(letter),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_packages_stay_below_their_folder() {
        let folder = Path::new("/p");
        assert_eq!(below(folder, "./dist/index.js"), Some(PathBuf::from("/p/dist/index.js")));
        for wrong in ["../x", "a/../../x", "/etc/passwd", "", "."] {
            assert_eq!(below(folder, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_are_compared_as_the_index_does() {
        assert_eq!(normalized("Time_MCP..pypi"), normalized("time-mcp.pypi"));
        assert_ne!(normalized("time"), normalized("times"));
    }
}
