//! `cargo xtask mutants`: breaks the rules on purpose, one at a time, and sees whether a test notices.

mod mutant;
mod record;
mod repository_copy;
mod switch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use serde_json::Value;

use crate::cargo;
use crate::paths;
use crate::report::say;
use crate::tools::{self, ToolVersions};
use mutant::Mutant;
use record::{MutantOutcome, MutationRecord, SurvivorExplanations};
use repository_copy::{BuildResult, RepositoryCopy, TestRunEnd};
use switch::MutantRanges;

/// Options of `cargo xtask mutants`.
#[derive(Debug, Args)]
pub(crate) struct MutantsOptions {
    /// Areas to break; all by default.
    #[arg(long, value_delimiter = ',', value_name = "AREA")]
    only: Vec<String>,
    /// Lists the mutants without testing them.
    #[arg(long)]
    list: bool,
    /// Goes on with what an interrupted run has left.
    #[arg(long)]
    again: bool,
    /// Builds each mutant by itself.
    #[arg(long)]
    singly: bool,
    /// Only writes the page, from the last results.
    #[arg(long)]
    page: bool,
}

/// Mutants outside functions: the values of limits and tables of constants. Tests set limits of their own, and one that
/// repeated the default would only say the same thing twice.
const CONSTANTS: &str = r": replace \S+ with \S+$";

/// A crate whose rules are broken, and whose tests have to notice.
struct MutatedPackage {
    name: &'static str,
    folder: &'static str,
}

const PROTO: MutatedPackage = MutatedPackage { name: "hospes-proto", folder: "crates/proto" };
const MODEL: MutatedPackage = MutatedPackage { name: "hospes-model", folder: "crates/model" };

/// Rules that are broken together.
struct MutationArea {
    name: &'static str,
    package: &'static MutatedPackage,
    /// Globs of the files, below the crate's `src`.
    files: &'static [&'static str],
}

const AREAS: [MutationArea; 7] = [
    MutationArea { name: "frame", package: &PROTO, files: &["frame/**/*.rs"] },
    MutationArea { name: "session", package: &PROTO, files: &["session/**/*.rs"] },
    MutationArea { name: "http", package: &PROTO, files: &["http/**/*.rs"] },
    MutationArea { name: "era", package: &PROTO, files: &["*.rs"] },
    MutationArea { name: "message", package: &MODEL, files: &["*.rs"] },
    MutationArea { name: "revision", package: &MODEL, files: &["revision/**/*.rs"] },
    MutationArea { name: "reply", package: &MODEL, files: &["reply/**/*.rs"] },
];

/// Mutates every area, or those named by `--only`. `--again` leaves out mutants that were caught before. `--singly`
/// builds every mutant by itself, which is slow and confirms the fast way. `--page` runs nothing and only writes
/// docs/mutants.md from the results of earlier runs.
pub(crate) fn run(options: &MutantsOptions) -> Result<()> {
    let only = &options.only;
    if let Some(unknown) = only.iter().find(|name| !AREAS.iter().any(|area| area.name == name.as_str())) {
        bail!("no area is called `{unknown}`; there are {}", AREAS.map(|area| area.name).join(", "));
    }
    let chosen = || AREAS.iter().filter(|area| only.is_empty() || only.iter().any(|name| name == area.name));
    if !options.page {
        install_lister()?;
        let copy = RepositoryCopy::make(paths::target()?.join("mutants/copy"))?;
        for area in chosen() {
            if options.list {
                area.mutants(&copy.folder)?.iter().for_each(|mutant| say!("{}", mutant.name));
            } else {
                area.mutate(&copy, options)?;
            }
        }
    }
    if options.list {
        return Ok(());
    }
    let explanations = SurvivorExplanations::read()?;
    let mut troubles = Vec::new();
    let mut records = Vec::new();
    for area in &AREAS {
        let listed = area.mutants(&paths::root())?.into_iter().map(|mutant| mutant.name).collect();
        let mut record = MutationRecord::read(&area.output()?)?.unwrap_or_default();
        // What was found of code that has changed since says nothing.
        record.keep_only(&listed);
        if chosen().any(|one| one.name == area.name) {
            troubles.extend(record.unexplained(&explanations));
        }
        records.push((area.name, listed.len(), record));
    }
    if records.iter().all(|(_, listed, record)| *listed == record.len()) {
        troubles.extend(explanations.stale(&records));
    }
    let path = paths::root().join("docs/mutants.md");
    fs::write(&path, record::page(&records, &explanations))
        .with_context(|| format!("writing {}", path.display()))?;
    if troubles.is_empty() {
        return Ok(());
    }
    say!("\n{}", troubles.join("\n"));
    bail!(
        "{} mutants survived without a reason in tools/mutants.toml, or have one without need",
        troubles.len()
    )
}

