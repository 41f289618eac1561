//! The signals that ask a process to end.

use std::io;

/// Ready when the process is asked to end: SIGTERM, SIGINT (Ctrl-C), SIGHUP.
///
/// # Errors
/// When the handlers cannot be installed.
#[cfg(unix)]
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    // Installed here and not when awaited: a signal before the first poll would kill the process.
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

/// The signals that ask the process to end, one after the other.
#[cfg(all(unix, any(feature = "stdio", feature = "http")))]
pub(super) struct Signals([(i32, tokio::signal::unix::Signal); 3]);

#[cfg(all(unix, any(feature = "stdio", feature = "http")))]
impl Signals {
    /// The listener for signals, to be made within the runtime that is to wait for them.
    pub(super) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let of = |kind: SignalKind| io::Result::Ok((kind.as_raw_value(), signal(kind)?));
        Ok(Self([of(SignalKind::terminate())?, of(SignalKind::interrupt())?, of(SignalKind::hangup())?]))
    }

    /// The exit code by which a shell knows a process that the next one ended.
    pub(super) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|cx| {
            for (number, signal) in &mut self.0 {
                if signal.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(128 + *number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// The signals that ask the process to end.
#[cfg(all(not(unix), any(feature = "stdio", feature = "http")))]
pub(super) struct Signals;

#[cfg(all(not(unix), any(feature = "stdio", feature = "http")))]
impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// The exit code of a process that was interrupted.
    pub(super) async fn next(&mut self) -> i32 {
        if tokio::signal::ctrl_c().await.is_err() {
            // An error means that no signal can come; it must not end the server.
            std::future::pending::<()>().await;
        }
        130
    }
}
