//! The client over HTTP, against a server that is told what to answer.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "client/fake_http.rs"]
#[allow(dead_code, reason = "each test uses a part of it")]
mod fake_http;

#[path = "client/log.rs"]
mod log;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fake_http::{Asked, Fake, Said, Step, event, result};
use hospes::client::{CallError, Client, Stage, Target, TimeLimit};
use hospes::model::{ElicitResult, RawJson, Revision};
use serde_json::{Value, json};

fn text(asked: &Asked, text: &str) -> Value {
    let mut answer = json!({ "content": [{ "type": "text", "text": text }] });
    if asked.header("mcp-protocol-version") == Some("2026-07-28") {
        answer["resultType"] = "complete".into();
    }
    result(asked, &answer)
}

/// A server of the older era with sessions; `call` answers what is no part of the handshake.
fn legacy(
    call: impl Fn(&Asked) -> Said + Send + Sync + 'static,
) -> impl Fn(&Asked) -> Said + Send + Sync + 'static {
    let sessions = AtomicUsize::new(0);
    move |asked| match (asked.verb.as_str(), asked.method()) {
        ("POST", "initialize") => {
            let session = sessions.fetch_add(1, Ordering::Relaxed);
            let capabilities = json!({ "tools": {}, "resources": { "subscribe": true } });
            Said::json(&result(
                asked,
                &json!({ "protocolVersion": asked.body["params"]["protocolVersion"], "capabilities": capabilities,
                    "serverInfo": { "name": "fake", "version": "1" } }),
            ))
            .header("Mcp-Session-Id", &format!("session-{session}"))
        }
        ("POST", "notifications/initialized") => Said::status(202),
        ("DELETE", _) => Said::status(204),
        ("GET", _) if asked.header("last-event-id").is_none() => Said::status(405),
        _ => call(asked),
    }
}

/// A server of 2026-07-28.
fn modern(
    call: impl Fn(&Asked) -> Said + Send + Sync + 'static,
) -> impl Fn(&Asked) -> Said + Send + Sync + 'static {
    move |asked| match asked.method() {
        "server/discover" => Said::json(&result(
            asked,
            &json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                "ttlMs": 0, "cacheScope": "private" }),
        )),
        _ => call(asked),
    }
}

async fn older(fake: &Fake) -> Client {
    Client::builder().revision(Revision::V2025_11_25).connect(&fake.url).await.unwrap()
}

async fn newer(fake: &Fake) -> Client {
    Client::builder().revision(Revision::V2026_07_28).connect(&fake.url).await.unwrap()
}

/// covers: HTTP-08 HTTP-09 HTTP-11 HTTP-28 HTTP-29 HTTP-34 HHDR-01 HHDR-02 HSES-04 HSES-09
#[tokio::test]
async fn a_session_is_named_on_every_request_and_ended() {
    let fake = Fake::serve(legacy(|asked| Said::json(&text(asked, "hi")))).await;
    let client = older(&fake).await;
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "hi");
    client.close().await;
    client.close().await;
    let asked = fake.asked();
    let verbs: Vec<(&str, &str)> = asked.iter().map(|asked| (asked.verb.as_str(), asked.method())).collect();
    assert_eq!(
        verbs,
        [
            ("POST", "initialize"),
            ("POST", "notifications/initialized"),
            ("GET", ""),
            ("POST", "tools/call"),
            ("DELETE", "")
        ]
    );
    assert_eq!(asked[0].header("mcp-session-id"), None);
    assert_eq!(asked[0].header("mcp-protocol-version"), None);
    for later in &asked[1..] {
        assert_eq!(later.header("mcp-session-id"), Some("session-0"), "{later:?}");
        assert_eq!(later.header("mcp-protocol-version"), Some("2025-11-25"), "{later:?}");
    }
    assert!(asked[2].header("accept").unwrap().contains("text/event-stream"));
    let accept = asked[3].header("accept").unwrap();
    assert!(accept.contains("application/json") && accept.contains("text/event-stream"), "{accept}");
    // One after the other they share a connection.
    assert!(asked.iter().all(|asked| asked.connection == 0), "{asked:#?}");
}

