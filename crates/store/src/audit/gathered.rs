//! Search results in which repeated failures of servers are combined.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::{AuditEntry, AuditEntryKind, AuditOutcome, AuditQuery, AuditReader, RecordedEntry};
use crate::error::StoreError;

/// Maximum number of entries that are read for one listing.
const MAX_READ: usize = 20_000;

/// Number of entries read per query.
const PAGE: usize = 1000;

/// Maximum number of different failures of one server that are tracked.
const MAX_OPEN_GROUPS: usize = 8;

/// One line of a listing: an entry, or the newest of several equal ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GatheredEntry {
    /// The entry; of several, the newest.
    #[serde(flatten)]
    pub recorded: RecordedEntry,
    /// Number of entries that this line summarizes, including itself.
    pub count: u64,
    /// Time of the oldest of them, in microseconds since 1970.
    #[serde(rename = "firstAt")]
    pub first_at: i64,
}

impl AuditReader {
    /// Searches as [`AuditReader::search`] does, and combines consecutive identical failures of a server into one line. A
    /// server that exits immediately after each start yields one line instead of two for each attempt. A successful
    /// start or connection ends the group. The limit applies to lines.
    ///
    /// # Errors
    /// If the audit log cannot be read.
    pub async fn search_gathered(&self, search: AuditQuery) -> Result<Vec<GatheredEntry>, StoreError> {
        let mut gathering = EntryGatherer::default();
        let mut page = search.clone().with_limit(PAGE);
        let mut read = 0;
        loop {
            let found = self.search(page.clone()).await?;
            let is_last = found.len() < PAGE;
            read += found.len();
            for recorded in found {
                page.before = Some(recorded.seq);
                gathering.add(recorded);
            }
            // Twice as many, because `finish` may hide a start for every line that stays.
            if is_last || read >= MAX_READ || gathering.lines.len() >= search.limit.saturating_mul(2) {
                return Ok(gathering.finish(search.limit));
            }
        }
    }
}

/// Server, and the user whose account is used there.
type EntrySource = (Option<String>, Option<String>);

/// Groups entries that arrive newest first.
#[derive(Default)]
struct EntryGatherer {
    lines: Vec<GatheredLine>,
    /// Open lines of each server, which further failures may join.
    open: HashMap<EntrySource, Vec<usize>>,
    /// Starts whose failed end belongs to a line, with the index of that line.
    heads: HashMap<String, usize>,
    /// Starts whose failure is a repetition.
    repeated: HashSet<String>,
}

struct GatheredLine {
    gathered: GatheredEntry,
    /// Index of the line that includes the failed end of this start.
    end: Option<usize>,
}

impl EntryGatherer {
    fn add(&mut self, recorded: RecordedEntry) {
        let entry = &recorded.entry;
        if entry.kind != AuditEntryKind::Server {
            return self.push(recorded, None);
        }
        let source = (entry.server.clone(), entry.principal.clone());
        let is_failure = matches!(entry.ending, Some(AuditOutcome::Failed | AuditOutcome::Refused));
        if is_failure {
            let same = |&at: &usize| is_same(&self.lines[at].gathered.recorded.entry, entry);
            let line = self.open.get(&source).and_then(|open| open.iter().copied().find(same));
            if let Some(line) = line {
                let gathered = &mut self.lines[line].gathered;
                gathered.count += 1;
                gathered.first_at = entry.at;
                self.repeated.extend(entry.call.clone());
                return;
            }
            let open = self.open.entry(source).or_default();
            if open.len() < MAX_OPEN_GROUPS {
                open.push(self.lines.len());
            }
            if let Some(call) = entry.call.clone() {
                self.heads.insert(call, self.lines.len());
            }
            return self.push(recorded, None);
        }
        let launch = entry.call.as_ref();
        if launch.is_some_and(|launch| self.repeated.contains(launch)) {
            return;
        }
        let end = launch.and_then(|launch| self.heads.get(launch).copied());
        if end.is_none() {
            // The server was running in between, so earlier failures belong to another group.
            self.open.remove(&source);
        }
        self.push(recorded, end);
    }

    fn push(&mut self, recorded: RecordedEntry, end: Option<usize>) {
        let first_at = recorded.entry.at;
        self.lines.push(GatheredLine { gathered: GatheredEntry { recorded, count: 1, first_at }, end });
    }

