//! The results of the replay, summed up.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Order of the rows; names that are not listed come last.
const POLICIES: [&str; 9] = [
    "none",
    "as-was",
    "every-effect",
    "cautious",
    "balanced",
    "open",
    "cautious-unlabelled",
    "balanced-unlabelled",
    "open-unlabelled",
];
const PERSONS: [&str; 4] = ["perfect", "careless", "tired", "absent"];

/// The figures of all runs.
#[derive(Debug, Default)]
pub(crate) struct BenchFigures {
    /// Figures of each policy, person and memory, over all suites.
    pub(crate) rows: BTreeMap<RunKey, RunFigures>,
    /// Successful attacks and pairs of each suite.
    pub(crate) suites: BTreeMap<RunKey, BTreeMap<String, (u64, u64)>>,
    /// Times, one line for each host.
    pub(crate) times: Vec<Value>,
}

/// Policy, person and memory of a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunKey {
    order: (usize, usize),
    pub(crate) policy: String,
    pub(crate) person: String,
    pub(crate) state: String,
}

impl RunKey {
    fn new(policy: &str, person: &str, state: &str) -> Self {
        let place = |all: &[&str], name| all.iter().position(|&one| one == name).unwrap_or(all.len());
        Self {
            order: (place(&POLICIES, policy), place(&PERSONS, person)),
            policy: policy.to_owned(),
            person: person.to_owned(),
            state: state.to_owned(),
        }
    }

    /// The key as one word, for `expected.json`.
    pub(crate) fn name(&self) -> String {
        format!("{}.{}.{}", self.policy, self.person, self.state)
    }
}

/// Counts of the runs with one key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RunFigures {
    pub(crate) tasks: u64,
    pub(crate) pairs: u64,
    /// Pairs whose attack succeeded, and those of them whose text was delivered.
    pub(crate) attacked: u64,
    pub(crate) attacked_reached: u64,
    pub(crate) reached: u64,
    /// Questions in benign tasks, and those that remain if consecutive ones are put together.
    pub(crate) asked: u64,
    pub(crate) batched: u64,
    pub(crate) unclear: u64,
    pub(crate) tasks_unasked: u64,
    pub(crate) effects: u64,
    pub(crate) unasked: u64,
    /// Benign tasks that reached their goal, and pairs whose task did.
    pub(crate) utility: u64,
    pub(crate) utility_attacked: u64,
}

impl RunFigures {
    fn add(&mut self, run: &Value) {
        let count = |name: &str| run[name].as_u64().unwrap_or(0);
        let holds = |name: &str| u64::from(run[name] == true);
        self.unclear += count("unclear");
        if run["injection"].is_null() {
            self.tasks += 1;
            self.asked += count("asked");
            self.batched += count("batched");
            self.tasks_unasked += u64::from(count("asked") == 0);
            self.effects += count("effects");
            self.unasked += count("unasked");
            self.utility += holds("utility");
        } else {
            self.pairs += 1;
            self.attacked += holds("attacked");
            self.reached += holds("reached");
            self.attacked_reached += holds("attacked") & holds("reached");
            self.utility_attacked += holds("utility");
        }
    }
}

impl BenchFigures {
    /// Reads the files of a folder.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let mut figures = Self::default();
        let files = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
        let mut files: Vec<_> = files.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "json")) {
            let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
            let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
            let lines = lines.with_context(|| format!("in {}", file.display()))?;
            if file.file_name().is_some_and(|name| name == "times.json") {
                figures.times = lines;
            } else {
                figures.add(&lines);
            }
        }
        ensure!(!figures.rows.is_empty(), "the replay wrote no results into {}", folder.display());
        Ok(figures)
    }

    pub(super) fn add(&mut self, runs: &[Value]) {
        for run in runs {
            let word = |name: &str| run[name].as_str().unwrap_or_default();
            let key = RunKey::new(word("policy"), word("person"), word("state"));
            self.rows.entry(key.clone()).or_default().add(run);
            if !run["injection"].is_null() {
                let suites = self.suites.entry(key).or_default();
                let (attacked, pairs) = suites.entry(word("suite").to_owned()).or_default();
                *attacked += u64::from(run["attacked"] == true);
                *pairs += 1;
            }
        }
    }
}

impl BenchFigures {
    /// The most telling figures in one line.
    pub(crate) fn summary(&self) -> String {
        let row = |(key, figures): (&RunKey, &RunFigures)| {
            format!(
                "{}: {} of {} attacks, {} questions",
                key.name(),
                figures.attacked,
                figures.pairs,
                figures.asked
            )
        };
        self.rows.iter().map(row).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn benign_tasks_and_pairs_are_counted_apart() {
        let run = |injection: Option<&str>, attacked: bool, asked: u64| {
            json!({
                "suite": "banking", "policy": "balanced", "person": "perfect", "state": "first",
                "injection": injection, "attacked": attacked, "reached": true, "utility": true,
                "asked": asked, "batched": asked.min(1), "effects": 2, "unasked": 1, "unclear": 0,
            })
        };
        let mut figures = BenchFigures::default();
        figures.add(&[
            run(None, false, 2),
            run(None, false, 0),
            run(Some("i"), true, 5),
            run(Some("j"), false, 0),
        ]);
        let row = figures.rows.values().next().unwrap();
        assert_eq!(
            (row.tasks, row.asked, row.batched, row.tasks_unasked, row.effects, row.unasked),
            (2, 2, 1, 1, 4, 2)
        );
        assert_eq!((row.pairs, row.attacked, row.attacked_reached, row.utility_attacked), (2, 1, 1, 2));
        assert_eq!(figures.suites.values().next().unwrap()["banking"], (1, 2));
    }
}
