//! Histograms and counters as atomics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hospes_telemetry::{HistogramData, MetricLabels, MetricPoints};
use prometheus_client::encoding::{MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Nanoseconds in one second.
const SECOND: u64 = 1_000_000_000;

/// Bounds of the buckets of a histogram, and the unit of its values.
#[derive(Debug)]
pub(super) struct HistogramBounds {
    /// Upper bounds, rising.
    bounds: &'static [u64],
    /// Value that is written as 1.
    one: u64,
}

/// Bounds of operations and sessions, as the semantic conventions of OpenTelemetry for MCP have them.
pub(super) static OPERATIONS: HistogramBounds = HistogramBounds {
    bounds: &[
        SECOND / 100,
        SECOND / 50,
        SECOND / 20,
        SECOND / 10,
        SECOND / 5,
        SECOND / 2,
        SECOND,
        2 * SECOND,
        5 * SECOND,
        10 * SECOND,
        30 * SECOND,
        60 * SECOND,
        120 * SECOND,
        300 * SECOND,
    ],
    one: SECOND,
};

/// Bounds of the time that the host itself takes, from 20 µs.
pub(super) static OVERHEAD: HistogramBounds = HistogramBounds {
    bounds: &[
        20_000,
        50_000,
        100_000,
        200_000,
        500_000,
        1_000_000,
        2_000_000,
        5_000_000,
        10_000_000,
        50_000_000,
        100_000_000,
        SECOND,
    ],
    one: SECOND,
};

/// Bounds of sizes, from 256 bytes to 16 MiB.
pub(super) static BYTES: HistogramBounds = HistogramBounds {
    bounds: &[1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24],
    one: 1,
};

/// A histogram whose observation is two additions to atomics. That of `prometheus-client` takes a lock.
#[derive(Debug)]
pub(super) struct AtomicHistogram {
    bounds: &'static HistogramBounds,
    /// One for each bound, and one for values above all of them.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl AtomicHistogram {
    pub(super) fn new(bounds: &'static HistogramBounds) -> Self {
        let counts = (0..=bounds.bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    pub(super) fn observe(&self, value: u64) {
        let bucket = self.bounds.bounds.partition_point(|bound| value > *bound);
        // `Relaxed`: a scrape may see one of the two additions before the other.
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }
}

impl AtomicHistogram {
    /// Returns the values at this moment.
    fn data(&self) -> HistogramData {
        let one = self.bounds.one as f64;
        let bounds = self.bounds.bounds.iter().map(|bound| *bound as f64 / one).collect();
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        HistogramData::new(bounds, counts, self.sum.load(Ordering::Relaxed) as f64 / one)
    }
}

/// Returns a duration in nanoseconds, at most 584 years.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Values of one series, as they are written.
pub(super) trait SeriesValue: std::fmt::Debug + Send + Sync + 'static {
    const TYPE: MetricType;

    fn write(&self, encoder: &mut MetricEncoder<'_>) -> std::fmt::Result;

    /// Returns the values of all series of a metric.
    fn points(series: Vec<(MetricLabels, Arc<Self>)>) -> MetricPoints;
}

/// Returns one number of each series.
fn numbers<V>(series: Vec<(MetricLabels, Arc<V>)>, value: impl Fn(&V) -> u64) -> Vec<(MetricLabels, f64)> {
    series.into_iter().map(|(labels, of)| (labels, value(&of) as f64)).collect()
}

impl SeriesValue for AtomicHistogram {
    const TYPE: MetricType = MetricType::Histogram;

    fn write(&self, encoder: &mut MetricEncoder<'_>) -> std::fmt::Result {
        let one = self.bounds.one as f64;
        let bounds = self.bounds.bounds.iter().map(|bound| *bound as f64 / one).chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        // The sum of what was read, so that the count is that of the last bucket.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = self.sum.load(Ordering::Relaxed) as f64 / one;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn points(series: Vec<(MetricLabels, Arc<Self>)>) -> MetricPoints {
        let series = series.into_iter();
        MetricPoints::Histograms(series.map(|(labels, of)| (labels, of.data())).collect())
    }
}

/// A count that only rises.
#[derive(Debug, Default)]
pub(super) struct AtomicCounter(AtomicU64);

impl AtomicCounter {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl SeriesValue for AtomicCounter {
    const TYPE: MetricType = MetricType::Counter;

    fn write(&self, encoder: &mut MetricEncoder<'_>) -> std::fmt::Result {
        encoder.encode_counter::<NoLabelSet, u64, u64>(&self.value(), None)
    }

    fn points(series: Vec<(MetricLabels, Arc<Self>)>) -> MetricPoints {
        MetricPoints::Counters(numbers(series, Self::value))
    }
}

/// A value at the time of a scrape.
#[derive(Debug, Default)]
pub(super) struct AtomicGauge(AtomicU64);

impl AtomicGauge {
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl SeriesValue for AtomicGauge {
    const TYPE: MetricType = MetricType::Gauge;

    fn write(&self, encoder: &mut MetricEncoder<'_>) -> std::fmt::Result {
        encoder.encode_gauge(&self.0.load(Ordering::Relaxed))
    }

    fn points(series: Vec<(MetricLabels, Arc<Self>)>) -> MetricPoints {
        MetricPoints::Gauges(numbers(series, |gauge| gauge.0.load(Ordering::Relaxed)))
    }
}
