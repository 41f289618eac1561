//! Authorization, rate limits and redaction.

use std::sync::Arc;
use std::time::Duration;

use hospes_model::{CallToolResult, ClientCapabilities, ContentBlock, Method, RawJson, Revision, RpcError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{refusal, result, tool};
use crate::server::{Args, Completes, Feature, Handles, Server, State, Tool, hide_invisible};
use crate::{Call, Context, Outcome, Peer, Rate, Service};

fn peer(who: Option<&str>) -> Arc<Peer> {
    let mut peer = Peer::new(Revision::LATEST, None, ClientCapabilities::new());
    peer.principal = who.map(Into::into);
    Arc::new(peer)
}

/// The result or the error for somebody who is signed in.
async fn call_as(server: &Server, who: &str, method: &str, params: Value) -> Result<Value, RpcError> {
    let context = Context::new(peer(Some(who)));
    let method = Method::from_name(method);
    match server.call(Call::new(method.clone(), RawJson::from(params), context)).await {
        Outcome::Complete(reply) => {
            let mut bytes = Vec::new();
            let stamp = hospes_model::ServerStamp::anonymous();
            reply.encode(&method, Revision::LATEST, &stamp, &mut bytes).unwrap();
            Ok(serde_json::from_slice(&bytes).unwrap())
        }
        Outcome::Failed(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

/// Everything twice: for all, and for Ann alone.
fn guarded() -> Server {
    Server::new("x", "1")
        .page_size(1)
        .cache_lists(Duration::from_secs(60), hospes_model::CacheScope::Public)
        .cache_reads(Duration::from_secs(60), hospes_model::CacheScope::Public)
        .tool("open", || async { "open" })
        .tool("secret_tool", || async { "secret" })
        .tool("other", || async { "other" })
        .prompt("open", || async { "open" })
        .prompt("secret_prompt", |Args(_): Args<City>| async { "secret" })
        .resource("x://open", "open")
        .resource("x://secret", "secret")
        .resource_template("open://{city}", |Args(City { city })| async move { city })
        .resource_template("secret://{city}", |Args(City { city })| async move { city })
        .complete(Completes::prompt("secret_prompt", "city"), ["Oslo"])
        .complete(Completes::template("secret://{city}", "city"), ["Oslo"])
        .complete(Completes::template("open://{city}", "city"), ["Oslo"])
        .authorize(|context, feature| {
            let (Feature::Tool(what)
            | Feature::Prompt(what)
            | Feature::Resource(what)
            | Feature::ResourceTemplate(what)) = feature;
            context.principal() == Some("ann") || !what.contains("secret")
        })
}

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

async fn listed(server: &Server, who: &str, method: &str, list: &str, key: &str) -> Vec<String> {
    let (mut all, mut params) = (Vec::new(), json!({}));
    loop {
        let page = call_as(server, who, method, params).await.unwrap();
        assert_eq!(page["cacheScope"], "private", "what one caller sees is kept for nobody else");
        let page_of_one = page[list].as_array().unwrap();
        assert!(page_of_one.len() <= 1);
        all.extend(page_of_one.iter().map(|entry| entry[key].as_str().unwrap().to_owned()));
        match page.get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return all,
        }
    }
}

/// covers: TOOL-21 RES-24 CACHE-13
#[tokio::test]
async fn what_a_caller_may_not_use_is_not_there_for_them() {
    let server = guarded();
    for (method, list, key, all) in [
        ("tools/list", "tools", "name", &["open", "secret_tool", "other"][..]),
        ("prompts/list", "prompts", "name", &["open", "secret_prompt"]),
        ("resources/list", "resources", "uri", &["x://open", "x://secret"]),
        (
            "resources/templates/list",
            "resourceTemplates",
            "uriTemplate",
            &["open://{city}", "secret://{city}"],
        ),
    ] {
        assert_eq!(listed(&server, "ann", method, list, key).await, all);
        let open: Vec<&str> = all.iter().copied().filter(|name| !name.contains("secret")).collect();
        assert_eq!(listed(&server, "bob", method, list, key).await, open, "{method}");
    }
    for (method, there, not_there) in [
        ("tools/call", json!({ "name": "secret_tool" }), json!({ "name": "secret_tol" })),
        (
            "prompts/get",
            json!({ "name": "secret_prompt", "arguments": { "city": "Oslo" } }),
            json!({ "name": "secret_promt", "arguments": { "city": "Oslo" } }),
        ),
        ("resources/read", json!({ "uri": "x://secret" }), json!({ "uri": "x://secre" })),
        ("resources/read", json!({ "uri": "secret://Oslo" }), json!({ "uri": "secre://Oslo" })),
    ] {
        call_as(&server, "ann", method, there.clone()).await.unwrap();
        let refused = call_as(&server, "bob", method, there).await.unwrap_err();
        let unknown = call_as(&server, "bob", method, not_there).await.unwrap_err();
        assert_eq!((refused.code, unknown.code), (-32602, -32602));
        // Not even a suggestion tells that there is one, and nobody can see whether a name is wrong or forbidden.
        assert!(!unknown.message.contains("did you mean"), "{unknown}");
        let alike = unknown.message.replace("tol", "tool").replace("promt", "prompt");
        assert_eq!(
            refused.message,
            alike.replace("x://secre", "x://secret").replace("secre://", "secret://")
        );
        call_as(&server, "bob", "tools/call", json!({ "name": "open" })).await.unwrap();
    }
    let read = call_as(&server, "ann", "resources/read", json!({ "uri": "x://secret" })).await.unwrap();
    assert_eq!((&read["cacheScope"], &read["ttlMs"]), (&json!("private"), &json!(60_000)));
}

/// covers: COMP-13 COMP-14
#[tokio::test]
async fn completions_tell_a_caller_nothing_of_what_they_may_not_use() {
    let server = guarded();
    let prompt = |name: &str, argument: &str| json!({ "ref": { "type": "ref/prompt", "name": name }, "argument": { "name": argument, "value": "" } });
    let template = |uri: &str| json!({ "ref": { "type": "ref/resource", "uri": uri }, "argument": { "name": "city", "value": "" } });
    for params in [prompt("secret_prompt", "city"), template("secret://{city}")] {
        let found = call_as(&server, "ann", "completion/complete", params.clone()).await.unwrap();
        assert_eq!(found["completion"]["values"], json!(["Oslo"]));
        let refused = call_as(&server, "bob", "completion/complete", params).await.unwrap_err();
        assert!(refused.code == -32602 && refused.message.starts_with("unknown "), "{refused}");
        assert!(!refused.message.contains("mean `secret"), "{refused}");
    }
    // An argument that it does not have is not told apart from one that it has.
    let one = call_as(&server, "bob", "completion/complete", prompt("secret_prompt", "city")).await;
    let other = call_as(&server, "bob", "completion/complete", prompt("secret_prompt", "town")).await;
    assert_eq!(one.unwrap_err(), other.unwrap_err());
    let found = call_as(&server, "bob", "completion/complete", template("open://{city}")).await.unwrap();
    assert_eq!(found["completion"]["values"], json!(["Oslo"]));
}

#[test]
fn nobody_listens_to_what_they_may_not_read() {
    use crate::{BoxService, Exchange, ExchangeEvent};
    let server = guarded();
    for (who, heard) in [("ann", 2), ("bob", 0)] {
        let params = json!({ "notifications": { "resourceSubscriptions": ["x://secret", "secret://Oslo"] } });
        let call = Call::new(Method::SubscriptionsListen, params.into(), Context::new(peer(Some(who))));
        let mut exchange = Exchange::new(BoxService::new(server.clone()), call);
        let waker = futures::task::noop_waker();
        let event = exchange.poll_event(&mut std::task::Context::from_waker(&waker));
        let std::task::Poll::Ready(ExchangeEvent::Notify(
            hospes_model::Notification::SubscriptionsAcknowledged(said),
        )) = event
        else {
            panic!("{event:?}")
        };
        assert_eq!(said.notifications.resource_subscriptions.len(), heard, "{who}");
    }
}

/// covers: TOOL-22
#[tokio::test(start_paused = true)]
async fn calls_beyond_the_rate_are_told_when_to_come_again() {
    let server = Server::new("x", "1")
        .tool("plain", || async { "done" })
        .tool(Tool::new("dear").rate(Rate::per_minute(1)), || async { "done" })
        .tool_rate(Rate::per_second(10).burst(3));
    let text = async |who: &str, name: &str| {
        let result = call_as(&server, who, "tools/call", json!({ "name": name })).await.unwrap();
        (result["content"][0]["text"].as_str().unwrap().to_owned(), result["isError"] == true)
    };
    assert_eq!(text("ann", "dear").await, ("done".into(), false));
    let (why, failed) = text("ann", "dear").await;
    assert!(failed, "the model reads it");
    assert_eq!(why, "too many calls of dear: the limit is 1 a minute (setting rate); try again in 60001 ms");
    assert_eq!(text("ann", "plain").await, ("done".into(), false));
    let (why, failed) = text("ann", "plain").await;
    assert!(failed && why.contains("tool_rate") && why.contains("101 ms"), "{why}");
    // Each caller has a count of their own, and nobody waits for ever.
    assert_eq!(text("bob", "plain").await, ("done".into(), false));
    tokio::time::advance(Duration::from_millis(101)).await;
    assert_eq!(text("ann", "plain").await, ("done".into(), false));
    // Those who are not signed in share one: connections are cheap.
    let mut served = 0;
    for _ in 0..10 {
        served += usize::from(!tool(&server, "plain", json!({})).await.1);
    }
    assert_eq!(served, 3);
}

/// covers: COMP-06 COMP-12
#[tokio::test(start_paused = true)]
async fn completions_are_limited_unless_told_otherwise() {
    let server = Server::new("x", "1")
        .prompt("p", |Args(City { city })| async move { city })
        .complete(Completes::prompt("p", "city"), ["Oslo"]);
    let complete = async |server: &Server| {
        let params = json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "city", "value": "" } });
        call_as(server, "ann", "completion/complete", params).await
    };
    for _ in 0..200 {
        complete(&server).await.unwrap();
    }
    let refused = complete(&server).await.unwrap_err();
    assert_eq!(refused.code, -32603);
    assert!(refused.message.contains("completion_rate"), "{refused}");
    assert_eq!(refused.data.unwrap().to_value().unwrap(), json!({ "retryAfterMs": 11 }));
    tokio::time::advance(Duration::from_millis(11)).await;
    complete(&server).await.unwrap();
    let server = server.completion_rate(Rate::per_second(1));
    complete(&server).await.unwrap();
    complete(&server).await.unwrap_err();
}

