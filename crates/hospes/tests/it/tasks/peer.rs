//! A client written by hand.

use std::time::Duration;

use hospes::prelude::*;
use hospes::transport::memory;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::time::{sleep, timeout};

use super::{Jobs, SECOND, without_meta};

/// A client's end of a connection.
pub(crate) struct Peer {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
    /// None: a session of an older revision.
    pub(crate) meta: Option<Value>,
    last: u32,
    /// What came while an answer was waited for.
    pub(crate) heard: Vec<Value>,
}

impl Peer {
    pub(crate) fn of(server: impl IntoServer, meta: Option<Value>) -> Self {
        let (input, output) = tokio::io::split(memory::serve(server.into_server()));
        Self { input: BufReader::new(input), output, meta, last: 0, heard: Vec::new() }
    }

    pub(crate) fn modern(capabilities: Value) -> Self {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        Self::of(Jobs, Some(meta))
    }

    pub(crate) fn taking_tasks() -> Self {
        Self::modern(json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } }))
    }

    pub(crate) async fn legacy(server: impl IntoServer, revision: &str) -> (Self, Value) {
        let mut peer = Self::of(server, None);
        let elicitation = if revision >= "2025-06-18" { json!({ "elicitation": {} }) } else { json!({}) };
        let params = json!({
            "protocolVersion": revision, "capabilities": elicitation, "clientInfo": { "name": "p", "version": "1" },
        });
        let opened = peer.ok("initialize", params).await;
        peer.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        (peer, opened)
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    pub(crate) async fn start(&mut self, method: &str, mut params: Value) -> u32 {
        self.last += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    pub(crate) async fn read(&mut self) -> Value {
        let mut line = String::new();
        let read = timeout(Duration::from_secs(3600), self.input.read_line(&mut line)).await;
        read.expect("no line came").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The answer to a request; what comes before it is kept.
    pub(crate) async fn answer(&mut self, id: u32) -> Value {
        loop {
            let message = self.read().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.heard.push(message);
        }
    }

    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params).await;
        self.answer(id).await
    }

    pub(crate) async fn ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub(crate) async fn error(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.ask(method, params).await;
        assert!(answer["error"]["message"].as_str().is_some_and(|text| text.len() > 10), "{answer}");
        answer["error"]["code"].as_i64().unwrap()
    }

    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ok("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Calls a tool as 2025-11-25 calls one as a task; the task.
    pub(crate) async fn make(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments, "task": { "ttl": 60_000 } });
        let made = self.ok("tools/call", params).await;
        assert!(made.get("content").is_none(), "{made}");
        made["task"].clone()
    }

    pub(crate) async fn get(&mut self, id: &Value) -> Value {
        self.ok("tasks/get", json!({ "taskId": id })).await
    }

    pub(crate) async fn status(&mut self, id: &Value) -> String {
        self.get(id).await["status"].as_str().unwrap().to_owned()
    }

    /// Polls until the task has this status.
    pub(crate) async fn until(&mut self, id: &Value, status: &str) -> Value {
        for _ in 0..600 {
            let task = self.get(id).await;
            if task["status"] == status {
                return task;
            }
            sleep(SECOND / 10).await;
        }
        panic!("the task never became {status}")
    }

    pub(crate) async fn update(&mut self, id: &Value, answers: Value) {
        let done = self.ok("tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
        assert_eq!(without_meta(done), json!({ "resultType": "complete" }));
    }
}
