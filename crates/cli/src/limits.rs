//! Resource limits set for this process: file size (`RLIMIT_FSIZE`) and processor time (`RLIMIT_CPU`).

/// Makes an operation that exceeds a limit fail, as a write to a full disk does, instead of ending the program. An
/// unanswered call is better than a truncated record. Applies for as long as the program runs; call it within a
/// runtime.
///
/// If the signals cannot be handled, the program continues, and the limit ends it by the system's default.
#[cfg(unix)]
pub(crate) fn heed() {
    use tokio::signal::unix::{SignalKind, signal};
    // A handler instead of ignoring the signal, because child processes would inherit that.
    for number in [libc::SIGXFSZ, libc::SIGXCPU] {
        // tokio keeps a handler installed permanently, so the stream itself is not needed.
        if let Err(error) = signal(SignalKind::from_raw(number)) {
            tracing::warn!(%error, number, "cannot handle resource limit signal");
        }
    }
}

#[cfg(not(unix))]
pub(crate) fn heed() {}
