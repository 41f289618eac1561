//! The HTTP server over real sockets, against requests written by hand.

#![expect(clippy::needless_pass_by_value, reason = "helpers of tests")]

mod callers;
mod legacy;
mod limits;
mod modern;
mod rounds;
mod shared;
mod shared_directory;
mod sse;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hospes_proto::frame::SseDecoder;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Endpoint, EndpointBuilder, HttpServer};
use crate::transport::probe::ProbeService;

/// Maximum time that a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a free port, gone with the test's runtime.
struct Site {
    address: SocketAddr,
    probe: ProbeService,
    endpoint: Endpoint,
}

impl Site {
    async fn new() -> Self {
        Self::with(|builder| builder).await
    }

    async fn with(settings: impl FnOnce(EndpointBuilder) -> EndpointBuilder) -> Self {
        let probe = ProbeService::new();
        let endpoint = settings(Endpoint::builder(probe.clone())).build();
        let server = HttpServer::bind("127.0.0.1:0", endpoint.clone()).await.unwrap();
        let address = server.local_addr();
        tokio::spawn(server.serve());
        Self { address, probe, endpoint }
    }

    async fn connect(&self) -> Connection {
        connect(self.address).await
    }

    /// Sends one request on a connection of its own.
    async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        self.connect().await.send(request).await
    }

    async fn post(&self, body: Value, headers: &[(&str, &str)]) -> Answer {
        self.send(post(body, headers)).await
    }

    async fn modern(&self, id: u32, method: &str, params: Value) -> Answer {
        self.send(modern(id, method, params)).await
    }

    /// Opens a legacy session and returns its id.
    async fn session(&self, revision: &str) -> String {
        let answer = self.post(initialize(revision), &[]).await;
        assert_eq!(answer.status, StatusCode::OK);
        let id = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let answer = self.post(initialized, &[("mcp-session-id", &id)]).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
        assert!(answer.read().await.is_empty());
        id
    }

    async fn in_session(&self, session: &str, body: Value) -> Answer {
        self.post(body, &[("mcp-session-id", session)]).await
    }

    async fn get(&self, session: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder()
            .uri("/mcp")
            .header(HOST, "localhost")
            .header(ACCEPT, "text/event-stream")
            .header("mcp-session-id", session);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Full::default()).unwrap()).await
    }

    async fn delete(&self, session: &str) -> Answer {
        let request = Request::delete("/mcp").header(HOST, "localhost").header("mcp-session-id", session);
        self.send(request.body(Full::default()).unwrap()).await
    }

    /// Waits until so many handlers run.
    async fn running(&self, count: usize) {
        until(|| self.probe.running() == count).await;
    }
}

async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("it did not come to that");
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    task: tokio::task::JoinHandle<()>,
}

async fn connect(address: SocketAddr) -> Connection {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    let task = tokio::spawn(async move {
        let _ = connection.await;
    });
    Connection { sender, task }
}

impl Connection {
    async fn send(mut self, request: Request<Full<Bytes>>) -> Answer {
        let mut answer = self.try_send(request).await.unwrap();
        answer.connection = Some(self);
        answer
    }

    async fn try_send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Answer> {
        self.sender.ready().await?;
        let sent = timeout(PATIENCE, self.sender.send_request(request)).await;
        let (parts, body) = sent.expect("no response came")?.into_parts();
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
            rest: Bytes::new(),
            decoder: SseDecoder::default(),
            connection: None,
        })
    }
}

/// A response; its body is read as it comes.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    rest: Bytes,
    decoder: SseDecoder,
    connection: Option<Connection>,
}

/// An event of a stream.
#[derive(Debug)]
struct Event {
    name: Option<Box<str>>,
    text: String,
    data: Value,
    id: Option<String>,
    retry: Option<Duration>,
}

impl Answer {
    fn is_stream(&self) -> bool {
        self.headers[CONTENT_TYPE] == "text/event-stream"
    }

    async fn read(self) -> Bytes {
        timeout(PATIENCE, self.body.collect()).await.expect("the body did not end").unwrap().to_bytes()
    }

    async fn json(self) -> Value {
        assert_eq!(self.headers[CONTENT_TYPE], "application/json");
        let body = self.read().await;
        serde_json::from_slice(&body).unwrap_or_else(|_| panic!("not JSON: {body:?}"))
    }

    /// The next event; none when the stream has ended.
    async fn event(&mut self) -> Option<Event> {
        assert!(self.is_stream(), "no stream: {:?}", self.headers);
        timeout(PATIENCE, self.next_event()).await.expect("no event came")
    }

    async fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.decoder.poll_event(&mut self.rest) {
                let event = event.unwrap();
                let data = event.data.unwrap_or_default();
                let id = event.has_id.then(|| self.decoder.last_event_id().to_owned());
                let text = String::from_utf8(data.to_vec()).unwrap();
                let data = serde_json::from_slice(&data).unwrap_or(Value::Null);
                return Some(Event { name: event.name, text, data, id, retry: event.retry });
            }
            let frame = self.body.frame().await?;
            self.rest = frame.ok()?.into_data().unwrap();
        }
    }

    async fn message(&mut self) -> Value {
        self.event().await.expect("the stream has ended").data
    }

    /// Breaks the connection.
    async fn hang_up(mut self) {
        let connection = self.connection.take().unwrap();
        connection.task.abort();
        let _ = connection.task.await;
    }
}

fn post(body: Value, headers: &[(&str, &str)]) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(Method::POST).uri("/mcp");
    let defaults = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    for (name, value) in defaults {
        if headers.iter().all(|(other, _)| *other != name) {
            request = request.header(name, value);
        }
    }
    for (name, value) in headers.iter().filter(|(_, value)| !value.is_empty()) {
        request = request.header(*name, *value);
    }
    let body = match body {
        Value::String(text) => text,
        body => body.to_string(),
    };
    request.body(Full::new(body.into())).unwrap()
}

fn modern_body(id: u32, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    if params["_meta"].get("io.modelcontextprotocol/clientCapabilities").is_none() {
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    }
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn modern_headers<'a>(method: &'a str, params: &'a Value) -> Vec<(&'a str, &'a str)> {
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    if let Some(name) = params["name"].as_str() {
        headers.push(("mcp-name", name));
    }
    headers
}

fn modern(id: u32, method: &str, params: Value) -> Request<Full<Bytes>> {
    post(modern_body(id, method, params.clone()), &modern_headers(method, &params))
}

fn initialize(revision: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": revision, "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "peer", "version": "1"},
    }})
}

fn tool(id: u32, name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": name, "arguments": arguments}})
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}

fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
}

/// A request to an endpoint without a socket, for tests of time.
async fn direct(endpoint: &Endpoint, request: Request<Full<Bytes>>) -> Response<super::Body> {
    endpoint.handle(request.map(|body| body.map_err(|never: Infallible| match never {}))).await
}
