//! Equal questions at the same time are asked once.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

/// The questions that are under way: one asks, whoever comes with the same question meanwhile waits for what is said. If
/// the one hangs up, the next asks.
pub(crate) struct Merged<K, V>(Mutex<HashMap<K, Arc<OnceCell<V>>>>);

impl<K: Clone + Eq + Hash, V: Clone> Merged<K, V> {
    /// The answer to the question of this key: that of `ask`, or of somebody else's who has begun before.
    pub(crate) async fn ask<F: Future<Output = V>>(&self, key: K, ask: impl FnOnce() -> F) -> V {
        let question = Arc::clone(self.open().entry(key.clone()).or_default());
        let part = Part { of: self, key, question };
        part.question.get_or_init(ask).await.clone()
    }
}

impl<K, V> Merged<K, V> {
    fn open(&self) -> MutexGuard<'_, HashMap<K, Arc<OnceCell<V>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody's part in a question, which is forgotten with the last of them.
struct Part<'a, K: Eq + Hash, V> {
    of: &'a Merged<K, V>,
    key: K,
    question: Arc<OnceCell<V>>,
}

impl<K: Eq + Hash, V> Drop for Part<'_, K, V> {
    fn drop(&mut self) {
        let mut open = self.of.open();
        // Here and in the map.
        let last = Arc::strong_count(&self.question) <= 2;
        let same = open.get(&self.key).is_some_and(|question| Arc::ptr_eq(question, &self.question));
        if same && (last || self.question.initialized()) {
            open.remove(&self.key);
        }
    }
}

impl<K, V> Default for Merged<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K, V> fmt::Debug for Merged<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Merged({} under way)", self.open().len())
    }
}
