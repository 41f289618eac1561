//! Thread that sends the records of one signal.

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use prost::Message as _;

use crate::messages::ExportResponse;
use crate::queue::RecordQueue;
use crate::transport::{OtlpTransport, PostError, TelemetrySignal};

/// Time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before the first repetition of a request. It doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Maximum number of times that a request is sent.
const MAX_ATTEMPTS: u32 = 5;

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Returns true on a thread that sends records. Events of this thread must not become records, because sending them
/// would cause the next ones.
#[must_use]
pub fn is_export_thread() -> bool {
    IS_WORKER.with(Cell::get)
}

/// Marks the current thread as one that sends records.
pub(crate) fn mark_thread() {
    IS_WORKER.with(|mark| mark.set(true));
}

/// State of the collector, shared by all threads. A dead collector is one warning, and its return one line.
#[derive(Debug, Default)]
pub(crate) struct CollectorState {
    is_failing: AtomicBool,
    /// End of the whole export, once the program ends.
    deadline: parking_lot::Mutex<Option<Instant>>,
}

impl CollectorState {
    /// Sets the time at which the threads have to end.
    pub(crate) fn end_by(&self, deadline: Instant) {
        *self.deadline.lock() = Some(deadline);
    }

    fn limit(&self) -> Duration {
        let deadline = *self.deadline.lock();
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        left.map_or(REQUEST_TIMEOUT, |left| left.min(REQUEST_TIMEOUT))
    }

    fn note(&self, signal: TelemetrySignal, result: Result<(), &PostError>) {
        // Relaxed: the flag guards no other data.
        match result {
            Ok(()) if self.is_failing.swap(false, Ordering::Relaxed) => {
                tracing::info!(signal = signal.as_str(), "the collector takes telemetry again");
            }
            Err(error) if !self.is_failing.swap(true, Ordering::Relaxed) => {
                tracing::warn!(
                    signal = signal.as_str(),
                    %error,
                    "cannot export telemetry: the collector does not take it; what does not fit into the queues is \
                     dropped, and this is not repeated until it works again"
                );
            }
            _ => {}
        }
    }
}

/// Sender of one signal.
pub(crate) struct SignalSender {
    signal: TelemetrySignal,
    transport: Box<dyn OtlpTransport>,
    collector: Arc<CollectorState>,
    /// Dropped with the thread, which tells those who wait for its end.
    _running: Sender<Infallible>,
}

impl SignalSender {
    pub(crate) fn new(
        signal: TelemetrySignal,
        transport: Box<dyn OtlpTransport>,
        collector: Arc<CollectorState>,
        running: Sender<Infallible>,
    ) -> Self {
        Self { signal, transport, collector, _running: running }
    }

    /// Sends a request once. Returns the number of records that the collector refused.
    pub(crate) fn send(&mut self, body: Vec<u8>) -> Result<u64, PostError> {
        let limit = self.collector.limit();
        if limit.is_zero() {
            return Err(PostError::connection("the program ends"));
        }
        let result = self.transport.post(self.signal, body, limit);
        self.collector.note(self.signal, result.as_ref().map(drop));
        // A collector may answer with nothing, or with a text.
        let response = ExportResponse::decode(&*result?).unwrap_or_default();
        Ok(response.partial_success.and_then(|part| u64::try_from(part.rejected).ok()).unwrap_or_default())
    }

    /// Sends a batch of a queue, again while the collector may take it later. While the queue ends, it is sent once.
    fn send_batch<T>(&mut self, queue: &RecordQueue<T>, body: &[u8], count: u64) {
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=MAX_ATTEMPTS {
            match self.send(body.to_vec()) {
                Ok(rejected) => {
                    let rejected = rejected.min(count);
                    queue.add_dropped(rejected);
                    queue.add_sent(count - rejected);
                    return;
                }
                Err(error) if error.is_temporary && attempt < MAX_ATTEMPTS && !queue.is_ending() => {
                    // If the queue ends meanwhile, the next attempt is the last one.
                    queue.pause(error.retry_after.unwrap_or(pause).min(LONGEST_PAUSE));
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(_) => break,
            }
        }
        queue.add_dropped(count);
    }

    /// Sends the records of a queue until it has ended.
    pub(crate) fn run<T>(
        mut self,
        queue: &RecordQueue<T>,
        interval: Duration,
        encode: impl Fn(Vec<T>) -> Vec<u8>,
    ) {
        mark_thread();
        loop {
            let batch = queue.take(interval);
            if batch.is_empty() {
                if queue.is_ending() {
                    return;
                }
                continue;
            }
            let count = batch.len() as u64;
            self.send_batch(queue, &encode(batch), count);
        }
    }
}
