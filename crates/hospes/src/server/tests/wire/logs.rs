//! Log messages.

use super::*;

/// A request of 2026-07-28 that wants log messages of `level` and above.
fn logged(id: u32, name: &str, level: &str) -> Value {
    let meta = json!({ "io.modelcontextprotocol/logLevel": level });
    modern(id, "tools/call", json!({ "name": name, "_meta": meta }))
}

fn set_level(id: u32, level: &str) -> Value {
    request(id, "logging/setLevel", json!({ "level": level }))
}

fn logging() -> Server {
    Server::new("diary", "1")
        .tool("all", |ctx: Context| async move {
            for level in LoggingLevel::ALL {
                ctx.log(level, level.as_str());
            }
        })
        .tool("named", |ctx: Context| async move {
            ctx.log_as(Some("diary.pages"), LoggingLevel::Info, json!({ "page": 7, "of": "the diary" }));
            ctx.log(LoggingLevel::Info, "done");
        })
        .tool("secrets", |ctx: Context| async move {
            ctx.log(LoggingLevel::Error, "signed in with password=hunter2 as ann@example.com");
            ctx.log(LoggingLevel::Error, json!({ "request": { "Authorization": "Bearer abc", "n": 1 } }));
            ctx.log(LoggingLevel::Error, "paid with 4111 1111 1111 1111");
        })
        .tool("flood", |ctx: Context| async move {
            for n in 0..50 {
                ctx.log(LoggingLevel::Info, n);
            }
        })
        .tool("panics", |_: Context| async move {
            tracing::error!("the key is kept in /etc/keys");
            let reached = false;
            assert!(reached, "connect to db.internal:5432 with hunter2");
        })
}

fn levels(messages: &[Value]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| {
            assert_eq!(message["method"], "notifications/message", "{message}");
            message["params"]["level"].as_str().unwrap()
        })
        .collect()
}

/// The eight levels of RFC 5424, in its order, by session and by request.
///
/// covers: LOG-02 LOG-18
#[tokio::test]
async fn log_messages_of_the_level_asked_for_and_above_are_sent() {
    const ALL: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    for revision in OLDER {
        let mut peer = peer(&logging());
        peer.open(revision).await;
        for (at, level) in ALL.into_iter().enumerate() {
            assert_eq!(ask(&mut peer, set_level(1, level)).await["result"], json!({}));
            peer.send(tool(2, "all", json!({}))).await;
            assert_eq!(levels(&until_answer(&mut peer).await.0), ALL[at..], "{revision}");
        }
    }
    let mut peer = peer(&logging());
    for (at, level) in ALL.into_iter().enumerate() {
        peer.send(logged(1, "all", level)).await;
        assert_eq!(levels(&until_answer(&mut peer).await.0), ALL[at..]);
        // The next request did not ask for any, whatever the last one did.
        peer.send(modern(2, "tools/call", json!({ "name": "all" }))).await;
        assert_eq!(until_answer(&mut peer).await.0, Vec::<Value>::new());
    }
}

/// covers: LOG-07 LOG-19
#[tokio::test]
async fn a_level_that_is_none_is_refused() {
    for revision in OLDER {
        let mut peer = peer(&logging());
        peer.open(revision).await;
        for level in [json!("loud"), json!("INFO"), json!(""), json!(3), Value::Null] {
            let params = json!({ "level": level });
            assert_eq!(
                code(&ask(&mut peer, request(1, "logging/setLevel", params)).await),
                -32602,
                "{level}"
            );
        }
        assert_eq!(code(&ask(&mut peer, request(1, "logging/setLevel", json!({}))).await), -32602);
    }
    let mut peer = peer(&logging());
    for level in ["loud", "INFO", ""] {
        assert_eq!(code(&ask(&mut peer, logged(1, "all", level)).await), -32602, "{level:?}");
    }
}

/// covers: LOG-10 LOG-11
#[tokio::test]
async fn a_message_says_who_it_is_from_and_what_it_is_about() {
    let mut peer = peer(&logging());
    peer.open("2025-11-25").await;
    ask(&mut peer, set_level(1, "debug")).await;
    peer.send(tool(2, "named", json!({}))).await;
    let (messages, _) = until_answer(&mut peer).await;
    let data = json!({ "page": 7, "of": "the diary" });
    assert_eq!(messages[0]["params"], json!({ "level": "info", "logger": "diary.pages", "data": data }));
    // What names no logger is always the server's.
    assert_eq!(messages[1]["params"], json!({ "level": "info", "logger": "diary", "data": "done" }));
}

/// covers: LOG-12 LOG-14 LOG-15 LOG-17
#[tokio::test]
async fn log_messages_hold_no_secrets_and_nothing_about_persons() {
    let server = logging().redact_logs(|data| {
        if let Value::String(text) = data {
            *text = text.replace("signed in", "[hidden]");
        }
    });
    let mut peer = peer(&server);
    peer.send(logged(1, "secrets", "debug")).await;
    let (messages, _) = until_answer(&mut peer).await;
    let data: Vec<&Value> = messages.iter().map(|message| &message["params"]["data"]).collect();
    assert_eq!(
        data,
        [
            &json!("[hidden] with password=[redacted] as [redacted]"),
            &json!({ "request": { "Authorization": "[redacted]", "n": 1 } }),
            &json!("paid with [redacted]"),
        ]
    );
}

/// Messages in the program's log and internal errors do not reach the client.
///
/// covers: LOG-16
#[tokio::test]
async fn nothing_of_the_inside_is_said_outside() {
    let mut peer = peer(&logging());
    peer.send(logged(1, "panics", "debug")).await;
    let (messages, answer) = until_answer(&mut peer).await;
    assert_eq!(messages, Vec::<Value>::new());
    assert_eq!(answer["error"], json!({ "code": -32603, "message": "the handler panicked" }));
}

/// covers: LOG-09 LOG-17
#[tokio::test(start_paused = true)]
async fn log_messages_beyond_the_rate_are_left_out_and_counted() {
    let server = logging().log_rate(Rate::per_second(10).burst(5));
    let mut peer = peer(&server);
    peer.open("2025-11-25").await;
    ask(&mut peer, set_level(1, "debug")).await;
    peer.send(tool(2, "flood", json!({}))).await;
    let data = |messages: &[Value]| -> Vec<Value> {
        messages.iter().map(|message| message["params"]["data"].clone()).collect()
    };
    assert_eq!(data(&until_answer(&mut peer).await.0), [0, 1, 2, 3, 4]);
    tokio::time::advance(std::time::Duration::from_millis(150)).await;
    peer.send(tool(3, "flood", json!({}))).await;
    let (messages, _) = until_answer(&mut peer).await;
    let why = "45 log messages were dropped: the limit is 10 a second (setting log_rate)";
    assert_eq!(data(&messages), [json!(why), json!(0)]);
    assert_eq!(messages[0]["params"]["level"], "warning");
}
