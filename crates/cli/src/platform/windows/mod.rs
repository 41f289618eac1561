//! Windows: console events, and no job control.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hospes_host::config::split_command;

use super::FreeSpace;

/// Interval at which a suspended screen checks whether it is in the foreground again. Never used here.
pub(crate) const FOREGROUND_INTERVAL: Duration = Duration::from_millis(20);

/// Editor of a person who has set none.
pub(crate) const DEFAULT_EDITOR: &str = "notepad";

/// Returns the command that opens a file in an editor. The editor may have options. Its path has quotes if it has blanks.
///
/// # Errors
/// If there is no such program, or a quote is missing.
pub(crate) fn editor_command(editor: &str, file: &Path) -> Result<Command, String> {
    let words = split_command(editor).map_err(|error| format!("expected {error}"))?;
    let path = std::env::var_os("PATH");
    // Many editors are started by a batch file, such as `code.cmd`.
    let program = hospes_sandbox::resolve(words[0].as_ref(), path.as_deref(), Path::new("."));
    let mut command = Command::new(program.map_err(|error| error.to_string())?);
    command.args(&words[1..]).arg(file);
    Ok(command)
}

/// Does nothing: a temporary folder is created in a private one, whose access list it inherits.
pub(crate) fn make_temporary_private(_: &mut tempfile::Builder<'_, '_>) {}

/// Returns a number that identifies the file at a path until it is replaced.
pub(crate) fn file_id(path: &Path) -> io::Result<u64> {
    // Not the time of creation: for some seconds, the system gives that of a renamed file to a new one of the same name.
    let file = fs::File::open(path)?;
    winapi_util::file::information(&file).map(|about| about.file_index())
}

/// Returns the reason why a new file must not take the place of this one. None is known here.
pub(crate) fn replacement_problem(_: &Path) -> Option<&'static str> {
    None
}

/// Returns true if a file or folder belongs to another user. Not known here.
pub(crate) fn is_of_other_user(_: &Path) -> bool {
    false
}

/// Returns the free space where a folder is. Not known here.
pub(crate) fn free_space(_: &Path) -> Option<FreeSpace> {
    None
}

/// Returns the maximum number of open files. There is none.
pub(crate) fn open_file_limit() -> Option<u64> {
    None
}

/// Returns 0: users have no numbers.
pub(crate) fn user_id() -> u32 {
    0
}

/// Does nothing: what was typed before a question is not discarded.
pub(crate) fn discard_typed_input() {}

/// Waits for input of the terminal, at most for this time. Returns true if there is some.
///
/// # Errors
/// If the terminal cannot be read.
pub(crate) fn poll_input(time: Duration) -> io::Result<bool> {
    crossterm::event::poll(time)
}

/// Returns true at once: whether a whole line was typed cannot be asked, so a question ends with a line only.
///
/// # Errors
/// Never.
pub(crate) fn poll_line(_time: Duration) -> io::Result<bool> {
    Ok(true)
}

/// Does nothing: there are no such limits.
pub(crate) fn keep_running_at_limits() {}

/// The console events that interrupt an answer, or end the program.
pub(crate) struct ChatInterrupts {
    interrupt: tokio::signal::windows::CtrlC,
    close: tokio::signal::windows::CtrlClose,
    stop: tokio::signal::windows::CtrlBreak,
}

impl ChatInterrupts {
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close};
        Ok(Self { interrupt: ctrl_c()?, close: ctrl_close()?, stop: ctrl_break()? })
    }

    /// Waits for the next one. Returns true if the program is to end.
    pub(crate) async fn next(&mut self) -> bool {
        // The first that happens.
        tokio::select! {
            biased;
            _ = self.close.recv() => true,
            _ = self.stop.recv() => true,
            _ = self.interrupt.recv() => false,
        }
    }
}

/// The signals of job control, which this system does not have.
pub(crate) struct JobSignals(());

impl JobSignals {
    #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
    pub(crate) fn register() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// Never returns.
    pub(crate) async fn next(&mut self) -> bool {
        std::future::pending().await
    }
}

/// Returns false: the system has no job control.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub(crate) fn suspend_process() -> io::Result<bool> {
    Ok(false)
}

/// Returns true: there is no background.
pub(crate) fn is_in_foreground() -> bool {
    true
}

/// Returns the error that a process cannot be replaced by another one here.
pub(crate) fn restart(_: &[(&str, &std::ffi::OsStr)]) -> io::Error {
    io::ErrorKind::Unsupported.into()
}
