//! Tasks on the wire, against clients written by hand: the extension of 2026-07-28, the core of 2025-11-25, and clients
//! of older revisions, which know none.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "helpers of tests")]

use std::time::Duration;

use hospes::prelude::*;
use hospes::tasks::TaskSettings;
use hospes::transport::memory;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

struct Jobs;

#[hospes::server(name = "jobs")]
impl Jobs {
    /// Adds.
    #[tool]
    fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    /// Takes its time.
    #[tool(task)]
    async fn slow(ctx: &Context, seconds: u64) -> String {
        for second in 1..=seconds {
            sleep(SECOND).await;
            ctx.progress(second as f64, Some(seconds as f64), Some(&format!("second {second}")));
            ctx.log(LoggingLevel::Info, format!("log {second}"));
        }
        format!("slept {seconds}")
    }

    /// Has to be a task.
    #[tool(task = "required")]
    async fn must() -> &'static str {
        sleep(SECOND).await;
        "done"
    }

    /// Fails.
    #[tool(task = "required")]
    async fn fails() -> Result<String> {
        sleep(SECOND).await;
        Err(Error::msg("no luck"))
    }

    /// Breaks.
    #[tool(task = "required")]
    async fn breaks() -> Result<String, RpcError> {
        sleep(SECOND).await;
        Err(RpcError::new(-31000, "broken").with_data(&json!({ "why": "tests" })))
    }

    /// Panics.
    #[tool(task = "required")]
    async fn panics() -> String {
        sleep(SECOND).await;
        panic!("on purpose")
    }

    /// Asks two things, one after the other.
    #[tool(task = "required")]
    async fn asks(ctx: &Context) -> Result<String> {
        let name: String = ctx.elicit("Name?").key("name").field("name").await?;
        let age: u8 = ctx.elicit("Age?").key("age").field("age").await?;
        sleep(SECOND).await;
        Ok(format!("{name} is {age}"))
    }

    /// Asks two things at once.
    #[tool(task = "required")]
    async fn asks_both(ctx: &Context) -> Result<String> {
        let (a, b) = ctx
            .ask((
                ctx.elicit::<String>("A?").key("a").field("a"),
                ctx.elicit::<String>("B?").key("b").field("b"),
            ))
            .await?;
        Ok(format!("{a} and {b}"))
    }

    /// Asks, and then takes its time.
    #[tool(task = "required", ask_first)]
    async fn asks_first(ctx: &Context) -> Result<String> {
        let name: String = ctx.elicit("Name?").key("name").field("name").await?;
        ctx.begin_task().await;
        let age: u8 = ctx.elicit("Age?").key("age").field("age").await?;
        Ok(format!("{name} is {age}"))
    }
}

/// A client's end of a connection.
struct Peer {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
    /// None: a session of an older revision.
    meta: Option<Value>,
    last: u32,
    /// What came while an answer was waited for.
    heard: Vec<Value>,
}

impl Peer {
    fn of(server: impl IntoServer, meta: Option<Value>) -> Self {
        let (input, output) = tokio::io::split(memory::serve(server.into_server()));
        Self { input: BufReader::new(input), output, meta, last: 0, heard: Vec::new() }
    }

    fn modern(capabilities: Value) -> Self {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        Self::of(Jobs, Some(meta))
    }

    fn taking_tasks() -> Self {
        Self::modern(json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } }))
    }

    async fn legacy(server: impl IntoServer, revision: &str) -> (Self, Value) {
        let mut peer = Self::of(server, None);
        let elicitation = if revision >= "2025-06-18" { json!({ "elicitation": {} }) } else { json!({}) };
        let params = json!({
            "protocolVersion": revision, "capabilities": elicitation, "clientInfo": { "name": "p", "version": "1" },
        });
        let opened = peer.ok("initialize", params).await;
        peer.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        (peer, opened)
    }

    async fn send(&mut self, message: &Value) {
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn start(&mut self, method: &str, mut params: Value) -> u32 {
        self.last += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    async fn read(&mut self) -> Value {
        let mut line = String::new();
        let read = timeout(Duration::from_secs(3600), self.input.read_line(&mut line)).await;
        read.expect("no line came").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The answer to a request; what comes before it is kept.
    async fn answer(&mut self, id: u32) -> Value {
        loop {
            let message = self.read().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.heard.push(message);
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params).await;
        self.answer(id).await
    }

    async fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn error(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.ask(method, params).await;
        assert!(answer["error"]["message"].as_str().is_some_and(|text| text.len() > 10), "{answer}");
        answer["error"]["code"].as_i64().unwrap()
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ok("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Calls a tool as 2025-11-25 calls one as a task; the task.
    async fn make(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments, "task": { "ttl": 60_000 } });
        let made = self.ok("tools/call", params).await;
        assert!(made.get("content").is_none(), "{made}");
        made["task"].clone()
    }

    async fn get(&mut self, id: &Value) -> Value {
        self.ok("tasks/get", json!({ "taskId": id })).await
    }

    async fn status(&mut self, id: &Value) -> String {
        self.get(id).await["status"].as_str().unwrap().to_owned()
    }

    /// Polls until the task has this status.
    async fn until(&mut self, id: &Value, status: &str) -> Value {
        for _ in 0..600 {
            let task = self.get(id).await;
            if task["status"] == status {
                return task;
            }
            sleep(SECOND / 10).await;
        }
        panic!("the task never became {status}")
    }

    async fn update(&mut self, id: &Value, answers: Value) {
        let done = self.ok("tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
        assert_eq!(without_meta(done), json!({ "resultType": "complete" }));
    }
}

fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

fn without_meta(mut result: Value) -> Value {
    result.as_object_mut().unwrap().remove("_meta");
    result
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn related(message: &Value) -> &Value {
    &message["_meta"]["io.modelcontextprotocol/related-task"]["taskId"]
}

/// covers: TSKX-02 TSKX-05 TSKX-06 TSKX-07 TSKX-18
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

/// covers: TSKX-04 TSKX-15
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

/// covers: TASK-12 TASK-13 TASK-26
#[tokio::test(start_paused = true)]
async fn a_task_is_gone_when_its_time_is_over() {
    let settings = TaskSettings::new().with_max_ttl(SECOND * 10).with_ttl(SECOND * 5);
    let (mut peer, _) = Peer::legacy(Jobs.into_server().task_settings(settings), "2025-11-25").await;
    let forever = json!({ "name": "slow", "arguments": { "seconds": 3600 }, "task": { "ttl": 86_400_000 } });
    let task = peer.ok("tools/call", forever).await["task"].clone();
    assert_eq!(task["ttl"], 10_000, "the real time, not the wish");
    let unsaid = json!({ "name": "must", "arguments": {}, "task": {} });
    let short = peer.ok("tools/call", unsaid).await["task"].clone();
    assert_eq!(short["ttl"], 5_000);
    sleep(SECOND * 6).await;
    assert_eq!(peer.error("tasks/get", json!({ "taskId": short["taskId"] })).await, -32602);
    assert_eq!(peer.status(&task["taskId"]).await, "working");
    sleep(SECOND * 6).await;
    assert_eq!(peer.error("tasks/get", json!({ "taskId": task["taskId"] })).await, -32602);
    assert_eq!(peer.error("tasks/result", json!({ "taskId": task["taskId"] })).await, -32602);
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
