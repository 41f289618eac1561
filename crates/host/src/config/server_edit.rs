//! A change of one server's settings, as a person makes it on a page.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use super::command_line::is_env_name;
use super::import::secret_name;
use super::model::ServerConfig;
use super::secret::{ExpandedText, HIDDEN, Secret, ServerUrl, redact_words};
use super::server_edit_values::{ArgumentEdit, SandboxEdit, ToolFilterEdit, ValueEdit, absolute_path};
use super::server_transport::ServerTransport;
use super::table::parse_duration;
use super::text_parts::{TextPart, text_parts};
use super::tool_filter::ToolFilter;

/// A change of a server's settings. What is left out stays. Texts may have references, as in the file.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ServerEdit {
    /// True to start the server, false to switch it off.
    pub enabled: Option<bool>,
    /// Program of a child process.
    pub command: Option<String>,
    /// Arguments of a child process or a built-in server.
    pub args: Option<Vec<ArgumentEdit>>,
    /// Folder that a child process starts in, as an absolute path; empty for none.
    pub cwd: Option<String>,
    /// URL of a remote server.
    pub url: Option<String>,
    /// Variables of a child process.
    pub env: BTreeMap<String, ValueEdit>,
    /// Headers of a remote server.
    pub headers: BTreeMap<String, ValueEdit>,
    /// Filter of its tools.
    pub tools: Option<ToolFilterEdit>,
    /// Sandbox of a child process.
    pub sandbox: Option<SandboxEdit>,
    /// Time limit of a start, such as `30s`; empty for the default.
    pub connect_timeout: Option<String>,
    /// Time limit of a request, such as `2m`; empty for the default.
    pub request_timeout: Option<String>,
}

/// Result of a change: the new settings, and the secrets that have to be stored for them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EditedServer {
    /// The new settings, with references.
    pub server: ServerConfig,
    /// Names and values of secrets.
    pub secrets: Vec<(String, Secret)>,
}

/// Error of a change: a setting that the server cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
#[non_exhaustive]
pub struct ServerEditError {
    /// Key of the setting, such as `env.TOKEN`.
    pub field: String,
    /// Problem, without the value.
    pub problem: String,
}

impl ServerEditError {
    pub(super) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

impl ServerEdit {
    /// Applies the change to a server that was loaded with [references kept](super::ConfigLoader::keep_references).
    ///
    /// # Errors
    /// If a value is invalid, or the server's transport has no such setting.
    pub fn apply(&self, server: &ServerConfig) -> Result<EditedServer, ServerEditError> {
        self.check_texts()?;
        let mut edited = EditedServer { server: server.clone(), secrets: Vec::new() };
        let EditedServer { server, secrets } = &mut edited;
        if let Some(enabled) = self.enabled {
            server.disabled = !enabled;
        }
        self.apply_to_transport(server, secrets)?;
        if let Some(tools) = &self.tools {
            server.tools = ToolFilter { include: tools.include.clone(), exclude: tools.exclude.clone() };
        }
        if let Some(sandbox) = &self.sandbox {
            if !matches!(server.transport, ServerTransport::Stdio(_)) {
                return Err(ServerEditError::new(
                    "sandbox",
                    "only a program that Hospes starts has a sandbox",
                ));
            }
            sandbox.apply(server)?;
        }
        for (field, text, time) in [
            ("connect_timeout", &self.connect_timeout, &mut server.timeouts.connect),
            ("request_timeout", &self.request_timeout, &mut server.timeouts.request),
        ] {
            if let Some(text) = text {
                *time = read_time(field, text)?;
            }
        }
        Ok(edited)
    }

    /// Returns an error if a text is one that was shown with a hidden part.
    fn check_texts(&self) -> Result<(), ServerEditError> {
        let args = self.args.iter().flatten().map(|argument| match argument {
            ArgumentEdit::Text(text) => ("args", text.as_str()),
            ArgumentEdit::Keep(_) => ("args", ""),
        });
        let values = self.env.values().chain(self.headers.values()).map(|edit| match edit {
            ValueEdit::Text(text) => ("env", text.as_str()),
            ValueEdit::Secret(_) | ValueEdit::Remove => ("env", ""),
        });
        let texts = [("command", &self.command), ("url", &self.url)];
        let texts = texts.iter().filter_map(|(field, text)| Some((*field, text.as_deref()?)));
        match texts.chain(args).chain(values).find(|(_, text)| text.contains(HIDDEN)) {
            Some((field, _)) => {
                Err(ServerEditError::new(field, "a part of the text is hidden; type the whole text"))
            }
            None => Ok(()),
        }
    }

