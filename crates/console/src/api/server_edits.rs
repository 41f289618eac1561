//! Routes that change one server in Hospes' own file: settings, removal, and the undo of either. Each change is shown
//! before it is made, and made only if the file is still the one that was shown.

use axum::Json;
use axum::extract::{Path, State};
use hospes_host::config::import::required_secrets;
use hospes_host::config::{
    HostConfig, Secret, ServerConfig, ServerEdit, changed_keys, masked_change, remove_server, replace_server,
};
use hospes_host::pins::Sha256Digest;
use hospes_store::{AuditEntry, AuditEntryKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::body::{EmptyBody, JsonBody};
use super::server_settings::{ServerDependents, dependents, read_config, running};
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::AuthorizedDecider;
use crate::console::Console;
use crate::edited_file::EditedFile;
use crate::environment::SecretWriter;
use crate::server_undo::ServerUndo;
use crate::setup::SetupCommand;

/// Keys that decide what is run, and with what it is reached.
const LAUNCH_KEYS: [&str; 8] = ["command", "args", "url", "builtin", "env", "headers", "cwd", "sandbox"];

/// A change that is shown before it is made.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChangePreview {
    file: String,
    /// Digest of the file, to be sent with the change.
    digest: Sha256Digest,
    /// The file before and after the change, without values that may be secrets.
    before: String,
    after: String,
    /// Effect on the server, in one sentence.
    effect: String,
    /// Further facts for the person.
    warnings: Vec<String>,
    /// Keys that change.
    keys: Vec<String>,
    /// Names of the secrets whose stored value is replaced.
    secrets: Vec<String>,
    /// Parts of the configuration that name the server, for a removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    dependents: Option<ServerDependents>,
}

/// A change of the settings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PreviewRequest {
    edit: ServerEdit,
}

/// A change that was shown.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SaveRequest {
    edit: ServerEdit,
    /// Digest of the file that was shown.
    digest: Sha256Digest,
}

/// A planned change of the file.
struct PlannedChange {
    file: EditedFile,
    before: String,
    after: String,
    keys: Vec<String>,
    secrets: Vec<(String, Secret)>,
    server: ServerConfig,
    edited: ServerConfig,
    config: HostConfig,
}

pub(super) async fn preview(
    State(console): State<Console>,
    Path(name): Path<String>,
    JsonBody(PreviewRequest { edit }): JsonBody<PreviewRequest>,
) -> ApiResult<ChangePreview> {
    let planned = plan(&console, &name, edit).await?;
    let (before, after) = masked_change(&planned.before, &planned.after)
        .map_err(|error| ApiError::Settings(error.to_string()))?;
    Ok(Json(ChangePreview {
        file: planned.file.path.display().to_string(),
        digest: EditedFile::digest(&planned.before),
        before,
        after,
        effect: effect(&planned.server, Some(&planned.edited), running(&console, &name)),
        warnings: warnings(&planned),
        keys: planned.keys,
        secrets: planned.secrets.into_iter().map(|(name, _)| name).collect(),
        dependents: None,
    }))
}

pub(super) async fn save(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    Path(name): Path<String>,
    JsonBody(SaveRequest { edit, digest }): JsonBody<SaveRequest>,
) -> ApiResult<Value> {
    // Held until the file is written, so that two windows do not write at the same time.
    let mut undo = console.server_undo().lock().await;
    let planned = plan(&console, &name, edit).await?;
    if EditedFile::digest(&planned.before) != digest {
        return Err(ApiError::OtherFile(planned.file.path.display().to_string()));
    }
    let mut what = planned.keys.join(", ");
    let replaced: Vec<&str> = planned.secrets.iter().map(|(name, _)| name.as_str()).collect();
    if !replaced.is_empty() {
        let separator = if what.is_empty() { "" } else { "; " };
        what = format!("{what}{separator}secrets {}", replaced.join(", "));
    }
    let writer = console.environment().secrets.clone();
    let PlannedChange { file, before, after, secrets, .. } = planned;
    let secrets = secrets.into_iter().map(|(name, value)| (name, Some(value))).collect();
    let written = write(file.clone(), writer.clone(), (before, after), secrets).await?;
    if let Err(error) = record(&console, &name, format!("settings changed: {what}"), by).await {
        take_back(file, writer, written).await;
        return Err(error);
    }
    let (texts, earlier) = written;
    let saved = ServerUndo::new((&name, what), texts, earlier, Instant::now());
    let id = saved.id.clone();
    *undo = Some(saved);
    Ok(Json(json!({ "undo": id })))
}

