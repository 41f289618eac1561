//! 2026-07-28.

use super::*;
use crate::transport::probe::ProbeChange;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// covers: HTTP-16 MSG-25 DISC-01 DISC-05 HSES-15
#[tokio::test]
async fn a_plain_call_is_answered_in_json_with_a_length() {
    let site = Site::new().await;
    let mut request = modern(1, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}}));
    request.headers_mut().insert("mcp-session-id", "whatever".parse().unwrap());
    request.headers_mut().insert("last-event-id", "7-7".parse().unwrap());
    let answer = site.send(request).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.headers.contains_key("content-length") && !answer.headers.contains_key("mcp-session-id"));
    let answer = answer.json().await;
    assert_eq!((text(&answer), &answer["id"]), ("hi", &json!(1)));
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "probe");
    let answer = site.modern(2, "server/discover", json!({})).await.json().await;
    assert_eq!(answer["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert!(answer["result"]["ttlMs"].is_u64() && answer["result"]["cacheScope"].is_string(), "{answer}");
    assert_eq!(site.endpoint.sessions(), 0);
}

/// covers: HHDR-06 HHDR-07 HHDR-08 HHDR-13 HHDR-14 STLS-03 STLS-04 VER-12 PING-11
#[tokio::test]
async fn statuses_and_codes_go_together() {
    let site = Site::new().await;
    let params = || json!({"name": "echo", "arguments": {}});
    let body = || modern_body(3, "tools/call", params());
    let without = |key: &str| {
        let mut body = body();
        body["params"]["_meta"].as_object_mut().unwrap().remove(&format!("io.modelcontextprotocol/{key}"));
        body
    };
    let mut no_meta = body();
    no_meta["params"].as_object_mut().unwrap().remove("_meta");
    let mut strange = body();
    strange["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "v999.0.0".into();
    let mut broken = body();
    broken["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": 7});
    let (version, method, name) =
        (("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo"));
    let other = ("mcp-protocol-version", "v999.0.0");
    for (what, body, headers, want) in [
        ("no _meta", no_meta, vec![version, method, name], Some((400, -32602))),
        ("no version", without("protocolVersion"), vec![version, method, name], Some((400, -32602))),
        ("no capabilities", without("clientCapabilities"), vec![version, method, name], Some((400, -32602))),
        ("bad capabilities", broken, vec![version, method, name], Some((400, -32602))),
        ("no client info", body(), vec![version, method, name], None),
        ("unknown version", strange.clone(), vec![other, method, name], Some((400, -32022))),
        ("another version in the header", body(), vec![other, method, name], Some((400, -32020))),
        ("another version in _meta", strange, vec![version, method, name], Some((400, -32020))),
        ("no version header", body(), vec![method, name], Some((400, -32020))),
        ("no method header", body(), vec![version, name], Some((400, -32020))),
        ("another method", body(), vec![version, ("mcp-method", "tools/list"), name], Some((400, -32020))),
        ("another case", body(), vec![version, ("mcp-method", "TOOLS/CALL"), name], Some((400, -32020))),
        ("no name", body(), vec![version, method], Some((400, -32020))),
        ("another name", body(), vec![version, method, ("mcp-name", "Echo")], Some((400, -32020))),
        ("blanks", body(), vec![version, method, ("MCP-Name", "  echo ")], None),
        ("base64", body(), vec![version, method, ("mcp-name", "=?base64?ZWNobw==?=")], None),
    ] {
        let answer = site.post(body, &headers).await;
        let status = answer.status.as_u16();
        let answer = answer.json().await;
        assert_eq!(answer["id"], 3, "{what}: {answer}");
        match want {
            Some((wanted, error)) => assert_eq!((status, code(&answer)), (wanted, error), "{what}: {answer}"),
            None => assert_eq!((status, text(&answer)), (200, ""), "{what}: {answer}"),
        }
    }
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "unknown/method",
    ] {
        let answer = site.modern(4, method, json!({})).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method}");
        let answer = answer.json().await;
        assert_eq!((code(&answer), &answer["id"]), (-32601, &json!(4)), "{method}");
    }
    // Raised inside the handler, the error has its status all the same.
    let params = json!({"name": "ask", "_meta": {"io.modelcontextprotocol/clientCapabilities": {}}});
    let answer = site.modern(5, "tools/call", params).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let answer = answer.json().await;
    assert_eq!(code(&answer), -32021);
    assert!(answer["error"]["data"]["requiredCapabilities"]["elicitation"].is_object(), "{answer}");
    // An unknown tool is no bad request: the method's own params are its handler's business.
    let answer = site.modern(6, "tools/call", json!({"name": "nothing"})).await;
    assert_eq!((answer.status, code(&answer.json().await)), (StatusCode::OK, -32602));
}

