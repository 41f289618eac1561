//! The unit tests for Windows, run under Wine: which ran, and which did not and why.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::left_out::{LEFT_OUT, LeftOut};
use super::source_tests::SourceTest;
use super::test_programs::{self, TestProgram, TestResult};
use super::wine::{self, Wine};
use crate::process::{self, FinishedProcess};
use crate::report::{self, PartOutcome, say};

/// Crates whose unit tests run there. The tests of `hospes-macros` belong to the compiler, which runs on this system.
const PACKAGES: [&str; 22] = [
    "hospes",
    "hospes-auth",
    "hospes-bundle",
    "hospes-cli",
    "hospes-console",
    "hospes-fs",
    "hospes-host",
    "hospes-http-client",
    "hospes-inspect",
    "hospes-model",
    "hospes-models",
    "hospes-oauth",
    "hospes-oauth-resource",
    "hospes-oauth-server",
    "hospes-policy",
    "hospes-proto",
    "hospes-registry",
    "hospes-sandbox",
    "hospes-servers",
    "hospes-sql",
    "hospes-store",
    "hospes-testkit",
];

/// Time for the tests of one crate.
const LIMIT: Duration = Duration::from_secs(900);

/// Builds the unit tests of these crates for Windows, or of all if none is named, and runs them.
pub(super) fn part(only: &[String]) -> PartOutcome {
    let packages = match chosen(only) {
        Ok(packages) => packages,
        Err(error) => return PartOutcome::CannotRun(format!("{error:#}")),
    };
    let wine = match wine::prepare() {
        Ok(wine) => wine,
        Err(error) => return PartOutcome::CannotRun(format!("{error:#}")),
    };
    match run(&wine, &packages) {
        Ok(summary) => PartOutcome::Passed(summary),
        Err(error) => PartOutcome::Failed(format!("unit tests under Wine: {error:#}")),
    }
}

/// Returns the crates whose tests run.
fn chosen(only: &[String]) -> Result<Vec<&'static str>> {
    let unknown = only.iter().find(|name| !PACKAGES.contains(&name.as_str()));
    ensure!(
        unknown.is_none(),
        "no unit tests for Windows in {unknown:?}; there are: {}",
        PACKAGES.join(", ")
    );
    let is_chosen = |package: &&str| only.is_empty() || only.iter().any(|name| name == package);
    Ok(PACKAGES.into_iter().filter(is_chosen).collect())
}

/// Runs the tests of the crates, prints a table, and returns a summary.
fn run(wine: &Wine, packages: &[&'static str]) -> Result<String> {
    let arguments: Vec<&str> = packages.iter().flat_map(|package| ["--package", package]).collect();
    let mut runs: BTreeMap<String, TestRun> = BTreeMap::new();
    for program in test_programs::build_for_windows(&arguments)? {
        runs.entry(program.package.clone()).or_default().add(wine, &program)?;
    }
    for (package, run) in &mut runs {
        run.add_missing(package);
    }
    report(&runs);
    if let Some(broken) = runs.values().find_map(|run| run.broken.first()) {
        bail!("{broken}");
    }
    let missing = packages.iter().find(|package| !runs.contains_key(**package));
    ensure!(missing.is_none(), "no tests of {missing:?} were built");
    let sum = |count: fn(&TestRun) -> usize| runs.values().map(count).sum::<usize>();
    let failed = sum(|run| run.failed.len());
    ensure!(failed == 0, "{failed} tests failed");
    let (passed, left_out) = (sum(|run| run.passed.len()), sum(|run| run.left_out.len()));
    Ok(format!("{passed} tests of {} crates passed under Wine; {left_out} were left out", packages.len()))
}

/// Returns the listed tests of a crate that are left out, with their reasons.
fn limits_of(package: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_package = LEFT_OUT.iter().filter(move |left_out: &&LeftOut| left_out.package == package);
    of_package.flat_map(|left_out| left_out.tests.iter().map(|test| (*test, left_out.reason)))
}

fn run_program<'a>(
    wine: &Wine,
    program: &TestProgram,
    arguments: &[&str],
    skipped: impl IntoIterator<Item = &'a str>,
) -> Result<FinishedProcess> {
    let mut command = wine.command(&program.file);
    command.args(arguments).args(skipped);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    process::run(command, &format!("wine {}", program.target), LIMIT)
}

