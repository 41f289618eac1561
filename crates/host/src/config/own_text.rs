//! Writer of servers in Hospes' own format.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use hospes_sandbox::{SandboxKind, SandboxNetwork};

use super::expand::escape_references;
use super::model::{EraChoice, ServerConfig};
use super::secret::ExpandedText;
use super::server_transport::{AccountChoice, HttpFlavour, SandboxConfig, ServerTransport};
use super::text_literal::toml_literal;

/// Writes a server as a table of Hospes' own format, with `\n` as line break. The configuration must have been loaded
/// with [references kept](super::ConfigLoader::keep_references), so that no value of a variable is written.
#[must_use]
pub fn server_toml(server: &ServerConfig) -> String {
    let mut text = format!("[servers.{}]\n", key(&server.name));
    let mut line = |name: &str, value: String| {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name} = {value}");
    };
    match &server.transport {
        ServerTransport::Stdio(stdio) => {
            let words: Vec<&str> =
                std::iter::once(&stdio.command).chain(&stdio.args).map(ExpandedText::reveal).collect();
            // An array, because a text alone is split at spaces.
            line("command", list(&words));
            if !stdio.env.is_empty() {
                let members = stdio.env.iter().map(|(name, value)| (name.as_str(), value.reveal()));
                line("env", names(members));
            }
            if let Some(file) = &stdio.env_file {
                line("env_file", path(file));
            }
            if !stdio.pass_env.is_empty() {
                line("pass_env", list(&stdio.pass_env));
            }
            if let Some(folder) = &stdio.cwd {
                line("cwd", path(folder));
            }
        }
        ServerTransport::Http(http) => {
            line("url", toml_literal(http.url.written()));
            match http.flavour {
                HttpFlavour::Any => {}
                HttpFlavour::Streamable => line("transport", toml_literal("streamable-http")),
                HttpFlavour::Sse => line("transport", toml_literal("sse")),
            }
            if !http.headers.is_empty() {
                let members = http.headers.iter().map(|(name, value)| (name.as_str(), value.reveal()));
                line("headers", names(members));
            }
            if http.plain_http {
                line("plain_http", "true".to_owned());
            }
            if http.account == AccountChoice::PerUser {
                line("account", toml_literal("per-user"));
            }
            if !http.scopes.is_empty() {
                line("scopes", list(&http.scopes));
            }
            if let Some(client) = &http.client {
                line("client_id", toml_literal(&client.id));
                if let Some(secret) = &client.secret {
                    line("client_secret", toml_literal(secret.reveal()));
                }
                if let Some(issuer) = &client.issuer {
                    line("client_issuer", toml_literal(issuer));
                }
            }
        }
        ServerTransport::Builtin(builtin) => {
            line("builtin", toml_literal(&builtin.name));
            let args: Vec<&str> = builtin.args.iter().map(ExpandedText::reveal).collect();
            if !args.is_empty() {
                line("args", list(&args));
            }
        }
    }
    if server.disabled {
        line("enabled", "false".to_owned());
    }
    if server.required {
        line("required", "true".to_owned());
    }
    let mut tools = Vec::new();
    if let Some(include) = &server.tools.include {
        tools.push(format!("include = {}", list(include)));
    }
    if !server.tools.exclude.is_empty() {
        tools.push(format!("exclude = {}", list(&server.tools.exclude)));
    }
    if !tools.is_empty() {
        line("tools", format!("{{ {} }}", tools.join(", ")));
    }
    let times = &server.timeouts;
    let all = [
        ("connect_timeout", times.connect),
        ("request_timeout", times.request),
        ("park_timeout", times.park),
    ];
    for (name, time) in all {
        if let Some(time) = time {
            line(name, duration(time));
        }
    }
    if let Some(interval) = times.health_check {
        line("health_check", if interval.is_zero() { "false".to_owned() } else { duration(interval) });
    }
    if let Some(count) = server.max_connections {
        line("max_connections", count.to_string());
    }
    if let Some(placement) = server.placement {
        line("placement", toml_literal(placement.as_str()));
    }
    if let Some(pins) = server.pins {
        line("pins", toml_literal(pins.as_str()));
    }
    if server.check_arguments != super::ArgumentCheck::default() {
        line("check_arguments", toml_literal(server.check_arguments.as_str()));
    }
    if server.auto_update != super::AutoUpdate::default() {
        line("auto_update", toml_literal(server.auto_update.as_str()));
    }
    match server.era {
        Some(EraChoice::Legacy) => line("era", toml_literal("legacy")),
        Some(EraChoice::Modern) => line("era", toml_literal("modern")),
        None => {}
    }
    if let Some(roots) = &server.roots {
        let roots: Vec<String> = roots.iter().map(|root| path(root)).collect();
        line("roots", format!("[{}]", roots.join(", ")));
    }
    if let Some(sandbox) = sandbox(&server.sandbox) {
        line("sandbox", sandbox);
    }
    let origin = &server.origin;
    for (name, value) in
        [("registry", &origin.registry), ("version", &origin.version), ("digest", &origin.digest)]
    {
        if let Some(value) = value {
            line(name, toml_literal(value));
        }
    }
    text
}

