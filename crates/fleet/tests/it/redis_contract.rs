//! The engine on Redis keeps the contract.

use std::sync::Arc;

use hospes_fleet::redis::RedisRelay;
use hospes_fleet::session::{EntryKind, SessionChange, SessionEntry, SessionState};
use hospes_fleet::stream::{EventKind, NewEvent, NewStream, PendingAnswer, StreamNumber};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};

use crate::fixture::{TestFleet, TestNode, failed_cases, fleet_keys, redis_settings};

#[tokio::test]
async fn the_engine_on_redis_keeps_the_contract() {
    let server = RedisServer::start(RedisOptions::default());
    assert_eq!(failed_cases(|| TestFleet::redis(&server, None), |_| true).await, Vec::<&str>::new());
}

/// All keys below a prefix.
fn keys(server: &RedisServer, prefix: &str) -> Vec<String> {
    let mut keys: Vec<String> = server.command(&["KEYS", &format!("{prefix}*")]);
    keys.sort_unstable();
    keys
}

/// The keys of a session end together, whatever keeps the session alive, and a closed one leaves its mark alone.
#[tokio::test]
async fn the_keys_of_a_session_end_together() {
    let server = RedisServer::start(RedisOptions::default());
    let join = || {
        let relay = RedisRelay::new(redis_settings(&server.url(), "h:"), fleet_keys()).unwrap();
        TestNode::join(Arc::new(relay))
    };
    let (node, other, third) = (join().await, join().await, join().await);
    let (session, owner) = node.open("s").await;
    let entry = SessionEntry::new(EntryKind::Task, *b"t", *b"");
    node.relay.change(&session, &owner, &[SessionChange::Put(entry)]).await.unwrap();
    let stream = StreamNumber::new(1, 1);
    let pending = vec![PendingAnswer::new("1", *b"")];
    node.relay.open_stream(&session, &owner, &NewStream::of_requests(stream, pending)).await.unwrap();
    let event = |sequence| NewEvent::new(sequence, EventKind::Message, b"event");
    node.relay.append(&session, &owner, stream, &event(1)).await.unwrap();
    let parts = keys(&server, "h:s:");
    assert_eq!(parts.len(), 5, "record, entries, streams, pending answers, events: {parts:?}");

    let index = |node: &TestNode| format!("h:w:{}", node.id);
    let shorten = |owner: &TestNode| {
        for key in parts.iter().chain([&index(owner)]) {
            let () = server.command(&["PEXPIRE", key, "100000"]);
        }
    };
    let check = |owner: &TestNode, what: &str| {
        for key in parts.iter().chain([&index(owner)]) {
            let left: i64 = server.command(&["PTTL", key]);
            assert!(left > 500_000, "{key} ends in {left} ms after {what}");
        }
    };
    check(&node, "its creation");
    shorten(&node);
    node.relay.change(&session, &owner, &[]).await.unwrap();
    check(&node, "a change");
    shorten(&node);
    let owner = node.relay.hand_over(&session, &owner, &other.id).await.unwrap();
    check(&other, "it was handed over");
    other.die().await;
    shorten(&other);
    let owner = third.relay.adopt(&session, &owner, &third.id).await.unwrap().owner;
    check(&third, "it was adopted");
    // The index is extended by the owner's changes, twice in a lifetime.
    let () = server.command(&["PEXPIRE", &parts[0], "100000"]);
    third.relay.append(&session, &owner, stream, &event(2)).await.unwrap();
    check(&third, "an event");

    let close = [SessionChange::State(SessionState::Closed)];
    third.relay.change(&session, &owner, &close).await.unwrap();
    assert_eq!(keys(&server, "h:s:"), parts[..1]);
    assert_eq!(keys(&server, "h:w:"), Vec::<String>::new());
    let left: i64 = server.command(&["PTTL", &parts[0]]);
    assert!((200_000..=300_000).contains(&left), "{left}");
    third.relay.nodes().await.unwrap();
    let nodes: u32 = server.command(&["HLEN", "h:nodes"]);
    assert_eq!(nodes, 2, "a dead node without sessions is forgotten");
}

/// Events of a stream that was dropped, or that an earlier life of the session has left, are removed.
#[tokio::test]
async fn events_of_former_streams_are_removed() {
    let server = RedisServer::start(RedisOptions::default());
    let relay = RedisRelay::new(redis_settings(&server.url(), "h:"), fleet_keys()).unwrap();
    let node = TestNode::join(Arc::new(relay)).await;
    let (session, owner) = node.open("s").await;
    let left_over = format!("h:s:{{{session}}}:e:1.1");
    let _: String = server.command(&["XADD", &left_over, "7-7", "k", "m", "d", "x"]);
    for counter in 1..=4 {
        let stream = NewStream::of_requests(StreamNumber::new(1, counter), Vec::new());
        node.relay.open_stream(&session, &owner, &stream).await.unwrap();
        let event = NewEvent::new(1, EventKind::Message, b"event");
        node.relay.append(&session, &owner, stream.number, &event).await.unwrap();
    }
    let kept = [2, 3, 4].map(|counter| format!("h:s:{{{session}}}:e:1.{counter}"));
    assert_eq!(keys(&server, &format!("h:s:{{{session}}}:e:")), kept);
}
