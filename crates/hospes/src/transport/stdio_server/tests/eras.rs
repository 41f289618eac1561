//! Sessions of the older revisions, and requests that need none.

use super::*;
use crate::prelude::*;
use crate::server::{Server, Tool};

/// covers: LIFE-03 LIFE-04 VER-03 VER-04 VER-05 PING-02
#[tokio::test]
async fn a_session_is_opened_in_every_older_revision() {
    for (asked, spoken) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut peer = Peer::new(&ProbeService::new());
        let answer = peer.open(asked).await;
        assert_eq!(answer["result"]["protocolVersion"], spoken, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "probe");
        assert_eq!(answer["result"]["instructions"], "probe me");
        assert_eq!(answer["result"]["capabilities"]["tools"]["listChanged"], true);
        assert!(answer["result"].get("resultType").is_none(), "{answer}");
        peer.tool(1, "echo", json!({"text": "hi"})).await;
        assert_eq!(text(&peer.read().await), "hi");
        peer.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
        assert_eq!(peer.read().await, json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
    }
}

/// covers: VER-12 VER-14 VER-15 STLS-01 STLS-03 MSG-25 DISC-05 PING-11
#[tokio::test]
async fn modern_requests_need_no_session() {
    let mut peer = Peer::new(&ProbeService::new());
    peer.send(modern(1, "server/discover", json!({}))).await;
    let answer = peer.read().await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "probe");
    peer.send(modern(2, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}}))).await;
    let answer = peer.read().await;
    assert_eq!((text(&answer), &answer["result"]["resultType"]), ("hi", &json!("complete")));
    for method in
        ["initialize", "ping", "logging/setLevel", "sampling/createMessage", "notifications/message"]
    {
        peer.send(modern(3, method, json!({}))).await;
        assert_eq!(code(&peer.read().await), -32601, "{method}");
    }
    let mut without = modern(4, "tools/list", json!({}));
    without["params"]["_meta"].as_object_mut().unwrap().retain(|key, _| !key.contains("Capabilities"));
    peer.send(without).await;
    assert_eq!(code(&peer.read().await), -32602);
    let mut other = modern(5, "tools/list", json!({}));
    other["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "v9".into();
    peer.send(other).await;
    let answer = peer.read().await;
    assert_eq!(code(&answer), -32022);
    assert_eq!(answer["error"]["data"], json!({"supported": ["2026-07-28"], "requested": "v9"}));
    // A client may look for the new era first and open a session of the old one then.
    assert_eq!(peer.open("2025-06-18").await["result"]["protocolVersion"], "2025-06-18");
    peer.tool(6, "echo", json!({"text": "old"})).await;
    assert!(peer.read().await["result"].get("resultType").is_none());
}

/// covers: PING-01 MSG-11
#[tokio::test]
async fn whatever_comes_before_initialize_is_answered_and_survived() {
    let mut peer = Peer::new(&ProbeService::new());
    peer.tool(1, "echo", json!({})).await;
    let answer = peer.read().await;
    assert_eq!((code(&answer), &answer["id"]), (-32602, &json!(1)));
    peer.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    assert_eq!(peer.read().await["result"], json!({}));
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    peer.send(json!({"jsonrpc": "2.0", "id": 7, "result": {}})).await;
    peer.send(json!({"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"protocolVersion": 1}}))
        .await;
    assert_eq!(code(&peer.read().await), -32602);
    assert_eq!(peer.open("2025-11-25").await["result"]["protocolVersion"], "2025-11-25");
    peer.send(json!({"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": {}})).await;
    assert_eq!(code(&peer.read().await), -32600);
}

// The table of probes that no peer passes as a whole.

/// covers: BATCH-01 BATCH-03 BATCH-05 BATCH-08
#[tokio::test]
async fn probe_a_batch_at_2025_03_26_is_answered_as_one() {
    let mut peer = Peer::opened(&ProbeService::new(), "2025-03-26").await;
    peer.send(json!([
        tool(1, "echo", json!({"text": "a"})),
        tool(2, "sleep", json!({"millis": 20})),
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
        {"jsonrpc": "2.0", "id": 4, "method": "initialize"},
        {"jsonrpc": "2.0", "id": 5},
    ]))
    .await;
    let answer = peer.read().await;
    let mut ids: Vec<_> = answer.as_array().unwrap().iter().map(|part| part["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["1", "2", "3", "4", "5"], "{answer}");
    let part = |id| answer.as_array().unwrap().iter().find(|part| part["id"] == id).unwrap();
    assert_eq!(text(part(2)), "slept");
    assert_eq!(code(part(4)), -32600);
    peer.send(json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}])).await;
    peer.line("[]").await;
    assert_eq!(code(&peer.read().await), -32600);
    peer.silence().await;
}

/// covers: BATCH-09
#[tokio::test]
async fn other_revisions_have_no_batches() {
    for revision in ["2025-06-18", "2025-11-25"] {
        let mut peer = Peer::opened(&ProbeService::new(), revision).await;
        peer.send(json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])).await;
        assert_eq!(code(&peer.read().await), -32600, "{revision}");
    }
    let mut peer = Peer::new(&ProbeService::new());
    peer.send(json!([modern(1, "tools/list", json!({}))])).await;
    assert_eq!(code(&peer.read().await), -32600);
}

/// covers: LIFE-09
#[tokio::test]
async fn a_session_is_told_what_its_revision_has_and_nothing_newer() {
    #[derive(serde::Serialize, schemars::JsonSchema)]
    struct Sum {
        sum: i64,
    }
    let tool = Tool::new("sum").title("Sum").description("Adds.").read_only(true);
    let server = Server::new("new", "1").title("New").tool(tool, || async { Json(Sum { sum: 3 }) });
    let first = ["description", "inputSchema", "name"];
    for (revision, since) in [
        ("2024-11-05", &[][..]),
        ("2025-03-26", &["annotations"]),
        ("2025-06-18", &["annotations", "outputSchema", "title"]),
    ] {
        let mut peer = Peer::of(StdioServer::new(server.clone()));
        let greeting = peer.open(revision).await;
        let is_titled = revision >= "2025-06-18";
        assert_eq!(greeting["result"]["serverInfo"].get("title").is_some(), is_titled, "{greeting}");
        peer.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
        let list = peer.read().await;
        let mut members: Vec<_> = list["result"]["tools"][0].as_object().unwrap().keys().cloned().collect();
        members.sort_unstable();
        let mut expected = [&first[..], since].concat();
        expected.sort_unstable();
        assert_eq!(members, expected, "{revision}");
        peer.tool(2, "sum", json!({})).await;
        let answer = peer.read().await;
        assert_eq!(text(&answer), "{\"sum\":3}", "{revision}");
        assert_eq!(answer["result"].get("structuredContent").is_some(), is_titled, "{answer}");
        for method in ["tasks/list", "subscriptions/listen"] {
            peer.send(json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": {}})).await;
            assert_eq!(code(&peer.read().await), -32601, "{method} in {revision}");
        }
    }
}
