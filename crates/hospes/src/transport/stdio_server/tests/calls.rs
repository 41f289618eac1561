//! Calls side by side: how many, cancelled, and what they say.

use hospes_model::{CreateTaskResult, Method, RpcError, Task};

use super::*;
use crate::tasks::TaskPreference;
use crate::{Call, Outcome, Service};

/// Service that runs every possible call as a task.
struct Eager;

impl Service for Eager {
    async fn call(&self, call: Call) -> Outcome {
        match (call.context.task_wish(), &call.method) {
            (TaskPreference::Open, _) => {
                Outcome::Complete(CreateTaskResult::new(Task::new("t", "2026-07-28T00:00:00Z")).into())
            }
            (_, Method::PromptsGet | Method::ResourcesRead | Method::ToolsCall) => {
                RpcError::invalid_params("no task is wanted").into()
            }
            (_, other) => RpcError::method_not_found(other.name()).into(),
        }
    }
}

/// covers: TSKX-02
#[tokio::test]
async fn a_task_is_made_of_a_call_of_a_tool_only_and_by_what_that_call_declares() {
    let mut peer = Peer::of(StdioServer::new(Eager));
    for (method, declares, is_task) in [
        ("tools/call", true, true),
        ("tools/call", false, false),
        ("prompts/get", true, false),
        ("resources/read", true, false),
    ] {
        let mut call = modern(1, method, json!({ "name": "x", "uri": "x://y" }));
        if declares {
            call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"] =
                json!({ "io.modelcontextprotocol/tasks": {} });
        }
        peer.send(call).await;
        let answer = peer.read().await;
        assert_eq!(answer["result"]["resultType"] == "task", is_task, "{method} {declares}: {answer}");
        assert_eq!(answer["error"]["code"] == -32602, !is_task, "{method} {declares}: {answer}");
    }
}

#[tokio::test]
async fn probe_a_handler_that_panics_is_that_calls_error() {
    for (mut peer, call) in [
        (Peer::opened(&ProbeService::new(), "2025-11-25").await, tool(1, "panic", json!({}))),
        (Peer::new(&ProbeService::new()), modern(1, "tools/call", json!({"name": "panic"}))),
    ] {
        peer.send(call).await;
        let answer = peer.read().await;
        assert_eq!((code(&answer), &answer["id"]), (-32603, &json!(1)));
        peer.send(modern(2, "server/discover", json!({}))).await;
        assert!(peer.read().await["result"].is_object());
    }
}

