//! What clients have sent and received, and whether a fleet may behave so.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;

use crate::call::CallKind;

/// Beginning of the keys of calls whose effects the part that makes them counts itself.
const OWN_KEYS: &str = "own-";

/// End of a call as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallEnding {
    /// The result of the tool.
    Answered,
    /// The result that says that the outcome is not known.
    Unknown,
    /// An error as the answer, or a failed tool.
    Failed(String),
    /// Refused with this status, which says that the call was not executed.
    Refused(u16),
    /// The session ended (404) while the answer was waited for.
    Gone,
    /// The connection broke, and nothing can be resumed.
    Broken,
    /// No answer although nothing broke, or a stream that cannot be resumed. Never right.
    Missing(String),
}

/// Call of a client.
#[derive(Debug)]
pub(crate) struct CallRecord {
    /// Key of the call, which its effect has too.
    pub(crate) key: String,
    /// Tool and server.
    pub(crate) tool: String,
    pub(crate) kind: CallKind,
    /// Revision of the client.
    pub(crate) revision: &'static str,
    pub(crate) sent_at: Instant,
    /// Time until the answer, or until the call failed.
    pub(crate) took: Duration,
    pub(crate) ending: CallEnding,
    /// Number of different answers that were received.
    pub(crate) answers: usize,
    /// Rules of the protocol that the stream of the call broke.
    pub(crate) faults: Vec<String>,
}

/// Rule that a history can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryRule {
    /// Each request has one answer, unless its connection broke.
    Answers,
    /// A call takes effect once at most, and as its client was told.
    Effects,
    /// Streams have all their events in order.
    Events,
    /// Sessions open, and last until they are ended.
    Sessions,
}

/// Broken rule, in words.
pub(crate) type HistoryViolation = (HistoryRule, String);

/// Numbers of things that happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct JournalCounts {
    pub(crate) sessions: usize,
    /// Sessions that were answered 404 although nobody had ended them.
    pub(crate) sessions_gone: usize,
    pub(crate) events: usize,
    /// First attempts to reconnect, and times from there until a stream went on.
    pub(crate) resumptions: Vec<(Instant, Duration)>,
    pub(crate) questions: usize,
}

/// Record of a run. All clients write to it.
#[derive(Debug, Default)]
pub(crate) struct RunJournal {
    calls: Mutex<Vec<CallRecord>>,
    counts: Mutex<JournalCounts>,
    faults: Mutex<Vec<HistoryViolation>>,
    /// Present activity of each client, and its begin.
    doing: Mutex<HashMap<String, (String, Instant)>>,
}

/// Result of a run.
#[derive(Debug, Default)]
pub(crate) struct RunSummary {
    pub(crate) calls: usize,
    pub(crate) answered: usize,
    pub(crate) unknown: usize,
    pub(crate) failed: usize,
    pub(crate) refused: usize,
    pub(crate) broken: usize,
    pub(crate) effects: usize,
    pub(crate) counts: JournalCounts,
    /// First text of a failed call, for the reader.
    pub(crate) failure: Option<String>,
    /// Violations in words.
    pub(crate) violations: Vec<HistoryViolation>,
    pub(crate) records: Vec<CallRecord>,
    /// Times for which a node was stopped. A balancer that has not noticed gives it requests, which wait there.
    pub(crate) pauses: Vec<(Instant, Instant)>,
}

impl RunJournal {
    pub(crate) fn record(&self, call: CallRecord) {
        self.calls.lock().push(call);
    }

    /// Notes what a client does from now on, for the report of a run that does not end.
    pub(crate) fn note(&self, client: &str, what: impl Into<String>) {
        self.doing.lock().insert(client.to_owned(), (what.into(), Instant::now()));
    }

    /// Notes that a client has ended.
    pub(crate) fn end(&self, client: &str) {
        self.doing.lock().remove(client);
    }

