//! F3: nodes are replaced one after the other while clients of both eras make calls.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::time::sleep;

use crate::call::{CallKind, CallMix};
use crate::claim::{FleetClaim, history_claims};
use crate::cluster::ClusterOptions;
use crate::journal::{CallEnding, CallRecord, RunSummary};
use crate::scenario::{CALM, RunSize, RunningFleet};

/// Program of the nodes that are replaced. By default the same as that of the new ones.
const OLD_PROGRAM: &str = "HOSPES_OLD_PROGRAM";

/// Time in which a node has to end: a notice of 1 s, 30 s for calls, and a margin.
const END_LIMIT: Duration = Duration::from_secs(40);

/// Time for a restart.
const RESTART_LIMIT: Duration = Duration::from_secs(60);

/// Number of pairs of clients whose calls are measured.
const MEASURED_PAIRS: usize = 2;

/// Factor by which the 99th percentile of the times of calls may rise.
const LATENCY_FACTOR: f64 = 3.0;

/// Replacements of nodes.
#[derive(Debug, Default)]
struct RollHistory {
    /// Moments at which a node was told to end, and at which its successor served.
    replacements: Vec<(Instant, Instant)>,
    slowest_end: Duration,
    slowest_start: Duration,
    violations: Vec<String>,
}

/// Replaces each node once, and goes on while there is time. `interval` is the length of long calls.
pub(crate) async fn replace_nodes(mut options: ClusterOptions, size: RunSize) -> Result<Vec<FleetClaim>> {
    let new = options.program.clone();
    if let Some(old) = std::env::var_os(OLD_PROGRAM) {
        options.program = PathBuf::from(old);
    }
    let is_mixed = options.program != new;
    let mut fleet = RunningFleet::start(options, size).await?;
    let begun = Instant::now();
    fleet.add_pair("long", CallMix::Long(size.interval));
    fleet.add_pair("longer", CallMix::Long(size.interval));
    for number in 0..MEASURED_PAIRS {
        fleet.add_pair(&format!("short{number}"), CallMix::Short);
    }
    sleep(CALM).await;
    let steady = Instant::now();
    sleep(size.length / 4).await;
    let mut history = RollHistory::default();
    let (count, roll) = (fleet.cluster.nodes.len(), Instant::now());
    let mut longest = Duration::ZERO;
    while history.replacements.len() < count || Instant::now() + longest < fleet.until {
        let start = Instant::now();
        let node = &mut fleet.cluster.nodes[history.replacements.len() % count];
        node.set_program(&new);
        let (status, took) = node.end(END_LIMIT).await.context("a node that was told to end")?;
        history.slowest_end = history.slowest_end.max(took);
        if !status.success() {
            history.violations.push(format!("a node that was told to end failed: {status}"));
        }
        let restart = Instant::now();
        node.restart()?;
        node.wait_and_restart(RESTART_LIMIT).await.context("a node that took the place of another")?;
        node.wait_until_it_serves_sessions(RESTART_LIMIT).await?;
        history.slowest_start = history.slowest_start.max(restart.elapsed());
        history.replacements.push((start, Instant::now()));
        longest = longest.max(start.elapsed());
    }
    if Instant::now() > fleet.until {
        let text = "the run shows too little: clients had ended before all nodes were replaced".to_owned();
        history.violations.push(text);
    }
    for node in &fleet.cluster.nodes {
        history.violations.extend(node.failed_starts.iter().map(|why| format!("a start failed: {why}")));
    }
    let (summary, owners) = fleet.finish().await?;
    let programs = if is_mixed { "by another program" } else { "by the same program" };
    let measured = format!(
        "{} nodes {programs}, slowest end {:.1} s, slowest start {:.1} s",
        history.replacements.len(),
        history.slowest_end.as_secs_f64(),
        history.slowest_start.as_secs_f64()
    );
    let mut claims = vec![
        FleetClaim::new("F3", "nodes are replaced", measured, history.violations),
        failed_calls(&summary, begun, &history.replacements, size),
        latency(&summary, steady..roll, &history.replacements, size.is_long),
    ];
    claims.extend(history_claims("F3", &summary, false));
    let measured = format!("{} handed over", owners.adoptions);
    let mut violations = owners.violations;
    if owners.adoptions == 0 {
        violations.push("the run shows nothing: no session was handed over".to_owned());
    }
    claims.push(FleetClaim::new("F3", "one owner for each epoch", measured, violations));
    Ok(claims)
}

