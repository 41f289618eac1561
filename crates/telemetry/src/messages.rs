//! Messages of OTLP 1.x, as far as they are sent.
//!
//! The crate `opentelemetry-proto` has them too, but needs the whole SDK for them.

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "any_value::AnyValueKind", tags = "1, 3")]
    pub(crate) value: Option<any_value::AnyValueKind>,
}

pub(crate) mod any_value {
    use super::Oneof;

    #[derive(Clone, PartialEq, Oneof)]
    pub(crate) enum AnyValueKind {
        #[prost(string, tag = "1")]
        Text(String),
        #[prost(int64, tag = "3")]
        Number(i64),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct InstrumentationScope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceMessage {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TracesRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<ResourceMessage>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(crate) trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(enumeration = "SpanKindCode", tag = "6")]
    pub(crate) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(crate) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<SpanEventMessage>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) links: Vec<SpanLinkMessage>,
    #[prost(message, optional, tag = "15")]
    pub(crate) status: Option<SpanStatusMessage>,
    #[prost(fixed32, tag = "16")]
    pub(crate) flags: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum SpanKindCode {
    Unspecified = 0,
    Internal = 1,
    Server = 2,
    Client = 3,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SpanEventMessage {
    #[prost(fixed64, tag = "1")]
    pub(crate) time_unix_nano: u64,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SpanLinkMessage {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(crate) trace_state: String,
    #[prost(fixed32, tag = "6")]
    pub(crate) flags: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SpanStatusMessage {
    /// 2 for an error.
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetricsRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<ResourceMessage>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) metrics: Vec<MetricMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetricMessage {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) description: String,
    #[prost(string, tag = "3")]
    pub(crate) unit: String,
    #[prost(oneof = "metric_message::MetricPointsMessage", tags = "5, 7, 9")]
    pub(crate) data: Option<metric_message::MetricPointsMessage>,
}

pub(crate) mod metric_message {
    use super::{GaugeMessage, HistogramMessage, Oneof, SumMessage};

    #[derive(Clone, PartialEq, Oneof)]
    pub(crate) enum MetricPointsMessage {
        #[prost(message, tag = "5")]
        Gauge(GaugeMessage),
        #[prost(message, tag = "7")]
        Sum(SumMessage),
        #[prost(message, tag = "9")]
        Histogram(HistogramMessage),
    }
}

/// Value of `aggregation_temporality` for totals since the start.
pub(crate) const CUMULATIVE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GaugeMessage {
    #[prost(message, repeated, tag = "1")]
    pub(crate) data_points: Vec<NumberDataPoint>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SumMessage {
    #[prost(message, repeated, tag = "1")]
    pub(crate) data_points: Vec<NumberDataPoint>,
    #[prost(int32, tag = "2")]
    pub(crate) aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    pub(crate) is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NumberDataPoint {
    #[prost(fixed64, tag = "2")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) time_unix_nano: u64,
    #[prost(oneof = "number_data_point::PointValue", tags = "4, 6")]
    pub(crate) value: Option<number_data_point::PointValue>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) attributes: Vec<KeyValue>,
}

pub(crate) mod number_data_point {
    use super::Oneof;

    #[derive(Clone, Copy, PartialEq, Oneof)]
    pub(crate) enum PointValue {
        #[prost(double, tag = "4")]
        Double(f64),
        #[prost(sfixed64, tag = "6")]
        Integer(i64),
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HistogramMessage {
    #[prost(message, repeated, tag = "1")]
    pub(crate) data_points: Vec<HistogramDataPoint>,
    #[prost(int32, tag = "2")]
    pub(crate) aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HistogramDataPoint {
    #[prost(fixed64, tag = "2")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    pub(crate) count: u64,
    #[prost(double, optional, tag = "5")]
    pub(crate) sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    pub(crate) bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    pub(crate) explicit_bounds: Vec<f64>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LogsRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<ResourceMessage>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_logs: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) log_records: Vec<LogRecordMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LogRecordMessage {
    #[prost(fixed64, tag = "1")]
    pub(crate) time_unix_nano: u64,
    #[prost(int32, tag = "2")]
    pub(crate) severity_number: i32,
    #[prost(string, tag = "3")]
    pub(crate) severity_text: String,
    #[prost(message, optional, tag = "5")]
    pub(crate) body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(fixed32, tag = "8")]
    pub(crate) flags: u32,
    #[prost(bytes = "vec", tag = "9")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    pub(crate) span_id: Vec<u8>,
    #[prost(fixed64, tag = "11")]
    pub(crate) observed_time_unix_nano: u64,
}

/// Response to a request of any signal.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialSuccess {
    /// Number of records that the collector has refused.
    #[prost(int64, tag = "1")]
    pub(crate) rejected: i64,
}
