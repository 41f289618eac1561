//! Engines that are broken on purpose, each in one way, to show that the contract's cases find it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use hospes_fleet::keys::{AttemptId, FlowKey, OnceKey, RateKey, RateLimit, RateVerdict};
use hospes_fleet::node::{NodeId, NodeLease, NodeRecord, NodeStatus};
use hospes_fleet::relay::{RelayFuture, RelayHealth, RelayHint};
use hospes_fleet::session::{
    NewSession, RelaySession, SessionChange, SessionEntry, SessionKey, SessionOwner,
};
use hospes_fleet::stream::{
    AppendResult, EventKind, EventPage, EventPosition, NewEvent, NewStream, StreamNumber, StreamSummary,
};
use hospes_fleet::{Relay, RelayError};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};

use crate::fixture::{TestFleet, failed_cases};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};

/// Ways in which an engine is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelayMutation {
    /// Adoption compares the node alone.
    AdoptWithoutEpoch,
    /// Adoption reads the owner in one step and writes it in another.
    AdoptInTwoSteps,
    /// Reserving takes what exists for its own.
    ReserveWhatExists,
    /// Appending does not ask whether a request is pending.
    AppendWithoutPending,
    /// Appending writes as whoever owns the session now.
    AppendWithoutFence,
    /// Leases are measured from the answer.
    LeaseFromReply,
    /// Sessions are looked up again only after a hint.
    HintAsTruth,
    /// A key is used in the attempt of whoever asks.
    OnceForEachAttempt,
    /// A handle that has found no labels of a data flow does not look again.
    LabelsKeptNegative,
}

/// Case that has to fail for each mutation.
const FOUND_BY: [(RelayMutation, &str); 9] = [
    (RelayMutation::AdoptWithoutEpoch, "adoption_compares_the_epoch"),
    (RelayMutation::AdoptInTwoSteps, "one_of_several_adopters_wins"),
    (RelayMutation::ReserveWhatExists, "one_of_several_nodes_claims_a_server"),
    (RelayMutation::AppendWithoutPending, "each_request_is_answered_once"),
    (RelayMutation::AppendWithoutFence, "a_former_owner_is_fenced"),
    (RelayMutation::LeaseFromReply, "a_lease_is_measured_from_before_its_request"),
    (RelayMutation::HintAsTruth, "a_change_is_found_without_a_hint"),
    (RelayMutation::OnceForEachAttempt, "a_key_is_used_once"),
    (RelayMutation::LabelsKeptNegative, "labels_of_another_node_are_seen_after_none"),
];

#[tokio::test(start_paused = true)]
async fn the_contract_finds_each_mutation_in_memory() {
    for (mutation, case) in FOUND_BY {
        let failed = failed_cases(|| TestFleet::memory(Some(mutation)), |_| true).await;
        assert!(failed.contains(&case), "{mutation:?} is not found by {case}, but by {failed:?}");
    }
}

#[tokio::test]
async fn the_contract_finds_each_mutation_on_redis() {
    let server = RedisServer::start(RedisOptions::default());
    for (mutation, case) in FOUND_BY {
        // Some mutations make other cases wait for what never comes, in real time.
        let failed = failed_cases(|| TestFleet::redis(&server, Some(mutation)), |name| name == case).await;
        assert_eq!(failed, [case], "{mutation:?}");
    }
}

/// Relay that passes operations on, except where it is broken or late.
#[derive(Debug)]
pub(crate) struct AlteredRelay {
    inner: Arc<dyn Relay>,
    mutation: Option<RelayMutation>,
    /// Time by which the answers about leases are late.
    delay: Duration,
    /// Sessions that were looked up, for [`RelayMutation::HintAsTruth`].
    known: Mutex<HashMap<SessionKey, RelaySession>>,
    /// Flows that had no labels, for [`RelayMutation::LabelsKeptNegative`].
    without_labels: Mutex<HashSet<FlowKey>>,
}

