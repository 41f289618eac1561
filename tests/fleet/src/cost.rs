//! F9: what a fleet costs. A node with engines beside a host without, a call that another node forwards beside one at the
//! owner of its session, and the processor time of all processes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::call_load::{CallLoad, CallTarget, LoadResult};
use crate::claim::FleetClaim;
use crate::cluster::{ClusterOptions, ClusterVariant, NodeCluster};
use crate::figures::{FigureTable, ValueSpread, build_of, quantile, save};
use crate::kept_connection::KeptConnection;
use crate::load_server::{LoadServer, server_file};
use crate::scenario::RunSize;
use crate::stream_crowd::open_session;
use crate::usage::{LOAD, OTHERS, ProcessGroups};

/// Time before each measurement.
const WARM: Duration = Duration::from_millis(500);

/// Part of the calls per second that a node with engines has at least.
const RATE_BAR: f64 = 0.9;

/// Time that forwarding may add at the median.
const FORWARD_BAR: Duration = Duration::from_micros(150);

/// Part of the owner's processor time for its own calls that forwarded ones take at least.
const OWNER_SHARE: f64 = 0.2;

/// Tool of the server, as the gateway names it.
pub(crate) const TOOL: &str = "load__echo";

/// A policy under which the end of a call that only reads is not on the disk before the answer: the disk would be all that
/// is measured.
pub(crate) const POLICY: &str = "trusted = [\"load\"]\n";

/// Groups of processes, as columns of a table.
pub(crate) const GROUPS: [&str; 7] = ["nodes", "Redis", "PostgreSQL", "HAProxy", "server", LOAD, OTHERS];

/// Measures everything: `size` has the clients, the length of one measurement and, as seconds, the number of rounds.
pub(crate) async fn compare_costs(mut options: ClusterOptions, size: RunSize) -> Result<Vec<FleetClaim>> {
    std::fs::create_dir_all(&options.folder)?;
    options.folder = std::fs::canonicalize(&options.folder)?;
    let folder = options.folder.clone();
    let server = LoadServer::start(&folder).await?;
    let mut table = FigureTable::new(
        &format!(
            "Processor seconds in {} s of calls, and for each call ({} build)",
            size.length.as_secs(),
            build_of(&options.program)
        ),
        &[&["", "calls/s", "p50", "p99"][..], &GROUPS].concat(),
    );
    let alone = start_nodes(&options, "alone", 1, false).await?;
    let one = start_nodes(&options, "one", 1, true).await?;
    let (engines, engine_figures) = compare_engines(&alone, &one, size).await?;
    drop(alone);
    let of_one = measure_processor(&one, &server, size, "1 node", &mut table).await?;
    drop(one);
    let three = start_nodes(&options, "three", 3, true).await?;
    let (forwards, forward_figures) = compare_forwards(&three, size).await?;
    let of_three = measure_processor(&three, &server, size, "3 nodes", &mut table).await?;
    drop(three);
    table.print()?;
    let failed: Vec<String> = [&of_one, &of_three].iter().flat_map(|part| part.violations.clone()).collect();
    let measured = format!("{}; {}", of_one.measured, of_three.measured);
    let figures = json!({
        "clients": size.clients, "engines": engine_figures, "forwards": forward_figures,
        "one_node": of_one.figures, "three_nodes": of_three.figures,
    });
    save(&folder.join("cost.json"), &options.program, figures)?;
    Ok(vec![
        engines,
        forwards,
        FleetClaim::new("F9", "processor time of nodes and engines is stated", measured, failed),
    ])
}

/// Starts nodes in front of the server, without links that could be cut.
pub(crate) async fn start_nodes(
    options: &ClusterOptions,
    name: &str,
    nodes: usize,
    is_fleet: bool,
) -> Result<NodeCluster> {
    let options = ClusterOptions {
        program: options.program.clone(),
        folder: options.folder.join(name),
        servers: server_file(&options.folder),
        policy: Some(POLICY),
        keeps_redis_data: options.keeps_redis_data,
        nodes,
        is_fleet,
        variant: ClusterVariant { has_direct_links: true, ..options.variant },
    };
    NodeCluster::start(&options).await.with_context(|| format!("starting {name}"))
}

/// Returns the endpoint behind a port.
pub(crate) fn target(port: u16) -> CallTarget {
    CallTarget { port, path: "/mcp".to_owned(), tool: TOOL.to_owned(), authorization: None }
}

/// Returns the processes of a cluster, and the server behind it.
pub(crate) fn groups(cluster: &NodeCluster, server: &LoadServer) -> ProcessGroups {
    let mut groups = ProcessGroups::default();
    groups.add("nodes", cluster.nodes.iter().map(|node| node.pid()).collect());
    groups.add("Redis", cluster.redis.iter().map(|redis| redis.pid()).collect());
    groups.add("PostgreSQL", cluster.database.iter().flat_map(|database| database.pids()).collect());
    let balancers = std::iter::once(&cluster.balancer).chain(&cluster.more_balancers);
    groups.add("HAProxy", balancers.map(|balancer| balancer.pid()).collect());
    groups.add("server", vec![server.pid()]);
    groups
}

