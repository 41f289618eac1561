//! `cargo xtask deploy`: the files of `deploy/`, judged by the programs and schemas of those that read them.
//!
//! Each check also sees broken copies of the files and has to reject them.

mod compose;
mod dashboard;
mod haproxy;
mod kubernetes;
mod node_command;
mod redis;
mod systemd;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::BuildOptions;
use crate::checks::CheckList;
use crate::process::{self, FinishedProcess};
use crate::report::{PartOutcome, say};
use crate::tools::{PythonTools, ToolVersions};
use crate::{cargo, paths};

/// Time limit of one command.
const LIMIT: Duration = Duration::from_secs(60);
/// Commands of Debian packages that the checks need.
const COMMANDS: [&str; 4] = ["haproxy", "openssl", "redis-server", "systemd-analyze"];

/// A check of some of the files.
struct DeployCheck {
    name: &'static str,
    /// Examines the files below a folder, which is `deploy/` or a broken copy of it.
    examine: fn(&DeployBench, &Path) -> Result<String>,
    /// Changes that have to be noticed.
    faults: &'static [Fault],
}

/// A change of a file that has to be noticed: the file, a text in it and what replaces the first occurrence.
struct Fault(&'static str, &'static str, &'static str);

/// Runs the chore.
pub(crate) fn run(options: &BuildOptions) -> Result<()> {
    if !options.no_build {
        cargo::build("hospes-cli")?;
    }
    part().into_result()
}

/// Runs the chore as a part of `cargo xtask test`; the program is already built.
pub(crate) fn part() -> PartOutcome {
    let bench = match DeployBench::ready() {
        Ok(bench) => bench,
        Err(error) => return PartOutcome::CannotRun(format!("{error:#}")),
    };
    let begun = Instant::now();
    let mut checks = CheckList::default();
    let groups = [
        compose::CHECKS,
        haproxy::CHECKS,
        redis::CHECKS,
        systemd::CHECKS,
        kubernetes::CHECKS,
        node_command::CHECKS,
        dashboard::CHECKS,
    ];
    for check in groups.into_iter().flatten() {
        checks.add(check.name, (check.examine)(&bench, &bench.files));
        for fault in check.faults {
            let Fault(file, from, to) = fault;
            let shown = |text: &str| text.trim().lines().next().unwrap_or_default().to_owned();
            let name = format!("  rejects {file}: `{}` for `{}`", shown(to), shown(from));
            checks.add(&name, bench.reject(check, fault));
        }
    }
    say!("deploy: {:.1} s", begun.elapsed().as_secs_f64());
    checks.outcome()
}

/// The tools, and a folder for copies.
#[derive(Debug)]
struct DeployBench {
    /// `deploy/` of the repository.
    files: PathBuf,
    /// Folder for files of the checks.
    folder: PathBuf,
    python: PythonTools,
}

impl DeployBench {
    /// Installs the tools. An error means that the checks cannot run on this machine.
    fn ready() -> Result<Self> {
        ensure!(cfg!(target_os = "linux"), "the files are for Linux, and are checked on Linux only");
        let versions = ToolVersions::read()?;
        COMMANDS.iter().try_for_each(|command| versions.provide(command))?;
        let python = PythonTools::packaging()?;
        let folder = paths::tools()?.join("deploy");
        fs::create_dir_all(&folder)?;
        Ok(Self { files: paths::root().join("deploy"), folder, python })
    }

    /// Examines a copy of the files with a fault, and fails if the check accepts it.
    fn reject(&self, check: &DeployCheck, Fault(file, from, to): &Fault) -> Result<String> {
        let copy = self.folder.join("broken");
        if copy.exists() {
            fs::remove_dir_all(&copy)?;
        }
        copy_folder(&self.files, &copy)?;
        let path = copy.join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {file}"))?;
        ensure!(text.contains(from), "{file} has no `{from}`, so that nothing is broken");
        fs::write(&path, text.replacen(from, to, 1))?;
        match (check.examine)(self, &copy) {
            Ok(_) => bail!("the fault is not noticed"),
            Err(error) => Ok(first_line(&format!("{error:#}"))),
        }
    }

    /// Reads the documents of YAML files.
    fn yaml(&self, files: &[PathBuf]) -> Result<Vec<Value>> {
        let mut read = self.python.script(&paths::root().join("tools/deploy/read.py"));
        read.arg("yaml").args(files);
        let read = run_command(read, "yaml")?;
        serde_json::from_str(&read.stdout).context("what read.py prints")
    }

    /// Writes a file for a check.
    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

/// Runs a command without input that has to succeed.
fn run_command(mut command: Command, label: &str) -> Result<FinishedProcess> {
    command.stdin(Stdio::null());
    let done = process::run(command, &format!("deploy {label}"), LIMIT)?;
    if done.code == Some(0) {
        return Ok(done);
    }
    bail!("{label}: {}", first_line(if done.stderr.is_empty() { &done.stdout } else { &done.stderr }))
}

fn read(folder: &Path, file: &str) -> Result<String> {
    fs::read_to_string(folder.join(file)).with_context(|| format!("reading {file}"))
}

/// Returns the last words of an output, in one line.
fn first_line(text: &str) -> String {
    const MAX_LENGTH: usize = 160;
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    let start = line.char_indices().rev().nth(MAX_LENGTH).map_or(0, |(start, _)| start);
    if start == 0 { line } else { format!("… {}", line.get(start..).unwrap_or_default()) }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if !entry.file_type()?.is_dir() {
            fs::copy(entry.path(), target)?;
        } else if entry.file_name() != "secrets" {
            // Secrets of whoever tries the files are not copied.
            copy_folder(&entry.path(), &target)?;
        }
    }
    Ok(())
}
