//! Changes of the servers in Hospes' own file, in which comments, order and form of all else stay.

use std::path::Path;

use toml_edit::{DocumentMut, Item, TomlError};

use super::ConfigLoader;
use super::model::{HostConfig, ServerConfig};
use super::own_profiles::forget_server;
use super::own_text::server_toml;

/// The text of a file, in parts that can be changed.
pub(super) struct OwnDocument {
    pub(super) document: DocumentMut,
    /// The text before, without the byte order mark and the line breaks of Windows, which the editor does not know.
    plain: String,
    mark: &'static str,
    is_windows: bool,
}

impl OwnDocument {
    /// Reads a text. Fails with the reason if it is not valid.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (mark, plain) = match text.strip_prefix('\u{feff}') {
            Some(plain) => ("\u{feff}", plain),
            None => ("", text),
        };
        let is_windows = plain.contains("\r\n");
        let plain = plain.replace("\r\n", "\n");
        let document = plain.parse::<DocumentMut>().map_err(|error| syntax_problem(&plain, &error))?;
        Ok(Self { document, plain, mark, is_windows })
    }

    /// Returns the text of the changed document.
    pub(super) fn text(&self) -> String {
        let mut after = self.document.to_string();
        // One empty line at the end, that between the last table and the one before, goes with it.
        while after.ends_with("\n\n") && !self.plain.ends_with("\n\n") {
            after.pop();
        }
        let after = if self.is_windows { after.replace('\n', "\r\n") } else { after };
        format!("{}{after}", self.mark)
    }
}

/// Returns the problem and its place. The error itself would print the line of the file, in which a secret may stand.
fn syntax_problem(text: &str, error: &TomlError) -> String {
    let message = error.message();
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => {
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            format!("line {line}, column {column}: {message}")
        }
        None => message.to_owned(),
    }
}

/// Error of changing the servers or profiles of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnFileError {
    /// The file has a form that cannot be extended at its end, or is invalid.
    #[error("servers cannot be added at the end of the file: {reason}")]
    NotAdded {
        /// Reason, from the reader of the file.
        reason: String,
    },
    /// The profile cannot be written, or the file has a form in which it cannot be changed.
    #[error("the profile cannot be written: {reason}")]
    NotWritten {
        /// Reason.
        reason: String,
    },
    /// A setting cannot be written, or the file has a form in which it cannot be changed.
    #[error("`{key}` cannot be written: {reason}; set it in the file")]
    NotSet {
        /// Key with its table.
        key: &'static str,
        /// Reason.
        reason: String,
    },
    /// The entry has a form that cannot be changed, or is invalid.
    #[error("the entry cannot be changed in the file: {reason}")]
    NotReplaced {
        /// Reason.
        reason: String,
    },
    /// The file has a form from which the entry cannot be taken, or is invalid.
    #[error("the entry cannot be taken out of the file: {reason}")]
    NotRemoved {
        /// Reason.
        reason: String,
    },
}

/// Returns the text of Hospes' own file with more servers at its end. Everything before stays as it is, with comments,
/// order and line breaks. Each server comes with a comment, of one line.
///
/// # Errors
/// If the result is not the old configuration with the new servers. That is so for a table of servers that is written
/// inline.
pub fn add_servers(
    file: &Path,
    text: &str,
    servers: &[(ServerConfig, String)],
) -> Result<String, OwnFileError> {
    let added = servers_text(servers);
    let (before, line_break) = (text, if text.contains("\r\n") { "\r\n" } else { "\n" });
    let mut after = before.to_owned();
    if !after.is_empty() && after != "\u{feff}" {
        if !after.ends_with('\n') {
            after.push_str(line_break);
        }
        after.push_str(line_break);
    }
    after.push_str(&added.replace('\n', line_break));
    check_addition(file, before, &after, servers)?;
    Ok(after)
}

/// Writes servers as they are added to a file, with `\n` as line break.
#[must_use]
pub fn servers_text(servers: &[(ServerConfig, String)]) -> String {
    let entries = servers.iter().map(|(server, comment)| {
        let comment: String =
            comment.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        format!("# {comment}\n{}", server_toml(server))
    });
    entries.collect::<Vec<_>>().join("\n")
}

/// Checks that the new text is read as the old servers and the added ones, and nothing else.
fn check_addition(
    file: &Path,
    before: &str,
    after: &str,
    servers: &[(ServerConfig, String)],
) -> Result<(), OwnFileError> {
    let read = |text: &str| {
        read_own(file, text).map_err(|errors| OwnFileError::NotAdded { reason: errors.to_string() })
    };
    let (old, new) = (read(before)?, read(after)?);
    let expected =
        old.servers.iter().chain(servers.iter().map(|(server, _)| server)).map(ServerConfig::without_source);
    let is_same = expected.eq(new.servers.iter().map(ServerConfig::without_source))
        && old.rejected.len() == new.rejected.len();
    if is_same {
        Ok(())
    } else {
        let rejected = new.rejected.last().map(|rejected| rejected.errors.to_string());
        let reason = rejected.unwrap_or_else(|| "the result would be read differently".to_owned());
        Err(OwnFileError::NotAdded { reason })
    }
}

