//! Command lines that were typed where the name of a server is expected.

use std::ffi::OsStr;
use std::path::Path;

/// Programs that start servers, without a version and an ending.
const LAUNCHERS: [&str; 20] = [
    "npx", "npm", "node", "bun", "bunx", "deno", "tsx", "uvx", "uv", "python", "pipx", "docker", "podman",
    "dnx", "dotnet", "cargo", "go", "java", "sh", "bash",
];

/// Returns true if words are a command line, and no name of a server and no words to search for.
pub(crate) fn is_command_line<'w>(mut words: impl Iterator<Item = &'w str>) -> bool {
    let Some(program) = words.next() else { return false };
    // `docker server` may be a search; options, files and packages are none.
    let is_argument =
        |word: &str| word.contains(['-', '.', '/', '@', ':']) || matches!(word, "run" | "exec" | "x");
    is_path(program) || is_launcher(program) && words.any(is_argument)
}

/// Returns the first word of a command line among the words of a command, before which `--` is missing.
pub(crate) fn find_command<'w>(words: &[&'w str]) -> Option<&'w str> {
    words.iter().copied().find(|word| is_path(word) || is_launcher(word))
}

/// Returns how a command is added.
pub(crate) fn usage(program: &str) -> String {
    format!("a command follows after `--`, each word by itself: hospes add --name NAME -- {program} …")
}

/// Returns true for the URL of a server. A secret in it must not be repeated.
pub(crate) fn is_url(word: &str) -> bool {
    url::Url::parse(word).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

fn is_path(word: &str) -> bool {
    ["./", "../", "/", "~/", ".\\", "..\\"].iter().any(|start| word.starts_with(start))
}

fn is_launcher(word: &str) -> bool {
    let stem = Path::new(word).file_stem().and_then(OsStr::to_str).unwrap_or_default();
    // As in `python3.12`.
    let stem = stem.trim_end_matches(|sign: char| sign.is_ascii_digit() || sign == '.');
    LAUNCHERS.contains(&stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_told_from_words_to_search_for() {
        let is_command = |text: &str| is_command_line(text.split_whitespace());
        for command in [
            "node x.js",
            "npx -y @scope/x",
            "npx some-server",
            "python3.12 -m server",
            "docker run image",
            "./server --port 1",
            "/opt/server",
        ] {
            assert!(is_command(command), "{command}");
        }
        for words in ["clock npm", "docker server", "go", "python", "io.github.owner/server", "git", ""] {
            assert!(!is_command(words), "{words}");
        }
        assert_eq!(find_command(&["--name", "x", "npx", "-y"]), Some("npx"));
        assert_eq!(find_command(&["airtable", "--yse"]), None);
    }
}
