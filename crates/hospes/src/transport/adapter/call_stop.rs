//! Stops a running call from outside.

use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Context as TaskContext;

use futures::task::AtomicWaker;

/// Reason a call was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CallStopReason {
    /// The peer cancelled it: nothing more is sent (CANC-06).
    Cancelled = 1,
    /// Its session has ended.
    SessionEnded = 2,
    /// The server is shutting down.
    ShuttingDown = 3,
    /// Another process owns its session: what it does from now on is not known there.
    #[cfg(feature = "http")]
    SessionLost = 4,
}

/// A switch between a call and those who may stop it.
#[derive(Debug, Default)]
pub(crate) struct CallStopSwitch {
    why: AtomicU8,
    waker: AtomicWaker,
}

impl CallStopSwitch {
    /// Stops the call; the first reason counts.
    pub(crate) fn stop(&self, why: CallStopReason) {
        let _ = self.why.compare_exchange(0, why as u8, Ordering::AcqRel, Ordering::Acquire);
        self.waker.wake();
    }

    /// Returns the reason if the call is to stop; otherwise registers the task.
    pub(crate) fn poll(&self, cx: &TaskContext<'_>) -> Option<CallStopReason> {
        self.get().or_else(|| {
            self.waker.register(cx.waker());
            // Once more: a stop between the first look and the registration has woken nobody.
            self.get()
        })
    }

    fn get(&self) -> Option<CallStopReason> {
        match self.why.load(Ordering::Acquire) {
            0 => None,
            1 => Some(CallStopReason::Cancelled),
            2 => Some(CallStopReason::SessionEnded),
            #[cfg(feature = "http")]
            4 => Some(CallStopReason::SessionLost),
            _ => Some(CallStopReason::ShuttingDown),
        }
    }
}
