//! `cargo xtask peers`: `hospes` between programs written by others. Real servers of both eras stand behind it,
//! the Inspector in front of it, once speaking the old protocol and once the new. And programs by others sign in at its authorization server.

mod application;
mod apps;
mod inspector;
mod judges;
mod python_servers;
mod server_requests;
mod upstreams;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::BuildOptions;
use crate::checks::CheckList;
use crate::process::{self, BackgroundServer};
use crate::report::PartOutcome;
use crate::tools::{NodeTools, PythonTools};
use crate::{cargo, paths};
use inspector::{InspectorEra, InspectorRunner};
use upstreams::{PeerUpstream, PeerUpstreams};

/// Options of `cargo xtask peers`.
#[derive(Debug, Args)]
pub(crate) struct PeersOptions {
    /// One group of checks.
    #[arg(long, value_parser = GROUPS)]
    only: Option<String>,
    #[command(flatten)]
    build: BuildOptions,
}

/// The groups of checks that `--only` picks one of.
const GROUPS: [&str; 4] = ["judges", "apps", "python", "fronts"];

const START_LIMIT: Duration = Duration::from_secs(30);

/// Time the first lists wait for servers that are starting, in seconds, so that a client that asks only once sees all
/// tools.
const START_WAIT_SECONDS: &str = "60";

/// Time limit for the tools of the servers behind `hospes up` to be listed. Upstreams start while the endpoint already
/// answers, so the first list may be short.
const SEEN_LIMIT: Duration = Duration::from_secs(30);

/// Runs the chore.
pub(crate) fn run(options: &PeersOptions) -> Result<()> {
    if !options.build.no_build {
        cargo::build("hospes-cli")?;
    }
    groups(options.only.as_deref()).into_result()
}

/// Runs the chore as a part of `cargo xtask test`; the program is already built.
pub(crate) fn part() -> PartOutcome {
    groups(None)
}

/// All groups of checks, or this one.
fn groups(only: Option<&str>) -> PartOutcome {
    let (node, python) = match NodeTools::ready().and_then(|node| Ok((node, PythonTools::ready()?))) {
        Ok(ready) => ready,
        Err(error) => return PartOutcome::CannotRun(format!("{error:#}")),
    };
    let mut checks = CheckList::default();
    if let Err(error) = examine(&node, &python, only, &mut checks) {
        checks.add("set-up", Err(error));
    }
    checks.outcome()
}

fn examine(node: &NodeTools, python: &PythonTools, only: Option<&str>, checks: &mut CheckList) -> Result<()> {
    let folder = scratch()?;
    for group in GROUPS.into_iter().filter(|group| only.is_none_or(|only| only == *group)) {
        match group {
            "judges" => judges::examine(node, python, &folder, checks)?,
            "apps" => apps::examine(node, &folder, checks)?,
            "python" => python_servers::examine(node, &folder, checks)?,
            _ => fronts(node, &folder, checks)?,
        }
    }
    Ok(())
}

