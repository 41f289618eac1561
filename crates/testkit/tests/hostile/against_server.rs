//! Hostile clients against the server of one connection (stdio and whatever else carries bytes).

use hospes::transport::memory;
use hospes::transport::stdio_server::StdioServer;
use hospes_testkit::resident;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::*;

struct Hand {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
}

impl Hand {
    fn at(server: StdioServer) -> Self {
        let (read, write) = tokio::io::split(memory::serve_with(server));
        Self { read: BufReader::new(read), write }
    }

    async fn opened(server: StdioServer, revision: &str) -> Self {
        let mut hand = Self::at(server);
        hand.say(initialize(revision)).await;
        assert_eq!(hand.hear().await["result"]["protocolVersion"], revision);
        hand.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        hand
    }

    async fn say(&mut self, line: impl AsRef<[u8]>) {
        soon("writing", async {
            self.write.write_all(line.as_ref()).await.unwrap();
            self.write.write_all(b"\n").await.unwrap();
        })
        .await;
    }

    async fn hear(&mut self) -> Value {
        let mut line = String::new();
        let bytes = soon("reading", self.read.read_line(&mut line)).await.unwrap();
        assert!(bytes > 0, "the server has closed the connection");
        hospes::serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"))
    }

    /// Returns the messages sent so far. The answer to a ping marks their end.
    async fn heard(&mut self) -> Vec<Value> {
        self.say(request("marker", "ping", json!({}))).await;
        let mut all = Vec::new();
        loop {
            let message = self.hear().await;
            if message["id"] == "marker" {
                return all;
            }
            all.push(message);
        }
    }
}

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[tokio::test]
async fn rubbish_is_answered_at_most_once_and_the_connection_goes_on() {
    for revision in REVISIONS {
        let mut hand = Hand::opened(StdioServer::new(server()), revision).await;
        for line in rubbish() {
            hand.say(&line).await;
            let heard = hand.heard().await;
            let line = String::from_utf8_lossy(&line);
            assert!(heard.len() <= 1, "{revision}: {line}: {heard:?}");
            for answer in heard {
                assert!(answer.get("method").is_none(), "{revision}: {line}: {answer}");
            }
        }
    }
    // The same before a session is opened.
    let mut hand = Hand::at(StdioServer::new(server()));
    for line in rubbish() {
        hand.say(&line).await;
        assert!(hand.heard().await.len() <= 1, "{}", String::from_utf8_lossy(&line));
    }
}

#[tokio::test]
async fn what_is_nested_deeply_overflows_nothing() {
    let mut hand = Hand::opened(StdioServer::new(server()), "2025-03-26").await;
    for deep in deep() {
        let wrapped = [
            deep.clone(),
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{deep},\"method\":\"ping\"}}"),
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{deep}}}"),
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{{\"code\":1,\"message\":\"m\",\"data\":{deep}}}}}"
            ),
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{{\"x\":{deep}}}}}"),
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"echo\",\"arguments\":{{\"text\":{deep}}}}}}}"
            ),
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"raw\",\"arguments\":{{\"x\":{deep}}}}}}}"
            ),
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"raw\",\"_meta\":{deep}}}}}"
            ),
            format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":{deep}}}}}"
            ),
            format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{deep}}}}}"
            ),
            format!("[{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{{\"x\":{deep}}}}}]"),
        ];
        for line in wrapped {
            hand.say(&line).await;
            assert!(hand.heard().await.len() <= 1, "{}…", &line[..100]);
        }
        // The answer to a question.
        hand.say(call(5, "ask", json!({}))).await;
        let mut heard = hand.heard().await;
        while heard.is_empty() {
            heard = hand.heard().await;
        }
        if let Some(question) = heard.iter().find(|message| message["method"] == "elicitation/create") {
            let id = &question["id"];
            hand.say(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"action\":\"accept\",\"content\":{deep}}}}}"
            ))
            .await;
        }
    }
    hand.say(call(9, "echo", json!({"text": "alive"}))).await;
    while hand.hear().await["id"] != 9 {}
}

#[tokio::test]
async fn a_line_without_end_takes_no_memory_and_is_refused_by_the_limits_name() {
    let mut hand =
        Hand::opened(StdioServer::new(server()).max_message_bytes(MIB as usize), "2025-11-25").await;
    let before = resident();
    hand.write
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":\"")
        .await
        .unwrap();
    let piece = vec![b'x'; MIB as usize];
    let mut sent = 0;
    while sent < 200 && soon("writing", hand.write.write_all(&piece)).await.is_ok() {
        sent += 1;
    }
    assert!(sent < 200, "it is read without end");
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 * MIB, "grew by {grown} bytes");
    let refused = hand.hear().await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("max_message_bytes"), "{refused}");
}

