//! Search by name and text.

use std::io::{BufRead as _, BufReader, Read as _};

use hospes::prelude::*;

use super::config::FileLimits;
use super::folder::{self, EntryKind, FolderEntry};
use super::pattern::GlobPattern;
use super::served_folders::ServedPath;
use crate::platform::FolderHandle;

/// Maximum depth of folders in searches.
const MAX_DEPTH: usize = 32;
/// Maximum number of lines that are shown of one file.
const MAX_LINES_PER_FILE: usize = 20;
/// Maximum length of a line that is shown.
const MAX_LINE: usize = 240;

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Found {
    pub(super) matches: Vec<Match>,
    /// Whether everything was looked at; if not, search in a smaller folder or for less.
    pub(super) complete: bool,
}

/// One file or folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Match {
    pub(super) path: String,
    pub(super) kind: EntryKind,
    /// The lines with the text in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) lines: Vec<Line>,
}

/// A line with the text in it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) text: String,
}

/// Searches folders.
pub(super) fn search(
    places: &[ServedPath<'_>],
    pattern: &str,
    text: Option<&str>,
    limits: FileLimits,
) -> Result<Found> {
    let pattern = GlobPattern::parse(pattern).map_err(Error::msg)?;
    let mut search = FileSearch {
        pattern,
        text: text.map(str::to_lowercase),
        limits,
        visits: 0,
        found: Found { matches: Vec::new(), complete: true },
    };
    for place in places {
        let folder = place.open_folder()?;
        // One buffer for all paths, because a search may visit 200,000 entries.
        let mut inside = String::new();
        search.folder(&folder, place, &mut inside, MAX_DEPTH);
    }
    Ok(search.found)
}

struct FileSearch {
    pattern: GlobPattern,
    /// Text to find, in lower case.
    text: Option<String>,
    limits: FileLimits,
    visits: usize,
    found: Found,
}

impl FileSearch {
    fn folder(&mut self, folder: &FolderHandle, place: &ServedPath<'_>, inside: &mut String, depth: usize) {
        // A folder that cannot be read is skipped.
        let Ok(entries) = folder::entries(folder) else { return };
        for entry in &entries {
            if self.visits >= self.limits.visits || self.found.matches.len() >= self.limits.entries {
                self.found.complete = false;
                return;
            }
            self.visits += 1;
            let length = inside.len();
            if length > 0 {
                inside.push('/');
            }
            inside.push_str(&entry.name.to_string_lossy());
            if self.pattern.matches(inside) {
                self.take(folder, entry, place, inside);
            }
            if entry.stat.kind() == EntryKind::Folder {
                if depth == 0 {
                    self.found.complete = false;
                } else if let Ok(inner) = folder::enter(folder, &entry.name, place.closed()) {
                    self.folder(&inner, place, inside, depth - 1);
                }
            }
            inside.truncate(length);
        }
    }

    fn take(&mut self, folder: &FolderHandle, entry: &FolderEntry, place: &ServedPath<'_>, inside: &str) {
        let lines = match &self.text {
            None => Vec::new(),
            Some(text) => {
                if entry.stat.kind() != EntryKind::File {
                    return;
                }
                let Some(lines) = lines_with(text, folder, entry, self.limits.read_bytes) else { return };
                lines
            }
        };
        let path = crate::platform::readable(&place.path().join(inside)).display().to_string();
        self.found.matches.push(Match { path, kind: entry.stat.kind(), lines });
    }
}

/// Returns the lines of a file that contain a text. `None` if there are none or the file is not text.
fn lines_with(text: &str, folder: &FolderHandle, entry: &FolderEntry, limit: u64) -> Option<Vec<Line>> {
    let file = folder.open_file(&entry.name).ok()?;
    let mut reader = BufReader::new(file.take(limit));
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    for number in 1.. {
        line.clear();
        if reader.read_until(b'\n', &mut line).ok()? == 0 || lines.len() == MAX_LINES_PER_FILE {
            break;
        }
        // A NUL marks binary data, of which no lines are shown.
        if line.contains(&0) {
            return None;
        }
        let shown = String::from_utf8_lossy(&line);
        if shown.to_lowercase().contains(text) {
            let text = shown.trim_end().chars().take(MAX_LINE).collect();
            lines.push(Line { number, text });
        }
    }
    (!lines.is_empty()).then_some(lines)
}
