//! The extension of 2026-07-28.

use hospes::prelude::*;
use serde_json::Value;
use tokio::time::sleep;

use super::peer::Peer;
use super::{SECOND, accept, related, text, without_meta};

/// covers: TSKX-02 TSKX-05 TSKX-06 TSKX-07 TSKX-18 MSG-28
#[tokio::test(start_paused = true)]
async fn a_long_call_becomes_a_task_which_has_the_result_in_the_end() {
    let mut peer = Peer::taking_tasks();
    peer.meta.as_mut().unwrap()["progressToken"] = json!("p");
    let made = peer.call("slow", json!({ "seconds": 3 })).await;
    assert_eq!(made["resultType"], "task");
    assert_eq!(
        (&made["status"], &made["ttlMs"], &made["pollIntervalMs"]),
        (&json!("working"), &json!(3_600_000), &json!(1000))
    );
    for absent in ["task", "result", "inputRequests", "requestState", "ttl", "pollInterval", "content"] {
        assert!(made.get(absent).is_none(), "{absent}: {made}");
    }
    let id = made["taskId"].clone();
    assert!(id.as_str().unwrap().len() >= 22, "128 bits at least: {id}");
    let seen = peer.get(&id).await;
    assert_eq!((&seen["resultType"], &seen["status"]), (&json!("complete"), &json!("working")));
    sleep(SECOND * 5 / 2).await;
    assert_eq!(peer.get(&id).await["statusMessage"], "second 2");
    let done = peer.until(&id, "completed").await;
    assert_eq!(text(&done["result"]), "slept 3");
    assert_eq!(done["resultType"], "complete");
    assert!(related(&done["result"]).is_null());
    assert!(done["lastUpdatedAt"].as_str() > done["createdAt"].as_str());
    assert_eq!(peer.heard, [] as [Value; 0], "nothing is said of a task that nobody listens to");
    // Another request on the same connection that declares nothing gets no task, whatever was said before.
    let meta = peer.meta.as_mut().unwrap().as_object_mut().unwrap();
    meta.remove("progressToken");
    meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), json!({}));
    let plain = peer.call("slow", json!({ "seconds": 3 })).await;
    assert_eq!((text(&plain), &plain["resultType"]), ("slept 3", &json!("complete")));
}

#[tokio::test(start_paused = true)]
async fn what_is_done_at_once_is_answered_at_once() {
    let mut peer = Peer::taking_tasks();
    let result = peer.call("slow", json!({ "seconds": 0 })).await;
    assert_eq!((text(&result), &result["resultType"]), ("slept 0", &json!("complete")));
}

/// covers: TSKX-04 TSKX-15 CAP-15
#[tokio::test(start_paused = true)]
async fn who_takes_no_tasks_is_told_what_to_declare() {
    let mut peer = Peer::modern(json!({}));
    let refused = peer.ask("tools/call", json!({ "name": "must", "arguments": {} })).await;
    assert_eq!(refused["error"]["code"], -32021);
    let required = &refused["error"]["data"]["requiredCapabilities"];
    assert_eq!(required, &json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } }));
    for (method, params) in [
        ("tasks/get", json!({ "taskId": "x" })),
        ("tasks/cancel", json!({ "taskId": "x" })),
        ("tasks/update", json!({ "taskId": "x", "inputResponses": {} })),
        ("subscriptions/listen", json!({ "notifications": { "taskIds": ["x"] } })),
    ] {
        assert_eq!(peer.error(method, params).await, -32021, "{method}");
    }
    let mut peer = Peer::taking_tasks();
    for (method, params) in [
        ("tasks/get", json!({ "taskId": "x" })),
        ("tasks/cancel", json!({ "taskId": "x" })),
        ("tasks/update", json!({ "taskId": "x", "inputResponses": {} })),
        ("tasks/get", json!({})),
        ("tasks/get", json!({ "taskId": 5 })),
    ] {
        assert_eq!(peer.error(method, params).await, -32602, "{method}");
    }
}

