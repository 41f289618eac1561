//! Tasks: those that the client makes at a server, in both dialects, and those that a server makes here (2025-11-25).

#![allow(clippy::needless_pass_by_value, reason = "helpers of tests")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hospes::client::CallError;
use hospes::model::{
    CreateMessageResult, ElicitResult, Notification, RpcError, SamplingMessageContentBlock,
    SubscriptionFilter, TaskStatus,
};
use hospes::tasks::TaskSettings;
use tokio::time::Instant;

use super::*;

const MODERN: Revision = Revision::V2026_07_28;
const LEGACY: Revision = Revision::V2025_11_25;
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A task as a server of 2026-07-28 tells it.
fn told(status: &str, more: Value) -> Value {
    let mut task = json!({
        "resultType": "complete", "taskId": "t-1", "status": status, "createdAt": "2026-07-28T00:00:00Z",
        "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": null, "pollIntervalMs": 10_000,
    });
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    task
}

fn made() -> Value {
    told("working", json!({ "resultType": "task" }))
}

fn done(text: &str) -> Value {
    told("completed", json!({ "result": content(text) }))
}

fn content(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn question(field: &str) -> Value {
    let schema = json!({ "type": "object", "properties": { field: { "type": "string" } } });
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": "?", "requestedSchema": schema } })
}

fn accepted() -> ElicitResult {
    serde_json::from_value(json!({ "action": "accept", "content": { "a": "x" } })).unwrap()
}

/// A client whose person says yes to everything, and how often they did.
fn agreeable() -> (ClientBuilder, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let builder = Client::builder().elicitation(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(accepted()) }
    });
    (builder, asked)
}

/// covers: TSKX-01 TSKX-08 TSKX-09
#[tokio::test(start_paused = true)]
async fn a_task_is_polled_as_often_as_the_server_likes_and_its_questions_are_answered_once() {
    let (builder, asked) = agreeable();
    let times = Arc::new(Mutex::new(Vec::new()));
    let (mut polls, seen) = (0, Arc::clone(&times));
    let (client, peer) = Peer::connect(builder, MODERN, move |message| {
        Some(match message["method"].as_str().unwrap() {
            "tools/call" => made(),
            "tasks/update" => json!({ "resultType": "complete" }),
            _ => {
                seen.lock().unwrap().push(Instant::now());
                polls += 1;
                match polls {
                    1 => told("working", json!({})),
                    // The second one comes while the first still stands there.
                    2 => told("input_required", json!({ "inputRequests": { "one": question("a") } })),
                    3 | 4 => told(
                        "input_required",
                        json!({ "inputRequests": { "one": question("a"), "two": question("b") } }),
                    ),
                    _ => done("in the end"),
                }
            }
        })
    })
    .await;
    let mut task = client.call("long", json!({ "x": 1 })).as_task().await.unwrap();
    assert_eq!(task.id(), Some("t-1"));
    assert_eq!(task.last().unwrap().status, TaskStatus::Working);
    assert_eq!(task.result().await.unwrap().all_text(), "in the end");
    assert_eq!(task.result().await.unwrap().all_text(), "in the end");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    let updates = peer.wait_for(2, "tasks/update").await;
    let keys = |update: &Value| {
        let answers = update["params"]["inputResponses"].as_object().unwrap();
        answers.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!((keys(&updates[0]), keys(&updates[1])), (vec!["one".to_owned()], vec!["two".to_owned()]));
    assert_eq!(updates[0]["params"]["inputResponses"]["one"]["action"], "accept");
    let times = times.lock().unwrap().clone();
    assert_eq!(times.len(), 5);
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_secs(10), "{:?}", pair[1] - pair[0]);
    }
    for message in peer.heard().iter().filter(|message| message["method"] != "server/discover") {
        let declared = &message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(declared["extensions"], json!({ "io.modelcontextprotocol/tasks": {} }), "{message}");
        assert!(declared["elicitation"].is_object(), "{message}");
    }
    // Another program takes the task up by its id.
    let (other, _) = Peer::connect(Client::builder(), MODERN, |_| Some(done("once more"))).await;
    assert_eq!(other.task("t-1").result().await.unwrap().all_text(), "once more");
}

