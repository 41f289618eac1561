//! Peers that mean harm, or are broken: nothing panics, memory stays bounded, others are served, and the limit that was
//! hit is named.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a test")]

mod against_client;
mod against_http;
mod against_server;

use std::time::Duration;

use hospes::prelude::*;
use hospes::schemars;
use hospes::serde_json::{Value, json};
use tokio::time::timeout;

/// Maximum time to wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);
const MIB: u64 = 1024 * 1024;
/// Depth of deeply nested JSON.
const DEEP: usize = 100_000;

#[derive(Deserialize, JsonSchema)]
#[serde(crate = "hospes::serde")]
struct Echo {
    text: String,
}

/// A server with a handler of each kind.
fn server() -> Server {
    Server::new("target", "1.0")
        .tool("echo", |Args(Echo { text }): Args<Echo>| async move { text })
        .tool("raw", |arguments: RawJson| async move { arguments.as_str().len().to_string() })
        .tool("forever", std::future::pending::<String>)
        .tool("blob", || async { "x".repeat(1_000_000) })
        .tool("ask", |context: Context| async move { context.elicit::<()>("sure?").await.map(|()| "sure") })
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params}).to_string()
}

fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> String {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

fn initialize(revision: &str) -> String {
    let client = json!({"name": "hostile", "version": "1"});
    let capabilities = json!({"elicitation": {}});
    request(
        0,
        "initialize",
        json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client}),
    )
}

/// Messages that are invalid or belong to nothing. None of them may be answered more than once.
fn rubbish() -> Vec<Vec<u8>> {
    let texts = [
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"bom\",\"method\":\"ping\"}",
        "{",
        "}",
        "[",
        "[]",
        "[[]]",
        "[1,2]",
        "null",
        "true",
        "\"text\"",
        "0",
        "-",
        "{}",
        "\u{0}",
        "nul",
        "{\"jsonrpc\":\"2.0\"",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":",
        "{\"jsonrpc\":\"2.0\",\"id\":1}",
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1e400,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":"p"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#,
        r#"{"jsonrpc":"2.0","id":"\ud800","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":999999999999,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":null}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1e99,"message":["m"],"data":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":77,"progress":-1e308}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"loud"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":7}}"#,
        r#"{"jsonrpc":"2.0","method":"no/such/thing","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":""}"#,
    ];
    let mut all: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    all.push(b"\xff\xfe{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}".to_vec());
    all.push(b"{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\x28\",\"method\":\"ping\"}".to_vec());
    all.push(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"\x00\":\"\x01\"}}".to_vec());
    all.push(vec![0; 1000]);
    all
}

/// JSON that is nested deeply.
fn deep() -> [String; 3] {
    [
        format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP)),
        format!("{}1{}", "{\"a\":".repeat(DEEP), "}".repeat(DEEP)),
        // Never closed.
        "[{\"a\":".repeat(DEEP),
    ]
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what}: nothing came within {PATIENCE:?}"))
}
