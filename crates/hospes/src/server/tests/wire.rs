//! A server as peers of each revision see it.

#![expect(clippy::needless_pass_by_value, reason = "`json!` at the call reads better")]

use hospes_model::LoggingLevel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::{Args, Completes, Server, Typed};
use crate::transport::stdio_server::StdioServer;
use crate::transport::stdio_server::tests::{Peer, code, modern, text, tool};
use crate::{Context, Rate};

const OLDER: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn peer(server: &Server) -> Peer {
    Peer::of(StdioServer::new(server.clone()))
}

async fn ask(peer: &mut Peer, message: Value) -> Value {
    peer.send(message).await;
    peer.read().await
}

fn request(id: u32, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A request of 2026-07-28 that wants log messages of `level` and above.
fn logged(id: u32, name: &str, level: &str) -> Value {
    let meta = json!({ "io.modelcontextprotocol/logLevel": level });
    modern(id, "tools/call", json!({ "name": name, "_meta": meta }))
}

fn set_level(id: u32, level: &str) -> Value {
    request(id, "logging/setLevel", json!({ "level": level }))
}

/// What precedes the answer, and the answer.
async fn until_answer(peer: &mut Peer) -> (Vec<Value>, Value) {
    let mut before = Vec::new();
    loop {
        let message = peer.read().await;
        if message.get("id").is_some() {
            return (before, message);
        }
        before.push(message);
    }
}

fn logging() -> Server {
    Server::new("diary", "1")
        .tool("all", |ctx: Context| async move {
            for level in LoggingLevel::ALL {
                ctx.log(level, level.as_str());
            }
        })
        .tool("named", |ctx: Context| async move {
            ctx.log_as(Some("diary.pages"), LoggingLevel::Info, json!({ "page": 7, "of": "the diary" }));
            ctx.log(LoggingLevel::Info, "done");
        })
        .tool("secrets", |ctx: Context| async move {
            ctx.log(LoggingLevel::Error, "signed in with password=hunter2 as ann@example.com");
            ctx.log(LoggingLevel::Error, json!({ "request": { "Authorization": "Bearer abc", "n": 1 } }));
            ctx.log(LoggingLevel::Error, "paid with 4111 1111 1111 1111");
        })
        .tool("flood", |ctx: Context| async move {
            for n in 0..50 {
                ctx.log(LoggingLevel::Info, n);
            }
        })
        .tool("panics", |_: Context| async move {
            tracing::error!("the key is kept in /etc/keys");
            let reached = false;
            assert!(reached, "connect to db.internal:5432 with hunter2");
        })
}

fn levels(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| {
            assert_eq!(message["method"], "notifications/message", "{message}");
            message["params"]["level"].as_str().unwrap()
        })
        .collect()
}

/// The eight levels of RFC 5424, in its order, by session and by request.
///
/// covers: LOG-02 LOG-18
#[tokio::test]
async fn log_messages_of_the_level_asked_for_and_above_are_sent() {
    const ALL: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    for revision in OLDER {
        let mut peer = peer(&logging());
        peer.open(revision).await;
        for (at, level) in ALL.into_iter().enumerate() {
            assert_eq!(ask(&mut peer, set_level(1, level)).await["result"], json!({}));
            peer.send(tool(2, "all", json!({}))).await;
            assert_eq!(levels(&until_answer(&mut peer).await.0), ALL[at..], "{revision}");
        }
    }
    let mut peer = peer(&logging());
    for (at, level) in ALL.into_iter().enumerate() {
        peer.send(logged(1, "all", level)).await;
        assert_eq!(levels(&until_answer(&mut peer).await.0), ALL[at..]);
        // The next request did not ask for any, whatever the last one did.
        peer.send(modern(2, "tools/call", json!({ "name": "all" }))).await;
        assert_eq!(until_answer(&mut peer).await.0, Vec::<Value>::new());
    }
}