/// Calls do not fail, and long ones go on while their node is told to end.
fn failed_calls(
    summary: &RunSummary,
    begun: Instant,
    replacements: &[(Instant, Instant)],
    size: RunSize,
) -> FleetClaim {
    let failed = summary.records.iter().filter(|call| call.ending != CallEnding::Answered);
    let mut violations: Vec<String> = failed.map(|call| call.describe(begun)).collect();
    let count = violations.len();
    // Of a node that is told to end, a third of the calls run there.
    let is_long = |call: &&CallRecord| call.took >= size.interval / 2 && call.kind == CallKind::Steps;
    let ran = |call: &CallRecord, at: Instant| call.sent_at < at && call.sent_at + call.took > at;
    let overlapping = summary.records.iter().filter(is_long);
    let overlapping = overlapping.filter(|call| replacements.iter().any(|(end, _)| ran(call, *end))).count();
    if overlapping < replacements.len() || summary.answered < size.clients {
        violations.push(format!(
            "the run shows nothing: {} calls answered, {overlapping} long calls ran when a node was told to end",
            summary.answered
        ));
    }
    let ends: Vec<String> = replacements
        .iter()
        .map(|(end, ready)| {
            let seconds = |at: &Instant| at.duration_since(begun).as_secs_f64();
            format!("{:.1} to {:.1} s", seconds(end), seconds(ready))
        })
        .collect();
    let measured = format!(
        "{count} of {} calls; {overlapping} long ones ran when a node was told to end; replacements {}",
        summary.calls,
        ends.join(", ")
    );
    FleetClaim::new("F3", "no call fails", measured, violations)
}

/// Times of calls during the roll, beside those before it.
fn latency(
    summary: &RunSummary,
    steady: std::ops::Range<Instant>,
    replacements: &[(Instant, Instant)],
    is_asserted: bool,
) -> FleetClaim {
    let times = |is_wanted: &dyn Fn(Instant) -> bool| -> Vec<Duration> {
        let calls = summary.records.iter().filter(|call| call.kind == CallKind::Echo);
        let mut times: Vec<Duration> =
            calls.filter(|call| is_wanted(call.sent_at)).map(|call| call.took).collect();
        times.sort_unstable();
        times
    };
    let before = times(&|sent| steady.contains(&sent));
    let during = times(&|sent| replacements.iter().any(|(end, ready)| (*end..*ready).contains(&sent)));
    let (Some(steady), Some(rolling)) = (percentile(&before, 99), percentile(&during, 99)) else {
        let text = "the run shows nothing: no calls before or during the roll".to_owned();
        return FleetClaim::new("F3", "calls are not slower", "nothing".to_owned(), vec![text]);
    };
    let factor = rolling.as_secs_f64() / steady.as_secs_f64().max(f64::MIN_POSITIVE);
    let mut violations = Vec::new();
    if is_asserted && factor >= LATENCY_FACTOR {
        violations.push(format!("the 99th percentile rose {factor:.1} times"));
    }
    let ms = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64() * 1e3;
    let measured = format!(
        "median {:.1} to {:.1} ms, p99 {:.1} to {:.1} ms ({factor:.1} times), longest {:.1} to {:.1} ms, of {} and {} calls",
        ms(percentile(&before, 50)),
        ms(percentile(&during, 50)),
        ms(Some(steady)),
        ms(Some(rolling)),
        ms(before.last().copied()),
        ms(during.last().copied()),
        before.len(),
        during.len()
    );
    FleetClaim::new("F3", "calls are not slower", measured, violations)
}

/// A percentile of sorted times.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied()
}
