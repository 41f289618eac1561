//! Random sequences of operations on one session, compared with a model, on both engines.
//!
//! Three handles act as nodes. A handle whose lease has ended joins again under a new id. Every write is repeated at
//! once, as after a lost answer, and any earlier write may arrive again later, as after a long delay. The engine may be
//! replaced, with or without its sessions and leases, while nodes still count on theirs.

mod engines;
mod sequential;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hospes_fleet::node::{NodeId, NodeLease};
use hospes_fleet::session::{SessionKey, SessionOwner, SessionState};
use hospes_fleet::stream::EventPosition;
use hospes_fleet::{Relay, RelayError};
use proptest::prelude::*;
use tokio::time::Instant;

pub(crate) use self::sequential::{REQUESTS, STREAM, SessionModel, SessionWrite, WriteAnswer, perform_write};
use crate::fixture::{TestNode, test_settings};

const HANDLES: usize = 3;

/// Number of tries to get an answer that is not in doubt.
const MAX_TRIES: usize = 100;

/// Step of a sequence. Numbers are handles, or offsets to what the model expects.
#[derive(Clone, Debug)]
enum ModelStep {
    /// Creates the session, or restores one that the engine has lost.
    Reserve {
        by: usize,
    },
    /// Adopts from the owner of this many epochs ago.
    Adopt {
        by: usize,
        epochs_ago: u64,
    },
    HandOver {
        by: usize,
        to: usize,
    },
    Append {
        by: usize,
        skip: u64,
        answers: Option<usize>,
    },
    /// Looks up the session and reads its stream after a position.
    Read {
        by: usize,
        after: u64,
    },
    Touch {
        by: usize,
    },
    Close {
        by: usize,
    },
    Renew {
        by: usize,
    },
    /// The lease of a node ends, by its time.
    Expire {
        node: usize,
    },
    /// A node whose lease has ended joins under a new id.
    Rejoin {
        node: usize,
    },
    /// The engine is replaced. All leases are lost, which the nodes do not know, and perhaps the sessions as well.
    Replace {
        lose: bool,
    },
    /// An earlier write arrives again.
    Late {
        earlier: prop::sample::Index,
    },
}

fn steps() -> impl Strategy<Value = Vec<ModelStep>> {
    let by = || 0..HANDLES;
    let step = prop_oneof![
        2 => by().prop_map(|by| ModelStep::Reserve { by }),
        5 => (by(), 0..3_u64).prop_map(|(by, epochs_ago)| ModelStep::Adopt { by, epochs_ago }),
        2 => (by(), by()).prop_map(|(by, to)| ModelStep::HandOver { by, to }),
        6 => (by(), 0..2_u64, prop::option::of(0..REQUESTS.len()))
            .prop_map(|(by, skip, answers)| ModelStep::Append { by, skip, answers }),
        3 => (by(), 0..4_u64).prop_map(|(by, after)| ModelStep::Read { by, after }),
        1 => by().prop_map(|by| ModelStep::Touch { by }),
        1 => by().prop_map(|by| ModelStep::Close { by }),
        2 => by().prop_map(|by| ModelStep::Renew { by }),
        3 => by().prop_map(|node| ModelStep::Expire { node }),
        3 => by().prop_map(|node| ModelStep::Rejoin { node }),
        1 => any::<bool>().prop_map(|lose| ModelStep::Replace { lose }),
        4 => any::<prop::sample::Index>().prop_map(|earlier| ModelStep::Late { earlier }),
    ];
    prop::collection::vec(step, 1..40)
}

/// Engine whose leases end, and which is replaced, when a test says so.
trait ModelEngine {
    /// Duration of its leases.
    const LEASE: Duration;
    /// Time for which a replaced engine is in doubt.
    const WINDOW: Duration;
    /// True if leases end by their time alone, so that a node knows as well when its lease has ended.
    const HAS_REAL_LEASES: bool;

    fn relay(&self) -> Arc<dyn Relay>;

