//! `cargo xtask browser`: what a person's desktop has: our pages in Chromium, sign-in at an OpenID provider that is not ours,
//! the key to the tokens in GNOME's keyring.
//!
//! The tests are those of `tests/browser` and `keyring` of the program; this finds or installs what they need, and
//! names it in variables.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::flags::{AcceptedFlags, ChoreFlags};
use crate::report::PartOutcome;
use crate::tools::{self, NodeTools, ToolVersions};
use crate::{cargo, paths};

/// Flags of the chore.
pub(crate) const FLAGS: AcceptedFlags = AcceptedFlags { values: &["pictures"], switches: &["no-build"] };

/// Filter for the tests to run; the program's other tests need nothing of this.
const TESTS: &str = "package(hospes-browser-tests) + (package(hospes-cli) & test(/^keyring::/))";
const PACKAGES: [&str; 4] = ["-p", "hospes-browser-tests", "-p", "hospes-cli"];

/// Runs the chore.
pub(crate) fn run(flags: &ChoreFlags) -> Result<()> {
    if !flags.has("no-build") {
        cargo::build("hospes-cli")?;
    }
    let mut variables = variables()?;
    if let Some(folder) = flags.value("pictures") {
        fs::create_dir_all(folder)?;
        let folder = fs::canonicalize(folder)?;
        variables.push(("HOSPES_PICTURES", folder.to_string_lossy().into_owned()));
    }
    match tests(&PACKAGES, &variables) {
        PartOutcome::Passed(_) => Ok(()),
        PartOutcome::Failed(why) | PartOutcome::CannotRun(why) => bail!(why),
    }
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
        ("HOSPES_PROGRAM", paths::program("hospes")?),
    ] {
        variables.push((name, path.to_string_lossy().into_owned()));
    }
    Ok(variables)
}
