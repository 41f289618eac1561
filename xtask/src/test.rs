//! `cargo xtask test`: everything, in one go.

use std::env;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;

use crate::official::official_schema;
use crate::report::{PartOutcome, PartReport, say};
use crate::tools::{self, ToolVersions};
use crate::{
    bridge, browser, cargo, conformance, deploy, destinations, fleet, guard_bench, installs, models, paths,
    peers, requirements,
};

/// Options of `cargo xtask test`.
#[derive(Debug, Args)]
pub(crate) struct TestOptions {
    /// Parts to run: requirements, rust, docs, conformance, bridge, destinations, browser, models, peers, installs,
    /// deploy, fleet, guard.
    #[arg(long, value_delimiter = ',', value_name = "PART")]
    pub(crate) only: Vec<String>,
}

/// A part of the tests.
struct TestPart {
    name: &'static str,
    /// True if it requires the workspace to be built.
    built: bool,
    run: fn(&mut PartReport),
}

/// The parts, in the order in which they run: cheap and telling ones first.
const PARTS: [TestPart; 13] = [
    TestPart {
        name: "requirements",
        built: false,
        run: |report| report.part("requirements", requirements::part),
    },
    TestPart { name: "rust", built: true, run: rust },
    TestPart { name: "docs", built: false, run: docs },
    TestPart { name: "conformance", built: true, run: conformance },
    TestPart { name: "bridge", built: true, run: |report| report.part("bridge", bridge::part) },
    TestPart {
        name: "destinations",
        built: true,
        run: |report| report.part("destinations", destinations::part),
    },
    TestPart { name: "browser", built: true, run: |report| report.part("browser", browser::part) },
    TestPart { name: "models", built: true, run: |report| report.part("models", models::part) },
    TestPart { name: "peers", built: true, run: |report| report.part("peers", peers::part) },
    TestPart { name: "installs", built: true, run: |report| report.part("installs", installs::part) },
    TestPart { name: "deploy", built: true, run: |report| report.part("deploy", deploy::part) },
    TestPart { name: "fleet", built: true, run: |report| report.part("fleet", fleet::part) },
    TestPart { name: "guard", built: true, run: |report| report.part("guard", guard_bench::part) },
];

/// Runs all parts, or those named by `--only`, and ends with a table.
pub(crate) fn run(options: &TestOptions) -> Result<()> {
    let only = &options.only;
    let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
    if let Some(unknown) = only.iter().find(|part| !known.contains(&part.as_str())) {
        bail!("no part is called `{unknown}`; there are {}", known.join(", "));
    }
    let mut report = PartReport::default();
    let mut built = false;
    for part in PARTS {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == part.name) {
            continue;
        }
        if part.built && !built {
            // Tests, examples and programs in one build: one set of features, so nothing is compiled twice.
            report.part("build", || cargo::run(&["build", "--workspace", "--bins", "--examples", "--tests"]));
            built = true;
        }
        (part.run)(&mut report);
    }
    if report.finish(paths::is_ci()) { Ok(()) } else { bail!("not everything passed") }
}

fn rust(report: &mut PartReport) {
    report.part("schema files", || match official_schema(&paths::root(), "2024-11-05") {
        Ok(_) => PartOutcome::Passed("found".to_owned()),
        // A checkout need not have them, so this is no failure, even with CI=true.
        Err(missing) => PartOutcome::Passed(missing),
    });
    if cfg!(target_os = "linux") {
        // Else the tests of confined servers leave half of it out.
        report.part("bubblewrap", || match ToolVersions::read().and_then(|pins| pins.provide("bwrap")) {
            Ok(()) => PartOutcome::Passed("installed".to_owned()),
            Err(error) => PartOutcome::CannotRun(format!("{error:#}")),
        });
    }
    if cfg!(target_os = "linux") {
        // Else the tests of fleets fail.
        report.part("redis, postgresql", || match fleet::provide_engines() {
            Ok(()) => PartOutcome::Passed("installed".to_owned()),
            Err(error) => PartOutcome::CannotRun(format!("{error:#}")),
        });
    }
    report.part("shells, manual, Go", || {
        // Else the tests of completion, of the manual pages and of modules of Go are skipped, and with CI=true they fail.
        let provided = ToolVersions::read().and_then(|pins| {
            ["zsh", "fish", "elvish", "mandoc", "man", "dbus-daemon", "go"]
                .iter()
                .try_for_each(|one| pins.provide(one))
        });
        match provided {
            Ok(()) => PartOutcome::Passed("installed".to_owned()),
            Err(error) => PartOutcome::CannotRun(format!("{error:#}")),
        }
    });
    report.part("bundle tools", || {
        // Else the tests of bundles are not compared with the reference tool, and with CI=true they fail.
        let provided = tools::NodeTools::ready()
            .and_then(|_| ToolVersions::read())
            .and_then(|pins| pins.provide("openssl"));
        match provided {
            Ok(()) => PartOutcome::Passed("installed".to_owned()),
            Err(error) => PartOutcome::CannotRun(format!("{error:#}")),
        }
    });
    report.part("Python packages", || match tools::PythonTools::ready() {
        // Else the tests of metrics are skipped, and with CI=true they fail.
        Ok(_) => PartOutcome::Passed("installed".to_owned()),
        Err(error) => PartOutcome::CannotRun(format!("{error:#}")),
    });
    // Else the tests that install packages of PyPI are skipped, and with CI=true they fail.
    let mut variables = Vec::new();
    report.part("uv", || match tools::PythonTools::packaging().and_then(|tools| path_with(&tools)) {
        Ok(path) => {
            variables.push(("PATH", path));
            PartOutcome::Passed("installed".to_owned())
        }
        Err(error) => PartOutcome::CannotRun(format!("{error:#}")),
    });
    report.part("rust tests", || {
        if tools::is_installed("cargo-nextest") {
            let profile = if paths::is_ci() { "ci" } else { "default" };
            return cargo::run_with(&["nextest", "run", "--workspace", "--profile", profile], &variables);
        }
        let version = ToolVersions::read().ok().and_then(|pins| pins.cargo.get("cargo-nextest").cloned());
        let version = version.unwrap_or_default();
        say!(
            "cargo-nextest is not installed; using `cargo test`, which runs the same tests less in parallel"
        );
        say!("(to have it: cargo install --locked cargo-nextest@{version})");
        cargo::run_with(
            &["test", "--workspace", "--lib", "--bins", "--tests", "--examples", "--quiet"],
            &variables,
        )
    });
}

/// Returns `PATH` with the programs of Python packages, after those of the system.
fn path_with(tools: &tools::PythonTools) -> Result<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([tools.packages().join("bin")]);
    let joined = env::join_paths(folders).context("joining PATH")?;
    joined.into_string().map_err(|_| anyhow!("PATH is not valid UTF-8"))
}

fn docs(report: &mut PartReport) {
    report.part("doc examples", || cargo::run(&["test", "--workspace", "--doc", "--quiet"]));
}

fn conformance(report: &mut PartReport) {
    report.part("conformance server", conformance::server_part);
    report.part("conformance client", conformance::client_part);
    report.part("conformance authorization", conformance::authorization_part);
}
