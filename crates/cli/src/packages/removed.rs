//! Files of removed servers: kept for 30 days, so that a server that is added again starts at once, and then removed.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::{files, remove_version};
use crate::paths;

/// Time for which the files of a removed server are kept.
pub(crate) const KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Extension of the mark beside a folder, with the time of the removal in it.
const MARK: &str = "removed";
/// Maximum number of marks that are looked at in one go.
const MAX_MARKS: usize = 1000;
/// Maximum size of a mark, in bytes.
const MAX_MARK: u64 = 100;

/// Marks the folder of a version whose server was removed.
pub(crate) fn mark(folder: &Path, now: Timestamp) {
    if let Err(error) = paths::write_private(&mark_of(folder), now.to_string().as_bytes()) {
        tracing::warn!(folder = %folder.display(), %error, "the files of a removed server stay");
    }
}

/// Removes the mark of a folder that is used again.
pub(crate) fn unmark(folder: &Path) {
    let _gone = fs::remove_file(mark_of(folder));
}

/// Moves the folder of a version away whose files are not those that were installed. It is kept as that of a removed
/// server, because the server may have its data there. Returns a notice.
pub(crate) fn set_aside(folder: &Path) -> io::Result<String> {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push("-changed");
    let aside = folder.with_file_name(name);
    files::remove_folder(&aside)?;
    hospes_fs::rename(folder, &aside)?;
    mark(&aside, Timestamp::now());
    Ok(format!(
        "files were added, changed or removed in {}, so it is installed anew; the old folder is kept for 30 days as {}",
        paths::display_path(folder),
        paths::display_path(&aside)
    ))
}

fn mark_of(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(MARK);
    folder.with_file_name(name)
}

/// Removes the folders that were marked 30 days ago or earlier, below `parents`. Those that are used stay, without their
/// mark.
pub(crate) fn sweep(parents: &[PathBuf], is_used: impl Fn(&Path) -> bool, now: Timestamp) {
    for folder in due_folders(parents, is_used, now) {
        unmark(&folder);
        remove_version(&folder);
    }
}

/// Returns the folders whose time is over. Mends the marks of the others.
fn due_folders(parents: &[PathBuf], is_used: impl Fn(&Path) -> bool, now: Timestamp) -> Vec<PathBuf> {
    let below = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|one| one.path());
    let marks = parents.iter().cloned().flat_map(below).flat_map(below);
    let is_mark =
        |path: &PathBuf| path.extension().is_some_and(|extension| extension == MARK) && path.is_file();
    let marks: Vec<PathBuf> = marks.filter(is_mark).take(MAX_MARKS).collect();
    let mut due = Vec::new();
    for folder in marks.iter().map(|mark| mark.with_extension("")) {
        if is_used(&folder) {
            unmark(&folder);
            continue;
        }
        match read_mark(&folder) {
            Some(removed) if removed <= now => {
                if now.duration_since(removed) >= KEPT_FOR {
                    due.push(folder);
                }
            }
            // Not a time, or one of a clock that was wrong.
            _ => mark(&folder, now),
        }
    }
    due
}

fn read_mark(folder: &Path) -> Option<Timestamp> {
    let mut text = String::new();
    fs::File::open(mark_of(folder)).ok()?.take(MAX_MARK).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn a_mark_ends_after_thirty_days_unless_the_folder_is_used_again() {
        let data = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = data.path().join("clock").join(name);
            fs::create_dir_all(&folder).unwrap();
            folder
        };
        let (old, used) = (folder("1.0.0-abc"), folder("1.1.0-abc"));
        let (kept, broken) = (folder("1.2.0-abc"), folder("1.3.0-abc"));
        let now: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
        let before = |days: i64| now - SignedDuration::from_hours(24 * days);
        mark(&old, before(30));
        mark(&used, before(60));
        mark(&kept, before(29));
        fs::write(mark_of(&broken), "no time").unwrap();
        let parents = [data.path().to_owned()];
        let due = due_folders(&parents, |folder| folder == used, now);
        assert_eq!(due, [old]);
        assert!(!mark_of(&used).exists() && mark_of(&kept).exists());
        // What cannot be read begins anew.
        assert_eq!(fs::read_to_string(mark_of(&broken)).unwrap(), now.to_string());
    }
}
