//! Route of the settings of one server, as they are written in Hospes' own file. No value of a variable or header is shown.

use axum::Json;
use axum::extract::{Path, State};
use hospes_host::config::{
    ConfigLoader, ExpandedText, HostConfig, Secret, ServerConfig, ServerTransport, TextPart, hide_literals,
    redact_words, settings_text, text_parts,
};
use hospes_host::upstream::UpstreamStatus;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api_error::{ApiError, ApiResult};
use crate::console::Console;
use crate::edited_file::EditedFile;

/// A server as it is configured.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerSettings {
    name: String,
    /// Hospes' own configuration file; `None` if the console cannot change it.
    file: Option<String>,
    /// True if the entry is in that file.
    is_writable: bool,
    /// State; `None` if the server is switched off.
    status: Option<UpstreamStatus>,
    /// Reason that it was not started.
    left_out: Option<String>,
    /// Number of its calls that are running.
    running: usize,
    /// Permissions of its process.
    permissions: Option<String>,
    /// Profiles that show it.
    profiles: Vec<String>,
    dependents: ServerDependents,
    /// Names of all its tools, as far as they are known.
    tools: Vec<String>,
    /// The entry; `None` if it is not in the file.
    settings: Option<Value>,
    /// Last change of the server, if it can be undone.
    undo: Option<Value>,
}

/// What names a server.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerDependents {
    /// Profiles that name it, and lose it if it is removed.
    profiles: Vec<String>,
    /// Rules that name it, by number, with their names.
    rules: Vec<(usize, Option<String>)>,
    /// Number of lasting permissions and denials.
    grants: usize,
    /// Stored secrets that it uses.
    secrets: Vec<String>,
    /// True if a sign-in may be stored for it.
    has_sign_in: bool,
}

pub(super) async fn show(
    State(console): State<Console>,
    Path(name): Path<String>,
) -> ApiResult<ServerSettings> {
    let host = console.servers().status();
    let status = host.servers.into_iter().find(|server| server.name == name);
    let left_out = host.left_out.into_iter().find(|(known, _)| *known == name).map(|(_, reason)| reason);
    let entry = match console.environment().config.clone() {
        // Reading blocks.
        Some(file) => {
            let wanted = name.clone();
            let found = tokio::task::spawn_blocking(move || {
                let (_, config) = read_config(&file).ok()?;
                config.servers.into_iter().find(|server| server.name == wanted)
            });
            found.await.ok().flatten()
        }
        None => None,
    };
    if status.is_none() && left_out.is_none() && entry.is_none() {
        return Err(ApiError::Nothing(format!("no server named `{name}`")));
    }
    let dependents = dependents(&console, &name, entry.as_ref());
    let shown = host.profiles.into_iter().filter(|profile| profile.servers.contains(&name));
    Ok(Json(ServerSettings {
        file: console.environment().config.as_ref().map(|file| file.path.display().to_string()),
        is_writable: entry.is_some(),
        left_out,
        running: running(&console, &name),
        permissions: status
            .as_ref()
            .and_then(|status| status.process.as_ref())
            .map(|one| one.permissions_text()),
        profiles: shown.map(|profile| profile.name).collect(),
        dependents,
        tools: tools(&console, &name, entry.as_ref()),
        settings: entry.as_ref().map(settings),
        undo: undo(&console, &name).await,
        status,
        name,
    }))
}

/// Reads Hospes' own file, with its references and without defaults of servers. Blocks.
pub(super) fn read_config(file: &EditedFile) -> Result<(String, HostConfig), ApiError> {
    let text = file.read().map_err(ApiError::RuleFile)?;
    let loader = ConfigLoader::new().keep_references(true).keep_going(true).allow_unset(true);
    let config = loader.parse(&file.path, &text).map_err(|errors| {
        ApiError::Settings(format!("{errors}; nothing was changed; correct the file and try again"))
    })?;
    Ok((text, config))
}

/// Returns the number of running calls of a server.
pub(super) fn running(console: &Console, name: &str) -> usize {
    let Some(guard) = console.guard() else { return 0 };
    let running = guard.activity().snapshot(usize::MAX).running;
    running.iter().filter(|call| call.server == name).count()
}

