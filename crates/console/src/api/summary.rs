//! Statistics of recorded entries: number, outcome and duration.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::{Extension, Json};
use hospes_store::{AuditEntry, AuditEntryKind, AuditOutcome};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::activity::{ActivityQueryResult, parse_query, require_audit};
use super::home::is_call;
use crate::api_error::ApiResult;
use crate::browser_auth::ConsoleCaller;
use crate::console::Console;

/// Maximum number of entries counted, newest first.
const MAX_COUNTED: usize = 20_000;
/// Number of periods.
const PERIOD_COUNT: i64 = 60;
/// Default length of the time range.
const DEFAULT_RANGE: SignedDuration = SignedDuration::from_hours(24);

/// Minimum length of a range that is fitted to its entries.
const MIN_RANGE: SignedDuration = SignedDuration::from_mins(10);
/// Maximum number of tools, prompts and resources that are counted apart, the most used first.
const MAX_ITEMS: usize = 50;

/// Statistics of a time range.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActivitySummary {
    since: Timestamp,
    until: Timestamp,
    /// Number of entries counted.
    counted: usize,
    /// True if there are more entries than were counted.
    is_cut: bool,
    /// The range from `since` to `until` in equal periods.
    spans: Vec<ActivityPeriod>,
    endings: BTreeMap<&'static str, u64>,
    /// Duration of the calls that returned.
    latency: LatencyPercentiles,
    servers: Vec<ServerActivity>,
    /// The most used tools, prompts and resources.
    items: Vec<ItemActivity>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct ActivityPeriod {
    well: u64,
    failed: u64,
    refused: u64,
    other: u64,
    latency: LatencyPercentiles,
}

/// Percentiles in microseconds. `None` if nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct LatencyPercentiles {
    p50: Option<u64>,
    p90: Option<u64>,
    p95: Option<u64>,
    p99: Option<u64>,
}

/// Calls of one tool, prompt or resource.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ItemActivity {
    server: String,
    subject: String,
    calls: u64,
    failed: u64,
    refused: u64,
    latency: LatencyPercentiles,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerActivity {
    server: String,
    calls: u64,
    failed: u64,
    refused: u64,
    latency: LatencyPercentiles,
}

pub(super) async fn summary(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    asked: ActivityQueryResult,
) -> ApiResult<ActivitySummary> {
    let wanted = parse_query(asked)?;
    let fits = wanted.fit;
    let until = wanted.until.unwrap_or_else(Timestamp::now);
    let since = wanted.since.unwrap_or_else(|| until.saturating_sub(DEFAULT_RANGE).unwrap_or(Timestamp::MIN));
    let mut search = wanted.search(&caller);
    (search.since, search.until, search.before) = (Some(since), Some(until), None);
    search.limit = MAX_COUNTED;
    let found = require_audit(&console)?.search(search).await?;
    let entries: Vec<AuditEntry> = found.into_iter().map(|one| one.entry).collect();
    let since = if fits { fitted(&entries, since, until) } else { since };
    Ok(Json(count(&entries, since, until)))
}

/// Returns the beginning of the range in which there are entries, the newest of which comes first.
fn fitted(entries: &[AuditEntry], since: Timestamp, until: Timestamp) -> Timestamp {
    let oldest = entries.last().and_then(|entry| Timestamp::from_microsecond(entry.at).ok());
    let Some(oldest) = oldest.filter(|oldest| *oldest > since) else { return since };
    // A few seconds would be drawn as if they were an hour.
    let latest = until.saturating_sub(MIN_RANGE).unwrap_or(since);
    oldest.min(latest).max(since)
}

