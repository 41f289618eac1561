//! Claims of servers that one node runs for all nodes.

use std::time::Duration;

use futures::future::join_all;
use hospes_fleet::RelayError;
use hospes_fleet::session::{NewSession, SessionKey, SessionOwner, SessionState};
use hospes_fleet_testkit::eventually;

use super::cases_of;
use crate::fixture::{LIFETIME, TestFleet, TestNode};

cases_of!(
    one_of_several_nodes_claims_a_server,
    one_of_several_nodes_adopts_the_claim_of_a_dead_node,
    a_claim_that_nobody_confirms_expires,
);

/// Lifetime of a claim that ends within a test.
const SHORT_LIFETIME: Duration = Duration::from_millis(300);

async fn claim(node: &TestNode, server: &str, lifetime: Duration) -> Result<(), RelayError> {
    let record = NewSession::pending(*b"").with_state(SessionState::Active);
    node.relay.reserve(&SessionKey::of_server(server), &node.first(), &record, lifetime).await
}

async fn some_nodes(fleet: &TestFleet) -> Vec<TestNode> {
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(fleet.node().await);
    }
    nodes
}

async fn one_of_several_nodes_claims_a_server(fleet: TestFleet) {
    let nodes = some_nodes(&fleet).await;
    for round in 0..5 {
        let server = format!("server {round}");
        let results = join_all(nodes.iter().map(|node| claim(node, &server, LIFETIME))).await;
        let winners: Vec<&TestNode> =
            nodes.iter().zip(&results).filter(|(_, result)| result.is_ok()).map(|(node, _)| node).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        let owner = winners[0].first();
        let fenced = Err(RelayError::Fenced { now: Some(owner) });
        assert!(results.iter().all(|result| result.is_ok() || *result == fenced), "{results:?}");
        for node in &nodes {
            let found = node.relay.find(&SessionKey::of_server(&server)).await.unwrap().unwrap();
            assert_eq!(found.owner, owner);
        }
    }
    // No session has the key of a claim.
    assert_ne!(SessionKey::of_server("a"), SessionKey::new(None, "a"));
}

async fn one_of_several_nodes_adopts_the_claim_of_a_dead_node(fleet: TestFleet) {
    let (node, others) = (fleet.node().await, some_nodes(&fleet).await);
    let (key, owner) = (SessionKey::of_server("files"), node.first());
    claim(&node, "files", LIFETIME).await.unwrap();
    let adopt = |other: &TestNode| {
        let (relay, id) = (other.relay.clone(), other.id);
        async move { relay.adopt(&key, &owner, &id).await.map(|adopted| adopted.owner) }
    };
    let fenced = |now: SessionOwner| Err(RelayError::Fenced { now: Some(now) });
    assert_eq!(adopt(&others[0]).await, fenced(owner), "its lease has not ended");
    node.die().await;
    let results = join_all(others.iter().map(adopt)).await;
    let winners: Vec<SessionOwner> = results.iter().filter_map(|result| result.clone().ok()).collect();
    assert_eq!(winners.len(), 1, "{results:?}");
    assert_eq!(winners[0].epoch, 2);
    assert!(results.iter().all(|result| result.is_ok() || *result == fenced(winners[0])), "{results:?}");
    // The former owner can neither confirm the claim nor give it away.
    assert_eq!(node.relay.change(&key, &owner, &[]).await, Err(RelayError::Fenced { now: Some(winners[0]) }));
    let another = fleet.node().await;
    assert_eq!(node.relay.hand_over(&key, &owner, &another.id).await, fenced(winners[0]));
}

async fn a_claim_that_nobody_confirms_expires(fleet: TestFleet) {
    let (node, other) = (fleet.node().await, fleet.node().await);
    let key = SessionKey::of_server("files");
    claim(&node, "files", SHORT_LIFETIME).await.unwrap();
    for _ in 0..4 {
        tokio::time::sleep(SHORT_LIFETIME / 3).await;
        node.relay.change(&key, &node.first(), &[]).await.unwrap();
    }
    assert!(claim(&other, "files", SHORT_LIFETIME).await.is_err(), "it was confirmed");
    eventually("the claim expires", async || claim(&other, "files", LIFETIME).await.ok()).await;
    let owner = node.first();
    assert_eq!(
        node.relay.change(&key, &owner, &[]).await,
        Err(RelayError::Fenced { now: Some(other.first()) })
    );
}
