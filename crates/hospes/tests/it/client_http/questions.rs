//! Tests of a server's questions.

use super::*;

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

/// covers: PING-02 ELIC-05 HSES-04
#[tokio::test]
async fn questions_on_a_stream_are_answered_by_posts_of_their_own() {
    let (finish, finishing) = mpsc::channel(1);
    let finishing = Mutex::new(Some(finishing));
    let fake = Fake::serve(legacy(move |asked| match asked.method() {
        "tools/call" => {
            let form =
                json!({ "type": "object", "properties": { "name": { "type": "string", "default": "x" } } });
            Said::stream(vec![
                event(&json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" })),
                event(&json!({ "jsonrpc": "2.0", "id": "e", "method": "elicitation/create",
                    "params": { "message": "Who?", "requestedSchema": form } })),
                Step::Relay(finishing.lock().unwrap().take().unwrap()),
            ])
        }
        _ => Said::status(202),
    }))
    .await;
    let (enter, mut entered) = mpsc::channel(1);
    let (answer, answering) = tokio::sync::watch::channel(false);
    let client = Client::builder()
        .revision(Revision::V2025_11_25)
        .timeout(Duration::from_secs(20))
        .elicitation(move |_| {
            let (enter, mut answering) = (enter.clone(), answering.clone());
            async move {
                enter.send(()).await.unwrap();
                answering.wait_for(|answer| *answer).await.unwrap();
                Ok(ElicitResult::accept(RawJson::empty_object()))
            }
        })
        .connect(&fake.url)
        .await
        .unwrap();
    let clock = Clock::stop();
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.call("ask", ()).await }
    });
    entered.recv().await.unwrap();
    // Longer than the server may take: it waits for us, so it is not silent.
    for _ in 0..3 {
        clock.advance(Duration::from_secs(15)).await;
        fence(&client).await;
    }
    answer.send(true).unwrap();
    let answers = fake.wait(2, |asked| asked.body.get("result").is_some()).await;
    // Nor does it have to hurry once it knows.
    clock.advance(Duration::from_secs(15)).await;
    fence(&client).await;
    let called = fake.wait(1, |asked| asked.tool() == "ask").await.remove(0);
    finish.send(format!("data: {}\n\n", text(&called, "thanks"))).await.unwrap();
    assert_eq!(calling.await.unwrap().unwrap().all_text(), "thanks");
    let find = |id: &str| answers.iter().find(|asked| asked.body["id"] == id).unwrap();
    assert_eq!(find("p").body["result"], json!({}));
    assert_eq!(find("e").body["result"], json!({ "action": "accept", "content": { "name": "x" } }));
    assert!(answers.iter().all(|asked| asked.header("mcp-session-id") == Some("session-0")));
}

/// Goes to the server and back, so that every timer that has rung meanwhile was listened to.
async fn fence(client: &Client) {
    let error = client.tools().all().await.unwrap_err();
    assert!(matches!(error, CallError::Http(_)), "{error}");
}

/// Servers built with a widely used SDK ask questions of a call on the session's own stream. They remained unanswered,
/// because they were not passed to the caller.
#[tokio::test]
async fn a_question_on_the_sessions_stream_goes_to_whoever_made_the_call() {
    let (answer, answering) = mpsc::channel(4);
    let answering = Mutex::new(Some(answering));
    let (serve, [ask, _]) = legacy_with_streams(move |asked| match asked.method() {
        "tools/call" => {
            let token = &asked.body["params"]["_meta"]["progressToken"];
            let begun = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                "params": { "progressToken": token, "progress": 1 } });
            Said::stream(vec![event(&begun), Step::Relay(answering.lock().unwrap().take().unwrap())])
        }
        _ => Said::status(202),
    });
    let fake = Fake::serve(serve).await;
    let capabilities: hospes::model::ClientCapabilities =
        serde_json::from_value(json!({ "elicitation": {} })).unwrap();
    let client = Client::builder()
        .revision(Revision::V2025_11_25)
        .capabilities(capabilities.clone())
        .connect(&fake.url)
        .await
        .unwrap();
    let peer = std::sync::Arc::new(hospes::Peer::new(Revision::LATEST, None, capabilities));
    let exchange = |round| {
        let context = hospes::Context::builder(std::sync::Arc::clone(&peer)).round(round);
        let params = json!({ "name": "ask", "_meta": { "progressToken": 1 } }).into();
        let context = context.progress_token(Some(1.into())).build();
        let call = hospes::Call::new(hospes::model::Method::ToolsCall, params, context);
        hospes::Exchange::new(hospes::BoxService::new(client.clone()), call)
    };
    let mut asking = exchange(hospes::Round::default());
    // Until the call's own stream is open nobody is there to be asked.
    let event = std::future::poll_fn(|cx| asking.poll_event(cx)).await;
    assert!(matches!(event, hospes::ExchangeEvent::Notify(_)), "{event:?}");
    ask.send(question(7)).await.unwrap();
    let event = std::future::poll_fn(|cx| asking.poll_event(cx)).await;
    let hospes::ExchangeEvent::Done(hospes::Outcome::InputRequired(questions)) = event else {
        panic!("{event:?}")
    };
    assert_eq!(questions.requests.len(), 1);
    let mut round = questions.round;
    round.record_answers([(questions.requests[0].0.clone(), RawJson::from(json!({ "action": "decline" })))]);
    let called = fake.wait(1, |asked| asked.method() == "tools/call").await.remove(0);
    answer.send(format!("data: {}\n\n", text(&called, "thanks"))).await.unwrap();
    let mut answered = exchange(round);
    let event = std::future::poll_fn(|cx| answered.poll_event(cx)).await;
    assert!(matches!(event, hospes::ExchangeEvent::Done(hospes::Outcome::Complete(_))), "{event:?}");
    let answers = fake.wait(1, |asked| asked.body["result"]["action"] == "decline").await;
    assert_eq!(answers[0].body["id"], 7);
}
