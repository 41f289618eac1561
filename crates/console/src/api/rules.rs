//! Routes of the rule editor: what a rule would have decided, and saving it in the policy file.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hospes_policy::{
    CallArguments, KnownOffers, KnownServer, KnownTool, Policy, PolicyAction, PolicyDecision, PolicyError,
    PolicyRequest, ToolEffectSet,
};
use hospes_store::{AuditEntry, AuditEntryKind, AuditOutcome, AuditQuery};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::body::JsonBody;
use super::home::application_name;
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::AuthorizedDecider;
use crate::console::Console;
use crate::environment::PolicyFile;
use crate::new_rule::{NewRule, RulePlace};
use crate::rule_undo::RuleUndo;

/// Number of calls, the last ones, on which the effect of a rule is shown.
const MAX_CALLS: usize = 100;

/// A rule and its place in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleRequest {
    rule: NewRule,
    #[serde(default)]
    place: RulePlace,
}

/// Effect of a rule, before it is saved.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RulePreview {
    /// The lines that are added.
    toml: String,
    /// File in which they are saved; `None` if the console cannot save rules.
    file: Option<String>,
    /// Mistakes because of which the rule cannot be saved.
    mistakes: Vec<String>,
    /// Parts that match nothing that the servers offer, with the nearest names.
    unmatched: Vec<String>,
    /// Earlier rules that decide calls that this rule is about.
    conflicts: Vec<RuleConflict>,
    effect: RuleEffect,
}

/// An earlier rule that decides calls which the new rule is about.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct RuleConflict {
    number: usize,
    line: usize,
    name: Option<String>,
    decide: String,
    /// Number of the last calls that it decides instead of the new rule.
    calls: u64,
}

/// Effect of a rule on the last calls.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct RuleEffect {
    /// Number of calls looked at.
    of: usize,
    /// Calls that a person would be asked about, and how they ended at the time.
    asked: u64,
    asked_allowed: u64,
    asked_denied: u64,
    /// Calls that would be allowed or denied without a question.
    allowed: u64,
    denied: u64,
    /// Calls that the rule is not about.
    unchanged: u64,
    /// True if the arguments of all calls are known, where the rule has conditions for them.
    is_exact: bool,
    /// The calls that the rule would decide, the newest first.
    calls: Vec<AffectedCall>,
}

/// A call that a rule would decide.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct AffectedCall {
    seq: u64,
    at: Timestamp,
    application: Option<String>,
    server: String,
    subject: String,
    /// Outcome: `allowed`, `asked, allowed`, `asked, denied`, `missed`, `denied`.
    was: &'static str,
    /// Decision of the rule: `allow`, `ask` or `deny`.
    becomes: String,
}

pub(super) async fn preview(
    State(console): State<Console>,
    JsonBody(wanted): JsonBody<RuleRequest>,
) -> ApiResult<RulePreview> {
    let toml = wanted.rule.to_toml();
    let file = console.environment().policy.clone();
    let mut preview = RulePreview {
        toml: toml.clone(),
        file: file.as_ref().map(|file| file.path.display().to_string()),
        mistakes: Vec::new(),
        unmatched: Vec::new(),
        conflicts: Vec::new(),
        effect: RuleEffect::default(),
    };
    let current = console.guard().and_then(|guard| guard.policy());
    let reading = file.as_ref().map(|file| file.environment.clone()).unwrap_or_default();
    let alone = match Policy::read(&alone(&toml, current.as_deref()), &reading) {
        Ok(alone) => alone,
        Err(error) => {
            preview.mistakes = mistakes(&error);
            return Ok(Json(preview));
        }
    };
    preview.unmatched = unmatched(&console, &alone);
    if let Some(file) = &file
        && let Err(error) = changed(file, &wanted, current.as_deref())
    {
        preview.mistakes.push(error.to_string());
    }
    if let Some(audit) = console.audit() {
        let query = AuditQuery::new().with_kind(AuditEntryKind::Call).with_limit(MAX_CALLS);
        let entries = audit.search(query).await?;
        let calls = entries.into_iter().map(|found| {
            let arguments = audit.unseal(&found.entry).ok().flatten();
            RecordedCall { seq: found.seq, arguments, entry: found.entry }
        });
        let calls: Vec<RecordedCall> =
            calls.filter(|call| call.entry.ending != Some(AuditOutcome::Asked)).collect();
        let effects = ToolEffects::new(&console);
        let is_first = wanted.place == RulePlace::First;
        let earlier = current.as_deref().filter(|_| !is_first);
        preview.effect = effect(&alone, earlier, &calls, &effects, &mut preview.conflicts);
        preview.effect.is_exact =
            wanted.rule.arguments.is_empty() || calls.iter().all(|call| call.arguments.is_some());
    }
    Ok(Json(preview))
}

