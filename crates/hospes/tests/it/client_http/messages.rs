//! Tests of posted messages and their responses.

use super::*;

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
    assert_eq!((error.stage, error.status), (ConnectStage::Http, Some(401)));
    assert_eq!(error.challenge.as_deref(), Some(challenge));
    assert_eq!(error.body.as_deref(), Some("who are you?"));
    assert!(error.hint.is_some());
    assert!(!error.to_string().contains("s3cret"));
    assert_eq!(fake.asked().len(), 1, "it was not asked another way");
    assert_eq!(fake.asked()[0].header("authorization"), Some("Bearer s3cret"));
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
    assert!(error.to_string().contains(&format!("{}, a different origin", elsewhere.url)), "{error}");
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

/// Servers of 2026-07-28 send no requests, and clients no answers: not to one that is too long either.
#[tokio::test]
async fn a_request_over_the_limit_is_refused_where_there_are_requests() {
    let call = |asked: &Asked| {
        let long =
            json!({ "jsonrpc": "2.0", "id": 9, "method": "ping", "params": { "x": "x".repeat(20_000) } });
        match asked.tool() {
            "ask" => Said::stream(vec![event(&long), event(&text(asked, "done"))]),
            "after" => Said::json(&text(asked, "after")),
            _ => Said::status(202),
        }
    };
    for (revision, refusals) in [(Revision::V2025_11_25, 1), (Revision::V2026_07_28, 0)] {
        let fake = match revision.is_legacy() {
            true => Fake::serve(legacy(call)).await,
            false => Fake::serve(modern(call)).await,
        };
        let builder = Client::builder().revision(revision).max_message_bytes(10_000);
        let client = builder.connect(&fake.url).await.unwrap();
        assert_eq!(client.call("ask", ()).await.unwrap().all_text(), "done");
        let refusal = |asked: &Asked| asked.body["error"]["code"] == -32600 && asked.body["id"] == 9;
        if refusals > 0 {
            fake.wait(refusals, refusal).await;
        }
        assert_eq!(client.call("after", ()).await.unwrap().all_text(), "after");
        assert_eq!(fake.asked().iter().filter(|asked| refusal(asked)).count(), refusals, "{revision}");
    }
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
    tokio::select! {
        outcome = client.call("dropped", ()) => panic!("{outcome:?}"),
        _ = fake.wait(1, |asked| asked.tool() == "dropped") => {}
    }
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
    tokio::select! {
        outcome = client.call("stream", ()) => panic!("{outcome:?}"),
        _ = fake.wait(1, |asked| asked.tool() == "stream") => {}
    }
    fake.wait(1, |asked| asked.verb == "CLOSED").await;
    assert!(fake.asked().iter().all(|asked| asked.method() != "notifications/cancelled"));
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
