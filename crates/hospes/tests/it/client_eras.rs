//! The client with our own server: every transport, every revision, the same program.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hospes::client::{CallError, Client, ClientBuilder, ListKind, Target};
use hospes::model::{
    CreateMessageResult, ElicitResult, Notification, RawJson, Revision, SamplingMessageContentBlock,
    SubscriptionFilter,
};
use hospes::prelude::*;
use hospes::server::{Args, Server};
use hospes::transport::http_server::{Endpoint, HttpServer};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Who {
    name: String,
}

fn server() -> Server {
    Server::new("test", "1.0")
        .tool("add", |Args(Add { a, b }): Args<Add>| async move { a + b })
        .tool("slow", |ctx: Context| async move {
            for step in 1..=3 {
                ctx.progress(f64::from(step), Some(3.0), None);
                tokio::task::yield_now().await;
            }
            "done"
        })
        .tool("hang", std::future::pending::<String>)
        .tool("ask", |ctx: Context| async move {
            let who: Who = ctx.elicit("Who?").await?;
            let model = ctx.sample("Greet").max_tokens(10).await?;
            let roots = ctx.roots().await?;
            Ok::<_, hospes::Error>(format!("{} {} {}", model.text(), who.name, roots[0].uri))
        })
}

fn answering() -> ClientBuilder {
    Client::builder()
        .roots(["file:///srv"])
        .sampling(|_| async { Ok(CreateMessageResult::new("m", SamplingMessageContentBlock::text("Hello"))) })
        .elicitation(|_| async { Ok(ElicitResult::accept(RawJson::from(json!({ "name": "you" })))) })
}

struct Reached {
    url: String,
    endpoint: Endpoint,
    handle: hospes::server::ServerHandle,
}

/// Serves over HTTP for as long as the test runs.
async fn serve() -> Reached {
    let server = server();
    let handle = server.handle();
    let endpoint = Endpoint::builder(server).sse(true).build();
    let http = HttpServer::bind("127.0.0.1:0", endpoint.clone()).await.unwrap();
    let url = http.url();
    tokio::spawn(http.serve());
    Reached { url, endpoint, handle }
}

/// Does something again and again until something else is done.
async fn while_doing(again: impl Future<Output = ()>, done: impl Future<Output = ()>) {
    tokio::select! {
        () = again => {}
        () = done => {}
        () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it does not come to that"),
    }
}

const OVER_HTTP: &[Revision] =
    &[Revision::V2025_03_26, Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28];

async fn uses(client: &Client, revision: Revision) {
    assert_eq!(client.revision(), revision);
    assert_eq!(client.server_info().unwrap().name, "test", "{revision}");
    let names: Vec<String> = client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["add", "slow", "hang", "ask"]);
    let sum: i64 = client.call("add", json!({ "a": 20, "b": 22 })).await.unwrap().parse().unwrap();
    assert_eq!(sum, 42, "{revision}");
    let reports = Mutex::new(Vec::new());
    let slow = client.call("slow", ()).on_progress(|report| reports.lock().unwrap().push(report.progress));
    assert_eq!(slow.await.unwrap().all_text(), "done");
    assert_eq!(*reports.lock().unwrap(), [1.0, 2.0, 3.0], "{revision}");
    let error = client.call("nothing", ()).await.unwrap_err();
    assert_eq!(error.rpc().unwrap().code, -32602, "{revision}");
    let error = client.call("hang", ()).timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }), "{revision}: {error}");
    client.ping().await.unwrap();
    if revision >= Revision::V2025_06_18 {
        let answer = client.call("ask", ()).await.unwrap();
        assert_eq!(answer.all_text(), "Hello you file:///srv", "{revision}");
    }
    assert!(matches!(client.prompts().all().await, Err(CallError::NotOffered("prompts"))));
}

/// covers: MSG-02 MSG-03 MSG-04 VER-08
#[tokio::test]
async fn in_memory_in_every_revision() {
    for revision in Revision::ALL {
        let client = answering().revision(revision).in_memory(server()).await.unwrap();
        uses(&client, revision).await;
        client.close().await;
        assert!(client.call("add", ()).await.unwrap_err().is_closed());
    }
    let client = Client::in_memory(server()).await.unwrap();
    assert_eq!(client.revision(), Revision::LATEST);
}

#[tokio::test]
async fn a_handler_that_panics_is_a_refusal() {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25] {
        let client = Client::builder().revision(revision).elicitation(|_| async { panic!("a test") });
        let client = client.in_memory(server()).await.unwrap();
        let asked = tokio::time::timeout(Duration::from_secs(20), client.call("ask", ()));
        let error = asked.await.expect("the server waits for ever").unwrap_err();
        assert!(error.to_string().contains("panicked"), "{revision}: {error}");
        assert!(client.call("add", json!({ "a": 1, "b": 2 })).await.is_ok(), "{revision}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_a_refusal() {
    let client = Client::builder().revision(Revision::V2025_11_25).max_request_bytes(5_000);
    let client = client.elicitation(|_| async {
        Ok(ElicitResult::accept(RawJson::from(json!({ "name": "x".repeat(10_000) }))))
    });
    let client = client.in_memory(server()).await.unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(20), client.call("ask", ()));
    let error = asked.await.expect("the server waits for ever").unwrap_err();
    assert!(error.to_string().contains("max_request_bytes"), "{error}");
}

