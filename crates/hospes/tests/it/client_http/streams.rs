//! Answers that stream, and streams that break.

use super::*;

/// The caller decides about a retry, because the server may have executed the request.
///
/// covers: HTTP-43
#[tokio::test]
async fn a_request_lost_with_its_stream_is_asked_anew_under_another_id() {
    let lost = AtomicUsize::new(0);
    let fake = Fake::serve(modern(move |asked| match lost.fetch_add(1, Ordering::Relaxed) {
        0 => Said::stream(vec![Step::Text("id: 1-1\nretry: 1\ndata:\n\n".into()), Step::Cut]),
        1 => Said::stream(vec![]),
        _ => Said::json(&text(asked, "hi")),
    }))
    .await;
    let client = newer(&fake).await;
    for sent in 1..=2 {
        let error = client.call("echo", ()).await.unwrap_err();
        assert!(error.to_string().contains("ended before the response"), "{error}");
        let calls = fake.asked().iter().filter(|asked| asked.method() == "tools/call").count();
        assert_eq!(calls, sent, "nothing is sent again by itself");
    }
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "hi");
    let asked = fake.asked();
    let calls: Vec<_> = asked.iter().filter(|asked| asked.method() == "tools/call").collect();
    let ids: std::collections::HashSet<_> = calls.iter().map(|call| call.body["id"].to_string()).collect();
    assert_eq!((calls.len(), ids.len()), (3, 3));
    // Nothing is resumed: there is no GET, and no cursor.
    assert!(asked.iter().all(|asked| asked.verb != "GET" && asked.header("last-event-id").is_none()));
}

/// covers: HTTP-17 HTTP-41 MSG-11
#[tokio::test]
async fn a_streamed_answer_is_found_behind_whatever_precedes_it() {
    let fake = Fake::serve(legacy(|asked| {
        let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "x" } });
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": asked.body["params"]["_meta"]["progressToken"], "progress": 1 } });
        let other = json!({ "jsonrpc": "2.0", "id": 9999, "result": {} });
        let answer = format!("event: message\r\nid: 7\r\ndata: {}\r\n\r\n", text(asked, "streamed"));
        let (one, two) = answer.split_at(30);
        Said::stream(vec![
            Step::Text(": hello\n\n".into()),
            event(&log),
            event(&progress),
            event(&other),
            Step::Text("data: not json\n\n".into()),
            Step::Text("event: endpoint\ndata: /elsewhere\n\n".into()),
            Step::Text(one.into()),
            Step::Text(two.into()),
        ])
    }))
    .await;
    let client = older(&fake).await;
    let mut reports = 0;
    let call = client.call("echo", ()).on_progress(|_| reports += 1);
    assert_eq!(call.await.unwrap().all_text(), "streamed");
    assert_eq!(reports, 1);
    // The stream has ended, so its connection is used again.
    client.call("echo", ()).await.unwrap();
    assert!(fake.asked().iter().all(|asked| asked.connection == 0));
}

/// covers: HRES-05 HRES-06 HTTP-37 HTTP-38
#[tokio::test]
async fn a_stream_that_breaks_off_is_taken_up_where_it_stopped() {
    let fake = Fake::serve(legacy(|asked| match asked.verb.as_str() {
        "POST" => Said::stream(vec![Step::Text("id: a-1\nretry: 200\ndata: \n\n".into()), Step::Cut]),
        _ if asked.header("last-event-id") == Some("a-1") => {
            Said::stream(vec![Step::Text("id: a-2\ndata:\n\n".into())])
        }
        _ => {
            let answer = json!({ "jsonrpc": "2.0", "id": 2,
                "result": { "content": [{ "type": "text", "text": "at last" }] } });
            Said::stream(vec![event(&answer)])
        }
    }))
    .await;
    let client = older(&fake).await;
    let began = Instant::now();
    assert_eq!(client.call("echo", ()).await.unwrap().all_text(), "at last");
    assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    let resumed: Vec<_> = fake
        .asked()
        .into_iter()
        .filter_map(|asked| asked.header("last-event-id").map(str::to_owned))
        .collect();
    assert_eq!(resumed, ["a-1", "a-2"]);
    assert_eq!(fake.asked().iter().filter(|asked| asked.method() == "tools/call").count(), 1);
}

