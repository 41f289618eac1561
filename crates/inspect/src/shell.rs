//! Shell metacharacters in arguments that name a host, a file or another identifier.
//!
//! A tool that passes such an argument to a shell executes what follows the metacharacter. Arguments that are commands,
//! code, queries or text contain these characters for other reasons and are never examined.

use std::fmt;

/// Use of an argument, as far as its name and schema tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArgumentUse {
    /// A host name, an address or a port.
    Host,
    /// The name of a file or folder.
    FileName,
    /// A name or number of something else: a branch, a container, a user.
    Identifier,
    /// Anything else, such as text or a command.
    Free,
}

/// A metacharacter in an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShellFinding {
    /// The characters: `;`, `$(`.
    pub characters: &'static str,
    /// Their place in the argument, in bytes.
    pub at: usize,
}

impl fmt::Display for ArgumentUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "a host",
            Self::FileName => "a file name",
            Self::Identifier => "an identifier",
            Self::Free => "text",
        })
    }
}

/// Words of names whose argument is never examined, wherever they stand in the name.
const FREE_WORDS: [&str; 62] = [
    "command",
    "commands",
    "cmd",
    "shell",
    "script",
    "code",
    "source",
    "sql",
    "query",
    "queries",
    "filter",
    "where",
    "expression",
    "expr",
    "formula",
    "regex",
    "regexp",
    "pattern",
    "glob",
    "search",
    "text",
    "body",
    "content",
    "contents",
    "message",
    "messages",
    "description",
    "comment",
    "comments",
    "title",
    "subject",
    "summary",
    "note",
    "notes",
    "prompt",
    "question",
    "answer",
    "input",
    "data",
    "json",
    "yaml",
    "xml",
    "html",
    "css",
    "markdown",
    "template",
    "diff",
    "patch",
    "args",
    "arguments",
    "params",
    "parameters",
    "options",
    "flags",
    "value",
    "values",
    "string",
    "snippet",
    "reason",
    "caption",
    "instructions",
    "payload",
];

/// Last words of names that denote a host.
const HOST_WORDS: [&str; 14] = [
    "host",
    "hostname",
    "hosts",
    "domain",
    "ip",
    "address",
    "addr",
    "port",
    "fqdn",
    "subdomain",
    "nameserver",
    "gateway",
    "ipaddress",
    "cidr",
];

/// Last words of names that denote a file or folder.
const FILE_WORDS: [&str; 12] = [
    "filename",
    "file",
    "path",
    "filepath",
    "dir",
    "directory",
    "folder",
    "basename",
    "workdir",
    "cwd",
    "files",
    "paths",
];

/// Last words of names that denote another identifier.
const IDENTIFIER_WORDS: [&str; 21] = [
    "id",
    "ids",
    "identifier",
    "uuid",
    "username",
    "login",
    "branch",
    "tag",
    "ref",
    "commit",
    "sha",
    "hash",
    "container",
    "image",
    "package",
    "pid",
    "interface",
    "device",
    "bucket",
    "namespace",
    "slug",
];

/// Maximum length of an argument that is examined. Longer ones are no names.
const MAX_NAME: usize = 4096;

impl ArgumentUse {
    /// Determines the use of an argument by the last member name of its place, and by the keywords `format` and `type`
    /// of its schema if there are any.
    #[must_use]
    pub fn of(name: &str, format: Option<&str>) -> Self {
        let words = words(name);
        let has = |known: &[&str]| words.last().is_some_and(|last| known.contains(&last.as_str()));
        if words.iter().any(|word| FREE_WORDS.contains(&word.as_str())) {
            return Self::Free;
        }
        match format {
            Some("hostname" | "idn-hostname" | "ipv4" | "ipv6") => return Self::Host,
            Some("uuid") => return Self::Identifier,
            // Their metacharacters have a meaning in the format.
            Some("uri" | "uri-reference" | "iri" | "uri-template" | "regex" | "email") => return Self::Free,
            _ => {}
        }
        if has(&HOST_WORDS) {
            Self::Host
        } else if has(&FILE_WORDS) {
            Self::FileName
        } else if has(&IDENTIFIER_WORDS) {
            Self::Identifier
        } else {
            Self::Free
        }
    }
}

