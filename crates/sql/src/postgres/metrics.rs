//! Metrics of the transactions and connections of a database.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::Pool;
use hospes_telemetry::{MetricData, MetricLabels, MetricPoints, MetricSource, TimeHistogram};

use super::PostgresError;
use crate::clock::DatabaseClock;

/// Transaction as a metric tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionKind {
    Read,
    Change,
}

/// Names of the transactions, in their order.
const TRANSACTIONS: [&str; 2] = ["read", "change"];

/// Classes of failures, also of those after which a transaction was tried again.
const FAULTS: [&str; 4] = ["not_connected", "timeout", "database", "disconnected"];

/// Counts of one pool.
#[derive(Default)]
pub(super) struct TransactionCounts {
    times: [TimeHistogram; TRANSACTIONS.len()],
    faults: [AtomicU64; FAULTS.len()],
}

impl TransactionCounts {
    /// Counts a transaction with the time for all its tries, also one that failed.
    pub(super) fn note(&self, kind: TransactionKind, time: Duration) {
        if let Some(times) = self.times.get(kind as usize) {
            times.observe(time);
        }
    }

    /// Counts a failed try.
    pub(super) fn note_fault(&self, error: &PostgresError) {
        let class = match error {
            PostgresError::Connection(_) => 0,
            PostgresError::NoAnswer => 1,
            PostgresError::Client(error) if error.as_db_error().is_some() => 2,
            PostgresError::Client(_) => 3,
        };
        if let Some(count) = self.faults.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Metrics of the connections of one purpose. Cheap to clone.
#[derive(Clone)]
pub struct PostgresMetrics {
    pub(super) counts: Arc<TransactionCounts>,
    pub(super) pool: Pool,
    pub(super) clock: DatabaseClock,
    /// Value of the label `pool`.
    pub(super) name: &'static str,
}

impl MetricSource for PostgresMetrics {
    fn metrics(&self) -> Vec<MetricData> {
        let labels = |more: &[(&'static str, &'static str)]| -> MetricLabels {
            let all = [("pool", self.name)].into_iter().chain(more.iter().copied());
            all.map(|(key, value)| (key, Arc::from(value))).collect()
        };
        let engine = |key, value| labels(&[("engine", "postgres"), (key, value)]);
        let used = TRANSACTIONS.iter().zip(&self.counts.times).filter(|(_, times)| !times.is_empty());
        let times = used.map(|(name, times)| (engine("op", name), times.data())).collect();
        let faults = FAULTS.iter().zip(&self.counts.faults);
        let faults =
            faults.map(|(name, count)| (engine("class", name), count.load(Ordering::Relaxed) as f64));
        let status = self.pool.status();
        let gauge = |value: f64| MetricPoints::Gauges(vec![(labels(&[]), value)]);
        let in_use = status.size.saturating_sub(status.available);
        vec![
            MetricData::new(
                "hospes.engine",
                "Time of operations of the shared store",
                "s",
                MetricPoints::Histograms(times),
            ),
            MetricData::new(
                "hospes.engine_errors",
                "Operations that the shared store has failed",
                "",
                MetricPoints::Counters(faults.collect()),
            ),
            MetricData::new(
                "hospes.pool_connections",
                "Open connections to the database",
                "",
                gauge(status.size as f64),
            ),
            MetricData::new(
                "hospes.pool_in_use",
                "Connections to the database that run a transaction",
                "",
                gauge(in_use as f64),
            ),
            MetricData::new(
                "hospes.pool_waiting",
                "Transactions that wait for a connection to the database",
                "",
                gauge(status.waiting as f64),
            ),
            MetricData::new(
                "hospes.clock_offset",
                "Time by which the clock of the database is ahead of that of this machine",
                "s",
                gauge(self.clock.offset_micros() as f64 / 1e6),
            ),
        ]
    }
}

impl fmt::Debug for PostgresMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresMetrics").field("name", &self.name).finish_non_exhaustive()
    }
}
