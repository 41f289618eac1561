//! Text that `hospes up` prints once it serves: the endpoint, the console, the rules, and what to paste into
//! applications.

use std::fmt::Write as _;
use std::path::Path;

use hospes_console::ConsoleServer;
use hospes_host::Host;
use hospes_policy::Preset;
use serde_json::json;

use super::config_reload::UsedFiles;
use super::events::EventWriter;
use super::found_servers::{FoundApplications, found_line};
use crate::output::{BOLD, CYAN, CliOutput, DIM, YELLOW, paint, printable};
use crate::paths;

/// Consequence of having no policy file, as `up` and `status` print it.
pub(crate) const NO_POLICY: &str = "none, so every call is allowed without approval";

/// Advice without any server, as `up` and `status` print it.
pub(crate) const NO_SERVERS: &str = "`hospes add` or `hospes import` adds some";

/// Describes what a preset asks about, for one line.
pub(crate) fn preset_line(preset: Preset) -> String {
    let asks = match preset {
        Preset::Cautious => "asks about every effect",
        Preset::Open => "asks about effects with a value from a text of others",
        _ => "asks about effects that a text of others may have caused",
    };
    format!("preset {preset}: {asks}")
}

/// Facts about a host that serves.
pub(super) struct StartupText<'a> {
    /// URL of the endpoint, and the one that programs of this machine use.
    pub(super) url: &'a str,
    pub(super) usable: &'a str,
    /// Issuer of the tokens that the endpoint asks for.
    pub(super) by: Option<&'a str>,
    /// Token that applications have to show.
    pub(super) token: Option<&'a str>,
    /// Address at which other nodes reach this one, if it is a node of a fleet.
    pub(super) node: Option<&'a str>,
    /// Configuration files. None means that the built-in servers run.
    pub(super) files: &'a UsedFiles,
}

impl StartupText<'_> {
    /// Prints the text, or the result and an event.
    pub(super) fn print(
        &self,
        host: &Host,
        console: Option<&ConsoleServer>,
        output: CliOutput,
        events: EventWriter,
    ) {
        if output.json {
            self.print_json(host, console, output);
        } else {
            output.say(self.text(host, console));
        }
        if !events.is_for_people() {
            let count = host.status().servers.len();
            let fields = [
                ("version", json!(env!("CARGO_PKG_VERSION"))),
                ("endpoint", json!(self.url)),
                ("servers", json!(count)),
                ("pid", json!(std::process::id())),
            ];
            events.event("start", &fields, String::new);
        }
    }

    fn print_json(&self, host: &Host, console: Option<&ConsoleServer>, output: CliOutput) {
        let status = host.status();
        let servers: Vec<String> = status.servers.into_iter().map(|server| server.name).collect();
        let mut value = json!({ "endpoint": self.url, "servers": servers, "pid": std::process::id() });
        if !status.left_out.is_empty() {
            value["leftOut"] = json!(status.left_out);
        }
        let profiles = host.profiles();
        if !profiles.is_empty() {
            let endpoint = |name: &str| (name.to_owned(), format!("{}/{name}", self.url).into());
            let endpoints = profiles.iter().map(|profile| endpoint(&profile.name));
            value["profiles"] = serde_json::Value::Object(endpoints.collect());
        }
        if let Some(console) = console {
            value["console"] = console.link().url().into();
        }
        if let Some(node) = self.node {
            value["node"] = node.into();
        }
        if let Some(token) = self.token {
            value["token"] = token.into();
        }
        output.json_line(&value.to_string());
    }

    /// Returns the text after the end of the screen: what stood at its head, without advice for a running host.
    pub(super) fn ended_text(&self) -> String {
        let mut text = format!("\n  {} {}\n\n", paint(BOLD, "hospes"), paint(DIM, env!("CARGO_PKG_VERSION")));
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  {}  {}", paint(DIM, "endpoint"), paint(CYAN, self.url));
        if !self.files.current().is_empty() {
            let _ = writeln!(text, "  {}  {}", paint(DIM, "servers "), paint(DIM, self.file_names()));
        }
        text
    }

    fn file_names(&self) -> String {
        self.files.current().iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Returns the text for people.
    pub(super) fn text(&self, host: &Host, console: Option<&ConsoleServer>) -> String {
        let mut text = format!("\n  {} {}\n\n", paint(BOLD, "hospes"), paint(DIM, env!("CARGO_PKG_VERSION")));
        // Writing into a string cannot fail.
        let _ = writeln!(text, "  {}  {}\n", paint(DIM, "endpoint"), paint(CYAN, self.url));
        for (index, profile) in host.profiles().iter().enumerate() {
            let what = if index == 0 { "profiles" } else { "        " };
            let url = paint(CYAN, format!("{}/{}", self.url, profile.name));
            let title = profile.title.as_deref().map(|title| format!("  {}", paint(DIM, printable(title))));
            let _ = writeln!(text, "  {}  {url}{}", paint(DIM, what), title.unwrap_or_default());
        }
        if !host.profiles().is_empty() {
            text.push('\n');
        }
        if let Some(console) = console {
            let link = console.link();
            let minutes = link.lifetime.as_secs() / 60;
            let good = match console.is_for_team() {
                true => "people of the team sign in there".to_owned(),
                false => format!("valid once, for {minutes} minutes; `hospes console` opens a new link"),
            };
            let good = paint(DIM, good);
            let shown = paint(CYAN, link.url());
            let _ = writeln!(text, "  {}   {shown}\n            {good}\n", paint(DIM, "console"));
        }
        if let Some(node) = self.node {
            let shown =
                paint(DIM, format!("a node, reached by the others at {node}; state in PostgreSQL and Redis"));
            let _ = writeln!(text, "  {}  {shown}\n", paint(DIM, "fleet   "));
        }
        if let Some(by) = self.by {
            let shown = paint(DIM, format!("required; issued by {by}"));
            let _ = writeln!(text, "  {}  {shown}\n", paint(DIM, "tokens  "));
        }
        let files = self.files.current();
        if files.is_empty() {
            for line in first_steps() {
                let _ = writeln!(text, "  {line}");
            }
            text.push('\n');
        } else {
            let _ = writeln!(text, "  {}  {}\n", paint(DIM, "servers "), paint(DIM, self.file_names()));
        }
        let status = host.status();
        if status.servers.is_empty() && status.left_out.is_empty() {
            let _ = writeln!(text, "  {}  {NO_SERVERS}\n", paint(YELLOW, "no servers"));
        }
        if let Some(preset) = status.preset {
            let _ = writeln!(text, "  {}    {}\n", paint(DIM, "guard "), preset_line(preset));
        }
        if status.without_policy {
            let _ = writeln!(text, "  {}    {NO_POLICY}", paint(YELLOW, "policy"));
            if let Some(file) = paths::policy_file() {
                let hint =
                    format!("write rules to {}; changes take effect at once", paths::display_path(&file));
                let _ = writeln!(text, "            {}", paint(DIM, hint));
            }
            text.push('\n');
        }
        text.push_str(&client_snippets(self.usable, self.token, &files));
        let _ = write!(
            text,
            "\n  {}\n",
            paint(DIM, "Ctrl-C stops the host. `hospes status` shows the state of the servers.")
        );
        text
    }
}

