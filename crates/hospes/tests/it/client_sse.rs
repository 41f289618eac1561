//! Tests of the client over HTTP+SSE, the transport of 2024-11-05, against a scripted server.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::client::fake_http;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_http::{Asked, Fake, Said, Step, result};
use hospes::client::{CallError, Client};
use hospes::model::{CreateMessageResult, Revision, SamplingMessageContentBlock};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Time a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sender of events on the server's stream.
#[derive(Clone, Default)]
struct Mouth(Arc<Mutex<Option<mpsc::Sender<String>>>>);

impl Mouth {
    /// The stream, which begins by saying where messages go.
    fn open(&self, endpoint: &str) -> Said {
        let (say, said) = mpsc::channel(1024);
        *self.0.lock().unwrap() = Some(say);
        let first = Step::Text(format!(": hello\n\nevent: endpoint\ndata: {endpoint}\n\n"));
        Said::stream(vec![first, Step::Relay(said)])
    }

    fn say(&self, text: &str) {
        self.0.lock().unwrap().as_ref().unwrap().try_send(text.to_owned()).unwrap();
    }

    fn message(&self, message: &Value) {
        self.say(&format!("event: message\r\ndata: {message}\r\n\r\n"));
    }

    fn close(&self) {
        self.0.lock().unwrap().take();
    }
}

/// A server of 2024-11-05 at `/mcp`, whose messages go to `endpoint`; `call` answers what is no part of the handshake.
fn old(
    mouth: &Mouth,
    endpoint: &'static str,
    call: impl Fn(&Asked, &Mouth) -> Said + Send + Sync + 'static,
) -> impl Fn(&Asked) -> Said + Send + Sync + 'static {
    let mouth = mouth.clone();
    move |asked| match (asked.verb.as_str(), asked.path.as_str(), asked.method()) {
        ("GET", "/mcp", _) => mouth.open(endpoint),
        ("POST", "/mcp", _) => Said::status(404).text("Cannot POST /mcp"),
        (_, _, "initialize") => {
            mouth.message(&result(
                asked,
                &json!({ "protocolVersion": "2024-11-05", "capabilities": { "tools": {} },
                    "serverInfo": { "name": "old", "version": "1" } }),
            ));
            Said::status(202).text("Accepted")
        }
        (_, _, "notifications/initialized") => Said::status(202),
        _ => call(asked, &mouth),
    }
}

fn text(asked: &Asked) -> Value {
    result(asked, &json!({ "content": [{ "type": "text", "text": asked.tool() }] }))
}

fn answers(asked: &Asked, mouth: &Mouth) -> Said {
    mouth.message(&text(asked));
    Said::status(202)
}

/// covers: SSE-04 SSE-09 SSE-10 SSE-12
#[tokio::test]
async fn the_stream_is_opened_where_nothing_can_be_posted_and_says_where_to_post() {
    for (endpoint, path) in [
        ("/messages?sessionId=1", "/messages?sessionId=1"),
        ("messages/7", "/messages/7"),
        ("?s=1", "/mcp?s=1"),
    ] {
        let mouth = Mouth::default();
        let fake = Fake::serve(old(&mouth, endpoint, answers)).await;
        let client = Client::connect(&fake.url).await.unwrap();
        assert!(client.is_over_sse());
        assert_eq!(client.revision(), Revision::V2024_11_05);
        assert_eq!(client.call("one", ()).await.unwrap().all_text(), "one");
        let asked = fake.asked();
        let asked = asked.iter().filter(|asked| asked.verb != "CLOSED");
        let seen: Vec<_> =
            asked.map(|asked| (asked.verb.as_str(), asked.path.as_str(), asked.method())).collect();
        assert_eq!(
            seen,
            [
                ("POST", "/mcp", "server/discover"),
                ("POST", "/mcp", "initialize"),
                ("GET", "/mcp", ""),
                ("POST", path, "initialize"),
                ("POST", path, "notifications/initialized"),
                ("POST", path, "tools/call"),
            ],
            "{endpoint}"
        );
    }
}

#[tokio::test]
async fn a_full_url_of_the_same_server_is_taken_and_that_of_another_refused() {
    let mouth = Mouth::default();
    let (port, posted) = (Arc::new(Mutex::new(String::new())), mouth.clone());
    let (origin, inner) = (Arc::clone(&port), old(&mouth, "", answers));
    let fake = Fake::serve(move |asked| match asked.verb.as_str() {
        "GET" => posted.open(&format!("{}/messages", origin.lock().unwrap())),
        _ => inner(asked),
    })
    .await;
    *port.lock().unwrap() = fake.url.trim_end_matches("/mcp").to_owned();
    let client = Client::connect(&fake.url).await.unwrap();
    assert_eq!(client.call("one", ()).await.unwrap().all_text(), "one");

    let elsewhere = Fake::serve(|_| Said::status(202)).await;
    let other = elsewhere.url.trim_end_matches("/mcp").to_owned();
    *port.lock().unwrap() = other.clone();
    let error = Client::connect(&fake.url).await.unwrap_err();
    assert!(error.to_string().contains(&other) && error.to_string().contains("refused"), "{error}");
    assert!(elsewhere.asked().is_empty());
}

