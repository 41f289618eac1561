//! Conversion of records to messages of OTLP.

use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message as _;

use crate::attribute::{AttributeKey, AttributeValue, ValueKind};
use crate::log_record::LogRecord;
use crate::messages::{
    AnyValue, CUMULATIVE, GaugeMessage, HistogramDataPoint, HistogramMessage, InstrumentationScope, KeyValue,
    LogRecordMessage, LogsRequest, MetricMessage, MetricsRequest, NumberDataPoint, ResourceLogs,
    ResourceMessage, ResourceMetrics, ResourceSpans, ScopeLogs, ScopeMetrics, ScopeSpans, SpanEventMessage,
    SpanKindCode, SpanLinkMessage, SpanMessage, SpanStatusMessage, SumMessage, TracesRequest, any_value,
    metric_message, number_data_point,
};
use crate::metric_data::{MetricData, MetricLabels, MetricPoints};
use crate::span::{SpanKind, SpanRecord};

/// Name of the scope of all records.
const SCOPE: &str = "hospes";
/// Unit of times.
const SECONDS: &str = "s";
/// Code of a status: the operation has failed.
const STATUS_ERROR: i32 = 2;
/// Flags of a span: whether its parent is remote is known, and it is.
const PARENT_IS_KNOWN: u32 = 0x100;
const PARENT_IS_REMOTE: u32 = 0x200;

/// Attributes of the resource: names and values.
pub(crate) type ResourceAttributes = Vec<(String, String)>;

/// Encodes spans.
pub(crate) fn encode_spans(resource: &ResourceAttributes, spans: Vec<SpanRecord>) -> Vec<u8> {
    let spans = spans.into_iter().map(span_message).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans }];
    let resource_spans = vec![ResourceSpans { resource: Some(resource_message(resource)), scope_spans }];
    TracesRequest { resource_spans }.encode_to_vec()
}

/// Encodes log records.
pub(crate) fn encode_logs(resource: &ResourceAttributes, records: Vec<LogRecord>) -> Vec<u8> {
    let log_records = records.into_iter().map(log_message).collect();
    let scope_logs = vec![ScopeLogs { scope: Some(scope()), log_records }];
    let resource_logs = vec![ResourceLogs { resource: Some(resource_message(resource)), scope_logs }];
    LogsRequest { resource_logs }.encode_to_vec()
}

/// Encodes metrics, whose counts began at `begun`.
pub(crate) fn encode_metrics(
    resource: &ResourceAttributes,
    metrics: Vec<MetricData>,
    begun: SystemTime,
) -> Vec<u8> {
    let times = (unix_nanos(begun), unix_nanos(SystemTime::now()));
    let metrics = metrics.into_iter().map(|metric| metric_message(metric, times)).collect();
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics }];
    let resource_metrics =
        vec![ResourceMetrics { resource: Some(resource_message(resource)), scope_metrics }];
    MetricsRequest { resource_metrics }.encode_to_vec()
}

fn scope() -> InstrumentationScope {
    InstrumentationScope { name: SCOPE.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn resource_message(attributes: &ResourceAttributes) -> ResourceMessage {
    ResourceMessage {
        attributes: attributes.iter().map(|(key, value)| text_attribute(key, value.clone())).collect(),
    }
}

fn text_attribute(key: &str, value: String) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(text(value)) }
}

fn text(value: String) -> AnyValue {
    AnyValue { value: Some(any_value::AnyValueKind::Text(value)) }
}

fn span_attributes(attributes: Vec<(AttributeKey, AttributeValue)>) -> Vec<KeyValue> {
    let value = |AttributeValue(kind)| match kind {
        ValueKind::Fixed(value) => text(value.to_owned()),
        ValueKind::Known(value) => text(value.as_ref().to_owned()),
        ValueKind::Bounded(value) => text(value.into()),
        ValueKind::Number(value) => AnyValue { value: Some(any_value::AnyValueKind::Number(value)) },
    };
    let attributes = attributes.into_iter();
    attributes.map(|(key, of)| KeyValue { key: key.as_str().to_owned(), value: Some(value(of)) }).collect()
}

