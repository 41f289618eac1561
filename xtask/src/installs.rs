//! `cargo xtask installs`: the packages of the program, installed in empty places by the programs that people use for it.
//!
//! Each installed program runs, calls a tool, and names the command that upgrades it; then it is removed. Validators that
//! are not ours judge the packages. The packages contain the debug program; those for other systems contain a stand-in.

mod archive;
mod container;
mod crates;
mod debian;
mod npm;
mod python;
mod validators;
mod workflows;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::BuildOptions;
use crate::checks::CheckList;
use crate::package::{self, PLATFORMS, ProgramFile, Release};
use crate::process::{self, FinishedProcess};
use crate::report::{PartOutcome, say};
use crate::tools::{NodeTools, PythonTools, ToolVersions};
use crate::{cargo, paths};

/// Options of `cargo xtask installs`.
#[derive(Debug, Args)]
pub(crate) struct InstallsOptions {
    /// One group of checks.
    #[arg(long, value_parser = GROUPS.map(|(name, _)| name))]
    only: Option<String>,
    #[command(flatten)]
    build: BuildOptions,
}

type Group = (&'static str, fn(&Bench, &mut CheckList) -> Result<()>);

/// The groups of checks.
const GROUPS: [Group; 8] = [
    ("archive", archive::examine),
    ("crates", crates::examine),
    ("npm", npm::examine),
    ("python", python::examine),
    ("debian", debian::examine),
    ("container", container::examine),
    ("validators", validators::examine),
    ("workflows", workflows::examine),
];

/// Time limit of one command.
const LIMIT: Duration = Duration::from_secs(120);
/// Folder of a release's files, in manifests.
const DOWNLOAD_URL: &str = "https://downloads.example/v0";
/// Commands of Debian packages that the checks need.
const COMMANDS: [&str; 7] = ["dpkg-deb", "lintian", "ruby", "buildah", "strip", "npm", "systemd-analyze"];

/// Runs the chore.
pub(crate) fn run(options: &InstallsOptions) -> Result<()> {
    if !options.build.no_build {
        cargo::build("hospes-cli")?;
    }
    groups(options.only.as_deref()).into_result()
}

/// Runs the chore as a part of `cargo xtask test`; the program is already built.
pub(crate) fn part() -> PartOutcome {
    groups(None)
}

fn groups(only: Option<&str>) -> PartOutcome {
    let bench = match Bench::ready() {
        Ok(bench) => bench,
        Err(error) => return PartOutcome::CannotRun(format!("{error:#}")),
    };
    let mut checks = CheckList::default();
    let begun = Instant::now();
    if let Err(error) = bench.make_packages() {
        checks.add("packages are made", Err(error));
        return checks.outcome();
    }
    say!("packages: {:.1} s", begun.elapsed().as_secs_f64());
    for (name, examine) in GROUPS.into_iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        let begun = Instant::now();
        if let Err(error) = examine(&bench, &mut checks) {
            checks.add(&format!("{name}: set-up"), Err(error));
        }
        say!("{name}: {:.1} s", begun.elapsed().as_secs_f64());
    }
    checks.outcome()
}

/// The packages, and everything that installs them.
#[derive(Debug)]
struct Bench {
    /// Empty folder for everything.
    folder: PathBuf,
    release: Release,
    node: NodeTools,
    /// Folder of the npm registry.
    registry: PathBuf,
    python: PythonTools,
}

