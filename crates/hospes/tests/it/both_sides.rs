//! What binds servers and clients alike, with one of ours on either side.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hospes::client::{CallError, Client, ClientBuilder};
use hospes::model::{
    ClientCapabilities, CompleteParams, CompleteResult, CreateMessageResult, ElicitResult, ListToolsResult,
    Method, Notification, RawJson, Revision, SamplingMessage, SamplingMessageContentBlock,
    SubscriptionFilter, Tool,
};
use hospes::prelude::*;
use hospes::server::{Args, Completes, Server, Typed};
use serde_json::{Value, json};

const OURS: &str = "com.example/rich";

fn server() -> Server {
    Server::new("both", "1")
        .experimental("weather", json!({ "sunny": true }))
        .tool("plain", || async { "plain" })
        .tool("experimental", |ctx: Context| async move {
            serde_json::to_string(&ctx.peer().capabilities.experimental).unwrap_or_default()
        })
        .tool("insatiable", |ctx: Context| async move {
            for n in 0.. {
                ctx.sample(format!("{n}?")).key(format!("{n}")).max_tokens(5).await?;
            }
            Ok::<_, hospes::Error>("never")
        })
        .tool("remembers", |ctx: Context| async move {
            let talk = [
                SamplingMessage::user("one"),
                SamplingMessage::assistant("two"),
                SamplingMessage::user("three"),
            ];
            let answer = ctx.sample(talk).key("talk").max_tokens(5).await?;
            Ok::<_, hospes::Error>(answer.text())
        })
        .tool("who", |ctx: Context| async move {
            let name: String = ctx.elicit("Who?").key("who").await?;
            Ok::<_, hospes::Error>(name)
        })
}

fn answering(asked: Arc<AtomicU32>) -> ClientBuilder {
    Client::builder()
        .sampling(move |params| {
            asked.fetch_add(1, Ordering::SeqCst);
            let seen = params.messages.len();
            async move { Ok(CreateMessageResult::new("m", SamplingMessageContentBlock::text(seen.to_string()))) }
        })
        .elicitation(|_| async { Ok(ElicitResult::accept(RawJson::from(json!({ "value": "Ada" })))) })
}

async fn connect(builder: ClientBuilder, revision: Revision) -> Client {
    builder.revision(revision).in_memory(server()).await.unwrap()
}

fn asked() -> Arc<AtomicU32> {
    Arc::default()
}

/// The handshake, requests both ways, notifications, pings and the end, in each revision that has sessions.
///
/// covers: MSG-02
#[tokio::test]
async fn the_base_protocol_and_the_life_of_a_session() {
    for revision in Revision::ALL.into_iter().filter(|revision| revision.is_legacy()) {
        let count = asked();
        let client = connect(answering(Arc::clone(&count)), revision).await;
        assert_eq!((client.revision(), client.server_info().unwrap().name.as_str()), (revision, "both"));
        assert_eq!(client.call("plain", ()).await.unwrap().all_text(), "plain");
        assert_eq!(client.call("remembers", ()).await.unwrap().all_text(), "3", "{revision}");
        client.ping().await.unwrap();
        assert!(matches!(client.call("nothing", ()).await, Err(CallError::Rpc(_))), "{revision}");
        client.close().await;
        assert!(client.call("plain", ()).await.unwrap_err().is_closed());
    }
}

/// A request and its answer, several rounds of one call, and a stream of changes.
///
/// covers: MSG-03
#[tokio::test]
async fn the_base_protocol_and_its_three_patterns() {
    let server = server();
    let handle = server.handle();
    let client = answering(asked()).revision(Revision::LATEST).in_memory(server).await.unwrap();
    assert_eq!(client.supported_versions()[0], "2026-07-28");
    assert_eq!(client.call("plain", ()).await.unwrap().all_text(), "plain");
    assert_eq!(client.call("who", ()).await.unwrap().all_text(), "Ada");
    let filter = SubscriptionFilter::new().with_tools_list_changed(true);
    let mut changes = client.listen(filter).await.unwrap();
    handle.add_tool("new", || async {}).unwrap();
    let heard = tokio::time::timeout(Duration::from_secs(20), changes.next()).await.unwrap();
    assert_eq!(heard, Some(Notification::ToolsListChanged));
}

/// covers: CAP-09
#[tokio::test]
async fn what_is_experimental_is_told_both_ways() {
    for revision in Revision::ALL {
        let mine = serde_json::from_value(json!({ "experimental": { "tides": { "high": 2 } } })).unwrap();
        let client = connect(Client::builder().capabilities(mine), revision).await;
        let theirs = serde_json::to_value(&client.capabilities().unwrap().experimental).unwrap();
        assert_eq!(theirs, json!({ "weather": { "sunny": true } }), "{revision}");
        let seen: Value = client.call("experimental", ()).await.unwrap().parse().unwrap();
        assert_eq!(seen, json!({ "tides": { "high": 2 } }), "{revision}");
    }
}

