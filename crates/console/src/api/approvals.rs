//! Routes of pending approvals, decisions, grants and rules.

use std::collections::HashMap;

use axum::extract::{Path, State};
use axum::{Extension, Json};
use hospes_host::ApprovalQueue;
use hospes_host::approvals::{Approval, ApprovalCard, ApprovalDecision, ApprovalGrant, DecideError};
use hospes_store::{AuditEntry, AuditEntryKind, AuditOutcome, AuditQuery, DecisionBasis};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use super::approval_view::ApprovalView;
use super::body::{EmptyBody, JsonBody};
use super::home::application_name;
use super::rule_saving::fixed_reason;
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::{AuthorizedAuthor, ConsoleCaller};
use crate::console::Console;
use crate::rule_edits::text_digest;

/// Maximum number of closed approvals in a response.
const MAX_RECENT: usize = 50;

/// Maximum number of people whose display names one response looks up.
const MAX_NAMES: usize = 32;

/// Time range in which the calls are counted that a suggested permission would have decided.
const REPEATED_RANGE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Maximum number of these calls.
const MAX_REPEATED_COUNTED: usize = 1000;

pub(super) fn require_approvals(console: &Console) -> Result<&ApprovalQueue, ApiError> {
    console
        .queue()
        .ok_or_else(|| ApiError::Nothing("approvals are not available: the host has no rules".to_owned()))
}

/// All pending and recently closed approvals.
#[derive(Serialize)]
pub(super) struct ApprovalsResponse {
    /// Pending approvals, oldest first.
    open: Vec<ApprovalView>,
    /// Closed approvals, newest first.
    recent: Vec<ApprovalView>,
    /// Time of the host, on which countdowns are based.
    now: Timestamp,
}

/// Returns an approval that exists for the caller: if there is a team, of a call of their own, or one that the caller is
/// an approver of.
pub(super) fn visible_approval(
    console: &Console,
    caller: &ConsoleCaller,
    id: &str,
) -> Result<Approval, ApiError> {
    let found = require_approvals(console)?.get_of(id, caller.decider().as_ref());
    Ok(found.ok_or(DecideError::Unknown)?)
}

pub(super) async fn list(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
) -> Json<ApprovalsResponse> {
    let (mut open, mut recent) = (Vec::new(), Vec::new());
    let person = caller.decider();
    if let Some(queue) = console.queue() {
        (open, recent) = (queue.pending_of(person.as_ref()), queue.recent_of(person.as_ref()));
        recent.truncate(MAX_RECENT);
    }
    let view = |approval| ApprovalView::new(approval, person.as_ref());
    let views = |list: Vec<Approval>| list.into_iter().map(view).collect();
    let (mut open, recent): (Vec<ApprovalView>, _) = (views(open), views(recent));
    name_requesters(&console, &mut open).await;
    Json(ApprovalsResponse { open, recent, now: Timestamp::now() })
}

/// Adds the display names of the people whose calls these are, as far as they are signed in, to approvals of others.
async fn name_requesters(console: &Console, views: &mut [ApprovalView]) {
    let Some(team) = console.team() else { return };
    let mut names: HashMap<String, Option<String>> = HashMap::new();
    for view in views {
        let Some(principal) = view.other_principal().map(str::to_owned) else { continue };
        let name = match names.get(&principal) {
            Some(name) => name.clone(),
            None if names.len() >= MAX_NAMES => continue,
            None => team.name_of(&principal).await,
        };
        names.insert(principal, name.clone());
        view.set_requester_name(name);
    }
}

pub(super) async fn show(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    Path(id): Path<String>,
) -> ApiResult<ApprovalView> {
    let approval = visible_approval(&console, &caller, &id)?;
    let mut view = ApprovalView::new(approval, caller.decider().as_ref());
    name_requesters(&console, std::slice::from_mut(&mut view)).await;
    Ok(Json(view))
}

/// Calls of the last days that a suggested permission would have decided.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RepeatedResponse {
    /// Calls that it would have allowed. If arguments are not recorded: calls that a person allowed.
    calls: u64,
    /// Calls of the tool for the application.
    of: u64,
    /// True if the arguments of all these calls are recorded.
    is_exact: bool,
}

pub(super) async fn repeated(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    Path(id): Path<String>,
) -> ApiResult<RepeatedResponse> {
    let approval = visible_approval(&console, &caller, &id)?;
    let ApprovalCard::Call(card) = &approval.card else { return Ok(Json(RepeatedResponse::default())) };
    let (Some(repeated), Some(audit)) = (&card.repeated, console.audit()) else {
        return Ok(Json(RepeatedResponse::default()));
    };
    let mut query = AuditQuery::new()
        .with_kind(AuditEntryKind::Call)
        .with_server(&*approval.server)
        .with_limit(MAX_REPEATED_COUNTED);
    query.subject = Some(card.name.clone());
    query.principal = caller.person().and_then(|_| approval.principal.clone());
    query.since = Timestamp::now().checked_sub(REPEATED_RANGE).ok();
    let mut found = RepeatedResponse { is_exact: true, ..RepeatedResponse::default() };
    for recorded in audit.search(query).await? {
        let entry = &recorded.entry;
        if !is_of_application(entry, approval.application.as_deref())
            || matches!(entry.ending, None | Some(AuditOutcome::Asked))
        {
            continue;
        }
        found.of += 1;
        let arguments = audit.unseal(entry)?.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let is_allowed = match &arguments {
            Some(arguments) => repeated.allows(arguments),
            None => entry.ending != Some(AuditOutcome::Refused) && entry.basis == DecisionBasis::Person,
        };
        found.is_exact &= arguments.is_some();
        found.calls += u64::from(is_allowed);
    }
    Ok(Json(found))
}

