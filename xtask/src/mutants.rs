//! `cargo xtask mutants`: breaks the rules on purpose, one at a time, and sees whether a test notices.

mod record;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::cargo;
use crate::flags::{Accepted, Flags};
use crate::place;
use crate::report::{Outcome, say};
use crate::tools::{self, Versions};
use record::{Explanations, Record};

/// What the command line may say.
pub(crate) const FLAGS: Accepted =
    Accepted { values: &["only", "shard"], switches: &["list", "again", "page"] };

/// Mutants outside functions: the values of limits and tables of constants. Tests set limits of their own, and one that
/// repeated the default would only say the same thing twice.
const CONSTANTS: &str = r": replace \S+ with \S+$";

/// Rules that are broken together.
struct Area {
    name: &'static str,
    /// Globs of the files.
    files: &'static [&'static str],
    /// Whose tests have to notice.
    package: &'static str,
}

const AREAS: [Area; 6] = [
    Area { name: "frame", files: &["crates/proto/src/frame/**/*.rs"], package: "hospes-proto" },
    Area { name: "session", files: &["crates/proto/src/session/**/*.rs"], package: "hospes-proto" },
    Area { name: "http", files: &["crates/proto/src/http/**/*.rs"], package: "hospes-proto" },
    Area {
        name: "era",
        files: &["crates/proto/src/era.rs", "crates/proto/src/revisions.rs", "crates/proto/src/state.rs"],
        package: "hospes-proto",
    },
    Area { name: "revision", files: &["crates/model/src/revision/**/*.rs"], package: "hospes-model" },
    Area { name: "reply", files: &["crates/model/src/reply/**/*.rs"], package: "hospes-model" },
];

/// Mutates every area, or those named by `--only`. `--again` leaves out what was caught before; `--page` runs nothing
/// and only writes docs/mutants.md from what earlier runs found.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let only = flags.list("only");
    if let Some(unknown) = only.iter().find(|name| !AREAS.iter().any(|area| area.name == name.as_str())) {
        bail!("no area is called `{unknown}`; there are {}", AREAS.map(|area| area.name).join(", "));
    }
    let chosen = || AREAS.iter().filter(|area| only.is_empty() || only.iter().any(|name| name == area.name));
    if !flags.has("page") {
        install()?;
        for area in chosen() {
            area.mutate(flags)?;
        }
    }
    if flags.has("list") {
        return Ok(());
    }
    let explanations = Explanations::read()?;
    let mut troubles = Vec::new();
    let mut records = Vec::new();
    for area in &AREAS {
        let listed = area.listed()?;
        let mut record = Record::read(&area.output()?)?.unwrap_or_default();
        // What was found of code that has changed since says nothing.
        record.keep_only(&listed);
        if chosen().any(|one| one.name == area.name) {
            troubles.extend(record.unexplained(&explanations));
        }
        records.push((area.name, listed.len(), record));
    }
    if records.iter().all(|(_, listed, record)| *listed == record.len()) {
        troubles.extend(explanations.stale(&records));
    }
    let path = place::root().join("docs/mutants.md");
    fs::write(&path, record::page(&records, &explanations))
        .with_context(|| format!("writing {}", path.display()))?;
    if troubles.is_empty() {
        return Ok(());
    }
    say!("\n{}", troubles.join("\n"));
    bail!(
        "{} mutants survived without a reason in tools/mutants.toml, or have one without need",
        troubles.len()
    )
}

impl Area {
    fn output(&self) -> Result<PathBuf> {
        Ok(place::target()?.join("mutants").join(self.name))
    }

    /// First with the tests that stand beside the code, which notice nearly everything and are there at once; what they
    /// miss again with all tests of the crate.
    fn mutate(&self, flags: &Flags) -> Result<()> {
        let output = self.output()?;
        fs::create_dir_all(&output).with_context(|| format!("creating {}", output.display()))?;
        say!("{}: results go to {}", self.name, output.display());
        if flags.has("list") {
            return self.cargo_mutants(&output, flags, &["--list"]);
        }
        let mut beside = vec!["--timeout=60", "--cargo-arg=--lib"];
        if flags.has("again") {
            // What an interrupted run found counts, too.
            Record::keep_if_any(&output)?;
            beside.push("--iterate");
        } else if flags.value("shard").is_none() {
            Record::forget(&output)?;
        }
        self.cargo_mutants(&output, flags, &beside)?;
        Record::keep(&output)?;
        let mut rest = vec!["--iterate", "--timeout=60"];
        if tools::works("cargo-nextest") {
            // One test that notices is enough.
            rest.extend(["--test-tool=nextest", "--", "--fail-fast"]);
        }
        self.cargo_mutants(&output, flags, &rest)?;
        // There may have been nothing left to try.
        Record::keep_if_any(&output)
    }

    /// What chooses the mutants.
    fn arguments(&self) -> Vec<&'static str> {
        let mut arguments =
            vec!["mutants", "--package", self.package, "--colors=never", "--exclude-re", CONSTANTS];
        arguments.extend(self.files.iter().flat_map(|files| ["--file", *files]));
        arguments
    }

    /// The names of all of them.
    fn listed(&self) -> Result<BTreeSet<String>> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(self.arguments()).arg("--list").current_dir(place::root());
        let listed = command.output().context("listing mutants")?;
        ensure!(
            listed.status.success(),
            "mutants cannot be listed: {}",
            String::from_utf8_lossy(&listed.stderr)
        );
        Ok(String::from_utf8(listed.stdout)?.lines().map(str::to_owned).collect())
    }

    fn cargo_mutants(&self, output: &Path, flags: &Flags, how: &[&str]) -> Result<()> {
        let output = output.display().to_string();
        let mut arguments = self.arguments();
        arguments.extend(["--output", &output, "--cap-lints=true", "--no-shuffle"]);
        if let Some(shard) = flags.value("shard") {
            arguments.extend(["--sharding=round-robin", "--shard", shard]);
        }
        arguments.extend(how);
        // The properties' own number of cases makes a mutant that is caught slow to catch; what a debugger wants is only
        // in the way.
        let mut settings =
            vec![("PROPTEST_CASES", "32".to_owned()), ("CARGO_PROFILE_DEV_DEBUG", "0".to_owned())];
        // The copy that is broken stands elsewhere, where the schemas are not beside it.
        if let Ok(schemas) = place::shared().join("spec/schema").canonicalize() {
            settings.push(("HOSPES_SCHEMAS", schemas.display().to_string()));
        }
        match cargo::run_with(&arguments, &settings) {
            // That some survived is no failure of the run; whether it came to its end is seen by what it wrote.
            Outcome::Passed(_) | Outcome::Failed(_) => Ok(()),
            Outcome::CannotRun(why) => bail!(why),
        }
    }
}

/// Makes sure of cargo-mutants.
fn install() -> Result<()> {
    if tools::works("cargo mutants") {
        return Ok(());
    }
    let versions = Versions::read()?;
    let version =
        versions.cargo.get("cargo-mutants").context("cargo-mutants is not in tools/versions.toml")?;
    let package = format!("cargo-mutants@{version}");
    say!("installing {package} …");
    match cargo::run(&["install", "--locked", &package]) {
        Outcome::Passed(_) => Ok(()),
        Outcome::Failed(why) | Outcome::CannotRun(why) => bail!(why),
    }
}
