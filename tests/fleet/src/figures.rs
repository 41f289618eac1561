//! Figures of a run: quantiles, ratios with their spread, and tables.

use std::fmt;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// Middle value of several, with the smallest and the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ValueSpread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl ValueSpread {
    /// Returns the spread of values; zeros if there are none.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let Some((least, most)) = sorted.first().zip(sorted.last()) else { return Self::default() };
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Self { median, least: *least, most: *most }
    }

    /// Returns its members as JSON.
    pub(crate) fn to_json(self) -> Value {
        json!({ "median": self.median, "least": self.least, "most": self.most })
    }
}

impl fmt::Display for ValueSpread {
    /// `0.97 (0.95 to 1.01)`, with the precision that is asked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let Self { median, least, most } = self;
        write!(f, "{median:.digits$} ({least:.digits$} to {most:.digits$})")
    }
}

/// Returns the value below which this share of the sorted values are; 0 if there are none.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> u64 {
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Nanoseconds in words.
pub(crate) fn time(nanos: u64) -> String {
    match nanos as f64 {
        nanos if nanos < 1e6 => format!("{:.0} µs", nanos / 1e3),
        nanos if nanos < 1e9 => format!("{:.1} ms", nanos / 1e6),
        nanos => format!("{:.1} s", nanos / 1e9),
    }
}

/// Table for a person; the first row has the titles of the columns.
#[derive(Debug)]
pub(crate) struct FigureTable {
    title: String,
    rows: Vec<Vec<String>>,
}

impl FigureTable {
    /// Creates a table.
    pub(crate) fn new(title: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { title: title.to_owned(), rows: vec![columns] }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Prints it as a line, which `cargo xtask fleet` shows as a table.
    pub(crate) fn print(&self) -> Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", json!({ "table": self.title, "rows": self.rows }))?;
        Ok(out.flush()?)
    }
}

/// Writes the figures of a run, with the machine and the program that they are of.
pub(crate) fn save(file: &Path, program: &Path, mut figures: Value) -> Result<()> {
    figures["program"] = json!(build_of(program));
    figures["processors"] = json!(std::thread::available_parallelism().map_or(0, usize::from));
    figures["load_average"] = json!(load_average());
    let text = serde_json::to_string_pretty(&figures)?;
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

/// `release` or `debug`, as the folder of the program says.
pub(crate) fn build_of(program: &Path) -> String {
    let folder = program.parent().and_then(Path::file_name).unwrap_or_default();
    folder.to_string_lossy().into_owned()
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_have_the_median_of_even_and_odd_numbers() {
        assert_eq!(ValueSpread::of(&[3.0, 1.0, 2.0]), ValueSpread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(format!("{:.1}", ValueSpread::of(&[1.0, 2.0])), "1.5 (1.0 to 2.0)");
        assert_eq!(ValueSpread::of(&[]), ValueSpread::default());
    }

    #[test]
    fn quantiles_stay_within_the_values() {
        let values: Vec<u64> = (0..100).collect();
        assert_eq!((quantile(&values, 0.5), quantile(&values, 0.99), quantile(&values, 1.0)), (50, 99, 99));
        assert_eq!(quantile(&[], 0.5), 0);
        assert_eq!(
            (time(1_500), time(1_500_000), time(2_000_000_000)),
            ("2 µs".into(), "1.5 ms".into(), "2.0 s".into())
        );
    }
}
