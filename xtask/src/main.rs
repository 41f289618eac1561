//! `cargo xtask`: the project's chores.

mod bench;
mod bridge;
mod browser;
mod cargo;
mod check;
mod conformance;
mod destinations;
mod docs;
mod flags;
mod models;
mod mutants;
// One function finds the schemas, for the tests that read them and for what reports on them.
#[path = "../../crates/model/tests/it/schema/official.rs"]
mod official;
mod paths;
mod peers;
mod process;
mod report;
mod requirements;
mod soak;
mod test;
#[cfg(test)]
mod threats;
mod tools;

use std::env;
use std::process::ExitCode;

use anyhow::{Result, bail};
use flags::{AcceptedFlags, ChoreFlags};
use report::say;

const HELP: &str = "\
cargo xtask CHORE

  check                    the fast tier: formatting, Clippy and the unit tests
  test [--only PART,…]     every test there is: requirements, rust, docs, conformance, bridge, destinations,
                           browser, peers, models
  conformance server|client|authorization [--revision R] [--scenario S] [--url URL | --command PROGRAM] [--no-build]
                           the official suite against `hospes serve everything`, or our client fixture
  requirements [--check]   coverage of docs/requirements.md by tests; writes docs/coverage.md
  peers [--no-build] [--only GROUP]
                           `hospes` between the Inspector and servers of others, in both eras; the groups are judges,
                           apps, python and fronts
  bridge [--no-build]      `hospes` between applications and servers of every pair of revisions
  destinations [--no-build]
                           hosts, URLs and paths in many spellings: what Python, Node, curl and shells reach, and what
                           the rules say
  browser [--no-build] [--pictures FOLDER]
                           our pages in Chromium, sign-in through npm oidc-provider, the system's keyring
  models                   `hospes-models` at servers of others: every wire format, and a small model
  bench [--only PART,…] [--rounds N] [--from FILE,…]
                           our programs beside their peers; writes the table of docs/performance.md
  soak [--sessions N] [--cycles N]
                           100,000 sessions opened and left, 1,000 children: nothing may be left behind
  mutants [--only AREA,…] [--again] [--singly] [--list] [--page]
                           breaks the rules of proto and model on purpose; every break has to be noticed; writes
                           docs/mutants.md
  docs                     builds the documentation site into target/site and checks its links
  setup                    only installs the outside programs of tools/versions.toml";

/// A chore: what flags it takes, and what it does.
type ChoreEntry = (AcceptedFlags, fn(&ChoreFlags) -> Result<()>);

fn chore(name: &str) -> Option<ChoreEntry> {
    Some(match name {
        "check" => (check::FLAGS, check::run),
        "test" => (test::FLAGS, test::run),
        "conformance" => (conformance::FLAGS, conformance::run),
        "peers" => (peers::FLAGS, peers::run),
        "browser" => (browser::FLAGS, browser::run),
        "models" => (models::FLAGS, models::run),
        "bridge" => (bridge::FLAGS, bridge::run),
        "destinations" => (destinations::FLAGS, destinations::run),
        "bench" => (bench::FLAGS, bench::run),
        "soak" => (soak::FLAGS, soak::run),
        "docs" => (docs::FLAGS, docs::run),
        "mutants" => (mutants::FLAGS, mutants::run),
        "setup" => (tools::FLAGS, tools::run),
        "requirements" => (requirements::FLAGS, requirements::run),
        _ => return None,
    })
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else { bail!("which chore?\n\n{HELP}") };
    if matches!(name.as_str(), "help" | "--help" | "-h") || rest.iter().any(|word| word == "--help") {
        say!("{HELP}");
        return Ok(());
    }
    let Some((accepted, work)) = chore(name) else { bail!("no chore is called `{name}`\n\n{HELP}") };
    work(&ChoreFlags::parse(rest, accepted)?)
}