fn span_message(span: SpanRecord) -> SpanMessage {
    let has_failed = span.attributes.iter().any(|(key, _)| *key == AttributeKey::ErrorType);
    let kind = match span.kind {
        SpanKind::Server => SpanKindCode::Server,
        SpanKind::Client => SpanKindCode::Client,
        SpanKind::Internal => SpanKindCode::Internal,
    };
    let remote = match span.parent {
        Some((_, true)) => PARENT_IS_KNOWN | PARENT_IS_REMOTE,
        _ => PARENT_IS_KNOWN,
    };
    let events = span.events.into_iter().map(|event| SpanEventMessage {
        time_unix_nano: unix_nanos(event.at),
        name: event.name.to_owned(),
        attributes: span_attributes(event.attributes),
    });
    let links = span.links.into_iter().map(|link| SpanLinkMessage {
        trace_id: link.trace_id.to_be_bytes().to_vec(),
        span_id: link.span_id.to_be_bytes().to_vec(),
        trace_state: link.tracestate().unwrap_or_default().to_owned(),
        flags: u32::from(link.flags()) | PARENT_IS_KNOWN | PARENT_IS_REMOTE,
    });
    SpanMessage {
        trace_id: span.context.trace_id.to_be_bytes().to_vec(),
        span_id: span.context.span_id.to_be_bytes().to_vec(),
        trace_state: span.context.tracestate().unwrap_or_default().to_owned(),
        parent_span_id: span.parent.map(|(id, _)| id.to_be_bytes().to_vec()).unwrap_or_default(),
        name: span.name.into_owned(),
        kind: kind.into(),
        start_time_unix_nano: unix_nanos(span.begun),
        end_time_unix_nano: unix_nanos(span.ended),
        attributes: span_attributes(span.attributes),
        events: events.collect(),
        links: links.collect(),
        status: has_failed.then_some(SpanStatusMessage { code: STATUS_ERROR }),
        flags: u32::from(span.context.flags()) | remote,
    }
}

fn log_message(record: LogRecord) -> LogRecordMessage {
    let mut attributes = vec![text_attribute("code.namespace", record.target.to_owned())];
    attributes.extend(record.attributes.into_iter().map(|(key, value)| text_attribute(key, value)));
    let (trace, at) = (record.trace.as_ref(), unix_nanos(record.at));
    LogRecordMessage {
        time_unix_nano: at,
        observed_time_unix_nano: at,
        severity_number: record.severity.number(),
        severity_text: record.severity.text().to_owned(),
        body: Some(text(record.message)),
        attributes,
        flags: trace.map_or(0, |trace| u32::from(trace.flags())),
        trace_id: trace.map(|trace| trace.trace_id.to_be_bytes().to_vec()).unwrap_or_default(),
        span_id: trace.map(|trace| trace.span_id.to_be_bytes().to_vec()).unwrap_or_default(),
    }
}

fn metric_message(metric: MetricData, times: (u64, u64)) -> MetricMessage {
    let unit = metric.unit;
    let labels = |labels: MetricLabels| {
        let labels = labels.into_iter();
        labels.map(|(key, value)| text_attribute(key, value.as_ref().to_owned())).collect::<Vec<_>>()
    };
    let numbers = |points: Vec<(MetricLabels, f64)>| {
        let points = points.into_iter();
        let point = |(of, value): (MetricLabels, f64)| NumberDataPoint {
            start_time_unix_nano: times.0,
            time_unix_nano: times.1,
            value: Some(number(value, unit)),
            attributes: labels(of),
        };
        points.map(point).collect::<Vec<_>>()
    };
    let data = match metric.points {
        MetricPoints::Counters(points) => metric_message::MetricPointsMessage::Sum(SumMessage {
            data_points: numbers(points),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        MetricPoints::Gauges(points) => {
            metric_message::MetricPointsMessage::Gauge(GaugeMessage { data_points: numbers(points) })
        }
        MetricPoints::Histograms(points) => {
            let points = points.into_iter().map(|(of, histogram)| HistogramDataPoint {
                start_time_unix_nano: times.0,
                time_unix_nano: times.1,
                count: histogram.counts.iter().sum(),
                sum: Some(histogram.sum),
                bucket_counts: histogram.counts,
                explicit_bounds: histogram.bounds,
                attributes: labels(of),
            });
            let (data_points, aggregation_temporality) = (points.collect(), CUMULATIVE);
            metric_message::MetricPointsMessage::Histogram(HistogramMessage {
                data_points,
                aggregation_temporality,
            })
        }
    };
    MetricMessage {
        name: metric.name.into_owned(),
        description: metric.description.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
    }
}

/// Returns the value of a number. Those with a unit have fractions, and counts have none.
fn number(value: f64, unit: &str) -> number_data_point::PointValue {
    if unit == SECONDS {
        number_data_point::PointValue::Double(value)
    } else {
        number_data_point::PointValue::Integer(value as i64)
    }
}

fn unix_nanos(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
