//! Random sequences of operations on one session, compared with a model, on both engines.
//!
//! Three handles act as nodes. A handle that was declared dead joins again under a new id. Every write may be repeated
//! at once, as after a lost answer, and any earlier write may arrive again later, as after a long delay.

mod sequential;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hospes_fleet::redis::RedisRelay;
use hospes_fleet::session::{NewSession, SessionChange, SessionKey, SessionOwner, SessionState};
use hospes_fleet::stream::{
    AppendResult, EventKind, EventPosition, NewEvent, NewStream, PendingAnswer, StreamNumber,
};
use hospes_fleet::{MemoryRelay, MemoryStore, Relay, RelayError};
use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use self::sequential::{REQUESTS, SessionModel, SessionWrite, WriteAnswer, payload};
use crate::broken::{AlteredRelay, RelayMutation};
use crate::fixture::{TestNode, fleet_keys, redis_settings, test_settings};

const STREAM: StreamNumber = StreamNumber { epoch: 1, counter: 1 };
const HANDLES: usize = 3;

/// Lifetime that does not end while leases do, again and again.
const LONG_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// Step of a sequence. Numbers are handles, or offsets to what the model expects.
#[derive(Clone, Debug)]
enum ModelStep {
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
    Close {
        by: usize,
    },
    Renew {
        by: usize,
    },
    /// The lease of a node ends.
    Expire {
        node: usize,
    },
    /// A node whose lease has ended joins under a new id.
    Rejoin {
        node: usize,
    },
    /// The engine is replaced, with or without its data.
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
        1 => by().prop_map(|by| ModelStep::Close { by }),
        2 => by().prop_map(|by| ModelStep::Renew { by }),
        3 => by().prop_map(|node| ModelStep::Expire { node }),
        2 => by().prop_map(|node| ModelStep::Rejoin { node }),
        1 => any::<bool>().prop_map(|lose| ModelStep::Replace { lose }),
        4 => any::<prop::sample::Index>().prop_map(|earlier| ModelStep::Late { earlier }),
    ];
    prop::collection::vec(step, 1..40)
}

/// Engine whose leases end, and which is replaced, when a test says so.
trait ModelEngine {
    fn relay(&self) -> Arc<dyn Relay>;

    /// Ends the lease of this node, as its time would; those of the others go on.
    async fn expire(&self, node: &TestNode, others: &[&TestNode]);

    /// Replaces the engine. Leases are lost even if sessions are kept, as if they had been taken a moment ago.
    async fn replace(&self, lose: bool);
}

/// Session, handles and the model.
struct ModelRun<E> {
    engine: E,
    session: SessionKey,
    nodes: Vec<TestNode>,
    model: SessionModel,
    sent: Vec<SessionWrite>,
}

impl<E: ModelEngine> ModelRun<E> {
    async fn new(engine: E, name: &str) -> Self {
        let mut run = Self {
            session: SessionKey::new(None, name),
            nodes: Vec::new(),
            model: SessionModel::default(),
            sent: Vec::new(),
            engine,
        };
        for _ in 0..HANDLES {
            let node = TestNode::join(run.engine.relay()).await;
            run.model.alive.insert(node.id);
            run.nodes.push(node);
        }
        run
    }

    /// Owner as this handle would name itself: with the present epoch if it owns the session, else with its last one.
    fn as_owner(&self, by: usize) -> SessionOwner {
        let owned = self.model.owners.values().filter(|owner| owner.node == self.nodes[by].id);
        owned.last().copied().unwrap_or_else(|| self.nodes[by].first())
    }

