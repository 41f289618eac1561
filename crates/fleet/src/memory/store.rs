//! The shared part of handles in memory: nodes, shards of sessions, and marks.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::expiring_map::ExpiringMap;
use super::memory_session::MemorySession;
use crate::keys::{AttemptId, FlowKey, OnceKey, RateKey, RateLimit, RateVerdict};
use crate::node::{NodeId, NodeLease, NodeRecord, NodeStatus};
use crate::relay::{RelayError, RelayHint};
use crate::session::{NewSession, RECORD_VERSION, RelaySession, SessionKey, SessionOwner, SessionState};
use crate::settings::{MAX_DURATION, RelaySettings};

/// Number of shards of sessions.
const SHARDS: usize = 16;

type SessionShard = ExpiringMap<SessionKey, MemorySession>;

/// State that handles in memory share.
///
/// A shard is locked before the nodes, never after them.
pub struct MemoryStore {
    settings: RelaySettings,
    identity: AtomicU64,
    nodes: Mutex<HashMap<NodeId, MemoryNode>>,
    shards: [Mutex<SessionShard>; SHARDS],
    once: Mutex<ExpiringMap<OnceKey, AttemptId>>,
    /// Theoretical arrival time of the next use.
    rates: Mutex<ExpiringMap<RateKey, Instant>>,
    flows: Mutex<ExpiringMap<FlowKey, BTreeSet<Box<str>>>>,
    hints: broadcast::Sender<RelayHint>,
}

#[derive(Debug)]
struct MemoryNode {
    record: NodeRecord,
    lease_end: Instant,
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new(settings: RelaySettings) -> Arc<Self> {
        let hints = broadcast::Sender::new(settings.limits.hint_queue.max(1));
        Arc::new(Self {
            settings,
            identity: AtomicU64::new(0),
            nodes: Mutex::default(),
            shards: Default::default(),
            once: Mutex::default(),
            rates: Mutex::default(),
            flows: Mutex::default(),
            hints,
        })
    }

    /// Changes the identity of the store, as a failover of an engine does. `lose` also forgets everything.
    ///
    /// Handles then have a recovery window. For tests of several nodes in one process.
    pub fn restart(&self, lose: bool) {
        if lose {
            self.nodes.lock().clear();
            self.shards.iter().for_each(|shard| shard.lock().clear());
            self.once.lock().clear();
            self.rates.lock().clear();
            self.flows.lock().clear();
        }
        self.identity.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn identity(&self) -> String {
        self.identity.load(Ordering::SeqCst).to_string()
    }

    pub(super) fn settings(&self) -> &RelaySettings {
        &self.settings
    }

    pub(super) fn join(&self, record: &NodeRecord, lease: Duration) -> Result<NodeLease, RelayError> {
        let now = Instant::now();
        match self.nodes.lock().entry(record.id) {
            Entry::Occupied(node) if node.get().lease_end <= now => return Err(RelayError::Gone),
            Entry::Occupied(mut node) => {
                node.insert(MemoryNode { record: record.clone(), lease_end: now + lease });
            }
            Entry::Vacant(place) => {
                place.insert(MemoryNode { record: record.clone(), lease_end: now + lease });
            }
        }
        Ok(NodeLease::measured(record.id, now, lease, self.settings.lease_margin))
    }

    pub(super) fn renew(&self, node: NodeId, lease: Duration) -> Result<NodeLease, RelayError> {
        let now = Instant::now();
        let mut nodes = self.nodes.lock();
        let found = nodes.get_mut(&node).filter(|node| node.lease_end > now).ok_or(RelayError::Gone)?;
        found.lease_end = now + lease;
        Ok(NodeLease::measured(node, now, lease, self.settings.lease_margin))
    }

    pub(super) fn announce(&self, node: NodeId, record: &NodeRecord) -> Result<(), RelayError> {
        let now = Instant::now();
        let mut nodes = self.nodes.lock();
        let found = nodes.get_mut(&node).filter(|node| node.lease_end > now).ok_or(RelayError::Gone)?;
        found.record = record.clone();
        Ok(())
    }

    pub(super) fn leave(&self, node: NodeId) {
        if let Some(found) = self.nodes.lock().get_mut(&node) {
            found.lease_end = found.lease_end.min(Instant::now());
        }
    }

    pub(super) fn end_silent_lease(&self, node: NodeId, lease: Duration, silent_for: Duration) -> bool {
        let (now, mut nodes) = (Instant::now(), self.nodes.lock());
        let Some(found) = nodes.get_mut(&node) else { return true };
        if found.lease_end <= now + lease.saturating_sub(silent_for) {
            found.lease_end = found.lease_end.min(now);
        }
        found.lease_end <= now
    }

    pub(super) fn nodes(&self) -> Vec<NodeStatus> {
        let now = Instant::now();
        let mut all: Vec<_> = {
            let nodes = self.nodes.lock();
            nodes.values().map(|node| NodeStatus::new(node.record.clone(), node.lease_end > now)).collect()
        };
        // A dead node without sessions takes up none again, because its id is not used again.
        all.retain(|node| {
            let is_needed = node.alive || !self.sessions_of(node.record.id, 1).is_empty();
            if !is_needed {
                self.nodes.lock().remove(&node.record.id);
            }
            is_needed
        });
        all
    }

    pub(super) fn sessions_of(&self, node: NodeId, max: usize) -> Vec<SessionKey> {
        let now = Instant::now();
        let mut sessions = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let of_node = shard
                .iter(now)
                .filter(|(_, session)| session.owner.node == node && session.state != SessionState::Closed);
            sessions.extend(of_node.map(|(key, _)| *key).take(max - sessions.len()));
        }
        sessions
    }

