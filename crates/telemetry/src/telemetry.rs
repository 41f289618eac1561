//! Export of all signals.

use std::convert::Infallible;
use std::fmt;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, RwLock};

use crate::encode::{ResourceAttributes, encode_logs, encode_metrics, encode_spans};
use crate::log_record::{LogRecord, LogSink};
use crate::metric_data::{MetricData, MetricPoints, MetricSource};
use crate::queue::RecordQueue;
use crate::sampler::TraceSampler;
use crate::span::{SpanRecord, SpanTracer};
use crate::transport::{OtlpTransport, TelemetrySignal};
use crate::worker::{CollectorState, SignalSender, mark_thread};

/// Interval at which spans and log records are sent.
const BATCH_INTERVAL: Duration = Duration::from_secs(2);
/// Attribute of the resource that tells the instances of a service apart.
const INSTANCE_ID: &str = "service.instance.id";

/// Settings of the export.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TelemetrySettings {
    /// Signals that are exported.
    pub signals: Vec<TelemetrySignal>,
    /// Choice of traces.
    pub sampler: TraceSampler,
    /// Attributes of the resource, such as `service.name`.
    pub resource: Vec<(String, String)>,
    /// Interval of metrics.
    pub metric_interval: Duration,
}

impl TelemetrySettings {
    /// Creates settings for all signals, a twentieth of all traces, and metrics each minute.
    #[must_use]
    pub fn new(resource: Vec<(String, String)>) -> Self {
        let (signals, sampler) = (TelemetrySignal::ALL.to_vec(), TraceSampler::ratio(0.05));
        Self { signals, sampler, resource, metric_interval: Duration::from_secs(60) }
    }
}

/// Factory of the connections to the collector, one for each signal.
pub type TransportFactory<'f> = &'f dyn Fn() -> std::io::Result<Box<dyn OtlpTransport>>;

/// A running export. Cheap to clone.
#[derive(Clone)]
pub struct TelemetryExport(Arc<TelemetryInner>);

struct TelemetryInner {
    signals: Vec<TelemetrySignal>,
    spans: Arc<RecordQueue<SpanRecord>>,
    logs: Arc<RecordQueue<LogRecord>>,
    /// Has no records: its thread asks the source.
    metrics: Arc<RecordQueue<()>>,
    tracer: SpanTracer,
    resource: Arc<RwLock<ResourceAttributes>>,
    source: Arc<OnceLock<Box<dyn MetricSource>>>,
    collector: Arc<CollectorState>,
    /// Disconnected once all threads have ended.
    running: Mutex<Receiver<Infallible>>,
}

impl TelemetryExport {
    /// Starts a thread for each signal.
    ///
    /// # Errors
    /// If a connection or a thread cannot be made.
    pub fn start(settings: TelemetrySettings, connect: TransportFactory<'_>) -> std::io::Result<Self> {
        let (spans, logs) = (Arc::<RecordQueue<_>>::default(), Arc::<RecordQueue<_>>::default());
        let metrics = Arc::<RecordQueue<()>>::default();
        let (running, ended) = mpsc::channel();
        let TelemetrySettings { signals, sampler, resource, metric_interval } = settings;
        let inner = TelemetryInner {
            tracer: SpanTracer::new(sampler, Arc::clone(&spans)),
            signals,
            spans,
            logs,
            metrics,
            resource: Arc::new(RwLock::new(resource)),
            source: Arc::default(),
            collector: Arc::default(),
            running: Mutex::new(ended),
        };
        let this = Self(Arc::new(inner));
        for signal in &this.0.signals {
            let collector = Arc::clone(&this.0.collector);
            let sender = SignalSender::new(*signal, connect()?, collector, running.clone());
            let thread = std::thread::Builder::new().name(format!("otlp-{}", signal.as_str()));
            let resource = Arc::clone(&this.0.resource);
            // Detached: its sender says when it has ended.
            let _thread = match signal {
                TelemetrySignal::Traces => {
                    let queue = Arc::clone(&this.0.spans);
                    let encode = move |spans| encode_spans(&resource.read(), spans);
                    thread.spawn(move || sender.run(&queue, BATCH_INTERVAL, encode))
                }
                TelemetrySignal::Logs => {
                    let queue = Arc::clone(&this.0.logs);
                    let encode = move |records| encode_logs(&resource.read(), records);
                    thread.spawn(move || sender.run(&queue, BATCH_INTERVAL, encode))
                }
                TelemetrySignal::Metrics => {
                    let (queue, source) = (Arc::clone(&this.0.metrics), Arc::clone(&this.0.source));
                    thread.spawn(move || {
                        export_metrics(sender, &queue, &source, (&resource, metric_interval));
                    })
                }
            }?;
        }
        Ok(this)
    }