/// covers: HTTP-02 HTTP-42
#[tokio::test]
async fn there_is_nothing_to_get_or_delete() {
    let site = Site::new().await;
    for method in ["GET", "DELETE", "PUT"] {
        let request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "localhost")
            .header("accept", "text/event-stream")
            .header("mcp-protocol-version", "2026-07-28");
        let answer = site.send(request.body(Full::default()).unwrap()).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert!(answer.headers["allow"].to_str().unwrap().contains("POST"));
    }
}

/// covers: HRES-09
#[tokio::test]
async fn there_is_nothing_to_resume() {
    let site = Site::new().await;
    let session = site.session("2025-11-25").await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                      "params": {"name": "progress", "_meta": {"progressToken": 1}}});
    let mut logged = site.in_session(&session, call).await;
    let id = logged.event().await.unwrap().id.unwrap();
    let params = json!({"name": "progress", "_meta": {"progressToken": "p"}});
    let mut headers = modern_headers("tools/call", &params);
    headers.extend([("last-event-id", &*id), ("mcp-session-id", &*session)]);
    let mut answer = site.post(modern_body(2, "tools/call", params.clone()), &headers).await;
    let mut events = 0;
    while let Some(event) = answer.event().await {
        assert!(event.id.is_none() && event.retry.is_none(), "{event:?}");
        events += 1;
    }
    assert_eq!(events, 4, "its own, from the beginning");
}