/// covers: LOG-07 LOG-19
#[tokio::test]
async fn a_level_that_is_none_is_refused() {
    for revision in OLDER {
        let mut peer = peer(&logging());
        peer.open(revision).await;
        for level in [json!("loud"), json!("INFO"), json!(""), json!(3), Value::Null] {
            let params = json!({ "level": level });
            assert_eq!(
                code(&ask(&mut peer, request(1, "logging/setLevel", params)).await),
                -32602,
                "{level}"
            );
        }
        assert_eq!(code(&ask(&mut peer, request(1, "logging/setLevel", json!({}))).await), -32602);
    }
    let mut peer = peer(&logging());
    for level in ["loud", "INFO", ""] {
        assert_eq!(code(&ask(&mut peer, logged(1, "all", level)).await), -32602, "{level:?}");
    }
}

/// covers: LOG-10 LOG-11
#[tokio::test]
async fn a_message_says_who_it_is_from_and_what_it_is_about() {
    let mut peer = peer(&logging());
    peer.open("2025-11-25").await;
    ask(&mut peer, set_level(1, "debug")).await;
    peer.send(tool(2, "named", json!({}))).await;
    let (messages, _) = until_answer(&mut peer).await;
    let data = json!({ "page": 7, "of": "the diary" });
    assert_eq!(messages[0]["params"], json!({ "level": "info", "logger": "diary.pages", "data": data }));
    // What names no logger is always the server's.
    assert_eq!(messages[1]["params"], json!({ "level": "info", "logger": "diary", "data": "done" }));
}

/// covers: LOG-12 LOG-14 LOG-15 LOG-17
#[tokio::test]
async fn log_messages_hold_no_secrets_and_nothing_about_persons() {
    let server = logging().redact_logs(|data| {
        if let Value::String(text) = data {
            *text = text.replace("signed in", "[hidden]");
        }
    });
    let mut peer = peer(&server);
    peer.send(logged(1, "secrets", "debug")).await;
    let (messages, _) = until_answer(&mut peer).await;
    let data: Vec<&Value> = messages.iter().map(|message| &message["params"]["data"]).collect();
    assert_eq!(
        data,
        [
            &json!("[hidden] with password=[redacted] as [redacted]"),
            &json!({ "request": { "Authorization": "[redacted]", "n": 1 } }),
            &json!("paid with [redacted]"),
        ]
    );
}

/// What the program says to its own log, and how it fails inside, is nobody's business outside.
///
/// covers: LOG-16
#[tokio::test]
async fn nothing_of_the_inside_is_said_outside() {
    let mut peer = peer(&logging());
    peer.send(logged(1, "panics", "debug")).await;
    let (messages, answer) = until_answer(&mut peer).await;
    assert_eq!(messages, Vec::<Value>::new());
    assert_eq!(answer["error"], json!({ "code": -32603, "message": "the handler panicked" }));
}

/// covers: LOG-09 LOG-17
#[tokio::test(start_paused = true)]
async fn log_messages_beyond_the_rate_are_left_out_and_counted() {
    let server = logging().log_rate(Rate::per_second(10).burst(5));
    let mut peer = peer(&server);
    peer.open("2025-11-25").await;
    ask(&mut peer, set_level(1, "debug")).await;
    peer.send(tool(2, "flood", json!({}))).await;
    let data = |messages: &[Value]| -> Vec<Value> {
        messages.iter().map(|message| message["params"]["data"].clone()).collect()
    };
    assert_eq!(data(&until_answer(&mut peer).await.0), [0, 1, 2, 3, 4]);
    tokio::time::advance(std::time::Duration::from_millis(150)).await;
    peer.send(tool(3, "flood", json!({}))).await;
    let (messages, _) = until_answer(&mut peer).await;
    let why = "45 log messages were left out: there may be 10 a second (log_rate)";
    assert_eq!(data(&messages), [json!(why), json!(0)]);
    assert_eq!(messages[0]["params"]["level"], "warning");
}

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

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

fn asking() -> Server {
    Server::new("x", "1")
        .tool("roots", |ctx: Context| async move {
            let first = ctx.roots().key("roots").await?;
            // The handler runs again after this; the roots are not asked for again.
            let _: bool = ctx.elicit("Go on?").key("go").await?;
            let again = ctx.roots().key("roots").await?;
            let uris: Vec<_> = first.iter().chain(&again).map(|root| root.uri.clone()).collect();
            Ok::<_, crate::Error>(uris.join(" "))
        })
        .tool("sample", |ctx: Context| async move {
            let n: String = ctx.sample("Say hello").key("hello").await?.text();
            Ok::<_, crate::Error>(n)
        })
        .tool("who", |ctx: Context| async move { ctx.principal().unwrap_or("nobody").to_owned() })
        .tool("visit", |ctx: Context| async move {
            ctx.elicit_url("Go there", "https://example.com/").key("go").id("e-1").await?;
            let done = hospes_model::ElicitationCompleteParams::new("e-1");
            ctx.notify(hospes_model::Notification::ElicitationComplete(done));
            Ok::<_, crate::Error>("visited")
        })
}

