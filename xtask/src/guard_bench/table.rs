//! The figures as Markdown tables.

use serde_json::Value;

use super::figures::{BenchFigures, RunFigures, RunKey};

const HEADER: [&str; 13] = [
    "Policy",
    "Person",
    "Memory",
    "ASR, all pairs",
    "ASR, reached",
    "Questions a task",
    "As batches",
    "Tasks unasked",
    "Effects unasked",
    "Utility",
    "Utility under attack",
    "Unclear",
    "By suite",
];

const TIMES: [&str; 7] =
    ["Suite", "Policy", "Persons", "Calls", "Added, p50 / p99 (ms)", "Asked calls, p50 (ms)", "RSS (MiB)"];

/// Writes both tables.
pub(crate) fn markdown(figures: &BenchFigures) -> String {
    let rows = figures.rows.iter().map(|(key, row)| cells(figures, key, row).to_vec());
    let times = figures.times.iter().map(|line| time_cells(line).to_vec());
    format!("{}\n{}", table(&HEADER, rows), table(&TIMES, times))
}

fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = format!("| {} |\n|{}\n", header.join(" | "), "---|".repeat(header.len()));
    for row in rows {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}

fn cells(figures: &BenchFigures, key: &RunKey, row: &RunFigures) -> [String; HEADER.len()] {
    let suites = figures.suites.get(key).into_iter().flatten();
    let suites: Vec<String> =
        suites.map(|(suite, (attacked, pairs))| format!("{suite} {attacked}/{pairs}")).collect();
    [
        key.policy.clone(),
        key.person.clone(),
        key.state.clone(),
        share(row.attacked, row.pairs),
        share(row.attacked_reached, row.reached),
        ratio(row.asked, row.tasks),
        ratio(row.batched, row.tasks),
        format!("{}/{}", row.tasks_unasked, row.tasks),
        share(row.unasked, row.effects),
        format!("{}/{}", row.utility, row.tasks),
        share(row.utility_attacked, row.pairs),
        row.unclear.to_string(),
        suites.join(", "),
    ]
}

fn time_cells(line: &Value) -> [String; TIMES.len()] {
    let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let persons = line["persons"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let number =
        |value: &Value| value.as_f64().map_or_else(|| "–".to_owned(), |number| format!("{number:.1}"));
    let added = &line["added_ms"];
    [
        word("suite"),
        word("policy"),
        persons.collect::<Vec<_>>().join(", "),
        added["calls"].to_string(),
        format!("{} / {}", number(&added["p50"]), number(&added["p99"])),
        number(&line["asked_ms"]["p50"]),
        (line["resident_kib"].as_u64().unwrap_or(0) / 1024).to_string(),
    ]
}

/// A share as percent, with its counts.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "–".to_owned();
    }
    let tenths = (part * 1000 + whole / 2) / whole;
    format!("{}.{} % ({part}/{whole})", tenths / 10, tenths % 10)
}

/// A ratio with two decimals.
fn ratio(count: u64, of: u64) -> String {
    if of == 0 {
        return "–".to_owned();
    }
    let hundredths = (count * 100 + of / 2) / of;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_and_keep_their_counts() {
        assert_eq!(share(147, 609), "24.1 % (147/609)");
        assert_eq!(share(0, 554), "0.0 % (0/554)");
        assert_eq!(share(0, 0), "–");
        assert_eq!((ratio(68, 97), ratio(0, 97)), ("0.70".to_owned(), "0.00".to_owned()));
    }
}
