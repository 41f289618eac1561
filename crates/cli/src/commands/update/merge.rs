//! The entry of an updated server: what the new version needs, and what a person has changed in the file.

use std::mem::discriminant;
use std::path::{Path, PathBuf};

use hospes_host::config::{ConfigLoader, HttpTransport, ServerConfig, ServerTransport, StdioTransport};

/// Name of the file that a recorded entry is read as; it does not exist.
const RECORD_FILE: &str = "the recorded entry.toml";

/// A server with a new version.
pub(super) struct MergedServer {
    pub(super) server: ServerConfig,
    /// Changes of the person that do not stay.
    pub(super) replaced: Vec<String>,
}

/// Reads an entry that was written into a record.
pub(super) fn read_written(text: &str) -> Option<ServerConfig> {
    let loader = ConfigLoader::new().keep_references(true).allow_unset(true);
    loader.parse(Path::new(RECORD_FILE), text).ok()?.servers.into_iter().next()
}

/// Returns true if a person has changed what is run, or where it is. Own variables and headers of the person stay at each
/// update, and are no such change.
pub(super) fn is_changed_by_hand(written: &ServerTransport, current: &ServerTransport) -> bool {
    match (written, current) {
        (ServerTransport::Stdio(written), ServerTransport::Stdio(current)) => {
            (&written.command, &written.args, &written.cwd) != (&current.command, &current.args, &current.cwd)
        }
        (ServerTransport::Http(written), ServerTransport::Http(current)) => {
            (&written.url, written.flavour) != (&current.url, current.flavour)
        }
        (written, current) => written != current,
    }
}

impl MergedServer {
    /// Merges the entry of the file with that of a new version. `written` is the entry as it was written when the version
    /// in use was added: where the file differs from it, a person has changed it. `folders` are those of the version in
    /// use and of the new one.
    pub(super) fn of(
        written: Option<&ServerConfig>,
        current: &ServerConfig,
        new: &ServerConfig,
        folders: (Option<&Path>, Option<&Path>),
    ) -> Self {
        let mut merged = Self { server: current.clone(), replaced: Vec::new() };
        merged.server.origin = new.origin.clone();
        let written = written.map(|written| &written.transport);
        if written.is_some_and(|written| discriminant(written) != discriminant(&current.transport)) {
            merged.replaced.push(format!("the server was changed by hand: {}", current.transport));
        }
        merged.server.transport = match (&current.transport, &new.transport) {
            (ServerTransport::Stdio(current), ServerTransport::Stdio(new)) => {
                let written = written.and_then(|written| match written {
                    ServerTransport::Stdio(written) => Some(written),
                    _ => None,
                });
                ServerTransport::Stdio(merged.stdio(written, current, new))
            }
            (ServerTransport::Http(current), ServerTransport::Http(new)) => {
                let written = written.and_then(|written| match written {
                    ServerTransport::Http(written) => Some(written),
                    _ => None,
                });
                ServerTransport::Http(merged.http(written, current, new))
            }
            (_, new) => new.clone(),
        };
        if let (Some(old), Some(new)) = folders
            && let Some(files) = &mut merged.server.sandbox.profile.files
        {
            for path in files.read.iter_mut().chain(&mut files.write) {
                move_path(path, old, new);
            }
        }
        merged
    }

    /// Returns true if the server runs in a sandbox.
    pub(super) fn is_confined(&self) -> bool {
        self.server.sandbox.profile.is_demanding()
    }

    fn stdio(
        &mut self,
        written: Option<&StdioTransport>,
        current: &StdioTransport,
        new: &StdioTransport,
    ) -> StdioTransport {
        let mut merged = current.clone();
        let is_edited = written
            .is_some_and(|written| (&written.command, &written.args) != (&current.command, &current.args));
        if is_edited {
            self.replaced.push(format!("the command was changed by hand: {}", current.command_line()));
        }
        merged.command = new.command.clone();
        merged.args.clone_from(&new.args);
        if new.cwd.is_some() || written.is_some_and(|written| written.cwd == current.cwd) {
            merged.cwd.clone_from(&new.cwd);
        }
        merged.env = new.env.clone();
        for (name, value) in &current.env {
            let is_own = match written {
                Some(written) => written.env.get(name) != Some(value),
                // Without a record, nobody knows who wrote it.
                None => true,
            };
            if is_own {
                merged.env.insert(name.clone(), value.clone());
            }
        }
        merged
    }

