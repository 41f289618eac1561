//! The readings of a string: every host and path that a common reader could take it for.
//!
//! A rule that allows uses [`exact`]: the one destination that all readers agree on, or the reason for its absence. A
//! rule that asks or denies uses [`DestinationCandidates`]. They are a superset of what URL parsers, resolvers, shells and file
//! systems make of the string. If the set cannot be enumerated, they hold the reason.

mod exact;
mod hosts;
mod shell;
mod spans;

pub(crate) use exact::parse_exact;
pub(crate) use shell::spanned;
pub(crate) use spans::{
    ANY_TEXT, is_wild, is_wildcard, may_be, may_be_below, may_be_parent, may_be_under,
    resolve_possible_parents,
};

use std::collections::{HashMap, HashSet};

use unicode_normalization::UnicodeNormalization as _;

use crate::folders;
use crate::paths::{self, MAX_TEXT};

/// Maximum number of spellings of one string.
const MAX_SPELLINGS: usize = 48;
/// Maximum number of hosts, and of paths, kept for one string.
const MAX_CANDIDATES: usize = 1024;
/// Maximum work for one string, in bytes examined; takes a few milliseconds.
const MAX_WORK: usize = 640 * 1024;
/// Work of one word in addition to its bytes.
const WORD_COST: usize = 4;
/// Maximum number of bytes of all spellings of one string.
const MAX_SPELLED: usize = 4 * MAX_TEXT;
/// Maximum number of compared characters of a path. The rest is replaced by [`ANY_TEXT`].
const MAX_PATH: usize = 1024;
/// Maximum depth of JSON documents inside strings.
const MAX_NESTING: usize = 4;

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
    pub(crate) fn of(text: &str) -> Self {
        let mut all = Self::default();
        all.read(text, 0);
        all
    }

    fn read(&mut self, text: &str, depth: usize) {
        if text.len() > MAX_TEXT {
            self.mark_unclear("it is longer than 64 KiB");
            return;
        }
        // JSON inside a string is parsed by its recipient.
        if text.trim_start().starts_with(['{', '[', '"'])
            && let Ok(value) = serde_json::from_str::<serde_json::Value>(text)
        {
            if depth < MAX_NESTING {
                self.read_json(&value, depth + 1);
            } else {
                self.mark_unclear("JSON documents are nested in strings more than four levels deep");
            }
        }
        let (spellings, complete) = spellings(text);
        if !complete {
            self.mark_unclear("it is encoded several times, or has more spellings than can be compared");
        }
        for spelling in &spellings {
            self.work += spelling.len();
            if self.is_full() {
                return;
            }
            if let Some(why) = shell::computed_reason(spelling) {
                self.mark_unclear(why);
            }
            hosts::collect(spelling, self);
            collect_paths(spelling, self);
        }
    }

    fn read_json(&mut self, value: &serde_json::Value, depth: usize) {
        match value {
            serde_json::Value::String(text) => self.read(text, depth),
            serde_json::Value::Array(items) => items.iter().for_each(|item| self.read_json(item, depth)),
            serde_json::Value::Object(members) => members.iter().for_each(|(name, value)| {
                self.read(name, depth);
                self.read_json(value, depth);
            }),
            _ => (),
        }
    }

    /// Counts a word and returns true if there is no room for another. Omitted words make the set unclear.
    fn is_full(&mut self) -> bool {
        self.work += WORD_COST;
        let is_full =
            self.work > MAX_WORK || self.hosts.len() >= MAX_CANDIDATES || self.paths.len() >= MAX_CANDIDATES;
        if is_full {
            self.mark_unclear("it may name more hosts or paths than can be compared");
        }
        is_full
    }

    fn mark_unclear(&mut self, why: &str) {
        self.unclear.get_or_insert_with(|| why.to_owned());
    }

    fn add_host(&mut self, name: String, port: Option<u16>, is_word: IsWord) {
        // One reading as more than a word is enough.
        *self.hosts.entry((name, port)).or_insert(is_word) &= is_word;
    }

    fn add_path(&mut self, path: &str, is_word: IsWord) {
        let path = turned(path);
        self.work += WORD_COST + path.len();
        // A path that is computed as a whole is unclear and matches everything.
        if path.chars().all(|one| one == ANY_TEXT) {
            return;
        }
        for reading in folders::readings_of(&path.to_lowercase()) {
            *self.paths.entry(reading).or_insert(is_word) &= is_word;
        }
        if !is_word {
            self.written.insert(path);
        }
    }
}

