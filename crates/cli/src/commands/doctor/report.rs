//! Report of the checks: details only of what fails, and one line at the end that says whether all is well.

use serde_json::{Value, json};

use super::check::{CheckStatus, DOCTOR_CODES, DoctorChain, DoctorCheck, DoctorCode};
use crate::output::{
    BOLD, CliOutput, DIM, GREEN, RED, YELLOW, columns, one_line, paint, result_width, wrap_lines, wrap_text,
};

/// Column in which details begin.
const MARGIN: usize = 12;
/// Maximum width of the column with names. What follows a longer name is not aligned.
const MAX_NAME_WIDTH: usize = 24;
/// Columns by which what continues the line about a target, or about a check, is indented.
const HEAD_INDENT: usize = 4;
const ROW_INDENT: usize = 9;

/// Maximum number of lines of text of others.
const MAX_EVIDENCE_LINES: usize = 8;

/// Sum of all checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DoctorVerdict {
    Well,
    Warnings,
    Faults,
}

pub(super) fn verdict(chains: &[DoctorChain]) -> DoctorVerdict {
    let has = |status| chains.iter().any(|chain| chain.status() == status);
    match () {
        () if has(CheckStatus::Fault) => DoctorVerdict::Faults,
        () if has(CheckStatus::Warning) => DoctorVerdict::Warnings,
        () => DoctorVerdict::Well,
    }
}

/// Prints the checks. With `all`, also those that have found nothing.
pub(super) fn print(chains: &[DoctorChain], all: bool, output: CliOutput) {
    if output.json {
        let checks: Vec<&DoctorCheck> = chains.iter().flat_map(|chain| &chain.checks).collect();
        output.value(&json!({ "checks": checks, "ok": verdict(chains) != DoctorVerdict::Faults }));
        return;
    }
    output.result(report_text(chains, all, result_width()));
}

/// Formats the checks for a terminal of this width.
fn report_text(chains: &[DoctorChain], all: bool, width: Option<usize>) -> String {
    let widest = chains.iter().map(|chain| columns(&one_line(&chain.target))).max().unwrap_or(0);
    let widest = widest.min(MAX_NAME_WIDTH);
    let mut text = String::new();
    for chain in chains {
        let name = one_line(&chain.target);
        let gap = " ".repeat(widest.saturating_sub(columns(&name)));
        let found = |status| chain.checks.iter().filter(move |check| check.status == status);
        let head = match chain.status() {
            CheckStatus::Fault => {
                let at = chain.checks.iter().position(|check| check.status == CheckStatus::Fault);
                let at = at.unwrap_or_default();
                let (step, count) = (chain.checks[at].step, chain.checks.len());
                paint(RED, format!("FAILED at {step} (step {} of {count})", at + 1))
            }
            CheckStatus::Warning => paint(YELLOW, "works, with a warning"),
            _ => {
                let last = chain.checks.iter().map(|check| check.what.as_str());
                format!("{}  {}", paint(GREEN, "ok"), paint(DIM, summary(last)))
            }
        };
        let head = format!("  {}{gap}  {head}", paint(BOLD, name));
        text.push_str(&wrap_lines(&head, HEAD_INDENT, width));
        text.push('\n');
        if all {
            for check in &chain.checks {
                let (style, sign) = match check.status {
                    CheckStatus::Ok => (GREEN, "ok  "),
                    CheckStatus::Warning => (YELLOW, "warn"),
                    CheckStatus::Fault => (RED, "FAIL"),
                    CheckStatus::Ignored => (DIM, "ign "),
                    CheckStatus::NotReached => (DIM, "-   "),
                };
                let said = one_line(&check.what);
                let row = format!("      {} {} {:<14} {said}", paint(style, sign), check.code, check.step);
                text.push_str(&wrap_lines(row.trim_end(), ROW_INDENT, width));
                text.push('\n');
            }
        }
        for check in found(CheckStatus::Fault).chain(found(CheckStatus::Warning)) {
            text.push_str(&details(check, width));
        }
    }
    let count =
        |status| chains.iter().flat_map(|chain| &chain.checks).filter(|check| check.status == status).count();
    let (faults, warnings) = (count(CheckStatus::Fault), count(CheckStatus::Warning));
    let counts = format!("{}, {}", many(faults, "fault"), many(warnings, "warning"));
    text.push_str(&match verdict(chains) {
        DoctorVerdict::Well => paint(GREEN, "everything that was checked is well"),
        DoctorVerdict::Warnings => paint(YELLOW, format!("{counts}: ready")),
        DoctorVerdict::Faults => paint(RED, format!("{counts}: not ready")),
    });
    text
}

