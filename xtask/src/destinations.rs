//! `cargo xtask destinations`: the rules about destinations, judged by readers that are not ours.
//!
//! Spellings of hosts, URLs and paths (`tools/destinations/spellings.toml`) are given to Python, Node, curl and shells, and it is
//! seen which listeners, names and files they reach. Where a reader reaches what a rule denies, or something else than what a
//! rule allows, the program may not have said `allow`.

mod fixture;
mod spellings;
mod verdicts;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::BuildOptions;
use crate::process;
use crate::report::{PartOutcome, say};
use crate::tools::{NodeTools, PythonTools, ToolVersions};
use crate::{cargo, paths};
use fixture::DestinationFixture;
use spellings::{DestinationKind, DestinationRule, DestinationSpelling};
use verdicts::{DestinationTally, ProgramDecision, ReachedPlaces};

/// Time limit of one kind of readers, or of the program, for all spellings.
const LIMIT: Duration = Duration::from_secs(300);

/// Minimum number of spellings.
const MIN_SPELLINGS: usize = 300;

/// Readers, each with the minimum number of spellings by which it must reach something. Silence is not taken for
/// safety.
const READERS: [(&str, usize); 12] = [
    ("urllib", 50),
    ("requests", 50),
    ("httpx", 50),
    ("host:port", 20),
    ("fetch", 50),
    ("URL and http", 50),
    ("url.parse and http", 50),
    ("curl", 50),
    ("curl --globoff", 2),
    ("cat", 20),
    ("sh -c cat TEXT", 20),
    ("bash -c TEXT", 20),
];

/// Runs the chore.
pub(crate) fn run(options: &BuildOptions) -> Result<()> {
    if !options.no_build {
        cargo::build("hospes-cli")?;
    }
    part().into_result()
}

/// Runs the chore as a part of `cargo xtask test`; the program is already built.
pub(crate) fn part() -> PartOutcome {
    let ready = || -> Result<_> {
        let versions = ToolVersions::read()?;
        for command in ["curl", "bash"] {
            versions.provide(command)?;
        }
        Ok((NodeTools::ready()?, PythonTools::ready()?, DestinationFixture::new()?))
    };
    let (node, python, world) = match ready() {
        Ok(ready) => ready,
        Err(error) => return PartOutcome::CannotRun(format!("{error:#}")),
    };
    match examine(&node, &python, &world) {
        Ok(tally) => tally.outcome(),
        Err(error) => PartOutcome::Failed(format!("{error:#}")),
    }
}

fn examine(node: &NodeTools, python: &PythonTools, world: &DestinationFixture) -> Result<DestinationTally> {
    let spellings = spellings::read(&world.words())?;
    let rules = spellings::rules(&world.words())?;
    let tricky = spellings.iter().filter(|one| !one.is_honest).count();
    ensure!(tricky >= MIN_SPELLINGS, "{tricky} spellings; at least {MIN_SPELLINGS} are wanted");
    let (decisions, seen) = std::thread::scope(|scope| {
        let judged = scope.spawn(|| {
            let decisions = judge(&spellings, &rules, world)?;
            Ok::<_, anyhow::Error>((
                decisions,
                read(python_on(python, "shell.py"), DestinationKind::Paths, &spellings, world)?,
            ))
        });
        // One after the other: their listeners have the same ports, so that all are given the same texts.
        let mut seen = ReachedPlaces::default();
        let mut script = Command::new(node.program());
        script.arg(script_at("readers.mjs"));
        node.set_environment(&mut script);
        for (command, kind) in [
            (python_on(python, "readers.py"), DestinationKind::Both),
            (script, DestinationKind::Both),
            (python_on(python, "curl.py"), DestinationKind::Hosts),
        ] {
            seen.add(read(command, kind, &spellings, world)?);
        }
        let (decisions, shells) = judged.join().map_err(|_| anyhow::anyhow!("judging panicked"))??;
        seen.add(shells);
        Ok::<_, anyhow::Error>((decisions, seen))
    })?;
    for (reader, least) in READERS {
        let reached = seen.count(reader);
        ensure!(reached >= least, "{reader} reached something by {reached} spellings; {least} are expected");
    }
    let tally = verdicts::compare(&spellings, &rules, &seen, &decisions);
    let naive =
        verdicts::compare(&spellings, &rules, &seen, &verdicts::naive_decisions(&spellings, &rules, world));
    say!("{}", tally.shown(&seen));
    say!("a naive judge, which looks at the text alone, is found guilty {} times", naive.faults.len());
    ensure!(
        naive.faults.len() > 200,
        "a naive judge has to be found guilty more often: the readers show too little"
    );
    Ok(tally)
}

