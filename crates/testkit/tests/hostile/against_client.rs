//! Hostile servers against the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hospes::client::{CallError, Client, ClientBuilder, Target};
use hospes::model::{CreateMessageResult, Era, SamplingMessageContentBlock};
use hospes::serde_json;
use hospes::transport::memory;
use hospes_testkit::resident;
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::net::TcpListener;

use super::*;

/// The server's end of a connection.
struct Bad {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
}

impl Bad {
    async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        soon("writing", async {
            self.write.write_all(bytes.as_ref()).await.unwrap();
            self.write.write_all(b"\n").await.unwrap();
        })
        .await;
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        soon("reading", self.read.read_line(&mut line)).await.unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"))
    }

    /// The id of the next call of a tool, whatever else comes before it.
    async fn call(&mut self) -> Value {
        loop {
            let message = self.hear().await;
            if message["method"] == "tools/call" {
                return message["id"].clone();
            }
        }
    }

    async fn answer(&mut self, id: &Value) {
        let result = json!({"content": [{"type": "text", "text": "fine"}]});
        self.say(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()).await;
    }
}

/// A client that has opened a session with a bad server.
async fn connected(client: ClientBuilder) -> (Client, Bad) {
    let (ours, theirs) = memory::pair();
    let (read, write) = tokio::io::split(theirs);
    let mut bad = Bad { read: BufReader::new(read), write };
    let (read, write) = tokio::io::split(ours);
    let open = async {
        let hello = bad.hear().await;
        let result = json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "bad", "version": "1"},
                            "capabilities": {"tools": {"listChanged": true}, "logging": {}}});
        bad.say(json!({"jsonrpc": "2.0", "id": hello["id"], "result": result}).to_string()).await;
        assert_eq!(bad.hear().await["method"], "notifications/initialized");
    };
    // Boxed: the builder is large, and every test would carry it.
    let client = Box::pin(client.era(Era::Legacy).over(read, write));
    let (client, ()) = soon("a connection", async { tokio::join!(client, open) }).await;
    (client.unwrap(), bad)
}

/// One call, while the server does something; it must come to its answer all the same.
async fn call_through(client: &Client, bad: &mut Bad, then: impl AsyncFnOnce(&mut Bad, &Value)) {
    let call = async { client.call("any", ()).await };
    let serve = async {
        let id = bad.call().await;
        then(bad, &id).await;
        bad.answer(&id).await;
    };
    let (answer, ()) = soon("an answer", async { tokio::join!(call, serve) }).await;
    assert_eq!(answer.unwrap().all_text(), "fine");
}

