//! `cargo xtask bridge`: `hospes up` and `hospes stdio` between applications and servers of every pair of revisions.
//!
//! Both ends are programs of this project that speak exactly one revision. They use real transports: stdio and
//! Streamable HTTP, and HTTP+SSE for the revision that defines it. `docs/bridging.md` lists what crosses and what is
//! lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};

use crate::BuildOptions;
use crate::process::{self, BackgroundServer};
use crate::report::{PartOutcome, say, table};
use crate::{cargo, paths};

const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
/// The revision whose own transport over HTTP is HTTP+SSE.
const OLDEST: &str = REVISIONS[0];
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of one application for all checks with every server.
const APPLICATION_TIMEOUT: Duration = Duration::from_secs(300);

/// Results of one pair of revisions.
#[derive(Clone, Debug, Default)]
struct RevisionPair {
    tried: usize,
    held: usize,
    /// Number of successful checks that lose data as documented.
    lossy: usize,
}

/// Runs the chore.
pub(crate) fn run(options: &BuildOptions) -> Result<()> {
    if !options.no_build {
        cargo::build("hospes-cli")?;
        cargo::build("hospes-bridge")?;
    }
    part().into_result()
}

/// Runs the chore as a part of `cargo xtask test`; the programs are already built.
pub(crate) fn part() -> PartOutcome {
    let mut cells = BTreeMap::new();
    let mut failures = Vec::new();
    if let Err(error) = examine(&mut cells, &mut failures) {
        failures.push(format!("{error:#}"));
    }
    say!("application ↓ server →\n{}", format_table(&cells));
    say!("\nbehaviours that hold / tried (lost as docs/bridging.md says)");
    for failure in &failures {
        say!("  {failure}");
    }
    let tried: usize = cells.values().map(|cell| cell.tried).sum();
    match failures.len() {
        0 => PartOutcome::Passed(format!("{} pairs, {tried} behaviours", cells.len())),
        failed => PartOutcome::Failed(format!("{failed} of {tried}: {}", failures[0])),
    }
}

fn examine(cells: &mut BTreeMap<(usize, usize), RevisionPair>, failures: &mut Vec<String>) -> Result<()> {
    let folder = paths::tools()?.join("bridge");
    let servers = RevisionServers::start(&folder)?;
    let hospes = paths::program("hospes")?;
    let config = servers.config.to_string_lossy().into_owned();
    let mut command = Command::new(&hospes);
    command.args([
        "up",
        "--config",
        &config,
        "--listen",
        "127.0.0.1:0",
        // Nobody answers at a console, where questions would wait for a person.
        "--console",
        "off",
        "--start-wait",
        "60",
        "--pins",
        "off",
    ]);
    let gateway = BackgroundServer::start(isolate_command(command, &folder), "bridge up", START_LIMIT)?;
    let stdio = format!("'{}' stdio --config '{config}' --start-wait 60 --pins off", hospes.display());
    for (application, revision) in REVISIONS.iter().enumerate() {
        let mut fronts = vec![("HTTP", gateway.url.clone()), ("stdio", stdio.clone())];
        if *revision == OLDEST {
            fronts.push(("HTTP+SSE", sse(&gateway.url)));
        }
        for (front, target) in &fronts {
            servers.apply(application, front, target, cells, failures)?;
        }
    }
    gateway.stop()?;
    let expected = REVISIONS.len() * REVISIONS.len();
    ensure!(cells.len() == expected, "{} of {expected} pairs were tried", cells.len());
    Ok(())
}

/// Runs the applications of the revisions with sessions against a fleet at `url`, whose servers these are. Returns the
/// number of behaviours, and those that do not hold.
pub(crate) fn apply_legacy_rows(servers: &RevisionServers, url: &str) -> Result<(usize, Vec<String>)> {
    let (mut cells, mut failures) = (BTreeMap::new(), Vec::new());
    for (application, revision) in REVISIONS.iter().enumerate().take(REVISIONS.len() - 1) {
        servers.apply(application, "HTTP", url, &mut cells, &mut failures)?;
        if *revision == OLDEST {
            servers.apply(application, "HTTP+SSE", &sse(url), &mut cells, &mut failures)?;
        }
    }
    Ok((cells.values().map(|cell| cell.tried).sum(), failures))
}

/// Servers of each revision over each of its transports, and the configuration file that names them.
pub(crate) struct RevisionServers {
    pub(crate) config: PathBuf,
    folder: PathBuf,
    names: String,
    /// Those that listen; the others are started by the gateway.
    _listening: Vec<BackgroundServer>,
}

