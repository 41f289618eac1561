//! Client of the revision without sessions: each request carries everything, and its stream ends with its connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::call::{CallMix, CallProgress, PlannedCall};
use crate::http::{HttpRequest, HttpResponse, send};
use crate::journal::{CallEnding, CallRecord, RunJournal};

pub(crate) const REVISION: &str = "2026-07-28";

/// Time for an answer or the next event.
const ANSWER_LIMIT: Duration = Duration::from_secs(40);

/// Maximum number of rounds of a call.
const MAX_ROUNDS: u64 = 5;

/// Client of a fleet.
#[derive(Debug)]
pub(crate) struct ModernClient {
    pub(crate) port: u16,
    pub(crate) name: String,
    pub(crate) journal: Arc<RunJournal>,
    pub(crate) mix: CallMix,
}

impl ModernClient {
    /// Makes calls until the time is up.
    pub(crate) async fn run(self, until: Instant) {
        let mut number = 0;
        while Instant::now() < until {
            number += 1;
            let call = PlannedCall::of(self.mix, &self.name, number, true);
            let (mut progress, sent_at) = (CallProgress::default(), Instant::now());
            self.journal.note(&self.name, format!("calling {} {}", call.tool, call.key));
            let ending = self.call(&call, &mut progress).await;
            progress.check_steps(&call);
            self.journal.record(CallRecord {
                key: call.key,
                tool: call.tool,
                kind: call.kind,
                revision: REVISION,
                sent_at,
                took: progress.answered_at.unwrap_or_else(Instant::now) - sent_at,
                ending,
                answers: progress.answers,
                faults: progress.faults,
            });
            sleep(call.pause).await;
        }
        self.journal.end(&self.name);
    }

    /// Makes a call in as many rounds as it asks questions.
    async fn call(&self, call: &PlannedCall, progress: &mut CallProgress) -> CallEnding {
        let mut params = call.params();
        for round in 0..MAX_ROUNDS {
            // Ids need not differ between rounds, but a client that counts its requests has different ones.
            let id = call.id * MAX_ROUNDS + round;
            let result = match self.round(call, id, params, progress).await {
                Ok(result) => result,
                Err(ending) => return ending,
            };
            if result["resultType"] != "input_required" {
                return progress.ending.clone().unwrap_or(CallEnding::Broken);
            }
            // It was no answer to the call yet.
            progress.answers = 0;
            progress.ending = None;
            progress.answered_at = None;
            self.journal.count(|counts| counts.questions += 1);
            sleep(call.pause).await;
            params = call.params();
            params["requestState"] = result["requestState"].clone();
            params["inputResponses"] = answer_all(&result["inputRequests"]);
        }
        CallEnding::Missing(format!("still asked after {MAX_ROUNDS} rounds"))
    }

    /// Sends one request, and returns its result.
    pub(crate) async fn round(
        &self,
        call: &PlannedCall,
        id: u64,
        mut params: Value,
        progress: &mut CallProgress,
    ) -> Result<Value, CallEnding> {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(REVISION);
        params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": self.name, "version": "1" });
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
        let headers = [
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
            ("mcp-protocol-version", REVISION),
            ("mcp-method", "tools/call"),
            ("mcp-name", &call.tool),
        ];
        let request = HttpRequest {
            port: self.port,
            method: Method::POST,
            path: "/mcp".to_owned(),
            headers: headers.map(|(name, value)| (name, value.to_owned())).into(),
            body: json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string(),
        };
        let Ok(sent) = timeout(ANSWER_LIMIT, send(request)).await else {
            return Err(CallEnding::Missing("no response".to_owned()));
        };
        let Ok(response) = sent else {
            return Err(CallEnding::Broken);
        };
        match response.status {
            200 if response.is_event_stream => self.follow(id, response, progress).await,
            502 | 504 => Err(CallEnding::Broken),
            503 => Err(CallEnding::Refused(503)),
            status => {
                let text = response.text().await.map_err(|_| CallEnding::Broken)?;
                match serde_json::from_str::<Value>(&text) {
                    Ok(answer) if answer.get("result").or_else(|| answer.get("error")).is_some() => {
                        progress.answer(&answer);
                        Ok(answer["result"].clone())
                    }
                    _ => Err(CallEnding::Missing(format!("{status}: {text}"))),
                }
            }
        }
    }

    async fn follow(
        &self,
        id: u64,
        mut response: HttpResponse,
        progress: &mut CallProgress,
    ) -> Result<Value, CallEnding> {
        let mut result = None;
        loop {
            match timeout(ANSWER_LIMIT, response.next_event()).await {
                Err(_) if result.is_none() => {
                    let what = format!("a stream without an event for {} s", ANSWER_LIMIT.as_secs());
                    return Err(CallEnding::Missing(what));
                }
                Ok(Ok(Some(event))) => {
                    self.journal.count(|counts| counts.events += 1);
                    let said = event.message.as_ref().filter(|message| message.get("method").is_none());
                    result = said.map(|message| message["result"].clone()).or(result);
                    if let Some(question) = progress.take(event, id) {
                        progress
                            .faults
                            .push(format!("a request of the server on a stream of {REVISION}: {question}"));
                    }
                }
                Ok(Ok(None)) if result.is_none() => {
                    return Err(CallEnding::Missing(
                        "the stream ended properly, without the answer".to_owned(),
                    ));
                }
                _ => return result.ok_or(CallEnding::Broken),
            }
        }
    }
}

/// Answers to questions: yes to each, and to those about approvals, this once.
pub(crate) fn answer_all(requests: &Value) -> Value {
    let mut answers = json!({});
    for (key, request) in requests.as_object().into_iter().flatten() {
        answers[key] = answer_question(&request["params"]);
    }
    answers
}

/// Answer to one question.
pub(crate) fn answer_question(params: &Value) -> Value {
    let mut content = json!({});
    for (name, property) in params["requestedSchema"]["properties"].as_object().into_iter().flatten() {
        let choices = property["oneOf"].as_array().into_iter().flatten().map(|choice| &choice["const"]);
        let has_once = choices.chain(property["enum"].as_array().into_iter().flatten()).any(|c| c == "once");
        content[name] = json!(if has_once { "once" } else { "yes" });
    }
    json!({ "action": "accept", "content": content })
}
