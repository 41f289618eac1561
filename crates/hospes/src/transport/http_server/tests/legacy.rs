//! The older revisions: sessions.

use super::*;
use crate::transport::http_server::Principal;
use crate::transport::probe::ProbeChange;

/// covers: HSES-01 HSES-03 HSES-05 HSES-07 HSES-13 HTTP-01 HTTP-13 VER-04
#[tokio::test]
async fn a_session_lives_from_initialize_to_delete() {
    let site = Site::new().await;
    for (asked, spoken) in
        [("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"), ("2030-01-01", "2025-11-25")]
    {
        let answer = site.post(initialize(asked), &[("mcp-protocol-version", asked)]).await;
        let id = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
        assert!(id.len() >= 16 && id.bytes().all(|b| matches!(b, 0x21..=0x7e)), "{id}");
        assert_eq!(answer.json().await["result"]["protocolVersion"], spoken);
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let taken = site.in_session(&id, initialized).await;
        assert_eq!(taken.status, StatusCode::ACCEPTED);
        assert!(taken.read().await.is_empty());
        let answer = site.in_session(&id, tool(1, "echo", json!({"text": "hi"}))).await;
        assert!(!answer.is_stream());
        let answer = answer.json().await;
        assert_eq!(text(&answer), "hi");
        assert!(answer["result"].get("resultType").is_none());
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        assert_eq!(
            site.in_session(&id, ping).await.json().await,
            json!({"jsonrpc": "2.0", "id": 2, "result": {}})
        );
        assert_eq!(site.endpoint.sessions(), 1);
        assert!(site.delete(&id).await.status.is_success());
        let answer = site.in_session(&id, tool(3, "echo", json!({}))).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        assert_eq!(site.delete(&id).await.status, StatusCode::NOT_FOUND);
        assert_eq!(site.get(&id, &[]).await.status, StatusCode::NOT_FOUND);
    }
    let answer = site.post(tool(4, "echo", json!({})), &[]).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(answer.json().await["error"]["message"].as_str().unwrap().contains("Mcp-Session-Id"));
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(site.post(initialized, &[]).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(site.endpoint.sessions(), 0);
}

#[tokio::test]
async fn a_session_keeps_only_so_much_of_what_its_client_says() {
    let site = Site::new().await;
    let mut long = initialize("2025-11-25");
    long["params"]["clientInfo"]["title"] = "x".repeat(100_000).into();
    let answer = site.post(long, &[]).await.json().await;
    assert_eq!(code(&answer), -32602);
    assert!(answer["error"]["message"].as_str().unwrap().contains("max_client_bytes"), "{answer}");
    assert_eq!(site.endpoint.sessions(), 0);
    // Without a session nothing is kept: only remembering it for the next request is spared.
    let mut long = modern_body(1, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}}));
    let client = json!({"name": "long", "version": "x".repeat(100_000)});
    long["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = client;
    let params = long["params"].clone();
    let answer = site.post(long, &modern_headers("tools/call", &params)).await.json().await;
    assert_eq!(text(&answer), "hi");
}

/// Peers are allocated only for admitted requests.
#[tokio::test]
async fn a_session_is_entered_only_when_all_is_well() {
    let site = Site::new().await;
    let mut bad = initialize("2025-11-25");
    bad["params"]["clientInfo"] = json!(7);
    let answer = site.post(bad, &[]).await;
    assert!(!answer.headers.contains_key("mcp-session-id"));
    assert_eq!(code(&answer.json().await), -32602);
    assert_eq!(site.endpoint.sessions(), 0);
}

/// covers: HSES-14 HSES-12
#[tokio::test]
async fn a_session_is_its_principals_alone() {
    let endpoint = Endpoint::new(ProbeService::new());
    let request = |who: Option<&str>, session: Option<&str>, body| {
        let mut request = post(body, &[("mcp-session-id", session.unwrap_or_default())]);
        if let Some(who) = who {
            request.extensions_mut().insert(Principal::new(who));
        }
        request
    };
    let answer = direct(&endpoint, request(Some("ada"), None, initialize("2025-11-25"))).await;
    let id = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    for (who, status) in [(Some("ada"), 200), (Some("eve"), 404), (None, 404)] {
        let answer = direct(&endpoint, request(who, Some(&id), tool(1, "echo", json!({})))).await;
        assert_eq!(answer.status(), status, "{who:?}");
    }
}

