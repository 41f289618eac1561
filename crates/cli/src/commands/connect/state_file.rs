//! Files that an application writes while its entry is added or removed. Some applications keep their state in the file, and
//! write it anew from memory: an entry that others add may be lost, and one that they remove may come back.

use std::path::Path;
use std::thread;
use std::time::Duration;

use hospes_host::config::applications::{ApplicationFile, PlaceScope};
use hospes_host::config::connect::{ApplicationEntry, EntryState};

use super::read_text;
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, DIM, paint};
use crate::paths;

/// Time after which a running application has written its file.
const REWRITE_TIME: Duration = Duration::from_secs(2);
/// Time for which a text must stay the same if it may be half-written.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// Maximum number of times that a file is read until it stays the same.
const MAX_READS: usize = 10;

/// Applications with such a user file, and the names of their processes.
const REWRITERS: [(&str, &[&str]); 2] =
    [("claude-code", &["claude"]), ("claude-desktop", &["claude-desktop", "Claude", "claude"])];

/// Reads a file of an application, which may be writing it. A text that is doubtful, such as a half-written one, is read
/// again until it has stayed the same for 100 ms, for about one second at most. An absent file is an empty text.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn read_settled(file: &Path, is_doubtful: impl Fn(&str) -> bool) -> CliResult<String> {
    let mut last = read_text(file);
    for _ in 0..MAX_READS {
        if last.as_ref().is_ok_and(|text| !is_doubtful(text)) {
            break;
        }
        thread::sleep(SETTLE_TIME);
        let now = read_text(file);
        let is_same = match (&last, &now) {
            (Ok(last), Ok(now)) => last == now,
            (Err(last), Err(now)) => last.to_string() == now.to_string(),
            _ => false,
        };
        last = now;
        if is_same {
            break;
        }
    }
    last
}

/// Checks that a running application has not written its file anew, without the entry. Returns false if it has done so:
/// the file can be parsed, and has no entry.
///
/// # Errors
/// If it cannot be told, or if the file has another entry of the name. The record is then needed to remove the entry.
pub(super) fn is_kept(
    entry: &ApplicationEntry,
    file: &ApplicationFile,
    output: CliOutput,
) -> CliResult<bool> {
    if !wait_for_rewrite(file, "keeps the entry", output) {
        return Ok(true);
    }
    let (name, id, place) = (file.application.name, file.application.id, paths::display_path(&file.path));
    let again = format!(
        "quit {name} first; `hospes connect` shows if it has the entry, and `hospes disconnect {id}` removes it"
    );
    let unsure = |cause: String| {
        let problem = format!("{name} runs, and it cannot be told if it keeps the entry in {place}");
        CliError { cause: Some(cause), ..CliError::usage(problem) }.hint(again.clone())
    };
    let text = read_settled(&file.path, |text| {
        entry.has_no_value(&file.path, text)
            || !matches!(entry.state(&file.path, text), Ok(EntryState::Present))
    });
    let text = text.map_err(|problem| unsure(problem.to_string()))?;
    if entry.has_no_value(&file.path, &text) {
        return Err(unsure("the file is empty or gone".to_owned()));
    }
    match entry.state(&file.path, &text) {
        Ok(EntryState::Present) => Ok(true),
        Ok(EntryState::Absent) => Ok(false),
        Ok(_) => {
            Err(CliError::usage(format!("{name} runs, and has changed the entry in {place}")).hint(again))
        }
        Err(problem) => Err(unsure(problem.to_string())),
    }
}

/// Checks that a running application has not written its file anew, with the entry that was removed.
///
/// # Errors
/// If it has done so, or if it cannot be told.
pub(super) fn check_removed(
    entry: &ApplicationEntry,
    file: &ApplicationFile,
    output: CliOutput,
) -> CliResult {
    if !wait_for_rewrite(file, "does not restore the entry", output) {
        return Ok(());
    }
    let (name, id, place) = (file.application.name, file.application.id, paths::display_path(&file.path));
    let again = format!("quit {name} first; then `hospes disconnect {id}`");
    let text = read_settled(&file.path, |text| entry.state(&file.path, text).is_err());
    let state = text
        .map_err(|problem| problem.to_string())
        .and_then(|text| entry.state(&file.path, &text).map_err(|error| error.to_string()));
    match state {
        Ok(EntryState::Absent) => Ok(()),
        Ok(_) => {
            Err(CliError::usage(format!("{name} runs, and has written the entry into {place} again"))
                .hint(again))
        }
        Err(cause) => {
            let problem = format!("{name} runs, and it cannot be told if the entry is still in {place}");
            Err(CliError { cause: Some(cause), ..CliError::usage(problem) }.hint(again))
        }
    }
}

/// Waits until a running application has written its file. Returns false if it does not write it from memory.
fn wait_for_rewrite(file: &ApplicationFile, what: &str, output: CliOutput) -> bool {
    if !may_be_rewritten(file) {
        return false;
    }
    output.say(paint(DIM, format!("checking that {}, which may run, {what} …", file.application.name)));
    thread::sleep(REWRITE_TIME);
    true
}

/// Returns true if the application may write the file anew, because it runs. Where processes cannot be listed, it may
/// always run.
fn may_be_rewritten(file: &ApplicationFile) -> bool {
    let rewriter = REWRITERS.iter().find(|(id, _)| *id == file.application.id);
    match rewriter.filter(|_| file.scope == PlaceScope::User) {
        Some((_, names)) => is_running(names),
        None => false,
    }
}

#[cfg(target_os = "linux")]
fn is_running(names: &[&str]) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let user = rustix::process::geteuid().as_raw();
    let Ok(entries) = std::fs::read_dir("/proc") else { return true };
    entries.flatten().any(|entry| {
        let is_own = entry.metadata().is_ok_and(|data| data.uid() == user);
        let name = || std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        is_own && names.contains(&name().trim())
    })
}

#[cfg(not(target_os = "linux"))]
fn is_running(_: &[&str]) -> bool {
    true
}