/// Calls of 2026-07-28 at a node with engines and at a host without, in turn.
async fn compare_engines(
    alone: &NodeCluster,
    one: &NodeCluster,
    size: RunSize,
) -> Result<(FleetClaim, Value)> {
    let run = async |cluster: &NodeCluster, length: Duration| {
        let load = CallLoad {
            target: target(cluster.nodes[0].port()),
            sessions: Arc::from([]),
            clients: size.clients,
            warm: WARM,
            length,
        };
        let mut groups = ProcessGroups::default();
        groups.add("nodes", vec![cluster.nodes[0].pid()]);
        load.run(&groups).await
    };
    for cluster in [alone, one] {
        run(cluster, WARM).await?;
    }
    let (mut ratios, mut tails, mut cpu, mut rates, mut others) = (vec![], vec![], vec![], vec![], vec![]);
    let mut violations = Vec::new();
    for _ in 0..rounds(size) {
        // In this order, a machine that becomes slower or faster meanwhile favours neither.
        let mut results = Vec::new();
        for cluster in [one, alone, alone, one] {
            results.push(run(cluster, size.length).await?);
        }
        for result in &results {
            violations.extend(result.violations("calls of 2026-07-28"));
            others.push(seconds_of(result, OTHERS) / result.seconds);
        }
        let [first, second, third, fourth] = &results[..] else { anyhow::bail!("a round has four parts") };
        let both = |of: fn(&LoadResult) -> f64| (of(first) + of(fourth), of(second) + of(third));
        let (with, without) = both(LoadResult::rate);
        rates.push(without / 2.0);
        ratios.push(with / without.max(f64::EPSILON));
        let (with, without) = both(|result| result.quantile(0.99) as f64);
        tails.push(with / without.max(f64::EPSILON));
        let (with, without) = both(|result| seconds_of(result, "nodes") / result.answered.max(1) as f64);
        cpu.push(with / without.max(f64::EPSILON));
    }
    let [ratio, tail, cpu, rate, others] =
        [&ratios, &tails, &cpu, &rates, &others].map(|values| ValueSpread::of(values));
    if size.is_long && ratio.median < RATE_BAR {
        violations.push(format!(
            "{:.3} of the calls of a host without engines; the bar is {RATE_BAR}",
            ratio.median
        ));
    }
    let measured = format!(
        "{ratio:.3} of the calls/s of a host without ({:.0}), p99 {tail}, processor time per call {cpu:.3}; {} clients, \
         {} rounds, other programs use {:.2} processors",
        rate.median,
        size.clients,
        rounds(size),
        others.median
    );
    let figures = json!({
        "rate_ratio": ratio.to_json(), "p99_ratio": tail.to_json(), "cpu_ratio": cpu.to_json(), "rate_without": rate.to_json(),
        "other_processors": others.to_json(), "rounds": ratios,
    });
    Ok((FleetClaim::new("F9", "calls of 2026-07-28 at a node with engines", measured, violations), figures))
}

/// Calls of a session at its owner and at another node, one at a time, in turn.
async fn compare_forwards(cluster: &NodeCluster, size: RunSize) -> Result<(FleetClaim, Value)> {
    let (owner, other) = (&cluster.nodes[0], &cluster.nodes[1]);
    let session = open_session(&target(owner.port()), &mut KeptConnection::open(owner.port()).await?).await?;
    let mut groups = ProcessGroups::default();
    groups.add("owner", vec![owner.pid()]);
    let run = async |port: u16, length: Duration| {
        let sessions = Arc::from([session.clone()]);
        CallLoad { target: target(port), sessions, clients: 1, warm: WARM / 5, length }.run(&groups).await
    };
    let (mut added, mut added_tail, mut at_owner, mut violations) = (vec![], vec![], vec![], vec![]);
    let (mut cpu_at_owner, mut cpu_forwarded) = (0.0, 0.0);
    let ports = [owner.port(), other.port(), other.port(), owner.port()];
    for port in [owner.port(), other.port()] {
        run(port, WARM).await?;
    }
    for _ in 0..rounds(size) {
        let mut results = Vec::new();
        for port in ports {
            let result = run(port, size.length / 2).await?;
            violations.extend(result.violations("calls of a session"));
            results.push(result);
        }
        let merged = |one: usize, two: usize| {
            let mut times = [&results[one].times[..], &results[two].times].concat();
            times.sort_unstable();
            times
        };
        let (near, far) = (merged(0, 3), merged(1, 2));
        let micros = |times: &[u64], share: f64| quantile(times, share) as f64 / 1e3;
        at_owner.push(micros(&near, 0.5));
        added.push(micros(&far, 0.5) - micros(&near, 0.5));
        added_tail.push(micros(&far, 0.99) - micros(&near, 0.99));
        let of = |one: usize, two: usize, times: &[u64]| {
            (seconds_of(&results[one], "owner") + seconds_of(&results[two], "owner"))
                / times.len().max(1) as f64
        };
        cpu_at_owner += of(0, 3, &near);
        cpu_forwarded += of(1, 2, &far);
    }
    let [added, added_tail, at_owner] =
        [&added, &added_tail, &at_owner].map(|values| ValueSpread::of(values));
    if cpu_forwarded < OWNER_SHARE * cpu_at_owner {
        violations
            .push("the run shows nothing: calls at the other node are no work for the owner".to_owned());
    }
    if size.is_long && added.median > FORWARD_BAR.as_micros() as f64 {
        violations.push(format!(
            "+{:.0} µs at the median; the bar is {} µs",
            added.median,
            FORWARD_BAR.as_micros()
        ));
    }
    let measured = format!(
        "+{added:.0} µs at the median of {at_owner:.0} µs, +{added_tail:.0} µs at p99; one call in flight, {} rounds",
        rounds(size)
    );
    let figures = json!({
        "added_p50_us": added.to_json(), "added_p99_us": added_tail.to_json(), "owner_p50_us": at_owner.to_json(),
        "owner_cpu_share": cpu_forwarded / cpu_at_owner.max(f64::EPSILON),
    });
    Ok((FleetClaim::new("F9", "a forwarded call beside one at the owner", measured, violations), figures))
}