/// Everything that is offered behind every way in, and what the servers ask.
fn fronts(node: &NodeTools, folder: &Path, checks: &mut CheckList) -> Result<()> {
    let ours =
        start(node, folder, "peers serve everything", &["serve", "everything", "--http", "127.0.0.1:0"])?;
    let PeerUpstreams { servers: upstreams, running } = PeerUpstreams::start(node, folder, &ours.url)?;
    let mut inspector = InspectorRunner::new(node, folder.to_path_buf());

    // The tool of the host itself, which is listed without a policy file.
    let mut expected = BTreeSet::from(["hospes__propose_plan".to_owned()]);
    let mut known = true;
    for upstream in &upstreams {
        checks.add(
            &format!("{} asked by us", upstream.name),
            check_own_client(node, folder, upstream, &upstream.entry),
        );
        if upstream.entry["type"] == "sse" {
            // The same without being told which transport it is.
            let bare = json!({ "url": upstream.entry["url"] });
            let answer = check_own_client(node, folder, upstream, &bare);
            checks.add(&format!("{} found and asked by us", upstream.name), answer);
        }
        inspector.add(upstream.name, upstream.entry.clone());
        let direct = inspector.tools(upstream.name, upstream.era);
        known &= direct.is_ok();
        let prefixed = |tool: &String| format!("{}__{tool}", upstream.name);
        expected.extend(direct.as_ref().into_iter().flatten().map(prefixed));
        let listed = direct.and_then(|tools| sum(&tools));
        checks.add(&format!("{} asked directly ({})", upstream.name, upstream.era.name()), listed);
    }
    ensure!(known, "not every server answers directly, so there is nothing to compare with");

    let entries = upstreams.iter().map(|upstream| (upstream.name.to_owned(), upstream.entry.clone()));
    let config = folder.join("mcp.json");
    fs::write(&config, json!({ "mcpServers": entries.collect::<serde_json::Map<_, _>>() }).to_string())?;
    let config = config.to_string_lossy().into_owned();

    let gateway = start(
        node,
        folder,
        "peers up",
        // Nobody answers at a console, where questions would wait for a person.
        &[
            "up",
            "--config",
            &config,
            "--listen",
            "127.0.0.1:0",
            "--console",
            "off",
            "--start-wait",
            START_WAIT_SECONDS,
        ],
    )?;
    inspector.add("up", json!({ "type": "streamable-http", "url": gateway.url }));
    let program = paths::program("hospes")?;
    inspector.add(
        "stdio",
        json!({ "command": program, "args": ["stdio", "--config", config, "--start-wait", START_WAIT_SECONDS] }),
    );
    let sse = json!({ "type": "sse", "url": gateway.url.replace("/mcp", "/sse") });
    inspector.add("up-sse", sse.clone());
    let doors = ["up", "stdio"].into_iter().flat_map(|front| InspectorEra::ALL.map(|era| (front, era)));
    for (front, era) in doors.chain([("up-sse", InspectorEra::Legacy)]) {
        let seen = seen(&inspector, front, era, &expected, &upstreams);
        checks.add(&format!("{front}: every tool seen ({})", era.name()), seen);
        for upstream in &upstreams {
            let (tool, arguments, part) = &upstream.call;
            let tool = format!("{}__{tool}", upstream.name);
            let answer = inspector.call(front, era, &tool, arguments);
            let answer = answer.and_then(|text| contains(&text, part));
            checks.add(&format!("{front}: {tool} called ({})", era.name()), answer);
        }
    }
    let fronts = [
        ("up", json!({ "url": gateway.url })),
        (
            "stdio",
            json!({ "command": program, "args": ["stdio", "--config", config, "--start-wait", START_WAIT_SECONDS] }),
        ),
    ];
    for (front, entry) in &fronts {
        for era in [InspectorEra::Legacy, InspectorEra::Modern] {
            server_requests::examine(node, front, entry, era, checks);
        }
    }
    // The newer era does not speak the older transport.
    server_requests::examine(node, "up-sse", &sse, InspectorEra::Legacy, checks);
    drop(running);
    checks.stop("up: stops when asked to", gateway);
    checks.stop("serve: stops when asked to", ours);
    defaults(node, folder, &mut inspector, checks)
}

/// `hospes call`, our client, without a gateway in between.
fn check_own_client(
    node: &NodeTools,
    folder: &Path,
    upstream: &PeerUpstream,
    entry: &Value,
) -> Result<String> {
    let (tool, arguments, part) = &upstream.call;
    let config = folder.join("alone.json");
    fs::write(&config, json!({ "mcpServers": { upstream.name: entry } }).to_string())?;
    let mut command = Command::new(paths::program("hospes")?);
    node.set_environment(&mut command);
    command
        .arg("call")
        .args([upstream.name, tool, "--input-json", &arguments.to_string(), "--config"])
        .arg(&config);
    isolate(&mut command, folder);
    let done = process::run(command, &format!("call {}", upstream.name), START_LIMIT)?.success()?;
    contains(&done.stdout, part)
}

