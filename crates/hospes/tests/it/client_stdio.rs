//! Tests of the client over the pipes of a child, against a server scripted to misbehave.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hospes::client::{CallError, Client, ClientBuilder, CommandTarget, ConnectStage, Target, TimeLimit};
use hospes::model::{
    CreateMessageResult, ElicitResult, Era, Notification, RawJson, Revision, RpcError,
    SamplingMessageContentBlock, SubscriptionFilter,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

fn scripted(behaviours: &[&str]) -> CommandTarget {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/client/scripted.py");
    Target::command("python3").arg(script).args(behaviours)
}

async fn legacy(behaviours: &[&str]) -> Client {
    Client::builder().era(Era::Legacy).connect(scripted(behaviours)).await.unwrap()
}

async fn modern() -> Client {
    Client::builder().revision(Revision::V2026_07_28).connect(scripted(&["modern"])).await.unwrap()
}

async fn parsed(client: &Client, tool: &str, arguments: Value) -> Value {
    client.call(tool, arguments).await.unwrap().parse().unwrap()
}

/// covers: VER-16 VER-17 LIFE-01 LIFE-02 LIFE-06 LIFE-07 STDIO-01 STDIO-02
#[tokio::test]
async fn an_older_server_is_found_by_the_probe_and_opened_its_way() {
    let client = Client::connect(scripted(&[])).await.unwrap();
    assert_eq!((client.revision(), client.era()), (Revision::V2025_11_25, Era::Legacy));
    assert_eq!(client.server_info().unwrap().name, "scripted");
    assert_eq!(client.instructions(), Some("Ask nicely."));
    assert!(client.capabilities().unwrap().tools.is_some());
    assert_eq!(
        parsed(&client, "seen", json!({})).await,
        json!(["server/discover", "initialize", "notifications/initialized", "tools/call"])
    );
}

/// covers: VER-11 VER-16 STLS-02 STLS-04 CAP-11 MSG-26 DISC-02
#[tokio::test]
async fn a_modern_server_is_found_by_the_probe_and_told_everything_each_time() {
    let client = Client::connect(scripted(&["modern"])).await.unwrap();
    assert_eq!((client.revision(), client.era()), (Revision::V2026_07_28, Era::Modern));
    assert_eq!(client.server_info().unwrap().name, "scripted");
    let params = parsed(&client, "params", json!({ "a": 1 })).await;
    let meta = &params["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "hospes");
    assert_eq!(params["arguments"], json!({ "a": 1 }));
}

/// covers: STDIO-01 STDIO-05 STDIO-06 STDIO-19
#[tokio::test]
async fn a_process_serves_whoever_has_the_client_whatever_it_writes_to_stderr() {
    for revision in Revision::ALL {
        let version = format!("version={revision}");
        let behaviours =
            if revision.is_legacy() { [version.as_str(), "chatty"] } else { ["modern", "chatty"] };
        let heard = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&heard);
        let builder = Client::builder().revision(revision);
        let builder = builder.on_stderr(move |line| lines.lock().unwrap().push(line.to_owned()));
        let connecting = builder.connect(scripted(&behaviours));
        // The task that started it ends, and the next one goes on with the same process.
        let client = tokio::spawn(connecting).await.unwrap().unwrap();
        let called = client.clone();
        let first = tokio::spawn(async move { parsed(&called, "seen", json!({})).await }).await.unwrap();
        let second = tokio::spawn(async move { parsed(&client, "seen", json!({})).await }).await.unwrap();
        assert_eq!(first.as_array().unwrap().len() + 1, second.as_array().unwrap().len(), "{revision}");
        assert_eq!(heard.lock().unwrap().first().map(String::as_str), Some("ERROR: nothing is wrong"));
    }
}

/// covers: VER-22 VER-23
#[tokio::test]
async fn a_remembered_era_costs_no_question() {
    let client = legacy(&[]).await;
    let seen = parsed(&client, "seen", json!({})).await;
    assert_eq!(seen[0], "initialize");
    // And one that is wrong is found to be.
    let client = Client::builder().era(Era::Legacy).connect(scripted(&["modern"])).await.unwrap();
    assert_eq!(client.era(), Era::Modern);
}

#[tokio::test]
async fn a_server_that_exits_on_the_probe_is_started_again() {
    let client = Client::connect(scripted(&["exit on discover"])).await.unwrap();
    assert_eq!(parsed(&client, "seen", json!({})).await[0], "initialize");
}

#[tokio::test]
async fn a_server_that_is_silent_on_the_probe_is_not_started_again() {
    let began = Instant::now();
    let client = Client::connect(scripted(&["silent on discover"])).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(6));
    assert_eq!(parsed(&client, "seen", json!({})).await[0], "server/discover");
    // However little time there is, the probe leaves some of it.
    let hasty = Client::builder().connect_timeout(Duration::from_secs(4));
    let client = hasty.connect(scripted(&["silent on discover"])).await.unwrap();
    assert_eq!(parsed(&client, "seen", json!({})).await[0], "server/discover");
}

