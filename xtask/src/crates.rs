//! `cargo xtask crates`: the crates that are published, as they would be.

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::cargo;
use crate::report::say;

/// Options of `cargo xtask crates`.
#[derive(Debug, Args)]
pub(crate) struct CratesOptions {
    /// Only makes the packages, without building what they contain.
    #[arg(long)]
    no_verify: bool,
}

/// Packages the crates. cargo orders them, and each builds against the packages of the others, not against the workspace.
pub(crate) fn run(options: &CratesOptions) -> Result<()> {
    let packages = published()?;
    say!("packages: {}", packages.join(", "));
    let mut arguments = vec!["package", "--locked"];
    for package in &packages {
        arguments.extend(["--package", package]);
    }
    if options.no_verify {
        arguments.push("--no-verify");
    }
    cargo::run(&arguments).into_result()
}

/// Names of the workspace's packages that may be published.
fn published() -> Result<Vec<String>> {
    let mut command = cargo::command(&["metadata", "--no-deps", "--format-version", "1"]);
    let output = command.stderr(std::process::Stdio::inherit()).output().context("starting cargo")?;
    ensure!(output.status.success(), "cargo metadata: {}", output.status);
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context("reading the workspace's metadata")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    // A list of registries: empty for `publish = false`, absent for every registry.
    let packages = packages.filter(|package| package["publish"].is_null());
    Ok(packages.filter_map(|package| package["name"].as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The README's `cargo run --release -- up` needs exactly one program to start.
    #[test]
    fn cargo_run_at_the_root_starts_the_program() {
        let output = cargo::command(&["metadata", "--no-deps", "--format-version", "1"]).output().unwrap();
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap().iter();
        let programs: Vec<_> = packages.filter_map(|package| package["default_run"].as_str()).collect();
        assert_eq!(programs, ["hospes"]);
    }
}
