//! Access that a server was denied by its sandbox, found in the text with which it ended: a file that a person can grant, or a
//! host.

use std::path::{Path, PathBuf};

use super::sandbox::ProposedSandbox;
use crate::output::{self, CliOutput, announce, one_line};
use crate::paths;

/// Maximum number of lines that are looked at: the last ones.
const MAX_LINES: usize = 50;
/// Maximum length of a path or a host.
const MAX_TEXT: usize = 1000;
/// Maximum number of grants that are offered in one go.
pub(super) const MAX_GRANTS: usize = 5;
/// Words of the errors of a denied file. A file that bubblewrap hides seems to be missing.
const FILE_ERRORS: [&str; 9] = [
    "EACCES",
    "EPERM",
    "EROFS",
    "ENOENT",
    "ermission denied",
    "peration not permitted",
    "ead-only file system",
    "o such file or directory",
    "PermissionError",
];
/// Words of the errors without a network.
const NETWORK_ERRORS: [&str; 8] = [
    "ENETUNREACH",
    "EAI_AGAIN",
    "ENOTFOUND",
    "ENETDOWN",
    "etwork is unreachable",
    "ame resolution",
    "ame or service not known",
    "no such host",
];

/// Access that was denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeniedAccess {
    /// A file, which may be read, or read and written.
    File { path: PathBuf, is_written: bool },
    /// Host without which the server does not start, as the server names it.
    Host(String),
}

impl DeniedAccess {
    /// Finds the access that a server was denied. Its text is not trusted: a file counts only if it exists, is a single file,
    /// is not one of Hospes, and was not granted before.
    pub(super) fn find(problem: &str, sandbox: &ProposedSandbox) -> Option<Self> {
        let lines: Vec<&str> = problem.lines().rev().take(MAX_LINES).collect();
        let has = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
        let files = lines.iter().filter(|line| has(line, &FILE_ERRORS));
        let file = files.flat_map(|line| paths_of(line)).find_map(|path| grantable(&path, sandbox));
        if file.is_some() || sandbox.has_network() {
            return file;
        }
        lines.iter().filter(|line| has(line, &NETWORK_ERRORS)).find_map(|line| host_of(line)).map(Self::Host)
    }

    /// Asks whether the file is granted. Only a key of its own grants it; Enter does not.
    pub(super) fn ask(&self, output: CliOutput) -> bool {
        let Self::File { path, is_written } = self else { return false };
        let verb = if *is_written { "write" } else { "read" };
        announce(format_args!("\n  Its sandbox did not let it {verb} {}", one_line(&path.to_string_lossy())));
        output::discard_typed_input();
        let answer = output.ask(format!("  [g let it {verb} this one file, and start again · Enter no] "));
        answer.is_some_and(|answer| matches!(answer.trim(), "g" | "G"))
    }
}

/// Returns the absolute paths that a line names: in quotes, or as words.
fn paths_of(line: &str) -> Vec<PathBuf> {
    let quoted = ['\'', '"', '`'].into_iter().flat_map(|quote| line.split(quote).skip(1).step_by(2));
    let words = line.split_whitespace().map(|word| word.trim_matches(|sign| "'\"`:,;()[]".contains(sign)));
    let is_path = |text: &&str| text.starts_with('/') && text.len() <= MAX_TEXT;
    quoted.chain(words).filter(is_path).map(PathBuf::from).collect()
}

fn grantable(path: &Path, sandbox: &ProposedSandbox) -> Option<DeniedAccess> {
    // What a link leads to is what would be granted, and is what the person sees.
    let path = path.canonicalize().ok().filter(|path| path.is_file())?;
    let is_own = |folder: PathBuf| {
        path.starts_with(&folder) || folder.canonicalize().is_ok_and(|folder| path.starts_with(folder))
    };
    let is_system = ["/proc", "/sys", "/dev"].iter().any(|folder| path.starts_with(folder));
    if is_system || paths::own_folders().any(is_own) || sandbox.can_write(&path) {
        return None;
    }
    let is_written = sandbox.can_read(&path);
    Some(DeniedAccess::File { path, is_written })
}

