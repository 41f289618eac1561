//! Calls of a tool in a closed loop: each client sends the next one when it has the answer to the last.
//!
//! The clients run on one thread of their own, so that they wake nobody.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use crate::figures::{quantile, time};
use crate::kept_connection::KeptConnection;
use crate::usage::ProcessGroups;

/// Revision without sessions.
pub(crate) const MODERN_REVISION: &str = "2026-07-28";

/// Revision with sessions.
pub(crate) const LEGACY_REVISION: &str = "2025-11-25";

/// Time for the first call of each session.
const FIRST_CALLS: Duration = Duration::from_secs(120);

/// Time that the last answers get.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// Pause after a broken connection.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Endpoint to call.
#[derive(Clone, Debug)]
pub(crate) struct CallTarget {
    pub(crate) port: u16,
    pub(crate) path: String,
    /// Tool that answers with its argument `text`.
    pub(crate) tool: String,
    /// Value of the header `Authorization`.
    pub(crate) authorization: Option<String>,
}

impl CallTarget {
    /// Returns the head of a request that belongs to a session, without its end.
    pub(crate) fn legacy_head(&self, method: &str, session: Option<&str>) -> String {
        let (port, path) = (self.port, &self.path);
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n");
        head.push_str(match method {
            "GET" => "accept: text/event-stream\r\n",
            _ => "accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n",
        });
        if let Some(authorization) = &self.authorization {
            head.push_str(&format!("authorization: {authorization}\r\n"));
        }
        if let Some(session) = session {
            head.push_str(&format!(
                "mcp-protocol-version: {LEGACY_REVISION}\r\nmcp-session-id: {session}\r\n"
            ));
        }
        head
    }
}

