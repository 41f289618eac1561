//! Series of one metric by their labels, bounded in number.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hospes_telemetry::{MetricLabels, MetricPoints};
use parking_lot::Mutex;
use prometheus_client::encoding::{
    EncodeLabel, EncodeLabelSet, EncodeMetric, LabelSetEncoder, MetricEncoder,
};
use prometheus_client::metrics::MetricType;

use super::histogram::{AtomicCounter, SeriesValue};
use super::labels::{LabelValue, NameTable};
use super::otlp_names::otlp_label;

/// Maximum number of series of one metric.
pub(super) const MAX_SERIES: usize = 2000;
/// Series of these that are kept for label sets without a name.
const RESERVED_SERIES: usize = 400;

type SeriesMap<const N: usize, V> = HashMap<[LabelValue; N], Arc<V>>;

/// Series of one metric with `N` labels. An existing series is found without a lock. A new one copies the map, which
/// happens at most [`MAX_SERIES`] times.
#[derive(Debug)]
pub(super) struct SeriesFamily<const N: usize, V> {
    keys: [&'static str; N],
    names: Arc<NameTable>,
    series: ArcSwap<SeriesMap<N, V>>,
    /// Held while a series is added.
    adding: Mutex<()>,
    make: fn() -> V,
    /// Counts observations whose series did not exist and could not be added.
    overflows: Arc<AtomicCounter>,
}

impl<const N: usize, V: SeriesValue> SeriesFamily<N, V> {
    pub(super) fn new(
        keys: [&'static str; N],
        (names, overflows): (&Arc<NameTable>, &Arc<AtomicCounter>),
        make: fn() -> V,
    ) -> Self {
        let (names, overflows) = (Arc::clone(names), Arc::clone(overflows));
        let mut series = SeriesMap::new();
        if N == 0 {
            // The only series there can be is shown before its first observation.
            series.insert([LabelValue::Absent; N], Arc::new(make()));
        }
        let series = ArcSwap::from_pointee(series);
        Self { keys, names, series, adding: Mutex::new(()), make, overflows }
    }

    /// Changes the series with these labels. Allocates nothing if it exists.
    pub(super) fn with(&self, labels: [LabelValue; N], change: impl Fn(&V)) {
        match self.series.load().get(&labels) {
            Some(value) => change(value),
            None => change(&self.add_series(labels)),
        }
    }

    /// Adds a series, or returns the one that takes the place of those for which there is no room.
    fn add_series(&self, labels: [LabelValue; N]) -> Arc<V> {
        let adding = self.adding.lock();
        let series = self.series.load_full();
        let has_room = |labels: &[LabelValue; N]| {
            let has_name = labels.iter().any(|value| matches!(value, LabelValue::Name(_)));
            // The last place is kept for the series whose labels are all `_OTHER`.
            series.len() < if has_name { MAX_SERIES - RESERVED_SERIES } else { MAX_SERIES - 1 }
        };
        let nameless = labels.map(LabelValue::without_name);
        let is_possible = |labels: &[LabelValue; N]| series.contains_key(labels) || has_room(labels);
        let chosen = [labels, nameless].into_iter().find(is_possible).unwrap_or([LabelValue::OTHER; N]);
        if chosen != labels {
            self.overflows.add(1);
        }
        if let Some(value) = series.get(&chosen) {
            return Arc::clone(value);
        }
        let value = Arc::new((self.make)());
        let mut larger = SeriesMap::clone(&series);
        larger.insert(chosen, Arc::clone(&value));
        self.series.store(Arc::new(larger));
        drop(adding);
        value
    }

    /// Replaces all series, for gauges that are read at a scrape.
    pub(super) fn replace(&self, series: impl Iterator<Item = ([LabelValue; N], V)>) {
        let _adding = self.adding.lock();
        let series = series.take(MAX_SERIES).map(|(labels, value)| (labels, Arc::new(value)));
        self.series.store(Arc::new(series.collect()));
    }

    /// Returns the values of all series, with the labels of OTLP.
    pub(super) fn points(&self) -> MetricPoints {
        let labels = |values: &[LabelValue; N]| -> MetricLabels {
            let labels = self.keys.iter().zip(values);
            labels.filter_map(|(key, value)| Some((otlp_label(key), self.names.text(*value)?))).collect()
        };
        let series = self.series.load();
        V::points(series.iter().map(|(values, value)| (labels(values), Arc::clone(value))).collect())
    }

    #[cfg(test)]
    pub(super) fn values(&self) -> Vec<Arc<V>> {
        self.series.load().values().cloned().collect()
    }
}

impl<const N: usize, V: SeriesValue> EncodeMetric for SeriesFamily<N, V> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
        for (values, value) in self.series.load().iter() {
            if N == 0 {
                value.write(&mut encoder)?;
                continue;
            }
            let labels = ShownLabels { keys: &self.keys, values, names: &self.names };
            value.write(&mut encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        V::TYPE
    }

    fn is_empty(&self) -> bool {
        // So that the text names every metric, also those without a series.
        false
    }
}

/// Labels of one series with their texts.
struct ShownLabels<'a> {
    keys: &'a [&'static str],
    values: &'a [LabelValue],
    names: &'a NameTable,
}

impl EncodeLabelSet for ShownLabels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> std::fmt::Result {
        for (key, value) in self.keys.iter().zip(self.values) {
            if let Some(text) = self.names.text(*value) {
                EncodeLabel::encode(&(*key, &*text), encoder.encode_label())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_bounded_and_what_is_beyond_is_counted() {
        let (names, overflows) = (Arc::new(NameTable::default()), Arc::new(AtomicCounter::default()));
        let family = SeriesFamily::new(["a", "b"], (&names, &overflows), AtomicCounter::default);
        let total = || family.values().iter().map(|count| count.value()).sum::<u64>();
        let many: Vec<String> = (0..5000).map(|at| format!("n{at}")).collect();
        names.learn(many.iter().map(String::as_str));
        for name in &many {
            family.with([LabelValue::Fixed("x"), names.value(name)], |count| count.add(1));
        }
        assert_eq!(family.values().len(), MAX_SERIES - RESERVED_SERIES + 1);
        assert_eq!(overflows.value(), 5000 - (MAX_SERIES - RESERVED_SERIES) as u64);
        assert_eq!(total(), 5000, "every observation is in some series");
        let fixed: Vec<&'static str> = many.iter().map(|name| &*name.clone().leak()).collect();
        for text in &fixed {
            family.with([LabelValue::Fixed(text), LabelValue::Absent], |count| count.add(1));
        }
        assert_eq!(family.values().len(), MAX_SERIES);
        assert_eq!(total(), 10_000);
    }

    #[test]
    fn observations_of_many_threads_are_all_there() {
        let (names, overflows) = (Arc::new(NameTable::default()), Arc::new(AtomicCounter::default()));
        let family = SeriesFamily::new(["a"], (&names, &overflows), AtomicCounter::default);
        let many: Vec<String> = (0..100).map(|at| format!("n{at}")).collect();
        names.learn(many.iter().map(String::as_str));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for name in many.iter().cycle().take(1000) {
                        family.with([names.value(name)], |count| count.add(1));
                    }
                });
            }
        });
        assert!(family.values().iter().all(|count| count.value() == 40));
        assert_eq!((family.values().len(), overflows.value()), (100, 0));
    }
}
