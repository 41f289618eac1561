//! Table of the servers, which changes while the host runs.

use std::ops::Index;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::catalogue::names::ServerPrefixes;
use crate::upstream::UpstreamEntry;

/// Servers by position. A server is added at the end, and a removed one keeps its place: calls and catalogues refer to
/// servers by position, so a position means the same server for as long as the host runs.
#[derive(Debug)]
pub(crate) struct ServerTable {
    entries: boxcar::Vec<UpstreamEntry>,
    prefixes: RwLock<Arc<ServerPrefixes>>,
}

impl ServerTable {
    /// Creates a table with the prefixes of its servers.
    pub(crate) fn new(entries: Vec<UpstreamEntry>, prefixes: ServerPrefixes) -> Self {
        Self { entries: entries.into_iter().collect(), prefixes: RwLock::new(Arc::new(prefixes)) }
    }

    /// Returns the prefixes of the current servers.
    pub(crate) fn prefixes(&self) -> Arc<ServerPrefixes> {
        Arc::clone(&self.prefixes.read())
    }

    /// Replaces the prefixes. To be called before a server that is new in them is added, and after one that they lack
    /// is removed.
    pub(crate) fn set_prefixes(&self, prefixes: ServerPrefixes) {
        *self.prefixes.write() = Arc::new(prefixes);
    }

    /// Adds a server. Returns its position.
    pub(crate) fn push(&self, entry: UpstreamEntry) -> usize {
        self.entries.push(entry)
    }

    /// Iterates over all servers with their positions, including removed ones.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &UpstreamEntry)> {
        self.entries.iter()
    }

    /// Iterates over the servers that are not removed, with their positions.
    pub(crate) fn current(&self) -> impl Iterator<Item = (usize, &UpstreamEntry)> {
        self.iter().filter(|(_, entry)| !entry.is_removed())
    }

    /// Returns the server at a position.
    pub(crate) fn get(&self, position: usize) -> Option<&UpstreamEntry> {
        self.entries.get(position)
    }

    /// Returns the position of the current server of this name that runs for everybody.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.position_where(name, |position| self[position].server.profile.is_none())
    }

    /// Returns the position of the current server of this name that fits. There are several of a name if profiles have
    /// secrets of their own.
    pub(crate) fn position_where(&self, name: &str, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let mut named = self.current().filter(|(_, entry)| *entry.server.name == *name);
        named.find(|(position, _)| fits(*position)).map(|(position, _)| position)
    }

    /// Returns the position of the current server with this label, as the status names it.
    pub(crate) fn labelled(&self, label: &str) -> Option<usize> {
        let is_labelled = |(_, entry): &(usize, &UpstreamEntry)| {
            entry.server.profile.is_some() && entry.server.label() == label
        };
        self.position(label).or_else(|| self.current().find(is_labelled).map(|(position, _)| position))
    }
}

impl Index<usize> for ServerTable {
    type Output = UpstreamEntry;

    /// Returns the server at a position that the table has given out.
    fn index(&self, position: usize) -> &UpstreamEntry {
        &self.entries[position]
    }
}