/// covers: TOOL-23
#[tokio::test]
async fn results_are_looked_over_before_anybody_sees_them() {
    const HIDDEN: &str = "a\u{1b}[31mb\u{202e}\n\tc\u{e0041}\u{e0042}\u{0}";
    let server = Server::new("x", "1")
        .tool("text", || async { HIDDEN })
        .tool("fails", || async { Err::<(), _>(HIDDEN) })
        .tool("embedded", || async { hospes_model::ResourceContents::text("x://y", HIDDEN) })
        .tool("sees", |State(seen): State<std::sync::Mutex<Vec<String>>>| async move {
            seen.lock().unwrap().join(",")
        })
        .state(std::sync::Mutex::new(Vec::<String>::new()));
    assert_eq!(tool(&server, "text", json!({})).await.0, HIDDEN, "only where it is asked for");
    let server = server.sanitize_results(hide_invisible);
    assert_eq!(tool(&server, "text", json!({})).await, ("a[31mb\n\tc".into(), false));
    assert_eq!(tool(&server, "fails", json!({})).await, ("a[31mb\n\tc".into(), true));
    let embedded = result(&server, "tools/call", json!({ "name": "embedded" })).await;
    assert_eq!(embedded["content"][0]["resource"]["text"], "a[31mb\n\tc");
    let server = server.sanitize_results(|tool, result: &mut CallToolResult| {
        result.content = vec![ContentBlock::text(format!("checked {tool}"))];
    });
    assert_eq!(tool(&server, "text", json!({})).await.0, "checked text");
}