/// Spellings of a string: the string itself, and the string after each step a reader may take before looking for hosts
/// and paths. The steps are percent-decoding, compatibility normalization, removal of invisible characters, unquoting,
/// escapes and brace expansion.
pub(crate) fn spellings(text: &str) -> (Vec<String>, bool) {
    let mut all: Vec<String> = Vec::new();
    let (mut complete, mut bytes) = (true, 0);
    // The list is an argument, because it is also read between the calls.
    let mut add = |all: &mut Vec<String>, one: String| {
        if all.contains(&one) {
            return;
        }
        bytes += one.len();
        if all.len() == MAX_SPELLINGS || bytes > MAX_SPELLED {
            complete = false;
        } else {
            all.push(one);
        }
    };
    for one in paths::decodings(text) {
        add(&mut all, one);
    }
    // Each step applies to all results of the previous steps, so that they combine in this order.
    let steps: [fn(&str) -> Vec<String>; 5] = [
        |text| vec![compatible(text)],
        |text| vec![shell::unescaped(text)],
        |text| vec![shell::unquoted(text)],
        |text| shell::expanded(text).into_iter().map(|one| paths::without_hidden(&one)).collect(),
        |text| vec![compatible(text)],
    ];
    for step in steps {
        // The range is fixed before the step adds to the list, so no step is applied to its own results.
        for at in 0..all.len() {
            // Cloned, because `add` changes the list that it comes from.
            for one in step(&all[at].clone()) {
                add(&mut all, one);
            }
        }
    }
    (all, complete && !paths::is_encoded_thrice(text))
}

/// Applies compatibility normalization, and replaces the characters that resolvers and browsers treat as `.` and `/`.
pub(crate) fn compatible(text: &str) -> String {
    // Normalization does not change ASCII, and almost all texts are ASCII.
    if text.is_ascii() {
        return text.to_owned();
    }
    let turned = text.chars().map(|one| match one {
        '\u{3002}' | '\u{ff0e}' | '\u{ff61}' | '\u{fe52}' | '\u{2024}' => '.',
        '\u{2044}' | '\u{2215}' | '\u{29f8}' | '\u{ff0f}' => '/',
        '\u{2216}' | '\u{29f5}' | '\u{29f9}' | '\u{fe68}' | '\u{ff3c}' => '\\',
        other => other,
    });
    turned.nfkc().collect()
}

/// Returns true if a character separates words of a text.
fn is_between(one: char) -> bool {
    one.is_whitespace() || "\"'`<>".contains(one)
}

/// Characters at which a path may begin or end inside a word.
const AROUND_PATHS: &str = "()[]{}|;,=&@!?#:";

fn collect_paths(text: &str, to: &mut DestinationCandidates) {
    let whole = text.trim();
    let spanned = shell::spanned(text);
    let is_url =
        |word: &str| exact::is_network_url(word.trim_end_matches([')', '.', ',', ';', ':', '!', '?']));
    if whole.contains(char::is_whitespace) && whole.contains(['/', '\\']) && !whole.contains("://") {
        to.add_path(whole, false);
    }
    let sources = [Some(text), (spanned != text).then_some(spanned.as_str())];
    for source in sources.into_iter().flatten() {
        let alone = !source.trim().contains(is_between);
        for word in source.split(is_between).filter(|word| !word.is_empty()) {
            if to.is_full() {
                return;
            }
            // Few readers take the path of such a URL for a local path, and never for a relative one.
            if is_url(word) {
                let rest = word.split_once("://").map_or("", |(_, rest)| rest);
                let path = rest.find('/').map_or("", |at| &rest[at..]);
                to.add_path(path.split(['?', '#']).next().unwrap_or_default(), true);
                continue;
            }
            to.add_path(word, !alone && !is_like_path(word));
            for (at, one) in word.char_indices() {
                if to.is_full() {
                    break;
                }
                let starts = AROUND_PATHS.contains(one) || one == '-';
                let rest = if starts { &word[at + one.len_utf8()..] } else { continue };
                if !rest.is_empty() {
                    to.add_path(rest, !is_like_path(rest));
                    let end = rest.find(|one| AROUND_PATHS.contains(one)).unwrap_or(rest.len());
                    if end > 0 && end < rest.len() {
                        to.add_path(&rest[..end], !is_like_path(&rest[..end]));
                    }
                }
            }
            if let Some(end) = word.find(|one| AROUND_PATHS.contains(one)).filter(|end| *end > 0) {
                to.add_path(&word[..end], !is_like_path(&word[..end]));
            }
            // Paths attached to an option or operator: `-I/usr/include`, `-f~/x`, `x>/etc/y`.
            if !word.starts_with(['/', '~', '.'])
                && let Some(at) = word.find(['/', '~', '$', ANY_TEXT])
            {
                to.add_path(&word[at..], false);
            }
            // Readers drop or keep the host part of `scheme://host/path`.
            let turned = word.replace('\\', "/");
            for (at, _) in turned.match_indices("//") {
                if to.is_full() {
                    break;
                }
                let rest = turned[at..].trim_start_matches('/');
                if let Some(at) = rest.find('/') {
                    to.add_path(&rest[at..], false);
                }
            }
        }
    }
}

fn is_like_path(word: &str) -> bool {
    word.contains(['/', '\\']) || word.starts_with(['~', '.', '%']) && word.len() > 1
}

/// Turns backslashes to slashes, and cuts the path at the compared length.
fn turned(text: &str) -> String {
    match text.char_indices().nth(MAX_PATH) {
        None => text.replace('\\', "/"),
        Some((at, _)) => format!("{}{ANY_TEXT}", text[..at].replace('\\', "/")),
    }
}

#[cfg(test)]
mod tests;