/// covers: HHDR-03 HHDR-04
#[tokio::test]
async fn a_version_header_must_name_a_version() {
    let site = Site::new().await;
    let id = site.session("2025-06-18").await;
    for (version, status) in [("2025-06-18", 200), ("", 200), ("1999-01-01", 400), ("x", 400)] {
        let headers = [("mcp-session-id", &*id), ("mcp-protocol-version", version)];
        assert_eq!(site.post(tool(1, "echo", json!({})), &headers).await.status, status, "{version}");
    }
}

/// covers: HTTP-16 HTTP-18 HTTP-19 HTTP-24 HTTP-35 HRES-01 HRES-02 HRES-08 HMUL-03
#[tokio::test]
async fn a_call_that_notifies_is_answered_as_a_stream_that_can_be_resumed() {
    let site = Site::new().await;
    let call = |id: u32| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
               "params": {"name": "progress", "_meta": {"progressToken": "t"}}})
    };
    let mut ids = std::collections::HashSet::new();
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = site.session(revision).await;
        let mut answer = site.in_session(&session, call(1)).await;
        if revision == "2025-11-25" {
            let prime = answer.event().await.unwrap();
            assert_eq!(prime.data, Value::Null);
            assert!(prime.id.is_some() && prime.retry.is_some());
        }
        let mut events = Vec::new();
        while let Some(event) = answer.event().await {
            ids.insert((revision, event.id.clone().unwrap()));
            events.push(event);
        }
        assert_eq!(events.len(), 4);
        assert_eq!(text(&events[3].data), "there");
        // Lost after the second: the rest, and nothing of another stream.
        let mut other = site.in_session(&session, call(2)).await;
        while let Some(event) = other.event().await {
            ids.insert((revision, event.id.unwrap()));
        }
        // No two streams of a session share an id, that of its changes included.
        let mut changes = site.get(&session, &[]).await;
        until(|| site.probe.listening() == 1).await;
        for _ in 0..2 {
            site.probe.change(ProbeChange::Tools);
            ids.insert((revision, changes.event().await.unwrap().id.unwrap()));
        }
        let mut resumed = site.get(&session, &[("last-event-id", events[1].id.as_deref().unwrap())]).await;
        assert_eq!(resumed.message().await["params"]["progress"], 3.0);
        assert_eq!(text(&resumed.message().await), "there");
        assert!(resumed.event().await.is_none());
        for unknown in ["99-0", "nonsense"] {
            let answer = site.get(&session, &[("last-event-id", unknown)]).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        }
        changes.hang_up().await;
        site.delete(&session).await;
        until(|| site.probe.listening() == 0).await;
    }
    // Four of each call and two of the changes; from 2025-11-25 on a stream begins with one more.
    assert_eq!(ids.len(), 3 * (4 + 4 + 2) + 1, "{ids:?}");
}

/// The id of an event, learned from a log for example, gives no access to its stream in another session.
///
/// covers: HRES-04
#[tokio::test]
async fn the_id_of_an_event_is_worth_nothing_in_another_session() {
    let site = Site::new().await;
    let call = |id: u32| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
               "params": {"name": "progress", "_meta": {"progressToken": "theirs"}}})
    };
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let (one, other) = (site.session(revision).await, site.session(revision).await);
        let mut ids = Vec::new();
        for number in 1..4 {
            let mut answer = site.in_session(&one, call(number)).await;
            while let Some(event) = answer.event().await {
                ids.push(event.id.unwrap());
            }
        }
        for id in &ids {
            let answer = site.get(&other, &[("last-event-id", id)]).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{revision}: {id}");
        }
        site.delete(&one).await;
        for id in &ids {
            let answer = site.get(&one, &[("last-event-id", id)]).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{revision}: the session is over");
        }
    }
}