#[tokio::test]
async fn each_side_knows_of_the_others_extensions() {
    let with =
        || -> ClientCapabilities { serde_json::from_value(json!({ "extensions": { OURS: {} } })).unwrap() };
    for (extended, capabilities, said) in [
        (true, with(), "rich"),
        (true, ClientCapabilities::new(), "plain"),
        (false, with(), "plain"),
        (false, ClientCapabilities::new(), "plain"),
    ] {
        let server = server().tool("rich", move |ctx: Context| async move {
            let both = extended && ctx.peer().capabilities.has_extension(OURS);
            if both { "rich" } else { "plain" }
        });
        let server = if extended { server.extension(OURS, json!({})) } else { server };
        let builder = Client::builder().capabilities(capabilities).revision(Revision::LATEST);
        let client = builder.in_memory(server).await.unwrap();
        let declared = client.capabilities().unwrap().extensions.contains_key(OURS);
        assert_eq!(declared, extended);
        let text = client.call("rich", ()).await.unwrap().all_text();
        assert_eq!(text, said);
    }
}

/// covers: CAP-16
#[tokio::test]
async fn no_extension_is_declared_that_nobody_asked_for() {
    let seen = Server::new("x", "1").tool("seen", |ctx: Context| async move {
        serde_json::to_string(&ctx.peer().capabilities.extensions).unwrap_or_default()
    });
    let client = answering(asked()).revision(Revision::LATEST).in_memory(seen).await.unwrap();
    assert!(client.capabilities().unwrap().extensions.is_empty());
    assert_eq!(client.call("seen", ()).await.unwrap().all_text(), "{}");
}

/// A server that asks for ever is stopped by the client, and a client that answers for ever by the server.
///
/// covers: SAMP-36
#[tokio::test]
async fn a_loop_of_questions_ends_on_both_sides() {
    let count = asked();
    let client = connect(answering(Arc::clone(&count)).max_input_rounds(4), Revision::LATEST).await;
    let stopped = client.call("insatiable", ()).await.unwrap_err();
    assert!(matches!(stopped, CallError::TooManyRounds(4)), "{stopped}");
    assert!(count.load(Ordering::SeqCst) <= 5);
    for revision in [Revision::V2025_11_25, Revision::LATEST] {
        let count = asked();
        let client = connect(answering(Arc::clone(&count)).max_input_rounds(1000), revision).await;
        let stopped = client.call("insatiable", ()).await.unwrap_err();
        assert!(stopped.to_string().contains("rounds of questions"), "{revision}: {stopped}");
        let rounds = count.load(Ordering::SeqCst);
        assert!((2..=hospes::MAX_ROUNDS + 1).contains(&rounds), "{revision}: {rounds}");
    }
}

/// covers: SAMP-39
#[tokio::test]
async fn a_conversation_is_what_one_request_says_and_no_more() {
    let client = connect(answering(asked()), Revision::LATEST).await;
    for _ in 0..3 {
        // The model sees three messages each time, not six and nine.
        assert_eq!(client.call("remembers", ()).await.unwrap().all_text(), "3");
    }
}

/// covers: PRM-16
#[tokio::test]
async fn prompts_are_asked_for_only_where_they_are_offered() {
    for revision in Revision::ALL {
        let client = connect(Client::builder(), revision).await;
        assert!(matches!(client.prompts().all().await, Err(CallError::NotOffered("prompts"))), "{revision}");
        let refused = client.prompt("p", [("a", "b")]).await.unwrap_err();
        assert!(matches!(refused, CallError::NotOffered("prompts")), "{revision}: {refused}");
        // And who asks all the same is told that there are none.
        let refused = client.raw("prompts/get", &RawJson::from(json!({ "name": "p" }))).await.unwrap_err();
        assert_eq!(refused.rpc().unwrap().code, -32601, "{revision}");
    }
}

/// Gives out strange cursors, and keeps what comes back.
#[derive(Clone)]
struct Pages {
    server: Server,
    seen: Arc<Mutex<Vec<Option<String>>>>,
}

const CURSORS: [&str; 6] = ["", "null", "{\"page\": 2}", "\u{1f4d6} &=%20+/?#", " 3 ", "eyJwIjo0fQ=="];

