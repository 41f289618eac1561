//! Identification of the program that connects: the process at the other end of a local connection. It also reports
//! whether that process is a server that a host started.
//!
//! On Linux it is read from `/proc`. For a TCP connection over loopback, the table of sockets gives the owner and
//! inode of the other end. The file descriptors of processes show which of them hold that socket. The helper that
//! starts servers is the subreaper of all processes they start, so that these keep it among their ancestors.
//!
//! On macOS and Windows only the process at the other end of a [`local_socket`] is known, and its ancestors as far as they
//! still run. The terminal of a process is not.
//!
//! [`CallerLookupError`] is the result for a process that cannot be read: it has ended, belongs to another user, forbids
//! inspection (as `sshd` does), or is in a namespace that is not visible here.

#[cfg(target_os = "linux")]
mod linux;
pub mod local_socket;
mod middleware;
mod process;
#[cfg(any(not(target_os = "linux"), test))]
mod process_table;
mod tokens;

use std::fmt;
use std::net::SocketAddr;

pub use middleware::{CallerMiddleware, CallerRule};
pub use process::{ProcessDescription, TerminalName};
pub use tokens::{MAX_TOKENS, ProgramToken, ProgramTokenError, ProgramTokenStore};

/// First argument with which this program starts a server and stays as the ancestor of all its processes. A process
/// with such an ancestor is a server of this or another host.
pub const HELPER_WORD: &str = "__run-child";

/// Reasons why the program at the other end is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallerLookupError {
    /// The operating system does not provide the information.
    #[error("this system does not report which program opened a connection")]
    System,
    /// A proxy has forwarded the request, for a program that may be anywhere.
    #[error("a proxy has forwarded the request")]
    Forwarded,
    /// No such socket is open on this machine, or it is closed already.
    #[error("the other end of the connection is not a socket of this machine")]
    Elsewhere,
    /// No process that can be inspected holds the other end.
    #[error("no visible process owns the other end of the connection")]
    Hidden {
        /// Id of the user who owns the socket.
        uid: u32,
    },
}

/// The program at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalCaller {
    /// Id of the user who owns the socket.
    pub uid: u32,
    /// The process that holds it; one of several that do, where one is a server of a host's that one.
    pub process: ProcessDescription,
    /// True if it is a server that a host has started, this one or another.
    pub is_server: bool,
    /// True if it is this program, on a system that does not report terminals: what it says about its terminal counts.
    /// Never on Linux.
    pub vouches_for_terminal: bool,
}

impl fmt::Display for LocalCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uid, process, .. } = self;
        match cfg!(windows) {
            // Users have no numbers there, and only programs of this user get here.
            true => write!(f, "{}, process {} of this user", process.program, process.pid),
            false => write!(f, "{}, process {} of user {uid}", process.program, process.pid),
        }
    }
}

impl LocalCaller {
    /// Returns the program at the other end of a TCP connection over loopback. It reads many files of `/proc`, which
    /// blocks for milliseconds.
    ///
    /// # Errors
    /// [`CallerLookupError`] if the program cannot be identified.
    pub fn of_connection(local: SocketAddr, remote: SocketAddr) -> Result<Self, CallerLookupError> {
        #[cfg(target_os = "linux")]
        return linux::of_connection(local, remote);
        #[cfg(not(target_os = "linux"))]
        {
            // Used on Linux only.
            let _ = (local, remote);
            Err(CallerLookupError::System)
        }
    }

    /// Returns the process with this id and user, which the system reports for a connection over a [`local_socket`].
    ///
    /// # Errors
    /// [`CallerLookupError`] if the process does not exist or cannot be read.
    pub fn of_process(pid: u32, uid: u32) -> Result<Self, CallerLookupError> {
        #[cfg(target_os = "linux")]
        return linux::of_process(pid, uid);
        #[cfg(not(target_os = "linux"))]
        process_table::of_process(pid, uid)
    }

    /// Returns this process.
    ///
    /// # Errors
    /// [`CallerLookupError`] if the process cannot be read.
    pub fn this() -> Result<Self, CallerLookupError> {
        #[cfg(target_os = "linux")]
        return linux::of_process(std::process::id(), own_user());
        #[cfg(not(target_os = "linux"))]
        Err(CallerLookupError::System)
    }

    /// Returns the terminal that the process is using: its controlling terminal, if the process is in the foreground
    /// and the terminal is its standard input, output or error. Background processes have none.
    #[must_use]
    pub fn terminal_in_use(&self) -> Option<&TerminalName> {
        #[cfg(target_os = "linux")]
        return self.process.terminal.as_ref().filter(|_| linux::is_at_terminal(self.process.pid));
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Returns whether it is a program of the user that this one runs as, or of the administrator.
    #[must_use]
    pub fn is_same_user(&self) -> bool {
        is_same_user(self.uid)
    }
}

/// Returns true if this is the user of this program, or root. On Windows, where users have no numbers, local sockets admit
/// no other user.
#[must_use]
pub fn is_same_user(uid: u32) -> bool {
    cfg!(windows) || uid == own_user() || uid == 0
}

/// Returns the id of this program's user. 0 on Windows.
fn own_user() -> u32 {
    #[cfg(unix)]
    return rustix::process::geteuid().as_raw();
    #[cfg(windows)]
    0
}

/// Returns true if this program runs as the administrator.
fn is_administrator() -> bool {
    cfg!(unix) && own_user() == 0
}
