//! The stdio server against a client written by hand.

#![expect(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "helpers of tests")]

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::time::timeout;

use super::StdioServer;
use crate::transport::memory::{pair, serve_with};
use crate::transport::probe::{Change, Probe};

/// A client's end of a connection.
pub(crate) struct Peer {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: WriteHalf<DuplexStream>,
}

impl Peer {
    pub(crate) fn of(server: StdioServer) -> Self {
        let (input, output) = tokio::io::split(serve_with(server));
        Self { input: BufReader::new(input), output }
    }

    fn new(probe: &Probe) -> Self {
        Self::of(StdioServer::new(probe.clone()))
    }

    async fn opened(probe: &Probe, revision: &str) -> Self {
        let mut peer = Self::new(probe);
        peer.open(revision).await;
        peer
    }

    pub(crate) async fn open(&mut self, revision: &str) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "peer", "version": "1"},
        }}))
        .await;
        let answer = self.read().await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    pub(crate) async fn line(&mut self, line: &str) {
        self.output.write_all(line.as_bytes()).await.unwrap();
        self.output.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.line(&message.to_string()).await;
    }

    pub(crate) async fn tool(&mut self, id: u32, name: &str, arguments: Value) {
        self.send(tool(id, name, arguments)).await;
    }

    pub(crate) async fn read(&mut self) -> Value {
        self.read_or_end().await.expect("the server has closed the connection")
    }

    async fn read_or_end(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = timeout(Duration::from_secs(20), self.input.read_line(&mut line));
        let bytes = read.await.expect("no line came").unwrap();
        (bytes > 0).then(|| serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}")))
    }

    /// The same for a peer of 2026-07-28, where there is no ping.
    pub(crate) async fn silence_modern(&mut self) {
        self.send(modern(4711, "server/discover", json!({}))).await;
        assert_eq!(self.read().await["id"], 4711);
    }

    /// That nothing more has been said: the answer to a ping comes next.
    pub(crate) async fn silence(&mut self) {
        self.send(json!({"jsonrpc": "2.0", "id": "silence", "method": "ping"})).await;
        assert_eq!(self.read().await["id"], "silence");
    }
}

pub(crate) fn tool(id: u32, name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": name, "arguments": arguments}})
}

pub(crate) fn modern(id: u32, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}

pub(crate) fn code(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {answer}"))
}

/// covers: LIFE-03 LIFE-04 VER-03 VER-04 VER-05 PING-02
#[tokio::test]
async fn a_session_is_opened_in_every_older_revision() {
    for (asked, spoken) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut peer = Peer::new(&Probe::new());
        let answer = peer.open(asked).await;
        assert_eq!(answer["result"]["protocolVersion"], spoken, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "probe");
        assert_eq!(answer["result"]["instructions"], "probe me");
        assert_eq!(answer["result"]["capabilities"]["tools"]["listChanged"], true);
        assert!(answer["result"].get("resultType").is_none(), "{answer}");
        peer.tool(1, "echo", json!({"text": "hi"})).await;
        assert_eq!(text(&peer.read().await), "hi");
        peer.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
        assert_eq!(peer.read().await, json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
    }
}

/// covers: VER-12 VER-14 VER-15 STLS-01 STLS-03 MSG-25 DISC-05 PING-11
#[tokio::test]
async fn modern_requests_need_no_session() {
    let mut peer = Peer::new(&Probe::new());
    peer.send(modern(1, "server/discover", json!({}))).await;
    let answer = peer.read().await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "probe");
    peer.send(modern(2, "tools/call", json!({"name": "echo", "arguments": {"text": "hi"}}))).await;
    let answer = peer.read().await;
    assert_eq!((text(&answer), &answer["result"]["resultType"]), ("hi", &json!("complete")));
    for method in
        ["initialize", "ping", "logging/setLevel", "sampling/createMessage", "notifications/message"]
    {
        peer.send(modern(3, method, json!({}))).await;
        assert_eq!(code(&peer.read().await), -32601, "{method}");
    }
    let mut without = modern(4, "tools/list", json!({}));
    without["params"]["_meta"].as_object_mut().unwrap().retain(|key, _| !key.contains("Capabilities"));
    peer.send(without).await;
    assert_eq!(code(&peer.read().await), -32602);
    let mut other = modern(5, "tools/list", json!({}));
    other["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "v9".into();
    peer.send(other).await;
    let answer = peer.read().await;
    assert_eq!(code(&answer), -32022);
    assert_eq!(answer["error"]["data"], json!({"supported": ["2026-07-28"], "requested": "v9"}));
    // A client may look for the new era first and open a session of the old one then.
    assert_eq!(peer.open("2025-06-18").await["result"]["protocolVersion"], "2025-06-18");
    peer.tool(6, "echo", json!({"text": "old"})).await;
    assert!(peer.read().await["result"].get("resultType").is_none());
}

