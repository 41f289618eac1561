//! Records of connected applications, in the folder of Hospes' state. The back-ups are there, too, because some
//! applications read every file beside their own, and a configuration has secrets.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use hospes_host::config::MAX_FILE;
use hospes_host::config::applications::{ApplicationFile, PlaceScope};
use hospes_host::config::connect::EntrySplice;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::super::file_replace::{leftovers, remove_leftovers};
use super::endpoint::EndpointEntry;
use crate::exit::{CliError, CliResult};
use crate::paths;

/// Maximum size of a record, in bytes.
const MAX_RECORD: u64 = 1 << 20;
/// Maximum number of records that are read.
const MAX_RECORDS: usize = 1000;
/// Version of the form of records. Earlier ones have no number, and are read as this one.
const RECORD_VERSION: u32 = 1;

/// Record of a change of an application's file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ConnectionRecord {
    #[serde(default = "record_version")]
    version: u32,
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
    /// Creates the record of a change from one text to another. `known` is an earlier record of the file.
    pub(super) fn new(
        file: &ApplicationFile,
        is_new: bool,
        splice: EntrySplice,
        (before, after): (&str, &str),
        known: Option<&Self>,
    ) -> Self {
        // A run that was interrupted may have created folders, but not the file.
        let is_known =
            |folder: &&Path| known.is_some_and(|known| known.new_folders.iter().any(|new| new == folder));
        let folders = file.path.ancestors().skip(1);
        let folders = folders.take_while(|folder| !folder.exists() || is_known(folder));
        Self {
            version: RECORD_VERSION,
            application: file.application.id.to_owned(),
            scope: file.scope.as_str().to_owned(),
            file: file.path.clone(),
            is_new,
            new_folders: if is_new { folders.map(Path::to_owned).collect() } else { Vec::new() },
            splice,
            profile: None,
            endpoint: None,
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
        let path = record_file(&self.application, &self.file, "backup")?;
        let text = read_limited(&path, MAX_FILE as u64).ok()?;
        (sha256(&text) == self.before_sha256).then_some(text)
    }

    /// Stores the record and the back-up, readable by their owner alone.
    pub(super) fn store(&self, before: &str) -> CliResult {
        // First the record: it leads to the back-up, which has secrets, and has its digest.
        self.write("json", || serde_json::to_vec_pretty(self).map_err(io::Error::other))?;
        self.write("backup", || Ok(before.as_bytes().to_vec()))
    }

    /// Stores the record again, in place of one that was not needed. Its back-up is lost.
    pub(super) fn restore(&self) -> CliResult {
        self.write("json", || serde_json::to_vec_pretty(self).map_err(io::Error::other))
    }

    fn write(&self, extension: &str, content: impl FnOnce() -> io::Result<Vec<u8>>) -> CliResult {
        let path = record_file(&self.application, &self.file, extension).ok_or_else(|| {
            CliError::usage("no home folder found in which to store a back-up").hint("set HOME")
        })?;
        let folder = path.parent().map_or(Ok(()), hospes_fs::create_private_folder);
        folder.and_then(|()| hospes_fs::replace_private(&path, &content()?)).map_err(|error| {
            CliError::usage(format!("cannot write {}", paths::display_path(&path)))
                .with_cause(&error)
                .hint("nothing was changed; the record is needed to disconnect again")
        })
    }

    /// Revokes the token of the entry, if it has one.
    ///
    /// # Errors
    /// If the tokens cannot be written, so that it stays valid.
    pub(super) fn revoke_token(&self) -> CliResult {
        self.endpoint.as_ref().map_or(Ok(()), |endpoint| endpoint.revoke_token(&self.application))
    }

    /// Deletes the record and the back-up, and revokes the token.
    ///
    /// # Errors
    /// If a file cannot be deleted, or the token cannot be revoked.
    pub(super) fn forget(&self) -> CliResult {
        let revoked = self.revoke_token();
        delete_record(&self.application, &self.file)?;
        revoked
    }

    /// Deletes temporary files beside the file that a killed command has left.
    pub(super) fn remove_leftovers(&self) {
        let known = [&self.before_sha256, &self.after_sha256];
        remove_leftovers(&self.file, |text| known.contains(&&sha256(text)));
    }

    /// Deletes the folders that were created for the file, if they are empty.
    pub(super) fn remove_folders(&self) {
        for folder in &self.new_folders {
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}

/// Record that cannot be used.
#[derive(Debug)]
pub(super) struct UnusableRecord {
    path: PathBuf,
    problem: RecordProblem,
}

#[derive(Debug)]
enum RecordProblem {
    /// It was written in a form that only a newer version knows.
    Newer,
    /// It has no form that a version has written.
    Damaged(String),
    /// The system cannot read it.
    Unreadable(String),
}

impl UnusableRecord {
    /// Describes the problem, for the list of applications.
    pub(super) fn text(&self) -> String {
        let place = paths::display_path(&self.path);
        match &self.problem {
            RecordProblem::Newer => {
                format!("the record of the connection, {place}, was written by a newer version of Hospes")
            }
            RecordProblem::Damaged(why) => {
                format!("the record of the connection, {place}, is damaged: {why}")
            }
            RecordProblem::Unreadable(why) => {
                format!("the record of the connection, {place}, cannot be read: {why}")
            }
        }
    }

    /// Checks that the record may be deleted or replaced, because nobody can use it.
    ///
    /// # Errors
    /// If a newer version of Hospes, or the user, can make use of it.
    pub(super) fn check_damaged(&self) -> CliResult {
        let hint = match self.problem {
            RecordProblem::Damaged(_) => return Ok(()),
            RecordProblem::Newer => "nothing was changed; use that version of Hospes, or `hospes upgrade`",
            RecordProblem::Unreadable(_) => "nothing was changed; make the file readable",
        };
        Err(CliError::usage(self.text()).hint(hint))
    }
}

/// Records of all connections.
#[derive(Debug, Default)]
pub(super) struct ConnectionJournal {
    records: Vec<ConnectionRecord>,
    unusable: Vec<UnusableRecord>,
}

impl ConnectionJournal {
    /// Reads all records, the oldest first.
    ///
    /// # Errors
    /// If their folder cannot be read.
    pub(super) fn read() -> CliResult<Self> {
        let Some(folder) = paths::connections() else { return Ok(Self::default()) };
        let failed = |error: &io::Error| {
            CliError::usage(format!("cannot read {}", paths::display_path(&folder)))
                .with_cause(error)
                .hint("nothing was changed; make the folder readable: the records of connections are in it")
        };
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(&error)),
        };
        let mut journal = Self::default();
        for entry in entries {
            let path = entry.map_err(|error| failed(&error))?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            if journal.records.len() + journal.unusable.len() >= MAX_RECORDS {
                return Err(CliError::usage(format!(
                    "more than {MAX_RECORDS} records are in {}",
                    paths::display_path(&folder)
                ))
                .hint(
                    "nothing was changed; disconnect applications, or delete records of files that are gone",
                ));
            }
            match read_record(&path) {
                Ok(record) => journal.records.push(record),
                // Another process has deleted it since.
                Err(RecordProblem::Unreadable(_)) if !path.exists() => {}
                Err(problem) => journal.unusable.push(UnusableRecord { path, problem }),
            }
        }
        journal.records.sort_by(|one, other| one.time.cmp(&other.time));
        Ok(journal)
    }

    /// Reads all records with the lock of all connections, and deletes what a killed command has left beside them.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn read_locked() -> CliResult<Self> {
        for file in paths::connections().map(|folder| leftovers(&folder)).unwrap_or_default() {
            // It may be a back-up, which has secrets.
            let _still_there = fs::remove_file(file);
        }
        Self::read()
    }

    /// Returns all records that can be read, the oldest first.
    pub(super) fn into_records(self) -> Vec<ConnectionRecord> {
        self.records
    }

    /// Returns the records of an application's file. The user's may be about a file at an earlier place.
    pub(super) fn of(&self, file: &ApplicationFile) -> impl Iterator<Item = &ConnectionRecord> {
        self.records.iter().filter(|record| record.is_of(file))
    }

    /// Returns the record of a file at its present place.
    pub(super) fn exactly_of(&self, file: &ApplicationFile) -> Option<&ConnectionRecord> {
        self.of(file).find(|record| record.file == file.path)
    }

    /// Returns the record of a file at its present place if it cannot be used.
    pub(super) fn unusable_of(&self, file: &ApplicationFile) -> Option<&UnusableRecord> {
        let path = record_file(file.application.id, &file.path, "json")?;
        self.unusable.iter().find(|record| record.path == path)
    }
}

