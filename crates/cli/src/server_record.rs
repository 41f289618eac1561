//! Records about how servers were added: what an update has to know, and the version before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hospes_host::config::{ServerConfig, server_toml};
use hospes_registry::ServerEntry;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exit::{CliError, CliResult};
use crate::packages::name::PackageName;
use crate::paths;

/// Maximum size of a record, in bytes: two entries of a registry, and their answers.
pub(crate) const MAX_RECORD: u64 = 4 * 1024 * 1024;
/// Maximum number of records that are read to find the folders in use.
pub(crate) const MAX_RECORDS: usize = 1000;

/// Data from which a server of a registry or a package is planned: its entry, and the answers of the person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Warnings about its start, as they were shown.
    #[serde(default)]
    pub(crate) warnings: Vec<String>,
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
    /// Configuration file that has the server: its absolute path. Records of the default file may have none.
    #[serde(default)]
    pub(crate) config: Option<PathBuf>,
    /// Base URL of the registry that it comes from. Packages are looked up at their own indexes.
    pub(crate) registry: String,
    pub(crate) current: RecordedVersion,
    /// Version before the last update.
    #[serde(default)]
    pub(crate) previous: Option<RecordedVersion>,
}

impl ServerRecord {
    /// Creates the record of a server of a configuration file.
    pub(crate) fn new(
        config: &Path,
        name: &str,
        registry: &str,
        current: RecordedVersion,
        previous: Option<RecordedVersion>,
    ) -> Self {
        let config = Some(paths::absolute_path(config));
        Self { name: name.to_owned(), config, registry: registry.to_owned(), current, previous }
    }

    /// Reads the record of a server of a configuration file. `None` if there is none, or it cannot be read.
    pub(crate) fn read(config: &Path, server: &str) -> Option<Self> {
        let record = Self::read_file(&paths::server_record(config, server)?)?;
        // Two names may have one file.
        let is_same = record.config.as_ref().is_none_or(|known| *known == paths::absolute_path(config));
        (record.name == server && is_same).then_some(record)
    }

    fn read_file(file: &Path) -> Option<Self> {
        if file.metadata().ok()?.len() > MAX_RECORD {
            return None;
        }
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }

    /// Returns the records that can be read, at most [`MAX_RECORDS`].
    pub(crate) fn all() -> Vec<Self> {
        let files = record_files("json");
        files.iter().filter_map(|file| Self::read_file(file)).take(MAX_RECORDS).collect()
    }

    /// Returns the file of the record. `None` without a folder for it.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let config = self.config.clone().or_else(paths::new_config_path)?;
        paths::server_record(&config, &self.name)
    }

    /// Returns true if the record is about this server or package, and not about one that was there under its name before.
    pub(crate) fn is_of(&self, server: &ServerConfig) -> bool {
        let entry = &self.current.recipe.entry;
        let Some(origin) = &server.origin.registry else { return false };
        match PackageName::read(origin) {
            Some(name) => ServerEntry::from_value(entry.clone())
                .is_ok_and(|entry| PackageName::of_entry(&entry).as_ref() == Some(&name)),
            None => entry["name"].as_str() == Some(origin),
        }
    }

    /// Returns the folders of its versions.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> {
        let versions = std::iter::once(&self.current).chain(&self.previous);
        versions.filter_map(|version| version.folder.as_deref())
    }

    /// Writes the record. Answers are in it, so only its owner can read it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&self) -> CliResult {
        let failed = |error: &std::io::Error| {
            CliError::usage("the record for later updates was not written").with_cause(error)
        };
        let file = self.file().ok_or_else(|| {
            CliError::usage("no folder found for the record of the server").hint("set HOME")
        })?;
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        let folder = file.parent().unwrap_or(&file);
        hospes_fs::create_private_folder(folder).map_err(|error| failed(&error))?;
        paths::write_private(&file, &text).map_err(|error| failed(&error))
    }

    /// Removes the record of a server, if there is one.
    pub(crate) fn remove(config: &Path, server: &str) {
        if Self::read(config, server).is_some()
            && let Some(file) = paths::server_record(config, server)
        {
            let _gone = std::fs::remove_file(file);
        }
    }
}

/// Returns the files with this extension in the folder of the records, and in those of other configuration files.
pub(crate) fn record_files(extension: &str) -> Vec<PathBuf> {
    let Some(folder) = paths::server_records() else { return Vec::new() };
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let (folders, mut files): (Vec<_>, Vec<_>) = entries(&folder).into_iter().partition(|path| path.is_dir());
    files.extend(folders.iter().flat_map(|folder| entries(folder)));
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files
}