#[tokio::test]
async fn a_stream_that_cannot_be_taken_up_fails_its_call() {
    let fake = Fake::serve(legacy(|asked| match (asked.verb.as_str(), asked.tool()) {
        ("POST", "marked") => {
            Said::stream(vec![Step::Text("id: a-1\nretry: 10\ndata: \n\n".into()), Step::Cut])
        }
        ("POST", _) => Said::stream(vec![Step::Text(": hello\n\n".into()), Step::Cut]),
        _ => Said::status(400),
    }))
    .await;
    let client = older(&fake).await;
    let error = client.call("marked", ()).await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    let error = client.call("unmarked", ()).await.unwrap_err();
    assert!(error.to_string().contains("ended before the response"), "{error}");
}

/// A flood of comments left neither the call nor the runtime time to look at a clock.
#[tokio::test]
async fn a_server_that_talks_without_saying_anything_is_late_too() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let discovered = json!({ "jsonrpc": "2.0", "id": 1, "result": { "resultType": "complete", "ttlMs": 0,
            "cacheScope": "private", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } } });
        for flood in [false, true] {
            let (mut length, mut line) = (0, String::new());
            while stream.read_line(&mut line).unwrap() > 2 {
                let (name, value) = line.split_once(':').unwrap_or_default();
                if name.eq_ignore_ascii_case("content-length") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let asked: Value = serde_json::from_slice(&body).unwrap();
            let mut answer = discovered.clone();
            answer["id"] = asked["id"].clone();
            let (kind, length) = if flood {
                ("text/event-stream", usize::MAX >> 1)
            } else {
                ("application/json", answer.to_string().len())
            };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
            stream.get_mut().write_all(head.as_bytes()).unwrap();
            if !flood {
                stream.get_mut().write_all(answer.to_string().as_bytes()).unwrap();
            }
        }
        let comments = ": x\n".repeat(16 * 1024);
        while stream.get_mut().write_all(comments.as_bytes()).is_ok() {}
    });
    let builder = Client::builder().revision(Revision::V2026_07_28);
    let client = builder.connect(Target::url(url)).await.unwrap();
    let began = Instant::now();
    let error = client.call("x", ()).timeout(Duration::from_millis(200)).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout { limit: TimeLimit::Timeout, .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// covers: SUBS-09
#[tokio::test]
async fn a_stream_of_changes_that_breaks_is_opened_again() {
    let capabilities = json!({ "tools": { "listChanged": true } });
    let breaks = AtomicUsize::new(0);
    let fake = Fake::serve(move |asked| match asked.method() {
        "server/discover" => Said::json(&result(
            asked,
            &json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                "ttlMs": 0, "cacheScope": "private" }),
        )),
        "subscriptions/listen" => {
            let meta = json!({ "io.modelcontextprotocol/subscriptionId": asked.body["id"] });
            let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": { "_meta": meta } });
            let end = if breaks.fetch_add(1, Ordering::Relaxed) < 2 { Step::Cut } else { Step::Hang };
            Said::stream(vec![event(&changed), end])
        }
        other => panic!("{other}"),
    })
    .await;
    let (told, mut heard) = tokio::sync::mpsc::channel(8);
    let client = Client::builder()
        .revision(Revision::V2026_07_28)
        .on_list_changed(move |_| told.try_send(()).unwrap())
        .connect(&fake.url)
        .await
        .unwrap();
    for _ in 0..3 {
        heard.recv().await.unwrap();
    }
    let listens = fake.wait(3, |asked| asked.method() == "subscriptions/listen").await;
    assert_ne!(listens[0].body["id"], listens[1].body["id"]);
    drop(client);
}