    /// Lets time pass.
    async fn wait(&self, time: Duration);

    /// Ends the lease of this node without its time, where leases do not end by their time.
    async fn end_lease(&self, node: &TestNode);

    /// Replaces the engine and loses the leases of these nodes.
    async fn replace(&self, nodes: &[TestNode], lose: bool);
}

/// Session, handles and the model.
struct ModelRun<E> {
    engine: E,
    session: SessionKey,
    nodes: Vec<TestNode>,
    /// Ids that each handle has had.
    own: Vec<BTreeSet<NodeId>>,
    /// End of each lease that the engine has.
    lease_ends: BTreeMap<NodeId, Instant>,
    /// Leases as the nodes know them.
    leases: BTreeMap<NodeId, NodeLease>,
    /// Time before which a handle must not be certain of what others own and what is missing.
    doubtful_until: Instant,
    model: SessionModel,
    sent: Vec<SessionWrite>,
}

impl<E: ModelEngine> ModelRun<E> {
    async fn new(engine: E, name: &str) -> Self {
        let mut run = Self {
            session: SessionKey::new(None, name),
            nodes: Vec::new(),
            own: vec![BTreeSet::new(); HANDLES],
            lease_ends: BTreeMap::new(),
            leases: BTreeMap::new(),
            doubtful_until: Instant::now(),
            model: SessionModel::default(),
            sent: Vec::new(),
            engine,
        };
        for handle in 0..HANDLES {
            let relay = run.engine.relay();
            run.join(handle, relay).await;
        }
        run
    }

    async fn join(&mut self, handle: usize, relay: Arc<dyn Relay>) {
        let sent = Instant::now();
        let node = TestNode::join(relay).await;
        self.own[handle].insert(node.id);
        self.note_lease(&node.lease, sent);
        match self.nodes.get_mut(handle) {
            Some(known) => *known = node,
            None => self.nodes.push(node),
        }
    }

    fn note_lease(&mut self, lease: &NodeLease, sent: Instant) {
        self.lease_ends.insert(lease.node, sent + E::LEASE);
        self.leases.insert(lease.node, lease.clone());
        self.note_time();
    }

    /// Takes the leases that have ended out of the model.
    fn note_time(&mut self) {
        let now = Instant::now();
        self.lease_ends.retain(|_, end| *end > now);
        self.model.alive = self.lease_ends.keys().copied().collect();
    }

    /// Lets time pass while the other nodes renew their leases.
    async fn wait_except(&mut self, time: Duration, silent: Option<usize>) {
        let until = Instant::now() + time;
        loop {
            self.engine.wait((until - Instant::now()).min(E::LEASE / 3)).await;
            // Nothing takes time between the end of a lease and what comes next.
            if Instant::now() >= until {
                break;
            }
            for node in (0..HANDLES).filter(|node| Some(*node) != silent) {
                self.note_time();
                // Renewals take time, too.
                if self.lease_ends.contains_key(&self.nodes[node].id) && Instant::now() + E::LEASE / 6 < until
                {
                    self.renew(node).await;
                }
            }
        }
        self.note_time();
    }

    /// Owner as this handle would name itself: with the present epoch if it owns the session, else with its last one.
    fn as_owner(&self, by: usize) -> SessionOwner {
        let owned = self.model.owners.values().filter(|owner| owner.node == self.nodes[by].id);
        owned.last().copied().unwrap_or_else(|| self.nodes[by].first())
    }

