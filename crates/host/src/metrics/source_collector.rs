//! Metrics of other parts of the program, which are asked at each output.

use std::sync::Arc;

use hospes_telemetry::{MetricData, MetricLabels, MetricPoints, MetricSource};
use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

use super::otlp_names::prometheus_name;

/// Sources of metrics besides the host.
#[derive(Clone, Default)]
pub(super) struct SourceCollector(Arc<RwLock<Vec<Box<dyn MetricSource>>>>);

impl SourceCollector {
    pub(super) fn add(&self, source: impl MetricSource) {
        self.0.write().push(Box::new(source));
    }

    /// Returns the metrics of all sources. Series that several sources have under one name are of one metric.
    pub(super) fn metrics(&self) -> Vec<MetricData> {
        let mut all: Vec<MetricData> = Vec::new();
        for metric in self.0.read().iter().flat_map(|source| source.metrics()) {
            match all.iter_mut().find(|known| known.name == metric.name) {
                Some(known) => append_points(&mut known.points, metric.points),
                None => all.push(metric),
            }
        }
        all
    }
}

impl std::fmt::Debug for SourceCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceCollector").field("sources", &self.0.read().len()).finish()
    }
}

impl Collector for SourceCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        for metric in self.metrics() {
            let kind = match &metric.points {
                MetricPoints::Counters(_) => MetricType::Counter,
                MetricPoints::Histograms(_) => MetricType::Histogram,
                _ => MetricType::Gauge,
            };
            let name = prometheus_name(&metric.name, metric.unit);
            let described = encoder.encode_descriptor(&name, metric.description, None, kind)?;
            encode_points(described, metric.points)?;
        }
        Ok(())
    }
}

fn append_points(points: &mut MetricPoints, more: MetricPoints) {
    match (points, more) {
        (MetricPoints::Counters(points), MetricPoints::Counters(more))
        | (MetricPoints::Gauges(points), MetricPoints::Gauges(more)) => points.extend(more),
        (MetricPoints::Histograms(points), MetricPoints::Histograms(more)) => points.extend(more),
        // One name has one kind.
        _ => (),
    }
}

fn encode_points(mut encoder: MetricEncoder<'_>, points: MetricPoints) -> std::fmt::Result {
    match points {
        MetricPoints::Counters(points) => points.into_iter().try_for_each(|(labels, value)| {
            encoder.encode_family(&SourceLabels(labels))?.encode_counter::<NoLabelSet, f64, f64>(&value, None)
        }),
        MetricPoints::Gauges(points) => points.into_iter().try_for_each(|(labels, value)| {
            encoder.encode_family(&SourceLabels(labels))?.encode_gauge(&value)
        }),
        MetricPoints::Histograms(points) => points.into_iter().try_for_each(|(labels, histogram)| {
            let bounds = histogram.bounds.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts.iter().copied()).collect();
            let count = histogram.counts.iter().sum();
            let labels = SourceLabels(labels);
            let mut encoder = encoder.encode_family(&labels)?;
            encoder.encode_histogram::<NoLabelSet>(histogram.sum, count, &buckets, None)
        }),
        _ => Ok(()),
    }
}

#[derive(Debug)]
struct SourceLabels(MetricLabels);

impl EncodeLabelSet for SourceLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> std::fmt::Result {
        self.0
            .iter()
            .try_for_each(|(key, value)| EncodeLabel::encode(&(*key, &**value), encoder.encode_label()))
    }
}
