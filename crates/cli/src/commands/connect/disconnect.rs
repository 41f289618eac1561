//! `hospes disconnect`: removes the entry from the file of an application.

use std::fs;
use std::io;
use std::path::Path;

use hospes_host::config::applications::{ApplicationFile, PlaceScope};
use hospes_host::config::connect::{ApplicationEntry, ENTRY_NAME, EditEntryError, EntryState};

use super::super::file_replace::{remove, replace};
use super::journal::{ConnectionJournal, ConnectionRecord, delete_record};
use super::state_file::{check_removed, read_settled};
use super::{check_owner, endpoint, find_file, recorded_entry, report};
use crate::args::DisconnectArgs;
use crate::command_lock::CommandLock;
use crate::exit::{CliError, CliResult};
use crate::output::CliOutput;
use crate::paths;

pub(crate) fn disconnect(args: &DisconnectArgs, output: CliOutput) -> CliResult {
    let file = find_file(&args.application, args.project, output)?;
    let command = format!("hospes disconnect {}", file.application.id);
    let _lock = CommandLock::of_connections(&command, output)?;
    disconnect_file(&file, output, true)
}

/// Disconnects an application, with the lock of all connections. `is_checked` is false if the file is changed again at once.
pub(super) fn disconnect_file(file: &ApplicationFile, output: CliOutput, is_checked: bool) -> CliResult {
    let journal = ConnectionJournal::read_locked()?;
    let unusable = journal.unusable_of(file);
    if let Some(unusable) = unusable {
        unusable.check_damaged()?;
        output.warn(format_args!("{}; the entry is removed without it", unusable.text()));
    }
    let recorded: Vec<&ConnectionRecord> = journal.of(file).collect();
    for record in &recorded {
        let mut file = file.clone();
        file.path.clone_from(&record.file);
        record.remove_leftovers();
        // First the token, which must not be valid any more whatever becomes of the file.
        let revoked = record.revoke_token();
        let removal = remove_entry(&file, Some(record), true)?;
        removal.check(&file, output, is_checked)?;
        revoked?;
        record.forget()?;
        removal.report(&file, Some(record), output);
    }
    if !recorded.is_empty() && unusable.is_none() {
        return Ok(());
    }
    // A damaged record of the user's file may be about a token, which is that of the application.
    let has_token = unusable.is_some() && recorded.is_empty() && file.scope == PlaceScope::User;
    let revoked = if has_token { endpoint::revoke_token_of(file.application.id) } else { Ok(()) };
    let removal = remove_entry(file, None, unusable.is_some())?;
    removal.check(file, output, is_checked)?;
    revoked?;
    if unusable.is_some() {
        delete_record(file.application.id, &file.path)?;
    }
    removal.report(file, None, output);
    Ok(())
}

/// Removal of an entry.
struct EntryRemoval {
    state: &'static str,
    text: String,
    /// The entry, if the file was changed.
    removed: Option<ApplicationEntry>,
}

impl EntryRemoval {
    fn none(text: String) -> Self {
        Self { state: "not-connected", text, removed: None }
    }

    fn of(entry: ApplicationEntry, text: String) -> Self {
        Self { state: "disconnected", text, removed: Some(entry) }
    }

    /// Checks that a running application does not restore the entry.
    fn check(&self, file: &ApplicationFile, output: CliOutput, is_checked: bool) -> CliResult {
        match &self.removed {
            Some(entry) if is_checked => check_removed(entry, file, output),
            _ => Ok(()),
        }
    }

    fn report(&self, file: &ApplicationFile, record: Option<&ConnectionRecord>, output: CliOutput) {
        report(file, self.state, (None, record.and_then(|record| record.profile.as_deref())), output);
        output.say(&self.text);
    }
}

/// Removes the entry from a file. `is_ours` is true if there is a record that Hospes has written an entry, even if it cannot
/// be read.
fn remove_entry(
    file: &ApplicationFile,
    record: Option<&ConnectionRecord>,
    is_ours: bool,
) -> CliResult<EntryRemoval> {
    let (name, path, place) = (file.application.name, &file.path, paths::display_path(&file.path));
    let state_of =
        |text: &str| recorded_entry(file.application, text, record).map(|entry| entry.state(path, text));
    // The application may be writing the file: an entry that is not there now may be there in a moment.
    let text = read_settled(path, |text| match state_of(text) {
        Ok(Ok(EntryState::Absent)) => is_ours,
        Ok(state) => state.is_err(),
        Err(_) => false,
    })?;
    if text.is_empty() && is_gone(path) {
        if let Some(record) = record {
            record.remove_folders();
        }
        return Ok(EntryRemoval::none(format!("{name} is not connected: there is no {place}")));
    }
    let entry = recorded_entry(file.application, &text, record)?;
    let snippet =
        format!("remove the server `{ENTRY_NAME}` by hand, which was added as:\n{}", entry.snippet());
    let by_hand = |error: EditEntryError| {
        CliError::usage(format!("cannot remove Hospes from {place}; it was not changed"))
            .with_cause(&error)
            .hint(&snippet)
    };
    // A link that somebody has put in its place leads to a file that is not ours.
    let is_new = |left: Option<&str>| {
        let is_nothing = left.is_none_or(|left| entry.is_blank(left));
        record.filter(|record| record.is_new && is_nothing && !path.is_symlink())
    };
    let change = |left: &str| {
        check_owner(path).map_err(|problem| problem.hint(&snippet))?;
        match is_new(Some(left)) {
            Some(record) => delete_new(record, path, &text),
            None => replace(path, &text, left),
        }
    };
    if let Some(record) = record {
        let unchanged = record.is_unchanged(&text);
        if unchanged && is_new(None).is_some() {
            check_owner(path).map_err(|problem| problem.hint(&snippet))?;
            delete_new(record, path, &text)?;
            let how = format!("{name} is disconnected: {place} was deleted, as it was new");
            return Ok(EntryRemoval::of(entry, how));
        }
        let backup = if unchanged { record.backup() } else { None };
        let restored = backup.is_some();
        let left = backup.or_else(|| entry.cut(path, &text, &record.splice));
        // An application may not read a file without a value.
        let left =
            left.filter(|left| !(record.is_new && path.is_symlink() && entry.has_no_value(path, left)));
        if let Some(left) = left {
            change(&left)?;
            let how =
                if restored { "the file is as it was before" } else { "later changes of the file stay" };
            return Ok(EntryRemoval::of(entry, format!("{name} is disconnected: {place}; {how}")));
        }
    }
    match entry.state(path, &text).map_err(by_hand)? {
        EntryState::Absent => {
            let gone = if is_ours { "the entry was already gone" } else { "there is no entry" };
            return Ok(EntryRemoval::none(format!("{name} is not connected: {gone} in {place}")));
        }
        EntryState::Different if !is_ours => {
            return Err(CliError::usage(format!(
                "the server `{ENTRY_NAME}` in {place} was not written by `hospes connect`; it was not removed"
            ))
            .hint("remove it by hand if it is not needed"));
        }
        _ => {}
    }
    let left = entry.removal(path, &text).map_err(by_hand)?;
    change(&left)?;
    Ok(EntryRemoval::of(entry, format!("{name} is disconnected: the entry was removed from {place}")))
}

/// Returns true if there is nothing at a path, and the system could tell.
fn is_gone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Deletes a file that was created, and the folders that were created for it if they are empty.
fn delete_new(record: &ConnectionRecord, file: &Path, text: &str) -> CliResult {
    remove(file, text)?;
    record.remove_folders();
    Ok(())
}