/// Id of a change.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoRequest {
    id: String,
}

pub(super) async fn undo(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    Path(name): Path<String>,
    JsonBody(UndoRequest { id }): JsonBody<UndoRequest>,
) -> ApiResult<Value> {
    let file = own_file(&console)?;
    let mut undo = console.server_undo().lock().await;
    let late = || ApiError::Settings("this change can no longer be undone here; edit the file".to_owned());
    let saved =
        undo.take_if(|saved| saved.id == id && saved.server == name && saved.is_fresh(Instant::now()));
    let saved = saved.ok_or_else(late)?;
    let writer = console.environment().secrets.clone();
    let texts = (saved.after.clone(), saved.before.clone());
    let written = write(file.clone(), writer.clone(), texts, saved.secrets.clone()).await?;
    if let Err(error) = record(&console, &name, format!("settings undone: {}", saved.what), by).await {
        take_back(file, writer, written).await;
        *undo = Some(saved);
        return Err(error);
    }
    Ok(Json(json!({})))
}

pub(super) async fn preview_removal(
    State(console): State<Console>,
    Path(name): Path<String>,
) -> ApiResult<ChangePreview> {
    let file = own_file(&console)?;
    let wanted = name.clone();
    let planned = blocking(move || {
        let (before, config) = read_config(&file)?;
        let after = remove_server(&file.path, &before, &wanted)
            .map_err(|error| ApiError::Settings(error.to_string()))?;
        let shown = masked_change(&before, &after).map_err(|error| ApiError::Settings(error.to_string()))?;
        let server = config.servers.into_iter().find(|server| server.name == wanted);
        Ok((file, EditedFile::digest(&before), shown, server))
    });
    let (file, digest, (before, after), server) = planned.await?;
    let effect = match &server {
        Some(server) => effect(server, None, running(&console, &name)),
        // An entry that cannot be read.
        None => format!("The entry of `{name}` is removed."),
    };
    Ok(Json(ChangePreview {
        file: file.path.display().to_string(),
        digest,
        before,
        after,
        effect,
        warnings: Vec::new(),
        keys: Vec::new(),
        secrets: Vec::new(),
        dependents: Some(dependents(&console, &name, server.as_ref())),
    }))
}

/// A removal that was shown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemovalRequest {
    /// Digest of the file that was shown.
    digest: Sha256Digest,
}

pub(super) async fn remove(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    Path(name): Path<String>,
    JsonBody(RemovalRequest { digest }): JsonBody<RemovalRequest>,
) -> ApiResult<Value> {
    let file = own_file(&console)?;
    let mut undo = console.server_undo().lock().await;
    let read = |file: EditedFile| blocking(move || file.read().map_err(ApiError::RuleFile));
    let before = read(file.clone()).await?;
    if EditedFile::digest(&before) != digest {
        return Err(ApiError::OtherFile(file.path.display().to_string()));
    }
    let command = SetupCommand::RemoveServer { name: name.clone(), digest: digest.to_string() };
    let removed = run(&console, command).await?;
    let after = read(file.clone()).await?;
    if let Err(error) = record(&console, &name, "removed".to_owned(), by).await {
        take_back(file, None, ((before, after), Vec::new())).await;
        return Err(error);
    }
    let saved = ServerUndo::new((&name, "removed".to_owned()), (before, after), Vec::new(), Instant::now());
    let id = saved.id.clone();
    *undo = Some(saved);
    Ok(Json(json!({ "undo": id, "removed": removed })))
}