/// covers: VER-06 LIFE-14
#[tokio::test]
async fn a_failed_connection_says_what_was_tried_and_what_came_back() {
    let error = Client::connect(scripted(&["exit"])).await.unwrap_err();
    assert_eq!(error.what, "the server exited with status 2");
    assert_eq!(error.stderr.as_deref(), Some("no configuration found"));
    // On Linux it is known that it has read nothing, so that it is not started once more.
    let (stage, starts) =
        if cfg!(target_os = "linux") { (ConnectStage::Discover, 1) } else { (ConnectStage::Initialize, 2) };
    assert_eq!((error.stage, error.tried.len()), (stage, starts), "{error}");
    assert!(error.to_string().contains("no configuration found"), "{error}");

    let error = Client::connect(scripted(&["refuse"])).await.unwrap_err();
    assert_eq!((error.stage, error.error.as_ref().map(|e| e.code)), (ConnectStage::Initialize, Some(-32603)));

    let error = Client::connect(scripted(&["shapeless"])).await.unwrap_err();
    assert_eq!((error.stage, error.status), (ConnectStage::Initialize, None));
    assert!(error.what.contains("invalid response"), "{error}");

    let error = Client::connect(scripted(&["other versions"])).await.unwrap_err();
    assert_eq!(error.stage, ConnectStage::Negotiate);
    assert!(error.what.contains("2031-01-01"), "{error}");

    let error = Client::connect(scripted(&["version=1999-01-01"])).await.unwrap_err();
    assert_eq!(error.stage, ConnectStage::Negotiate);

    let quick = Client::builder().connect_timeout(Duration::from_millis(500)).era(Era::Legacy);
    let error = quick.connect(scripted(&["silent"])).await.unwrap_err();
    assert!(error.what.contains("no response"), "{error}");
    assert!(error.hint.is_some());

    let error = Client::connect("no-such-program-anywhere --flag").await.unwrap_err();
    assert_eq!(error.stage, ConnectStage::Spawn);
    assert!(error.hint.as_ref().unwrap().contains("PATH"), "{error}");
    let error = Client::connect("it's").await.unwrap_err();
    assert_eq!(error.stage, ConnectStage::Target);
    let error = Client::connect(Target::command("sh").cwd("/no/such/folder")).await.unwrap_err();
    assert!(error.hint.as_ref().unwrap().contains("/no/such/folder"), "{error}");
}

/// covers: PAGE-03 PAGE-05 PAGE-08 PAGE-12
#[tokio::test]
async fn lists_are_read_to_their_end_whatever_the_cursors_are() {
    let client = legacy(&[]).await;
    let names: Vec<String> = client.tools().all().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let mut tools = client.tools();
    assert_eq!(tools.next().await.unwrap().unwrap().name, "a");
    let client = legacy(&["circle"]).await;
    assert!(matches!(client.tools().all().await, Err(CallError::Malformed { .. })));
}