#[tokio::test(start_paused = true)]
async fn probe_four_slow_calls_run_at_once() {
    let mut peer = Peer::opened(&ProbeService::new(), "2025-11-25").await;
    let start = tokio::time::Instant::now();
    for id in 1..=4 {
        peer.tool(id, "sleep", json!({"millis": 500})).await;
    }
    // Others are not kept waiting meanwhile.
    peer.silence().await;
    assert!(start.elapsed() < Duration::from_millis(100));
    for _ in 1..=4 {
        assert_eq!(text(&peer.read().await), "slept");
    }
    assert!(start.elapsed() < Duration::from_millis(600), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn probe_of_20_000_slow_calls_a_bounded_number_runs_and_all_are_answered() {
    let probe = ProbeService::new();
    let mut peer = Peer::opened(&probe, "2025-11-25").await;
    let mut output = peer.output;
    let write = tokio::spawn(async move {
        for id in 0..20_000 {
            let line = format!("{}\n", tool(id, "sleep", json!({"millis": 500})));
            output.write_all(line.as_bytes()).await.unwrap();
        }
        output
    });
    let mut seen = vec![false; 20_000];
    for _ in 0..20_000 {
        let mut line = String::new();
        peer.input.read_line(&mut line).await.unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(text(&answer), "slept");
        let id = usize::try_from(answer["id"].as_u64().unwrap()).unwrap();
        assert!(!std::mem::replace(&mut seen[id], true), "two answers to {id}");
    }
    assert_eq!(probe.most_running(), super::super::DEFAULT_MAX_CONCURRENT_CALLS);
    drop(write.await.unwrap());
}

#[tokio::test]
async fn requests_over_the_queue_are_refused_by_name() {
    let probe = ProbeService::new();
    let server = StdioServer::new(probe.clone()).max_concurrent_calls(2).max_queued_bytes(400);
    let mut peer = Peer::of(server);
    peer.open("2025-11-25").await;
    for id in 1..=8 {
        peer.tool(id, "forever", json!({})).await;
    }
    let answer = peer.read().await;
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("max_concurrent_calls") && why.contains("max_queued_bytes"), "{why}");
    // A queued request can be cancelled, and so can a running one, whose place the next in the queue takes.
    while probe.running() < 2 {
        tokio::task::yield_now().await;
    }
    let cancel =
        |id: u32| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    peer.send(cancel(3)).await;
    peer.send(cancel(1)).await;
    peer.tool(4, "echo", json!({})).await;
    let mut refused = 0;
    loop {
        let answer = peer.read().await;
        let why = answer["error"]["message"].as_str().unwrap().to_owned();
        if answer["id"] == 4 {
            assert!(why.contains("the request id 4"), "{why}");
            break;
        }
        refused += 1;
    }
    assert!(refused > 0);
}

/// covers: CANC-04 CANC-05 CANC-06 CANC-12
#[tokio::test]
async fn a_cancelled_call_is_dropped_and_gets_no_answer() {
    for era in ["old", "new"] {
        let probe = ProbeService::new();
        let mut peer = Peer::new(&probe);
        let call = if era == "old" {
            peer.open("2025-11-25").await;
            tool(1, "forever", json!({}))
        } else {
            modern(1, "tools/call", json!({"name": "forever"}))
        };
        peer.send(call).await;
        while probe.running() == 0 {
            tokio::task::yield_now().await;
        }
        for params in [json!({"requestId": 9}), json!({}), json!({"requestId": {}}), json!({"requestId": 1})]
        {
            peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
        }
        while probe.running() > 0 {
            tokio::task::yield_now().await;
        }
        peer.silence().await;
    }
}

/// covers: MSG-09
#[tokio::test]
async fn an_id_in_use_is_refused() {
    let probe = ProbeService::new();
    let mut peer = Peer::opened(&probe, "2025-11-25").await;
    peer.tool(1, "forever", json!({})).await;
    while probe.running() == 0 {
        tokio::task::yield_now().await;
    }
    peer.tool(1, "echo", json!({})).await;
    assert_eq!(code(&peer.read().await), -32600);
    assert_eq!(probe.running(), 1);
}

/// covers: PROG-04 PROG-05 LOG-05
#[tokio::test]
async fn progress_and_log_messages_precede_the_answer() {
    let mut peer = Peer::opened(&ProbeService::new(), "2025-11-25").await;
    peer.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                     "params": {"name": "progress", "_meta": {"progressToken": "t"}}}))
        .await;
    for step in 1..=3 {
        let params = peer.read().await["params"].clone();
        assert_eq!(params, json!({"progressToken": "t", "progress": step, "total": 3}));
    }
    assert_eq!(text(&peer.read().await), "there");
    peer.send(json!({"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "debug"}}))
        .await;
    assert_eq!(peer.read().await["result"], json!({}));
    peer.tool(3, "log", json!({})).await;
    assert_eq!(peer.read().await["params"], json!({"level": "info", "data": "hello"}));
    assert_eq!(text(&peer.read().await), "logged");
    // 2026-07-28: no level in the request, no log messages.
    peer.send(modern(4, "server/discover", json!({}))).await;
    peer.read().await;
}

/// covers: MSG-29
#[tokio::test]
async fn a_modern_request_says_which_log_messages_it_wants() {
    let mut peer = Peer::new(&ProbeService::new());
    peer.send(modern(9, "tools/call", json!({"name": "stray"}))).await;
    assert_eq!(text(&peer.read().await), "strayed");
    peer.send(modern(1, "tools/call", json!({"name": "log"}))).await;
    assert_eq!(text(&peer.read().await), "logged");
    let meta = json!({"io.modelcontextprotocol/logLevel": "info"});
    peer.send(modern(2, "tools/call", json!({"name": "log", "_meta": meta}))).await;
    assert_eq!(peer.read().await["method"], "notifications/message");
    assert_eq!(text(&peer.read().await), "logged");
}