/// covers: HTTP-08 HTTP-09 HTTP-17 HSES-04 HHDR-01 HHDR-05 HHDR-11 HHDR-12
#[tokio::test]
async fn over_http_in_every_revision() {
    let reached = serve().await;
    for revision in OVER_HTTP {
        let client = answering().revision(*revision).connect(Target::url(&reached.url)).await.unwrap();
        uses(&client, *revision).await;
        client.close().await;
    }
    let client = Client::connect(&reached.url).await.unwrap();
    assert_eq!(client.revision(), Revision::LATEST);
}

/// covers: SSE-04 SSE-09 SSE-10
#[tokio::test]
async fn over_the_older_http_transport_in_every_older_revision() {
    let reached = serve().await;
    let url = reached.url.replace("/mcp", "/sse");
    for revision in Revision::ALL.into_iter().filter(|revision| revision.is_legacy()) {
        let client = answering().revision(revision).connect(Target::url(&url)).await.unwrap();
        uses(&client, revision).await;
        assert!(client.is_over_sse());
        client.close().await;
        assert!(client.call("add", ()).await.unwrap_err().is_closed());
    }
    // One URL may be either; what was found is worth remembering, and no more than that.
    let client = Client::connect(&url).await.unwrap();
    assert_eq!((client.revision(), client.is_over_sse()), (Revision::V2025_11_25, true));
    let remembered = Client::builder().era(client.era()).sse(true).connect(&url).await.unwrap();
    assert!(remembered.is_over_sse());
    let wrong = Client::builder().era(client.era()).sse(true).connect(&reached.url).await.unwrap();
    assert_eq!((wrong.revision(), wrong.is_over_sse()), (Revision::LATEST, false));
    drop((client, remembered));
    let gone = async {
        while reached.endpoint.sse_streams() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("streams outlive their clients");
}

#[tokio::test]
async fn many_calls_share_few_connections() {
    let reached = serve().await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = Client::builder().revision(revision).connect(&reached.url).await.unwrap();
        let calls = (0..64_i64).map(|number| {
            let client = client.clone();
            async move {
                for round in 0..10 {
                    let sum = client.call("add", json!({ "a": number, "b": round })).await.unwrap();
                    assert_eq!(sum.parse::<i64>().unwrap(), number + round);
                }
            }
        });
        futures::future::join_all(calls).await;
    }
}

/// covers: SUBS-01 SUBS-05 SUBS-07
#[tokio::test]
async fn changes_are_heard_over_http_in_both_eras() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let reached = serve().await;
        let heard = Arc::new(tokio::sync::Notify::new());
        let told = Arc::clone(&heard);
        let client = Client::builder()
            .revision(revision)
            .on_list_changed(move |list| {
                assert_eq!(list, ListKind::Tools);
                told.notify_one();
            })
            .connect(&reached.url)
            .await
            .unwrap();
        let mut filter = SubscriptionFilter::new();
        filter.tools_list_changed = true;
        let mut subscription = client.listen(filter.clone()).await.unwrap();
        assert_eq!(subscription.acknowledged(), &filter);
        // The client's own stream is opened in the background; until then nothing is heard on it.
        let change = async {
            let mut pace = tokio::time::interval(Duration::from_millis(20));
            loop {
                reached.handle.add_tool("new", || async { "new" }).unwrap();
                pace.tick().await;
                reached.handle.remove_tool("new");
                pace.tick().await;
            }
        };
        let both = async {
            assert_eq!(subscription.next().await, Some(Notification::ToolsListChanged), "{revision}");
            heard.notified().await;
        };
        while_doing(change, both).await;
    }
}

/// covers: HSES-07
#[tokio::test]
async fn a_session_that_only_listens_is_opened_again_with_its_subscriptions() {
    let server = server().resource("x://1", "one");
    let handle = server.handle();
    let server = Arc::new(server);
    let http = HttpServer::bind("127.0.0.1:0", Endpoint::new(Arc::clone(&server))).await.unwrap();
    let (url, address) = (http.url(), http.local_addr());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let first = tokio::spawn(http.serve_until(async { drop(stopped.await) }));
    let lists = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&lists);
    let client = Client::builder()
        .revision(Revision::V2025_11_25)
        .on_list_changed(move |list| told.lock().unwrap().push(list))
        .connect(&url)
        .await
        .unwrap();
    let mut subscription = client.subscribe("x://1").await.unwrap();
    // Another program takes the place of the first, and knows nothing of its sessions.
    stop.send(()).unwrap();
    first.await.unwrap().unwrap();
    let http = HttpServer::bind(address, Endpoint::new(server)).await.unwrap();
    tokio::spawn(http.serve());
    let update = async {
        let mut pace = tokio::time::interval(Duration::from_millis(20));
        loop {
            handle.resource_updated("x://1");
            pace.tick().await;
        }
    };
    let heard = async {
        // The first is the client's own: something may have changed in between.
        for _ in 0..3 {
            assert!(matches!(subscription.next().await, Some(Notification::ResourceUpdated(_))));
        }
        assert_eq!(*lists.lock().unwrap(), [ListKind::Tools, ListKind::Resources]);
    };
    while_doing(update, heard).await;
}

#[tokio::test]
async fn nobody_there_is_said_with_the_stage() {
    let error = Client::connect("http://127.0.0.1:9/mcp").await.unwrap_err();
    assert_eq!(error.stage, hospes::client::ConnectStage::Tcp, "{error}");
    let error = Client::connect("http://no-such-host.invalid/mcp").await.unwrap_err();
    assert_eq!(error.stage, hospes::client::ConnectStage::Dns, "{error}");
    let error = Client::connect("http://").await.unwrap_err();
    assert_eq!(error.stage, hospes::client::ConnectStage::Target, "{error}");
}