/// covers: HTTP-13 CANC-12
#[tokio::test]
async fn notifications_are_taken_without_a_word() {
    let site = Site::new().await;
    let params = json!({"requestId": 1, "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    let body = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    let answer = site.post(body, &modern_headers("notifications/cancelled", &json!({}))).await;
    assert_eq!(answer.status, StatusCode::ACCEPTED);
    assert!(answer.read().await.is_empty());
}

/// covers: HTTP-21 HTTP-24 HTTP-39 PROG-04 PROG-05
#[tokio::test]
async fn a_call_that_notifies_is_answered_as_a_stream() {
    let site = Site::new().await;
    let mut answer =
        site.modern(1, "tools/call", json!({"name": "progress", "_meta": {"progressToken": 9}})).await;
    assert_eq!(answer.headers["x-accel-buffering"], "no");
    for step in 1..=3 {
        let event = answer.event().await.unwrap();
        assert_eq!(event.data["params"]["progress"], f64::from(step));
        assert_eq!((event.id, event.retry), (None, None), "streams are not resumed in this revision");
    }
    assert_eq!(text(&answer.message().await), "there");
    assert!(answer.event().await.is_none(), "the stream ends with the answer");
}

/// covers: LOG-18
#[tokio::test]
async fn log_messages_come_on_the_stream_of_the_call_that_wanted_them_and_on_no_other() {
    const LEVEL: &str = "io.modelcontextprotocol/logLevel";
    let site = Site::new().await;
    let filter = json!({"notifications": {"toolsListChanged": true}, "_meta": {LEVEL: "debug"}});
    let mut changes = site.modern(1, "subscriptions/listen", filter).await;
    changes.message().await;
    let meta = json!({LEVEL: "debug", "progressToken": 1});
    let slow = json!({"name": "progress", "arguments": {"millis": 100}, "_meta": meta});
    let mut other = site.modern(2, "tools/call", slow).await;
    let mut said = vec![other.message().await];
    // It runs still, and wants to hear everything too; but this is not its own.
    let log = |level: &str| json!({"name": "log", "_meta": {LEVEL: level}});
    let mut logged = site.modern(3, "tools/call", log("info")).await;
    let message = logged.message().await;
    assert_eq!(
        (&message["method"], &message["params"]["level"]),
        (&json!("notifications/message"), &json!("info"))
    );
    assert_eq!(text(&logged.message().await), "logged");
    assert!(logged.event().await.is_none());
    for quiet in [log("notice"), json!({"name": "log"})] {
        let answer = site.modern(4, "tools/call", quiet).await;
        assert!(!answer.is_stream());
        assert_eq!(text(&answer.json().await), "logged");
    }
    while let Some(event) = other.event().await {
        said.push(event.data);
    }
    let answer = said.pop().unwrap();
    assert_eq!((said.len(), text(&answer)), (3, "there"));
    assert!(said.iter().all(|message| message["method"] == "notifications/progress"), "{said:?}");
    site.probe.change(ProbeChange::Tools);
    assert_eq!(changes.message().await["method"], "notifications/tools/list_changed");
}

/// covers: MRTR-01 MRTR-03 MRTR-11 MRTR-15
#[tokio::test]
async fn questions_are_asked_by_result() {
    let site = Site::new().await;
    let round = site.modern(1, "tools/call", json!({"name": "ask"})).await.json().await["result"].clone();
    assert_eq!(round["resultType"], "input_required");
    assert_eq!(round["inputRequests"]["name"]["method"], "elicitation/create");
    let state = round["requestState"].as_str().unwrap();
    let retry = |state: Value, answers: Value| json!({"name": "ask", "requestState": state, "inputResponses": answers});
    let accept = json!({"action": "accept", "content": {"name": "Ada"}});
    let good = json!({"name": accept, "surplus": {}});
    let answer = site.modern(2, "tools/call", retry(state.into(), good.clone())).await.json().await;
    assert!(text(&answer).contains("Ada"), "{answer}");
    for (what, params) in [
        ("tampered", retry(format!("{state}-TAMPERED").into(), good)),
        ("no result", retry(state.into(), json!({"name": 12345}))),
        ("null", json!({"name": "ask", "inputResponses": null})),
    ] {
        let answer = site.modern(3, "tools/call", params).await.json().await;
        let asked_again = answer["result"]["resultType"] == "input_required";
        assert!(asked_again || code(&answer) == -32602, "{what}: {answer}");
        assert!(what != "tampered" || !asked_again);
    }
    let answer = site.modern(4, "tools/call", retry(state.into(), json!({"wrong": {}}))).await.json().await;
    assert_eq!(answer["result"]["resultType"], "input_required");
}

/// Several nodes with the same keys serve the rounds of one call.
#[tokio::test]
async fn state_is_opened_by_any_node_with_the_keys() {
    use hospes_proto::request_state::{StateKey, StateKeyRing};

    let site = |key| Site::with(move |e| e.state_keys(StateKeyRing::single(StateKey::from_bytes([key; 32]))));
    let (one, two, other) = (site(1).await, site(1).await, site(2).await);
    let round = one.modern(1, "tools/call", json!({"name": "ask"})).await.json().await;
    let params = json!({"name": "ask", "requestState": round["result"]["requestState"],
                        "inputResponses": {"name": {"action": "decline"}}});
    assert!(text(&two.modern(2, "tools/call", params.clone()).await.json().await).contains("decline"));
    assert_eq!(code(&other.modern(2, "tools/call", params).await.json().await), -32602);
}

/// covers: SUBS-02 SUBS-03 SUBS-04 SUBS-07 HTTP-27
#[tokio::test]
async fn changes_come_on_a_stream_until_it_is_closed() {
    let site = Site::new().await;
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = site.modern(7, "subscriptions/listen", filter.clone()).await;
    let acknowledged = stream.message().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION], 7);
    let mut other =
        site.modern(8, "subscriptions/listen", json!({"notifications": {"promptsListChanged": true}})).await;
    assert_eq!(other.message().await["params"]["_meta"][SUBSCRIPTION], 8);
    site.probe.change(ProbeChange::Tools);
    site.probe.change(ProbeChange::Prompts);
    let changed = stream.message().await;
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"][SUBSCRIPTION], 7);
    assert_eq!(other.message().await["method"], "notifications/prompts/list_changed");
    stream.hang_up().await;
    until(|| site.probe.listening() == 1).await;
}

