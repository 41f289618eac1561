//! Rules about single texts.

use url::Url;

use super::ViolationReport;
use crate::launch::looks_like_range;

/// A rule about a part of a name.
pub(super) struct NamePartRule {
    pub(super) name: &'static str,
    pub(super) expected: &'static str,
    others: &'static str,
}

/// Rules about the namespace, and about the part after the slash.
pub(super) const RULES_OF_NAMES: [NamePartRule; 2] = [
    NamePartRule {
        name: "name-namespace",
        expected: "the namespace must have at least 2 characters: letters, digits, `.` and `-`, with a letter or digit \
            at both ends",
        others: ".-",
    },
    NamePartRule {
        name: "name-last-part",
        expected: "the part after the slash must have at least 2 characters: letters, digits, `.`, `_` and `-`, with a \
            letter or digit at both ends",
        others: "._-",
    },
];

impl NamePartRule {
    pub(super) fn fits(&self, part: &str) -> bool {
        let is_end = |letter: char| letter.is_ascii_alphanumeric();
        part.len() >= 2
            && part.starts_with(is_end)
            && part.ends_with(is_end)
            && part.chars().all(|letter| is_end(letter) || self.others.contains(letter))
    }
}

pub(super) fn check_version(path: &str, version: &str, report: &mut ViolationReport) {
    if version == "latest" {
        report.add(path, "version-latest", "`latest` is not an exact version");
    } else if looks_like_range(version) {
        report.add(path, "version-range", "a range is not an exact version");
    }
}

/// Returns true for an absolute URL. What URL parsers repair is none.
pub(super) fn is_uri(text: &str) -> bool {
    Url::parse(text).is_ok() && !text.chars().any(|letter| letter.is_whitespace() || letter.is_control())
}

/// Returns true for the URL of a repository at the hosting service that `source` names.
pub(super) fn is_repository_url(source: &str, url: &str) -> bool {
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return false;
    };
    let rest = rest.strip_prefix("www.").unwrap_or(rest);
    let (host, is_nested) = match source {
        "github" => ("github.com/", false),
        "gitlab" => ("gitlab.com/", true),
        _ => return false,
    };
    let Some(path) = rest.strip_prefix(host) else { return false };
    let parts: Vec<&str> = path.strip_suffix('/').unwrap_or(path).split('/').collect();
    let is_word = |part: &&str| {
        !part.is_empty()
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter))
    };
    (parts.len() == 2 || (is_nested && parts.len() > 2)) && parts.iter().all(is_word)
}

/// Returns true for a clean relative path. An empty one counts as none.
pub(super) fn is_subfolder(path: &str) -> bool {
    path.is_empty()
        || path.split('/').all(|part| {
            !matches!(part, "" | "." | "..")
                && part.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
        })
}

/// Returns true for `48x48` and `any`.
pub(super) fn is_size(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text == "any" || text.split_once('x').is_some_and(|(width, height)| is_number(width) && is_number(height))
}