pub(super) fn dependents(console: &Console, name: &str, entry: Option<&ServerConfig>) -> ServerDependents {
    let profiles = console.servers().profiles().into_iter().filter(|profile| profile.names(name));
    let policy = console.guard().and_then(|guard| guard.policy());
    let rules = policy.iter().flat_map(|policy| policy.rules()).filter(|rule| {
        let conditions = rule.conditions();
        let mut servers = conditions.iter().filter(|(key, _)| key == "server");
        servers.any(|(_, names)| names.split(" or ").any(|one| one.trim_matches('`') == name))
    });
    let grants = console.queue().map(|queue| queue.grants()).unwrap_or_default();
    ServerDependents {
        profiles: profiles.map(|profile| profile.name.clone()).collect(),
        rules: rules.map(|rule| (rule.number(), rule.name().map(str::to_owned))).collect(),
        grants: grants.iter().filter(|grant| grant.server == name).count(),
        secrets: entry
            .map(hospes_host::config::import::required_secrets)
            .unwrap_or_default()
            .into_iter()
            .collect(),
        has_sign_in: entry.is_some_and(|entry| matches!(entry.transport, ServerTransport::Http(_))),
    }
}

/// Returns the names of the tools of a server, and of those that its filter names.
fn tools(console: &Console, name: &str, entry: Option<&ServerConfig>) -> Vec<String> {
    let listing = console.servers().listing(name).ok().flatten();
    let listed = listing.iter().flat_map(|listing| listing.tools.iter()).map(|tool| tool.name.clone());
    let filter = entry.map(|entry| entry.tools.clone()).unwrap_or_default();
    let named = filter.include.into_iter().flatten().chain(filter.exclude);
    let mut names: Vec<String> = listed.chain(named.filter(|name| !name.contains('*'))).collect();
    names.sort();
    names.dedup();
    names
}

async fn undo(console: &Console, name: &str) -> Option<Value> {
    let undo = console.server_undo().lock().await;
    let last = undo.as_ref().filter(|last| last.server == name && last.is_fresh(Instant::now()))?;
    Some(json!({ "id": last.id, "what": last.what }))
}

/// Returns the settings of a server without values that may be secrets.
fn settings(server: &ServerConfig) -> Value {
    let origin = &server.origin;
    let mut all = json!({
        "isEnabled": !server.disabled,
        "target": server.transport.to_string(),
        "transport": server.transport.kind(),
        "registry": origin.registry, "version": origin.version, "digest": origin.digest,
        "tools": { "include": server.tools.include, "exclude": server.tools.exclude },
        "connectTimeout": settings_text::time(server.timeouts.connect),
        "requestTimeout": settings_text::time(server.timeouts.request),
    });
    let more = match &server.transport {
        ServerTransport::Stdio(stdio) => {
            let words = std::iter::once(&stdio.command).chain(&stdio.args);
            let mut words = shown_words(words).into_iter();
            json!({
                "command": words.next(), "args": words.collect::<Vec<_>>(),
                "cwd": stdio.cwd.as_ref().map(|path| path.display().to_string()),
                "env": stdio.env.iter().map(|(name, value)| shown_value(name, value)).collect::<Vec<_>>(),
                "passEnv": stdio.pass_env,
                "envFile": stdio.env_file.as_ref().map(|path| path.display().to_string()),
                "sandbox": settings_text::sandbox(&server.sandbox),
            })
        }
        ServerTransport::Http(http) => json!({
            "url": http.url.to_string(),
            "headers": http.headers.iter().map(|(name, value)| shown_value(name, value)).collect::<Vec<_>>(),
        }),
        ServerTransport::Builtin(builtin) => json!({
            "builtin": builtin.name, "args": shown_words(builtin.args.iter()),
        }),
        _ => json!({}),
    };
    if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
        all.extend(more);
    }
    all
}

/// Returns words of a command line, and whether a part of each is hidden.
fn shown_words<'a>(words: impl Iterator<Item = &'a ExpandedText> + Clone) -> Vec<Value> {
    let shown = redact_words(words.clone().map(ExpandedText::reveal));
    let shown = shown.into_iter().zip(words);
    shown.map(|(shown, word)| json!({ "isHidden": shown != word.reveal(), "text": shown })).collect()
}

/// Returns a variable or header: its name, and what kind of value it has. Only references are shown.
fn shown_value(name: &str, value: &Secret) -> Value {
    let parts = text_parts(value.reveal());
    let secret = parts.iter().find_map(|part| match part {
        TextPart::Secret(name) => Some(name.as_str()),
        _ => None,
    });
    json!({ "name": name, "secret": secret, "text": hide_literals(value.reveal()) })
}
