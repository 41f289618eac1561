//! How long tasks live, and what they hold on to.

use std::sync::Arc;

use hospes::model::TaskSupport;
use hospes::prelude::*;
use hospes::tasks::{MemoryTasks, TaskSettings};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::peer::Peer;
use super::{Jobs, SECOND, text};

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

/// Tells when it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A tool that runs until it is stopped, and tells then.
fn endless(stopped: &Arc<Notify>) -> Server {
    let stopped = Arc::clone(stopped);
    Server::new("endless", "1").tool(Tool::new("endless").task(TaskSupport::Required), move || {
        let guard = Dropped(Arc::clone(&stopped));
        async move {
            std::future::pending::<()>().await;
            drop(guard);
        }
    })
}

/// A task outlives its connection, for the caller may come back; not the server.
#[tokio::test(start_paused = true)]
async fn work_goes_on_without_its_connection_and_ends_with_the_server() {
    let stopped = Arc::new(Notify::new());
    let server = endless(&stopped);
    let (mut peer, _) = Peer::legacy(server.clone(), "2025-11-25").await;
    let id = peer.make("endless", json!({})).await["taskId"].clone();
    drop(peer);
    let (mut peer, _) = Peer::legacy(server.clone(), "2025-11-25").await;
    sleep(SECOND * 10).await;
    assert_eq!(peer.status(&id).await, "working");
    drop((peer, server));
    // Long before its own time is over.
    timeout(SECOND * 10, stopped.notified()).await.expect("it still runs");
}

/// The requests that tasks keep are bounded like what they come to.
#[tokio::test(start_paused = true)]
async fn requests_that_tasks_keep_are_bounded() {
    let server = || Jobs.into_server().task_store(MemoryTasks::new().max_bytes(10_000));
    let long = "x".repeat(6_000);
    let params = json!({ "name": "must", "arguments": {}, "task": {}, "more": long });
    let (mut peer, _) = Peer::legacy(server(), "2025-11-25").await;
    let first = peer.ok("tools/call", params.clone()).await["task"]["taskId"].clone();
    let refused = peer.ask("tools/call", params.clone()).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("max_bytes"), "{refused}");
    peer.until(&first, "completed").await;
    peer.ok("tools/call", params).await;
}

/// A tool that has to be a task, and comes when sessions are open that were told of no tasks.
#[tokio::test(start_paused = true)]
async fn a_tool_that_comes_later_and_has_to_be_a_task_is_run_to_its_end() {
    let server = Server::new("late", "1").tool("plain", || async { "plain" });
    let handle = server.handle();
    let (mut older, opened) = Peer::legacy(server.clone(), "2025-11-25").await;
    assert!(opened["capabilities"].get("tasks").is_none());
    let (mut oldest, _) = Peer::legacy(server.clone(), "2024-11-05").await;
    let work = || async {
        sleep(SECOND).await;
        "done"
    };
    handle.add_tool(Tool::new("late").task(TaskSupport::Required), work).unwrap();
    let wish = json!({ "name": "late", "arguments": {}, "task": { "ttl": 1000 } });
    for peer in [&mut older, &mut oldest] {
        assert_eq!(text(&peer.call("late", json!({})).await), "done");
        assert_eq!(text(&peer.ok("tools/call", wish.clone()).await), "done", "TASK-07: the wish is ignored");
        assert_eq!(peer.error("tasks/get", json!({ "taskId": "x" })).await, -32601);
    }
    let (mut new, opened) = Peer::legacy(server, "2025-11-25").await;
    assert!(opened["capabilities"].get("tasks").is_some());
    assert_eq!(new.error("tools/call", json!({ "name": "late", "arguments": {} })).await, -32601);
}

/// Whoever gives up a call that is run as a task for them gives up the task; and what is cancelled does not run on.
#[tokio::test(start_paused = true)]
async fn what_is_given_up_or_cancelled_is_stopped() {
    let stopped = Arc::new(Notify::new());
    let server = endless(&stopped);
    let call = json!({ "name": "endless", "arguments": {} });
    let ended = async || timeout(SECOND * 10, stopped.notified()).await.expect("it still runs");
    // By the clients of revisions that know no tasks: the call, and the connection.
    let (mut peer, _) = Peer::legacy(server.clone(), "2024-11-05").await;
    let id = peer.start("tools/call", call.clone()).await;
    sleep(SECOND).await;
    let params = json!({ "requestId": id });
    peer.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    ended().await;
    peer.start("tools/call", call).await;
    sleep(SECOND).await;
    drop(peer);
    ended().await;
    // By those that do.
    let (mut peer, _) = Peer::legacy(server, "2025-11-25").await;
    let id = peer.make("endless", json!({})).await["taskId"].clone();
    peer.ok("tasks/cancel", json!({ "taskId": id })).await;
    ended().await;
}

/// A task that asks and asks is not asked for ever.
#[tokio::test(start_paused = true)]
async fn a_task_that_never_has_enough_answers_fails() {
    let greedy = Tool::new("greedy").task(TaskSupport::Required);
    let server = Server::new("greedy", "1").tool(greedy, |ctx: Context| async move {
        for n in 0.. {
            let _: String = ctx.elicit("More?").key(format!("k{n}")).field("more").await?;
        }
        Ok::<_, Error>("never")
    });
    let (mut peer, _) = Peer::legacy(server, "2025-11-25").await;
    let id = peer.make("greedy", json!({})).await["taskId"].clone();
    let result = peer.start("tasks/result", json!({ "taskId": id })).await;
    let mut asked = 0;
    let answer = loop {
        let message = peer.read().await;
        if message["method"] == "elicitation/create" {
            asked += 1;
            assert!(asked < 100, "it asks on and on");
            let answer = json!({ "action": "accept", "content": { "more": "x" } });
            peer.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": answer })).await;
        } else if message["id"] == result {
            break message;
        }
    };
    assert!(answer["error"]["message"].as_str().unwrap().contains("rounds"), "{answer}");
    assert_eq!(peer.status(&id).await, "failed");
}
