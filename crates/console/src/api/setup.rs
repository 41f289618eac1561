//! Routes of the onboarding: its progress, the commands that change files of the user, and the preset of the rules. For
//! browsers only, because a program can run the commands themselves.

use axum::Json;
use axum::extract::{Path, State};
use hospes_host::config::set_recorded_arguments;
use hospes_policy::{Policy, Preset};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::body::{EmptyBody, JsonBody};
use super::profiles;
use super::rule_saving::{place, write_recorded};
use super::rules::mistakes;
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::AuthorizedDecider;
use crate::console::Console;
use crate::edited_file::EditedFile;
use crate::new_rule::set_preset;
use crate::rule_undo::RuleUndo;
use crate::setup::{OnboardingProgress, STEPS, SeenServer, SetupCommand};

/// Maximum number of servers that are imported at once.
const MAX_IMPORTED: usize = 200;

/// Progress of the onboarding, and what it can do.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetupResponse {
    /// Progress; `null` if it is not kept.
    progress: Option<OnboardingProgress>,
    /// True if the program offers its commands.
    has_commands: bool,
    /// True if the program adds servers of a registry.
    can_add: bool,
    /// Preset that applies.
    preset: Option<String>,
    /// True if arguments of calls are recorded.
    records_arguments: bool,
    /// Configuration file in which this is set; `null` if it cannot be set here.
    config: Option<String>,
}

pub(super) async fn show(State(console): State<Console>) -> Json<SetupResponse> {
    let environment = console.environment();
    let file = environment.onboarding.clone();
    let progress = match file {
        Some(file) => tokio::task::spawn_blocking(move || file.read()).await.ok(),
        None => None,
    };
    let policy = console.guard().and_then(|guard| guard.policy());
    Json(SetupResponse {
        progress,
        has_commands: environment.setup.is_some(),
        can_add: environment.adder.is_some(),
        preset: policy.and_then(|policy| policy.preset()).map(|preset| preset.to_string()),
        records_arguments: console.guard().is_some_and(|guard| guard.keeps_arguments()),
        config: environment
            .config
            .as_ref()
            .filter(|_| console.audit().is_some())
            .map(|file| file.path.display().to_string()),
    })
}

pub(super) async fn set_progress(
    State(console): State<Console>,
    JsonBody(progress): JsonBody<OnboardingProgress>,
) -> ApiResult<OnboardingProgress> {
    if !(1..=STEPS).contains(&progress.step) {
        return Err(ApiError::Misread(format!("`step` is a number from 1 to {STEPS}")));
    }
    let file = console.environment().onboarding.clone();
    let file = file.ok_or_else(|| ApiError::Nothing("this host keeps no progress".to_owned()))?;
    let written = tokio::task::spawn_blocking(move || file.write(progress)).await;
    let failed =
        |error: &dyn std::fmt::Display| ApiError::RuleFile(format!("cannot keep the progress: {error}"));
    written.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    Ok(Json(progress))
}

async fn run(console: &Console, command: SetupCommand) -> ApiResult<Value> {
    let setup = console.environment().setup.clone();
    let setup = setup.ok_or_else(|| ApiError::Nothing("this host changes no files for pages".to_owned()))?;
    setup.run(command).await.map(Json).map_err(ApiError::Setup)
}

pub(super) async fn find_servers(
    State(console): State<Console>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Value> {
    run(&console, SetupCommand::FindServers).await
}

/// Servers to import.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportRequest {
    servers: Vec<SeenServer>,
}

pub(super) async fn import_servers(
    State(console): State<Console>,
    JsonBody(ImportRequest { servers }): JsonBody<ImportRequest>,
) -> ApiResult<Value> {
    if servers.is_empty() || servers.len() > MAX_IMPORTED {
        return Err(ApiError::Misread(format!("`servers` has from 1 to {MAX_IMPORTED} names")));
    }
    run(&console, SetupCommand::ImportServers(servers)).await
}

/// Body of a command about the file of an application.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConnectionRequest {
    /// Digest of the change that was seen, which `connect` makes.
    digest: Option<String>,
}

pub(super) async fn connection(
    State(console): State<Console>,
    Path((application, action)): Path<(String, String)>,
    JsonBody(ConnectionRequest { digest }): JsonBody<ConnectionRequest>,
) -> ApiResult<Value> {
    let command = match (action.as_str(), digest) {
        ("preview", None) => SetupCommand::PreviewConnection(application),
        ("connect", Some(digest)) => SetupCommand::Connect { application, digest },
        ("disconnect", None) => SetupCommand::Disconnect(application),
        ("preview" | "connect" | "disconnect", _) => {
            return Err(ApiError::Misread(
                "`connect`, and only it, has the `digest` of the preview".to_owned(),
            ));
        }
        _ => return Err(ApiError::Nothing("not found".to_owned())),
    };
    run(&console, command).await
}

pub(super) async fn test_notification(
    State(console): State<Console>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Value> {
    run(&console, SetupCommand::TestNotification).await
}

/// Preset to be set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PresetRequest {
    preset: String,
}

pub(super) async fn choose_preset(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    JsonBody(PresetRequest { preset }): JsonBody<PresetRequest>,
) -> ApiResult<Value> {
    let known = [Preset::Cautious, Preset::Balanced, Preset::Open];
    let preset = known.into_iter().find(|known| known.to_string() == preset);
    let preset = preset.ok_or_else(|| {
        ApiError::Misread("`preset` is one of `cautious`, `balanced` and `open`".to_owned())
    })?;
    let (file, _) = place(&console)?;
    // Held until the file is written, so that two windows do not write at the same time.
    let mut undo = console.rule_undo().lock().await;
    let before = file.file.read().map_err(ApiError::RuleFile)?;
    let after = set_preset(&before, &preset.to_string());
    let read = Policy::read(&after, &file.environment);
    let read = read.map_err(|error| ApiError::Rule(mistakes(&error).join("; ")))?;
    if read.preset() != Some(preset) {
        return Err(ApiError::Rule("the preset cannot be changed here; change it in the file".to_owned()));
    }
    write_recorded(&console, &file, (&before, &after), ("preset", by)).await?;
    let saved = RuleUndo::new(before, after, Instant::now());
    let id = saved.id.clone();
    *undo = Some(saved);
    Ok(Json(json!({ "undo": id, "file": file.file.path.display().to_string() })))
}

/// Whether arguments of calls are to be recorded.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordingRequest {
    arguments: bool,
}

pub(super) async fn set_recording(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    JsonBody(RecordingRequest { arguments }): JsonBody<RecordingRequest>,
) -> ApiResult<Value> {
    if console.audit().is_none() {
        return Err(ApiError::NotRecorded);
    }
    let changed = move |file: &EditedFile, text: &str| {
        set_recorded_arguments(&file.path, text, arguments)
            .map_err(|error| ApiError::Setup(error.to_string()))
    };
    let what = if arguments { "record arguments" } else { "record no arguments" };
    profiles::write_recorded(&console, changed, ("audit log", what, by)).await?;
    Ok(Json(json!({})))
}
