//! `cargo xtask`: the project's chores.

mod bench;
mod bridge;
mod browser;
mod cargo;
mod check;
mod checks;
mod conformance;
mod crates;
mod deploy;
mod destinations;
mod docs;
mod fleet;
mod guard_bench;
mod installs;
mod models;
mod mutants;
#[cfg(test)]
mod named_tests;
// One function finds the schemas, for the tests that read them and for what reports on them.
#[path = "../../crates/model/tests/it/schema/official.rs"]
mod official;
mod package;
mod paths;
mod peers;
mod process;
mod report;
mod requirements;
mod soak;
mod systems;
mod test;
#[cfg(test)]
mod threats;
mod tools;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser};
use report::say;

/// The project's chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// The fast tier: formatting, Clippy, rustdoc, other systems and the unit tests.
    Check,
    /// Every test there is, or some parts, and a table at the end.
    Test(test::TestOptions),
    /// The official suite against `hospes serve everything`, or our client fixture.
    Conformance(conformance::ConformanceOptions),
    /// Coverage of docs/requirements.md by tests; writes docs/coverage.md.
    Requirements(requirements::RequirementsOptions),
    /// `hospes` between the Inspector and servers of others, in both eras.
    Peers(peers::PeersOptions),
    /// `hospes` between applications and servers of every pair of revisions.
    Bridge(BuildOptions),
    /// Hosts, URLs and paths in many spellings: what Python, Node, curl and shells reach, and what the rules say.
    Destinations(BuildOptions),
    /// Our pages in Chromium, sign-in through npm oidc-provider, the system's keyring.
    Browser(browser::BrowserOptions),
    /// A fleet of three nodes behind HAProxy, with Redis and PostgreSQL: suites, killed nodes and cut links.
    Fleet(fleet::FleetOptions),
    /// `hospes-models` at servers of others: every wire format, and a small model.
    Models,
    /// Our programs beside their peers; writes the table of docs/performance.md.
    Bench(bench::BenchOptions),
    /// The guard against injected text: AgentDojo's pairs through `hospes up`, judged by its own checkers.
    GuardBench(guard_bench::GuardBenchOptions),
    /// Many sessions opened and left, and many children: nothing may be left behind.
    Soak(soak::SoakOptions),
    /// The program for Windows and macOS: compiled; with `--run`, unit tests for Windows under Wine.
    Systems(systems::SystemsOptions),
    /// Breaks the rules of proto and model on purpose; every break has to be noticed; writes docs/mutants.md.
    Mutants(mutants::MutantsOptions),
    /// Builds the documentation site into target/site and checks its links.
    Docs,
    /// Packages the crates that are published, in the order of their dependencies, and builds each package.
    Crates(crates::CratesOptions),
    /// Makes the packages of the program, for each way to get it, into target/packages.
    Package(package::PackageOptions),
    /// Installs the packages of the program in empty places, runs and removes them, and has them judged by validators.
    Installs(installs::InstallsOptions),
    /// The files of deploy/, judged by the programs and schemas of those that read them, and broken on purpose.
    Deploy(BuildOptions),
    /// Only installs the outside programs of tools/versions.toml.
    Setup,
}

/// Options of chores that run a program of the workspace.
#[derive(Debug, Args)]
pub(crate) struct BuildOptions {
    /// Uses the programs as they were built before.
    #[arg(long)]
    pub(crate) no_build: bool,
}

fn main() -> ExitCode {
    match run(Chore::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<()> {
    match chore {
        Chore::Check => check::run(),
        Chore::Test(options) => test::run(&options),
        Chore::Conformance(options) => conformance::run(options),
        Chore::Requirements(options) => requirements::run(&options),
        Chore::Peers(options) => peers::run(&options),
        Chore::Bridge(options) => bridge::run(&options),
        Chore::Destinations(options) => destinations::run(&options),
        Chore::Browser(options) => browser::run(&options),
        Chore::Fleet(options) => fleet::run(&options),
        Chore::Models => models::run(),
        Chore::Bench(options) => bench::run(&options),
        Chore::GuardBench(options) => guard_bench::run(&options),
        Chore::Soak(options) => soak::run(&options),
        Chore::Systems(options) => systems::run(&options),
        Chore::Mutants(options) => mutants::run(&options),
        Chore::Docs => docs::run(),
        Chore::Crates(options) => crates::run(&options),
        Chore::Package(options) => package::run(&options),
        Chore::Installs(options) => installs::run(&options),
        Chore::Deploy(options) => deploy::run(&options),
        Chore::Setup => tools::run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Chore::command().debug_assert();
    }

    #[test]
    fn lists_may_be_repeated_or_hold_commas() {
        let chore = Chore::try_parse_from(["xtask", "test", "--only", "rust,docs", "--only=peers"]).unwrap();
        let Chore::Test(options) = chore else { panic!("{chore:?}") };
        assert_eq!(options.only, ["rust", "docs", "peers"]);
    }
}
