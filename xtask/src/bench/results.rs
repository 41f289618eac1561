//! Results of the yardstick, and ratios taken within a round.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// All samples of some runs.
#[derive(Debug)]
pub(crate) struct BenchResults {
    /// Time and machine of the first run.
    pub(crate) head: Value,
    samples: Vec<BenchSample>,
    /// Number of samples left out because other programs were busy.
    pub(crate) noisy: usize,
}

#[derive(Debug)]
struct BenchSample {
    run: usize,
    row: Value,
}

/// Quantity read from a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleFigure {
    /// Answers a second.
    Rate,
    /// The processor time of the measured program for one call.
    Cpu,
    /// The middle of the answer times.
    P50,
    /// The answer time that one in a hundred exceeds.
    P99,
    /// The fastest start.
    Start,
    /// Memory for each session.
    Session,
}

impl SampleFigure {
    /// Returns true if a higher figure is better.
    pub(crate) fn more_is_better(self) -> bool {
        self == Self::Rate
    }

    fn of(self, row: &Value) -> Option<f64> {
        let number = match self {
            Self::Rate => &row["rps"],
            // Of a client the generator is the base, and its own time is what counts.
            Self::Cpu if row["section"] == "client" && row["peer"] == "load" => {
                return Some(row["load_cpu"].as_f64()? * 1e6 / row["rps"].as_f64()?);
            }
            Self::Cpu if row["section"] == "client" => &row["client_cpu_us_per_request"],
            Self::Cpu => &row["server"]["cpu_us_per_request"],
            Self::P50 => &row["us"]["p50"],
            Self::P99 => &row["us"]["p99"],
            Self::Start => &row["ms"]["min"],
            Self::Session => &row["kib_per_session"],
        };
        number.as_f64().filter(|number| *number > 0.0)
    }
}

impl BenchResults {
    /// Reads result files; samples during which other programs used more than `max_foreign` processors are left out.
    pub(crate) fn read(files: &[PathBuf], max_foreign: f64) -> Result<Self> {
        let mut results = Self { head: Value::Null, samples: Vec::new(), noisy: 0 };
        for (run, file) in files.iter().enumerate() {
            let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
            let mut whole: Value =
                serde_json::from_str(&text).with_context(|| format!("{}", file.display()))?;
            if results.head.is_null() {
                results.head = whole["head"].take();
            }
            let Value::Array(rows) = whole["rows"].take() else { continue };
            for row in rows {
                results.take(run, row, max_foreign);
            }
        }
        Ok(results)
    }

    fn take(&mut self, run: usize, row: Value, max_foreign: f64) {
        // A failed sample says so with words; sessions count refusals under another name.
        if row["failed"].is_string() {
            return;
        }
        if row["foreign_cpu"].as_f64().is_some_and(|foreign| foreign > max_foreign) {
            self.noisy += 1;
            return;
        }
        self.samples.push(BenchSample { run, row });
    }

    fn of<'r>(
        &'r self,
        section: &'r str,
        label: &'r str,
        peer: &'r str,
    ) -> impl Iterator<Item = &'r BenchSample> {
        self.samples.iter().filter(move |sample| {
            sample.row["section"] == section && sample.row["label"] == label && sample.row["peer"] == peer
        })
    }

    /// The middle of a figure.
    pub(crate) fn middle(&self, section: &str, label: &str, peer: &str, figure: SampleFigure) -> Option<f64> {
        median(self.of(section, label, peer).filter_map(|sample| figure.of(&sample.row)).collect())
    }

    /// The middle of the ratios of `peer` to `base`, each taken within a round.
    pub(crate) fn ratio(
        &self,
        section: &str,
        label: &str,
        peer: &str,
        base: &str,
        figure: SampleFigure,
    ) -> Option<f64> {
        self.paired(section, label, peer, base, figure, |ours, theirs| ours / theirs)
    }

    /// Returns the median of the differences between `peer` and `base`, each taken within a round.
    pub(crate) fn added(
        &self,
        section: &str,
        label: &str,
        peer: &str,
        base: &str,
        figure: SampleFigure,
    ) -> Option<f64> {
        self.paired(section, label, peer, base, figure, |ours, theirs| ours - theirs)
    }

    fn paired(
        &self,
        section: &str,
        label: &str,
        peer: &str,
        base: &str,
        figure: SampleFigure,
        compare: impl Fn(f64, f64) -> f64,
    ) -> Option<f64> {
        let pairs = self.of(section, label, peer).filter_map(|sample| {
            let same =
                |other: &&BenchSample| other.run == sample.run && other.row["round"] == sample.row["round"];
            let base = self.of(section, label, base).find(same)?;
            Some(compare(figure.of(&sample.row)?, figure.of(&base.row)?))
        });
        median(pairs.collect())
    }

    /// Returns the number of samples kept.
    pub(crate) fn count(&self) -> usize {
        self.samples.len()
    }

    /// Returns the number of processors that other programs used in the median sample.
    pub(crate) fn foreign(&self) -> Option<f64> {
        // The generator measures it; clients are timed without.
        let known = self.samples.iter().filter_map(|sample| sample.row["foreign_cpu"].as_f64());
        median(known.collect())
    }

    /// Answers that were wrong or missing, of one peer.
    pub(crate) fn errors(&self, peer: &str) -> u64 {
        let of_peer = self.samples.iter().filter(|sample| sample.row["peer"] == peer);
        of_peer.filter_map(|sample| sample.row["errors"].as_u64()).sum()
    }
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        count if count % 2 == 1 => Some(numbers[middle]),
        _ => Some(f64::midpoint(numbers[middle - 1], numbers[middle])),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample(round: u64, peer: &str, rps: f64, foreign: f64) -> Value {
        json!({ "section": "http", "label": "echo c32", "round": round, "peer": peer, "rps": rps, "foreign_cpu": foreign })
    }

    #[test]
    fn ratios_are_taken_within_a_round_and_noisy_samples_left_out() {
        let mut results = BenchResults { head: Value::Null, samples: Vec::new(), noisy: 0 };
        for row in [
            sample(0, "limit", 100.0, 0.0),
            sample(0, "ours", 50.0, 0.1),
            sample(1, "limit", 10.0, 0.0),
            sample(1, "ours", 8.0, 0.2),
            sample(2, "limit", 100.0, 0.9),
            sample(2, "ours", 1.0, 0.0),
            json!({ "section": "http", "label": "echo c32", "round": 3, "peer": "ours", "failed": "did not start" }),
        ] {
            results.take(0, row, 0.5);
        }
        assert_eq!(results.ratio("http", "echo c32", "ours", "limit", SampleFigure::Rate), Some(0.65));
        assert_eq!(results.middle("http", "echo c32", "limit", SampleFigure::Rate), Some(55.0));
        assert_eq!(results.noisy, 1);
        assert_eq!(results.ratio("http", "echo c1", "ours", "limit", SampleFigure::Rate), None);
    }
}