impl AlteredRelay {
    /// Creates a relay that may be broken, whose answers about leases may be late.
    pub(crate) fn new(inner: Arc<dyn Relay>, mutation: Option<RelayMutation>, delay: Duration) -> Self {
        Self { inner, mutation, delay, known: Mutex::default(), without_labels: Mutex::default() }
    }

    /// Creates a relay that is broken in this way.
    pub(crate) fn broken(inner: Arc<dyn Relay>, mutation: RelayMutation) -> Self {
        Self::new(inner, Some(mutation), Duration::ZERO)
    }

    /// Creates a relay whose answers about leases are late.
    pub(crate) fn late(inner: Arc<dyn Relay>, delay: Duration) -> Self {
        Self::new(inner, None, delay)
    }

    fn is(&self, mutation: RelayMutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Returns the answer about a lease, late and measured as this relay does.
    async fn answer_late(
        &self,
        lease: impl Future<Output = Result<NodeLease, RelayError>>,
    ) -> Result<NodeLease, RelayError> {
        let sent = Instant::now();
        let lease = lease.await;
        if !self.delay.is_zero() {
            sleep(self.delay).await;
        }
        match lease {
            Ok(lease) if self.is(RelayMutation::LeaseFromReply) => {
                let late = lease.valid_until + sent.elapsed();
                Ok(NodeLease::measured(lease.node, late, Duration::ZERO, Duration::ZERO))
            }
            lease => lease,
        }
    }
}

impl Relay for AlteredRelay {
    fn announce<'a>(&'a self, lease: &'a NodeLease, record: &'a NodeRecord) -> RelayFuture<'a, ()> {
        self.inner.announce(lease, record)
    }

    fn leave<'a>(&'a self, lease: &'a NodeLease) -> RelayFuture<'a, ()> {
        self.inner.leave(lease)
    }

    fn end_silent_lease<'a>(&'a self, node: &'a NodeId, silent_for: Duration) -> RelayFuture<'a, bool> {
        self.inner.end_silent_lease(node, silent_for)
    }

    fn nodes(&self) -> RelayFuture<'_, Vec<NodeStatus>> {
        self.inner.nodes()
    }

    fn sessions_of<'a>(&'a self, node: &'a NodeId, max: usize) -> RelayFuture<'a, Vec<SessionKey>> {
        self.inner.sessions_of(node, max)
    }

    fn reserve<'a>(
        &'a self,
        session: &'a SessionKey,
        owner: &'a SessionOwner,
        record: &'a NewSession,
        lifetime: Duration,
    ) -> RelayFuture<'a, ()> {
        Box::pin(async move {
            match self.inner.reserve(session, owner, record, lifetime).await {
                Err(RelayError::Fenced { now: Some(_) }) if self.is(RelayMutation::ReserveWhatExists) => {
                    Ok(())
                }
                reserved => reserved,
            }
        })
    }

    fn change<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        changes: &'a [SessionChange],
    ) -> RelayFuture<'a, ()> {
        self.inner.change(session, me, changes)
    }

    fn entries<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Vec<SessionEntry>> {
        self.inner.entries(session)
    }

    fn hand_over<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        target: &'a NodeId,
    ) -> RelayFuture<'a, SessionOwner> {
        self.inner.hand_over(session, me, target)
    }

    fn open_stream<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        stream: &'a NewStream,
    ) -> RelayFuture<'a, EventPosition> {
        self.inner.open_stream(session, me, stream)
    }

    fn streams<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Vec<StreamSummary>> {
        self.inner.streams(session)
    }

    fn read<'a>(
        &'a self,
        session: &'a SessionKey,
        stream: StreamNumber,
        after: EventPosition,
        max: usize,
    ) -> RelayFuture<'a, Option<EventPage>> {
        self.inner.read(session, stream, after, max)
    }

    fn limit<'a>(&'a self, key: &'a RateKey, limit: RateLimit) -> RelayFuture<'a, RateVerdict> {
        self.inner.limit(key, limit)
    }

    fn uncount<'a>(&'a self, key: &'a RateKey, limit: RateLimit) -> RelayFuture<'a, ()> {
        self.inner.uncount(key, limit)
    }

    fn add_labels<'a>(
        &'a self,
        flow: &'a FlowKey,
        labels: &'a [&'a str],
        lifetime: Duration,
    ) -> RelayFuture<'a, Vec<Box<str>>> {
        Box::pin(async move {
            let is_kept = self.is(RelayMutation::LabelsKeptNegative);
            if is_kept && labels.is_empty() && self.without_labels.lock().contains(flow) {
                return Ok(Vec::new());
            }
            let all = self.inner.add_labels(flow, labels, lifetime).await?;
            match all.is_empty() {
                true => self.without_labels.lock().insert(*flow),
                false => self.without_labels.lock().remove(flow),
            };
            Ok(all)
        })
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

    fn join<'a>(&'a self, node: &'a NodeRecord) -> RelayFuture<'a, NodeLease> {
        Box::pin(async move { self.answer_late(self.inner.join(node)).await })
    }

    fn renew<'a>(&'a self, lease: &'a NodeLease) -> RelayFuture<'a, NodeLease> {
        Box::pin(async move { self.answer_late(self.inner.renew(lease)).await })
    }

    fn find<'a>(&'a self, session: &'a SessionKey) -> RelayFuture<'a, Option<RelaySession>> {
        Box::pin(async move {
            if !self.is(RelayMutation::HintAsTruth) {
                return self.inner.find(session).await;
            }
            let known = self.known.lock().get(session).cloned();
            if known.is_some() {
                return Ok(known);
            }
            let found = self.inner.find(session).await?;
            self.known.lock().extend(found.clone().map(|found| (*session, found)));
            Ok(found)
        })
    }

    fn adopt<'a>(
        &'a self,
        session: &'a SessionKey,
        dead: &'a SessionOwner,
        me: &'a NodeId,
    ) -> RelayFuture<'a, RelaySession> {
        Box::pin(async move {
            let owner = match self.mutation {
                Some(RelayMutation::AdoptWithoutEpoch | RelayMutation::AdoptInTwoSteps) => {
                    self.inner.find(session).await?.ok_or(RelayError::Gone)?.owner
                }
                _ => return self.inner.adopt(session, dead, me).await,
            };
            match self.mutation {
                Some(RelayMutation::AdoptWithoutEpoch) if owner.node == dead.node => {
                    self.inner.adopt(session, &owner, me).await
                }
                Some(RelayMutation::AdoptInTwoSteps) if owner == *dead => {
                    sleep(Duration::from_millis(20)).await;
                    let adopted = self.inner.adopt(session, dead, me).await;
                    let Err(RelayError::Fenced { now: Some(now) }) = adopted else { return adopted };
                    // The second step writes without a comparison, as if the present owner gave the session away.
                    self.inner.hand_over(session, &now, me).await?;
                    self.inner.find(session).await?.ok_or(RelayError::Gone)
                }
                _ => self.inner.adopt(session, dead, me).await,
            }
        })
    }

    fn append<'a>(
        &'a self,
        session: &'a SessionKey,
        me: &'a SessionOwner,
        stream: StreamNumber,
        event: &'a NewEvent<'a>,
    ) -> RelayFuture<'a, AppendResult> {
        Box::pin(async move {
            match (self.mutation, event.kind) {
                (Some(RelayMutation::AppendWithoutPending), EventKind::Answer(_)) => {
                    let event = NewEvent::new(event.sequence, EventKind::Message, event.payload);
                    self.inner.append(session, me, stream, &event).await
                }
                (Some(RelayMutation::AppendWithoutFence), _) => {
                    let owner = self.inner.find(session).await?.ok_or(RelayError::Gone)?.owner;
                    self.inner.append(session, &owner, stream, event).await
                }
                _ => self.inner.append(session, me, stream, event).await,
            }
        })
    }

    fn once<'a>(
        &'a self,
        key: &'a OnceKey,
        attempt: &'a AttemptId,
        lifetime: Duration,
    ) -> RelayFuture<'a, bool> {
        Box::pin(async move {
            let used = self.inner.once(key, attempt, lifetime).await?;
            Ok(used || self.is(RelayMutation::OnceForEachAttempt))
        })
    }
}
