//! Saving a rule in the policy file, and its undo.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hospes_policy::Policy;
use hospes_store::{AuditEntry, AuditEntryKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::body::JsonBody;
use super::rules::{RuleRequest, alone, mistakes};
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::AuthorizedDecider;
use crate::console::Console;
use crate::environment::PolicyFile;
use crate::new_rule::NewRule;
use crate::rule_undo::RuleUndo;

/// A saved rule.
#[derive(Serialize)]
pub(super) struct SavedRule {
    /// Id with which it can be undone for a short time.
    undo: String,
    file: String,
}

pub(super) async fn save(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    JsonBody(wanted): JsonBody<RuleRequest>,
) -> ApiResult<SavedRule> {
    let (file, current) = place(&console)?;
    // Held until the file is written, so that two windows do not write at the same time.
    let mut undo = console.rule_undo().lock().await;
    let (before, after) = changed_file(&file, &wanted, current.as_deref())?;
    write_recorded(&console, &file, (&before, &after), ("save", by)).await?;
    let saved = RuleUndo::new(before, after, Instant::now());
    let id = saved.id.clone();
    *undo = Some(saved);
    Ok(Json(SavedRule { undo: id, file: file.file.path.display().to_string() }))
}

/// Id of a saved rule.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UndoRequest {
    id: String,
}

pub(super) async fn undo(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    JsonBody(UndoRequest { id }): JsonBody<UndoRequest>,
) -> ApiResult<Value> {
    let (file, _) = place(&console)?;
    let mut undo = console.rule_undo().lock().await;
    let late =
        || ApiError::Rule("this rule can no longer be undone here; remove it from the file".to_owned());
    let saved = undo.take_if(|saved| saved.id == id && saved.is_fresh(Instant::now())).ok_or_else(late)?;
    write_recorded(&console, &file, (&saved.after, &saved.before), ("undo", by)).await?;
    Ok(Json(json!({})))
}

pub(super) fn place(console: &Console) -> Result<(PolicyFile, Option<Arc<Policy>>), ApiError> {
    let file = console.environment().policy.clone();
    let guard = console.guard();
    match (file, guard) {
        (Some(file), Some(guard)) => Ok((file, guard.policy())),
        _ => Err(ApiError::Nothing("this host has no policy file that the console could change".to_owned())),
    }
}

/// Changes the file and records that. A change that cannot be recorded is taken back: nothing would say who made it.
pub(super) async fn write_recorded(
    console: &Console,
    file: &PolicyFile,
    (before, after): (&str, &str),
    (what, by): (&str, String),
) -> Result<(), ApiError> {
    write(file, before, after).await?;
    let recorded = record(console, what, by).await;
    if recorded.is_err()
        && let Err(error) = write(file, after, before).await
    {
        tracing::error!(%error, "a change of the policy file is neither recorded nor taken back");
    }
    recorded
}

async fn write(file: &PolicyFile, before: &str, after: &str) -> Result<(), ApiError> {
    let (file, before, after) = (file.clone(), before.to_owned(), after.to_owned());
    let written = tokio::task::spawn_blocking(move || file.file.replace(&before, &after)).await;
    written.map_err(|error| ApiError::RuleFile(error.to_string()))?.map_err(ApiError::RuleFile)
}

async fn record(console: &Console, what: &str, by: String) -> Result<(), ApiError> {
    let Some(audit) = console.audit() else { return Ok(()) };
    let mut entry = AuditEntry::new(AuditEntryKind::Policy);
    (entry.subject, entry.decision) = (Some("rule of the console".to_owned()), Some(what.to_owned()));
    entry.by = Some(by);
    audit.record(entry).await?;
    Ok(())
}

/// Reads the file and returns it with what it says with the rule.
pub(super) fn changed_file(
    file: &PolicyFile,
    wanted: &RuleRequest,
    current: Option<&Policy>,
) -> Result<(String, String), ApiError> {
    let before = file.file.read().map_err(ApiError::RuleFile)?;
    let preset = current.and_then(Policy::preset).map(|preset| preset.to_string());
    let after = wanted.rule.insert(&before, wanted.place, preset.as_deref());
    let read = |text: &str| {
        let read = Policy::read(text, &file.environment);
        read.map_err(|error| ApiError::Rule(mistakes(&error).join("; ")))
    };
    let (alone, policy) = (read(&alone(&wanted.rule.to_toml(), current))?, read(&after)?);
    // A file that does not exist yet has no rules.
    let earlier = if before.trim().is_empty() { None } else { Some(read(&before)?) };
    if !NewRule::is_inserted(wanted.place, earlier.as_ref(), &alone, &policy) {
        return Err(ApiError::Rule(
            "the place of the rule in this file was not found; add the lines to the file yourself".to_owned(),
        ));
    }
    Ok((before, after))
}