impl MutationArea {
    fn output(&self) -> Result<PathBuf> {
        Ok(paths::target()?.join("mutants").join(self.name))
    }

    /// First all that can be behind switches; then one by one what cannot.
    fn mutate(&self, copy: &RepositoryCopy, options: &MutantsOptions) -> Result<()> {
        let output = self.output()?;
        fs::create_dir_all(&output).with_context(|| format!("creating {}", output.display()))?;
        if !options.again {
            MutationRecord::forget(&output)?;
        }
        let mut record = MutationRecord::read(&output)?.unwrap_or_default();
        let mut mutants = self.mutants(&copy.folder)?;
        mutants.retain(|mutant| !record.settled(&mutant.name));
        let mut note = |mutant: &Mutant, became: MutantOutcome| {
            if became == MutantOutcome::Missed {
                say!("{}: missed: {}", self.name, mutant.name);
            }
            record.add(&output, &mutant.name, became)
        };
        let mut singly: BTreeSet<u32> = mutants.iter().map(|mutant| mutant.number).collect();
        if !options.singly {
            let switched = self.switch(copy, &mutants)?;
            let [behind, unviable] = [switched.installed.len(), switched.unviable.len()];
            say!(
                "{}: {} mutants, {behind} behind switches, {unviable} that cannot be",
                self.name,
                mutants.len()
            );
            for mutant in &mutants {
                let became = if switched.unviable.contains(&mutant.number) {
                    MutantOutcome::Unviable
                } else if switched.installed.contains(&mutant.number) {
                    mutant_outcome(copy.test(&switched.tests, self.package.folder, mutant.number)?)
                } else {
                    continue;
                };
                note(mutant, became)?;
                singly.remove(&mutant.number);
            }
            say!("{}: {} one by one", self.name, singly.len());
        }
        for mutant in mutants.iter().filter(|mutant| singly.contains(&mutant.number)) {
            copy.write(&mutant.file, mutant.apply(copy.original(&mutant.file)?)?.as_bytes())?;
            let became = match copy.build(self.package.name)? {
                BuildResult::Broken(_) => MutantOutcome::Unviable,
                BuildResult::Tests(tests) => mutant_outcome(copy.test(&tests, self.package.folder, 0)?),
            };
            copy.restore(&mutant.file)?;
            note(mutant, became)?;
        }
        Ok(())
    }

