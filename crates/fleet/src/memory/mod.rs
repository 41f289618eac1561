//! The engine in the memory of one process.
//!
//! Sessions lie in shards, each behind a mutex that is held for one operation. Time is that of tokio, so tests run on a
//! virtual clock. Expired entries are treated as missing, and removed when a map has doubled.

mod expiring_map;
mod memory_session;
mod store;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::ready;
use tokio::sync::broadcast;

use crate::keys::{AttemptId, FlowKey, OnceKey, RateKey, RateLimit, RateVerdict};
use crate::node::{NodeId, NodeLease, NodeRecord, NodeStatus};
use crate::own_nodes::OwnNodes;
use crate::recovery::RecoveryWindow;
use crate::relay::{Relay, RelayError, RelayFuture, RelayHealth, RelayHint};
use crate::session::{NewSession, RelaySession, SessionChange, SessionEntry, SessionKey, SessionOwner};
use crate::stream::{
    AppendResult, EventPage, EventPosition, NewEvent, NewStream, StreamNumber, StreamSummary,
};

pub use store::MemoryStore;

/// Relay in the memory of this process. Handles on one [`MemoryStore`] act as nodes of one fleet.
pub struct MemoryRelay {
    store: Arc<MemoryStore>,
    lease: Duration,
    window: RecoveryWindow,
    own_nodes: OwnNodes,
}

impl MemoryRelay {
    /// Creates a handle on a store.
    #[must_use]
    pub fn new(store: Arc<MemoryStore>) -> Self {
        // No lease can be older than the store, so its first identity needs no recovery window.
        let window = RecoveryWindow::new(Duration::ZERO);
        window.observe(&store.identity(), Duration::ZERO);
        let window = window.with_duration(store.settings().recovery_window);
        Self { lease: store.settings().lease, store, window, own_nodes: OwnNodes::default() }
    }

    /// Sets the duration of the leases that this handle takes.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Fails while the store may have lost what is missing.
    fn check_recovered(&self) -> Result<(), RelayError> {
        self.window.observe(&self.store.identity(), Duration::ZERO);
        self.window.check()
    }

    fn adopt_now(
        &self,
        session: &SessionKey,
        dead: SessionOwner,
        me: NodeId,
    ) -> Result<RelaySession, RelayError> {
        if !self.own_nodes.contains(dead.node) {
            self.check_recovered()?;
        }
        self.store.adopt(session, dead, me)
    }
}

impl fmt::Debug for MemoryRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRelay").finish_non_exhaustive()
    }
}

/// Runs the operation when it is polled, as with other engines.
fn operation<'a, T: Send + 'a>(
    run: impl FnOnce() -> Result<T, RelayError> + Send + 'a,
) -> RelayFuture<'a, T> {
    ready(()).map(move |()| run()).boxed()
}

impl Relay for MemoryRelay {
    fn join<'a>(&'a self, node: &'a NodeRecord) -> RelayFuture<'a, NodeLease> {
        operation(move || {
            self.own_nodes.check_new(node.id)?;
            let lease = self.store.join(node, self.lease)?;
            self.own_nodes.add(node.id);
            Ok(lease)
        })
    }

    fn renew<'a>(&'a self, lease: &'a NodeLease) -> RelayFuture<'a, NodeLease> {
        operation(move || self.own_nodes.note_end(lease.node, self.store.renew(lease.node, self.lease)))
    }