pub(super) fn read_own(file: &Path, text: &str) -> Result<HostConfig, super::error::ConfigErrors> {
    ConfigLoader::new().keep_references(true).keep_going(true).allow_unset(true).parse(file, text)
}

/// Returns the text of Hospes' own file without a server: its table, the tables below it, and the comment above. Profiles
/// that name it do so no more. All else stays as it is.
///
/// # Errors
/// If the file has no such server or cannot be read, or if anything else would change with it.
pub fn remove_server(file: &Path, text: &str, name: &str) -> Result<String, OwnFileError> {
    let failed = |reason: String| OwnFileError::NotRemoved { reason };
    let mut edited = OwnDocument::read(text).map_err(failed)?;
    let document = &mut edited.document;
    let servers = document.get_mut("servers").and_then(Item::as_table_like_mut);
    let servers = servers.ok_or_else(|| failed("it has no table `servers`".to_owned()))?;
    servers.remove(name).ok_or_else(|| failed(format!("it has no server `{name}`")))?;
    if servers.is_empty() && servers.is_dotted() {
        document.remove("servers");
    }
    forget_server(document, name);
    let after = edited.text();
    let read = |text: &str| read_own(file, text).map_err(|errors| failed(errors.to_string()));
    let old = read(text)?;
    let expected: Vec<ServerConfig> =
        old.servers.iter().filter(|server| server.name != name).map(ServerConfig::without_source).collect();
    // A file without servers is none to the reader.
    let is_same = match read(&after) {
        Ok(new) => {
            let rejected =
                |config: &HostConfig| config.rejected.iter().filter(|one| one.name != name).count();
            new.servers.iter().map(ServerConfig::without_source).eq(expected)
                && rejected(&old) == rejected(&new)
        }
        Err(_) => expected.is_empty(),
    };
    if is_same { Ok(after) } else { Err(failed("the result would be read differently".to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "/c/config.toml";

    #[test]
    fn a_server_is_taken_out_and_all_else_stays() {
        let text = "# mine\nlisten = \"127.0.0.1:1\" # here\n\n# One\n[servers.one]\ncommand = [\"a\"]\n\n# Two\n\
            [servers.two]\ncommand = [\"b\"]\n[servers.two.sandbox]\nnetwork = \"none\"\n\n# Three\n[servers.three]\n\
            url = \"https://e.com\"  # last\n";
        let expected = "# mine\nlisten = \"127.0.0.1:1\" # here\n\n# One\n[servers.one]\ncommand = [\"a\"]\n\n\
            # Three\n[servers.three]\nurl = \"https://e.com\"  # last\n";
        assert_eq!(remove_server(Path::new(FILE), text, "two").unwrap(), expected);
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let after = remove_server(Path::new(FILE), &windows, "two").unwrap();
        assert_eq!(after, format!("\u{feff}{}", expected.replace('\n', "\r\n")));
        assert!(remove_server(Path::new(FILE), text, "four").is_err());
        let inline = "servers = { a = { command = \"x\" }, b = { command = \"y\" } }\n";
        let after = remove_server(Path::new(FILE), inline, "a").unwrap();
        assert_eq!(after.replace("  ", " "), "servers = { b = { command = \"y\" } }\n");
    }

    #[test]
    fn a_syntax_error_is_told_without_its_line() {
        for text in ["a = 1\nenv = { A = \"hunter2\" \"x\" }\n", "token = hunter2\n", "a = \"hunter2\n"] {
            let problem = OwnDocument::read(text).err().unwrap();
            assert!(!problem.contains("hunter2"), "{problem}");
        }
        let problem = OwnDocument::read("a = 1\n[b\nc = 2\n").err().unwrap();
        assert!(problem.starts_with("line 2, column "), "{problem}");
    }

    #[test]
    fn what_was_added_is_taken_out_again() {
        let config = ConfigLoader::new().parse(FILE, "[servers.new]\ncommand = [\"n\"]\n").unwrap();
        let added = [(config.servers[0].clone(), "A comment".to_owned())];
        for before in
            ["", "[servers.a]\ncommand = \"x\"\n", "# c\n[servers]\na.command = \"x\"\n", "a = 1 # no\n"]
        {
            let Ok(after) = add_servers(Path::new(FILE), before, &added) else { continue };
            assert_eq!(remove_server(Path::new(FILE), &after, "new").unwrap(), before, "{after}");
        }
    }
}
