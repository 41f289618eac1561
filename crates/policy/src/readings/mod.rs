//! The readings of a string: every host and path that a common reader could take it for.
//!
//! A rule that allows uses [`exact`]: the one destination that all readers agree on, or the reason for its absence. A
//! rule that asks or denies uses [`DestinationCandidates`]. They are a superset of what URL parsers, resolvers, shells and file
//! systems make of the string. If the set cannot be enumerated, they hold the reason.

mod candidates;
mod exact;
mod hosts;
mod shell;
mod spans;
mod spellings;

pub(crate) use candidates::{DestinationCandidates, HostCandidate};
pub(crate) use exact::parse_exact;
pub(crate) use hosts::normalized as host_spellings;
pub(crate) use shell::spanned;
pub(crate) use spans::{
    ANY_TEXT, is_wild, is_wildcard, may_be, may_be_below, may_be_parent, may_be_under,
    resolve_possible_parents,
};
pub(crate) use spellings::{compatible, spellings};

use crate::paths::MAX_TEXT;

/// Maximum depth of JSON documents inside strings.
const MAX_NESTING: usize = 4;

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
        let alone = !source.trim().contains(shell::is_between);
        for word in source.split(shell::is_between).filter(|word| !word.is_empty()) {
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

#[cfg(test)]
mod tests;
