//! Claims of servers that one node runs for all nodes.
//!
//! A claim is a record with an owner and an epoch, like a session. The owner acts on it only while its lease is valid and
//! the claim was confirmed lately. Another node adopts the claim when the lease of the owner has ended, and then waits
//! until the former owner has stopped the server. A claim that nobody confirms expires.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hospes_fleet::node::{NodeId, NodeRecord, NodeState};
use hospes_fleet::session::{NewSession, SessionKey, SessionOwner, SessionState};
use hospes_fleet::{Relay, RelayError};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::membership::Membership;
use crate::node_list::{NodeList, find_node};
use crate::rendezvous::choose_node;

/// Interval of looks at a claim. Its owner confirms it with each.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);
/// Time after which a claim expires that nobody confirms. A former owner has certainly stopped its server by then.
const CLAIM_LIFETIME: Duration = Duration::from_secs(10);
/// Time for which an owner acts on a claim that it cannot confirm.
const CONFIRMED_FOR: Duration = Duration::from_secs(4);
/// Time within which a node whose lease has ended stops a server.
const STOP_TIME: Duration = Duration::from_secs(4);
/// Time for which the list of nodes is used.
const NODES_LIFETIME: Duration = Duration::from_millis(200);

/// Node that runs a server, as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller has to treat each case")]
pub enum ClaimedPlace {
    /// No node is known to run the server, for this reason.
    Unknown(Arc<str>),
    /// This node.
    Here {
        /// Epoch of the claim.
        epoch: u64,
    },
    /// This node, which gives the server to another one: what runs may end, and nothing begins.
    Leaving,
    /// Another node.
    Elsewhere {
        /// Id of the node.
        node: NodeId,
        /// Address of the node.
        address: Arc<str>,
        /// Epoch of the claim.
        epoch: u64,
    },
}

/// Claims of the servers of this process. Cheap to clone; all clones are the same claims.
#[derive(Clone)]
pub struct ServerClaims(Arc<ServerClaimsInner>);

struct ServerClaimsInner {
    membership: Membership,
    nodes: NodeList,
    claims: Mutex<HashMap<Box<str>, Arc<ServerClaim>>>,
    /// True once claims are given to other nodes.
    leaving: watch::Sender<bool>,
}

/// Claim of one server.
struct ServerClaim {
    place: watch::Sender<ClaimedPlace>,
    /// Number of uses of the server here.
    holds: watch::Sender<usize>,
    /// True once the claim was given to another node because this one leaves.
    is_released: watch::Sender<bool>,
}

/// Use of a server here: its claim is given to no other node before all of them are dropped.
pub struct ClaimHold(Arc<ServerClaim>);

impl Drop for ClaimHold {
    fn drop(&mut self) {
        self.0.holds.send_modify(|holds| *holds -= 1);
    }
}

impl fmt::Debug for ClaimHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClaimHold")
    }
}

impl ServerClaims {
    /// Creates the claims of a member, without any.
    #[must_use]
    pub fn new(membership: Membership) -> Self {
        Self(Arc::new(ServerClaimsInner {
            membership,
            nodes: NodeList::default(),
            claims: Mutex::default(),
            leaving: watch::Sender::new(false),
        }))
    }

    /// Follows the place of a server. From now on this node claims the server when no other node runs it, until all
    /// receivers are dropped. Must be called within a runtime.
    #[must_use]
    pub fn follow(&self, server: &str) -> watch::Receiver<ClaimedPlace> {
        let mut claims = self.0.claims.lock();
        if let Some(claim) = claims.get(server) {
            return claim.place.subscribe();
        }
        let claim = Arc::new(ServerClaim {
            place: watch::Sender::new(ClaimedPlace::Unknown("the fleet has not answered yet".into())),
            holds: watch::Sender::new(0),
            is_released: watch::Sender::new(false),
        });
        let place = claim.place.subscribe();
        claims.insert(server.into(), Arc::clone(&claim));
        let keeper = ClaimKeeper {
            claims: Arc::clone(&self.0),
            server: server.into(),
            key: SessionKey::of_server(server),
            claim,
            acting: None,
            confirmed: Instant::now(),
            adopted: None,
        };
        tokio::spawn(keeper.run());
        place
    }

    /// Returns the place of a server that is followed.
    #[must_use]
    pub fn place(&self, server: &str) -> Option<ClaimedPlace> {
        self.0.claims.lock().get(server).map(|claim| claim.place.borrow().clone())
    }

    /// Notes that a server is used here. `None` if its place is not followed.
    #[must_use]
    pub fn hold(&self, server: &str) -> Option<ClaimHold> {
        let claim = Arc::clone(self.0.claims.lock().get(server)?);
        claim.holds.send_modify(|holds| *holds += 1);
        Some(ClaimHold(claim))
    }

