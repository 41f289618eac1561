//! Routes of the profiles: what each shows, and saving and deleting them in Hospes' own file.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use hospes_host::config::{
    ConfigLoader, ConfigSource, OtherFileNames, OwnFileError, ProfileConfig, ToolFilter, is_profile_name,
    nearest, remove_profile, set_profile,
};
use hospes_store::{AuditEntry, AuditEntryKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::body::{EmptyBody, JsonBody};
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::AuthorizedDecider;
use crate::console::Console;
use crate::edited_file::EditedFile;

/// Filter of the tools of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ToolFilterBody {
    include: Option<Vec<String>>,
    exclude: Vec<String>,
}

/// A profile, as the page shows and sends it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ProfileRequest {
    /// True if the profile must not exist yet.
    #[serde(default)]
    is_new: bool,
    title: Option<String>,
    description: Option<String>,
    /// Servers that it shows; all without them.
    servers: Option<Vec<String>>,
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(default)]
    tools: BTreeMap<String, ToolFilterBody>,
}

/// A configured profile.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProfileResponse {
    name: String,
    title: Option<String>,
    description: Option<String>,
    servers: Option<Vec<String>>,
    exclude: Vec<String>,
    tools: BTreeMap<String, ToolFilterBody>,
    /// Groups of the people who may use it; everybody without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<String>>,
    /// Names of the secrets that the profile replaces, and of those that it uses instead.
    secrets: BTreeMap<String, String>,
    /// Servers that it shows now.
    shown: Vec<String>,
    /// URL of its endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<String>,
    /// True if the console can change it.
    is_writable: bool,
}

/// All profiles, and the servers that they can show.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProfileList {
    /// File in which profiles are saved; `None` if the console cannot save any.
    file: Option<String>,
    profiles: Vec<ProfileResponse>,
    /// Names of the servers.
    servers: Vec<String>,
}

pub(super) async fn list(State(console): State<Console>) -> Json<ProfileList> {
    let file = console.environment().config.clone();
    let path = file.as_ref().map(|file| file.path.display().to_string());
    // Reading blocks.
    let written = tokio::task::spawn_blocking(move || file.map(|file| names_in(&file)).unwrap_or_default());
    let written = written.await.unwrap_or_default();
    let endpoint = console.environment().endpoint.as_deref();
    let status = console.servers().status();
    let profiles = console.servers().profiles().into_iter().map(|profile| {
        let shown = status.profiles.iter().find(|one| one.name == profile.name);
        let body = |filter: &ToolFilter| ToolFilterBody {
            include: filter.include.clone(),
            exclude: filter.exclude.clone(),
        };
        ProfileResponse {
            endpoint: endpoint.map(|endpoint| format!("{endpoint}/{}", profile.name)),
            is_writable: written.contains(&profile.name),
            shown: shown.map(|one| one.servers.clone()).unwrap_or_default(),
            title: profile.title.clone(),
            description: profile.description.clone(),
            servers: profile.servers.clone(),
            exclude: profile.exclude.clone(),
            tools: profile.tools.iter().map(|(server, filter)| (server.clone(), body(filter))).collect(),
            groups: profile.groups.clone(),
            secrets: profile.secrets.clone(),
            name: profile.name.clone(),
        }
    });
    Json(ProfileList { file: path, profiles: profiles.collect(), servers: server_names(&console) })
}

pub(super) async fn save(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    Path(name): Path<String>,
    JsonBody(wanted): JsonBody<ProfileRequest>,
) -> ApiResult<Value> {
    if !is_profile_name(&name) {
        return Err(ApiError::Profile(format!(
            "expected a name of {}",
            hospes_host::config::PROFILE_NAME_FORM
        )));
    }
    check_servers(&console, &wanted)?;
    check_endpoint(&console, &name)?;
    let mut others = OtherFileNames::default();
    // Those of this file are among them, and known there as well.
    others.servers = server_names(&console);
    let running = console.servers().profiles();
    let is_new = wanted.is_new;
    let profile = wanted.into_config(&name);
    let changed = move |file: &EditedFile, text: &str| {
        let names = names_in(file);
        let exists = names.contains(&profile.name);
        // A profile that has just been taken out of this file may still run.
        let elsewhere = running.iter().filter(|profile| profile.source.file() != file.path);
        let elsewhere = elsewhere.map(|profile| profile.name.clone());
        others.profiles = elsewhere.filter(|name| !names.contains(name)).collect();
        if exists && is_new {
            return Err(ApiError::Profile(format!("there is a profile `{}` already", profile.name)));
        }
        set_profile(&file.path, text, &profile, &others).map_err(|error| not_written(&error))
    };
    write_recorded(&console, changed, (&format!("profile {name}"), "save", by)).await?;
    Ok(Json(json!({})))
}

