//! `hospes connect` and `hospes disconnect`: adds Hospes to the configuration of an application, and removes it.

mod diff;
mod disconnect;
mod endpoint;
mod journal;
mod list;
mod recorded;
mod state_file;

use std::path::{Path, PathBuf};

use hospes_host::config::applications::{
    Application, ApplicationFile, ApplicationFolders, PlaceScope, SystemKind,
};
use hospes_host::config::connect::{
    ApplicationEntry, ENTRY_NAME, EditEntryError, EntrySplice, EntryState, check_own_parser,
};
use hospes_host::pins::Sha256Digest;
use serde_json::json;
use sha2::{Digest as _, Sha256};

pub(crate) use self::disconnect::disconnect;
use self::disconnect::disconnect_file;
use self::endpoint::EndpointEntry;
pub(crate) use self::endpoint::tokens as application_tokens;
use self::journal::{ConnectionJournal, ConnectionRecord};
pub(super) use self::list::found_applications;
use self::list::{list, state};
pub(crate) use self::recorded::{RecordedConnection, recorded_connections};
use self::state_file::{is_kept, read_settled};
use super::application_package::choose_package;
use super::file_replace::{read_text, replace};
use crate::args::ConnectApplicationArgs;
use crate::command_lock::CommandLock;
use crate::exit::{CliError, CliResult};
use crate::output::{self, CliOutput, printable};
use crate::{installation, paths, profiles};

pub(crate) fn run(args: &ConnectApplicationArgs, output: CliOutput) -> CliResult {
    let Some(id) = &args.application else { return list(output) };
    if let Some(profile) = &args.profile {
        profiles::find(profile, &profiles::configured(&[]))?;
    }
    let file = find_file(id, args.project, output)?;
    // What only looks needs no lock, and creates no folder.
    let lock = || CommandLock::of_connections(&format!("hospes connect {}", file.application.id), output);
    let _lock = if args.dry_run { None } else { Some(lock()?) };
    connect(args, &file, output)
}

/// Connects an application, with the lock of all connections unless it is a dry run.
fn connect(args: &ConnectApplicationArgs, file: &ApplicationFile, output: CliOutput) -> CliResult {
    let id = file.application.id;
    let journal = if args.dry_run { ConnectionJournal::read()? } else { ConnectionJournal::read_locked()? };
    // A damaged one is replaced: it is needed only if the file has an entry, which is found out below.
    if let Some(unusable) = journal.unusable_of(file) {
        unusable.check_damaged()?;
    }
    if let Some(record) = other_profile(&journal, file, args.profile.as_deref()) {
        return change_profile(args, file, record, output);
    }
    let place = paths::display_path(&file.path);
    let profile = args.profile.as_deref();
    let known = journal.exactly_of(file);
    if let Some(known) = known.filter(|_| !args.dry_run) {
        known.remove_leftovers();
    }
    let mut endpoint = match known.and_then(|record| record.endpoint.clone()) {
        Some(endpoint) => Some(endpoint),
        None => endpoint::wanted(args, file)?,
    };
    let before = read_settled(&file.path, |text| {
        let entry = entry_of(file.application, text, profile, endpoint.as_ref());
        entry.is_ok_and(|entry| match entry.state(&file.path, text) {
            Ok(EntryState::Absent) => known.is_some() || text.is_empty() && file.path.exists(),
            state => state.is_err(),
        })
    })?;
    // Asked after reading: a file that the application has created since is not new.
    let is_new = before.is_empty() && !file.path.exists();
    check_strictness(file, &before)?;
    let mut entry = entry_of(file.application, &before, profile, endpoint.as_ref())?;
    let snippet = entry.snippet();
    let by_hand = |problem: CliError| problem.hint(format!("add this by hand:\n{snippet}"));
    let invalid = |error: EditEntryError| {
        CliError::usage(format!("cannot add Hospes to {place}; it was not changed")).with_cause(&error)
    };
    match entry.state(&file.path, &before).map_err(|error| by_hand(invalid(error)))? {
        EntryState::Absent => {}
        EntryState::Present => {
            report(file, "already-connected", (None, profile), output);
            let what = with_profile("already connected", profile);
            output.say(format_args!("{} is {what}: {place}", file.application.name));
            return Ok(());
        }
        _ => {
            return Err(CliError::usage(format!(
                "{place} has another server `{ENTRY_NAME}`; it was not changed"
            ))
            .hint(format!("`hospes disconnect {id}` removes it if `hospes connect` has written it")));
        }
    }
    let insertion = |entry: &ApplicationEntry| -> CliResult<(EntrySplice, String)> {
        let splice = entry.insertion(&file.path, &before).map_err(|error| by_hand(invalid(error)))?;
        let after = splice.apply(&before);
        Ok((splice, after.ok_or_else(|| CliError::usage("the insertion does not fit the file"))?))
    };
    let (mut splice, mut after) = insertion(&entry)?;
    let diff = diff::unified(&place, &before, &splice);
    check_seen(args, &place, &diff)?;
    if args.dry_run {
        return show_change(file, diff, profile, output);
    }
    check_owner(&file.path).map_err(&by_hand)?;
    if output::is_seen() && !output.json {
        output.say(&diff);
    }
    if let Some(warning) = installation::cache_warning().filter(|_| endpoint.is_none()) {
        output.warn(warning);
    }
    if let Some(endpoint) = &mut endpoint {
        endpoint.make_token(id)?;
        entry = entry_of(file.application, &before, profile, Some(endpoint))?;
        (splice, after) = insertion(&entry)?;
    }
    let mut record = ConnectionRecord::new(file, is_new, splice, (&before, &after), known);
    (record.profile, record.endpoint) = (args.profile.clone(), endpoint);
    // First the record: a change that cannot be undone would be worse than a record of a change that was not made.
    let stored = record.store(&before).and_then(|()| replace(&file.path, &before, &after));
    stored.inspect_err(|_| take_back(&record, known, output))?;
    // If it cannot be told, the record stays, and the entry can be removed.
    if !is_kept(&entry, file, output)? {
        record.forget().unwrap_or_else(|problem| output.warn(problem));
        return Err(CliError::usage(format!(
            "{} runs, and has written {place} without the entry",
            file.application.name
        ))
        .hint(format!("quit {} first; then `hospes connect {id}`", file.application.name)));
    }
    report(file, "connected", (None, profile), output);
    let what = with_profile("connected", profile);
    output.say(format_args!("{} is {what}: {place}", file.application.name));
    output.hint(format_args!("in {}: {}", file.application.name, file.application.takes_effect));
    Ok(())
}

