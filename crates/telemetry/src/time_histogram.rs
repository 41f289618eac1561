//! Histogram of times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::metric_data::HistogramData;

/// Upper bounds of the buckets, in seconds.
const BOUNDS: [f64; 12] = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// Times of operations of an engine, from 100 µs to 5 s.
#[derive(Debug, Default)]
pub struct TimeHistogram {
    counts: [AtomicU64; BOUNDS.len() + 1],
    /// In nanoseconds.
    sum: AtomicU64,
}

impl TimeHistogram {
    /// Adds a time.
    pub fn observe(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = BOUNDS.partition_point(|bound| seconds > *bound);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the values of this moment, in seconds.
    #[must_use]
    pub fn data(&self) -> HistogramData {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        HistogramData::new(BOUNDS.to_vec(), counts, self.sum.load(Ordering::Relaxed) as f64 / 1e9)
    }

    /// Returns true without a time.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }
}
