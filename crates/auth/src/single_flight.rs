//! Deduplication of equal concurrent requests.
//!
//! Own code, because caches such as `quick_cache` and `moka` keep results, and here nothing outlives the request.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

/// Requests in flight: the first caller of a key runs the request, and callers with the same key wait for its result.
/// If the first caller is dropped, the next one runs it.
pub struct SingleFlight<K, V>(Mutex<HashMap<K, Arc<OnceCell<V>>>>);

impl<K: Clone + Eq + Hash, V: Clone> SingleFlight<K, V> {
    /// Returns the result for this key, either of `ask` or of an earlier caller's request that is still in flight.
    pub async fn run_once<F: Future<Output = V>>(&self, key: K, ask: impl FnOnce() -> F) -> V {
        let question = Arc::clone(self.open().entry(key.clone()).or_default());
        // The guard exists before the await, so that a cancelled caller gives up its part, too.
        let part = SingleFlightGuard { of: self, key, question };
        part.question.get_or_init(ask).await.clone()
    }
}

impl<K, V> SingleFlight<K, V> {
    fn open(&self) -> MutexGuard<'_, HashMap<K, Arc<OnceCell<V>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody's part in a question, which is forgotten with the last of them.
struct SingleFlightGuard<'a, K: Eq + Hash, V> {
    of: &'a SingleFlight<K, V>,
    key: K,
    question: Arc<OnceCell<V>>,
}

impl<K: Eq + Hash, V> Drop for SingleFlightGuard<'_, K, V> {
    fn drop(&mut self) {
        // Locked before counting: parts are only cloned under this lock, so the count cannot grow
        // meanwhile.
        let mut open = self.of.open();
        // Here and in the map.
        let last = Arc::strong_count(&self.question) <= 2;
        // A question with a result leaves the map at once, and a newer one may stand under its key by now.
        let same = open.get(&self.key).is_some_and(|question| Arc::ptr_eq(question, &self.question));
        if same && (last || self.question.initialized()) {
            open.remove(&self.key);
        }
    }
}

impl<K, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K, V> fmt::Debug for SingleFlight<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SingleFlight({} under way)", self.open().len())
    }
}
