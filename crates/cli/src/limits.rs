//! Limits of the system that were set for this process: at most so much of a file, at most so much processor time.

/// Makes an operation that exceeds a limit fail, as a write to a full disk does, instead of ending the program. An
/// unanswered call is better than a truncated record. Applies for as long as the program runs; call it within a
/// runtime.
///
/// If the signals cannot be handled, the program continues, and the limit ends it by the system's default.
#[cfg(unix)]
pub(crate) fn heed() {
    use tokio::signal::unix::{SignalKind, signal};
    // A handler, not to be ignored: what is ignored would be in every program that we start.
    for number in [libc::SIGXFSZ, libc::SIGXCPU] {
        // tokio keeps a handler for good once it is installed, so that the stream itself is not needed.
        if let Err(error) = signal(SignalKind::from_raw(number)) {
            tracing::warn!(%error, number, "cannot handle resource limit signal");
        }
    }
}

#[cfg(not(unix))]
pub(crate) fn heed() {}
