//! Judges of the hosted workflows.

use anyhow::{Context as _, Result};

use super::{Bench, LIMIT};
use crate::checks::CheckList;
use crate::{paths, process};

pub(super) fn examine(bench: &Bench, checks: &mut CheckList) -> Result<()> {
    let judge = |command, label: &str| {
        process::run(command, &format!("installs {label}"), LIMIT)?
            .success()
            .with_context(|| label.to_owned())
    };
    let mut lint = bench.python.module("jactionlint");
    // The program looks for the repository above its working folder.
    let shellcheck = bench.python.packages().join("bin/shellcheck");
    lint.arg(format!("--shellcheck={}", shellcheck.display())).current_dir(paths::root());
    checks.add("jactionlint and shellcheck: workflows", judge(lint, "jactionlint").map(|_| String::new()));
    let mut zizmor = bench.python.program("zizmor");
    zizmor
        .args(["--offline", "--no-progress", "--min-severity", "medium"])
        .arg(paths::root().join(".github/workflows"));
    checks.add("zizmor: workflows", judge(zizmor, "zizmor").map(|_| String::new()));
    let mut shell = bench.python.program("shellcheck");
    shell.arg(paths::root().join(".ci/run"));
    checks.add("shellcheck .ci/run", judge(shell, "shellcheck").map(|_| String::new()));
    Ok(())
}