    /// Records what the clients that have not ended are doing.
    pub(crate) fn record_unended(&self) {
        for (client, (what, since)) in self.doing.lock().iter() {
            let text = format!("{client} has not ended: {what} for {} s", since.elapsed().as_secs());
            self.fault(HistoryRule::Answers, text);
        }
    }

    /// Number of sessions that have ended so far although nobody had ended them.
    pub(crate) fn sessions_gone(&self) -> usize {
        self.counts.lock().sessions_gone
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut JournalCounts)) {
        change(&mut self.counts.lock());
    }

    /// Records a violation that belongs to no call.
    pub(crate) fn fault(&self, rule: HistoryRule, text: String) {
        self.faults.lock().push((rule, text));
    }

    /// Checks the run against the effects that the servers noted.
    pub(crate) fn check(&self, effects: &Path) -> Result<RunSummary> {
        Ok(self.check_effects(&read_effects(&std::fs::read_to_string(effects)?)))
    }

    fn check_effects(&self, effects: &HashMap<String, Vec<String>>) -> RunSummary {
        let calls = std::mem::take(&mut *self.calls.lock());
        let mut summary = RunSummary {
            calls: calls.len(),
            effects: effects.values().map(Vec::len).sum(),
            counts: self.counts.lock().clone(),
            violations: self.faults.lock().clone(),
            ..RunSummary::default()
        };
        let mut known = HashMap::new();
        for call in calls.iter() {
            if known.insert(&call.key, ()).is_some() {
                let text = format!("{}: the harness used the key for two calls", call.key);
                summary.violations.push((HistoryRule::Effects, text));
            }
            let pids = effects.get(&call.key).map_or(&[][..], Vec::as_slice);
            summary.add(call, pids);
        }
        for key in effects.keys().filter(|key| !known.contains_key(key) && !key.starts_with(OWN_KEYS)) {
            let text = format!("{key}: an effect of a call that no client has recorded");
            summary.violations.push((HistoryRule::Effects, text));
        }
        drop(known);
        summary.records = calls;
        summary
    }
}

impl CallRecord {
    /// Describes a call that was not answered; `start` is the moment from which times count.
    pub(crate) fn describe(&self, start: Instant) -> String {
        let sent = self.sent_at.duration_since(start).as_secs_f64();
        let (key, tool, revision, took) = (&self.key, &self.tool, self.revision, self.took.as_secs_f64());
        format!("{key} ({tool}, {revision}), sent after {sent:.1} s: {:?} {took:.1} s later", self.ending)
    }
}

impl RunSummary {
    fn add(&mut self, call: &CallRecord, pids: &[String]) {
        let effects = pids.len();
        let allowed = match &call.ending {
            CallEnding::Answered => {
                self.answered += 1;
                1..=1
            }
            CallEnding::Unknown => {
                self.unknown += 1;
                0..=1
            }
            CallEnding::Failed(text) => {
                self.failed += 1;
                self.failure.get_or_insert_with(|| format!("{} {}: {text}", call.key, call.tool));
                0..=1
            }
            CallEnding::Refused(_) => {
                self.refused += 1;
                0..=0
            }
            CallEnding::Broken | CallEnding::Gone => {
                self.broken += 1;
                0..=1
            }
            CallEnding::Missing(what) => {
                let text = format!("{} ({}): no answer: {what}", call.key, call.tool);
                self.violations.push((HistoryRule::Answers, text));
                0..=1
            }
        };
        if !allowed.contains(&effects) {
            let (key, tool, pids) = (&call.key, &call.tool, pids.join(", "));
            let text = format!(
                "{key} ({tool}): {effects} effects (processes {pids}), the client saw {:?}",
                call.ending
            );
            self.violations.push((HistoryRule::Effects, text));
        }
        if call.answers > 1 {
            let text = format!("{} ({}): {} answers to one request", call.key, call.tool, call.answers);
            self.violations.push((HistoryRule::Answers, text));
        }
        let faults = call.faults.iter().map(|fault| format!("{} ({}): {fault}", call.key, call.tool));
        self.violations.extend(faults.map(|text| (HistoryRule::Events, text)));
    }