#[tokio::test]
async fn a_batch_of_many_is_refused_by_the_limits_name() {
    let batch = format!("[{}]", vec![request(1, "ping", json!({})); 100_000].join(","));
    let mut hand = Hand::opened(StdioServer::new(server()), "2025-03-26").await;
    hand.say(&batch).await;
    let heard = hand.heard().await;
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0]["error"]["message"].as_str().unwrap().contains("max_batch"), "{heard:?}");
    // Many small things: what is beyond the limit is not kept.
    let before = resident();
    hand.say(format!("[{}1]", "1,".repeat(8 * MIB as usize))).await;
    assert_eq!(hand.heard().await.len(), 1);
    let grown = resident().saturating_sub(before);
    assert!(grown < 96 * MIB, "grew by {grown} bytes");
    for revision in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut hand = Hand::opened(StdioServer::new(server()), revision).await;
        hand.say(&batch).await;
        assert_eq!(hand.heard().await.len(), 1, "{revision}");
    }
}

/// Requests beyond what may run wait, what may not wait is refused, and both limits are named.
#[tokio::test]
async fn a_flood_of_requests_is_bounded_and_refused_by_the_limits_name() {
    let limited = StdioServer::new(server()).max_concurrent_calls(100).max_queued_bytes(100_000);
    let mut hand = Hand::opened(limited, "2025-11-25").await;
    let before = resident();
    let (mut refused, mut last) = (0, Value::Null);
    for id in 1..20_000 {
        hand.say(call(id, "forever", json!({}))).await;
        if id % 100 == 0 {
            for answer in hand.heard().await {
                refused += 1;
                last = answer;
            }
        }
    }
    let why = last["error"]["message"].as_str().unwrap();
    assert!(why.contains("max_concurrent_calls") && why.contains("max_queued_bytes"), "{why}");
    assert!(refused > 15_000, "{refused}");
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 * MIB, "grew by {grown} bytes");
    // What needs no turn of its own is answered all the same.
    hand.heard().await;
    assert!(hand.heard().await.is_empty());
}

#[tokio::test]
async fn floods_of_what_needs_no_answer_leave_nothing_behind() {
    let mut hand = Hand::opened(StdioServer::new(server()), "2025-11-25").await;
    hand.heard().await;
    let before = resident();
    for id in 0..5_000_u32 {
        for line in [
            json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            json!({"jsonrpc": "2.0", "id": format!("q{id}"), "error": {"code": 1, "message": "m"}}),
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}),
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": id, "progress": id}}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
        ] {
            hand.say(line.to_string()).await;
        }
    }
    assert!(hand.heard().await.is_empty());
    let grown = resident().saturating_sub(before);
    assert!(grown < 16 * MIB, "grew by {grown} bytes");
}

/// Subscriptions are kept, so there is a limit on them.
#[tokio::test]
async fn subscriptions_without_end_are_refused_by_the_limits_name() {
    let server = server().resource_template("x:{id}", |_: hospes::prelude::Uri| async { "x" });
    let mut hand = Hand::opened(StdioServer::new(server), "2025-11-25").await;
    let mut last = Value::Null;
    for id in 0..20_000 {
        hand.say(request(id, "resources/subscribe", json!({"uri": format!("x:{id}")}))).await;
        last = hand.hear().await;
        if last.get("error").is_some() {
            break;
        }
    }
    assert!(last["error"]["message"].as_str().is_some_and(|why| why.contains("max_subscriptions")), "{last}");
    assert!(hand.heard().await.iter().all(|message| message.get("id").is_none()));
}

/// The server stops reading from a client that sends requests and reads nothing. Its neighbour has a separate server.
#[tokio::test]
async fn a_client_that_does_not_read_costs_a_bounded_amount() {
    let shared = StdioServer::new(server());
    let mut deaf = Hand::opened(shared.clone(), "2025-11-25").await;
    let before = resident();
    let flood = async {
        for id in 1..100_000 {
            deaf.write.write_all(format!("{}\n", call(id, "blob", json!({}))).as_bytes()).await.unwrap();
        }
    };
    // It ends by the server no longer reading, which the neighbour outlives.
    let mut neighbour = Hand::opened(shared, "2025-11-25").await;
    tokio::select! {
        () = flood => panic!("100 GB of answers were taken on"),
        () = async {
            for id in 0..200 {
                neighbour.say(call(id, "echo", json!({"text": "hello"}))).await;
                assert_eq!(neighbour.hear().await["id"], id);
            }
        } => {}
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 * MIB, "grew by {grown} bytes");
    assert_eq!(deaf.hear().await["id"], 1);
}