#[tokio::test]
async fn rubbish_and_answers_to_nothing_disturb_no_call() {
    let (client, mut bad) = connected(Client::builder()).await;
    for line in rubbish() {
        // An answer with the right id is the answer, however wrong it is.
        if String::from_utf8_lossy(&line).contains("\"id\":1,") {
            continue;
        }
        call_through(&client, &mut bad, async |bad, _| bad.say(&line).await).await;
    }
    // Twice the same answer.
    call_through(&client, &mut bad, async |bad, id| {
        for id in [json!(0), json!(-1), json!(i64::MAX), json!("1"), json!(id.as_i64().unwrap() - 1)] {
            bad.answer(&id).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_wrong_answer_fails_its_call_and_no_other() {
    let (client, mut bad) = connected(Client::builder()).await;
    let deep = deep();
    let mut results: Vec<String> = [
        "\"result\":7",
        "\"result\":null",
        "\"result\":[]",
        "\"result\":{\"content\":7}",
        "\"error\":7",
        "\"error\":{}",
        "\"error\":{\"code\":\"x\",\"message\":1}",
        "\"result\":{},\"error\":{}",
        "\"result\":{\"resultType\":\"strange\"}",
        "\"result\":{\"content\":[{\"type\":\"hologram\"}]}",
        "\"result\":{\"content\":[{\"type\":\"text\"}]}",
    ]
    .map(str::to_owned)
    .to_vec();
    results.extend(deep[..2].iter().map(|deep| format!("\"result\":{deep}")));
    results.extend(deep[..2].iter().map(|deep| format!("\"result\":{{\"content\":{deep}}}")));
    results.extend(
        deep[..2].iter().map(|deep| format!("\"error\":{{\"code\":1,\"message\":\"m\",\"data\":{deep}}}")),
    );
    for result in results {
        let call = client.call("any", ()).timeout(Duration::from_secs(20));
        let serve = async {
            let id = bad.call().await;
            bad.say(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{result}}}")).await;
        };
        let (answer, ()) = soon("an answer", async { tokio::join!(call, serve) }).await;
        if let Err(error) = answer {
            assert!(
                !matches!(error, CallError::Timeout { .. }),
                "{}: {error}",
                &result[..result.len().min(80)]
            );
            assert!(!error.is_closed(), "{error}");
        }
        call_through(&client, &mut bad, async |_, _| {}).await;
    }
}

#[tokio::test]
async fn a_line_without_end_takes_no_memory_and_fails_its_call_by_the_limits_name() {
    let (client, mut bad) = connected(Client::builder().max_message_bytes(MIB as usize)).await;
    let before = resident();
    let call = client.call("any", ()).timeout(Duration::from_secs(60));
    let serve = async {
        let id = bad.call().await;
        bad.write
            .write_all(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"x\":\"").as_bytes())
            .await
            .unwrap();
        let piece = vec![b'x'; MIB as usize];
        let mut sent = 0;
        while sent < 200 && soon("writing", bad.write.write_all(&piece)).await.is_ok() {
            sent += 1;
        }
        assert!(sent < 200, "it is read without end");
        let grown = resident().saturating_sub(before);
        assert!(grown < 32 * MIB, "grew by {grown} bytes");
    };
    let (answer, ()) = tokio::join!(call, serve);
    let error = answer.unwrap_err();
    assert!(error.to_string().contains("max_message_bytes"), "{error}");
}

#[tokio::test]
async fn floods_of_notifications_cost_a_bounded_amount() {
    let heard = Arc::new(AtomicUsize::new(0));
    let (logs, lists) = (Arc::clone(&heard), Arc::clone(&heard));
    let client = Client::builder()
        .on_log(move |_| _ = logs.fetch_add(1, Ordering::Relaxed))
        .on_list_changed(move |_| _ = lists.fetch_add(1, Ordering::Relaxed));
    let (client, mut bad) = connected(client).await;
    let before = resident();
    call_through(&client, &mut bad, async |bad, id| {
        for number in 0..5_000 {
            let token = [id.clone(), json!("stranger")][number % 2].clone();
            for (method, params) in [
                (
                    "notifications/progress",
                    json!({"progressToken": token, "progress": number, "message": "x".repeat(200)}),
                ),
                ("notifications/message", json!({"level": "error", "data": "x".repeat(200)})),
                ("notifications/tools/list_changed", json!({})),
                ("notifications/resources/updated", json!({"uri": format!("x:{number}")})),
                ("notifications/cancelled", json!({"requestId": number})),
            ] {
                bad.say(json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
            }
        }
    })
    .await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 * MIB, "grew by {grown} bytes");
    assert!(heard.load(Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn questions_without_end_are_refused_by_the_limits_name() {
    let client = Client::builder().max_server_requests(8).sampling(|_| async {
        std::future::pending::<()>().await;
        Ok(CreateMessageResult::new("m", SamplingMessageContentBlock::text("never")))
    });
    let (client, mut bad) = connected(client).await;
    let before = resident();
    call_through(&client, &mut bad, async |bad, _| {
        let mut refused = 0;
        for number in 0..5_000 {
            let params = json!({"messages": [], "maxTokens": 1});
            bad.say(request(format!("q{number}"), "sampling/createMessage", params)).await;
            if number >= 8 {
                let refusal = bad.hear().await;
                let why =
                    refusal["error"]["message"].as_str().unwrap_or_else(|| panic!("{refusal}")).to_owned();
                assert!(why.contains("max_server_requests"), "{why}");
                refused += 1;
            }
        }
        assert_eq!(refused, 4_992);
    })
    .await;
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 * MIB, "grew by {grown} bytes");
}

#[tokio::test]
async fn half_a_message_and_the_end_fail_what_waits() {
    let (client, mut bad) = connected(Client::builder()).await;
    let call = client.call("any", ());
    let serve = async {
        let id = bad.call().await;
        bad.write.write_all(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"res").as_bytes()).await.unwrap();
        drop(bad);
    };
    let (answer, ()) = soon("the end", async { tokio::join!(call, serve) }).await;
    assert!(answer.unwrap_err().is_closed());
}

/// Servers that are something else, or nothing, fail to connect, soon and with a reason.
#[tokio::test]
async fn what_is_no_server_is_found_out() {
    let before = resident();
    let endless = "x".repeat(MIB as usize);
    for said in [
        "SSH-2.0-OpenSSH_9.9\r\n",
        "\0\0\0\n",
        "[]\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
        &endless,
    ] {
        let (ours, theirs) = memory::pair();
        let (read, write) = tokio::io::split(ours);
        let client =
            Client::builder().connect_timeout(Duration::from_secs(2)).max_message_bytes(MIB as usize);
        let flood = async {
            let (_read, mut write) = tokio::io::split(theirs);
            loop {
                if write.write_all(said.as_bytes()).await.is_err() {
                    std::future::pending::<()>().await;
                }
                tokio::task::yield_now().await;
            }
        };
        let connect = soon("a failure", client.over(read, write));
        tokio::select! {
            connected = connect => drop(connected.unwrap_err()),
            () = flood => {}
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 * MIB, "grew by {grown} bytes");
}

/// Starts an HTTP server that sends `first` after the head of each request, and then keeps sending `more`.
async fn http(first: &'static str, more: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = vec![0; 64 * 1024];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(first.as_bytes()).await;
                let more = more.repeat(more.len().max(64 * 1024) / more.len().max(1));
                while !more.is_empty() && stream.write_all(more.as_bytes()).await.is_ok() {}
                std::future::pending::<()>().await;
            });
        }
    });
    format!("http://{address}/mcp")
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

