//! The core of 2025-11-25, and clients of older revisions, which know no tasks.

use hospes::prelude::*;
use serde_json::Value;
use tokio::time::sleep;

use super::peer::Peer;
use super::{Jobs, SECOND, accept, related, text};

/// covers: TASK-01 TASK-09 TASK-10 TASK-11 TASK-12 TASK-15 TASK-17 TASK-18
#[tokio::test(start_paused = true)]
async fn an_older_client_wishes_for_a_task_and_fetches_its_result() {
    let (mut peer, opened) = Peer::legacy(Jobs, "2025-11-25").await;
    assert_eq!(
        opened["capabilities"]["tasks"],
        json!({ "cancel": {}, "requests": { "tools": { "call": {} } } }),
        "nobody is signed in, so nothing is listed"
    );
    let listed = peer.ok("tools/list", json!({})).await;
    let support = |name: &str| {
        let tools = listed["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap()["execution"].clone()
    };
    assert_eq!(support("slow"), json!({ "taskSupport": "optional" }));
    assert_eq!(support("must"), json!({ "taskSupport": "required" }));
    assert_eq!(support("add"), Value::Null);

    let params = json!({ "name": "slow", "arguments": { "seconds": 3 }, "task": { "ttl": 60_000 }, "_meta": { "progressToken": "p" } });
    let task = peer.ok("tools/call", params).await["task"].clone();
    assert_eq!(
        (&task["status"], &task["ttl"], &task["pollInterval"]),
        (&json!("working"), &json!(60_000), &json!(1000))
    );
    let id = task["taskId"].clone();
    let seen = peer.get(&id).await;
    assert_eq!(
        (&seen["taskId"], &seen["createdAt"], &seen["ttl"]),
        (&id, &task["createdAt"], &json!(60_000))
    );
    assert!(related(&seen).is_null() && seen["lastUpdatedAt"].is_string());
    let misleading =
        json!({ "taskId": id, "_meta": { "io.modelcontextprotocol/related-task": { "taskId": "other" } } });
    assert_eq!(peer.ok("tasks/get", misleading.clone()).await["taskId"], id);

    // The call waits for the end.
    let result = peer.ok("tasks/result", misleading.clone()).await;
    assert_eq!((text(&result), related(&result)), ("slept 3", &id));
    let again = peer.ok("tasks/result", json!({ "taskId": id })).await;
    assert_eq!(again, result);
    let done = peer.get(&id).await;
    assert_eq!(done["status"], "completed");
    assert!(done.get("result").is_none(), "{done}");
    let of = |method: &str| {
        peer.heard.iter().filter(move |message| message["method"] == method).collect::<Vec<_>>()
    };
    let progress = of("notifications/progress");
    assert_eq!(progress.len(), 3, "{:?}", peer.heard);
    for message in &progress {
        assert_eq!((&message["params"]["progressToken"], related(&message["params"])), (&json!("p"), &id));
    }
    let statuses = of("notifications/tasks/status");
    assert!(
        statuses
            .iter()
            .all(|message| message["params"]["taskId"] == id && related(&message["params"]).is_null())
    );
    // Whose task is stopped is for the params to say, too.
    let stopped = peer.make("slow", json!({ "seconds": 50 })).await;
    let misleading = json!({ "taskId": stopped["taskId"],
        "_meta": { "io.modelcontextprotocol/related-task": { "taskId": id } } });
    assert_eq!(peer.ok("tasks/cancel", misleading).await["status"], "cancelled");
    assert_eq!(peer.status(&id).await, "completed");
    // Two tasks are two.
    let (first, second) = (peer.make("must", json!({})).await, peer.make("must", json!({})).await);
    assert_ne!(first["taskId"], second["taskId"]);
    let error = peer.make("breaks", json!({})).await;
    let failed = peer.ask("tasks/result", json!({ "taskId": error["taskId"] })).await;
    assert_eq!(failed["error"], json!({ "code": -31000, "message": "broken", "data": { "why": "tests" } }));
}

/// covers: TASK-19
#[tokio::test(start_paused = true)]
async fn a_session_is_told_of_its_tasks_changes() {
    let (mut peer, _) = Peer::legacy(Jobs, "2025-11-25").await;
    let id = peer.make("must", json!({})).await["taskId"].clone();
    let told = loop {
        let message = peer.read().await;
        assert_eq!(message["method"], "notifications/tasks/status");
        if message["params"]["status"] != "working" {
            break message["params"].clone();
        }
    };
    assert_eq!((&told["taskId"], &told["status"], &told["ttl"]), (&id, &json!("completed"), &json!(60_000)));
    assert!(told.get("result").is_none() && related(&told).is_null());
}

/// covers: TASK-05 TASK-06 TASK-07
#[tokio::test(start_paused = true)]
async fn an_older_client_calls_each_tool_as_it_is_to_be_called() {
    let (mut peer, _) = Peer::legacy(Jobs, "2025-11-25").await;
    assert_eq!(peer.error("tools/call", json!({ "name": "must", "arguments": {} })).await, -32601);
    let as_task = json!({ "name": "add", "arguments": { "a": 1, "b": 2 }, "task": {} });
    assert_eq!(peer.error("tools/call", as_task.clone()).await, -32601);
    assert_eq!(text(&peer.call("slow", json!({ "seconds": 1 })).await), "slept 1");
    // A server without tasks ignores the wish, and knows none of their methods.
    let plain = Server::new("plain", "1").tool("three", || async { 3 });
    let (mut peer, opened) = Peer::legacy(plain, "2025-11-25").await;
    assert!(opened["capabilities"].get("tasks").is_none());
    let as_task = json!({ "name": "three", "arguments": {}, "task": { "ttl": "soon" } });
    assert_eq!(text(&peer.ok("tools/call", as_task).await), "3");
    for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"] {
        assert_eq!(peer.error(method, json!({ "taskId": "x" })).await, -32601, "{method}");
    }
}