    fn apply_to_transport(
        &self,
        server: &mut ServerConfig,
        secrets: &mut Vec<(String, Secret)>,
    ) -> Result<(), ServerEditError> {
        let name = server.name.clone();
        let mut reference = |key: &str, current: Option<&str>, secret: &Secret| {
            let stored = stored_name(&name, key, current);
            secrets.push((stored.clone(), secret.clone()));
            format!("${{secret:{stored}}}")
        };
        let wrong =
            |field: &str| ServerEditError::new(field, "a server of this transport has no such setting");
        match &mut server.transport {
            ServerTransport::Stdio(stdio) => {
                if let Some(command) = &self.command {
                    if command.trim().is_empty() {
                        return Err(ServerEditError::new("command", "expected the name of a program"));
                    }
                    stdio.command = ExpandedText::literal(command);
                }
                self.apply_args(&mut stdio.args)?;
                if let Some(cwd) = &self.cwd {
                    stdio.cwd = match cwd.trim() {
                        "" => None,
                        path => Some(absolute_path("cwd", path)?),
                    };
                }
                for (key, edit) in &self.env {
                    if !is_env_name(key) {
                        let expected = "expected a name without `=` and white space";
                        return Err(ServerEditError::new(format!("env.{key}"), expected));
                    }
                    match edit {
                        ValueEdit::Text(text) => drop(stdio.env.insert(key.clone(), Secret::new(text))),
                        ValueEdit::Secret(secret) => {
                            let current = stdio.env.get(key).map(Secret::reveal);
                            let text = reference(key, current, secret);
                            stdio.env.insert(key.clone(), Secret::new(text));
                        }
                        ValueEdit::Remove => drop(stdio.env.remove(key)),
                    }
                }
                if self.url.is_some() || !self.headers.is_empty() {
                    return Err(wrong(if self.url.is_some() { "url" } else { "headers" }));
                }
            }
            ServerTransport::Http(http) => {
                if let Some(url) = &self.url {
                    let parsed = url::Url::parse(url);
                    let is_url =
                        parsed.is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
                    if !is_url && !url.contains("${") {
                        return Err(ServerEditError::new(
                            "url",
                            "expected a URL that begins with `http://` or `https://`",
                        ));
                    }
                    http.url = ServerUrl::unresolved(url.clone());
                }
                for (key, edit) in &self.headers {
                    let at = http.headers.iter().position(|(known, _)| known.eq_ignore_ascii_case(key));
                    let value = match edit {
                        ValueEdit::Remove => {
                            at.map(|at| http.headers.remove(at));
                            continue;
                        }
                        ValueEdit::Text(text) => Secret::new(text),
                        ValueEdit::Secret(secret) => {
                            let current = at.map(|at| http.headers[at].1.reveal());
                            Secret::new(reference(key, current, secret))
                        }
                    };
                    match at {
                        Some(at) => http.headers[at].1 = value,
                        None => http.headers.push((key.clone(), value)),
                    }
                }
                if self.command.is_some() || self.args.is_some() || self.cwd.is_some() || !self.env.is_empty()
                {
                    return Err(wrong("command"));
                }
            }
            ServerTransport::Builtin(builtin) => {
                self.apply_args(&mut builtin.args)?;
                let is_other = self.command.is_some() || self.url.is_some() || self.cwd.is_some();
                if is_other || !self.env.is_empty() || !self.headers.is_empty() {
                    return Err(wrong("builtin"));
                }
            }
        }
        Ok(())
    }

    fn apply_args(&self, known: &mut Vec<ExpandedText>) -> Result<(), ServerEditError> {
        let Some(args) = &self.args else { return Ok(()) };
        let edited = args.iter().map(|argument| match argument {
            ArgumentEdit::Text(text) => Ok(ExpandedText::literal(text)),
            ArgumentEdit::Keep(index) => known
                .get(*index)
                .cloned()
                .ok_or_else(|| ServerEditError::new("args", "an argument that is kept is not there")),
        });
        let edited: Vec<ExpandedText> = edited.collect::<Result<_, _>>()?;
        // An option hides the word after it, so another word before an argument can uncover it.
        let was = redact_words(known.iter().map(ExpandedText::reveal));
        let now = redact_words(edited.iter().map(ExpandedText::reveal));
        for ((argument, text), now) in args.iter().zip(&edited).zip(&now) {
            let ArgumentEdit::Keep(at) = argument else { continue };
            let was = &was[*at];
            if was != text.reveal() && now != was && now != HIDDEN {
                let problem = "a hidden argument would be shown; remove or replace it, too";
                return Err(ServerEditError::new("args", problem));
            }
        }
        *known = edited;
        Ok(())
    }
}

/// Values may be secrets, so none is printed.
impl fmt::Debug for ServerEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerEdit").field("enabled", &self.enabled).finish_non_exhaustive()
    }
}

/// Returns the name under which the secret of a variable or header is stored: the one that the value refers to, or one of
/// the server and the key.
fn stored_name(server: &str, key: &str, current: Option<&str>) -> String {
    if let Some([TextPart::Secret(name)]) = current.map(text_parts).as_deref() {
        return name.clone();
    }
    secret_name(&format!("{server}.{key}"))
}

