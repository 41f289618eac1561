//! Tasks that run while the connection reads on: calls that take longer, and the stream of changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use hospes_model::{RequestId, RpcError, message};
use hospes_proto::frame::line::end_line;

use super::outbox::Outbox;
use crate::transport::adapter::{
    BatchAnswers, CallTimingKey, LegacySession, RunningCall, RunningCallOutput, ServiceAdapter,
    SessionListenCalls,
};

/// Counters of running work.
#[derive(Debug, Default)]
pub(in crate::transport) struct CallCounters {
    pub(in crate::transport) calls: AtomicUsize,
    pub(super) streams: AtomicUsize,
}

/// Call that runs in the background. Its request is answered even if the task fails.
pub(super) struct BackgroundCall {
    counters: Arc<CallCounters>,
    stream: bool,
    outbox: Arc<Outbox>,
    batch: Option<Arc<BatchAnswers>>,
    unanswered: Option<RequestId>,
}

impl BackgroundCall {
    /// A place for `running`, counted from now on.
    pub(super) fn of(
        running: &RunningCall,
        counters: &Arc<CallCounters>,
        outbox: &Arc<Outbox>,
        batch: Option<&Arc<BatchAnswers>>,
    ) -> Self {
        let slot = Self {
            counters: Arc::clone(counters),
            stream: running.is_listen(),
            outbox: Arc::clone(outbox),
            batch: batch.cloned(),
            unanswered: Some(running.id().clone()),
        };
        slot.counter().fetch_add(1, Ordering::AcqRel);
        slot
    }

    fn counter(&self) -> &AtomicUsize {
        if self.stream { &self.counters.streams } else { &self.counters.calls }
    }

    fn answer(&mut self, text: Vec<u8>) {
        self.unanswered = None;
        let mut out = Vec::new();
        finish_answer(&mut out, 0, self.batch.as_ref(), Some(text));
        self.outbox.push(&out);
    }
}

impl Drop for BackgroundCall {
    fn drop(&mut self) {
        if let Some(id) = self.unanswered.take() {
            let mut text = Vec::new();
            message::write_error(&mut text, Some(&id), &RpcError::internal("the call was aborted"));
            self.answer(text);
        }
        self.counter().fetch_sub(1, Ordering::AcqRel);
        // After the counter, because whoever is woken looks whether anything still runs.
        self.outbox.wake_writer();
    }
}

/// Sends what a call says, to its end. One of a `kind` that is not known to be quick begins here.
pub(super) async fn run_in_background(
    mut running: RunningCall,
    mut slot: BackgroundCall,
    mut kind: Option<CallTimingKey>,
) {
    let mut text = Vec::new();
    loop {
        // A client that does not read holds its calls up, rather than having their output fill the memory.
        std::future::poll_fn(|cx| slot.outbox.poll_room(cx)).await;
        let said = std::future::poll_fn(|cx| {
            let Some(kind) = kind.take() else { return running.poll_output(cx, &mut text) };
            let start = Instant::now();
            // What the worker has taken on goes to another thread: the task that it would run next is stolen by none.
            let said = tokio::task::block_in_place(|| running.poll_output(cx, &mut text));
            running.record_timing(kind, start);
            said
        });
        match said.await {
            RunningCallOutput::Message => {
                end_line(&mut text, 0);
                slot.outbox.push(&text);
                text.clear();
            }
            RunningCallOutput::Answer(_) => {
                // Before the answer: the call leaves its table, so
                // that the client may use the id again at once.
                drop(running);
                return slot.answer(text);
            }
            // Empty, but a batch has to know that no answer will come.
            RunningCallOutput::Silence => return slot.answer(Vec::new()),
        }
    }
}

/// Passes on what the session is to hear of.
pub(super) fn listen(
    session: Arc<LegacySession>,
    adapter: &Arc<ServiceAdapter>,
    outbox: Arc<Outbox>,
) -> impl Future<Output = ()> + use<> {
    let mut listen = SessionListenCalls::new(adapter);
    // Before the task runs: a subscription that comes in between counts on this reader.
    let attending = session.attach_reader();
    async move {
        let _attending = attending;
        let mut text = Vec::new();
        loop {
            std::future::poll_fn(|cx| outbox.poll_room(cx)).await;
            std::future::poll_fn(|cx| listen.poll_message(&session, cx, &mut text)).await;
            end_line(&mut text, 0);
            outbox.push(&text);
            text.clear();
        }
    }
}

/// Ends an answer that stands in `out` from `start` on, or is `text`: as a line, or as a part of its batch.
pub(super) fn finish_answer(
    out: &mut Vec<u8>,
    start: usize,
    batch: Option<&Arc<BatchAnswers>>,
    text: Option<Vec<u8>>,
) {
    match (batch, text) {
        (None, None) => end_line(out, start),
        (None, Some(text)) => {
            if !text.is_empty() {
                let start = out.len();
                out.extend_from_slice(&text);
                end_line(out, start);
            }
        }
        (Some(batch), text) => {
            let text = text.unwrap_or_else(|| out.split_off(start));
            if let Some(all) = batch.add_answer(&text) {
                let start = out.len();
                out.extend_from_slice(&all);
                end_line(out, start);
            }
        }
    }
}