/// covers: TSKX-20
#[tokio::test(start_paused = true)]
async fn the_older_dialect_is_not_spoken_to_newer_clients() {
    let mut peer = Peer::taking_tasks();
    let offered = peer.ok("server/discover", json!({})).await;
    assert_eq!(offered["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"], json!({}));
    assert!(offered["capabilities"].get("tasks").is_none(), "{offered}");
    let sum = json!({ "name": "add", "arguments": { "a": 1, "b": 2 }, "task": { "ttl": 5 } });
    let sum = peer.ok("tools/call", sum).await;
    assert_eq!((text(&sum), &sum["resultType"]), ("3", &json!("complete")));
    for method in ["tasks/result", "tasks/list"] {
        assert_eq!(peer.error(method, json!({ "taskId": "x" })).await, -32601, "{method}");
    }
    let listed = peer.ok("tools/list", json!({})).await;
    assert!(!listed.to_string().contains("taskSupport"), "{listed}");
}

/// covers: TSKX-14
#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_completes_and_one_that_breaks_fails() {
    let mut peer = Peer::taking_tasks();
    let made = peer.call("fails", json!({})).await;
    let done = peer.until(&made["taskId"], "completed").await;
    assert_eq!((&done["result"]["isError"], text(&done["result"])), (&json!(true), "no luck"));
    assert!(done.get("error").is_none());
    let made = peer.call("breaks", json!({})).await;
    let failed = peer.until(&made["taskId"], "failed").await;
    assert_eq!(failed["error"], json!({ "code": -31000, "message": "broken", "data": { "why": "tests" } }));
    assert!(failed.get("result").is_none());
    assert_eq!(failed["statusMessage"], "broken");
    let made = peer.call("panics", json!({})).await;
    assert_eq!(peer.until(&made["taskId"], "failed").await["error"]["code"], -32603);
}

