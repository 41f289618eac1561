//! The spellings and rules of `tools/destinations`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result, bail, ensure};
use toml::{Table, Value};

use crate::paths;

/// Kind of destination of a spelling, a rule or a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DestinationKind {
    Hosts,
    Paths,
    Both,
}

impl DestinationKind {
    pub(super) fn is_for(self, other: Self) -> bool {
        self == Self::Both || other == Self::Both || self == other
    }
}

/// One text.
#[derive(Clone, Debug)]
pub(super) struct DestinationSpelling {
    pub(super) text: String,
    pub(super) trick: String,
    pub(super) kind: DestinationKind,
    /// It is what people ordinarily send, and leads to nothing that is denied.
    pub(super) is_honest: bool,
    /// `docs/threats.md` says that it is not covered.
    pub(super) is_known: bool,
}

/// A rule, and the places that it is about.
#[derive(Clone, Debug)]
pub(super) struct DestinationRule {
    pub(super) server: String,
    pub(super) is_denial: bool,
    pub(super) condition: String,
    pub(super) places: Vec<String>,
    pub(super) kind: DestinationKind,
}

impl DestinationRule {
    /// Formats the rule for a policy. A denial is followed by a permission, so that calls it does not stop are made.
    pub(super) fn written(&self) -> String {
        let Self { server, is_denial, condition, .. } = self;
        let decide = if *is_denial { "deny" } else { "allow" };
        let rest = if *is_denial {
            format!("[[rule]]\ndecide = \"allow\"\nserver = \"{server}\"\n")
        } else {
            String::new()
        };
        format!("[[rule]]\ndecide = \"{decide}\"\nserver = \"{server}\"\n{condition}\n{rest}")
    }

    /// Returns true if the rule must prevent access to the place.
    pub(super) fn forbids(&self, place: &str) -> bool {
        let is_its_own = self.places.iter().any(|own| match own.strip_prefix('*') {
            Some(end) => place.ends_with(end),
            None => own == place,
        });
        is_its_own == self.is_denial
    }
}

fn file(name: &str) -> Result<Table> {
    let path = paths::root().join("tools/destinations").join(name);
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    text.parse().with_context(|| format!("in {}", path.display()))
}

fn texts<'a>(table: &'a Table, key: &str) -> Result<Vec<&'a str>> {
    let list = table.get(key).and_then(Value::as_array).with_context(|| format!("no list `{key}`"))?;
    list.iter().map(|text| text.as_str().with_context(|| format!("`{key}` wants strings"))).collect()
}

fn kind(table: &Table) -> Result<DestinationKind> {
    match table.get("kind").and_then(Value::as_str) {
        None => Ok(DestinationKind::Both),
        Some("hosts") => Ok(DestinationKind::Hosts),
        Some("paths") => Ok(DestinationKind::Paths),
        Some(other) => bail!("`{other}` is no kind; there are hosts and paths"),
    }
}

fn groups<'a>(table: &'a Table, key: &str) -> Result<Vec<&'a Table>> {
    let groups = table.get(key).and_then(Value::as_array).with_context(|| format!("no [[{key}]]"))?;
    Ok(groups.iter().filter_map(Value::as_table).collect())
}

/// All spellings, each text once, with the words of this run in them.
pub(super) fn read(words: &BTreeMap<&str, String>) -> Result<Vec<DestinationSpelling>> {
    let table = file("spellings.toml")?;
    let mut all: Vec<DestinationSpelling> = Vec::new();
    for (key, is_honest) in [("trick", false), ("honest", true)] {
        for group in groups(&table, key)? {
            let trick = group.get("name").and_then(Value::as_str).context("a group without a name")?;
            let is_known = group.get("known").is_some();
            for text in texts(group, "texts")? {
                for text in filled(text, group, words).with_context(|| format!("{trick}: {text}"))? {
                    if all.iter().all(|one| one.text != text) {
                        all.push(DestinationSpelling {
                            text,
                            trick: trick.to_owned(),
                            kind: kind(group)?,
                            is_honest,
                            is_known,
                        });
                    }
                }
            }
        }
    }
    Ok(all)
}

/// The rules.
pub(super) fn rules(words: &BTreeMap<&str, String>) -> Result<Vec<DestinationRule>> {
    let table = file("rules.toml")?;
    let rules = groups(&table, "rule")?.into_iter().enumerate().map(|(at, rule)| {
        let text = |key: &str| {
            rule.get(key).and_then(Value::as_str).with_context(|| format!("a rule without `{key}`"))
        };
        let mut condition = filled(text("condition")?, rule, words)?;
        Ok(DestinationRule {
            server: format!("r{at}"),
            is_denial: text("decide")? == "deny",
            condition: condition.pop().context("no condition")?,
            places: texts(rule, "places")?.into_iter().map(str::to_owned).collect(),
            kind: kind(rule)?,
        })
    });
    rules.collect()
}

/// Returns the text with each `«NAME»` replaced by a word of the run, or by each text of the group's list of that name.
fn filled(text: &str, group: &Table, words: &BTreeMap<&str, String>) -> Result<Vec<String>> {
    let Some((before, rest)) = text.split_once('«') else { return Ok(vec![text.to_owned()]) };
    let (name, after) = rest.split_once('»').context("« without »")?;
    let values = match words.get(name) {
        Some(word) => vec![word.as_str()],
        None => texts(group, name)?,
    };
    ensure!(!values.is_empty(), "the list `{name}` is empty");
    let mut all = Vec::new();
    for value in values {
        // What a list has is filled, too, and the same name means the same text everywhere.
        let once = format!("{before}{value}{}", after.replace(&format!("«{name}»"), value));
        all.extend(filled(&once, group, words)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_combined_and_one_name_is_one_text() {
        let group: Table = "a = ['1', '2']\nb = ['«P»', 'y']".parse().unwrap();
        let words = BTreeMap::from([("P", "80".to_owned())]);
        let all = filled("«a»-«b»-«a»", &group, &words).unwrap();
        assert_eq!(all, ["1-80-1", "1-y-1", "2-80-2", "2-y-2"]);
        assert!(filled("«c»", &group, &words).is_err());
    }

    #[test]
    fn a_denial_is_about_its_places_and_a_permission_about_all_others() {
        let mut rule = DestinationRule {
            server: "r0".to_owned(),
            is_denial: true,
            condition: String::new(),
            places: vec!["*.example".to_owned()],
            kind: DestinationKind::Hosts,
        };
        assert!(rule.forbids("evil.example") && !rule.forbids("127.0.0.1:P"));
        rule.is_denial = false;
        assert!(!rule.forbids("evil.example") && rule.forbids("127.0.0.1:P"));
    }

    #[test]
    fn the_files_can_be_read_and_have_enough_in_them() {
        let words = ["P", "Q", "home", "up", "pid", "rest", "base"].map(|name| (name, format!("/{name}")));
        let words = BTreeMap::from(words);
        let all = read(&words).unwrap();
        assert!(all.iter().filter(|one| !one.is_honest).count() >= super::super::MIN_SPELLINGS);
        assert!(all.iter().any(|one| one.is_honest));
        assert!(rules(&words).unwrap().iter().any(|rule| rule.is_denial));
    }
}
