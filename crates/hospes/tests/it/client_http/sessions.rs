//! Sessions of the older era: named, ended, forgotten, and listened to.

use super::*;

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
    assert!(log.text().contains("opening a new one"), "nothing was logged: {}", log.text());
    for text in [shown, log.text()] {
        assert!(!text.contains("session-0") && !text.contains("session-1"), "{text}");
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

/// A client that reconnects without a pause may do so 30,000 times in a night.
#[tokio::test]
async fn a_stream_that_ends_at_once_is_not_opened_again_and_again() {
    let gets = std::sync::Arc::new(Mutex::new(Vec::new()));
    let when = std::sync::Arc::clone(&gets);
    let inner = legacy(|asked| Said::json(&text(asked, "hi")));
    let fake = Fake::serve(move |asked| {
        if asked.verb == "GET" {
            when.lock().unwrap().push(tokio::time::Instant::now());
            return Said::stream(Vec::new());
        }
        inner(asked)
    })
    .await;
    let clock = Clock::stop();
    let client = older(&fake).await;
    while gets.lock().unwrap().len() < 4 {
        // A call goes there and back, so that whoever was woken has had a turn.
        client.call("echo", ()).await.unwrap();
        clock.advance(Duration::from_millis(50)).await;
    }
    let pauses: Vec<_> = gets.lock().unwrap().windows(2).map(|two| two[1] - two[0]).collect();
    for (pause, least) in pauses.iter().zip([500, 1000, 2000]) {
        assert!(*pause >= Duration::from_millis(least), "{pauses:?}");
    }
}

/// A question of a new session was taken for one of the previous session, and was not answered.
#[tokio::test]
async fn a_new_session_asks_anew_under_the_ids_of_the_old_one() {
    let (serve, ask) = legacy_with_streams(|asked| match (asked.method(), asked.header("mcp-session-id")) {
        ("tools/call", Some("session-0")) => Said::status(404),
        ("tools/call", _) => Said::json(&text(asked, "hi")),
        _ => Said::status(202),
    });
    let fake = Fake::serve(serve).await;
    let (enter, mut entered) = mpsc::channel(8);
    let client = Client::builder()
        .revision(Revision::V2025_11_25)
        .elicitation(move |_| {
            let (enter, first) = (enter.clone(), enter.capacity() == enter.max_capacity());
            async move {
                enter.send(()).await.unwrap();
                if first {
                    std::future::pending::<()>().await;
                }
                Ok(ElicitResult::decline())
            }
        })
        .connect(&fake.url)
        .await
        .unwrap();
    ask[0].send(question(1)).await.unwrap();
    while entered.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "hi");
    ask[1].send(question(1)).await.unwrap();
    let answers = fake.wait(1, |asked| asked.body["id"] == 1 && asked.body.get("result").is_some()).await;
    assert_eq!(answers[0].header("mcp-session-id"), Some("session-1"));
    assert_eq!(answers[0].body["result"]["action"], "decline");
    entered.close();
}

/// The answer to a question of an ended session went to a question of the next session with the same id. It could have
/// consented to something else.
#[tokio::test]
async fn an_answer_to_a_session_that_is_over_goes_nowhere() {
    let (serve, ask) = legacy_with_streams(|asked| match (asked.method(), asked.tool()) {
        ("tools/call", "ask") => Said::stream(vec![Step::Text(question(1)), Step::Hang]),
        ("tools/call", _) if asked.header("mcp-session-id") == Some("session-0") => Said::status(404),
        ("tools/call", _) => Said::json(&text(asked, "hi")),
        _ => Said::status(202),
    });
    let fake = Fake::serve(serve).await;
    let capabilities: hospes::model::ClientCapabilities =
        serde_json::from_value(json!({ "elicitation": {} })).unwrap();
    let builder = Client::builder().revision(Revision::V2025_11_25).capabilities(capabilities.clone());
    let client = builder.connect(&fake.url).await.unwrap();
    let peer = std::sync::Arc::new(hospes::Peer::new(Revision::LATEST, None, capabilities));
    let call = async |round: hospes::Round| {
        let context = hospes::Context::builder(std::sync::Arc::clone(&peer)).round(round).build();
        let params = json!({ "name": "ask" }).into();
        let call = hospes::Call::new(hospes::model::Method::ToolsCall, params, context);
        hospes::Service::call(&client, call).await
    };
    let answered = |outcome: hospes::Outcome, action: &str| {
        let hospes::Outcome::InputRequired(questions) = outcome else { panic!("{outcome:?}") };
        assert_eq!(questions.requests.len(), 1);
        let mut round = questions.round;
        let answer = RawJson::from(json!({ "action": action }));
        round.record_answers([(questions.requests[0].0.clone(), answer)]);
        round
    };
    let first = answered(call(hospes::Round::default()).await, "accept");
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "hi");
    ask[1].send(question(1)).await.unwrap();
    // It belongs to no call of this session, so it waits for the next.
    while client.parked_calls() < 2 {
        tokio::task::yield_now().await;
    }
    let second = answered(call(first).await, "decline");
    let is_answer = |asked: &Asked| asked.body["id"] == 1 && asked.body.get("result").is_some();
    let answers = tokio::select! {
        outcome = call(second) => panic!("it hangs: {outcome:?}"),
        answers = fake.wait(1, is_answer) => answers,
    };
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].header("mcp-session-id"), Some("session-1"));
    assert_eq!(answers[0].body["result"]["action"], "decline");
}

/// A task of an ended session kept running, although no session could fetch its result.
#[tokio::test]
async fn what_runs_for_a_session_that_is_over_ends_with_it() {
    struct Ended(mpsc::Sender<&'static str>);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.try_send("ended").unwrap();
        }
    }
    let (serve, ask) = legacy_with_streams(|asked| match (asked.method(), asked.header("mcp-session-id")) {
        ("tools/call", Some("session-0")) => Said::status(404),
        ("tools/call", _) => Said::json(&text(asked, "hi")),
        _ => Said::status(202),
    });
    let fake = Fake::serve(serve).await;
    let (say, mut said) = mpsc::channel(8);
    let client = Client::builder()
        .revision(Revision::V2025_11_25)
        .elicitation(move |_| {
            let ended = Ended(say.clone());
            async move {
                ended.0.send("begun").await.unwrap();
                std::future::pending::<()>().await;
                drop(ended);
                Ok(ElicitResult::decline())
            }
        })
        .tasks(hospes::tasks::TaskSettings::new())
        .connect(&fake.url)
        .await
        .unwrap();
    let question = question(1).replacen("\"params\":{", "\"params\":{\"task\":{},", 1);
    ask[0].send(question).await.unwrap();
    assert_eq!(said.recv().await, Some("begun"));
    fake.wait(1, |asked| asked.body["result"]["task"]["status"] == "working").await;
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "hi");
    let ended = tokio::time::timeout(Duration::from_secs(20), said.recv()).await;
    assert_eq!(ended, Ok(Some("ended")));
}
