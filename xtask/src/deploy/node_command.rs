//! The command line of a node, which three files have.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{DeployBench, DeployCheck, Fault, kubernetes, read};
use crate::{paths, process};

pub(super) const CHECKS: &[DeployCheck] = &[DeployCheck {
    name: "command line of a node: one, and known to the program",
    examine,
    faults: &[
        Fault("container/Containerfile", "\"--drain-notice\"", "\"--drain-notices\""),
        Fault("systemd/hospes-node.service", "--drain-notice 10", "--drain-notice 11"),
        Fault("kubernetes/nodes.yaml", "- --plain\n", "- --plan\n"),
    ],
}];

/// Seconds that systems have to give a node beyond those that its command line names.
const MARGIN_SECONDS: u64 = 10;

fn examine(bench: &DeployBench, folder: &Path) -> Result<String> {
    let container = of_container(folder)?;
    for (place, words) in
        [("systemd", of_unit(folder)?), ("kubernetes", kubernetes::arguments(bench, folder)?)]
    {
        ensure!(words == container, "{place} has {words:?}, the container file {container:?}");
    }
    // The parser stops at the first word that it does not know, which has to be the last.
    let mut parse = Command::new(paths::program("hospes")?);
    parse.args(&container).arg("--no-such-flag");
    let done = process::run(parse, "deploy command line", super::LIMIT)?;
    ensure!(done.code == Some(1) && done.stderr.contains("--no-such-flag"), "{}", done.stderr);
    Ok(container.join(" "))
}

/// Checks that a system waits long enough before it kills a node.
pub(super) fn check_grace(words: &[String], seconds: u64) -> Result<()> {
    let value = |flag: &str| -> Result<u64> {
        let at = words.iter().position(|word| word == flag).with_context(|| format!("no {flag}"))?;
        words.get(at + 1).and_then(|text| text.parse().ok()).with_context(|| format!("{flag} has no seconds"))
    };
    let needed = value("--drain-notice")? + value("--shutdown-timeout")? + MARGIN_SECONDS;
    ensure!(seconds >= needed, "a node is killed after {seconds} s and may need {needed} s");
    Ok(())
}

/// Returns the words of `CMD`.
pub(super) fn of_container(folder: &Path) -> Result<Vec<String>> {
    let file = read(folder, "container/Containerfile")?;
    let (_, command) = file.split_once("\nCMD ").context("the container file has no CMD")?;
    serde_json::from_str(&command.replace("\\\n", " ")).context("CMD is no list of words")
}

/// Returns the words of `ExecStart`, without the program.
pub(super) fn of_unit(folder: &Path) -> Result<Vec<String>> {
    let unit = read(folder, "systemd/hospes-node.service")?;
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/hospes "));
    Ok(command.context("the unit does not start /usr/bin/hospes")?.split(' ').map(str::to_owned).collect())
}

/// Returns the files of secrets that a configuration names, without the folder that they have to be in.
pub(super) fn secret_files(configuration: &str, folder: &str) -> Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    for reference in configuration.split("${file:").skip(1) {
        let path = reference.split('}').next().unwrap_or_default();
        let file = path.strip_prefix(folder).with_context(|| format!("{path} is not in {folder}"))?;
        files.insert(file.to_owned());
    }
    // A value that is written into the file would be one of these.
    for (key, value) in configuration.lines().filter_map(|line| line.split_once(" = ")) {
        let is_secret = ["secret", "key", "postgres", "redis"].contains(&key.trim());
        ensure!(!is_secret || value.contains("${file:"), "`{}` is written into the file", key.trim());
    }
    ensure!(!files.is_empty(), "the configuration names no file of a secret");
    Ok(files)
}
