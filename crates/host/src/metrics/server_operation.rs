//! Operations and sessions of applications at the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hospes::{Call, Outcome, Peer};
use hospes_model::{Method, Reply, Revision};

use super::call_clock::{CALL_CLOCK, CallClock};
use super::histogram::nanos;
use super::labels::LabelValue;
use super::operation::{OperationSide, PIPE, RunningOperation, TCP};
use super::operation_span::OperationSpan;
use super::registry::HostMetrics;

/// An operation of an application. A call of an older revision keeps it while its questions are answered.
#[derive(Debug)]
struct ServerOperation {
    running: RunningOperation,
    /// Time that the host itself took, in nanoseconds.
    own: u64,
}

impl ServerOperation {
    /// Records how the operation has ended.
    fn finish(mut self, outcome: &Outcome) {
        self.running.finish(outcome);
        let metrics = self.running.metrics();
        metrics.overhead.with([], |histogram| histogram.observe(self.own));
        if let Outcome::Complete(Reply::Raw { json, .. }) = outcome {
            metrics.response_bytes.with([], |histogram| histogram.observe(size(json.as_bytes())));
        }
    }
}

impl HostMetrics {
    /// Measures an operation of an application, which `answer` answers.
    pub(crate) async fn measure_server_operation<A: Future<Output = Outcome>>(
        self: &Arc<Self>,
        call: Call,
        answer: impl FnOnce(Call) -> A,
    ) -> Outcome {
        let context = call.context.clone();
        let is_legacy = context.peer().revision.is_legacy();
        let is_listen = call.method == Method::SubscriptionsListen;
        let is_http = context.http().is_some();
        if is_legacy {
            self.follow_session(context.peer(), is_http);
        }
        // Calls of the adapter itself: one that answers `initialize`, whose transport it does not tell, one that looks what
        // there is to offer, and those for the subscriptions of a session.
        let is_own_discovery = call.method == Method::Discover && context.request_id().is_none();
        let is_internal = if is_legacy { is_listen } else { is_own_discovery };
        if is_internal {
            return answer(call).await;
        }
        let kept = if is_legacy { context.take_kept::<ServerOperation>() } else { None };
        let resumed = kept.map(|kept| ServerOperation { running: kept.running.resume(), own: kept.own });
        let mut operation = resumed.unwrap_or_else(|| {
            self.request_bytes.with([], |histogram| histogram.observe(size(call.params.raw().as_bytes())));
            let transport = match (is_own_discovery, is_http) {
                (true, _) => LabelValue::Absent,
                (false, true) => TCP,
                (false, false) => PIPE,
            };
            let place = (OperationSide::Server, context.peer().revision, transport);
            ServerOperation { running: RunningOperation::begin(self, &call, place), own: 0 }
        });
        let begun = Instant::now();
        let measured = async {
            let outcome = answer(call).await;
            (outcome, CALL_CLOCK.try_with(CallClock::waited).unwrap_or_default())
        };
        let clock = CallClock::in_trace(operation.running.span().map(OperationSpan::current));
        let (outcome, waited) = CALL_CLOCK.scope(clock, measured).await;
        operation.own += nanos(begun.elapsed()).saturating_sub(waited);
        match &outcome {
            Outcome::InputRequired(_) if is_legacy => {
                operation.running.wait_for_answers();
                context.keep(operation);
            }
            // A stream of changes waits nearly all the time.
            _ if is_listen => operation.running.finish(&outcome),
            _ => operation.finish(&outcome),
        }
        outcome
    }

    /// Begins the session of an application of an older revision, unless it has begun. It ends with the peer.
    fn follow_session(self: &Arc<Self>, peer: &Peer, is_http: bool) {
        let session = peer.session_value(|| ServerSession {
            metrics: Arc::clone(self),
            revision: peer.revision,
            is_http: AtomicBool::new(false),
            begun: Instant::now(),
        });
        // The call for `initialize`, which is the first one, does not tell.
        if let Some(session) = session.filter(|_| is_http) {
            session.is_http.store(true, Ordering::Relaxed);
        }
    }
}

/// Session of an application, recorded when it is dropped.
#[derive(Debug)]
struct ServerSession {
    metrics: Arc<HostMetrics>,
    revision: Revision,
    is_http: AtomicBool,
    begun: Instant,
}

impl Drop for ServerSession {
    fn drop(&mut self) {
        let elapsed = nanos(self.begun.elapsed());
        let transport = if *self.is_http.get_mut() { TCP } else { PIPE };
        let labels = [LabelValue::Fixed(self.revision.as_str()), transport, LabelValue::Absent];
        self.metrics.server_sessions.with(labels, |histogram| histogram.observe(elapsed));
    }
}

fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