/// Finds the first shell metacharacter of an argument with this use.
#[must_use]
pub fn find_metacharacter(used: ArgumentUse, value: &str) -> Option<ShellFinding> {
    if used == ArgumentUse::Free || value.len() > MAX_NAME {
        return None;
    }
    let bytes = value.as_bytes();
    let next = |at: usize| bytes.get(at + 1).copied();
    bytes.iter().enumerate().find_map(|(at, byte)| {
        let characters = match byte {
            b'`' => "`",
            b'$' if next(at) == Some(b'(') => "$(",
            b'$' if next(at) == Some(b'{') && used != ArgumentUse::FileName => "${",
            b'&' if next(at) == Some(b'&') => "&&",
            b'|' if next(at) == Some(b'|') => "||",
            b'|' => "|",
            b'\n' | b'\r' => "a line end",
            // In the name of a file it is not rare, unless a command seems to follow.
            b';' if used != ArgumentUse::FileName || is_before_command(&bytes[at + 1..]) => ";",
            b'&' if used == ArgumentUse::Host => "&",
            b'>' | b'<' if used != ArgumentUse::FileName => {
                if *byte == b'>' {
                    ">"
                } else {
                    "<"
                }
            }
            _ => return None,
        };
        Some(ShellFinding { characters, at })
    })
}

/// Returns true if what follows a separator may be a command: a word, and then nothing or a blank.
fn is_before_command(rest: &[u8]) -> bool {
    let start = rest.iter().take_while(|byte| **byte == b' ').count();
    let word =
        rest[start..].iter().take_while(|byte| byte.is_ascii_alphabetic() || b"/_-$".contains(byte)).count();
    let after = rest.get(start + word);
    word >= 2 && after.is_some_and(|byte| matches!(byte, b' ' | b';' | b'|' | b'&' | b'>'))
}

/// Splits a name into words in lower case: at signs, and before a capital that follows a small letter.
fn words(name: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut was_small = false;
    for one in name.chars() {
        if !one.is_alphanumeric() || was_small && one.is_uppercase() {
            all.push(String::new());
        }
        was_small = one.is_lowercase();
        if one.is_alphanumeric()
            && let Some(word) = all.last_mut()
        {
            word.extend(one.to_lowercase());
        }
    }
    all.retain(|word| !word.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, value: &str) -> Option<&'static str> {
        find_metacharacter(ArgumentUse::of(name, None), value).map(|found| found.characters)
    }

    #[test]
    fn metacharacters_in_names_are_found() {
        for (name, value, characters) in [
            ("host", "example.com; id", ";"),
            ("hostname", "example.com|nc a.example 1", "|"),
            ("target_host", "$(whoami).example.com", "$("),
            ("ipAddress", "10.0.0.1 && reboot", "&&"),
            ("domain", "a.example`id`", "`"),
            ("host", "a.example\nrm -r x", "a line end"),
            ("host", "a.example & id", "&"),
            ("port", "80>x", ">"),
            ("branch", "main; curl a.example", ";"),
            ("container_id", "web || true", "||"),
            ("filename", "a.txt; rm -r x", ";"),
            ("file_path", "/tmp/$(id)", "$("),
            ("path", "/tmp/a`id`", "`"),
            ("user.login", "${IFS}", "${"),
        ] {
            assert_eq!(found(name, value), Some(characters), "{name} {value}");
        }
    }

    #[test]
    fn text_commands_and_ordinary_names_are_not_findings() {
        for (name, value) in [
            ("command", "ls; id | wc -l && echo `date` $(pwd)"),
            ("query", "a | b; c"),
            ("code", "if (a && b) { c(); }"),
            ("text", "one; two | three\nfour"),
            ("body", "| a | b |\n|---|---|"),
            ("host_command", "uptime; id"),
            ("file_content", "a;b\n"),
            ("search_path", "a|b"),
            ("jql_filter_id", "a || b"),
            ("args", "a; b"),
            ("host", "example.com:8080"),
            ("host", "[fe80::1%eth0]"),
            ("path", "/srv/a & b/Q&A (1); old.txt"),
            ("path", "/srv/${project}/a.txt"),
            ("filename", "salt & pepper.txt"),
            ("filename", "It's; fine.txt"),
            ("branch", "feature/a-b_c.d"),
            ("id", "a1b2:c3=d4,e5"),
            ("url", "https://a.example/?a=1&b=2;c=3|d"),
            ("title", "Q&A; more"),
            ("name", "R&D; 2026"),
        ] {
            assert_eq!(found(name, value), None, "{name} {value}");
        }
    }

    #[test]
    fn a_format_of_the_schema_says_more_than_the_name() {
        assert_eq!(ArgumentUse::of("where_to", Some("hostname")), ArgumentUse::Free);
        assert_eq!(ArgumentUse::of("machine", Some("hostname")), ArgumentUse::Host);
        assert_eq!(ArgumentUse::of("address", Some("uri")), ArgumentUse::Free);
        assert_eq!(ArgumentUse::of("serverHost", None), ArgumentUse::Host);
        assert_eq!(ArgumentUse::of("thing", Some("uuid")), ArgumentUse::Identifier);
        assert_eq!(find_metacharacter(ArgumentUse::Host, &"a;".repeat(5000)), None);
    }
}
