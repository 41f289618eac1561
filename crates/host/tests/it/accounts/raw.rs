//! HTTP requests as raw bytes.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::accounts::browser::PATIENCE;
use crate::accounts::site::{Gate, Site};

async fn post(gate: &Gate, user: &str, more: &str, body: &Value) -> (u16, String) {
    let authority = gate.origin.trim_start_matches("http://");
    let body = body.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {authority}\r\nauthorization: Bearer token-of-{user}\r\nconnection: close\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {}\r\n\
         {more}\r\n{body}",
        body.len()
    );
    let exchange = async {
        let mut stream = TcpStream::connect(authority).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::time::timeout(PATIENCE, exchange).await.expect("no answer");
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

/// Neither a session nor the state of a call is of use to anybody else.
///
/// covers: HSES-12 HSES-14 SECP-09 SECP-10 MRTR-11
#[tokio::test]
async fn nobody_goes_on_with_what_somebody_else_began() {
    let site = Site::new().await;
    let gate = Gate::new(&site).await;
    let open = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "raw", "version": "1" } } });
    let (status, opened) = post(&gate, "alice", "", &open).await;
    assert_eq!(status, 200, "{opened}");
    let session = opened.lines().find_map(|line| {
        line.to_ascii_lowercase().starts_with("mcp-session-id: ").then(|| line[16..].trim().to_owned())
    });
    let session =
        format!("mcp-session-id: {}\r\nmcp-protocol-version: 2025-11-25\r\n", session.expect("a session"));
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    assert_eq!(post(&gate, "bob", &session, &list).await.0, 404);
    assert_eq!(post(&gate, "alice", &session, &list).await.0, 200);

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "url": {} } },
    });
    let params = json!({ "name": "site__whoami", "arguments": {}, "_meta": meta });
    let mut call = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params });
    let modern = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: site__whoami\r\n";
    let (status, asked) = post(&gate, "alice", modern, &call).await;
    assert_eq!(status, 200, "{asked}");
    let asked: Value = serde_json::from_str(asked.split_once("\r\n\r\n").unwrap().1).unwrap();
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let (key, question) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(
        (&question["method"], &question["params"]["mode"]),
        (&json!("elicitation/create"), &json!("url"))
    );
    let link = question["params"]["url"].as_str().unwrap();
    assert!(link.starts_with(&format!("{}/connect/", gate.origin)), "{asked}");
    assert_eq!(gate.browser("alice").agree(link).await.status, 200);
    call["params"]["requestState"] = result["requestState"].clone();
    call["params"]["inputResponses"] = json!({ key: { "action": "accept" } });
    let (_, refused) = post(&gate, "bob", modern, &call).await;
    assert!(refused.contains("\"error\"") && !refused.contains("alice-there"), "{refused}");
    let (_, answered) = post(&gate, "alice", modern, &call).await;
    assert!(answered.contains("alice-there"), "{answered}");
}
