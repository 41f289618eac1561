//! `cargo xtask docs`: the documentation site.

use anyhow::{Result, bail};

use crate::flags::{AcceptedFlags, ChoreFlags};
use crate::report::PartOutcome;
use crate::{cargo, paths};

pub(crate) const FLAGS: AcceptedFlags = AcceptedFlags { values: &[], switches: &[] };

/// Builds the site into `target/site`.
pub(crate) fn run(_flags: &ChoreFlags) -> Result<()> {
    let folder = paths::target()?.join("site");
    let folder = folder.to_string_lossy();
    match cargo::run(&["run", "--quiet", "--package", "hospes-site", "--", &folder]) {
        PartOutcome::Passed(_) => Ok(()),
        PartOutcome::Failed(why) | PartOutcome::CannotRun(why) => bail!(why),
    }
}
