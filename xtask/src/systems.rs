//! The program for other systems: compiled but not linked, so that no code of theirs is broken unnoticed. The unit tests
//! for Windows also run, under Wine, if that is asked for.

mod left_out;
mod source_tests;
mod test_programs;
mod windows_tests;
mod wine;

use std::collections::BTreeSet;
use std::env;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::cargo;
use crate::report::PartOutcome;
use crate::tools::PythonTools;

/// Targets that are checked if rustup has installed their standard library. macOS on Intel differs from this one in no
/// line of ours.
const TARGETS: [&str; 2] = ["x86_64-pc-windows-gnu", "aarch64-apple-darwin"];

/// Options of `cargo xtask systems`.
#[derive(Debug, Args)]
pub(crate) struct SystemsOptions {
    /// Also runs the unit tests for Windows under Wine. They are built first, which takes minutes.
    #[arg(long)]
    run: bool,
    /// Crate whose tests run; may be repeated. Without it, those of all crates run.
    #[arg(long, value_name = "CRATE", requires = "run")]
    package: Vec<String>,
}

/// Runs `cargo xtask systems`.
pub(crate) fn run(options: &SystemsOptions) -> Result<()> {
    part().into_result()?;
    if options.run { windows_tests::part(&options.package).into_result() } else { Ok(()) }
}

/// Checks the program for each target that is installed.
pub(crate) fn part() -> PartOutcome {
    let installed = installed_targets();
    let (targets, missing): (Vec<&str>, Vec<&str>) =
        TARGETS.into_iter().partition(|target| installed.contains(*target));
    if targets.is_empty() {
        return PartOutcome::CannotRun(format!("rustup target add {}", TARGETS.join(" ")));
    }
    let tools = match PythonTools::systems() {
        Ok(tools) => tools,
        Err(error) => return PartOutcome::CannotRun(format!("no C compiler for other systems: {error:#}")),
    };
    for target in &targets {
        let arguments = ["check", "--locked", "--package", "hospes-cli", "--target", target];
        let mut command = tools.program("cargo-zigbuild");
        cargo::in_repository(&mut command, &arguments);
        // It starts `python3 -m ziglang`, which is beside it.
        match command.env("RUSTFLAGS", "-D warnings").status() {
            Ok(status) if status.success() => {}
            Ok(status) => return PartOutcome::Failed(format!("{target}: {status}")),
            Err(error) => return PartOutcome::CannotRun(format!("cargo-zigbuild: {error}")),
        }
    }
    let mut remark = targets.join(", ");
    if !missing.is_empty() {
        remark.push_str(&format!("; not installed: {}", missing.join(", ")));
    }
    PartOutcome::Passed(remark)
}

/// Returns the targets whose standard library is installed. Empty without rustup.
fn installed_targets() -> BTreeSet<String> {
    let rustup = env::var_os("RUSTUP").unwrap_or_else(|| "rustup".into());
    let listed = Command::new(rustup).args(["target", "list", "--installed"]).output();
    let text = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().map(|line| line.trim().to_owned()).collect()
}
