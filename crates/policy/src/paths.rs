//! Readings of a text as a path, without access to a file system.

use std::borrow::Cow;
use std::cell::OnceCell;

use percent_encoding::percent_decode_str;
use url::Url;

/// Maximum length of a text whose readings are computed, in bytes. A longer one matches no pattern of an allow rule,
/// and every pattern of an ask or deny rule.
pub(crate) const MAX_TEXT: usize = 64 * 1024;

/// A text and its readings, which are computed once on demand.
pub(crate) struct TextReadings<'a> {
    raw: &'a str,
    readings: OnceCell<Vec<String>>,
    paths: OnceCell<Vec<String>>,
}

impl<'a> TextReadings<'a> {
    pub(crate) fn new(raw: &'a str) -> Self {
        Self { raw, readings: OnceCell::new(), paths: OnceCell::new() }
    }

    pub(crate) fn raw(&self) -> &'a str {
        self.raw
    }

    pub(crate) fn is_too_long(&self) -> bool {
        self.raw.len() > MAX_TEXT
    }

    pub(crate) fn readings(&self) -> &[String] {
        self.readings.get_or_init(|| readings(self.raw))
    }

    /// Returns the readings as paths in lower case: without scheme and Windows prefixes, with forward slashes,
    /// resolved.
    pub(crate) fn paths(&self) -> &[String] {
        self.paths.get_or_init(|| {
            let mut all = Vec::new();
            for reading in self.readings() {
                let turned = without_scheme(reading.trim()).replace('\\', "/").to_lowercase();
                let path = strip_windows_prefix(&turned);
                let path =
                    if starts_with_drive(path.get(1..).unwrap_or_default()) { &path[1..] } else { path };
                let path = resolved(path);
                if !all.contains(&path) {
                    all.push(path);
                }
            }
            all
        })
    }
}

/// Removes the Windows prefixes `//?/` and `//./` of a path.
pub(crate) fn strip_windows_prefix(path: &str) -> &str {
    path.strip_prefix("//?/").or_else(|| path.strip_prefix("//./")).unwrap_or(path)
}

/// Returns true for `/…`, `C:\\…` and `C:/…`.
pub(crate) fn is_absolute(text: &str) -> bool {
    is_drive_path(text) || text.starts_with('/')
}

/// Returns true for `C:\\…` and `C:/…`.
pub(crate) fn is_drive_path(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b':', b'/' | b'\\', ..] if letter.is_ascii_alphabetic())
}

/// Returns true if a text begins with a drive letter: `C:/`.
fn starts_with_drive(text: &str) -> bool {
    matches!(text.as_bytes(), [letter, b':', b'/', ..] if letter.is_ascii_alphabetic())
}

/// Returns true if a text has only one reading. Nothing in it climbs, is encoded, is hidden or changes the direction of
/// reading.
pub(crate) fn is_plain(text: &str) -> bool {
    !text.split(['/', '\\']).any(|part| matches!(part, "." | ".."))
        && !text.contains('%')
        && !text.chars().any(is_hidden)
}

/// Returns true for control characters, characters that change the direction of writing, invisible ones, and tags.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{2800}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Escapes hidden characters in a text, for example as `\u{202e}`. Line ends and tabs stay.
#[must_use]
pub fn visible(text: &str) -> String {
    escape_hidden(text, |character| is_hidden(character) && !matches!(character, '\n' | '\t'))
}

/// Escapes hidden characters as [`visible`] does, and also line ends and tabs, for text that must stay on one line.
#[must_use]
pub fn visible_line(text: &str) -> String {
    escape_hidden(text, is_hidden)
}