    /// Puts mutants into the copy, builds its tests, and takes out again what does not compile until the rest does.
    fn switch(&self, copy: &RepositoryCopy, mutants: &[Mutant]) -> Result<SwitchedMutants> {
        let mut files: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
        mutants.iter().for_each(|mutant| files.entry(&mutant.file).or_default().push(mutant));
        let library = format!("{}/src/lib.rs", self.package.folder);
        let plain = copy.original(&library)?;
        let (mut out, mut unviable) = (BTreeSet::new(), BTreeSet::new());
        let switched = loop {
            copy.write(&library, [plain, switch::MODULE].concat().as_bytes())?;
            let mut installed = BTreeSet::new();
            let mut blame = BTreeMap::new();
            for (file, mutants) in &files {
                let mutants: Vec<_> =
                    mutants.iter().copied().filter(|mutant| !out.contains(&mutant.number)).collect();
                let (mut text, numbers) =
                    switch::install(copy.original(file)?, &mutants).with_context(|| (*file).to_owned())?;
                if *file == library {
                    text.push_str(switch::MODULE);
                }
                copy.write(file, text.as_bytes())?;
                installed.extend(numbers);
                blame.insert(*file, MutantRanges::read(&text).with_context(|| (*file).to_owned())?);
            }
            match copy.build(self.package.name)? {
                BuildResult::Tests(tests) => break SwitchedMutants { tests, installed, unviable },
                BuildResult::Broken(mistakes) => {
                    let before = out.len();
                    for mistake in &mistakes {
                        let places = || {
                            let places = mistake.places.iter();
                            places
                                .filter_map(|(file, at, main)| Some((blame.get(file.as_str())?, *at, *main)))
                        };
                        let culprit = places().find_map(|(blame, at, main)| Some((blame.culprit(at)?, main)));
                        if let Some(((number, certain), main)) = culprit {
                            out.insert(number);
                            if certain && main && mistake.of_types {
                                unviable.insert(number);
                            }
                        } else if let Some((blame, at, _)) = places().next() {
                            out.extend(blame.suspects(at));
                        }
                    }
                    ensure!(out.len() > before, "the copy does not compile:\n{}", mistakes[0].message);
                }
            }
        };
        let alive = copy.test(&switched.tests, self.package.folder, 0)?;
        ensure!(
            alive == TestRunEnd::Passed,
            "the tests of {} fail before anything is broken",
            self.package.name
        );
        // The copy is whole again for what comes next.
        for file in files.keys().copied().chain([library.as_str()]) {
            copy.restore(file)?;
        }
        Ok(switched)
    }

    /// All mutants of the repository in `folder`, as cargo-mutants finds them.
    fn mutants(&self, folder: &Path) -> Result<Vec<Mutant>> {
        let files: Vec<String> =
            self.files.iter().map(|files| format!("{}/src/{files}", self.package.folder)).collect();
        let mut arguments =
            vec!["mutants", "--list", "--json", "--package", self.package.name, "--exclude-re", CONSTANTS];
        arguments.extend(files.iter().flat_map(|files| ["--file", files.as_str()]));
        let listed = cargo::command(&arguments).current_dir(folder).output().context("listing mutants")?;
        ensure!(
            listed.status.success(),
            "mutants cannot be listed: {}",
            String::from_utf8_lossy(&listed.stderr)
        );
        let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).context("the list of mutants")?;
        (1..).zip(&listed).map(|(number, one)| Mutant::read(number, one)).collect()
    }
}

/// Mutants that are in the copy together.
struct SwitchedMutants {
    /// The programs with all of them in.
    tests: Vec<PathBuf>,
    installed: BTreeSet<u32>,
    unviable: BTreeSet<u32>,
}

fn mutant_outcome(ended: TestRunEnd) -> MutantOutcome {
    match ended {
        TestRunEnd::Passed => MutantOutcome::Missed,
        TestRunEnd::Failed => MutantOutcome::Caught,
        TestRunEnd::Overdue => MutantOutcome::Timeout,
    }
}

/// Installs cargo-mutants if it is missing.
fn install_lister() -> Result<()> {
    if tools::is_installed("cargo mutants") {
        return Ok(());
    }
    let versions = ToolVersions::read()?;
    let version =
        versions.cargo.get("cargo-mutants").context("cargo-mutants is not in tools/versions.toml")?;
    let package = format!("cargo-mutants@{version}");
    say!("installing {package} …");
    cargo::run(&["install", "--locked", &package]).into_result()
}
