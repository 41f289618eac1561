//! Membership of this process in the fleet: its node id and its lease.
//!
//! A thread of its own renews the lease, so that busy handlers cannot hold it up. A renewal is sent at each interval,
//! whether or not the one before was answered. A lease that has ended is never renewed: the process takes a new id.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use hospes_fleet::node::{NodeId, NodeLease, NodeRecord, NodeState};
use hospes_fleet::{Relay, RelayError};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

/// Default interval of renewals.
pub const DEFAULT_RENEWAL_INTERVAL: Duration = Duration::from_millis(300);
/// Number of renewals that a node has missed before another one may end its lease.
const MISSED_RENEWALS: u32 = 2;
/// Maximum number of renewals that have not been answered.
const MAX_PENDING_RENEWALS: usize = 8;
/// Maximum number of former ids that the record of a node has.
const MAX_FORMER_IDS: usize = 64;

/// Membership of this process. It ends when the last clone is dropped, or with [`Membership::leave`].
#[derive(Clone)]
pub struct Membership(Arc<MembershipInner>);

struct MembershipInner {
    relay: Arc<dyn Relay>,
    /// Interval of renewals, here and at the other nodes.
    interval: Duration,
    state: Mutex<MembershipState>,
    changed: watch::Sender<u64>,
    stop: watch::Sender<bool>,
}

struct MembershipState {
    record: NodeRecord,
    lease: Option<NodeLease>,
    left: bool,
}

impl Membership {
    /// Joins the fleet, in the background: `address` is the one at which other nodes reach this one.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(relay: Arc<dyn Relay>, address: &str, interval: Duration) -> std::io::Result<Self> {
        let record = NodeRecord::new(NodeId::random(), address);
        let (stop, stopped) = watch::channel(false);
        let inner = Arc::new(MembershipInner {
            relay,
            interval,
            state: Mutex::new(MembershipState { record, lease: None, left: false }),
            changed: watch::Sender::new(0),
            stop,
        });
        let weak = Arc::downgrade(&inner);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("node-lease".to_owned()).spawn(move || {
            runtime.block_on(keep_lease(weak, interval, stopped));
        })?;
        Ok(Self(inner))
    }

    /// Returns the shared state.
    #[must_use]
    pub fn relay(&self) -> &Arc<dyn Relay> {
        &self.0.relay
    }

    /// Returns the present id, while the node may act as an owner.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        let state = self.0.state.lock();
        let lease = state.lease.as_ref()?;
        lease.is_valid(Instant::now()).then_some(lease.node)
    }

    /// Returns the present id, also while the node may not act as an owner.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.0.state.lock().record.id
    }

    /// Returns true if the node of this id is this process and may act as an owner.
    #[must_use]
    pub fn is_owner(&self, node: NodeId) -> bool {
        self.node() == Some(node)
    }

    /// Returns true if the node of this id is or was this process.
    #[must_use]
    pub fn is_own(&self, node: NodeId) -> bool {
        let state = self.0.state.lock();
        state.record.id == node || state.record.former_ids.contains(&node)
    }

    /// Returns the time until which the node may act as an owner. It lies in the past if it may not.
    #[must_use]
    pub fn valid_until(&self) -> Option<Instant> {
        self.0.state.lock().lease.as_ref().map(|lease| lease.valid_until)
    }

    /// Follows the leases of the node: each that is granted or renewed, and each new id, is a change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Waits until the node has a lease.
    pub async fn joined(&self) -> NodeId {
        let mut changed = self.0.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if let Some(node) = self.node() {
                return node;
            }
            // The sender lives as long as `self`.
            let _ = changed.changed().await;
        }
    }

    /// Returns those of these nodes that have certainly ended. One whose process goes on under a new id has not.
    ///
    /// # Errors
    /// [`RelayError`].
    pub async fn ended(&self, mut nodes: Vec<NodeId>) -> Result<Vec<NodeId>, RelayError> {
        nodes.retain(|node| !self.is_own(*node));
        if nodes.is_empty() {
            return Ok(nodes);
        }
        let known = self.0.relay.nodes().await?;
        // After the list: leases may have been lost with a former engine.
        if self.0.relay.health().await?.recovering.is_some() {
            return Ok(Vec::new());
        }
        let lives = |node: &NodeId| {
            let living = known.iter().filter(|known| known.alive).map(|known| &known.record);
            living.into_iter().any(|record| record.id == *node || record.former_ids.contains(node))
        };
        nodes.retain(|node| !lives(node));
        Ok(nodes)
    }

    /// Ends the lease of a node whose address refuses connections, unless it was renewed lately. Returns true if that node
    /// has no lease now.
    ///
    /// A process that was killed leaves both signs; waiting for the end of its lease would only keep clients waiting.
    pub(crate) async fn end_silent_lease(&self, node: NodeId) -> bool {
        let silent_for = self.0.interval * MISSED_RENEWALS + self.0.interval / 4;
        match self.0.relay.end_silent_lease(&node, silent_for).await {
            Ok(is_ended) => is_ended,
            Err(error) => {
                tracing::debug!(%node, %error, "the lease of a node that has ended was not ended");
                false
            }
        }
    }

    /// Tells the other nodes that this one takes no new sessions.
    ///
    /// # Errors
    /// [`RelayError`].
    pub async fn drain(&self) -> Result<(), RelayError> {
        let (lease, record) = {
            let mut state = self.0.state.lock();
            state.record.state = NodeState::Draining;
            (state.lease.clone(), state.record.clone())
        };
        match lease {
            Some(lease) => self.0.relay.announce(&lease, &record).await,
            None => Ok(()),
        }
    }

    /// Ends the lease, so that others need not wait for its end. The process does not join again.
    ///
    /// # Errors
    /// [`RelayError`]; the lease then ends by itself.
    pub async fn leave(&self) -> Result<(), RelayError> {
        let lease = {
            let mut state = self.0.state.lock();
            state.left = true;
            state.lease.take()
        };
        self.0.stop.send_replace(true);
        match lease {
            Some(lease) => self.0.relay.leave(&lease).await,
            None => Ok(()),
        }
    }
}

