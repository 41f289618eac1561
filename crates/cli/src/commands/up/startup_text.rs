//! Text that `hospes up` prints once it serves: the endpoint, the console, the rules, and what to paste into
//! applications.

use std::fmt::Write as _;
use std::path::Path;

use hospes_console::ConsoleServer;
use hospes_host::Host;
use hospes_policy::Preset;

use crate::output::{BOLD, CYAN, CliOutput, DIM, YELLOW, paint};
use crate::paths;

/// Consequence of having no policy file, as `up` and `status` print it.
pub(crate) const NO_POLICY: &str = "none, so every call is allowed without approval";

/// Describes what a preset asks about, for one line.
pub(crate) fn preset_line(preset: Preset) -> String {
    let asks = match preset {
        Preset::Cautious => "asks about every effect",
        Preset::Open => "asks about effects with a value from a text of others",
        _ => "asks about effects that a text of others may have caused",
    };
    format!("preset {preset}: {asks}")
}

pub(super) fn print_startup(
    output: CliOutput,
    (url, usable): (&str, &str),
    (by, token): (Option<&str>, Option<&str>),
    files: &[std::path::PathBuf],
    host: &Host,
    console: Option<&ConsoleServer>,
) {
    if output.json {
        let servers: Vec<String> = host.status().servers.into_iter().map(|server| server.name).collect();
        let mut value = serde_json::json!({ "endpoint": url, "servers": servers, "pid": std::process::id() });
        let left_out = host.status().left_out;
        if !left_out.is_empty() {
            value["leftOut"] = serde_json::json!(left_out);
        }
        if let Some(console) = console {
            value["console"] = console.link().url().into();
        }
        if let Some(token) = token {
            value["token"] = token.into();
        }
        output.value(&value);
    }
    let mut text = format!("\n  {} {}\n\n", paint(BOLD, "hospes"), paint(DIM, env!("CARGO_PKG_VERSION")));
    // Writing into a string cannot fail.
    let _ = writeln!(text, "  {}  {}\n", paint(DIM, "endpoint"), paint(CYAN, url));
    // With --json the link is part of the result.
    if let Some(console) = console.filter(|_| !output.json) {
        let link = console.link();
        let minutes = link.lifetime.as_secs() / 60;
        let good =
            paint(DIM, format!("valid once, for {minutes} minutes; `hospes console` opens a new link"));
        let _ =
            writeln!(text, "  {}   {}\n            {good}\n", paint(DIM, "console"), paint(CYAN, link.url()));
    }
    if let Some(by) = by {
        let shown = paint(DIM, format!("required; issued by {by}"));
        let _ = writeln!(text, "  {}  {shown}\n", paint(DIM, "tokens  "));
    }
    if files.is_empty() {
        let _ = writeln!(text, "  No configuration was found. Using the built-in servers:");
        let _ = writeln!(text, "  files in this folder (read only), time, and everything (for testing).");
        if let Some(file) = paths::new_config_path() {
            let shown = paths::display_path(&file);
            let _ = writeln!(
                text,
                "  {}\n",
                paint(
                    DIM,
                    format!("Add your own servers to {shown}, or pass any mcpServers file with --config.")
                )
            );
        }
    } else {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let _ = writeln!(text, "  {}  {}\n", paint(DIM, "servers "), paint(DIM, names.join(", ")));
    }
    let status = host.status();
    if let Some(preset) = status.preset {
        let _ = writeln!(text, "  {}    {}\n", paint(DIM, "guard "), preset_line(preset));
    }
    if status.without_policy {
        let _ = writeln!(text, "  {}    {NO_POLICY}", paint(YELLOW, "policy"));
        if let Some(file) = paths::policy_file() {
            let hint = format!("write rules to {}; changes take effect at once", paths::display_path(&file));
            let _ = writeln!(text, "            {}", paint(DIM, hint));
        }
        text.push('\n');
    }
    text.push_str(&client_snippets(usable, token.filter(|_| !output.json), files));
    let _ = write!(
        text,
        "\n  {}\n",
        paint(DIM, "Ctrl-C stops the host. `hospes status` shows the state of the servers.")
    );
    output.say(text);
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
