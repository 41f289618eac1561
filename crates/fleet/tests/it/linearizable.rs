//! Concurrent operations on one session, over links that delay and cut, are linearizable: their histories are possible
//! for the model of the random sequences.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use hospes_fleet::node::NodeId;
use hospes_fleet::redis::RedisRelay;
use hospes_fleet::session::{SessionKey, SessionOwner};
use hospes_fleet::stream::{EventPage, EventPosition};
use hospes_fleet::{MemoryRelay, MemoryStore, Relay, RelayError};
use hospes_fleet_testkit::history::{InvocationTime, OperationHistory, SequentialModel};
use hospes_fleet_testkit::net_proxy::{LinkDirection, LinkRules, NetProxy};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};

use crate::broken::{AlteredRelay, RelayMutation};
use crate::fixture::{TestNode, fleet_keys, redis_settings, test_settings};
use crate::model::{REQUESTS, STREAM, SessionModel, SessionWrite, WriteAnswer, perform_write};

/// Number of operations of a node in one history.
const OPERATIONS: usize = 12;

/// Operation on the session, with its answer if that is known.
#[derive(Debug)]
enum DirectoryOperation {
    Find { answer: Option<SessionOwner> },
    Read { answer: Option<EventPage> },
    Write { write: SessionWrite, answer: Option<WriteAnswer> },
}

/// The model of the random sequences as a sequential object. All nodes but one are alive throughout.
struct DirectoryModel;

impl SequentialModel for DirectoryModel {
    type State = SessionModel;
    type Operation = DirectoryOperation;

    fn apply(&self, now: &SessionModel, operation: &DirectoryOperation) -> Option<SessionModel> {
        let session = now.session.as_ref();
        match operation {
            DirectoryOperation::Find { answer } => {
                let owner = session.map(|session| session.owner);
                (answer.is_none() || *answer == owner).then(|| now.clone())
            }
            DirectoryOperation::Read { answer } => {
                let stream = session.and_then(|session| session.stream.as_ref());
                let is_possible = match (answer, stream) {
                    (None, _) => true,
                    (Some(_), None) => false,
                    (Some(page), Some(stream)) => {
                        let (kept, is_trimmed) = stream.kept(test_settings().limits.max_stream_events);
                        let events = page.events.iter().map(|event| (&event.payload, event.position));
                        page.is_trimmed == is_trimmed
                            && events.eq(kept.iter().map(|(payload, position)| (payload, *position)))
                    }
                };
                is_possible.then(|| now.clone())
            }
            DirectoryOperation::Write { write, answer } => {
                let mut after = now.clone();
                let expected = after.apply(write);
                answer.as_ref().is_none_or(|answer| *answer == expected).then_some(after)
            }
        }
    }
}

/// State of the session as an acting node has seen it last, which may be old.
struct SeenSession {
    owner: SessionOwner,
    next: u64,
}

impl SeenSession {
    fn note(&mut self, answer: &WriteAnswer) {
        match answer {
            WriteAnswer::Owned(owner) | WriteAnswer::Fenced(Some(owner)) => self.owner = *owner,
            WriteAnswer::Appended(sequence) => self.next = sequence + 1,
            WriteAnswer::OutOfOrder(expected) => self.next = *expected,
            _ => (),
        }
    }
}

/// Steps of one node, from a seed: it acts on what it has seen last.
async fn act(
    relay: &dyn Relay,
    session: &SessionKey,
    nodes: &[NodeId],
    by: usize,
    seed: u64,
    history: &OperationHistory<DirectoryOperation>,
) {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % limit as u64).unwrap()
    };
    let mut seen = SeenSession { owner: SessionOwner::first(nodes[0]), next: 1 };
    for _ in 0..OPERATIONS {
        let me = seen.owner;
        let write = match below(10) {
            0 => {
                let invocation = history.invoke();
                match relay.find(session).await {
                    Ok(found) => {
                        seen.owner = found.unwrap().owner;
                        history.finish(invocation, DirectoryOperation::Find { answer: Some(seen.owner) });
                    }
                    Err(error) => {
                        lost(&error, history, invocation, DirectoryOperation::Find { answer: None })
                    }
                }
                continue;
            }
            1 => {
                let invocation = history.invoke();
                match relay.read(session, STREAM, EventPosition::default(), 100).await {
                    Ok(page) => history.finish(invocation, DirectoryOperation::Read { answer: page }),
                    Err(error) => {
                        lost(&error, history, invocation, DirectoryOperation::Read { answer: None })
                    }
                }
                continue;
            }
            2 => SessionWrite::Touch { by, me },
            3..=4 => SessionWrite::HandOver { by, me, target: nodes[below(nodes.len())] },
            5..=6 => SessionWrite::Adopt { by, dead: me, me: nodes[by] },
            _ => {
                let answers = Some(below(REQUESTS.len() + 1)).filter(|request| *request < REQUESTS.len());
                SessionWrite::Append { by, me, sequence: seen.next, answers }
            }
        };
        let invocation = history.invoke();
        match perform_write(relay, session, &write).await {
            Ok(answer) => {
                seen.note(&answer);
                history.finish(invocation, DirectoryOperation::Write { write, answer: Some(answer) });
            }
            Err(error) => {
                lost(&error, history, invocation, DirectoryOperation::Write { write, answer: None });
            }
        }
    }
}

