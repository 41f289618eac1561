//! Console events of Windows. After the last three, the system leaves a process about five seconds.

use std::io;
use std::task::Poll;

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_logoff,
    ctrl_shutdown,
};

/// Exit code of a program that Ctrl-C ended, as shells on other systems know it.
const INTERRUPTED: i32 = 130;
/// Exit code of a program that was asked to end.
const TERMINATED: i32 = 143;

/// The events that ask the process to end, one after the other.
pub(in crate::transport) struct Signals {
    interrupt: CtrlC,
    stop: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl Signals {
    /// The listener for events, to be made within the runtime that is to wait for them.
    pub(in crate::transport) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: ctrl_c()?,
            stop: ctrl_break()?,
            close: ctrl_close()?,
            logoff: ctrl_logoff()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    /// The exit code for the next one.
    pub(in crate::transport) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|cx| {
            if self.interrupt.poll_recv(cx).is_ready() {
                return Poll::Ready(INTERRUPTED);
            }
            let is_asked = self.stop.poll_recv(cx).is_ready()
                || self.close.poll_recv(cx).is_ready()
                || self.logoff.poll_recv(cx).is_ready()
                || self.shutdown.poll_recv(cx).is_ready();
            if is_asked { Poll::Ready(TERMINATED) } else { Poll::Pending }
        })
        .await
    }
}