    async fn step(&mut self, step: &ModelStep) {
        let me = |by: usize| self.as_owner(by);
        let write = match step {
            ModelStep::Reserve { by } => SessionWrite::Reserve { by: *by, owner: self.nodes[*by].first() },
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
            ModelStep::Close { by } => SessionWrite::Close { by: *by, me: me(*by) },
            ModelStep::Late { earlier } => {
                if self.sent.is_empty() {
                    return;
                }
                let write = self.sent[earlier.index(self.sent.len())].clone();
                return self.send_once(&write).await;
            }
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
        let expected = self.model.apply(write);
        let answer = self.perform(write).await;
        assert_eq!(answer, expected, "{write:?}");
    }

    async fn perform(&self, write: &SessionWrite) -> WriteAnswer {
        let answer = match write {
            SessionWrite::Reserve { by, owner } => {
                let record = NewSession::pending(*b"").with_state(SessionState::Active);
                let reserved =
                    self.nodes[*by].relay.reserve(&self.session, owner, &record, LONG_LIFETIME).await;
                reserved.map(|()| WriteAnswer::Done)
            }
            SessionWrite::Adopt { by, dead, me } => {
                // The engine notices with an adoption that it was replaced; the window of this test has no length.
                let adopted = eventually("the recovery window ends", async || {
                    match self.nodes[*by].relay.adopt(&self.session, dead, me).await {
                        Err(RelayError::Recovering { retry_in: Duration::ZERO }) => None,
                        adopted => Some(adopted),
                    }
                });
                adopted.await.map(|session| WriteAnswer::Owned(session.owner))
            }
            SessionWrite::HandOver { by, me, target } => {
                self.nodes[*by].relay.hand_over(&self.session, me, target).await.map(WriteAnswer::Owned)
            }
            SessionWrite::OpenStream { by, me } => {
                let pending = REQUESTS.map(|request| PendingAnswer::new(request, *b""));
                let stream = NewStream::of_requests(STREAM, pending.to_vec());
                let opened = self.nodes[*by].relay.open_stream(&self.session, me, &stream).await;
                opened.map(|_| WriteAnswer::Done)
            }
            SessionWrite::Append { by, me, sequence, answers } => {
                let kind = answers.map_or(EventKind::Message, |request| EventKind::Answer(REQUESTS[request]));
                let payload = payload(*sequence, *answers);
                let event = NewEvent::new(*sequence, kind, &payload);
                let appended = self.nodes[*by].relay.append(&self.session, me, STREAM, &event).await;
                appended.map(|appended| match appended {
                    AppendResult::At(position) => WriteAnswer::Appended(position.sequence),
                    _ => WriteAnswer::AlreadyAnswered,
                })
            }
            SessionWrite::Close { by, me } => {
                let close = [SessionChange::State(SessionState::Closed)];
                self.nodes[*by].relay.change(&self.session, me, &close).await.map(|()| WriteAnswer::Done)
            }
        };
        answer.unwrap_or_else(|error| match error {
            RelayError::Fenced { now } => WriteAnswer::Fenced(now),
            RelayError::Gone => WriteAnswer::Gone,
            RelayError::OutOfOrder { expected } => WriteAnswer::OutOfOrder(expected),
            error => panic!("{write:?}: {error}"),
        })
    }

    async fn renew(&mut self, by: usize) {
        let node = &mut self.nodes[by];
        match node.relay.renew(&node.lease).await {
            Ok(lease) => {
                assert!(self.model.alive.contains(&node.id), "a dead node was revived");
                node.lease = lease;
            }
            Err(error) => {
                assert_eq!(error, RelayError::Gone);
                assert!(!self.model.alive.contains(&node.id), "a living node was declared dead");
            }
        }
    }

    async fn expire(&mut self, node: usize) {
        if self.model.alive.remove(&self.nodes[node].id) {
            let alive = self.nodes.iter().filter(|other| self.model.alive.contains(&other.id));
            self.engine.expire(&self.nodes[node], &alive.collect::<Vec<_>>()).await;
        }
    }

    async fn rejoin(&mut self, node: usize) {
        if !self.model.alive.contains(&self.nodes[node].id) {
            self.nodes[node] = TestNode::join(Arc::clone(&self.nodes[node].relay)).await;
            self.model.alive.insert(self.nodes[node].id);
        }
    }

    async fn replace(&mut self, lose: bool) {
        for node in 0..HANDLES {
            self.expire(node).await;
        }
        self.engine.replace(lose).await;
        if lose {
            self.model.session = None;
            self.model.owners.clear();
            // An earlier write could create the session again, under an id that is not known to be dead any more.
            self.sent.clear();
        }
        for node in 0..HANDLES {
            self.rejoin(node).await;
        }
    }

    /// Compares what the engine holds with the model.
    async fn compare(&self) {
        let relay = &self.nodes[0].relay;
        let found = relay.find(&self.session).await.unwrap();
        let known = self.model.session.as_ref();
        assert_eq!(found.as_ref().map(|found| found.owner), known.map(|known| known.owner));
        let is_closed = found.is_some_and(|found| found.state == SessionState::Closed);
        assert_eq!(is_closed, known.is_some_and(|known| known.is_closed));
        let page = relay.read(&self.session, STREAM, EventPosition::default(), 100).await.unwrap();
        let stream = known.and_then(|known| known.stream.as_ref());
        assert_eq!(page.is_some(), stream.is_some());
        let (Some(page), Some(stream)) = (page, stream) else { return };
        // The engine keeps the last few.
        let kept = stream.events.len().saturating_sub(test_settings().limits.max_stream_events);
        let events = page.events.iter().map(|event| (event.payload.clone(), event.position));
        assert_eq!(events.collect::<Vec<_>>(), stream.events[kept..]);
        assert_eq!(page.is_trimmed, kept > 0);
        let pending = &relay.streams(&self.session).await.unwrap()[0].pending;
        let pending: BTreeSet<usize> = pending.iter().map(|answer| answer.request.parse().unwrap()).collect();
        assert_eq!(pending, stream.pending);
    }
}

async fn run<E: ModelEngine>(engine: E, name: &str, steps: &[ModelStep]) {
    let mut run = ModelRun::new(engine, name).await;
    for step in steps {
        run.step(step).await;
    }
    run.compare().await;
}

struct MemoryEngine {
    store: Arc<MemoryStore>,
    mutation: Option<RelayMutation>,
}

impl ModelEngine for MemoryEngine {
    fn relay(&self) -> Arc<dyn Relay> {
        let relay = MemoryRelay::new(Arc::clone(&self.store)).with_lease(Duration::from_secs(60));
        match self.mutation {
            None => Arc::new(relay),
            Some(mutation) => Arc::new(AlteredRelay::broken(Arc::new(relay), mutation)),
        }
    }