fn count(entries: &[AuditEntry], since: Timestamp, until: Timestamp) -> ActivitySummary {
    let (from, to) = (since.as_microsecond(), until.as_microsecond());
    let width = ((to.saturating_sub(from)) / PERIOD_COUNT).max(1);
    let mut spans: Vec<(ActivityPeriod, Vec<u64>)> = Vec::new();
    spans.resize_with(usize::try_from(PERIOD_COUNT).unwrap_or_default(), Default::default);
    let mut endings = BTreeMap::new();
    let mut servers: BTreeMap<&str, (ServerActivity, Vec<u64>)> = BTreeMap::new();
    let mut items: BTreeMap<(&str, &str), (ItemActivity, Vec<u64>)> = BTreeMap::new();
    let mut all = Vec::new();
    for entry in entries {
        // An entry at the very end of the range belongs to the last period.
        let at = (entry.at.saturating_sub(from) / width).clamp(0, PERIOD_COUNT - 1);
        let Some((span, taken)) = usize::try_from(at).ok().and_then(|at| spans.get_mut(at)) else { continue };
        if let Some(ending) = entry.ending {
            *endings.entry(word(ending)).or_default() += 1;
        }
        let (is_failed, is_refused) = match entry.ending {
            Some(AuditOutcome::Failed | AuditOutcome::ToolError) => (true, false),
            Some(AuditOutcome::Refused) => (false, true),
            _ => (false, false),
        };
        match entry.ending {
            Some(AuditOutcome::Done) => span.well += 1,
            _ if is_failed => span.failed += 1,
            _ if is_refused => span.refused += 1,
            _ => span.other += 1,
        }
        // The time that a person takes to decide, a refusal or the lifetime of a process does not measure a server's
        // speed.
        let came_back = entry.kind != AuditEntryKind::Server
            && matches!(
                entry.ending,
                Some(AuditOutcome::Done | AuditOutcome::ToolError | AuditOutcome::Failed)
            );
        let micros = entry.micros.filter(|_| came_back && !entry.basis.is_answer());
        taken.extend(micros);
        all.extend(micros);
        if let Some(server) = entry.server.as_deref()
            && is_call(entry)
        {
            let (of, taken) = servers.entry(server).or_insert_with(|| {
                let none = LatencyPercentiles::default();
                let of = ServerActivity {
                    server: server.to_owned(),
                    calls: 0,
                    failed: 0,
                    refused: 0,
                    latency: none,
                };
                (of, Vec::new())
            });
            of.calls += 1;
            of.failed += u64::from(is_failed);
            of.refused += u64::from(is_refused);
            taken.extend(micros);
            let subject = entry.subject.as_deref().unwrap_or_default();
            let (of, taken) = items.entry((server, subject)).or_insert_with(|| {
                let latency = LatencyPercentiles::default();
                let (server, subject) = (server.to_owned(), subject.to_owned());
                (ItemActivity { server, subject, calls: 0, failed: 0, refused: 0, latency }, Vec::new())
            });
            of.calls += 1;
            of.failed += u64::from(is_failed);
            of.refused += u64::from(is_refused);
            taken.extend(micros);
        }
    }
    let spans = spans.into_iter().map(|(span, taken)| ActivityPeriod { latency: percentiles(taken), ..span });
    let servers =
        servers.into_values().map(|(of, taken)| ServerActivity { latency: percentiles(taken), ..of });
    let mut servers: Vec<ServerActivity> = servers.collect();
    servers.sort_by_key(|of| std::cmp::Reverse(of.calls));
    let items = items.into_values().map(|(of, taken)| ItemActivity { latency: percentiles(taken), ..of });
    let mut items: Vec<ItemActivity> = items.collect();
    items.sort_by_key(|of| std::cmp::Reverse(of.calls));
    items.truncate(MAX_ITEMS);
    ActivitySummary {
        since,
        until,
        counted: entries.len(),
        is_cut: entries.len() >= MAX_COUNTED,
        spans: spans.collect(),
        endings,
        latency: percentiles(all),
        servers,
        items,
    }
}

