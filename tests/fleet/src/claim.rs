//! What a run shows, as lines of JSON for `cargo xtask fleet`.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::journal::{HistoryRule, RunSummary};

/// Maximum number of violations that a claim repeats.
const MAX_VIOLATIONS: usize = 5;

/// Time within which a stream has to go on after its client reconnects.
pub(crate) const RESUMPTION_BAR: Duration = Duration::from_secs(2);

/// One claim about a fleet, with what was measured.
#[derive(Debug, Serialize)]
pub(crate) struct FleetClaim {
    pub(crate) part: &'static str,
    pub(crate) claim: String,
    pub(crate) measured: String,
    pub(crate) passed: bool,
    /// The first violations in words.
    pub(crate) violations: Vec<String>,
}

impl FleetClaim {
    /// A claim that holds if there are no violations.
    pub(crate) fn new(part: &'static str, claim: &str, measured: String, violations: Vec<String>) -> Self {
        let passed = violations.is_empty();
        let more = violations.len().saturating_sub(MAX_VIOLATIONS);
        let mut violations: Vec<String> = violations.into_iter().take(MAX_VIOLATIONS).collect();
        if more > 0 {
            violations.push(format!("and {more} more"));
        }
        Self { part, claim: claim.to_owned(), measured, passed, violations }
    }

    /// Prints it as a line.
    pub(crate) fn print(&self) -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(self)?)?;
        Ok(out.flush()?)
    }
}

/// Returns the claims about the history of a run.
pub(crate) fn history_claims(
    part: &'static str,
    summary: &RunSummary,
    is_bar_asserted: bool,
) -> Vec<FleetClaim> {
    let of = |rule: HistoryRule| -> Vec<String> {
        let texts = summary.violations.iter().filter(|(broken, _)| *broken == rule);
        texts.map(|(_, text)| text.clone()).collect()
    };
    let (share, longest) = summary.resumptions_within(RESUMPTION_BAR);
    let resumptions = summary.counts.resumptions.len();
    let mut events = of(HistoryRule::Events);
    if is_bar_asserted && longest > RESUMPTION_BAR {
        events.push(format!("a stream went on after {:.1} s, later than 2 s", longest.as_secs_f64()));
    }
    let mut answers = format!(
        "{} calls: {} answered, {} unknown, {} refused, {} broken, {} failed",
        summary.calls, summary.answered, summary.unknown, summary.refused, summary.broken, summary.failed
    );
    if let Some(failure) = &summary.failure {
        let short: String = failure.chars().take(160).collect();
        answers.push_str(&format!(" (first: {short})"));
    }
    let counts = &summary.counts;
    let mut sessions = of(HistoryRule::Sessions);
    if counts.sessions_gone > 0 {
        sessions.push(format!(
            "{} sessions were answered 404 although nobody had ended them",
            counts.sessions_gone
        ));
    }
    vec![
        FleetClaim::new(
            part,
            "streams resume with all events",
            format!(
                "{resumptions} resumed, {share:.1} % within 2 s, longest {:.1} s; {} events",
                longest.as_secs_f64(),
                counts.events
            ),
            events,
        ),
        FleetClaim::new(part, "each request has one answer", answers, of(HistoryRule::Answers)),
        FleetClaim::new(
            part,
            "effects at most once",
            format!("{} effects of {} calls", summary.effects, summary.calls),
            of(HistoryRule::Effects),
        ),
        FleetClaim::new(
            part,
            "sessions last",
            format!(
                "{} sessions, {} ended by 404, {} questions",
                counts.sessions, counts.sessions_gone, counts.questions
            ),
            sessions,
        ),
    ]
}
