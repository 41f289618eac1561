//! Answers of a registry, with their age.

use std::time::Duration;

use crate::entry::ServerEntry;
use crate::error::RegistryError;

/// An answer, with its age.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RegistryAnswer<T> {
    /// The answer itself.
    pub value: T,
    /// Its source.
    pub source: AnswerSource,
    /// Time since the registry said so.
    pub age: Duration,
    /// Reason that the registry was not reached, if an older answer stands in.
    pub offline: Option<RegistryError>,
}

/// Source of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerSource {
    /// The registry has just answered.
    Server,
    /// The cache.
    Cache,
}

/// Results of a search: the newest version of each server.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SearchResults {
    /// The entries, best first.
    pub entries: Vec<ServerEntry>,
    /// Number of all entries that fit.
    pub total: usize,
}

/// Extent to which the list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefreshMode {
    /// The changes since the last reading. The first time, and after a week, it is everything.
    Changes,
    /// Everything.
    Everything,
}

/// Result of reading the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefreshReport {
    /// Number of servers in the cache.
    pub servers: usize,
    /// Number of entries that were stored.
    pub stored: usize,
    /// Number of servers that are gone.
    pub removed: usize,
    /// Number of entries that could not be read.
    pub skipped: usize,
    /// Number of pages.
    pub pages: usize,
    /// Is true if the list was read completely.
    pub everything: bool,
}