pub(super) async fn check_update(
    State(console): State<Console>,
    Path(name): Path<String>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Value> {
    Ok(Json(run(&console, SetupCommand::CheckUpdate(name)).await?))
}

async fn run(console: &Console, command: SetupCommand) -> Result<Value, ApiError> {
    let setup = console.environment().setup.clone();
    let setup = setup.ok_or_else(|| ApiError::Nothing("this host changes no files for pages".to_owned()))?;
    setup.run(command).await.map_err(ApiError::Setup)
}

fn own_file(console: &Console) -> Result<EditedFile, ApiError> {
    console.environment().config.clone().ok_or_else(|| {
        ApiError::Nothing("this host has no configuration file that the console could change".to_owned())
    })
}

/// Runs what reads or writes files.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::RuleFile(error.to_string()))?
}

/// Reads the file and returns what the change makes of it.
async fn plan(console: &Console, name: &str, edit: ServerEdit) -> Result<PlannedChange, ApiError> {
    let (file, name) = (own_file(console)?, name.to_owned());
    blocking(move || {
        let (before, config) = read_config(&file)?;
        let server = config.servers.iter().find(|server| server.name == name).cloned();
        let server = server.ok_or_else(|| {
            ApiError::Nothing(format!("{} has no server `{name}` that can be changed", file.path.display()))
        })?;
        let wrong = |problem: String| ApiError::Settings(format!("{problem}; nothing was changed"));
        let edited = edit.apply(&server).map_err(|error| wrong(error.to_string()))?;
        let keys = changed_keys(&server, &edited.server);
        if keys.is_empty() && edited.secrets.is_empty() {
            return Err(ApiError::Settings("nothing differs from the file".to_owned()));
        }
        let after = match keys.is_empty() {
            true => before.clone(),
            false => replace_server(&file.path, &before, &edited.server)
                .map_err(|error| wrong(error.to_string()))?,
        };
        Ok(PlannedChange {
            file,
            before,
            after,
            keys,
            secrets: edited.secrets,
            server,
            edited: edited.server,
            config,
        })
    })
    .await
}

type WrittenChange = ((String, String), Vec<(String, Option<Secret>)>);

/// Stores the secrets and replaces the file. If the file cannot be written, the secrets become what they were. Returns
/// the texts, and the secrets before.
async fn write(
    file: EditedFile,
    writer: Option<SecretWriter>,
    (before, after): (String, String),
    secrets: Vec<(String, Option<Secret>)>,
) -> Result<WrittenChange, ApiError> {
    blocking(move || {
        let mut earlier: Vec<(String, Option<Secret>)> = Vec::new();
        let mut result = Ok(());
        for (name, value) in &secrets {
            let stored = match &writer {
                Some(writer) => writer(name, value.as_ref()),
                None => Err("this host stores no secrets for pages; use `hospes secret set`".to_owned()),
            };
            match stored {
                Ok(value) => earlier.push((name.clone(), value)),
                Err(problem) => {
                    result = Err(ApiError::Settings(problem));
                    break;
                }
            }
        }
        // Also if the text is the same: the host reads the file again, and the new secrets with it.
        let result = result.and_then(|()| file.replace(&before, &after).map_err(ApiError::RuleFile));
        match result {
            Ok(()) => Ok(((before, after), earlier)),
            Err(error) => {
                for (name, value) in earlier.iter().rev() {
                    if let Some(Err(problem)) = writer.as_ref().map(|writer| writer(name, value.as_ref())) {
                        tracing::error!(name, problem, "a stored secret was not put back");
                    }
                }
                Err(error)
            }
        }
    })
    .await
}

/// Takes back a change that cannot be recorded: nothing would say who made it.
async fn take_back(
    file: EditedFile,
    writer: Option<SecretWriter>,
    ((before, after), secrets): WrittenChange,
) {
    if let Err(error) = write(file, writer, (after, before), secrets).await {
        tracing::error!(%error, "a change of the configuration file is neither recorded nor taken back");
    }
}

