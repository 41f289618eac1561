//! Connections between nodes.

use std::time::Duration;

use bytes::Bytes;
use hospes::transport::http_server::shared_sessions::ForwardResult;
use hospes::transport::http_server::{CallerLabel, Principal};
use hospes_fleet::node::{NodeId, NodeRecord};
use hospes_node::{FleetSecrets, NodePeers, NodeTransport as _};
use http::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::cluster::{Cluster, LARGE, call, request};

/// A session is bound to the principal that the receiving node has authenticated.
///
/// covers: HSES-14
#[tokio::test]
async fn the_owner_learns_who_sends_a_request() {
    let cluster = Cluster::new(2).await;
    let send = async |node: usize, who: &str, session: &str, body: serde_json::Value| {
        let mut request = request("/mcp", "POST", session, body.to_string());
        request.extensions_mut().insert(Principal::new(who));
        request.extensions_mut().insert(CallerLabel::new("node, process 1"));
        cluster.nodes[node].send(request).await
    };
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let opened = send(0, "ada", "", initialize).await;
    let session = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
    for node in [0, 1] {
        for (who, status) in [("ada", StatusCode::OK), ("eve", StatusCode::NOT_FOUND)] {
            assert_eq!(send(node, who, &session, call(1, "echo")).await.status, status, "{who} at {node}");
        }
    }
}

/// HTTP/2 refuses headers that belong to a connection of HTTP/1.1.
#[tokio::test]
async fn headers_of_the_connection_are_not_forwarded() {
    let cluster = Cluster::new(2).await;
    let session = cluster.nodes[0].session("2025-06-18").await;
    let mut request = request("/mcp", "POST", &session, call(1, "echo").to_string());
    for (name, value) in [
        ("connection", "keep-alive, te, upgrade"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("te", "trailers, deflate"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let answer = cluster.nodes[1].send(request).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(cluster.nodes[0].service.calls(), 1);
}

/// Requests and responses can be longer than the windows of the connection, and many can be under way at once.
#[tokio::test]
async fn long_messages_are_forwarded() {
    let cluster = Cluster::new(2).await;
    let session = cluster.nodes[0].session("2025-06-18").await;
    let calls = (0..24).map(async |id| {
        let mut body = call(id, "large");
        body["params"]["arguments"]["text"] = "y".repeat(LARGE).into();
        // Without progress the answer is no stream.
        body["params"]["_meta"] = json!({});
        cluster.nodes[1].post(&session, body).await.text().await
    });
    for text in futures::future::join_all(calls).await {
        assert!(text.contains(&"x".repeat(LARGE)), "{} bytes", text.len());
    }
}

/// While the secret of a fleet is rotated, nodes have the same two secrets in another order.
#[tokio::test]
async fn nodes_reach_each_other_while_the_secret_is_rotated() {
    let cluster = Cluster::with_secrets(vec![vec![1, 2], vec![2, 1], vec![2, 1]]).await;
    for owner in 0..3 {
        let session = cluster.nodes[owner].session("2025-06-18").await;
        for node in &cluster.nodes {
            assert_eq!(node.post(&session, call(1, "echo")).await.status, StatusCode::OK);
        }
    }
}

/// Redis alone is not enough to be served by a node.
#[tokio::test]
async fn a_node_without_the_secret_is_not_served() {
    let cluster = Cluster::with_secrets(vec![vec![1], vec![9]]).await;
    let session = cluster.nodes[0].session("2025-06-18").await;
    let refused = cluster.nodes[1].post(&session, call(1, "echo")).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(cluster.nodes[0].service.calls(), 0);
}

/// A process that was started at the address of another is not mistaken for it.
#[tokio::test]
async fn a_request_reaches_the_node_that_it_is_for_and_no_other() {
    let cluster = Cluster::new(2).await;
    let [one, two] = &cluster.nodes[..] else { panic!("two nodes") };
    let peers = NodePeers::new(one.membership.clone(), FleetSecrets::new([[1; 32]]).unwrap());
    let forward = async |id: NodeId| {
        let (mut parts, _) = request("/mcp", "POST", "", String::new()).into_parts();
        parts.headers.insert("mcp-session-id", "none".parse().unwrap());
        let body = Bytes::from(call(1, "echo").to_string());
        peers.forward(&NodeRecord::new(id, &two.address.to_string()), parts, body).await
    };
    // Its certificate has another name.
    assert!(matches!(forward(NodeId::random()).await, ForwardResult::NotProcessed));
    let ForwardResult::Response(response) = forward(two.membership.node().unwrap()).await else {
        panic!("no response")
    };
    assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST, "it has no such session");
    assert_eq!(two.service.calls(), 0);
}

/// A client that is no node gets no answer: without a certificate, without TLS, or with bytes of any kind.
#[tokio::test]
async fn what_is_no_node_is_not_answered() {
    let cluster = Cluster::new(1).await;
    let node = &cluster.nodes[0];
    for sent in
        [&b"GET /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0; 600]]
    {
        let mut stream = tokio::net::TcpStream::connect(node.address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
        // A connection that is reset has not been answered either.
        let _ = read.expect("the connection stays open");
        assert!(!answer.windows(4).any(|part| part == b"HTTP"), "{answer:?}");
    }
    let session = node.session("2025-06-18").await;
    assert_eq!(node.post(&session, call(1, "echo")).await.status, StatusCode::OK);
}
