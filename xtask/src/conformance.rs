//! `cargo xtask conformance`: the official suite, an outside examiner that shares no code with us.

mod authorization;
mod sets;
mod suite;
mod verdict;

use std::collections::BTreeMap;
use std::path::{self, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};

use crate::BuildOptions;
use crate::process::BackgroundServer;
use crate::report::{PartOutcome, say, table};
use crate::tools::NodeTools;
use crate::{cargo, paths};
use sets::{ConformanceSide, RequirementSets};
use suite::{ConformanceSuite, SCRIPT};
use verdict::ScenarioVerdict;

/// Side that is examined.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ExaminedSide {
    Server,
    Client,
    Authorization,
}

/// Options of `cargo xtask conformance`.
#[derive(Debug, Args)]
pub(crate) struct ConformanceOptions {
    side: ExaminedSide,
    /// Revisions to examine; all by default.
    #[arg(long, value_delimiter = ',')]
    revision: Vec<String>,
    /// Scenarios to run; all by default.
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<String>,
    /// Address of a server that runs already.
    #[arg(long)]
    url: Option<String>,
    /// Client program, in place of the fixture.
    #[arg(long, value_name = "PROGRAM")]
    command: Option<PathBuf>,
    #[command(flatten)]
    build: BuildOptions,
}

/// Name of the previous suite's scenarios in the table.
const PREVIOUS_SUITE: &str = "suite 0.1";
const START_LIMIT: Duration = Duration::from_secs(30);

/// Selection of scenarios, and the programs they are run against.
#[derive(Debug, Default)]
struct ConformancePlan {
    /// Empty: every revision whose requirement set is concerned.
    revisions: Vec<String>,
    /// Empty: everything that is due.
    scenarios: Vec<String>,
    /// A server that runs already, in place of `hospes serve everything`.
    url: Option<String>,
    /// A client fixture in place of `hospes-conformance-client`.
    command: Option<PathBuf>,
}

impl ConformancePlan {
    /// Returns true if there is no selection. Scenarios beyond the requirement sets are then run too.
    fn is_whole(&self) -> bool {
        self.revisions.is_empty() && self.scenarios.is_empty()
    }
}

/// Runs the chore.
pub(crate) fn run(options: ConformanceOptions) -> Result<()> {
    let plan = ConformancePlan {
        revisions: options.revision,
        scenarios: options.scenario,
        url: options.url,
        command: options.command,
    };
    let build = |package: &str| if options.build.no_build { Ok(()) } else { cargo::build(package) };
    let outcome = match options.side {
        ExaminedSide::Server => {
            if plan.url.is_none() {
                build("hospes-cli")?;
            }
            server(&plan)
        }
        ExaminedSide::Client => {
            if plan.command.is_none() {
                build("hospes-conformance-client")?;
            }
            client(&plan)
        }
        ExaminedSide::Authorization => {
            build("hospes-cli")?;
            authorization_part()
        }
    };
    match outcome {
        PartOutcome::Passed(what) => {
            say!("{what}");
            Ok(())
        }
        PartOutcome::Failed(why) => bail!(why),
        PartOutcome::CannotRun(why) => bail!("could not run: {why}"),
    }
}

/// The server's half of `cargo xtask test`; the program is built.
pub(crate) fn server_part() -> PartOutcome {
    server(&ConformancePlan::default())
}

/// Both suites against a server that runs already, without a table. Returns the number of scenarios, and those that failed.
pub(crate) fn server_at(url: &str) -> Result<(usize, Vec<String>)> {
    let node = NodeTools::ready()?;
    let sets = RequirementSets::read()?;
    let plan = ConformancePlan { url: Some(url.to_owned()), ..ConformancePlan::default() };
    let results = examine_server(&plan, &ConformanceSuite { node: &node, sets: &sets })?;
    let count = results.values().map(BTreeMap::len).sum();
    Ok((count, failures_of(&results)))
}