/// Returns true if an entry is of the application that an approval is about.
fn is_of_application(entry: &AuditEntry, application: Option<&str>) -> bool {
    // The recorded application is its name with its version and program.
    application.is_none_or(|name| entry.application.as_deref().map(application_name) == Some(name))
}

pub(super) async fn decide(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    AuthorizedAuthor(by): AuthorizedAuthor,
    Path(id): Path<String>,
    JsonBody(decision): JsonBody<ApprovalDecision>,
) -> ApiResult<ApprovalView> {
    let decided = require_approvals(&console)?.decide(&id, decision, by).await?;
    Ok(Json(ApprovalView::new(decided, caller.decider().as_ref())))
}

#[derive(Serialize)]
pub(super) struct GrantsResponse {
    grants: Vec<ApprovalGrant>,
}

pub(super) async fn grants(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
) -> Json<GrantsResponse> {
    let mut grants = console.queue().map(ApprovalQueue::grants).unwrap_or_default();
    grants.retain(|grant| caller.owns(grant.principal.as_deref()));
    Json(GrantsResponse { grants })
}

pub(super) async fn revoke(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    AuthorizedAuthor(by): AuthorizedAuthor,
    Path(id): Path<String>,
    JsonBody(EmptyBody {}): JsonBody<EmptyBody>,
) -> ApiResult<Value> {
    let queue = require_approvals(&console)?;
    let is_own = |grant: &ApprovalGrant| grant.id == id && caller.owns(grant.principal.as_deref());
    if !queue.grants().iter().any(is_own) {
        return Err(DecideError::Unknown.into());
    }
    queue.revoke(&id, by).await?;
    Ok(Json(json!({})))
}

/// The policy rules, which decide before a person is asked.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RulesResponse {
    /// True if there is a policy; without one, every call is allowed.
    has_policy: bool,
    rules: Vec<PolicyRuleView>,
    trusted: Vec<String>,
    /// Rules of the organisation, which the rules of the file cannot loosen and which are not changed here. `None` without
    /// a policy of an organisation.
    organization: Option<Vec<PolicyRuleView>>,
    /// Policy file.
    file: Option<String>,
    /// Digest of the file, for changes of its rules; `None` if they cannot be changed here.
    digest: Option<String>,
    /// Reason that the rules cannot be changed here.
    fixed: Option<String>,
}

#[derive(Serialize)]
struct PolicyRuleView {
    number: usize,
    line: usize,
    decide: String,
    name: Option<String>,
    reason: Option<String>,
    /// Key of each condition, and its description.
    conditions: Vec<(String, String)>,
}

pub(super) async fn rules(State(console): State<Console>) -> Json<RulesResponse> {
    let policy = console.guard().and_then(|guard| guard.policy());
    let rule = |rule: &hospes_policy::PolicyRule| PolicyRuleView {
        number: rule.number(),
        line: rule.line(),
        decide: rule.decision().to_string(),
        name: rule.name().map(str::to_owned),
        reason: rule.reason().map(str::to_owned),
        conditions: rule.conditions(),
    };
    let file = console.environment().policy.clone();
    let path = file.as_ref().map(|file| file.file.path.display().to_string());
    let trusted = policy.as_ref().map(|policy| policy.trusted().to_vec()).unwrap_or_default();
    let rules = policy.iter().flat_map(|policy| policy.rules().iter().map(rule)).collect();
    let organization = policy.as_ref().and_then(|policy| policy.organization());
    let organization = organization.map(|policy| policy.rules().iter().map(rule).collect());
    let has_policy = policy.is_some();
    let is_for_team = console.team().is_some();
    // Reading blocks.
    let read = tokio::task::spawn_blocking(move || match file {
        None => Err("this host has no policy file that the console could change".to_owned()),
        // The file is one of this machine, and the other nodes have their own.
        Some(_) if is_for_team => Err("a team's rules are changed in the file of each node".to_owned()),
        Some(file) => {
            let text = file.file.read()?;
            match fixed_reason(&file, &text, policy.as_deref()) {
                Some(reason) => Err(reason),
                None => Ok(text_digest(&text)),
            }
        }
    });
    let (digest, fixed) = match read.await.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(digest) => (Some(digest), None),
        Err(reason) => (None, Some(reason)),
    };
    Json(RulesResponse { has_policy, rules, trusted, organization, file: path, digest, fixed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_not_one_whose_name_begins_with_its_name() {
        let mut entry = AuditEntry::new(AuditEntryKind::Call);
        entry.application = Some("Claude Code 2.1 (node, process 7 of user 1000)".to_owned());
        assert!(is_of_application(&entry, Some("Claude Code")));
        assert!(!is_of_application(&entry, Some("Claude")));
        assert!(is_of_application(&entry, None));
    }
}
