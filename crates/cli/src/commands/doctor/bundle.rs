//! Archive for a report: versions, the masked configuration, the last lines of logs, counts and the results of the
//! checks. Every text passes a filter of secrets.

use std::collections::BTreeMap;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hospes_host::config::{ExpandedText, HostConfig, SecretValues, ServerConfig, ServerTransport};
use jiff::Timestamp;
use serde_json::{Value, json};
use url::Url;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::check::{DoctorChain, DoctorCheck};
use super::report::many;
use crate::commands::logs;
use crate::enforcement::open_audit;
use crate::exit::{CliError, CliResult};
use crate::installation::InstallEvidence;
use crate::log_file::LogEntry;
use crate::output::{self, BOLD, CliOutput, DIM, paint};
use crate::paths;
use crate::secrets::SecretStore;

/// Number of lines of the log of each server, and of the host.
const MAX_LINES: usize = 200;
/// Time range of the counted calls.
const COUNTED: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Text in place of a secret.
const HIDDEN: &str = "[redacted]";

/// Shows the files, and writes them into an archive that only its owner can read.
pub(super) async fn write(
    file: Option<&Path>,
    chains: &[DoctorChain],
    config: Option<&HostConfig>,
    filter: &SecretFilter,
    output: CliOutput,
) -> CliResult {
    let named = || format!("hospes-doctor-{}.zip", Timestamp::now().strftime("%Y%m%d-%H%M%S"));
    let file = file.map_or_else(|| PathBuf::from(named()), Path::to_owned);
    let shown = paths::display_path(&file);
    if file.exists() {
        return Err(CliError::usage(format!("{shown} exists; it was not changed"))
            .hint("name another file: --bundle=FILE"));
    }
    let files = gather(chains, config, filter).await;
    output.say(format_args!("{} will have:", paint(BOLD, &shown)));
    for (name, text) in &files {
        let size = many(text.lines().count(), "line");
        output.say(format_args!("  {name:<28} {}", paint(DIM, size)));
    }
    if !filter.is_complete {
        output.say("logs are left out, because the configuration cannot be read, and it tells what is secret in them");
    }
    output.say(paint(DIM, "without values of variables, headers, arguments of calls and other secrets"));
    if output::is_interactive() && !output.json {
        let answer = output.ask("Write it? [Y/n] ").unwrap_or_default();
        if !matches!(answer.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes") {
            output.say("nothing was written");
            return Ok(());
        }
    }
    let written = paths::create_private_file(&file).and_then(|target| archive(target, &files));
    written.map_err(|error| {
        let _incomplete = std::fs::remove_file(&file);
        CliError::usage(format!("cannot write {shown}")).with_cause(&error)
    })?;
    output.say(format_args!("written to {shown}; read it before you send it to others"));
    Ok(())
}

fn archive(target: impl Write + Seek, files: &[(String, String)]) -> std::io::Result<()> {
    let mut archive = ZipWriter::new(target);
    for (name, text) in files {
        archive.start_file(name.as_str(), SimpleFileOptions::default().unix_permissions(0o600))?;
        archive.write_all(text.as_bytes())?;
    }
    archive.finish()?.flush()
}

/// Returns the names and texts of the files.
async fn gather(
    chains: &[DoctorChain],
    config: Option<&HostConfig>,
    filter: &SecretFilter,
) -> Vec<(String, String)> {
    let mut files = vec![("versions.json".to_owned(), filter.json(versions()))];
    let checks: Vec<&DoctorCheck> = chains.iter().flat_map(|chain| &chain.checks).collect();
    files.push(("checks.json".to_owned(), filter.json(serde_json::to_value(checks).unwrap_or_default())));
    if let Some(config) = config {
        files.push(("configuration.json".to_owned(), filter.json(configuration(config))));
    }
    if let Some(counts) = audit_counts().await {
        files.push(("audit.json".to_owned(), filter.json(counts)));
    }
    let mut logs: BTreeMap<String, Vec<LogEntry>> = BTreeMap::new();
    let read = filter.is_complete.then(|| logs::last_by_server(MAX_LINES));
    for (server, entries) in read.into_iter().flatten() {
        // The name of a server is text of the configuration, and must not leave its folder.
        let plain =
            |letter: char| if letter.is_ascii_alphanumeric() || "-_".contains(letter) { letter } else { '_' };
        let name = server.map_or_else(
            || "host".to_owned(),
            |name| format!("server-{}", name.chars().map(plain).collect::<String>()),
        );
        logs.entry(name).or_default().extend(entries);
    }
    for (name, entries) in logs {
        let lines = entries.iter().map(|entry| format!("{} {} {}\n", entry.at, entry.level, entry.text));
        files.push((format!("logs/{name}.log"), filter.text(&lines.collect::<String>())));
    }
    files
}

fn versions() -> Value {
    let evidence = InstallEvidence::gather().unwrap_or_default();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system = system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    json!({
        "hospes": env!("CARGO_PKG_VERSION"),
        "program": evidence.program,
        "installedBy": evidence.channel().as_str(),
        "os": std::env::consts::OS,
        "architecture": std::env::consts::ARCH,
        "system": system.map(|name| name.trim_matches('"')),
        "kernel": kernel.trim(),
        "language": std::env::var("LANG").ok(),
        "terminal": std::env::var("TERM").ok(),
        "time": Timestamp::now().to_string(),
    })
}

