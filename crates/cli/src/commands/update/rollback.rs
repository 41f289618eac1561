//! The step back to the version before the last update.

use hospes_host::config::replace_server;
use serde_json::json;

use super::merge::{MergedServer, read_written};
use super::{ConfigTarget, file_replace, find};
use crate::command_lock::CommandLock;
use crate::exit::{CliError, CliResult};
use crate::output::{BOLD, CliOutput, GREEN, one_line, paint, printable, shell_word};
use crate::paths;
use crate::server_record::ServerRecord;
use crate::shown_commands::shown_command;

/// Goes back to the version before. Its definitions are still accepted, because acceptance belongs to the command line,
/// which is that of the version.
pub(super) fn run(name: &str, target: &ConfigTarget, output: CliOutput) -> CliResult {
    let nothing = || {
        CliError::usage(format!("there is no version of `{}` before this one", printable(name))).hint(
            format!("`{} --version VERSION` installs a version that you name", shown_command("update", name)),
        )
    };
    let _lock = CommandLock::of_server(name, "hospes update --rollback")?;
    let servers = target.servers()?;
    let current = find(&servers, name, target)?;
    let record = ServerRecord::read(&target.file, name).filter(|record| record.is_of(current));
    let mut record = record.ok_or_else(nothing)?;
    let previous = record.previous.take().ok_or_else(nothing)?;
    if let Some(folder) = previous.folder.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(CliError::usage(format!("{} is gone", paths::display_path(folder))).hint(format!(
            "`{} --version {}` installs it again",
            shown_command("update", name),
            shell_word(&one_line(&previous.version))
        )));
    }
    let old = read_written(&previous.written).ok_or_else(nothing)?;
    let written = read_written(&record.current.written).ok_or_else(nothing)?;
    let folders = (record.current.folder.as_deref(), previous.folder.as_deref());
    let merged = MergedServer::of(Some(&written), current, &old, folders);
    // It is not asked about, so it must lose nothing of the person.
    if let Some(change) = merged.replaced.first() {
        return Err(CliError::usage(format!("{}; nothing was changed", one_line(change))).hint(format!(
            "write it as before, or run `{} --version {}`, which asks",
            shown_command("update", name),
            shell_word(&one_line(&previous.version))
        )));
    }
    let text = replace_server(&target.file, &target.text, &merged.server).map_err(|error| {
        CliError::usage(format!("cannot change {}", paths::display_path(&target.file)))
            .with_cause(&error)
            .hint("nothing was changed; correct the file and try again")
    })?;
    file_replace::replace(&target.file, &target.text, &text)?;
    let left = std::mem::replace(&mut record.current, previous);
    let (from, to) = (left.version.clone(), record.current.version.clone());
    record.previous = Some(left);
    record.write()?;
    if output.json {
        output.value(&json!({ "server": name, "from": from, "version": to, "updated": true }));
        return Ok(());
    }
    output.say_wrapped(format_args!(
        "  {} {} is back at {}. A running host uses it within a second or two.",
        paint(GREEN, "✓"),
        paint(BOLD, printable(name)),
        one_line(&to)
    ));
    Ok(())
}
