//! Saving, moving and removing a rule in the policy file, and the undo.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use hospes_policy::Policy;
use hospes_store::{AuditEntry, AuditEntryKind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::body::JsonBody;
use super::rules::{RuleReference, RuleRequest, alone, mistakes};
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::AuthorizedDecider;
use crate::console::Console;
use crate::environment::PolicyFile;
use crate::new_rule::NewRule;
use crate::rule_edits::{
    RuleChange, WrittenRule, change_rule, change_words, rule_lines, rule_ranges, rule_words, text_digest,
};
use crate::rule_undo::RuleUndo;

/// A saved rule.
#[derive(Serialize)]
pub(super) struct SavedRule {
    /// Id with which it can be undone for a short time.
    undo: String,
    file: String,
    /// Digest of the changed file.
    digest: String,
}

pub(super) async fn save(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    JsonBody(wanted): JsonBody<RuleRequest>,
) -> ApiResult<SavedRule> {
    let (file, current) = place(&console)?;
    // Held until the file is written, so that two windows do not write at the same time.
    let mut undo = console.rule_undo().lock().await;
    let changed = changed_file(&file, &wanted, current.as_deref())?;
    let what = if wanted.replaces.is_some() { "change" } else { "save" };
    write_recorded(&console, &file, (&changed.before, &changed.after), (what, by)).await?;
    Ok(Json(undoable(&mut undo, &file, changed)))
}

fn undoable(undo: &mut Option<RuleUndo>, file: &PolicyFile, changed: ChangedFile) -> SavedRule {
    let digest = text_digest(&changed.after);
    let saved = RuleUndo::new(changed.before, changed.after, Instant::now());
    let id = saved.id.clone();
    *undo = Some(saved);
    SavedRule { undo: id, file: file.file.path.display().to_string(), digest }
}

/// Digest of the file that the person has seen.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeenFile {
    digest: String,
}

/// Moves a rule by one place (`up`, `down`), or removes it (`remove`).
pub(super) async fn change(
    State(console): State<Console>,
    AuthorizedDecider(by): AuthorizedDecider,
    Path((number, action)): Path<(usize, String)>,
    JsonBody(SeenFile { digest }): JsonBody<SeenFile>,
) -> ApiResult<SavedRule> {
    let change = match action.as_str() {
        "up" => RuleChange::MoveUp,
        "down" => RuleChange::MoveDown,
        "remove" => RuleChange::Remove,
        _ => return Err(ApiError::Nothing("not found".to_owned())),
    };
    let (file, current) = place(&console)?;
    // Held until the file is written, so that two windows do not write at the same time.
    let mut undo = console.rule_undo().lock().await;
    let changed = changed_rule(&file, &RuleReference { number, digest }, change, current.as_deref())?;
    let what = if action == "remove" { "remove" } else { "move" };
    write_recorded(&console, &file, (&changed.before, &changed.after), (what, by)).await?;
    Ok(Json(undoable(&mut undo, &file, changed)))
}

/// A rule of the file, for the editor.
#[derive(Serialize)]
pub(super) struct RuleResponse {
    #[serde(flatten)]
    written: WrittenRule,
    number: usize,
    line: usize,
    file: String,
    /// Digest of the file, for its change.
    digest: String,
}

pub(super) async fn show(
    State(console): State<Console>,
    Path(number): Path<usize>,
) -> ApiResult<RuleResponse> {
    let (file, _) = place(&console)?;
    let text = file.file.read().map_err(ApiError::RuleFile)?;
    // The host may not have read the file yet.
    let policy = read(&file, &text)?;
    if let Some(reason) = fixed_reason(&file, &text, Some(&policy)) {
        return Err(ApiError::RuleFile(reason));
    }
    let found = rule_lines(&text, number).and_then(WrittenRule::read);
    let rule = number.checked_sub(1).and_then(|at| policy.rules().get(at));
    let (Some(written), Some(rule)) = (found, rule) else {
        return Err(ApiError::Nothing(format!("there is no rule {number}")));
    };
    let path = file.file.path.display().to_string();
    Ok(Json(RuleResponse { written, number, line: rule.line(), file: path, digest: text_digest(&text) }))
}

