//! Unix: modes of files, signals, job control, and sockets.

mod signals;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::FreeSpace;

pub(crate) use signals::{
    ChatInterrupts, FOREGROUND_INTERVAL, JobSignals, is_in_foreground, keep_running_at_limits,
    suspend_process,
};

/// Replaces this process by a new one of the same program with the same arguments and streams, and with these variables
/// set. Returns the error if that is not possible.
pub(crate) fn restart(variables: &[(&str, &OsStr)]) -> io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(problem) => return problem,
    };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).envs(variables.iter().copied()).exec()
}

/// Editor of a person who has set none. POSIX has it everywhere.
pub(crate) const DEFAULT_EDITOR: &str = "vi";

/// Returns the command that opens a file in an editor. It is run by a shell, as other programs do, because the editor may
/// have options.
///
/// # Errors
/// Never.
#[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub(crate) fn editor_command(editor: &str, file: &Path) -> Result<Command, String> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(editor).arg(file);
    Ok(command)
}

/// Makes a temporary folder accessible to its owner alone.
pub(crate) fn make_temporary_private(builder: &mut tempfile::Builder<'_, '_>) {
    builder.permissions(fs::Permissions::from_mode(0o700));
}

/// Returns a number that identifies the file at a path until it is replaced.
pub(crate) fn file_id(path: &Path) -> io::Result<u64> {
    fs::metadata(path).map(|data| data.ino())
}

/// Returns the reason why a new file must not take the place of this one. `None` if it may.
pub(crate) fn replacement_problem(file: &Path) -> Option<&'static str> {
    let about = fs::metadata(file).ok()?;
    if about.nlink() > 1 {
        return Some("has several hard links, which a new file would separate");
    }
    is_of_other_user(file).then_some("belongs to another user")
}

/// Returns true if a file or folder belongs to another user.
pub(crate) fn is_of_other_user(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|about| about.uid() != rustix::process::geteuid().as_raw())
}

/// Returns the free space for this user where a folder is.
pub(crate) fn free_space(folder: &Path) -> Option<FreeSpace> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(FreeSpace {
        bytes: found.f_bavail.saturating_mul(found.f_frsize),
        all_bytes: found.f_blocks.saturating_mul(found.f_frsize),
        files: (found.f_files > 0).then_some(found.f_favail),
    })
}

/// Returns the maximum number of open files. `None` if there is none.
pub(crate) fn open_file_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// Returns the id of the user.
pub(crate) fn user_id() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Discards typed input that has not been read yet.
pub(crate) fn discard_typed_input() {
    let _not_a_terminal = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
}

/// Waits for keys of a terminal that is drawn on, at most for this time. Returns true if there are some.
///
/// # Errors
/// If the terminal is gone.
pub(crate) fn poll_input(time: Duration) -> io::Result<bool> {
    // A terminal that was closed is always readable and has nothing to read, for which `crossterm` waits forever.
    poll_line(time)?;
    // Also without input, because the size may have changed.
    crossterm::event::poll(Duration::ZERO)
}

/// Waits for a typed line, at most for this time. Returns true if there is one. Reads nothing: `crossterm` would take the
/// line as keys.
///
/// # Errors
/// If the terminal is gone.
pub(crate) fn poll_line(time: Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let stdin = io::stdin();
    let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
    let limit = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    match rustix::event::poll(&mut ready, Some(&limit)) {
        // A signal, for example because the size has changed.
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let found = ready[0].revents();
    if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the terminal was closed"));
    }
    Ok(found.contains(PollFlags::IN))
}
