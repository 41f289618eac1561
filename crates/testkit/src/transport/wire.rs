//! Messages on a connection, observed without a client at its end.

use hospes::model::Revision;
use hospes::serde_json::{self, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};

use super::server::server;
use super::site::{RawConnection, TestTransport, TransportSite};

/// A connection on which the test writes the client's messages itself.
struct RawClient {
    read: BufReader<std::pin::Pin<Box<dyn AsyncRead + Send>>>,
    write: std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>,
}

impl RawClient {
    async fn at(site: &impl TransportSite) -> Option<Self> {
        let RawConnection { read, write } = site.wire().await?;
        Some(Self { read: BufReader::new(read), write })
    }

    /// Opens a session of a legacy revision.
    async fn opened(site: &impl TransportSite, revision: Revision) -> Option<Self> {
        let mut hand = Self::at(site).await?;
        hand.say(&initialize(revision)).await;
        let answer = hand.hear().await.expect("an answer");
        assert_eq!(answer["result"]["protocolVersion"], revision.as_str(), "{answer}");
        hand.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        Some(hand)
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).await.expect("the server reads");
        self.write.flush().await.expect("the server reads");
    }

    async fn say(&mut self, message: &str) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    /// Returns the next message. `None` when the server has closed its direction.
    async fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        let bytes = self.read.read_line(&mut line).await.expect("UTF-8");
        (bytes > 0).then(|| serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line:?}")))
    }

    async fn answer_to(&mut self, id: u32) -> Value {
        let answer = self.hear().await.expect("an answer");
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }
}

fn initialize(revision: Revision) -> String {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": revision.as_str(), "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "hand", "version": "1"},
    }})
    .to_string()
}

fn ping(id: u32) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string()
}

fn modern(id: u32, method: &str, mut params: Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn legacy(transport: &impl TestTransport) -> impl Iterator<Item = Revision> {
    transport.revisions().iter().copied().filter(|revision| revision.is_legacy())
}

/// Messages are recognized whether bytes arrive one by one or many messages together; none is lost or duplicated.
///
/// # Panics
/// When it is not so.
pub async fn messages_arrive_however_they_are_cut(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in legacy(transport) {
        let Some(mut hand) = RawClient::opened(&site, revision).await else { return };
        for byte in format!("{}\n", ping(1)).bytes() {
            hand.write(&[byte]).await;
        }
        hand.answer_to(1).await;
        // A `\r` before the line feed and empty lines are tolerated too.
        let crowd: String = (2..102).map(|id| format!("{}\r\n\n", ping(id))).collect();
        let (first, last) = crowd.split_at(crowd.len() / 2);
        hand.write(first.as_bytes()).await;
        hand.write(last.as_bytes()).await;
        for id in 2..102 {
            hand.answer_to(id).await;
        }
    }
}

/// Invalid messages are answered with the errors of JSON-RPC, and the connection stays open.
///
/// # Panics
/// When it is not so.
pub async fn rubbish_is_refused_and_survived(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    for revision in legacy(transport) {
        let Some(mut hand) = RawClient::opened(&site, revision).await else { return };
        for (said, code, id) in [
            ("no JSON", -32700, Value::Null),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,", -32700, Value::Null),
            ("7", -32600, Value::Null),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, json!(1)),
            (r#"{"jsonrpc":"2.0","id":1,"method":"no/such"}"#, -32601, json!(1)),
        ] {
            hand.say(said).await;
            let answer = hand.hear().await.expect("an answer");
            assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{said}: {answer}");
        }
        hand.say(&ping(2)).await;
        hand.answer_to(2).await;
    }
}

/// In 2026-07-28 a server sends only responses and puts its input requests into them. In older revisions it sends
/// requests, which are answered.
///
/// # Panics
/// When it is not so.
pub async fn a_modern_server_sends_no_requests(transport: &impl TestTransport) {
    let site = transport.serve(server()).await;
    if transport.revisions().contains(&Revision::V2026_07_28) {
        let Some(mut hand) = RawClient::at(&site).await else { return };
        let mut params = json!({"name": "ask", "arguments": {"text": "it"}});
        hand.say(&modern(1, "tools/call", params.clone())).await;
        let round = hand.answer_to(1).await["result"].take();
        assert_eq!(round["resultType"], "input_required", "{round}");
        let key =
            round["inputRequests"].as_object().and_then(|asked| asked.keys().next()).expect("a question");
        params["inputResponses"] = json!({ key: {"action": "accept", "content": {"name": "Ada"}} });
        params["requestState"] = round["requestState"].clone();
        hand.say(&modern(2, "tools/call", params)).await;
        let answer = hand.answer_to(2).await;
        assert_eq!(answer["result"]["content"][0]["text"], "Ada", "{answer}");
        hand.say(&modern(
            3,
            "tools/call",
            json!({"name": "count", "arguments": {"count": 3},
            "_meta": {"progressToken": "p"}}),
        ))
        .await;
        for step in 1..=3 {
            let report = hand.hear().await.expect("progress");
            assert!(report.get("id").is_none(), "{report}");
            assert_eq!(report["params"]["progress"], step, "{report}");
        }
        hand.answer_to(3).await;
    }
    for revision in legacy(transport).filter(|revision| *revision >= Revision::V2025_06_18) {
        let Some(mut hand) = RawClient::opened(&site, revision).await else { return };
        let params = json!({"name": "ask", "arguments": {"text": "it"}});
        hand.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string())
            .await;
        let question = hand.hear().await.expect("a question");
        assert_eq!(question["method"], "elicitation/create", "{question}");
        let result = json!({"action": "accept", "content": {"name": "Ada"}});
        hand.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string()).await;
        let answer = hand.answer_to(1).await;
        assert_eq!(answer["result"]["content"][0]["text"], "Ada", "{answer}");
    }
}

/// Messages that a client sent before it closed its direction are served, even a last message without its line end.
/// Then the server closes its own direction.
///
/// # Panics
/// When it is not so.
pub async fn what_was_accepted_is_answered_at_the_end<T: TestTransport>(transport: &T) {
    let site = transport.serve(server()).await;
    for revision in legacy(transport) {
        let Some(mut hand) = RawClient::opened(&site, revision).await else { return };
        let echo = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                          "params": {"name": "echo", "arguments": {"text": "last words"}}});
        if T::HALF_CLOSE {
            hand.write(echo.to_string().as_bytes()).await;
        }
        hand.write.shutdown().await.expect("a direction can be closed");
        // A pipe is closed by dropping it.
        hand.write = Box::pin(tokio::io::sink());
        if T::HALF_CLOSE {
            let answer = hand.answer_to(1).await;
            assert_eq!(answer["result"]["content"][0]["text"], "last words", "{answer}");
        }
        assert_eq!(hand.hear().await, None, "{revision}");
    }
}