/// covers: TSKX-03 MSG-28 CAP-15
#[tokio::test(start_paused = true)]
async fn what_is_answered_at_once_is_no_task_and_what_was_not_asked_for_is_no_answer() {
    let (client, _) = Peer::connect(Client::builder(), MODERN, |message| {
        Some(match message["method"].as_str().unwrap() {
            "tools/call" if message["params"]["name"] == "quick" => {
                let mut quick = content("quick");
                quick["resultType"] = "complete".into();
                quick
            }
            _ => made(),
        })
    })
    .await;
    let mut quick = client.call("quick", ()).as_task().await.unwrap();
    assert_eq!(quick.id(), None);
    assert_eq!(quick.result().await.unwrap().all_text(), "quick");
    quick.cancel().await.unwrap();
    let error = client.call("long", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Malformed { .. }), "{error}");
    let none: [(&str, &str); 0] = [];
    let error = client.prompt("long", none).await.unwrap_err();
    assert!(matches!(error, CallError::Malformed { .. }), "{error}");
}

/// covers: TSKX-10
#[tokio::test(start_paused = true)]
async fn a_tasks_question_is_trusted_no_more_than_any_other() {
    let url = json!({ "method": "elicitation/create", "params": {
        "mode": "url", "message": "?", "url": "https://example.com/",
    } });
    let (builder, asked) = agreeable();
    let (client, peer) = Peer::connect(builder, MODERN, move |message| {
        Some(match message["method"].as_str().unwrap() {
            "tools/call" => made(),
            "tasks/get" => told("input_required", json!({ "inputRequests": { "go": url } })),
            _ => json!({ "resultType": "complete" }),
        })
    })
    .await;
    let error = client.call("long", ()).as_task().await.unwrap().result().await.unwrap_err();
    assert!(matches!(&error, CallError::Refused { .. }), "{error}");
    assert_eq!(asked.load(Ordering::Relaxed), 0, "the client did not declare that it opens URLs");
    assert_eq!((peer.count("tasks/cancel"), peer.count("tasks/update")), (1, 0));
}

