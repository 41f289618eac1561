//! Metrics of a node: operations of the shared state, forwarded requests, and the lease.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hospes::transport::http_server::shared_sessions::ForwardResult;
use hospes_fleet::RelayError;
use hospes_fleet::relay::EngineFault;
use hospes_telemetry::{MetricData, MetricLabels, MetricPoints, MetricSource, TimeHistogram};
use tokio::time::Instant;

use crate::membership::Membership;

/// Operations of the shared state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayOperation {
    Join,
    Renew,
    Announce,
    Leave,
    EndSilentLease,
    Nodes,
    SessionsOf,
    Reserve,
    Find,
    Change,
    Entries,
    Adopt,
    HandOver,
    OpenStream,
    Streams,
    Append,
    Read,
    Once,
    Limit,
    Uncount,
    AddLabels,
}

/// Names of the operations, in their order.
const OPERATIONS: [&str; 21] = [
    "join",
    "renew",
    "announce",
    "leave",
    "end_silent_lease",
    "nodes",
    "sessions_of",
    "reserve",
    "find",
    "change",
    "entries",
    "adopt",
    "hand_over",
    "open_stream",
    "streams",
    "append",
    "read",
    "once",
    "limit",
    "uncount",
    "add_labels",
];

/// Classes of errors of the engine.
const FAULTS: [&str; 9] = [
    "not_connected",
    "disconnected",
    "timeout",
    "out_of_memory",
    "read_only",
    "loading",
    "writes_refused",
    "authentication",
    "protocol",
];

/// Results of forwarded requests.
const FORWARDS: [&str; 3] = ["response", "not_processed", "outcome_unknown"];

/// Metrics of a node. Cheap to clone.
#[derive(Clone, Default)]
pub struct NodeMetrics(Arc<NodeCounts>);

#[derive(Default)]
struct NodeCounts {
    operations: [TimeHistogram; OPERATIONS.len()],
    faults: [AtomicU64; FAULTS.len()],
    forwards: [TimeHistogram; FORWARDS.len()],
    fenced: AtomicU64,
    adopted: AtomicU64,
    membership: std::sync::OnceLock<Membership>,
}

impl NodeMetrics {
    /// Shows the lease of this node. Only the first call has an effect.
    pub fn set_membership(&self, membership: Membership) {
        let _ = self.0.membership.set(membership);
    }

    pub(crate) fn note_relay(&self, operation: RelayOperation, time: Duration, error: Option<&RelayError>) {
        let counts = &self.0;
        if let Some(histogram) = counts.operations.get(operation as usize) {
            histogram.observe(time);
        }
        match error {
            None if operation == RelayOperation::Adopt => count(&counts.adopted),
            Some(RelayError::Fenced { .. }) => count(&counts.fenced),
            Some(RelayError::Unavailable(fault)) => {
                if let Some(faults) = counts.faults.get(fault_index(*fault)) {
                    count(faults);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn note_forward(&self, time: Duration, result: &ForwardResult) {
        let position = FORWARDS.iter().position(|name| *name == forward_text(result));
        if let Some(histogram) = position.and_then(|at| self.0.forwards.get(at)) {
            histogram.observe(time);
        }
    }
}

/// Returns the name of a result.
pub(crate) fn forward_text(result: &ForwardResult) -> &'static str {
    match result {
        ForwardResult::Response(_) => "response",
        ForwardResult::OutcomeUnknown => "outcome_unknown",
        _ => "not_processed",
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn fault_index(fault: EngineFault) -> usize {
    match fault {
        EngineFault::NotConnected => 0,
        EngineFault::Disconnected => 1,
        EngineFault::Timeout => 2,
        EngineFault::OutOfMemory => 3,
        EngineFault::ReadOnly => 4,
        EngineFault::Loading => 5,
        EngineFault::WritesRefused => 6,
        EngineFault::Authentication => 7,
        _ => 8,
    }
}

impl MetricSource for NodeMetrics {
    fn metrics(&self) -> Vec<MetricData> {
        let counts = &self.0;
        let label = |pairs: &[(&'static str, &'static str)]| -> MetricLabels {
            pairs.iter().map(|(key, value)| (*key, Arc::from(*value))).collect()
        };
        let times = |names: &[&'static str],
                     of: &[TimeHistogram],
                     labels: &dyn Fn(&'static str) -> MetricLabels| {
            let used = names.iter().zip(of).filter(|(_, histogram)| !histogram.is_empty());
            MetricPoints::Histograms(used.map(|(name, histogram)| (labels(name), histogram.data())).collect())
        };
        let total = |counter: &AtomicU64| {
            MetricPoints::Counters(vec![(Vec::new(), counter.load(Ordering::Relaxed) as f64)])
        };
        let faults = FAULTS.iter().zip(&counts.faults).map(|(name, counter)| {
            (label(&[("engine", "redis"), ("class", name)]), counter.load(Ordering::Relaxed) as f64)
        });
        let valid = counts.membership.get().and_then(Membership::valid_until);
        let lease = valid.map_or(0.0, |end| end.saturating_duration_since(Instant::now()).as_secs_f64());
        let engine = |name| label(&[("engine", "redis"), ("op", name)]);
        vec![
            MetricData::new(
                "hospes.engine",
                "Time of operations of the shared store",
                "s",
                times(&OPERATIONS, &counts.operations, &engine),
            ),
            MetricData::new(
                "hospes.engine_errors",
                "Operations that the shared store has failed",
                "",
                MetricPoints::Counters(faults.collect()),
            ),
            MetricData::new(
                "hospes.forward",
                "Time of requests that were forwarded to the node that owns their session",
                "s",
                times(&FORWARDS, &counts.forwards, &|name| label(&[("result", name)])),
            ),
            MetricData::new(
                "hospes.adoptions",
                "Sessions that this node has taken over",
                "",
                total(&counts.adopted),
            ),
            MetricData::new(
                "hospes.fenced_writes",
                "Changes that were refused because another node owns the session or the lease has ended",
                "",
                total(&counts.fenced),
            ),
            MetricData::new(
                "hospes.lease_remaining",
                "Time for which this node may act as an owner",
                "s",
                MetricPoints::Gauges(vec![(Vec::new(), lease)]),
            ),
        ]
    }
}

impl fmt::Debug for NodeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeMetrics").finish_non_exhaustive()
    }
}
