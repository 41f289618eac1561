//! Folders of a rule, compared with the readings of a string.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::file::{LinkResolver, PolicyEnvironment};
use crate::paths::{self, TextReadings};
use crate::pattern::{AmbiguityBias, PatternMatch};
use crate::readings::{self, ANY_TEXT, DestinationCandidates};
use crate::wildcard_paths::WildcardPaths;

/// Characters that separate the words of a command line or the paths of a list.
const SEPARATORS: [char; 14] = [' ', '\t', '\n', '\r', ';', '|', '&', '<', '>', '(', ')', ',', ':', '='];

/// Folders whose entries refer to other files.
const MAGIC: [&str; 2] = ["/proc", "/dev"];

/// Maximum number of folders from which a relative path is tried.
const MAX_BASES: usize = 16;

/// Set of folders that paths may be in.
#[derive(Clone, Debug)]
pub(crate) struct FolderSet {
    folders: Vec<String>,
    lower: Vec<String>,
    home: Option<String>,
    links: Option<Arc<dyn LinkResolver>>,
}

impl FolderSet {
    pub(crate) fn new(texts: &[String], reading: &PolicyEnvironment) -> Result<Self, String> {
        let mut all = Self {
            folders: Vec::new(),
            lower: Vec::new(),
            home: reading.home.clone(),
            links: reading.links.clone(),
        };
        for text in texts {
            let folder = all.folder(text)?;
            let lower = folder.to_lowercase();
            all.lower.extend([readings::compatible(&lower), lower]);
            all.folders.push(folder);
        }
        Ok(all)
    }

    /// Parses the path of a folder.
    ///
    /// # Errors
    /// If the text is not an absolute path, or contains `..`.
    pub(crate) fn of(text: &str, reading: &PolicyEnvironment) -> Result<Self, String> {
        Self::new(&[text.to_owned()], reading)
    }

    fn folder(&self, text: &str) -> Result<String, String> {
        let whole =
            self.at_home(text).ok_or_else(|| format!("the home folder in `{text}` cannot be determined"))?;
        if !paths::is_absolute(&whole) || !paths::is_plain(&whole) {
            return Err(format!("`{text}` is not an absolute path in plain form"));
        }
        Ok(paths::with_upper_drive(paths::resolved(&whole.replace('\\', "/"))))
    }