/// covers: TOOL-44
#[tokio::test(start_paused = true)]
async fn a_handle_serves_its_caller_for_its_time() {
    #[derive(Deserialize, JsonSchema)]
    struct Cart {
        cart: String,
    }
    let server = Server::new("shop", "1")
        .state(Handles::<&'static str>::new(Duration::from_secs(60)).max_handles(2))
        .tool("open", |State(carts): State<Handles<&'static str>>, ctx: Context| async move {
            carts.keep(&ctx, "shoes")
        })
        .tool(
            "look",
            |State(carts): State<Handles<&'static str>>, ctx: Context, Args(Cart { cart })| async move {
                carts.get(&ctx, &cart).map(|cart| (*cart).to_owned())
            },
        )
        .tool(
            "buy",
            |State(carts): State<Handles<&'static str>>, ctx: Context, Args(Cart { cart })| async move {
                carts.take(&ctx, &cart).map(|cart| (*cart).to_owned())
            },
        );
    let text = async |who: &str, name: &str, arguments: Value| {
        let params = json!({ "name": name, "arguments": arguments });
        let result = call_as(&server, who, "tools/call", params).await.unwrap();
        (result["content"][0]["text"].as_str().unwrap().to_owned(), result["isError"] == true)
    };
    let gone = ("unknown or expired handle; start again".to_owned(), true);
    let (cart, _) = text("ann", "open", json!({})).await;
    assert_eq!(cart.len(), 32);
    assert_eq!(text("ann", "look", json!({ "cart": cart })).await, ("shoes".into(), false));
    // A result that the model reads, the same whether it is unknown, another's or expired.
    assert_eq!(text("bob", "look", json!({ "cart": cart })).await, gone);
    assert_eq!(text("ann", "look", json!({ "cart": "0" })).await, gone);
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(text("ann", "look", json!({ "cart": cart })).await, ("shoes".into(), false));
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(text("ann", "look", json!({ "cart": cart })).await, gone);
    // As many as may be kept, and those that have expired make room.
    let (second, _) = text("ann", "open", json!({})).await;
    assert_ne!(second, cart);
    assert!(!text("ann", "open", json!({})).await.1);
    let (full, failed) = text("ann", "open", json!({})).await;
    assert!(failed && full.contains("max_handles"), "{full}");
    assert_eq!(text("ann", "buy", json!({ "cart": second })).await, ("shoes".into(), false));
    assert_eq!(text("ann", "buy", json!({ "cart": second })).await, gone);
}