/// Takes the record of a change back that was not made. An earlier record stays: the application may have written the entry
/// that it is about again.
fn take_back(record: &ConnectionRecord, known: Option<&ConnectionRecord>, output: CliOutput) {
    record.remove_folders();
    let taken = match known {
        Some(known) => {
            // The record is restored even if the token cannot be revoked.
            let (revoked, restored) = (record.revoke_token(), known.restore());
            revoked.and(restored)
        }
        None => record.forget(),
    };
    taken.unwrap_or_else(|problem| output.warn(problem));
}

/// Returns the record of an application whose entry is there, but for another profile or for none.
fn other_profile<'j>(
    journal: &'j ConnectionJournal,
    file: &ApplicationFile,
    profile: Option<&str>,
) -> Option<&'j ConnectionRecord> {
    let record = journal.of(file).next()?;
    if record.profile.as_deref() == profile {
        return None;
    }
    let mut file = file.clone();
    file.path.clone_from(&record.file);
    (state(&file, Some(record)).0 == "connected").then_some(record)
}

/// Connects an application that is connected for another profile: removes that entry, and adds the new one.
fn change_profile(
    args: &ConnectApplicationArgs,
    file: &ApplicationFile,
    record: &ConnectionRecord,
    output: CliOutput,
) -> CliResult {
    let is_now = with_profile("connected", record.profile.as_deref());
    // First, because an application must not lose its entry for one that cannot be added.
    let diff = profile_change(args, file, record)?;
    check_seen(args, &paths::display_path(&record.file), &diff)?;
    if args.dry_run {
        return show_change(file, diff, args.profile.as_deref(), output);
    }
    check_owner(&record.file)?;
    let quiet = CliOutput { json: false, quiet: true };
    disconnect_file(file, quiet, false)?;
    output.say(format_args!("{} was {is_now}", file.application.name));
    connect(&ConnectApplicationArgs { seen: None, ..args.clone() }, file, output)
}

/// Returns the change from one profile to another: the insertion as a diff. The removal is named only. A diff of both would
/// cover what stands between the old and the new entry, and the token in the old one.
fn profile_change(
    args: &ConnectApplicationArgs,
    file: &ApplicationFile,
    record: &ConnectionRecord,
) -> CliResult<String> {
    let place = paths::display_path(&record.file);
    let text = read_text(&record.file)?;
    let fails = |error: EditEntryError| {
        CliError::usage(format!("the entry in {place} cannot be replaced")).with_cause(&error)
    };
    let old = recorded_entry(file.application, &text, Some(record))?;
    let backup = if record.is_unchanged(&text) { record.backup() } else { None };
    let left = backup.or_else(|| old.cut(&record.file, &text, &record.splice));
    let left = left.map_or_else(|| old.removal(&record.file, &text).map_err(fails), Ok)?;
    check_strictness(file, &left)?;
    let profile = args.profile.as_deref();
    // As `run` does when the record is gone.
    let endpoint = endpoint::wanted(args, file)?;
    let new = entry_of(file.application, &left, profile, endpoint.as_ref())?;
    let splice = new.insertion(&record.file, &left).map_err(fails)?;
    let was = with_profile("hospes", record.profile.as_deref());
    let diff = diff::unified(&place, &left, &splice);
    Ok(format!("(the entry of {was} is removed first)\n{diff}"))
}