#[tokio::test]
async fn a_stream_that_does_not_begin_with_an_endpoint_is_none() {
    let begin = |text: &'static str| {
        Fake::serve(move |asked| match asked.verb.as_str() {
            "GET" => Said::stream(vec![Step::Text(text.into())]),
            _ => Said::status(405),
        })
    };
    for text in [
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n",
        ": bye\n\n",
        "event: endpoint\ndata: http://\n\n",
    ] {
        let error = Client::connect(&begin(text).await.url).await.unwrap_err();
        assert_eq!(error.tried.len(), 3, "{error}");
    }
    let fake = Fake::serve(|asked| match asked.verb.as_str() {
        "GET" => Said::status(401).header("www-authenticate", "Bearer").text("who are you?"),
        _ => Said::status(405),
    })
    .await;
    let error = Client::connect(&fake.url).await.unwrap_err();
    assert_eq!(error.status, Some(401), "{error}");
}

/// covers: SSE-11
#[tokio::test]
async fn before_2025_11_25_any_refusal_leads_to_the_older_transport() {
    for (revision, status) in [(Revision::V2025_03_26, 406), (Revision::V2025_06_18, 422)] {
        let mouth = Mouth::default();
        let inner = old(&mouth, "/m", answers);
        let (open, agreed) = (mouth.clone(), mouth.clone());
        let fake =
            Fake::serve(move |asked| match (asked.verb.as_str(), asked.path.as_str(), asked.method()) {
                ("POST", "/mcp", _) => Said::status(status),
                ("GET", ..) => open.open("/m"),
                (.., "initialize") => {
                    agreed.message(&result(
                        asked,
                        &json!({ "protocolVersion": revision.as_str(), "capabilities": { "tools": {} },
                        "serverInfo": { "name": "old", "version": "1" } }),
                    ));
                    Said::status(202)
                }
                _ => inner(asked),
            })
            .await;
        let client = Client::builder().revision(revision).connect(&fake.url).await.unwrap();
        assert!(client.is_over_sse());
        assert_eq!(client.call("one", ()).await.unwrap().all_text(), "one");
        // The version is named from when it is agreed, where that revision names it.
        let named = |asked: &&Asked| asked.header("mcp-protocol-version").is_some();
        let asked = fake.asked();
        let calls: Vec<_> = asked.iter().filter(|asked| asked.path == "/m").collect();
        assert!(
            !named(&calls[0]) && calls[1..].iter().all(|c| named(c) == (revision > Revision::V2025_03_26))
        );
    }
}

#[tokio::test]
async fn a_message_that_is_not_taken_fails_its_call_alone_unless_the_stream_is_unknown() {
    let mouth = Mouth::default();
    let fake = Fake::serve(old(&mouth, "/m", |asked, mouth| match asked.tool() {
        "broken" => Said::status(500).header("content-type", "text/plain").text("out of paper"),
        "unknown" => Said::status(404).text("Session not found"),
        _ => answers(asked, mouth),
    }))
    .await;
    let client = Client::connect(&fake.url).await.unwrap();
    let error = client.call("broken", ()).await.unwrap_err();
    assert!(error.to_string().contains("out of paper"), "{error}");
    assert_eq!(client.call("one", ()).await.unwrap().all_text(), "one");
    let error = client.call("unknown", ()).await.unwrap_err();
    assert!(error.is_closed() && error.to_string().contains("no longer recognizes"), "{error}");
    assert!(client.closed().is_some());
}

#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_the_connection() {
    let mouth = Mouth::default();
    let fake = Fake::serve(old(&mouth, "/m", |_, mouth| {
        mouth.close();
        Said::status(202)
    }))
    .await;
    let client = Client::connect(&fake.url).await.unwrap();
    let error = client.call("one", ()).await.unwrap_err();
    assert!(error.to_string().contains("ended the stream"), "{error}");
    let closed = tokio::time::timeout(PATIENCE, client.wait_closed()).await.unwrap();
    assert!(closed.to_string().contains("ended the stream"));
}

#[tokio::test]
async fn questions_are_answered_and_unwanted_calls_cancelled_by_posts() {
    let mouth = Mouth::default();
    let fake = Fake::serve(old(&mouth, "/m", |asked, mouth| {
        match asked.method() {
            "tools/call" if asked.tool() == "hang" => {}
            "tools/call" => mouth.message(&json!({ "jsonrpc": "2.0", "id": "q", "method": "ping" })),
            // The answer to the question: now the call is answered, in an event of several lines.
            "" => {
                mouth.say("data: {\"jsonrpc\": \"2.0\",\ndata: \"id\": 2, \"result\": {\"content\": []}}\n\n")
            }
            _ => {}
        }
        Said::status(202)
    }))
    .await;
    let client = Client::connect(&fake.url).await.unwrap();
    assert_eq!(client.call("ask", ()).await.unwrap().all_text(), "");
    let error = client.call("hang", ()).timeout(Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }));
    fake.wait(1, |asked| asked.method() == "notifications/cancelled").await;
    client.close().await;
    // What is closed is closed: the server sees its stream end.
    fake.wait(1, |asked| asked.verb == "CLOSED").await;
}