/// The client's half; the program is built.
pub(crate) fn client_part() -> PartOutcome {
    client(&ConformancePlan::default())
}

/// The authorization server of `hospes up`; the program is built.
pub(crate) fn authorization_part() -> PartOutcome {
    examine("authorization", |suite| {
        Ok(RevisionVerdicts::from([("authorization server".to_owned(), authorization::examine(suite)?)]))
    })
}

/// Verdicts by scenario, for each revision.
type RevisionVerdicts = BTreeMap<String, BTreeMap<String, ScenarioVerdict>>;

fn server(plan: &ConformancePlan) -> PartOutcome {
    examine(ConformanceSide::Server.name(), |suite| examine_server(plan, suite))
}

fn examine_server(plan: &ConformancePlan, suite: &ConformanceSuite<'_>) -> Result<RevisionVerdicts> {
    let ours = if plan.url.is_none() { Some(serve_everything()?) } else { None };
    let url =
        plan.url.as_deref().or_else(|| ours.as_ref().map(|server| server.url.as_str())).unwrap_or_default();
    let mut results = RevisionVerdicts::new();
    for revision in revisions(plan, suite.sets, ConformanceSide::Server)? {
        let verdicts = if plan.scenarios.is_empty() {
            suite.agrees(ConformanceSide::Server, &revision)?;
            suite.server_set(url, &revision)?
        } else {
            each(&plan.scenarios, |scenario| suite.server_scenario(url, &revision, scenario))?
        };
        results.insert(revision, verdicts);
    }
    if plan.is_whole() {
        for (revision, scenarios) in suite.sets.unscored(ConformanceSide::Server) {
            let verdicts = each(scenarios, |scenario| suite.server_scenario(url, revision, scenario))?;
            results.insert(format!("{revision} unscored"), verdicts);
        }
        for (revision, count) in &suite.sets.server_all {
            results.insert(format!("{revision} all"), suite.server_all(url, Some(revision), *count)?);
        }
        let verdicts = suite.server_all(url, None, suite.sets.previous.server)?;
        results.insert(PREVIOUS_SUITE.to_owned(), verdicts);
    }
    if let Some(server) = ours {
        let said = server.said();
        if let Err(trouble) = server.stop() {
            let verdict = ScenarioVerdict::trouble(format!("{trouble:#}; it said:\n{said}"));
            results.entry("(at the end)".to_owned()).or_default().insert("shutdown".to_owned(), verdict);
        }
    }
    Ok(results)
}

/// Starts the server with one of each feature, which has to be built.
pub(crate) fn serve_everything() -> Result<BackgroundServer> {
    let mut command = Command::new(paths::program("hospes")?);
    command.args(["serve", "everything", "--http", "127.0.0.1:0"]);
    BackgroundServer::start(command, "serve everything", START_LIMIT)
}

fn client(plan: &ConformancePlan) -> PartOutcome {
    examine(ConformanceSide::Client.name(), |suite| {
        let program = plan.command.clone().map_or_else(|| paths::program("hospes-conformance-client"), Ok)?;
        let program = path::absolute(program)?;
        ensure!(program.exists(), "{} is not there", program.display());
        let mut results = RevisionVerdicts::new();
        for revision in revisions(plan, suite.sets, ConformanceSide::Client)? {
            let scenarios = if plan.scenarios.is_empty() {
                suite.agrees(ConformanceSide::Client, &revision)?;
                suite.sets.due(ConformanceSide::Client, &revision)
            } else {
                plan.scenarios.clone()
            };
            // One after another: the suite would start all clients of a set at once, which is no fair
            // examination of timing on a small machine.
            let verdicts =
                each(&scenarios, |scenario| suite.client_scenario(&program, Some(&revision), scenario))?;
            results.insert(revision, verdicts);
        }
        if plan.is_whole() {
            for (revision, scenarios) in suite.sets.unscored(ConformanceSide::Client) {
                let run = |scenario: &str| suite.client_scenario(&program, Some(revision), scenario);
                results.insert(format!("{revision} unscored"), each(scenarios, run)?);
            }
            let run = |scenario: &str| suite.client_scenario(&program, None, scenario);
            results.insert(PREVIOUS_SUITE.to_owned(), each(&suite.sets.previous.client, run)?);
        }
        Ok(results)
    })
}