/// Returns the text of a policy with one rule, under the trusted servers of the current one.
fn alone(toml: &str, current: Option<&Policy>) -> String {
    let trusted = current.map(Policy::trusted).unwrap_or_default();
    let trusted = if trusted.is_empty() { String::new() } else { format!("trusted = {}\n", json!(trusted)) };
    format!("{trusted}{toml}")
}

fn mistakes(error: &PolicyError) -> Vec<String> {
    error.mistakes().iter().map(|mistake| mistake.sentence().to_string()).collect()
}

/// Returns the parts of the rule that match nothing that the servers offer.
fn unmatched(console: &Console, rule: &Policy) -> Vec<String> {
    let servers = console.servers();
    let known = servers.status().servers.into_iter().map(|server| {
        let known = KnownServer::named(&server.name);
        let Ok(Some(listing)) = servers.listing(&server.name) else { return known };
        let tools = listing.tools.iter().map(|tool| {
            let schema = tool.input_schema.to_value().unwrap_or(Value::Null);
            KnownTool::new(&tool.name, ToolEffectSet::from_annotations(tool.annotations.as_deref()), &schema)
        });
        let prompts = listing.prompts.iter().map(|prompt| prompt.name.clone());
        known.offering(KnownOffers::new(tools.collect(), prompts.collect()))
    });
    let known: Vec<KnownServer> = known.collect();
    // The trusted servers of the current policy are not part of the rule.
    let found = rule.unmatched(&known).into_iter().map(|part| part.message);
    let found = found.filter(|message| !message.starts_with("`trusted`"));
    // There is one rule, so its number says nothing.
    found.map(|message| message.trim_start_matches("rule 1: ").to_owned()).collect()
}

/// Reads the file and returns it with what it says with the rule.
fn changed(
    file: &PolicyFile,
    wanted: &RuleRequest,
    current: Option<&Policy>,
) -> Result<(String, String), ApiError> {
    let before = file.read().map_err(ApiError::RuleFile)?;
    let preset = current.and_then(Policy::preset).map(|preset| preset.to_string());
    let after = wanted.rule.insert(&before, wanted.place, preset.as_deref());
    let read = Policy::read(&after, &file.environment);
    read.map_err(|error| ApiError::Rule(mistakes(&error).join("; ")))?;
    Ok((before, after))
}

/// Effects of the tools of all servers, as they say them.
#[derive(Default)]
struct ToolEffects(HashMap<String, HashMap<String, ToolEffectSet>>);

impl ToolEffects {
    fn new(console: &Console) -> Self {
        let servers = console.servers();
        let named = servers.status().servers.into_iter().map(|server| {
            let listing = servers.listing(&server.name).ok().flatten();
            let tools = listing.iter().flat_map(|listing| listing.tools.iter());
            let effects = tools.map(|tool| {
                (tool.name.clone(), ToolEffectSet::from_annotations(tool.annotations.as_deref()))
            });
            (server.name, effects.collect())
        });
        Self(named.collect())
    }

    fn of(&self, server: &str, tool: &str) -> ToolEffectSet {
        let found = self.0.get(server).and_then(|tools| tools.get(tool));
        found.copied().unwrap_or_else(ToolEffectSet::unknown)
    }
}

/// A call of the audit log.
struct RecordedCall {
    seq: u64,
    entry: AuditEntry,
    /// Arguments as JSON, where they are recorded.
    arguments: Option<String>,
}

/// Counts what the rule would have decided. `earlier` are the rules that come before it.
fn effect(
    rule: &Policy,
    earlier: Option<&Policy>,
    calls: &[RecordedCall],
    effects: &ToolEffects,
    conflicts: &mut Vec<RuleConflict>,
) -> RuleEffect {
    let mut found = RuleEffect { of: calls.len(), ..RuleEffect::default() };
    let now = Timestamp::now();
    for call in calls {
        let entry = &call.entry;
        let (Some(server), Some(subject)) = (entry.server.as_deref(), entry.subject.as_deref()) else {
            found.unchanged += 1;
            continue;
        };
        let text = call.arguments.as_deref().unwrap_or("{}");
        let Ok(arguments) = CallArguments::read(text) else {
            found.unchanged += 1;
            continue;
        };
        let application = entry.application.as_deref().map(application_name);
        let action = PolicyAction::tool(subject, effects.of(server, subject), &arguments);
        let asked = PolicyRequest::new(server, action)
            .with_application(application)
            .with_principal(entry.principal.as_deref());
        let explained = rule.explain(&asked, now);
        if explained.steps.last().is_none_or(|step| step.miss.is_some()) {
            found.unchanged += 1;
            continue;
        }
        if let Some(first) = earlier.and_then(|earlier| deciding_rule(earlier, &asked, now)) {
            match conflicts.iter_mut().find(|one| one.number == first.number) {
                Some(one) => one.calls += 1,
                None => conflicts.push(first),
            }
            found.unchanged += 1;
            continue;
        }
        let was = what_became(entry);
        let decision = explained.verdict.decision;
        match decision {
            PolicyDecision::Allow => found.allowed += 1,
            PolicyDecision::Deny => found.denied += 1,
            PolicyDecision::Ask => {
                found.asked += 1;
                found.asked_allowed += u64::from(was.ends_with("allowed"));
                found.asked_denied += u64::from(!was.ends_with("allowed"));
            }
        }
        found.calls.push(AffectedCall {
            seq: call.seq,
            at: Timestamp::from_microsecond(entry.at).unwrap_or(Timestamp::MIN),
            application: application.map(str::to_owned),
            server: server.to_owned(),
            subject: subject.to_owned(),
            was,
            becomes: decision.to_string(),
        });
    }
    found
}