/// Returns the next steps of somebody without a configuration. The first line names the servers that run.
pub(super) fn first_steps() -> Vec<String> {
    vec![
        "No configuration: built-in servers run (files, read only; time; everything).".to_owned(),
        found_line(&FoundApplications::count()),
        "`hospes connect` adds Hospes to an application, `hospes add` a server.".to_owned(),
    ]
}

/// Returns configuration snippets for a few applications.
fn client_snippets(url: &str, token: Option<&str>, files: &[std::path::PathBuf]) -> String {
    let text = |path: &Path| path.display().to_string();
    // The full path, because applications may start programs with a different `PATH`.
    let program = std::env::current_exe().map_or_else(|_| "hospes".to_owned(), |path| text(&path));
    let mut args = vec!["stdio".to_owned()];
    // An application starts it in another folder and without this environment.
    for file in files.iter().filter(|file| paths::default_config().as_ref() != Some(*file)) {
        args.extend([
            "--config".to_owned(),
            text(&std::path::absolute(file).unwrap_or_else(|_| file.clone())),
        ]);
    }
    let launch = serde_json::json!({ "mcpServers": { "hospes": { "command": program, "args": args } } });
    let with_token = |mut entry: serde_json::Value| {
        if let Some(token) = token {
            entry["headers"] = serde_json::json!({ "Authorization": format!("Bearer {token}") });
        }
        entry
    };
    let entry = with_token(serde_json::json!({ "type": "http", "url": url }));
    // A token in an argument is visible in the list of processes, so it goes into the file or a variable.
    let (claude, codex) = match token {
        None => (
            format!("claude mcp add --transport http hospes {url}"),
            format!("codex mcp add hospes --url {url}"),
        ),
        Some(_) => (
            serde_json::json!({ "mcpServers": { "hospes": entry } }).to_string(),
            format!("codex mcp add hospes --url {url} --bearer-token-env-var HOSPES_TOKEN"),
        ),
    };
    let rows = [
        ("Claude Code", claude),
        (
            "Cursor",
            serde_json::json!({ "mcpServers": { "hospes": with_token(serde_json::json!({ "url": url })) } })
                .to_string(),
        ),
        ("VS Code", serde_json::json!({ "servers": { "hospes": entry } }).to_string()),
        ("Codex", codex),
        ("by command", launch.to_string()),
    ];
    let mut text = String::from("  Paste into your application:\n");
    for (application, snippet) in rows {
        let _ = writeln!(text, "    {} {snippet}", paint(DIM, format!("{application:<12}")));
    }
    text
}