#[tokio::test]
async fn http_answers_without_end_take_no_memory() {
    let before = resident();
    for (first, more) in [
        // An event, a field's name, comments, and events that are no messages, none of which ends.
        ("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ", "x"),
        ("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nid: ", "x"),
        (STREAM, "x"),
        (STREAM, ": comment\n\n"),
        (STREAM, "data: {}\n\n"),
        (STREAM, "data: x\n"),
        (STREAM, "id: 1\u{0}\nretry: 99999999999999999999\n\n"),
        // JSON, and an error's text.
        ("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"x\":\"", "x"),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n{\"x\":\"",
            "x",
        ),
        ("HTTP/1.1 500 No\r\ncontent-type: text/plain\r\n\r\n", "x"),
        // A head.
        ("HTTP/1.1 200 OK\r\nx: ", "x"),
        ("HTTP/1.1 200 OK\r\n", "x: y\r\n"),
        ("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("\0\0\0", "\0"),
    ] {
        let url = http(first, more).await;
        let client =
            Client::builder().connect_timeout(Duration::from_millis(500)).max_message_bytes(MIB as usize);
        let error = soon(first, client.connect(Target::url(url))).await.unwrap_err();
        assert!(!error.to_string().is_empty());
        let grown = resident().saturating_sub(before);
        assert!(grown < 96 * MIB, "{first:?} {more:?}: grew by {grown} bytes");
    }
}

#[tokio::test]
async fn an_http_answer_over_the_limit_names_it() {
    for first in [
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n{",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"",
    ] {
        let url = http(first, "xxxxxxxx").await;
        let client =
            Client::builder().connect_timeout(Duration::from_secs(5)).max_message_bytes(MIB as usize);
        let error = soon(first, client.connect(Target::url(url))).await.unwrap_err();
        let said = format!("{error:?} {error}");
        assert!(said.contains("max_message_bytes") || said.contains("no answer within"), "{first}: {said}");
    }
}
