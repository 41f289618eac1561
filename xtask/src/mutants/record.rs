//! Results of the runs, explanations of the survivors, and the page that lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::paths;

/// File with the results of an area, kept from one run to the next.
const RECORD_FILE: &str = "record.json";

/// Result of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MutantOutcome {
    Caught,
    Missed,
    Timeout,
    Unviable,
}

impl MutantOutcome {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Missed => "missed",
            Self::Timeout => "timeout",
            Self::Unviable => "unviable",
        }
    }
}

/// Results of an area's mutants, by their full names: caught, missed, timeout or unviable.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MutationRecord(BTreeMap<String, String>);

impl MutationRecord {
    /// Forgets earlier runs of the area.
    pub(crate) fn forget(folder: &Path) -> Result<()> {
        let path = folder.join(RECORD_FILE);
        if path.exists() {
            fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        }
        Ok(())
    }

    /// Adds what became of a mutant, and keeps it for the next run.
    pub(crate) fn add(&mut self, folder: &Path, name: &str, became: MutantOutcome) -> Result<()> {
        self.0.insert(name.to_owned(), became.name().to_owned());
        let path = folder.join(RECORD_FILE);
        fs::write(&path, serde_json::to_string_pretty(&self.0)?)
            .with_context(|| format!("writing {}", path.display()))
    }

    /// Reads the results of the area; `None` before its first run.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(RECORD_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Some(Self(serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?)))
    }

    /// Returns true if a mutant need not be run again, because it was run and did not survive.
    pub(crate) fn settled(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|became| became != MutantOutcome::Missed.name())
    }

    /// Leaves out all but these.
    pub(crate) fn keep_only(&mut self, names: &BTreeSet<String>) {
        self.0.retain(|name, _| names.contains(name));
    }

    /// Returns the number of mutants with a result.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn count(&self, became: MutantOutcome) -> usize {
        self.0.values().filter(|one| *one == became.name()).count()
    }

    /// The survivors, as explanations name them, and how many there are of each.
    fn survivors(&self) -> BTreeMap<String, usize> {
        let mut survivors = BTreeMap::new();
        for (name, _) in self.0.iter().filter(|(_, became)| *became == "missed") {
            *survivors.entry(without_place(name)).or_default() += 1;
        }
        survivors
    }

    /// The survivors that no explanation speaks of.
    pub(crate) fn unexplained(&self, explanations: &SurvivorExplanations) -> Vec<String> {
        let missed = self.0.iter().filter(|(_, became)| *became == "missed").map(|(name, _)| name);
        let survivors = self.survivors();
        let explained = |name: &str| {
            let name = without_place(name);
            explanations.0.get(&name).is_some_and(|one| one.times >= survivors[&name])
        };
        missed.filter(|name| !explained(name)).cloned().collect()
    }
}

/// Returns a mutant's name without line and column, which change with every line inserted above it.
fn without_place(name: &str) -> String {
    let Some((place, what)) = name.split_once(": ") else { return name.to_owned() };
    let file = place.split(':').next().unwrap_or(place);
    format!("{file}: {what}")
}

/// `tools/mutants.toml`: why some mutants may survive, by their names without line and column.
#[derive(Debug, Default)]
pub(crate) struct SurvivorExplanations(BTreeMap<String, SurvivorExplanation>);

#[derive(Debug)]
struct SurvivorExplanation {
    why: String,
    /// Number of mutants of this name that it explains.
    times: usize,
}