/// covers: MSG-14
#[tokio::test]
async fn errors_of_the_server_are_told_from_our_own() {
    let client = legacy(&[]).await;
    let error = client.call("fail", ()).await.unwrap_err();
    let rpc = error.rpc().unwrap();
    assert_eq!((rpc.code, &*rpc.message), (-32602, "no such thing"));
    assert_eq!(rpc.data.as_ref().unwrap().as_str(), r#"{"why": "because"}"#);
    let error = client.call("wrong shape", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Malformed { .. }), "{error}");
    let error = client.call("echo", json!([1])).await.unwrap_err();
    assert!(matches!(error, CallError::Arguments(_)), "{error}");
    // It lives on.
    assert_eq!(client.call("echo", json!({ "text": "hi" })).await.unwrap().all_text(), "hi");
}

/// covers: TIME-01 TIME-02 TIME-03 CANC-01
#[tokio::test]
async fn silence_ends_a_call_and_the_server_is_told() {
    let client = legacy(&[]).await;
    let error = client.call("hang", ()).timeout(Duration::from_millis(200)).await.unwrap_err();
    let CallError::Timeout { method, limit, after } = error else { panic!("{error}") };
    assert_eq!((&*method, limit, after), ("tools/call", TimeLimit::Timeout, Duration::from_millis(200)));
    assert_eq!(parsed(&client, "cancelled", json!({})).await.as_array().unwrap().len(), 1);
}

/// covers: TIME-04 TIME-05 PROG-01
#[tokio::test]
async fn progress_puts_the_timeout_off_up_to_the_ceiling() {
    let client = legacy(&[]).await;
    let reports = Mutex::new(Vec::new());
    let slow = json!({ "steps": 6, "pause": 0.1 });
    let result = client
        .call("slow", &slow)
        .timeout(Duration::from_millis(400))
        .on_progress(|progress| reports.lock().unwrap().push(progress.progress))
        .await
        .unwrap();
    assert_eq!(result.all_text(), "done");
    assert_eq!(*reports.lock().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    // Without a listener too.
    client.call("slow", &slow).timeout(Duration::from_millis(400)).await.unwrap();
    let limited = client.call("slow", &slow).timeout(Duration::from_millis(400));
    let error = limited.max_timeout(Duration::from_millis(350)).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout { limit: TimeLimit::MaxTimeout, .. }), "{error}");
}

