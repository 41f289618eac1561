//! Spans, metrics and log records, and their export by OTLP over HTTP with Protocol Buffers.
//!
//! - [`TelemetryExport`] owns a bounded queue and a thread of each [`TelemetrySignal`]. A record that does not fit is dropped and
//!   counted, so that recording never waits.
//! - [`SpanTracer`] begins [`RecordedSpan`]s. The keys of their attributes are a closed list, [`AttributeKey`], and an
//!   [`AttributeValue`] cannot be made from any text.
//! - Metrics are asked of a [`MetricSource`], so that other outputs can have the same numbers.
//! - The crate opens no connection: the program provides an [`OtlpTransport`].
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `telemetry`, `worker`, `queue` | the export: threads, repetitions, bounded queues |
//! | `transport` | the connection to a collector, as the program provides it |
//! | `span`, `attribute`, `sampler`, `trace_context` | spans |
//! | `metric_data`, `time_histogram`, `log_record` | metrics and log records |
//! | `encode`, `messages` | messages of OTLP |

mod attribute;
mod encode;
mod log_record;
mod messages;
mod metric_data;
mod queue;
mod sampler;
mod span;
mod telemetry;
mod time_histogram;
mod trace_context;
mod transport;
mod worker;

pub use attribute::{AttributeKey, AttributeValue};
pub use log_record::{LogRecord, LogSeverity, LogSink};
pub use metric_data::{HistogramData, MetricData, MetricLabels, MetricPoints, MetricSource};
pub use sampler::TraceSampler;
pub use span::{RecordedSpan, SpanKind, SpanParent, SpanTracer};
pub use telemetry::{TelemetryExport, TelemetrySettings, TransportFactory};
pub use time_histogram::TimeHistogram;
pub use trace_context::TraceContext;
pub use transport::{OtlpTransport, PostError, TelemetrySignal};
pub use worker::is_export_thread;
