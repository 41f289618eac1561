//! Limits of the system that were set for this process: at most so much of a file, at most so much processor time.

/// Makes what exceeds them fail, as a write to a full disk does, instead of ending the program: an unanswered call is better
/// than a record that nobody could finish. For as long as the program runs; to be called within a runtime.
///
/// Where they cannot be heeded the program goes on as it is: then the limit ends it, as the system has it by default.
#[cfg(unix)]
pub(crate) fn heed() {
    use tokio::signal::unix::{SignalKind, signal};
    // A handler, not to be ignored: what is ignored would be in every program that we start.
    for number in [libc::SIGXFSZ, libc::SIGXCPU] {
        if let Err(error) = signal(SignalKind::from_raw(number)) {
            tracing::warn!(%error, number, "a signal about limits cannot be heeded");
        }
    }
}

#[cfg(not(unix))]
pub(crate) fn heed() {}