/// Describes the servers: names of variables and headers, never their values.
fn configuration(config: &HostConfig) -> Value {
    let server = |server: &ServerConfig| {
        let mut described = json!({
            "name": server.name,
            "transport": server.transport.kind(),
            "target": server.transport.to_string(),
            "disabled": server.disabled,
            "required": server.required,
            "sandbox": format!("{:?}", server.sandbox.profile.kind),
            "registry": server.origin.registry,
            "version": server.origin.version,
            "digest": server.origin.digest,
        });
        match &server.transport {
            ServerTransport::Stdio(stdio) => {
                described["environment"] = stdio.env.keys().cloned().collect::<Vec<_>>().into();
                described["cwd"] = stdio.cwd.as_ref().map(|cwd| cwd.display().to_string()).into();
            }
            ServerTransport::Http(http) => {
                described["headers"] =
                    http.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().into();
            }
            _ => {}
        }
        described
    };
    let rejected = config.rejected.iter().map(|one| {
        let errors: Vec<String> = one.errors.iter().map(ToString::to_string).collect();
        json!({ "name": one.name, "errors": errors })
    });
    let skipped = config.skipped.iter().map(|one| json!({ "name": one.name, "reason": one.reason }));
    json!({
        "servers": config.servers.iter().map(server).collect::<Vec<_>>(),
        "rejected": rejected.collect::<Vec<_>>(),
        "skipped": skipped.collect::<Vec<_>>(),
        "warnings": config.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Counts the calls of the last days by server. `None` if there is no readable log.
async fn audit_counts() -> Option<Value> {
    // Opening would create the file.
    let (file, _) = paths::audit_files().filter(|(file, _)| file.is_file())?;
    let audit = open_audit().ok().flatten()?;
    let until = Timestamp::now();
    let digest = audit.digest(until.checked_sub(COUNTED).ok()?, until).await.ok()?;
    Some(json!({
        "since": digest.since,
        "bytes": std::fs::metadata(file).map(|data| data.len()).ok(),
        "servers": digest.servers,
    }))
}

/// Filter of secrets: stored secrets and the values of the configuration, wherever and however encoded they stand, and
/// what looks like a secret.
pub(super) struct SecretFilter {
    values: SecretValues,
    home: Option<String>,
    /// True if the configuration could be read, so that its values are known.
    is_complete: bool,
}

impl SecretFilter {
    /// Creates the filter of a configuration, with all its servers. Reads the stored secrets, and may block.
    pub(super) fn new(config: Option<&HostConfig>) -> Self {
        let mut values = SecretValues::default();
        for server in config.iter().flat_map(|config| config.servers.iter().chain(&config.profile_servers)) {
            values.extend_from(&SecretValues::of(&server.transport));
            match &server.transport {
                ServerTransport::Stdio(stdio) => {
                    // Names of folders would leave reports without sense.
                    let secret = stdio.env.iter().filter(|(name, value)| {
                        hospes::redact::is_secret_name(name) || !Path::new(value.reveal()).exists()
                    });
                    secret.for_each(|(_, value)| add_value(&mut values, value.reveal()));
                    expanded(&stdio.args).for_each(|value| add_value(&mut values, value));
                }
                ServerTransport::Builtin(builtin) => {
                    expanded(&builtin.args).for_each(|value| add_value(&mut values, value));
                }
                _ => {}
            }
        }
        // Also of entries that are rejected or skipped, and in texts around the reference.
        if config.is_some()
            && let Ok(Some(store)) = SecretStore::open_existing()
        {
            let names = store.names().unwrap_or_default();
            for value in names.iter().filter_map(|name| store.read(name).ok().flatten()) {
                add_value(&mut values, &value);
            }
        }
        let home = std::env::home_dir().map(|home| home.to_string_lossy().into_owned());
        let home = home.filter(|home| home.len() > 1);
        Self { values, home, is_complete: config.is_some() }
    }

    /// Adds what is secret in a URL.
    pub(super) fn with_url(mut self, url: &str) -> Self {
        if let Ok(url) = Url::parse(url) {
            self.values.extend_from(&SecretValues::of(&ServerTransport::http(url)));
        }
        self
    }

    fn text(&self, text: &str) -> String {
        let text = self.values.replace(text, HIDDEN);
        let text = hospes::redact::text(&text).into_owned();
        let text = hospes_inspect::secrets::mask(&text).into_owned();
        match &self.home {
            Some(home) => text.replace(home, "~"),
            None => text,
        }
    }

    fn json(&self, mut value: Value) -> String {
        self.filter(&mut value);
        let mut text = serde_json::to_string_pretty(&value).unwrap_or_default();
        text.push('\n');
        text
    }

    fn filter(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.filter(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.filter(member)),
            _ => {}
        }
    }
}

/// Adds a value, also without its first word: `Bearer TOKEN`. Its other words may be ordinary ones.
fn add_value(values: &mut SecretValues, value: &str) {
    values.add_text(value);
    values.add_text(value.split_once(' ').map_or("", |(_, rest)| rest));
}

/// Returns the arguments that are others than the configuration says, because they have references.
fn expanded(args: &[ExpandedText]) -> impl Iterator<Item = &str> {
    args.iter().filter(|arg| arg.reveal() != arg.written()).map(ExpandedText::reveal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_secrets_are_hidden() {
        let filter =
            SecretFilter::new(None).with_url("http://user:P4ss-of-a-url@e.example/?key=K3y/of~a?url");
        // `user:P4ss-of-a-url` in base64, the key with both cases of hexadecimal digits, and as JSON.
        for text in ["dXNlcjpQNHNzLW9mLWEtdXJs", "K3y%2Fof~a%3furl", "K3y\\/of~a\\u003furl", "K3y/of~a?url"] {
            let shown = filter.text(&format!("sent {text}."));
            assert!(shown.contains(HIDDEN) && shown.len() < text.len() + HIDDEN.len(), "{text}: {shown}");
            assert!(!shown.contains("of~a") && !shown.contains("NHNzLW9mLWEtdXJ"), "{text}: {shown}");
        }
    }
}