/// Computes percentiles by the nearest-rank method.
fn percentiles(mut taken: Vec<u64>) -> LatencyPercentiles {
    taken.sort_unstable();
    let rank = |percent: usize| taken.get((taken.len() * percent).div_ceil(100).saturating_sub(1)).copied();
    LatencyPercentiles { p50: rank(50), p90: rank(90), p95: rank(95), p99: rank(99) }
}

const fn word(ending: AuditOutcome) -> &'static str {
    match ending {
        AuditOutcome::Done => "done",
        AuditOutcome::ToolError => "tool_error",
        AuditOutcome::Failed => "failed",
        AuditOutcome::Refused => "refused",
        AuditOutcome::Cancelled => "cancelled",
        AuditOutcome::Asked => "asked",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_what_was_measured() {
        let of = |taken: &[u64]| percentiles(taken.to_vec());
        assert_eq!(of(&[]), LatencyPercentiles::default());
        assert_eq!(of(&[7]), LatencyPercentiles { p50: Some(7), p90: Some(7), p95: Some(7), p99: Some(7) });
        let hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(
            of(&hundred),
            LatencyPercentiles { p50: Some(50), p90: Some(90), p95: Some(95), p99: Some(99) }
        );
    }

    #[test]
    fn every_entry_is_counted_in_its_span_and_at_its_server() {
        let (since, until) = (Timestamp::from_second(0).unwrap(), Timestamp::from_second(60).unwrap());
        let entry = |at: i64, server: &str, ending, micros| {
            let mut entry = AuditEntry::new(AuditEntryKind::Call);
            (entry.at, entry.server) = (at * 1_000_000, Some(server.to_owned()));
            (entry.ending, entry.micros) = (Some(ending), Some(micros));
            entry
        };
        // A process that ran for an hour is not a slow call.
        let mut process = entry(60, "b", AuditOutcome::Failed, 3_600_000_000);
        process.kind = AuditEntryKind::Server;
        let entries = [
            entry(0, "a", AuditOutcome::Done, 10),
            // A question is not a call: its answer is an entry of its own.
            entry(0, "a", AuditOutcome::Asked, 10),
            entry(0, "a", AuditOutcome::ToolError, 30),
            // A person took a minute to deny the call.
            entry(59, "a", AuditOutcome::Refused, 60_000_000),
            entry(60, "b", AuditOutcome::Cancelled, 5),
            process,
        ];
        let summary = count(&entries, since, until);
        assert_eq!(summary.spans.len(), 60);
        assert_eq!((summary.spans[0].well, summary.spans[0].failed), (1, 1));
        let last = &summary.spans[59];
        assert_eq!((last.refused, last.other, last.failed), (1, 1, 1));
        assert_eq!(
            summary.latency,
            LatencyPercentiles { p50: Some(10), p90: Some(30), p95: Some(30), p99: Some(30) }
        );
        let of_a = &summary.servers[0];
        assert_eq!((of_a.server.as_str(), of_a.calls, of_a.failed, of_a.refused), ("a", 3, 1, 1));
        assert_eq!(summary.servers[1].latency, LatencyPercentiles::default());
        let items: Vec<_> =
            summary.items.iter().map(|of| (of.server.as_str(), of.calls, of.latency.p95)).collect();
        assert_eq!(items, [("a", 3, Some(30)), ("b", 1, None)]);
    }

    #[test]
    fn a_fitted_range_begins_where_the_entries_begin() {
        let at = |minutes: i64| Timestamp::from_second(minutes * 60).unwrap();
        let entries = |minutes: i64| {
            let mut entry = AuditEntry::new(AuditEntryKind::Call);
            entry.at = at(minutes).as_microsecond();
            [entry]
        };
        assert_eq!(fitted(&[], at(0), at(1000)), at(0));
        assert_eq!(fitted(&entries(900), at(0), at(1000)), at(900));
        assert_eq!(fitted(&entries(999), at(0), at(1000)), at(990), "not shorter than ten minutes");
        assert_eq!(fitted(&entries(3), at(5), at(8)), at(5));
    }
}