    async fn step(&mut self, step: &ModelStep) {
        self.note_time();
        let me = |by: usize| self.as_owner(by);
        let write = match step {
            ModelStep::Reserve { by } => {
                let last = self.model.owners.values().last();
                let owner = match last {
                    // Only the process that owned a lost session restores it, with the next epoch.
                    Some(last) if self.model.session.is_none() => {
                        if !self.own[*by].contains(&last.node) {
                            return;
                        }
                        last.next(self.nodes[*by].id)
                    }
                    _ => self.nodes[*by].first(),
                };
                SessionWrite::Reserve { by: *by, owner }
            }
            ModelStep::Adopt { by, epochs_ago } => {
                let epoch =
                    self.model.owners.keys().last().map_or(1, |last| last.saturating_sub(*epochs_ago));
                let Some(dead) = self.model.owners.get(&epoch) else { return };
                SessionWrite::Adopt { by: *by, dead: *dead, me: self.nodes[*by].id }
            }
            ModelStep::HandOver { by, to } => {
                SessionWrite::HandOver { by: *by, me: me(*by), target: self.nodes[*to].id }
            }
            ModelStep::Append { by, skip, answers } => {
                let open = SessionWrite::OpenStream { by: *by, me: me(*by) };
                self.send(open).await;
                let stream = self.model.session.as_ref().and_then(|session| session.stream.as_ref());
                let next = stream.map_or(1, |stream| stream.events.len() as u64 + 1);
                let me = self.as_owner(*by);
                SessionWrite::Append { by: *by, me, sequence: next + skip, answers: *answers }
            }
            ModelStep::Touch { by } => SessionWrite::Touch { by: *by, me: me(*by) },
            ModelStep::Close { by } => SessionWrite::Close { by: *by, me: me(*by) },
            ModelStep::Late { earlier } => {
                if self.sent.is_empty() {
                    return;
                }
                let write = self.sent[earlier.index(self.sent.len())].clone();
                return self.send_once(&write).await;
            }
            ModelStep::Read { by, after } => return self.read(*by, *after).await,
            ModelStep::Renew { by } => return self.renew(*by).await,
            ModelStep::Expire { node } => return self.expire(*node).await,
            ModelStep::Rejoin { node } => return self.rejoin(*node).await,
            ModelStep::Replace { lose } => return self.replace(*lose).await,
        };
        self.send(write).await;
    }

    /// Sends a write, and then its repeat.
    async fn send(&mut self, write: SessionWrite) {
        self.send_once(&write).await;
        self.send_once(&write).await;
        self.sent.push(write);
    }

    async fn send_once(&mut self, write: &SessionWrite) {
        let by = write.by();
        let is_foreign =
            matches!(write, SessionWrite::Adopt { dead, .. } if !self.own[by].contains(&dead.node));
        let relay = Arc::clone(&self.nodes[by].relay);
        let session = self.session;
        let answer = match is_foreign {
            true => self.certain(async || perform_write(&*relay, &session, write).await).await,
            false => perform_write(&*relay, &session, write)
                .await
                .unwrap_or_else(|error| panic!("{write:?}: {error}")),
        };
        let owner_before = self.model.owners.len();
        let expected = self.model.apply(write);
        assert_eq!(answer, expected, "{write:?}");
        if let SessionWrite::Adopt { dead, .. } = write
            && is_foreign
            && E::HAS_REAL_LEASES
            && self.model.owners.len() > owner_before
        {
            let lease = &self.leases[&dead.node];
            assert!(!lease.is_valid(Instant::now()), "{write:?}: the owner still counts on its lease");
        }
    }

    /// Repeats an operation until its answer is not in doubt, which must not be too early.
    async fn certain<T>(&mut self, operation: impl AsyncFn() -> Result<T, RelayError>) -> T {
        for _ in 0..MAX_TRIES {
            self.note_time();
            match operation().await {
                Err(RelayError::Recovering { retry_in }) => {
                    assert!(retry_in <= E::WINDOW, "{retry_in:?}");
                    self.wait_except(retry_in, None).await;
                }
                answer => {
                    assert!(Instant::now() >= self.doubtful_until, "certain too early");
                    return answer.unwrap_or_else(|error| panic!("{error}"));
                }
            }
        }
        panic!("the engine stays in doubt")
    }

