//! Soak tests: sessions that are opened and abandoned, and processes that are started and ended, thousands of times.
//! Memory, tasks, descriptors and children must return to their initial numbers. `cargo xtask soak` runs the long form.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use std::time::Duration;

use bytes::Bytes;
use hospes::client::{Client, Target};
use hospes::model::Revision;
use hospes::serde_json::{Value, json};
use hospes::transport::http_server::Endpoint;
use hospes_testkit::{ProcessUsage, transport};
use http_body_util::{BodyExt as _, Full};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Default number of sessions.
const SESSIONS: usize = 10_000;
/// Default number of child processes.
const CYCLES: usize = 50;

fn count(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

fn say(what: &str, usage: ProcessUsage) {
    let ProcessUsage { resident, descriptors, threads, children, .. } = usage;
    let tasks = tasks();
    eprintln!(
        "{what:<30} {:>7.1} MiB {tasks:>6} tasks {descriptors:>4} descriptors {threads:>3} threads {children:>3} children",
        resident as f64 / MIB as f64
    );
}

async fn ask(
    endpoint: &Endpoint,
    session: Option<&str>,
    body: Value,
) -> http::Response<hospes::transport::http_server::Body> {
    let mut request = http::Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    endpoint.handle(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await
}

/// A session as clients leave it: opened, used, never ended; some with their own stream, some with a subscription, some
/// in the middle of a call or of a question.
async fn open_and_leave(endpoint: &Endpoint, number: usize) {
    let revision = [Revision::V2025_03_26, Revision::V2025_06_18, Revision::V2025_11_25][number % 3];
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": revision.as_str(), "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "leaver", "version": "1"},
    }});
    let answer = ask(endpoint, None, hello).await;
    let session = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let session = session.as_str();
    answer.into_body().collect().await.unwrap();
    ask(endpoint, Some(session), json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    let call = |name: &str, arguments: Value| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}});
    let echo = ask(endpoint, Some(session), call("echo", json!({"text": "hello"}))).await;
    assert!(String::from_utf8_lossy(&echo.into_body().collect().await.unwrap().to_bytes()).contains("hello"));
    match number % 10 {
        0 => {
            let stream = http::Request::get("/mcp")
                .header("host", "localhost")
                .header("accept", "text/event-stream")
                .header("mcp-session-id", session);
            drop(endpoint.handle(stream.body(Full::<Bytes>::default()).unwrap()).await);
        }
        1 if revision >= Revision::V2025_06_18 => {
            let mut asked = ask(endpoint, Some(session), call("ask", json!({"text": "it"}))).await;
            asked.body_mut().frame().await.unwrap().unwrap();
        }
        2 => {
            let mut counting = ask(
                endpoint,
                Some(session),
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "count", "arguments": {"count": 5}, "_meta": {"progressToken": 1}}}),
            )
            .await;
            counting.body_mut().frame().await.unwrap().unwrap();
        }
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_that_are_left_leave_nothing_behind() {
    let sessions = count("HOSPES_SOAK_SESSIONS", SESSIONS);
    let endpoint = Endpoint::builder(transport::server()).max_sessions(sessions + 1).build();
    let round = async |sessions: usize| {
        for number in 0..sessions {
            open_and_leave(&endpoint, number).await;
        }
        let open = ProcessUsage::now();
        assert_eq!(endpoint.sessions(), sessions, "all are open at once");
        // Questions and idle sessions run out of time.
        while endpoint.sessions() > 0 {
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
        tokio::time::sleep(Duration::from_secs(7200)).await;
        (open, ProcessUsage::now())
    };
    round(100).await;
    let (Some(before), tasks_before) = (ProcessUsage::now(), tasks()) else { return };
    say("before", before);
    let (open, after) = round(sessions).await;
    let (open, after) = (open.unwrap(), after.unwrap());
    say(&format!("{sessions} sessions open"), open);
    say("after they were left", after);
    let again = round(sessions).await.1.unwrap();
    say("after as many again", again);
    assert!(tasks() <= tasks_before, "{} tasks, and {tasks_before} before", tasks());
    assert_eq!(again.descriptors, before.descriptors);
    // The allocator keeps the pages for as long as one at their end is in use, and fills them again: what was in them
    // is gone if as many sessions again need no more of them.
    let used = open.resident.saturating_sub(before.resident);
    let grown = again.resident.saturating_sub(after.resident);
    eprintln!("{} bytes a session; {} KiB more the second time", used / sessions as u64, grown / KIB);
    assert!(grown < used / 10 + 4 * MIB, "another {grown} bytes were kept");
}

#[tokio::test]
async fn children_that_come_and_go_leave_nothing_behind() {
    let cycles = count("HOSPES_SOAK_CYCLES", CYCLES);
    let cycle = async |number: usize| {
        let revision = Revision::ALL[number % Revision::ALL.len()];
        let target = Target::command(env!("CARGO_BIN_EXE_hospes-suite-server"));
        let client = Client::builder().revision(revision).connect(target).await.unwrap();
        let answer = client.call("echo", json!({"text": "hello"})).await.unwrap();
        assert_eq!(answer.all_text(), "hello");
        match number % 3 {
            0 => drop(client),
            1 => {
                // In the middle of a call.
                let _ = tokio::time::timeout(Duration::from_millis(5), client.call("hang", ())).await;
                drop(client);
            }
            _ => client.close().await,
        }
    };
    let quiet = async |descriptors: usize| {
        let wait = async {
            loop {
                let usage = ProcessUsage::now().unwrap();
                if usage.children == 0 && usage.descriptors <= descriptors && tasks() == 0 {
                    return usage;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        match tokio::time::timeout(Duration::from_secs(60), wait).await {
            Ok(usage) => usage,
            Err(_) => {
                panic!("{:?} and {} tasks; {descriptors} descriptors before", ProcessUsage::now(), tasks())
            }
        }
    };
    let Some(start) = ProcessUsage::now() else { return };
    for number in 0..6 {
        cycle(number).await;
    }
    // What the first child brings for good, the handling of signals, is not counted.
    let before = quiet(start.descriptors + 4).await;
    say("before", before);
    for number in 0..cycles {
        cycle(number).await;
    }
    let after = quiet(before.descriptors).await;
    say(&format!("after {cycles} children"), after);
    assert!(after.threads <= before.threads.max(start.threads + 1), "{after:?}, {before:?} before");
    let grown = after.resident.saturating_sub(before.resident);
    assert!(grown < 6 * MIB, "another {grown} bytes were kept");
}