/// Returns head and body of a call without a session.
pub(crate) fn modern_request(port: u16, path: &str, tool: &str, text: &str, id: u64) -> (String, String) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\nmcp-protocol-version: {MODERN_REVISION}\r\nmcp-method: tools/call\r\n\
         mcp-name: {tool}\r\n"
    );
    let params = json!({ "name": tool, "arguments": { "text": text }, "_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN_REVISION,
        "io.modelcontextprotocol/clientInfo": { "name": "load", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    (head, json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string())
}

/// Calls for a time.
#[derive(Clone, Debug)]
pub(crate) struct CallLoad {
    pub(crate) target: CallTarget,
    /// Sessions that the calls belong to, in turn; none for revision 2026-07-28.
    pub(crate) sessions: Arc<[String]>,
    /// Calls in flight.
    pub(crate) clients: usize,
    /// Time before the measurement.
    pub(crate) warm: Duration,
    pub(crate) length: Duration,
}

/// Observations of one client.
#[derive(Debug, Default)]
struct ClientLog {
    /// Nanoseconds of its calls.
    times: Vec<u64>,
    /// Calls that were answered before the end.
    answered: usize,
    errors: Vec<String>,
    is_waiting: bool,
}

/// Result of a load.
#[derive(Debug, Default)]
pub(crate) struct LoadResult {
    /// Nanoseconds of the calls that were answered, sorted.
    pub(crate) times: Vec<u64>,
    /// Calls that were answered in `seconds`.
    pub(crate) answered: usize,
    pub(crate) seconds: f64,
    pub(crate) errors: Vec<String>,
    /// Processor seconds of each group of processes.
    pub(crate) cpu: Vec<(&'static str, f64)>,
}

impl LoadResult {
    /// Calls in each second.
    pub(crate) fn rate(&self) -> f64 {
        self.answered as f64 / self.seconds.max(f64::EPSILON)
    }

    /// Nanoseconds within which this share of the calls were answered.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        quantile(&self.times, share)
    }

    /// Returns what was not answered, in words.
    pub(crate) fn violations(&self, what: &str) -> Vec<String> {
        let mut violations = Vec::new();
        if let Some(error) = self.errors.first() {
            violations.push(format!("{what}: {} calls failed, the first with: {error}", self.errors.len()));
        }
        if self.times.is_empty() {
            violations.push(format!("{what}: no call was answered"));
        }
        violations
    }

    /// Processor time of each group for one call, as cells of a table.
    pub(crate) fn cpu_of_a_call(&self, group: &str) -> String {
        let calls = self.answered.max(1) as f64;
        self.cpu
            .iter()
            .find(|(name, _)| *name == group)
            .map_or_else(|| "–".to_owned(), |(_, seconds)| format!("{:.0} µs", seconds * 1e6 / calls))
    }

    /// Returns the figures.
    pub(crate) fn to_json(&self) -> Value {
        let micros = |share: f64| self.quantile(share) as f64 / 1e3;
        let cpu: serde_json::Map<_, _> =
            self.cpu.iter().map(|(name, seconds)| ((*name).to_owned(), json!(seconds))).collect();
        json!({
            "calls": self.answered, "seconds": self.seconds, "rate": self.rate(), "errors": self.errors.len(),
            "first_error": self.errors.first(), "p50_us": micros(0.5), "p99_us": micros(0.99),
            "last_us": micros(1.0), "cpu_s": cpu,
        })
    }

    /// Rate and times in words.
    pub(crate) fn brief(&self) -> String {
        format!("{:.0} calls/s, p99 {}", self.rate(), time(self.quantile(0.99)))
    }
}

impl CallLoad {
    /// Makes the calls, and measures the processes meanwhile.
    pub(crate) async fn run(self, groups: &ProcessGroups) -> Result<LoadResult> {
        let (sender, receiver) = oneshot::channel();
        let groups = groups.clone();
        let worker = thread::Builder::new().name("load".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let result = runtime
                .map_err(anyhow::Error::from)
                .and_then(|runtime| runtime.block_on(self.run_here(&groups)));
            // Nobody waits any more if the run was given up.
            let _ = sender.send(result);
        })?;
        let result = receiver.await.context("the clients have panicked")?;
        worker.join().map_err(|_| anyhow!("the thread of the clients has panicked"))?;
        result
    }

    async fn run_here(self, groups: &ProcessGroups) -> Result<LoadResult> {
        ensure!(self.clients > 0, "there are no clients");
        let load = Arc::new(self);
        let first = timeout(FIRST_CALLS, Arc::clone(&load).call_each_once()).await;
        first.context("the first call of each session takes too long")?;
        let begin = Instant::now() + load.warm;
        let end = begin + load.length;
        let (mut clients, mut logs) = (JoinSet::new(), Vec::new());
        for number in 0..load.clients {
            let log = Arc::new(Mutex::new(ClientLog::default()));
            clients.spawn(Arc::clone(&load).call_until(number, begin, end, Arc::clone(&log)));
            logs.push(log);
        }
        sleep_until(begin.into()).await;
        let (started, before) = (Instant::now(), groups.snapshot());
        sleep_until(end.into()).await;
        let (after, seconds) = (groups.snapshot(), started.elapsed().as_secs_f64());
        let mut result = LoadResult { seconds, cpu: after.since(&before), ..LoadResult::default() };
        // Some gateways lose a call: it is counted, and not waited for any longer.
        let all = async { while clients.join_next().await.is_some() {} };
        let _late = timeout(LAST_ANSWERS, all).await;
        clients.abort_all();
        for log in &logs {
            let log = std::mem::take(&mut *log.lock());
            result.times.extend(log.times);
            result.answered += log.answered;
            result.errors.extend(log.errors);
            if log.is_waiting {
                result.errors.push(format!("no answer within {} s of the end", LAST_ANSWERS.as_secs()));
            }
        }
        result.times.sort_unstable();
        Ok(result)
    }

    /// Calls each session once: the first call of one can open a session at the server. What fails then fails again.
    async fn call_each_once(self: Arc<Self>) {
        let mut clients = JoinSet::new();
        for client in 0..self.clients {
            let load = Arc::clone(&self);
            clients.spawn(async move {
                let (mut connection, mut body) = (None, Vec::new());
                for number in 0..load.sessions.len().div_ceil(load.clients) as u64 {
                    if load.call(&mut connection, client, number, &mut body).await.is_err() {
                        connection = None;
                    }
                }
            });
        }
        while clients.join_next().await.is_some() {}
    }

    /// Notes the times of the calls that were answered after a moment, and what failed until another.
    async fn call_until(
        self: Arc<Self>,
        client: usize,
        begin: Instant,
        end: Instant,
        log: Arc<Mutex<ClientLog>>,
    ) {
        let (mut body, mut connection) = (Vec::new(), None);
        let mut number = 0u64;
        while Instant::now() < end {
            number += 1;
            let start = Instant::now();
            log.lock().is_waiting = true;
            let done = self.call(&mut connection, client, number, &mut body).await;
            let now = Instant::now();
            {
                let mut log = log.lock();
                log.is_waiting = false;
                match &done {
                    // Slow calls count too, so that they begin before, or end after the time. They are not of its rate.
                    Ok(()) if now >= begin => {
                        log.times.push(u64::try_from((now - start).as_nanos()).unwrap_or(u64::MAX));
                        log.answered += usize::from(now <= end);
                    }
                    Ok(()) => {}
                    Err(error) => log.errors.push(format!("{error:#}")),
                }
            }
            if done.is_err() {
                connection = None;
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }

    async fn call(
        &self,
        connection: &mut Option<KeptConnection>,
        client: usize,
        number: u64,
        body: &mut Vec<u8>,
    ) -> Result<()> {
        let target = &self.target;
        let text = format!("c{client}n{number}e");
        let (head, content) = if self.sessions.is_empty() {
            modern_request(target.port, &target.path, &target.tool, &text, number)
        } else {
            let turn = client + usize::try_from(number)? * self.clients;
            let session = &self.sessions[turn % self.sessions.len()];
            (target.legacy_head("POST", Some(session)), legacy_call(&target.tool, &text, number))
        };
        let open = match connection.take() {
            Some(open) => open,
            None => KeptConnection::open(target.port).await?,
        };
        let open = connection.insert(open);
        let head = open.post(&head, content.as_bytes(), body).await?;
        let answer = std::str::from_utf8(body)?;
        let is_right = head.status == 200 && answer.contains(&text) && !answer.contains("\"isError\":true");
        ensure!(is_right, "{} {}", head.status, answer.chars().take(300).collect::<String>());
        Ok(())
    }
}

fn legacy_call(tool: &str, text: &str, id: u64) -> String {
    let params = json!({ "name": tool, "arguments": { "text": text } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}
