//! A server as peers of each revision see it.

#![expect(clippy::needless_pass_by_value, reason = "`json!` at the call reads better")]

use hospes_model::LoggingLevel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::{Args, Completes, Server, Typed};
use crate::transport::stdio_server::StdioServer;
use crate::transport::stdio_server::tests::{Peer, code, modern, tool};
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

/// covers: LOG-12 LOG-14 LOG-15
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

/// covers: LOG-09
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