/// covers: HTTP-08 HTTP-10 HTTP-11 HTTP-12
#[tokio::test]
async fn every_post_holds_one_message() {
    for revision in Revision::ALL.into_iter().filter(|revision| *revision > Revision::V2024_11_05) {
        let old = legacy(|asked| Said::json(&text(asked, "hi")));
        let new = modern(|asked| Said::json(&text(asked, "hi")));
        let is_old = revision.is_legacy();
        let fake = Fake::serve(move |asked| if is_old { old(asked) } else { new(asked) }).await;
        let client = Client::builder().revision(revision).connect(&fake.url).await.unwrap();
        let calls = (0..10).map(|_| client.call("echo", ()).into_future());
        for outcome in futures::future::join_all(calls).await {
            assert_eq!(outcome.unwrap().all_text(), "hi");
        }
        drop(client);
        let asked = fake.asked();
        let posts: Vec<_> = asked.iter().filter(|asked| asked.verb == "POST").collect();
        assert_eq!(posts.iter().filter(|post| post.method() == "tools/call").count(), 10, "{revision}");
        assert!(posts.iter().all(|post| post.body.is_object() && !post.method().is_empty()), "{posts:#?}");
        let ids: std::collections::HashSet<_> =
            posts.iter().filter_map(|post| post.body["id"].as_i64()).collect();
        assert_eq!(ids.len(), posts.iter().filter(|post| post.body.get("id").is_some()).count());
    }
}

/// covers: HTTP-43
#[tokio::test]
async fn a_request_lost_with_its_stream_is_asked_anew_under_another_id() {
    let lost = AtomicUsize::new(0);
    let fake = Fake::serve(modern(move |asked| match lost.fetch_add(1, Ordering::Relaxed) {
        0 => Said::stream(vec![Step::Text("id: 1-1\nretry: 1\ndata:\n\n".into()), Step::Cut]),
        1 => Said::stream(vec![]),
        _ => Said::json(&text(asked, "hi")),
    }))
    .await;
    let client = newer(&fake).await;
    for _ in 0..2 {
        let error = client.call("echo", ()).await.unwrap_err();
        assert!(error.to_string().contains("broke off"), "{error}");
    }
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "hi");
    let asked = fake.asked();
    let calls: Vec<_> = asked.iter().filter(|asked| asked.method() == "tools/call").collect();
    let ids: std::collections::HashSet<_> = calls.iter().map(|call| call.body["id"].to_string()).collect();
    assert_eq!((calls.len(), ids.len()), (3, 3));
    // Nothing is resumed: there is no GET, and no cursor.
    assert!(asked.iter().all(|asked| asked.verb != "GET" && asked.header("last-event-id").is_none()));
}

/// covers: HSES-11
#[tokio::test]
async fn a_session_id_is_neither_logged_nor_shown() {
    let log = log::Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let fake = Fake::serve(legacy(|asked| match asked.tool() {
        "gone" => Said::status(404).text("Session not found"),
        "broken" => Said::status(500),
        _ => Said::json(&text(asked, "hi")),
    }))
    .await;
    let client = older(&fake).await;
    let mut shown = format!("{client:?}");
    for tool in ["echo", "broken", "gone", "echo"] {
        let outcome = client.call(tool, ()).await;
        shown.push_str(&format!("{outcome:?}"));
        shown.extend(outcome.err().map(|error| error.to_string()));
    }
    client.close().await;
    let asked = fake.asked();
    assert!(asked.iter().any(|asked| asked.header("mcp-session-id") == Some("session-1")));
    assert!(log.text().contains("a new one is opened"), "nothing was logged: {}", log.text());
    for text in [shown, log.text()] {
        assert!(!text.contains("session-0") && !text.contains("session-1"), "{text}");
    }
}

/// covers: HHDR-29 HHDR-30
#[tokio::test]
async fn a_tool_whose_headers_break_the_rules_is_dropped_and_the_log_says_why() {
    let log = log::Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let tool = |name: &str, header: Value| {
        let schema = json!({ "type": "object",
            "properties": { "a": { "type": "string", "x-mcp-header": header } } });
        json!({ "name": name, "inputSchema": schema })
    };
    let tools = json!([
        tool("good", json!("Region")),
        tool("empty", json!("")),
        tool("blank", json!("two words")),
        tool("number", json!(7)),
        { "name": "plain", "inputSchema": { "type": "object" } },
    ]);
    let fake = Fake::serve(modern(move |asked| {
        Said::json(&result(
            asked,
            &json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" }),
        ))
    }))
    .await;
    let names: Vec<String> =
        newer(&fake).await.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["good", "plain"]);
    let log = log.text();
    let said: Vec<&str> = log.lines().filter(|line| line.contains("was dropped")).collect();
    assert_eq!(said.len(), 3, "{log}");
    for (line, name) in said.iter().zip(["empty", "blank", "number"]) {
        assert!(line.starts_with("WARN") && line.contains(name) && line.contains("error="), "{line}");
    }
}