/// covers: PING-01 MSG-11
#[tokio::test]
async fn whatever_comes_before_initialize_is_answered_and_survived() {
    let mut peer = Peer::new(&Probe::new());
    peer.tool(1, "echo", json!({})).await;
    let answer = peer.read().await;
    assert_eq!((code(&answer), &answer["id"]), (-32602, &json!(1)));
    peer.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    assert_eq!(peer.read().await["result"], json!({}));
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    peer.send(json!({"jsonrpc": "2.0", "id": 7, "result": {}})).await;
    peer.send(json!({"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"protocolVersion": 1}}))
        .await;
    assert_eq!(code(&peer.read().await), -32602);
    assert_eq!(peer.open("2025-11-25").await["result"]["protocolVersion"], "2025-11-25");
    peer.send(json!({"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": {}})).await;
    assert_eq!(code(&peer.read().await), -32600);
}

// The table of probes that no peer passes as a whole.

#[tokio::test]
async fn probe_a_handler_that_panics_is_that_calls_error() {
    for (mut peer, call) in [
        (Peer::opened(&Probe::new(), "2025-11-25").await, tool(1, "panic", json!({}))),
        (Peer::new(&Probe::new()), modern(1, "tools/call", json!({"name": "panic"}))),
    ] {
        peer.send(call).await;
        let answer = peer.read().await;
        assert_eq!((code(&answer), &answer["id"]), (-32603, &json!(1)));
        peer.send(modern(2, "server/discover", json!({}))).await;
        assert!(peer.read().await["result"].is_object());
    }
}

/// covers: MSG-18
#[tokio::test]
async fn probe_malformed_json_is_answered() {
    let mut peer = Peer::opened(&Probe::new(), "2025-11-25").await;
    for bad in ["{\"jsonrpc\":\"2.0\",\"id\":1,", "nonsense", "{\"id\":\"\u{1}\"}"] {
        peer.line(bad).await;
        assert_eq!(code(&peer.read().await), -32700, "{bad}");
    }
    for (bad, id) in [
        ("{}", Value::Null),
        ("[1]", Value::Null),
        ("7", Value::Null),
        ("{\"jsonrpc\":\"1.0\",\"id\":3,\"method\":\"ping\"}", json!(3)),
        ("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\",\"params\":[]}", json!(4)),
        ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", Value::Null),
    ] {
        peer.line(bad).await;
        let answer = peer.read().await;
        assert_eq!((code(&answer), &answer["id"]), (-32600, &id), "{bad}");
    }
    peer.silence().await;
}

#[tokio::test]
async fn probe_an_unknown_method_is_method_not_found() {
    let mut peer = Peer::opened(&Probe::new(), "2025-11-25").await;
    for method in ["no/such", "server/discover", "subscriptions/listen", "sampling/createMessage"] {
        peer.send(json!({"jsonrpc": "2.0", "id": 1, "method": method})).await;
        assert_eq!(code(&peer.read().await), -32601, "{method}");
    }
}

#[tokio::test]
async fn probe_a_request_of_17_mib_is_served() {
    let mut peer = Peer::opened(&Probe::new(), "2025-11-25").await;
    let long = "x".repeat(17 * 1024 * 1024);
    peer.tool(1, "echo", json!({"text": long})).await;
    let answer = peer.read().await;
    // The request is served; an answer of that size would end the session of the official TypeScript clients.
    assert_eq!(answer["result"]["isError"], true);
    assert!(text(&answer).contains("max_answer_bytes"), "{}", text(&answer));
    peer.tool(2, "sleep", json!({"text": long})).await;
    assert_eq!(text(&peer.read().await), "slept");
}

/// A peer reads 11 MB in half a second and 40 MB in ten (defect R3): here four times the bytes take about four times as
/// long.
#[tokio::test]
async fn a_long_message_is_read_in_linear_time() {
    let mut peer = Peer::opened(&Probe::new(), "2025-11-25").await;
    let mut times = Vec::new();
    for (id, megabytes) in [(1, 2), (2, 2), (3, 8)] {
        let long = "x".repeat(megabytes * 1_000_000);
        let start = std::time::Instant::now();
        peer.tool(id, "sleep", json!({"text": long})).await;
        assert_eq!(text(&peer.read().await), "slept");
        times.push(start.elapsed());
    }
    assert!(times[2] < 12 * times[1].max(Duration::from_millis(100)), "{times:?}");
}

/// Peers close the connection at a long line, and every call that waits dies with it (defect R2).
#[tokio::test]
async fn a_message_over_the_limit_fails_alone() {
    let mut peer =
        Peer::of(StdioServer::new(Probe::new()).max_message_bytes(100_000).max_answer_bytes(50_000));
    peer.open("2025-11-25").await;
    peer.tool(1, "echo", json!({"text": "x".repeat(200_000)})).await;
    let answer = peer.read().await;
    assert_eq!((code(&answer), &answer["id"]), (-32600, &json!(1)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("max_message_bytes"));
    // And an answer that is too long is replaced.
    peer.tool(2, "echo", json!({"text": "x".repeat(60_000)})).await;
    assert!(text(&peer.read().await).contains("max_answer_bytes"));
    peer.silence().await;
}

#[tokio::test]
async fn probe_json_200_deep_is_answered() {
    let mut peer = Peer::opened(&Probe::new(), "2025-11-25").await;
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    peer.line(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"echo\",\"arguments\":{{\"x\":{deep}}}}}}}"
    ))
    .await;
    assert_eq!(peer.read().await["id"], 1);
    let deeper = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    peer.line(&deeper).await;
    assert!(matches!(code(&peer.read().await), -32700 | -32600));
    peer.silence().await;
}

/// covers: BATCH-01 BATCH-03 BATCH-05 BATCH-08
#[tokio::test]
async fn probe_a_batch_at_2025_03_26_is_answered_as_one() {
    let mut peer = Peer::opened(&Probe::new(), "2025-03-26").await;
    peer.send(json!([
        tool(1, "echo", json!({"text": "a"})),
        tool(2, "sleep", json!({"millis": 20})),
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "id": 3, "method": "ping"},
        {"jsonrpc": "2.0", "id": 4, "method": "initialize"},
        {"jsonrpc": "2.0", "id": 5},
    ]))
    .await;
    let answer = peer.read().await;
    let mut ids: Vec<_> = answer.as_array().unwrap().iter().map(|part| part["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["1", "2", "3", "4", "5"], "{answer}");
    let part = |id| answer.as_array().unwrap().iter().find(|part| part["id"] == id).unwrap();
    assert_eq!(text(part(2)), "slept");
    assert_eq!(code(part(4)), -32600);
    peer.send(json!([{"jsonrpc": "2.0", "method": "notifications/initialized"}])).await;
    peer.line("[]").await;
    assert_eq!(code(&peer.read().await), -32600);
    peer.silence().await;
}

/// covers: BATCH-09
#[tokio::test]
async fn other_revisions_have_no_batches() {
    for revision in ["2025-06-18", "2025-11-25"] {
        let mut peer = Peer::opened(&Probe::new(), revision).await;
        peer.send(json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])).await;
        assert_eq!(code(&peer.read().await), -32600, "{revision}");
    }
    let mut peer = Peer::new(&Probe::new());
    peer.send(json!([modern(1, "tools/list", json!({}))])).await;
    assert_eq!(code(&peer.read().await), -32600);
}

/// Each says which member is meant, and what it must be.
#[tokio::test]
async fn params_that_cannot_be_read_are_named() {
    let meta = |member: &str| {
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        format!(r#"{{"_meta":{{{version},"io.modelcontextprotocol/clientCapabilities":{{}},{member}}}}}"#)
    };
    let mut peer = Peer::new(&Probe::new());
    for (params, expected) in [
        (r#"{"_meta":5}"#.to_owned(), "params._meta must be an object"),
        (meta(r#""progressToken":{}"#), r#"params._meta["progressToken"] must be a string or an integer"#),
        (
            meta(r#""io.modelcontextprotocol/clientInfo":[]"#),
            r#"params._meta["io.modelcontextprotocol/clientInfo"] must be an object"#,
        ),
        (
            meta(r#""io.modelcontextprotocol/logLevel":7"#),
            r#"params._meta["io.modelcontextprotocol/logLevel"] must be a log level such as "info""#,
        ),
        (r#"{"_meta":{},"name":"a","name":"b"}"#.to_owned(), r#"params has "name" twice"#),
        (r#"{"_meta":{},"_meta":{}}"#.to_owned(), r#"params has "_meta" twice"#),
    ] {
        peer.line(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)).await;
        let answer = peer.read().await;
        assert_eq!((code(&answer), answer["error"]["message"].as_str()), (-32602, Some(expected)));
    }
    let mut session = Peer::opened(&Probe::new(), "2025-06-18").await;
    session.line(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#).await;
    assert_eq!(session.read().await["error"]["message"], r#"params has "name" twice"#);
}

#[tokio::test]
async fn probe_an_unknown_tool_is_invalid_params() {
    let mut peer = Peer::opened(&Probe::new(), "2025-11-25").await;
    peer.tool(1, "no such tool", json!({})).await;
    assert_eq!(code(&peer.read().await), -32602);
}

#[tokio::test]
async fn probe_an_undeclared_argument_is_a_tool_error() {
    let mut peer = Peer::opened(&Probe::new(), "2025-11-25").await;
    peer.tool(1, "echo", json!({"text": "a", "colour": "red"})).await;
    let answer = peer.read().await;
    assert_eq!(answer["result"]["isError"], true);
    assert!(text(&answer).contains("colour"));
}

#[tokio::test(start_paused = true)]
async fn probe_four_slow_calls_run_at_once() {
    let mut peer = Peer::opened(&Probe::new(), "2025-11-25").await;
    let start = tokio::time::Instant::now();
    for id in 1..=4 {
        peer.tool(id, "sleep", json!({"millis": 500})).await;
    }
    // Others are not kept waiting meanwhile.
    peer.silence().await;
    assert!(start.elapsed() < Duration::from_millis(100));
    for _ in 1..=4 {
        assert_eq!(text(&peer.read().await), "slept");
    }
    assert!(start.elapsed() < Duration::from_millis(600), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn probe_of_20_000_slow_calls_a_bounded_number_runs_and_all_are_answered() {
    let probe = Probe::new();
    let mut peer = Peer::opened(&probe, "2025-11-25").await;
    let mut output = peer.output;
    let write = tokio::spawn(async move {
        for id in 0..20_000 {
            let line = format!("{}\n", tool(id, "sleep", json!({"millis": 500})));
            output.write_all(line.as_bytes()).await.unwrap();
        }
        output
    });
    let mut seen = vec![false; 20_000];
    for _ in 0..20_000 {
        let mut line = String::new();
        peer.input.read_line(&mut line).await.unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(text(&answer), "slept");
        let id = usize::try_from(answer["id"].as_u64().unwrap()).unwrap();
        assert!(!std::mem::replace(&mut seen[id], true), "two answers to {id}");
    }
    assert_eq!(probe.most_running(), super::DEFAULT_MAX_CONCURRENT_CALLS);
    drop(write.await.unwrap());
}

#[tokio::test]
async fn requests_over_the_queue_are_refused_by_name() {
    let probe = Probe::new();
    let server = StdioServer::new(probe.clone()).max_concurrent_calls(2).max_queued_bytes(400);
    let mut peer = Peer::of(server);
    peer.open("2025-11-25").await;
    for id in 1..=8 {
        peer.tool(id, "forever", json!({})).await;
    }
    let answer = peer.read().await;
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("max_concurrent_calls") && why.contains("max_queued_bytes"), "{why}");
    // A queued request can be cancelled, and so can a running one, whose place the next in the queue takes.
    while probe.running() < 2 {
        tokio::task::yield_now().await;
    }
    let cancel =
        |id: u32| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    peer.send(cancel(3)).await;
    peer.send(cancel(1)).await;
    peer.tool(4, "echo", json!({})).await;
    let mut refused = 0;
    loop {
        let answer = peer.read().await;
        let why = answer["error"]["message"].as_str().unwrap().to_owned();
        if answer["id"] == 4 {
            assert!(why.contains("the id 4"), "{why}");
            break;
        }
        refused += 1;
    }
    assert!(refused > 0);
}

/// covers: CANC-04 CANC-05 CANC-06 CANC-12
#[tokio::test]
async fn a_cancelled_call_is_dropped_and_gets_no_answer() {
    for era in ["old", "new"] {
        let probe = Probe::new();
        let mut peer = Peer::new(&probe);
        let call = if era == "old" {
            peer.open("2025-11-25").await;
            tool(1, "forever", json!({}))
        } else {
            modern(1, "tools/call", json!({"name": "forever"}))
        };
        peer.send(call).await;
        while probe.running() == 0 {
            tokio::task::yield_now().await;
        }
        for params in [json!({"requestId": 9}), json!({}), json!({"requestId": {}}), json!({"requestId": 1})]
        {
            peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})).await;
        }
        while probe.running() > 0 {
            tokio::task::yield_now().await;
        }
        peer.silence().await;
    }
}

/// covers: MSG-09
#[tokio::test]
async fn an_id_in_use_is_refused() {
    let probe = Probe::new();
    let mut peer = Peer::opened(&probe, "2025-11-25").await;
    peer.tool(1, "forever", json!({})).await;
    while probe.running() == 0 {
        tokio::task::yield_now().await;
    }
    peer.tool(1, "echo", json!({})).await;
    assert_eq!(code(&peer.read().await), -32600);
    assert_eq!(probe.running(), 1);
}

/// covers: PROG-04 PROG-05 LOG-05
#[tokio::test]
async fn progress_and_log_messages_precede_the_answer() {
    let mut peer = Peer::opened(&Probe::new(), "2025-11-25").await;
    peer.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                     "params": {"name": "progress", "_meta": {"progressToken": "t"}}}))
        .await;
    for step in 1..=3 {
        let params = peer.read().await["params"].clone();
        assert_eq!(params, json!({"progressToken": "t", "progress": step, "total": 3}));
    }
    assert_eq!(text(&peer.read().await), "there");
    peer.send(json!({"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "debug"}}))
        .await;
    assert_eq!(peer.read().await["result"], json!({}));
    peer.tool(3, "log", json!({})).await;
    assert_eq!(peer.read().await["params"], json!({"level": "info", "data": "hello"}));
    assert_eq!(text(&peer.read().await), "logged");
    // 2026-07-28: no level in the request, no log messages.
    peer.send(modern(4, "server/discover", json!({}))).await;
    peer.read().await;
}

/// covers: MSG-29
#[tokio::test]
async fn a_modern_request_says_which_log_messages_it_wants() {
    let mut peer = Peer::new(&Probe::new());
    peer.send(modern(9, "tools/call", json!({"name": "stray"}))).await;
    assert_eq!(text(&peer.read().await), "strayed");
    peer.send(modern(1, "tools/call", json!({"name": "log"}))).await;
    assert_eq!(text(&peer.read().await), "logged");
    let meta = json!({"io.modelcontextprotocol/logLevel": "info"});
    peer.send(modern(2, "tools/call", json!({"name": "log", "_meta": meta}))).await;
    assert_eq!(peer.read().await["method"], "notifications/message");
    assert_eq!(text(&peer.read().await), "logged");
}

/// covers: MSG-22
#[tokio::test]
async fn a_question_is_a_request_in_a_session() {
    let probe = Probe::new();
    let mut peer = Peer::opened(&probe, "2025-11-25").await;
    peer.tool(1, "ask", json!({})).await;
    let question = peer.read().await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["message"], "Who?");
    // An answer to something else changes nothing.
    peer.send(json!({"jsonrpc": "2.0", "id": 99, "result": {}})).await;
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    peer.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
    assert_eq!(text(&peer.read().await), format!("answered {answer}"));
    peer.tool(2, "ask", json!({})).await;
    let question = peer.read().await;
    let refusal = json!({"code": -1, "message": "no"});
    peer.send(json!({"jsonrpc": "2.0", "id": question["id"], "error": refusal})).await;
    let answer = peer.read().await;
    assert_eq!(code(&answer), -32603);
    assert_eq!(answer["error"]["data"], refusal);
    // What is no answer to the question goes no further than what was refused.
    peer.tool(3, "ask", json!({})).await;
    let question = peer.read().await;
    peer.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "maybe"}})).await;
    let answer = peer.read().await;
    assert_eq!((code(&answer), &answer["id"]), (-32602, &json!(3)), "{answer}");
}

/// A refusal with its id would look like the answer to the client's own request with that id.
#[tokio::test]
async fn an_answer_that_cannot_be_read_fails_its_question_and_is_not_answered() {
    let probe = Probe::new();
    let mut peer = Peer::opened(&probe, "2025-11-25").await;
    peer.tool(1, "ask", json!({})).await;
    let question = peer.read().await;
    let both =
        json!({"jsonrpc": "2.0", "id": question["id"], "result": {}, "error": {"code": 1, "message": "m"}});
    peer.send(both).await;
    let answer = peer.read().await;
    assert_eq!((code(&answer), &answer["error"]["data"]["code"]), (-32603, &json!(-32600)), "{answer}");
    // One that belongs to nothing is not answered either.
    peer.send(json!({"jsonrpc": "2.0", "id": 2, "error": "x"})).await;
    peer.silence().await;
    let mut peer = Peer::opened(&probe, "2025-03-26").await;
    let ping = json!({"jsonrpc": "2.0", "id": 3, "method": "ping"});
    peer.send(json!([{"jsonrpc": "2.0", "id": 2, "error": "x"}, ping])).await;
    assert_eq!(peer.read().await, json!([{"jsonrpc": "2.0", "id": 3, "result": {}}]));
}

/// covers: MRTR-01 MRTR-03 MRTR-08 MRTR-11 MRTR-15 STDIO-17
#[tokio::test]
async fn a_question_is_a_result_without_one() {
    let mut peer = Peer::new(&Probe::new());
    peer.send(modern(1, "tools/call", json!({"name": "ask"}))).await;
    let round = peer.read().await["result"].clone();
    assert_eq!(round["resultType"], "input_required");
    assert_eq!(round["inputRequests"]["name"]["method"], "elicitation/create");
    let state = round["requestState"].as_str().unwrap().to_owned();
    let answers = json!({"name": {"action": "accept", "content": {"name": "Ada"}}});
    let retry = |state: &str, answers: Value| {
        modern(2, "tools/call", json!({"name": "ask", "inputResponses": answers, "requestState": state}))
    };
    peer.send(retry(&state, answers.clone())).await;
    assert!(text(&peer.read().await).contains("Ada"));
    peer.send(retry(&format!("{state}-TAMPERED"), answers.clone())).await;
    assert_eq!(code(&peer.read().await), -32602);
    peer.send(retry(&state, json!({"name": 12345}))).await;
    assert_eq!(code(&peer.read().await), -32602);
    for malformed in [
        json!({"name": {"content": {"name": "Ada"}}}),
        json!({"name": {"action": "maybe"}}),
        json!({"name": {"action": "accept", "content": "Ada"}}),
    ] {
        peer.send(retry(&state, malformed.clone())).await;
        let refused = peer.read().await;
        assert_eq!(code(&refused), -32602, "{malformed}: {refused}");
        assert!(
            refused["error"]["message"].as_str().unwrap().contains("inputResponses[\"name\"]"),
            "{refused}"
        );
    }
    // State that is no text is not the same as none, with which the call would begin anew.
    for state in [json!(5), json!({}), json!("")] {
        peer.send(modern(2, "tools/call", json!({"name": "ask", "requestState": state}))).await;
        assert_eq!(code(&peer.read().await), -32602, "{state}");
    }
    peer.send(retry(&state, json!({"other": {}}))).await;
    assert_eq!(peer.read().await["result"]["resultType"], "input_required");
    // The state belongs to this call and no other.
    peer.send(modern(
        3,
        "tools/call",
        json!({"name": "echo", "inputResponses": answers, "requestState": state}),
    ))
    .await;
    assert_eq!(code(&peer.read().await), -32602);
}

#[tokio::test]
async fn every_round_knows_what_earlier_ones_brought() {
    let answer = |what: &str| json!({"action": "accept", "content": {"is": what}});
    let want = format!("{}{}", answer("Ada"), answer("red"));
    let mut peer = Peer::new(&Probe::new());
    let mut params = json!({"name": "interview"});
    for (id, key, what) in [(1, "name", "Ada"), (2, "colour", "red")] {
        peer.send(modern(id, "tools/call", params.clone())).await;
        let round = peer.read().await["result"].clone();
        let keys: Vec<_> = round["inputRequests"].as_object().unwrap().keys().collect();
        assert_eq!(keys, [key]);
        params["inputResponses"] = json!({ key: answer(what) });
        params["requestState"] = round["requestState"].clone();
    }
    peer.send(modern(3, "tools/call", params)).await;
    assert_eq!(text(&peer.read().await), want);

    let mut peer = Peer::opened(&Probe::new(), "2025-06-18").await;
    peer.tool(1, "interview", json!({})).await;
    for what in ["Ada", "red"] {
        let question = peer.read().await;
        peer.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer(what)})).await;
    }
    assert_eq!(text(&peer.read().await), want);
}

/// covers: MRTR-05 CAP-13
#[tokio::test]
async fn nobody_is_asked_who_cannot_answer() {
    let mut peer = Peer::new(&Probe::new());
    let mut call = modern(1, "tools/call", json!({"name": "ask"}));
    call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    peer.send(call).await;
    let answer = peer.read().await;
    assert_eq!(code(&answer), -32021);
    assert!(answer["error"]["data"]["requiredCapabilities"]["elicitation"].is_object(), "{answer}");
}

/// covers: SUBS-02 SUBS-03 SUBS-04 SUBS-07
#[tokio::test]
async fn changes_arrive_on_a_stream_of_their_own() {
    let probe = Probe::new();
    let mut peer = Peer::new(&probe);
    peer.send(modern(5, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))).await;
    let key = "io.modelcontextprotocol/subscriptionId";
    let acknowledged = peer.read().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"][key], 5);
    probe.change(Change::Prompts);
    probe.change(Change::Tools);
    let changed = peer.read().await;
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"][key], 5);
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}))
        .await;
    while probe.listening() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn changes_reach_a_session_unasked() {
    let probe = Probe::new();
    let mut peer = Peer::opened(&probe, "2025-06-18").await;
    peer.silence().await;
    while probe.listening() == 0 {
        tokio::task::yield_now().await;
    }
    probe.change(Change::Tools);
    assert_eq!(peer.read().await, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    probe.change(Change::Resource("x:1".into()));
    peer.send(json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "x:1"}}))
        .await;
    assert_eq!(peer.read().await["result"], json!({}));
    // Whoever has the answer misses nothing.
    probe.change(Change::Resource("x:1".into()));
    let changed = peer.read().await;
    assert_eq!(changed["method"], "notifications/resources/updated");
    assert_eq!(changed["params"], json!({"uri": "x:1"}));
}