/// covers: TASK-16 TASK-17
#[tokio::test(start_paused = true)]
async fn what_an_older_clients_task_needs_to_know_is_asked_while_its_result_is_awaited() {
    let (mut peer, _) = Peer::legacy(Jobs, "2025-11-25").await;
    let id = peer.make("asks", json!({})).await["taskId"].clone();
    let asking = peer.until(&id, "input_required").await;
    assert!(asking.get("inputRequests").is_none());
    let result = peer.start("tasks/result", json!({ "taskId": id })).await;
    // Nobody is asked twice, however many wait.
    let other = peer.start("tasks/result", json!({ "taskId": id })).await;
    for (field, value) in [("name", json!("Ada")), ("age", json!(36))] {
        let question = loop {
            let message = peer.read().await;
            if message["method"] == "elicitation/create" {
                break message;
            }
            assert_eq!(message["method"], "notifications/tasks/status", "{message}");
        };
        assert_eq!(related(&question["params"]), &id);
        let answer = accept(json!({ field: value }));
        peer.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
    }
    let (mut results, mut statuses) = (Vec::new(), Vec::new());
    while results.len() < 2 {
        let message = peer.read().await;
        assert_ne!(message["method"], "elicitation/create");
        match message.get("method") {
            Some(_) => statuses.push(message["params"]["status"].clone()),
            None => results.push(message),
        }
    }
    for message in results {
        assert!(message["id"] == result || message["id"] == other);
        assert_eq!((text(&message["result"]), related(&message["result"])), ("Ada is 36", &id));
    }
    assert!(statuses.contains(&json!("working")), "{statuses:?}");
}

/// covers: TASK-21 TASK-22
#[tokio::test(start_paused = true)]
async fn an_older_client_cancels_a_task_once() {
    let (mut peer, _) = Peer::legacy(Jobs, "2025-11-25").await;
    let id = peer.make("slow", json!({ "seconds": 50 })).await["taskId"].clone();
    let waiting = peer.start("tasks/result", json!({ "taskId": id })).await;
    let cancelled = peer.ok("tasks/cancel", json!({ "taskId": id })).await;
    assert_eq!((&cancelled["taskId"], &cancelled["status"]), (&id, &json!("cancelled")));
    assert!(peer.answer(waiting).await["error"].is_object());
    sleep(SECOND * 60).await;
    // Its time is not over yet when that was asked for in the year of its making.
    let done = peer.make("must", json!({})).await["taskId"].clone();
    peer.until(&done, "completed").await;
    assert_eq!(peer.error("tasks/cancel", json!({ "taskId": done })).await, -32602);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(peer.error(method, json!({ "taskId": "nobody's" })).await, -32602, "{method}");
        assert_eq!(peer.error(method, json!({})).await, -32602, "{method}");
    }
}

