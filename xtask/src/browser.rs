//! `cargo xtask browser`: what a person's desktop has: our pages in Chromium, sign-in at an OpenID provider that is not ours,
//! the key to the tokens in GNOME's keyring.
//!
//! The tests are those of `tests/browser` and `keyring` of the program; this finds or installs what they need, and
//! names it in variables.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::BuildOptions;
use crate::report::PartOutcome;
use crate::tools::{self, NodeTools, ToolVersions};
use crate::{cargo, paths};

/// Options of `cargo xtask browser`.
#[derive(Debug, Args)]
pub(crate) struct BrowserOptions {
    /// Folder for pictures of the pages.
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
    #[command(flatten)]
    build: BuildOptions,
}

/// Filter for the tests to run; the program's other tests need nothing of this.
const TESTS: &str = "package(hospes-browser-tests) + (package(hospes-cli) & test(/^keyring::/))";
const PACKAGES: [&str; 4] = ["-p", "hospes-browser-tests", "-p", "hospes-cli"];

/// Runs the chore.
pub(crate) fn run(options: &BrowserOptions) -> Result<()> {
    if !options.build.no_build {
        cargo::build("hospes-cli")?;
    }
    let mut variables = variables()?;
    if let Some(folder) = &options.pictures {
        fs::create_dir_all(folder)?;
        let folder = fs::canonicalize(folder)?;
        variables.push(("HOSPES_PICTURES", folder.to_string_lossy().into_owned()));
    }
    tests(&PACKAGES, &variables).into_result()
}

/// Runs the chore as a part of `cargo xtask test`; the programs are already built.
pub(crate) fn part() -> PartOutcome {
    match variables() {
        // Built with the features of the whole workspace, as everything is by then.
        Ok(variables) => tests(&["--workspace"], &variables),
        Err(error) => PartOutcome::CannotRun(format!("{error:#}")),
    }
}

/// Runs them, in a build of these packages.
fn tests(packages: &[&str], variables: &[(&str, String)]) -> PartOutcome {
    if tools::is_installed("cargo-nextest") {
        let profile = if paths::is_ci() { "ci" } else { "default" };
        let arguments = [&["nextest", "run", "--profile", profile, "-E", TESTS], packages].concat();
        return cargo::run_with(&arguments, variables);
    }
    cargo::run_with(&[&["test", "--tests", "--quiet"], &PACKAGES[..]].concat(), variables)
}

/// Returns the variables with the paths of everything the tests start.
fn variables() -> Result<Vec<(&'static str, String)>> {
    let versions = ToolVersions::read()?;
    let mut variables = Vec::new();
    for (name, command) in [
        ("HOSPES_CHROMIUM", "chromium"),
        ("HOSPES_CHROMEDRIVER", "chromedriver"),
        ("HOSPES_DBUS_DAEMON", "dbus-daemon"),
        ("HOSPES_DBUS_SEND", "dbus-send"),
        ("HOSPES_KEYRING_DAEMON", "gnome-keyring-daemon"),
        ("HOSPES_SECRET_TOOL", "secret-tool"),
    ] {
        versions.provide(command)?;
        let found = tools::find_command(command).with_context(|| format!("{command} is not in PATH"))?;
        variables.push((name, found.to_string_lossy().into_owned()));
    }
    let node = NodeTools::ready()?;
    let script = node.modules.with_file_name("provider.mjs");
    fs::copy(paths::root().join("tools/openid/provider.mjs"), &script).context("copying provider.mjs")?;
    for (name, path) in [
        ("HOSPES_NODE", node.program()),
        ("HOSPES_OPENID_PROVIDER", script),
        ("HOSPES_AXE", node.modules.join("axe-core/axe.min.js")),
        ("HOSPES_PROGRAM", paths::program("hospes")?),
    ] {
        variables.push((name, path.to_string_lossy().into_owned()));
    }
    Ok(variables)
}
