//! Servers whose handlers do not give back their thread, as processes of their own: what goes on meanwhile, and that
//! they end.
#![cfg(all(unix, feature = "macros", feature = "stdio", feature = "http"))]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(40);
/// A shutdown timeout, in milliseconds, that no test waits for.
const FOREVER: &str = "3600000";
/// One that ends soon.
const SOON: &str = "100";

/// A child that does not outlive its test.
struct Tiny {
    child: Child,
    input: Option<ChildStdin>,
    /// The lines of its standard output.
    output: Receiver<String>,
    /// The lines of its standard error.
    errors: Receiver<String>,
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Tiny {
    fn start(threads: &str, settings: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hospes-tiny-server"));
        command.env("TINY_THREADS", threads).envs(settings.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = lines(child.stdout.take().unwrap());
        let errors = lines(child.stderr.take().unwrap());
        Self { input: child.stdin.take(), child, output, errors }
    }

    /// Over stdio, with a session open. No number of threads is a runtime with the current thread alone.
    fn on_pipes(threads: &str, limit: &str) -> Self {
        let mut tiny = Self::start(threads, &[("TINY_SHUTDOWN_MILLIS", limit)]);
        tiny.send(&initialize());
        assert_eq!(tiny.read()["id"], 0);
        tiny
    }

    /// Over HTTP, both transports; and its address.
    fn on_http(limit: &str) -> (Self, String) {
        let tiny = Self::start("2", &[("TINY_SHUTDOWN_MILLIS", limit), ("TINY_SSE_PORT", "0")]);
        let line = tiny.errors.recv_timeout(PATIENCE).unwrap();
        let address = line.strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/mcp"));
        let address = address.unwrap_or_else(|| panic!("{line:?}")).to_owned();
        (tiny, address)
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn read(&self) -> Value {
        let line = self.output.recv_timeout(PATIENCE).expect("the server answers");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a message: {line:?}"))
    }

    /// Waits until so many handlers block.
    fn blocked(&self, handlers: usize) {
        let mut seen = 0;
        while seen < handlers {
            let line = self.errors.recv_timeout(PATIENCE).expect("the handler begins");
            seen += usize::from(line == "blocking");
        }
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    fn ended(&mut self, meanwhile: impl Fn(&Self)) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
            meanwhile(self);
        }
    }
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }})
}

fn call(id: u32, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}})
}

fn ping(id: u32) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn cancelled(id: u32) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

/// covers: PING-01
#[test]
fn a_synchronous_tool_keeps_nothing_else_waiting() {
    for threads in ["none", "1"] {
        let mut tiny = Tiny::on_pipes(threads, SOON);
        tiny.send(&call(1, "block"));
        tiny.blocked(1);
        tiny.send(&ping(2));
        assert_eq!(tiny.read(), json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
        // Its call is over, though its thread is not: the id may be used again.
        tiny.send(&cancelled(1));
        tiny.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                          "params": {"name": "echo", "arguments": {"text": "hi"}}}));
        let answer = tiny.read();
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(1), &json!("hi")));
    }
}

#[test]
fn synchronous_tools_run_side_by_side() {
    let mut tiny = Tiny::on_pipes("none", SOON);
    tiny.send(&call(1, "meet"));
    tiny.send(&call(2, "meet"));
    for answer in [tiny.read(), tiny.read()] {
        assert_eq!(answer["result"]["content"][0]["text"], "true", "{answer}");
    }
}

#[test]
fn a_panic_of_a_synchronous_tool_is_one_error() {
    let mut tiny = Tiny::on_pipes("none", SOON);
    tiny.send(&call(1, "panic"));
    let answer = tiny.read();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32603)), "{answer}");
    tiny.send(&ping(2));
    assert_eq!(tiny.read()["id"], 2);
}

#[test]
fn an_async_tool_that_does_not_yield_keeps_nothing_else_waiting_where_there_are_threads() {
    let mut tiny = Tiny::on_pipes("2", SOON);
    tiny.send(&call(1, "hog"));
    tiny.blocked(1);
    tiny.send(&ping(2));
    assert_eq!(tiny.read()["id"], 2);
}

