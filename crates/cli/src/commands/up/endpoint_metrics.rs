//! Metrics of the endpoints: sessions that are open, and calls that run.

use hospes::transport::http_server::{Endpoint, EndpointSet};
use hospes_telemetry::{MetricData, MetricPoints, MetricSource};

/// Endpoints of a host.
#[derive(Debug)]
pub(super) struct EndpointMetrics {
    /// Endpoint of all servers.
    pub(super) main: Endpoint,
    /// Endpoints of single servers and profiles.
    pub(super) others: EndpointSet,
}

impl MetricSource for EndpointMetrics {
    fn metrics(&self) -> Vec<MetricData> {
        let endpoints: Vec<Endpoint> = self.others.all().into_iter().chain([self.main.clone()]).collect();
        let sum = |count: fn(&Endpoint) -> usize| {
            let sum: usize = endpoints.iter().map(count).sum();
            MetricPoints::Gauges(vec![(Vec::new(), sum as f64)])
        };
        vec![
            MetricData::new(
                "hospes.sessions",
                "Open sessions of revisions before 2026-07-28",
                "",
                sum(|endpoint| endpoint.sessions() + endpoint.sse_streams()),
            ),
            MetricData::new(
                "hospes.calls",
                "Requests that run, also while they wait for a person",
                "",
                sum(Endpoint::calls),
            ),
        ]
    }
}
