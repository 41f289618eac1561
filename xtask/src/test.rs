//! `cargo xtask test`: everything, in one go.

use anyhow::{Result, bail};

use crate::flags::{Accepted, Flags};
use crate::report::{Outcome, Report, say};
use crate::tools::{self, Versions};
use crate::{bridge, browser, cargo, conformance, destinations, models, peers, place, requirements};

/// Flags of the chore.
pub(crate) const FLAGS: Accepted = Accepted { values: &["only"], switches: &[] };

/// A part of the tests.
struct Part {
    name: &'static str,
    /// True if it requires the workspace to be built.
    built: bool,
    run: fn(&mut Report),
}

/// The parts, in the order in which they run: cheap and telling ones first.
const PARTS: [Part; 9] = [
    Part {
        name: "requirements",
        built: false,
        run: |report| report.part("requirements", requirements::part),
    },
    Part { name: "rust", built: true, run: rust },
    Part { name: "docs", built: false, run: docs },
    Part { name: "conformance", built: true, run: conformance },
    Part { name: "bridge", built: true, run: |report| report.part("bridge", bridge::part) },
    Part { name: "destinations", built: true, run: |report| report.part("destinations", destinations::part) },
    Part { name: "browser", built: true, run: |report| report.part("browser", browser::part) },
    Part { name: "models", built: true, run: |report| report.part("models", models::part) },
    Part { name: "peers", built: true, run: |report| report.part("peers", peers::part) },
];

/// Runs all parts, or those named by `--only`, and ends with a table.
pub(crate) fn run(flags: &Flags) -> Result<()> {
    let only = flags.list("only");
    let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
    if let Some(unknown) = only.iter().find(|part| !known.contains(&part.as_str())) {
        bail!("no part is called `{unknown}`; there are {}", known.join(", "));
    }
    let mut report = Report::default();
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
    if report.finish(place::ci()) { Ok(()) } else { bail!("not everything passed") }
}

fn rust(report: &mut Report) {
    report.part("schema files", || {
        let schemas = place::shared().join("spec/schema");
        if schemas.is_dir() {
            return Outcome::Passed("found beside the checkout".to_owned());
        }
        Outcome::CannotRun(
            "../shared/spec/schema is absent, so tests that validate against it skip".to_owned(),
        )
    });
    if cfg!(target_os = "linux") {
        // Else the tests of confined servers leave half of it out.
        report.part("bubblewrap", || match Versions::read().and_then(|pins| pins.provide("bwrap")) {
            Ok(()) => Outcome::Passed("installed".to_owned()),
            Err(error) => Outcome::CannotRun(format!("{error:#}")),
        });
    }
    report.part("rust tests", || {
        if tools::works("cargo-nextest") {
            let profile = if place::ci() { "ci" } else { "default" };
            return cargo::run(&["nextest", "run", "--workspace", "--profile", profile]);
        }
        let version = Versions::read().ok().and_then(|pins| pins.cargo.get("cargo-nextest").cloned());
        let version = version.unwrap_or_default();
        say!(
            "cargo-nextest is not installed; using `cargo test`, which runs the same tests less in parallel"
        );
        say!("(to have it: cargo install --locked cargo-nextest@{version})");
        cargo::run(&["test", "--workspace", "--lib", "--bins", "--tests", "--examples", "--quiet"])
    });
}

fn docs(report: &mut Report) {
    report.part("doc examples", || cargo::run(&["test", "--workspace", "--doc", "--quiet"]));
}

fn conformance(report: &mut Report) {
    report.part("conformance server", conformance::server_part);
    report.part("conformance client", conformance::client_part);
    report.part("conformance authorization", conformance::authorization_part);
}
