//! Routes of the first page: the host at a glance, what failed, and the applications of this user.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use hospes_host::upstream::{UpstreamState, UpstreamStatus};
use hospes_host::{ObservedCall, is_unattended};
use hospes_policy::Preset;
use hospes_store::{AuditEntry, AuditEntryKind, AuditOutcome, AuditQuery};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::api_error::{ApiError, ApiResult};
use crate::console::Console;
use crate::environment::ConnectedApplication;

/// Maximum number of entries that are counted, the newest first.
const MAX_COUNTED: usize = 5_000;
/// Default length of the time range.
const DEFAULT_RANGE: SignedDuration = SignedDuration::from_hours(24);
/// Maximum number of connections between applications and servers, the most used first.
const MAX_EDGES: usize = 200;
/// Maximum number of running calls, the newest first.
const MAX_RUNNING: usize = 100;
/// Maximum number of missed calls, the newest first.
const MAX_MISSED: usize = 20;

/// Query of the first page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HomeQuery {
    /// Beginning of the day at the browser.
    since: Option<Timestamp>,
}

/// The host at a glance.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HomeResponse {
    /// URL that applications connect to.
    endpoint: Option<String>,
    since: Timestamp,
    preset: Option<Preset>,
    /// Number of rules; `None` without a policy file.
    rules: Option<usize>,
    /// True if the console can save rules.
    saves_rules: bool,
    /// True if there are more entries than were counted.
    is_cut: bool,
    servers: Vec<UpstreamStatus>,
    edges: Vec<HomeEdge>,
    failures: Vec<ServerFailures>,
    missed: Vec<MissedCalls>,
}

/// Calls of an application to a server.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct HomeEdge {
    application: String,
    server: String,
    calls: u64,
    asked: u64,
    failed: u64,
    refused: u64,
    /// Time of the last call.
    last_at: Timestamp,
    /// True if the last call was refused.
    is_refused: bool,
}

/// Failures of a server, folded.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerFailures {
    server: String,
    /// Number of failed calls.
    calls: u64,
    /// Number of failed starts and connections.
    starts: u64,
    first_at: Timestamp,
    last_at: Timestamp,
    /// Tool of the last failed call.
    subject: Option<String>,
    /// Last failure of a start or a connection, as it was recorded.
    how: Option<String>,
    /// Problem and remedy as the server's state has them; none if it works again.
    problem: Option<String>,
    hint: Option<String>,
}

/// Calls that were refused because nobody was there to decide.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct MissedCalls {
    server: String,
    subject: String,
    application: Option<String>,
    calls: u64,
    last_at: Timestamp,
}

pub(super) async fn home(
    State(console): State<Console>,
    asked: Result<Query<HomeQuery>, QueryRejection>,
) -> ApiResult<HomeResponse> {
    let Query(HomeQuery { since }) = asked.map_err(|rejection| ApiError::Misread(rejection.body_text()))?;
    let now = Timestamp::now();
    let since = since.unwrap_or_else(|| now.saturating_sub(DEFAULT_RANGE).unwrap_or(Timestamp::MIN));
    let mut query = AuditQuery::new().with_limit(MAX_COUNTED);
    query.since = Some(since);
    let entries: Vec<AuditEntry> = match console.audit_reader() {
        Some(audit) => audit.search(query).await?.into_iter().map(|found| found.entry).collect(),
        None => Vec::new(),
    };
    let status = console.servers().status();
    let policy = console.guard().and_then(|guard| guard.policy());
    Ok(Json(HomeResponse {
        endpoint: console.environment().endpoint.clone(),
        since,
        preset: status.preset,
        rules: policy.as_ref().map(|policy| policy.rules().len()),
        saves_rules: console.environment().policy.is_some() && console.guard().is_some(),
        is_cut: entries.len() >= MAX_COUNTED,
        edges: edges(&entries),
        failures: failures(&entries, &status.servers),
        missed: missed(&entries),
        servers: status.servers,
    }))
}

/// Calls that are running.
#[derive(Serialize)]
pub(super) struct RunningResponse {
    calls: Vec<RunningCallView>,
}

#[derive(Serialize)]
struct RunningCallView {
    number: u64,
    application: String,
    server: String,
    subject: String,
    at: Timestamp,
}

