//! `tools/conformance.toml`: which scenarios are demanded, and what is special about some.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result, ensure};

use crate::paths;

/// Program that is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConformanceSide {
    Server,
    Client,
}

impl ConformanceSide {
    /// Returns the suite's name for the side.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// The file, read.
#[derive(Debug)]
pub(crate) struct RequirementSets {
    server: BTreeMap<String, Vec<String>>,
    client: BTreeMap<String, Vec<String>>,
    server_unscored: BTreeMap<String, Vec<String>>,
    client_unscored: BTreeMap<String, Vec<String>>,
    /// Revision to number of scenarios.
    pub(crate) server_all: BTreeMap<String, usize>,
    pub(crate) previous: PreviousSuite,
    later: Vec<String>,
    gives_up: Vec<String>,
}

/// Scenarios of the previous suite.
#[derive(Debug)]
pub(crate) struct PreviousSuite {
    /// Number of scenarios for a server.
    pub(crate) server: usize,
    /// The scenarios for a client.
    pub(crate) client: Vec<String>,
}

impl RequirementSets {
    /// Reads `tools/conformance.toml`.
    pub(crate) fn read() -> Result<Self> {
        let path = paths::root().join("tools/conformance.toml");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let section = |name: &str| -> Result<BTreeMap<String, Vec<String>>> {
            let section =
                table.get(name).and_then(toml::Value::as_table).with_context(|| format!("no [{name}]"))?;
            let lists = section.iter().map(|(key, value)| {
                let list = value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned));
                Some((key.clone(), list.collect::<Option<_>>()?))
            });
            lists.collect::<Option<_>>().with_context(|| format!("[{name}] wants lists of names"))
        };
        let count = |value: &toml::Value| value.as_integer().and_then(|count| usize::try_from(count).ok());
        let counts = table.get("server_all").and_then(toml::Value::as_table).context("no [server_all]")?;
        let counts = counts.iter().map(|(revision, value)| Some((revision.clone(), count(value)?)));
        let previous = table.get("previous").context("no [previous]")?;
        let names_of = |value: &toml::Value| -> Option<Vec<String>> {
            value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let names = |name: &str| -> Result<Vec<String>> {
            section(name)?.remove("scenarios").with_context(|| format!("[{name}] has no `scenarios`"))
        };
        Ok(Self {
            server: section("server")?,
            client: section("client")?,
            server_unscored: section("server_unscored")?,
            client_unscored: section("client_unscored")?,
            server_all: counts.collect::<Option<_>>().context("[server_all] wants numbers")?,
            previous: PreviousSuite {
                server: previous
                    .get("server")
                    .and_then(count)
                    .context("[previous] wants a number `server`")?,
                client: previous
                    .get("client")
                    .and_then(names_of)
                    .context("[previous] wants a list `client`")?,
            },
            later: names("later")?,
            gives_up: names("gives_up")?,
        })
    }

    fn of(&self, side: ConformanceSide) -> &BTreeMap<String, Vec<String>> {
        match side {
            ConformanceSide::Server => &self.server,
            ConformanceSide::Client => &self.client,
        }
    }

    /// Returns the scenarios required beyond the requirement sets, by revision.
    pub(crate) fn unscored(&self, side: ConformanceSide) -> &BTreeMap<String, Vec<String>> {
        match side {
            ConformanceSide::Server => &self.server_unscored,
            ConformanceSide::Client => &self.client_unscored,
        }
    }

    /// The revisions that have a requirement set, oldest first.
    pub(crate) fn revisions(&self, side: ConformanceSide) -> Vec<String> {
        self.of(side).keys().cloned().collect()
    }

    /// The whole requirement set of a revision.
    pub(crate) fn required(&self, side: ConformanceSide, revision: &str) -> &[String] {
        self.of(side).get(revision).map_or(&[], Vec::as_slice)
    }

    /// The part of it that we must pass today.
    pub(crate) fn due(&self, side: ConformanceSide, revision: &str) -> Vec<String> {
        let due = |name: &&String| side == ConformanceSide::Server || !listed(&self.later, name);
        self.required(side, revision).iter().filter(due).cloned().collect()
    }

    /// Returns true if the client is expected to give up in this scenario, so that its exit code is ignored.
    pub(crate) fn gives_up(&self, scenario: &str) -> bool {
        listed(&self.gives_up, scenario)
    }

    /// Compares the file with what the suite prints for `list --requirements`.
    pub(crate) fn agrees(&self, side: ConformanceSide, revision: &str, listing: &str) -> Result<()> {
        let heading = match side {
            ConformanceSide::Server => "Server scenarios",
            ConformanceSide::Client => "Client scenarios",
        };
        let lines = listing.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
        let names = lines.map_while(|line| line.trim().strip_prefix("- "));
        let (mut theirs, mut ours): (Vec<&str>, Vec<&str>) =
            (names.collect(), self.required(side, revision).iter().map(String::as_str).collect());
        theirs.sort_unstable();
        ours.sort_unstable();
        let side = side.name();
        ensure!(
            theirs == ours,
            "tools/conformance.toml differs from the suite's own {side} set for {revision}"
        );
        Ok(())
    }
}

fn listed(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_have_the_known_sizes() {
        let sets = RequirementSets::read().unwrap();
        let sizes =
            |side| sets.revisions(side).iter().map(|r| sets.required(side, r).len()).collect::<Vec<_>>();
        assert_eq!(sizes(ConformanceSide::Server), [30, 37]);
        assert_eq!(sizes(ConformanceSide::Client), [18, 32]);
        assert_eq!(sets.due(ConformanceSide::Client, "2025-11-25").len(), 18);
        assert_eq!(sets.due(ConformanceSide::Client, "2026-07-28").len(), 32);
        assert!(sets.gives_up("sep-2640-client-verify-size") && !sets.gives_up("initialize"));
    }

    #[test]
    fn a_set_that_changed_is_noticed() {
        let file = "[server]\nr = ['a', 'b']\n[client]\n[server_unscored]\n[client_unscored]\n[server_all]\n\
             [previous]\nserver = 1\nclient = []\n[later]\nscenarios = []\n[gives_up]\nscenarios = []\n";
        let sets = RequirementSets::parse(file).unwrap();
        let listing = "Required:\n\nServer scenarios (test …):\n  - b\n  - a\n\nClient scenarios:\n  - c\n";
        sets.agrees(ConformanceSide::Server, "r", listing).unwrap();
        assert!(sets.agrees(ConformanceSide::Client, "r", listing).is_err());
        assert!(sets.agrees(ConformanceSide::Server, "r", &listing.replace("  - a\n", "")).is_err());
    }
}
