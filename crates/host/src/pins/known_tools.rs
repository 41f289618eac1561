//! Names of the tools of all servers of a host, in the order in which they became known.

use std::collections::{HashMap, HashSet};

use super::lint::NeighbourTools;

/// The tools of one server.
#[derive(Debug)]
struct ServerTools {
    names: Vec<String>,
    /// When a name of them became known: a number of [`KnownTools::last`].
    learned: u64,
}

/// Names of tools by server.
#[derive(Debug, Default)]
pub(super) struct KnownTools {
    servers: HashMap<String, ServerTools>,
    /// Number of times that names became known.
    last: u64,
    /// Up to which number the definitions of the others were compared with the names.
    compared: u64,
}

impl KnownTools {
    /// Returns the number of the names that became known last.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Sets the tools of a server, as it lists them now.
    pub(super) fn set(&mut self, server: &str, names: Vec<String>) {
        let known = self.servers.get(server);
        let is_new = |name: &String| known.is_none_or(|known| !known.names.contains(name));
        let learned = match known {
            Some(known) if !names.iter().any(is_new) => known.learned,
            _ => {
                self.last += 1;
                self.last
            }
        };
        self.servers.insert(server.to_owned(), ServerTools { names, learned });
    }

    /// Adds the tools of a server as they were seen earlier. What was listed since then is newer, and stays.
    pub(super) fn add_earlier(&mut self, server: &str, names: Vec<String>) {
        if !self.servers.contains_key(server) {
            self.set(server, names);
        }
    }

    /// Forgets the tools of servers that are not wanted.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.servers.retain(|server, _| is_wanted(server));
    }

    /// Returns the tools of all servers but one.
    pub(super) fn others(&self, server: &str) -> NeighbourTools {
        let others = self.servers.iter().filter(|(name, _)| *name != server);
        let mut others: Vec<_> = others.map(|(name, tools)| (name.clone(), tools.names.clone())).collect();
        // In a fixed order, since lints name the first one that matches.
        others.sort();
        NeighbourTools(others)
    }

    /// Returns the servers with names that became known after a number, or that were not compared yet.
    pub(super) fn learned_since(&self, number: u64) -> HashSet<String> {
        let from = number.min(self.compared);
        let learned = self.servers.iter().filter(|(_, tools)| tools.learned > from);
        learned.map(|(name, _)| name.clone()).collect()
    }

    /// Records that the definitions of all servers were compared with the names up to a number.
    pub(super) fn set_compared(&mut self, number: u64) {
        self.compared = self.compared.max(number);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn names_are_compared_once_and_again_when_one_is_new() {
        let mut tools = KnownTools::default();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<HashSet<_>>();
        tools.set("a", names(&["one", "two"]));
        tools.add_earlier("b", names(&["three"]));
        tools.add_earlier("a", names(&["old"]));
        assert_eq!(tools.others("b").0, [("a".to_owned(), names(&["one", "two"]))]);
        assert_eq!(tools.learned_since(tools.last()), set(&["a", "b"]));
        tools.set_compared(tools.last());
        assert_eq!(tools.learned_since(tools.last()), set(&[]));
        assert_eq!(tools.learned_since(1), set(&["b"]));
        tools.set("a", names(&["two"]));
        assert_eq!(tools.learned_since(tools.last()), set(&[]));
        tools.set("a", names(&["two", "four"]));
        assert_eq!(tools.learned_since(tools.last()), set(&["a"]));
        tools.retain(|name| name == "b");
        assert_eq!(tools.learned_since(0), set(&["b"]));
    }
}
