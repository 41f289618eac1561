//! Results are checked before anybody relies on them.

use hospes::client::{CallError, Client};
use hospes::model::Revision;
use serde_json::{Value, json};

use crate::client_peer::{Log, Peer, settle};

/// A server with a tool that promises `{ "sum": integer }`; its arguments are the result it gives.
fn promising(message: &Value) -> Option<Value> {
    let integer =
        json!({ "type": "object", "properties": { "sum": { "type": "integer" } }, "required": ["sum"] });
    let elsewhere = json!({ "type": "object", "$ref": "http://127.0.0.1:9/schema.json" });
    let tool = |name: &str, output: &Value| json!({ "name": name, "inputSchema": { "type": "object" }, "outputSchema": output });
    Some(match message["method"].as_str()? {
        "tools/list" => json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [tool("add", &integer), tool("elsewhere", &elsewhere)] }),
        _ => {
            let mut result = message["params"]["arguments"].clone();
            result["resultType"] = "complete".into();
            result["content"] = json!([]);
            result
        }
    })
}

/// covers: TOOL-33 TOOL-26 TOOL-43
#[tokio::test(start_paused = true)]
async fn structured_content_has_to_be_what_the_tool_promised() {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let (client, peer) = Peer::connect(Client::builder(), revision, promising).await;
        let wrong = json!({ "structuredContent": { "sum": "secret" } });
        // Nothing is known yet of what it promises.
        client.call("add", &wrong).await.unwrap();
        client.tools().all().await.unwrap();
        let right = client.call("add", json!({ "structuredContent": { "sum": 3 } })).await.unwrap();
        assert_eq!(right.structured_content.unwrap().as_str(), r#"{"sum":3}"#);
        for (result, why) in [
            (&wrong, "structuredContent/sum does not match the tool's outputSchema"),
            (&json!({ "structuredContent": {} }), "\"sum\" is a required property"),
            (&json!({}), "has no structuredContent"),
        ] {
            let error = client.call("add", result).await.unwrap_err();
            assert!(matches!(error, CallError::Malformed { .. }), "{revision}: {error}");
            assert!(error.to_string().contains(why), "{revision}: {error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        // What failed has no result to check, and is the model's to see.
        let failed = client.call("add", json!({ "isError": true })).await.unwrap();
        assert_eq!(failed.is_error, Some(true));
        // Schemas are never fetched; nothing is checked against what is not at hand.
        client.call("elsewhere", json!({ "structuredContent": { "sum": "x" } })).await.unwrap();
        // Other tools may promise other things.
        if revision.is_legacy() {
            peer.tell("notifications/tools/list_changed", json!({})).await;
            settle().await;
            client.call("add", &wrong).await.unwrap();
        }
        let trusting = Client::builder().check_outputs(false);
        let (client, _peer) = Peer::connect(trusting, revision, promising).await;
        client.tools().all().await.unwrap();
        client.call("add", &wrong).await.unwrap();
    }
}

/// covers: TOOL-19
#[tokio::test(start_paused = true)]
async fn a_tools_own_failure_is_a_result_that_the_model_can_be_given() {
    for revision in Revision::ALL {
        let (client, _peer) = Peer::connect(Client::builder(), revision, |_| {
            let content = json!([{ "type": "text", "text": "no such city; try Bern" }]);
            Some(json!({ "resultType": "complete", "isError": true, "content": content }))
        })
        .await;
        let failed = client.call("weather", ()).await.unwrap();
        assert_eq!((failed.is_error, failed.all_text().as_str()), (Some(true), "no such city; try Bern"));
    }
}

/// Results of a tool with an unusable schema are not checked, and the log says why. A listener at the target of the
/// `$ref` receives no connection.
///
/// covers: JSCH-04 JSCH-07
#[tokio::test(start_paused = true)]
async fn a_schema_in_another_dialect_or_elsewhere_is_not_followed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let elsewhere = format!("http://{}/schema.json", listener.local_addr().unwrap());
    for (schema, why) in [
        (
            json!({ "$schema": "https://example.com/dialect" }),
            "unsupported schema dialect https://example.com/dialect",
        ),
        (json!({ "$ref": elsewhere }), "schema.json"),
        (json!({ "properties": { "a": { "$dynamicRef": elsewhere } } }), "schema.json"),
    ] {
        let log = Log::new();
        let (client, _peer) = Peer::connect(Client::builder(), Revision::LATEST, move |message| {
            let tools = json!([{ "name": "t", "inputSchema": { "type": "object" }, "outputSchema": schema }]);
            Some(match message["method"].as_str()? {
                "tools/list" => {
                    json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools })
                }
                _ => json!({ "resultType": "complete", "content": [], "structuredContent": { "a": 1 } }),
            })
        })
        .await;
        client.tools().all().await.unwrap();
        client.call("t", ()).await.unwrap();
        let said = log.lines("cannot validate results");
        assert!(said.len() == 1 && said[0].contains(why), "{said:?}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "somebody came");
}
