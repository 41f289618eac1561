//! `cargo xtask soak`: thousands of sessions opened and left, hundreds of children started and ended, and nothing left
//! behind. The tests run a short form of the same.

use anyhow::Result;
use clap::Args;

use crate::cargo;
use crate::report::say;
use crate::tools::ToolVersions;

/// Options of `cargo xtask soak`.
#[derive(Debug, Args)]
pub(crate) struct SoakOptions {
    /// Sessions that are opened and left.
    #[arg(long, default_value_t = 100_000)]
    sessions: usize,
    /// Children that are started.
    #[arg(long, default_value_t = 1_000)]
    cycles: usize,
}

/// Runs the long form, with what was used before and after.
pub(crate) fn run(options: &SoakOptions) -> Result<()> {
    let settings = [
        ("HOSPES_SOAK_SESSIONS", options.sessions.to_string()),
        ("HOSPES_SOAK_CYCLES", options.cycles.to_string()),
    ];
    if cfg!(target_os = "linux")
        && let Err(error) = ToolVersions::read().and_then(|pins| pins.provide("bwrap"))
    {
        say!("servers confined by bubblewrap are left out: {error:#}");
    }
    for (package, test, only) in [
        ("hospes-testkit", "soak", ""),
        // The helper that servers are started by, and what it has to leave behind: nothing.
        ("hospes-sandbox", "children", "hundreds_of_servers_leave_no_orphan"),
    ] {
        let arguments =
            ["test", "--package", package, "--test", test, "--", only, "--nocapture", "--test-threads=1"];
        let arguments: Vec<&str> = arguments.into_iter().filter(|word| !word.is_empty()).collect();
        cargo::run_with(&arguments, &settings).into_result()?;
    }
    Ok(())
}
