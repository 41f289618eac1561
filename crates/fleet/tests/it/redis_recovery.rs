//! Restarts and failovers: what is in doubt, for how long, and who may take what at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hospes_fleet::redis::{RedisRelay, RedisSettings};
use hospes_fleet::session::{NewSession, SessionKey, SessionState};
use hospes_fleet::stream::{EventPosition, StreamNumber};
use hospes_fleet::{Relay, RelayError};
use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::net_proxy::NetProxy;
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};

use crate::fixture::{LIFETIME, TestNode, fleet_keys, redis_settings};

/// Window that a test can wait for, and that is long enough to act within.
const WINDOW: Duration = Duration::from_secs(3);

fn settings(port: u16) -> RedisSettings {
    let mut settings = redis_settings(&format!("redis://127.0.0.1:{port}"), "h:");
    settings.relay.recovery_window = WINDOW;
    settings.probe_interval = Duration::from_millis(100);
    settings.reconnect_max = Duration::from_millis(100);
    settings
}

/// Node whose first window has ended.
async fn settled_node(settings: RedisSettings) -> TestNode {
    let node = TestNode::join(Arc::new(RedisRelay::new(settings, fleet_keys()).unwrap())).await;
    settle(&node).await;
    node
}

async fn settle(node: &TestNode) {
    eventually("the window ends", async || {
        node.relay.health().await.is_ok_and(|health| health.recovering.is_none()).then_some(())
    })
    .await;
}

/// Repeats an operation while its outcome is not known: each link finds its broken connection by an operation or a probe.
async fn repeat<T>(mut operation: impl AsyncFnMut() -> Result<T, RelayError>) -> Result<T, RelayError> {
    eventually("the operation has an outcome", async || match operation().await {
        Err(RelayError::Unavailable(_)) => None,
        outcome => Some(outcome),
    })
    .await
}

fn is_in_doubt<T>(result: &Result<T, RelayError>) -> bool {
    matches!(result, Err(RelayError::Recovering { retry_in }) if *retry_in <= WINDOW && !retry_in.is_zero())
}

#[tokio::test]
async fn the_first_contact_opens_a_window() {
    let server = RedisServer::start(RedisOptions::default());
    let relay = RedisRelay::new(settings(server.port()), fleet_keys()).unwrap();
    let missing = SessionKey::new(None, "missing");
    assert!(is_in_doubt(&relay.find(&missing).await));
    eventually("the window ends", async || (relay.find(&missing).await == Ok(None)).then_some(())).await;
}

/// A node that joins while the engine has long been the primary need not wait: a killed one is replaced at once.
#[tokio::test]
async fn a_server_that_has_been_alone_for_long_opens_no_window() {
    let server = RedisServer::start(RedisOptions::default());
    let missing = SessionKey::new(None, "missing");
    eventually("a new node trusts the server", async || {
        // Far less than the window after its first contact.
        let relay = RedisRelay::new(settings(server.port()), fleet_keys()).unwrap();
        match relay.find(&missing).await {
            Ok(None) => Some(()),
            found if is_in_doubt(&found) => None,
            found => panic!("{found:?}"),
        }
    })
    .await;
    // Not after a change.
    let node = settled_node(settings(server.port())).await;
    let () = server.command(&["DEBUG", "CHANGE-REPL-ID"]);
    let found = node.relay.find(&missing).await;
    assert!(is_in_doubt(&found), "{found:?}");
}

#[tokio::test]
async fn after_a_restart_without_data_sessions_are_in_doubt_and_their_owners_restore_them() {
    let mut server = RedisServer::start(RedisOptions::default());
    let (node, other) =
        tokio::join!(settled_node(settings(server.port())), settled_node(settings(server.port())));
    let (session, owner) = node.open("s").await;
    server.restart();
    let gone = repeat(async || node.relay.renew(&node.lease).await).await;
    assert_eq!(gone, Err(RelayError::Gone), "the lease was lost");
    assert!(is_in_doubt(&repeat(async || other.relay.find(&session).await).await));
    let read = other.relay.read(&session, StreamNumber::new(1, 1), EventPosition::default(), 1).await;
    assert!(is_in_doubt(&read), "{read:?}");
    let again = TestNode::join(Arc::clone(&node.relay)).await;
    let record = NewSession::pending(*b"body").with_state(SessionState::Active);
    let next = owner.next(again.id);
    repeat(async || again.relay.reserve(&session, &next, &record, LIFETIME).await).await.unwrap();
    assert_eq!(other.relay.find(&session).await.unwrap().unwrap().owner, next);
    settle(&other).await;
    assert_eq!(other.relay.find(&SessionKey::new(None, "missing")).await, Ok(None));
}

