//! Text that a handler prints by mistake, on every system.
#![cfg(all(feature = "server", feature = "stdio", feature = "http"))]

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// covers: STDIO-13
#[test]
fn what_a_handler_prints_does_not_reach_the_client() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hospes-tiny-server"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    }});
    let noise = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "noise", "arguments": {}}});
    writeln!(input, "{initialize}\n{noise}").unwrap();
    // The server ends with its input, behind what it owes.
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    let messages = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> = messages.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(answers.len(), 2, "{messages}");
    let text = &answers[1]["result"]["content"][0]["text"];
    assert_eq!(text, "read 0 bytes of somebody else's", "a handler reads nothing of the client");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "this is noise on stdout\n");
}
