//! `cargo xtask soak`: thousands of sessions opened and left, hundreds of children started and ended, and nothing left
//! behind. The tests run a short form of the same.

use anyhow::{Result, bail};

use crate::cargo;
use crate::flags::{AcceptedFlags, ChoreFlags};
use crate::report::{PartOutcome, say};
use crate::tools::ToolVersions;

/// Flags of the chore.
pub(crate) const FLAGS: AcceptedFlags = AcceptedFlags { values: &["sessions", "cycles"], switches: &[] };

/// Settings of the long form: each flag, its variable and its default.
const LONG_FORM_SETTINGS: [(&str, &str, &str); 2] =
    [("sessions", "HOSPES_SOAK_SESSIONS", "100000"), ("cycles", "HOSPES_SOAK_CYCLES", "1000")];

/// Runs the long form, with what was used before and after.
pub(crate) fn run(flags: &ChoreFlags) -> Result<()> {
    let mut settings = Vec::new();
    for (flag, variable, long) in LONG_FORM_SETTINGS {
        let number = flags.value(flag).unwrap_or(long);
        if number.parse::<usize>().is_err() {
            bail!("--{flag} {number}: not a number");
        }
        settings.push((variable, number.to_owned()));
    }
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
        match cargo::run_with(&arguments, &settings) {
            PartOutcome::Passed(_) => {}
            PartOutcome::Failed(why) | PartOutcome::CannotRun(why) => bail!(why),
        }
    }
    Ok(())
}