/// Returns the reason that the rules of a policy cannot be changed in its file, if there is one.
pub(super) fn fixed_reason(file: &PolicyFile, text: &str, current: Option<&Policy>) -> Option<String> {
    let path = file.file.path.display();
    let Ok(written) = Policy::read(text, &file.environment) else {
        return Some(format!("{path} has a mistake, so the rules before it apply; correct it first"));
    };
    if current.map(rule_words).unwrap_or_default() != rule_words(&written) {
        return Some(format!("the host has not read the last change of {path} yet"));
    }
    match rule_ranges(text) {
        Some(ranges) if ranges.len() == written.rules().len() => None,
        _ => Some(format!("the rules of {path} are not written as `[[rule]]`; change them in the file")),
    }
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
    let late = || ApiError::Rule("this can no longer be undone here; change the file".to_owned());
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

/// A policy file before and after a change.
pub(super) struct ChangedFile {
    pub(super) before: String,
    pub(super) after: String,
    /// Lines of the rule after the change; empty if it is removed.
    pub(super) lines: String,
    /// Lines of the rule before the change; none for a new rule.
    pub(super) old_lines: Option<String>,
}

/// Reads the file and returns it with what it says with the rule.
pub(super) fn changed_file(
    file: &PolicyFile,
    wanted: &RuleRequest,
    current: Option<&Policy>,
) -> Result<ChangedFile, ApiError> {
    if let Some(problem) = wanted.rule.problem() {
        return Err(ApiError::Rule(problem));
    }
    if let Some(replaced) = &wanted.replaces {
        return changed_rule(file, replaced, RuleChange::Replace(&wanted.rule), current);
    }
    let before = file.file.read().map_err(ApiError::RuleFile)?;
    let preset = current.and_then(Policy::preset).map(|preset| preset.to_string());
    let after = wanted.rule.insert(&before, wanted.place, preset.as_deref());
    let lines = wanted.rule.to_toml();
    let (alone, policy) = (read(file, &alone(&lines, current))?, read(file, &after)?);
    // A file that does not exist yet has no rules.
    let earlier = if before.trim().is_empty() { None } else { Some(read(file, &before)?) };
    if !NewRule::is_inserted(wanted.place, earlier.as_ref(), &alone, &policy) {
        return Err(ApiError::Rule(
            "the place of the rule in this file was not found; add the lines to the file yourself".to_owned(),
        ));
    }
    Ok(ChangedFile { before, after, lines, old_lines: None })
}

/// Reads the file and returns it with a change of a rule that it has.
fn changed_rule(
    file: &PolicyFile,
    seen: &RuleReference,
    change: RuleChange<'_>,
    current: Option<&Policy>,
) -> Result<ChangedFile, ApiError> {
    let before = file.file.read().map_err(ApiError::RuleFile)?;
    if text_digest(&before) != seen.digest {
        return Err(ApiError::RuleFile(
            "the policy file has changed in the meantime, so nothing was done; look at its rules again"
                .to_owned(),
        ));
    }
    let not_changed = |why: String| ApiError::Rule(format!("{why}; change the rule in the file"));
    let after = change_rule(&before, seen.number, change).map_err(not_changed)?;
    let old_lines = rule_lines(&before, seen.number).map(str::to_owned);
    let lines = match change {
        RuleChange::Replace(_) => rule_lines(&after, seen.number).unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    let new = match change {
        RuleChange::Replace(_) => rule_words(&read(file, &alone(&lines, current))?).pop(),
        _ => None,
    };
    let mut expected = rule_words(&read(file, &before)?);
    change_words(&mut expected, seen.number, change, new);
    if rule_words(&read(file, &after)?) != expected {
        return Err(not_changed("the rule cannot be changed alone".to_owned()));
    }
    Ok(ChangedFile { before, after, lines, old_lines })
}

fn read(file: &PolicyFile, text: &str) -> Result<Policy, ApiError> {
    let read = Policy::read(text, &file.environment);
    read.map_err(|error| ApiError::Rule(mistakes(&error).join("; ")))
}
