//! Reports of status changes of the servers on the terminal of a running host.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use hospes_host::Host;
use hospes_host::upstream::{UpstreamState, UpstreamStatus};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;
use tokio::time::Instant;

use super::events::EventWriter;
use super::server_line::{line, logged_line};
use crate::output::{RED, first_line, paint, printable, talk_width};

/// Interval at which repeated failures of a server are summarized.
const FOLD_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of reports about one server within [`FOLD_INTERVAL`].
const MAX_REPORTS: usize = 4;
/// Maximum length of a text in an event, in characters.
const MAX_TEXT: usize = 500;

/// Reports status changes of the servers. Never returns.
pub(super) async fn report(host: &Host, events: EventWriter) -> std::convert::Infallible {
    let mut known: HashMap<String, UpstreamStatus> = HashMap::new();
    let mut troubles: HashMap<String, ServerTrouble> = HashMap::new();
    let mut seen = 0;
    loop {
        let now = Instant::now();
        for server in host.status().servers {
            if server.state == UpstreamState::Starting {
                continue;
            }
            let trouble = troubles.entry(server.name.clone()).or_default();
            trouble.note(&server, now);
            if let Some(news) = status_change(known.get(&server.name), &server) {
                known.insert(server.name.clone(), server);
                if trouble.may_report(&news, now) {
                    say(events, &news);
                }
            }
        }
        for (name, trouble) in &mut troubles {
            if let Some(folded) = trouble.folded(now, events) {
                folded.say(events, name);
            }
        }
        let due = troubles.values().filter_map(|trouble| trouble.due(events)).min();
        tokio::select! {
            now = host.changed(seen) => seen = now,
            () = sleep_until(due) => {}
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Prints the news about a server.
fn say(events: EventWriter, server: &UpstreamStatus) {
    let first = |text: &Option<String>| text.as_deref().map(|text| first_line(text, MAX_TEXT));
    let (name, fields) = match server.state {
        UpstreamState::Ready => (
            "ready",
            vec![
                ("server", json!(server.name)),
                ("tools", json!(server.tools)),
                ("prompts", json!(server.prompts)),
                ("resources", json!(server.resources)),
                ("revision", json!(server.revision)),
            ],
        ),
        state => {
            let name = match (state, &server.hint) {
                (UpstreamState::Withheld, _) => "review-needed",
                (_, Some(hint)) if hint.contains("hospes auth login") => "sign-in-needed",
                (UpstreamState::Retrying | UpstreamState::Failed, _) => "retry",
                _ => "stopped",
            };
            let seconds = server.next_try_ms.map(|wait| wait / 1000);
            (
                name,
                vec![
                    ("server", json!(server.name)),
                    ("state", json!(state.as_str())),
                    ("next_s", json!(seconds)),
                    ("problem", json!(first(&server.problem))),
                    ("hint", json!(first(&server.hint))),
                ],
            )
        }
    };
    events.broken_event(name, &fields, |width| {
        let line = match width {
            Some(_) => line(server, width),
            None => logged_line(server, talk_width()),
        };
        format!("  {line}")
    });
    if events.is_for_people() {
        return;
    }
    // In words, they are part of the line.
    for warning in &server.warnings {
        let fields = [("server", json!(server.name)), ("text", json!(first_line(warning, MAX_TEXT)))];
        events.event("warning", &fields, String::new);
    }
}

/// The failures of a server, so that one that fails over and over does not fill the log.
#[derive(Debug, Default)]
struct ServerTrouble {
    /// Number of starts that failed since `since`.
    starts: u32,
    since: Option<Timestamp>,
    /// Failures in a row at the last look.
    failures: u32,
    /// Times of the last reports.
    reported: VecDeque<Instant>,
    /// Number of starts when they were last reported.
    reported_starts: u32,
    is_down: bool,
}

impl ServerTrouble {
    fn note(&mut self, server: &UpstreamStatus, now: Instant) {
        self.is_down = matches!(server.state, UpstreamState::Retrying | UpstreamState::Failed);
        if server.failures != self.failures && self.is_down {
            self.since.get_or_insert_with(Timestamp::now);
            self.starts = self.starts.saturating_add(1);
        }
        self.failures = if self.is_down { server.failures } else { 0 };
        // A server that has been well for a while begins anew.
        let is_quiet = self.reported.back().is_none_or(|last| now - *last > FOLD_INTERVAL);
        if !self.is_down && is_quiet {
            (self.starts, self.since, self.reported_starts) = (0, None, 0);
        }
    }

    /// Returns true if news may be reported on their own: not more than [`MAX_REPORTS`] within [`FOLD_INTERVAL`]. A
    /// server that is ready at last is always reported.
    fn may_report(&mut self, news: &UpstreamStatus, now: Instant) -> bool {
        self.reported.retain(|at| now - *at <= FOLD_INTERVAL);
        if self.reported.len() >= MAX_REPORTS && (self.is_down || news.state != UpstreamState::Ready) {
            return false;
        }
        if self.reported.len() >= 2 * MAX_REPORTS {
            return false;
        }
        self.reported.push_back(now);
        self.reported_starts = self.starts;
        true
    }

    /// Returns the time of the next summary, if there is something to summarize. In words there is none: the line about
    /// the failure is still on the terminal, unless reports were left out.
    fn due(&self, events: EventWriter) -> Option<Instant> {
        let is_wanted = !events.is_for_people() || self.reported.len() >= MAX_REPORTS;
        let has_more = self.is_down && self.starts > self.reported_starts;
        (is_wanted && has_more).then(|| self.reported.back().map(|last| *last + FOLD_INTERVAL)).flatten()
    }

    /// Returns the summary, if it is due.
    fn folded(&mut self, now: Instant, events: EventWriter) -> Option<FoldedFailures> {
        if self.due(events)? > now {
            return None;
        }
        self.reported.push_back(now);
        self.reported_starts = self.starts;
        Some(FoldedFailures { starts: self.starts, since: self.since? })
    }
}

/// Failures of a server in one line.
#[derive(Debug, PartialEq)]
struct FoldedFailures {
    starts: u32,
    since: Timestamp,
}

impl FoldedFailures {
    fn say(&self, events: EventWriter, server: &str) {
        let since = self.since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let fields = [
            ("server", json!(server)),
            ("state", json!("dead")),
            ("starts", json!(self.starts)),
            ("since", json!(since)),
        ];
        events.event("retry", &fields, || {
            let since = self.since.to_zoned(TimeZone::system()).strftime("%H:%M");
            let name = printable(server);
            format!("  {} {name:<16} dead: {} starts since {since}", paint(RED, "✗"), self.starts)
        });
    }
}

/// Returns the status to print, or `None` if nothing is new since the last one printed. A shorter wait, a repeated
/// failure and known warnings are not new.
fn status_change(before: Option<&UpstreamStatus>, now: &UpstreamStatus) -> Option<UpstreamStatus> {
    let Some(before) = before.filter(|before| is_same(before, now)) else { return Some(now.clone()) };
    let mut news = now.clone();
    news.warnings.retain(|warning| !before.warnings.contains(warning));
    (!news.warnings.is_empty()).then_some(news)
}

/// Returns true if two statuses of a server are equal apart from warnings.
fn is_same(before: &UpstreamStatus, now: &UpstreamStatus) -> bool {
    let counts = |server: &UpstreamStatus| (server.tools, server.prompts, server.resources, server.templates);
    // The first line only, because details such as the addresses tried differ between attempts.
    let outcome = |server: &UpstreamStatus| {
        server.problem.as_deref().and_then(|text| text.lines().next().map(str::to_owned))
    };
    before.state == now.state
        && before.needs_review == now.needs_review
        && (now.state != UpstreamState::Ready || counts(before) == counts(now))
        && (now.state == UpstreamState::Ready || outcome(before) == outcome(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str, failures: u32) -> UpstreamStatus {
        serde_json::from_value(json!({
            "name": "one", "target": "npx", "state": state, "tools": 1, "prompts": 0, "resources": 0, "templates": 0,
            "failures": failures, "problem": (state != "ready").then_some("it ended"),
        }))
        .unwrap()
    }

    /// A server that comes and goes is reported a few times, then once a minute with the number of its starts.
    #[test]
    fn a_server_that_fails_over_and_over_is_summarized() {
        let events = EventWriter::new(crate::output::CliOutput { json: true, quiet: true });
        let begun = Instant::now();
        let mut trouble = ServerTrouble::default();
        let (mut reports, mut folded) = (0, Vec::new());
        for second in 0..180 {
            let now = begun + Duration::from_secs(second);
            let server = status(if second % 2 == 0 { "retrying" } else { "ready" }, 1);
            trouble.note(&server, now);
            reports += usize::from(trouble.may_report(&server, now));
            folded.extend(trouble.folded(now, events).map(|folded| folded.starts));
        }
        assert!(reports + folded.len() <= 3 * 2 * MAX_REPORTS + 3, "{reports} {folded:?}");
        assert!(trouble.starts >= 80, "{trouble:?}");
    }

    #[test]
    fn a_dead_server_is_summarized_once_a_minute() {
        let events = EventWriter::new(crate::output::CliOutput { json: true, quiet: true });
        let begun = Instant::now();
        let mut trouble = ServerTrouble::default();
        let mut folded = Vec::new();
        for failures in 1..=32 {
            let now = begun + Duration::from_secs(u64::from(failures) * 10);
            let server = status("retrying", failures);
            trouble.note(&server, now);
            if failures == 1 {
                assert!(trouble.may_report(&server, now));
            }
            folded.extend(trouble.folded(now, events).map(|folded| folded.starts));
        }
        assert_eq!(folded, [7, 13, 19, 25, 31]);
        trouble.note(&status("ready", 0), begun + Duration::from_secs(1000));
        assert_eq!((trouble.starts, trouble.since), (0, None));
    }

    #[test]
    fn a_warning_is_said_once() {
        let of = |state: &str, warnings: &[&str]| -> UpstreamStatus {
            serde_json::from_value(serde_json::json!({
                "name": "one", "target": "npx", "state": state, "tools": 1, "prompts": 0, "resources": 0, "templates": 0,
                "warnings": warnings,
            }))
            .unwrap()
        };
        let said = |before: &UpstreamStatus, now: &UpstreamStatus| {
            status_change(Some(before), now).map(|news| news.warnings)
        };
        let one = of("ready", &["a"]);
        assert_eq!(status_change(None, &one).map(|news| news.warnings), Some(vec!["a".to_owned()]));
        assert_eq!(said(&one, &one), None);
        assert_eq!(said(&one, &of("ready", &["a", "b"])), Some(vec!["b".to_owned()]), "the other alone");
        assert_eq!(said(&of("ready", &["a", "b"]), &one), None, "one that is over is no news");
        assert_eq!(said(&one, &of("retrying", &["a"])), Some(vec!["a".to_owned()]));
    }
}