/// covers: HTTP-27 CANC-04 CANC-05
#[tokio::test]
async fn hanging_up_cancels_the_call() {
    let site = Site::new().await;
    let mut connection = site.connect().await;
    let call = modern(1, "tools/call", json!({"name": "forever"}));
    let send = tokio::spawn(async move {
        let _ = connection.try_send(call).await;
        connection
    });
    site.running(1).await;
    send.abort();
    site.running(0).await;
    assert_eq!(site.endpoint.calls(), 0);
}

/// covers: STLS-01 STLS-06
#[tokio::test]
async fn nothing_is_remembered_between_requests_of_a_connection() {
    let site = Site::new().await;
    let mut connection = site.connect().await;
    for (capabilities, want) in [
        (json!({"elicitation": {}}), None),
        (json!({}), Some(-32021)),
        (json!({"elicitation": {"form": {}}}), None),
    ] {
        let params =
            json!({"name": "ask", "_meta": {"io.modelcontextprotocol/clientCapabilities": capabilities}});
        let answer = connection.try_send(modern(1, "tools/call", params)).await.unwrap().json().await;
        match want {
            Some(error) => assert_eq!(code(&answer), error),
            None => assert_eq!(answer["result"]["resultType"], "input_required"),
        }
    }
}

#[tokio::test]
async fn probes_are_answered_one_by_one() {
    let site = Site::new().await;
    let answer = site.modern(1, "tools/call", json!({"name": "panic"})).await;
    assert_eq!((answer.status, code(&answer.json().await)), (StatusCode::OK, -32603));
    let headers = modern_headers("tools/list", &Value::Null);
    for (body, want) in [
        ("nonsense".to_owned(), -32700),
        ("{\"jsonrpc\":".to_owned(), -32700),
        ("{}".to_owned(), -32600),
        ("[]".to_owned(), -32600),
        (format!("[{}]", modern_body(1, "tools/list", json!({}))), -32600),
        (String::new(), -32700),
    ] {
        let answer = site.post(body.clone().into(), &headers).await;
        assert_eq!((answer.status.as_u16(), code(&answer.json().await)), (400, want), "{body}");
    }
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let body = modern_body(1, "tools/call", json!({"name": "echo", "arguments": {"x": "DEEP"}}));
    let body = body.to_string().replace("\"DEEP\"", &deep);
    let params = json!({"name": "echo"});
    let answer = site.post(body.into(), &modern_headers("tools/call", &params)).await.json().await;
    assert_eq!(answer["id"], 1);
    let slow = (0..4)
        .map(|id| site.modern(id, "tools/call", json!({"name": "sleep", "arguments": {"millis": 300}})));
    for answer in futures::future::join_all(slow).await {
        assert_eq!(text(&answer.json().await), "slept");
    }
    assert_eq!(site.probe.most_running(), 4, "side by side");
}

/// The peers lose 40 ms a call where small writes meet delayed acknowledgements.
#[tokio::test]
async fn an_answer_does_not_wait_for_an_acknowledgement() {
    let site = Site::new().await;
    let mut connection = site.connect().await;
    let mut times = Vec::new();
    for id in 0..40 {
        let name = if id % 2 == 0 { "echo" } else { "progress" };
        // Pauses make several small writes of the stream.
        let params = json!({"name": name, "arguments": {"millis": 1}, "_meta": {"progressToken": 1}});
        let call = modern(id, "tools/call", params);
        let start = std::time::Instant::now();
        let answer = connection.try_send(call).await.unwrap();
        assert_eq!(answer.is_stream(), name == "progress");
        answer.read().await;
        times.push(start.elapsed());
    }
    times.sort();
    assert!(times[30] < Duration::from_millis(30), "{times:?}");
}