fn script_at(name: &str) -> std::path::PathBuf {
    paths::root().join("tools/destinations").join(name)
}

fn python_on(python: &PythonTools, name: &str) -> Command {
    python.script(&script_at(name))
}

/// Gives the spellings of a kind to readers; what they reached, by the spellings' numbers.
fn read(
    mut command: Command,
    kind: DestinationKind,
    spellings: &[DestinationSpelling],
    world: &DestinationFixture,
) -> Result<ReachedPlaces> {
    let script = command.get_args().next().map(|script| Path::new(script).to_owned()).unwrap_or_default();
    let name = script.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let chosen: Vec<usize> = (0..spellings.len()).filter(|&at| spellings[at].kind.is_for(kind)).collect();
    let texts: Vec<&str> = chosen.iter().map(|&at| spellings[at].text.as_str()).collect();
    let networked: Vec<bool> =
        chosen.iter().map(|&at| spellings[at].kind != DestinationKind::Paths).collect();
    let file = world.folder.join(format!("{name}.json"));
    fs::write(&file, world.described(&texts, &networked).to_string())?;
    command.arg(&file).env_remove("NODE_OPTIONS");
    for variable in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(variable).env_remove(variable.to_uppercase());
    }
    let done =
        process::run(command, &format!("destinations {name}"), LIMIT)?.success().context(name.clone())?;
    let mut seen = ReachedPlaces::default();
    let mut is_whole = false;
    for line in done.stdout.lines() {
        let said: Value = serde_json::from_str(line).with_context(|| format!("{name}: {line}"))?;
        is_whole |= said.get("tries").is_some();
        if let Some(at) = said["text"].as_u64() {
            let at = chosen.get(usize::try_from(at)?).with_context(|| format!("{name}: no text {at}"))?;
            let reader = said["reader"].as_str().unwrap_or_default();
            for place in said["reached"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                seen.reached(*at, reader, place);
            }
        }
    }
    ensure!(is_whole, "{name} did not come to its end:\n{}", done.stderr);
    Ok(seen)
}

/// Returns the program's decision about each spelling by each rule; `None` if the rule is of another kind.
fn judge(
    spellings: &[DestinationSpelling],
    rules: &[DestinationRule],
    world: &DestinationFixture,
) -> Result<Vec<Vec<Option<ProgramDecision>>>> {
    let (policy, calls) = (world.folder.join("policy.toml"), world.folder.join("calls.jsonl"));
    fs::write(&policy, rules.iter().map(DestinationRule::written).collect::<String>())?;
    let mut asked = Vec::new();
    let mut lines = String::new();
    for (at, spelling) in spellings.iter().enumerate() {
        for (number, rule) in rules.iter().enumerate().filter(|(_, rule)| spelling.kind.is_for(rule.kind)) {
            asked.push((at, number));
            let call = json!({ "server": rule.server, "tool": "t", "arguments": { "x": spelling.text } });
            lines.push_str(&format!("{call}\n"));
        }
    }
    fs::write(&calls, lines)?;
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$1\" policy batch --policy \"$2\" < \"$3\"", "judge"]);
    command.arg(paths::program("hospes")?).arg(&policy).arg(&calls);
    world.dress(&mut command);
    let done =
        process::run(command, "destinations judge", LIMIT)?.success().context("hospes policy batch")?;
    let mut decisions = vec![vec![None; rules.len()]; spellings.len()];
    let answers: Vec<&str> = done.stdout.lines().collect();
    ensure!(answers.len() == asked.len(), "{} answers to {} calls", answers.len(), asked.len());
    for ((at, number), answer) in asked.into_iter().zip(answers) {
        let answer: Value = serde_json::from_str(answer)?;
        let decision = answer["decision"].as_str().and_then(ProgramDecision::read);
        decisions[at][number] = Some(decision.with_context(|| format!("no decision: {answer}"))?);
    }
    Ok(decisions)
}
