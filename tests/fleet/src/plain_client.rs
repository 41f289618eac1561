//! Client that makes one request and returns its answer, for runs that measure or follow a single call.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::http::{HttpRequest, HttpResponse, send};

const MODERN_REVISION: &str = "2026-07-28";
const LEGACY_REVISION: &str = "2025-11-25";

/// Time for an answer. Far above what a fleet takes, so that only what hangs is found.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Client of one port.
#[derive(Clone, Debug)]
pub(crate) struct PlainClient {
    pub(crate) port: u16,
    pub(crate) name: String,
    /// True if it can ask its user. Otherwise a call that needs an approval waits at the node.
    pub(crate) can_ask: bool,
}

/// Answer to a request.
#[derive(Clone, Debug)]
pub(crate) struct PlainAnswer {
    pub(crate) status: u16,
    /// JSON-RPC message, or the text of a body that is none.
    pub(crate) message: Value,
}

impl PlainAnswer {
    /// True if the tool has answered.
    pub(crate) fn is_result(&self) -> bool {
        let result = &self.message["result"];
        result["content"].is_array() && result["isError"] != true
    }

    /// Id of the approval that a question of Hospes is about.
    pub(crate) fn approval(&self) -> Option<&str> {
        let requests = self.message["result"]["inputRequests"].as_object()?;
        requests.keys().find_map(|key| key.strip_prefix("hospes.approve."))
    }

    /// Params of the next round, in which the application says no. The decision that came first counts, so that the call
    /// is executed only if somebody has allowed it before.
    pub(crate) fn next_round(&self) -> Value {
        let result = &self.message["result"];
        let mut responses = json!({});
        for key in result["inputRequests"].as_object().into_iter().flat_map(|requests| requests.keys()) {
            responses[key] = json!({ "action": "accept", "content": { "decision": "no" } });
        }
        json!({ "requestState": result["requestState"], "inputResponses": responses })
    }

    /// Beginning of its text, for errors.
    pub(crate) fn brief(&self) -> String {
        let text = self.message.to_string();
        format!("{} {}", self.status, text.chars().take(200).collect::<String>())
    }
}

impl PlainClient {
    /// Calls a tool without a session. `round` has the members of the params besides those of each round.
    pub(crate) async fn call(&self, tool: &str, key: &str, round: &Value) -> Result<PlainAnswer> {
        let capabilities = if self.can_ask { json!({ "elicitation": {} }) } else { json!({}) };
        let mut params = json!({ "name": tool, "arguments": { "key": key }, "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN_REVISION,
            "io.modelcontextprotocol/clientInfo": { "name": self.name, "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }});
        for (name, value) in round.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        let headers =
            [("mcp-protocol-version", MODERN_REVISION), ("mcp-method", "tools/call"), ("mcp-name", tool)];
        self.post(&headers, &json!({ "jsonrpc": "2.0", "id": key, "method": "tools/call", "params": params }))
            .await
    }

    /// Opens a session, and returns its id.
    pub(crate) async fn open(&self) -> Result<String> {
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": LEGACY_REVISION, "capabilities": {},
            "clientInfo": { "name": self.name, "version": "1" },
        }});
        let response = timeout(ANSWER_LIMIT, self.send(&[], &body)).await.context("no session in time")??;
        let (status, session) = (response.status, response.session.clone());
        let text = response.text().await?;
        session.with_context(|| format!("no session was opened: {status} {text}"))
    }

    /// Calls a tool of a server in a session. Its progress makes the answer a stream, whose events are kept in Redis.
    pub(crate) async fn call_in(&self, session: &str, server: &str, key: &str) -> Result<PlainAnswer> {
        let arguments = json!({ "key": key, "steps": 1, "pause_ms": 1 });
        let meta = json!({ "progressToken": key });
        let params = json!({ "name": format!("{server}__steps"), "arguments": arguments, "_meta": meta });
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", LEGACY_REVISION)];
        // A session may have several calls at once: the key is unique, and so is the id.
        self.post(&headers, &json!({ "jsonrpc": "2.0", "id": key, "method": "tools/call", "params": params }))
            .await
    }

    async fn post(&self, headers: &[(&'static str, &str)], body: &Value) -> Result<PlainAnswer> {
        let answer = async { read(self.send(headers, body).await?).await };
        match timeout(ANSWER_LIMIT, answer).await {
            Ok(answer) => answer,
            Err(_) => bail!("no answer within {} s", ANSWER_LIMIT.as_secs()),
        }
    }

    async fn send(&self, headers: &[(&'static str, &str)], body: &Value) -> Result<HttpResponse> {
        let usual = [("accept", "application/json, text/event-stream"), ("content-type", "application/json")];
        let headers = usual.iter().chain(headers).map(|(name, value)| (*name, (*value).to_owned())).collect();
        let (method, path) = (Method::POST, "/mcp".to_owned());
        send(HttpRequest { port: self.port, method, path, headers, body: body.to_string() }).await
    }
}

async fn read(mut response: HttpResponse) -> Result<PlainAnswer> {
    let status = response.status;
    if !response.is_event_stream {
        let text = response.text().await?;
        let message = serde_json::from_str(&text).unwrap_or(Value::String(text));
        return Ok(PlainAnswer { status, message });
    }
    while let Some(event) = response.next_event().await? {
        if let Some(message) = event.message.filter(|message| message.get("method").is_none()) {
            return Ok(PlainAnswer { status, message });
        }
    }
    bail!("the stream ended without the answer")
}