/// covers: HSES-08
#[tokio::test]
async fn a_forgotten_session_is_opened_again_and_the_refused_call_is_sent_once_more() {
    let forgetful = || {
        legacy(|asked| {
            if asked.header("mcp-session-id") == Some("session-0") {
                let error = json!({ "code": -32001, "message": "Session not found" });
                return Said::json(&json!({ "jsonrpc": "2.0", "id": null, "error": error })).with_status(404);
            }
            match asked.method() {
                "tools/list" => Said::json(&result(asked, &json!({ "tools": [] }))),
                _ => Said::json(&text(asked, "hi")),
            }
        })
    };
    let fake = Fake::serve(forgetful()).await;
    let client = older(&fake).await;
    assert_eq!(client.call("pay", ()).await.unwrap().all_text(), "hi");
    let sessions: Vec<Option<String>> = fake
        .asked()
        .iter()
        .filter(|asked| asked.tool() == "pay")
        .map(|asked| asked.header("mcp-session-id").map(str::to_owned))
        .collect();
    assert_eq!(sessions, [Some("session-0".to_owned()), Some("session-1".to_owned())], "refused, then run");

    let fake = Fake::serve(forgetful()).await;
    let client = older(&fake).await;
    assert!(client.tools().all().await.unwrap().is_empty());
    let asked = fake.asked();
    let lists = asked.iter().filter(|asked| asked.method() == "tools/list");
    let sessions: Vec<_> = lists.map(|asked| asked.header("mcp-session-id")).collect();
    assert_eq!(sessions, [Some("session-0"), Some("session-1")]);
    let opened: Vec<_> = asked.iter().filter(|asked| asked.method() == "initialize").collect();
    assert_eq!(opened.len(), 2);
    assert_eq!(opened[1].header("mcp-session-id"), None, "a new session is opened without an id");
}

/// A server that wants to be called again must say what with: else it would be called for ever, and each time do what
/// it does.
/// covers: MRTR-03
#[tokio::test]
async fn questions_without_questions_and_without_state_are_no_answer() {
    let fake = Fake::serve(modern(|asked| {
        let more = match asked.tool() {
            "empty" => json!({ "resultType": "input_required", "inputRequests": {} }),
            _ => json!({ "resultType": "input_required" }),
        };
        Said::json(&result(asked, &more))
    }))
    .await;
    let client = newer(&fake).await;
    for tool in ["empty", "absent"] {
        let error = client.call(tool, ()).await.unwrap_err();
        assert!(matches!(error, CallError::Malformed { .. }), "{error:?}");
        let call = hospes::Call::new(
            hospes::model::Method::ToolsCall,
            json!({ "name": tool }).into(),
            hospes::Context::new(std::sync::Arc::new(hospes::Peer::new(
                Revision::LATEST,
                None,
                Default::default(),
            ))),
        );
        let relayed = hospes::Service::call(&client, call).await;
        assert!(matches!(relayed, hospes::Outcome::Failed(_)), "{relayed:?}");
        assert_eq!(fake.asked().iter().filter(|asked| asked.tool() == tool).count(), 2);
    }
}

/// covers: HTTP-17 HTTP-41 MSG-11
#[tokio::test]
async fn a_streamed_answer_is_found_behind_whatever_precedes_it() {
    let fake = Fake::serve(legacy(|asked| {
        let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "x" } });
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": asked.body["params"]["_meta"]["progressToken"], "progress": 1 } });
        let other = json!({ "jsonrpc": "2.0", "id": 9999, "result": {} });
        let answer = format!("event: message\r\nid: 7\r\ndata: {}\r\n\r\n", text(asked, "streamed"));
        let (one, two) = answer.split_at(30);
        Said::stream(vec![
            Step::Text(": hello\n\n".into()),
            event(&log),
            event(&progress),
            event(&other),
            Step::Text("data: not json\n\n".into()),
            Step::Text("event: endpoint\ndata: /elsewhere\n\n".into()),
            Step::Text(one.into()),
            Step::Wait(Duration::from_millis(20)),
            Step::Text(two.into()),
        ])
    }))
    .await;
    let client = older(&fake).await;
    let mut reports = 0;
    let call = client.call("echo", ()).on_progress(|_| reports += 1);
    assert_eq!(call.await.unwrap().all_text(), "streamed");
    assert_eq!(reports, 1);
    // The stream has ended, so its connection is used again.
    client.call("echo", ()).await.unwrap();
    assert!(fake.asked().iter().all(|asked| asked.connection == 0));
}

