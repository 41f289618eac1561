//! Records about how servers were added: what an update has to know, and the version before.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hospes_host::config::{ServerConfig, server_toml};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exit::{CliError, CliResult};
use crate::paths;

/// Maximum size of a record, in bytes: two entries of a registry, and their answers.
const MAX_RECORD: u64 = 4 * 1024 * 1024;
/// Maximum number of records that are read to find the folders in use.
const MAX_RECORDS: usize = 1000;

/// Data from which a server of a registry or a package is planned: its entry, and the answers of the person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LaunchRecipe {
    /// Entry of the registry, or one that was made for the package.
    pub(crate) entry: Value,
    /// Kind of package, or `remote`.
    pub(crate) kind: String,
    /// Answers, by the ids of the questions.
    #[serde(default)]
    pub(crate) answers: BTreeMap<String, Vec<String>>,
    /// Names of stored secrets, by the ids of the questions.
    #[serde(default)]
    pub(crate) secrets: BTreeMap<String, String>,
    /// Permissions that the command line grants, as they were shown.
    #[serde(default)]
    pub(crate) permissions: Vec<String>,
    /// Account that published the package, if its index names it.
    #[serde(default)]
    pub(crate) publisher: Option<String>,
}

/// A version of a server that was added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedVersion {
    /// Version of the entry in the registry.
    pub(crate) version: String,
    pub(crate) recipe: LaunchRecipe,
    /// Folder into which it was installed.
    #[serde(default)]
    pub(crate) folder: Option<PathBuf>,
    /// Entry of the configuration as it was written, in TOML.
    pub(crate) written: String,
}

impl RecordedVersion {
    /// Creates the record of a version whose entry is written now.
    pub(crate) fn new(recipe: LaunchRecipe, folder: Option<PathBuf>, written: &ServerConfig) -> Self {
        let version = recipe.entry.get("version").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { version, recipe, folder, written: server_toml(written) }
    }
}

/// Record about a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerRecord {
    /// Name in the configuration.
    pub(crate) name: String,
    /// Base URL of the registry that it comes from. Packages are looked up at their own indexes.
    pub(crate) registry: String,
    pub(crate) current: RecordedVersion,
    /// Version before the last update.
    #[serde(default)]
    pub(crate) previous: Option<RecordedVersion>,
}

impl ServerRecord {
    /// Reads the record of a server. `None` if there is none, or it cannot be read.
    pub(crate) fn read(server: &str) -> Option<Self> {
        let record = Self::read_file(&paths::server_record(server)?)?;
        // Two names may have one file.
        (record.name == server).then_some(record)
    }

    fn read_file(file: &Path) -> Option<Self> {
        if file.metadata().ok()?.len() > MAX_RECORD {
            return None;
        }
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }

    /// Returns the folders that the servers with a record use.
    pub(crate) fn used_folders() -> BTreeSet<PathBuf> {
        let entries = paths::server_records().and_then(|folder| std::fs::read_dir(folder).ok());
        let files = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        let files = files.filter(|file| file.extension().is_some_and(|extension| extension == "json"));
        let records = files.take(MAX_RECORDS).filter_map(|file| Self::read_file(&file));
        let versions = records.flat_map(|record| std::iter::once(record.current).chain(record.previous));
        versions.filter_map(|version| version.folder).collect()
    }

    /// Writes the record. Answers are in it, so only its owner can read it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&self) -> CliResult {
        let failed = |error: &std::io::Error| {
            CliError::usage("the record for later updates was not written").with_cause(error)
        };
        let file = paths::server_record(&self.name).ok_or_else(|| {
            CliError::usage("no folder found for the record of the server").hint("set HOME")
        })?;
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        let folder = file.parent().unwrap_or(&file);
        hospes_fs::create_private_folder(folder).map_err(|error| failed(&error))?;
        paths::write_private(&file, &text).map_err(|error| failed(&error))
    }

    /// Removes the record of a server, if there is one.
    pub(crate) fn remove(server: &str) {
        if Self::read(server).is_some()
            && let Some(file) = paths::server_record(server)
        {
            let _gone = std::fs::remove_file(file);
        }
    }
}