impl MembershipInner {
    /// Takes in a lease. The latest counts: renewals may be answered out of order.
    fn hold(&self, lease: NodeLease) {
        let mut state = self.state.lock();
        if state.left {
            return;
        }
        let newer = match &state.lease {
            Some(held) => held.node != lease.node || held.valid_until < lease.valid_until,
            None => true,
        };
        if newer && lease.node == state.record.id {
            state.lease = Some(lease);
        }
        drop(state);
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// Takes a new id, because the lease of this one has ended.
    fn renew_id(&self, ended: NodeId) {
        let mut state = self.state.lock();
        if state.record.id != ended {
            return;
        }
        tracing::warn!(node = %ended, "the lease of this node has ended; it joins the fleet with a new id");
        if state.record.former_ids.len() >= MAX_FORMER_IDS {
            state.record.former_ids.remove(0);
        }
        state.record.former_ids.push(ended);
        state.record.id = NodeId::random();
        state.lease = None;
        drop(state);
        self.changed.send_modify(|changes| *changes += 1);
    }
}

/// Joins and renews until the membership is dropped or ended.
async fn keep_lease(
    membership: std::sync::Weak<MembershipInner>,
    interval: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    let mut tick = tokio::time::interval(interval);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut pending = FuturesUnordered::new();
    loop {
        tokio::select! {
            _ = tick.tick() => {
                let Some(membership) = membership.upgrade() else { return };
                if pending.len() < MAX_PENDING_RENEWALS {
                    pending.push(renew(membership));
                }
            }
            Some(()) = pending.next() => {}
            // An error means that the membership was dropped.
            _ = stopped.changed() => return,
        }
    }
}

async fn renew(membership: Arc<MembershipInner>) {
    let (lease, record) = {
        let state = membership.state.lock();
        if state.left {
            return;
        }
        (state.lease.clone(), state.record.clone())
    };
    let relay = &membership.relay;
    let renewed = match &lease {
        Some(lease) => relay.renew(lease).await,
        None => relay.join(&record).await,
    };
    match renewed {
        Ok(lease) => membership.hold(lease),
        Err(RelayError::Gone) => membership.renew_id(record.id),
        Err(error) => tracing::debug!(%error, "the lease of this node was not renewed"),
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership").field("node", &self.node()).finish_non_exhaustive()
    }
}
