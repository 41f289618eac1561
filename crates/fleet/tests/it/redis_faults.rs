//! Faults of a real server and of the links to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hospes_fleet::node::NodeRecord;
use hospes_fleet::redis::{RedisRelay, RedisSettings};
use hospes_fleet::relay::{EngineFault, RelayHint};
use hospes_fleet::session::{SessionChange, SessionKey, SessionOwner, SessionState};
use hospes_fleet::stream::{
    AppendResult, EventKind, EventPosition, NewEvent, NewStream, PendingAnswer, StreamNumber,
};
use hospes_fleet::{Relay, RelayError};
use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::net_proxy::{LinkDirection, LinkRules, NetProxy};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};

use crate::fixture::{TestNode, fleet_keys, redis_settings};

const STREAM: StreamNumber = StreamNumber { epoch: 1, counter: 1 };
const START: EventPosition = EventPosition { epoch: 0, sequence: 0 };

fn quick_settings(port: u16) -> RedisSettings {
    let mut settings = redis_settings(&format!("redis://127.0.0.1:{port}"), "h:");
    settings.response_timeout = Duration::from_millis(400);
    settings.probe_interval = Duration::from_millis(100);
    settings.reconnect_max = Duration::from_millis(100);
    settings
}

async fn node(settings: RedisSettings) -> TestNode {
    TestNode::join(Arc::new(RedisRelay::new(settings, fleet_keys()).unwrap())).await
}

/// Session with a stream that owes an answer to the request `1`.
async fn session_with_stream(node: &TestNode) -> (SessionKey, SessionOwner) {
    let (session, owner) = node.open("s").await;
    let stream = NewStream::of_requests(STREAM, vec![PendingAnswer::new("1", *b"")]);
    node.relay.open_stream(&session, &owner, &stream).await.unwrap();
    (session, owner)
}

async fn append(
    node: &TestNode,
    session: &SessionKey,
    owner: &SessionOwner,
    sequence: u64,
) -> Result<AppendResult, RelayError> {
    let event = NewEvent::new(sequence, EventKind::Message, b"event");
    node.relay.append(session, owner, STREAM, &event).await
}

/// Appends until it succeeds, as a caller does whose answer was lost.
async fn append_until_done(node: &TestNode, session: &SessionKey, owner: &SessionOwner, sequence: u64) {
    eventually("the event is appended", async || match append(node, session, owner, sequence).await {
        Err(RelayError::Unavailable(_)) => None,
        appended => {
            assert!(matches!(appended, Ok(AppendResult::At(_))), "{appended:?}");
            Some(())
        }
    })
    .await;
}

async fn event_count(node: &TestNode, session: &SessionKey) -> usize {
    let page =
        eventually("the stream is read", async || node.relay.read(session, STREAM, START, 100).await.ok());
    page.await.unwrap().events.len()
}

