//! Concurrent operations on one session, over links that delay and cut, are linearizable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use hospes_fleet::node::NodeId;
use hospes_fleet::redis::RedisRelay;
use hospes_fleet::session::{SessionKey, SessionOwner};
use hospes_fleet::{MemoryRelay, MemoryStore, Relay, RelayError};
use hospes_fleet_testkit::history::{InvocationTime, OperationHistory, SequentialModel};
use hospes_fleet_testkit::net_proxy::{LinkDirection, LinkRules, NetProxy};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};

use crate::broken::{AlteredRelay, RelayMutation};
use crate::fixture::{TestNode, fleet_keys, redis_settings, test_settings};

/// Number of operations of a node in one history.
const OPERATIONS: usize = 12;

/// Operation on the session, with its answer if that is known.
#[derive(Debug)]
enum DirectoryOperation {
    Find { answer: Option<SessionOwner> },
    HandOver { me: SessionOwner, target: NodeId, answer: Option<WriteResult> },
    Adopt { dead: SessionOwner, me: NodeId, answer: Option<WriteResult> },
    Touch { me: SessionOwner, answer: Option<WriteResult> },
}

/// Answer of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteResult {
    Owner(SessionOwner),
    Fenced(SessionOwner),
}

/// Session as a sequential object: its owner. All nodes but one are alive throughout.
struct DirectoryModel {
    dead: NodeId,
}

impl SequentialModel for DirectoryModel {
    type State = SessionOwner;
    type Operation = DirectoryOperation;

    fn apply(&self, now: &SessionOwner, operation: &DirectoryOperation) -> Option<SessionOwner> {
        let (answer, written, next) = match operation {
            DirectoryOperation::Find { answer } => {
                return answer.is_none_or(|found| found == *now).then_some(*now);
            }
            DirectoryOperation::HandOver { me, target, answer } => {
                let next = me.next(*target);
                (answer, *target != self.dead && (now == me || *now == next), next)
            }
            DirectoryOperation::Adopt { dead, me, answer } => {
                let next = dead.next(*me);
                (answer, *now == next || (*now == *dead && dead.node == self.dead), next)
            }
            DirectoryOperation::Touch { me, answer } => (answer, now == me, *now),
        };
        let (expected, after) =
            if written { (WriteResult::Owner(next), next) } else { (WriteResult::Fenced(*now), *now) };
        answer.is_none_or(|answer| answer == expected).then_some(after)
    }
}

/// Steps of one node, from a seed: it acts on what it has seen last, which may be old.
async fn act(
    relay: &dyn Relay,
    session: &SessionKey,
    nodes: &[NodeId],
    me: usize,
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
    let mut seen = SessionOwner::first(nodes[0]);
    for _ in 0..OPERATIONS {
        let invocation = history.invoke();
        match below(4) {
            0 => match relay.find(session).await {
                Ok(found) => {
                    seen = found.unwrap().owner;
                    history.finish(invocation, DirectoryOperation::Find { answer: Some(seen) });
                }
                Err(error) => lost(&error, history, invocation, DirectoryOperation::Find { answer: None }),
            },
            1 => {
                let done = relay.change(session, &seen, &[]).await.map(|()| seen);
                let me = seen;
                let operation = |answer| DirectoryOperation::Touch { me, answer };
                record(done, history, invocation, operation, &mut seen);
            }
            2 => {
                let target = nodes[below(nodes.len())];
                let done = relay.hand_over(session, &seen, &target).await;
                let me = seen;
                let operation = |answer| DirectoryOperation::HandOver { me, target, answer };
                record(done, history, invocation, operation, &mut seen);
            }
            _ => {
                let done = relay.adopt(session, &seen, &nodes[me]).await.map(|session| session.owner);
                let (dead, me) = (seen, nodes[me]);
                let operation = |answer| DirectoryOperation::Adopt { dead, me, answer };
                record(done, history, invocation, operation, &mut seen);
            }
        }
    }
}

fn record(
    done: Result<SessionOwner, RelayError>,
    history: &OperationHistory<DirectoryOperation>,
    invocation: InvocationTime,
    operation: impl FnOnce(Option<WriteResult>) -> DirectoryOperation,
    seen: &mut SessionOwner,
) {
    match done {
        Ok(owner) => {
            *seen = owner;
            history.finish(invocation, operation(Some(WriteResult::Owner(owner))));
        }
        Err(RelayError::Fenced { now: Some(now) }) => {
            *seen = now;
            history.finish(invocation, operation(Some(WriteResult::Fenced(now))));
        }
        // The dead node is no target.
        Err(RelayError::Fenced { now: None }) => (),
        Err(error) => lost(&error, history, invocation, operation(None)),
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
    dead.die().await;
    let mut ids = vec![dead.id];
    ids.extend(nodes.iter().map(|node| node.id));
    let history = OperationHistory::default();
    let acting = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| act(&*node.relay, &session, &ids, index + 1, seed * 3 + index as u64, &history));
    join_all(acting).await;
    history.check(&DirectoryModel { dead: dead.id }, &first).map(|()| history.len())
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
        for seed in 1..40 {
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

/// The checker finds an engine whose adoption reads and writes in two steps.
#[tokio::test(start_paused = true)]
async fn an_adoption_in_two_steps_is_not_linearizable() {
    let store = MemoryStore::new(test_settings());
    let relays = [(); 3].map(|()| -> Arc<dyn Relay> {
        let relay = Arc::new(MemoryRelay::new(Arc::clone(&store)));
        Arc::new(AlteredRelay::broken(relay, RelayMutation::AdoptInTwoSteps))
    });
    for seed in 1..100 {
        if run(&relays, seed).await.is_err() {
            return;
        }
    }
    panic!("no history shows the broken adoption");
}