/// covers: HTTP-19 HTTP-20 MSG-22
#[tokio::test]
async fn a_question_is_a_request_on_the_calls_own_stream() {
    let site = Site::new().await;
    let session = site.session("2025-06-18").await;
    let mut answer = site.in_session(&session, tool(1, "ask", json!({}))).await;
    let question = answer.message().await;
    assert_eq!(question["method"], "elicitation/create");
    let result = json!({"action": "accept", "content": {"name": "Ada"}});
    let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    let taken = site.in_session(&session, reply.clone()).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    assert_eq!(text(&answer.message().await), format!("answered {result}"));
    assert!(answer.event().await.is_none());
    // Late or foreign answers do no harm.
    assert_eq!(site.in_session(&session, reply.clone()).await.status, StatusCode::ACCEPTED);
    assert_eq!(site.post(reply, &[]).await.status, StatusCode::BAD_REQUEST);
}

/// covers: HTTP-30 HTTP-31 HTTP-33 HTTP-34 HMUL-02
#[tokio::test]
async fn changes_come_on_the_sessions_stream() {
    let site = Site::new().await;
    let session = site.session("2025-06-18").await;
    let mut stream = site.get(&session, &[]).await;
    assert_eq!(stream.status, StatusCode::OK);
    until(|| site.probe.listening() == 1).await;
    site.probe.change(ProbeChange::Tools);
    let event = stream.event().await.unwrap();
    assert_eq!(event.data, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    // A second stream replaces the first; nothing comes twice.
    let mut second = site.get(&session, &[]).await;
    assert!(stream.event().await.is_none());
    site.probe.change(ProbeChange::Prompts);
    assert_eq!(second.message().await["method"], "notifications/prompts/list_changed");
    // What changes while nobody listens is heard by the next one, behind what it had.
    second.hang_up().await;
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "x:1"}});
    assert_eq!(site.in_session(&session, subscribe).await.json().await["result"], json!({}));
    site.probe.change(ProbeChange::Tools);
    let mut third = site.get(&session, &[("last-event-id", event.id.as_deref().unwrap())]).await;
    assert_eq!(third.message().await["method"], "notifications/tools/list_changed");
    // One call for what was to be heard from the start, one for what was subscribed to since.
    until(|| site.probe.listening() == 2).await;
    site.probe.change(ProbeChange::Resource("x:1".into()));
    let updated = third.message().await;
    assert_eq!(
        (&updated["method"], &updated["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("x:1"))
    );
    // The end of the session is the end of its stream, and of the call behind it.
    site.delete(&session).await;
    assert!(third.event().await.is_none());
    until(|| site.probe.listening() == 0).await;
}

/// A subscription that the service did not agree to was answered as if it held, whether or not anybody listened.
#[tokio::test]
async fn a_subscription_that_the_service_does_not_agree_to_is_an_error() {
    let site = Site::new().await;
    let session = site.session("2025-06-18").await;
    let ask = async |id: u32, uri: &str| {
        let params = json!({"uri": uri});
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": params});
        site.in_session(&session, request).await.json().await
    };
    let is_refused =
        |answer: &Value| answer["error"]["message"] == "subscriptions to `x:secret` are not supported";
    // Nobody reads the stream yet.
    let answer = ask(1, "x:secret").await;
    assert!(is_refused(&answer), "{answer}");
    assert_eq!(ask(2, "x:1").await["result"], json!({}));
    until(|| site.probe.listening() == 0).await;
    let mut stream = site.get(&session, &[]).await;
    let answer = ask(3, "x:secret").await;
    assert!(is_refused(&answer), "{answer}");
    assert_eq!(ask(4, "x:2").await["result"], json!({}));
    for uri in ["x:secret", "x:1", "x:2"] {
        site.probe.change(ProbeChange::Resource(uri.into()));
    }
    let mut told = [stream.message().await, stream.message().await].map(|one| one["params"]["uri"].clone());
    told.sort_by_key(Value::to_string);
    assert_eq!(told, ["x:1", "x:2"]);
}

/// covers: HTTP-35 HTTP-36 HTTP-38 HRES-06 HRES-07 HTTP-23
#[tokio::test]
async fn a_handler_may_close_its_stream_and_the_client_polls() {
    let site = Site::with(|endpoint| endpoint.retry(Duration::from_millis(20))).await;
    let session = site.session("2025-11-25").await;
    let mut stream = site.in_session(&session, tool(1, "poll", json!({"millis": 50}))).await;
    let prime = stream.event().await.unwrap();
    assert_eq!((&prime.data, prime.retry), (&Value::Null, Some(Duration::from_millis(20))));
    assert!(stream.event().await.is_none(), "closed before the answer");
    let mut stream = site.get(&session, &[("last-event-id", prime.id.as_deref().unwrap())]).await;
    let answer = stream.message().await;
    assert_eq!((text(&answer), &answer["id"]), ("came back", &json!(1)));
    assert!(stream.event().await.is_none());
    // Revisions without polling keep their stream.
    let session = site.session("2025-06-18").await;
    let answer = site.in_session(&session, tool(1, "poll", json!({}))).await;
    assert_eq!(text(&answer.json().await), "came back");
}

/// covers: HTTP-22
#[tokio::test]
async fn before_2025_11_25_a_stream_ends_behind_its_answer_and_never_before() {
    let site = Site::new().await;
    for revision in ["2025-03-26", "2025-06-18"] {
        let session = site.session(revision).await;
        let answer = site.in_session(&session, tool(1, "poll", json!({"millis": 20}))).await;
        assert!(!answer.is_stream(), "nothing was to be closed");
        assert_eq!(text(&answer.json().await), "came back");
        // One that streams already.
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                          "params": {"name": "progress", "arguments": {"millis": 20}, "_meta": {"progressToken": 1}}});
        let mut answer = site.in_session(&session, call).await;
        let mut last = Value::Null;
        while let Some(event) = answer.event().await {
            last = event.data;
        }
        assert_eq!(text(&last), "there");
    }
}