/// Returns the rule of a policy that decides on a request, if one does.
fn deciding_rule(policy: &Policy, asked: &PolicyRequest<'_>, now: Timestamp) -> Option<RuleConflict> {
    let explained = policy.explain(asked, now);
    let rule = explained.steps.last().filter(|step| step.miss.is_none())?.rule;
    Some(RuleConflict {
        number: rule.number(),
        line: rule.line(),
        name: rule.name().map(str::to_owned),
        decide: rule.decision().to_string(),
        calls: 1,
    })
}

fn what_became(entry: &AuditEntry) -> &'static str {
    let by_person = entry.by.as_deref().is_some_and(|by| by.contains("person"));
    let is_missed = hospes_host::is_unattended(entry);
    match (entry.ending == Some(AuditOutcome::Refused), by_person) {
        (true, _) if is_missed => "missed",
        (true, true) => "asked, denied",
        (true, false) => "denied",
        (false, true) => "asked, allowed",
        (false, false) => "allowed",
    }
}

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
    let (before, after) = changed(&file, &wanted, current.as_deref())?;
    write(&file, &before, &after).await?;
    record(&console, "save", by).await?;
    let saved = RuleUndo::new(before, after, Instant::now());
    let id = saved.id.clone();
    *undo = Some(saved);
    Ok(Json(SavedRule { undo: id, file: file.path.display().to_string() }))
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
    write(&file, &saved.after, &saved.before).await?;
    record(&console, "undo", by).await?;
    Ok(Json(json!({})))
}

fn place(console: &Console) -> Result<(PolicyFile, Option<Arc<Policy>>), ApiError> {
    let file = console.environment().policy.clone();
    let guard = console.guard();
    match (file, guard) {
        (Some(file), Some(guard)) => Ok((file, guard.policy())),
        _ => Err(ApiError::Nothing("this host has no policy file that the console could change".to_owned())),
    }
}

async fn write(file: &PolicyFile, before: &str, after: &str) -> Result<(), ApiError> {
    let (file, before, after) = (file.clone(), before.to_owned(), after.to_owned());
    let written = tokio::task::spawn_blocking(move || file.replace(&before, &after)).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn call(server: &str, tool: &str, by: &str, ending: AuditOutcome, arguments: &str) -> RecordedCall {
        let mut entry = AuditEntry::new(AuditEntryKind::Call);
        (entry.server, entry.subject) = (Some(server.to_owned()), Some(tool.to_owned()));
        (entry.by, entry.ending) = (Some(by.to_owned()), Some(ending));
        entry.application = Some("Cursor 1.0".to_owned());
        RecordedCall { seq: 1, entry, arguments: Some(arguments.to_owned()) }
    }

    #[test]
    fn the_effect_of_a_rule_is_counted_on_recorded_calls() {
        let person = "approved by the person at the console";
        let calls = [
            call("files", "write", person, AuditOutcome::Done, r#"{"path":"/data/a"}"#),
            call("files", "write", "denied by the person", AuditOutcome::Refused, r#"{"path":"/data/b"}"#),
            call("files", "write", "rule 1", AuditOutcome::Done, r#"{"path":"/etc/c"}"#),
            call("mail", "send", "rule 2", AuditOutcome::Done, "{}"),
        ];
        let read = |text: &str| Policy::read(text, &hospes_policy::PolicyEnvironment::default()).unwrap();
        let rule = read(
            "[[rule]]\ndecide = 'ask'\nserver = 'files'\napplication = 'Cursor'\narguments = { path = { under = '/data' } }",
        );
        let mut conflicts = Vec::new();
        let found = effect(&rule, None, &calls, &ToolEffects::default(), &mut conflicts);
        assert_eq!((found.of, found.asked, found.asked_allowed, found.asked_denied), (4, 2, 1, 1));
        assert_eq!((found.unchanged, found.calls.len()), (2, 2));
        assert_eq!((found.calls[0].was, &*found.calls[0].becomes), ("asked, allowed", "ask"));
        assert!(conflicts.is_empty());
        // An earlier rule decides all of them.
        let earlier = read("[[rule]]\nname = 'mine'\ndecide = 'deny'\nserver = 'files'");
        let found = effect(&rule, Some(&earlier), &calls, &ToolEffects::default(), &mut conflicts);
        assert_eq!((found.asked, found.unchanged), (0, 4));
        assert_eq!((conflicts[0].number, conflicts[0].calls), (1, 2));
    }
}
