//! Shared state whose operations are measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hospes_fleet::Relay;
use hospes_fleet::keys::{AttemptId, FlowKey, OnceKey, RateKey, RateLimit, RateVerdict};
use hospes_fleet::node::{NodeId, NodeLease, NodeRecord, NodeStatus};
use hospes_fleet::relay::{RelayFuture, RelayHealth, RelayHint};
use hospes_fleet::session::{
    NewSession, RelaySession, SessionChange, SessionEntry, SessionKey, SessionOwner,
};
use hospes_fleet::stream::{
    AppendResult, EventPage, EventPosition, NewEvent, NewStream, StreamNumber, StreamSummary,
};
use tokio::sync::broadcast;

use crate::node_metrics::{NodeMetrics, RelayOperation};

/// Measures the operations of another relay.
#[derive(Debug)]
pub struct MeasuredRelay {
    inner: Arc<dyn Relay>,
    metrics: NodeMetrics,
}

impl MeasuredRelay {
    /// Measures the operations of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Relay>, metrics: NodeMetrics) -> Self {
        Self { inner, metrics }
    }

    fn measure<'a, T: Send + 'a>(
        &'a self,
        operation: RelayOperation,
        running: RelayFuture<'a, T>,
    ) -> RelayFuture<'a, T> {
        Box::pin(async move {
            let begun = Instant::now();
            let result = running.await;
            self.metrics.note_relay(operation, begun.elapsed(), result.as_ref().err());
            result
        })
    }
}

impl Relay for MeasuredRelay {
    fn join<'a>(&'a self, node: &'a NodeRecord) -> RelayFuture<'a, NodeLease> {
        self.measure(RelayOperation::Join, self.inner.join(node))
    }

    fn renew<'a>(&'a self, lease: &'a NodeLease) -> RelayFuture<'a, NodeLease> {
        self.measure(RelayOperation::Renew, self.inner.renew(lease))
    }

    fn announce<'a>(&'a self, lease: &'a NodeLease, record: &'a NodeRecord) -> RelayFuture<'a, ()> {
        self.measure(RelayOperation::Announce, self.inner.announce(lease, record))
    }

    fn leave<'a>(&'a self, lease: &'a NodeLease) -> RelayFuture<'a, ()> {
        self.measure(RelayOperation::Leave, self.inner.leave(lease))
    }

    fn end_silent_lease<'a>(&'a self, node: &'a NodeId, silent_for: Duration) -> RelayFuture<'a, bool> {
        self.measure(RelayOperation::EndSilentLease, self.inner.end_silent_lease(node, silent_for))
    }

    fn nodes(&self) -> RelayFuture<'_, Vec<NodeStatus>> {
        self.measure(RelayOperation::Nodes, self.inner.nodes())
    }

    fn sessions_of<'a>(&'a self, node: &'a NodeId, max: usize) -> RelayFuture<'a, Vec<SessionKey>> {
        self.measure(RelayOperation::SessionsOf, self.inner.sessions_of(node, max))
    }

    fn reserve<'a>(
        &'a self,
        session: &'a SessionKey,
        owner: &'a SessionOwner,
        record: &'a NewSession,
        lifetime: Duration,
    ) -> RelayFuture<'a, ()> {
        self.measure(RelayOperation::Reserve, self.inner.reserve(session, owner, record, lifetime))
    }

    fn find<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Option<RelaySession>> {
        self.measure(RelayOperation::Find, self.inner.find(session))
    }

    fn change<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        changes: &'a [SessionChange],
    ) -> RelayFuture<'a, ()> {
        self.measure(RelayOperation::Change, self.inner.change(session, me, changes))
    }

    fn entries<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Vec<SessionEntry>> {
        self.measure(RelayOperation::Entries, self.inner.entries(session))
    }

    fn adopt<'a>(
        &'a self,
        session: &'a SessionKey,
        dead: &'a SessionOwner,
        me: &'a NodeId,
    ) -> RelayFuture<'a, RelaySession> {
        self.measure(RelayOperation::Adopt, self.inner.adopt(session, dead, me))
    }

    fn hand_over<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        target: &'a NodeId,
    ) -> RelayFuture<'a, SessionOwner> {
        self.measure(RelayOperation::HandOver, self.inner.hand_over(session, me, target))
    }

    fn open_stream<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        stream: &'a NewStream,
    ) -> RelayFuture<'a, EventPosition> {
        self.measure(RelayOperation::OpenStream, self.inner.open_stream(session, me, stream))
    }

    fn streams<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Vec<StreamSummary>> {
        self.measure(RelayOperation::Streams, self.inner.streams(session))
    }

    fn append<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        stream: StreamNumber,
        event: &'a NewEvent<'a>,
    ) -> RelayFuture<'a, AppendResult> {
        self.measure(RelayOperation::Append, self.inner.append(session, me, stream, event))
    }

    fn read<'a>(
        &'a self,
        session: &'a SessionKey,
        stream: StreamNumber,
        after: EventPosition,
        max: usize,
    ) -> RelayFuture<'a, Option<EventPage>> {
        self.measure(RelayOperation::Read, self.inner.read(session, stream, after, max))
    }

    fn once<'a>(
        &'a self,
        key: &'a OnceKey,
        attempt: &'a AttemptId,
        lifetime: Duration,
    ) -> RelayFuture<'a, bool> {
        self.measure(RelayOperation::Once, self.inner.once(key, attempt, lifetime))
    }

    fn limit<'a>(&'a self, key: &'a RateKey, limit: RateLimit) -> RelayFuture<'a, RateVerdict> {
        self.measure(RelayOperation::Limit, self.inner.limit(key, limit))
    }

    fn uncount<'a>(&'a self, key: &'a RateKey, limit: RateLimit) -> RelayFuture<'a, ()> {
        self.measure(RelayOperation::Uncount, self.inner.uncount(key, limit))
    }

    fn add_labels<'a>(
        &'a self,
        flow: &'a FlowKey,
        labels: &'a [&'a str],
        lifetime: Duration,
    ) -> RelayFuture<'a, Vec<Box<str>>> {
        self.measure(RelayOperation::AddLabels, self.inner.add_labels(flow, labels, lifetime))
    }

    fn hint(&self, hint: RelayHint) {
        self.inner.hint(hint);
    }

    fn hints(&self) -> broadcast::Receiver<RelayHint> {
        self.inner.hints()
    }

    fn health(&self) -> RelayFuture<'_, RelayHealth> {
        self.inner.health()
    }
}
