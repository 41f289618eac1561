//! The rows that decide, and what is aimed at.

use std::fmt::Write as _;

use super::ProgramSizes;
use super::results::{BenchResults, SampleFigure};

/// One row: a figure of a Hospes program and of a base, in the same round.
struct ComparisonRow {
    name: &'static str,
    section: &'static str,
    label: &'static str,
    figure: SampleFigure,
    /// The Hospes program.
    ours: &'static str,
    base: &'static str,
    /// The peer that the work is compared with besides the limit.
    rival: &'static str,
    compare: ComparisonKind,
    /// The first budget, and the goal.
    aims: [f64; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ComparisonKind {
    /// The figure over the base's.
    Ratio,
    /// The figure less the base's.
    Added,
    /// The figure alone.
    Plain,
}

const OURS: &str = "hospes";
/// The gateway with everything that stands between a person and a server.
const GUARDED: &str = "hospes-guarded";
/// Maximum number of processors that other programs may use in the median sample for rates and tails to be judged.
const MAX_BUSY_PROCESSORS: f64 = 0.5;

const fn row(
    name: &'static str,
    (section, label): (&'static str, &'static str),
    figure: SampleFigure,
    (base, rival): (&'static str, &'static str),
    compare: ComparisonKind,
    aims: [f64; 2],
) -> ComparisonRow {
    ComparisonRow { name, section, label, figure, ours: OURS, base, rival, compare, aims }
}

/// The rows, in the order of the work: servers over HTTP, servers over stdio, sessions, clients, gateways, starts.
const ROWS: [ComparisonRow; 21] = {
    use ComparisonKind::{Added, Plain, Ratio};
    use SampleFigure::{Cpu, P50, P99, Rate, Session, Start};
    const JSON: (&str, &str) = ("limit", "rmcp-json");
    const PIPES: (&str, &str) = ("limit", "rmcp-pipes");
    [
        row("HTTP `echo`, 32 connections, CPU per call", ("http", "echo c32"), Cpu, JSON, Ratio, [2.5, 1.9]),
        row("the same in 2026-07-28", ("http", "modern echo c32"), Cpu, JSON, Ratio, [2.5, 1.9]),
        row("HTTP `echo`, 32 connections, calls/s", ("http", "echo c32"), Rate, JSON, Ratio, [0.40, 0.55]),
        row("the same in 2026-07-28", ("http", "modern echo c32"), Rate, JSON, Ratio, [0.40, 0.50]),
        row("HTTP p99, one connection", ("http", "echo c1"), P99, JSON, Ratio, [2.5, 1.8]),
        row("HTTP p99, 256 connections at saturation", ("http", "echo c256"), P99, JSON, Ratio, [4.0, 2.5]),
        row("HTTP list of 50 tools, calls/s", ("http", "list c16"), Rate, JSON, Ratio, [0.60, 0.70]),
        row(
            "HTTP 1 MiB `echo`, calls/s",
            ("http", "big c4"),
            Rate,
            ("limit-raw", "rmcp-json"),
            Ratio,
            [0.55, 0.65],
        ),
        row("stdio pipelined x64, calls/s", ("stdio", "echo x64"), Rate, PIPES, Ratio, [0.35, 0.50]),
        row("stdio round trip, one CPU, p50", ("stdio", "echo x1 one cpu"), P50, PIPES, Ratio, [2.5, 2.0]),
        row("stdio round trip, free CPUs, calls/s", ("stdio", "echo x1"), Rate, PIPES, Ratio, [0.90, 0.95]),
        row(
            "stdio 1 MiB `echo`, calls/s",
            ("stdio", "big x1"),
            Rate,
            ("limit-wide", "rmcp-pipes"),
            Ratio,
            [0.60, 0.75],
        ),
        row(
            "KiB per idle session with an open stream",
            ("sessions", "sessions 10000"),
            Session,
            ("limit", "rmcp"),
            Plain,
            [24.0, 16.0],
        ),
        row(
            "KiB per `subscriptions/listen`",
            ("sessions", "listen 10000"),
            Session,
            ("limit", "rmcp"),
            Plain,
            [24.0, 16.0],
        ),
        row(
            "client over HTTP x32, calls/s",
            ("client", "client http x32"),
            Rate,
            ("load", "rmcp-pooled"),
            Ratio,
            [0.35, 0.50],
        ),
        row(
            "client over HTTP x1, calls/s",
            ("client", "client http x1"),
            Rate,
            ("load", "rmcp-pooled"),
            Ratio,
            [0.45, 0.55],
        ),
        row(
            "client over stdio x64, calls/s",
            ("client", "client stdio x64"),
            Rate,
            ("load", "rmcp"),
            Ratio,
            [0.30, 0.45],
        ),
        row(
            "gateway HTTP to HTTP, added p50 on one CPU, µs",
            ("gateway", "gateway echo c1 one cpu"),
            P50,
            ("direct", "rust-mcp-proxy"),
            Added,
            [40.0, 22.0],
        ),
        ComparisonRow {
            ours: GUARDED,
            ..row(
                "gateway with rules, permission, pins and record, p50 on one CPU over that without",
                ("gateway", "gateway echo c1 one cpu"),
                P50,
                (OURS, "rust-mcp-proxy"),
                Ratio,
                [1.5, 1.2],
            )
        },
        row(
            "start to first answer, stdio",
            ("start", "start stdio"),
            Start,
            ("limit", "rmcp"),
            Ratio,
            [1.4, 1.2],
        ),
        row(
            "start to first answer, HTTP",
            ("start", "start http"),
            Start,
            ("limit", "rmcp"),
            Ratio,
            [1.8, 1.3],
        ),
    ]
};

impl ComparisonRow {
    fn value(&self, results: &BenchResults, peer: &str) -> Option<f64> {
        let Self { section, label, figure, base, .. } = *self;
        match self.compare {
            ComparisonKind::Ratio => results.ratio(section, label, peer, base, figure),
            ComparisonKind::Added => results.added(section, label, peer, base, figure),
            ComparisonKind::Plain => results.middle(section, label, peer, figure),
        }
    }

    /// The processor time for a call, over the base's: for rates, which say nothing on a busy machine.
    fn processor(&self, results: &BenchResults, peer: &str) -> Option<f64> {
        let Self { section, label, figure, base, .. } = *self;
        (figure == SampleFigure::Rate)
            .then(|| results.ratio(section, label, peer, base, SampleFigure::Cpu))
            .flatten()
    }

    /// Returns true if the figure is reliable. When other programs take the processors in turns, rates and tails depend
    /// on them, and ratios can even exceed the possible.
    fn holds(&self, results: &BenchResults) -> bool {
        !matches!(self.figure, SampleFigure::Rate | SampleFigure::P99)
            || results.foreign().is_none_or(|busy| busy <= MAX_BUSY_PROCESSORS)
    }

    fn verdict(&self, ours: Option<f64>) -> &'static str {
        let Some(ours) = ours else { return "not measured" };
        let meets = |aim: f64| if self.figure.more_is_better() { ours >= aim } else { ours <= aim };
        match self.aims {
            [_, goal] if meets(goal) => "goal met",
            [budget, _] if meets(budget) => "in budget",
            _ => "**over budget**",
        }
    }

    fn line(&self, results: &BenchResults) -> String {
        let ours = self.value(results, self.ours);
        let base = results.middle(self.section, self.label, self.base, self.figure);
        let digits = usize::from(self.compare == ComparisonKind::Ratio) + 1;
        let holds = self.holds(results);
        let kept = |value: Option<f64>| value.filter(|_| holds);
        let cell =
            |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"));
        let sign = if self.figure.more_is_better() { "≥" } else { "≤" };
        let [budget, goal] = self.aims;
        format!(
            "| {} | {} ({}) | **{}** | {} | {} / {} | {sign} {budget}, then {goal} | {} |",
            self.name,
            kept(base).map_or_else(|| "–".to_owned(), amount),
            self.base,
            cell(kept(ours)),
            cell(kept(self.value(results, self.rival))),
            cell(self.processor(results, self.ours)),
            cell(self.processor(results, self.rival)),
            if holds || ours.is_none() { self.verdict(ours) } else { "undecided: busy machine" },
        )
    }
}

/// The whole table, with what must be known to read it.
pub(crate) fn table(results: &BenchResults, sizes: &ProgramSizes) -> String {
    let mut page = String::new();
    let text = |key: &str| results.head[key].to_string().trim_matches('"').to_owned();
    let _ = writeln!(
        page,
        "{}, {}, {} CPUs, Linux {}, {} samples; {} noisy samples left out; {} wrong answers of ours. \
         During the middle sample other programs used {:.2} CPUs.\n",
        text("date"),
        text("cpu"),
        text("cores"),
        text("kernel"),
        results.count(),
        results.noisy,
        results.errors(OURS),
        results.foreign().unwrap_or_default(),
    );
    page.push_str(
        "| work | base, absolute | Hospes | best of rmcp | CPU per call, ours / rmcp | budget | |\n|---|---|---|---|---|---|---|\n",
    );
    for row in &ROWS {
        page.push_str(&row.line(results));
        page.push('\n');
    }
    page.push_str(&size_line(sizes));
    page
}

fn size_line(sizes: &ProgramSizes) -> String {
    #[expect(clippy::cast_precision_loss, reason = "megabytes to two digits")]
    let megabytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / 1e6);
    let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
    let ours = megabytes(sizes.ours);
    let verdict = match ours {
        None => "not measured",
        Some(ours) if ours <= 2.0 => "goal met",
        Some(ours) if ours <= 3.0 => "in budget",
        Some(_) => "**over budget**",
    };
    format!(
        "| server with both transports, stripped, MB | {} (limit) | **{}** | {} | – | ≤ 3, then 2 | {verdict} |\n",
        cell(megabytes(sizes.limit)),
        cell(ours),
        cell(megabytes(sizes.rmcp)),
    )
}

/// A number as people read it.
fn amount(value: f64) -> String {
    if value >= 1000.0 {
        let whole = format!("{value:.0}");
        let (front, last) = whole.split_at(whole.len() - 3);
        return format!("{front},{last}");
    }
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}
