//! Offered items and their changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hospes_model::{Method, SubscriptionsListenParams};

use super::*;
use crate::{Call, Outcome, Service};

fn offering() -> Server {
    Server::new("x", "1")
        .tool("t", || async { "t" })
        .prompt("p", |Args(City { city })| async move { city })
        .resource("x://a", "a")
        .resource("x://b", "b")
        .complete(Completes::prompt("p", "city"), |Typed(typed): Typed| async move { vec![typed] })
}

/// Change by change, unasked; resources only after a subscription, and no longer than that.
///
/// covers: TOOL-09 PRM-06 RES-10 RES-12 CAP-08
#[tokio::test]
async fn a_session_hears_of_each_list_that_changes_and_of_the_resources_it_subscribed_to() {
    for revision in OLDER {
        let server = offering();
        let handle = server.handle();
        let mut peer = peer(&server);
        let opened = peer.open(revision).await;
        for list in ["tools", "prompts", "resources"] {
            assert_eq!(opened["result"]["capabilities"][list]["listChanged"], true);
        }
        while handle.listeners() == 0 {
            peer.silence().await;
        }
        let heard = |method: &str| json!({ "jsonrpc": "2.0", "method": format!("notifications/{method}") });
        handle.add_tool("u", || async {}).unwrap();
        assert_eq!(peer.read().await, heard("tools/list_changed"), "{revision}");
        handle.remove_prompt("p");
        assert_eq!(peer.read().await, heard("prompts/list_changed"), "{revision}");
        handle.add_resource("x://c", "c").unwrap();
        assert_eq!(peer.read().await, heard("resources/list_changed"), "{revision}");
        // Nobody has subscribed yet.
        handle.resource_updated("x://a");
        let subscribed = ask(&mut peer, request(1, "resources/subscribe", json!({ "uri": "x://a" }))).await;
        assert_eq!(subscribed["result"], json!({}), "{revision}");
        // The stream with the new subscription takes the place of the old one.
        loop {
            handle.resource_updated("x://b");
            handle.resource_updated("x://a");
            peer.send(request(2, "ping", json!({}))).await;
            let message = peer.read().await;
            if message.get("id").is_none() {
                assert_eq!(message["params"], json!({ "uri": "x://a" }), "{revision}");
                while peer.read().await.get("id").is_none() {}
                break;
            }
        }
        assert_eq!(
            ask_quietly(&mut peer, request(3, "resources/unsubscribe", json!({ "uri": "x://a" }))).await["result"],
            json!({})
        );
    }
}

/// The answer, whatever is said before it.
async fn ask_quietly(peer: &mut Peer, message: Value) -> Value {
    peer.send(message).await;
    until_answer(peer).await.1
}

/// A list is the same for everybody who may see it, whatever they did before and however they came.
///
/// covers: TOOL-39 PRM-19 RES-28
#[tokio::test]
async fn lists_depend_neither_on_the_connection_nor_on_what_was_called_before() {
    let server = offering();
    let (mut one, mut other) = (peer(&server), peer(&server));
    other.open("2025-06-18").await;
    let mut seen = Vec::new();
    for (method, list) in [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ] {
        let first = ask(&mut one, modern(1, method, json!({}))).await["result"].clone();
        assert!(first[list].is_array(), "{method}: {first}");
        for (id, call) in [(2, json!({ "name": "t" })), (3, json!({ "name": "nothing" }))] {
            ask(&mut one, modern(id, "tools/call", call)).await;
        }
        ask(&mut one, modern(4, "prompts/get", json!({ "name": "p", "arguments": { "city": "Oslo" } })))
            .await;
        ask(&mut one, modern(5, "resources/read", json!({ "uri": "x://a" }))).await;
        assert_eq!(ask(&mut one, modern(6, method, json!({}))).await["result"], first, "{method}");
        let old = ask(&mut other, request(7, method, json!({}))).await["result"].clone();
        assert_eq!(old[list].as_array().unwrap().len(), first[list].as_array().unwrap().len());
        let mut third = peer(&server);
        assert_eq!(ask(&mut third, modern(8, method, json!({}))).await["result"], first, "{method}");
        seen.push(first[list].as_array().unwrap().len());
    }
    assert_eq!(seen, [1, 1, 2, 0]);
}