fn escape_hidden(text: &str, hides: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if hides(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Removes hidden characters from a text.
pub(crate) fn without_hidden(text: &str) -> String {
    text.chars().filter(|&one| !is_hidden(one)).collect()
}

/// Returns true if a path with forward slashes leads through a process's own view of the file system, or to its open
/// files.
pub(crate) fn is_process_view(path: &str) -> bool {
    let path = resolved(path).to_lowercase();
    let mut parts = path.split('/').skip(1);
    match (parts.next(), parts.next()) {
        (Some("proc"), Some(process)) => {
            // Characters from U+F0000 on are wildcards, which may match a process id.
            process == "self"
                || process == "thread-self"
                || process.starts_with(|one: char| one.is_ascii_digit() || one >= '\u{f0000}')
        }
        (Some("dev"), Some(place)) => place == "fd" || place.starts_with("std"),
        _ => false,
    }
}

/// Removes leading `/proc/PID/root` and `/proc/PID/cwd` repeatedly.
pub(crate) fn strip_process_view(path: &str) -> String {
    let mut path = path.to_owned();
    // The rest becomes shorter each time.
    while is_process_view(&path) {
        let parts: Vec<&str> = path.split('/').collect();
        let Some(at) = parts.iter().position(|part| matches!(*part, "root" | "cwd" | "fd")) else { break };
        let from = if parts[at] == "fd" { at + 2 } else { at + 1 };
        let rest = parts.get(from..).unwrap_or_default().join("/");
        let next = if parts[at] == "root" { format!("/{rest}") } else { rest };
        if next.len() >= path.len() {
            break;
        }
        path = next;
    }
    path
}

/// Returns the paths that file systems resolve a path in lower case to: as written, trimmed as on Windows, without
/// process views, and without the forms of Windows that name a drive otherwise.
pub(crate) fn file_system_readings(path: &str) -> Vec<String> {
    let path = strip_windows_prefix(without_scheme(path));
    let mut all = vec![resolved(path)];
    let others = [trim_windows_endings(path), strip_process_view(path)];
    for other in others.into_iter().chain(windows_drive_reading(path)) {
        let other = resolved(&other);
        if !all.contains(&other) {
            all.push(other);
        }
    }
    all
}

/// Returns the path that a path in lower case may mean on Windows besides its text. Shares of administrators are drives:
/// `//host/c$/x`. Volumes and devices may be any drive, so that only the rest counts. `c:x` starts at the working folder of
/// the drive.
fn windows_drive_reading(path: &str) -> Option<String> {
    // With one slash as well, because resolved paths have no other.
    let network = ["//", "/", "unc/"].into_iter().find_map(|start| path.strip_prefix(start));
    if let Some((_host, rest)) = network.and_then(|rest| rest.split_once('/')) {
        let (share, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let is_share = matches!(share.as_bytes(), [letter, b'$'] if letter.is_ascii_alphabetic());
        return is_share.then(|| trim_windows_endings(&format!("{}:/{rest}", &share[..1])));
    }
    // `globalroot/device/harddiskvolume3/x` and `volume{…}/x`.
    let device = path.strip_prefix("globalroot/device/").or_else(|| path.strip_prefix("globalroot/"));
    let volume = device.or_else(|| path.starts_with("volume{").then_some(path));
    if let Some((_volume, rest)) = volume.and_then(|volume| volume.split_once('/')) {
        return Some(trim_windows_endings(&format!("/{rest}")));
    }
    match path.as_bytes() {
        [letter, b':', next, ..] if letter.is_ascii_alphabetic() && *next != b'/' => {
            Some(trim_windows_endings(&path[2..]))
        }
        _ => None,
    }
}

/// Returns a path without its drive. `None` if it has none.
pub(crate) fn without_drive(path: &str) -> Option<&str> {
    starts_with_drive(path).then(|| &path[2..])
}

/// Returns a path with its drive letter in upper case: `c:/a` and `C:/a` are the same.
pub(crate) fn with_upper_drive(mut path: String) -> String {
    if starts_with_drive(&path) || is_drive(&path) {
        path[..1].make_ascii_uppercase();
    }
    path
}

/// Returns true if a part of a path is the name of a device of Windows, which every folder seems to contain.
pub(crate) fn is_windows_device(part: &str) -> bool {
    let stem = part.split(['.', ':']).next().unwrap_or(part).trim_end().to_lowercase();
    let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    let is_port = port.is_some_and(|rest| {
        let mut digits = rest.chars();
        matches!((digits.next(), digits.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
    });
    is_port || matches!(stem.as_str(), "con" | "prn" | "aux" | "nul" | "conin$" | "conout$")
}

/// Removes the dots, blanks and stream names that Windows drops at the end of each part.
fn trim_windows_endings(path: &str) -> String {
    let parts = path.split('/').enumerate().map(|(at, part)| match part {
        "." | ".." => part,
        _ if at == 0 && part.len() == 2 && part.ends_with(':') => part,
        _ => part.split(':').next().unwrap_or(part).trim_end_matches(['.', ' ']),
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Returns a text as written, decoded once and decoded twice, and each without hidden characters and surrounding
/// blanks.
pub(crate) fn decodings(text: &str) -> Vec<String> {
    let once = decoded(text);
    let twice = decoded(&once);
    let mut all: Vec<String> = Vec::new();
    for decoding in [Cow::Borrowed(text), once.clone(), twice] {
        let bare: String = decoding.chars().filter(|&character| !is_hidden(character)).collect();
        let trimmed = bare.trim().to_owned();
        for one in [decoding.into_owned(), bare, trimmed] {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    all
}

/// Returns true if decoding the text for the third time changes it.
pub(crate) fn is_encoded_thrice(text: &str) -> bool {
    let once = decoded(text);
    let twice = decoded(&once);
    twice.contains('%') && decoded(&twice) != twice
}

/// Returns all readings of a text: its [`decodings`], each also with backslashes turned, with `.` and `..` resolved,
/// and as normalized by a URL parser.
pub(crate) fn readings(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut add = |reading: String| {
        if !all.contains(&reading) {
            all.push(reading);
        }
    };
    for decoding in decodings(text) {
        add(resolved(strip_windows_prefix(&decoding.replace('\\', "/"))));
        if let Ok(url) = Url::parse(&decoding) {
            if url.scheme() == "file" {
                add(format!("file://{}", resolved(&decoded(url.path()))));
            } else if let Some(host) = url.host_str() {
                // In the usual form: without credentials and default port.
                let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
                add(format!("{}://{host}{port}{}", url.scheme(), resolved(&decoded(url.path()))));
            }
            add(url.into());
        }
        add(decoding);
    }
    all
}

fn decoded(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

/// Resolves `.`, `..` and doubled slashes of a path. `..` at the root stays there, as on a disk.
pub(crate) fn resolved(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => (),
            // `..` never leaves a drive.
            ".." if !rooted && parts.len() == 1 && is_drive(parts[0]) => (),
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

fn is_drive(part: &str) -> bool {
    matches!(part.as_bytes(), [letter, b':'] if letter.is_ascii_alphabetic())
}

/// Path of a `file` URL; other text is returned unchanged.
pub(crate) fn without_scheme(text: &str) -> &str {
    let Some(rest) = strip_scheme(text) else { return text };
    // Covers `file:///a`, `file://localhost/a` and `file:/a`.
    match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or(rest, |at| &rest[at..]),
        None => rest,
    }
}

/// Returns true if a text is a `file` URL of another machine, or one with a query or fragment.
pub(crate) fn is_remote_file_url(text: &str) -> bool {
    strip_scheme(text).is_some_and(|rest| {
        let host = rest.strip_prefix("//").map(|rest| rest.split('/').next().unwrap_or_default());
        host.is_some_and(|host| !host.is_empty() && !host.eq_ignore_ascii_case("localhost"))
            || rest.contains(['?', '#'])
    })
}

fn strip_scheme(text: &str) -> Option<&str> {
    text.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:")).map(|_| &text[5..])
}

/// Returns true if `path` is `folder` or below it, both resolved.
pub(crate) fn is_under(path: &str, folder: &str) -> bool {
    match path.strip_prefix(folder) {
        // Only the root itself ends with a slash.
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
        assert_eq!(visible_line("a\n\tü"), "a\\u{a}\\u{9}ü");
        for hidden in ['\u{34f}', '\u{17b4}', '\u{180b}', '\u{180f}', '\u{fe0f}', '\u{2800}'] {
            assert!(is_hidden(hidden), "{hidden:?}");
        }
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
            "  /etc/passwd\n",
        ] {
            assert!(readings(text).iter().any(|reading| reading == "/etc/passwd"), "{text:?}");
        }
    }

    #[test]
    fn a_drive_is_the_top() {
        assert_eq!(resolved("C:/../Windows"), "C:/Windows");
        assert_eq!(TextReadings::new("\\\\?\\C:\\..\\WINDOWS").paths()[0], "c:/windows");
    }

    #[test]
    fn other_names_of_a_drive_are_among_the_readings() {
        for (path, meant) in [
            ("//localhost/c$/users/me/.ssh/id", "c:/users/me/.ssh/id"),
            ("//?/unc/localhost/c$/users/me/.ssh./id", "c:/users/me/.ssh/id"),
            ("//?/volume{4c1b}/users/me/.ssh/id", "/users/me/.ssh/id"),
            ("//./globalroot/device/harddiskvolume3/users/me/.ssh/id::$data", "/users/me/.ssh/id"),
            ("c:users/me/.ssh/id", "users/me/.ssh/id"),
            ("c:/users/me/.ssh::$index_allocation/id", "c:/users/me/.ssh/id"),
        ] {
            let all = file_system_readings(path);
            assert!(all.iter().any(|reading| reading == meant), "{path}: {all:?}");
        }
        assert_eq!(file_system_readings("//host/share/x"), ["/host/share/x"]);
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