/// Unused values are removed even when there is room.
#[tokio::test(start_paused = true)]
async fn what_a_handle_kept_goes_when_its_time_is_over() {
    let (minute, alive) = (Duration::from_secs(60), std::sync::Arc::new(()));
    let carts = Handles::new(minute);
    let context = super::context();
    let held = || std::sync::Arc::strong_count(&alive) - 1;
    let _first = carts.keep(&context, alive.clone()).unwrap();
    tokio::time::sleep(minute / 2).await;
    let second = carts.keep(&context, alive.clone()).unwrap();
    assert_eq!(held(), 2);
    tokio::time::sleep(minute * 2 / 3).await;
    assert_eq!(held(), 1);
    carts.get(&context, &second).unwrap();
    tokio::time::sleep(minute * 2 / 3).await;
    assert_eq!(held(), 1, "it was asked for meanwhile");
    tokio::time::sleep(minute).await;
    assert_eq!(held(), 0);
    // And so with what comes after a time in which there was nothing.
    carts.keep(&context, alive.clone()).unwrap();
    tokio::time::sleep(minute * 2).await;
    assert_eq!(held(), 0);
}

#[test]
fn keys_and_identifiers_that_may_not_be_chosen_are_refused_at_the_callers_line() {
    let meta = |key: &str| hospes_model::Meta::new().with(key, &1);
    let nothing = || async {};
    let said = refusal(file!(), || Server::new("x", "1").extension("ui", json!({})));
    assert!(said.contains("invalid extension identifier"), "{said}");
    let said = refusal(file!(), || Server::new("x", "1").tool(Tool::new("t").meta(meta("a b")), nothing));
    assert!(said.contains("invalid `_meta` key \"a b\""), "{said}");
    let resource = crate::server::Resource::new("x:y").meta(meta("dev.mcp/a"));
    let said = refusal(file!(), || Server::new("x", "1").resource(resource, "text"));
    assert!(said.contains("reserved for the specification"), "{said}");
    let template = crate::server::Template::new("x:{y}").meta(meta("/a"));
    let said = refusal(file!(), || Server::new("x", "1").resource_template(template, "text"));
    assert!(said.contains("invalid `_meta` key"), "{said}");
    let prompt = crate::server::Prompt::new("p").meta(meta("a."));
    let said = refusal(file!(), || Server::new("x", "1").prompt(prompt, || async { "p" }));
    assert!(said.contains("invalid `_meta` key"), "{said}");
    let fine = Tool::new("t").meta(meta("com.example/a"));
    let _ = Server::new("x", "1").tool(fine, nothing).extension("io.modelcontextprotocol/ui", json!({}));
}
