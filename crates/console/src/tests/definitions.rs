//! A person accepts what a server offers, as they have seen it.

use hospes_host::server::{
    ConnectOptions, ConnectorFuture, UpstreamConnectError, UpstreamConnection, UpstreamConnector,
};
use hospes_host::{PinMode, PinningConfig};
use hospes_store::StateStore;

use super::*;

/// A program, as far as anybody here knows.
struct InMemory;

impl UpstreamConnector for InMemory {
    fn connect(
        &self,
        _: ConnectOptions,
    ) -> ConnectorFuture<'_, Result<UpstreamConnection, UpstreamConnectError>> {
        Box::pin(async {
            let mut connection =
                UpstreamConnection::new(hospes::BoxService::new(notes()), hospes::model::Revision::LATEST);
            connection.capabilities = serde_json::from_value(json!({ "tools": {} })).unwrap();
            Ok(connection)
        })
    }
}

/// Waits until the server's definitions are known, and returns its pins.
async fn seen(host: &Host, browser: &Browser) -> Value {
    let mut changes = host.pins().unwrap().changes();
    let look = async {
        loop {
            changes.mark_unchanged();
            let all = browser.get("/api/definitions").await.json();
            if all["servers"][0]["items"][0].is_object() {
                assert_eq!(all["isPinned"], true);
                return all["servers"][0].clone();
            }
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(LIMIT, look).await.expect("it is seen")
}

#[tokio::test]
async fn what_was_looked_at_is_accepted_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateStore::open(folder.path().join("state.db")).unwrap();
    let text = r#"{ "mcpServers": { "notes": { "command": "notes-server" } } }"#;
    let config = ConfigLoader::new().parse("mcp.json", text).unwrap();
    let host = Host::builder(config)
        .connectors(|_, _| Arc::new(InMemory) as _)
        .pins(PinningConfig::new(state, PinMode::Ask))
        .start()
        .unwrap();
    let listening = Console::new(&host).listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let browser = let_in(&listening).await;

    let server = seen(&host, &browser).await;
    assert_eq!((&server["state"], &server["items"][0]["name"]), (&json!("new"), &json!("write")));
    let path = "/api/definitions/notes";
    let shown = json!([server["items"][0]["hash"]]);
    let other = json!({ "hash": "0".repeat(64), "seen": shown });
    assert_eq!(browser.post(&format!("{path}/accept"), other).await.code(), "changed");
    assert_eq!(browser.post(&format!("{path}/accept"), json!({})).await.code(), "misread");
    let item = json!({ "kind": "tool", "name": "write" });
    let early = json!({ "hash": server["items"][0]["hash"], "item": item });
    assert_eq!(browser.post(&format!("{path}/accept"), early).await.code(), "server-first");
    let unseen = browser.post(&format!("{path}/accept"), json!({ "hash": server["hash"] })).await;
    assert_eq!(unseen.code(), "unseen", "an item was not shown");
    let whole = json!({ "hash": server["hash"], "seen": [server["items"][0]["hash"]] });
    let accepted = browser.post(&format!("{path}/accept"), whole).await.json();
    assert_eq!(accepted["state"], "accepted");
    let by = accepted["decidedBy"].as_str().unwrap();
    assert!(by.starts_with("the person at the console, browser session "), "{by}");
    let difference = browser.get(&format!("{path}/difference?kind=tool&name=write")).await.json();
    assert_eq!((&difference["item"]["state"], &difference["before"]), (&json!("accepted"), &Value::Null));
    let history = browser.get(&format!("{path}/history?kind=tool&name=write")).await.json();
    assert_eq!(history["history"][0]["state"], "accepted");
    let rejected = browser.post(&format!("{path}/reject"), json!({ "item": item })).await.json();
    assert_eq!(rejected["items"][0]["state"], "rejected");
    assert_eq!(browser.get("/api/definitions/none").await.code(), "nothing");
    assert_eq!(browser.get(&format!("{path}/history?kind=tol&name=x")).await.code(), "misread");
}

#[tokio::test]
async fn where_nothing_is_pinned_it_is_said() {
    let house = House::new().await;
    let browser = house.browser().await;
    assert_eq!(browser.get("/api/definitions").await.json(), json!({ "isPinned": false, "servers": [] }));
    assert_eq!(browser.get("/api/definitions/notes").await.code(), "nothing");
}