/// Returns the host that a line names: the first word that looks like one.
fn host_of(line: &str) -> Option<String> {
    let mut words =
        line.split_whitespace().map(|word| word.trim_matches(|sign| "'\"`:,;()[]".contains(sign)));
    let is_host = |word: &str| {
        let name = word.split_once("://").map_or(word, |(_, rest)| rest);
        let name = name.split(['/', ':']).next().unwrap_or_default();
        let labels = name.split('.');
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        (name.len() <= 253 && labels.clone().count() > 1 && labels.clone().all(is_label))
            .then(|| name.to_owned())
    };
    words.find_map(is_host)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    #[cfg_attr(windows, ignore = "no server is confined on Windows, and paths of Unix are read")]
    fn exactly_the_denied_file_is_found_first_to_be_read_and_then_to_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let file = folder.join("settings of mine.json");
        std::fs::write(&file, "{}").unwrap();
        let shown = file.display();
        let mut sandbox = ProposedSandbox::default();
        for text in [
            format!("Error: EACCES: permission denied, open '{shown}'\n    at open (node:fs:1:1)"),
            format!("PermissionError: [Errno 13] Permission denied: '{shown}'"),
            format!("Error: ENOENT: no such file or directory, open '{shown}'"),
            format!("open \"{shown}\": permission denied"),
        ] {
            let found = DeniedAccess::find(&text, &sandbox);
            assert_eq!(found, Some(DeniedAccess::File { path: file.clone(), is_written: false }), "{text}");
        }
        let text = format!("EROFS: read-only file system, open '{shown}'");
        sandbox.grant(&DeniedAccess::File { path: file.clone(), is_written: false });
        let found = DeniedAccess::find(&text, &sandbox).unwrap();
        assert_eq!(found, DeniedAccess::File { path: file.clone(), is_written: true });
        sandbox.grant(&found);
        assert_eq!(DeniedAccess::find(&text, &sandbox), None, "there is nothing more to grant");
    }

    #[test]
    #[cfg_attr(windows, ignore = "no server is confined on Windows, and paths of Unix are read")]
    fn nothing_wide_and_nothing_that_is_not_there_is_offered() {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = ProposedSandbox::default();
        for path in [
            "/",
            "/etc",
            "/home",
            folder.path().to_str().unwrap(),
            "/no/such/file",
            "/proc/self/mem",
            "etc/passwd",
        ] {
            let text = format!("EACCES: permission denied, open '{path}'");
            assert_eq!(DeniedAccess::find(&text, &sandbox), None, "{path}");
        }
        // Without the words of an error, a path is only a path.
        let file = folder.path().join("x");
        std::fs::write(&file, "").unwrap();
        assert_eq!(DeniedAccess::find(&format!("reading {}", file.display()), &sandbox), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_shown_as_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::write(folder.join("key"), "").unwrap();
        std::os::unix::fs::symlink(folder.join("key"), folder.join("harmless.txt")).unwrap();
        let text = format!("EACCES: permission denied, open '{}'", folder.join("harmless.txt").display());
        let found = DeniedAccess::find(&text, &ProposedSandbox::default());
        assert_eq!(found, Some(DeniedAccess::File { path: folder.join("key"), is_written: false }));
    }

    #[test]
    fn a_host_is_named_if_the_sandbox_has_no_network() {
        let sandbox = ProposedSandbox::default();
        for (text, host) in [
            ("Error: getaddrinfo EAI_AGAIN api.example.com", "api.example.com"),
            ("connect ENETUNREACH 192.0.2.1:443 - Local (0.0.0.0:0)", "192.0.2.1"),
            ("dial tcp: lookup api.example.com: Temporary failure in name resolution", "api.example.com"),
        ] {
            assert_eq!(
                DeniedAccess::find(text, &sandbox),
                Some(DeniedAccess::Host(host.to_owned())),
                "{text}"
            );
        }
        assert_eq!(DeniedAccess::find("EAI_AGAIN \u{202e}moc.elpmaxe", &sandbox), None);
    }
}
