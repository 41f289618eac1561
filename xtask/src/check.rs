//! The fast tier: what one runs before each commit.

use anyhow::{Result, bail};

use crate::report::PartReport;
use crate::{cargo, systems, tools};

pub(crate) fn run() -> Result<()> {
    let mut report = PartReport::default();
    report.part("formatting", || cargo::run(&["fmt", "--all", "--check"]));
    report.part("clippy", || {
        cargo::run(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"])
    });
    report.part("documentation of the code", || {
        cargo::run_with(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings".to_owned())])
    });
    report.part("other systems", systems::part);
    report.part("unit tests", || {
        if tools::is_installed("cargo-nextest") {
            cargo::run(&["nextest", "run", "--workspace", "--lib", "--bins"])
        } else {
            cargo::run(&["test", "--workspace", "--lib", "--bins", "--quiet"])
        }
    });
    if report.finish(false) { Ok(()) } else { bail!("not everything passed") }
}