/// covers: HTTP-20 HTTP-32 HTTP-33 HMUL-02
#[tokio::test]
async fn what_a_call_says_is_heard_on_its_stream_and_what_changes_on_the_sessions() {
    let site = Site::new().await;
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = site.session(revision).await;
        let mut changes = site.get(&session, &[]).await;
        until(|| site.probe.listening() == 1).await;
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                          "params": {"name": "progress", "arguments": {"millis": 20}, "_meta": {"progressToken": 1}}});
        let mut answer = site.in_session(&session, call).await;
        site.probe.change(ProbeChange::Tools);
        let mut said = Vec::new();
        while let Some(event) = answer.event().await {
            if !event.data.is_null() {
                said.push(event.data["method"].as_str().unwrap_or("answer").to_owned());
            }
        }
        let progress = "notifications/progress";
        assert_eq!(said, [progress, progress, progress, "answer"], "{revision}");
        // Nothing of the call came between the two.
        site.probe.change(ProbeChange::Prompts);
        assert_eq!(changes.message().await["method"], "notifications/tools/list_changed");
        assert_eq!(changes.message().await["method"], "notifications/prompts/list_changed");
        site.delete(&session).await;
        assert!(changes.event().await.is_none());
        until(|| site.probe.listening() == 0).await;
    }
}

