//! Events of a server's process.

/// Event of a server's process: see [`ClientBuilder::on_process`](crate::client::ClientBuilder::on_process).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ProcessEvent<'n> {
    /// The process was started.
    Started {
        /// Its process id, or its launcher's where it has one.
        pid: Option<u32>,
    },
    /// It could not be started.
    NotStarted {
        /// Error of the operating system.
        why: &'n std::io::Error,
    },
    /// The process has ended; its descendants may still run.
    Ended {
        /// Process id at the start.
        pid: Option<u32>,
        /// Description of the exit, to follow "the server": `exited with status 3`, `was terminated by signal 9`.
        how: &'n str,
        /// True if the client requested the exit.
        was_asked: bool,
        /// True if the exit status is 0.
        is_success: bool,
    },
}