/// covers: HRES-05 HRES-06 HTTP-37 HTTP-38
#[tokio::test]
async fn a_stream_that_breaks_off_is_taken_up_where_it_stopped() {
    let fake = Fake::serve(legacy(|asked| match asked.verb.as_str() {
        "POST" => Said::stream(vec![Step::Text("id: a-1\nretry: 200\ndata: \n\n".into()), Step::Cut]),
        _ if asked.header("last-event-id") == Some("a-1") => {
            Said::stream(vec![Step::Text("id: a-2\ndata:\n\n".into())])
        }
        _ => {
            let answer = json!({ "jsonrpc": "2.0", "id": 2,
                "result": { "content": [{ "type": "text", "text": "at last" }] } });
            Said::stream(vec![event(&answer)])
        }
    }))
    .await;
    let client = older(&fake).await;
    let began = Instant::now();
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "at last");
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    let resumed: Vec<_> = fake
        .asked()
        .into_iter()
        .filter_map(|asked| asked.header("last-event-id").map(str::to_owned))
        .collect();
    assert_eq!(resumed, ["a-1", "a-2"]);
    assert_eq!(fake.asked().iter().filter(|asked| asked.method() == "tools/call").count(), 1);
}

#[tokio::test]
async fn a_stream_that_cannot_be_taken_up_fails_its_call() {
    let fake = Fake::serve(legacy(|asked| match (asked.verb.as_str(), asked.tool()) {
        ("POST", "marked") => {
            Said::stream(vec![Step::Text("id: a-1\nretry: 10\ndata: \n\n".into()), Step::Cut])
        }
        ("POST", _) => Said::stream(vec![Step::Text(": hello\n\n".into()), Step::Cut]),
        _ => Said::status(400),
    }))
    .await;
    let client = older(&fake).await;
    let error = client.call("marked", ()).await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    let error = client.call("unmarked", ()).await.unwrap_err();
    assert!(error.to_string().contains("broke off"), "{error}");
}

/// An error that does not say which request it is about is about the one it answers.
///
/// covers: MSG-18
#[tokio::test]
async fn an_error_without_an_id_fails_the_request_it_answers() {
    let fake = Fake::serve(legacy(|asked| {
        let error = json!({ "jsonrpc": "2.0", "error": { "code": -32600, "message": "odd" } });
        match asked.tool() {
            "status" => Said::json(&error).with_status(400),
            "stream" => Said::stream(vec![event(&error)]),
            _ => Said::json(&error),
        }
    }))
    .await;
    let client = older(&fake).await;
    for tool in ["status", "stream", "plain"] {
        let error = client.call(tool, ()).await.unwrap_err();
        assert_eq!(error.rpc().map(|error| error.code), Some(-32600), "{tool}: {error}");
    }
}

#[tokio::test]
async fn what_is_no_answer_says_what_came_instead() {
    let fake = Fake::serve(legacy(|asked| match asked.tool() {
        "html" => Said::status(200).header("content-type", "text/html").text("<h1>Welcome</h1>"),
        "accepted" => Said::status(202),
        "gateway" => Said::status(502).text("upstream   is\ndown"),
        "other" => Said::json(&json!({ "jsonrpc": "2.0", "id": 77, "result": {} })),
        _ => Said::json(&json!("nonsense")),
    }))
    .await;
    let client = older(&fake).await;
    for tool in ["other", "nonsense"] {
        let error = client.call(tool, ()).await.unwrap_err();
        assert!(matches!(error, CallError::Malformed { .. }), "{tool}: {error}");
    }
    for (tool, status, said) in [("html", 200, "text/html"), ("accepted", 202, "202")] {
        let error = client.call(tool, ()).await.unwrap_err();
        let CallError::Http(failure) = &error else { panic!("{error}") };
        assert_eq!(failure.status, Some(status));
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(failure.body.is_some(), tool == "html");
    }
    let page =
        Fake::serve(|_| Said::status(200).header("content-type", "text/html").text("<h1>Hi</h1>")).await;
    let error = Client::connect(&page.url).await.unwrap_err();
    assert!(error.to_string().contains("MCP endpoint") && error.body.is_some(), "{error}");
    let error = client.call("gateway", ()).await.unwrap_err();
    let CallError::Http(failure) = &error else { panic!("{error}") };
    assert_eq!((failure.status, failure.body.as_deref()), (Some(502), Some("upstream is down")));
}

#[tokio::test]
async fn whoever_is_not_let_in_learns_the_challenge() {
    let challenge = "Bearer resource_metadata=\"https://example.com/prm\"";
    let fake =
        Fake::serve(move |_| Said::status(401).header("www-authenticate", challenge).text("who are you?"))
            .await;
    let error =
        Client::connect(Target::url(&fake.url).header("authorization", "Bearer s3cret")).await.unwrap_err();
    assert_eq!((error.stage, error.status), (Stage::Http, Some(401)));
    assert_eq!(error.challenge.as_deref(), Some(challenge));
    assert_eq!(error.body.as_deref(), Some("who are you?"));
    assert!(error.hint.is_some());
    assert!(!error.to_string().contains("s3cret"));
    assert_eq!(fake.asked().len(), 1, "it was not asked another way");
    assert_eq!(fake.asked()[0].header("authorization"), Some("Bearer s3cret"));
}

