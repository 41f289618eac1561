//! Owners of the sessions whose requests were forwarded lately, so that a forwarded request needs no trip to the engine.
//!
//! An owner that is remembered too long does no harm: it refuses what it does not own, and the directory is asked.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hospes_fleet::node::NodeRecord;
use hospes_fleet::session::SessionKey;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Time for which an owner is remembered.
const OWNER_LIFETIME: Duration = Duration::from_secs(5);
/// Maximum number of remembered owners.
const MAX_OWNERS: usize = 65_536;

/// Remembered owners. Cheap to clone; all clones are the same cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnerCache(Arc<Mutex<HashMap<SessionKey, (Instant, NodeRecord)>>>);

impl OwnerCache {
    pub(crate) fn get(&self, session: &SessionKey) -> Option<NodeRecord> {
        let owners = self.0.lock();
        let (at, owner) = owners.get(session)?;
        (at.elapsed() < OWNER_LIFETIME).then(|| owner.clone())
    }

    pub(crate) fn insert(&self, session: SessionKey, owner: NodeRecord) {
        let mut owners = self.0.lock();
        if owners.len() >= MAX_OWNERS && !owners.contains_key(&session) {
            owners.retain(|_, (at, _)| at.elapsed() < OWNER_LIFETIME);
            if owners.len() >= MAX_OWNERS {
                return;
            }
        }
        owners.insert(session, (Instant::now(), owner));
    }

    pub(crate) fn remove(&self, session: &SessionKey) {
        self.0.lock().remove(session);
    }
}
