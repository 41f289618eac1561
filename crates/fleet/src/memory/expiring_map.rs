//! A map whose entries end at a time.

use std::collections::HashMap;
use std::hash::Hash;

use tokio::time::Instant;

use crate::relay::{EngineFault, RelayError};

/// Maximum number of entries of a map that have not ended.
const MAX_ENTRIES: usize = 262_144;

/// Number of entries below which ended ones are not searched for.
const MIN_PURGED: usize = 64;

/// Map whose entries end at a time. Ended entries are missing to its users, and removed when the map has doubled.
#[derive(Debug)]
pub(super) struct ExpiringMap<K, V> {
    entries: HashMap<K, (V, Instant)>,
    purge_at: usize,
}

impl<K, V> Default for ExpiringMap<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), purge_at: MIN_PURGED }
    }
}

impl<K: Eq + Hash, V> ExpiringMap<K, V> {
    pub(super) fn get_mut(&mut self, key: &K, now: Instant) -> Option<(&mut V, &mut Instant)> {
        let (value, end) = self.entries.get_mut(key)?;
        (*end > now).then_some((value, end))
    }

    /// Adds or replaces an entry.
    ///
    /// # Errors
    /// If the map is full.
    pub(super) fn insert(&mut self, key: K, value: V, end: Instant, now: Instant) -> Result<(), RelayError> {
        if self.entries.len() >= self.purge_at {
            self.entries.retain(|_, (_, end)| *end > now);
            self.purge_at = (self.entries.len() * 2).max(MIN_PURGED);
        }
        if self.entries.len() >= MAX_ENTRIES && !self.entries.contains_key(&key) {
            // Purged less than a doubling ago: only a second look tells whether the map is full.
            self.entries.retain(|_, (_, end)| *end > now);
            if self.entries.len() >= MAX_ENTRIES {
                return Err(RelayError::Unavailable(EngineFault::OutOfMemory));
            }
        }
        self.entries.insert(key, (value, end));
        Ok(())
    }

    pub(super) fn iter(&self, now: Instant) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().filter(move |(_, (_, end))| *end > now).map(|(key, (value, _))| (key, value))
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ended_entries_are_missing_and_removed() {
        let mut map = ExpiringMap::default();
        let start = Instant::now();
        for key in 0..10 * MIN_PURGED {
            let now = start + Duration::from_secs(key as u64);
            map.insert(key, (), now + Duration::from_secs(1), now).unwrap();
            assert!(map.get_mut(&key, now).is_some());
            assert!(map.get_mut(&key, now + Duration::from_secs(1)).is_none());
        }
        assert!(map.entries.len() <= MIN_PURGED + 1, "{}", map.entries.len());
    }
}