/// Checks that a change is the one that was shown, if the arguments name that.
///
/// # Errors
/// If it is another one.
fn check_seen(args: &ConnectApplicationArgs, place: &str, diff: &str) -> CliResult {
    match args.seen {
        Some(seen) if seen != digest(diff) => {
            Err(CliError::usage(format!("the change of {place} is no longer the one that was shown"))
                .hint("nothing was changed; look at the change again"))
        }
        _ => Ok(()),
    }
}

fn show_change(file: &ApplicationFile, diff: String, profile: Option<&str>, output: CliOutput) -> CliResult {
    report(file, "dry-run", (Some(&diff), profile), output);
    if !output.json {
        output.result(diff);
    }
    output.say("nothing was changed");
    Ok(())
}

fn with_profile(state: &str, profile: Option<&str>) -> String {
    match profile {
        Some(profile) => format!("{state} with the profile `{profile}`"),
        None => state.to_owned(),
    }
}

fn digest(diff: &str) -> Sha256Digest {
    Sha256Digest::new(Sha256::digest(diff).into())
}

fn report(
    file: &ApplicationFile,
    state: &str,
    (diff, profile): (Option<&str>, Option<&str>),
    output: CliOutput,
) {
    if output.json {
        output.value(&json!({
            "application": file.application.id,
            "scope": file.scope.as_str(),
            "file": file.path,
            "state": state,
            "profile": profile,
            "diff": diff,
            "digest": diff.map(digest),
            "takesEffect": file.application.takes_effect,
        }));
    }
}

/// Returns the home folder and the current folder.
fn user_folders() -> CliResult<(PathBuf, PathBuf)> {
    let home = std::env::home_dir().ok_or_else(|| {
        CliError::usage("no home folder found in which applications keep files").hint("set HOME")
    })?;
    let project = std::env::current_dir()
        .map_err(|error| CliError::usage("cannot determine the current folder").with_cause(&error))?;
    Ok((home, project))
}

fn find_file(id: &str, is_of_project: bool, output: CliOutput) -> CliResult<ApplicationFile> {
    let application = Application::find(id)
        .ok_or_else(|| CliError::usage(format!("unknown application `{}`", printable(id))))?;
    let (home, project) = user_folders()?;
    let variable = |name: &str| std::env::var(name).ok();
    let folders = ApplicationFolders::new(SystemKind::current(), home, variable).project(project);
    let scope = if is_of_project { PlaceScope::Project } else { PlaceScope::User };
    let packages = folders.packaged(application);
    if packages.len() > 1 && !is_of_project {
        let may_ask = output::is_interactive() && !output.json;
        let ask = |question: String| if may_ask { output.ask(question) } else { None };
        return choose_package(&packages, ask).cloned();
    }
    folders.file_to_edit(application, scope).ok_or_else(|| {
        let what = if is_of_project { "file of a project" } else { "file on this system" };
        CliError::usage(format!("{} has no {what} to which servers can be added", application.name))
    })
}

/// Checks that the application itself can read its file. An entry in one that it ignores would be of no use.
fn check_strictness(file: &ApplicationFile, text: &str) -> CliResult {
    check_own_parser(file.application, &file.path, text).map_err(|error| {
        let (name, id, place) = (file.application.name, file.application.id, paths::display_path(&file.path));
        let remedy = match &error {
            EditEntryError::Extended { .. } => {
                format!("remove the comments and trailing commas, for which {name} ignores all of the file")
            }
            _ => format!("correct the file, of which {name} may ignore all"),
        };
        CliError::usage(format!("{name} cannot read {place}; it was not changed"))
            .with_cause(&error)
            .hint(format!("{remedy}; then: hospes connect {id}"))
    })
}

/// Returns the entry that a record is about, or the usual one.
fn recorded_entry(
    application: &'static Application,
    text: &str,
    record: Option<&ConnectionRecord>,
) -> CliResult<ApplicationEntry> {
    let profile = record.and_then(|record| record.profile.as_deref());
    entry_of(application, text, profile, record.and_then(|record| record.endpoint.as_ref()))
}

fn entry_of(
    application: &'static Application,
    text: &str,
    profile: Option<&str>,
    endpoint: Option<&EndpointEntry>,
) -> CliResult<ApplicationEntry> {
    // Its URL names the profile.
    if let Some(endpoint) = endpoint {
        let entry = ApplicationEntry::http(application, text, &endpoint.url, endpoint.token.as_deref());
        return entry.ok_or_else(|| CliError::usage(format!("{} cannot be given a URL", application.name)));
    }
    let program = installation::lasting_program()?;
    let mut words = vec!["stdio", "--application", application.id];
    if let Some(profile) = profile {
        words.extend(["--profile", profile]);
    }
    Ok(ApplicationEntry::new(application, text, &program, &words))
}

/// Checks that a file can be replaced without taking it from somebody.
fn check_owner(file: &Path) -> CliResult {
    if let Some(problem) = crate::platform::replacement_problem(file) {
        let place = paths::display_path(file);
        return Err(CliError::usage(format!("{place} {problem}; it was not changed")));
    }
    Ok(())
}