pub(super) async fn running(State(console): State<Console>) -> Json<RunningResponse> {
    let seen = console.guard().map(|guard| guard.activity().snapshot(MAX_RUNNING)).unwrap_or_default();
    let view = |call: ObservedCall| RunningCallView {
        number: call.number,
        application: call.application.as_deref().map_or("", application_name).to_owned(),
        server: call.server,
        subject: call.subject,
        at: call.at,
    };
    Json(RunningResponse { calls: seen.running.into_iter().map(view).collect() })
}

/// Applications of this user.
#[derive(Serialize)]
pub(super) struct ApplicationsResponse {
    /// `None` if the program does not look for them.
    applications: Option<Vec<ConnectedApplication>>,
}

pub(super) async fn applications(State(console): State<Console>) -> ApiResult<ApplicationsResponse> {
    let Some(find) = console.environment().applications.clone() else {
        return Ok(Json(ApplicationsResponse { applications: None }));
    };
    // It reads files of other programs, which may be on a slow disk.
    let found = tokio::task::spawn_blocking(move || find()).await;
    Ok(Json(ApplicationsResponse { applications: found.ok() }))
}

/// Returns the name that an application reports, from its description in the audit log: `Editor 1.2 (node, process 7 of
/// user 1000)`, or `node, process 7 of user 1000` if it reports none.
pub(super) fn application_name(recorded: &str) -> &str {
    let named = match recorded.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        Some((named, _)) => named,
        None => match recorded.split_once(", process ") {
            Some((program, _)) => return program,
            None => recorded,
        },
    };
    named.rsplit_once(' ').map_or(named, |(name, _version)| name)
}

fn moment(entry: &AuditEntry) -> Timestamp {
    Timestamp::from_microsecond(entry.at).unwrap_or(Timestamp::MIN)
}

/// Returns true for an entry of a whole call. A question to an application is not one; its answer is an entry of its own.
pub(super) fn is_call(entry: &AuditEntry) -> bool {
    matches!(entry.kind, AuditEntryKind::Call | AuditEntryKind::Prompt | AuditEntryKind::Resource)
        && entry.ending != Some(AuditOutcome::Asked)
}

fn is_failed(entry: &AuditEntry) -> bool {
    matches!(entry.ending, Some(AuditOutcome::Failed | AuditOutcome::ToolError))
}

/// Counts the calls between each application and each server. The newest entry comes first.
fn edges(entries: &[AuditEntry]) -> Vec<HomeEdge> {
    let mut found: BTreeMap<(&str, &str), HomeEdge> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| is_call(entry)) {
        let Some(server) = entry.server.as_deref() else { continue };
        let application = entry.application.as_deref().map_or("", application_name);
        let is_refused = entry.ending == Some(AuditOutcome::Refused);
        let edge = found.entry((application, server)).or_insert_with(|| HomeEdge {
            application: application.to_owned(),
            server: server.to_owned(),
            calls: 0,
            asked: 0,
            failed: 0,
            refused: 0,
            last_at: moment(entry),
            is_refused,
        });
        edge.calls += 1;
        edge.asked += u64::from(entry.is_asked());
        edge.failed += u64::from(is_failed(entry));
        edge.refused += u64::from(is_refused);
    }
    let mut edges: Vec<HomeEdge> = found.into_values().collect();
    edges.sort_by_key(|edge| std::cmp::Reverse(edge.calls));
    edges.truncate(MAX_EDGES);
    edges
}

/// Folds the failures of each server.
fn failures(entries: &[AuditEntry], servers: &[UpstreamStatus]) -> Vec<ServerFailures> {
    let mut found: BTreeMap<&str, ServerFailures> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| is_failed(entry)) {
        let Some(server) = entry.server.as_deref() else { continue };
        let is_start = entry.kind == AuditEntryKind::Server;
        if !is_start && !is_call(entry) {
            continue;
        }
        let at = moment(entry);
        let failures = found.entry(server).or_insert_with(|| {
            let status = servers.iter().find(|status| status.name == server);
            let status = status.filter(|status| status.state != UpstreamState::Ready);
            ServerFailures {
                server: server.to_owned(),
                calls: 0,
                starts: 0,
                first_at: at,
                last_at: at,
                subject: None,
                how: None,
                problem: status.and_then(|status| status.problem.clone()),
                hint: status.and_then(|status| status.hint.clone()),
            }
        });
        failures.first_at = at;
        if is_start {
            failures.starts += 1;
            failures.how = failures.how.take().or_else(|| entry.how.clone());
        } else {
            failures.calls += 1;
            failures.subject = failures.subject.take().or_else(|| entry.subject.clone());
        }
    }
    let mut failures: Vec<ServerFailures> = found.into_values().collect();
    failures.sort_by_key(|one| std::cmp::Reverse(one.last_at));
    failures
}

