//! Job objects of children.

use std::ffi::OsStr;
use std::io;

use process_wrap::tokio::{ChildWrapper, CommandWrap, CreationFlags, JobObject, KillOnDrop};
use windows::Win32::System::Threading::CREATE_NO_WINDOW;

/// The variables that every child gets, where we have them: the list that other SDKs share, and what programs need to
/// find others. Their names are the same in any letter case.
pub(super) const INHERITED: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Puts the child into a job of its own, without a console window. The system ends all processes of the job when its
/// last handle is closed, so also when this process is killed.
pub(super) fn wrap(command: &mut CommandWrap) {
    command.wrap(CreationFlags(CREATE_NO_WINDOW)).wrap(JobObject).wrap(KillOnDrop);
}

/// Does nothing: the system chooses the size of pipes.
pub(super) fn widen(_: &mut dyn ChildWrapper) {}

/// Ends all processes of the job: a program without a window or a console cannot be asked. Returns true if that
/// succeeded.
pub(super) fn terminate(child: &mut dyn ChildWrapper) -> bool {
    child.start_kill().is_ok()
}

/// Ends all processes of the job. There are no launchers on this system.
pub(super) fn kill_by_launcher(child: &mut dyn ChildWrapper) {
    let _ = child.start_kill();
}

/// Returns `None`: there are no signals.
pub(super) fn signal_of(_: std::process::ExitStatus) -> Option<i32> {
    None
}

/// Returns the reason why a program cannot be started. The standard library refuses arguments of batch files that
/// `cmd.exe` would read as something else.
pub(super) fn explain_start_error(program: &OsStr, error: io::Error) -> io::Error {
    let name = program.to_string_lossy().to_ascii_lowercase();
    if error.kind() != io::ErrorKind::InvalidInput || !name.ends_with(".cmd") && !name.ends_with(".bat") {
        return error;
    }
    let why = "an argument cannot be passed to this batch file unchanged (a quote, a percent sign or a line feed); start \
               the program that the batch file starts, such as node with the path of a script";
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