impl Service for Pages {
    async fn call(&self, call: Call) -> Outcome {
        if call.method != Method::ToolsList {
            return self.server.call(call).await;
        }
        let params: Value = call.decode().unwrap();
        let cursor = params.get("cursor").map(|cursor| cursor.as_str().unwrap().to_owned());
        let page = match &cursor {
            None => 0,
            Some(cursor) => 1 + CURSORS.iter().position(|known| known == cursor).expect("a cursor of ours"),
        };
        self.seen.lock().unwrap().push(cursor);
        let tool = Tool::new(format!("t{page}"), RawJson::from(json!({ "type": "object" })));
        let mut result = ListToolsResult::new(vec![tool]);
        result.next_cursor = CURSORS.get(page).map(|cursor| (*cursor).to_owned());
        Outcome::Complete(result.into())
    }
}

/// Whatever a cursor looks like it goes back as it came, to the session that it came from.
///
/// covers: PAGE-10 PAGE-11
#[tokio::test]
async fn cursors_are_not_looked_into_and_not_kept() {
    for revision in Revision::ALL {
        let pages = Pages { server: server(), seen: Arc::default() };
        let client = Client::builder().revision(revision).in_memory(pages.clone()).await.unwrap();
        let tools = client.tools().all().await.unwrap();
        assert_eq!(tools.len(), CURSORS.len() + 1, "{revision}");
        let seen: Vec<_> = std::mem::take(&mut *pages.seen.lock().unwrap());
        assert_eq!(seen[0], None);
        assert_eq!(seen[1..], CURSORS.map(|cursor| Some(cursor.to_owned())), "{revision}");
        // In the middle of a list the session ends; the next one begins at the beginning.
        let mut listing = client.tools();
        listing.next().await.unwrap().unwrap();
        listing.next().await.unwrap().unwrap();
        drop(listing);
        client.close().await;
        pages.seen.lock().unwrap().clear();
        let client = Client::builder().revision(revision).in_memory(pages.clone()).await.unwrap();
        client.tools().next().await.unwrap().unwrap();
        assert_eq!(pages.seen.lock().unwrap()[0], None, "{revision}");
    }
}

