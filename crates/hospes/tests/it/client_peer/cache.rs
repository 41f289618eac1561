//! Tests of the response cache.

use std::time::Duration;

use hospes::client::{Client, ClientBuilder};
use hospes::model::{Method, Notification, Revision, SubscriptionFilter};
use hospes::{Call, Context, Outcome, Peer as Caller, Service};
use serde_json::{Value, json};

use crate::client_peer::{Peer, settle};

/// A server whose lists and resources stay fresh for a minute.
fn fresh(message: &Value) -> Option<Value> {
    let mut result = json!({ "resultType": "complete", "ttlMs": 60_000, "cacheScope": "private" });
    let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
    match (message["method"].as_str()?, message["params"]["cursor"].as_str()) {
        ("tools/list", None) => {
            result["tools"] = json!([tool("a")]);
            result["nextCursor"] = "2".into();
        }
        ("tools/list", _) => result["tools"] = json!([tool("b")]),
        ("prompts/list", _) => result["prompts"] = json!([]),
        ("resources/read", _) => {
            let uri = &message["params"]["uri"];
            result["contents"] = json!([{ "uri": uri, "text": "hello" }]);
        }
        ("subscriptions/listen", _) => return None,
        other => panic!("{other:?}"),
    }
    Some(result)
}

async fn connect(builder: ClientBuilder) -> (Client, Peer) {
    Peer::connect(builder, Revision::LATEST, fresh).await
}

/// covers: CACHE-04 CACHE-07 CACHE-11
#[tokio::test(start_paused = true)]
async fn what_is_fresh_is_not_asked_for_again_nor_before_somebody_wants_it() {
    let (client, peer) = connect(Client::builder()).await;
    for _ in 0..3 {
        let names: Vec<String> =
            client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(client.read("a://x").await.unwrap().contents.len(), 1);
        assert!(client.prompts().all().await.unwrap().is_empty());
    }
    assert_eq!(peer.count("tools/list"), 2, "one question for each page");
    assert_eq!(peer.count("prompts/list"), 1);
    client.read("a://y").await.unwrap();
    assert_eq!(peer.count("resources/read"), 2, "each resource by itself");
    // A day later everything is stale, and nobody has asked for it.
    let heard = peer.heard().len();
    tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await;
    assert_eq!(peer.heard().len(), heard);
    client.tools().all().await.unwrap();
    assert_eq!(peer.count("tools/list"), 4);
    client.tools().refresh().all().await.unwrap();
    assert_eq!(peer.count("tools/list"), 6);
    client.read("a://x").refresh().await.unwrap();
    assert_eq!(peer.count("resources/read"), 3);
    // And who wants none of it has none of it.
    let (client, peer) = connect(Client::builder().cache_bytes(0)).await;
    for _ in 0..2 {
        client.prompts().all().await.unwrap();
    }
    assert_eq!(peer.count("prompts/list"), 2);
}

/// covers: CACHE-10
#[tokio::test(start_paused = true)]
async fn a_change_that_is_told_ends_what_it_concerns() {
    let (client, peer) = connect(Client::builder().on_list_changed(|_| ())).await;
    // The client's own stream, and one that somebody else has opened for a resource.
    let own = peer.wait_for(1, "subscriptions/listen").await.remove(0)["id"].clone();
    let mut filter = SubscriptionFilter::new();
    filter.resource_subscriptions.push("a://x".into());
    let meta = |id: &Value| json!({ "io.modelcontextprotocol/subscriptionId": id });
    let listening = tokio::spawn({
        let client = client.clone();
        async move { client.listen(filter).await.unwrap() }
    });
    let theirs = peer.wait_for(2, "subscriptions/listen").await.remove(1)["id"].clone();
    let acknowledged =
        json!({ "_meta": meta(&theirs), "notifications": { "resourceSubscriptions": ["a://x"] } });
    peer.tell("notifications/subscriptions/acknowledged", acknowledged).await;
    let mut subscription = listening.await.unwrap();

    client.prompts().all().await.unwrap();
    client.tools().all().await.unwrap();
    client.read("a://x").await.unwrap();
    peer.tell("notifications/tools/list_changed", json!({ "_meta": meta(&own) })).await;
    peer.tell("notifications/resources/updated", json!({ "uri": "a://x", "_meta": meta(&theirs) })).await;
    assert!(matches!(subscription.next().await, Some(Notification::ResourceUpdated(_))));
    settle().await;
    client.prompts().all().await.unwrap();
    client.tools().all().await.unwrap();
    client.read("a://x").await.unwrap();
    let counts = ["prompts/list", "tools/list", "resources/read"].map(|method| peer.count(method));
    assert_eq!(counts, [1, 4, 2]);
}

/// covers: CACHE-11
#[tokio::test(start_paused = true)]
async fn a_cursor_that_the_server_no_longer_knows_ends_all_pages() {
    let mut lists = 0;
    let (client, peer) = Peer::connect(Client::builder(), Revision::LATEST, move |message| {
        lists += 1;
        let cursor = message["params"]["cursor"].as_str();
        match (cursor, lists) {
            (Some(_), 2) => Some(json!({ "error": { "code": -32602, "message": "no such cursor" } })),
            _ => fresh(message),
        }
    })
    .await;
    assert!(client.tools().all().await.is_err());
    assert_eq!(client.tools().all().await.unwrap().len(), 2);
    let cursors: Vec<Value> =
        peer.wait_for(4, "tools/list").await.iter().map(|list| list["params"]["cursor"].clone()).collect();
    assert_eq!(cursors, [Value::Null, "2".into(), Value::Null, "2".into()]);
}

/// covers: CACHE-05
#[tokio::test(start_paused = true)]
async fn an_answer_that_somebody_had_to_help_with_is_not_given_to_others() {
    let builder = Client::builder().roots(["file:///srv"]);
    let (client, peer) = Peer::connect(builder, Revision::LATEST, |message| {
        if message["params"].get("inputResponses").is_some() {
            return fresh(message);
        }
        Some(json!({ "resultType": "input_required", "requestState": "s", "ttlMs": 60_000,
            "inputRequests": { "roots": { "method": "roots/list" } } }))
    })
    .await;
    for _ in 0..2 {
        client.read("a://x").await.unwrap();
    }
    assert_eq!(peer.count("resources/read"), 4);
}

/// covers: CACHE-06
#[tokio::test(start_paused = true)]
async fn a_private_answer_is_for_one_principal() {
    let (client, peer) = connect(Client::builder()).await;
    let read = |principal: &str| {
        let caller = Caller::new(Revision::LATEST, None, Default::default()).with_principal(principal);
        let params = json!({ "uri": "a://x" });
        let call = Call::new(Method::ResourcesRead, params.into(), Context::new(caller.into()));
        let client = client.clone();
        async move {
            let outcome = Service::call(&client, call).await;
            assert!(matches!(outcome, Outcome::Complete(_)), "{outcome:?}");
        }
    };
    for principal in ["ada", "ada", "bob", "ada"] {
        read(principal).await;
    }
    assert_eq!(peer.count("resources/read"), 2);
    client.read("a://x").await.unwrap();
    assert_eq!(peer.count("resources/read"), 3);
}