/// Returns what a change does to a server, in one sentence. Without settings after it, the server is removed.
fn effect(before: &ServerConfig, after: Option<&ServerConfig>, running: usize) -> String {
    let name = &before.name;
    let calls = match running {
        0 => "no call is in progress".to_owned(),
        1 => "1 call in progress is ended".to_owned(),
        count => format!("{count} calls in progress are ended"),
    };
    if before.is_per_user() || after.is_some_and(ServerConfig::is_per_user) {
        return format!(
            "`{name}` has an account for each user, so this takes effect when the host starts again."
        );
    }
    let is_on = after.is_some_and(|after| !after.disabled);
    match (!before.disabled, is_on) {
        (true, true) => format!("`{name}` restarts; {calls}."),
        (true, false) => format!("`{name}` stops; {calls}."),
        (false, true) => format!("`{name}` starts."),
        (false, false) => format!("`{name}` is switched off, so nothing starts or stops."),
    }
}

fn warnings(planned: &PlannedChange) -> Vec<String> {
    let mut warnings = Vec::new();
    let is_launch = |key: &String| LAUNCH_KEYS.contains(&key.split('.').next().unwrap_or_default());
    let launch: Vec<&str> = planned.keys.iter().filter(|key| is_launch(key)).map(String::as_str).collect();
    if !launch.is_empty() {
        warnings.push(format!(
            "What runs changes ({}). As after an edit by hand, nothing is accepted for you: what differs from what you \
             accepted waits on the page of the server.",
            launch.join(", ")
        ));
    }
    for (name, _) in &planned.secrets {
        let others = planned.config.servers.iter().filter(|other| other.name != planned.server.name);
        let users: Vec<String> = others
            .filter(|other| required_secrets(other).contains(name))
            .map(|other| format!("`{}`", other.name))
            .collect();
        if !users.is_empty() {
            warnings.push(format!(
                "The secret `{name}` is also used by {}, with the new value.",
                users.join(", ")
            ));
        }
    }
    warnings
}

async fn record(console: &Console, name: &str, what: String, by: String) -> Result<(), ApiError> {
    let Some(audit) = console.audit() else { return Ok(()) };
    let mut entry = AuditEntry::new(AuditEntryKind::Server);
    (entry.server, entry.subject) = (Some(name.to_owned()), Some(what));
    entry.by = Some(by);
    audit.record(entry).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn a_change_is_taken_back_with_its_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hospes.toml");
        fs::write(&path, "before").unwrap();
        let replacer = |path: &std::path::Path, before: &str, after: &str| {
            assert_eq!(fs::read_to_string(path).unwrap(), before);
            fs::write(path, after).map_err(|error| error.to_string())
        };
        let file = EditedFile::new(path.clone(), Arc::new(replacer), 100);
        let stored = Arc::new(Mutex::new(BTreeMap::from([("a".to_owned(), Secret::new("1"))])));
        let store = Arc::clone(&stored);
        let writer: SecretWriter = Arc::new(move |name: &str, value: Option<&Secret>| {
            let mut store = store.lock();
            Ok(match value {
                Some(value) => store.insert(name.to_owned(), value.clone()),
                None => store.remove(name),
            })
        });
        let values = || {
            let stored = stored.lock();
            let values = stored.iter().map(|(name, value)| format!("{name}{}", value.reveal()));
            values.collect::<Vec<_>>().concat()
        };
        let secrets = ["a", "b"].map(|name| (name.to_owned(), Some(Secret::new("2"))));
        let texts = ("before".to_owned(), "after".to_owned());
        let written = write(file.clone(), Some(writer.clone()), texts, secrets.into()).await.unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), values().as_str()), ("after", "a2b2"));
        take_back(file, Some(writer), written).await;
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), values().as_str()), ("before", "a1"));
    }
}