    async fn expire(&self, _node: &TestNode, others: &[&TestNode]) {
        for _ in 0..2 {
            tokio::time::advance(Duration::from_secs(30)).await;
            for other in others {
                other.relay.renew(&other.lease).await.unwrap();
            }
        }
    }

    async fn replace(&self, lose: bool) {
        self.store.restart(lose);
    }
}

/// Runs random sequences on engines in memory.
fn run_in_memory(mutation: Option<RelayMutation>) -> Result<(), String> {
    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let checked = runner.run(&steps(), |steps| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let mut settings = test_settings();
        // The clock runs on with each lease that ends.
        settings.tombstone = LONG_LIFETIME;
        let engine = MemoryEngine { store: MemoryStore::new(settings), mutation };
        runtime.unwrap().block_on(run(engine, "s", &steps));
        Ok(())
    });
    checked.map_err(|error| error.to_string())
}

#[test]
fn the_engine_in_memory_behaves_as_the_model() {
    run_in_memory(None).unwrap();
}

#[test]
fn the_model_finds_broken_engines() {
    for mutation in [
        RelayMutation::AdoptWithoutEpoch,
        RelayMutation::AppendWithoutPending,
        RelayMutation::AppendWithoutFence,
    ] {
        run_in_memory(Some(mutation)).expect_err("the engine is broken");
    }
}

struct RedisEngine<'a> {
    server: &'a RedisServer,
    prefix: String,
}

impl ModelEngine for RedisEngine<'_> {
    fn relay(&self) -> Arc<dyn Relay> {
        let settings = redis_settings(&self.server.url(), &self.prefix);
        Arc::new(RedisRelay::new(settings, fleet_keys()).unwrap())
    }

    async fn expire(&self, node: &TestNode, _others: &[&TestNode]) {
        // The time of one lease cannot be moved, so an administrator ends it.
        let ended: u32 = self.server.command(&["PEXPIRE", &format!("{}n:{}", self.prefix, node.id), "-1"]);
        assert_eq!(ended, 1);
    }

    async fn replace(&self, lose: bool) {
        // The process and its connections stay, and the history of writes is another one, as after a failover.
        let () = self.server.command(&["DEBUG", "CHANGE-REPL-ID"]);
        if lose {
            let () = self.server.command(&["FLUSHALL"]);
            let () = self.server.command(&["SCRIPT", "FLUSH"]);
        }
    }
}

#[test]
fn the_engine_on_redis_behaves_as_the_model() {
    let server = RedisServer::start(RedisOptions::default());
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let count = std::cell::Cell::new(0);
    let checked = runner.run(&steps(), |steps| {
        count.set(count.get() + 1);
        let engine = RedisEngine { server: &server, prefix: format!("m{}:", count.get()) };
        runtime.block_on(run(engine, "s", &steps));
        Ok(())
    });
    checked.unwrap();
}
