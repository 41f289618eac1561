//! Metrics of what a host shares with other nodes.

use std::sync::Arc;

use hospes_store::PostgresMetrics;
use hospes_telemetry::{MetricData, MetricPoints, MetricSource};
use parking_lot::Mutex;

use super::FleetMember;

/// Metrics of the connections to the database of a fleet. Cheap to clone; those that are added later are shown, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatabaseMetrics(Arc<Mutex<Vec<PostgresMetrics>>>);

impl DatabaseMetrics {
    /// Adds the connections of one purpose.
    pub(super) fn add(&self, metrics: Option<PostgresMetrics>) {
        self.0.lock().extend(metrics);
    }
}

impl MetricSource for DatabaseMetrics {
    fn metrics(&self) -> Vec<MetricData> {
        let pools = self.0.lock().clone();
        pools.iter().flat_map(MetricSource::metrics).collect()
    }
}

/// Metrics of the audit entries that a node ships.
#[derive(Clone, Debug)]
pub(crate) struct ShippingMetrics(pub(crate) FleetMember);

impl MetricSource for ShippingMetrics {
    fn metrics(&self) -> Vec<MetricData> {
        let lag = self.0.audit_lag().map(|lag| (Vec::new(), lag.as_secs_f64()));
        let points = MetricPoints::Gauges(lag.into_iter().collect());
        let description = "Time since all audit entries of this node were shipped";
        vec![MetricData::new("hospes.audit_lag", description, "s", points)]
    }
}
