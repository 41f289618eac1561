//! The engine in memory, on a virtual clock.

use std::sync::Arc;
use std::time::Duration;

use hospes_fleet::session::{NewSession, SessionKey, SessionOwner, SessionState};
use hospes_fleet::{MemoryRelay, MemoryStore, RelayError};
use tokio::time::advance;

use crate::fixture::{LIFETIME, TestFleet, TestNode, failed_cases, test_settings};

#[tokio::test(start_paused = true)]
async fn the_engine_in_memory_keeps_the_contract() {
    assert_eq!(failed_cases(|| TestFleet::memory(None), |_| true).await, Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn changes_extend_the_lifetime_of_a_session() {
    let node = TestFleet::memory(None).node().await;
    let (session, owner) = (SessionKey::new(None, "s"), node.first());
    let lifetime = Duration::from_secs(10);
    node.relay.reserve(&session, &owner, &NewSession::pending(*b""), lifetime).await.unwrap();
    for _ in 0..3 {
        advance(lifetime * 9 / 10).await;
        node.relay.change(&session, &owner, &[]).await.unwrap();
    }
    advance(lifetime).await;
    assert_eq!(node.relay.find(&session).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn the_mark_of_a_closed_session_is_forgotten() {
    let node = TestFleet::memory(None).node().await;
    let (session, owner) = node.open("s").await;
    let close = [hospes_fleet::session::SessionChange::State(SessionState::Closed)];
    node.relay.change(&session, &owner, &close).await.unwrap();
    advance(test_settings().tombstone - Duration::from_secs(1)).await;
    assert!(node.relay.find(&session).await.unwrap().is_some());
    advance(Duration::from_secs(1)).await;
    assert_eq!(node.relay.find(&session).await, Ok(None));
}

/// After a change of the store's identity, what is missing is in doubt for the time of the window.
#[tokio::test(start_paused = true)]
async fn a_replaced_store_is_in_doubt_for_a_while() {
    let mut settings = test_settings();
    settings.recovery_window = Duration::from_secs(7);
    let store = MemoryStore::new(settings);
    let node = TestNode::join(Arc::new(MemoryRelay::new(Arc::clone(&store)))).await;
    let other = TestNode::join(Arc::new(MemoryRelay::new(Arc::clone(&store)))).await;
    let (session, owner) = node.open("s").await;
    let missing = SessionKey::new(None, "missing");
    assert_eq!(other.relay.find(&missing).await, Ok(None), "a new store is not in doubt");
    store.restart(false);
    node.die().await;
    let doubt = |left: u64| RelayError::Recovering { retry_in: Duration::from_secs(left) };
    assert_eq!(other.relay.find(&missing).await, Err(doubt(7)));
    assert_eq!(other.relay.adopt(&session, &owner, &other.id).await, Err(doubt(7)));
    advance(Duration::from_secs(3)).await;
    assert_eq!(
        other.relay.read(&missing, hospes_fleet::stream::StreamNumber::new(1, 1), <_>::default(), 1).await,
        Err(doubt(4))
    );
    assert_eq!(other.relay.health().await.unwrap().recovering, Some(Duration::from_secs(4)));
    assert!(other.relay.find(&session).await.unwrap().is_some(), "what is there is certain");
    // The same process under a new id takes its own back at once.
    let again = TestNode::join(Arc::clone(&node.relay)).await;
    let taken = again.relay.adopt(&session, &owner, &again.id).await.unwrap();
    assert_eq!(taken.owner, SessionOwner { node: again.id, epoch: 2 });
    advance(Duration::from_secs(4)).await;
    assert_eq!(other.relay.find(&missing).await, Ok(None));
    store.restart(true);
    assert_eq!(other.relay.find(&session).await, Err(doubt(7)));
    let record = NewSession::pending(*b"").with_state(SessionState::Active);
    let again = TestNode::join(Arc::clone(&again.relay)).await;
    again.relay.reserve(&session, &taken.owner.next(again.id), &record, LIFETIME).await.unwrap();
}
