//! The ledger: the rows of `docs/requirements.md`, and which of them are not due yet.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, bail, ensure};

use crate::paths;

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement {
    /// Its permanent name, `LIFE-03`.
    pub(crate) id: String,
    /// Whom it binds: server, client, host, AS, both, proxy.
    pub(crate) binds: String,
    /// MUST, SHOULD or MAY; in lower case where the text has no capitalised keyword.
    pub(crate) strength: String,
}

impl Requirement {
    /// The letters before the number.
    pub(crate) fn area(&self) -> &str {
        self.id.rsplit_once('-').map_or(self.id.as_str(), |(area, _)| area)
    }
}

/// All rows in the order of the document, and its areas.
#[derive(Debug, Default)]
pub(crate) struct RequirementLedger {
    pub(crate) rows: Vec<Requirement>,
    /// Area and subject, in the order of the document.
    pub(crate) areas: Vec<(String, String)>,
}

impl RequirementLedger {
    /// Reads `docs/requirements.md`.
    pub(crate) fn read() -> Result<Self> {
        let path = paths::root().join("docs/requirements.md");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut ledger = Self::default();
        let mut announced: BTreeMap<String, usize> = BTreeMap::new();
        for line in text.lines() {
            if let Some((area, subject)) = line.strip_prefix("## ").and_then(|title| title.split_once(" - "))
            {
                ledger.areas.push((area.to_owned(), subject.to_owned()));
            }
            let Some(cells) = cells(line) else { continue };
            match cells[..] {
                [id, binds, strength, _revisions, _seed, ..] if is_id(id) => {
                    let [id, binds, strength] = [id, binds, strength].map(str::to_owned);
                    ledger.rows.push(Requirement { id, binds, strength });
                }
                // The table of areas near the top: `| ARCH | 12 | … |`.
                [area, count, _, _] if count.parse::<usize>().is_ok() && area != "total" => {
                    announced.insert(area.to_owned(), count.parse()?);
                }
                _ => {}
            }
        }
        ledger.check(&announced)?;
        Ok(ledger)
    }

    /// A slip in the document would otherwise silently drop rows.
    fn check(&self, announced: &BTreeMap<String, usize>) -> Result<()> {
        let mut seen = BTreeSet::new();
        let mut counted: BTreeMap<String, usize> = BTreeMap::new();
        for row in &self.rows {
            ensure!(seen.insert(&row.id), "{} stands twice in the ledger", row.id);
            ensure!(
                matches!(row.strength.to_uppercase().as_str(), "MUST" | "SHOULD" | "MAY"),
                "{}: `{}` is no strength",
                row.id,
                row.strength
            );
            *counted.entry(row.area().to_owned()).or_default() += 1;
        }
        if &counted != announced {
            bail!("the ledger's table of areas says {announced:?}, its rows are {counted:?}");
        }
        Ok(())
    }

    /// The ids, for looking up a citation.
    pub(crate) fn ids(&self) -> BTreeSet<&str> {
        self.rows.iter().map(|row| row.id.as_str()).collect()
    }
}

/// Rows for which nothing is built yet, from `tools/ledger.toml`.
#[derive(Debug, Default)]
pub(crate) struct DeferredRows {
    areas: Vec<String>,
    binds: Vec<String>,
}

impl DeferredRows {
    /// Reads `tools/ledger.toml`.
    pub(crate) fn read(ledger: &RequirementLedger) -> Result<Self> {
        let table = settings()?;
        let words = |key: &str| -> Result<Vec<String>> {
            let list = table
                .get(key)
                .and_then(toml::Value::as_array)
                .with_context(|| format!("`{key}` is no list"))?;
            Ok(list.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect())
        };
        let later = Self { areas: words("areas")?, binds: words("binds")? };
        for area in &later.areas {
            ensure!(ledger.areas.iter().any(|(known, _)| known == area), "tools/ledger.toml: no area {area}");
        }
        Ok(later)
    }

    /// Returns true if the row is deferred.
    pub(crate) fn includes(&self, row: &Requirement) -> bool {
        self.areas.iter().any(|area| area == row.area()) || self.binds.contains(&row.binds)
    }
}

/// Rows for which no test can exist, with the reason: the section `[reasons]` of `tools/ledger.toml`.
#[derive(Debug, Default)]
pub(crate) struct UntestableReasons(pub(crate) BTreeMap<String, String>);

impl UntestableReasons {
    /// Reads `tools/ledger.toml`.
    pub(crate) fn read(ledger: &RequirementLedger) -> Result<Self> {
        Self::from_table(&settings()?, ledger)
    }