/// covers: CAP-10
#[tokio::test]
async fn completion_is_there_only_where_it_is_declared() {
    let params = || json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "city", "value": "O" } });
    let without = Server::new("x", "1").prompt("p", |Args(City { city })| async move { city });
    for revision in OLDER {
        let mut peer = peer(&offering());
        let declared = peer.open(revision).await["result"]["capabilities"]["completions"].is_object();
        // There was no such capability in the first revision, and nothing to gate the method.
        assert_eq!(declared, revision != "2024-11-05");
        let found = ask(&mut peer, request(1, "completion/complete", params())).await;
        assert_eq!(found["result"]["completion"]["values"], json!(["O"]), "{revision}");
        let mut peer = self::peer(&without);
        assert_eq!(peer.open(revision).await["result"]["capabilities"].get("completions"), None);
        assert_eq!(
            code(&ask(&mut peer, request(1, "completion/complete", params())).await),
            -32601,
            "{revision}"
        );
    }
    let refused = ask(&mut peer(&without), modern(1, "completion/complete", params())).await;
    assert_eq!(code(&refused), -32601);
}

/// covers: MSG-04
#[tokio::test]
async fn a_server_that_offers_nothing_is_a_server() {
    let server = Server::new("empty", "1");
    for revision in OLDER {
        let mut peer = peer(&server);
        let opened = peer.open(revision).await;
        assert_eq!(opened["result"]["capabilities"], json!({ "logging": {} }), "{revision}");
        for method in ["tools/list", "prompts/list", "resources/list", "completion/complete", "tools/call"] {
            assert_eq!(
                code(&ask(&mut peer, request(1, method, json!({}))).await),
                -32601,
                "{revision} {method}"
            );
        }
        assert_eq!(ask(&mut peer, request(2, "ping", json!({}))).await["result"], json!({}));
    }
    let found = ask(&mut peer(&server), modern(1, "server/discover", json!({}))).await;
    assert_eq!(found["result"]["capabilities"], json!({ "logging": {} }));
}

/// Counts the subscriptions that the service is asked to hear of.
struct Asked(Server, Arc<AtomicUsize>);

impl Service for Asked {
    async fn call(&self, call: Call) -> Outcome {
        if call.method == Method::SubscriptionsListen {
            let params: SubscriptionsListenParams = call.decode().unwrap();
            self.1.fetch_add(params.notifications.resource_subscriptions.len(), Ordering::Relaxed);
        }
        self.0.call(call).await
    }
}

/// As many subscriptions as a session may have, each told of once it is answered; and not all asked for with each.
#[tokio::test]
async fn a_session_subscribes_to_as_much_as_it_may() {
    const MAX: usize = 1024;
    let server = Server::new("x", "1").resource_template("x://{n}", async |_: crate::server::Uri| "x");
    let (handle, asked) = (server.handle(), Arc::new(AtomicUsize::new(0)));
    let mut peer = Peer::of(StdioServer::new(Asked(server, asked.clone())));
    peer.open("2025-11-25").await;
    let subscribe = |n: usize| request(1, "resources/subscribe", json!({ "uri": format!("x://{n}") }));
    for n in 0..MAX {
        assert_eq!(ask(&mut peer, subscribe(n)).await["result"], json!({}));
        // The newest, the one before it and the first are heard of.
        for n in [n, n.saturating_sub(1), 0].into_iter().take(if n % 100 < 2 { 3 } else { 1 }) {
            handle.resource_updated(&format!("x://{n}"));
            assert_eq!(peer.read().await["params"]["uri"], format!("x://{n}"));
        }
    }
    assert!(
        ask(&mut peer, subscribe(MAX)).await["error"]["message"]
            .as_str()
            .unwrap()
            .contains("max_subscriptions")
    );
    let asked = asked.load(Ordering::Relaxed);
    assert!(asked < 64 * MAX, "{asked} subscriptions were passed on for {MAX}");
    for n in 0..MAX {
        handle.resource_updated(&format!("x://{n}"));
        assert_eq!(peer.read().await["params"]["uri"], format!("x://{n}"));
    }
    let gone = ["x://0", "x://500", "x://1023"];
    for uri in gone {
        ask(&mut peer, request(1, "resources/unsubscribe", json!({ "uri": uri }))).await;
    }
    // What is no longer subscribed to goes unheard in time; what still is goes on.
    while handle.listeners() > 1 {
        peer.silence().await;
    }
    gone.into_iter().chain(["x://1"]).for_each(|uri| handle.resource_updated(uri));
    assert_eq!(peer.read().await["params"]["uri"], "x://1");
    peer.silence().await;
}