/// covers: CANC-01 CANC-02 CANC-08 CANC-14
#[tokio::test]
async fn a_dropped_call_is_cancelled() {
    for client in [legacy(&[]).await, modern().await] {
        let call = client.call("slow", json!({ "steps": 50, "pause": 0.05 }));
        assert!(tokio::time::timeout(Duration::from_millis(150), call.into_future()).await.is_err());
        let cancelled = parsed(&client, "cancelled", json!({})).await;
        assert_eq!(cancelled.as_array().unwrap().len(), 1, "{cancelled}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_read_holds_nobody_up_for_good() {
    // It answers the handshake, and then never reads again.
    let script = r#"read line; printf '%s\n' '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"deaf","version":"1"}}}'; sleep 60"#;
    let client = Client::builder()
        .era(Era::Legacy)
        .timeout(Duration::from_millis(300))
        .connect(Target::command("sh").args(["-c", script]))
        .await
        .unwrap();
    let text = "x".repeat(3 * 1024 * 1024);
    let calls = (0..6).map(|_| client.call("echo", json!({ "text": text })).into_future());
    for outcome in futures::future::join_all(calls).await {
        assert!(matches!(outcome, Err(CallError::Timeout { .. })), "{outcome:?}");
    }
    let began = Instant::now();
    client.close().await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

/// A program that ends before it reads anything is not started a second time; one that ends because it does not know the
/// first question is.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_program_that_ends_by_itself_is_started_once() {
    let folder = tempfile::tempdir().unwrap();
    for (name, rest, starts) in
        [("dead", "exit 3", 1), ("late", "sleep 0.3; exit 3", 1), ("old", "read line; exit 3", 2)]
    {
        let log = folder.path().join(name);
        let script = format!("echo started >> '{}'; {rest}", log.display());
        let error = Client::connect(Target::command("sh").args(["-c", &script])).await.unwrap_err();
        assert!(error.to_string().contains("exited with status 3"), "{name}: {error}");
        assert_eq!(std::fs::read_to_string(log).unwrap().lines().count(), starts, "{name}");
    }
}

#[tokio::test]
async fn a_server_that_dies_fails_every_call_at_once_and_says_why() {
    let client = legacy(&[]).await;
    let other = client.clone();
    let waiting = tokio::spawn(async move { other.call("hang", ()).await.unwrap_err() });
    tokio::task::yield_now().await;
    let error = client.call("die", ()).await.unwrap_err();
    let CallError::Closed(closed) = &error else { panic!("{error}") };
    assert_eq!(closed.what, "the server exited with status 3");
    assert_eq!(closed.stderr.as_deref(), Some("about to die"));
    assert!(waiting.await.unwrap().is_closed());
    assert!(client.call("echo", ()).await.unwrap_err().is_closed());
    assert_eq!(client.wait_closed().await.what, "the server exited with status 3");
}

/// covers: STDIO-05 STDIO-06
#[tokio::test]
async fn what_a_server_writes_to_stderr_is_passed_on_and_no_error() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    let mut command =
        Target::command("sh").arg("-c").arg("echo 'ERROR: all is well' >&2; exec \"$0\" \"$@\"");
    let server = scripted(&[]);
    command = command.arg(server.program).args(server.args);
    let builder = Client::builder().on_stderr(move |line| told.lock().unwrap().push(line.to_owned()));
    let client = builder.connect(command).await.unwrap();
    assert_eq!(parsed(&client, "seen", json!({})).await.as_array().unwrap().len(), 4);
    assert!(client.closed().is_none());
    let came = async {
        while heard.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), came).await.unwrap();
    assert_eq!(heard.lock().unwrap()[0], "ERROR: all is well");
}

/// covers: STDIO-19
#[tokio::test]
async fn a_server_outlives_the_thread_and_the_task_that_started_it() {
    let runtime = tokio::runtime::Handle::current();
    let started = tokio::task::spawn_blocking(move || {
        std::thread::spawn(move || runtime.block_on(legacy(&[]))).join().unwrap()
    });
    let client = started.await.unwrap();
    let other = client.clone();
    tokio::spawn(async move { other.call("seen", ()).await.unwrap() }).await.unwrap();
    assert_eq!(parsed(&client, "seen", json!({})).await[0], "initialize");
    client.close().await;
}

#[tokio::test]
async fn what_a_server_prints_on_stdout_is_skipped_counted_and_shown() {
    let client = Client::connect(scripted(&["noise"])).await.unwrap();
    assert_eq!(client.noise(), (2, Some("Welcome to the server!".into())));
    let closed = client.call("die", ()).await.unwrap_err().to_string();
    assert!(closed.contains("printed this on stdout: Welcome to the server!"), "{closed}");
}

#[tokio::test]
async fn a_silent_server_that_prints_other_text_is_told_to_log_elsewhere() {
    let quick = Client::builder().connect_timeout(Duration::from_millis(500)).era(Era::Legacy);
    let target = Target::command("sh").args(["-c", "echo 'Welcome to the server!'; exec sleep 60"]);
    let error = quick.connect(target).await.unwrap_err();
    assert!(error.what.contains("no response"), "{error}");
    assert_eq!(error.noise.as_deref(), Some("Welcome to the server!"));
    assert!(error.hint.as_ref().unwrap().contains("log to stderr"), "{error}");
}