    fn from_table(table: &toml::Table, ledger: &RequirementLedger) -> Result<Self> {
        let Some(section) = table.get("reasons") else { return Ok(Self::default()) };
        let section = section.as_table().context("tools/ledger.toml: `reasons` is no section")?;
        let known = ledger.ids();
        let mut reasons = BTreeMap::new();
        for (id, why) in section {
            ensure!(known.contains(id.as_str()), "tools/ledger.toml: {id} is not in docs/requirements.md");
            let why = why.as_str().map(str::trim).unwrap_or_default();
            let one_line = !why.is_empty() && !why.contains('\n');
            ensure!(one_line, "tools/ledger.toml: the reason for {id} has to be one line of text");
            reasons.insert(id.clone(), why.to_owned());
        }
        Ok(Self(reasons))
    }
}

/// `tools/ledger.toml`.
fn settings() -> Result<toml::Table> {
    let path = paths::root().join("tools/ledger.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    text.parse().with_context(|| format!("in {}", path.display()))
}

/// Returns true if a word has the form of an id: capitals and digits, a dash, digits.
pub(crate) fn is_id(word: &str) -> bool {
    let Some((area, number)) = word.split_once('-') else { return false };
    let capitals = area.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    area.starts_with(|c: char| c.is_ascii_uppercase())
        && capitals
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit())
}

/// The cells of a Markdown table row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "| LIFE | 2 | 1 | Lifecycle |\n## LIFE - Lifecycle (old)\n";

    fn parse(rows: &str) -> Result<RequirementLedger> {
        RequirementLedger::parse(&format!("{HEAD}{rows}"))
    }

    #[test]
    fn rows_are_read() {
        let ledger = parse(
            "| LIFE-01 | both | MUST | 24-11 | - | A. |\n| LIFE-02 | AS | may | 26-07 | 1 | B \\| c. |\n",
        );
        let ledger = ledger.unwrap();
        assert_eq!(ledger.ids().into_iter().collect::<Vec<_>>(), ["LIFE-01", "LIFE-02"]);
        assert_eq!(ledger.areas, [("LIFE".to_owned(), "Lifecycle (old)".to_owned())]);
        assert_eq!(ledger.rows[1].area(), "LIFE");
        let later = DeferredRows { areas: vec![], binds: vec!["AS".to_owned()] };
        assert!(later.includes(&ledger.rows[1]) && !later.includes(&ledger.rows[0]));
    }

    #[test]
    fn slips_in_the_document_are_found() {
        let row = "| LIFE-01 | both | MUST | 24-11 | - | A. |\n";
        assert!(parse(row).unwrap_err().to_string().contains("table of areas"));
        assert!(parse(&format!("{row}{row}")).unwrap_err().to_string().contains("twice"));
        let odd = "| LIFE-02 | both | MIGHT | 24-11 | - | A. |\n";
        assert!(parse(&format!("{row}{odd}")).unwrap_err().to_string().contains("MIGHT"));
    }

    #[test]
    fn the_ledger_in_the_repository_is_whole() {
        let ledger = RequirementLedger::read().unwrap();
        assert_eq!(ledger.rows.len(), 837);
        DeferredRows::read(&ledger).unwrap();
        UntestableReasons::read(&ledger).unwrap();
    }

    #[test]
    fn a_reason_is_one_line_for_a_row_that_exists() {
        let ledger = RequirementLedger::parse(
            "| LIFE | 1 | 1 | Lifecycle |\n## LIFE - Lifecycle\n| LIFE-01 | both | MUST | 24-11 | - | A. |\n",
        );
        let ledger = ledger.unwrap();
        let reasons = |text: &str| UntestableReasons::from_table(&text.parse().unwrap(), &ledger);
        assert!(reasons("areas = []").unwrap().0.is_empty());
        let one = reasons("[reasons]\nLIFE-01 = \" it binds people \"").unwrap();
        assert_eq!(one.0["LIFE-01"], "it binds people");
        let wrong = |text: &str| reasons(text).unwrap_err().to_string();
        assert!(wrong("[reasons]\nLIFE-02 = \"x\"").contains("LIFE-02 is not in"));
        assert!(wrong("[reasons]\nLIFE-01 = \"\"").contains("one line"));
        assert!(wrong("[reasons]\nLIFE-01 = 1").contains("one line"));
        assert!(wrong("[reasons]\nLIFE-01 = \"a\\nb\"").contains("one line"));
        assert!(wrong("reasons = []").contains("no section"));
    }

    #[test]
    fn ids_have_one_form() {
        for good in ["LIFE-03", "AUT3-1", "HTTP-43"] {
            assert!(is_id(good), "{good}");
        }
        for bad in ["LIFE", "LIFE-", "life-03", "LIFE-3a", "-3", "2026-07", "A-B-1"] {
            assert!(!is_id(bad), "{bad}");
        }
    }
}
