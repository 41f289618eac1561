//! The pieces of a call, one by one: `cargo bench -p hospes-bench`.
//!
//! Intended for anyone who changes one of these parts. The yardstick measures the cost of a whole call beside its
//! peers.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use futures::FutureExt as _;
use hospes::model::{
    CallToolResult, ContentBlock, Method, PeerResult, RawJson, Reply, Resource, Revision, ServerStamp,
    message,
};
use hospes::transport::http_server::Endpoint;
use hospes::transport::stdio_server::StdioServer;
use hospes::{Call, Context, Outcome, Peer, Service as _};
use hospes_bench::tools;
use hospes_proto::frame::sse::{self, SseDecoder, SseEventHead};
use hospes_proto::frame::{FramedLine, LineFramer};
use hospes_proto::http::AdmissionRules;
use http::Request;
use http_body_util::Full;

const MEBIBYTE: usize = 1024 * 1024;
/// Number of calls that arrive at once in the pipelined cases.
const PIPELINED: usize = 64;

criterion_group!(benches, envelope, framing, admission, dispatch, results);
criterion_main!(benches);

/// Reading the envelope of a message.
fn envelope(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("envelope");
    for (name, text) in [("small", call("hello")), ("1 MiB", call(&"x".repeat(MEBIBYTE)))] {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bench| bench.iter(|| message::decode(black_box(text.as_bytes()))));
    }
}

/// Cutting what arrives into messages, and messages into what is sent.
fn framing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("framing");
    let lines = format!("{}\n", call("hello")).repeat(PIPELINED);
    group.throughput(Throughput::Elements(PIPELINED as u64));
    group.bench_function("64 lines", |bench| {
        let mut framer = LineFramer::default();
        bench.iter(|| {
            framer.buffer().extend_from_slice(lines.as_bytes());
            std::iter::from_fn(|| framer.poll_line())
                .filter(|line| matches!(line, FramedLine::Message(_)))
                .count()
        });
    });
    let mut events = Vec::new();
    for number in 0..PIPELINED {
        let head = SseEventHead { id: Some(format_args!("{number}-0")), ..SseEventHead::default() };
        sse::write_event(&mut events, head, call("hello").as_bytes());
    }
    let events = Bytes::from(events);
    group.bench_function("64 events", |bench| {
        bench.iter(|| {
            let (mut decoder, mut chunk) = (SseDecoder::default(), events.clone());
            std::iter::from_fn(|| decoder.poll_event(&mut chunk)).count()
        });
    });
}

/// Looking at the head of an HTTP request.
fn admission(criterion: &mut Criterion) {
    let rules = AdmissionRules::default();
    let (head, _) = post(Bytes::new()).into_parts();
    criterion.bench_function("admission", |bench| {
        bench.iter(|| rules.admit(black_box(&head.method), None, black_box(&head.headers)).is_ok());
    });
}

/// A call of a tool: by the server alone, from an HTTP request to its response, and 64 at a time over stdio.
fn dispatch(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("dispatch");
    let server = tools::server();
    let context = Context::new(Peer::new(Revision::LATEST, None, Default::default()).into());
    let params = RawJson::parse(r#"{"name":"echo","arguments":{"text":"hello"}}"#).expect("it is JSON");
    group.bench_function("server", |bench| {
        bench.iter(|| {
            let call = Call::new(Method::ToolsCall, params.clone(), context.clone());
            let outcome = server.call(call).now_or_never();
            assert!(matches!(outcome, Some(Outcome::Complete(_))), "{outcome:?}");
        });
    });
    let endpoint = Endpoint::new(tools::server());
    for (name, text) in [("http", call("hello")), ("http, 1 MiB", call(&"x".repeat(MEBIBYTE)))] {
        let body = Bytes::from(text);
        group.bench_function(name, |bench| {
            bench.iter_batched(
                || post(body.clone()),
                |request| {
                    let response = endpoint.handle(request).now_or_never().expect("the tool does not wait");
                    assert_eq!(response.status(), 200);
                    response
                },
                BatchSize::SmallInput,
            );
        });
    }
    let runtime = hospes_bench::runtime().expect("a runtime");
    let input = format!("{}\n", call("hello")).repeat(PIPELINED);
    // The same id again is no mistake once its first request is answered.
    group.bench_function("stdio, 64 calls", |bench| {
        bench.iter(|| {
            let server = StdioServer::new(server.clone());
            runtime
                .block_on(server.serve_io(input.as_bytes(), tokio::io::sink()))
                .expect("memory does not fail");
        });
    });
}

/// Writing a result as a revision has it, and reading one.
fn results(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("result");
    let stamp = tools::server().stamp();
    let text = Reply::from(CallToolResult::text("hello"));
    let mut linked = CallToolResult::text("hello").with_structured_content(RawJson::empty_object());
    linked.content.push(ContentBlock::link(Resource::new("file:///a", "a")));
    let linked = Reply::from(linked);
    for (name, reply) in [("text", &text), ("links", &linked)] {
        for to in [Revision::LATEST, Revision::V2025_03_26] {
            group.bench_function(format!("{name} to {to}"), |bench| {
                let mut out = Vec::new();
                bench.iter(|| write(reply, to, &stamp, &mut out));
            });
        }
    }
    let json = RawJson::parse(r#"{"content":[{"type":"text","text":"hello"}]}"#).expect("it is JSON");
    group.bench_function("read", |bench| {
        bench.iter(|| PeerResult::decode(&Method::ToolsCall, Revision::V2025_06_18, black_box(&json)));
    });
    let foreign = Reply::raw(Revision::V2025_06_18, json);
    group.bench_function("from one era to the other", |bench| {
        let mut out = Vec::new();
        bench.iter(|| write(&foreign, Revision::LATEST, &stamp, &mut out));
    });
}

fn write(reply: &Reply, to: Revision, stamp: &ServerStamp, out: &mut Vec<u8>) {
    out.clear();
    black_box(reply).encode(&Method::ToolsCall, to, stamp, out).expect("the revision has such results");
}

/// A call of `echo` that is complete in itself.
fn call(text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"bench","version":"1"}}}}}}}}"#
    )
}

fn post(body: Bytes) -> Request<Full<Bytes>> {
    Request::post("/mcp")
        .header("host", "127.0.0.1:8080")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "echo")
        .header("content-length", body.len())
        .body(Full::new(body))
        .expect("the headers are good ones")
}