fn each(
    scenarios: &[String],
    run: impl Fn(&str) -> Result<ScenarioVerdict>,
) -> Result<BTreeMap<String, ScenarioVerdict>> {
    scenarios.iter().map(|scenario| Ok((scenario.clone(), run(scenario)?))).collect()
}

/// The revisions to run at: those given, else those whose set demands what is to be run, else the newest.
fn revisions(plan: &ConformancePlan, sets: &RequirementSets, side: ConformanceSide) -> Result<Vec<String>> {
    let known = sets.revisions(side);
    if plan.scenarios.is_empty() {
        let unknown = plan.revisions.iter().find(|revision| !known.contains(revision));
        ensure!(unknown.is_none(), "no requirement set for {unknown:?}; there are {}", known.join(", "));
    }
    if !plan.revisions.is_empty() {
        return Ok(plan.revisions.clone());
    }
    let demands =
        |revision: &&String| plan.scenarios.iter().all(|s| sets.required(side, revision).contains(s));
    let demanding: Vec<String> = known.iter().filter(demands).cloned().collect();
    Ok(if demanding.is_empty() { known.into_iter().next_back().into_iter().collect() } else { demanding })
}

fn examine(side: &str, work: impl FnOnce(&ConformanceSuite<'_>) -> Result<RevisionVerdicts>) -> PartOutcome {
    let node = match NodeTools::ready() {
        Ok(node) => node,
        Err(error) => return PartOutcome::CannotRun(format!("{error:#}")),
    };
    let results =
        RequirementSets::read().and_then(|sets| work(&ConformanceSuite { node: &node, sets: &sets }));
    match results {
        Ok(results) => summary(side, &results),
        Err(error) => PartOutcome::Failed(format!("{error:#}")),
    }
}

/// Prints one table for all revisions, the troubles under it, and sums up.
fn summary(side: &str, results: &RevisionVerdicts) -> PartOutcome {
    let mut rows = vec![["set", "scenario", "checks", "result"].map(str::to_owned)];
    let troubles = failures_of(results);
    let mut sums = Vec::new();
    for (revision, verdicts) in results {
        for (scenario, verdict) in verdicts {
            let result = if verdict.is_good() { "ok" } else { "FAILED" };
            rows.push([revision.clone(), scenario.clone(), verdict.passed.to_string(), result.to_owned()]);
        }
        let good = verdicts.values().filter(|verdict| verdict.is_good()).count();
        sums.push(format!("{revision} {good}/{}", verdicts.len()));
    }
    say!("{}", table(&rows));
    if !troubles.is_empty() {
        say!(
            "\n{}\n(whole answers: tools/conformance and tools/logs below the target directory)",
            troubles.join("\n")
        );
    }
    let sum = format!("{side}: {}", sums.join(", "));
    if troubles.is_empty() { PartOutcome::Passed(sum) } else { PartOutcome::Failed(sum) }
}

/// Returns the troubles of all scenarios, shortened.
fn failures_of(results: &RevisionVerdicts) -> Vec<String> {
    let mut failures = Vec::new();
    for (revision, verdicts) in results {
        for (scenario, verdict) in verdicts {
            let troubles = verdict.troubles.iter();
            failures.extend(troubles.map(|trouble| format!("{revision} {scenario}: {}", short(trouble))));
        }
    }
    failures
}

/// Some checks quote whole messages.
fn short(trouble: &str) -> String {
    const ENOUGH: usize = 400;
    let mut cut: String = trouble.chars().take(ENOUGH).collect();
    if cut.len() < trouble.len() {
        cut.push('…');
    }
    cut
}