#[test]
fn the_end_of_input_ends_a_server_whose_handler_does_not_yield() {
    for (threads, tool) in [("none", "hog"), ("1", "hog"), ("none", "block"), ("1", "block")] {
        let mut tiny = Tiny::on_pipes(threads, SOON);
        tiny.send(&call(1, tool));
        tiny.blocked(1);
        tiny.input = None;
        assert_eq!(tiny.ended(|_| ()).code(), Some(1), "{threads} {tool}");
    }
}

/// covers: STDIO-12
#[test]
fn one_signal_ends_a_server_whose_handler_does_not_yield() {
    for (threads, tool) in [("none", "hog"), ("1", "hog"), ("none", "block")] {
        for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
            let mut tiny = Tiny::on_pipes(threads, SOON);
            tiny.send(&call(1, tool));
            tiny.blocked(1);
            tiny.signal(signal);
            assert_eq!(tiny.ended(|_| ()).code(), Some(code), "{threads} {tool}");
        }
    }
}

#[test]
fn a_second_signal_ends_a_server_at_once() {
    for (threads, tool) in [("none", "hog"), ("1", "hog"), ("none", "block")] {
        let mut tiny = Tiny::on_pipes(threads, FOREVER);
        tiny.send(&call(1, tool));
        tiny.blocked(1);
        // Signals that come too close are one.
        assert_eq!(tiny.ended(|tiny| tiny.signal(Signal::INT)).code(), Some(130), "{threads} {tool}");
    }
}

fn post(address: &str, path: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = body.to_string();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-11-25\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    answer
}

fn http_session(address: &str) -> String {
    let opened = answer(post(address, "/mcp", &initialize()));
    let session = opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    session.unwrap_or_else(|| panic!("{opened}")).to_owned()
}

fn in_session(address: &str, session: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let body = body.to_string();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-11-25\r\n\
         mcp-session-id: {session}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

#[test]
fn four_synchronous_tools_on_two_threads_stall_nobody_over_http() {
    let (mut tiny, address) = Tiny::on_http(FOREVER);
    let session = http_session(&address);
    let calls: Vec<_> = (1..5).map(|id| in_session(&address, &session, &call(id, "block"))).collect();
    tiny.blocked(4);
    let pong = answer(in_session(&address, &session, &ping(9)));
    assert!(pong.starts_with("HTTP/1.1 200 ") && pong.contains("\"id\":9"), "{pong}");
    let stopped = answer(in_session(&address, &session, &cancelled(1)));
    assert!(stopped.starts_with("HTTP/1.1 202 "), "{stopped}");
    assert_eq!(tiny.ended(|tiny| tiny.signal(Signal::INT)).code(), Some(130));
    drop(calls);
}

#[test]
fn one_signal_ends_an_http_server_whose_handlers_do_not_yield() {
    for tool in ["block", "hog"] {
        let (mut tiny, address) = Tiny::on_http(SOON);
        let session = http_session(&address);
        let calls: Vec<_> = (1..4).map(|id| in_session(&address, &session, &call(id, tool))).collect();
        // As many as there are threads: with that, nothing in the runtime runs any more.
        tiny.blocked(2);
        tiny.signal(Signal::TERM);
        assert_eq!(tiny.ended(|_| ()).code(), Some(143), "{tool}");
        drop(calls);
    }
}

#[test]
fn a_tool_that_blocks_keeps_nothing_else_waiting_over_http_and_sse() {
    for tool in ["block", "hog"] {
        let (tiny, address) = Tiny::on_http(SOON);
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET /sse HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n").unwrap();
        let events = lines(stream);
        let data = |wanted: &dyn Fn(&str) -> bool| loop {
            let line = events.recv_timeout(PATIENCE).expect("the stream goes on");
            if let Some(data) = line.strip_prefix("data:").map(str::trim)
                && wanted(data)
            {
                return data.to_owned();
            }
        };
        let path = data(&|data| data.starts_with('/'));
        let send = |body: &Value| assert!(answer(post(&address, &path, body)).contains(" 202 "));
        let mut opening = initialize();
        opening["params"]["protocolVersion"] = json!("2024-11-05");
        send(&opening);
        data(&|data| data.contains("\"id\":0"));
        send(&call(1, tool));
        tiny.blocked(1);
        send(&ping(2));
        data(&|data| data.contains("\"id\":2"));
    }
}
