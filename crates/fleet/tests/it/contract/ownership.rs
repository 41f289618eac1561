//! Adoption, handing over and fencing.

use futures::future::join_all;
use hospes_fleet::RelayError;
use hospes_fleet::session::{
    EntryKind, NewSession, SessionChange, SessionEntry, SessionKey, SessionOwner, SessionState,
};
use hospes_fleet::stream::{EventKind, NewEvent, NewStream, StreamNumber};
use hospes_fleet_testkit::eventually;

use super::cases_of;
use crate::fixture::{LIFETIME, SHORT_LEASE, TestFleet, TestNode};

cases_of!(
    the_session_of_a_living_node_is_not_adopted,
    the_session_of_a_dead_node_is_adopted_with_the_next_epoch,
    an_adoption_can_be_repeated,
    adoption_compares_the_epoch,
    one_of_several_adopters_wins,
    a_node_without_a_lease_adopts_nothing,
    a_record_of_a_later_format_is_not_adopted,
    a_session_is_handed_over_without_waiting,
    a_former_owner_is_fenced,
    a_change_is_found_without_a_hint,
);

fn fenced<T>(now: SessionOwner) -> Result<T, RelayError> {
    Err(RelayError::Fenced { now: Some(now) })
}

async fn the_session_of_a_living_node_is_not_adopted(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = node.open("s").await;
    assert_eq!(other.relay.adopt(&session, &owner, &other.id).await, fenced(owner));
    let missing = SessionKey::new(None, "missing");
    assert_eq!(other.relay.adopt(&missing, &owner, &other.id).await, Err(RelayError::Gone));
}

async fn the_session_of_a_dead_node_is_adopted_with_the_next_epoch(fleet: TestFleet) {
    let other = fleet.node().await;
    let node = TestNode::join(fleet.relay_with_lease(SHORT_LEASE)).await;
    let (session, owner) = node.open("s").await;
    let entry = SessionEntry::new(EntryKind::Upstream, *b"files", *b"id");
    node.relay.change(&session, &owner, &[SessionChange::Put(entry.clone())]).await.unwrap();
    let adopted =
        eventually("the lease ends", async || match other.relay.adopt(&session, &owner, &other.id).await {
            Err(RelayError::Fenced { now: Some(now) }) if now == owner => None,
            adopted => Some(adopted.unwrap()),
        })
        .await;
    assert_eq!(adopted.owner, owner.next(other.id));
    assert_eq!((adopted.owner.epoch, adopted.state), (2, SessionState::Active));
    assert_eq!(adopted.body, b"body");
    assert_eq!(other.relay.entries(&session).await.unwrap(), [entry]);
    assert_eq!(other.relay.find(&session).await.unwrap().unwrap(), adopted);
}

async fn an_adoption_can_be_repeated(fleet: TestFleet) {
    let (node, other, third) = (fleet.node().await, fleet.node().await, fleet.node().await);
    let (session, owner) = node.open("s").await;
    node.die().await;
    let adopted = other.relay.adopt(&session, &owner, &other.id).await.unwrap();
    assert_eq!(other.relay.adopt(&session, &owner, &other.id).await, Ok(adopted.clone()));
    assert_eq!(third.relay.adopt(&session, &owner, &third.id).await, fenced(adopted.owner));
    let now = other.relay.hand_over(&session, &adopted.owner, &third.id).await.unwrap();
    assert_eq!(other.relay.adopt(&session, &owner, &other.id).await, fenced(now));
}

async fn adoption_compares_the_epoch(fleet: TestFleet) {
    let (node, other, third) = (fleet.node().await, fleet.node().await, fleet.node().await);
    let (session, first) = node.open("s").await;
    let second = node.relay.hand_over(&session, &first, &other.id).await.unwrap();
    let now = other.relay.hand_over(&session, &second, &node.id).await.unwrap();
    assert_eq!(now, SessionOwner { node: node.id, epoch: 3 });
    node.die().await;
    // The node is dead, but this is what it was two owners ago.
    assert_eq!(third.relay.adopt(&session, &first, &third.id).await, fenced(now));
    assert_eq!(third.relay.adopt(&session, &second, &third.id).await, fenced(now));
    assert_eq!(third.relay.adopt(&session, &now, &third.id).await.unwrap().owner, now.next(third.id));
}