pub(super) async fn remove(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    Path(name): Path<String>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Value> {
    let removed = name.clone();
    let changed = move |file: &EditedFile, text: &str| {
        if !names_in(file).contains(&removed) {
            return Err(ApiError::Nothing(format!("no profile of this name in {}", file.path.display())));
        }
        remove_profile(&file.path, text, &removed).map_err(|error| not_written(&error))
    };
    write_recorded(&console, changed, (&format!("profile {name}"), "remove", by)).await?;
    Ok(Json(json!({})))
}

impl ProfileRequest {
    fn into_config(self, name: &str) -> ProfileConfig {
        let given =
            |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let mut profile = ProfileConfig::new(name, ConfigSource::unwritten("the console"));
        profile.title = given(self.title);
        profile.description = given(self.description);
        profile.servers = self.servers;
        profile.exclude = self.exclude;
        let filters = self.tools.into_iter().map(|(server, body)| {
            let mut filter = ToolFilter::default();
            (filter.include, filter.exclude) = (body.include, body.exclude);
            (server, filter)
        });
        // A filter that hides nothing need not be written.
        profile.tools = filters.filter(|(_, filter)| *filter != ToolFilter::default()).collect();
        profile
    }
}

/// Returns an error unless every server that a profile names is there.
fn check_servers(console: &Console, wanted: &ProfileRequest) -> Result<(), ApiError> {
    let known = server_names(console);
    let mut named = wanted.servers.iter().flatten().chain(&wanted.exclude).chain(wanted.tools.keys());
    if let Some(name) = named.find(|name| !known.contains(name)) {
        let hint = match nearest(name, known.iter().map(String::as_str)) {
            Some(meant) => format!("; did you mean `{meant}`?"),
            None => String::new(),
        };
        return Err(ApiError::Profile(format!("unknown server `{name}`{hint}")));
    }
    let is_shown = |server: &String| {
        wanted.servers.as_ref().is_none_or(|servers| servers.contains(server))
            && !wanted.exclude.contains(server)
    };
    match wanted.tools.keys().find(|server| !is_shown(server)) {
        Some(server) => {
            Err(ApiError::Profile(format!("a filter of tools is about `{server}`, which is not shown")))
        }
        None => Ok(()),
    }
}

/// Returns an error if a server has the endpoint that the profile of this name would have.
fn check_endpoint(console: &Console, name: &str) -> Result<(), ApiError> {
    let has_endpoint = |server: &String| console.servers().label(server).as_deref() == Some(name);
    match server_names(console).into_iter().find(has_endpoint) {
        Some(server) => Err(ApiError::Profile(format!(
            "the server `{server}` has the endpoint `/mcp/{name}` already; choose another name"
        ))),
        None => Ok(()),
    }
}

/// Returns the names of the servers that run for everybody, and of those that are configured but not started.
fn server_names(console: &Console) -> Vec<String> {
    let status = console.servers().status();
    let labels = |name: &String| {
        console.servers().profiles().iter().any(|profile| {
            name.strip_suffix(')').is_some_and(|name| name.ends_with(&format!(" (profile {}", profile.name)))
        })
    };
    let all = status
        .servers
        .into_iter()
        .map(|server| server.name)
        .chain(status.left_out.into_iter().map(|(name, _)| name));
    all.filter(|name| !labels(name)).collect()
}

/// Returns the names of the profiles that are written in a file.
fn names_in(file: &EditedFile) -> Vec<String> {
    let loader = ConfigLoader::new().keep_references(true).keep_going(true).allow_unset(true);
    let Ok(text) = file.read() else { return Vec::new() };
    let config = loader.parse(&file.path, &text);
    config.map(|config| config.profiles.into_iter().map(|profile| profile.name).collect()).unwrap_or_default()
}

fn not_written(error: &OwnFileError) -> ApiError {
    ApiError::Profile(format!("{error}; nothing was changed"))
}

/// Changes the file and records that. A change that somebody else makes meanwhile is not overwritten, and one that cannot
/// be recorded is taken back: nothing would say who made it.
pub(super) async fn write_recorded(
    console: &Console,
    changed: impl FnOnce(&EditedFile, &str) -> Result<String, ApiError> + Send + 'static,
    (subject, what, by): (&str, &str, String),
) -> Result<(), ApiError> {
    let file = console.environment().config.clone().ok_or_else(|| {
        ApiError::Nothing("this host has no configuration file that the console could change".to_owned())
    })?;
    let written = tokio::task::spawn_blocking(move || {
        let before = file.read().map_err(ApiError::RuleFile)?;
        let after = changed(&file, &before)?;
        if before != after {
            file.replace(&before, &after).map_err(ApiError::RuleFile)?;
        }
        Ok::<_, ApiError>((file, before, after))
    });
    let written = written.await.map_err(|error| ApiError::RuleFile(error.to_string()))?;
    let (file, before, after) = written?;
    let recorded = record(console, subject, what, by).await;
    if recorded.is_err() && before != after {
        let taken_back = tokio::task::spawn_blocking(move || file.replace(&after, &before)).await;
        if let Err(error) = taken_back.map_err(|error| error.to_string()).and_then(|done| done) {
            tracing::error!(%error, "a change of the configuration file is neither recorded nor taken back");
        }
    }
    recorded
}

async fn record(console: &Console, subject: &str, what: &str, by: String) -> Result<(), ApiError> {
    let Some(audit) = console.audit() else { return Ok(()) };
    let mut entry = AuditEntry::new(AuditEntryKind::Policy);
    (entry.subject, entry.decision) = (Some(subject.to_owned()), Some(what.to_owned()));
    entry.by = Some(by);
    audit.record(entry).await?;
    Ok(())
}