/// covers: TSKX-13
#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_by_its_own_method_and_may_still_come_to_its_end() {
    let mut polls = 0;
    let (client, peer) = Peer::connect(Client::builder(), MODERN, move |message| {
        Some(match message["method"].as_str().unwrap() {
            "tools/call" => made(),
            "tasks/cancel" => json!({ "resultType": "complete" }),
            _ => {
                polls += 1;
                if polls < 3 { told("working", json!({})) } else { done("too late") }
            }
        })
    })
    .await;
    let mut task = client.call("long", ()).as_task().await.unwrap();
    task.cancel().await.unwrap();
    assert_eq!(task.result().await.unwrap().all_text(), "too late");
    drop(client.call("long", ()).as_task().await.unwrap());
    settle().await;
    assert_eq!((peer.count("tasks/cancel"), peer.count("notifications/cancelled")), (1, 0));
    let (client, _) = Peer::connect(Client::builder(), MODERN, |_| Some(told("cancelled", json!({})))).await;
    assert!(matches!(client.task("t").result().await, Err(CallError::TaskCancelled)));
    let broken = told("failed", json!({ "statusMessage": "broken" }));
    let (client, _) = Peer::connect(Client::builder(), MODERN, move |_| Some(broken.clone())).await;
    assert!(matches!(client.task("t").result().await, Err(CallError::Rpc(_))));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_has_to_be_a_task_is_called_as_one_without_being_told() {
    let (client, peer) = Peer::connect(Client::builder(), MODERN, |message| {
        let meta = &message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        Some(match message["method"].as_str().unwrap() {
            "tools/call" if meta.get("extensions").is_none() => json!({ "error": {
                "code": -32021, "message": "missing",
                "data": { "requiredCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } } },
            } }),
            "tools/call" => made(),
            _ => done("driven to the end"),
        })
    })
    .await;
    assert_eq!(client.call("must", ()).await.unwrap().all_text(), "driven to the end");
    assert_eq!(peer.count("tools/call"), 2);
}

/// A task as a server of 2025-11-25 tells it.
fn old(status: &str) -> Value {
    json!({
        "taskId": "t-1", "status": status, "createdAt": "2025-11-25T00:00:00Z",
        "lastUpdatedAt": "2025-11-25T00:00:00Z", "ttl": 60_000, "pollInterval": 10_000,
    })
}

fn old_capabilities() -> Value {
    json!({ "tools": {}, "tasks": { "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } } })
}

fn old_tools() -> Value {
    let tool = |name: &str, support: Option<&str>| {
        let mut tool = json!({ "name": name, "inputSchema": { "type": "object" } });
        if let Some(support) = support {
            tool["execution"] = json!({ "taskSupport": support });
        }
        tool
    };
    json!({ "tools": [
        tool("may", Some("optional")), tool("must", Some("required")), tool("never", Some("forbidden")), tool("plain", None),
    ] })
}

/// covers: TASK-14 TASK-16 TASK-19 CANC-13
#[tokio::test(start_paused = true)]
async fn an_older_servers_task_is_polled_until_there_is_something_to_fetch() {
    let times = Arc::new(Mutex::new(Vec::new()));
    let (mut polls, seen) = (0, Arc::clone(&times));
    let (client, peer) =
        Peer::connect_offering(Client::builder(), LEGACY, &old_capabilities(), move |message| {
            Some(match message["method"].as_str()? {
                "tools/list" => old_tools(),
                "tools/call" => json!({ "task": old("working") }),
                "tasks/get" => {
                    seen.lock().unwrap().push(Instant::now());
                    polls += 1;
                    old(if polls < 4 { "working" } else { "input_required" })
                }
                "tasks/result" => {
                    let mut result = content("asked and answered");
                    result["_meta"] = json!({ RELATED: { "taskId": "t-1" } });
                    result
                }
                "tasks/cancel" => old("cancelled"),
                _ => json!({ "tasks": [old("working"), old("failed")] }),
            })
        })
        .await;
    let call = client.call("may", json!({ "x": 1 })).as_task().ttl(Duration::from_secs(60));
    let mut task = call.await.unwrap();
    assert_eq!((task.id(), task.last().unwrap().ttl_ms), (Some("t-1"), Some(60_000)));
    assert_eq!(task.result().await.unwrap().all_text(), "asked and answered");
    let call = &peer.wait_for(1, "tools/call").await[0]["params"];
    assert_eq!((&call["task"], &call["arguments"]), (&json!({ "ttl": 60_000 }), &json!({ "x": 1 })));
    let times = times.lock().unwrap().clone();
    assert_eq!(times.len(), 4);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= Duration::from_secs(10)));
    assert_eq!(peer.count("tasks/result"), 1);
    let mut task = client.task("t-1");
    task.cancel().await.unwrap();
    assert_eq!(task.last().unwrap().status, TaskStatus::Cancelled);
    assert_eq!(peer.count("notifications/cancelled"), 0);
    let all = client.list_tasks().all().await.unwrap();
    assert_eq!(
        all.iter().map(|task| &task.status).collect::<Vec<_>>(),
        [&TaskStatus::Working, &TaskStatus::Failed]
    );
}

/// covers: TASK-02 TASK-03
#[tokio::test(start_paused = true)]
async fn no_task_is_wished_for_where_none_is_offered() {
    let answer = |message: &Value| {
        Some(match message["method"].as_str()? {
            "tools/list" => old_tools(),
            _ => content("plain"),
        })
    };
    let (client, peer) = Peer::connect_offering(Client::builder(), LEGACY, &old_capabilities(), answer).await;
    for tool in ["never", "plain", "unknown"] {
        let error = client.call(tool, ()).as_task().await.unwrap_err();
        assert!(matches!(error, CallError::NotOffered(_)), "{tool}: {error}");
        assert_eq!(client.call(tool, ()).await.unwrap().all_text(), "plain");
    }
    let offers = [json!({ "tools": {} }), json!({ "tools": {}, "tasks": { "cancel": {}, "requests": {} } })];
    for capabilities in offers {
        let (client, other) = Peer::connect_offering(Client::builder(), LEGACY, &capabilities, answer).await;
        for tool in ["may", "must"] {
            let error = client.call(tool, ()).as_task().await.unwrap_err();
            assert!(matches!(error, CallError::NotOffered(_)), "{tool}: {error}");
            assert_eq!(client.call(tool, ()).await.unwrap().all_text(), "plain");
        }
        assert!(other.heard().iter().all(|message| message["params"].get("task").is_none()));
        assert!(matches!(client.list_tasks().all().await, Err(CallError::NotOffered(_))));
    }
    assert!(peer.heard().iter().all(|message| message["params"].get("task").is_none()));
    let (client, _) = Peer::connect(Client::builder(), Revision::V2025_06_18, answer).await;
    let error = client.call("may", ()).as_task().await.unwrap_err();
    assert!(matches!(error, CallError::NotInRevision { .. }), "{error}");
}

/// covers: TASK-04
#[tokio::test(start_paused = true)]
async fn a_tool_that_an_older_server_runs_as_a_task_only_is_always_called_as_one() {
    let (client, peer) = Peer::connect_offering(Client::builder(), LEGACY, &old_capabilities(), |message| {
        Some(match message["method"].as_str()? {
            "tools/list" => old_tools(),
            "tools/call" => json!({ "task": old("working") }),
            "tasks/get" => old("completed"),
            _ => content("the result"),
        })
    })
    .await;
    for _ in 0..2 {
        assert_eq!(client.call("must", ()).await.unwrap().all_text(), "the result");
    }
    let calls = peer.wait_for(2, "tools/call").await;
    assert!(calls.iter().all(|call| call["params"]["task"].is_object()), "{calls:?}");
    assert_eq!(peer.count("tools/list"), 1);
}

/// Sends a request and returns the client's answer.
async fn ask(peer: &Peer, id: u32, method: &str, params: Value) -> Value {
    peer.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    peer.wait(1, |message| message["id"] == id && message.get("method").is_none()).await.remove(0)
}

fn sampling(task: Value) -> Value {
    json!({ "messages": [], "maxTokens": 5, "task": task })
}

fn form(meta: Value) -> Value {
    let schema = json!({ "type": "object", "properties": {} });
    json!({ "message": "?", "requestedSchema": schema, "_meta": meta })
}

/// A client whose model takes a minute, and whose person says no with an error.
fn receiving() -> ClientBuilder {
    Client::builder()
        .sampling(|_| async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(CreateMessageResult::new("m", SamplingMessageContentBlock::text("yes")))
        })
        .elicitation(|_| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(RpcError::new(-31000, "nobody is here").into())
        })
}