    /// Gives all claims to other nodes, each when its server has stopped here. This node claims nothing any more.
    pub async fn give_up(&self) {
        self.0.leaving.send_replace(true);
        let claims: Vec<Arc<ServerClaim>> = self.0.claims.lock().values().cloned().collect();
        for claim in claims {
            // The sender is part of the claim.
            let _ = claim.is_released.subscribe().wait_for(|released| *released).await;
        }
    }
}

/// Task that keeps one claim.
struct ClaimKeeper {
    claims: Arc<ServerClaimsInner>,
    server: Box<str>,
    key: SessionKey,
    claim: Arc<ServerClaim>,
    /// Id of this node under which it acts on the claim.
    acting: Option<NodeId>,
    /// Moment before the last confirmation of an own claim was sent.
    confirmed: Instant,
    /// Epoch of a claim that was taken from a node that had ended, and the moment.
    adopted: Option<(u64, Instant)>,
}

impl ClaimKeeper {
    async fn run(mut self) {
        let mut leaving = self.claims.leaving.subscribe();
        loop {
            if *leaving.borrow_and_update() {
                self.release().await;
                return;
            }
            if self.is_forgotten() {
                return;
            }
            let fenced = self.fenced();
            let place = tokio::select! {
                biased;
                why = fenced => ClaimedPlace::Unknown(why.into()),
                place = self.look() => place,
            };
            self.publish(place);
            tokio::select! {
                biased;
                why = self.fenced() => self.publish(ClaimedPlace::Unknown(why.into())),
                _ = leaving.changed() => {}
                () = sleep(LOOK_INTERVAL) => {}
            }
        }
    }

    /// Ends the claim if nobody follows it and nothing of the server is left here; it then expires.
    fn is_forgotten(&self) -> bool {
        let mut claims = self.claims.claims.lock();
        // Under the lock: one who begins to follow it finds the claim, or makes a new one.
        let is_forgotten = self.claim.place.receiver_count() == 0 && *self.claim.holds.borrow() == 0;
        if is_forgotten {
            claims.remove(&self.server);
        }
        is_forgotten
    }

    fn publish(&self, place: ClaimedPlace) {
        self.claim.place.send_if_modified(|now| {
            let is_new = *now != place;
            if is_new {
                tracing::info!(server = %self.server, ?place, "place of a server");
                *now = place;
            }
            is_new
        });
    }