/// A request of 2026-07-28 by a client with these capabilities.
fn able(id: u32, params: Value, capabilities: Value) -> Value {
    let mut request = modern(id, "tools/call", params);
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    request
}

fn answer(question: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })
}

async fn open_with(peer: &mut Peer, revision: &str, capabilities: Value) -> Value {
    let opened = ask(
        peer,
        request(
            90,
            "initialize",
            json!({ "protocolVersion": revision, "capabilities": capabilities,
                    "clientInfo": { "name": "peer", "version": "1" } }),
        ),
    )
    .await;
    peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    opened
}

/// Once in a call, however often the handler looks and runs, and afresh in the next one.
///
/// covers: ROOT-02 ROOT-04 ROOT-20 ROOT-21
#[tokio::test]
async fn roots_are_asked_for_once_a_call_and_again_in_the_next() {
    for revision in ["2025-06-18", "2025-11-25"] {
        let mut peer = peer(&asking());
        open_with(&mut peer, revision, json!({ "roots": { "listChanged": true }, "elicitation": {} })).await;
        for (id, root) in [(1, "file:///a"), (2, "file:///b")] {
            let asked = ask(&mut peer, tool(id, "roots", json!({}))).await;
            assert_eq!(asked["method"], "roots/list", "{revision}");
            let asked = ask(&mut peer, answer(&asked, json!({ "roots": [{ "uri": root }] }))).await;
            assert_eq!(asked["method"], "elicitation/create", "{revision}");
            let go = json!({ "action": "accept", "content": { "value": true } });
            let done = ask(&mut peer, answer(&asked, go)).await;
            assert_eq!(text(&done), format!("{root} {root}"), "{revision}");
            peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" })).await;
        }
    }
}

/// No request of the server's own; and when nothing comes back, nothing is waited for.
///
/// covers: ROOT-22 SAMP-38
#[tokio::test]
async fn the_newest_revision_is_asked_in_results_alone() {
    let mut peer = peer(&asking());
    let all = || json!({ "roots": {}, "sampling": {}, "elicitation": {} });
    for (id, name, key, method) in
        [(1, "roots", "roots", "roots/list"), (2, "sample", "hello", "sampling/createMessage")]
    {
        let round = ask(&mut peer, able(id, json!({ "name": name }), all())).await;
        assert_eq!(round["id"], id, "an answer, not a request");
        assert_eq!(round["result"]["resultType"], "input_required");
        assert_eq!(round["result"]["inputRequests"][key]["method"], method);
        // What refuses does not come back: nobody is asked again, and others are served.
        peer.silence_modern().await;
    }
    // There is no such notification here; it changes nothing.
    peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" })).await;
    peer.silence_modern().await;
}

/// covers: CAP-12
#[tokio::test]
async fn what_one_request_declares_holds_for_no_other() {
    let mut peer = peer(&asking());
    let call = || json!({ "name": "sample" });
    for (id, capabilities, is_asked) in [
        (1, json!({ "sampling": {} }), true),
        (2, json!({}), false),
        (3, json!({ "roots": {} }), false),
        (4, json!({ "sampling": {} }), true),
        (5, json!({}), false),
    ] {
        let said = ask(&mut peer, able(id, call(), capabilities)).await;
        if is_asked {
            assert_eq!(said["result"]["resultType"], "input_required", "{id}");
        } else {
            assert_eq!(code(&said), -32021, "{id}");
            assert_eq!(said["error"]["data"]["requiredCapabilities"], json!({ "sampling": {} }));
        }
    }
}

