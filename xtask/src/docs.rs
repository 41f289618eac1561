//! `cargo xtask docs`: the documentation site.

use anyhow::Result;

use crate::{cargo, paths};

/// Builds the site into `target/site`.
pub(crate) fn run() -> Result<()> {
    let folder = paths::target()?.join("site");
    let folder = folder.to_string_lossy();
    cargo::run(&["run", "--quiet", "--package", "hospes-site", "--", &folder]).into_result()
}
