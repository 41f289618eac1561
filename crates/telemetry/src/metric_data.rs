//! Metrics at one moment.

use std::borrow::Cow;
use std::sync::Arc;

/// Source of the metrics, which is asked at each export.
pub trait MetricSource: Send + Sync + 'static {
    /// Returns all metrics.
    fn metrics(&self) -> Vec<MetricData>;
}

/// One metric with its series.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MetricData {
    /// Name, such as `mcp.server.operation.duration`.
    pub name: Cow<'static, str>,
    /// Description.
    pub description: &'static str,
    /// Unit in the notation of UCUM, such as `s` or `By`.
    pub unit: &'static str,
    /// Series.
    pub points: MetricPoints,
}

impl MetricData {
    /// Creates a metric.
    #[must_use]
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        description: &'static str,
        unit: &'static str,
        points: MetricPoints,
    ) -> Self {
        Self { name: name.into(), description, unit, points }
    }
}

/// Labels of a series.
pub type MetricLabels = Vec<(&'static str, Arc<str>)>;

/// Series of one metric.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetricPoints {
    /// Totals since the start.
    Counters(Vec<(MetricLabels, f64)>),
    /// Values of this moment.
    Gauges(Vec<(MetricLabels, f64)>),
    /// Histograms since the start.
    Histograms(Vec<(MetricLabels, HistogramData)>),
}

/// One histogram.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct HistogramData {
    /// Upper bounds of the buckets, rising.
    pub bounds: Vec<f64>,
    /// Number of values in each bucket, and of those above all bounds.
    pub counts: Vec<u64>,
    /// Sum of the values.
    pub sum: f64,
}

impl HistogramData {
    /// Creates a histogram. `counts` has one element more than `bounds`.
    #[must_use]
    pub fn new(bounds: Vec<f64>, counts: Vec<u64>, sum: f64) -> Self {
        Self { bounds, counts, sum }
    }
}
