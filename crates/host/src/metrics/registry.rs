//! All metrics of a host, and their text.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hospes_telemetry::{MetricData, MetricPoints, MetricSource, SpanTracer};
use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::connection_metrics::SESSION_LABELS;
use super::family::SeriesFamily;
use super::histogram::{
    AtomicCounter, AtomicGauge, AtomicHistogram, BYTES, OPERATIONS, OVERHEAD, SeriesValue, nanos,
};
use super::labels::{LabelValue, NameTable};
use super::operation::OPERATION_LABELS;
use super::otlp_names::otlp_name;
use super::source_collector::SourceCollector;

/// Media type of the text.
pub const METRICS_CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Family that the registry and those who record share.
#[derive(Debug)]
struct SharedFamily<const N: usize, V>(Arc<SeriesFamily<N, V>>);

impl<const N: usize, V: SeriesValue> EncodeMetric for SharedFamily<N, V> {
    fn encode(&self, encoder: MetricEncoder<'_>) -> std::fmt::Result {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.0.metric_type()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Counter that the registry and the families share.
#[derive(Debug)]
struct SharedCounter(Arc<AtomicCounter>);

impl EncodeMetric for SharedCounter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        self.0.write(&mut encoder)
    }

    fn metric_type(&self) -> MetricType {
        AtomicCounter::TYPE
    }
}

/// Name and description of the counter of observations whose series did not exist.
const OVERFLOWS: (&str, &str) = (
    "hospes_metric_overflows",
    "Observations that were added to a series of other labels because a metric had too many",
);

/// Metrics of a host.
#[derive(Debug)]
pub(crate) struct HostMetrics {
    pub(super) names: Arc<NameTable>,
    pub(super) server_operations: Arc<SeriesFamily<9, AtomicHistogram>>,
    pub(super) client_operations: Arc<SeriesFamily<9, AtomicHistogram>>,
    pub(super) server_sessions: Arc<SeriesFamily<3, AtomicHistogram>>,
    pub(super) client_sessions: Arc<SeriesFamily<3, AtomicHistogram>>,
    pub(super) overhead: Arc<SeriesFamily<0, AtomicHistogram>>,
    pub(super) approval_wait: Arc<SeriesFamily<0, AtomicHistogram>>,
    pub(super) request_bytes: Arc<SeriesFamily<0, AtomicHistogram>>,
    pub(super) response_bytes: Arc<SeriesFamily<0, AtomicHistogram>>,
    decisions: Arc<SeriesFamily<2, AtomicCounter>>,
    approvals_open: Arc<SeriesFamily<0, AtomicGauge>>,
    upstream_up: Arc<SeriesFamily<1, AtomicGauge>>,
    /// Held while there is an output, because gauges are set before.
    registry: Mutex<MetricRegistry>,
    /// Metrics of other parts of the program.
    sources: SourceCollector,
    /// Set if spans are exported.
    tracer: OnceLock<SpanTracer>,
}

/// All metrics, for each of the two outputs.
#[derive(Debug, Default)]
struct MetricRegistry {
    text: Registry,
    otlp: Vec<OtlpMetric>,
}

/// One metric with its name in OTLP.
struct OtlpMetric {
    name: String,
    unit: &'static str,
    help: &'static str,
    points: Box<dyn Fn() -> MetricPoints + Send + Sync>,
}

impl MetricRegistry {
    fn add<V: SeriesValue, const N: usize>(
        &mut self,
        name: &'static str,
        help: &'static str,
        family: SeriesFamily<N, V>,
    ) -> Arc<SeriesFamily<N, V>> {
        let family = Arc::new(family);
        self.text.register(name, help, SharedFamily(Arc::clone(&family)));
        let shown = Arc::clone(&family);
        self.add_otlp(name, help, move || shown.points());
        family
    }