async fn one_of_several_adopters_wins(fleet: TestFleet) {
    let node = fleet.node().await;
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(fleet.node().await);
    }
    for round in 0..5 {
        let (session, owner) = node.open(&format!("s{round}")).await;
        // Its lease ends with the last round; before, it gives the session to a node that dies.
        let dead = fleet.node().await;
        let owner = node.relay.hand_over(&session, &owner, &dead.id).await.unwrap();
        dead.die().await;
        let adopt = others.iter().map(|other| other.relay.adopt(&session, &owner, &other.id));
        let results = join_all(adopt).await;
        let winners: Vec<_> = results.iter().flatten().collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        let now = winners[0].owner;
        assert_eq!(now, owner.next(now.node));
        for result in &results {
            assert!(result.is_ok() || *result == fenced(now), "{result:?}");
        }
    }
}

async fn a_node_without_a_lease_adopts_nothing(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = node.open("s").await;
    node.die().await;
    other.die().await;
    let refused = other.relay.adopt(&session, &owner, &other.id).await;
    assert_eq!(refused, Err(RelayError::Fenced { now: None }));
    assert_eq!(other.relay.find(&session).await.unwrap().unwrap().owner, owner);
}

async fn a_record_of_a_later_format_is_not_adopted(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = (SessionKey::new(None, "later"), node.first());
    let mut record = NewSession::pending(*b"");
    record.version += 1;
    node.relay.reserve(&session, &owner, &record, LIFETIME).await.unwrap();
    node.die().await;
    assert_eq!(other.relay.adopt(&session, &owner, &other.id).await, fenced(owner));
}

async fn a_session_is_handed_over_without_waiting(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = node.open("s").await;
    let dead = fleet.node().await;
    dead.die().await;
    let refused = node.relay.hand_over(&session, &owner, &dead.id).await;
    assert_eq!(refused, Err(RelayError::Fenced { now: None }));
    for _ in 0..2 {
        assert_eq!(node.relay.hand_over(&session, &owner, &other.id).await, Ok(owner.next(other.id)));
    }
    assert_eq!(node.relay.hand_over(&session, &owner, &node.id).await, fenced(owner.next(other.id)));
    assert_eq!(node.relay.change(&session, &owner, &[]).await, fenced(owner.next(other.id)));
    other.relay.change(&session, &owner.next(other.id), &[]).await.unwrap();
}

async fn a_former_owner_is_fenced(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = node.open("s").await;
    let stream = StreamNumber::new(1, 1);
    node.relay.open_stream(&session, &owner, &NewStream::listen(stream)).await.unwrap();
    node.die().await;
    let now = other.relay.adopt(&session, &owner, &other.id).await.unwrap().owner;
    let event = NewEvent::new(1, EventKind::Message, b"late");
    assert_eq!(node.relay.append(&session, &owner, stream, &event).await, fenced(now));
    assert_eq!(node.relay.change(&session, &owner, &[]).await, fenced(now));
    assert_eq!(node.relay.hand_over(&session, &owner, &other.id).await, Ok(now), "a repeat of the adoption");
    let listen = NewStream::listen(StreamNumber::new(1, 2));
    assert_eq!(node.relay.open_stream(&session, &owner, &listen).await, fenced(now));
    let page = other.relay.read(&session, stream, <_>::default(), 10).await.unwrap().unwrap();
    assert!(page.events.is_empty(), "{page:?}");
}

async fn a_change_is_found_without_a_hint(fleet: TestFleet) {
    let (node, other, third) = (fleet.node().await, fleet.node().await, fleet.node().await);
    let (session, owner) = node.open("s").await;
    assert_eq!(third.relay.find(&session).await.unwrap().unwrap().owner, owner);
    // No hint is sent, as if it were lost.
    let now = node.relay.hand_over(&session, &owner, &other.id).await.unwrap();
    assert_eq!(third.relay.find(&session).await.unwrap().unwrap().owner, now);
}
