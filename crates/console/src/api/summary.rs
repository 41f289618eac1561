//! Statistics of recorded entries: number, outcome and duration.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use hospes_store::{Ending, Entry, EntryKind};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::Answer;
use super::activity::{Asked, record, wanted};
use crate::Console;

/// Maximum number of entries counted, the newest first.
const MAX_COUNTED: usize = 20_000;
/// Number of periods.
const SPANS: i64 = 60;
/// Default length of the time range.
const USUAL: SignedDuration = SignedDuration::from_hours(24);

/// Statistics of a time range.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    since: Timestamp,
    until: Timestamp,
    /// Number of entries counted.
    counted: usize,
    /// True if there are more entries than were counted.
    is_cut: bool,
    /// The time from `since` to `until` in equal spans.
    spans: Vec<Span>,
    endings: BTreeMap<&'static str, u64>,
    /// Duration of the calls that returned.
    latency: Percentiles,
    servers: Vec<OfServer>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Span {
    well: u64,
    failed: u64,
    refused: u64,
    other: u64,
    latency: Percentiles,
}

/// In microseconds; nothing where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Percentiles {
    p50: Option<u64>,
    p90: Option<u64>,
    p99: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfServer {
    server: String,
    calls: u64,
    failed: u64,
    refused: u64,
    latency: Percentiles,
}

pub(super) async fn summary(State(console): State<Console>, asked: Asked) -> Answer<Summary> {
    let wanted = wanted(asked)?;
    let until = wanted.until.unwrap_or_else(Timestamp::now);
    let since = wanted.since.unwrap_or_else(|| until.saturating_sub(USUAL).unwrap_or(Timestamp::MIN));
    let mut search = wanted.search();
    (search.since, search.until, search.before) = (Some(since), Some(until), None);
    search.limit = MAX_COUNTED;
    let found = record(&console)?.search(search).await?;
    let entries: Vec<Entry> = found.into_iter().map(|one| one.entry).collect();
    Ok(Json(count(&entries, since, until)))
}

fn count(entries: &[Entry], since: Timestamp, until: Timestamp) -> Summary {
    let (from, to) = (since.as_microsecond(), until.as_microsecond());
    let width = ((to.saturating_sub(from)) / SPANS).max(1);
    let mut spans: Vec<(Span, Vec<u64>)> = Vec::new();
    spans.resize_with(usize::try_from(SPANS).unwrap_or_default(), Default::default);
    let mut endings = BTreeMap::new();
    let mut servers: BTreeMap<&str, (OfServer, Vec<u64>)> = BTreeMap::new();
    let mut all = Vec::new();
    for entry in entries {
        let at = (entry.at.saturating_sub(from) / width).clamp(0, SPANS - 1);
        let Some((span, taken)) = usize::try_from(at).ok().and_then(|at| spans.get_mut(at)) else { continue };
        if let Some(ending) = entry.ending {
            *endings.entry(word(ending)).or_default() += 1;
        }
        let (is_failed, is_refused) = match entry.ending {
            Some(Ending::Failed | Ending::ToolError) => (true, false),
            Some(Ending::Refused) => (false, true),
            _ => (false, false),
        };
        match entry.ending {
            Some(Ending::Done) => span.well += 1,
            _ if is_failed => span.failed += 1,
            _ if is_refused => span.refused += 1,
            _ => span.other += 1,
        }
        // How long a person thinks, a refusal takes or a process runs says nothing of how fast a server is.
        let came_back = entry.kind != EntryKind::Server
            && matches!(entry.ending, Some(Ending::Done | Ending::ToolError | Ending::Failed));
        let was_asked = entry.by.as_deref().is_some_and(|by| by.contains("person"));
        let micros = entry.micros.filter(|_| came_back && !was_asked);
        taken.extend(micros);
        all.extend(micros);
        if let Some(server) = entry.server.as_deref()
            && matches!(entry.kind, EntryKind::Call | EntryKind::Prompt | EntryKind::Resource)
        {
            let (of, taken) = servers.entry(server).or_insert_with(|| {
                let none = Percentiles::default();
                let of =
                    OfServer { server: server.to_owned(), calls: 0, failed: 0, refused: 0, latency: none };
                (of, Vec::new())
            });
            of.calls += 1;
            of.failed += u64::from(is_failed);
            of.refused += u64::from(is_refused);
            taken.extend(micros);
        }
    }
    let spans = spans.into_iter().map(|(span, taken)| Span { latency: percentiles(taken), ..span });
    let servers = servers.into_values().map(|(of, taken)| OfServer { latency: percentiles(taken), ..of });
    let mut servers: Vec<OfServer> = servers.collect();
    servers.sort_by_key(|of| std::cmp::Reverse(of.calls));
    Summary {
        since,
        until,
        counted: entries.len(),
        is_cut: entries.len() >= MAX_COUNTED,
        spans: spans.collect(),
        endings,
        latency: percentiles(all),
        servers,
    }
}

/// By the nearest rank.
fn percentiles(mut taken: Vec<u64>) -> Percentiles {
    taken.sort_unstable();
    let rank = |percent: usize| taken.get((taken.len() * percent).div_ceil(100).saturating_sub(1)).copied();
    Percentiles { p50: rank(50), p90: rank(90), p99: rank(99) }
}

const fn word(ending: Ending) -> &'static str {
    match ending {
        Ending::Done => "done",
        Ending::ToolError => "tool_error",
        Ending::Failed => "failed",
        Ending::Refused => "refused",
        Ending::Cancelled => "cancelled",
        Ending::Asked => "asked",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_what_was_measured() {
        let of = |taken: &[u64]| percentiles(taken.to_vec());
        assert_eq!(of(&[]), Percentiles::default());
        assert_eq!(of(&[7]), Percentiles { p50: Some(7), p90: Some(7), p99: Some(7) });
        let hundred: Vec<u64> = (1..=100).rev().collect();
        assert_eq!(of(&hundred), Percentiles { p50: Some(50), p90: Some(90), p99: Some(99) });
    }

    #[test]
    fn every_entry_is_counted_in_its_span_and_at_its_server() {
        let (since, until) = (Timestamp::from_second(0).unwrap(), Timestamp::from_second(60).unwrap());
        let entry = |at: i64, server: &str, ending, micros| {
            let mut entry = Entry::new(EntryKind::Call);
            (entry.at, entry.server) = (at * 1_000_000, Some(server.to_owned()));
            (entry.ending, entry.micros) = (Some(ending), Some(micros));
            entry
        };
        // A process that ran for an hour is no slow call.
        let mut process = entry(60, "b", Ending::Failed, 3_600_000_000);
        process.kind = EntryKind::Server;
        let entries = [
            entry(0, "a", Ending::Done, 10),
            entry(0, "a", Ending::ToolError, 30),
            // A person took a minute to say no.
            entry(59, "a", Ending::Refused, 60_000_000),
            entry(60, "b", Ending::Cancelled, 5),
            process,
        ];
        let summary = count(&entries, since, until);
        assert_eq!(summary.spans.len(), 60);
        assert_eq!((summary.spans[0].well, summary.spans[0].failed), (1, 1));
        let last = &summary.spans[59];
        assert_eq!((last.refused, last.other, last.failed), (1, 1, 1));
        assert_eq!(summary.latency, Percentiles { p50: Some(10), p90: Some(30), p99: Some(30) });
        let of_a = &summary.servers[0];
        assert_eq!((of_a.server.as_str(), of_a.calls, of_a.failed, of_a.refused), ("a", 3, 1, 1));
        assert_eq!(summary.servers[1].latency, Percentiles::default());
    }
}
