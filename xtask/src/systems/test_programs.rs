//! Programs of unit tests: how they are built, and what they print.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::wine;
use crate::cargo;

/// A program of the unit tests of one crate.
#[derive(Debug)]
pub(super) struct TestProgram {
    /// Name of the package.
    pub(super) package: String,
    /// Name of the library or of the program, the latter with `.exe`.
    pub(super) target: String,
    pub(super) file: PathBuf,
    /// The folder of the package, where its tests run.
    pub(super) folder: PathBuf,
}

/// Result of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TestResult {
    Passed,
    Failed,
    /// The reason stands at the test.
    Ignored(String),
}

/// Builds the unit tests of libraries and programs. `packages` are arguments of cargo.
///
/// # Errors
/// If they cannot be built. The messages of the compiler go to standard error.
pub(super) fn build_for_windows(packages: &[&str]) -> Result<Vec<TestProgram>> {
    let mut arguments = vec!["test", "--locked", "--no-run", "--lib", "--bins"];
    arguments.extend(["--message-format=json-render-diagnostics", "--target", wine::TARGET]);
    arguments.extend(packages);
    let mut command = cargo::command(&arguments);
    command.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", wine::COMPILER).stderr(Stdio::inherit());
    let built = command.output().context("starting cargo")?;
    ensure!(built.status.success(), "the unit tests cannot be built: {}", built.status);
    let messages = String::from_utf8(built.stdout)?;
    messages.lines().filter_map(|line| TestProgram::read(line).transpose()).collect()
}

impl TestProgram {
    /// Reads a message of cargo. None if it is about something else than a program of tests.
    fn read(message: &str) -> Result<Option<Self>> {
        let message: Value = serde_json::from_str(message).context("a message of cargo")?;
        let (Some(file), true) = (message["executable"].as_str(), message["profile"]["test"] == true) else {
            return Ok(None);
        };
        let manifest =
            PathBuf::from(message["manifest_path"].as_str().context("an artifact has no manifest")?);
        let package = message["package_id"].as_str().context("an artifact has no package")?;
        let mut target = message["target"]["name"].as_str().unwrap_or_default().to_owned();
        if message["target"]["kind"][0] == "bin" {
            target.push_str(".exe");
        }
        Ok(Some(Self {
            package: package_name(package).to_owned(),
            target,
            file: PathBuf::from(file),
            folder: manifest.parent().context("a manifest has no folder")?.to_owned(),
        }))
    }
}

/// Returns the name in an identifier such as `path+file:///crates/fs#hospes-fs@0.1.0`. The name is left out if the folder
/// has the same.
fn package_name(id: &str) -> &str {
    let (folder, rest) = id.rsplit_once('#').unwrap_or((id, ""));
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => folder.rsplit('/').next().unwrap_or(folder),
    }
}

/// Reads the output of a program of tests: the result of each test by name.
///
/// # Errors
/// If the output ends early, or has other numbers of results than its last line says.
pub(super) fn read_results(output: &str) -> Result<BTreeMap<String, TestResult>> {
    let mut results = BTreeMap::new();
    let mut total = None;
    for line in output.lines() {
        if let Some(counts) = line.strip_prefix("test result: ") {
            total = Some(
                [" passed", " failed", " ignored"].map(|word| count_before(counts, word)).into_iter().sum(),
            );
        } else if let Some((name, result)) = read_result(line) {
            results.insert(name.to_owned(), result);
        }
    }
    let total: usize = total.context("it ended before its tests did")?;
    ensure!(results.len() == total, "{} results were read, but there are {total}", results.len());
    Ok(results)
}

fn read_result(line: &str) -> Option<(&str, TestResult)> {
    let (name, result) = line.rsplit_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    // A test that writes to standard output itself may leave text before it.
    let (before, name) = name.rsplit_once(' ')?;
    if !(before == "test" || before.ends_with(" test")) {
        return None;
    }
    let result = match result {
        "ok" => TestResult::Passed,
        "FAILED" => TestResult::Failed,
        _ => {
            let reason = result.strip_prefix("ignored")?.trim_start_matches(", ");
            TestResult::Ignored(if reason.is_empty() { "no reason is given" } else { reason }.to_owned())
        }
    };
    Some((name, result))
}

/// Returns the number before a word: 3 before ` failed` in `FAILED. 10 passed; 3 failed; 0 ignored`.
fn count_before(text: &str, word: &str) -> usize {
    let before = text.split(word).next().unwrap_or_default();
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\nrunning 4 tests\no once > test a::b ... ok\ntest a::c - should panic ... ok\n\
        test a::d ... ignored, Wine has no such call\ntest a::e ... FAILED\n\nfailures:\n    a::e\n\n\
        test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.00s\n";

    #[test]
    fn results_and_reasons_are_read() {
        let results = read_results(OUTPUT).unwrap();
        let of = |name: &str| results.get(name).cloned();
        assert_eq!(of("a::b"), Some(TestResult::Passed));
        assert_eq!(of("a::c"), Some(TestResult::Passed));
        assert_eq!(of("a::d"), Some(TestResult::Ignored("Wine has no such call".to_owned())));
        assert_eq!(of("a::e"), Some(TestResult::Failed));
    }

    #[test]
    fn missing_results_are_an_error() {
        let crashed = OUTPUT.split("\nfailures").next().unwrap();
        assert!(read_results(crashed).unwrap_err().to_string().contains("ended before"));
        let fewer = OUTPUT.replace("o once > test a::b ... ok\n", "");
        assert!(
            read_results(&fewer).unwrap_err().to_string().contains("3 results were read, but there are 4")
        );
    }

    #[test]
    fn packages_have_names() {
        assert_eq!(package_name("path+file:///src/crates/fs#hospes-fs@0.1.0"), "hospes-fs");
        assert_eq!(package_name("path+file:///src/crates/hospes#0.1.0"), "hospes");
    }
}
