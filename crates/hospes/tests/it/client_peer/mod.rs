//! Tests of the client against a scripted in-memory peer, with a virtual clock.
#![allow(clippy::unwrap_used, reason = "a test")]

mod cache;
mod calls;
mod health;
mod outputs;
mod questions;
mod refusals;
mod roots;
mod tasks;

use std::io;
use std::sync::{Arc, Mutex};

use hospes::client::{Client, ClientBuilder};
use hospes::model::Revision;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tracing::subscriber::DefaultGuard;

/// Answer of the peer to a message; none means no answer.
type Answer = Box<dyn FnMut(&Value) -> Option<Value> + Send>;

/// The server's side of a connection.
#[derive(Clone)]
struct Peer {
    heard: Arc<Mutex<Vec<Value>>>,
    news: Arc<Notify>,
    output: Arc<tokio::sync::Mutex<WriteHalf<DuplexStream>>>,
}

impl Peer {
    /// A client in `revision`, and its server, whose `answer` to everything but the handshake is a result, or an object
    /// with an `error`.
    async fn connect(
        builder: ClientBuilder,
        revision: Revision,
        answer: impl FnMut(&Value) -> Option<Value> + Send + 'static,
    ) -> (Client, Self) {
        let capabilities = json!({
            "tools": { "listChanged": true }, "prompts": { "listChanged": true },
            "resources": { "listChanged": true, "subscribe": true }, "logging": {},
        });
        Self::connect_offering(builder, revision, &capabilities, answer).await
    }

    /// Connects to a peer that declares other capabilities.
    async fn connect_offering(
        builder: ClientBuilder,
        revision: Revision,
        capabilities: &Value,
        mut answer: impl FnMut(&Value) -> Option<Value> + Send + 'static,
    ) -> (Client, Self) {
        let capabilities = capabilities.clone();
        let (wire, peer) = Self::new(move |message| match message["method"].as_str() {
            Some("initialize") => Some(json!({
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": capabilities,
                "serverInfo": { "name": "peer", "version": "1" }, "instructions": "Ask nicely.",
            })),
            Some("server/discover") => Some(json!({
                "resultType": "complete", "supportedVersions": [revision.as_str()], "capabilities": capabilities,
                "ttlMs": 0, "cacheScope": "private", "instructions": "Ask nicely.",
            })),
            _ => answer(message),
        });
        let (read, write) = tokio::io::split(wire);
        let client = builder.revision(revision).over(read, write).await.unwrap();
        (client, peer)
    }

    /// The client's end of a connection to a server that has to answer the handshake too.
    fn new(answer: impl FnMut(&Value) -> Option<Value> + Send + 'static) -> (DuplexStream, Self) {
        let (ours, theirs) = tokio::io::duplex(1024 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let output = Arc::new(tokio::sync::Mutex::new(output));
        let peer = Self { heard: Arc::default(), news: Arc::default(), output };
        tokio::spawn(peer.clone().converse(input, Box::new(answer)));
        (ours, peer)
    }

    async fn converse(self, input: ReadHalf<DuplexStream>, mut answer: Answer) {
        let mut lines = BufReader::new(input).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            self.heard.lock().unwrap().push(message.clone());
            self.news.notify_waiters();
            let Some(said) = answer(&message) else { continue };
            let Some(id) = message.get("id").filter(|_| message.get("method").is_some()) else { continue };
            let member = if said.get("error").is_some() { "error" } else { "result" };
            let body = said.get("error").unwrap_or(&said);
            self.say(&json!({ "jsonrpc": "2.0", "id": id, member: body })).await;
        }
    }

    /// Sends a message.
    async fn say(&self, message: &Value) {
        let mut output = self.output.lock().await;
        output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Sends a notification to the client.
    async fn tell(&self, method: &str, params: Value) {
        self.say(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Asks the client something; its answer, without the envelope.
    async fn ask(&self, id: &str, method: &str, params: Value) -> Value {
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        let answers = self.wait(1, |message| message["id"] == id && message.get("method").is_none()).await;
        answers[0].clone()
    }

    /// Everything that came.
    fn heard(&self) -> Vec<Value> {
        self.heard.lock().unwrap().clone()
    }

    /// Number of received messages with this method.
    fn count(&self, method: &str) -> usize {
        self.heard().iter().filter(|message| message["method"] == method).count()
    }

    /// The first `count` messages for which `wanted` holds, once there are as many.
    async fn wait(&self, count: usize, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        loop {
            let news = self.news.notified();
            let found: Vec<Value> = self.heard().into_iter().filter(|message| wanted(message)).collect();
            if found.len() >= count {
                return found;
            }
            news.await;
        }
    }

    /// Messages with this method, once there are as many.
    async fn wait_for(&self, count: usize, method: &str) -> Vec<Value> {
        self.wait(count, |message| message["method"] == method).await
    }
}

/// Log of this thread from level debug on.
struct Log(Arc<Mutex<Vec<u8>>>, #[expect(dead_code, reason = "it ends with this")] DefaultGuard);

impl Log {
    fn new() -> Self {
        let text = Arc::<Mutex<Vec<u8>>>::default();
        let writer = Arc::clone(&text);
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || Writer(Arc::clone(&writer)))
            .finish();
        Self(text, tracing::subscriber::set_default(subscriber))
    }

    /// The lines with this text.
    fn lines(&self, text: &str) -> Vec<String> {
        let log = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        log.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

struct Writer(Arc<Mutex<Vec<u8>>>);

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lets everything else run until nothing is left to do but wait.
async fn settle() {
    // The clock is paused: it moves only once every task waits for it.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
}