/// covers: TASK-01 TASK-09 TASK-10 TASK-11 TASK-12 TASK-13 TASK-15 TASK-17 TASK-18 TASK-20 TASK-21 TASK-22 TASK-23 TASK-25
#[tokio::test(start_paused = true)]
async fn a_server_makes_tasks_of_its_questions() {
    let builder = receiving().tasks(TaskSettings::new().with_max_ttl(Duration::from_secs(600)));
    let (_client, peer) = Peer::connect(builder, LEGACY, |_| None).await;
    let declared = &peer.wait_for(1, "initialize").await[0]["params"]["capabilities"];
    assert_eq!(
        declared["tasks"],
        json!({
            "list": {}, "cancel": {},
            "requests": { "sampling": { "createMessage": {} }, "elicitation": { "create": {} } },
        })
    );
    assert!(declared.get("extensions").is_none());
    // The answer comes at once, and is a task.
    let began = Instant::now();
    let made = ask(&peer, 1, "sampling/createMessage", sampling(json!({ "ttl": 3_600_000 }))).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    let task = &made["result"]["task"];
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(600_000)));
    let id = task["taskId"].clone();
    assert!(id.as_str().unwrap().len() >= 22);
    let misleading = json!({ "taskId": id, "_meta": { RELATED: { "taskId": "other" } } });
    let seen = ask(&peer, 2, "tasks/get", misleading.clone()).await["result"].clone();
    assert_eq!(
        (&seen["taskId"], &seen["status"], &seen["createdAt"]),
        (&id, &json!("working"), &task["createdAt"])
    );
    assert!(seen.get("_meta").is_none() && seen["lastUpdatedAt"].is_string());
    // What fails says why, and its error is the answer.
    let refused = ask(&peer, 3, "elicitation/create", {
        let mut form = form(json!({}));
        form["task"] = json!({});
        form
    })
    .await["result"]["task"]["taskId"]
        .clone();
    assert_ne!(refused, id);
    let error = ask(&peer, 4, "tasks/result", json!({ "taskId": refused })).await;
    assert_eq!(error["error"], json!({ "code": -31000, "message": "nobody is here" }));
    let failed = ask(&peer, 5, "tasks/get", json!({ "taskId": refused })).await["result"].clone();
    assert_eq!((&failed["status"], &failed["statusMessage"]), (&json!("failed"), &json!("nobody is here")));
    // The result is waited for, and says whose it is.
    let result = ask(&peer, 6, "tasks/result", misleading).await["result"].clone();
    assert_eq!((&result["content"]["text"], &result["_meta"][RELATED]["taskId"]), (&json!("yes"), &id));
    assert!(began.elapsed() >= Duration::from_secs(60));
    let listed = ask(&peer, 7, "tasks/list", json!({})).await["result"]["tasks"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(ask(&peer, 8, "tasks/list", json!({ "cursor": "?" })).await["error"]["code"], -32602);
    // What is over stays so; what is not can be stopped, and then stays so.
    assert_eq!(ask(&peer, 9, "tasks/cancel", json!({ "taskId": id })).await["error"]["code"], -32602);
    let made = ask(&peer, 10, "sampling/createMessage", sampling(json!({}))).await;
    let third = made["result"]["task"]["taskId"].clone();
    let misleading = json!({ "taskId": third, "_meta": { RELATED: { "taskId": id } } });
    let cancelled = ask(&peer, 11, "tasks/cancel", misleading).await["result"].clone();
    assert_eq!((&cancelled["taskId"], &cancelled["status"]), (&third, &json!("cancelled")));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(
        ask(&peer, 12, "tasks/get", json!({ "taskId": third })).await["result"]["status"],
        "cancelled"
    );
    for (number, method) in ["tasks/get", "tasks/result", "tasks/cancel"].into_iter().enumerate() {
        let id = 20 + u32::try_from(number).unwrap();
        let answer = ask(&peer, id, method, json!({ "taskId": "nobody's" })).await;
        assert_eq!(answer["error"]["code"], -32602, "{method}");
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(ask(&peer, 30, "tasks/get", json!({ "taskId": id })).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn what_runs_as_tasks_is_bounded_like_other_requests() {
    let builder = receiving().tasks(TaskSettings::new()).max_server_requests(2);
    let (_client, peer) = Peer::connect(builder, LEGACY, |_| None).await;
    let wish = || sampling(json!({ "ttl": 3_600_000 }));
    for id in 1..=2 {
        assert!(ask(&peer, id, "sampling/createMessage", wish()).await["result"]["task"].is_object());
    }
    let refused = ask(&peer, 3, "sampling/createMessage", wish()).await["error"].clone();
    assert!(refused["message"].as_str().unwrap().contains("max_server_requests"), "{refused}");
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(ask(&peer, 4, "sampling/createMessage", wish()).await["result"]["task"].is_object());
}

/// covers: TASK-07
#[tokio::test(start_paused = true)]
async fn who_declares_no_tasks_answers_as_if_none_were_wished_for() {
    let (_client, peer) = Peer::connect(receiving(), LEGACY, |_| None).await;
    let declared = &peer.wait_for(1, "initialize").await[0]["params"]["capabilities"];
    assert!(declared.get("tasks").is_none());
    let answer = ask(&peer, 1, "sampling/createMessage", sampling(json!({ "ttl": 5 }))).await;
    assert_eq!(answer["result"]["content"]["text"], "yes");
    assert_eq!(ask(&peer, 2, "tasks/get", json!({ "taskId": "x" })).await["error"]["code"], -32601);
}

/// covers: TASK-17
#[tokio::test(start_paused = true)]
async fn the_answer_to_a_tasks_question_says_whose_it_is() {
    let (builder, _) = agreeable();
    let (_client, peer) = Peer::connect(builder, LEGACY, |_| None).await;
    let answer = ask(&peer, 1, "elicitation/create", form(json!({ RELATED: { "taskId": "t-9" } }))).await;
    assert_eq!(answer["result"]["_meta"], json!({ RELATED: { "taskId": "t-9" } }));
    let answer = ask(&peer, 2, "elicitation/create", form(json!({}))).await;
    assert!(answer["result"].get("_meta").is_none(), "{answer}");
}

/// Two looks at a task at once fetched its result twice; what was asked on one call was refused when the other took its
/// place, and the answer went nowhere.
#[tokio::test(start_paused = true)]
async fn however_many_look_at_an_older_servers_task_it_is_fetched_by_one_call() {
    use hospes::model::{ClientCapabilities, ElicitationCapability, GetTaskResult, Method, Reply};
    let status = Arc::new(Mutex::new("input_required"));
    let told = Arc::clone(&status);
    let capabilities = ClientCapabilities::new().with_elicitation(ElicitationCapability::new());
    let builder = Client::builder().capabilities(capabilities.clone());
    let (client, peer) = Peer::connect_offering(builder, LEGACY, &old_capabilities(), move |message| {
        let status = *told.lock().unwrap();
        match message["method"].as_str()? {
            "tasks/get" => Some(old(status)),
            "tasks/result" if status == "completed" => Some(content("the result")),
            _ => None,
        }
    })
    .await;
    let front = Arc::new(hospes::Peer::new(MODERN, None, capabilities));
    let call = |method: Method, params: Value| {
        let (client, front) = (client.clone(), Arc::clone(&front));
        tokio::spawn(async move {
            let call = hospes::Call::new(method, params.into(), hospes::Context::new(front));
            hospes::Service::call(&client, call).await
        })
    };
    let look = || {
        let looking = call(Method::TasksGet, json!({ "taskId": "t-1" }));
        async move {
            let outcome = looking.await.unwrap();
            let hospes::Outcome::Complete(Reply::GetTask(found)) = outcome else { panic!("{outcome:?}") };
            let found: GetTaskResult = *found;
            found.input_requests.keys().cloned().collect::<Vec<_>>()
        }
    };
    settle().await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let looks = [look(), look(), look()];
    peer.wait_for(1, "tasks/result").await;
    settle().await;
    let mut question = form(json!({ RELATED: { "taskId": "t-1" } }));
    question["message"] = "Who?".into();
    peer.say(&json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": question }))
        .await;
    for look in looks {
        assert_eq!(look.await, ["uq"]);
    }
    assert_eq!((peer.count("tasks/result"), client.parked_calls()), (1, 1));
    let answers = json!({ "uq": { "action": "decline" } });
    let update = call(Method::TasksUpdate, json!({ "taskId": "t-1", "inputResponses": answers }));
    assert!(matches!(update.await.unwrap(), hospes::Outcome::Complete(_)));
    let answer = peer.wait(1, |message| message["id"] == "q" && message.get("method").is_none()).await;
    assert_eq!(answer[0]["result"]["action"], "decline");
    // Those who wait for the same wait no longer than one of them.
    let began = Instant::now();
    for look in [look(), look(), look()] {
        assert!(look.await.is_empty());
    }
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    *status.lock().unwrap() = "completed";
    assert!(look().await.is_empty());
    settle().await;
    let left = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!((client.parked_calls(), left), (0, before), "nothing is left of it");
}

/// The list of tools was asked for once and believed for ever.
#[tokio::test(start_paused = true)]
async fn tools_that_change_are_asked_anew_whether_they_are_tasks() {
    let support = Arc::new(Mutex::new("forbidden"));
    let says = Arc::clone(&support);
    let mut capabilities = old_capabilities();
    capabilities["tools"] = json!({ "listChanged": true });
    let (client, peer) = Peer::connect_offering(Client::builder(), LEGACY, &capabilities, move |message| {
        let says = *says.lock().unwrap();
        let tool = json!({ "name": "moody", "inputSchema": { "type": "object" }, "execution": { "taskSupport": says } });
        Some(match message["method"].as_str()? {
            "tools/list" => json!({ "tools": [tool] }),
            "tools/call" if message["params"].get("task").is_some() => json!({ "task": old("working") }),
            "tools/call" => content("plain"),
            "tasks/get" => old("completed"),
            _ => content("task"),
        })
    })
    .await;
    for (says, lists) in [("forbidden", 1), ("required", 2), ("forbidden", 3)] {
        *support.lock().unwrap() = says;
        if lists > 1 {
            peer.tell("notifications/tools/list_changed", json!({})).await;
            settle().await;
        }
        for _ in 0..2 {
            let wanted = if says == "required" { "task" } else { "plain" };
            assert_eq!(client.call("moody", ()).await.unwrap().all_text(), wanted);
        }
        assert_eq!(peer.count("tools/list"), lists);
    }
}

/// The end of a task is reported even if its result cannot be fetched, because it is not reported again. A slow fetch
/// for one task does not delay other updates.
/// covers: TSKX-14
#[tokio::test(start_paused = true)]
async fn the_end_of_an_older_task_is_told_whatever_becomes_of_its_result() {
    let mut fetches = 0;
    let (client, peer) =
        Peer::connect_offering(Client::builder(), LEGACY, &old_capabilities(), move |message| {
            let task = &message["params"]["taskId"];
            match message["method"].as_str()? {
                "tasks/result" if task == "t-gone" => {
                    Some(json!({ "error": { "code": -32602, "message": "no such task" } }))
                }
                // A result that is none, and then silence.
                "tasks/result" if task == "t-bad" => {
                    fetches += 1;
                    (fetches == 1).then(|| json!({ "content": 7 }))
                }
                "tasks/result" => Some(content("here")),
                _ => Some(json!({ "error": { "code": -32602, "message": "no such task" } })),
            }
        })
        .await;
    let ids = ["t-bad", "t-gone", "t-good"].map(str::to_owned).to_vec();
    let filter = SubscriptionFilter::new().with_task_ids(ids);
    let mut stream = client.listen(filter).await.unwrap();
    for id in ["t-bad", "t-gone", "t-good"] {
        let mut over = old("completed");
        over["taskId"] = id.into();
        peer.tell("notifications/tasks/status", over).await;
    }
    let mut told = Vec::new();
    while told.len() < 3 {
        let change = tokio::time::timeout(Duration::from_secs(1000), stream.next()).await;
        let Ok(Some(Notification::TasksChanged(found))) = change else { panic!("{told:?}: {change:?}") };
        let error = found.error.map(|error| error.message.into_owned()).unwrap_or_default();
        told.push((found.task.task_id, found.task.status, found.result.is_some(), error));
    }
    let (last, first) = (told.pop().unwrap(), told);
    assert!(
        first.contains(&("t-gone".into(), TaskStatus::Failed, false, "no such task".into())),
        "{first:?}"
    );
    assert!(first.contains(&("t-good".into(), TaskStatus::Completed, true, String::new())), "{first:?}");
    assert_eq!((last.0.as_str(), &last.1), ("t-bad", &TaskStatus::Failed));
    assert!(last.3.contains("could not be fetched"), "{last:?}");
}

/// The newer dialect tells with the question what it is; where it is answered here, it is asked with the result.
/// covers: TSKX-16
#[tokio::test(start_paused = true)]
async fn an_older_tasks_question_is_told_to_whoever_is_asked_elsewhere() {
    let (answering, _) = agreeable();
    let declared = json!({ "elicitation": {} });
    let passing_on = Client::builder().capabilities(serde_json::from_value(declared).unwrap());
    for (builder, told) in [(passing_on, 1), (answering, 0)] {
        let (client, peer) = Peer::connect_offering(builder, LEGACY, &old_capabilities(), |message| {
            (message["method"] != "tasks/result").then(|| json!({}))
        })
        .await;
        let filter = SubscriptionFilter::new().with_task_ids(vec!["t-1".to_owned()]);
        let mut stream = client.listen(filter).await.unwrap();
        peer.tell("notifications/tasks/status", old("input_required")).await;
        let ask = async {
            if told == 1 {
                peer.wait_for(1, "tasks/result").await;
                let question = form(json!({ RELATED: { "taskId": "t-1" } }));
                let method = "elicitation/create";
                peer.say(&json!({ "jsonrpc": "2.0", "id": "q", "method": method, "params": question })).await;
            }
        };
        let listen = tokio::time::timeout(Duration::from_secs(60), stream.next());
        let (change, ()) = tokio::join!(listen, ask);
        let Ok(Some(Notification::TasksChanged(found))) = change else { panic!("{told}: {change:?}") };
        assert_eq!(found.task.status, TaskStatus::InputRequired);
        assert_eq!(found.input_requests.len(), told, "{:#?}", peer.heard());
        assert_eq!(peer.count("tasks/result"), told);
    }
}

/// A list that was on its way when the tools changed was believed after the change.
#[tokio::test(start_paused = true)]
async fn nothing_is_learned_from_a_list_of_before_a_change() {
    let mut capabilities = old_capabilities();
    capabilities["tools"] = json!({ "listChanged": true });
    let lists = Arc::new(Mutex::new(0));
    let count = Arc::clone(&lists);
    let (client, peer) = Peer::connect_offering(Client::builder(), LEGACY, &capabilities, move |message| {
        match message["method"].as_str()? {
            "tools/list" => {
                let mut lists = count.lock().unwrap();
                *lists += 1;
                // The first one is answered later, by hand.
                (*lists > 1)
                    .then(|| json!({ "tools": [{ "name": "moody", "inputSchema": { "type": "object" } }] }))
            }
            _ => Some(content("as it is")),
        }
    })
    .await;
    let listing = tokio::spawn({
        let client = client.clone();
        async move { client.tools().all().await.unwrap() }
    });
    let asked = peer.wait_for(1, "tools/list").await;
    peer.tell("notifications/tools/list_changed", json!({})).await;
    let integer =
        json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let before = json!({ "tools": [{
        "name": "moody", "inputSchema": { "type": "object" }, "outputSchema": integer,
        "execution": { "taskSupport": "required" },
    }] });
    peer.say(&json!({ "jsonrpc": "2.0", "id": asked[0]["id"], "result": before })).await;
    assert_eq!(listing.await.unwrap().len(), 1);
    // Neither is its result to be what was promised before, nor is it called as a task.
    assert_eq!(client.call("moody", ()).await.unwrap().all_text(), "as it is");
    assert!(peer.wait_for(1, "tools/call").await[0]["params"].get("task").is_none());
}
