//! Output queue of background calls, which one writer takes all at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

/// Maximum size of unwritten output, in bytes; beyond it calls have to wait with their notifications: the limit
/// `max_unwritten_bytes`.
pub(in crate::transport) const MAX_UNWRITTEN_BYTES: usize = 1024 * 1024;

/// Lines on their way to the writer.
#[derive(Debug, Default)]
pub(in crate::transport) struct Outbox(Mutex<OutboxState>);

#[derive(Debug, Default)]
struct OutboxState {
    lines: Vec<u8>,
    writer: Option<Waker>,
    waiting: Vec<Waker>,
    closed: bool,
}

impl Outbox {
    /// Leaves whole lines here.
    pub(super) fn push(&self, lines: &[u8]) {
        let mut state = self.lock();
        if !state.closed {
            state.lines.extend_from_slice(lines);
        }
        if let Some(writer) = state.writer.take() {
            // The writer takes this lock as soon as it is woken.
            drop(state);
            writer.wake();
        }
    }

    /// Wakes the writer because of another change.
    pub(super) fn wake_writer(&self) {
        self.push(&[]);
    }

    /// Waits until the writer has caught up. Answers need not wait: each makes room by ending its call.
    pub(super) fn poll_room(&self, cx: &TaskContext<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.lines.len() < MAX_UNWRITTEN_BYTES || state.closed {
            return Poll::Ready(());
        }
        state.waiting.push(cx.waker().clone());
        Poll::Pending
    }

    /// Moves all lines behind `out` and registers the writer for the next ones.
    pub(in crate::transport) fn take(&self, cx: &TaskContext<'_>, out: &mut Vec<u8>) {
        let mut state = self.lock();
        if out.is_empty() {
            std::mem::swap(out, &mut state.lines);
        } else {
            out.append(&mut state.lines);
        }
        if !state.writer.as_ref().is_some_and(|writer| writer.will_wake(cx.waker())) {
            state.writer = Some(cx.waker().clone());
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Nothing is written any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.lines = Vec::new();
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, OutboxState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
