//! `cargo xtask guard-bench`: the guard, measured on attacks by injected text.
//!
//! `tools/guard/replay.py` plays the pairs of AgentDojo, or those of `tools/guard/fresh`, through the real `hospes up`
//! and writes one JSON line a run. This reads the lines, prints a Markdown table, and compares its figures with
//! `tools/guard/expected.json`.

mod expected;
mod figures;
mod table;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::report::{PartOutcome, say};
use crate::tools::PythonTools;
use crate::{BuildOptions, cargo, paths};
use expected::ExpectedFigures;
use figures::BenchFigures;

/// Options of `cargo xtask guard-bench`.
#[derive(Debug, Args)]
pub(crate) struct GuardBenchOptions {
    /// Suites of AgentDojo: banking, slack, travel, workspace.
    #[arg(long, value_delimiter = ',', value_name = "SUITE")]
    suite: Vec<String>,
    /// Policies: none, as-was, every-effect, or a preset with labels (balanced) or without (balanced-unlabelled)
    /// [default: the presets with labels].
    #[arg(long, value_delimiter = ',', value_name = "POLICY")]
    preset: Vec<String>,
    /// Persons: absent, perfect, tired, careless [default: the first three].
    #[arg(long, value_delimiter = ',', value_name = "PERSON")]
    person: Vec<String>,
    /// Memory of earlier approvals: first (nothing), steady (what the other tasks taught) [default: both].
    #[arg(long, value_delimiter = ',', value_name = "STATE")]
    state: Vec<String>,
    /// Plays each N-th task only.
    #[arg(long, value_name = "N")]
    step: Option<usize>,
    /// Wording of the injected text: marker, information, plain.
    #[arg(long, value_name = "WORDING")]
    wording: Option<String>,
    /// Form of the tools' results: structured, json, yaml.
    #[arg(long, value_name = "FORM")]
    results: Option<String>,
    /// Revision of the protocol: 2025-06-18 or 2026-07-28.
    #[arg(long, value_name = "REVISION")]
    protocol: Option<String>,
    /// Number of suites and policies to play at a time [default: 1]. With more, the times are less exact.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// The program to measure [default: the one that this workspace builds].
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Folder of the results [default: target/guard-bench/full, or short].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The agent proposes effects that follow each other as one plan, and the policies allow it.
    #[arg(long)]
    plans: bool,
    /// Plays the benign tasks and plain attacks of tools/guard/fresh instead.
    #[arg(long)]
    fresh: bool,
    /// Plays the adaptive attacks of tools/guard/fresh instead.
    #[arg(long)]
    adaptive: bool,
    /// Plays the part of `cargo xtask test`, and fails if a stored figure gets worse.
    #[arg(long, conflicts_with_all = ["suite", "preset", "person", "state", "step", "plans", "fresh", "adaptive"])]
    short: bool,
    /// Stores the figures of `--short` in tools/guard/expected.json.
    #[arg(long, requires = "short")]
    save: bool,
    #[command(flatten)]
    build: BuildOptions,
}

/// Arguments of the replay for the part of `cargo xtask test`.
const SHORT: [&str; 7] = [
    "--policy=balanced",
    "--person=perfect",
    "--person=absent",
    "--step=3",
    "--state=first",
    "--state=steady",
    "--jobs=2",
];

/// Runs the chore.
pub(crate) fn run(options: &GuardBenchOptions) -> Result<()> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => {
            if !options.build.no_build {
                cargo::build("hospes-cli")?;
            }
            paths::program("hospes")?
        }
    };
    if options.short {
        return short(&program, options.out.clone(), options.save).into_result();
    }
    let python = PythonTools::guard()?;
    let figures =
        replay(&python, &program, &results(options.out.clone(), "full")?, &options.replay_arguments())?;
    say!("\n{}", table::markdown(&figures));
    Ok(())
}

/// Runs the chore as a part of `cargo xtask test`; the program is already built.
pub(crate) fn part() -> PartOutcome {
    match paths::program("hospes") {
        Ok(program) => short(&program, None, false),
        Err(error) => PartOutcome::CannotRun(format!("{error:#}")),
    }
}