/// Processor time of a cluster.
#[derive(Debug)]
struct ProcessorTime {
    measured: String,
    violations: Vec<String>,
    figures: Value,
}

/// Measures a cluster without calls, then with calls of each era through the balancer.
async fn measure_processor(
    cluster: &NodeCluster,
    server: &LoadServer,
    size: RunSize,
    name: &str,
    table: &mut FigureTable,
) -> Result<ProcessorTime> {
    let (groups, target) = (groups(cluster, server), target(cluster.balancer.port()));
    let before = groups.snapshot();
    sleep(size.length).await;
    let idle = LoadResult {
        cpu: groups.snapshot().since(&before),
        seconds: size.length.as_secs_f64(),
        ..LoadResult::default()
    };
    table.add(row(&format!("{name}, no calls"), &idle));
    let mut figures = json!({ "idle_cpu_s": idle.to_json()["cpu_s"] });
    let (mut violations, mut parts) = (Vec::new(), Vec::new());
    for (era, count) in [("2026-07-28", 0), ("sessions", size.clients)] {
        let mut sessions = Vec::new();
        for _ in 0..count {
            sessions.push(open_session(&target, &mut KeptConnection::open(target.port).await?).await?);
        }
        let load = CallLoad {
            target: target.clone(),
            sessions: Arc::from(sessions),
            clients: size.clients,
            warm: WARM,
            length: size.length,
        };
        let commands = redis_commands(cluster);
        let result = load.run(&groups).await?;
        let commands =
            redis_commands(cluster).saturating_sub(commands) as f64 / result.answered.max(1) as f64;
        violations.extend(result.violations(&format!("{name}, {era}")));
        table.add(row(&format!("{name}, {era}"), &result));
        parts.push(format!("{commands:.1} commands and {} for a call of {era}", engines_of_a_call(&result)));
        figures[era] = result.to_json();
        figures[era]["redis_commands_per_call"] = json!(commands);
    }
    Ok(ProcessorTime { measured: format!("engines of {name}: {}", parts.join(", ")), violations, figures })
}

/// Row of the table: seconds and, with calls, the time for each call.
fn row(name: &str, result: &LoadResult) -> Vec<String> {
    let mut row = vec![name.to_owned()];
    if result.times.is_empty() {
        row.extend(["–", "–", "–"].map(str::to_owned));
    } else {
        row.push(format!("{:.0}", result.rate()));
        row.extend([0.5, 0.99].map(|share| crate::figures::time(result.quantile(share))));
    }
    for group in GROUPS {
        let mut cell = format!("{:.2}", seconds_of(result, group));
        if !result.times.is_empty() {
            cell.push_str(&format!(" ({})", result.cpu_of_a_call(group)));
        }
        row.push(cell);
    }
    row
}

fn engines_of_a_call(result: &LoadResult) -> String {
    let seconds = seconds_of(result, "Redis") + seconds_of(result, "PostgreSQL");
    format!("{:.0} µs", seconds * 1e6 / result.answered.max(1) as f64)
}

fn seconds_of(result: &LoadResult, group: &str) -> f64 {
    result.cpu.iter().find(|(name, _)| *name == group).map_or(0.0, |(_, seconds)| *seconds)
}

/// Number of commands that Redis has had.
fn redis_commands(cluster: &NodeCluster) -> u64 {
    let Some(redis) = &cluster.redis else { return 0 };
    let text: String = redis.command(&["INFO", "stats"]);
    let line = text.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

fn rounds(size: RunSize) -> u64 {
    size.interval.as_secs().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_a_cell_for_each_column() {
        let result = LoadResult {
            times: vec![1_000_000; 10],
            answered: 10,
            seconds: 1.0,
            cpu: vec![("nodes", 0.5), (LOAD, 0.25)],
            ..LoadResult::default()
        };
        let cells = row("x", &result);
        assert_eq!(cells.len(), 4 + GROUPS.len());
        assert_eq!((&*cells[1], &*cells[4]), ("10", "0.50 (50000 µs)"));
        assert_eq!(row("x", &LoadResult::default())[1], "–");
    }
}
