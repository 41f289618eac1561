//! Running cargo, and other programs whose output a person should see as it comes.

use std::env;
use std::process::Command;

use anyhow::Result;

use crate::paths;
use crate::report::PartOutcome;

/// Runs cargo in the repository, as a person would start it from a shell.
pub(crate) fn run(arguments: &[&str]) -> PartOutcome {
    run_with(arguments, &[])
}

/// Runs cargo in the repository with additional environment variables.
pub(crate) fn run_with(arguments: &[&str], variables: &[(&str, String)]) -> PartOutcome {
    let mut command = command(arguments);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    // In the foreground and in our own process group, so that Ctrl-C reaches it too.
    let line = format!("cargo {}", arguments.join(" "));
    match command.status() {
        Ok(status) if status.success() => PartOutcome::Passed(String::new()),
        Ok(status) => PartOutcome::Failed(format!("{line}: {status}")),
        Err(error) => PartOutcome::CannotRun(format!("{line}: {error}")),
    }
}

/// Cargo in the repository, as a person would start it.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    in_repository(&mut command, arguments);
    command
}

/// Prepares cargo, or a program that takes its arguments, to run in the repository.
pub(crate) fn in_repository(command: &mut Command, arguments: &[&str]) {
    // Build scripts may watch these, and would run again for each way of starting cargo.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command.args(arguments).current_dir(paths::root());
}

/// Builds the programs of one package.
pub(crate) fn build(package: &str) -> Result<()> {
    run(&["build", "--quiet", "--package", package, "--bins"]).into_result()
}