impl RevisionServers {
    /// Starts the servers that listen, and writes the file to a folder.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        let bridge = paths::program("hospes-bridge")?;
        let mut servers = Vec::new();
        let mut entries = Map::new();
        for revision in REVISIONS {
            let short = revision.replace('-', "");
            let name = format!("r{short}stdio");
            entries.insert(name.clone(), json!({ "command": bridge, "args": ["serve", revision, name] }));
            let name = format!("r{short}http");
            let mut command = Command::new(&bridge);
            command.args(["serve", revision, &name, "127.0.0.1:0"]);
            let server = BackgroundServer::start(command, &format!("bridge server {revision}"), START_LIMIT)?;
            entries.insert(name, json!({ "type": "http", "url": server.url }));
            servers.push(server);
            if revision == OLDEST {
                let name = format!("r{short}sse");
                let mut command = Command::new(&bridge);
                command.args(["serve", revision, &name, "127.0.0.1:0"]);
                let server = BackgroundServer::start(command, "bridge server sse", START_LIMIT)?;
                entries.insert(name, json!({ "type": "sse", "url": sse(&server.url) }));
                servers.push(server);
            }
        }
        let names = entries.keys().cloned().collect::<Vec<_>>().join(",");
        let config = folder.join("mcp.json");
        fs::write(&config, json!({ "mcpServers": entries }).to_string())?;
        Ok(Self { config, folder: folder.to_owned(), names, _listening: servers })
    }

    /// Runs the application of a revision against a gateway, with each server.
    fn apply(
        &self,
        application: usize,
        front: &str,
        target: &str,
        cells: &mut BTreeMap<(usize, usize), RevisionPair>,
        failures: &mut Vec<String>,
    ) -> Result<()> {
        let revision = REVISIONS[application];
        let mut command = Command::new(paths::program("hospes-bridge")?);
        command.args(["use", revision, &self.names, target]);
        let label = format!("bridge {revision} {front}");
        let done = process::run(isolate_command(command, &self.folder), &label, APPLICATION_TIMEOUT)?;
        if done.code != Some(0) {
            failures.push(format!("{revision} over {front}: {}\n{}", done.ending(), done.tail()));
        }
        for line in done.stdout.lines() {
            let said: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            count(&said, application, &format!("{revision} over {front}"), cells, failures)?;
        }
        Ok(())
    }
}

fn count(
    said: &Value,
    application: usize,
    front: &str,
    cells: &mut BTreeMap<(usize, usize), RevisionPair>,
    failures: &mut Vec<String>,
) -> Result<()> {
    let text = |key: &str| said.get(key).and_then(Value::as_str);
    let (server, behaviour) =
        (text("server").context("no server")?, text("behaviour").context("no behaviour")?);
    let is_it = |revision: &&str| server.contains(&revision.replace('-', ""));
    let position = REVISIONS.iter().position(is_it).context("no such revision")?;
    let cell = cells.entry((application, position)).or_default();
    cell.tried += 1;
    match text("failure") {
        Some(failure) => failures.push(format!("{front}, {server}: {behaviour}: {failure}")),
        None => {
            cell.held += 1;
            cell.lossy += usize::from(said.get("lossy") == Some(&Value::Bool(true)));
        }
    }
    Ok(())
}

/// Returns the URL of the HTTP+SSE endpoint beside that of Streamable HTTP.
fn sse(url: &str) -> String {
    format!("{}/sse", url.trim_end_matches("/mcp"))
}

/// Isolates a command from the configuration and the state of the user.
fn isolate_command(mut command: Command, folder: &Path) -> Command {
    command.current_dir(folder);
    for (name, below) in [
        ("HOME", "home"),
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_RUNTIME_DIR", "run"),
    ] {
        command.env(name, folder.join(below));
    }
    command.env_remove("HOSPES_LOG").env_remove("HOSPES_CONFIG");
    command
}

fn format_table(cells: &BTreeMap<(usize, usize), RevisionPair>) -> String {
    let head = ["", REVISIONS[0], REVISIONS[1], REVISIONS[2], REVISIONS[3], REVISIONS[4]].map(str::to_owned);
    let rows = REVISIONS.iter().enumerate().map(|(application, revision)| {
        std::array::from_fn(|column| match column.checked_sub(1) {
            None => (*revision).to_owned(),
            Some(server) => {
                let RevisionPair { tried, held, lossy } =
                    cells.get(&(application, server)).cloned().unwrap_or_default();
                format!("{held}/{tried} ({lossy})")
            }
        })
    });
    let rows: Vec<[String; 6]> = std::iter::once(head).chain(rows).collect();
    table(&rows)
}