impl SurvivorExplanations {
    /// Reads the file.
    pub(crate) fn read() -> Result<Self> {
        let path = paths::root().join("tools/mutants.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let mut explanations = BTreeMap::new();
        for (file, mutants) in &table {
            let mutants = mutants.as_table().with_context(|| format!("[{file:?}] is no table"))?;
            for (what, why) in mutants {
                // `"why"`, or `["why", 2]` when there are two of the same name.
                let (why, times) = match why.as_array().map(Vec::as_slice) {
                    Some([why, times]) => (why.as_str(), times.as_integer()),
                    _ => (why.as_str(), Some(1)),
                };
                let times = times.and_then(|times| usize::try_from(times).ok()).filter(|times| *times > 0);
                let why = why.filter(|why| !why.is_empty());
                let (Some(why), Some(times)) = (why, times) else {
                    anyhow::bail!("{file}: {what}: wants a reason, or a reason and a number");
                };
                explanations
                    .insert(format!("{file}: {what}"), SurvivorExplanation { why: why.to_owned(), times });
            }
        }
        Ok(Self(explanations))
    }

    /// Explanations of what did not survive.
    pub(crate) fn stale(&self, records: &[(&str, usize, MutationRecord)]) -> Vec<String> {
        let mut survivors = BTreeMap::new();
        records.iter().for_each(|(_, _, record)| survivors.extend(record.survivors()));
        let needed = |name: &str, one: &SurvivorExplanation| survivors.get(name) == Some(&one.times);
        let stale = self.0.iter().filter(|(name, one)| !needed(name, one));
        stale.map(|(name, _)| format!("tools/mutants.toml explains what is not so: {name}")).collect()
    }
}

/// The page `docs/mutants.md`, of areas, how many mutants each has, and what became of them.
pub(crate) fn page(records: &[(&str, usize, MutationRecord)], explanations: &SurvivorExplanations) -> String {
    let mut page = "# Mutants\n\n\
        Written by `cargo xtask mutants`; do not edit. A *mutant* is the code with one thing broken on purpose: a\n\
        comparison turned round, a function that returns at once. It is *caught* when a test of the same crate fails,\n\
        *missed* when none does; *timeout* means that the tests did not end (which is noticed too), *unviable* that it\n\
        does not compile and counts as neither. Each one that is missed either stands below with the reason why no\n\
        test can, or need, notice it, or the run fails. Values of limits are left alone. What was not tried since the\n\
        code around it last changed is not counted as tried.\n\n\
        | area | mutants | tried | caught | timeout | missed | of these explained | unviable | share |\n\
        | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    let mut sums = [0; 7];
    for (name, listed, record) in records {
        let [caught, timeout, missed, unviable] =
            [MutantOutcome::Caught, MutantOutcome::Timeout, MutantOutcome::Missed, MutantOutcome::Unviable]
                .map(|became| record.count(became));
        let explained = missed - record.unexplained(explanations).len();
        let row = [*listed, record.len(), caught, timeout, missed, explained, unviable];
        write_row(&mut page, name, row);
        sums.iter_mut().zip(row).for_each(|(sum, one)| *sum += one);
    }
    write_row(&mut page, "total", sums);
    page.push_str("\nThe share is that of caught ones and timeouts among those tried that compile.\n");
    for (name, _, record) in records {
        let survivors = record.survivors().into_keys();
        let explained: Vec<_> =
            survivors.filter_map(|survivor| Some((explanations.0.get(&survivor)?, survivor))).collect();
        if !explained.is_empty() {
            let _ = write!(page, "\n## {name}\n\n");
        }
        for (explanation, survivor) in explained {
            let times = if explanation.times > 1 {
                format!(" ({} of them)", explanation.times)
            } else {
                String::new()
            };
            let (file, what) = survivor.split_once(": ").unwrap_or(("", &survivor));
            let _ = writeln!(page, "- {file}: `{what}`{times}: {}", explanation.why);
        }
    }
    page
}

fn write_row(page: &mut String, name: &str, row: [usize; 7]) {
    let [all, tried, caught, timeout, missed, explained, unviable] = row;
    let (noticed, sound) = (caught + timeout, caught + timeout + missed);
    let share = match noticed * 1000 / sound.max(1) {
        _ if sound == 0 => String::new(),
        tenths => format!("{}.{} %", tenths / 10, tenths % 10),
    };
    let _ = writeln!(
        page,
        "| {name} | {all} | {tried} | {caught} | {timeout} | {missed} | {explained} | {unviable} | {share} |"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(outcomes: &[(&str, MutantOutcome)]) -> MutationRecord {
        MutationRecord(
            outcomes.iter().map(|(name, became)| ((*name).to_owned(), became.name().to_owned())).collect(),
        )
    }

    #[test]
    fn a_survivor_needs_an_explanation_and_an_explanation_a_survivor() {
        let survived =
            [("a.rs:1:2: x in f", MutantOutcome::Missed), ("a.rs:9:2: x in f", MutantOutcome::Missed)];
        let known = record(&survived);
        let read = |text: &str| SurvivorExplanations::parse(text).unwrap();
        assert_eq!(known.unexplained(&read("")).len(), 2);
        assert_eq!(known.unexplained(&read("['a.rs']\n'x in f' = 'one'")).len(), 2);
        let both = read("['a.rs']\n'x in f' = ['both', 2]");
        assert!(known.unexplained(&both).is_empty());
        let records = [("one", 3, known)];
        assert!(both.stale(&records).is_empty());
        assert!(page(&records, &both).contains("| one | 3 | 2 | 0 | 0 | 2 | 2 | 0 | 0.0 % |"));

        let one = record(&[survived[0], ("a.rs:9:2: x in f", MutantOutcome::Caught)]);
        assert!(one.settled("a.rs:9:2: x in f") && !one.settled("a.rs:1:2: x in f"));
        assert_eq!(both.stale(&[("one", 3, one)]).len(), 1);
        assert!(SurvivorExplanations::parse("['a.rs']\n'x in f' = ''").is_err());
    }
}
