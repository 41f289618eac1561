//! HTTP+SSE, the transport of 2024-11-05, beside the one path.

use super::*;
use crate::transport::http_server::{Principal, StreamDeadline};
use crate::transport::probe::ProbeChange;

/// A stream, and where its messages go.
struct Stream {
    address: SocketAddr,
    answer: Answer,
    uri: String,
}

async fn site() -> Site {
    Site::with(|endpoint| endpoint.sse(true)).await
}

fn listen() -> Request<Full<Bytes>> {
    let request = Request::get("/sse").header(HOST, "localhost").header(ACCEPT, "text/event-stream");
    request.body(Full::default()).unwrap()
}

fn message(uri: &str, body: Value, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    // The clients of old say nothing of what they accept.
    let mut request = post(body, &[&[("accept", "")], headers].concat());
    *request.uri_mut() = uri.parse().unwrap();
    request
}

impl Stream {
    async fn open(site: &Site) -> Self {
        let mut answer = site.send(listen()).await;
        assert_eq!(answer.status, StatusCode::OK);
        let first = answer.event().await.unwrap();
        assert_eq!(first.name.as_deref(), Some("endpoint"));
        Self { address: site.address, answer, uri: first.text }
    }

    async fn initialized(site: &Site, revision: &str) -> Self {
        let mut stream = Self::open(site).await;
        stream.say(initialize(revision)).await;
        assert_eq!(stream.hear().await["result"]["protocolVersion"], revision);
        stream.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        stream
    }

    async fn post(&self, body: Value, headers: &[(&str, &str)]) -> Answer {
        connect(self.address).await.send(message(&self.uri, body, headers)).await
    }

    async fn say(&self, body: Value) {
        let answer = self.post(body, &[]).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
        assert!(answer.read().await.is_empty());
    }

    async fn hear(&mut self) -> Value {
        let event = self.answer.event().await.expect("the stream has ended");
        assert_eq!(event.name, None, "not of the type `message`");
        event.data
    }
}

