//! Questions, and what clients declare for them.

use super::*;

fn answer(question: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })
}

async fn open_with(peer: &mut Peer, revision: &str, capabilities: Value) -> Value {
    let opened = ask(
        peer,
        request(
            90,
            "initialize",
            json!({ "protocolVersion": revision, "capabilities": capabilities,
                    "clientInfo": { "name": "peer", "version": "1" } }),
        ),
    )
    .await;
    peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    opened
}

/// Once in a call, however often the handler looks and runs, and afresh in the next one.
///
/// covers: ROOT-02 ROOT-04 ROOT-20 ROOT-21
#[tokio::test]
async fn roots_are_asked_for_once_a_call_and_again_in_the_next() {
    for revision in ["2025-06-18", "2025-11-25"] {
        let mut peer = peer(&asking());
        open_with(&mut peer, revision, json!({ "roots": { "listChanged": true }, "elicitation": {} })).await;
        for (id, root) in [(1, "file:///a"), (2, "file:///b")] {
            let asked = ask(&mut peer, tool(id, "roots", json!({}))).await;
            assert_eq!(asked["method"], "roots/list", "{revision}");
            let asked = ask(&mut peer, answer(&asked, json!({ "roots": [{ "uri": root }] }))).await;
            assert_eq!(asked["method"], "elicitation/create", "{revision}");
            let go = json!({ "action": "accept", "content": { "value": true } });
            let done = ask(&mut peer, answer(&asked, go)).await;
            assert_eq!(text(&done), format!("{root} {root}"), "{revision}");
            peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" })).await;
        }
    }
}

