//! The hosts and paths that a string may name.

use std::collections::{HashMap, HashSet};

use super::spans::ANY_TEXT;
use crate::paths;

/// Maximum number of hosts, and of paths, kept for one string.
pub(super) const MAX_CANDIDATES: usize = 1024;
/// Maximum work for one string, in bytes examined; takes a few milliseconds.
pub(super) const MAX_WORK: usize = 640 * 1024;
/// Work of one word in addition to its bytes.
const WORD_COST: usize = 4;
/// Maximum number of compared characters of a path. The rest is replaced by [`ANY_TEXT`].
const MAX_PATH: usize = 1024;

/// A host that a string may name, with its port, if the text or the scheme determines one.
///
/// The name is in lower case and ASCII, or an address. Parts that a shell would compute are [`ANY_TEXT`].
pub(crate) type HostCandidate = (String, Option<u16>);

/// True if a candidate is a word of a longer text that only an unusual reader takes for a host or a path.
pub(crate) type IsWord = bool;

/// All destinations that a string, or the name of a member, may point to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DestinationCandidates {
    pub(crate) hosts: HashMap<HostCandidate, IsWord>,
    /// Addresses that resolvers derive from plain words if they differ from the word: `0` is this machine.
    pub(crate) odd: HashSet<HostCandidate>,
    /// Paths in lower case, with forward slashes, resolved. Parts that a shell would compute are [`ANY_TEXT`].
    pub(crate) paths: HashMap<String, IsWord>,
    /// Paths that are more than single words, as written but with forward slashes, because symbolic links are
    /// case-sensitive.
    pub(crate) written: HashSet<String>,
    /// Reason the set is not complete.
    pub(crate) unclear: Option<String>,
    /// Names and ports that have already been normalized, as written.
    pub(crate) words: HashMap<HostCandidate, IsWord>,
    /// Number of bytes examined so far.
    pub(crate) work: usize,
}

impl DestinationCandidates {
    /// Counts a word and returns true if there is no room for another. Omitted words make the set unclear.
    pub(super) fn is_full(&mut self) -> bool {
        self.work += WORD_COST;
        let is_full =
            self.work > MAX_WORK || self.hosts.len() >= MAX_CANDIDATES || self.paths.len() >= MAX_CANDIDATES;
        if is_full {
            self.mark_unclear("it may name more hosts or paths than can be compared");
        }
        is_full
    }

    pub(super) fn mark_unclear(&mut self, why: &str) {
        self.unclear.get_or_insert_with(|| why.to_owned());
    }

    pub(super) fn add_host(&mut self, name: String, port: Option<u16>, is_word: IsWord) {
        // One reading as more than a word is enough.
        *self.hosts.entry((name, port)).or_insert(is_word) &= is_word;
    }

    pub(super) fn add_path(&mut self, path: &str, is_word: IsWord) {
        let path = turned(path);
        self.work += WORD_COST + path.len();
        // A path that is computed as a whole is unclear and matches everything.
        if path.chars().all(|one| one == ANY_TEXT) {
            return;
        }
        for reading in paths::file_system_readings(&path.to_lowercase()) {
            *self.paths.entry(reading).or_insert(is_word) &= is_word;
        }
        if !is_word {
            self.written.insert(path);
        }
    }
}

/// Turns backslashes to slashes, and cuts the path at the compared length.
fn turned(text: &str) -> String {
    match text.char_indices().nth(MAX_PATH) {
        None => text.replace('\\', "/"),
        Some((at, _)) => format!("{}{ANY_TEXT}", text[..at].replace('\\', "/")),
    }
}
