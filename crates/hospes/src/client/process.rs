//! What becomes of the process of a server.

/// What has become of the process of a server: see [`ClientBuilder::on_process`](super::ClientBuilder::on_process).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ProcessNews<'n> {
    /// It was started.
    Started {
        /// Its process id, or its launcher's where it has one.
        pid: Option<u32>,
    },
    /// It could not be started.
    NotStarted {
        /// What the system says.
        why: &'n std::io::Error,
    },
    /// It has ended; what it started itself may still be there.
    Ended {
        /// Its process id, as it was when it was started.
        pid: Option<u32>,
        /// How, after "the server": `exited with status 3`, `was ended by signal 9`.
        how: &'n str,
        /// Whether we had asked it to.
        was_asked: bool,
        /// Whether it said that all is well: its status is 0.
        is_success: bool,
    },
}
