//! `cargo xtask requirements`: how much of the ledger is cited by tests.

mod citations;
mod ledger;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::paths;
use crate::report::{PartOutcome, say, table};
use citations::TestCitations;
use ledger::{DeferredRows, Requirement, RequirementLedger, UntestableReasons};

/// The columns of the table.
const WIDTH: usize = 12;
const STRENGTHS: [&str; 6] = ["MUST", "SHOULD", "MAY", "must", "should", "may"];

/// Options of `cargo xtask requirements`.
#[derive(Debug, Args)]
pub(crate) struct RequirementsOptions {
    /// Compares docs/coverage.md in place of writing it.
    #[arg(long)]
    check: bool,
}

/// Runs the chore: prints the coverage and writes `docs/coverage.md`, or with `--check` compares it.
pub(crate) fn run(options: &RequirementsOptions) -> Result<()> {
    examine(options.check)?.into_result()
}

/// Runs the chore as a part of `cargo xtask test`.
pub(crate) fn part() -> PartOutcome {
    examine(true).unwrap_or_else(|error| PartOutcome::Failed(format!("{error:#}")))
}

fn examine(check: bool) -> Result<PartOutcome> {
    let ledger = RequirementLedger::read()?;
    let later = DeferredRows::read(&ledger)?;
    let reasons = UntestableReasons::read(&ledger)?;
    let cited = TestCitations::scan(&ledger.ids())?;
    let coverage = LedgerCoverage::count(&ledger, &later, &reasons, &cited);
    say!("{}", coverage.table());
    let mistakes: Vec<String> =
        cited.mistakes.iter().cloned().chain(contradictions(&reasons, &cited)).collect();
    if !mistakes.is_empty() {
        for mistake in &mistakes {
            say!("{mistake}");
        }
        return Ok(PartOutcome::Failed(format!("{} citations or reasons are wrong", mistakes.len())));
    }

    let path = paths::root().join("docs/coverage.md");
    let page = coverage.page();
    if !check {
        fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    } else if fs::read_to_string(&path).unwrap_or_default() != page {
        let why = "docs/coverage.md is stale; run `cargo xtask requirements` and commit it";
        return Ok(PartOutcome::Failed(why.to_owned()));
    }
    Ok(PartOutcome::Passed(coverage.sentence()))
}

/// Rows of which a test says that it checks them, and `tools/ledger.toml` that no test can.
fn contradictions(reasons: &UntestableReasons, cited: &TestCitations) -> impl Iterator<Item = String> {
    reasons.0.keys().filter_map(|id| {
        let place = cited.places.get(id)?.first()?;
        Some(format!("{place}: cites {id}, for which tools/ledger.toml gives a reason why no test can exist"))
    })
}

/// Rows of one kind, counted.
#[derive(Debug, Default, Clone, Copy)]
struct RowCount {
    rows: usize,
    covered: usize,
    reasoned: usize,
    later: usize,
}

impl RowCount {
    fn add(&mut self, state: RowState) {
        self.rows += 1;
        self.covered += usize::from(state == RowState::Covered);
        self.reasoned += usize::from(state == RowState::Reasoned);
        self.later += usize::from(state == RowState::Later);
    }

    fn open(self) -> usize {
        self.rows - self.covered - self.reasoned - self.later
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowState {
    Covered,
    Reasoned,
    Open,
    Later,
}

/// The ledger with the state of every row.
struct LedgerCoverage<'a> {
    ledger: &'a RequirementLedger,
    reasons: &'a UntestableReasons,
    states: BTreeMap<&'a str, RowState>,
}

impl<'a> LedgerCoverage<'a> {
    fn count(
        ledger: &'a RequirementLedger,
        later: &DeferredRows,
        reasons: &'a UntestableReasons,
        cited: &TestCitations,
    ) -> Self {
        let state = |row: &Requirement| {
            if cited.places.contains_key(&row.id) {
                RowState::Covered
            } else if reasons.0.contains_key(&row.id) {
                RowState::Reasoned
            } else if later.includes(row) {
                RowState::Later
            } else {
                RowState::Open
            }
        };
        Self {
            ledger,
            reasons,
            states: ledger.rows.iter().map(|row| (row.id.as_str(), state(row))).collect(),
        }
    }

    fn sum(&self, wanted: impl Fn(&Requirement) -> bool) -> RowCount {
        let mut count = RowCount::default();
        for row in self.ledger.rows.iter().filter(|row| wanted(row)) {
            count.add(self.states[row.id.as_str()]);
        }
        count
    }

    fn sentence(&self) -> String {
        let all = self.sum(|_| true);
        let (rows, covered, reasoned, later) = (all.rows, all.covered, all.reasoned, all.later);
        let open = all.open();
        format!("{covered} of {rows} rows covered, {reasoned} beyond tests, {open} open, {later} not yet")
    }

