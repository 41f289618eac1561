//! Records of connected applications, in the folder of Hospes' state. The back-ups are there, too, because some
//! applications read every file beside their own, and a configuration has secrets.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use hospes_host::config::MAX_FILE;
use hospes_host::config::applications::{ApplicationFile, PlaceScope};
use hospes_host::config::connect::EntrySplice;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::endpoint::EndpointEntry;
use crate::exit::{CliError, CliResult};
use crate::paths;

/// Maximum size of a record, in bytes.
const MAX_RECORD: u64 = 1 << 20;
/// Maximum number of records that are read.
const MAX_RECORDS: usize = 1000;

/// Record of a change of an application's file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ConnectionRecord {
    /// Id of the application.
    pub(super) application: String,
    /// Name of the scope.
    scope: String,
    pub(super) file: PathBuf,
    /// True if the file was created.
    pub(super) is_new: bool,
    /// Folders that were created for the file, the innermost first.
    pub(super) new_folders: Vec<PathBuf>,
    pub(super) splice: EntrySplice,
    /// Profile that the entry names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) profile: Option<String>,
    /// Endpoint in the entry. `None` if it starts a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) endpoint: Option<EndpointEntry>,
    before_sha256: String,
    after_sha256: String,
    time: String,
}

impl ConnectionRecord {
    pub(super) fn new(
        file: &ApplicationFile,
        is_new: bool,
        splice: EntrySplice,
        (before, after): (&str, &str),
        endpoint: Option<EndpointEntry>,
    ) -> Self {
        let folders = file.path.ancestors().skip(1).take_while(|folder| !folder.exists());
        Self {
            application: file.application.id.to_owned(),
            scope: file.scope.as_str().to_owned(),
            file: file.path.clone(),
            is_new,
            new_folders: if is_new { folders.map(Path::to_owned).collect() } else { Vec::new() },
            splice,
            profile: None,
            endpoint,
            before_sha256: sha256(before),
            after_sha256: sha256(after),
            time: jiff::Timestamp::now().to_string(),
        }
    }

    pub(super) fn is_of(&self, file: &ApplicationFile) -> bool {
        self.application == file.application.id
            && self.scope == file.scope.as_str()
            // The user has one file of an application, which may have been found elsewhere since.
            && (file.scope == PlaceScope::User || self.file == file.path)
    }

    /// Returns true if a text is the one that was written.
    pub(super) fn is_unchanged(&self, text: &str) -> bool {
        self.after_sha256 == sha256(text)
    }

    /// Returns the text before the change, if the back-up is there and whole.
    pub(super) fn backup(&self) -> Option<String> {
        let text = read_limited(&self.path("backup")?, MAX_FILE as u64)?;
        (sha256(&text) == self.before_sha256).then_some(text)
    }

    /// Stores the record and the back-up, readable by their owner alone.
    pub(super) fn store(&self, before: &str) -> CliResult {
        let (Some(record), Some(backup)) = (self.path("json"), self.path("backup")) else {
            return Err(CliError::usage("no home folder found in which to store a back-up").hint("set HOME"));
        };
        let failed = |error: &std::io::Error| {
            CliError::usage(format!("cannot write {}", paths::display_path(&record)))
                .with_cause(error)
                .hint("nothing was changed; the record is needed to disconnect again")
        };
        let text = serde_json::to_vec_pretty(self).map_err(std::io::Error::other);
        let folder = record.parent().map_or(Ok(()), fs::create_dir_all);
        folder
            .and_then(|()| paths::write_private(&backup, before.as_bytes()))
            .and_then(|()| paths::write_private(&record, &text?))
            .map_err(|error| failed(&error))
    }

    /// Revokes the token of the entry, if it has one.
    pub(super) fn revoke_token(&self) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.revoke_token(&self.application);
        }
    }

    /// Deletes the record and the back-up, and revokes the token.
    pub(super) fn forget(&self) {
        self.revoke_token();
        for path in ["json", "backup"].into_iter().filter_map(|extension| self.path(extension)) {
            let _gone = fs::remove_file(path);
        }
    }

    fn path(&self, extension: &str) -> Option<PathBuf> {
        let key = sha256(&self.file.to_string_lossy());
        Some(paths::connections()?.join(format!("{}-{}.{extension}", self.application, &key[..16])))
    }
}

/// Returns all records.
pub(super) fn records() -> Vec<ConnectionRecord> {
    let Some(entries) = paths::connections().and_then(|folder| fs::read_dir(folder).ok()) else {
        return Vec::new();
    };
    let files = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"));
    let records = files
        .take(MAX_RECORDS)
        .filter_map(|path| serde_json::from_str(&read_limited(&path, MAX_RECORD)?).ok());
    let mut records: Vec<ConnectionRecord> = records.collect();
    records.sort_by(|one, other| one.time.cmp(&other.time));
    records
}

fn read_limited(file: &Path, limit: u64) -> Option<String> {
    let mut text = String::new();
    fs::File::open(file).ok()?.take(limit).read_to_string(&mut text).ok()?;
    Some(text)
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
