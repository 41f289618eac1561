//! Records of removed servers. They are kept for as long as the files of the servers, and used again if the entry comes back:
//! by the undo of the console, or by hand.

use std::fs;

use hospes_host::config::ConfigLoader;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::exit::{CliError, CliResult};
use crate::packages::removed::{KEPT_FOR, unmark};
use crate::paths;
use crate::server_record::{MAX_RECORD, MAX_RECORDS, ServerRecord, record_files};

/// Extension of the file of a kept record, in place of that of a record in use.
const EXTENSION: &str = "removed";

/// Record of a removed server.
#[derive(Serialize, Deserialize)]
struct RemovedRecord {
    /// Time of the removal.
    removed: Timestamp,
    record: ServerRecord,
}

/// Keeps the record of a server that is removed.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn keep(record: &ServerRecord, now: Timestamp) -> CliResult {
    let Some(file) = record.file() else { return Ok(()) };
    let text = serde_json::to_vec_pretty(&RemovedRecord { removed: now, record: record.clone() });
    let written = text
        .map_err(std::io::Error::other)
        .and_then(|text| paths::write_private(&file.with_extension(EXTENSION), &text));
    written.map_err(|error| {
        CliError::usage("the record of the server is not kept, so its updates cannot be undone later")
            .with_cause(&error)
    })
}

/// Puts the records of servers back whose entries are there again, and removes those whose time is over.
pub(crate) fn sweep(now: Timestamp) {
    for file in record_files(EXTENSION).iter().take(MAX_RECORDS) {
        // Two copies of a recipe are at most twice as long.
        let read = fs::metadata(file).is_ok_and(|about| about.len() <= 2 * MAX_RECORD);
        let text = read.then(|| fs::read(file).ok()).flatten();
        let kept: Option<RemovedRecord> = text.and_then(|text| serde_json::from_slice(&text).ok());
        let is_done = match kept {
            Some(kept) => match is_back(&kept.record) {
                Some(true) => put_back(&kept.record),
                Some(false) => now.duration_since(kept.removed) >= KEPT_FOR,
                None => false,
            },
            None => true,
        };
        if is_done {
            let _gone = fs::remove_file(file);
        }
    }
}

/// Returns true if the entry that a record is about is in its configuration file. `None` if the file cannot be read.
fn is_back(record: &ServerRecord) -> Option<bool> {
    let config = record.config.clone().or_else(paths::new_config_path)?;
    if !config.exists() {
        return Some(false);
    }
    let loader = ConfigLoader::new().keep_references(true).keep_going(true).allow_unset(true);
    let servers = loader.load([&config]).ok()?.servers;
    let version = |stated: &Option<String>| stated.as_ref().is_none_or(|one| *one == record.current.version);
    let is_back = servers
        .iter()
        .any(|server| server.name == record.name && record.is_of(server) && version(&server.origin.version));
    Some(is_back)
}

/// Writes a record again, unless the server was added anew. Returns true if the kept copy is not needed any more.
fn put_back(record: &ServerRecord) -> bool {
    if record.file().is_some_and(|file| file.exists()) {
        return true;
    }
    let written = record.write();
    if let Err(error) = &written {
        tracing::warn!(server = record.name, %error, "the record of a server is not put back");
        return false;
    }
    record.folders().for_each(unmark);
    true
}