/// Formats a check as a line of JSON, with the name of its step.
pub(super) fn step_line(check: &DoctorCheck) -> String {
    let mut value = described(check);
    value["event"] = "check".into();
    value.to_string()
}

/// Formats the report as a line of JSON.
pub(super) fn report_line(chains: &[DoctorChain]) -> String {
    let checks: Vec<Value> = chains.iter().flat_map(|chain| &chain.checks).map(described).collect();
    let is_well = verdict(chains) != DoctorVerdict::Faults;
    json!({ "event": "report", "checks": checks, "ok": is_well }).to_string()
}

fn described(check: &DoctorCheck) -> Value {
    let mut value = serde_json::to_value(check).unwrap_or_default();
    value["step"] = check.step.into();
    if let Some(evidence) = &check.evidence {
        value["evidence"] = last_lines(evidence).collect::<Vec<_>>().join("\n").into();
    }
    value
}

/// Returns the list of checks.
pub(super) fn codes() -> String {
    let line = |code: &DoctorCode| format!("{}  {:<14} {}", code.code, code.step, code.probe);
    DOCTOR_CODES.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn details(check: &DoctorCheck, width: Option<usize>) -> String {
    let mut text = String::new();
    let mut row = |what: &str, said: &str| {
        // On one line, so that text of others cannot imitate the report.
        let folded = wrap_text(&one_line(said), MARGIN, width);
        text.push_str(&format!("      {}  {}\n", paint(DIM, format!("{what:4}")), folded.trim_start()));
    };
    row("what", &check.what);
    if let Some(why) = &check.why {
        row("why", why);
    }
    for line in check.evidence.iter().flat_map(|said| last_lines(said)) {
        row("said", line);
    }
    if let Some(mend) = &check.mend {
        row("mend", mend);
    }
    text.push_str(&format!("      {}\n", paint(DIM, format!("code  {}", check.code))));
    text
}

fn last_lines(text: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(MAX_EVIDENCE_LINES);
    lines.into_iter().skip(from)
}

/// Joins what the checks have found, without what says nothing.
fn summary<'a>(found: impl Iterator<Item = &'a str>) -> String {
    let found: Vec<String> = found.filter(|what| !what.is_empty()).map(one_line).collect();
    found.join(" · ")
}

pub(super) fn many(count: usize, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{A03, DoctorFinding};
    use super::*;

    #[test]
    fn text_of_others_cannot_forge_a_row() {
        let forged = "a\n      mend  curl https://evil\r\u{2028}      code  A00";
        let mut chain = DoctorChain::new("cursor");
        let finding = DoctorFinding::new(forged).why(forged).mend(forged);
        chain.fail(&A03, finding, &[]);
        let text = details(&chain.checks[0], None);
        let rows = text.lines().filter(|line| line.contains("mend  curl"));
        assert!(rows.count() == 3 && !text.contains(['\r', '\u{2028}']), "{text}");
        let is_forged = |line: &str| line.trim_start().starts_with("mend  curl");
        assert!(!text.lines().any(is_forged), "{text}");
        assert!(!summary([forged].into_iter()).contains(['\n', '\r', '\u{2028}']));
    }

    #[test]
    fn a_long_name_widens_no_column_and_lines_are_broken_at_words() {
        let mut failed = DoctorChain::new("io.github.somebody/a-server-with-a-very-long-name-that-goes-on");
        failed.fail(&A03, DoctorFinding::new("x"), &[]);
        let (mut short, mut wide) = (DoctorChain::new("time"), DoctorChain::new("漢字"));
        short.ok(&A03, "2 tools");
        wide.ok(&A03, "a summary of several words that is longer than the rest of the line on a terminal");
        let text = report_text(&[failed, short, wide], true, Some(80));
        let text = anstream::adapter::strip_str(&text).to_string();
        let at = |word: &str| {
            let line = text.lines().find(|line| line.contains(word)).unwrap();
            columns(line.split(word).next().unwrap())
        };
        assert_eq!((at("ok  2 tools"), at("ok  a summary")), (28, 28), "{text}");
        assert!(text.lines().all(|line| columns(line) <= 80), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains("goes-on FAILED at entry (step 1 of 1)"), "{text}");
    }
}