/// No request of the server's own; and when nothing comes back, nothing is waited for.
///
/// covers: ROOT-22 SAMP-38
#[tokio::test]
async fn the_newest_revision_is_asked_in_results_alone() {
    let mut peer = peer(&asking());
    let all = || json!({ "roots": {}, "sampling": {}, "elicitation": {} });
    for (id, name, key, method) in
        [(1, "roots", "roots", "roots/list"), (2, "sample", "hello", "sampling/createMessage")]
    {
        let round = ask(&mut peer, able(id, json!({ "name": name }), all())).await;
        assert_eq!(round["id"], id, "an answer, not a request");
        assert_eq!(round["result"]["resultType"], "input_required");
        assert_eq!(round["result"]["inputRequests"][key]["method"], method);
        // What refuses does not come back: nobody is asked again, and others are served.
        peer.silence_modern().await;
    }
    // There is no such notification here; it changes nothing.
    peer.send(json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" })).await;
    peer.silence_modern().await;
}

/// covers: CAP-12
#[tokio::test]
async fn what_one_request_declares_holds_for_no_other() {
    let mut peer = peer(&asking());
    let call = || json!({ "name": "sample" });
    for (id, capabilities, is_asked) in [
        (1, json!({ "sampling": {} }), true),
        (2, json!({}), false),
        (3, json!({ "roots": {} }), false),
        (4, json!({ "sampling": {} }), true),
        (5, json!({}), false),
    ] {
        let said = ask(&mut peer, able(id, call(), capabilities)).await;
        if is_asked {
            assert_eq!(said["result"]["resultType"], "input_required", "{id}");
        } else {
            assert_eq!(code(&said), -32021, "{id}");
            assert_eq!(said["error"]["data"]["requiredCapabilities"], json!({ "sampling": {} }));
        }
    }
}

/// covers: CAP-07
#[tokio::test]
async fn capabilities_that_nobody_knows_are_passed_over() {
    let strange = || json!({ "telepathy": { "range": 7 }, "x": null, "y": [1], "elicitation": { "dream": {} }, "sampling": {} });
    for revision in OLDER {
        let mut peer = peer(&asking());
        let opened = open_with(&mut peer, revision, strange()).await;
        assert_eq!(opened["result"]["protocolVersion"], revision, "{opened}");
        assert_eq!(text(&ask(&mut peer, tool(1, "who", json!({}))).await), "nobody");
        // The other side: what a server declares beyond what is known, and what is known beside it.
        let mut found = opened["result"].clone();
        found["capabilities"]["telepathy"] = json!({ "range": 7 });
        found["capabilities"]["tools"]["shine"] = json!(true);
        let read: hospes_model::InitializeResult = serde_json::from_value(found).unwrap();
        assert_eq!(read.capabilities.tools.unwrap().list_changed, Some(true));
    }
    let said = ask(&mut peer(&asking()), able(1, json!({ "name": "who" }), strange())).await;
    assert_eq!(text(&said), "nobody");
}

/// covers: ELIC-21
#[tokio::test]
async fn the_end_of_a_visit_is_told_to_whoever_was_sent_there() {
    let server = asking();
    let (mut one, mut other) = (peer(&server), peer(&server));
    for peer in [&mut one, &mut other] {
        open_with(peer, "2025-11-25", json!({ "elicitation": { "url": {} } })).await;
    }
    let asked = ask(&mut one, tool(1, "visit", json!({}))).await;
    assert_eq!((&asked["params"]["mode"], &asked["params"]["elicitationId"]), (&json!("url"), &json!("e-1")));
    let told = ask(&mut one, answer(&asked, json!({ "action": "accept" }))).await;
    assert_eq!(told["method"], "notifications/elicitation/complete");
    assert_eq!(told["params"], json!({ "elicitationId": "e-1" }));
    assert_eq!(text(&one.read().await), "visited");
    other.silence().await;
}

/// A client that sends an older state again does not have a step run twice; where none ran, it may.
///
/// covers: MRTR-13
#[tokio::test]
async fn a_state_that_led_to_a_step_is_worth_one_use() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let charged = std::sync::Arc::new(AtomicU32::new(0));
    let counter = std::sync::Arc::clone(&charged);
    let server = Server::new("shop", "1").tool("buy", move |ctx: Context| {
        let counter = std::sync::Arc::clone(&counter);
        async move {
            let what: String = ctx.elicit("What?").key("what").await?;
            let charge = || async {
                if what == "nothing" {
                    Err("there is nothing to pay")
                } else {
                    Ok(counter.fetch_add(1, Ordering::SeqCst))
                }
            };
            ctx.once("charge", charge).await?;
            let tip: String = ctx.elicit("A tip?").key("tip").await?;
            Ok::<_, crate::Error>(format!("{what} and {tip}"))
        }
    });
    let mut peer = peer(&server);
    let call = |state: &Value, answers: Value| {
        let mut params = json!({ "name": "buy" });
        if !state.is_null() {
            params["requestState"] = state.clone();
            params["inputResponses"] = answers;
        }
        modern(1, "tools/call", params)
    };
    let accept =
        |key: &str, value: &str| json!({ key: { "action": "accept", "content": { "value": value } } });
    let first = ask(&mut peer, call(&Value::Null, json!({}))).await["result"]["requestState"].clone();
    // A step that fails has not run, and spends nothing.
    let failed = ask(&mut peer, call(&first, accept("what", "nothing"))).await;
    assert_eq!(text(&failed), "there is nothing to pay");
    let second =
        ask(&mut peer, call(&first, accept("what", "shoes"))).await["result"]["requestState"].clone();
    assert_eq!(charged.load(Ordering::SeqCst), 1);
    let again = ask(&mut peer, call(&first, accept("what", "shoes"))).await;
    assert_eq!(code(&again), -32602, "{again}");
    assert_eq!(charged.load(Ordering::SeqCst), 1, "charged once");
    // The state from after the step knows its result, and may come as often as it likes.
    for _ in 0..2 {
        let done = ask(&mut peer, call(&second, accept("tip", "ten"))).await;
        assert_eq!(text(&done), "shoes and ten");
    }
    assert_eq!(charged.load(Ordering::SeqCst), 1);
}
