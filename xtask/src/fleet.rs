//! `cargo xtask fleet`: three nodes of `hospes up` behind HAProxy, round robin without stickiness, with a real Redis and a
//! real PostgreSQL. Nodes are killed and links are cut while clients of both eras make calls.
//!
//! The fleet, the clients and the history checker are in `tests/fleet`; this starts them and prints what they show.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use jiff::Zoned;
use serde_json::Value;

use crate::bridge::RevisionServers;
use crate::process::{self, BackgroundServer};
use crate::report::{PartOutcome, say, table};
use crate::tools::{PythonTools, ToolVersions};
use crate::{BuildOptions, bridge, cargo, conformance, paths};

/// Program of `tests/fleet`.
const PROGRAM: &str = "hospes-fleet-acceptance";

/// Commands of the engines, of the load balancer and of what moves a clock, as `tools/versions.toml` names them.
const ENGINES: [&str; 4] = ["redis-server", "/usr/lib/postgresql/15/bin/postgres", "haproxy", "faketime"];

/// Commands of what chooses the primary of PostgreSQL, which is tried in the long form of F7 alone.
const PATRONI: [&str; 2] = ["patroni", "etcd"];

/// Time for the start of a fleet, on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Time that a run may take besides its length.
const RUN_GRACE: Duration = Duration::from_secs(240);

/// Time that the run with Patroni may take besides its length: four fleets, of which each has databases to start.
const PATRONI_GRACE: Duration = Duration::from_secs(15 * 60);

/// Time for a part that measures, with the start of all that it measures.
const MEASURE_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Part of the acceptance of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FleetPart {
    /// The official server suites and the rows of older revisions of the bridge, through the balancer.
    #[value(name = "F1")]
    Suites,
    /// Killed nodes.
    #[value(name = "F2")]
    Kills,
    /// Nodes that are replaced one after the other.
    #[value(name = "F3")]
    Rolls,
    /// A node without Redis, then nodes without each other.
    #[value(name = "F4")]
    Cuts,
    /// A slow Redis.
    #[value(name = "F5")]
    Delays,
    /// Redis and PostgreSQL gone.
    #[value(name = "F6")]
    Outages,
    /// The loss of the primary of PostgreSQL.
    #[value(name = "F7")]
    Failover,
    /// A node whose clock is ahead.
    #[value(name = "F8")]
    Clocks,
    /// Cost of engines, forwarding and nodes.
    #[value(name = "F9")]
    Cost,
    /// Many sessions with open streams, beside another gateway.
    #[value(name = "F10")]
    Crowd,
}

/// Parts in the order in which they run, with their names.
const PARTS: [(FleetPart, &str); 10] = [
    (FleetPart::Suites, "F1"),
    (FleetPart::Kills, "F2"),
    (FleetPart::Rolls, "F3"),
    (FleetPart::Cuts, "F4"),
    (FleetPart::Delays, "F5"),
    (FleetPart::Outages, "F6"),
    (FleetPart::Failover, "F7"),
    (FleetPart::Clocks, "F8"),
    (FleetPart::Cost, "F9"),
    (FleetPart::Crowd, "F10"),
];

/// Options of `cargo xtask fleet`.
#[derive(Debug, Args)]
pub(crate) struct FleetOptions {
    /// Parts to run; all by default.
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    only: Vec<FleetPart>,
    /// Runs the long form: more clients, for minutes, and with times that are asserted.
    #[arg(long)]
    long: bool,
    #[command(flatten)]
    build: BuildOptions,
}

/// One line of the table.
#[derive(Debug)]
struct FleetClaim {
    part: String,
    claim: String,
    measured: String,
    violations: Vec<String>,
}

/// Runs the chore.
pub(crate) fn run(options: &FleetOptions) -> Result<()> {
    if !options.build.no_build {
        // In one build, as the tests do: each package alone has other features, and would be compiled anew.
        cargo::run(&["build", "--quiet", "--workspace", "--bins"]).into_result()?;
    }
    provide_engines()?;
    examine(&options.only, options.long).into_result()
}