#[tokio::test]
async fn a_killed_server_fails_operations_at_once_and_heals() {
    let mut options = RedisOptions::default();
    options.append_only = true;
    let mut server = RedisServer::start(options);
    let node = node(quick_settings(server.port())).await;
    let (session, owner) = session_with_stream(&node).await;
    append(&node, &session, &owner, 1).await.unwrap();
    server.kill();
    eventually("the link is down", async || {
        (append(&node, &session, &owner, 2).await == Err(RelayError::Unavailable(EngineFault::NotConnected)))
            .then_some(())
    })
    .await;
    // Nothing waits for a server that is gone.
    let start = Instant::now();
    for _ in 0..100 {
        assert!(append(&node, &session, &owner, 2).await.is_err());
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    server.restart();
    append_until_done(&node, &session, &owner, 2).await;
    assert_eq!(event_count(&node, &session).await, 2);
    // The lease was kept with the data, and its time was not up.
    eventually("the lease is extended", async || node.relay.renew(&node.lease).await.ok()).await;
}

/// A server that is reading its data lacks some of it, which must not be taken for certain.
#[tokio::test]
async fn a_loading_server_is_unavailable_and_misses_nothing() {
    let mut options = RedisOptions::default();
    options.append_only = true;
    let mut server = RedisServer::start(options);
    let mut settings = quick_settings(server.port());
    settings.relay.recovery_window = Duration::ZERO;
    let node = node(settings).await;
    let (session, _) = node.open("s").await;
    // The server looks at its connections after each thousand of commands.
    let fill = "for number = 1, 20000 do redis.call('SET', 'filler', number) end";
    let () = server.command(&["EVAL", fill, "0"]);
    server.restart_loading(Duration::from_micros(200));
    let mut was_loading = false;
    eventually("the session is found", async || match node.relay.find(&session).await {
        Ok(found) => Some(found.unwrap()),
        Err(RelayError::Unavailable(fault)) => {
            was_loading |= fault == EngineFault::Loading;
            None
        }
        Err(error) => panic!("{error}"),
    })
    .await;
    assert!(was_loading);
}

#[tokio::test]
async fn a_stopped_server_is_unavailable_until_it_goes_on() {
    let server = RedisServer::start(RedisOptions::default());
    let proxy = NetProxy::to_port(server.port()).await;
    let node = node(quick_settings(proxy.port())).await;
    let (session, owner) = session_with_stream(&node).await;
    server.pause();
    assert_eq!(append(&node, &session, &owner, 1).await, Err(RelayError::Unavailable(EngineFault::Timeout)));
    let connections = proxy.accepted();
    eventually("the node has connected anew, more than once", async || {
        assert!(append(&node, &session, &owner, 1).await.is_err());
        (proxy.accepted() > connections + 1).then_some(())
    })
    .await;
    server.resume();
    // The writes that the server had received take effect now, before or after the repeat.
    append_until_done(&node, &session, &owner, 1).await;
    append_until_done(&node, &session, &owner, 2).await;
    assert_eq!(event_count(&node, &session).await, 2);
    eventually("the lease is extended", async || node.relay.renew(&node.lease).await.ok()).await;
}

#[tokio::test]
async fn a_pause_within_the_time_limit_delays_operations() {
    let server = RedisServer::start(RedisOptions::default());
    let proxy = NetProxy::to_port(server.port()).await;
    let mut settings = redis_settings(&format!("redis://127.0.0.1:{}", proxy.port()), "h:");
    settings.response_timeout = Duration::from_secs(20);
    let node = node(settings).await;
    let (session, owner) = session_with_stream(&node).await;
    let connections = proxy.accepted();
    let () = server.command(&["CLIENT", "PAUSE", "1000", "ALL"]);
    let start = Instant::now();
    append(&node, &session, &owner, 1).await.unwrap();
    assert!(start.elapsed() > Duration::from_millis(500), "{:?}", start.elapsed());
    assert_eq!(proxy.accepted(), connections);
}

#[tokio::test]
async fn a_lost_answer_leaves_one_event() {
    let server = RedisServer::start(RedisOptions::default());
    let proxy = NetProxy::to_port(server.port()).await;
    let node = node(quick_settings(proxy.port())).await;
    let (session, owner) = session_with_stream(&node).await;
    // The server knows the script from now on.
    append(&node, &session, &owner, 1).await.unwrap();
    proxy.set(LinkDirection::ToClient, LinkRules::silent());
    assert_eq!(append(&node, &session, &owner, 2).await, Err(RelayError::Unavailable(EngineFault::Timeout)));
    let length = |stream: &str| server.command::<u32>(&["XLEN", &format!("h:s:{{{session}}}:e:{stream}")]);
    assert_eq!(length("1.1"), 2, "the event was appended, and its answer was lost");
    proxy.heal();
    append_until_done(&node, &session, &owner, 2).await;
    assert_eq!(event_count(&node, &session).await, 2);
}

/// A connection that falls silent is found by its probes, for data, leases and received hints alike.
#[tokio::test]
async fn a_silent_connection_is_replaced_without_operations() {
    let server = RedisServer::start(RedisOptions::default());
    let proxy = NetProxy::to_port(server.port()).await;
    let listener = node(quick_settings(proxy.port())).await;
    let speaker = node(quick_settings(server.port())).await;
    let mut hints = listener.relay.hints();
    let hear = async |hints: &mut tokio::sync::broadcast::Receiver<RelayHint>| {
        eventually("a hint arrives", async || {
            speaker.relay.hint(RelayHint::new("approval", "ann"));
            tokio::time::timeout(Duration::from_millis(20), hints.recv()).await.ok()
        })
        .await
    };
    hear(&mut hints).await.unwrap();
    let connections = proxy.accepted();
    assert_eq!(connections, 5, "two for data, one each for leases, hints and received hints");
    proxy.half_open_connections();
    eventually("all connections are replaced", async || (proxy.accepted() >= 2 * connections).then_some(()))
        .await;
    while hints.try_recv().is_ok() {}
    hear(&mut hints).await.unwrap();
    eventually("the lease is extended", async || listener.relay.renew(&listener.lease).await.ok()).await;
}

#[tokio::test]
async fn a_server_without_memory_refuses_whole_operations() {
    let server = RedisServer::start(RedisOptions::default());
    let (node, other) =
        (node(quick_settings(server.port())).await, node(quick_settings(server.port())).await);
    let (session, owner) = session_with_stream(&node).await;
    let set = |bytes: &str| server.command::<()>(&["CONFIG", "SET", "maxmemory", bytes]);
    set("1");
    let answer = NewEvent::new(1, EventKind::Answer("1"), b"answer");
    let refused = RelayError::Unavailable(EngineFault::OutOfMemory);
    assert_eq!(node.relay.append(&session, &owner, STREAM, &answer).await, Err(refused.clone()));
    assert!(matches!(refused, RelayError::Unavailable(fault) if fault.is_refusal()));
    let body = [SessionChange::Body(b"new".to_vec())];
    assert_eq!(node.relay.change(&session, &owner, &body).await, Err(refused));
    // The request is still pending: nothing was applied in part.
    assert_eq!(node.relay.streams(&session).await.unwrap()[0].pending.len(), 1);
    // What keeps owners alive, or ends things, goes on.
    node.relay.renew(&node.lease).await.unwrap();
    let owner = node.relay.hand_over(&session, &owner, &other.id).await.unwrap();
    other.relay.leave(&other.lease).await.unwrap();
    let owner = node.relay.adopt(&session, &owner, &node.id).await.unwrap().owner;
    set("0");
    assert!(matches!(node.relay.append(&session, &owner, STREAM, &answer).await, Ok(AppendResult::At(_))));
    set("1");
    let close = [SessionChange::State(SessionState::Closed)];
    node.relay.change(&session, &owner, &close).await.unwrap();
}

#[tokio::test]
async fn a_server_without_its_replicas_refuses_renewals() {
    let server = RedisServer::start(RedisOptions::default());
    let node = node(quick_settings(server.port())).await;
    let set = |count: &str| server.command::<()>(&["CONFIG", "SET", "min-replicas-to-write", count]);
    set("1");
    let refused = Err(RelayError::Unavailable(EngineFault::WritesRefused));
    assert_eq!(node.relay.renew(&node.lease).await, refused);
    let record = NodeRecord::new(node.id, "127.0.0.1:2");
    assert_eq!(node.relay.announce(&node.lease, &record).await.map(|()| node.lease.clone()), refused);
    set("0");
    node.relay.renew(&node.lease).await.unwrap();
}

#[tokio::test]
async fn a_demoted_server_is_not_used_until_it_is_primary_again() {
    let (server, primary) =
        (RedisServer::start(RedisOptions::default()), RedisServer::start(RedisOptions::default()));
    let mut settings = quick_settings(server.port());
    settings.relay.recovery_window = Duration::from_millis(300);
    let node = node(settings).await;
    eventually("the first window ends", async || {
        node.relay.health().await.unwrap().recovering.is_none().then_some(())
    })
    .await;
    let (session, owner) = node.open("s").await;
    let () = server.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    let refused = node.relay.change(&session, &owner, &[]).await;
    assert_eq!(refused, Err(RelayError::Unavailable(EngineFault::ReadOnly)));
    eventually("the link is down", async || {
        let found = node.relay.find(&session).await;
        (found == Err(RelayError::Unavailable(EngineFault::ReadOnly))).then_some(())
    })
    .await;
    let key = format!("h:s:{{{session}}}");
    eventually("the data of the other server", async || {
        (server.command::<u32>(&["EXISTS", &key]) == 0).then_some(())
    })
    .await;
    server.promote();
    // It has the data of the other server now, so the session is missing, and that is in doubt.
    eventually("the session is in doubt", async || {
        matches!(node.relay.find(&session).await, Err(RelayError::Recovering { .. })).then_some(())
    })
    .await;
    eventually("the session is known to be missing", async || {
        (node.relay.find(&session).await == Ok(None)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn forgotten_scripts_are_sent_again() {
    let server = RedisServer::start(RedisOptions::default());
    let node = node(quick_settings(server.port())).await;
    let (session, owner) = session_with_stream(&node).await;
    for sequence in 1..=3 {
        let () = server.command(&["SCRIPT", "FLUSH"]);
        append(&node, &session, &owner, sequence).await.unwrap();
    }
}

#[tokio::test]
async fn hints_that_cannot_be_sent_are_counted_and_dropped() {
    let mut server = RedisServer::start(RedisOptions::default());
    let mut settings = quick_settings(server.port());
    settings.relay.limits.hint_queue = 10;
    let node = node(settings).await;
    server.kill();
    for _ in 0..1_000 {
        node.relay.hint(RelayHint::new("approval", "ann"));
    }
    server.restart();
    let health = eventually("the server answers", async || node.relay.health().await.ok()).await;
    assert!(health.dropped_hints >= 900, "{health:?}");
}

/// Connects where nobody answers, and to a closed port.
#[tokio::test]
async fn an_absent_server_is_no_reason_to_wait() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = silent.local_addr().unwrap();
    let mut settings = quick_settings(address.port());
    settings.connect_timeout = Duration::from_millis(100);
    let relay = RedisRelay::new(settings, fleet_keys()).unwrap();
    let unavailable = Err(RelayError::Unavailable(EngineFault::NotConnected));
    assert_eq!(relay.find(&SessionKey::new(None, "s")).await, unavailable);
    drop(silent);
    assert_eq!(relay.find(&SessionKey::new(None, "s")).await, unavailable);
}
