//! What a text may mean as a path, without looking at any disk.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Whether a text means just what it says: nothing in it climbs, decodes, hides or turns the direction of reading.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.split(['/', '\\']).any(|part| matches!(part, "." | ".."))
        && !text.contains('%')
        && !text.chars().any(is_hidden)
}

/// Control characters, those that turn the direction of reading, those without width, and tags.
pub(crate) fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// The text with everything that hides in it made visible: `\u{202e}` stands there as just that. Line ends and tabs stay.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) && !matches!(character, '\n' | '\t') {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Everything that a text might be taken for: as it stands, decoded once and twice, each also with its `.` and `..`
/// resolved and its backslashes turned.
pub(crate) fn readings(text: &str) -> Vec<String> {
    let mut all = vec![text.to_owned()];
    let mut add = |reading: String| {
        if !all.contains(&reading) {
            all.push(reading);
        }
    };
    let once = decoded(text);
    let twice = decoded(&once);
    for reading in [Cow::Borrowed(text), once.clone(), twice] {
        let visible: String = reading.chars().filter(|&character| !is_hidden(character)).collect();
        let turned = visible.replace('\\', "/");
        add(resolved(&turned));
        add(visible);
        add(reading.into_owned());
    }
    all
}

fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

/// A path without its `.`, `..` and doubled slashes. Nothing climbs above the root, as on a disk.
pub(crate) fn resolved(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => (),
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => (),
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if rooted { format!("/{joined}") } else { joined }
}

/// A `file` URL's path; other text as it is.
pub(crate) fn without_scheme(text: &str) -> &str {
    let Some(rest) = strip_scheme(text) else { return text };
    // `file:///a`, `file://localhost/a` and `file:/a`.
    match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or(rest, |at| &rest[at..]),
        None => rest,
    }
}

fn strip_scheme(text: &str) -> Option<&str> {
    text.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:")).map(|_| &text[5..])
}

/// Whether `path` is `folder` or below it, both resolved.
pub(crate) fn is_under(path: &str, folder: &str) -> bool {
    match path.strip_prefix(folder) {
        Some(rest) => rest.is_empty() || rest.starts_with('/') || folder.ends_with('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_climbs_decodes_or_hides_is_not_plain() {
        for text in ["../a", "/a/./b", "a\\..\\b", "/a/%2e%2e/b", "/a\u{200b}b", "/a\0b", "\u{202e}txt.exe"] {
            assert!(!is_plain(text), "{text:?}");
        }
        for text in ["/a/b", "a..b", "...", ".git", "C:\\a", "grüße.txt", ""] {
            assert!(is_plain(text), "{text:?}");
        }
    }

    #[test]
    fn what_hides_is_shown_for_what_it_is() {
        assert_eq!(visible("a\u{202e}b\u{200b}\n\tü\0"), "a\\u{202e}b\\u{200b}\n\tü\\u{0}");
    }

    #[test]
    fn every_disguise_of_a_path_is_among_its_readings() {
        for text in [
            "/etc/passwd",
            "/home/me/../../etc/passwd",
            "/home/%2e%2e/etc/passwd",
            "/%252e%252e/etc/passwd",
            "\\etc\\passwd",
            "/etc//passwd",
            "/e\u{200b}tc/passwd",
            "/../../etc/./passwd",
        ] {
            assert!(readings(text).iter().any(|reading| reading == "/etc/passwd"), "{text:?}");
        }
    }

    #[test]
    fn below_means_at_a_boundary() {
        assert!(is_under("/a/b", "/a"));
        assert!(is_under("/a", "/a"));
        assert!(is_under("/a", "/"));
        assert!(!is_under("/ab", "/a"));
        assert!(!is_under("/", "/a"));
    }

    #[test]
    fn a_file_url_is_its_path() {
        for text in ["file:///a/b", "file://localhost/a/b", "FILE:/a/b", "/a/b"] {
            assert_eq!(without_scheme(text), "/a/b");
        }
        assert_eq!(without_scheme("https://a/b"), "https://a/b");
    }

    proptest::proptest! {
        #[test]
        fn a_resolved_path_stays_as_it_is(path in "[a/.]{0,20}") {
            let once = resolved(&path);
            proptest::prop_assert_eq!(resolved(&once), once);
        }
    }
}