/// Parts that run with the tests. F1 runs there against one host; the others take too long for each change.
const TESTED: [FleetPart; 5] =
    [FleetPart::Kills, FleetPart::Rolls, FleetPart::Cuts, FleetPart::Delays, FleetPart::Clocks];

/// Runs the short form of some parts as a part of `cargo xtask test`; the programs are already built. As other tests do
/// there, one that fails runs once more.
pub(crate) fn part() -> PartOutcome {
    if !cfg!(target_os = "linux") {
        return PartOutcome::Passed("nodes are tried on Linux alone".to_owned());
    }
    if let Err(error) = provide_engines() {
        return PartOutcome::CannotRun(format!("{error:#}"));
    }
    let mut again = 0;
    for part in TESTED {
        if let PartOutcome::Failed(why) = examine(&[part], false) {
            say!("{part:?}: {why}; it runs once more");
            again += 1;
            if let PartOutcome::Failed(why) = examine(&[part], false) {
                return PartOutcome::Failed(format!("{part:?}: {why}, twice"));
            }
        }
    }
    PartOutcome::Passed(format!("{} parts, {again} of them at the second try", TESTED.len()))
}

/// Installs the engines and the load balancer if they are missing.
pub(crate) fn provide_engines() -> Result<()> {
    let versions = ToolVersions::read()?;
    ENGINES.iter().try_for_each(|command| versions.provide(command))
}

fn examine(only: &[FleetPart], is_long: bool) -> PartOutcome {
    let begun = Instant::now();
    let mut claims = Vec::new();
    let folder = match new_folder() {
        Ok(folder) => folder,
        Err(error) => return PartOutcome::Failed(format!("{error:#}")),
    };
    for (part, name) in PARTS {
        if !only.is_empty() && !only.contains(&part) {
            continue;
        }
        let shown = match part {
            FleetPart::Suites => examine_suites(&folder),
            FleetPart::Cost | FleetPart::Crowd => measure(name, &folder, size_of(part, is_long), is_long),
            FleetPart::Failover if is_long => examine_failover(&folder),
            part => check(name, &folder, size_of(part, is_long), is_long),
        };
        match shown {
            Ok(shown) => claims.extend(shown),
            Err(error) => claims.push(claim(name, "the run ends", "it did not", vec![format!("{error:#}")])),
        }
    }
    print_table(&claims, &folder);
    let failed = claims.iter().filter(|claim| !claim.violations.is_empty()).count();
    match failed {
        0 => PartOutcome::Passed(format!("{} claims in {} s", claims.len(), begun.elapsed().as_secs())),
        _ => PartOutcome::Failed(format!("{failed} of {} claims", claims.len())),
    }
}

/// Number of clients, seconds, and seconds of an interval: between kills, of a long call, of a cut or of an outage. The
/// seconds of F5 are those of all delays together, those of F7 are of each failover. F9: clients, seconds of a measurement,
/// rounds. F10: sessions, seconds of a measurement, seconds for opening them.
fn size_of(part: FleetPart, is_long: bool) -> [u64; 3] {
    match (part, is_long) {
        (FleetPart::Suites, _) => [0, 0, 0],
        (FleetPart::Kills, false) => [24, 28, 6],
        (FleetPart::Kills, true) => [500, 300, 10],
        (FleetPart::Rolls, false) => [12, 34, 4],
        (FleetPart::Rolls, true) => [40, 600, 25],
        (FleetPart::Cuts, false) => [16, 22, 4],
        (FleetPart::Cuts, true) => [30, 90, 30],
        (FleetPart::Delays, false) => [6, 12, 1],
        (FleetPart::Delays, true) => [20, 120, 1],
        (FleetPart::Outages, false) => [12, 57, 5],
        (FleetPart::Outages, true) => [30, 180, 30],
        (FleetPart::Failover, false) => [6, 8, 1],
        (FleetPart::Failover, true) => [20, 60, 1],
        (FleetPart::Clocks, _) => [1, 1, 1],
        (FleetPart::Cost, false) => [16, 1, 2],
        (FleetPart::Cost, true) => [16, 4, 7],
        (FleetPart::Crowd, false) => [300, 2, 60],
        (FleetPart::Crowd, true) => [10_000, 15, 400],
    }
}