    /// Replaces a leading `~` by the home folder. Returns `None` if the home folder is needed but unknown.
    fn at_home(&self, text: &str) -> Option<String> {
        match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '\\']) => {
                self.home.as_ref().map(|home| format!("{home}{rest}"))
            }
            _ => Some(text.to_owned()),
        }
    }

    /// Returns true if the text, which is known to be a path, is inside one of the folders.
    pub(crate) fn matches(&self, text: &TextReadings<'_>, doubt: AmbiguityBias) -> bool {
        match doubt {
            _ if text.is_too_long() => doubt == AmbiguityBias::Counts,
            AmbiguityBias::Refuses => {
                !paths::is_remote_file_url(text.raw()) && self.permit(paths::without_scheme(text.raw()))
            }
            AmbiguityBias::Counts => {
                let read = DestinationCandidates::of(text.raw());
                read.unclear.is_some()
                    || text.paths().iter().any(|path| self.may_hold(path))
                    || self.holds(&read) > PatternMatch::No
            }
        }
    }

    /// Returns true if a path is inside one of the folders for every reader. Symbolic links, quotes, escapes, braces
    /// and wildcards are taken into account.
    pub(crate) fn permit(&self, path: &str) -> bool {
        // The path of a `file` URL has a slash before the drive.
        let path = path.strip_prefix('/').filter(|rest| paths::is_drive_path(rest)).unwrap_or(path);
        // After a drive, a backslash separates. A shell that drops it is left with a name that leads nowhere.
        let path = &if paths::is_drive_path(path) { path.replace('\\', "/") } else { path.to_owned() };
        let (spellings, complete) = readings::spellings(path);
        // The colon of a drive separates nothing.
        let (drive, rest) = path.split_at(if paths::is_drive_path(path) { 2 } else { 0 });
        complete
            && (drive.is_empty() || !rest.split('/').any(paths::is_windows_device))
            // Shells and lists treat text after a blank or a separator as a path of its own.
            && !rest.split(SEPARATORS).skip(1).any(may_leave_folder)
            && spellings.iter().all(|path| self.permit_one(path))
    }

    fn permit_one(&self, path: &str) -> bool {
        let turned = path.replace('\\', "/");
        if !paths::is_absolute(path)
            || turned.starts_with("//")
            || !paths::is_plain(path)
            // Some servers expand variables in paths, or normalize them.
            || path.contains(['$', '`'])
            || readings::compatible(path).contains("..")
            || readings::compatible(path).matches(['/', '\\']).count() != turned.matches('/').count()
            || paths::is_process_view(&turned) && !self.folders.iter().any(|folder| paths::is_process_view(folder))
        {
            return false;
        }
        let resolved = paths::with_upper_drive(paths::resolved(&turned));
        let spanned = readings::spanned(&resolved);
        if spanned.split('/').any(readings::may_be_parent) {
            return false;
        }
        let Some(links) = &self.links else { return self.is_in(&resolved) };
        let is_inside = |path: &str| {
            links.follow(path).is_ok_and(|followed| {
                self.folders.iter().any(|folder| {
                    let target = links.follow(folder).unwrap_or_else(|_| folder.clone());
                    paths::is_under(path, folder) && paths::is_under(&followed, &target)
                })
            })
        };
        is_inside(&resolved)
            && (spanned == resolved
                || WildcardPaths::new(links.as_ref())
                    .expand(&spanned)
                    .is_some_and(|paths| paths.iter().all(|path| is_inside(path))))
    }

    /// Matches the readings of a string against the folders.
    pub(crate) fn holds(&self, read: &DestinationCandidates) -> PatternMatch {
        let lexically = read.paths.iter().map(|(path, word)| match self.holds_path(path) {
            PatternMatch::Yes if *word => PatternMatch::Maybe,
            held => held,
        });
        match lexically.max().unwrap_or(PatternMatch::No) {
            PatternMatch::Yes => PatternMatch::Yes,
            held => held.max(self.follow(read)),
        }
    }

    fn holds_path(&self, path: &str) -> PatternMatch {
        if !readings::is_wild(path) {
            return if self.may_hold_resolved(path) { PatternMatch::Yes } else { PatternMatch::No };
        }
        if !path.starts_with(readings::is_wildcard) && self.may_hold_resolved(path) {
            return PatternMatch::Yes;
        }
        // The value of a variable may contain `..`, and a wildcard may match a name of two dots.
        let climbs = path.contains('/') && path.contains(ANY_TEXT)
            || path.split('/').any(readings::may_be_parent)
                && self.may_hold(&readings::resolve_possible_parents(path));
        let is_magic =
            path.starts_with('/') && MAGIC.iter().any(|folder| readings::may_be_below(path, folder));
        if climbs || is_magic || self.may_hold_resolved(path) {
            PatternMatch::Maybe
        } else {
            PatternMatch::No
        }
    }

    /// Returns true if some reader may find the path inside one of the folders, from any working folder. The path is in
    /// lower case.
    pub(crate) fn may_hold(&self, path: &str) -> bool {
        paths::file_system_readings(path).iter().any(|path| self.may_hold_resolved(path))
    }

    fn may_hold_resolved(&self, path: &str) -> bool {
        if paths::is_absolute(path) {
            // On Windows, a path without a drive is on the drive of the working folder.
            let is_any_drive = path.starts_with('/');
            let on_any_drive = |folder| paths::without_drive(folder).filter(|_| is_any_drive);
            return self.lowered().any(|folder| {
                readings::may_be_under(path, folder)
                    || on_any_drive(folder).is_some_and(|folder| readings::may_be_under(path, folder))
            });
        }
        if path.starts_with(ANY_TEXT) && self.lowered().any(|folder| readings::may_be_under(path, folder)) {
            return true;
        }
        // A path that begins with a home folder or a variable is below that.
        let below = path
            .strip_prefix(['~', '$', '%', ANY_TEXT])
            .map(|rest| rest.split_once('/').map_or("", |(_, rest)| rest));
        if let (Some(below), Some(home)) = (below, &self.home) {
            let whole = paths::resolved(&format!("{home}/{below}").replace('\\', "/").to_lowercase());
            if self.lowered().any(|folder| readings::may_be_under(&whole, folder)) {
                return true;
            }
        }
        [Some(path), below].into_iter().flatten().any(|path| self.may_hold_relative(path))
    }

    /// Returns true if a relative path may lead into one of the folders. It may start at any folder on the way there,
    /// so it is compared with every tail of that path.
    fn may_hold_relative(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').skip_while(|part| *part == "..").collect();
        let path = parts.join("/");
        self.lowered().any(|folder| {
            let folder: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
            folder.is_empty()
                || (0..folder.len())
                    .any(|from| !path.is_empty() && readings::may_be_under(&path, &folder[from..].join("/")))
        })
    }

    /// Matches paths after following symbolic links. Absolute paths and paths in the home folder are followed directly.
    /// Relative ones are tried from the home folder and from each parent of the named folder.
    fn follow(&self, read: &DestinationCandidates) -> PatternMatch {
        let Some(links) = &self.links else { return PatternMatch::No };
        let targets: Vec<String> = self
            .folders
            .iter()
            .flat_map(|folder| [Some(folder.clone()), links.follow(folder).ok()])
            .flatten()
            .map(|folder| folder.to_lowercase())
            .collect();
        let is_there = |path: &str| {
            links.follow(path).is_ok_and(|followed| {
                let followed = followed.to_lowercase();
                targets.iter().any(|folder| paths::is_under(&followed, folder))
            })
        };
        let mut ways = WildcardPaths::new(links.as_ref());
        let mut held = PatternMatch::No;
        for whole in read.written.iter().flat_map(|path| self.absolute_candidates(path)) {
            let lexical = paths::resolved(&whole);
            // Both, because `..` after a link leads elsewhere on a disk than in the text.
            for path in [whole.as_str(), lexical.as_str()] {
                match ways.expand(path) {
                    None if ways.is_exhausted() => return PatternMatch::Maybe,
                    None => held = PatternMatch::Maybe,
                    Some(paths) if paths.iter().any(|path| is_there(path)) => return PatternMatch::Yes,
                    Some(_) => (),
                }
                if lexical == whole {
                    break;
                }
            }
        }
        held
    }

    /// Returns the absolute paths that a path may mean.
    fn absolute_candidates(&self, path: &str) -> Vec<String> {
        let path = paths::without_scheme(path.trim());
        let Some(path) = self.at_home(path) else { return Vec::new() };
        if paths::is_absolute(&path) {
            return vec![path];
        }
        let ways =
            self.folders.iter().flat_map(|folder| folder.match_indices('/').map(|(at, _)| &folder[..at]));
        // From inside the folder everything is below it, which says nothing about the path.
        let bases = ways.chain(self.home.as_deref()).filter(|base| !self.is_in(base));
        let bases: BTreeSet<&str> = bases.collect();
        // `../x` from a sibling of a base is `x` from the base.
        let below = path.trim_start_matches("../");
        let bases = bases.into_iter().take(MAX_BASES);
        let spellings = [Some(path.as_str()), (below != path).then_some(below)];
        bases
            .flat_map(|base| spellings.into_iter().flatten().map(move |path| format!("{base}/{path}")))
            .collect()
    }

    /// Iterates over the folders in lower case, as written and normalized.
    fn lowered(&self) -> impl Iterator<Item = &str> {
        self.lower.iter().map(String::as_str)
    }

    fn is_in(&self, path: &str) -> bool {
        self.folders.iter().any(|folder| paths::is_under(path, folder))
    }
}

/// Returns true if a part after a separator may lead to another folder. Plain names in the same folder do not.
fn may_leave_folder(part: &str) -> bool {
    part.starts_with(['/', '~', '\\', '-'])
        || part.contains("../")
        || part.contains(['/', '\\']) && part.contains("..")
}

impl fmt::Display for FolderSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folders: Vec<String> = self.folders.iter().map(|folder| format!("`{folder}`")).collect();
        f.write_str(&folders.join(" or "))
    }
}
