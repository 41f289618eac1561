//! HTTP requests without a library of ours: one connection each, so that a broken one belongs to one request.

use std::collections::VecDeque;

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Maximum size of an answer.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;

/// Request on a connection of its own.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    pub(crate) port: u16,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl HttpRequest {
    /// A GET request of a page.
    pub(crate) fn get(port: u16, path: &str) -> Self {
        Self { port, method: Method::GET, path: path.to_owned(), headers: Vec::new(), body: String::new() }
    }
}

/// Head of a response, and its body to be read.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    pub(crate) retry_after: Option<String>,
    pub(crate) is_event_stream: bool,
    /// Nonce that the next DPoP proof has to have.
    pub(crate) dpop_nonce: Option<String>,
    /// Time of the server's clock.
    pub(crate) date: Option<String>,
    body: Incoming,
    /// Bytes of an event stream that were received, without those of complete events.
    buffer: Vec<u8>,
    events: VecDeque<StreamEvent>,
}

/// Event of a stream.
#[derive(Debug, Default)]
pub(crate) struct StreamEvent {
    pub(crate) id: Option<String>,
    pub(crate) retry_ms: Option<u64>,
    /// JSON-RPC message; `None` for an event that carries only an id.
    pub(crate) message: Option<Value>,
}

/// Sends a request and waits for the head of the response. Any error means that the connection failed or broke.
pub(crate) async fn send(request: HttpRequest) -> Result<HttpResponse> {
    let stream = TcpStream::connect(("127.0.0.1", request.port)).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends when the body has been read or dropped.
    tokio::spawn(connection);
    let mut built = Request::builder().method(request.method).uri(request.path);
    if request.headers.iter().all(|(name, _)| *name != "host") {
        built = built.header("host", format!("127.0.0.1:{}", request.port));
    }
    for (name, value) in request.headers {
        built = built.header(name, value);
    }
    let response = sender.send_request(built.body(Full::new(Bytes::from(request.body)))?).await?;
    let (head, body) = response.into_parts();
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    Ok(HttpResponse {
        status: head.status.as_u16(),
        session: header("mcp-session-id").map(str::to_owned),
        retry_after: header("retry-after").map(str::to_owned),
        is_event_stream: header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")),
        dpop_nonce: header("dpop-nonce").map(str::to_owned),
        date: header("date").map(str::to_owned),
        body,
        buffer: Vec::new(),
        events: VecDeque::new(),
    })
}

impl HttpResponse {
    /// Reads the whole body as text.
    pub(crate) async fn text(mut self) -> Result<String> {
        let mut text = Vec::new();
        while let Some(frame) = self.body.frame().await {
            if let Ok(data) = frame?.into_data() {
                text.extend_from_slice(&data);
            }
            if text.len() > MAX_BODY_BYTES {
                return Err(anyhow!("the body has more than {MAX_BODY_BYTES} bytes"));
            }
        }
        String::from_utf8(text).context("the body is not UTF-8")
    }

    /// Reads the next event of a stream; `None` at its proper end, an error if the connection broke.
    pub(crate) async fn next_event(&mut self) -> Result<Option<StreamEvent>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            if let Ok(data) = frame?.into_data() {
                self.buffer.extend_from_slice(&data);
                self.split_events()?;
            }
        }
    }

    fn split_events(&mut self) -> Result<()> {
        while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
            let event = parse_event(std::str::from_utf8(&block).context("an event is not UTF-8")?)?;
            self.events.extend(event);
        }
        if self.buffer.len() > MAX_BODY_BYTES {
            return Err(anyhow!("an event has more than {MAX_BODY_BYTES} bytes"));
        }
        Ok(())
    }
}

/// Reads the lines of an event; `None` for a comment. The servers under test end lines with LF.
fn parse_event(block: &str) -> Result<Option<StreamEvent>> {
    let (mut event, mut data, mut is_event) = (StreamEvent::default(), String::new(), false);
    for line in block.lines().filter(|line| !line.is_empty() && !line.starts_with(':')) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        is_event = true;
        match name {
            "id" => event.id = Some(value.to_owned()),
            "retry" => event.retry_ms = value.parse().ok(),
            "data" => data.push_str(value),
            _ => {}
        }
    }
    if !data.is_empty() {
        let message = serde_json::from_str(&data);
        event.message = Some(message.with_context(|| format!("an event's data is not JSON: {data}"))?);
    }
    Ok(is_event.then_some(event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_with_their_ids() {
        let event = parse_event("id: 1-0\nretry: 1000\ndata: \n\n").unwrap().unwrap();
        assert_eq!((event.id.as_deref(), event.retry_ms, event.message), (Some("1-0"), Some(1000), None));
        let event = parse_event("id: 1-1\ndata: {\"a\":1}\n\n").unwrap().unwrap();
        assert_eq!(event.message, Some(serde_json::json!({ "a": 1 })));
        assert!(parse_event(": keep-alive\n\n").unwrap().is_none());
        assert!(parse_event("data: {\n\n").is_err());
    }
}