fn lost(
    error: &RelayError,
    history: &OperationHistory<DirectoryOperation>,
    invocation: InvocationTime,
    operation: DirectoryOperation,
) {
    match error {
        RelayError::Unavailable(fault) if fault.is_refusal() => (),
        RelayError::Unavailable(_) => history.lose(invocation, operation),
        error => panic!("{operation:?}: {error}"),
    }
}

/// Runs one history: a session of a node that dies, and three nodes that act at once.
async fn run(relays: &[Arc<dyn Relay>; 3], seed: u64) -> Result<(usize, usize), String> {
    let dead = TestNode::join(Arc::clone(&relays[0])).await;
    let (session, first) = dead.open(&format!("session {seed}")).await;
    let mut nodes = Vec::new();
    for relay in relays {
        nodes.push(TestNode::join(Arc::clone(relay)).await);
    }
    let open = SessionWrite::OpenStream { by: 0, me: first };
    let mut model = SessionModel { alive: BTreeSet::from([dead.id]), ..SessionModel::default() };
    model.apply(&SessionWrite::Reserve { by: 0, owner: first });
    model.apply(&open);
    perform_write(&*dead.relay, &session, &open).await.unwrap();
    dead.die().await;
    model.alive = nodes.iter().map(|node| node.id).collect();
    let ids: Arc<[NodeId]> = [dead.id].into_iter().chain(nodes.iter().map(|node| node.id)).collect();
    let history = Arc::new(OperationHistory::default());
    // Tasks of their own, so that they run at the same time.
    let acting = nodes.iter().enumerate().map(|(index, node)| {
        let (relay, ids, history) = (Arc::clone(&node.relay), Arc::clone(&ids), Arc::clone(&history));
        let seed = seed * 3 + index as u64;
        tokio::spawn(async move { act(&*relay, &session, &ids, index + 1, seed, &history).await })
    });
    join_all(acting).await.into_iter().for_each(Result::unwrap);
    history.check(&DirectoryModel, &model).map(|()| history.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_directory_in_memory_is_linearizable() {
    let store = MemoryStore::new(test_settings());
    let relays = [(); 3].map(|()| -> Arc<dyn Relay> { Arc::new(MemoryRelay::new(Arc::clone(&store))) });
    for seed in 1..200 {
        run(&relays, seed).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_directory_on_redis_is_linearizable() {
    let server = RedisServer::start(RedisOptions::default());
    let mut proxies = Vec::new();
    let mut relays = Vec::new();
    for _ in 0..3 {
        let proxy = NetProxy::to_port(server.port()).await;
        let mut settings = redis_settings(&format!("redis://127.0.0.1:{}", proxy.port()), "l:");
        settings.reconnect_min = Duration::from_millis(2);
        relays.push(Arc::new(RedisRelay::new(settings, fleet_keys()).unwrap()) as Arc<dyn Relay>);
        proxies.push(proxy);
    }
    let relays: [Arc<dyn Relay>; 3] = relays.try_into().unwrap();
    // One link is slow, and another one is cut again and again, so that answers are lost and writes arrive late.
    proxies[1].set(LinkDirection::ToServer, LinkRules::delayed(Duration::from_millis(2)));
    proxies[1].set(LinkDirection::ToClient, LinkRules::delayed(Duration::from_millis(3)));
    let is_done = AtomicBool::new(false);
    let cut = async {
        let mut times = tokio::time::interval(Duration::from_millis(40));
        while !is_done.load(Ordering::SeqCst) {
            times.tick().await;
            proxies[2].reset_connections();
        }
    };
    let histories = async {
        let mut counts = (0, 0);
        for seed in 1..20 {
            // Nodes join over the link that is cut, too.
            let (all, unknown) = run(&relays, seed).await.unwrap();
            counts = (counts.0 + all, counts.1 + unknown);
        }
        is_done.store(true, Ordering::SeqCst);
        counts
    };
    let ((all, unknown), ()) = tokio::join!(histories, cut);
    println!("{all} operations, {unknown} without an answer");
    assert!(unknown > 0, "no answer was lost");
}

/// The checker finds an engine whose adoption reads and writes in two steps, and others.
#[tokio::test(start_paused = true)]
async fn broken_engines_are_not_linearizable() {
    for mutation in [
        RelayMutation::AdoptInTwoSteps,
        RelayMutation::AppendWithoutPending,
        RelayMutation::AppendWithoutFence,
        RelayMutation::HintAsTruth,
    ] {
        let store = MemoryStore::new(test_settings());
        let relays = [(); 3].map(|()| -> Arc<dyn Relay> {
            let relay = Arc::new(MemoryRelay::new(Arc::clone(&store)));
            Arc::new(AlteredRelay::broken(relay, mutation))
        });
        let mut is_found = false;
        for seed in 1..200 {
            is_found |= run(&relays, seed).await.is_err();
            if is_found {
                break;
            }
        }
        assert!(is_found, "no history shows {mutation:?}");
    }
}
