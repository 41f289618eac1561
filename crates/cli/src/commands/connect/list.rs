//! The list of applications, with the state of each.

use std::path::Path;

use hospes_console::ConnectedApplication;
use hospes_host::config::applications::{
    APPLICATIONS, ApplicationFile, ApplicationFolders, PlaceScope, SystemKind,
};
use hospes_host::config::connect::{EntryState, application_in_form, check_own_parser};
use serde_json::{Value, json};

use super::journal::{ConnectionJournal, ConnectionRecord, UnusableRecord};
use super::{read_text, recorded_entry, user_folders, with_profile};
use crate::exit::CliResult;
use crate::output::{BOLD, CliOutput, DIM, GREEN, YELLOW, paint, printable};
use crate::paths;

/// State of an application in the list.
struct ListedApplication {
    file: ApplicationFile,
    state: &'static str,
    profile: Option<String>,
    problem: Option<String>,
}

/// Prints the applications that are found.
pub(super) fn list(output: CliOutput) -> CliResult {
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
    if listed.is_empty() {
        let names: Vec<&str> = APPLICATIONS.iter().map(|application| application.name).collect();
        output.hint(format_args!("supported applications: {}", names.join(", ")));
    } else if listed.iter().any(|one| matches!(one.state, "not-connected" | "gone")) {
        output.hint("`hospes connect APP` connects one");
    }
    Ok(())
}

/// Finds the applications, with the state of each.
fn find_all() -> CliResult<Vec<ListedApplication>> {
    let (home, project) = user_folders()?;
    let variable = |name: &str| std::env::var(name).ok();
    let folders = ApplicationFolders::new(SystemKind::current(), &home, variable).project(project);
    let journal = ConnectionJournal::read()?;
    let mut listed = Vec::new();
    for application in APPLICATIONS {
        for scope in [PlaceScope::User, PlaceScope::Project] {
            let Some(mut file) = folders.file_to_edit(application, scope) else { continue };
            let record = journal.of(&file).next();
            if let Some(record) = record {
                file.path.clone_from(&record.file);
            }
            // The folder of an application shows that it is installed. The home folder does not.
            let folder = file.path.parent().filter(|folder| *folder != home && scope == PlaceScope::User);
            if record.is_none() && !file.path.is_file() && !folder.is_some_and(Path::is_dir) {
                continue;
            }
            let (state, problem) = state(&file, record);
            let problem = problem.or_else(|| journal.unusable_of(&file).map(UnusableRecord::text));
            // A project that knows nothing of Hospes is not worth a line.
            if scope == PlaceScope::User || state != "not-connected" {
                let profile = record.and_then(|record| record.profile.clone());
                listed.push(ListedApplication { file, state, profile, problem });
            }
        }
    }
    keep_owners(&mut listed);
    Ok(listed)
}

/// Keeps one of two applications that share a file: the one that is connected or was, or whose form the file has; else the
/// first.
fn keep_owners(listed: &mut Vec<ListedApplication>) {
    let owner = |one: &ListedApplication| {
        let other = one.file.application.sharing_files()?;
        let both = || listed.iter().filter(|two| two.file.path == one.file.path);
        let known = both().find(|two| matches!(two.state, "connected" | "gone"));
        let in_form = || {
            application_in_form(other, &super::read_text(&one.file.path).unwrap_or_default())
                .map(|owner| owner.id)
        };
        let known = known.map(|two| two.file.application.id).or_else(in_form);
        known.or_else(|| both().next().map(|two| two.file.application.id))
    };
    let is_kept: Vec<bool> =
        listed.iter().map(|one| owner(one).is_none_or(|owner| owner == one.file.application.id)).collect();
    let mut is_kept = is_kept.into_iter();
    listed.retain(|_| is_kept.next().unwrap_or(true));
}

/// Returns the applications of the user, for the console. A project is none of its concern.
pub(crate) fn found_applications() -> Vec<ConnectedApplication> {
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
pub(super) fn state(
    file: &ApplicationFile,
    record: Option<&ConnectionRecord>,
) -> (&'static str, Option<String>) {
    let absent = if record.is_some() { "gone" } else { "not-connected" };
    let text = match read_text(&file.path) {
        Ok(text) => text,
        Err(problem) => return ("unreadable", Some(problem.cause.unwrap_or(problem.message))),
    };
    if let Err(error) = check_own_parser(file.application, &file.path, &text) {
        return ("unreadable", Some(format!("{} cannot read it: {error}", file.application.name)));
    }
    let found = recorded_entry(file.application, &text, record)
        .map_err(|problem| problem.message)
        .and_then(|entry| entry.state(&file.path, &text).map_err(|error| error.to_string()));
    match found {
        Ok(EntryState::Absent) => (absent, None),
        Ok(EntryState::Present) => ("connected", None),
        Ok(_) => ("changed", None),
        Err(problem) => ("unreadable", Some(problem)),
    }
}
