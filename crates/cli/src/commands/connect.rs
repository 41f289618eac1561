//! `hospes connect` and `hospes disconnect`: adds Hospes to the configuration of an application, and removes it.

mod diff;
mod journal;

use std::fs;
use std::path::{Path, PathBuf};

use hospes_console::ConnectedApplication;
use hospes_host::config::applications::{
    APPLICATIONS, Application, ApplicationFile, ApplicationFolders, PlaceScope, SystemKind,
};
use hospes_host::config::connect::{ApplicationEntry, ENTRY_NAME, EntryState};
use serde_json::{Value, json};

use self::journal::{ConnectionRecord, records};
use super::file_replace::{read_text, replace};
use crate::args::{ConnectApplicationArgs, DisconnectArgs};
use crate::exit::{CliError, CliResult};
use crate::output::{BOLD, CliOutput, DIM, GREEN, YELLOW, paint, printable};
use crate::{paths, profiles};

pub(crate) fn run(args: &ConnectApplicationArgs, output: CliOutput) -> CliResult {
    let Some(id) = &args.application else { return list(output) };
    if let Some(profile) = &args.profile {
        profiles::find(profile, &profiles::configured(&[]))?;
    }
    let file = find_file(id, args.project)?;
    if let Some(record) = other_profile(&file, args.profile.as_deref()) {
        return change_profile(args, &record, output);
    }
    let place = paths::display_path(&file.path);
    let is_new = !file.path.exists();
    let before = read(&file)?;
    let profile = args.profile.as_deref();
    let entry = entry_of(file.application, &before, profile)?;
    let by_hand = |problem: CliError| problem.hint(format!("add this by hand:\n{}", entry.snippet()));
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
    let splice = entry.insertion(&file.path, &before).map_err(|error| by_hand(invalid(error)))?;
    let after =
        splice.apply(&before).ok_or_else(|| CliError::usage("the insertion does not fit the file"))?;
    if args.dry_run {
        let diff = diff::unified(&place, &before, &splice);
        report(&file, "dry-run", (Some(&diff), profile), output);
        if !output.json {
            output.result(diff);
        }
        output.say("nothing was changed");
        return Ok(());
    }
    check_owner(&file.path).map_err(&by_hand)?;
    let mut record = ConnectionRecord::new(&file, is_new, splice, &before, &after);
    record.profile.clone_from(&args.profile);
    // First the record: a change that cannot be undone would be worse than a record of a change that was not made.
    record.store(&before)?;
    if let Err(problem) = replace(&file.path, &before, &after) {
        record.remove();
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
fn change_profile(args: &ConnectApplicationArgs, record: &ConnectionRecord, output: CliOutput) -> CliResult {
    let is_now = with_profile("connected", record.profile.as_deref());
    if args.dry_run {
        return Err(CliError::usage(format!("{} is {is_now}; a diff cannot be shown", record.application))
            .hint(format!("`hospes disconnect {}` first", record.application)));
    }
    let application = record.application.clone();
    let quiet = CliOutput { json: false, quiet: true };
    disconnect(&DisconnectArgs { application, project: args.project }, quiet)?;
    output.say(format_args!("{} was {is_now}", record.application));
    run(args, output)
}

fn with_profile(state: &str, profile: Option<&str>) -> String {
    match profile {
        Some(profile) => format!("{state} with the profile `{profile}`"),
        None => state.to_owned(),
    }
}

pub(crate) fn disconnect(args: &DisconnectArgs, output: CliOutput) -> CliResult {
    let file = find_file(&args.application, args.project)?;
    let mut recorded: Vec<ConnectionRecord> = records();
    recorded.retain(|record| record.is_of(&file));
    if recorded.is_empty() {
        return disconnect_file(&file, None, output);
    }
    for record in &recorded {
        let mut file = file.clone();
        file.path.clone_from(&record.file);
        disconnect_file(&file, Some(record), output)?;
        record.remove();
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
    let entry = entry_of(file.application, &text, record.and_then(|record| record.profile.as_deref()))?;
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

/// State of an application in the list.
struct ListedApplication {
    file: ApplicationFile,
    state: &'static str,
    profile: Option<String>,
    problem: Option<String>,
}

/// Prints the applications that are found.
fn list(output: CliOutput) -> CliResult {
    let listed = find_all()?;
    if output.json {
        let all: Vec<Value> = listed
            .iter()
            .map(|one| {
                json!({
                    "application": one.file.application.id,
                    "name": one.file.application.name,
                    "scope": one.file.scope.as_str(),
                    "file": one.file.path,
                    "state": one.state,
                    "profile": one.profile,
                    "problem": one.problem,
                })
            })
            .collect();
        output.value(&all);
        return Ok(());
    }
    for one in &listed {
        let (sign, style, state) = match one.state {
            "connected" => ("●", GREEN, "connected"),
            "not-connected" => ("○", DIM, "not connected"),
            "changed" => ("!", YELLOW, "has another entry `hospes`"),
            "gone" => ("!", YELLOW, "the entry is gone"),
            _ => ("x", YELLOW, "the configuration cannot be read"),
        };
        let path = printable(&paths::display_path(&one.file.path));
        let name = format!("{:<16}", one.file.application.name);
        let id = format!("{:<14}", one.file.application.id);
        output.result(format!(
            "{} {}{id} {path}  {}",
            paint(style, sign),
            paint(BOLD, name),
            paint(style, with_profile(state, one.profile.as_deref()))
        ));
        if let Some(problem) = &one.problem {
            output.result(format!("    {}", paint(DIM, printable(problem))));
        }
    }
    if listed.is_empty() {
        output.say("no application was found");
    }
    output.hint("`hospes connect APP` connects one");
    Ok(())
}

/// Finds the applications, with the state of each.
fn find_all() -> CliResult<Vec<ListedApplication>> {
    let (home, project) = user_folders()?;
    let variable = |name: &str| std::env::var(name).ok();
    let folders = ApplicationFolders::new(SystemKind::current(), &home, variable).project(project);
    let recorded = records();
    let mut listed = Vec::new();
    for application in APPLICATIONS.iter().filter(|application| !application.places.is_empty()) {
        for scope in [PlaceScope::User, PlaceScope::Project] {
            let Some(mut file) = folders.file_to_edit(application, scope) else { continue };
            let record = recorded.iter().find(|record| record.is_of(&file));
            if let Some(record) = record {
                file.path.clone_from(&record.file);
            }
            // The folder of an application shows that it is installed. The home folder does not.
            let folder = file.path.parent().filter(|folder| *folder != home && scope == PlaceScope::User);
            if record.is_none() && !file.path.is_file() && !folder.is_some_and(Path::is_dir) {
                continue;
            }
            let (state, problem) = state(&file, record);
            // A project that knows nothing of Hospes is not worth a line.
            if scope == PlaceScope::User || state != "not-connected" {
                let profile = record.and_then(|record| record.profile.clone());
                listed.push(ListedApplication { file, state, profile, problem });
            }
        }
    }
    Ok(listed)
}

/// Returns the applications of the user, for the console. A project is none of its concern.
pub(super) fn found_applications() -> Vec<ConnectedApplication> {
    let listed = find_all().unwrap_or_default().into_iter().filter(|one| one.file.scope == PlaceScope::User);
    let shown = listed.map(|one| ConnectedApplication {
        id: one.file.application.id.to_owned(),
        name: one.file.application.name.to_owned(),
        file: paths::display_path(&one.file.path),
        state: one.state,
        problem: one.problem,
    });
    shown.collect()
}

/// Determines the state of a file, and why it cannot be read.
fn state(file: &ApplicationFile, record: Option<&ConnectionRecord>) -> (&'static str, Option<String>) {
    let absent = if record.is_some() { "gone" } else { "not-connected" };
    let text = match read(file) {
        Ok(text) => text,
        Err(problem) => return ("unreadable", Some(problem.cause.unwrap_or(problem.message))),
    };
    let profile = record.and_then(|record| record.profile.as_deref());
    let found = entry_of(file.application, &text, profile)
        .map_err(|problem| problem.message)
        .and_then(|entry| entry.state(&file.path, &text).map_err(|error| error.to_string()));
    match found {
        Ok(EntryState::Absent) => (absent, None),
        Ok(EntryState::Present) => ("connected", None),
        Ok(_) => ("changed", None),
        Err(problem) => ("unreadable", Some(problem)),
    }
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

fn find_file(id: &str, is_of_project: bool) -> CliResult<ApplicationFile> {
    let application = Application::find(id)
        .ok_or_else(|| CliError::usage(format!("unknown application `{}`", printable(id))))?;
    let (home, project) = user_folders()?;
    let variable = |name: &str| std::env::var(name).ok();
    let folders = ApplicationFolders::new(SystemKind::current(), home, variable).project(project);
    let scope = if is_of_project { PlaceScope::Project } else { PlaceScope::User };
    folders.file_to_edit(application, scope).ok_or_else(|| {
        let what = if is_of_project { "file of a project" } else { "file on this system" };
        CliError::usage(format!("{} has no {what} to which servers can be added", application.name))
    })
}

fn entry_of(
    application: &'static Application,
    text: &str,
    profile: Option<&str>,
) -> CliResult<ApplicationEntry> {
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