#[tokio::test]
async fn after_a_restart_with_data_only_own_sessions_are_adopted_within_the_window() {
    let mut options = RedisOptions::default();
    options.append_only = true;
    let mut server = RedisServer::start(options);
    let (node, other) =
        tokio::join!(settled_node(settings(server.port())), settled_node(settings(server.port())));
    let (session, owner) = node.open("s").await;
    let (second, _) = node.open("second").await;
    node.die().await;
    server.restart();
    let adopted =
        eventually("the link is up", async || match other.relay.adopt(&session, &owner, &other.id).await {
            Err(RelayError::Unavailable(_)) => None,
            adopted => Some(adopted),
        });
    assert!(is_in_doubt(&adopted.await), "a lease may exist that the server does not know");
    let again = TestNode::join(Arc::clone(&node.relay)).await;
    let own = repeat(async || again.relay.adopt(&session, &owner, &again.id).await).await;
    assert_eq!(own.unwrap().owner, owner.next(again.id));
    settle(&other).await;
    let adopted = repeat(async || other.relay.adopt(&second, &owner, &other.id).await).await;
    assert_eq!(adopted.unwrap().owner, owner.next(other.id));
}

#[tokio::test]
async fn after_a_failover_the_replica_has_the_sessions_and_a_window() {
    let mut primary = RedisServer::start(RedisOptions::default());
    let mut options = RedisOptions::default();
    options.replica_of = Some(primary.port());
    let replica = RedisServer::start(options);
    let address = NetProxy::to_port(primary.port()).await;
    let (node, other) =
        tokio::join!(settled_node(settings(address.port())), settled_node(settings(address.port())));
    let (session, owner) = node.open("s").await;
    node.die().await;
    let key = format!("h:s:{{{session}}}");
    eventually("the session is replicated", async || {
        (replica.command::<u32>(&["EXISTS", &key]) == 1).then_some(())
    })
    .await;
    primary.kill();
    replica.promote();
    address.set_server(SocketAddr::from(([127, 0, 0, 1], replica.port())));
    address.reset_connections();
    let adopted = repeat(async || other.relay.adopt(&session, &owner, &other.id).await).await;
    assert!(is_in_doubt(&adopted));
    settle(&other).await;
    assert_eq!(other.relay.adopt(&session, &owner, &other.id).await.unwrap().owner, owner.next(other.id));
}

/// A server that was demoted and promoted again keeps its connections; its history of writes is another one.
#[tokio::test]
async fn another_history_on_an_open_connection_opens_a_window() {
    let server = RedisServer::start(RedisOptions::default());
    let (node, other) =
        tokio::join!(settled_node(settings(server.port())), settled_node(settings(server.port())));
    let (session, owner) = node.open("s").await;
    node.die().await;
    let () = server.command(&["DEBUG", "CHANGE-REPL-ID"]);
    let adopted = other.relay.adopt(&session, &owner, &other.id).await;
    assert!(is_in_doubt(&adopted), "{adopted:?}");
    settle(&other).await;
    let () = server.command(&["DEBUG", "CHANGE-REPL-ID"]);
    let found = other.relay.find(&SessionKey::new(None, "missing")).await;
    assert!(is_in_doubt(&found), "{found:?}");
    settle(&other).await;
    let adopted = eventually("the connection of the present history is used", async || {
        other.relay.adopt(&session, &owner, &other.id).await.ok()
    });
    assert_eq!(adopted.await.owner, owner.next(other.id));
}

#[tokio::test]
async fn health_names_faults_of_the_configuration() {
    let server = RedisServer::start(RedisOptions::default());
    let mut good = settings(server.port());
    good.relay.lease = Duration::from_secs(1);
    good.relay.max_replica_lag = Duration::from_secs(2);
    let node = settled_node(good).await;
    assert_eq!(node.relay.health().await.unwrap(), <_>::default());
    let problem = async |text: &str| {
        let problems = node.relay.health().await.unwrap().problems;
        assert!(problems.len() == 1 && problems[0].contains(text), "{problems:?}");
    };
    let set = |name: &str, value: &str| server.command::<()>(&["CONFIG", "SET", name, value]);
    set("maxmemory-policy", "allkeys-lru");
    problem("maxmemory-policy is allkeys-lru").await;
    set("maxmemory-policy", "noeviction");
    let mut options = RedisOptions::default();
    options.replica_of = Some(server.port());
    let _replica = RedisServer::start(options);
    eventually("the replica is connected", async || {
        (!node.relay.health().await.unwrap().problems.is_empty()).then_some(())
    })
    .await;
    set("min-replicas-max-lag", "2");
    problem("min-replicas-to-write is 0").await;
    set("min-replicas-to-write", "1");
    set("min-replicas-max-lag", "10");
    problem("min-replicas-max-lag is 10 s; set it between 1 and 2").await;
    set("min-replicas-max-lag", "2");
    assert_eq!(node.relay.health().await.unwrap().problems, Vec::<String>::new());
    let mut short = settings(server.port());
    short.relay.max_replica_lag = WINDOW;
    short.relay.lease = Duration::from_secs(1);
    let relay = RedisRelay::new(short, fleet_keys()).unwrap();
    assert!(relay.health().await.unwrap().problems[0].contains("recovery_window"));
}