/// Ends each stream of changes as soon as it is told to.
#[derive(Clone)]
struct Moody {
    probe: Probe,
    begun: tokio::sync::mpsc::UnboundedSender<tokio::time::Instant>,
    end: std::sync::Arc<tokio::sync::Notify>,
}

impl crate::Service for Moody {
    async fn call(&self, call: crate::Call) -> crate::Outcome {
        if call.method != hospes_model::Method::SubscriptionsListen {
            return self.probe.call(call).await;
        }
        let params: hospes_model::SubscriptionsListenParams = call.decode().unwrap();
        let honoured = hospes_model::SubscriptionsAcknowledgedParams::new(params.notifications);
        call.context.notify(hospes_model::Notification::SubscriptionsAcknowledged(honoured));
        self.begun.send(tokio::time::Instant::now()).unwrap();
        self.end.notified().await;
        crate::Outcome::Complete(hospes_model::SubscriptionsListenResult::new().into())
    }
}

/// A session whose service ends its call for changes was deaf until its subscriptions changed.
#[tokio::test(start_paused = true)]
async fn a_stream_of_changes_that_the_service_ends_is_begun_again_later_and_later() {
    let (begun, mut beginnings) = tokio::sync::mpsc::unbounded_channel();
    let end = std::sync::Arc::new(tokio::sync::Notify::new());
    let moody = Moody { probe: Probe::new(), begun, end: std::sync::Arc::clone(&end) };
    let mut peer = Peer::of(StdioServer::new(moody));
    peer.open("2025-06-18").await;
    let mut last = beginnings.recv().await.unwrap();
    for pause in [500, 1000, 2000] {
        end.notify_one();
        let now = beginnings.recv().await.unwrap();
        let waited = now - last;
        assert!(waited >= Duration::from_millis(pause), "{waited:?} of {pause}");
        last = now;
        // What changed meanwhile is not known, so all of it may have.
        for list in ["tools", "prompts"] {
            assert_eq!(peer.read().await["method"], format!("notifications/{list}/list_changed"));
        }
    }
}

