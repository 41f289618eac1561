//! Map with a maximum number of entries.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Map with a maximum number of entries. At the cap, the entry inserted longest ago is evicted, so new entries only
/// displace older ones.
#[derive(Debug)]
pub struct BoundedCache<K, V> {
    most: usize,
    count: u64,
    entries: HashMap<K, (u64, V)>,
    order: BTreeMap<u64, K>,
}

impl<K: Clone + Eq + Hash, V> BoundedCache<K, V> {
    /// Creates an empty map for `most` entries.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, count: 0, entries: HashMap::new(), order: BTreeMap::new() }
    }

    /// Returns the value of this key.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(_, value)| value)
    }

    /// Returns the value of this key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Removes the entry of this key.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        if let Some((count, _)) = self.entries.remove(key) {
            self.order.remove(&count);
        }
    }

    /// Inserts an entry as the newest. Returns the key of the entry that was evicted for it.
    pub fn insert(&mut self, key: K, value: V) -> Option<K> {
        self.count += 1;
        self.order.insert(self.count, key.clone());
        if let Some((before, _)) = self.entries.insert(key, (self.count, value)) {
            // The place of a replaced entry goes with it, or a later eviction there would remove its
            // successor.
            self.order.remove(&before);
        }
        if self.entries.len() <= self.most {
            return None;
        }
        let (_, oldest) = self.order.pop_first()?;
        self.entries.remove(&oldest);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes() {
        let mut map = BoundedCache::new(2);
        map.insert("a", 1);
        map.insert("b", 2);
        map.insert("a", 3);
        assert_eq!(map.insert("c", 4), Some("b"));
        assert_eq!((map.get("a"), map.get("b"), map.get("c")), (Some(&3), None, Some(&4)));
        map.remove("a");
        assert_eq!((map.get("a"), map.order.len(), map.entries.len()), (None, 1, 1));
    }
}