fn read_time(field: &str, text: &str) -> Result<Option<Duration>, ServerEditError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let seconds = parse_duration(text).filter(|seconds| *seconds > 0.0);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    // As it is written: milliseconds.
    let time = time.map(|time| Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)));
    match time.filter(|time| !time.is_zero()) {
        Some(time) => Ok(Some(time)),
        None => Err(ServerEditError::new(field, "expected a time above zero such as \"30s\" or \"2m\"")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::own_entry::replace_server;
    use super::super::own_file::read_own;
    use super::*;

    const TEXT: &str = "# mine\n[servers.one]\ncommand = [\"x\", \"--token\", \"hunter2\", \"y\"]\n\
        env = { A = \"${secret:shared}\", B = \"plain\" } # these\n[servers.web]\nurl = \"https://e.com/mcp\"\n\
        headers = { Z = \"1\", A = \"2\" }\n";

    fn edit(server: &str, edit: &serde_json::Value) -> Result<(String, EditedServer), String> {
        let file = Path::new("/c/config.toml");
        let config = read_own(file, TEXT).unwrap();
        let known = config.servers.iter().find(|known| known.name == server).unwrap();
        let edit: ServerEdit = serde_json::from_value(edit.clone()).map_err(|error| error.to_string())?;
        let edited = edit.apply(known).map_err(|error| error.to_string())?;
        let text = replace_server(file, TEXT, &edited.server).map_err(|error| error.to_string())?;
        Ok((text, edited))
    }

    #[test]
    fn a_change_is_written_and_its_secrets_are_apart() {
        let (text, edited) = edit(
            "one",
            &serde_json::json!({
                "args": [{ "keep": 0 }, { "keep": 1 }, { "text": "z" }],
                "env": { "A": { "secret": "new-1" }, "C": { "secret": "new-2" }, "B": "remove" },
                "sandbox": { "kind": "auto", "network": false, "files": { "read": ["/a"], "write": [] } },
                "tools": { "include": ["read_*"], "exclude": [] }, "requestTimeout": "90s", "cwd": "/w",
            }),
        )
        .unwrap();
        let expected =
            TEXT.replace("\"y\"]", "\"z\"]").replace("B = \"plain\"", "C = \"${secret:one.C}\"").replace(
                "# these\n",
                "# these\ncwd = \"/w\"\ntools = { include = [\"read_*\"] }\nrequest_timeout = \"90s\"\n\
                 sandbox = { network = \"none\", files = { read = [\"/a\"], write = [] } }\n",
            );
        assert_eq!(text, expected);
        let (text, _) =
            edit("one", &serde_json::json!({ "args": [{ "text": "--secret" }, { "keep": 1 }] })).unwrap();
        assert!(text.contains("[\"x\", \"--secret\", \"hunter2\"]"), "still hidden: {text}");
        let secrets: Vec<_> =
            edited.secrets.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
        assert_eq!(secrets, [("shared", "new-1"), ("one.C", "new-2")]);
        let (text, _) =
            edit("web", &serde_json::json!({ "headers": { "a": { "text": "3" }, "M": { "text": "4" } } }))
                .unwrap();
        assert!(text.contains("headers = { Z = \"1\", A = \"3\", M = \"4\" }"), "{text}");
    }

    #[test]
    fn what_a_server_cannot_have_is_refused_without_the_value() {
        for (server, change, said) in [
            ("one", serde_json::json!({ "url": "https://e.com" }), "url: a server of this transport"),
            ("web", serde_json::json!({ "url": "hunter2" }), "url: expected a URL"),
            (
                "web",
                serde_json::json!({ "sandbox": { "kind": "auto", "network": true, "files": null } }),
                "sandbox: only",
            ),
            ("one", serde_json::json!({ "args": [{ "keep": 7 }] }), "args: an argument"),
            ("one", serde_json::json!({ "args": [{ "keep": 1 }] }), "args: a hidden argument"),
            (
                "one",
                serde_json::json!({ "args": [{ "text": "--user" }, { "keep": 1 }] }),
                "args: a hidden argument",
            ),
            (
                "one",
                serde_json::json!({ "args": [{ "text": "--a=[redacted]" }] }),
                "args: a part of the text is hidden",
            ),
            ("one", serde_json::json!({ "cwd": "hunter2" }), "cwd: expected an absolute path"),
            (
                "one",
                serde_json::json!({ "env": { "A B": { "text": "hunter2" } } }),
                "env.A B: expected a name",
            ),
            ("one", serde_json::json!({ "requestTimeout": "soon" }), "request_timeout: expected a time"),
            (
                "one",
                serde_json::json!({ "sandbox": { "kind": "off", "network": false, "files": null } }),
                "sandbox.kind: `off`",
            ),
            ("one", serde_json::json!({ "name": "two" }), "unknown field"),
            ("one", serde_json::json!({ "env": { "A": { "text": "x\u{0}hunter2" } } }), "NUL"),
        ] {
            let problem = edit(server, &change).map(|(text, _)| text).unwrap_err();
            assert!(problem.contains(said) && !problem.contains("hunter2"), "{said}: {problem}");
        }
        let edit: ServerEdit =
            serde_json::from_value(serde_json::json!({ "env": { "A": { "secret": "hunter2" } } })).unwrap();
        assert!(!format!("{edit:?}{:?}", edit.env).contains("hunter2"));
    }
}