/// covers: CAP-07
#[tokio::test]
async fn capabilities_that_nobody_knows_are_passed_over() {
    let strange = || json!({ "telepathy": { "range": 7 }, "x": null, "y": [1], "elicitation": { "dream": {} }, "sampling": {} });
    for revision in OLDER {
        let mut peer = peer(&asking());
        let opened = open_with(&mut peer, revision, strange()).await;
        assert_eq!(opened["result"]["protocolVersion"], revision, "{opened}");
        assert_eq!(text(&ask(&mut peer, tool(1, "who", json!({}))).await), "nobody");
        // The other side: what a server declares beyond what is known, and what is known beside it.
        let mut found = opened["result"].clone();
        found["capabilities"]["telepathy"] = json!({ "range": 7 });
        found["capabilities"]["tools"]["shine"] = json!(true);
        let read: hospes_model::InitializeResult = serde_json::from_value(found).unwrap();
        assert_eq!(read.capabilities.tools.unwrap().list_changed, Some(true));
    }
    let said = ask(&mut peer(&asking()), able(1, json!({ "name": "who" }), strange())).await;
    assert_eq!(text(&said), "nobody");
}

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

/// covers: ELIC-21
#[tokio::test]
async fn the_end_of_a_visit_is_told_to_whoever_was_sent_there() {
    let server = asking();
    let (mut one, mut other) = (peer(&server), peer(&server));
    for peer in [&mut one, &mut other] {
        open_with(peer, "2025-11-25", json!({ "elicitation": { "url": {} } })).await;
    }
    let asked = ask(&mut one, tool(1, "visit", json!({}))).await;
    assert_eq!((&asked["params"]["mode"], &asked["params"]["elicitationId"]), (&json!("url"), &json!("e-1")));
    let told = ask(&mut one, answer(&asked, json!({ "action": "accept" }))).await;
    assert_eq!(told["method"], "notifications/elicitation/complete");
    assert_eq!(told["params"], json!({ "elicitationId": "e-1" }));
    assert_eq!(text(&one.read().await), "visited");
    other.silence().await;
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

/// A client that sends an older state again does not have a step run twice; where none ran, it may.
#[tokio::test]
async fn a_state_that_led_to_a_step_is_worth_one_use() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let charged = std::sync::Arc::new(AtomicU32::new(0));
    let counter = std::sync::Arc::clone(&charged);
    let server = Server::new("shop", "1").tool("buy", move |ctx: Context| {
        let counter = std::sync::Arc::clone(&counter);
        async move {
            let what: String = ctx.elicit("What?").key("what").await?;
            let charge = || async {
                if what == "nothing" {
                    Err("there is nothing to pay")
                } else {
                    Ok(counter.fetch_add(1, Ordering::SeqCst))
                }
            };
            ctx.once("charge", charge).await?;
            let tip: String = ctx.elicit("A tip?").key("tip").await?;
            Ok::<_, crate::Error>(format!("{what} and {tip}"))
        }
    });
    let mut peer = peer(&server);
    let call = |state: &Value, answers: Value| {
        let mut params = json!({ "name": "buy" });
        if !state.is_null() {
            params["requestState"] = state.clone();
            params["inputResponses"] = answers;
        }
        modern(1, "tools/call", params)
    };
    let accept =
        |key: &str, value: &str| json!({ key: { "action": "accept", "content": { "value": value } } });
    let first = ask(&mut peer, call(&Value::Null, json!({}))).await["result"]["requestState"].clone();
    // A step that fails has not run, and spends nothing.
    let failed = ask(&mut peer, call(&first, accept("what", "nothing"))).await;
    assert_eq!(text(&failed), "there is nothing to pay");
    let second =
        ask(&mut peer, call(&first, accept("what", "shoes"))).await["result"]["requestState"].clone();
    assert_eq!(charged.load(Ordering::SeqCst), 1);
    let again = ask(&mut peer, call(&first, accept("what", "shoes"))).await;
    assert_eq!(code(&again), -32602, "{again}");
    assert_eq!(charged.load(Ordering::SeqCst), 1, "charged once");
    // The state from after the step knows its result, and may come as often as it likes.
    for _ in 0..2 {
        let done = ask(&mut peer, call(&second, accept("tip", "ten"))).await;
        assert_eq!(text(&done), "shoes and ten");
    }
    assert_eq!(charged.load(Ordering::SeqCst), 1);
}
