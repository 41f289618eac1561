//! `cargo xtask browser`: our pages in Chromium, and sign-in at an OpenID provider that is not ours.
//!
//! The tests are those of `crates/browser-tests`; this finds or installs what they need, and names it in variables.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::flags::{Accepted, Flags};
use crate::report::Outcome;
use crate::tools::{self, Node, Versions};
use crate::{cargo, place};

/// What the command line may say.
pub(crate) const FLAGS: Accepted = Accepted { values: &["pictures"], switches: &["no-build"] };

const PACKAGE: &str = "hospes-browser-tests";

/// Runs the chore.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    if !flags.has("no-build") {
        cargo::build("hospes-cli")?;
    }
    let mut variables = variables()?;
    if let Some(folder) = flags.value("pictures") {
        fs::create_dir_all(folder)?;
        let folder = fs::canonicalize(folder)?;
        variables.push(("HOSPES_PICTURES", folder.to_string_lossy().into_owned()));
    }
    match tests(&["-p", PACKAGE], &variables) {
        Outcome::Passed(_) => Ok(()),
        Outcome::Failed(why) | Outcome::CannotRun(why) => bail!(why),
    }
}

/// The same as a part of `cargo xtask test`; the programs are built.
pub(crate) fn part() -> Outcome {
    match variables() {
        // Built with the features of the whole workspace, as everything is by then.
        Ok(variables) => tests(&["--workspace", "-E", "package(hospes-browser-tests)"], &variables),
        Err(error) => Outcome::CannotRun(format!("{error:#}")),
    }
}

/// Runs them; `which` of all tests is for nextest.
fn tests(which: &[&str], variables: &[(&str, String)]) -> Outcome {
    if tools::works("cargo-nextest") {
        let profile = if place::ci() { "ci" } else { "default" };
        let arguments = [&["nextest", "run", "--profile", profile], which].concat();
        return cargo::run_with(&arguments, variables);
    }
    cargo::run_with(&["test", "-p", PACKAGE, "--tests", "--quiet"], variables)
}

/// Where everything is that the tests start.
fn variables() -> Result<Vec<(&'static str, String)>> {
    let versions = Versions::read()?;
    let mut variables = Vec::new();
    for (name, command) in [("HOSPES_CHROMIUM", "chromium"), ("HOSPES_CHROMEDRIVER", "chromedriver")] {
        versions.provide(command)?;
        variables.push((name, found(command)?));
    }
    let node = Node::ready()?;
    let script = node.modules.with_file_name("provider.mjs");
    fs::copy(place::root().join("tools/openid/provider.mjs"), &script).context("copying provider.mjs")?;
    for (name, path) in [
        ("HOSPES_NODE", node.program()),
        ("HOSPES_OPENID_PROVIDER", script),
        ("HOSPES_PROGRAM", place::program("hospes")?),
    ] {
        variables.push((name, path.to_string_lossy().into_owned()));
    }
    Ok(variables)
}

fn found(command: &str) -> Result<String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found: Option<PathBuf> =
        std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|file| file.is_file());
    Ok(found.with_context(|| format!("{command} is not in PATH"))?.to_string_lossy().into_owned())
}