/// Text that a server prints on stdout or stderr is shown to people and models.
#[tokio::test]
async fn what_a_server_was_told_is_not_shown_when_it_prints_it() {
    let target = scripted(&["indiscreet"]).env("TOKEN", "hunter2-hunter2");
    let client = Client::connect(target).await.unwrap();
    assert_eq!(client.noise(), (1, Some("signing in with [redacted]".into())));
}

/// The reader of one SDK gives up the connection at 10 MiB, that of another takes quadratic time.
#[tokio::test]
async fn large_answers_pass_and_too_large_ones_fail_alone() {
    let client = Client::builder()
        .era(Era::Legacy)
        .max_message_bytes(12 * 1024 * 1024)
        .connect(scripted(&[]))
        .await
        .unwrap();
    let bytes = 11 * 1024 * 1024;
    let large = client.call("large", json!({ "bytes": bytes })).await.unwrap();
    assert_eq!(large.all_text().len(), bytes);
    let other = client.clone();
    let slow = tokio::spawn(async move { other.call("slow", json!({ "steps": 1, "pause": 1.0 })).await });
    let error = client.call("large", json!({ "bytes": 2 * bytes })).await.unwrap_err();
    assert!(matches!(error, CallError::TooLarge { setting: "max_message_bytes", .. }), "{error}");
    assert_eq!(slow.await.unwrap().unwrap().all_text(), "done");
}

#[tokio::test]
async fn a_request_that_would_kill_the_connection_is_not_sent() {
    let client = legacy(&[]).await;
    let error = client.call("echo", json!({ "text": "x".repeat(11 * 1024 * 1024) })).await.unwrap_err();
    assert!(matches!(error, CallError::TooLarge { setting: "max_request_bytes", .. }), "{error}");
    let nine = "x".repeat(9 * 1024 * 1024);
    assert_eq!(client.call("echo", json!({ "text": nine })).await.unwrap().all_text().len(), nine.len());
}

fn answering() -> ClientBuilder {
    Client::builder()
        .roots(["file:///home/ada/project"])
        .sampling(|params| async move {
            if params.max_tokens == 0 {
                return Err(RpcError::new(-1, "user rejected sampling request").into());
            }
            Ok(CreateMessageResult::new("model", SamplingMessageContentBlock::text("42")))
        })
        .elicitation(|params| async move {
            assert_eq!(params.message(), "Who?");
            Ok(ElicitResult::accept(RawJson::empty_object()))
        })
}

/// covers: SAMP-01 SAMP-08 SAMP-22 ROOT-01 ROOT-05 ELIC-01 ELIC-05 ELIC-16 PING-02 ROOT-06
#[tokio::test]
async fn questions_of_an_older_server_are_answered() {
    let client = answering().era(Era::Legacy).connect(scripted(&[])).await.unwrap();
    let message = json!({ "role": "user", "content": { "type": "text", "text": "?" } });
    let form = json!({ "type": "object", "properties": {
        "name": { "type": "string", "default": "nobody" }, "age": { "type": "integer" } } });
    let questions = json!({ "questions": [
        { "method": "ping" },
        { "method": "roots/list" },
        { "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": 10 } },
        { "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": 0 } },
        { "method": "elicitation/create", "params": { "message": "Who?", "requestedSchema": form } },
        { "method": "mind/read" },
    ] });
    let answers = parsed(&client, "ask", questions.clone()).await;
    assert_eq!(answers[0], json!({}));
    assert_eq!(answers[1]["roots"][0]["uri"], "file:///home/ada/project");
    assert_eq!(answers[2]["content"], json!({ "type": "text", "text": "42" }));
    assert_eq!(answers[3]["error"]["code"], -1);
    assert_eq!(answers[4], json!({ "action": "accept", "content": { "name": "nobody" } }));
    assert_eq!(answers[5]["error"]["code"], -32601);
    // A client that can do none of it says so.
    let answers = parsed(&legacy(&[]).await, "ask", questions).await;
    for answer in &answers.as_array().unwrap()[1..] {
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
}

