//! Unix signals.

use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask the process to end, one after the other.
pub(in crate::transport) struct Signals([(i32, Signal); 3]);

impl Signals {
    /// The listener for signals, to be made within the runtime that is to wait for them.
    pub(in crate::transport) fn new() -> io::Result<Self> {
        let of = |kind: SignalKind| io::Result::Ok((kind.as_raw_value(), signal(kind)?));
        Ok(Self([of(SignalKind::terminate())?, of(SignalKind::interrupt())?, of(SignalKind::hangup())?]))
    }

    /// The exit code by which a shell knows a process that the next one ended.
    pub(in crate::transport) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|cx| {
            for (number, signal) in &mut self.0 {
                if signal.poll_recv(cx).is_ready() {
                    return Poll::Ready(128 + *number);
                }
            }
            Poll::Pending
        })
        .await
    }
}
