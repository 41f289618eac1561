//! Routes of the rule editor: what a rule would have decided, before it is saved.

use axum::Json;
use axum::extract::State;
use hospes_policy::{KnownOffers, KnownServer, KnownTool, Policy, PolicyError, ToolEffectSet};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::body::JsonBody;
use super::rule_effect::{RecordedCall, RuleConflict, RuleEffect, ToolEffects};
use super::rule_saving::{ChangedFile, changed_file};
use crate::api_error::ApiResult;
use crate::console::Console;
use crate::new_rule::{NewRule, RulePlace};

/// Number of calls, the last ones, on which the effect of a rule is shown.
pub(super) const MAX_CALLS: usize = 100;

/// A rule and its place in the file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleRequest {
    pub(super) rule: NewRule,
    /// Place of a new rule.
    #[serde(default)]
    pub(super) place: RulePlace,
    /// The rule in whose place it is written; none for a new rule.
    #[serde(default)]
    pub(super) replaces: Option<RuleReference>,
}

/// A rule of the file, as the person has seen it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleReference {
    /// Position among the rules, from 1.
    pub(super) number: usize,
    /// Digest of the file.
    pub(super) digest: String,
}

/// Effect of a rule, before it is saved.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RulePreview {
    /// The lines of the rule in the file.
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

pub(super) async fn preview(
    State(console): State<Console>,
    JsonBody(wanted): JsonBody<RuleRequest>,
) -> ApiResult<RulePreview> {
    let file = console.environment().policy.clone();
    let mut preview = RulePreview {
        toml: wanted.rule.to_toml(),
        file: file.as_ref().map(|file| file.file.path.display().to_string()),
        mistakes: Vec::new(),
        unmatched: Vec::new(),
        conflicts: Vec::new(),
        effect: RuleEffect::default(),
    };
    let current = console.guard().and_then(|guard| guard.policy());
    let reading = file.as_ref().map(|file| file.environment.clone()).unwrap_or_default();
    let alone = |toml: &str| Policy::read(&alone(toml, current.as_deref()), &reading);
    // What the rule says that this one replaces.
    let mut replaced = None;
    let changed = file.as_ref().map(|file| changed_file(file, &wanted, current.as_deref()));
    match changed {
        Some(Ok(ChangedFile { lines, old_lines, .. })) => {
            preview.toml = lines;
            replaced = old_lines.and_then(|lines| alone(&lines).ok());
        }
        Some(Err(error)) => preview.mistakes.push(error.to_string()),
        None => {}
    }
    let alone = match alone(&preview.toml) {
        Ok(alone) => alone,
        Err(error) => {
            preview.mistakes = mistakes(&error);
            return Ok(Json(preview));
        }
    };
    preview.unmatched = unmatched(&console, &alone);
    if let Some(audit) = console.audit() {
        let calls = RecordedCall::last(audit, MAX_CALLS).await?;
        let effects = ToolEffects::new(&console);
        // The number of the rule, before which others decide.
        let number = match (&wanted.replaces, wanted.place) {
            (Some(replaced), _) => replaced.number,
            (None, RulePlace::First) => 1,
            (None, RulePlace::Last) => usize::MAX,
        };
        let earlier = current.as_deref().map(|current| (current, number));
        (preview.effect, preview.conflicts) = RuleEffect::of(&alone, earlier, &calls, &effects);
        if let Some(replaced) = replaced {
            let (before, _) = RuleEffect::of(&replaced, earlier, &calls, &effects);
            preview.effect.released = preview.effect.lost(&before);
        }
        preview.effect.is_exact =
            !needs_arguments(&alone) || calls.iter().all(|call| call.arguments.is_some());
    }
    Ok(Json(preview))
}

/// Returns true if a rule has conditions on arguments.
fn needs_arguments(rule: &Policy) -> bool {
    let conditions = rule.rules().iter().flat_map(hospes_policy::PolicyRule::conditions);
    let is_of_arguments =
        |key: &str| key.starts_with("arguments.") || key == "other_arguments" || key == "destinations";
    conditions.into_iter().any(|(key, _)| is_of_arguments(&key))
}

/// Returns the text of a policy with one rule, under the trusted servers of the current one.
pub(super) fn alone(toml: &str, current: Option<&Policy>) -> String {
    let trusted = current.map(Policy::trusted).unwrap_or_default();
    let trusted = if trusted.is_empty() { String::new() } else { format!("trusted = {}\n", json!(trusted)) };
    format!("{trusted}{toml}")
}

pub(super) fn mistakes(error: &PolicyError) -> Vec<String> {
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