    /// Returns the tracer, if spans are exported.
    #[must_use]
    pub fn tracer(&self) -> Option<SpanTracer> {
        self.0.signals.contains(&TelemetrySignal::Traces).then(|| self.0.tracer.clone())
    }

    /// Returns where log records go, if they are exported.
    #[must_use]
    pub fn log_sink(&self) -> Option<LogSink> {
        self.0.signals.contains(&TelemetrySignal::Logs).then(|| LogSink(Arc::clone(&self.0.logs)))
    }

    /// Sets the source of metrics. Only the first call has an effect.
    pub fn set_metric_source(&self, source: impl MetricSource) {
        let _ = self.0.source.set(Box::new(source));
    }

    /// Sets the id that tells this instance of the service from others.
    pub fn set_instance_id(&self, id: &str) {
        let mut resource = self.0.resource.write();
        match resource.iter_mut().find(|(key, _)| key == INSTANCE_ID) {
            Some((_, known)) if known == id => {}
            Some((_, known)) => id.clone_into(known),
            None => resource.push((INSTANCE_ID.to_owned(), id.to_owned())),
        }
    }

    /// Returns the metrics of the export itself, by signal: records that were sent, that were dropped, and that wait.
    #[must_use]
    pub fn own_metrics(&self) -> Vec<MetricData> {
        let counts = [
            ("traces", self.0.spans.counts()),
            ("logs", self.0.logs.counts()),
            ("metrics", self.0.metrics.counts()),
        ];
        let is_on = |name: &str| self.0.signals.iter().any(|signal| signal.as_str() == name);
        let points = |value: fn((u64, u64, usize)) -> f64| {
            let counts = counts.iter().filter(|(name, _)| is_on(name));
            counts.map(|(name, of)| (vec![("signal", Arc::from(*name))], value(*of))).collect::<Vec<_>>()
        };
        vec![
            MetricData::new(
                "hospes.telemetry.sent",
                "Records that a collector has taken; for metrics, the number of exports",
                "",
                MetricPoints::Counters(points(|(sent, ..)| sent as f64)),
            ),
            MetricData::new(
                "hospes.telemetry.dropped",
                "Records that no collector has taken; for metrics, the number of exports",
                "",
                MetricPoints::Counters(points(|(_, dropped, _)| dropped as f64)),
            ),
            MetricData::new(
                "hospes.telemetry.queued",
                "Records that wait to be sent",
                "",
                MetricPoints::Gauges(points(|(.., queued)| queued as f64)),
            ),
        ]
    }

    /// Sends what there is and ends. Blocks for at most `limit`.
    pub fn shut_down(&self, limit: Duration) {
        // Requests end before the wait does, so that their threads can still report what was lost.
        self.0.collector.end_by(Instant::now() + limit * 9 / 10);
        self.0.spans.end();
        self.0.logs.end();
        self.0.metrics.end();
        // A thread whose request began before is left behind.
        let _ = self.0.running.lock().recv_timeout(limit);
    }
}

impl fmt::Debug for TelemetryExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("signals", &self.0.signals).finish_non_exhaustive()
    }
}

/// Sends the metrics of the source at each interval, and at the end. A failed export is not repeated, because the next
/// one has its numbers.
fn export_metrics(
    mut sender: SignalSender,
    queue: &RecordQueue<()>,
    source: &OnceLock<Box<dyn MetricSource>>,
    (resource, interval): (&RwLock<ResourceAttributes>, Duration),
) {
    mark_thread();
    let begun = SystemTime::now();
    loop {
        let is_ending = queue.pause(interval);
        if let Some(source) = source.get() {
            let metrics = source.metrics();
            let body = encode_metrics(&resource.read(), metrics, begun);
            match sender.send(body) {
                Ok(_) => queue.add_sent(1),
                Err(_) => queue.add_dropped(1),
            }
        }
        if is_ending {
            return;
        }
    }
}
