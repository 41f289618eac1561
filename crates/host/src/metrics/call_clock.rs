//! Time of a call that is not the host's own: that of its server, of a person, or of a model. And its trace.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use hospes_telemetry::{RecordedSpan, SpanKind, SpanParent, SpanTracer, TraceContext};

use super::histogram::nanos;

tokio::task_local! {
    /// Clock of the call that the current future belongs to.
    pub(super) static CALL_CLOCK: CallClock;
}

/// Time of a call that was spent waiting for others.
#[derive(Debug, Default)]
pub(super) struct CallClock {
    /// In nanoseconds.
    waited: AtomicU64,
    /// Number of waits in progress. Waits within a wait are part of it.
    depth: AtomicU32,
    /// Span of the call, if spans are exported.
    trace: Option<(SpanTracer, TraceContext)>,
}

impl CallClock {
    /// Creates the clock of a call with a span.
    pub(super) fn in_trace(trace: Option<(SpanTracer, TraceContext)>) -> Self {
        Self { trace, ..Self::default() }
    }

    /// Returns the time that was spent waiting, in nanoseconds.
    pub(super) fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }
}

/// A wait in progress. It ends when it is dropped, because a future that waits may be dropped while its call goes on.
struct RunningWait(Instant);

impl RunningWait {
    /// Begins a wait. `None` outside of a measured call.
    fn begin() -> Option<Self> {
        let begun = CALL_CLOCK.try_with(|clock| clock.depth.fetch_add(1, Ordering::Relaxed));
        begun.ok().map(|_| Self(Instant::now()))
    }
}

impl Drop for RunningWait {
    fn drop(&mut self) {
        // Not set if the whole call is dropped: then its own time is not recorded either.
        let _ = CALL_CLOCK.try_with(|clock| {
            if clock.depth.fetch_sub(1, Ordering::Relaxed) == 1 {
                clock.waited.fetch_add(nanos(self.0.elapsed()), Ordering::Relaxed);
            }
        });
    }
}

/// Returns the span of the call that the current future belongs to, if spans are exported.
#[must_use]
pub fn current_trace() -> Option<TraceContext> {
    CALL_CLOCK.try_with(|clock| clock.trace.as_ref().map(|(_, context)| context.clone())).ok().flatten()
}

/// Begins a span of a step of the call that the current future belongs to. `None` if its trace is not recorded.
pub(crate) fn begin_step(name: &'static str) -> Option<RecordedSpan> {
    let begin = |clock: &CallClock| {
        let (tracer, context) = clock.trace.as_ref()?;
        let mut span = tracer.begin(SpanKind::Internal, SpanParent::Local(context)).1?;
        span.set_name(name);
        Some(span)
    };
    CALL_CLOCK.try_with(begin).ok().flatten()
}

/// Waits for a future whose time is not the host's own. Outside of a measured call it only waits.
pub(crate) async fn excluded<T>(future: impl Future<Output = T>) -> T {
    let running = RunningWait::begin();
    let output = future.await;
    drop(running);
    output
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn waits_within_waits_and_dropped_waits_count_once() {
        let pause = Duration::from_millis(30);
        let wait = |span| excluded(tokio::time::sleep(span));
        let waited = CALL_CLOCK.scope(CallClock::default(), async {
            excluded(wait(pause)).await;
            // Given up half-way.
            let _ = tokio::time::timeout(pause, wait(Duration::from_secs(60))).await;
            CALL_CLOCK.with(CallClock::waited)
        });
        let begun = Instant::now();
        let waited = waited.await;
        assert!(waited >= nanos(pause) * 2 && waited <= nanos(begun.elapsed()), "{waited}");
        excluded(std::future::ready(())).await;
    }
}