    /// One row for each area and a last one for all.
    fn rows(&self) -> Vec<[String; WIDTH]> {
        let head = ["area", "rows", "covered", "beyond", "open", "not yet"].into_iter().chain(STRENGTHS);
        let mut rows = vec![cells(head.map(str::to_owned))];
        let areas = self.ledger.areas.iter().map(|(area, _)| Some(area.as_str()));
        for area in areas.chain([None]) {
            let of_area = |row: &Requirement| area.is_none_or(|area| area == row.area());
            let all = self.sum(of_area);
            let counts = [all.rows, all.covered, all.reasoned, all.open(), all.later];
            let counts = counts.map(|count| count.to_string());
            let strengths = STRENGTHS.map(|strength| {
                let count = self.sum(|row| of_area(row) && row.strength == strength);
                let testable = count.rows - count.reasoned;
                if testable == 0 { String::new() } else { format!("{}/{testable}", count.covered) }
            });
            let name = area.unwrap_or("total").to_owned();
            rows.push(cells([name].into_iter().chain(counts).chain(strengths)));
        }
        rows
    }

    fn table(&self) -> String {
        table(&self.rows())
    }

    /// `docs/coverage.md`.
    fn page(&self) -> String {
        let mut page = String::from(
            "# Coverage of the requirements ledger\n\n\
             Written by `cargo xtask requirements`; do not edit. A row of [requirements.md](requirements.md) is\n\
             *covered* when a test that checks it cites its id (`covers:` and ids, in a comment above the test),\n\
             *beyond* tests when `tools/ledger.toml` gives a reason why no test can exist, *not yet* when it belongs\n\
             to something that is not begun (the same file), else *open*. The last six columns are covered/all by\n\
             strength; rows beyond tests count as neither.\n\n",
        );
        let _ = writeln!(page, "{}.\n", self.sentence());
        for (index, row) in self.rows().iter().enumerate() {
            let _ = writeln!(page, "| {} |", row.join(" | "));
            if index == 0 {
                let _ = writeln!(page, "|{}", " --- |".repeat(row.len()));
            }
        }
        let _ = writeln!(page, "\n## Open rows\n");
        for (area, subject) in &self.ledger.areas {
            let _ = write!(page, "{}", self.open_rows(area, subject));
        }
        let _ = writeln!(page, "## Rows beyond tests\n");
        for row in &self.ledger.rows {
            if let Some(why) = self.reasons.0.get(&row.id) {
                let _ = writeln!(page, "- {} ({}, {}): {why}", row.id, row.binds, row.strength);
            }
        }
        page
    }

    fn open_rows(&self, area: &str, subject: &str) -> String {
        let open = |strength: &str| -> Vec<&str> {
            let rows = self.ledger.rows.iter().filter(|row| row.area() == area);
            let rows = rows.filter(|row| row.strength.eq_ignore_ascii_case(strength));
            rows.map(|row| row.id.as_str()).filter(|id| self.states[id] == RowState::Open).collect()
        };
        let kinds = ["MUST", "SHOULD", "MAY"].map(|strength| (strength, open(strength)));
        let lines = kinds.iter().filter(|(_, ids)| !ids.is_empty());
        let lines: Vec<String> =
            lines.map(|(strength, ids)| format!("- {strength}: {}\n", ids.join(" "))).collect();
        if lines.is_empty() { String::new() } else { format!("**{area}** {subject}\n\n{}\n", lines.concat()) }
    }
}

/// Exactly one row's cells; the iterator's length is known where it is built.
fn cells(from: impl Iterator<Item = String>) -> [String; WIDTH] {
    let mut from = from;
    std::array::from_fn(|_| from.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row is in one state, and a reason for a row that a test cites is a contradiction with a place.
    #[test]
    fn a_reason_closes_a_row_and_contradicts_a_citation() {
        let row = |id: &str| Requirement { id: id.into(), binds: "server".into(), strength: "MUST".into() };
        let ledger = RequirementLedger {
            rows: ["LIFE-01", "LIFE-02", "LIFE-03"].map(row).into(),
            areas: vec![("LIFE".into(), "Lifecycle".into())],
        };
        let reasons = UntestableReasons([("LIFE-02".to_owned(), "it binds people".to_owned())].into());
        let mut cited = TestCitations::default();
        cited.places.insert("LIFE-01".into(), ["a.rs:7".to_owned()].into());

        let coverage = LedgerCoverage::count(&ledger, &DeferredRows::default(), &reasons, &cited);
        assert_eq!(coverage.sentence(), "1 of 3 rows covered, 1 beyond tests, 1 open, 0 not yet");
        let page = coverage.page();
        assert!(page.contains("| LIFE | 3 | 1 | 1 | 1 | 0 | 1/2 |"), "{page}");
        assert!(page.contains("- MUST: LIFE-03\n"), "{page}");
        assert!(page.contains("- LIFE-02 (server, MUST): it binds people\n"), "{page}");
        assert_eq!(contradictions(&reasons, &cited).count(), 0);

        cited.places.insert("LIFE-02".into(), ["b.rs:9".to_owned()].into());
        let wrong: Vec<_> = contradictions(&reasons, &cited).collect();
        assert!(matches!(&wrong[..], [one] if one.starts_with("b.rs:9: cites LIFE-02")), "{wrong:?}");
    }
}
