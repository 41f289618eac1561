//! Secrets in texts: tokens of known formats, and random values beside a name that denotes a secret.
//!
//! One pass looks for the prefixes of all formats and for telling names; the rest of a format is examined only at
//! their places. The formats follow the documentation of their services and the rules of gitleaks (MIT). If a service
//! gives its tokens a checksum, text with a wrong checksum is not a finding.

mod formats;
mod named_values;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind};

use formats::FORMATS;
use named_values::{NAME_PARTS, find_named_value};

/// Maximum number of findings in one text.
pub const MAX_SECRETS: usize = 64;

/// Kind of a secret, as shown to a person: `GitHub token`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretKind(&'static str);

impl SecretKind {
    /// A random value beside a name such as `api_key`.
    pub const NAMED_VALUE: Self = Self("value of a secret");

    /// Returns the description.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SecretFinding {
    /// Kind of the secret.
    pub kind: SecretKind,
    /// Bytes of the secret in the text.
    pub range: Range<usize>,
}

/// Finds the secrets of a text, in order and without overlaps: at most [`MAX_SECRETS`]. The text may be JSON.
#[must_use]
pub fn find_secrets(text: &str) -> Vec<SecretFinding> {
    // `Vec::new` allocates nothing, and most texts have no secret.
    let mut found: Vec<SecretFinding> = Vec::new();
    let Some(prefixes) = &*PREFIXES else { return found };
    let mut done = 0;
    for hit in prefixes.find_overlapping_iter(text) {
        if found.len() >= MAX_SECRETS {
            break;
        }
        let secret = match FORMATS.get(hit.pattern().as_usize()) {
            Some(format) => format.match_at(text, hit.start()).map(|range| (SecretKind(format.kind), range)),
            None => find_named_value(text, hit.range()).map(|range| (SecretKind::NAMED_VALUE, range)),
        };
        let Some((kind, range)) = secret else { continue };
        match found.last_mut() {
            // A format says more than a name, and its token may be part of the named value.
            Some(last) if range.start < last.range.end => {
                if last.kind == SecretKind::NAMED_VALUE && kind != SecretKind::NAMED_VALUE {
                    last.kind = kind;
                }
                last.range.start = last.range.start.min(range.start);
                last.range.end = last.range.end.max(range.end);
                done = done.max(range.end);
            }
            _ if range.start >= done => {
                done = range.end;
                found.push(SecretFinding { kind, range });
            }
            _ => {}
        }
    }
    found
}

/// Returns true if the text contains a secret.
#[must_use]
pub fn has_secret(text: &str) -> bool {
    !find_secrets(text).is_empty()
}

/// Returns the text with each secret replaced by its kind: `[GitHub token]`.
#[must_use]
pub fn mask(text: &str) -> Cow<'_, str> {
    let mut rest = text;
    let mut shown = String::new();
    // More than the maximum of one search are masked by the next ones.
    loop {
        let found = find_secrets(rest);
        let Some(last) = found.last() else { break };
        let end = last.range.end;
        let mut at = 0;
        for SecretFinding { kind, range } in &found {
            shown.push_str(&rest[at..range.start]);
            shown.push('[');
            shown.push_str(kind.as_str());
            shown.push(']');
            at = range.end;
        }
        rest = &rest[end..];
        if found.len() < MAX_SECRETS {
            break;
        }
    }
    if shown.is_empty() && rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Prefixes of all formats, followed by parts of telling names.
static PREFIXES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let patterns = FORMATS.iter().map(|format| format.prefix).chain(NAME_PARTS);
    AhoCorasickBuilder::new()
        // Names are written in any case; the formats compare their prefixes again.
        .ascii_case_insensitive(true)
        // An automaton without failure transitions: the time for a byte does not depend on the text.
        .kind(Some(AhoCorasickKind::DFA))
        .build(patterns)
        .ok()
});

#[cfg(test)]
mod tests;
