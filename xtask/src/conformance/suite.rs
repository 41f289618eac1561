//! Running the official suite.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::sets::{ConformanceSide, RequirementSets};
use super::verdict::{self, ScenarioVerdict};
use crate::tools::NodeTools;
use crate::{paths, process};

pub(super) const SCRIPT: &str = "@modelcontextprotocol/conformance/dist/index.js";
const PREVIOUS: &str = "conformance-previous/dist/index.js";

/// The suite gives each scenario 30 s; a whole set takes some ten seconds when all goes well.
const SCENARIO_LIMIT: Duration = Duration::from_secs(45);
const SET_LIMIT: Duration = Duration::from_secs(600);

/// The suite, and where it writes.
pub(crate) struct ConformanceSuite<'a> {
    pub(crate) node: &'a NodeTools,
    pub(crate) sets: &'a RequirementSets,
}

impl ConformanceSuite<'_> {
    /// Checks that the suite's requirements match the file of this project.
    pub(crate) fn agrees(&self, side: ConformanceSide, revision: &str) -> Result<()> {
        let mut command = self.node.script(SCRIPT);
        command.args(["list", "--requirements", revision]);
        let listing =
            process::run(command, &format!("conformance list {revision}"), SCENARIO_LIMIT)?.success()?;
        self.sets.agrees(side, revision, &listing.stdout)
    }

    /// Runs a whole set against the server at `url`.
    pub(crate) fn server_set(&self, url: &str, revision: &str) -> Result<BTreeMap<String, ScenarioVerdict>> {
        let out = fresh(&format!("server-{revision}"))?;
        let mut command = self.node.script(SCRIPT);
        command.args(["server", "--url", url, "--requirements", revision, "-o", "."]).current_dir(&out);
        let done = process::run(command, &format!("conformance server {revision}"), SET_LIMIT)?;
        let found = verdict::read(&out)?;
        let missing = || ScenarioVerdict::trouble(format!("did not run ({})", done.ending()));
        let mut verdicts = BTreeMap::new();
        for scenario in self.sets.due(ConformanceSide::Server, revision) {
            let verdict = found.get(&format!("server-{scenario}")).cloned().unwrap_or_else(missing);
            verdicts.insert(scenario, verdict);
        }
        if done.code != Some(0) && verdicts.values().all(ScenarioVerdict::is_good) {
            let what = format!("{}, though every scenario is good\n{}", done.ending(), done.tail());
            verdicts.insert("(the suite)".to_owned(), ScenarioVerdict::trouble(what));
        }
        Ok(verdicts)
    }

    /// Runs everything that the suite has for a server of `revision`; of the suite before this one, without.
    pub(crate) fn server_all(
        &self,
        url: &str,
        revision: Option<&str>,
        count: usize,
    ) -> Result<BTreeMap<String, ScenarioVerdict>> {
        let label = format!("server-all-{}", revision.unwrap_or("previous"));
        let out = fresh(&label)?;
        let mut command = self.node.script(if revision.is_some() { SCRIPT } else { PREVIOUS });
        command.args(["server", "--url", url, "--suite", "all", "-o", "."]).current_dir(&out);
        if let Some(revision) = revision {
            command.args(["--spec-version", revision]);
        }
        let done = process::run(command, &format!("conformance {label}"), SET_LIMIT)?;
        let found = verdict::read(&out)?.into_iter();
        let mut verdicts: BTreeMap<String, ScenarioVerdict> = found
            .map(|(name, verdict)| (name.strip_prefix("server-").unwrap_or(&name).to_owned(), verdict))
            .collect();
        if verdicts.len() != count {
            let what = format!(
                "{} scenarios instead of {count} ({})\n{}",
                verdicts.len(),
                done.ending(),
                done.tail()
            );
            verdicts.insert("(the suite)".to_owned(), ScenarioVerdict::trouble(what));
        }
        Ok(verdicts)
    }

    /// Runs one scenario against the server at `url`.
    pub(crate) fn server_scenario(
        &self,
        url: &str,
        revision: &str,
        scenario: &str,
    ) -> Result<ScenarioVerdict> {
        let out = fresh(&format!("server-{revision}/{}", plain(scenario)))?;
        let mut command = self.node.script(SCRIPT);
        command.args(["server", "--url", url, "--scenario", scenario, "-o", "."]).current_dir(&out);
        // Extensions are on no revision's timeline: `--force` lets them run at the one asked for.
        command.args(["--spec-version", revision, "--force"]);
        let done = process::run(command, &format!("conformance server {scenario}"), SCENARIO_LIMIT)?;
        let missing =
            || ScenarioVerdict::trouble(format!("did not run ({})\n{}", done.ending(), done.tail()));
        Ok(verdict::read(&out)?.into_values().next().unwrap_or_else(missing))
    }

    /// Runs one scenario against the client fixture `program`; without a revision, of the suite before this one.
    pub(crate) fn client_scenario(
        &self,
        program: &Path,
        revision: Option<&str>,
        scenario: &str,
    ) -> Result<ScenarioVerdict> {
        let at = revision.unwrap_or("previous");
        let out = fresh(&format!("client-{at}/{}", plain(scenario)))?;
        write_launcher(&out, program)?;
        let mut command = self.node.script(if revision.is_some() { SCRIPT } else { PREVIOUS });
        command.args(["client", "--command", "sh ./launch", "--scenario", scenario, "-o", "."]);
        command.current_dir(&out);
        if let Some(revision) = revision {
            command.args(["--spec-version", revision, "--force"]);
        }
        let label = format!("conformance client {at} {scenario}");
        let done = process::run(command, &label, SCENARIO_LIMIT)?;
        let missing =
            || ScenarioVerdict::trouble(format!("did not run ({})\n{}", done.ending(), done.tail()));
        let mut verdict = verdict::read(&out)?.into_values().next().unwrap_or_else(missing);
        if !self.sets.gives_up(scenario) {
            let codes = fs::read_to_string(out.join("exit-codes")).unwrap_or_default();
            if codes.is_empty() {
                verdict.troubles.push("the client did not come to an end".to_owned());
            } else if codes.lines().any(|code| code != "0") {
                verdict.troubles.push(format!("the client's exit code is {}", codes.trim()));
            } else if done.code != Some(0) && verdict.is_good() {
                verdict.troubles.push(format!(
                    "the suite is not content: {}\n{}",
                    done.ending(),
                    done.tail()
                ));
            }
        }
        Ok(verdict)
    }
}

/// A launcher that notes the client's exit code, which the suite keeps to itself. It also keeps the program's
/// path out of `--command`, which the suite splits at blanks.
fn write_launcher(folder: &Path, program: &Path) -> Result<()> {
    let program = program.to_string_lossy().replace('\'', r"'\''");
    let script = format!("'{program}' \"$@\"\ncode=$?\necho $code >> exit-codes\nexit $code\n");
    fs::write(folder.join("launch"), script).context("writing the launcher")
}

/// An empty folder for the suite's results.
pub(super) fn fresh(name: &str) -> Result<PathBuf> {
    let folder = paths::tools()?.join("conformance").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("emptying {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

/// A scenario's name as a folder's.
fn plain(scenario: &str) -> String {
    scenario.replace('/', "-")
}