/// covers: TSKX-07 TSKX-11 TSKX-12
#[tokio::test(start_paused = true)]
async fn a_task_asks_and_goes_on_once_it_is_answered() {
    let mut peer = Peer::taking_tasks();
    let id = peer.call("asks", json!({})).await["taskId"].clone();
    let asking = peer.until(&id, "input_required").await;
    assert_eq!(asking["inputRequests"]["name"]["method"], "elicitation/create");
    // What was not asked is ignored.
    peer.update(&id, json!({ "who": accept(json!({ "name": "X" })) })).await;
    assert_eq!(peer.status(&id).await, "input_required");
    peer.update(&id, json!({ "name": accept(json!({ "name": "Ada" })) })).await;
    let asking = peer.until(&id, "input_required").await;
    assert_eq!(asking["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["age"]);
    // An answer that does not fit is asked for again, under a key of its own.
    peer.update(&id, json!({ "age": { "action": "accept", "content": { "age": "old" } } })).await;
    sleep(SECOND).await;
    let asking = peer.until(&id, "input_required").await;
    let keys: Vec<_> = asking["inputRequests"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys.len(), 1);
    assert!(keys[0] != "age" && keys[0] != "name", "{keys:?}");
    // What was answered already is ignored.
    peer.update(&id, json!({ "name": accept(json!({ "name": "Bob" })) })).await;
    peer.update(&id, json!({ &keys[0]: accept(json!({ "age": 36 })) })).await;
    let done = peer.until(&id, "completed").await;
    assert_eq!(text(&done["result"]), "Ada is 36");
    peer.update(&id, json!({ "name": accept(json!({ "name": "Eve" })) })).await;
    assert!(done.get("inputRequests").is_none());
}

/// covers: TSKX-07
#[tokio::test(start_paused = true)]
async fn a_task_that_asks_two_things_waits_for_both() {
    let mut peer = Peer::taking_tasks();
    let id = peer.call("asks_both", json!({})).await["taskId"].clone();
    let asking = peer.until(&id, "input_required").await;
    assert_eq!(asking["inputRequests"].as_object().unwrap().len(), 2);
    peer.update(&id, json!({ "a": accept(json!({ "a": "1" })) })).await;
    let asking = peer.get(&id).await;
    assert_eq!(asking["status"], "input_required");
    assert_eq!(asking["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["b"]);
    peer.update(&id, json!({ "b": accept(json!({ "b": "2" })) })).await;
    assert_eq!(text(&peer.until(&id, "completed").await["result"]), "1 and 2");
}

/// covers: TSKX-19
#[tokio::test(start_paused = true)]
async fn what_is_asked_first_is_asked_in_the_call() {
    let mut peer = Peer::taking_tasks();
    let asked = peer.call("asks_first", json!({})).await;
    assert_eq!(asked["resultType"], "input_required");
    assert!(asked.get("taskId").is_none());
    let again = json!({
        "name": "asks_first", "arguments": {}, "requestState": asked["requestState"],
        "inputResponses": { "name": accept(json!({ "name": "Ada" })) },
    });
    let made = peer.ok("tools/call", again).await;
    assert_eq!(made["resultType"], "task");
    assert!(made.get("requestState").is_none() && made.get("inputRequests").is_none(), "{made}");
    let id = made["taskId"].clone();
    let asking = peer.until(&id, "input_required").await;
    assert_eq!(asking["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["age"]);
    peer.update(&id, json!({ "age": accept(json!({ "age": 36 })) })).await;
    assert_eq!(text(&peer.until(&id, "completed").await["result"]), "Ada is 36");
}

/// covers: TSKX-12
#[tokio::test(start_paused = true)]
async fn cancelling_is_acknowledged_and_stops_the_work() {
    let mut peer = Peer::taking_tasks();
    let id = peer.call("slow", json!({ "seconds": 50 })).await["taskId"].clone();
    for _ in 0..2 {
        let done = peer.ok("tasks/cancel", json!({ "taskId": id })).await;
        assert_eq!(without_meta(done), json!({ "resultType": "complete" }));
        let seen = peer.get(&id).await;
        assert_eq!(seen["status"], "cancelled");
        assert!(seen.get("result").is_none() && seen.get("error").is_none());
    }
    sleep(SECOND * 60).await;
    assert_eq!(peer.status(&id).await, "cancelled");
}

/// covers: TSKX-16
#[tokio::test(start_paused = true)]
async fn a_stream_of_changes_tells_of_the_tasks_that_were_agreed_on() {
    let mut peer = Peer::taking_tasks();
    // The calls want to hear of their progress, and every log message; so does the stream.
    let meta = peer.meta.as_mut().unwrap();
    meta["progressToken"] = json!("p");
    meta["io.modelcontextprotocol/logLevel"] = json!("debug");
    let heard = peer.call("slow", json!({ "seconds": 3 })).await["taskId"].clone();
    let other = peer.call("slow", json!({ "seconds": 2 })).await["taskId"].clone();
    let filter = json!({ "notifications": { "taskIds": [heard, "nobody's", heard] } });
    let listen = peer.start("subscriptions/listen", filter).await;
    let acknowledged = peer.read().await;
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([heard]));
    let last = loop {
        let message = peer.read().await;
        assert_eq!(message["method"], "notifications/tasks", "no progress and no log messages: {message}");
        let params = &message["params"];
        assert_eq!(params["taskId"], heard);
        assert_eq!(params["_meta"]["io.modelcontextprotocol/subscriptionId"], listen);
        if params["status"] != "working" {
            break params.clone();
        }
    };
    assert_eq!((&last["status"], text(&last["result"])), (&json!("completed"), "slept 3"));
    assert_eq!(peer.until(&other, "completed").await["status"], "completed");
}

/// What comes under an extension is checked like everything else, whatever shape it has.
///
/// covers: CAP-17
#[tokio::test(start_paused = true)]
async fn what_comes_under_an_extension_is_not_trusted() {
    // Nothing but an object declares it, and what else it says is nobody's business.
    for (settings, declares) in [
        (json!({}), true),
        (json!({ "x": [1, { "y": null }], "requests": 7 }), true),
        (json!(true), false),
        (json!("yes"), false),
        (json!(null), false),
        (json!([]), false),
    ] {
        let extensions = json!({ "extensions": { "io.modelcontextprotocol/tasks": settings } });
        let answer =
            Peer::modern(extensions).ask("tools/call", json!({ "name": "must", "arguments": {} })).await;
        let code = answer["error"]["code"].as_i64();
        assert_eq!(answer["result"]["resultType"] == "task", declares, "{settings}: {answer}");
        assert!(declares || matches!(code, Some(-32021 | -32602)), "{settings}: {answer}");
    }
    for extensions in [json!([]), json!(7), json!("io.modelcontextprotocol/tasks")] {
        let mut peer = Peer::modern(json!({ "extensions": extensions }));
        let answer = peer.ask("tools/call", json!({ "name": "must", "arguments": {} })).await;
        assert!(matches!(answer["error"]["code"].as_i64(), Some(-32021 | -32602)), "{extensions}: {answer}");
    }
    let mut peer = Peer::taking_tasks();
    let id = peer.call("asks", json!({})).await["taskId"].clone();
    peer.until(&id, "input_required").await;
    for (method, params) in [
        ("tasks/get", json!({ "taskId": { "$ne": "" } })),
        ("tasks/get", json!({ "taskId": [id] })),
        ("tasks/get", json!({ "taskId": format!("{}\u{0}", id.as_str().unwrap()) })),
        ("tasks/cancel", json!({ "taskId": "../".repeat(50) })),
        ("tasks/update", json!({ "taskId": id })),
        ("tasks/update", json!({ "taskId": id, "inputResponses": [] })),
        ("tasks/update", json!({ "taskId": id, "inputResponses": "name" })),
        ("tasks/update", json!({ "taskId": id, "inputResponses": { "name": "Ada" } })),
        ("tasks/update", json!({ "taskId": id, "inputResponses": { "name": { "action": "obey" } } })),
        ("subscriptions/listen", json!({ "notifications": { "taskIds": "all" } })),
        ("subscriptions/listen", json!({ "notifications": { "taskIds": [7] } })),
    ] {
        assert_eq!(peer.error(method, params.clone()).await, -32602, "{method} {params}");
    }
    // What fits the question's shape and not its schema is asked for again.
    assert_eq!(peer.status(&id).await, "input_required");
    let wrong = json!({ "name": accept(json!({ "name": { "first": "Ada" } })) });
    peer.update(&id, wrong).await;
    sleep(SECOND).await;
    let asking = peer.until(&id, "input_required").await;
    assert_eq!(asking["inputRequests"].as_object().unwrap().len(), 1);
}

/// An update, which looks at the task before it changes it, counted twice.
/// covers: TASK-26
#[tokio::test(start_paused = true)]
async fn each_request_about_a_task_counts_once() {
    let settings = hospes::tasks::TaskSettings::new().with_max_requests_per_second(4);
    let mut peer = Peer::taking_tasks();
    let meta = peer.meta.take();
    peer = Peer::of(super::Jobs.into_server().task_settings(settings), meta);
    let id = peer.call("asks", json!({})).await["taskId"].clone();
    sleep(2 * SECOND).await;
    for _ in 0..4 {
        peer.ok("tasks/update", json!({ "taskId": id, "inputResponses": {} })).await;
    }
    let refused = peer.ask("tasks/cancel", json!({ "taskId": id })).await;
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(
        why.contains("more than 4 requests a second") && why.contains("max_requests_per_second"),
        "{why}"
    );
    sleep(SECOND).await;
    peer.ok("tasks/cancel", json!({ "taskId": id })).await;
}