    fn add_otlp(
        &mut self,
        name: &'static str,
        help: &'static str,
        points: impl Fn() -> MetricPoints + Send + Sync + 'static,
    ) {
        let (name, unit) = otlp_name(name);
        self.otlp.push(OtlpMetric { name, unit, help, points: Box::new(points) });
    }
}

impl std::fmt::Debug for OtlpMetric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OtlpMetric").field(&self.name).finish()
    }
}

/// Values at the time of a scrape.
#[derive(Debug)]
pub(crate) struct CurrentValues<'a> {
    pub(crate) approvals_open: usize,
    /// Names of servers, and whether they are ready.
    pub(crate) servers: Vec<(&'a str, bool)>,
}

impl Default for HostMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl HostMetrics {
    pub(crate) fn new() -> Self {
        let (names, overflows) = (Arc::new(NameTable::default()), Arc::new(AtomicCounter::default()));
        let shared = (&names, &overflows);
        let (mut registry, sources) = (MetricRegistry::default(), SourceCollector::default());
        registry.text.register(OVERFLOWS.0, OVERFLOWS.1, SharedCounter(Arc::clone(&overflows)));
        let counted = Arc::clone(&overflows);
        registry.add_otlp(OVERFLOWS.0, OVERFLOWS.1, move || {
            MetricPoints::Counters(vec![(Vec::new(), counted.value() as f64)])
        });
        registry.text.register_collector(Box::new(sources.clone()));
        let operations = || AtomicHistogram::new(&OPERATIONS);
        let overhead = || AtomicHistogram::new(&OVERHEAD);
        let bytes = || AtomicHistogram::new(&BYTES);
        let of_server = SeriesFamily::new(OPERATION_LABELS, shared, operations);
        let of_client = SeriesFamily::new(OPERATION_LABELS, shared, operations);
        let sessions = || SeriesFamily::new(SESSION_LABELS, shared, operations);
        Self {
            server_operations: registry.add(
                "mcp_server_operation_duration_seconds",
                "Duration of requests of applications",
                of_server,
            ),
            client_operations: registry.add(
                "mcp_client_operation_duration_seconds",
                "Duration of requests to servers",
                of_client,
            ),
            server_sessions: registry.add(
                "mcp_server_session_duration_seconds",
                "Duration of sessions of applications that have ended",
                sessions(),
            ),
            client_sessions: registry.add(
                "mcp_client_session_duration_seconds",
                "Duration of connections to servers that have ended",
                sessions(),
            ),
            overhead: registry.add(
                "hospes_gateway_overhead_seconds",
                "Time of a request without that of servers, models and people",
                SeriesFamily::new([], shared, overhead),
            ),
            approval_wait: registry.add(
                "hospes_approval_wait_seconds",
                "Time from the start of an approval until it was decided, expired or was withdrawn",
                SeriesFamily::new([], shared, operations),
            ),
            request_bytes: registry.add(
                "hospes_request_bytes",
                "Size of the params of requests of applications",
                SeriesFamily::new([], shared, bytes),
            ),
            response_bytes: registry.add(
                "hospes_response_bytes",
                "Size of results that were passed on as they came",
                SeriesFamily::new([], shared, bytes),
            ),
            // The format adds `_total` to the name of a counter.
            decisions: registry.add(
                "hospes_decisions",
                "Decisions about calls, by their basis",
                SeriesFamily::new(["verdict", "by"], shared, AtomicCounter::default),
            ),
            approvals_open: registry.add(
                "hospes_approvals_open",
                "Approvals that wait for a decision",
                SeriesFamily::new([], shared, AtomicGauge::default),
            ),
            upstream_up: registry.add(
                "hospes_upstream_up",
                "1 if the server can be called, else 0",
                SeriesFamily::new(["server"], shared, AtomicGauge::default),
            ),
            names,
            registry: Mutex::new(registry),
            sources,
            tracer: OnceLock::new(),
        }
    }

