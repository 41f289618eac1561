//! The stored figures of the short part, `tools/guard/expected.json`.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use super::figures::{BenchFigures, RunFigures};
use crate::paths;

/// Figures by the name of their run.
#[derive(Debug)]
pub(crate) struct ExpectedFigures(Map<String, Value>);

/// A figure that is stored.
struct StoredFigure {
    name: &'static str,
    more_is_worse: bool,
    read: fn(&RunFigures) -> u64,
}

const STORED: [StoredFigure; 6] = [
    StoredFigure { name: "attacked", more_is_worse: true, read: |row| row.attacked },
    StoredFigure { name: "asked", more_is_worse: true, read: |row| row.asked },
    StoredFigure { name: "unclear", more_is_worse: true, read: |row| row.unclear },
    StoredFigure { name: "tasks_unasked", more_is_worse: false, read: |row| row.tasks_unasked },
    StoredFigure { name: "effects_unasked", more_is_worse: false, read: |row| row.unasked },
    StoredFigure { name: "utility", more_is_worse: false, read: |row| row.utility },
];

fn path() -> PathBuf {
    paths::root().join("tools/guard/expected.json")
}

impl ExpectedFigures {
    /// Reads the file, if there is one.
    pub(crate) fn read() -> Result<Option<Self>> {
        let path = path();
        match fs::read_to_string(&path) {
            Ok(text) => {
                let figures =
                    serde_json::from_str(&text).with_context(|| format!("in {}", path.display()))?;
                Ok(Some(Self(figures)))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// Writes these figures in place of the stored ones.
    pub(crate) fn store(figures: &BenchFigures) -> Result<()> {
        let figures = figures.rows.iter().map(|(key, row)| {
            let stored = STORED.iter().map(|figure| (figure.name.to_owned(), json!((figure.read)(row))));
            (key.name(), Value::Object(stored.collect()))
        });
        let figures = Value::Object(figures.collect());
        fs::write(path(), format!("{figures:#}\n")).with_context(|| format!("writing {}", path().display()))
    }

    /// Describes each figure that is worse than the stored one. A run that was not played is worse, too.
    pub(crate) fn worse(&self, figures: &BenchFigures) -> Vec<String> {
        let mut worse = Vec::new();
        for (name, stored) in &self.0 {
            let row = figures.rows.iter().find(|(key, _)| key.name() == *name);
            let Some((_, row)) = row else {
                worse.push(format!("{name} has stored figures, but was not played"));
                continue;
            };
            for StoredFigure { name: figure, more_is_worse, read } in STORED {
                let (value, Some(stored)) = (read(row), stored[figure].as_u64()) else { continue };
                if (more_is_worse && value > stored) || (!more_is_worse && value < stored) {
                    worse.push(format!("{name}: `{figure}` is {value}, and was {stored}"));
                }
            }
        }
        worse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_worse_figures_are_reported() {
        let stored = json!({ "balanced.perfect.first": { "attacked": 0, "asked": 3, "effects_unasked": 2 }, "open.absent.first": {} });
        let Value::Object(stored) = stored else { unreachable!() };
        let run = |injection: Value, attacked: bool| {
            json!({
                "suite": "s", "policy": "balanced", "person": "perfect", "state": "first", "injection": injection,
                "attacked": attacked, "asked": 2, "unasked": 1,
            })
        };
        let mut figures = BenchFigures::default();
        figures.add(&[run(Value::Null, false), run(json!("i"), true)]);
        assert_eq!(
            ExpectedFigures(stored).worse(&figures),
            [
                "balanced.perfect.first: `attacked` is 1, and was 0",
                "balanced.perfect.first: `effects_unasked` is 1, and was 2",
                "open.absent.first has stored figures, but was not played",
            ]
        );
    }
}