/// covers: VER-20 VER-21 SSE-12
#[tokio::test]
async fn an_older_server_is_found_behind_its_refusal_of_a_modern_question() {
    for refusal in [400, 404, 405, 500] {
        let inner = legacy(|asked| Said::json(&text(asked, "hi")));
        let fake = Fake::serve(move |asked| match asked.method() {
            "server/discover" => Said::status(refusal).text("Bad Request: no valid session ID provided"),
            _ => inner(asked),
        })
        .await;
        let client = Client::connect(&fake.url).await.unwrap();
        assert_eq!(client.revision(), Revision::V2025_11_25, "{refusal}");
    }
    let fake = Fake::serve(|_| Said::status(404).text("Cannot POST /mcp")).await;
    let error = Client::connect(&fake.url).await.unwrap_err();
    assert_eq!(error.status, Some(404));
    assert!(error.hint.as_ref().unwrap().contains("path"), "{error}");
    assert_eq!(error.tried.len(), 3, "{error}");
}

/// covers: VER-13
#[tokio::test]
async fn a_modern_server_that_names_its_revisions_is_asked_again() {
    let refused = AtomicUsize::new(0);
    let inner = modern(|asked| Said::json(&text(asked, "hi")));
    let fake = Fake::serve(move |asked| {
        if refused.fetch_add(1, Ordering::Relaxed) == 0 {
            let error = json!({ "code": -32022, "message": "no", "data": { "supported": ["2026-07-28"] } });
            return Said::json(&json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": error }))
                .with_status(400);
        }
        inner(asked)
    })
    .await;
    let client = Client::connect(&fake.url).await.unwrap();
    assert_eq!(client.revision(), Revision::V2026_07_28);
    let methods: Vec<String> = fake.asked().iter().map(|asked| asked.method().to_owned()).collect();
    assert_eq!(methods, ["server/discover", "server/discover"]);
}

#[tokio::test]
async fn a_redirect_is_followed_within_the_origin_and_not_beyond() {
    let inner = legacy(|asked| Said::json(&text(asked, "hi")));
    let fake = Fake::serve(move |asked| match asked.path.as_str() {
        "/mcp" => Said::status(307).header("location", "/v2/mcp?x=1"),
        _ => inner(asked),
    })
    .await;
    let client = older(&fake).await;
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "hi");
    assert_eq!(
        fake.asked().iter().filter(|asked| asked.path == "/mcp").count(),
        1,
        "the new place is remembered"
    );

    let elsewhere = Fake::serve(|_| Said::status(500)).await;
    let there = elsewhere.url.clone();
    let fake = Fake::serve(move |_| Said::status(307).header("location", &there)).await;
    let error = Client::connect(Target::url(&fake.url).header("authorization", "s3cret")).await.unwrap_err();
    assert_eq!(error.status, Some(307));
    assert!(error.to_string().contains(&format!("{}, another server", elsewhere.url)), "{error}");
    assert!(elsewhere.asked().is_empty());
    // Nor where a message would become a question without one.
    let fake = Fake::serve(|_| Said::status(302).header("location", "/login?token=s3cret")).await;
    let error = Client::connect(&fake.url).await.unwrap_err().to_string();
    assert!(error.contains("/login") && !error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn an_answer_over_the_limit_fails_alone() {
    let fake = Fake::serve(legacy(|asked| {
        let large = text(asked, &"x".repeat(20_000));
        match asked.tool() {
            "json" => Said::json(&large),
            "stream" => Said::stream(vec![event(&large)]),
            _ => Said::json(&text(asked, "small")),
        }
    }))
    .await;
    let builder = Client::builder().revision(Revision::V2025_11_25).max_message_bytes(10_000);
    let client = builder.connect(&fake.url).await.unwrap();
    for tool in ["json", "stream"] {
        let error = client.call(tool, ()).await.unwrap_err();
        assert!(matches!(error, CallError::TooLarge { setting: "max_message_bytes", .. }), "{tool}: {error}");
    }
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "small");
}

/// covers: CANC-14 HTTP-26 TIME-02
#[tokio::test]
async fn an_unwanted_request_is_cancelled_as_its_era_wants_it() {
    let hang = |asked: &Asked| match asked.tool() {
        "stream" => Said::stream(vec![Step::Text(": hello\n\n".into()), Step::Hang]),
        _ if asked.method() == "notifications/cancelled" => Said::status(202),
        _ => Said::stream(vec![Step::Hang]),
    };
    let fake = Fake::serve(legacy(hang)).await;
    let client = older(&fake).await;
    let error = client.call("stream", ()).timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout { limit: TimeLimit::Timeout, .. }), "{error}");
    let call = client.call("dropped", ()).into_future();
    assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
    let cancelled = fake.wait(2, |asked| asked.method() == "notifications/cancelled").await;
    let ids: Vec<_> = fake
        .asked()
        .iter()
        .filter(|asked| asked.method() == "tools/call")
        .map(|asked| asked.body["id"].clone())
        .collect();
    assert_eq!(cancelled[0].body["params"]["requestId"], ids[0]);
    assert_eq!(cancelled[1].body["params"]["requestId"], ids[1]);

    let fake = Fake::serve(modern(hang)).await;
    let client = newer(&fake).await;
    let call = client.call("stream", ()).into_future();
    assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
    fake.wait(1, |asked| asked.verb == "CLOSED").await;
    assert!(fake.asked().iter().all(|asked| asked.method() != "notifications/cancelled"));
}