    /// Returns the lines without the start of a launch whose end is part of a group.
    fn finish(self, limit: usize) -> Vec<GatheredEntry> {
        let is_many = |line: usize| self.lines[line].gathered.count > 1;
        let shown: Vec<bool> = self.lines.iter().map(|line| !line.end.is_some_and(is_many)).collect();
        let lines = self.lines.into_iter().zip(shown).filter(|(_, shown)| *shown);
        lines.map(|(line, _)| line.gathered).take(limit).collect()
    }
}

fn is_same(one: &AuditEntry, other: &AuditEntry) -> bool {
    (&one.decision, &one.how, one.ending) == (&other.decision, &other.how, other.ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: AuditEntryKind, decision: &str, ending: AuditOutcome, call: Option<&str>) -> AuditEntry {
        let mut entry = AuditEntry::new(kind);
        entry.server = Some("dead".to_owned());
        entry.decision = Some(decision.to_owned());
        entry.ending = Some(ending);
        entry.call = call.map(str::to_owned);
        entry
    }

    /// Groups entries that arrive in this order, newest first, and returns decision, count and time of the first.
    fn gathered(entries: Vec<AuditEntry>, limit: usize) -> Vec<(String, u64, i64)> {
        let mut gathering = EntryGatherer::default();
        for (at, mut entry) in entries.into_iter().enumerate().rev() {
            entry.at = i64::try_from(at).unwrap();
            gathering.add(RecordedEntry { seq: at as u64, bound: [0; 32], entry, origin: None });
        }
        let lines = gathering.finish(limit).into_iter();
        lines
            .map(|line| (line.recorded.entry.decision.unwrap_or_default(), line.count, line.first_at))
            .collect()
    }

    fn tries(from: usize, times: usize) -> Vec<AuditEntry> {
        let launches = (from..from + times).map(|launch| launch.to_string());
        launches
            .flat_map(|launch| {
                let mut exited = entry(AuditEntryKind::Server, "exited", AuditOutcome::Failed, Some(&launch));
                exited.how = Some("exited with status 3".to_owned());
                [entry(AuditEntryKind::Server, "started", AuditOutcome::Done, Some(&launch)), exited]
            })
            .collect()
    }

    fn line(decision: &str, count: u64, first_at: i64) -> (String, u64, i64) {
        (decision.to_owned(), count, first_at)
    }

    #[test]
    fn a_server_that_ends_again_and_again_is_one_line() {
        assert_eq!(gathered(tries(0, 500), 50), [line("exited", 500, 1)]);
        // A single failure also shows its start.
        assert_eq!(gathered(tries(0, 1), 50), [line("exited", 1, 1), line("started", 1, 0)]);
        // Other entries in between keep their place.
        let mut all = tries(0, 3);
        all.insert(4, entry(AuditEntryKind::Call, "allow", AuditOutcome::Done, None));
        assert_eq!(gathered(all, 50), [line("exited", 3, 1), line("allow", 1, 4)]);
    }

    #[test]
    fn a_launch_that_lasted_and_another_failure_begin_lines_of_their_own() {
        let mut all = tries(0, 3);
        all.push(entry(AuditEntryKind::Server, "started", AuditOutcome::Done, Some("well")));
        all.push(entry(AuditEntryKind::Server, "exited", AuditOutcome::Done, Some("well")));
        all.extend(tries(10, 2));
        let expected =
            [line("exited", 2, 9), line("exited", 1, 7), line("started", 1, 6), line("exited", 3, 1)];
        assert_eq!(gathered(all.clone(), 50), expected);
        assert_eq!(gathered(all, 2), expected[..2]);
        let mut refused = entry(AuditEntryKind::Server, "not started", AuditOutcome::Refused, None);
        refused.how = Some("its sandbox cannot be enforced".to_owned());
        let mut mixed = Vec::new();
        for launch in 0..3 {
            mixed.extend(tries(launch, 1));
            mixed.push(refused.clone());
        }
        assert_eq!(gathered(mixed, 50), [line("not started", 3, 2), line("exited", 3, 1)]);
        // Failures of another server form a separate group.
        let mut two = tries(0, 2);
        two[3].server = Some("other".to_owned());
        assert_eq!(gathered(two, 50).len(), 4);
    }
}
