//! `cargo xtask requirements`: how much of the ledger is cited by tests.

mod citations;
mod ledger;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::flags::{Accepted, Flags};
use crate::place;
use crate::report::{Outcome, say, table};
use citations::Citations;
use ledger::{Later, Ledger, Requirement};

/// What the command line may say.
pub(crate) const FLAGS: Accepted = Accepted { values: &[], switches: &["check"] };

const STRENGTHS: [&str; 6] = ["MUST", "SHOULD", "MAY", "must", "should", "may"];

/// Runs the chore: prints the coverage and writes `docs/coverage.md`, or with `--check` compares it.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    match examine(flags.has("check"))? {
        Outcome::Passed(_) => Ok(()),
        Outcome::Failed(why) | Outcome::CannotRun(why) => bail!(why),
    }
}

/// The same as a part of `cargo xtask test`.
pub(crate) fn part() -> Outcome {
    examine(true).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")))
}

fn examine(check: bool) -> Result<Outcome> {
    let ledger = Ledger::read()?;
    let later = Later::read(&ledger)?;
    let cited = Citations::scan(&ledger.ids())?;
    let coverage = Coverage::count(&ledger, &later, &cited);
    say!("{}", coverage.table());
    if !cited.mistakes.is_empty() {
        for mistake in &cited.mistakes {
            say!("{mistake}");
        }
        return Ok(Outcome::Failed(format!("{} citations are wrong", cited.mistakes.len())));
    }
    note_drift();

    let path = place::root().join("docs/coverage.md");
    let page = coverage.page();
    if !check {
        fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    } else if fs::read_to_string(&path).unwrap_or_default() != page {
        let why = "docs/coverage.md is stale; run `cargo xtask requirements` and commit it";
        return Ok(Outcome::Failed(why.to_owned()));
    }
    Ok(Outcome::Passed(coverage.sentence()))
}

/// Says when the project's copy of the ledger is no longer the same as the document it was copied from.
fn note_drift() {
    let original = fs::read_to_string(place::shared().join("spec/requirements.md"));
    let copy = fs::read_to_string(place::root().join("docs/requirements.md"));
    if let (Ok(original), Ok(copy)) = (original, copy)
        && original != copy
    {
        say!("note: docs/requirements.md differs from ../shared/spec/requirements.md");
    }
}

/// Rows of one kind, counted.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    rows: usize,
    covered: usize,
    later: usize,
}

impl Count {
    fn add(&mut self, state: State) {
        self.rows += 1;
        self.covered += usize::from(state == State::Covered);
        self.later += usize::from(state == State::Later);
    }

    fn open(self) -> usize {
        self.rows - self.covered - self.later
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Covered,
    Open,
    Later,
}

/// The ledger with the state of every row.
struct Coverage<'a> {
    ledger: &'a Ledger,
    states: BTreeMap<&'a str, State>,
}

impl<'a> Coverage<'a> {
    fn count(ledger: &'a Ledger, later: &Later, cited: &Citations) -> Self {
        let state = |row: &Requirement| {
            if cited.places.contains_key(&row.id) {
                State::Covered
            } else if later.includes(row) {
                State::Later
            } else {
                State::Open
            }
        };
        Self { ledger, states: ledger.rows.iter().map(|row| (row.id.as_str(), state(row))).collect() }
    }

    fn sum(&self, wanted: impl Fn(&Requirement) -> bool) -> Count {
        let mut count = Count::default();
        for row in self.ledger.rows.iter().filter(|row| wanted(row)) {
            count.add(self.states[row.id.as_str()]);
        }
        count
    }

    fn sentence(&self) -> String {
        let all = self.sum(|_| true);
        let (rows, covered, later) = (all.rows, all.covered, all.later);
        format!("{covered} of {rows} rows covered, {} open, {later} not yet", all.open())
    }

    /// One row for each area and a last one for all.
    fn rows(&self) -> Vec<[String; 11]> {
        let head = ["area", "rows", "covered", "open", "not yet"].into_iter().chain(STRENGTHS);
        let mut rows = vec![cells(head.map(str::to_owned))];
        let areas = self.ledger.areas.iter().map(|(area, _)| Some(area.as_str()));
        for area in areas.chain([None]) {
            let of_area = |row: &Requirement| area.is_none_or(|area| area == row.area());
            let all = self.sum(of_area);
            let counts = [all.rows, all.covered, all.open(), all.later].map(|count| count.to_string());
            let strengths = STRENGTHS.map(|strength| {
                let count = self.sum(|row| of_area(row) && row.strength == strength);
                if count.rows == 0 { String::new() } else { format!("{}/{}", count.covered, count.rows) }
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
             *not yet* when it belongs to something that is not begun (`tools/ledger.toml`), else *open*. The last\n\
             six columns are covered/all by strength.\n\n",
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
        page
    }

    fn open_rows(&self, area: &str, subject: &str) -> String {
        let open = |strength: &str| -> Vec<&str> {
            let rows = self.ledger.rows.iter().filter(|row| row.area() == area);
            let rows = rows.filter(|row| row.strength.eq_ignore_ascii_case(strength));
            rows.map(|row| row.id.as_str()).filter(|id| self.states[id] == State::Open).collect()
        };
        let kinds = ["MUST", "SHOULD", "MAY"].map(|strength| (strength, open(strength)));
        let lines = kinds.iter().filter(|(_, ids)| !ids.is_empty());
        let lines: Vec<String> =
            lines.map(|(strength, ids)| format!("- {strength}: {}\n", ids.join(" "))).collect();
        if lines.is_empty() { String::new() } else { format!("**{area}** {subject}\n\n{}\n", lines.concat()) }
    }
}

/// Exactly one row's cells; the iterator's length is known where it is built.
fn cells(from: impl Iterator<Item = String>) -> [String; 11] {
    let mut from = from;
    std::array::from_fn(|_| from.next().unwrap_or_default())
}
