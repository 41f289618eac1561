//! Client metadata and server errors.

use super::*;

/// Reserved keys may come with any value: the server asks for no shape but of those it uses itself.
///
/// covers: META-02
#[tokio::test]
async fn metadata_of_others_may_have_any_shape() {
    let strange = || {
        json!({
            "io.modelcontextprotocol/future": [1, { "a": null }], "mcp.dev/x": 7, "dev.mcp/y": "z",
            "io.modelcontextprotocol/related-task": 5, "com.example/mine": false,
        })
    };
    for revision in OLDER {
        let mut peer = peer(&asking());
        peer.open(revision).await;
        let mut meta = strange();
        // In these revisions even the names that the newest one uses are nobody's.
        meta["io.modelcontextprotocol/logLevel"] = json!({ "very": "loud" });
        meta["io.modelcontextprotocol/protocolVersion"] = json!(7);
        let said = ask(&mut peer, request(1, "tools/call", json!({ "name": "who", "_meta": meta }))).await;
        assert_eq!(text(&said), "nobody", "{revision}");
    }
    let said =
        ask(&mut peer(&asking()), modern(1, "tools/call", json!({ "name": "who", "_meta": strange() })))
            .await;
    assert_eq!(text(&said), "nobody");
    // And on the way back.
    let result = json!({ "content": [], "_meta": strange() });
    let read: hospes_model::CallToolResult = serde_json::from_value(result).unwrap();
    assert_eq!(read.meta.len(), 5);
}

/// covers: CAP-18
#[tokio::test]
async fn what_a_client_calls_itself_changes_nothing() {
    let server = asking();
    let mut seen: Vec<Value> = Vec::new();
    let known = json!({ "name": "claude-ai", "version": "1" });
    let admin = json!({ "name": "admin", "version": "root", "title": "Administrator" });
    for info in [None, Some(known), Some(admin)] {
        let mut peer = peer(&server);
        let mut said = Vec::new();
        for (id, method, params) in [
            (1, "server/discover", json!({})),
            (2, "tools/list", json!({})),
            (3, "tools/call", json!({ "name": "who" })),
            (4, "tools/call", json!({ "name": "sample" })),
            (5, "tools/call", json!({ "name": "nothing" })),
        ] {
            let mut request = modern(id, method, params);
            if let Some(info) = &info {
                request["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = info.clone();
            }
            said.push(ask(&mut peer, request).await);
        }
        seen.push(said.into());
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
}

/// covers: MSG-16
#[tokio::test]
async fn an_error_is_one_short_sentence() {
    let mut peer = peer(&asking());
    let long = "n".repeat(100_000);
    let mut strange_version = modern(1, "server/discover", json!({}));
    strange_version["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(long);
    let bad = [
        modern(1, "tools/call", json!({ "name": long })),
        modern(1, "tools/call", json!({ "name": 7 })),
        modern(1, "tools/call", json!({ "name": "who", "arguments": [] })),
        modern(1, "tools/list", json!({ "cursor": long })),
        modern(1, "tools/list", json!({ "cursor": { "a": 1 } })),
        modern(1, "no/such", json!({})),
        strange_version,
        able(1, json!({ "name": "sample" }), json!({})),
        able(1, json!({ "name": "sample" }), json!({ "sampling": 7 })),
        modern(1, "tools/call", json!({ "name": "who", "requestState": long })),
        json!({ "jsonrpc": "2.0", "id": 1, "method": 7 }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": 7 }),
        json!([]),
    ];
    for message in bad {
        let said = ask(&mut peer, message.clone()).await;
        let sentence = said["error"]["message"].as_str().unwrap_or_else(|| panic!("no error: {said}"));
        assert!(!sentence.is_empty() && sentence.len() < 400, "{} bytes: {message:.100}", sentence.len());
        assert!(!sentence.contains('\n') && !sentence.ends_with('.'), "{sentence:?}");
    }
    for line in ["{", "nonsense", "{\"jsonrpc\":\"2.0\",\"id\":{}}"] {
        peer.line(line).await;
        let said = peer.read().await;
        let sentence = said["error"]["message"].as_str().unwrap();
        assert!(sentence.len() < 400 && !sentence.contains('\n'), "{sentence:?}");
    }
}

/// Servers in one process know nothing of each other, whatever names they share.
///
/// covers: ARCH-10
#[tokio::test]
async fn servers_side_by_side_are_servers_apart() {
    let make = |text: &'static str| {
        Server::new("same", "1")
            .state(text)
            .tool("t", |crate::server::State(text): crate::server::State<&'static str>| async move {
                (*text).to_owned()
            })
    };
    let (one, other) = (make("one"), make("other"));
    let (mut to_one, mut to_other) = (peer(&one), peer(&other));
    to_one.open("2025-11-25").await;
    to_other.open("2025-11-25").await;
    while one.handle().listeners() == 0 || other.handle().listeners() == 0 {
        to_one.silence().await;
    }
    one.handle().add_tool("u", || async {}).unwrap();
    assert_eq!(to_one.read().await["method"], "notifications/tools/list_changed");
    to_other.silence().await;
    for (peer, text_of, tools) in [(&mut to_one, "one", 2), (&mut to_other, "other", 1)] {
        assert_eq!(text(&ask(peer, tool(1, "t", json!({}))).await), text_of);
        let listed = ask(peer, request(2, "tools/list", json!({}))).await;
        assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), tools);
    }
}