#[tokio::test]
async fn messages_over_the_limit_fail_alone() {
    let mouth = Mouth::default();
    let fake = Fake::serve(old(&mouth, "/m", |asked, mouth| {
        match asked.tool() {
            "long" => mouth.message(&result(
                asked,
                &json!({ "content": [{ "type": "text", "text": "x".repeat(20_000) }] }),
            )),
            _ => mouth.message(&text(asked)),
        }
        Said::status(202)
    }))
    .await;
    let client = Client::builder().max_message_bytes(10_000).connect(&fake.url).await.unwrap();
    let error = client.call("long", ()).await.unwrap_err();
    assert!(error.to_string().contains("max_message_bytes"), "{error}");
    assert_eq!(client.call("one", ()).await.unwrap().all_text(), "one");
}

/// covers: DEPR-03
#[tokio::test]
async fn where_the_newer_transport_is_spoken_too_the_older_one_is_left_alone() {
    use hospes::transport::http_server::{Endpoint, HttpServer};
    let server = hospes::Server::new("both", "1").tool("one", || async { "one" });
    let endpoint = Endpoint::builder(server).sse(true).build();
    let server = HttpServer::bind("127.0.0.1:0", endpoint.clone()).await.unwrap();
    let url = server.url();
    assert!(url.ends_with("/mcp"), "what a server says of itself leads to the newer one: {url}");
    tokio::spawn(server.serve());
    for revision in Revision::ALL {
        let client = Client::builder().revision(revision).connect(&url).await.unwrap();
        assert!(!client.is_over_sse(), "{revision}");
        assert_eq!(client.call("one", ()).await.unwrap().all_text(), "one", "{revision}");
        assert_eq!(endpoint.sse_streams(), 0, "{revision}");
        client.close().await;
    }
}

/// There are servers that answer the POST of a call only when they have asked what they need to know. As many of them as
/// may be on their way at once left no room for the answers.
#[tokio::test]
async fn answers_are_posted_however_many_calls_are_on_their_way() {
    let mouth = Mouth::default();
    let held = Mutex::new(std::collections::HashMap::new());
    let fake = Fake::serve(old(&mouth, "/m", move |asked, mouth| {
        let mut held = held.lock().unwrap();
        match asked.method() {
            "tools/call" => {
                let (hold, holding) = mpsc::channel(1);
                let id = format!("about {}", asked.body["id"]);
                mouth.message(&json!({ "jsonrpc": "2.0", "id": id, "method": "sampling/createMessage",
                    "params": { "messages": [], "maxTokens": 1 } }));
                held.insert(id, (text(asked), hold));
                Said::stream(vec![Step::Relay(holding)])
            }
            _ => {
                // With the answer to its question a call is done.
                if let Some((done, _)) = asked.body["id"].as_str().and_then(|id| held.remove(id)) {
                    mouth.message(&done);
                }
                Said::status(202)
            }
        }
    }))
    .await;
    let builder = Client::builder()
        .sampling(|_| async { Ok(CreateMessageResult::new("m", SamplingMessageContentBlock::text("yes"))) });
    let client = builder.connect(&fake.url).await.unwrap();
    let calls = futures::future::join_all((0..80).map(|_| client.call("ask", ()).into_future()));
    for outcome in tokio::time::timeout(PATIENCE, calls).await.expect("it hangs") {
        assert_eq!(outcome.unwrap().all_text(), "ask");
    }
}

/// Reading stood still until the server had taken the refusal.
#[tokio::test]
async fn a_refusal_that_the_server_does_not_take_holds_up_nothing() {
    let mouth = Mouth::default();
    let fake = Fake::serve(old(&mouth, "/m", |asked, mouth| match asked.method() {
        "tools/call" => {
            let text = "x".repeat(20_000);
            mouth.message(&json!({ "jsonrpc": "2.0", "id": "long", "method": "sampling/createMessage",
                "params": { "messages": [{ "role": "user", "content": { "type": "text", "text": text } }], "maxTokens": 1 } }));
            answers(asked, mouth)
        }
        _ => Said::stream(vec![Step::Hang]),
    }))
    .await;
    let client = Client::builder().max_message_bytes(10_000).connect(&fake.url).await.unwrap();
    let call = client.call("one", ()).into_future();
    assert_eq!(tokio::time::timeout(PATIENCE, call).await.expect("it hangs").unwrap().all_text(), "one");
    let refused = fake.wait(1, |asked| asked.body["id"] == "long").await;
    assert!(
        refused[0].body["error"]["message"].as_str().unwrap().contains("max_message_bytes"),
        "{refused:?}"
    );
}
