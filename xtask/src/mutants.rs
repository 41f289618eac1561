//! `cargo xtask mutants`: breaks the rules on purpose, one at a time, and sees whether a test notices.

use anyhow::{Context as _, Result, bail};

use crate::cargo;
use crate::flags::{Accepted, Flags};
use crate::place;
use crate::report::{Outcome, say};
use crate::tools::{self, Versions};

/// What the command line may say.
pub(crate) const FLAGS: Accepted = Accepted { values: &["only", "shard"], switches: &["list"] };

/// What is mutated: a name, the files, and the packages whose tests have to notice.
const AREAS: [(&str, &str, &[&str]); 4] = [
    ("frame", "crates/proto/src/frame/**/*.rs", &["hospes-proto"]),
    ("session", "crates/proto/src/session/**/*.rs", &["hospes-proto"]),
    ("http", "crates/proto/src/http/**/*.rs", &["hospes-proto"]),
    ("revision", "crates/model/src/revision/**/*.rs", &["hospes-model"]),
];

/// Mutates every area, or those named by `--only`.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let only = flags.list("only");
    let known: Vec<&str> = AREAS.iter().map(|(name, ..)| *name).collect();
    if let Some(unknown) = only.iter().find(|area| !known.contains(&area.as_str())) {
        bail!("no area is called `{unknown}`; there are {}", known.join(", "));
    }
    install()?;
    let mut survived = Vec::new();
    for (name, files, packages) in AREAS {
        if !only.is_empty() && !only.iter().any(|area| area == name) {
            continue;
        }
        let output = place::target()?.join("mutants").join(name);
        std::fs::create_dir_all(&output).with_context(|| format!("creating {}", output.display()))?;
        let output = output.display().to_string();
        say!("{name}: results go to {output}");
        let mut arguments = vec!["mutants", "--file", files, "--output", &output, "--colors=never"];
        for package in packages {
            arguments.extend(["--test-package", package]);
        }
        // The properties' own number of cases makes a mutant that is caught slow to catch.
        let settings = [("PROPTEST_CASES", "32".to_owned())];
        if flags.has("list") {
            arguments.push("--list");
        } else {
            arguments.extend(["--baseline=run", "--timeout=60", "--cap-lints=true"]);
        }
        if let Some(shard) = flags.value("shard") {
            arguments.extend(["--shard", shard]);
        }
        match cargo::run_with(&arguments, &settings) {
            Outcome::Passed(_) => {}
            Outcome::Failed(_) => survived.push(name),
            Outcome::CannotRun(why) => bail!(why),
        }
    }
    if survived.is_empty() {
        Ok(())
    } else {
        bail!("mutants survived, or tests failed, in {}", survived.join(", "))
    }
}

/// Makes sure of cargo-mutants.
fn install() -> Result<()> {
    if tools::works("cargo-mutants") {
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
