//! The signals that ask a process to end.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::io;

#[cfg(unix)]
pub(super) use unix::Signals;
#[cfg(windows)]
pub(super) use windows::Signals;

/// Ready when the process is asked to end: SIGTERM, SIGINT (Ctrl-C), SIGHUP; on Windows Ctrl-C, Ctrl-Break, the closing of
/// the console, the end of the session, and shutdown.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()>> {
    // Installed here and not when awaited: a signal before the first poll would kill the process.
    let mut signals = Signals::new()?;
    Ok(async move {
        signals.next().await;
    })
}
