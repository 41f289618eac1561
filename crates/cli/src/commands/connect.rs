//! `hospes connect` and `hospes disconnect`: adds Hospes to the configuration of an application, and removes it.

mod diff;
mod endpoint;
mod journal;
mod list;
mod recorded;
mod state_file;

use std::fs;
use std::path::{Path, PathBuf};

use hospes_host::config::applications::{
    Application, ApplicationFile, ApplicationFolders, PlaceScope, SystemKind,
};
use hospes_host::config::connect::{ApplicationEntry, ENTRY_NAME, EntrySplice, EntryState, check_own_parser};
use hospes_host::pins::Sha256Digest;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use self::endpoint::EndpointEntry;
pub(crate) use self::endpoint::tokens as application_tokens;
use self::journal::{ConnectionRecord, records};
pub(super) use self::list::found_applications;
use self::list::{list, state};
pub(crate) use self::recorded::{RecordedConnection, recorded_connections};
use super::application_package::choose_package;
use super::file_replace::{read_text, replace};
use crate::args::{ConnectApplicationArgs, DisconnectArgs};
use crate::exit::{CliError, CliResult};
use crate::output::{self, CliOutput, DIM, paint, printable};
use crate::{paths, profiles};

pub(crate) fn run(args: &ConnectApplicationArgs, output: CliOutput) -> CliResult {
    let Some(id) = &args.application else { return list(output) };
    if let Some(profile) = &args.profile {
        profiles::find(profile, &profiles::configured(&[]))?;
    }
    let file = find_file(id, args.project, output)?;
    if let Some(record) = other_profile(&file, args.profile.as_deref()) {
        return change_profile(args, &file, &record, output);
    }
    let place = paths::display_path(&file.path);
    let is_new = !file.path.exists();
    let before = read(&file)?;
    let profile = args.profile.as_deref();
    let known = records().into_iter().find(|record| record.is_of(&file) && record.file == file.path);
    let mut endpoint = match known.and_then(|record| record.endpoint) {
        Some(endpoint) => Some(endpoint),
        None => endpoint::wanted(args, &file)?,
    };
    check_strictness(&file, &before)?;
    let mut entry = entry_of(file.application, &before, profile, endpoint.as_ref())?;
    let snippet = entry.snippet();
    let by_hand = |problem: CliError| problem.hint(format!("add this by hand:\n{snippet}"));
    let invalid = |error: hospes_host::config::connect::EditEntryError| {
        CliError::usage(format!("cannot add Hospes to {place}; it was not changed")).with_cause(&error)
    };
    match entry.state(&file.path, &before).map_err(|error| by_hand(invalid(error)))? {
        EntryState::Absent => {}
        EntryState::Present => {
            report(&file, "already-connected", (None, profile), output);
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
        return show_change(&file, diff, profile, output);
    }
    check_owner(&file.path).map_err(&by_hand)?;
    if let Some(endpoint) = &mut endpoint {
        endpoint.make_token(id)?;
        entry = entry_of(file.application, &before, profile, Some(endpoint))?;
        (splice, after) = insertion(&entry)?;
    }
    let mut record = ConnectionRecord::new(&file, is_new, splice, (&before, &after), endpoint);
    record.profile.clone_from(&args.profile);
    // First the record: a change that cannot be undone would be worse than a record of a change that was not made.
    let stored = record.store(&before).and_then(|()| replace(&file.path, &before, &after));
    if let Err(problem) = stored.and_then(|()| check_kept(&entry, &file, output)) {
        record.forget();
        return Err(problem);
    }
    report(&file, "connected", (None, profile), output);
    let what = with_profile("connected", profile);
    output.say(format_args!("{} is {what}: {place}", file.application.name));
    output.hint(format_args!("in {}: {}", file.application.name, file.application.takes_effect));
    Ok(())
}

/// Returns the record of an application whose entry is there, but for another profile or for none.
fn other_profile(file: &ApplicationFile, profile: Option<&str>) -> Option<ConnectionRecord> {
    let record = records().into_iter().find(|record| record.is_of(file))?;
    if record.profile.as_deref() == profile {
        return None;
    }
    let mut file = file.clone();
    file.path.clone_from(&record.file);
    (state(&file, Some(&record)).0 == "connected").then_some(record)
}

/// Connects an application that is connected for another profile: removes that entry, and adds the new one.
fn change_profile(
    args: &ConnectApplicationArgs,
    file: &ApplicationFile,
    record: &ConnectionRecord,
    output: CliOutput,
) -> CliResult {
    let is_now = with_profile("connected", record.profile.as_deref());
    if args.dry_run || args.seen.is_some() {
        let diff = profile_change(args, file, record)?;
        check_seen(args, &paths::display_path(&record.file), &diff)?;
        if args.dry_run {
            return show_change(file, diff, args.profile.as_deref(), output);
        }
    }
    let application = record.application.clone();
    let quiet = CliOutput { json: false, quiet: true };
    disconnect(&DisconnectArgs { application, project: args.project }, quiet)?;
    output.say(format_args!("{} was {is_now}", record.application));
    run(&ConnectApplicationArgs { seen: None, ..args.clone() }, output)
}

/// Returns the change from one profile to another as a diff. It is one for people, but two edits of the file.
fn profile_change(
    args: &ConnectApplicationArgs,
    file: &ApplicationFile,
    record: &ConnectionRecord,
) -> CliResult<String> {
    let place = paths::display_path(&record.file);
    let text = read_text(&record.file)?;
    let fails = |error: hospes_host::config::connect::EditEntryError| {
        CliError::usage(format!("the entry in {place} cannot be replaced")).with_cause(&error)
    };
    let old = recorded_entry(file.application, &text, Some(record))?;
    let backup = if record.is_unchanged(&text) { record.backup() } else { None };
    let left = backup.or_else(|| old.cut(&record.file, &text, &record.splice));
    let left = left.map_or_else(|| old.removal(&record.file, &text).map_err(fails), Ok)?;
    let profile = args.profile.as_deref();
    // As `run` does when the record is gone.
    let endpoint = endpoint::wanted(args, file)?;
    let new = entry_of(file.application, &left, profile, endpoint.as_ref())?;
    let splice = new.insertion(&record.file, &left).map_err(fails)?;
    let after = splice.apply(&left);
    let after = after.ok_or_else(|| CliError::usage("the insertion does not fit the file"))?;
    Ok(diff::unified(&place, &text, &EntrySplice::between(&text, &after)))
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

pub(crate) fn disconnect(args: &DisconnectArgs, output: CliOutput) -> CliResult {
    let file = find_file(&args.application, args.project, output)?;
    let mut recorded: Vec<ConnectionRecord> = records();
    recorded.retain(|record| record.is_of(&file));
    if recorded.is_empty() {
        return disconnect_file(&file, None, output);
    }
    for record in &recorded {
        let mut file = file.clone();
        file.path.clone_from(&record.file);
        // First the token, which must not be valid any more whatever becomes of the file.
        record.revoke_token();
        disconnect_file(&file, Some(record), output)?;
        record.forget();
    }
    Ok(())
}

/// Removes the entry from a file.
fn disconnect_file(
    file: &ApplicationFile,
    record: Option<&ConnectionRecord>,
    output: CliOutput,
) -> CliResult {
    let (name, place) = (file.application.name, paths::display_path(&file.path));
    let done = |state: &str, text: String| {
        report(file, state, (None, record.and_then(|record| record.profile.as_deref())), output);
        output.say(text);
        Ok(())
    };
    if !file.path.exists() {
        return done("not-connected", format!("{name} is not connected: there is no {place}"));
    }
    let text = read(file)?;
    let entry = recorded_entry(file.application, &text, record)?;
    let by_hand = |error: hospes_host::config::connect::EditEntryError| {
        CliError::usage(format!("cannot remove Hospes from {place}; it was not changed"))
            .with_cause(&error)
            .hint(format!(
                "remove the server `{ENTRY_NAME}` by hand, which was added as:\n{}",
                entry.snippet()
            ))
    };
    if let Some(record) = record {
        let unchanged = record.is_unchanged(&text);
        if unchanged && record.is_new {
            remove_new(record, &file.path)?;
            return done(
                "disconnected",
                format!("{name} is disconnected: {place} was deleted, as it was new"),
            );
        }
        let backup = if unchanged { record.backup() } else { None };
        let restored = backup.is_some();
        if let Some(left) = backup.or_else(|| entry.cut(&file.path, &text, &record.splice)) {
            if record.is_new && entry.is_blank(&left) {
                remove_new(record, &file.path)?;
            } else {
                replace(&file.path, &text, &left)?;
            }
            let how =
                if restored { "the file is as it was before" } else { "later changes of the file stay" };
            return done("disconnected", format!("{name} is disconnected: {place}; {how}"));
        }
    }
    match entry.state(&file.path, &text).map_err(&by_hand)? {
        EntryState::Absent => {
            let gone = if record.is_some() { "the entry was already gone" } else { "there is no entry" };
            return done("not-connected", format!("{name} is not connected: {gone} in {place}"));
        }
        EntryState::Different if record.is_none() => {
            return Err(CliError::usage(format!(
                "the server `{ENTRY_NAME}` in {place} was not written by `hospes connect`; it was not removed"
            ))
            .hint("remove it by hand if it is not needed"));
        }
        _ => {}
    }
    let left = entry.removal(&file.path, &text).map_err(by_hand)?;
    match record {
        Some(record) if record.is_new && entry.is_blank(&left) => remove_new(record, &file.path)?,
        _ => replace(&file.path, &text, &left)?,
    }
    done("disconnected", format!("{name} is disconnected: the entry was removed from {place}"))
}

/// Deletes a file that was created, and the folders that were created for it if they are empty.
fn remove_new(record: &ConnectionRecord, file: &Path) -> CliResult {
    fs::remove_file(file).map_err(|error| {
        CliError::usage(format!("cannot delete {}", paths::display_path(file))).with_cause(&error)
    })?;
    for folder in &record.new_folders {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
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
        let (name, place) = (file.application.name, paths::display_path(&file.path));
        CliError::usage(format!("{name} cannot read {place}; it was not changed")).with_cause(&error).hint(format!(
            "remove the comments and trailing commas, for which {name} ignores all of the file; then: hospes connect {}",
            file.application.id
        ))
    })
}

/// Checks that a running application has not written its file anew, without the entry.
fn check_kept(entry: &ApplicationEntry, file: &ApplicationFile, output: CliOutput) -> CliResult {
    if !state_file::may_be_rewritten(file) {
        return Ok(());
    }
    let name = file.application.name;
    output.say(paint(DIM, format!("checking that {name}, which may run, keeps the entry …")));
    std::thread::sleep(state_file::REWRITE_TIME);
    let text = read(file)?;
    match entry.state(&file.path, &text) {
        Ok(EntryState::Present) => Ok(()),
        _ => Err(CliError::usage(format!(
            "{name} runs, and has written {} without the entry",
            paths::display_path(&file.path)
        ))
        .hint(format!("quit {name} first; then `hospes connect {}`", file.application.id))),
    }
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
    let program = std::env::current_exe().map_err(|error| {
        CliError::usage("cannot determine the path of the hospes executable").with_cause(&error)
    })?;
    let mut words = vec!["stdio", "--application", application.id];
    if let Some(profile) = profile {
        words.extend(["--profile", profile]);
    }
    Ok(ApplicationEntry::new(application, text, &program, &words))
}

/// Reads a file of an application. Returns an empty text if it does not exist.
fn read(file: &ApplicationFile) -> CliResult<String> {
    // The link would be replaced by a file.
    if file.path.is_symlink() && !file.path.exists() {
        return Err(CliError::usage(format!(
            "{} is a link to a file that does not exist",
            paths::display_path(&file.path)
        ))
        .hint("create the file, or delete the link"));
    }
    read_text(&file.path)
}

/// Checks that a file can be replaced without taking it from somebody.
fn check_owner(file: &Path) -> CliResult {
    if let Some(problem) = crate::platform::replacement_problem(file) {
        let place = paths::display_path(file);
        return Err(CliError::usage(format!("{place} {problem}; it was not changed")));
    }
    Ok(())
}
