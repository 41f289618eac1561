//! Warnings that the person does not want to see again.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::check::{CheckStatus, DoctorChain};
use crate::exit::{CliError, CliResult};
use crate::paths;

/// Maximum number of warnings that are remembered.
const MAX_IGNORED: usize = 1000;

/// Warnings that are not shown, in a file of the state.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct IgnoredWarnings {
    warnings: Vec<IgnoredWarning>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct IgnoredWarning {
    code: String,
    /// Server or application. `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

fn file() -> Option<PathBuf> {
    Some(paths::state_file()?.with_file_name("doctor-ignored.json"))
}

impl IgnoredWarnings {
    /// Reads the file. One that is missing or damaged ignores nothing.
    pub(super) fn load() -> Self {
        let text = file().and_then(|file| std::fs::read(file).ok());
        let mut read: Self = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        read.warnings.truncate(MAX_IGNORED);
        read
    }

    pub(super) fn add(&mut self, code: &str, target: Option<&str>) {
        let new = IgnoredWarning { code: code.to_owned(), target: target.map(str::to_owned) };
        if !self.warnings.contains(&new) {
            self.warnings.push(new);
        }
    }

    /// Removes a warning; without a target that of all targets. Returns false if there was none.
    pub(super) fn remove(&mut self, code: &str, target: Option<&str>) -> bool {
        let before = self.warnings.len();
        self.warnings
            .retain(|one| one.code != code || target.is_some_and(|_| one.target.as_deref() != target));
        self.warnings.len() < before
    }

    pub(super) fn store(&self) -> CliResult {
        let file =
            file().ok_or_else(|| CliError::usage("no home folder found for the state").hint("set HOME"))?;
        let written = || -> std::io::Result<()> {
            if let Some(folder) = file.parent() {
                hospes_fs::create_private_folder(folder)?;
            }
            paths::write_private(&file, &serde_json::to_vec_pretty(self)?)
        };
        written().map_err(|error| {
            CliError::usage(format!("cannot write {}", paths::display_path(&file))).with_cause(&error)
        })
    }

    /// Marks the warnings. A fault is never ignored.
    pub(super) fn apply(&self, chains: &mut [DoctorChain]) {
        for check in chains.iter_mut().flat_map(|chain| &mut chain.checks) {
            let is_ignored = |one: &IgnoredWarning| {
                one.code == check.code && one.target.as_ref().is_none_or(|target| *target == check.target)
            };
            if check.status == CheckStatus::Warning && self.warnings.iter().any(is_ignored) {
                check.status = CheckStatus::Ignored;
            }
        }
    }
}
