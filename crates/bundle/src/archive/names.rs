//! Names of files that can be unpacked on every platform.

use unicode_normalization::UnicodeNormalization as _;

use super::{MAX_DEPTH, MAX_NAME_BYTES};

/// Reason why a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameProblem {
    /// Empty, or with an empty part.
    #[error("the name has an empty part")]
    Empty,
    /// Longer than [`MAX_NAME_BYTES`].
    #[error("the name is longer than {MAX_NAME_BYTES} bytes")]
    TooLong,
    /// Deeper than [`MAX_DEPTH`].
    #[error("the name goes down more than {MAX_DEPTH} folders")]
    TooDeep,
    /// Not UTF-8.
    #[error("the name is not UTF-8")]
    NotUtf8,
    /// Begins at the root of the file system.
    #[error("the name is absolute")]
    Absolute,
    /// Has `.` or `..` as a part.
    #[error("the name has a part `.` or `..`, which leads to another folder")]
    Parent,
    /// Has a backslash, which separates folders on Windows.
    #[error("the name has a backslash, which separates folders on Windows")]
    Backslash,
    /// Has a colon, which names drives and streams on Windows.
    #[error("the name has a colon, which names drives and streams on Windows")]
    Colon,
    /// Has a control character.
    #[error("the name has a control character")]
    Control,
    /// A part ends with a dot or a space, which Windows drops.
    #[error("a part of the name ends with a dot or a space, which Windows drops")]
    Ending,
    /// A part is the name of a device on Windows.
    #[error("a part of the name is a device on Windows")]
    Device,
}

/// Returns a name without the `/` at the end of folders, if it can be unpacked on every platform.
pub(crate) fn check_name(name: &[u8]) -> Result<&str, NameProblem> {
    let name = std::str::from_utf8(name).map_err(|_| NameProblem::NotUtf8)?;
    if name.len() > MAX_NAME_BYTES {
        return Err(NameProblem::TooLong);
    }
    if name.starts_with('/') {
        return Err(NameProblem::Absolute);
    }
    let problems = [
        (name.contains('\\'), NameProblem::Backslash),
        (name.contains(':'), NameProblem::Colon),
        (name.chars().any(char::is_control), NameProblem::Control),
    ];
    if let Some((_, problem)) = problems.into_iter().find(|(is_there, _)| *is_there) {
        return Err(problem);
    }
    let name = name.strip_suffix('/').unwrap_or(name);
    for (depth, part) in name.split('/').enumerate() {
        if depth > MAX_DEPTH {
            return Err(NameProblem::TooDeep);
        }
        check_part(part)?;
    }
    Ok(name)
}

fn check_part(part: &str) -> Result<(), NameProblem> {
    match part {
        "" => Err(NameProblem::Empty),
        "." | ".." => Err(NameProblem::Parent),
        _ if part.ends_with(['.', ' ']) => Err(NameProblem::Ending),
        _ if is_device(part) => Err(NameProblem::Device),
        _ => Ok(()),
    }
}

/// Returns true for a name that Windows takes for a device, whatever its ending.
fn is_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or(part).trim_end().to_ascii_uppercase();
    let is_port = |prefix: &str| {
        let mut number = stem.strip_prefix(prefix).unwrap_or_default().chars();
        // Superscript digits count, too.
        matches!(number.next(), Some('0'..='9' | '¹' | '²' | '³')) && number.next().is_none()
    };
    ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"].contains(&stem.as_str())
        || is_port("COM")
        || is_port("LPT")
}

/// Returns the form of a name in which names of the same file are equal on platforms that ignore capitals or compose
/// letters.
pub(crate) fn fold_name(name: &str) -> String {
    // Upper case first: letters such as `ſ` and `K` have no other lower-case form in common with plain ones.
    name.nfd().flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let long = "a".repeat(MAX_NAME_BYTES + 1);
        let deep = "a/".repeat(MAX_DEPTH + 1) + "a";
        let cases: &[(&str, NameProblem)] = &[
            ("", NameProblem::Empty),
            ("a//b", NameProblem::Empty),
            ("a//", NameProblem::Empty),
            (&long, NameProblem::TooLong),
            (&deep, NameProblem::TooDeep),
            ("/etc/passwd", NameProblem::Absolute),
            ("../a", NameProblem::Parent),
            ("a/../../b", NameProblem::Parent),
            ("a/./b", NameProblem::Parent),
            ("..", NameProblem::Parent),
            ("a\\b", NameProblem::Backslash),
            ("C:/a", NameProblem::Colon),
            ("a:stream", NameProblem::Colon),
            ("a\nb", NameProblem::Control),
            ("a\0b", NameProblem::Control),
            ("a\u{85}b", NameProblem::Control),
            ("a.", NameProblem::Ending),
            ("a /b", NameProblem::Ending),
            ("... /b", NameProblem::Ending),
            ("CON", NameProblem::Device),
            ("a/nul.txt", NameProblem::Device),
            ("Aux", NameProblem::Device),
            ("com1.tar.gz", NameProblem::Device),
            ("LPT¹", NameProblem::Device),
            ("conout$", NameProblem::Device),
        ];
        for (name, problem) in cases {
            assert_eq!(check_name(name.as_bytes()), Err(*problem), "{name:?}");
        }
        assert_eq!(check_name(b"a\xff"), Err(NameProblem::NotUtf8));
    }

    #[test]
    fn usual_names_are_taken() {
        for name in
            ["a", "a/b.txt", ".mcpbignore", "...a", "com", "com10", "console.js", "ünï/日本", "a b", "@x/y"]
        {
            assert_eq!(check_name(name.as_bytes()), Ok(name));
        }
        assert_eq!(check_name(b"a/b/"), Ok("a/b"));
    }

    #[test]
    fn names_of_one_file_fold_to_the_same() {
        for (one, other) in
            [("README", "readme"), ("é", "e\u{301}"), ("Straße", "STRASSE"), ("ſ", "s"), ("K", "k")]
        {
            assert_eq!(fold_name(one), fold_name(other), "{one} {other}");
        }
        assert_ne!(fold_name("a"), fold_name("b"));
    }
}