/// covers: SSE-01 SSE-02 SSE-03 SSE-05
#[tokio::test]
async fn each_client_has_a_stream_on_which_everything_comes() {
    let site = site().await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut one = Stream::initialized(&site, revision).await;
        let mut two = Stream::initialized(&site, revision).await;
        assert_ne!(one.uri, two.uri);
        assert!(one.uri.starts_with("/messages?sessionId=") && one.uri.len() > 40, "{}", one.uri);
        // The same ids, at the same time.
        one.say(tool(1, "echo", json!({"text": "one"}))).await;
        two.say(tool(1, "echo", json!({"text": "two"}))).await;
        assert_eq!(text(&one.hear().await), "one");
        assert_eq!(text(&two.hear().await), "two");
        assert_eq!(site.endpoint.sse_streams(), 2);
        one.answer.hang_up().await;
        until(|| site.endpoint.sse_streams() == 1).await;
        two.say(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"})).await;
        assert_eq!(two.hear().await, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
        two.answer.hang_up().await;
        until(|| site.endpoint.sse_streams() == 0).await;
    }
    assert_eq!(site.endpoint.sessions(), 0);
}

/// covers: SSE-08
#[tokio::test]
async fn the_older_transport_stands_beside_the_newer_where_it_is_wanted() {
    let site = site().await;
    let mut stream = Stream::initialized(&site, "2024-11-05").await;
    let session = site.session("2025-06-18").await;
    let answer = site.in_session(&session, tool(1, "echo", json!({"text": "new"}))).await;
    assert_eq!(text(&answer.json().await), "new");
    assert_eq!(site.modern(1, "tools/list", json!({})).await.status, StatusCode::OK);
    stream.say(tool(1, "echo", json!({"text": "old"}))).await;
    assert_eq!(text(&stream.hear().await), "old");
    // Whoever tries the newer transport here learns that it is the older one.
    for (verb, uri, allow) in [(Method::POST, "/sse", "GET"), (Method::GET, "/messages", "POST")] {
        let mut request = message(uri, initialize("2025-11-25"), &[]);
        *request.method_mut() = verb;
        let answer = site.send(request).await;
        assert_eq!(
            (answer.status, &answer.headers["allow"]),
            (StatusCode::METHOD_NOT_ALLOWED, &allow.parse().unwrap())
        );
    }
    // Beside another path, and not at all.
    let site = Site::with(|endpoint| endpoint.sse(true).path("/a/mcp")).await;
    let mut request = listen();
    *request.uri_mut() = "/a/sse".parse().unwrap();
    let first = site.send(request).await.event().await.unwrap();
    assert!(first.text.starts_with("/a/messages?"), "{}", first.text);
    let modern = hospes_proto::RevisionSet::only(hospes_model::Revision::V2026_07_28);
    for site in [Site::new().await, Site::with(|endpoint| endpoint.sse(true).revisions(modern)).await] {
        assert_eq!(site.send(listen()).await.status, StatusCode::NOT_FOUND);
    }
}

/// covers: SSE-06
#[tokio::test]
async fn host_and_origin_are_checked_at_both_endpoints() {
    let site = site().await;
    let stream = Stream::open(&site).await;
    for (name, value) in [("host", "evil.example.com"), ("origin", "http://evil.example.com")] {
        let mut request = listen();
        request.headers_mut().insert(name, value.parse().unwrap());
        assert_eq!(site.send(request).await.status, StatusCode::FORBIDDEN);
        let answer = stream.post(initialize("2024-11-05"), &[(name, value)]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
    }
    let answer = stream.post(initialize("2024-11-05"), &[("origin", "http://localhost:6274")]).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    assert_eq!(answer.headers["access-control-allow-origin"], "http://localhost:6274");
}

#[tokio::test]
async fn a_message_must_be_one_and_for_a_stream_that_is_open() {
    let site = site().await;
    let stream = Stream::initialized(&site, "2024-11-05").await;
    let ping = || json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (uri, body, status) in [
        ("/messages", ping(), 400),
        ("/messages?sessionId=", ping(), 404),
        ("/messages?sessionId=AAAAAAAAAAAAAAAAAAAAAA", ping(), 404),
        (&stream.uri, json!("{"), 400),
        (&stream.uri, json!(7), 400),
        (&stream.uri, ping(), 202),
    ] {
        assert_eq!(site.send(message(uri, body, &[])).await.status, status, "{uri}");
    }
    for (name, value, status) in [
        ("content-type", "text/plain", 415),
        ("mcp-protocol-version", "2024-11-05", 202),
        ("mcp-protocol-version", "1999-01-01", 400),
    ] {
        assert_eq!(stream.post(ping(), &[(name, value)]).await.status, status, "{value}");
    }
    let uri = stream.uri.clone();
    stream.answer.hang_up().await;
    until(|| site.endpoint.sse_streams() == 0).await;
    assert_eq!(site.send(message(&uri, ping(), &[])).await.status, StatusCode::NOT_FOUND);
}

/// covers: HSES-14
#[tokio::test]
async fn a_stream_is_its_principals_alone() {
    let endpoint = Endpoint::builder(ProbeService::new()).sse(true).build();
    let as_who = |mut request: Request<Full<Bytes>>, who: Option<&str>| {
        if let Some(who) = who {
            request.extensions_mut().insert(Principal::new(who));
        }
        request
    };
    let opened = direct(&endpoint, as_who(listen(), Some("ada"))).await;
    let mut body = opened.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let uri = String::from_utf8(first.to_vec()).unwrap();
    let uri = uri.split("data: ").nth(1).unwrap().trim();
    for (who, status) in [(Some("ada"), 202), (Some("eve"), 404), (None, 404)] {
        let request = as_who(message(uri, initialize("2024-11-05"), &[]), who);
        assert_eq!(direct(&endpoint, request).await.status(), status, "{who:?}");
    }
}

/// The older transport does not serve the newer era; such requests get an error that lists the supported revisions.
#[tokio::test]
async fn a_modern_question_is_refused_by_name() {
    let site = site().await;
    let mut stream = Stream::open(&site).await;
    stream.say(modern_body(1, "server/discover", json!({}))).await;
    let answer = stream.hear().await;
    assert_eq!(code(&answer), -32022);
    assert_eq!(answer["error"]["data"]["supported"][0], "2024-11-05");
    stream.say(initialize("2026-07-28")).await;
    assert_eq!(stream.hear().await["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn questions_cancellation_and_changes_go_over_the_stream() {
    let site = site().await;
    let mut stream = Stream::initialized(&site, "2025-06-18").await;
    stream.say(tool(1, "ask", json!({}))).await;
    let question = stream.hear().await;
    assert_eq!(question["method"], "elicitation/create");
    let result = json!({"action": "accept", "content": {}});
    stream.say(json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
    assert_eq!(text(&stream.hear().await), format!("answered {result}"));

    stream.say(tool(2, "forever", json!({}))).await;
    site.running(1).await;
    assert_eq!(site.endpoint.calls(), 1);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    stream.say(cancel).await;
    site.running(0).await;

    until(|| site.probe.listening() == 1).await;
    site.probe.change(ProbeChange::Tools);
    assert_eq!(stream.hear().await["method"], "notifications/tools/list_changed");

    // The stream is the session: with it everything ends that goes on for it.
    stream.say(tool(3, "forever", json!({}))).await;
    site.running(1).await;
    stream.answer.hang_up().await;
    site.running(0).await;
    until(|| site.probe.listening() == 0 && site.endpoint.calls() == 0).await;
}

#[tokio::test]
async fn streams_calls_and_waiting_messages_have_limits() {
    let site = Site::with(|endpoint| endpoint.sse(true).max_sessions(1).max_concurrent_calls(1)).await;
    let mut stream = Stream::initialized(&site, "2024-11-05").await;
    let why = |answer: Value| answer["error"]["message"].as_str().unwrap().to_owned();
    let refused = site.send(listen()).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(why(refused.json().await).contains("max_sessions"));
    stream.say(tool(1, "forever", json!({}))).await;
    until(|| site.endpoint.calls() == 1).await;
    let refused = stream.post(tool(2, "echo", json!({})), &[]).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(why(refused.json().await).contains("max_concurrent_calls"));
    // Its calls are the endpoint's calls.
    assert_eq!(site.modern(1, "tools/list", json!({})).await.status, StatusCode::SERVICE_UNAVAILABLE);
    stream
        .say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    until(|| site.endpoint.calls() == 0).await;
    stream.say(tool(3, "echo", json!({"text": "again"}))).await;
    assert_eq!(text(&stream.hear().await), "again");

    // A client that posts and does not read: its stream is not polled.
    let endpoint = Endpoint::builder(ProbeService::new()).sse(true).build();
    let mut body = direct(&endpoint, listen()).await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    let uri = String::from_utf8(first.to_vec()).unwrap().split("data: ").nth(1).unwrap().trim().to_owned();
    let mut taken = 0;
    let refused = loop {
        let answer = direct(&endpoint, message(&uri, tool(taken, "echo", json!({})), &[])).await;
        if answer.status() != StatusCode::ACCEPTED {
            break answer;
        }
        taken += 1;
    };
    assert_eq!((refused.status(), taken), (StatusCode::SERVICE_UNAVAILABLE, 256));
    let refused = refused.into_body().collect().await.unwrap().to_bytes();
    assert!(why(serde_json::from_slice(&refused).unwrap()).contains("max_waiting_messages"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_gives_signs_of_life_and_ends_with_the_endpoint() {
    let probe = ProbeService::new();
    let endpoint = Endpoint::builder(probe.clone()).sse(true).keep_alive(Duration::from_secs(7)).build();
    let mut body = direct(&endpoint, listen()).await.into_body();
    let mut frame = async || body.frame().await.map(|frame| frame.unwrap().into_data().unwrap());
    let first = String::from_utf8(frame().await.unwrap().to_vec()).unwrap();
    let uri = first.split("data: ").nth(1).unwrap().trim().to_owned();
    let begun = tokio::time::Instant::now();
    assert_eq!(frame().await.unwrap(), ": \n\n");
    assert_eq!(begun.elapsed().as_secs(), 7);
    for body in
        [initialize("2024-11-05"), tool(1, "sleep", json!({"millis": 500})), tool(2, "forever", json!({}))]
    {
        assert_eq!(direct(&endpoint, message(&uri, body, &[])).await.status(), StatusCode::ACCEPTED);
    }
    assert!(frame().await.unwrap().starts_with(b"event: message\ndata: "));
    endpoint.close();
    assert_eq!(direct(&endpoint, listen()).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    // What was begun may still end by itself, and what does not is told why.
    let answer = String::from_utf8(frame().await.unwrap().to_vec()).unwrap();
    assert!(answer.contains("slept"), "{answer}");
    endpoint.abort();
    let answer = String::from_utf8(frame().await.unwrap().to_vec()).unwrap();
    assert!(answer.contains("shutting down"), "{answer}");
    assert_eq!(frame().await, None);
    drop(body);
    assert_eq!((endpoint.sse_streams(), endpoint.calls(), probe.running()), (0, 0, 0));
}

/// All answers of a session come on its stream, so it must not be cut off before they have.
#[tokio::test(start_paused = true)]
async fn what_a_stream_owes_goes_out_before_it_ends_with_its_token() {
    let probe = ProbeService::new();
    let endpoint = Endpoint::builder(probe.clone()).sse(true).keep_alive(Duration::from_secs(1000)).build();
    let mut opening = listen();
    let expires = tokio::time::Instant::now() + Duration::from_secs(10);
    opening.extensions_mut().insert(StreamDeadline(expires));
    let mut body = direct(&endpoint, opening).await.into_body();
    let mut frame = async || body.frame().await.map(|frame| frame.unwrap().into_data().unwrap());
    let first = String::from_utf8(frame().await.unwrap().to_vec()).unwrap();
    let uri = first.split("data: ").nth(1).unwrap().trim().to_owned();
    let say = async |body: Value| direct(&endpoint, message(&uri, body, &[])).await.status();
    for body in [initialize("2024-11-05"), tool(1, "sleep", json!({"millis": 30_000}))] {
        assert_eq!(say(body).await, StatusCode::ACCEPTED);
    }
    assert!(frame().await.unwrap().starts_with(b"event: message\ndata: "));
    let answer = String::from_utf8(frame().await.unwrap().to_vec()).unwrap();
    assert!(answer.contains("slept"), "{answer}");
    assert!(expires.elapsed() >= Duration::from_secs(19), "the token was over long before");
    assert_ne!(say(tool(2, "echo", json!({}))).await, StatusCode::ACCEPTED, "and nothing more was taken");
    assert_eq!(frame().await, None);
    drop(body);
    assert_eq!((endpoint.sse_streams(), probe.running()), (0, 0));
}