/// Folds the calls that were refused because nobody was there.
fn missed(entries: &[AuditEntry]) -> Vec<MissedCalls> {
    let mut found: Vec<MissedCalls> = Vec::new();
    for entry in entries.iter().filter(|entry| is_call(entry) && is_unattended(entry)) {
        let (Some(server), Some(subject)) = (entry.server.as_deref(), entry.subject.as_deref()) else {
            continue;
        };
        let application = entry.application.as_deref().map(application_name);
        let is_same = |one: &MissedCalls| {
            one.server == server && one.subject == subject && one.application.as_deref() == application
        };
        if let Some(one) = found.iter().position(is_same).and_then(|at| found.get_mut(at)) {
            one.calls += 1;
        } else if found.len() < MAX_MISSED {
            found.push(MissedCalls {
                server: server.to_owned(),
                subject: subject.to_owned(),
                application: application.map(str::to_owned),
                calls: 1,
                last_at: moment(entry),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(server: &str, application: &str, ending: AuditOutcome) -> AuditEntry {
        let mut entry = AuditEntry::new(AuditEntryKind::Call);
        (entry.server, entry.subject) = (Some(server.to_owned()), Some("write".to_owned()));
        entry.application = Some(application.to_owned());
        entry.ending = Some(ending);
        entry
    }

    #[test]
    fn an_application_is_named_without_its_version_and_program() {
        for (recorded, name) in [
            ("Cursor 1.0", "Cursor"),
            ("Claude Code 2.1 (node, process 7 of user 1000)", "Claude Code"),
            ("Editor (beta) 3 (node, process 7 of user 1000)", "Editor (beta)"),
            ("node, process 7 of user 1000", "node"),
            ("one", "one"),
        ] {
            assert_eq!(application_name(recorded), name, "{recorded}");
        }
    }

    #[test]
    fn calls_are_counted_by_application_and_server_and_failures_by_server() {
        let mut start = entry("mail", "x 1", AuditOutcome::Failed);
        (start.kind, start.how) = (AuditEntryKind::Server, Some("no such program".to_owned()));
        let mut asked = entry("files", "Cursor 1.0", AuditOutcome::Done);
        asked.by = Some("approved by the person at the console".to_owned());
        asked.basis = hospes_store::DecisionBasis::Person;
        // The words of a permission name the person who has given it, who was not asked again.
        let mut granted = entry("files", "Cursor 1.0", AuditOutcome::Done);
        granted.by = Some("granted until the session ends by the person at the console".to_owned());
        granted.basis = hospes_store::DecisionBasis::Grant;
        let mut missed_one = entry("files", "Cursor 1.0", AuditOutcome::Refused);
        missed_one.decision = Some("expired".to_owned());
        let denied = entry("files", "Cursor 1.0", AuditOutcome::Refused);
        let entries = [
            missed_one.clone(),
            asked,
            granted,
            denied,
            missed_one,
            entry("files", "Cursor 1.1", AuditOutcome::Asked),
            entry("time", "Codex 1", AuditOutcome::ToolError),
            start.clone(),
            start,
        ];
        let edges = edges(&entries);
        let shown: Vec<_> =
            edges.iter().map(|edge| (&*edge.application, &*edge.server, edge.calls)).collect();
        assert_eq!(shown, [("Cursor", "files", 5), ("Codex", "time", 1)]);
        assert_eq!((edges[0].asked, edges[0].refused, edges[0].is_refused), (3, 3, true));
        let failures = failures(&entries, &[]);
        let of = |server: &str| failures.iter().find(|one| one.server == server).unwrap();
        assert_eq!((of("mail").starts, of("mail").how.as_deref()), (2, Some("no such program")));
        assert_eq!((of("time").calls, of("time").subject.as_deref()), (1, Some("write")));
        let missed = missed(&entries);
        assert_eq!((missed.len(), missed[0].calls), (1, 2), "what a rule denied is not missed");
    }
}