/// Deletes the record of an application's file, and the back-up.
///
/// # Errors
/// If one of them is left.
pub(super) fn delete_record(application: &str, file: &Path) -> CliResult {
    // Last the record, which leads to the back-up.
    for path in
        ["backup", "json"].into_iter().filter_map(|extension| record_file(application, file, extension))
    {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(CliError::usage(format!("cannot delete {}", paths::display_path(&path)))
                    .with_cause(&error)
                    .hint("delete it by hand, or make its folder writable and run `hospes disconnect`"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn record_file(application: &str, file: &Path, extension: &str) -> Option<PathBuf> {
    let key = sha256(&file.to_string_lossy());
    Some(paths::connections()?.join(format!("{application}-{}.{extension}", &key[..16])))
}

fn read_record(path: &Path) -> Result<ConnectionRecord, RecordProblem> {
    /// The part of a record that all versions have.
    #[derive(Deserialize)]
    struct RecordHead {
        #[serde(default = "record_version")]
        version: u32,
    }

    let text = read_limited(path, MAX_RECORD).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => RecordProblem::Damaged(error.to_string()),
        _ => RecordProblem::Unreadable(error.to_string()),
    })?;
    let damaged = |error: serde_json::Error| RecordProblem::Damaged(error.to_string());
    let head: RecordHead = serde_json::from_str(&text).map_err(damaged)?;
    if head.version > RECORD_VERSION {
        return Err(RecordProblem::Newer);
    }
    let record: ConnectionRecord = serde_json::from_str(&text).map_err(damaged)?;
    // One that was copied would be deleted under another name.
    if record_file(&record.application, &record.file, "json").as_deref() != Some(path) {
        return Err(RecordProblem::Damaged("it is about another file than its name".to_owned()));
    }
    Ok(record)
}

const fn record_version() -> u32 {
    RECORD_VERSION
}

fn read_limited(file: &Path, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(file)?.take(limit).read_to_string(&mut text)?;
    Ok(text)
}

fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