/// The unit tests of one crate.
#[derive(Debug, Default)]
struct TestRun {
    folder: PathBuf,
    passed: BTreeSet<String>,
    failed: BTreeSet<String>,
    /// Tests that did not run, with their reasons.
    left_out: BTreeMap<String, String>,
    /// Faults of the run itself.
    broken: Vec<String>,
}

impl TestRun {
    /// Runs the tests of one library or program of the crate.
    fn add(&mut self, wine: &Wine, program: &TestProgram) -> Result<()> {
        say!("running the tests of {}", program.target);
        self.folder.clone_from(&program.folder);
        let skipped = limits_of(&program.package).flat_map(|(test, _)| ["--skip", test]);
        let done = run_program(wine, program, &["--exact"], skipped)?;
        let results = match test_programs::read_results(&done.stdout) {
            Ok(results) => results,
            Err(error) => {
                let (target, ending) = (&program.target, done.ending());
                self.broken.push(format!("{target}: {error:#}; {ending}\n{}", done.tail()));
                return Ok(());
            }
        };
        for (test, mut result) in results {
            if result == TestResult::Failed {
                // Once more in a process of its own, as `cargo nextest` runs all tests on this system.
                let done = run_program(wine, program, &["--exact", &test], [])?;
                if done.code == Some(0) {
                    say!("{test} fails beside others and passes alone");
                    result = TestResult::Passed;
                } else {
                    say!("{}", done.stdout.trim());
                }
            }
            self.add_result(test, result);
        }
        Ok(())
    }

    fn add_result(&mut self, test: String, result: TestResult) {
        match result {
            TestResult::Passed => drop(self.passed.insert(test)),
            TestResult::Failed => drop(self.failed.insert(test)),
            TestResult::Ignored(reason) => drop(self.left_out.insert(test, reason)),
        }
    }

    /// Adds the tests of the source that have no result.
    fn add_missing(&mut self, package: &str) {
        let sources = SourceTest::all_below(&self.folder.join("src"));
        for (test, reason) in limits_of(package) {
            if sources.iter().any(|source| source.is(test)) {
                self.left_out.insert(test.to_owned(), reason.to_owned());
            } else {
                self.broken.push(format!("{package} has no test `{test}`, which is listed as left out"));
            }
        }
        for source in sources {
            let known = [&self.passed, &self.failed].into_iter().flatten().chain(self.left_out.keys());
            if !known.into_iter().any(|test| source.is(test)) {
                let reason = "not compiled: for another system, or for a feature that is off";
                self.left_out.insert(source.to_string(), reason.to_owned());
            }
        }
    }
}

/// Prints how many tests of each crate ran, and the others by reason.
fn report(runs: &BTreeMap<String, TestRun>) {
    let mut rows = vec![["crate", "passed", "failed", "left out"].map(str::to_owned)];
    for (package, run) in runs {
        let [passed, failed, left_out] =
            [run.passed.len(), run.failed.len(), run.left_out.len()].map(|count| count.to_string());
        rows.push([package.clone(), passed, failed, left_out]);
    }
    say!("\n{}", report::table(&rows));
    for (package, run) in runs {
        let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (test, reason) in &run.left_out {
            by_reason.entry(reason).or_default().push(test);
        }
        for (reason, tests) in by_reason {
            say!("\n{package}, {} left out ({reason}):\n  {}", tests.len(), tests.join("\n  "));
        }
        for test in &run.failed {
            say!("\n{package}, failed: {test}");
        }
        for broken in &run.broken {
            say!("\n{broken}");
        }
    }
}
