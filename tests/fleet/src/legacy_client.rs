//! Client of a revision with sessions: each request may reach any node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::call::{CallMix, CallProgress, PlannedCall, StreamPosition};
use crate::http::{HttpRequest, HttpResponse, send};
use crate::journal::{CallEnding, CallRecord, HistoryRule, RunJournal};
use crate::modern_client::answer_question;

/// Time for an answer or the next event. Far above what a fleet takes, so that only what hangs is found.
const ANSWER_LIMIT: Duration = Duration::from_secs(40);

/// Time for which a stream is read on after the answer, to see a second one.
const AFTER_ANSWER: Duration = Duration::from_secs(2);

/// Time in which a session must open, and a stream must go on, while nodes come and go.
const RECOVERY_LIMIT: Duration = Duration::from_secs(20);

/// Pause between attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Client of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct LegacyClient {
    pub(crate) port: u16,
    pub(crate) name: String,
    pub(crate) revision: &'static str,
    pub(crate) journal: Arc<RunJournal>,
    /// True if it keeps the stream of the session open.
    pub(crate) listens: bool,
    pub(crate) mix: CallMix,
}

/// Session that is over although the client did not end it.
#[derive(Debug)]
struct SessionGone;

impl LegacyClient {
    /// Makes calls until the time is up.
    pub(crate) async fn run(self, until: Instant) {
        let mut number = 0;
        while Instant::now() < until {
            self.journal.note(&self.name, "opening a session");
            let Some(session) = self.open().await else {
                self.journal.end(&self.name);
                return;
            };
            self.journal.count(|counts| counts.sessions += 1);
            let mut listener = JoinSet::new();
            if self.listens {
                listener.spawn(self.clone().listen(session.clone()));
            }
            let mut outcome = self
                .tell(&session, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
                .await;
            while outcome.is_ok() && Instant::now() < until {
                number += 1;
                let can_ask = self.revision >= "2025-06-18";
                let call = PlannedCall::of(self.mix, &self.name, number, can_ask);
                outcome = self.call(&session, &call).await;
                sleep(call.pause).await;
            }
            drop(listener);
            if outcome.is_err() {
                self.journal.count(|counts| counts.sessions_gone += 1);
            } else {
                // The session ends by itself if this is lost.
                self.journal.note(&self.name, "ending its session");
                let _ =
                    timeout(ANSWER_LIMIT, send(self.request(&session, Method::DELETE, String::new()))).await;
            }
        }
        self.journal.end(&self.name);
    }

    fn request(&self, session: &str, method: Method, body: String) -> HttpRequest {
        let mut headers = vec![("accept", "application/json, text/event-stream".to_owned())];
        if !body.is_empty() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        if !session.is_empty() {
            headers.push(("mcp-session-id", session.to_owned()));
            headers.push(("mcp-protocol-version", self.revision.to_owned()));
        }
        HttpRequest { port: self.port, method, path: "/mcp".to_owned(), headers, body }
    }

    /// Opens a session; `None` if that fails, which is a fault.
    async fn open(&self) -> Option<String> {
        let start = Instant::now();
        let mut last = String::new();
        while start.elapsed() < RECOVERY_LIMIT {
            match self.try_open().await {
                Ok(session) => return Some(session),
                Err(why) => last = why,
            }
            sleep(RETRY_PAUSE).await;
        }
        let text = format!("{}: no session within {} s: {last}", self.name, RECOVERY_LIMIT.as_secs());
        self.journal.fault(HistoryRule::Sessions, text);
        None
    }

    /// Tries once to open a session.
    pub(crate) async fn try_open(&self) -> Result<String, String> {
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": self.revision, "capabilities": { "elicitation": {} },
            "clientInfo": { "name": self.name, "version": "1" },
        }});
        let response = self.post("", &body).await?;
        let (status, session) = (response.status, response.session.clone());
        let text = response.text().await.map_err(|error| format!("{error:#}"))?;
        session.filter(|_| status == 200).ok_or_else(|| format!("status {status}: {text}"))
    }

    /// Sends a ping of a session, and returns the status of the response; an error if it is the answer that says that the
    /// outcome is not known.
    pub(crate) async fn ping(&self, session: &str) -> Result<u16, String> {
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" });
        let response = self.post(session, &body).await?;
        let status = response.status;
        let text = response.text().await.map_err(|error| format!("{error:#}"))?;
        match serde_json::from_str::<Value>(&text) {
            Ok(answer) if status == 200 && answer.get("result").is_none() => Err(text),
            _ => Ok(status),
        }
    }

    pub(crate) async fn post(&self, session: &str, body: &Value) -> Result<HttpResponse, String> {
        match timeout(ANSWER_LIMIT, send(self.request(session, Method::POST, body.to_string()))).await {
            Ok(sent) => sent.map_err(|error| format!("{error:#}")),
            Err(_) => Err(format!("no response within {} s", ANSWER_LIMIT.as_secs())),
        }
    }

    /// Posts a notification or the answer to a question until it is taken.
    async fn tell(&self, session: &str, message: &Value) -> Result<(), SessionGone> {
        let start = Instant::now();
        let mut last = String::new();
        while start.elapsed() < RECOVERY_LIMIT {
            match timeout(ANSWER_LIMIT, send(self.request(session, Method::POST, message.to_string()))).await
            {
                Ok(Ok(response)) if response.status == 202 => return Ok(()),
                Ok(Ok(response)) if response.status == 404 => return Err(SessionGone),
                Ok(Ok(response)) => {
                    last = format!("status {}", response.status);
                    if !matches!(response.status, 502..=504) {
                        last.push_str(&response.text().await.unwrap_or_default());
                        break;
                    }
                }
                Ok(Err(error)) => last = format!("{error:#}"),
                Err(_) => last = "no answer".to_owned(),
            }
            sleep(RETRY_PAUSE).await;
        }
        self.journal.fault(HistoryRule::Answers, format!("{}: not taken ({last}): {message}", self.name));
        Ok(())
    }

    async fn call(&self, session: &str, call: &PlannedCall) -> Result<(), SessionGone> {
        let (mut progress, sent_at) = (CallProgress::default(), Instant::now());
        self.journal.note(&self.name, format!("waiting for a response to {} {}", call.tool, call.key));
        let body =
            json!({ "jsonrpc": "2.0", "id": call.id, "method": "tools/call", "params": call.params() });
        let sent = timeout(ANSWER_LIMIT, send(self.request(session, Method::POST, body.to_string()))).await;
        let ending = match sent {
            Err(_) => CallEnding::Missing("no response".to_owned()),
            Ok(Err(_)) => CallEnding::Broken,
            Ok(Ok(response)) => match response.status {
                200 if response.is_event_stream => self.follow(session, call, response, &mut progress).await,
                200 => match read_json(response).await {
                    Some(answer) => {
                        progress.answer(&answer);
                        progress.ending.clone().unwrap_or(CallEnding::Broken)
                    }
                    None => CallEnding::Broken,
                },
                status @ (404 | 503) => CallEnding::Refused(status),
                502 | 504 => CallEnding::Broken,
                status => {
                    CallEnding::Missing(format!("{status}: {}", response.text().await.unwrap_or_default()))
                }
            },
        };
        progress.check_steps(call);
        let is_gone = matches!(ending, CallEnding::Gone | CallEnding::Refused(404));
        self.journal.record(CallRecord {
            key: call.key.clone(),
            tool: call.tool.clone(),
            kind: call.kind,
            revision: self.revision,
            sent_at,
            took: progress.answered_at.unwrap_or_else(Instant::now) - sent_at,
            ending,
            answers: progress.answers,
            faults: progress.faults,
        });
        if is_gone { Err(SessionGone) } else { Ok(()) }
    }

    /// Reads the stream of a call to its end, over any number of connections.
    async fn follow(
        &self,
        session: &str,
        call: &PlannedCall,
        mut response: HttpResponse,
        progress: &mut CallProgress,
    ) -> CallEnding {
        // The answers to questions are sent while the stream is read on.
        let mut tellers = JoinSet::new();
        loop {
            let limit = if progress.ending.is_some() { AFTER_ANSWER } else { ANSWER_LIMIT };
            let last = progress.position.last.as_deref().unwrap_or("nothing");
            let what = match progress.ending {
                None => format!("reading the stream of {} {} after {last}", call.tool, call.key),
                Some(_) => format!("reading on after the answer of {}", call.key),
            };
            self.journal.note(&self.name, what);
            let event = timeout(limit, response.next_event()).await;
            match (event, &progress.ending) {
                (Ok(Ok(Some(event))), _) => {
                    self.journal.count(|counts| counts.events += 1);
                    if let Some(question) = progress.take(event, call.id) {
                        self.journal.count(|counts| counts.questions += 1);
                        let (client, session, pause) = (self.clone(), session.to_owned(), call.pause);
                        tellers.spawn(async move { client.answer(&session, &question, pause).await });
                    }
                }
                // The stream has ended after the answer, or stays open without saying more.
                (_, Some(ending)) => return ending.clone(),
                (Err(_), None) => {
                    let what = format!("a stream without an event for {} s", ANSWER_LIMIT.as_secs());
                    return CallEnding::Missing(what);
                }
                (Ok(Ok(None) | Err(_)), None) => {
                    match self.resume(session, &progress.position, progress.retry).await {
                        Ok(next) => response = next,
                        Err(ending) => return ending,
                    }
                }
            }
        }
    }

    /// Answers a question after a while. A session that ends meanwhile is seen by the call.
    async fn answer(&self, session: &str, question: &Value, pause: Duration) {
        sleep(pause).await;
        let result = answer_question(&question["params"]);
        let _gone =
            self.tell(session, &json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })).await;
    }

    /// Takes a broken stream up again.
    async fn resume(
        &self,
        session: &str,
        position: &StreamPosition,
        retry: Option<Duration>,
    ) -> Result<HttpResponse, CallEnding> {
        let Some(last) = &position.last else {
            return Err(CallEnding::Broken);
        };
        sleep(retry.unwrap_or_default()).await;
        self.journal.note(&self.name, format!("resuming a stream after {last}"));
        let start = Instant::now();
        let mut why = String::new();
        while start.elapsed() < RECOVERY_LIMIT {
            let mut request = self.request(session, Method::GET, String::new());
            request.headers.push(("last-event-id", last.clone()));
            match timeout(ANSWER_LIMIT, send(request)).await {
                Ok(Ok(response)) if response.status == 200 => {
                    self.journal.count(|counts| counts.resumptions.push((start, start.elapsed())));
                    return Ok(response);
                }
                Ok(Ok(response)) if response.status == 404 => return Err(CallEnding::Gone),
                Ok(Ok(response)) if matches!(response.status, 502..=504) => {
                    why = format!("status {}", response.status)
                }
                Ok(Ok(response)) => {
                    let (status, text) = (response.status, response.text().await.unwrap_or_default());
                    return Err(CallEnding::Missing(format!(
                        "the stream after {last} is refused: {status} {text}"
                    )));
                }
                Ok(Err(error)) => why = format!("{error:#}"),
                Err(_) => why = "no response".to_owned(),
            }
            sleep(RETRY_PAUSE).await;
        }
        let limit = RECOVERY_LIMIT.as_secs();
        Err(CallEnding::Missing(format!("the stream after {last} did not go on within {limit} s: {why}")))
    }

    /// Keeps the stream of the session open until it is dropped, and checks its ids.
    async fn listen(self, session: String) {
        let mut position = StreamPosition::default();
        let mut retry = None;
        loop {
            let resumed = match &position.last {
                Some(_) => self.resume(&session, &position, retry).await.ok(),
                None => {
                    let sent = send(self.request(&session, Method::GET, String::new())).await.ok();
                    sent.filter(|response| response.status == 200)
                }
            };
            let Some(mut response) = resumed else {
                if position.last.is_some() {
                    // The calls of the session see why.
                    return;
                }
                sleep(RETRY_PAUSE).await;
                continue;
            };
            while let Ok(Some(event)) = response.next_event().await {
                self.journal.count(|counts| counts.events += 1);
                retry = event.retry_ms.map(Duration::from_millis).or(retry);
                if let Some(id) = &event.id
                    && let Err(fault) = position.advance(id)
                {
                    let text = format!("{}, stream of the session: {fault}", self.name);
                    self.journal.fault(HistoryRule::Events, text);
                }
            }
        }
    }
}

async fn read_json(response: HttpResponse) -> Option<Value> {
    serde_json::from_str(&response.text().await.ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::CallKind;

    #[test]
    fn each_call_has_a_key_of_its_own_and_all_tools_occur() {
        let calls: Vec<PlannedCall> =
            (0..50).map(|number| PlannedCall::of(CallMix::All, "c1", number, true)).collect();
        for kind in [CallKind::Echo, CallKind::Steps, CallKind::Question] {
            assert!(calls.iter().any(|call| call.kind == kind), "{kind:?}");
        }
        let keys: std::collections::HashSet<&str> = calls.iter().map(|call| call.key.as_str()).collect();
        assert_eq!(keys.len(), calls.len());
    }
}