    fn http(
        &mut self,
        written: Option<&HttpTransport>,
        current: &HttpTransport,
        new: &HttpTransport,
    ) -> HttpTransport {
        let mut merged = current.clone();
        if written.is_some_and(|written| written.url != current.url) {
            self.replaced.push(format!("the URL was changed by hand: {}", current.url));
        }
        merged.url = new.url.clone();
        merged.flavour = new.flavour;
        merged.headers.clone_from(&new.headers);
        for (name, value) in &current.headers {
            let is_written = |written: &HttpTransport| {
                written.headers.iter().any(|(known, same)| known == name && same == value)
            };
            if written.is_none_or(|written| !is_written(written)) {
                merged.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
                merged.headers.push((name.clone(), value.clone()));
            }
        }
        merged
    }
}

/// Moves a path below the old folder to the new one.
fn move_path(path: &mut PathBuf, old: &Path, new: &Path) {
    if let Ok(rest) = path.strip_prefix(old) {
        *path = if rest.as_os_str().is_empty() { new.to_owned() } else { new.join(rest) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use hospes_host::config::server_toml;

    use super::*;

    const DRIVE: &str = if cfg!(windows) { "C:" } else { "" };

    /// Reads an entry. Paths that begin with a slash get a drive where absolute paths have one.
    fn server(text: &str) -> ServerConfig {
        let text = text.replace("'/", &format!("'{DRIVE}/"));
        read_written(&format!("[servers.s]\n{text}\n")).unwrap()
    }

    #[test]
    fn what_a_person_changed_stays_and_what_the_old_version_needed_goes() {
        let written = server("command = ['node', '/p/1/x.js']\nenv = { OLD = 'a', KEY = '${secret:s.key}' }");
        let current = server(
            "command = ['node', '/p/1/x.js']\nenv = { OLD = 'a', KEY = '${secret:mine}', EXTRA = 'e' }\nrequest_timeout = '9s'\n\
             sandbox = { files = { read = ['/p/1', '/opt/node'], write = ['/p/10'] } }",
        );
        let new = server(
            "command = ['node', '/p/2/y.js']\nenv = { KEY = '${secret:s.key}', NEW = 'n' }\nversion = '2'",
        );
        let folders = ["/p/1", "/p/2"].map(|folder| format!("{DRIVE}{folder}"));
        let folders = (Some(Path::new(&folders[0])), Some(Path::new(&folders[1])));
        let merged = MergedServer::of(Some(&written), &current, &new, folders);
        let expected = server(
            "command = ['node', '/p/2/y.js']\nenv = { KEY = '${secret:mine}', EXTRA = 'e', NEW = 'n' }\nrequest_timeout = '9s'\n\
             sandbox = { files = { read = ['/p/2', '/opt/node'], write = ['/p/10'] } }\nversion = '2'",
        );
        assert_eq!(server_toml(&merged.server), server_toml(&expected));
        assert!(merged.replaced.is_empty() && merged.is_confined());
        let edited = server("command = ['strace', 'node', '/p/1/x.js']");
        let merged = MergedServer::of(Some(&written), &edited, &new, (None, None));
        assert!(merged.replaced[0].contains("strace node"), "{:?}", merged.replaced);
    }

    #[test]
    fn headers_are_merged_as_variables_are() {
        let written = server("url = 'https://a.example/1'\nheaders = { Old = 'x', Key = 'k' }");
        let current = server("url = 'https://a.example/1'\nheaders = { Old = 'x', Key = 'mine' }");
        let new =
            server("url = 'https://a.example/2'\nheaders = { Key = 'k', New = 'n' }\ntransport = 'sse'");
        let merged = MergedServer::of(Some(&written), &current, &new, (None, None));
        let expected =
            server("url = 'https://a.example/2'\nheaders = { New = 'n', Key = 'mine' }\ntransport = 'sse'");
        assert_eq!(server_toml(&merged.server), server_toml(&expected));
    }
}