impl Bench {
    /// Installs the tools and empties the folder. An error means that the checks cannot run on this machine.
    fn ready() -> Result<Self> {
        ensure!(cfg!(target_os = "linux"), "packages are made and checked on Linux only");
        let versions = ToolVersions::read()?;
        COMMANDS.iter().try_for_each(|command| versions.provide(command))?;
        let (node, registry) = (NodeTools::ready()?, NodeTools::registry()?);
        let python = PythonTools::packaging()?;
        let folder = paths::tools()?.join("installs");
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("emptying {}", folder.display()))?;
        }
        fs::create_dir_all(&folder)?;
        let release = Release::new(&folder.join("packages"), 1)?;
        Ok(Self { folder, release, node, registry, python })
    }

    /// Makes the packages of the debug program, without its debug information, and of stand-ins for other systems.
    fn make_packages(&self) -> Result<()> {
        let program = self.folder.join("hospes");
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(&program).arg(paths::program("hospes")?);
        process::run(strip, "strip", LIMIT)?.success().context("strip")?;
        let own = ProgramFile::read(&program)?;
        let stand_in = self.folder.join("stand-in");
        fs::write(&stand_in, "#!/bin/false\n")?;
        let others = PLATFORMS.iter().filter(|platform| **platform != *own.platform);
        let others: Vec<_> =
            others.map(|platform| ProgramFile::stand_in(stand_in.clone(), platform)).collect();
        let programs: Vec<_> = std::iter::once(own).chain(others).collect();
        package::make(&self.release, &programs)?;
        package::make_manifests(&self.release, &programs, DOWNLOAD_URL, "https://hospes.example")?;
        self.release.write_checksums()
    }

    /// A package whose name begins and ends so.
    fn package(&self, begin: &str, end: &str) -> Result<PathBuf> {
        let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut found = self
            .release
            .files()?
            .into_iter()
            .filter(|path| name(path).is_some_and(|name| name.starts_with(begin) && name.ends_with(end)));
        let one = found.next().with_context(|| format!("no package {begin}…{end}"))?;
        ensure!(found.next().is_none(), "several packages {begin}…{end}");
        Ok(one)
    }

    /// An empty home folder.
    fn home(&self, name: &str) -> Result<PathBuf> {
        let home = self.folder.join(name);
        fs::create_dir_all(&home)?;
        Ok(home)
    }

    /// Prepares a command: an empty home, in which it also runs, and nothing of the user's environment.
    fn isolate(&self, command: &mut Command, home: &Path) {
        let path: Vec<_> = std::env::var_os("PATH").into_iter().collect();
        command.env_clear().envs(path.into_iter().map(|path| ("PATH", path)));
        command.env("HOME", home).env("LANG", "C.UTF-8").env("NO_COLOR", "1").current_dir(home);
    }

    /// Runs a command in an empty home, and returns what it printed.
    fn run(&self, mut command: Command, home: &Path, label: &str) -> Result<FinishedProcess> {
        self.isolate(&mut command, home);
        process::run(command, &format!("installs {label}"), LIMIT)?
            .success()
            .with_context(|| label.to_owned())
    }

    /// Checks that an installed program runs, calls a tool, and names this command to upgrade it.
    fn check_program(
        &self,
        checks: &mut CheckList,
        label: &str,
        home: &Path,
        start: impl Fn() -> Command,
        upgrade: &str,
    ) {
        let run = |arguments: &[&str]| {
            let mut command = start();
            command.args(arguments);
            Ok::<_, anyhow::Error>(self.run(command, home, label)?.stdout)
        };
        let version = run(&["--version"])
            .and_then(|said| equals(said.trim(), &format!("hospes {}", self.release.version)));
        checks.add(&format!("{label}: --version"), version);
        let called = run(&["call", "time", "now"]).and_then(|said| contains(&said, "\"timezone\""));
        checks.add(&format!("{label}: a tool called"), called);
        let upgraded = run(&["--json", "upgrade"]).and_then(|said| upgrades_by(&said, upgrade));
        checks.add(&format!("{label}: upgrade"), upgraded);
    }
}

/// Checks how a program says that its channel upgrades it. The programs here are no releases, so that only the JSON says it.
fn upgrades_by(said: &str, expected: &str) -> Result<String> {
    let said: serde_json::Value = serde_json::from_str(said).with_context(|| said.to_owned())?;
    ensure!(said["command"].is_null(), "a program that is no release is upgraded by {}", said["command"]);
    equals(said["afterRelease"].as_str().unwrap_or_default(), expected)
}

fn equals(said: &str, expected: &str) -> Result<String> {
    ensure!(said == expected, "printed {said:?}, not {expected:?}");
    Ok(expected.to_owned())
}

fn contains(said: &str, part: &str) -> Result<String> {
    ensure!(said.contains(part), "printed {said:?}, without {part:?}");
    Ok(String::new())
}

/// A command with arguments.
fn command<const N: usize>(program: &str, arguments: [&str; N]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}
