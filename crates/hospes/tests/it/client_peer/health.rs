//! Tests of the health check.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hospes::client::{CallError, Client, HealthCheck, MIN_PING_INTERVAL};
use hospes::model::Revision;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client_peer::{Log, Peer, settle};

const MINUTE: Duration = Duration::from_secs(60);

fn check() -> HealthCheck {
    HealthCheck::every(MINUTE).timeout(Duration::from_secs(5)).max_unanswered(2)
}

/// covers: PING-01 PING-04 PING-05 PING-07
#[tokio::test(start_paused = true)]
async fn a_server_is_pinged_as_often_as_was_wanted() {
    let builder = || Client::builder().health_check(check());
    let (client, peer) = Peer::connect(builder(), Revision::V2025_11_25, |_| Some(json!({}))).await;
    tokio::time::sleep(MINUTE * 10 + MINUTE / 2).await;
    assert_eq!(peer.count("ping"), 10);
    assert!(client.closed().is_none());
    // An error is an answer.
    let no = |_: &Value| Some(json!({ "error": { "code": -32601, "message": "no ping here" } }));
    let (client, peer) = Peer::connect(builder(), Revision::V2024_11_05, no).await;
    tokio::time::sleep(MINUTE * 10 + MINUTE / 2).await;
    assert_eq!(peer.count("ping"), 10);
    assert!(client.closed().is_none());
    // The newest revision has no ping.
    let (_client, peer) = Peer::connect(builder(), Revision::LATEST, |_| None).await;
    tokio::time::sleep(MINUTE * 10 + MINUTE / 2).await;
    assert_eq!((peer.count("ping"), peer.count("server/discover")), (0, 11));
    // Nobody pings all the time.
    let hasty = Client::builder().health_check(HealthCheck::every(Duration::ZERO));
    let (_client, peer) = Peer::connect(hasty, Revision::V2025_11_25, |_| Some(json!({}))).await;
    tokio::time::sleep(MIN_PING_INTERVAL * 10).await;
    assert!(peer.count("ping") <= 10, "{}", peer.count("ping"));
    // And nobody pings unless that is wanted.
    let (_client, peer) = Peer::connect(Client::builder(), Revision::V2025_11_25, |_| Some(json!({}))).await;
    tokio::time::sleep(MINUTE * 10).await;
    assert_eq!(peer.count("ping"), 0);
}

/// covers: PING-03 PING-06 PING-08 PING-09 PING-10
#[tokio::test(start_paused = true)]
async fn a_server_that_answers_no_pings_is_given_up() {
    let log = Log::new();
    let pings = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&pings);
    let answer = move |message: &Value| match message["method"].as_str() {
        // One is lost now and then; that is no reason.
        Some("ping") => matches!(counted.fetch_add(1, Ordering::Relaxed), 1 | 3).then(|| json!({})),
        _ => None,
    };
    let builder = Client::builder().health_check(check());
    let (client, peer) = Peer::connect(builder, Revision::V2025_11_25, answer).await;
    let began = Instant::now();
    let closed = client.wait_closed().await;
    assert_eq!(closed.what, "the server did not answer 2 pings within 5s");
    assert_eq!(pings.load(Ordering::Relaxed), 6, "lost, answered, lost, answered, lost, lost");
    let silence = began.elapsed();
    assert_eq!(log.lines("did not answer a ping").len(), 4);
    assert!(silence > MINUTE * 6 && silence < MINUTE * 7, "{silence:?}");
    let CallError::Closed(again) = client.call("any", ()).await.unwrap_err() else { panic!("it is closed") };
    assert_eq!(again, closed);
    drop(peer);
}

/// covers: PING-07
#[tokio::test(start_paused = true)]
async fn nobody_is_pinged_while_a_call_waits() {
    let builder = Client::builder().health_check(check());
    let (client, peer) = Peer::connect(builder, Revision::V2025_11_25, |_| None).await;
    let call = client.call("slow", ()).timeout(MINUTE * 19 / 2).await.unwrap_err();
    assert!(matches!(call, CallError::Timeout { .. }), "{call}");
    assert_eq!(peer.count("ping"), 0);
    settle().await;
    assert!(client.closed().is_none());
}