/// covers: PAGE-09 PRM-15
#[tokio::test]
async fn lists_are_read_whole_in_pages_or_in_one() {
    let prompts = || {
        (0..25).fold(Server::new("x", "1"), |server, n| server.prompt(format!("p{n:02}"), || async { "p" }))
    };
    for revision in Revision::ALL {
        for server in [prompts(), prompts().page_size(3), prompts().page_size(25)] {
            let client = Client::builder().revision(revision).in_memory(server).await.unwrap();
            let names: Vec<String> =
                client.prompts().all().await.unwrap().into_iter().map(|prompt| prompt.name).collect();
            assert_eq!(names, (0..25).map(|n| format!("p{n:02}")).collect::<Vec<_>>(), "{revision}");
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Street {
    city: Option<String>,
    street: Option<String>,
}

fn typing(settled: &Value) -> CompleteParams {
    serde_json::from_value(json!({
        "ref": { "type": "ref/prompt", "name": "walk" },
        "argument": { "name": "street", "value": "Ma" },
        "context": { "arguments": settled },
    }))
    .unwrap()
}

/// covers: COMP-16
#[tokio::test]
async fn what_is_settled_goes_along_with_what_is_typed() {
    let server = Server::new("x", "1")
        .prompt("walk", |Args(Street { city, street }): Args<Street>| async move {
            format!("{city:?} {street:?}")
        })
        .complete(
            Completes::prompt("walk", "street"),
            |Typed(typed): Typed, Args(settled): Args<Street>| async move {
                vec![format!("{typed}in Street, {}", settled.city.unwrap_or_default())]
            },
        );
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::LATEST] {
        let client = Client::builder().revision(revision).in_memory(server.clone()).await.unwrap();
        let found = client.complete(&typing(&json!({ "city": "Oslo" }))).await.unwrap();
        assert_eq!(found.completion.values, ["Main Street, Oslo"], "{revision}");
    }
}

/// Nothing found, no count, part of it only, none offered at all.
///
/// covers: COMP-10
#[tokio::test]
async fn completions_may_be_few_or_none() {
    #[derive(Clone)]
    struct Says(Server, Value);
    impl Service for Says {
        async fn call(&self, call: Call) -> Outcome {
            if call.method != Method::Complete {
                return self.0.call(call).await;
            }
            Outcome::Complete(CompleteResult::new(serde_json::from_value(self.1.clone()).unwrap()).into())
        }
    }
    let server = || {
        Server::new("x", "1").prompt("walk", |Args(Street { city, street }): Args<Street>| async move {
            format!("{city:?} {street:?}")
        })
    };
    for (said, values, total, more) in [
        (json!({ "values": [] }), 0, None, None),
        (json!({ "values": ["a"], "hasMore": true }), 1, None, Some(true)),
        (json!({ "values": ["a", "b"], "total": 7 }), 2, Some(7), None),
    ] {
        let says = Says(server().complete(Completes::prompt("walk", "street"), ["x"]), said);
        let client = Client::builder().in_memory(says).await.unwrap();
        let found = client.complete(&typing(&json!({}))).await.unwrap().completion;
        assert_eq!((found.values.len(), found.total, found.has_more), (values, total, more));
    }
    let client = Client::builder().in_memory(server()).await.unwrap();
    let none = client.complete(&typing(&json!({}))).await.unwrap_err();
    assert!(matches!(none, CallError::NotOffered("completions")), "{none}");
}

/// Identifiers that are none are not declared, by neither side; the server's builder refuses them outright.
///
/// covers: CAP-14
#[tokio::test]
async fn extensions_are_declared_by_identifiers_with_a_prefix() {
    let seen =
        Server::new("x", "1").extension(OURS, json!({ "a": 1 })).tool("seen", |ctx: Context| async move {
            serde_json::to_string(&ctx.peer().capabilities.extensions).unwrap_or_default()
        });
    let mine = json!({ "extensions": { OURS: {}, "no-prefix": {}, "/x": {}, "a b/c": {}, "dev.mcp/x": {} } });
    let mine: ClientCapabilities = serde_json::from_value(mine).unwrap();
    let client =
        Client::builder().capabilities(mine).revision(Revision::LATEST).in_memory(seen).await.unwrap();
    assert_eq!(client.call("seen", ()).await.unwrap().all_text(), format!("{{\"{OURS}\":{{}}}}"));
    let theirs: Vec<_> = client.capabilities().unwrap().extensions.keys().cloned().collect();
    assert_eq!(theirs, [OURS]);
    for wrong in ["no-prefix", "/x", "a b/c", "dev.mcp/x", "com.example/"] {
        let refused = std::panic::catch_unwind(|| Server::new("x", "1").extension(wrong, json!({})));
        assert!(refused.is_err(), "{wrong}");
    }
}

/// The older revisions have no message for the end: over HTTP it is that the connections close.
///
/// covers: LIFE-13
#[tokio::test]
async fn over_http_closing_the_connections_is_the_end() {
    use hospes::transport::http_server::{Endpoint, HttpServer};

    struct Running(Arc<AtomicU32>);

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    async fn until(what: &str, condition: impl Fn() -> bool) {
        let wait = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait).await.expect(what);
    }

    for (revision, path) in [
        (Revision::V2024_11_05, "sse"),
        (Revision::V2025_03_26, "mcp"),
        (Revision::V2025_06_18, "mcp"),
        (Revision::V2025_11_25, "mcp"),
    ] {
        let running = Arc::new(AtomicU32::new(0));
        let counted = running.clone();
        let server = Server::new("x", "1").tool("forever", move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let guard = Running(counted.clone());
            async move {
                std::future::pending::<()>().await;
                drop(guard);
            }
        });
        let endpoint = Endpoint::builder(server).sse(true).build();
        let http = HttpServer::bind("127.0.0.1:0", endpoint.clone()).await.unwrap();
        let http = http.shutdown_timeout(Duration::from_millis(50));
        let url = format!("http://{}/{path}", http.local_addr());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let served = tokio::spawn(http.serve_until(async {
            let _ = stopped.await;
        }));
        let calling = async || {
            let client = Client::builder().revision(revision).connect(url.as_str()).await.unwrap();
            assert_eq!((client.revision(), endpoint.sessions() + endpoint.sse_streams()), (revision, 1));
            let caller = client.clone();
            let call = tokio::spawn(async move { caller.call("forever", ()).await });
            until("the call began", || running.load(Ordering::SeqCst) == 1).await;
            (client, call)
        };
        // The client closes: nothing goes on for it.
        let (client, call) = calling().await;
        client.close().await;
        assert!(call.await.unwrap().unwrap_err().is_closed());
        until("the call ended", || running.load(Ordering::SeqCst) == 0).await;
        until("the session ended", || endpoint.sessions() + endpoint.sse_streams() == 0).await;
        // The server closes: whoever waits is told, and nobody is served any more.
        let (client, call) = calling().await;
        stop.send(()).unwrap();
        call.await.unwrap().unwrap_err();
        served.await.unwrap().unwrap();
        assert_eq!(running.load(Ordering::SeqCst), 0);
        client.call("forever", ()).await.unwrap_err();
    }
}