    /// Compares what a node reads with the model.
    async fn read(&mut self, by: usize, after: u64) {
        let relay = Arc::clone(&self.nodes[by].relay);
        let session = self.session;
        let is_missing = self.model.session.is_none();
        let found = match is_missing {
            true => self.certain(async || relay.find(&session).await).await,
            false => relay.find(&session).await.unwrap(),
        };
        let known = self.model.session.as_ref();
        assert_eq!(found.as_ref().map(|found| found.owner), known.map(|known| known.owner));
        let is_closed = found.is_some_and(|found| found.state == SessionState::Closed);
        assert_eq!(is_closed, known.is_some_and(|known| known.is_closed));
        let stream = known.and_then(|known| known.stream.clone());
        let after = stream.iter().flat_map(|stream| &stream.events).nth(after.saturating_sub(1) as usize);
        let after = after.map_or_else(EventPosition::default, |event| event.1);
        let read = async || relay.read(&session, STREAM, after, 100).await;
        let page = if stream.is_none() { self.certain(read).await } else { read().await.unwrap() };
        assert_eq!(page.is_some(), stream.is_some());
        let (Some(page), Some(stream)) = (page, stream) else { return };
        let positions: Vec<_> = page.events.iter().map(|event| event.position).collect();
        assert!(positions.is_sorted_by(|a, b| a < b), "ids do not rise: {positions:?}");
        let (kept, _) = stream.kept(test_settings().limits.max_stream_events);
        let unread = kept.iter().filter(|(_, position)| *position > after);
        let events = page.events.iter().map(|event| (event.payload.clone(), event.position));
        assert_eq!(events.collect::<Vec<_>>(), unread.cloned().collect::<Vec<_>>());
        // What was dropped after the position is announced.
        let dropped = &stream.events[..stream.events.len() - kept.len()];
        assert_eq!(page.is_trimmed, dropped.iter().any(|(_, position)| *position > after));
        let pending = &relay.streams(&session).await.unwrap()[0].pending;
        let pending: BTreeSet<usize> = pending.iter().map(|answer| answer.request.parse().unwrap()).collect();
        assert_eq!(pending, stream.pending);
    }

    async fn renew(&mut self, by: usize) {
        let sent = Instant::now();
        let node = &self.nodes[by];
        let is_alive = self.lease_ends.contains_key(&node.id);
        match node.relay.renew(&node.lease).await {
            Ok(lease) => {
                assert!(is_alive, "a dead node was revived");
                self.nodes[by].lease = lease.clone();
                self.note_lease(&lease, sent);
            }
            Err(error) => {
                assert_eq!(error, RelayError::Gone);
                assert!(!is_alive, "a living node was declared dead");
            }
        }
    }

    async fn expire(&mut self, node: usize) {
        let id = self.nodes[node].id;
        if !self.model.alive.contains(&id) {
            return;
        }
        if E::HAS_REAL_LEASES {
            let left = self.lease_ends[&id] - Instant::now();
            self.wait_except(left, Some(node)).await;
        } else {
            self.engine.end_lease(&self.nodes[node]).await;
            self.lease_ends.remove(&id);
        }
        self.note_time();
    }

    async fn rejoin(&mut self, node: usize) {
        if !self.model.alive.contains(&self.nodes[node].id) {
            self.join(node, Arc::clone(&self.nodes[node].relay)).await;
        }
    }

    async fn replace(&mut self, lose: bool) {
        self.engine.replace(&self.nodes, lose).await;
        self.lease_ends.clear();
        self.doubtful_until = Instant::now() + E::WINDOW;
        if lose {
            self.model.session = None;
        }
        self.note_time();
    }
}

/// Runs a sequence. Panics where the engine differs from the model.
async fn run<E: ModelEngine>(engine: E, name: &str, steps: &[ModelStep]) {
    let mut run = ModelRun::new(engine, name).await;
    for step in steps {
        run.step(step).await;
    }
    for handle in 0..HANDLES {
        run.note_time();
        run.read(handle, 0).await;
    }
}