/// covers: HTTP-14 HTTP-15
#[tokio::test]
async fn what_asks_nothing_and_cannot_be_taken_is_refused_by_status() {
    let site = Site::new().await;
    let note =
        |params: Value| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let id = site.session(revision).await;
        let (known, unknown) = (("mcp-session-id", &*id), ("mcp-session-id", "unknown"));
        for (body, headers, status) in [
            (note(json!({})), vec![known], 202),
            (note(json!({})), vec![], 400),
            (note(json!({})), vec![unknown], 404),
            (note(json!(7)), vec![known], 400),
            (note(json!({})), vec![known, ("mcp-protocol-version", "1999-01-01")], 400),
            (answer.clone(), vec![known], 202),
            (answer.clone(), vec![], 400),
            (answer.clone(), vec![unknown], 404),
            (json!({"jsonrpc": "1.0", "method": "x"}), vec![known], 400),
            (json!("{"), vec![known], 400),
        ] {
            let refused = site.post(body.clone(), &headers).await;
            assert_eq!(refused.status, status, "{revision}: {body} {headers:?}");
            if status != 202 {
                let error = refused.json().await;
                assert!(
                    error["error"]["code"].is_i64() && error["id"].is_null() || body["id"] == 1,
                    "{error}"
                );
            }
        }
    }
    // In 2026-07-28 there are no answers to send.
    let headers = [("mcp-protocol-version", "2026-07-28")];
    assert_eq!(site.post(answer, &headers).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(site.post(note(json!(7)), &headers).await.status, StatusCode::BAD_REQUEST);
}

/// covers: HSES-02
#[tokio::test]
async fn no_two_sessions_have_one_id_and_nothing_in_it_counts_up() {
    let endpoints = [Endpoint::new(ProbeService::new()), Endpoint::new(ProbeService::new())];
    let mut ids = std::collections::HashSet::new();
    for number in 0..200 {
        let answer = direct(&endpoints[number % 2], post(initialize("2025-11-25"), &[])).await;
        let id = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        // 128 bits, of which about half differ from one to the next.
        assert_eq!(id.len(), 22);
        assert!(ids.insert(id));
    }
    let ids: Vec<_> = ids.into_iter().map(String::into_bytes).collect();
    for position in 0..21 {
        let seen: std::collections::HashSet<u8> = ids.iter().map(|id| id[position]).collect();
        assert!(seen.len() > 32, "only {} characters at {position}", seen.len());
    }
}

/// covers: HTTP-25
#[tokio::test]
async fn hanging_up_is_no_cancellation() {
    let site = Site::with(|endpoint| endpoint.stream_after(Duration::from_millis(20))).await;
    let session = site.session("2025-11-25").await;
    // Lost before anything was said.
    let mut connection = site.connect().await;
    let call = post(tool(1, "sleep", json!({"millis": 100})), &[("mcp-session-id", &session)]);
    let send = tokio::spawn(async move { connection.try_send(call).await.map(|_| ()) });
    site.running(1).await;
    send.abort();
    until(|| site.probe.finished() == 1).await;
    // Lost in the stream: the rest is there for whoever comes back.
    let mut stream = site.in_session(&session, tool(2, "sleep", json!({"millis": 200}))).await;
    let prime = stream.event().await.unwrap();
    stream.hang_up().await;
    let mut stream = site.get(&session, &[("last-event-id", prime.id.as_deref().unwrap())]).await;
    assert_eq!(text(&stream.message().await), "slept");
    until(|| site.endpoint.calls() == 0).await;
}

/// covers: HTTP-26 CANC-04 CANC-06
#[tokio::test]
async fn a_cancelled_call_gets_no_answer() {
    let site = Site::with(|endpoint| endpoint.stream_after(Duration::from_millis(20))).await;
    let session = site.session("2025-11-25").await;
    let cancel =
        |id: u32| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    let mut stream = site.in_session(&session, tool(1, "forever", json!({}))).await;
    stream.event().await.unwrap();
    assert_eq!(site.in_session(&session, cancel(1)).await.status, StatusCode::ACCEPTED);
    assert!(stream.event().await.is_none());
    site.running(0).await;
    // The id of a running call is taken.
    let mut stream = site.in_session(&session, tool(2, "forever", json!({}))).await;
    stream.event().await.unwrap();
    assert_eq!(code(&site.in_session(&session, tool(2, "echo", json!({}))).await.json().await), -32600);
    // The end of the session answers what still runs.
    site.delete(&session).await;
    assert!(stream.message().await["error"]["message"].as_str().unwrap().contains("session"));
    site.running(0).await;
}

