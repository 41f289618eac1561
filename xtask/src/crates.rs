//! `cargo xtask crates`: the crates that are published, as they would be.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::report::say;
use crate::{cargo, paths};

/// Options of `cargo xtask crates`.
#[derive(Debug, Args)]
pub(crate) struct CratesOptions {
    /// Only makes the packages, without building what they contain.
    #[arg(long)]
    no_verify: bool,
}

/// A crate of the workspace.
#[derive(Debug)]
pub(crate) struct WorkspaceCrate {
    pub(crate) name: String,
    pub(crate) manifest: PathBuf,
    /// True if it may be published.
    pub(crate) is_published: bool,
    /// Crates of the workspace that it is built of. Those of its tests do not count.
    pub(crate) dependencies: Vec<String>,
}

/// Packages the crates. cargo orders them, and each builds against the packages of the others, not against the workspace.
pub(crate) fn run(options: &CratesOptions) -> Result<()> {
    let crates = workspace_crates()?;
    let packages: Vec<&str> =
        crates.iter().filter(|one| one.is_published).map(|one| one.name.as_str()).collect();
    say!("packages: {}", packages.join(", "));
    let mut arguments = vec!["package", "--locked"];
    for package in &packages {
        arguments.extend(["--package", package]);
    }
    if options.no_verify {
        arguments.push("--no-verify");
    }
    // One folder for all builds. By default each package builds all that it needs anew.
    let target = paths::target()?.join("crates");
    cargo::run_with(&arguments, &[("CARGO_TARGET_DIR", target.display().to_string())]).into_result()
}

/// Returns the crates of the workspace.
pub(crate) fn workspace_crates() -> Result<Vec<WorkspaceCrate>> {
    let mut command = cargo::command(&["metadata", "--no-deps", "--format-version", "1"]);
    let output = command.stderr(std::process::Stdio::inherit()).output().context("starting cargo")?;
    ensure!(output.status.success(), "cargo metadata: {}", output.status);
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context("reading the workspace's metadata")?;
    metadata["packages"].as_array().into_iter().flatten().map(WorkspaceCrate::read).collect()
}

impl WorkspaceCrate {
    fn read(package: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned).context("the metadata of a package");
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let dependencies = dependencies.filter(|one| one["path"].is_string() && one["kind"] != "dev");
        Ok(Self {
            name: text(&package["name"])?,
            manifest: text(&package["manifest_path"])?.into(),
            // A list of registries: empty for `publish = false`, absent for every registry.
            is_published: package["publish"].is_null(),
            dependencies: dependencies.map(|one| text(&one["name"])).collect::<Result<_>>()?,
        })
    }
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