/// A service that never takes a subscription up holds its answer up for only so long.
#[tokio::test(start_paused = true)]
async fn the_answer_to_a_subscription_waits_for_a_slow_service_only_so_long() {
    #[derive(Clone)]
    struct Slow(Probe);
    impl crate::Service for Slow {
        async fn call(&self, call: crate::Call) -> crate::Outcome {
            if call.method == hospes_model::Method::SubscriptionsListen {
                std::future::pending::<()>().await;
            }
            self.0.call(call).await
        }
    }
    let mut peer = Peer::of(StdioServer::new(Slow(Probe::new())));
    peer.open("2025-06-18").await;
    let subscribe =
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "x:1"}});
    let begun = tokio::time::Instant::now();
    peer.send(subscribe).await;
    assert_eq!(peer.read().await["result"], json!({}));
    assert!(begun.elapsed() >= Duration::from_secs(5), "it has not even waited");
}

/// covers: STDIO-13 LIFE-12 SUBS-08
#[tokio::test(start_paused = true)]
async fn when_input_ends_what_was_accepted_is_answered() {
    let probe = Probe::new();
    let mut peer = Peer::new(&probe);
    peer.send(modern(1, "tools/call", json!({"name": "sleep", "arguments": {"millis": 300}}))).await;
    peer.send(modern(2, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))).await;
    assert_eq!(peer.read().await["method"], "notifications/subscriptions/acknowledged");
    peer.send(modern(3, "tools/call", json!({"name": "forever"}))).await;
    while probe.running() < 2 {
        tokio::task::yield_now().await;
    }
    // Half closed: the client still reads.
    peer.output.shutdown().await.unwrap();
    let ended = peer.read().await;
    assert_eq!(ended["id"], 2);
    assert_eq!(ended["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 2);
    assert_eq!(text(&peer.read().await), "slept");
    let stopped = peer.read().await;
    assert_eq!((code(&stopped), &stopped["id"]), (-32603, &json!(3)));
    assert_eq!(peer.read_or_end().await, None);
    assert_eq!(probe.running(), 0);
}

/// covers: STDIO-13
#[tokio::test(start_paused = true)]
async fn what_waits_for_its_turn_when_input_ends_is_served_too() {
    let mut peer = Peer::of(StdioServer::new(Probe::new()).max_concurrent_calls(1));
    peer.open("2025-11-25").await;
    for id in 1..=3 {
        peer.tool(id, "sleep", json!({"millis": 100})).await;
    }
    peer.output.shutdown().await.unwrap();
    for id in 1..=3 {
        let answer = peer.read().await;
        assert_eq!((text(&answer), &answer["id"]), ("slept", &json!(id)));
    }
    assert_eq!(peer.read_or_end().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_given_up_when_nobody_can_answer_it_any_more() {
    let mut peer = Peer::opened(&Probe::new(), "2025-11-25").await;
    peer.tool(1, "ask", json!({})).await;
    assert_eq!(peer.read().await["method"], "elicitation/create");
    peer.output.shutdown().await.unwrap();
    let answer = peer.read().await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("closed its side"), "{answer}");
    assert_eq!(peer.read_or_end().await, None);

    let mut peer = Peer::of(StdioServer::new(Probe::new()).question_timeout(Duration::from_secs(3)));
    peer.open("2025-11-25").await;
    peer.tool(1, "ask", json!({})).await;
    let question = peer.read().await;
    let cancelled = peer.read().await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
    let answer = peer.read().await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("question_timeout"), "{answer}");
}

#[tokio::test]
async fn when_output_breaks_the_server_ends_and_drops_its_calls() {
    let probe = Probe::new();
    let (ours, theirs) = pair();
    let (input, output) = tokio::io::split(ours);
    let server = tokio::spawn(StdioServer::new(probe.clone()).serve_io(input, output));
    let (_, mut write) = tokio::io::split(theirs);
    let call = modern(1, "tools/call", json!({"name": "forever"}));
    write.write_all(format!("{call}\n").as_bytes()).await.unwrap();
    while probe.running() == 0 {
        tokio::task::yield_now().await;
    }
    server.abort();
    while probe.running() > 0 {
        tokio::task::yield_now().await;
    }
}

/// A client that does not read does not make the server take in ever more.
#[tokio::test]
async fn a_client_that_does_not_read_is_not_read_from() {
    let mut peer = Peer::opened(&Probe::new(), "2025-11-25").await;
    let call = format!("{}\n", tool(1, "echo", json!({"text": "x".repeat(10_000)})));
    let flood = async {
        for _ in 0..10_000 {
            peer.output.write_all(call.as_bytes()).await.unwrap();
        }
    };
    assert!(timeout(Duration::from_millis(500), flood).await.is_err(), "100 MB were taken in");
    assert_eq!(peer.read().await["id"], 1);
}