/// covers: CANC-04
#[tokio::test]
async fn a_call_that_has_said_nothing_yet_is_cancelled_at_once() {
    let site = Site::with(|endpoint| endpoint.stream_after(Duration::from_secs(3600))).await;
    let session = site.session("2025-11-25").await;
    let call = site.in_session(&session, tool(1, "forever", json!({})));
    let cancel = async {
        site.running(1).await;
        let params = json!({"requestId": 1});
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        site.in_session(&session, cancel).await
    };
    let both = tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(call, cancel) });
    let (mut answer, _) = both.await.expect("the cancelled call goes on");
    assert!(answer.event().await.is_none());
    site.running(0).await;
}

/// covers: HMUL-01
#[tokio::test]
async fn several_streams_go_on_at_once() {
    let site = Site::new().await;
    let session = site.session("2025-11-25").await;
    let call = |id: u32| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
               "params": {"name": "progress", "_meta": {"progressToken": id}}})
    };
    let answers = (1000..1003).map(|id| {
        let (site, session) = (&site, &session);
        async move {
            let mut answer = site.in_session(session, call(id)).await;
            let mut last = Value::Null;
            while let Some(event) = answer.event().await {
                assert!(
                    event.data["params"]["progressToken"].as_u64().is_none_or(|token| token == u64::from(id))
                );
                last = event.data;
            }
            assert_eq!(last["id"], id);
        }
    });
    futures::future::join_all(answers).await;
}

/// covers: BATCH-01 BATCH-03 BATCH-06 BATCH-08 BATCH-09
#[tokio::test]
async fn batches_belong_to_2025_03_26() {
    let site = Site::new().await;
    let session = site.session("2025-03-26").await;
    let ids = |answer: &Value| {
        let mut ids: Vec<_> = answer.as_array().unwrap().iter().map(|part| part["id"].to_string()).collect();
        ids.sort();
        ids.join(" ")
    };
    let batch = json!([
        tool(1, "echo", json!({"text": "a"})),
        tool(2, "sleep", json!({"millis": 20})),
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        initialize("2025-03-26"),
        {"jsonrpc": "2.0", "id": 5},
    ]);
    let answer = site.in_session(&session, batch).await.json().await;
    assert_eq!(ids(&answer), "0 1 2 3 5", "{answer}");
    let refused = answer.as_array().unwrap().iter().find(|part| part["id"] == 0).unwrap();
    assert_eq!(code(refused), -32600, "a batch opens no session");
    // As a stream where something precedes an answer.
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                      "params": {"name": "progress", "_meta": {"progressToken": 1}}});
    let mut stream = site.in_session(&session, json!([tool(6, "echo", json!({})), call])).await;
    let mut seen = Vec::new();
    while let Some(event) = stream.event().await {
        seen.push(event.data["id"].to_string());
    }
    assert_eq!(seen, ["6", "null", "null", "null", "7"]);
    let quiet = json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}, {"jsonrpc": "2.0", "id": 9, "result": {}}]);
    assert_eq!(site.in_session(&session, quiet).await.status, StatusCode::ACCEPTED);
    assert_eq!(site.in_session(&session, json!([])).await.status, StatusCode::BAD_REQUEST);
    let newer = site.session("2025-06-18").await;
    let answer = site.in_session(&newer, json!([tool(1, "echo", json!({}))])).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

/// covers: LOG-04 LOG-05
#[tokio::test]
async fn log_messages_are_sent_at_the_sessions_level() {
    let site = Site::new().await;
    let session = site.session("2025-11-25").await;
    assert!(!site.in_session(&session, tool(1, "log", json!({}))).await.is_stream());
    let level =
        json!({"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "debug"}});
    assert_eq!(site.in_session(&session, level).await.json().await["result"], json!({}));
    let mut stream = site.in_session(&session, tool(3, "log", json!({}))).await;
    stream.event().await.unwrap();
    assert_eq!(stream.message().await["method"], "notifications/message");
    assert_eq!(text(&stream.message().await), "logged");
}