/// With no configuration at all the built-in servers are there, and can be called.
fn defaults(
    node: &NodeTools,
    folder: &Path,
    inspector: &mut InspectorRunner<'_>,
    checks: &mut CheckList,
) -> Result<()> {
    let server = start(node, folder, "peers up defaults", &["up", "--listen", "127.0.0.1:0"])?;
    inspector.add("defaults", json!({ "type": "streamable-http", "url": server.url }));
    for era in InspectorEra::ALL {
        let tools = inspector.tools("defaults", era);
        let complete = tools.and_then(|tools| {
            let missing = |name: &&str| !tools.iter().any(|tool| tool.starts_with(&format!("{name}__")));
            let missing: Vec<&str> = ["files", "time", "everything"].into_iter().filter(missing).collect();
            ensure!(missing.is_empty(), "no tool of {} among {tools:?}", missing.join(", "));
            sum(&tools)
        });
        checks.add(&format!("no configuration: built-in servers seen ({})", era.name()), complete);
        let answer = inspector.call("defaults", era, "everything__test_simple_text", &json!({}));
        let answer = answer.and_then(|text| contains(&text, "simple text response"));
        checks.add(&format!("no configuration: a tool called ({})", era.name()), answer);
    }
    checks.stop("no configuration: stops when asked to", server);
    Ok(())
}

/// Waits until everything expected is listed; nothing else may be, except from servers that vary.
fn seen(
    inspector: &InspectorRunner<'_>,
    front: &str,
    era: InspectorEra,
    expected: &BTreeSet<String>,
    upstreams: &[PeerUpstream],
) -> Result<String> {
    let begun = Instant::now();
    let tools = loop {
        let tools = inspector.tools(front, era)?;
        if expected.is_subset(&tools) || begun.elapsed() > SEEN_LIMIT {
            break tools;
        }
        // Each list is a process of its own; there is nothing to be notified by.
        thread::sleep(Duration::from_millis(500));
    };
    let missing: Vec<&String> = expected.difference(&tools).collect();
    ensure!(missing.is_empty(), "not listed after {} s: {missing:?}", SEEN_LIMIT.as_secs());
    let varies =
        |tool: &str| upstreams.iter().any(|up| !up.steady && tool.starts_with(&format!("{}__", up.name)));
    let extra: Vec<&String> = tools.difference(expected).filter(|tool| !varies(tool)).collect();
    ensure!(extra.is_empty(), "listed, but by no server: {extra:?}");
    sum(&tools)
}

fn sum(tools: &BTreeSet<String>) -> Result<String> {
    ensure!(!tools.is_empty(), "lists no tools");
    Ok(format!("tools: {}", tools.len()))
}

fn contains(text: &str, part: &str) -> Result<String> {
    ensure!(text.contains(part), "answered {text:?}, not {part:?}");
    Ok(format!("{part:?}"))
}

/// Keeps a command from the user's configuration and state, in which servers of earlier runs are pinned.
fn isolate(command: &mut Command, folder: &Path) {
    command.current_dir(folder);
    command.env("XDG_CONFIG_HOME", folder.join("config")).env("XDG_STATE_HOME", folder.join("state"));
}

/// Starts `hospes`, isolated from the user's files.
fn start(node: &NodeTools, folder: &Path, label: &str, arguments: &[&str]) -> Result<BackgroundServer> {
    start_with(node, folder, label, arguments, |_| {})
}

/// Starts `hospes` with additional settings of the command.
fn start_with(
    node: &NodeTools,
    folder: &Path,
    label: &str,
    arguments: &[&str],
    set: impl FnOnce(&mut Command),
) -> Result<BackgroundServer> {
    let mut command = Command::new(paths::program("hospes")?);
    node.set_environment(&mut command);
    command.args(arguments);
    isolate(&mut command, folder);
    set(&mut command);
    BackgroundServer::start(command, label, START_LIMIT)
}

fn scratch() -> Result<PathBuf> {
    let folder = paths::tools()?.join("peers");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("emptying {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}