    /// Share of resumptions within a time, in percent, and the longest one. The time for which a node was stopped is not
    /// counted.
    pub(crate) fn resumptions_within(&self, limit: Duration) -> (f64, Duration) {
        let all: Vec<Duration> =
            self.counts.resumptions.iter().map(|resumption| self.without_pauses(*resumption)).collect();
        let within = all.iter().filter(|took| **took <= limit).count();
        let share = if all.is_empty() { 100.0 } else { 100.0 * within as f64 / all.len() as f64 };
        (share, all.iter().max().copied().unwrap_or_default())
    }

    fn without_pauses(&self, (start, took): (Instant, Duration)) -> Duration {
        let end = start + took;
        let overlap =
            |(from, to): &(Instant, Instant)| end.min(*to).saturating_duration_since(start.max(*from));
        took.saturating_sub(self.pauses.iter().map(overlap).sum())
    }
}

/// Reads the lines `KEY PID` of the servers.
fn read_effects(text: &str) -> HashMap<String, Vec<String>> {
    let mut effects: HashMap<String, Vec<String>> = HashMap::new();
    for (key, pid) in text.lines().filter_map(|line| line.split_once(' ')) {
        effects.entry(key.to_owned()).or_default().push(pid.to_owned());
    }
    effects
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(ending: CallEnding, answers: usize, effects: &str) -> Vec<HistoryViolation> {
        let journal = RunJournal::default();
        journal.record(CallRecord {
            key: "k".to_owned(),
            tool: "echo".to_owned(),
            kind: CallKind::Echo,
            revision: "2025-11-25",
            sent_at: Instant::now(),
            took: Duration::ZERO,
            ending,
            answers,
            faults: Vec::new(),
        });
        journal.check_effects(&read_effects(effects)).violations
    }

    #[test]
    fn an_answer_stands_for_exactly_one_effect() {
        assert_eq!(violations(CallEnding::Answered, 1, "k 1\n"), Vec::new());
        assert_eq!(violations(CallEnding::Answered, 1, "").len(), 1);
        assert_eq!(violations(CallEnding::Answered, 1, "k 1\nk 2\n").len(), 1);
        assert_eq!(violations(CallEnding::Answered, 2, "k 1\n").len(), 1);
    }

    #[test]
    fn what_is_not_known_took_effect_once_at_most() {
        for ending in [CallEnding::Unknown, CallEnding::Broken, CallEnding::Gone] {
            assert_eq!(violations(ending.clone(), 0, ""), Vec::new());
            assert_eq!(violations(ending.clone(), 0, "k 1\n"), Vec::new());
            assert_eq!(violations(ending, 0, "k 1\nk 1\n").len(), 1);
        }
    }

    #[test]
    fn time_at_a_stopped_node_is_not_counted() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let mut summary = RunSummary::default();
        summary.counts.resumptions = vec![(start, 5 * second), (start + 9 * second, second)];
        assert_eq!(summary.resumptions_within(second), (50.0, 5 * second));
        summary.pauses = vec![(start + second, start + 4 * second)];
        assert_eq!(summary.resumptions_within(2 * second), (100.0, 2 * second));
    }

    #[test]
    fn what_was_refused_has_no_effect() {
        assert_eq!(violations(CallEnding::Refused(503), 0, ""), Vec::new());
        assert_eq!(violations(CallEnding::Refused(503), 0, "k 1\n").len(), 1);
    }

    #[test]
    fn a_missing_answer_and_an_effect_of_nobody_are_violations() {
        assert_eq!(violations(CallEnding::Missing("hung".to_owned()), 0, "").len(), 1);
        assert_eq!(violations(CallEnding::Answered, 1, "k 1\nother 1\n").len(), 1);
    }
}