/// covers: ELIC-19 SAMP-30
#[tokio::test]
async fn questions_beyond_what_was_declared_are_refused() {
    let client = answering().era(Era::Legacy).connect(scripted(&[])).await.unwrap();
    let message = json!({ "role": "user", "content": { "type": "text", "text": "?" } });
    let tool = json!({ "name": "t", "inputSchema": { "type": "object" } });
    let questions = json!({ "questions": [
        { "method": "elicitation/create",
            "params": { "mode": "url", "message": "Who?", "url": "https://example.com/", "elicitationId": "e" } },
        { "method": "sampling/createMessage",
            "params": { "messages": [message], "maxTokens": 10, "tools": [tool] } },
    ] });
    let answers = parsed(&client, "ask", questions).await;
    for answer in answers.as_array().unwrap() {
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}

/// covers: ELIC-20
#[tokio::test]
async fn a_url_that_must_be_visited_first_is_and_the_call_made_again() {
    let client = answering().elicitation_urls().era(Era::Legacy).connect(scripted(&[])).await.unwrap();
    assert_eq!(client.call("needs url", ()).await.unwrap().all_text(), "welcome");
    let error = legacy(&[]).await.call("needs url", ()).await.unwrap_err();
    assert_eq!(error.rpc().unwrap().code, -32042);
}

/// covers: MRTR-06 MRTR-08
#[tokio::test]
async fn questions_inside_a_result_are_answered_and_the_call_goes_on() {
    let client = answering().revision(Revision::V2026_07_28).connect(scripted(&["modern"])).await.unwrap();
    let last = parsed(&client, "ask again and again", json!({ "rounds": 3 })).await;
    assert_eq!(last["state"], "3");
    assert_eq!(last["responses"], json!({ "who": { "action": "accept", "content": { "name": "nobody" } } }));
    let client = answering().max_input_rounds(2).connect(scripted(&["modern"])).await.unwrap();
    let error = client.call("ask again and again", json!({ "rounds": 3 })).await.unwrap_err();
    assert!(matches!(error, CallError::TooManyRounds(2)), "{error}");
    let error = modern().await.call("ask again and again", json!({ "rounds": 1 })).await.unwrap_err();
    assert!(matches!(error, CallError::NobodyAnswers(_)), "{error}");
}

/// covers: LOG-03 ROOT-03
#[tokio::test]
async fn levels_logs_and_changes_travel() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (logs, lists) = (Arc::clone(&heard), Arc::clone(&heard));
    let client = answering()
        .era(Era::Legacy)
        .on_log(move |message| logs.lock().unwrap().push(message.data.as_str().to_owned()))
        .on_list_changed(move |list| lists.lock().unwrap().push(format!("{list:?}")))
        .connect(scripted(&[]))
        .await
        .unwrap();
    client.set_log_level(hospes::model::LoggingLevel::Debug).await.unwrap();
    client.set_roots(["file:///elsewhere"]);
    client.ping().await.unwrap();
    let seen = parsed(&client, "seen", json!({})).await;
    assert_eq!(
        seen.as_array().unwrap()[2..5],
        [
            json!(["logging/setLevel", { "level": "debug" }]),
            json!("notifications/roots/list_changed"),
            json!("ping")
        ]
    );
    let notifications = json!({ "notifications": [
        ["notifications/message", { "level": "info", "data": "hello" }],
        ["notifications/tools/list_changed", null],
        ["notifications/unheard/of", { "a": 1 }],
    ] });
    client.call("announce", notifications).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["\"hello\"", "Tools"]);
}

/// Closing is quick and thorough, even with a server that ignores it and a helper that holds its pipes.
///
/// covers: STDIO-09 STDIO-10 STDIO-11
#[tokio::test]
async fn closing_leaves_nothing_behind() {
    for behaviours in [&["helper"][..], &["ignore end"], &["helper", "ignore end"]] {
        let client = legacy(behaviours).await;
        assert_eq!(client.call("echo", json!({ "text": "hi" })).await.unwrap().all_text(), "hi");
        let began = Instant::now();
        client.close().await;
        assert!(began.elapsed() < Duration::from_millis(2200), "{behaviours:?}: {:?}", began.elapsed());
        assert!(client.call("echo", ()).await.unwrap_err().is_closed());
    }
}