    fn has_lease(&self, node: NodeId) -> bool {
        let now = Instant::now();
        self.nodes.lock().get(&node).is_some_and(|node| node.lease_end > now)
    }

    fn shard(&self, session: &SessionKey) -> MutexGuard<'_, SessionShard> {
        self.shards[usize::from(session.as_bytes()[0]) % SHARDS].lock()
    }

    pub(super) fn reserve(
        &self,
        session: &SessionKey,
        owner: SessionOwner,
        record: &NewSession,
        lifetime: Duration,
    ) -> Result<(), RelayError> {
        self.settings.limits.check_payload(record.body.len())?;
        let now = Instant::now();
        let mut shard = self.shard(session);
        if let Some((found, _)) = shard.get_mut(session, now) {
            return match found {
                found if found.state == SessionState::Closed => Err(RelayError::Gone),
                found if found.owner == owner => Ok(()),
                found => Err(RelayError::Fenced { now: Some(found.owner) }),
            };
        }
        if !self.has_lease(owner.node) {
            return Err(RelayError::Fenced { now: None });
        }
        let lifetime = lifetime.min(MAX_DURATION);
        let new = MemorySession::new(owner, record, lifetime, &self.settings);
        shard.insert(*session, new, now + lifetime, now)
    }

    pub(super) fn find(&self, session: &SessionKey) -> Option<RelaySession> {
        self.read(session, |found| found.record())
    }

    /// Reads a session, closed ones included.
    pub(super) fn read<T>(&self, session: &SessionKey, read: impl FnOnce(&MemorySession) -> T) -> Option<T> {
        self.shard(session).get_mut(session, Instant::now()).map(|(found, _)| read(found))
    }

    /// Changes a session of this owner and extends its lifetime.
    pub(super) fn with_owned<T>(
        &self,
        session: &SessionKey,
        me: SessionOwner,
        change: impl FnOnce(&mut MemorySession, Instant) -> Result<T, RelayError>,
    ) -> Result<T, RelayError> {
        let now = Instant::now();
        let mut shard = self.shard(session);
        let (found, end) = shard.get_mut(session, now).ok_or(RelayError::Gone)?;
        if found.state == SessionState::Closed {
            return Err(RelayError::Gone);
        }
        if found.owner != me {
            return Err(RelayError::Fenced { now: Some(found.owner) });
        }
        let done = change(found, now)?;
        *end = now + found.lifetime;
        Ok(done)
    }

    pub(super) fn adopt(
        &self,
        session: &SessionKey,
        dead: SessionOwner,
        me: NodeId,
    ) -> Result<RelaySession, RelayError> {
        let now = Instant::now();
        let mut shard = self.shard(session);
        let (found, end) = shard.get_mut(session, now).ok_or(RelayError::Gone)?;
        if found.state == SessionState::Closed {
            return Err(RelayError::Gone);
        }
        if !self.has_lease(me) {
            return Err(RelayError::Fenced { now: None });
        }
        if found.owner != dead.next(me) {
            let is_free = found.owner == dead && !self.has_lease(dead.node);
            if !is_free || found.version > RECORD_VERSION {
                return Err(RelayError::Fenced { now: Some(found.owner) });
            }
            found.owner = dead.next(me);
        }
        *end = now + found.lifetime;
        Ok(found.record())
    }

    pub(super) fn hand_over(
        &self,
        session: &SessionKey,
        me: SessionOwner,
        target: NodeId,
    ) -> Result<SessionOwner, RelayError> {
        let (now, next) = (Instant::now(), me.next(target));
        // Under one lock: between a look and the change, another call might do the same.
        let mut shard = self.shard(session);
        let (found, end) = shard.get_mut(session, now).ok_or(RelayError::Gone)?;
        if found.state == SessionState::Closed {
            return Err(RelayError::Gone);
        }
        if found.owner == next {
            return Ok(next);
        }
        if found.owner != me {
            return Err(RelayError::Fenced { now: Some(found.owner) });
        }
        if !self.has_lease(target) {
            return Err(RelayError::Fenced { now: None });
        }
        found.owner = next;
        *end = now + found.lifetime;
        Ok(next)
    }

    pub(super) fn once(
        &self,
        key: OnceKey,
        attempt: AttemptId,
        lifetime: Duration,
    ) -> Result<bool, RelayError> {
        let now = Instant::now();
        let mut once = self.once.lock();
        if let Some((used_by, _)) = once.get_mut(&key, now) {
            return Ok(*used_by == attempt);
        }
        once.insert(key, attempt, now + lifetime.min(MAX_DURATION), now).map(|()| true)
    }

    pub(super) fn limit(&self, key: RateKey, limit: RateLimit) -> Result<RateVerdict, RelayError> {
        let now = Instant::now();
        let mut rates = self.rates.lock();
        let arrival = rates.get_mut(&key, now).map_or(now, |(arrival, _)| *arrival).max(now);
        let (interval, burst) = limit.times();
        let next = arrival + interval;
        let free_at = next.checked_sub(burst).unwrap_or(now);
        if free_at > now {
            return Ok(RateVerdict::Exceeded { retry_in: free_at - now });
        }
        rates.insert(key, next, next, now).map(|()| RateVerdict::Allowed)
    }

    pub(super) fn uncount(&self, key: RateKey, limit: RateLimit) {
        let (interval, _) = limit.times();
        if let Some((arrival, end)) = self.rates.lock().get_mut(&key, Instant::now())
            && let Some(earlier) = arrival.checked_sub(interval)
        {
            // An entry is as old as its arrival, and one in the past is missing.
            (*arrival, *end) = (earlier, earlier);
        }
    }

    pub(super) fn add_labels(
        &self,
        flow: FlowKey,
        labels: &[&str],
        lifetime: Duration,
    ) -> Result<Vec<Box<str>>, RelayError> {
        let limits = &self.settings.limits;
        limits.check_labels(labels)?;
        let now = Instant::now();
        let mut flows = self.flows.lock();
        let mut all = flows.get_mut(&flow, now).map_or_else(BTreeSet::new, |(all, _)| all.clone());
        all.extend(labels.iter().map(|label| Box::from(*label)));
        if all.len() > limits.max_flow_labels {
            return Err(limits.labels_exceeded());
        }
        let sorted = all.iter().cloned().collect();
        flows.insert(flow, all, now + lifetime.min(MAX_DURATION), now).map(|()| sorted)
    }

    pub(super) fn hint(&self, hint: RelayHint) {
        if hint.topic.len() + hint.detail.len() <= self.settings.limits.max_hint_bytes {
            // Without receivers there is nobody to tell.
            let _ = self.hints.send(hint);
        }
    }

    pub(super) fn hints(&self) -> broadcast::Receiver<RelayHint> {
        self.hints.subscribe()
    }
}
