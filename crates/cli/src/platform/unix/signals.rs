//! Signals and job control.

use std::io;
use std::time::Duration;

use rustix::process::{Signal as SystemSignal, getpgrp, getpid, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Interval at which a suspended screen checks whether it is in the foreground again.
pub(crate) const FOREGROUND_INTERVAL: Duration = Duration::from_millis(20);

/// Makes an operation that exceeds a resource limit fail, as a write to a full disk does, instead of ending the
/// program: file size (`RLIMIT_FSIZE`) and processor time (`RLIMIT_CPU`). An unanswered call is better than a truncated
/// record. Applies for as long as the program runs; call it within a runtime.
///
/// If the signals cannot be handled, the program continues, and the limit ends it by the system's default.
pub(crate) fn keep_running_at_limits() {
    // A handler instead of ignoring the signal, because child processes would inherit that.
    for number in [libc::SIGXFSZ, libc::SIGXCPU] {
        // tokio keeps a handler installed permanently, so the stream itself is not needed.
        if let Err(error) = signal(SignalKind::from_raw(number)) {
            tracing::warn!(%error, number, "cannot handle resource limit signal");
        }
    }
}

/// The signals that interrupt an answer, or end the program.
pub(crate) struct ChatInterrupts([Signal; 3]);

impl ChatInterrupts {
    pub(crate) fn new() -> io::Result<Self> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self([interrupt, terminate, signal(SignalKind::hangup())?]))
    }

    /// Waits for the next one. Returns true if the program is to end.
    pub(crate) async fn next(&mut self) -> bool {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            biased;
            _ = terminate.recv() => true,
            _ = hangup.recv() => true,
            _ = interrupt.recv() => false,
        }
    }
}

/// The signals of job control. They are registered before the screen is shown, because a suspended program cannot
/// restore the terminal.
pub(crate) struct JobSignals {
    stop: Signal,
    go_on: Signal,
}

impl JobSignals {
    pub(crate) fn register() -> io::Result<Self> {
        let stop = signal(SignalKind::from_raw(libc::SIGTSTP))?;
        Ok(Self { stop, go_on: signal(SignalKind::from_raw(libc::SIGCONT))? })
    }

    /// Waits for the next signal. Returns true if the program is to be suspended, and false if it was continued.
    pub(crate) async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.stop.recv() => true,
            _ = self.go_on.recv() => false,
        }
    }
}

/// Suspends this process. Returns true if the system has job control.
pub(crate) fn suspend_process() -> io::Result<bool> {
    // Not SIGTSTP, which has a handler.
    kill_process(getpid(), SystemSignal::STOP)?;
    Ok(true)
}

/// Returns true if this program's group has the terminal.
pub(crate) fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdin()).map_or(true, |group| group == getpgrp())
}