/// F1: a fleet for each suite, since each has servers of its own.
fn examine_suites(folder: &Path) -> Result<Vec<FleetClaim>> {
    let mut claims = Vec::new();
    // One server for all nodes, since a test changes it by one request and looks at it by the next.
    let server = conformance::serve_everything()?;
    let (_, alone) = examine_suite(&folder.join("F1-one-host"), &server.url, 0)?;
    let (scenarios, failures) = examine_suite(&folder.join("F1-suites"), &server.url, 3)?;
    let measured = format!(
        "{} of {scenarios} scenarios; {} at one host",
        scenarios.saturating_sub(failures.len()),
        scenarios.saturating_sub(alone.len())
    );
    let is_new = |failure: &String| !alone.iter().any(|known| check_of(known) == check_of(failure));
    let failures = failures.into_iter().filter(is_new).collect();
    claims.push(claim("F1", "official suites pass through the balancer as at one host", &measured, failures));
    let rows = folder.join("F1-bridge");
    let servers = RevisionServers::start(&rows)?;
    let fleet = start_fleet(&rows, &servers.config, 3)?;
    let (tried, failures) = bridge::apply_legacy_rows(&servers, &fleet.url)?;
    fleet.stop()?;
    let measured = format!("{} of {tried} behaviours", tried.saturating_sub(failures.len()));
    claims.push(claim("F1", "bridge rows of older revisions hold", &measured, failures));
    Ok(claims)
}

/// Runs the official suites against a fleet, or one host without nodes. Returns the number of scenarios, and what failed.
fn examine_suite(folder: &Path, server: &str, nodes: usize) -> Result<(usize, Vec<String>)> {
    fs::create_dir_all(folder)?;
    let config = folder.join("servers.toml");
    fs::write(&config, format!("[servers.everything]\nurl = \"{server}\"\n"))?;
    let fleet = start_fleet(folder, &config, nodes)?;
    let results = conformance::server_at(&format!("{}/everything", fleet.url))?;
    fleet.stop()?;
    Ok(results)
}

/// Returns the scenario and the check of a failure, without what was seen.
fn check_of(failure: &str) -> Vec<&str> {
    failure.split(": ").take(2).collect()
}

/// Starts a fleet whose nodes have the servers of a configuration file; without nodes, one host.
fn start_fleet(folder: &Path, config: &Path, nodes: usize) -> Result<BackgroundServer> {
    let mut command = command()?;
    command.env("HOSPES_FLEET_NODES", nodes.to_string());
    command.arg("up").arg(folder).arg(config);
    BackgroundServer::start(command, "fleet up", START_LIMIT)
}

/// F7 in its long form: the replica is promoted by hand, then by Patroni.
fn examine_failover(folder: &Path) -> Result<Vec<FleetClaim>> {
    let size = size_of(FleetPart::Failover, true);
    let mut claims = check("F7", folder, size, true)?;
    let versions = ToolVersions::read()?;
    PATRONI.iter().try_for_each(|command| versions.provide(command))?;
    claims.extend(check_within("F7-patroni", folder, size, true, PATRONI_GRACE)?);
    Ok(claims)
}

/// Runs a part with clients, and reads its claims.
fn check(part: &str, folder: &Path, size: [u64; 3], is_asserted: bool) -> Result<Vec<FleetClaim>> {
    check_within(part, folder, size, is_asserted, RUN_GRACE)
}

/// Runs a part as [`check`] does, with another time besides its length.
fn check_within(
    part: &str,
    folder: &Path,
    size: [u64; 3],
    is_asserted: bool,
    grace: Duration,
) -> Result<Vec<FleetClaim>> {
    let mut command = command()?;
    command.args(["check", part]).arg(folder.join(part)).args(size.map(|number| number.to_string()));
    if is_asserted {
        command.arg("assert");
    }
    let limit = grace + Duration::from_secs(2 * size[1]);
    let done = process::run(command, &format!("fleet {part}"), limit)?.success()?;
    done.stdout.lines().map(read_claim).collect()
}

