//! Finds the official JSON Schemas, which are not part of this repository. `xtask` includes this file, too.

use std::env;
use std::path::{Path, PathBuf};

/// Variable that names a checkout of the specification's repository.
pub(crate) const VARIABLE: &str = "HOSPES_SPECIFICATION";

/// Returns the schema of a revision: `schema/REVISION/schema.json` in the checkout that [`VARIABLE`] names, else in the
/// documents beside the project. There, and in a checkout, `schema/REVISION.json` is accepted as well.
///
/// # Errors
///
/// A line that names the file that is missing, and how to provide it.
///
/// # Panics
///
/// If [`VARIABLE`] is set and the schema is not there: the tests that were asked for must not be skipped.
pub(crate) fn official_schema(project: &Path, revision: &str) -> Result<PathBuf, String> {
    let named = env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = named.clone().unwrap_or_else(|| project.join("../shared/spec")).join("schema");
    let files = [folder.join(revision).join("schema.json"), folder.join(format!("{revision}.json"))];
    let found = files.iter().find(|file| file.is_file()).cloned();
    assert!(
        found.is_some() || named.is_none(),
        "{VARIABLE} must name a checkout of the specification's repository; {} is missing",
        files[0].display()
    );
    found.ok_or_else(|| {
        format!(
            "skipped: no official schema of {revision}; set {VARIABLE} to a checkout of \
             https://github.com/modelcontextprotocol/modelcontextprotocol"
        )
    })
}