fn sandbox(sandbox: &SandboxConfig) -> Option<String> {
    let mut members = Vec::new();
    match sandbox.profile.kind {
        SandboxKind::Bubblewrap => members.push("kind = \"bubblewrap\"".to_owned()),
        SandboxKind::Landlock => members.push("kind = \"landlock\"".to_owned()),
        SandboxKind::Off => members.push("kind = \"off\"".to_owned()),
        _ => {}
    }
    if sandbox.profile.network == SandboxNetwork::None {
        members.push("network = \"none\"".to_owned());
    }
    if let Some(files) = &sandbox.profile.files {
        let paths = |paths: &[std::path::PathBuf]| {
            paths.iter().map(|granted| path(granted)).collect::<Vec<_>>().join(", ")
        };
        members.push(format!(
            "files = {{ read = [{}], write = [{}] }}",
            paths(&files.read),
            paths(&files.write)
        ));
    }
    if let Some(environment) = &sandbox.environment {
        members.push(format!("environment = {}", list(environment)));
    }
    (!members.is_empty()).then(|| format!("{{ {} }}", members.join(", ")))
}

/// Writes a key, quoted if it has to be.
pub(super) fn key(name: &str) -> String {
    if is_bare(name) { name.to_owned() } else { toml_literal(name) }
}

/// Returns true if a key needs no quotes.
pub(super) fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

pub(super) fn list(texts: &[impl AsRef<str>]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| toml_literal(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}

pub(super) fn names<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let members: Vec<String> =
        members.map(|(name, value)| format!("{} = {}", key(name), toml_literal(value))).collect();
    format!("{{ {} }}", members.join(", "))
}

/// Writes a path, which holds no references unless it begins with one.
fn path(path: &Path) -> String {
    let text = path.to_string_lossy();
    toml_literal(&if text.starts_with("${") { text.into_owned() } else { escape_references(&text) })
}

fn duration(time: Duration) -> String {
    toml_literal(&duration_text(time))
}

/// Writes a time, such as `30s` or `1500ms`.
pub(super) fn duration_text(time: Duration) -> String {
    let milliseconds = time.as_millis();
    match milliseconds % 1000 {
        0 => format!("{}s", milliseconds / 1000),
        _ => format!("{milliseconds}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ConfigLoader;
    use super::*;

    fn loader() -> ConfigLoader<'static> {
        ConfigLoader::new()
            .variables(|name| (name == "HOME").then(|| "/home/me".to_owned()))
            .keep_references(true)
    }

    #[test]
    fn what_is_written_is_read_as_the_same_server() {
        let text = r#"
[servers."a b"]
command = ["x y", "--k=${N:-d}", "$${lit}", "tab\there \u202e \" \\"]
env = { A = "${secret:s}", "B.c" = "" }
env_file = "/e/f.env"
pass_env = ["P"]
cwd = "/w"
enabled = false
required = false
tools = { include = ["r_*"], exclude = ["x"] }
connect_timeout = "1500ms"
request_timeout = "2m"
health_check = false
max_connections = 3
pins = "off"
check_arguments = "lax"
auto_update = "patch"
era = "legacy"
roots = ["/r"]
sandbox = { kind = "landlock", network = "none", files = { read = ["/a"], write = [] }, environment = ["PATH"] }
registry = "io.github.x/y"
version = "1.2.3"
digest = "sha256:00"
[servers.web]
url = "https://${HOST}/mcp?x=1"
transport = "sse"
headers = { Authorization = "Bearer ${T}" }
plain_http = true
required = true
[servers.mail]
url = "https://e.com"
account = "per-user"
client_id = "i"
client_secret = "${secret:c}"
client_issuer = "https://login.example"
[servers.time]
builtin = "time"
args = ["--x"]
"#;
        let before = loader().parse("/p/h.toml", text).unwrap();
        let written: String = before.servers.iter().map(server_toml).collect();
        let after = loader().parse("/p/h.toml", &written).unwrap();
        assert_eq!(before.servers.len(), after.servers.len());
        for (before, mut after) in before.servers.into_iter().zip(after.servers) {
            after.source = before.source.clone();
            assert_eq!(before, after, "{written}");
        }
        assert!(!written.contains('\u{202e}'));
    }
}
