//! Output of chores: lines on stdout, and one table at the end.

use std::fmt::Arguments;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Prints one line. A reader who has gone away is no reason to stop the work.
pub(crate) fn print(line: Arguments<'_>) {
    let mut out = io::stdout().lock();
    let _gone = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// `say!("…", …)`: prints one line.
macro_rules! say {
    ($($line:tt)*) => { $crate::report::print(format_args!($($line)*)) };
}
pub(crate) use say;

/// Result of one part of the work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PartOutcome {
    /// It ran and all is well; the text says how much ran.
    Passed(String),
    /// It ran, and something is wrong.
    Failed(String),
    /// It did not run, for a reason outside the project: a failure only where `CI=true`.
    CannotRun(String),
}

impl PartOutcome {
    /// The outcome of a chore that a person runs by itself: what could not run is an error, too.
    pub(crate) fn into_result(self) -> Result<()> {
        match self {
            Self::Passed(_) => Ok(()),
            Self::Failed(why) => bail!(why),
            Self::CannotRun(why) => bail!("could not run: {why}"),
        }
    }
}

/// The parts done so far.
#[derive(Debug, Default)]
pub(crate) struct PartReport {
    rows: Vec<(String, Duration, PartOutcome)>,
}

impl PartReport {
    /// Runs one part and remembers how it went.
    pub(crate) fn part(&mut self, name: &str, work: impl FnOnce() -> PartOutcome) {
        say!("\n== {name}");
        let begun = Instant::now();
        let outcome = work();
        match &outcome {
            PartOutcome::Passed(_) => {}
            PartOutcome::Failed(what) => say!("{name}: FAILED: {what}"),
            PartOutcome::CannotRun(why) => say!("{name}: could not run: {why}"),
        }
        self.rows.push((name.to_owned(), begun.elapsed(), outcome));
    }

    /// Prints the table and says whether all is well; `strict` also counts what could not run.
    pub(crate) fn finish(&self, strict: bool) -> bool {
        let mut cells = vec![["part", "took", "result", ""].map(str::to_owned)];
        for (name, took, outcome) in &self.rows {
            let (result, note) = match outcome {
                PartOutcome::Passed(note) => ("ok", note),
                PartOutcome::Failed(note) => ("FAILED", note),
                PartOutcome::CannotRun(note) => ("could not run", note),
            };
            let note = note.lines().next().unwrap_or_default().to_owned();
            cells.push([name.clone(), seconds(*took), result.to_owned(), note]);
        }
        say!("\n{}", table(&cells));
        let (failed, idle) = self.troubles();
        if idle > 0 && !strict {
            say!("\n{idle} of {} parts could not run here; with CI=true that is a failure.", self.rows.len());
        }
        failed == 0 && (idle == 0 || !strict)
    }

    fn troubles(&self) -> (usize, usize) {
        let count =
            |is: fn(&PartOutcome) -> bool| self.rows.iter().filter(|(_, _, outcome)| is(outcome)).count();
        (count(|o| matches!(o, PartOutcome::Failed(_))), count(|o| matches!(o, PartOutcome::CannotRun(_))))
    }
}

fn seconds(took: Duration) -> String {
    let whole = took.as_secs();
    if whole >= 60 {
        format!("{}m{:02}s", whole / 60, whole % 60)
    } else {
        format!("{:.1}s", took.as_secs_f64())
    }
}

/// Columns padded to their widest cell, with a rule under the first row.
pub(crate) fn table<R: AsRef<[String]>>(rows: &[R]) -> String {
    let columns = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    let cell = |row: &R, column: usize| row.as_ref().get(column).map_or(0, |cell| cell.chars().count());
    let width = |column: usize| rows.iter().map(|row| cell(row, column)).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut lines = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<String> =
            row.as_ref().iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        lines.push(cells.join("  ").trim_end().to_owned());
        if index == 0 {
            let rules: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
            lines.push(rules.join("  ").trim_end().to_owned());
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_run_fails_only_when_strict() {
        let mut report = PartReport::default();
        report.part("a", || PartOutcome::Passed(String::new()));
        assert!(report.finish(true));
        report.part("b", || PartOutcome::CannotRun("no Node".to_owned()));
        assert!(report.finish(false));
        assert!(!report.finish(true));
        report.part("c", || PartOutcome::Failed("no".to_owned()));
        assert!(!report.finish(false));
    }

    #[test]
    fn columns_line_up() {
        let rows = [["a", "bb"], ["long", "c"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "a     bb\n----  --\nlong  c");
    }
}