    fn announce<'a>(&'a self, lease: &'a NodeLease, record: &'a NodeRecord) -> RelayFuture<'a, ()> {
        operation(move || self.own_nodes.note_end(lease.node, self.store.announce(lease.node, record)))
    }

    fn leave<'a>(&'a self, lease: &'a NodeLease) -> RelayFuture<'a, ()> {
        operation(move || {
            self.store.leave(lease.node);
            Ok(())
        })
    }

    fn end_silent_lease<'a>(&'a self, node: &'a NodeId, silent_for: Duration) -> RelayFuture<'a, bool> {
        operation(move || Ok(self.store.end_silent_lease(*node, self.lease, silent_for)))
    }

    fn nodes(&self) -> RelayFuture<'_, Vec<NodeStatus>> {
        operation(move || Ok(self.store.nodes()))
    }

    fn sessions_of<'a>(&'a self, node: &'a NodeId, max: usize) -> RelayFuture<'a, Vec<SessionKey>> {
        operation(move || Ok(self.store.sessions_of(*node, max)))
    }

    fn reserve<'a>(
        &'a self,
        session: &'a SessionKey,
        owner: &'a SessionOwner,
        record: &'a NewSession,
        lifetime: Duration,
    ) -> RelayFuture<'a, ()> {
        operation(move || self.store.reserve(session, *owner, record, lifetime))
    }

    fn find<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Option<RelaySession>> {
        operation(move || match self.store.find(session) {
            None => self.check_recovered().map(|()| None),
            found => Ok(found),
        })
    }

    fn change<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        changes: &'a [SessionChange],
    ) -> RelayFuture<'a, ()> {
        operation(move || self.store.with_owned(session, *me, |found, now| found.change(changes, now)))
    }

    fn entries<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Vec<SessionEntry>> {
        operation(move || Ok(self.store.read(session, |found| found.entries()).unwrap_or_default()))
    }

    fn adopt<'a>(
        &'a self,
        session: &'a SessionKey,
        dead: &'a SessionOwner,
        me: &'a NodeId,
    ) -> RelayFuture<'a, RelaySession> {
        operation(move || self.adopt_now(session, *dead, *me))
    }

    fn hand_over<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        target: &'a NodeId,
    ) -> RelayFuture<'a, SessionOwner> {
        operation(move || self.store.hand_over(session, *me, *target))
    }

    fn open_stream<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        stream: &'a NewStream,
    ) -> RelayFuture<'a, EventPosition> {
        operation(move || self.store.with_owned(session, *me, |found, _| found.open_stream(stream)))
    }

    fn streams<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Vec<StreamSummary>> {
        operation(move || Ok(self.store.read(session, |found| found.streams()).unwrap_or_default()))
    }

    fn append<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        stream: StreamNumber,
        event: &'a NewEvent<'a>,
    ) -> RelayFuture<'a, AppendResult> {
        operation(move || self.store.with_owned(session, *me, |found, _| found.append(stream, event)))
    }

    fn read<'a>(
        &'a self,
        session: &'a SessionKey,
        stream: StreamNumber,
        after: EventPosition,
        max: usize,
    ) -> RelayFuture<'a, Option<EventPage>> {
        operation(move || {
            let page = self.store.read(session, |found| found.page(stream, after, max)).flatten();
            match page {
                None => self.check_recovered().map(|()| None),
                page => Ok(page),
            }
        })
    }

    fn once<'a>(
        &'a self,
        key: &'a OnceKey,
        attempt: &'a AttemptId,
        lifetime: Duration,
    ) -> RelayFuture<'a, bool> {
        operation(move || self.store.once(*key, *attempt, lifetime))
    }

    fn limit<'a>(&'a self, key: &'a RateKey, limit: RateLimit) -> RelayFuture<'a, RateVerdict> {
        operation(move || self.store.limit(*key, limit))
    }

    fn uncount<'a>(&'a self, key: &'a RateKey, limit: RateLimit) -> RelayFuture<'a, ()> {
        operation(move || {
            self.store.uncount(*key, limit);
            Ok(())
        })
    }

    fn add_labels<'a>(
        &'a self,
        flow: &'a FlowKey,
        labels: &'a [&'a str],
        lifetime: Duration,
    ) -> RelayFuture<'a, Vec<Box<str>>> {
        operation(move || self.store.add_labels(*flow, labels, lifetime))
    }

    fn hint(&self, hint: RelayHint) {
        self.store.hint(hint);
    }

    fn hints(&self) -> broadcast::Receiver<RelayHint> {
        self.store.hints()
    }

    fn health(&self) -> RelayFuture<'_, RelayHealth> {
        operation(move || {
            self.window.observe(&self.store.identity(), Duration::ZERO);
            Ok(RelayHealth { recovering: self.window.remaining(), ..RelayHealth::default() })
        })
    }
}
