//! Leases and records of nodes.

use std::time::Duration;

use hospes_fleet::RelayError;
use hospes_fleet::node::{NodeId, NodeRecord, NodeState};
use hospes_fleet_testkit::eventually;
use tokio::time::Instant;

use super::cases_of;
use crate::fixture::{LONG_LEASE, SHORT_LEASE, TestFleet, TestNode};

cases_of!(
    a_lease_that_has_ended_is_never_extended,
    a_lease_is_measured_from_before_its_request,
    an_extended_lease_does_not_end,
    a_join_can_be_repeated,
    a_lease_that_is_not_renewed_can_be_ended_early,
    records_are_replaced_by_their_node,
    dead_nodes_are_listed_until_their_sessions_are_taken,
);

async fn a_lease_that_has_ended_is_never_extended(fleet: TestFleet) {
    let other = fleet.node().await;
    let node = TestNode::join(fleet.relay_with_lease(SHORT_LEASE)).await;
    node.open("keeps the node known").await;
    eventually("the lease ends", async || {
        let nodes = other.relay.nodes().await.unwrap();
        nodes.iter().any(|status| status.record.id == node.id && !status.alive).then_some(())
    })
    .await;
    assert!(!node.lease.is_valid(Instant::now()));
    let record = NodeRecord::new(node.id, "127.0.0.1:2");
    assert_eq!(node.relay.renew(&node.lease).await, Err(RelayError::Gone));
    assert_eq!(node.relay.announce(&node.lease, &record).await, Err(RelayError::Gone));
    assert_eq!(node.relay.join(&record).await, Err(RelayError::Gone));
    assert_eq!(
        other.relay.join(&record).await,
        Err(RelayError::Gone),
        "a handle that has not known the node"
    );
    let nodes = other.relay.nodes().await.unwrap();
    assert!(nodes.iter().all(|status| status.record.id != node.id || !status.alive));
}

async fn a_lease_is_measured_from_before_its_request(mut fleet: TestFleet) {
    let delay = Duration::from_secs(1);
    let relay = fleet.slow_relay(delay).await;
    let before = Instant::now();
    let node = TestNode::join(relay).await;
    assert!(node.lease.valid_until < before + LONG_LEASE, "{:?}", node.lease.valid_until - before);
    let before = Instant::now();
    let lease = node.relay.renew(&node.lease).await.unwrap();
    assert!(before.elapsed() >= delay);
    assert!(lease.valid_until < before + LONG_LEASE, "{:?}", lease.valid_until - before);
    assert!(lease.valid_until > before + LONG_LEASE - delay);
}

async fn an_extended_lease_does_not_end(fleet: TestFleet) {
    let lease = Duration::from_secs(2);
    let node = TestNode::join(fleet.relay_with_lease(lease)).await;
    let other = fleet.node().await;
    let (session, owner) = node.open("kept").await;
    // The engine may end the first lease a little after the node does.
    let first_end = node.lease.valid_until + lease / 4;
    let mut now = node.lease.clone();
    eventually("the first lease would have ended", async || {
        now = node.relay.renew(&now).await.unwrap();
        let refused = other.relay.adopt(&session, &owner, &other.id).await;
        assert_eq!(refused, Err(RelayError::Fenced { now: Some(owner) }));
        (Instant::now() > first_end).then_some(())
    })
    .await;
}

async fn a_join_can_be_repeated(fleet: TestFleet) {
    let relay = fleet.relay();
    let record = NodeRecord::new(NodeId::random(), "127.0.0.1:1");
    for _ in 0..2 {
        assert_eq!(relay.join(&record).await.unwrap().node, record.id);
    }
    assert_eq!(relay.nodes().await.unwrap().len(), 1);
}

async fn a_lease_that_is_not_renewed_can_be_ended_early(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let (session, owner) = node.open("taken early").await;
    // It was renewed a moment ago.
    assert_eq!(other.relay.end_silent_lease(&node.id, LONG_LEASE / 2).await, Ok(false));
    let refused = other.relay.adopt(&session, &owner, &other.id).await;
    assert_eq!(refused, Err(RelayError::Fenced { now: Some(owner) }));
    for _ in 0..2 {
        assert_eq!(other.relay.end_silent_lease(&node.id, Duration::ZERO).await, Ok(true));
    }
    assert_eq!(node.relay.renew(&node.lease).await, Err(RelayError::Gone));
    other.relay.adopt(&session, &owner, &other.id).await.unwrap();
    // Of a node that nobody knows.
    assert_eq!(other.relay.end_silent_lease(&NodeId::random(), LONG_LEASE).await, Ok(true));
}

async fn records_are_replaced_by_their_node(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let mut record = NodeRecord::new(node.id, "192.0.2.1:7400");
    record.state = NodeState::Draining;
    record.load = 12;
    record.former_ids = vec![NodeId::random()];
    node.relay.announce(&node.lease, &record).await.unwrap();
    let nodes = other.relay.nodes().await.unwrap();
    assert_eq!(nodes.len(), 2);
    let status = nodes.iter().find(|status| status.record.id == node.id).unwrap();
    assert!(status.alive && status.record == record, "{status:?}");
}

async fn dead_nodes_are_listed_until_their_sessions_are_taken(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let mut sessions = vec![node.open("one").await.0, node.open("two").await.0];
    let mut found = other.relay.sessions_of(&node.id, 10).await.unwrap();
    sessions.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, sessions);
    assert_eq!(other.relay.sessions_of(&node.id, 1).await.unwrap().len(), 1);
    node.die().await;
    for session in &sessions {
        let nodes = other.relay.nodes().await.unwrap();
        assert!(nodes.iter().any(|status| status.record.id == node.id && !status.alive), "{nodes:?}");
        other.relay.adopt(session, &node.first(), &other.id).await.unwrap();
    }
    let nodes = other.relay.nodes().await.unwrap();
    assert!(nodes.iter().all(|status| status.record.id != node.id), "{nodes:?}");
    assert!(other.relay.sessions_of(&node.id, 10).await.unwrap().is_empty());
    assert_eq!(other.relay.sessions_of(&other.id, 10).await.unwrap().len(), 2);
}
