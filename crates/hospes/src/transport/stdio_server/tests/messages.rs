//! Messages, however long, deep or wrong.

use tokio::io::AsyncWriteExt as _;

use super::*;

/// covers: MSG-18
#[tokio::test]
async fn probe_malformed_json_is_answered() {
    let mut peer = Peer::opened(&ProbeService::new(), "2025-11-25").await;
    for bad in ["{\"jsonrpc\":\"2.0\",\"id\":1,", "nonsense", "{\"id\":\"\u{1}\"}"] {
        peer.line(bad).await;
        assert_eq!(code(&peer.read().await), -32700, "{bad}");
    }
    for (bad, id) in [
        ("{}", Value::Null),
        ("[1]", Value::Null),
        ("7", Value::Null),
        ("{\"jsonrpc\":\"1.0\",\"id\":3,\"method\":\"ping\"}", json!(3)),
        ("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\",\"params\":[]}", json!(4)),
        ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", Value::Null),
    ] {
        peer.line(bad).await;
        let answer = peer.read().await;
        assert_eq!((code(&answer), &answer["id"]), (-32600, &id), "{bad}");
    }
    peer.silence().await;
}

#[tokio::test]
async fn probe_an_unknown_method_is_method_not_found() {
    let mut peer = Peer::opened(&ProbeService::new(), "2025-11-25").await;
    for method in ["no/such", "server/discover", "subscriptions/listen", "sampling/createMessage"] {
        peer.send(json!({"jsonrpc": "2.0", "id": 1, "method": method})).await;
        assert_eq!(code(&peer.read().await), -32601, "{method}");
    }
}

#[tokio::test]
async fn probe_a_request_of_17_mib_is_served() {
    let mut peer = Peer::opened(&ProbeService::new(), "2025-11-25").await;
    let long = "x".repeat(17 * 1024 * 1024);
    peer.tool(1, "echo", json!({"text": long})).await;
    let answer = peer.read().await;
    // The request is served; an answer of that size would end the session of the official TypeScript clients.
    assert_eq!(answer["result"]["isError"], true);
    assert!(text(&answer).contains("max_answer_bytes"), "{}", text(&answer));
    peer.tool(2, "sleep", json!({"text": long})).await;
    assert_eq!(text(&peer.read().await), "slept");
}

/// A peer reads 11 MB in half a second and 40 MB in ten (defect R3): here four times the bytes take about four times as
/// long.
#[tokio::test]
async fn a_long_message_is_read_in_linear_time() {
    let mut peer = Peer::opened(&ProbeService::new(), "2025-11-25").await;
    let mut times = Vec::new();
    for (id, megabytes) in [(1, 2), (2, 2), (3, 8)] {
        let long = "x".repeat(megabytes * 1_000_000);
        let start = std::time::Instant::now();
        peer.tool(id, "sleep", json!({"text": long})).await;
        assert_eq!(text(&peer.read().await), "slept");
        times.push(start.elapsed());
    }
    assert!(times[2] < 12 * times[1].max(Duration::from_millis(100)), "{times:?}");
}

/// Peers close the connection at a long line, and every call that waits dies with it (defect R2).
#[tokio::test]
async fn a_message_over_the_limit_fails_alone() {
    let mut peer =
        Peer::of(StdioServer::new(ProbeService::new()).max_message_bytes(100_000).max_answer_bytes(50_000));
    peer.open("2025-11-25").await;
    peer.tool(1, "echo", json!({"text": "x".repeat(200_000)})).await;
    let answer = peer.read().await;
    assert_eq!((code(&answer), &answer["id"]), (-32600, &json!(1)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("max_message_bytes"));
    // And an answer that is too long is replaced.
    peer.tool(2, "echo", json!({"text": "x".repeat(60_000)})).await;
    assert!(text(&peer.read().await).contains("max_answer_bytes"));
    peer.silence().await;
}

/// Such a line used to be skipped without an error, and nothing was read afterwards.
#[tokio::test]
async fn a_line_without_end_is_refused_and_ends_the_connection() {
    let mut peer = Peer::of(StdioServer::new(ProbeService::new()).max_message_bytes(100_000));
    peer.open("2025-11-25").await;
    let call =
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":""#;
    peer.output.write_all(call.as_bytes()).await.unwrap();
    for _ in 0..5 {
        // The last ones may not be taken any more.
        let _ = peer.output.write_all(&vec![b'x'; 100_000]).await;
    }
    let answer = peer.read().await;
    assert_eq!(code(&answer), -32600);
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("over the limit of 100000 (setting max_message_bytes)"), "{why}");
    assert_eq!(peer.read_or_end().await, None);
}

#[tokio::test]
async fn probe_json_200_deep_is_answered() {
    let mut peer = Peer::opened(&ProbeService::new(), "2025-11-25").await;
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    peer.line(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"echo\",\"arguments\":{{\"x\":{deep}}}}}}}"
    ))
    .await;
    assert_eq!(peer.read().await["id"], 1);
    let deeper = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    peer.line(&deeper).await;
    assert!(matches!(code(&peer.read().await), -32700 | -32600));
    peer.silence().await;
}

/// Each says which member is meant, and what it must be.
#[tokio::test]
async fn params_that_cannot_be_read_are_named() {
    let meta = |member: &str| {
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        format!(r#"{{"_meta":{{{version},"io.modelcontextprotocol/clientCapabilities":{{}},{member}}}}}"#)
    };
    let mut peer = Peer::new(&ProbeService::new());
    for (params, expected) in [
        (r#"{"_meta":5}"#.to_owned(), "params._meta must be an object"),
        (meta(r#""progressToken":{}"#), r#"params._meta["progressToken"] must be a string or an integer"#),
        (
            meta(r#""io.modelcontextprotocol/clientInfo":[]"#),
            r#"params._meta["io.modelcontextprotocol/clientInfo"] must be an object"#,
        ),
        (
            meta(r#""io.modelcontextprotocol/logLevel":7"#),
            r#"params._meta["io.modelcontextprotocol/logLevel"] must be a log level such as "info""#,
        ),
        (r#"{"_meta":{},"name":"a","name":"b"}"#.to_owned(), r#"params has "name" twice"#),
        (r#"{"_meta":{},"_meta":{}}"#.to_owned(), r#"params has "_meta" twice"#),
    ] {
        peer.line(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)).await;
        let answer = peer.read().await;
        assert_eq!((code(&answer), answer["error"]["message"].as_str()), (-32602, Some(expected)));
    }
    let mut session = Peer::opened(&ProbeService::new(), "2025-06-18").await;
    session.line(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#).await;
    assert_eq!(session.read().await["error"]["message"], r#"params has "name" twice"#);
}

#[tokio::test]
async fn probe_an_unknown_tool_is_invalid_params() {
    let mut peer = Peer::opened(&ProbeService::new(), "2025-11-25").await;
    peer.tool(1, "no such tool", json!({})).await;
    assert_eq!(code(&peer.read().await), -32602);
}

#[tokio::test]
async fn probe_an_undeclared_argument_is_a_tool_error() {
    let mut peer = Peer::opened(&ProbeService::new(), "2025-11-25").await;
    peer.tool(1, "echo", json!({"text": "a", "colour": "red"})).await;
    let answer = peer.read().await;
    assert_eq!(answer["result"]["isError"], true);
    assert!(text(&answer).contains("colour"));
}
