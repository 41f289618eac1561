//! Routes of pending approvals, decisions, grants and rules.

use axum::Json;
use axum::extract::{Path, State};
use hospes_host::Desk;
use hospes_host::desk::{DecideError, Decision, Grant, Matter};
use hospes_store::{Entry, EntryKind};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::servers::Nothing;
use super::{Answer, Body, Refused};
use crate::Console;
use crate::door::MayDecide;

/// Maximum number of closed approvals in an answer.
const MAX_RECENT: usize = 50;

pub(super) fn desk(console: &Console) -> Result<&Desk, Refused> {
    console
        .desk()
        .ok_or_else(|| Refused::Nothing("nothing is decided here: the host has no rules".to_owned()))
}

/// Everything on the desk.
#[derive(Serialize)]
pub(super) struct Matters {
    /// Pending approvals, oldest first.
    open: Vec<Matter>,
    /// Closed approvals, newest first.
    recent: Vec<Matter>,
    /// The time here: what counts down does so by this.
    now: Timestamp,
}

pub(super) async fn all(State(console): State<Console>) -> Json<Matters> {
    let (mut open, mut recent) = (Vec::new(), Vec::new());
    if let Some(desk) = console.desk() {
        (open, recent) = (desk.matters(), desk.recent());
        recent.truncate(MAX_RECENT);
    }
    Json(Matters { open, recent, now: Timestamp::now() })
}

pub(super) async fn one(State(console): State<Console>, Path(id): Path<String>) -> Answer<Matter> {
    Ok(Json(desk(&console)?.matter(&id).ok_or(DecideError::Unknown)?))
}

pub(super) async fn decide(
    State(console): State<Console>,
    MayDecide(by): MayDecide,
    Path(id): Path<String>,
    Body(decision): Body<Decision>,
) -> Answer<Matter> {
    Ok(Json(desk(&console)?.decide(&id, decision, &by).await?))
}

#[derive(Serialize)]
pub(super) struct Grants {
    grants: Vec<Grant>,
}

pub(super) async fn grants(State(console): State<Console>) -> Json<Grants> {
    Json(Grants { grants: console.desk().map(Desk::grants).unwrap_or_default() })
}

pub(super) async fn revoke(
    State(console): State<Console>,
    MayDecide(by): MayDecide,
    Path(id): Path<String>,
    Body(Nothing {}): Body<Nothing>,
) -> Answer<Value> {
    let grant = desk(&console)?.revoke(&id).await?;
    if let Some(audit) = console.audit() {
        let mut entry = Entry::new(EntryKind::Decision);
        (entry.server, entry.subject) = (Some(grant.server), Some(grant.name));
        (entry.principal, entry.application) = (grant.principal, grant.application);
        entry.decision = Some("revoke".to_owned());
        entry.by = Some(by);
        audit.record(entry).await?;
    }
    Ok(Json(json!({})))
}

/// The rules that decide before anybody is asked.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rules {
    /// True if there is a policy; without one, every call is allowed.
    has_policy: bool,
    rules: Vec<Rule>,
    trusted: Vec<String>,
}

#[derive(Serialize)]
struct Rule {
    number: usize,
    line: usize,
    decide: String,
    name: Option<String>,
    reason: Option<String>,
    /// Key of each condition, and its description.
    conditions: Vec<(String, String)>,
}

pub(super) async fn rules(State(console): State<Console>) -> Json<Rules> {
    let policy = console.guard().and_then(|guard| guard.policy());
    let rule = |rule: &hospes_policy::Rule| Rule {
        number: rule.number(),
        line: rule.line(),
        decide: rule.decision().to_string(),
        name: rule.name().map(str::to_owned),
        reason: rule.reason().map(str::to_owned),
        conditions: rule.conditions(),
    };
    Json(match &policy {
        Some(policy) => Rules {
            has_policy: true,
            rules: policy.rules().iter().map(rule).collect(),
            trusted: policy.trusted().to_vec(),
        },
        None => Rules { has_policy: false, rules: Vec::new(), trusted: Vec::new() },
    })
}
