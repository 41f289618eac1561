//! The stdio server against a client written by hand.

#![expect(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "helpers of tests")]

mod calls;
mod changes;
mod endings;
mod eras;
mod messages;
mod questions;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::time::timeout;

use super::StdioServer;
use crate::transport::memory::{pair, serve_with};
use crate::transport::probe::{ProbeChange, ProbeService};

/// A client's end of a connection.
pub(crate) struct Peer {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
}

impl Peer {
    pub(crate) fn of(server: StdioServer) -> Self {
        let (input, output) = tokio::io::split(serve_with(server));
        Self { input: BufReader::new(input), output }
    }

    fn new(probe: &ProbeService) -> Self {
        Self::of(StdioServer::new(probe.clone()))
    }

    async fn opened(probe: &ProbeService, revision: &str) -> Self {
        let mut peer = Self::new(probe);
        peer.open(revision).await;
        peer
    }

    pub(crate) async fn open(&mut self, revision: &str) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "peer", "version": "1"},
        }}))
        .await;
        let answer = self.read().await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    pub(crate) async fn line(&mut self, line: &str) {
        self.output.write_all(line.as_bytes()).await.unwrap();
        self.output.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.line(&message.to_string()).await;
    }

    pub(crate) async fn tool(&mut self, id: u32, name: &str, arguments: Value) {
        self.send(tool(id, name, arguments)).await;
    }

    pub(crate) async fn read(&mut self) -> Value {
        self.read_or_end().await.expect("the server has closed the connection")
    }

    async fn read_or_end(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = timeout(Duration::from_secs(20), self.input.read_line(&mut line));
        let bytes = read.await.expect("no line came").unwrap();
        (bytes > 0).then(|| serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}")))
    }

    /// Checks that no further message was sent, like `silence`, for a peer of 2026-07-28, which has no ping.
    pub(crate) async fn silence_modern(&mut self) {
        self.send(modern(4711, "server/discover", json!({}))).await;
        assert_eq!(self.read().await["id"], 4711);
    }

    /// That nothing more has been said: the answer to a ping comes next.
    pub(crate) async fn silence(&mut self) {
        self.send(json!({"jsonrpc": "2.0", "id": "silence", "method": "ping"})).await;
        assert_eq!(self.read().await["id"], "silence");
    }
}

pub(crate) fn tool(id: u32, name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": name, "arguments": arguments}})
}

pub(crate) fn modern(id: u32, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}

pub(crate) fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
}