    /// Learns names of a catalogue, which labels may have from now on.
    pub(crate) fn learn<'n>(&self, names: impl Iterator<Item = &'n str>) {
        self.names.learn(names);
    }

    /// Counts a decision about a call. Both values are of closed sets.
    pub(crate) fn count_decision(&self, verdict: &'static str, by: &'static str) {
        self.decisions.with([LabelValue::Fixed(verdict), LabelValue::Fixed(by)], |count| count.add(1));
    }

    /// Records the time of an approval that is over.
    pub(crate) fn note_approval(&self, waited: Duration) {
        self.approval_wait.with([], |histogram| histogram.observe(nanos(waited)));
    }

    /// Returns the tracer, if spans are exported.
    pub(super) fn tracer(&self) -> Option<&SpanTracer> {
        self.tracer.get()
    }

    /// Exports spans from now on. Only the first call has an effect.
    pub(crate) fn set_tracer(&self, tracer: SpanTracer) {
        let _ = self.tracer.set(tracer);
    }

    /// Adds metrics of another part of the program to both outputs.
    pub(crate) fn add_source(&self, source: impl MetricSource) {
        self.sources.add(source);
    }

    /// Writes all metrics.
    pub(crate) fn write(&self, current: &CurrentValues<'_>) -> String {
        let registry = self.registry.lock();
        self.set_gauges(current);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_text::encode(&mut text, &registry.text);
        text
    }

    /// Returns all metrics, with the names and labels of OTLP.
    pub(crate) fn data(&self, current: &CurrentValues<'_>) -> Vec<MetricData> {
        let registry = self.registry.lock();
        self.set_gauges(current);
        let of = |metric: &OtlpMetric| {
            MetricData::new(metric.name.clone(), metric.help, metric.unit, (metric.points)())
        };
        let own: Vec<MetricData> = registry.otlp.iter().map(of).collect();
        drop(registry);
        own.into_iter().chain(self.sources.metrics()).collect()
    }

    /// Sets what is known only now. Held by the lock of the registry, so that an output has the values of one moment.
    fn set_gauges(&self, current: &CurrentValues<'_>) {
        let open = u64::try_from(current.approvals_open).unwrap_or(u64::MAX);
        self.approvals_open.with([], |gauge| gauge.set(open));
        self.names.learn(current.servers.iter().map(|(name, _)| *name));
        let up = current.servers.iter().map(|(name, is_up)| {
            let gauge = AtomicGauge::default();
            gauge.set(u64::from(*is_up));
            ([self.names.value(name)], gauge)
        });
        // All anew, because servers may have been removed.
        self.upstream_up.replace(up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_names_labels_and_cumulative_buckets() {
        let metrics = HostMetrics::new();
        metrics.overhead.with([], |histogram| histogram.observe(30_000));
        metrics.overhead.with([], |histogram| histogram.observe(3_000_000_000));
        metrics.count_decision("allow", "rule");
        let text =
            metrics.write(&CurrentValues { approvals_open: 2, servers: vec![("a\"b", true), ("c", false)] });
        for line in [
            "# TYPE hospes_gateway_overhead_seconds histogram",
            "hospes_gateway_overhead_seconds_bucket{le=\"2e-05\"} 0",
            "hospes_gateway_overhead_seconds_bucket{le=\"5e-05\"} 1",
            "hospes_gateway_overhead_seconds_bucket{le=\"1\"} 1",
            "hospes_gateway_overhead_seconds_bucket{le=\"+Inf\"} 2",
            "hospes_gateway_overhead_seconds_count 2",
            "hospes_decisions_total{verdict=\"allow\",by=\"rule\"} 1",
            "hospes_approvals_open 2",
            "hospes_upstream_up{server=\"a\\\"b\"} 1",
            "hospes_upstream_up{server=\"c\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing from\n{text}");
        }
        let text = metrics.write(&CurrentValues { approvals_open: 0, servers: Vec::new() });
        assert!(!text.contains("hospes_upstream_up{"), "servers that are gone have no series: {text}");
    }
}