/// Runs a part that measures, and prints its tables. In the long form, it is one of release programs, whose bars are
/// asserted.
fn measure(part: &str, folder: &Path, size: [u64; 3], is_long: bool) -> Result<Vec<FleetClaim>> {
    let mut command = command()?;
    if is_long {
        command = Command::new(release_program(PROGRAM)?);
        let measured =
            env::var_os("HOSPES_PROGRAM").map_or_else(|| release_program("hospes"), |path| Ok(path.into()));
        command.env("HOSPES_PROGRAM", measured?);
    }
    command.env("HOSPES_PEER_PACKAGES", PythonTools::gateway()?.packages());
    command.args(["check", part]).arg(folder.join(part)).args(size.map(|number| number.to_string()));
    if is_long {
        command.arg("assert");
    }
    let done = process::run(command, &format!("fleet {part}"), MEASURE_LIMIT)?.success()?;
    let (tables, claims): (Vec<_>, Vec<_>) =
        done.stdout.lines().partition(|line| line.starts_with("{\"table\""));
    for line in tables {
        print_figures(line)?;
    }
    claims.into_iter().map(read_claim).collect()
}

/// Returns a program of a release build, which is not made here: it takes far longer than the rest.
fn release_program(name: &str) -> Result<PathBuf> {
    let program = paths::target()?.join("release").join(name);
    if !program.is_file() {
        bail!("{} is missing: run `cargo build --release --workspace --bins`", program.display());
    }
    Ok(program)
}

/// Prints a table with its title.
fn print_figures(line: &str) -> Result<()> {
    let said: Value = serde_json::from_str(line).with_context(|| format!("not a table: {line}"))?;
    let rows = serde_json::from_value::<Vec<Vec<String>>>(said["rows"].clone())?;
    say!("{}:\n{}\n", said["table"].as_str().unwrap_or_default(), table(&rows));
    Ok(())
}

fn command() -> Result<Command> {
    let mut command = Command::new(paths::program(PROGRAM)?);
    command.env("HOSPES_PROGRAM", paths::program("hospes")?);
    Ok(command)
}

fn read_claim(line: &str) -> Result<FleetClaim> {
    let said: Value = serde_json::from_str(line).with_context(|| format!("not a claim: {line}"))?;
    let text = |key: &str| said[key].as_str().map(str::to_owned).with_context(|| format!("no {key}: {line}"));
    let violations = said["violations"].as_array().into_iter().flatten();
    Ok(FleetClaim {
        part: text("part")?,
        claim: text("claim")?,
        measured: text("measured")?,
        violations: violations.filter_map(|text| text.as_str().map(str::to_owned)).collect(),
    })
}

fn claim(part: &str, claim: &str, measured: &str, violations: Vec<String>) -> FleetClaim {
    FleetClaim { part: part.to_owned(), claim: claim.to_owned(), measured: measured.to_owned(), violations }
}

/// Creates a folder for this run below `target/fleet`.
fn new_folder() -> Result<PathBuf> {
    let folder = paths::target()?.join("fleet").join(Zoned::now().strftime("%Y%m%d-%H%M%S").to_string());
    if folder.exists() {
        bail!("{} exists: another run has just begun", folder.display());
    }
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

fn print_table(claims: &[FleetClaim], folder: &Path) {
    let mut rows = vec![["", "claim", "result", "measured"].map(str::to_owned)];
    for claim in claims {
        let result = if claim.violations.is_empty() { "ok" } else { "FAILED" };
        rows.push([claim.part.clone(), claim.claim.clone(), result.to_owned(), claim.measured.clone()]);
    }
    say!("{}", table(&rows));
    let broken: Vec<&FleetClaim> = claims.iter().filter(|claim| !claim.violations.is_empty()).collect();
    for claim in &broken {
        say!("\n{} {}:", claim.part, claim.claim);
        for violation in &claim.violations {
            say!("  {violation}");
        }
    }
    if !broken.is_empty() {
        say!("\nLook at node*/log, haproxy.log and effects (lines KEY PROCESS) in {}", folder.display());
    }
}
