//! The signals that ask a process to end.

use std::io;

/// Ready when the process is asked to end: SIGTERM, SIGINT (Ctrl-C), SIGHUP.
///
/// # Errors
/// When the handlers cannot be installed.
#[cfg(unix)]
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

/// Ready when the process is asked to end.
///
/// # Errors
/// Never on this system.
#[cfg(not(unix))]
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}
