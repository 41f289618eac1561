//! Questions, in a session and without one.

use super::*;

/// covers: MSG-22
#[tokio::test]
async fn a_question_is_a_request_in_a_session() {
    let probe = ProbeService::new();
    let mut peer = Peer::opened(&probe, "2025-11-25").await;
    peer.tool(1, "ask", json!({})).await;
    let question = peer.read().await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Who?");
    // An answer to something else changes nothing.
    peer.send(json!({"jsonrpc": "2.0", "id": 99, "result": {}})).await;
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    peer.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
    assert_eq!(text(&peer.read().await), format!("answered {answer}"));
    peer.tool(2, "ask", json!({})).await;
    let question = peer.read().await;
    let refusal = json!({"code": -1, "message": "no"});
    peer.send(json!({"jsonrpc": "2.0", "id": question["id"], "error": refusal})).await;
    let answer = peer.read().await;
    assert_eq!(code(&answer), -32603);
    assert_eq!(answer["error"]["data"], refusal);
    // What is no answer to the question goes no further than what was refused.
    peer.tool(3, "ask", json!({})).await;
    let question = peer.read().await;
    peer.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "maybe"}})).await;
    let answer = peer.read().await;
    assert_eq!((code(&answer), &answer["id"]), (-32602, &json!(3)), "{answer}");
}

/// A refusal with its id would look like the answer to the client's own request with that id.
#[tokio::test]
async fn an_answer_that_cannot_be_read_fails_its_question_and_is_not_answered() {
    let probe = ProbeService::new();
    let mut peer = Peer::opened(&probe, "2025-11-25").await;
    peer.tool(1, "ask", json!({})).await;
    let question = peer.read().await;
    let both =
        json!({"jsonrpc": "2.0", "id": question["id"], "result": {}, "error": {"code": 1, "message": "m"}});
    peer.send(both).await;
    let answer = peer.read().await;
    assert_eq!((code(&answer), &answer["error"]["data"]["code"]), (-32603, &json!(-32600)), "{answer}");
    // One that belongs to nothing is not answered either.
    peer.send(json!({"jsonrpc": "2.0", "id": 2, "error": "x"})).await;
    peer.silence().await;
    let mut peer = Peer::opened(&probe, "2025-03-26").await;
    let ping = json!({"jsonrpc": "2.0", "id": 3, "method": "ping"});
    peer.send(json!([{"jsonrpc": "2.0", "id": 2, "error": "x"}, ping])).await;
    assert_eq!(peer.read().await, json!([{"jsonrpc": "2.0", "id": 3, "result": {}}]));
}

/// covers: MRTR-01 MRTR-03 MRTR-08 MRTR-11 MRTR-15 STDIO-17
#[tokio::test]
async fn a_question_is_a_result_without_one() {
    let mut peer = Peer::new(&ProbeService::new());
    peer.send(modern(1, "tools/call", json!({"name": "ask"}))).await;
    let round = peer.read().await["result"].clone();
    assert_eq!(round["resultType"], "input_required");
    assert_eq!(round["inputRequests"]["name"]["method"], "elicitation/create");
    let state = round["requestState"].as_str().unwrap().to_owned();
    let answers = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let retry = |state: &str, answers: Value| {
        modern(2, "tools/call", json!({"name": "ask", "inputResponses": answers, "requestState": state}))
    };
    peer.send(retry(&state, answers.clone())).await;
    assert!(text(&peer.read().await).contains("Ada"));
    peer.send(retry(&format!("{state}-TAMPERED"), answers.clone())).await;
    assert_eq!(code(&peer.read().await), -32602);
    peer.send(retry(&state, json!({"name": 12345}))).await;
    assert_eq!(code(&peer.read().await), -32602);
    for malformed in [
        json!({"name": {"content": {"name": "Ada"}}}),
        json!({"name": {"action": "maybe"}}),
        json!({"name": {"action": "accept", "content": "Ada"}}),
    ] {
        peer.send(retry(&state, malformed.clone())).await;
        let refused = peer.read().await;
        assert_eq!(code(&refused), -32602, "{malformed}: {refused}");
        assert!(
            refused["error"]["message"].as_str().unwrap().contains("inputResponses[\"name\"]"),
            "{refused}"
        );
    }
    // State that is no text is not the same as none, with which the call would begin anew.
    for state in [json!(5), json!({}), json!("")] {
        peer.send(modern(2, "tools/call", json!({"name": "ask", "requestState": state}))).await;
        assert_eq!(code(&peer.read().await), -32602, "{state}");
    }
    peer.send(retry(&state, json!({"other": {}}))).await;
    assert_eq!(peer.read().await["result"]["resultType"], "input_required");
    // The state belongs to this call and no other.
    peer.send(modern(
        3,
        "tools/call",
        json!({"name": "echo", "inputResponses": answers, "requestState": state}),
    ))
    .await;
    assert_eq!(code(&peer.read().await), -32602);
}

#[tokio::test]
async fn every_round_knows_what_earlier_ones_brought() {
    let answer = |what: &str| json!({"action": "accept", "content": {"is": what}});
    let want = format!("{}{}", answer("Ada"), answer("red"));
    let mut peer = Peer::new(&ProbeService::new());
    let mut params = json!({"name": "interview"});
    for (id, key, what) in [(1, "name", "Ada"), (2, "colour", "red")] {
        peer.send(modern(id, "tools/call", params.clone())).await;
        let round = peer.read().await["result"].clone();
        let keys: Vec<_> = round["inputRequests"].as_object().unwrap().keys().collect();
        assert_eq!(keys, [key]);
        params["inputResponses"] = json!({ key: answer(what) });
        params["requestState"] = round["requestState"].clone();
    }
    peer.send(modern(3, "tools/call", params)).await;
    assert_eq!(text(&peer.read().await), want);

    let mut peer = Peer::opened(&ProbeService::new(), "2025-06-18").await;
    peer.tool(1, "interview", json!({})).await;
    for what in ["Ada", "red"] {
        let question = peer.read().await;
        peer.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer(what)})).await;
    }
    assert_eq!(text(&peer.read().await), want);
}

/// covers: MRTR-05 CAP-13
#[tokio::test]
async fn nobody_is_asked_who_cannot_answer() {
    let mut peer = Peer::new(&ProbeService::new());
    let mut call = modern(1, "tools/call", json!({"name": "ask"}));
    call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    peer.send(call).await;
    let answer = peer.read().await;
    assert_eq!(code(&answer), -32021);
    assert!(answer["error"]["data"]["requiredCapabilities"]["elicitation"].is_object(), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_given_up_when_nobody_can_answer_it_any_more() {
    let mut peer = Peer::opened(&ProbeService::new(), "2025-11-25").await;
    peer.tool(1, "ask", json!({})).await;
    assert_eq!(peer.read().await["method"], "elicitation/create");
    peer.output.shutdown().await.unwrap();
    let answer = peer.read().await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("closed the connection"), "{answer}");
    assert_eq!(peer.read_or_end().await, None);

    let mut peer = Peer::of(StdioServer::new(ProbeService::new()).question_timeout(Duration::from_secs(3)));
    peer.open("2025-11-25").await;
    peer.tool(1, "ask", json!({})).await;
    let question = peer.read().await;
    let cancelled = peer.read().await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
    let answer = peer.read().await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("question_timeout"), "{answer}");
}