/// covers: HHDR-05 HHDR-11 HHDR-12 HHDR-15 HHDR-20 HHDR-21 HHDR-29 HHDR-32 HTTP-12
#[tokio::test]
async fn modern_headers_repeat_the_body_and_learn_from_refusals() {
    let fake = Fake::serve(modern(|asked| match asked.method() {
        "tools/list" => {
            let marked = json!({ "type": "object", "properties": {
                "city": { "type": "string", "x-mcp-header": "City" }, "day": { "type": "integer", "x-mcp-header": "Day" } } });
            let bad = json!({ "type": "object", "properties": { "x": { "type": "number", "x-mcp-header": "X" } } });
            let tools = json!([{ "name": "trains", "inputSchema": marked }, { "name": "bad", "inputSchema": bad }]);
            Said::json(&result(asked, &json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" })))
        }
        _ if asked.tool() == "trains" && asked.header("mcp-param-city").is_none() => {
            let error = json!({ "code": -32020, "message": "the header Mcp-Param-City is missing" });
            Said::json(&json!({ "jsonrpc": "2.0", "id": asked.body["id"], "error": error })).with_status(400)
        }
        _ => Said::json(&text(asked, "hi")),
    }))
    .await;
    let client = newer(&fake).await;
    client.call("trains", json!({ "city": "Köln", "day": null })).await.unwrap();
    let asked = fake.asked();
    let methods: Vec<&str> = asked.iter().map(Asked::method).collect();
    assert_eq!(methods, ["server/discover", "tools/call", "tools/list", "tools/call"]);
    for asked in &asked {
        assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(asked.header("mcp-method"), Some(asked.method()));
        assert_eq!(asked.header("mcp-session-id"), None);
    }
    assert_eq!(asked[3].header("mcp-name"), Some("trains"));
    assert_eq!(asked[3].header("mcp-param-city"), Some("=?base64?S8O2bG4=?="));
    assert_eq!(asked[3].header("mcp-param-day"), None);
    assert_ne!(asked[1].body["id"], asked[3].body["id"]);
    let names: Vec<String> = client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["trains"]);
}

/// covers: PING-02 ELIC-05 HSES-04
#[tokio::test]
async fn questions_on_a_stream_are_answered_by_posts_of_their_own() {
    let fake = Fake::serve(legacy(|asked| match asked.method() {
        "tools/call" => {
            let form =
                json!({ "type": "object", "properties": { "name": { "type": "string", "default": "x" } } });
            Said::stream(vec![
                event(&json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" })),
                event(&json!({ "jsonrpc": "2.0", "id": "e", "method": "elicitation/create",
                    "params": { "message": "Who?", "requestedSchema": form } })),
                Step::Wait(Duration::from_millis(300)),
                event(&text(asked, "thanks")),
            ])
        }
        _ => Said::status(202),
    }))
    .await;
    let client = Client::builder()
        .revision(Revision::V2025_11_25)
        // Shorter than the server takes: it waits for us, so it is not silent. Its second end is well behind the answer.
        .timeout(Duration::from_millis(200))
        .elicitation(|_| async {
            tokio::time::sleep(Duration::from_millis(250)).await;
            Ok(ElicitResult::accept(RawJson::empty_object()))
        })
        .connect(&fake.url)
        .await
        .unwrap();
    assert_eq!(client.call("ask", ()).await.unwrap().all_text(), "thanks");
    let answers = fake.wait(2, |asked| asked.body.get("result").is_some()).await;
    let find = |id: &str| answers.iter().find(|asked| asked.body["id"] == id).unwrap();
    assert_eq!(find("p").body["result"], json!({}));
    assert_eq!(find("e").body["result"], json!({ "action": "accept", "content": { "name": "x" } }));
    assert!(answers.iter().all(|asked| asked.header("mcp-session-id") == Some("session-0")));
}

/// Servers made with a widely used SDK ask on the session's own stream what they ask during a call. Nobody was there to
/// answer, because whoever made the call was not asked.
#[tokio::test]
async fn a_question_on_the_sessions_stream_goes_to_whoever_made_the_call() {
    let (ask, asking) = tokio::sync::mpsc::channel(4);
    let (answer, answering) = tokio::sync::mpsc::channel(4);
    let streams = std::sync::Mutex::new((Some(asking), Some(answering)));
    let session = legacy(|_| Said::status(202));
    let fake = Fake::serve(move |asked| match (asked.verb.as_str(), asked.method()) {
        ("GET", _) => Said::stream(vec![Step::Relay(streams.lock().unwrap().0.take().unwrap())]),
        (_, "tools/call") => Said::stream(vec![
            Step::Text(": it takes a while\n\n".to_owned()),
            Step::Relay(streams.lock().unwrap().1.take().unwrap()),
        ]),
        _ => session(asked),
    })
    .await;
    let capabilities: hospes::model::ClientCapabilities =
        serde_json::from_value(json!({ "elicitation": {} })).unwrap();
    let client = Client::builder()
        .revision(Revision::V2025_11_25)
        .capabilities(capabilities.clone())
        .connect(&fake.url)
        .await
        .unwrap();
    let peer = std::sync::Arc::new(hospes::Peer::new(Revision::LATEST, None, capabilities));
    let call = |round| {
        let params = json!({ "name": "ask" }).into();
        let context = hospes::Context::builder(std::sync::Arc::clone(&peer)).round(round).build();
        hospes::Service::call(&client, hospes::Call::new(hospes::model::Method::ToolsCall, params, context))
    };
    let asking = async {
        // Until the call's own stream is open nobody is there to be asked.
        for number in 0.. {
            let question = json!({ "jsonrpc": "2.0", "id": number, "method": "elicitation/create",
                "params": { "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } } });
            ask.send(format!("data: {question}\n\n")).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let outcome = tokio::select! {
        outcome = call(hospes::Round::default()) => outcome,
        () = asking => unreachable!("it asks for ever"),
    };
    let called = fake.wait(1, |asked| asked.method() == "tools/call").await.remove(0);
    answer.send(format!("data: {}\n\n", text(&called, "thanks"))).await.unwrap();
    let mut outcome = outcome;
    let mut rounds = 0;
    // More than one of them may have reached the call.
    while let hospes::Outcome::InputRequired(questions) = outcome {
        rounds += 1;
        let mut round = questions.round;
        let answers = questions.requests.into_iter();
        round.answered(answers.map(|(key, _)| (key, RawJson::from(json!({ "action": "decline" })))));
        outcome = call(round).await;
    }
    assert!(rounds > 0 && matches!(outcome, hospes::Outcome::Complete(_)), "{rounds} {outcome:?}");
    fake.wait(1, |asked| asked.body["result"]["action"] == "decline").await;
}

/// A flood of comments left neither the call nor the runtime time to look at a clock.
#[tokio::test]
async fn a_server_that_talks_without_saying_anything_is_late_too() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let discovered = json!({ "jsonrpc": "2.0", "id": 1, "result": { "resultType": "complete", "ttlMs": 0,
            "cacheScope": "private", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } } });
        for flood in [false, true] {
            let (mut length, mut line) = (0, String::new());
            while stream.read_line(&mut line).unwrap() > 2 {
                let (name, value) = line.split_once(':').unwrap_or_default();
                if name.eq_ignore_ascii_case("content-length") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let asked: Value = serde_json::from_slice(&body).unwrap();
            let mut answer = discovered.clone();
            answer["id"] = asked["id"].clone();
            let (kind, length) = if flood {
                ("text/event-stream", usize::MAX >> 1)
            } else {
                ("application/json", answer.to_string().len())
            };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
            stream.get_mut().write_all(head.as_bytes()).unwrap();
            if !flood {
                stream.get_mut().write_all(answer.to_string().as_bytes()).unwrap();
            }
        }
        let comments = ": x\n".repeat(16 * 1024);
        while stream.get_mut().write_all(comments.as_bytes()).is_ok() {}
    });
    let builder = Client::builder().revision(Revision::V2026_07_28);
    let client = builder.connect(Target::url(url)).await.unwrap();
    let began = Instant::now();
    let error = client.call("x", ()).timeout(Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout { limit: TimeLimit::Timeout, .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_that_never_answers_is_said_to_be_silent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let hasty = Client::builder().connect_timeout(Duration::from_millis(400));
    let error = hasty.connect(Target::url(url)).await.unwrap_err();
    assert_eq!(error.stage, Stage::Initialize);
    assert!(error.what.contains("said nothing"), "{error}");
    assert!(!error.to_string().contains("command"), "there is none to run: {error}");
}

#[tokio::test]
async fn a_connection_that_the_server_closed_meanwhile_is_not_used_again() {
    let fake = Fake::serve(legacy(|asked| match asked.tool() {
        // Answered, and then closed without a word.
        "last" => {
            let mut said = Said::json(&text(asked, "bye"));
            said = said.header("connection", "close");
            said
        }
        _ => Said::json(&text(asked, "hi")),
    }))
    .await;
    let client = older(&fake).await;
    for _ in 0..3 {
        assert_eq!(client.call("last", ()).await.unwrap().all_text(), "bye");
        assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "hi");
    }
}

/// covers: SUBS-09
#[tokio::test]
async fn a_stream_of_changes_that_breaks_is_opened_again() {
    let capabilities = json!({ "tools": { "listChanged": true } });
    let breaks = AtomicUsize::new(0);
    let fake = Fake::serve(move |asked| match asked.method() {
        "server/discover" => Said::json(&result(
            asked,
            &json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                "ttlMs": 0, "cacheScope": "private" }),
        )),
        "subscriptions/listen" => {
            let meta = json!({ "io.modelcontextprotocol/subscriptionId": asked.body["id"] });
            let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": { "_meta": meta } });
            let end = if breaks.fetch_add(1, Ordering::Relaxed) < 2 { Step::Cut } else { Step::Hang };
            Said::stream(vec![event(&changed), end])
        }
        other => panic!("{other}"),
    })
    .await;
    let (told, mut heard) = tokio::sync::mpsc::channel(8);
    let client = Client::builder()
        .revision(Revision::V2026_07_28)
        .on_list_changed(move |_| told.try_send(()).unwrap())
        .connect(&fake.url)
        .await
        .unwrap();
    for _ in 0..3 {
        heard.recv().await.unwrap();
    }
    let listens = fake.wait(3, |asked| asked.method() == "subscriptions/listen").await;
    assert_ne!(listens[0].body["id"], listens[1].body["id"]);
    drop(client);
}

/// Whoever reconnects without pause may do so 30,000 times in a night.
#[tokio::test]
async fn a_stream_that_ends_at_once_is_not_opened_again_and_again() {
    let gets = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&gets);
    let inner = legacy(|asked| Said::json(&text(asked, "hi")));
    let fake = Fake::serve(move |asked| {
        if asked.verb == "GET" {
            counted.fetch_add(1, Ordering::Relaxed);
            return Said::stream(Vec::new());
        }
        inner(asked)
    })
    .await;
    let client = older(&fake).await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert!(gets.load(Ordering::Relaxed) <= 3, "{gets:?}");
    drop(client);
}

/// covers: TSKX-17
#[tokio::test]
async fn the_header_names_the_task_that_a_request_is_about() {
    let polls = AtomicUsize::new(0);
    let fake = Fake::serve(modern(move |asked| {
        let task = |status: &str, kind: &str| {
            json!({ "resultType": kind, "taskId": "t/1 \u{e9}", "status": status, "createdAt": "2026-07-28T00:00:00Z",
                "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": null, "pollIntervalMs": 1 })
        };
        Said::json(&result(
            asked,
            &match asked.method() {
                "tools/call" => task("working", "task"),
                "tasks/get" if polls.fetch_add(1, Ordering::Relaxed) == 0 => {
                    let mut asking = task("input_required", "complete");
                    asking["inputRequests"] = json!({ "roots": { "method": "roots/list" } });
                    asking
                }
                "tasks/get" => {
                    let mut done = task("completed", "complete");
                    done["result"] = json!({ "content": [] });
                    done
                }
                _ => json!({ "resultType": "complete" }),
            },
        ))
    }))
    .await;
    let builder = Client::builder().revision(Revision::V2026_07_28).roots(["/"]);
    let client = builder.connect(&fake.url).await.unwrap();
    let mut task = client.call("long", ()).as_task().await.unwrap();
    task.cancel().await.unwrap();
    task.result().await.unwrap();
    let asked = fake.asked();
    let about: Vec<_> = asked.iter().filter(|asked| asked.method().starts_with("tasks/")).collect();
    let methods: Vec<_> = about.iter().map(|asked| asked.method()).collect();
    assert_eq!(methods, ["tasks/cancel", "tasks/get", "tasks/update", "tasks/get"]);
    for asked in about {
        let name = asked.header("mcp-name").unwrap();
        assert_eq!(hospes_name(name), "t/1 \u{e9}", "{name}");
        assert_eq!(asked.body["params"]["taskId"], "t/1 \u{e9}");
    }
}

/// A header's value as it was before it was made fit for a header.
fn hospes_name(value: &str) -> String {
    use base64::Engine as _;
    let encoded = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    encoded.map_or_else(
        || value.to_owned(),
        |text| String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).unwrap()).unwrap(),
    )
}
