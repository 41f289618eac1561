//! Functions shared by the programs that the yardstick measures.

pub mod tools;

use std::io::{self, Write as _};

/// Lets the process open as many sockets as the system allows: ten thousand idle sessions are one test.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// The processor time that this process has used, in seconds.
#[must_use]
pub fn processor_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    #[expect(clippy::cast_precision_loss, reason = "seconds of a run of minutes")]
    let (seconds, nanoseconds) = (used.tv_sec as f64, used.tv_nsec as f64);
    seconds + nanoseconds / 1e9
}

/// One line on stdout: the result of a run.
///
/// # Errors
/// When stdout is closed.
pub fn print_line(line: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{line}")
}

/// The runtime of all programs: one thread, as the yardstick gives a server one processor.
///
/// # Errors
/// When the system has no descriptors left.
pub fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
