//! Routes of the audit log: search and details of entries.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use hospes_host::approvals::{ApprovalGrant, ApprovalQueue, GrantEffect};
use hospes_store::{AuditDigest, AuditEntryKind, AuditQuery, AuditReader, GatheredEntry, RecordedEntry};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::ConsoleCaller;
use crate::console::Console;

/// Maximum number of entries in one response.
const MAX_LIMIT: usize = 500;

/// Default time range of a digest.
const DIGEST_RANGE: SignedDuration = SignedDuration::from_hours(24);

/// Query of a search in the audit log.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ActivityQuery {
    kind: Option<AuditEntryKind>,
    server: Option<String>,
    subject: Option<String>,
    principal: Option<String>,
    application: Option<String>,
    decision: Option<String>,
    text: Option<String>,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    before: Option<u64>,
    limit: Option<usize>,
    /// True if repeated failures of a server are combined into one line.
    #[serde(default)]
    gathered: bool,
    /// True if a summary begins where the entries begin, if that is later than `since`.
    #[serde(default)]
    pub(super) fit: bool,
}

impl ActivityQuery {
    /// Returns the search, limited to what the caller may read.
    pub(super) fn search(self, caller: &ConsoleCaller) -> AuditQuery {
        // A cleared form field is no condition.
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let mut search = AuditQuery::new();
        search.kind = self.kind;
        search.server = some(self.server);
        search.subject = some(self.subject);
        search.principal = some(self.principal);
        search.application = some(self.application);
        search.decision = some(self.decision);
        search.text = some(self.text);
        (search.since, search.until, search.before) = (self.since, self.until, self.before);
        if let Some(principal) = caller.record_limit() {
            search.principal = Some(principal.to_owned());
        }
        // A limit of 0 would find nothing, and a large one would build a very large response.
        search.limit = self.limit.unwrap_or(search.limit).clamp(1, MAX_LIMIT);
        search
    }
}

pub(super) type ActivityQueryResult = Result<Query<ActivityQuery>, QueryRejection>;

pub(super) fn parse_query(asked: ActivityQueryResult) -> Result<ActivityQuery, ApiError> {
    asked.map(|Query(wanted)| wanted).map_err(|rejection| ApiError::Misread(rejection.body_text()))
}

pub(super) fn require_audit(console: &Console) -> Result<AuditReader, ApiError> {
    console.audit_reader().ok_or(ApiError::NotRecorded)
}

/// Entries of the audit log, each alone or repeated failures combined.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ActivityEntries {
    Each(Vec<RecordedEntry>),
    Gathered(Vec<GatheredEntry>),
}

#[derive(Serialize)]
pub(super) struct ActivityResponse {
    entries: ActivityEntries,
}

pub(super) async fn search(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    asked: ActivityQueryResult,
) -> ApiResult<ActivityResponse> {
    let wanted = parse_query(asked)?;
    let (record, is_gathered) = (require_audit(&console)?, wanted.gathered);
    let search = wanted.search(&caller);
    let entries = match is_gathered {
        true => ActivityEntries::Gathered(record.search_gathered(search).await?),
        false => ActivityEntries::Each(record.search(search).await?),
    };
    Ok(Json(ActivityResponse { entries }))
}

/// Digest of a time range.
#[derive(Serialize)]
pub(super) struct DigestResponse {
    #[serde(flatten)]
    digest: AuditDigest,
    /// Known targets and values that were used in the range.
    #[serde(rename = "knownUsed")]
    known_used: Vec<ApprovalGrant>,
}

/// Query of a digest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DigestQuery {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

pub(super) async fn digest(
    State(console): State<Console>,
    asked: Result<Query<DigestQuery>, QueryRejection>,
) -> ApiResult<DigestResponse> {
    let Query(DigestQuery { since, until }) =
        asked.map_err(|rejection| ApiError::Misread(rejection.body_text()))?;
    let until = until.unwrap_or_else(Timestamp::now);
    let since = since.unwrap_or_else(|| until.saturating_sub(DIGEST_RANGE).unwrap_or(Timestamp::MIN));
    let digest = require_audit(&console)?.digest(since, until).await?;
    let grants = console.queue().map(ApprovalQueue::grants).unwrap_or_default();
    let is_used = |grant: &ApprovalGrant| {
        grant.effect == GrantEffect::Known && grant.used_at.is_some_and(|at| at >= since)
    };
    Ok(Json(DigestResponse { digest, known_used: grants.into_iter().filter(is_used).collect() }))
}

#[derive(Serialize)]
pub(super) struct ArgumentsResponse {
    /// Recorded arguments; `None` if they were not recorded.
    arguments: Option<Value>,
}

pub(super) async fn arguments(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    Path(number): Path<u64>,
) -> ApiResult<ArgumentsResponse> {
    let audit = require_audit(&console)?;
    // `after` is exclusive. If the entry has been deleted, this finds the next one.
    let found = audit.after(number.saturating_sub(1), 1).await?;
    let is_own = |one: &&RecordedEntry| one.seq == number && caller.owns(one.entry.principal.as_deref());
    let found = found.first().filter(is_own);
    let found = found.ok_or_else(|| ApiError::Nothing(format!("no entry {number}")))?;
    let arguments = audit.unseal(found).await?;
    Ok(Json(ArgumentsResponse { arguments: arguments.and_then(|text| serde_json::from_str(&text).ok()) }))
}
