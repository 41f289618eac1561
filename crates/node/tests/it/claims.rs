//! Servers that one node runs for all nodes.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use hospes_fleet::node::NodeRecord;
use hospes_fleet::settings::RelaySettings;
use hospes_fleet::{MemoryRelay, MemoryStore};
use hospes_fleet_testkit::eventually;
use hospes_node::{
    AcceptedServer, ClaimedPlace, FleetSecrets, Membership, NodePeers, NodeServer, NodeStream, ServerClaims,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::watch;
use tokio::time::Instant;

const RENEWAL: Duration = Duration::from_millis(100);

/// A node that follows the place of one server.
struct ClaimingNode {
    membership: Membership,
    claims: ServerClaims,
    place: watch::Receiver<ClaimedPlace>,
}

impl ClaimingNode {
    async fn start(store: &Arc<MemoryStore>, address: &str) -> Self {
        let relay = Arc::new(MemoryRelay::new(Arc::clone(store)));
        let membership = Membership::start(relay, address, RENEWAL).unwrap();
        membership.joined().await;
        let claims = ServerClaims::new(membership.clone());
        let place = claims.follow("files");
        Self { membership, claims, place }
    }

    fn is_here(&self) -> bool {
        matches!(*self.place.borrow(), ClaimedPlace::Here { .. })
    }

    fn epoch(&self) -> u64 {
        match *self.place.borrow() {
            ClaimedPlace::Here { epoch } | ClaimedPlace::Elsewhere { epoch, .. } => epoch,
            ClaimedPlace::Leaving | ClaimedPlace::Unknown(_) => 0,
        }
    }
}

async fn some_nodes(store: &Arc<MemoryStore>) -> Vec<ClaimingNode> {
    let mut nodes = Vec::new();
    for port in 1..=3 {
        nodes.push(ClaimingNode::start(store, &format!("127.0.0.1:{port}")).await);
    }
    nodes
}

/// Waits until one of the nodes runs the server and all others know it, and returns its position.
async fn settled(nodes: &[ClaimingNode], epoch: u64) -> usize {
    eventually("one node runs the server", async || {
        let here: Vec<usize> = (0..nodes.len()).filter(|at| nodes[*at].is_here()).collect();
        assert!(here.len() <= 1, "two nodes run the server: {here:?}");
        let is_known = nodes.iter().all(|node| node.epoch() == epoch);
        here.first().copied().filter(|_| is_known)
    })
    .await
}

#[tokio::test]
async fn one_node_claims_a_server_and_another_one_when_it_has_ended() {
    let store = MemoryStore::new(RelaySettings::default());
    let mut nodes = some_nodes(&store).await;
    let first = settled(&nodes, 1).await;
    let address = format!("127.0.0.1:{}", first + 1);
    for (at, node) in nodes.iter().enumerate().filter(|(at, _)| *at != first) {
        let place = node.place.borrow().clone();
        let is_there =
            matches!(&place, ClaimedPlace::Elsewhere { address: known, .. } if **known == *address);
        assert!(is_there, "{at}: {place:?}");
    }
    let dead = nodes.remove(first);
    dead.membership.leave().await.unwrap();
    let ended = Instant::now();
    settled(&nodes, 2).await;
    assert!(ended.elapsed() >= Duration::from_secs(3), "the former node has the time to stop it");
    assert!(!dead.is_here(), "a node without a lease does not run it");
}

#[tokio::test]
async fn a_node_that_leaves_gives_its_claim_away_when_nothing_uses_it() {
    let store = MemoryStore::new(RelaySettings::default());
    let mut nodes = some_nodes(&store).await;
    let first = settled(&nodes, 1).await;
    let leaving = nodes.remove(first);
    let hold = leaving.claims.hold("files").unwrap();
    leaving.membership.drain().await.unwrap();
    let claims = leaving.claims.clone();
    let given = tokio::spawn(async move { claims.give_up().await });
    eventually("the node leaves", async || (*leaving.place.borrow() == ClaimedPlace::Leaving).then_some(()))
        .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!given.is_finished() && nodes.iter().all(|node| !node.is_here()), "it is still used");
    drop(hold);
    let released = Instant::now();
    given.await.unwrap();
    settled(&nodes, 2).await;
    assert!(released.elapsed() < Duration::from_secs(3), "nobody waits for the end of a lease");
}

#[tokio::test]
async fn a_claim_that_nobody_follows_expires() {
    let store = MemoryStore::new(RelaySettings::default());
    let mut nodes = some_nodes(&store).await;
    let first = settled(&nodes, 1).await;
    // Its configuration has the server no more.
    let ClaimingNode { membership, claims, place } = nodes.remove(first);
    drop(place);
    eventually("another node runs the server", async || {
        nodes.iter().any(ClaimingNode::is_here).then_some(())
    })
    .await;
    assert_eq!(claims.place("files"), None);
    membership.leave().await.unwrap();
}

fn echo(stream: NodeStream) -> futures::future::BoxFuture<'static, ()> {
    async move {
        let (read, mut write) = tokio::io::split(stream);
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            write.write_all(format!("{line} came back\n").as_bytes()).await.unwrap();
            write.flush().await.unwrap();
        }
    }
    .boxed()
}

#[tokio::test]
async fn a_stream_leads_to_a_server_of_another_node() {
    let store = MemoryStore::new(RelaySettings::default());
    let secrets = FleetSecrets::new([[1; 32]]).unwrap();
    let listener = NodeServer::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().to_string();
    let relay = || Arc::new(MemoryRelay::new(Arc::clone(&store)));
    let there = Membership::start(relay(), &address, RENEWAL).unwrap();
    let here = Membership::start(relay(), "127.0.0.1:1", RENEWAL).unwrap();
    let (id, _) = (there.joined().await, here.joined().await);
    let servers = |server: String| {
        async move {
            match server.as_str() {
                "files" => Ok(AcceptedServer { revision: "2025-06-18".to_owned(), serve: Box::new(echo) }),
                other => Err(format!("the server `{other}` does not run here")),
            }
        }
        .boxed()
    };
    let server = listener.servers(servers).server(there.clone(), secrets.clone(), |_| None);
    let serving = tokio::spawn(server.serve_until(std::future::pending(), Duration::ZERO));
    let peers = NodePeers::new(here, secrets);
    let node = NodeRecord::new(id, &address);

    let opened = peers.open_server(&node, "files").await.unwrap();
    assert_eq!(opened.revision, "2025-06-18");
    let (read, mut write) = tokio::io::split(opened.stream);
    let mut lines = BufReader::new(read).lines();
    for word in ["one", "two"] {
        write.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        write.flush().await.unwrap();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), format!("{word} came back"));
    }
    let refused = peers.open_server(&node, "notes").await.unwrap_err();
    assert_eq!(refused, "the server `notes` does not run here");
    // Another node would have another id.
    let other = NodeRecord::new(hospes_fleet::node::NodeId::random(), &address);
    assert!(peers.open_server(&other, "files").await.is_err());
    // The end of the node ends its streams.
    serving.abort();
    there.leave().await.unwrap();
}