/// covers: TASK-23
#[tokio::test(start_paused = true)]
async fn an_older_clients_task_fails_with_its_tool() {
    let (mut peer, _) = Peer::legacy(Jobs, "2025-11-25").await;
    let id = peer.make("fails", json!({})).await["taskId"].clone();
    let failed = peer.until(&id, "failed").await;
    assert_eq!(failed["statusMessage"], "no luck");
    let result = peer.ok("tasks/result", json!({ "taskId": id })).await;
    assert_eq!((&result["isError"], text(&result)), (&json!(true), "no luck"));
    let id = peer.make("breaks", json!({})).await["taskId"].clone();
    assert_eq!(peer.until(&id, "failed").await["statusMessage"], "broken");
}

#[tokio::test(start_paused = true)]
async fn clients_that_know_no_tasks_wait_for_the_end() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        let (mut peer, opened) = Peer::legacy(Jobs, revision).await;
        assert!(opened["capabilities"].get("tasks").is_none());
        assert_eq!(text(&peer.call("must", json!({})).await), "done");
        assert_eq!(text(&peer.call("slow", json!({ "seconds": 2 })).await), "slept 2");
        let answer = peer.ask("tools/call", json!({ "name": "breaks", "arguments": {} })).await;
        assert_eq!(answer["error"]["message"], "broken");
        assert_eq!(peer.error("tasks/get", json!({ "taskId": "x" })).await, -32601);
        if revision < "2025-06-18" {
            continue;
        }
        let call = peer.start("tools/call", json!({ "name": "asks", "arguments": {} })).await;
        for (field, value) in [("name", json!("Ada")), ("age", json!(36))] {
            let question = peer.read().await;
            assert_eq!(question["method"], "elicitation/create");
            assert!(related(&question["params"]).is_null());
            let answer = accept(json!({ field: value }));
            peer.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer })).await;
        }
        assert_eq!(text(&peer.answer(call).await["result"]), "Ada is 36");
    }
}

/// covers: PROG-12
#[tokio::test(start_paused = true)]
async fn a_tasks_progress_has_its_token_until_it_is_over() {
    let (mut peer, _) = Peer::legacy(Jobs, "2025-11-25").await;
    let params = json!({
        "name": "slow", "arguments": { "seconds": 5 }, "task": {}, "_meta": { "progressToken": "p" },
    });
    let progress = |peer: &mut Peer| {
        let heard = std::mem::take(&mut peer.heard).into_iter();
        let heard = heard.filter(|message| message["method"] == "notifications/progress");
        heard.map(|message| message["params"].clone()).collect::<Vec<_>>()
    };
    // The call is answered long before.
    let id = peer.ok("tools/call", params.clone()).await["task"]["taskId"].clone();
    peer.until(&id, "completed").await;
    peer.ok("ping", json!({})).await;
    let told = progress(&mut peer);
    assert_eq!(told.iter().map(|params| &params["progress"]).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(told.iter().all(|params| params["progressToken"] == "p" && related(params) == &id), "{told:?}");
    // What is stopped says nothing more.
    let id = peer.ok("tools/call", params.clone()).await["task"]["taskId"].clone();
    sleep(SECOND * 5 / 2).await;
    peer.ok("tasks/cancel", json!({ "taskId": id })).await;
    assert_eq!(progress(&mut peer).len(), 2);
    sleep(SECOND * 10).await;
    peer.ok("ping", json!({})).await;
    assert_eq!(progress(&mut peer).len(), 0);
}

/// covers: CANC-13
#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_by_its_own_method_alone() {
    let (mut peer, _) = Peer::legacy(Jobs, "2025-11-25").await;
    let params = json!({ "name": "slow", "arguments": { "seconds": 20 }, "task": {} });
    let call = peer.start("tools/call", params).await;
    let id = peer.answer(call).await["result"]["task"]["taskId"].clone();
    let waiting = peer.start("tasks/result", json!({ "taskId": id })).await;
    // Neither of the requests is the task.
    for request in [call, waiting] {
        let params = json!({ "requestId": request, "reason": "tests" });
        peer.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    }
    sleep(SECOND * 2).await;
    assert_eq!(peer.status(&id).await, "working");
    assert_eq!(text(&peer.ok("tasks/result", json!({ "taskId": id })).await), "slept 20");
    assert!(peer.heard.iter().all(|message| message["id"] != waiting), "nobody waits there any more");
    let id = peer.make("slow", json!({ "seconds": 20 })).await["taskId"].clone();
    let cancelled = peer.ok("tasks/cancel", json!({ "taskId": id })).await;
    assert_eq!(cancelled["status"], "cancelled");
}