    /// Waits until this node may not act on its claim any more, and says why. Never returns while it has none.
    fn fenced(&self) -> impl Future<Output = &'static str> + Send + use<> {
        let is_here = matches!(*self.claim.place.borrow(), ClaimedPlace::Here { .. });
        let (membership, acting, confirmed) = (self.claims.membership.clone(), self.acting, self.confirmed);
        async move {
            if !is_here {
                return std::future::pending().await;
            }
            loop {
                if acting.is_none() || membership.node() != acting {
                    return "this node has no lease: Redis does not answer in time";
                }
                let end = confirmed + CONFIRMED_FOR;
                if Instant::now() >= end {
                    return "this node could not confirm that it runs the server: Redis does not answer in time";
                }
                let valid = membership.valid_until().unwrap_or_else(Instant::now);
                sleep_until(valid.min(end)).await;
            }
        }
    }

    fn relay(&self) -> &Arc<dyn Relay> {
        self.claims.membership.relay()
    }

    /// Looks who has the claim, and takes it if nobody has it.
    async fn look(&mut self) -> ClaimedPlace {
        match self.try_look().await {
            Ok(place) => place,
            Err(error) => {
                let present = self.claim.place.borrow().clone();
                match present {
                    // In doubt the place is where it was. This node acts on it while it may.
                    ClaimedPlace::Unknown(_) => ClaimedPlace::Unknown(error.to_string().into()),
                    present => present,
                }
            }
        }
    }

    async fn try_look(&mut self) -> Result<ClaimedPlace, RelayError> {
        let membership = self.claims.membership.clone();
        let sent = Instant::now();
        let found = self.relay().find(&self.key).await?;
        let me = membership.node();
        let Some(owner) = found.map(|found| found.owner) else {
            let Some(me) = me else { return Ok(no_lease()) };
            let record = NewSession::pending(Vec::new()).with_state(SessionState::Active);
            let owner = SessionOwner::first(me);
            return match self.relay().reserve(&self.key, &owner, &record, CLAIM_LIFETIME).await {
                Ok(()) => {
                    (self.acting, self.confirmed) = (Some(me), sent);
                    Ok(ClaimedPlace::Here { epoch: owner.epoch })
                }
                Err(RelayError::Fenced { .. }) => {
                    Ok(ClaimedPlace::Unknown("another node has just taken it".into()))
                }
                Err(error) => Err(error),
            };
        };
        if me == Some(owner.node) {
            return self.confirm(owner, sent).await;
        }
        let is_own = membership.is_own(owner.node);
        if !is_own && let Some(node) = self.living(owner.node).await? {
            let address = node.address.as_str().into();
            return Ok(ClaimedPlace::Elsewhere { node: node.id, address, epoch: owner.epoch });
        }
        let Some(me) = me else { return Ok(no_lease()) };
        match self.relay().adopt(&self.key, &owner, &me).await {
            Ok(adopted) => {
                tracing::info!(server = %self.server, epoch = adopted.owner.epoch, "server claimed");
                // This process stops its own server itself before it starts it again.
                self.adopted = (!is_own).then(|| (adopted.owner.epoch, Instant::now()));
                self.confirm(adopted.owner, sent).await
            }
            Err(RelayError::Fenced { .. }) => {
                self.claims.nodes.expire();
                Ok(ClaimedPlace::Unknown("another node has just taken it".into()))
            }
            Err(error) => Err(error),
        }
    }

    /// Confirms the own claim. Before this node runs the server, a former owner has the time to stop it.
    async fn confirm(&mut self, owner: SessionOwner, sent: Instant) -> Result<ClaimedPlace, RelayError> {
        match self.relay().change(&self.key, &owner, &[]).await {
            Ok(()) => (self.acting, self.confirmed) = (Some(owner.node), sent),
            Err(RelayError::Fenced { .. } | RelayError::Gone) => {
                return Ok(ClaimedPlace::Unknown("another node has just taken it".into()));
            }
            Err(error) => return Err(error),
        }
        if let Some((_, at)) = self.adopted.filter(|(epoch, _)| *epoch == owner.epoch)
            && at.elapsed() < STOP_TIME
        {
            return Ok(ClaimedPlace::Unknown(
                "the node that ran it has ended, and it is given the time to stop".into(),
            ));
        }
        Ok(ClaimedPlace::Here { epoch: owner.epoch })
    }

    /// Returns the record of a node, if its process has a lease, also under a new id.
    async fn living(&self, node: NodeId) -> Result<Option<NodeRecord>, RelayError> {
        Ok(find_node(&self.living_nodes().await?, node))
    }

    async fn living_nodes(&self) -> Result<Arc<Vec<NodeRecord>>, RelayError> {
        if let Some(nodes) = self.claims.nodes.within(NODES_LIFETIME) {
            return Ok(nodes);
        }
        let nodes = self.relay().nodes().await?;
        let nodes: Arc<Vec<_>> =
            Arc::new(nodes.into_iter().filter(|node| node.alive).map(|node| node.record).collect());
        self.claims.nodes.replace(Arc::clone(&nodes));
        Ok(nodes)
    }

    /// Gives the claim to another node when the server has stopped here, and follows its place from then on.
    async fn release(mut self) {
        if matches!(*self.claim.place.borrow(), ClaimedPlace::Here { .. }) {
            self.publish(ClaimedPlace::Leaving);
        }
        let mut holds = self.claim.holds.subscribe();
        // What does not stop in time is not given away: others wait for the end of the lease.
        let is_stopped = timeout(STOP_TIME * 2, holds.wait_for(|holds| *holds == 0)).await.is_ok();
        if is_stopped && let Err(error) = self.hand_over().await {
            tracing::warn!(server = %self.server, %error, "a server is not given to another node before this one ends");
        }
        self.claim.is_released.send_replace(true);
        loop {
            // Calls that still come are sent there.
            if let Ok(Some(found)) = self.relay().find(&self.key).await
                && !self.claims.membership.is_own(found.owner.node)
                && let Ok(Some(node)) = self.living(found.owner.node).await
            {
                let (id, address) = (node.id, node.address.as_str().into());
                self.publish(ClaimedPlace::Elsewhere { node: id, address, epoch: found.owner.epoch });
            }
            sleep(LOOK_INTERVAL).await;
            if self.is_forgotten() {
                return;
            }
        }
    }

    async fn hand_over(&mut self) -> Result<(), RelayError> {
        let Some(me) = self.claims.membership.node() else { return Ok(()) };
        let Some(found) = self.relay().find(&self.key).await?.filter(|found| found.owner.node == me) else {
            return Ok(());
        };
        let nodes = self.living_nodes().await?;
        let takes =
            |node: &&NodeRecord| node.state == NodeState::Serving && !self.claims.membership.is_own(node.id);
        let target = choose_node(nodes.iter().filter(takes), &[self.server.as_bytes()]).map(|node| node.id);
        match target {
            Some(target) => self.relay().hand_over(&self.key, &found.owner, &target).await.map(drop),
            None => Ok(()),
        }
    }
}

fn no_lease() -> ClaimedPlace {
    ClaimedPlace::Unknown(
        "this node has no lease: Redis does not answer in time, or the node has just started".into(),
    )
}

impl fmt::Debug for ServerClaims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerClaims").field("servers", &self.0.claims.lock().len()).finish_non_exhaustive()
    }
}