/// Plays the short part, and compares the figures with the stored ones or stores them.
fn short(program: &Path, out: Option<PathBuf>, save: bool) -> PartOutcome {
    let python = match PythonTools::guard() {
        Ok(python) => python,
        Err(error) => return PartOutcome::CannotRun(format!("{error:#}")),
    };
    let compared = |out: PathBuf| -> Result<PartOutcome> {
        let figures = replay(&python, program, &out, &SHORT.map(str::to_owned))?;
        say!("\n{}", table::markdown(&figures));
        if save {
            ExpectedFigures::store(&figures)?;
        }
        let Some(expected) = ExpectedFigures::read()? else {
            return Ok(PartOutcome::Passed("no stored figures to compare with".to_owned()));
        };
        let worse = expected.worse(&figures);
        for line in &worse {
            say!("{line}");
        }
        Ok(match worse.first() {
            None => PartOutcome::Passed(figures.summary()),
            Some(first) => PartOutcome::Failed(first.clone()),
        })
    };
    let compared = results(out, "short").and_then(compared);
    compared.unwrap_or_else(|error| PartOutcome::Failed(format!("{error:#}")))
}

impl GuardBenchOptions {
    /// The arguments of the replay.
    fn replay_arguments(&self) -> Vec<String> {
        let sets = [("fresh", self.fresh), ("adaptive", self.adaptive)];
        let own_sets = sets.iter().filter(|(_, wanted)| *wanted).map(|(name, _)| (*name).to_owned());
        let suites: Vec<String> = self.suite.iter().cloned().chain(own_sets).collect();
        let or = |given: &[String], default: &[&str]| -> Vec<String> {
            if given.is_empty() {
                default.iter().map(|&word| word.to_owned()).collect()
            } else {
                given.to_vec()
            }
        };
        let policies = or(&self.preset, &["cautious", "balanced", "open"]);
        let persons = or(&self.person, &["perfect", "tired", "absent"]);
        let lists = [("suite", &suites), ("policy", &policies), ("person", &persons), ("state", &self.state)];
        let lists = lists
            .into_iter()
            .flat_map(|(name, values)| values.iter().map(move |value| (name, value.clone())));
        let number = |number: Option<usize>| number.map(|number| number.to_string());
        let (step, jobs) = (number(self.step), number(self.jobs));
        let single = [
            ("step", &step),
            ("jobs", &jobs),
            ("wording", &self.wording),
            ("results", &self.results),
            ("protocol", &self.protocol),
        ];
        let single = single.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        let plans = self.plans.then(|| "--plans".to_owned());
        lists.chain(single).map(|(name, value)| format!("--{name}={value}")).chain(plans).collect()
    }
}

/// Returns the folder of the results.
fn results(given: Option<PathBuf>, name: &str) -> Result<PathBuf> {
    Ok(match given {
        Some(folder) => folder,
        None => paths::target()?.join("guard-bench").join(name),
    })
}

/// Runs the replay, which writes its results into the folder. The table of the figures is written there, too.
fn replay(python: &PythonTools, program: &Path, out: &Path, arguments: &[String]) -> Result<BenchFigures> {
    ensure!(program.is_file(), "{} is not there; run without --no-build", program.display());
    fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    let lock = File::create(out.join(".lock"))?;
    ensure!(
        lock.try_lock().is_ok(),
        "another run writes into {}; name another folder with --out",
        out.display()
    );
    for entry in fs::read_dir(out)? {
        let path = entry?.path();
        // Results of earlier runs would be counted, too.
        if path.extension().is_some_and(|end| end == "json" || end == "part") {
            fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        }
    }
    let mut command = python.script(&paths::root().join("tools/guard/replay.py"));
    command.arg("--program").arg(program).arg("--out").arg(out).args(arguments);
    // In the foreground: it prints a line for each file of results.
    ensure!(command.status().context("starting python3")?.success(), "the replay stopped early");
    let figures = BenchFigures::read(out)?;
    fs::write(out.join("table.md"), table::markdown(&figures))?;
    Ok(figures)
}
