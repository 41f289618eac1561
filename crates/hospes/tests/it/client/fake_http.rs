//! Scripted HTTP server that records its requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// One request, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
    /// Number of the connection, from 0.
    pub(crate) connection: usize,
}

impl Asked {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Name of the called tool.
    pub(crate) fn tool(&self) -> &str {
        self.body["params"]["name"].as_str().unwrap_or_default()
    }
}

/// Scripted response.
pub(crate) struct Said {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<Step>,
    streams: bool,
}

pub(crate) enum Step {
    Text(String),
    /// The connection is cut where it stands.
    Cut,
    /// Nothing more comes, and nothing ends.
    Hang,
    /// Everything sent into the other end of the channel, until that is dropped.
    Relay(tokio::sync::mpsc::Receiver<String>),
}

impl Said {
    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), streams: false }
    }

    pub(crate) fn json(body: &Value) -> Self {
        Self::status(200).header("content-type", "application/json").text(body.to_string())
    }

    pub(crate) fn stream(steps: Vec<Step>) -> Self {
        let said = Self::status(200).header("content-type", "text/event-stream; charset=utf-8");
        Self { body: steps, streams: true, ..said }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn text(mut self, text: impl Into<String>) -> Self {
        self.body.push(Step::Text(text.into()));
        self
    }

    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}

/// The result of a request.
pub(crate) fn result(asked: &Asked, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": asked.body["id"], "result": result })
}

/// An event with a message.
pub(crate) fn event(message: &Value) -> Step {
    Step::Text(format!("data: {message}\n\n"))
}

pub(crate) struct Fake {
    pub(crate) url: String,
    memory: Arc<Memory>,
}

#[derive(Default)]
struct Memory {
    asked: Mutex<Vec<Asked>>,
    news: Notify,
}

impl Memory {
    fn push(&self, asked: Asked) {
        self.asked.lock().unwrap().push(asked);
        self.news.notify_waiters();
    }
}

impl Fake {
    pub(crate) async fn serve(answer: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let memory = Arc::<Memory>::default();
        let (remembering, answer) = (Arc::clone(&memory), Arc::new(answer));
        tokio::spawn(async move {
            for connection in 0.. {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                tokio::spawn(converse(socket, connection, Arc::clone(&remembering), Arc::clone(&answer)));
            }
        });
        Self { url, memory }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.memory.asked.lock().unwrap().clone()
    }

    /// Those for which `wanted` holds, once there are `count` of them.
    pub(crate) async fn wait(&self, count: usize, wanted: impl Fn(&Asked) -> bool) -> Vec<Asked> {
        let found = async {
            loop {
                let news = self.memory.news.notified();
                let found: Vec<Asked> = self.asked().into_iter().filter(|asked| wanted(asked)).collect();
                if found.len() >= count {
                    return found;
                }
                news.await;
            }
        };
        if let Ok(found) = tokio::time::timeout(Duration::from_secs(60), found).await {
            return found;
        }
        panic!("not asked {count} times: {:#?}", self.asked());
    }
}

async fn converse(
    mut socket: TcpStream,
    connection: usize,
    memory: Arc<Memory>,
    answer: Arc<impl Fn(&Asked) -> Said>,
) {
    let mut buffer = Vec::new();
    while let Some(asked) = read(&mut socket, &mut buffer, connection).await {
        memory.push(asked.clone());
        let said = answer(&asked);
        if !write(&mut socket, said).await {
            return;
        }
    }
    // The client has gone: that is worth knowing.
    let closed = Asked {
        verb: "CLOSED".into(),
        path: String::new(),
        headers: BTreeMap::new(),
        body: Value::Null,
        connection,
    };
    memory.push(closed);
}

async fn read(socket: &mut TcpStream, buffer: &mut Vec<u8>, connection: usize) -> Option<Asked> {
    let head_end = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (verb, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    while buffer.len() < head_end + length {
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(&buffer[head_end..head_end + length]).unwrap_or_default();
    buffer.drain(..head_end + length);
    Some(Asked { verb, path, headers, body, connection })
}

/// Writes a response. Returns true if the connection stays open.
async fn write(socket: &mut TcpStream, said: Said) -> bool {
    let mut head = format!("HTTP/1.1 {} Whatever\r\n", said.status);
    for (name, value) in &said.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if said.streams {
        head.push_str("transfer-encoding: chunked\r\n\r\n");
    } else {
        let length: usize =
            said.body.iter().map(|step| if let Step::Text(text) = step { text.len() } else { 0 }).sum();
        head.push_str(&format!("content-length: {length}\r\n\r\n"));
    }
    if socket.write_all(head.as_bytes()).await.is_err() {
        return false;
    }
    for step in said.body {
        match step {
            Step::Text(text) => {
                let text = if said.streams { format!("{:x}\r\n{text}\r\n", text.len()) } else { text };
                if socket.write_all(text.as_bytes()).await.is_err() {
                    return false;
                }
            }
            Step::Relay(mut texts) => {
                while let Some(text) = texts.recv().await {
                    let chunk = format!("{:x}\r\n{text}\r\n", text.len());
                    if socket.write_all(chunk.as_bytes()).await.is_err() {
                        return false;
                    }
                }
            }
            Step::Cut => return false,
            Step::Hang => {
                // Until the client goes.
                let mut rest = [0; 64];
                let _ = socket.read(&mut rest).await;
                return true;
            }
        }
    }
    !said.streams || socket.write_all(b"0\r\n\r\n").await.is_ok()
}