#[tokio::test]
async fn many_calls_at_once_get_their_own_answers() {
    let client = legacy(&[]).await;
    let calls = (0..200).map(|number| {
        let client = client.clone();
        async move {
            let text = format!("number {number}");
            assert_eq!(client.call("echo", json!({ "text": text })).await.unwrap().all_text(), text);
        }
    });
    futures::future::join_all(calls).await;
}

/// A server of 2026-07-28 in this task: `answer` says what follows each request.
async fn by_hand(answer: impl Fn(&Value) -> Vec<Value> + Send + 'static) -> Client {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (input, mut output) = tokio::io::split(theirs);
    tokio::spawn(async move {
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let asked: Value = serde_json::from_str(&line).unwrap();
            let said = match asked["method"].as_str() {
                Some("server/discover") => vec![json!({ "id": asked["id"], "result": {
                    "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                    "cacheScope": "private",
                    "capabilities": { "tools": { "listChanged": true }, "prompts": { "listChanged": true } } } })],
                _ => answer(&asked),
            };
            for mut message in said {
                message["jsonrpc"] = "2.0".into();
                output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            }
        }
    });
    let (read, write) = tokio::io::split(ours);
    Client::builder().revision(Revision::V2026_07_28).over(read, write).await.unwrap()
}

/// covers: STDIO-18
#[tokio::test]
async fn a_change_is_heard_by_the_listener_whose_subscription_it_names() {
    let first = Mutex::new(None);
    let client = by_hand(move |asked| {
        if asked["method"] != "subscriptions/listen" {
            return Vec::new();
        }
        let note = |method: &str, to: &Value| {
            json!({ "method": method, "params": { "notifications": asked["params"]["notifications"],
                "_meta": { "io.modelcontextprotocol/subscriptionId": to } } })
        };
        let acknowledged = note("notifications/subscriptions/acknowledged", &asked["id"]);
        let mut first = first.lock().unwrap();
        let Some(other) = first.as_ref() else {
            *first = Some(asked["id"].clone());
            return vec![acknowledged];
        };
        // For the first, for nobody, for the second.
        vec![
            acknowledged,
            note("notifications/prompts/list_changed", other),
            note("notifications/prompts/list_changed", &json!(4711)),
            note("notifications/tools/list_changed", &asked["id"]),
            note("notifications/tools/list_changed", other),
        ]
    })
    .await;
    let filter = || SubscriptionFilter::new().with_tools_list_changed(true).with_prompts_list_changed(true);
    let heard = tokio::time::timeout(Duration::from_secs(20), async {
        let mut one = client.listen(filter()).await.unwrap();
        let mut two = client.listen(filter()).await.unwrap();
        let heard = [two.next().await, one.next().await, one.next().await];
        (one, two, heard)
    });
    let (mut one, mut two, heard) = heard.await.expect("somebody else has heard it");
    let (tools, prompts) = (Notification::ToolsListChanged, Notification::PromptsListChanged);
    assert_eq!(heard, [Some(tools.clone()), Some(prompts), Some(tools)]);
    let more = tokio::time::timeout(Duration::from_millis(50), async {
        tokio::select! { more = one.next() => more, more = two.next() => more }
    });
    assert!(more.await.is_err(), "something was heard twice, or by somebody else");
}

/// covers: HHDR-31
#[tokio::test]
async fn without_headers_their_rules_mean_nothing() {
    let client = by_hand(|asked| {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "number", "x-mcp-header": "" } } });
        vec![json!({ "id": asked["id"], "result": { "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "tools": [{ "name": "odd", "inputSchema": schema }] } })]
    })
    .await;
    let tools = client.tools().all().await.unwrap();
    assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["odd"]);
}
