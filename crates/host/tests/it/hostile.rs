//! Servers that mean harm, or are broken, behind the gateway: their own calls fail, with a reason and soon; the other
//! servers and the applications notice nothing.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use hospes::client::Client;
use hospes::model::Revision;
use hospes::server::Server;
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes_host::config::ConfigLoader;
use hospes_host::{Host, HostSettings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Time limit for events that a test waits for.
const PATIENCE: Duration = Duration::from_secs(120);
const DEEP: usize = 100_000;

/// The body of one request; none when the connection has ended.
async fn read(stream: &mut TcpStream) -> Option<Value> {
    let mut text = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let bytes = stream.read(&mut piece).await.ok().filter(|bytes| *bytes > 0)?;
        text.extend_from_slice(&piece[..bytes]);
        let Some(end) = text.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&text[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
        if text.len() >= end + 4 + length {
            return Some(serde_json::from_slice(&text[end + 4..]).unwrap_or_default());
        }
    }
}

fn response(kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Answers one request, each tool in its own bad way.
async fn misbehave(mut stream: TcpStream) {
    let Some(asked) = read(&mut stream).await else { return };
    let (id, method) = (&asked["id"], asked["method"].as_str().unwrap_or_default());
    let deep = format!("{}{}", "[".repeat(DEEP), "]".repeat(DEEP));
    let json = |result: &str| {
        response("application/json", &format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"))
    };
    const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let said = match (method, asked["params"]["name"].as_str().unwrap_or_default()) {
        ("initialize", _) => json(
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"bad","version":"1"}}"#,
        ),
        ("tools/list", _) => {
            let tools: Vec<Value> = ["deep", "wrong", "flood", "endless", "cut", "fine"]
                .iter()
                .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
                .collect();
            json(&json!({ "tools": tools }).to_string())
        }
        ("tools/call", "fine") => json(r#"{"content":[{"type":"text","text":"fine"}]}"#),
        ("tools/call", "deep") => json(&format!("{{\"content\":{deep},\"structuredContent\":{deep}}}")),
        ("tools/call", "wrong") => json(r#"{"content":"none","isError":"maybe"}"#),
        ("tools/call", "flood") => {
            let note = json!({"jsonrpc": "2.0", "method": "notifications/message",
                              "params": {"level": "error", "data": "x".repeat(500)}});
            let stray = json!({"jsonrpc": "2.0", "id": 77, "result": {}});
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "survived"}]}});
            let many = format!("data: {note}\n\ndata: {stray}\n\ndata: rubbish\n\n").repeat(5_000);
            format!("{STREAM}{many}data: {answer}\n\n")
        }
        ("tools/call", "endless") => {
            let _ = stream.write_all(format!("{STREAM}data: ").as_bytes()).await;
            let more = "x".repeat(1024 * 1024);
            // Until the host gives up; a host that does not would fill its memory.
            for _ in 0..70 {
                if stream.write_all(more.as_bytes()).await.is_err() {
                    return;
                }
            }
            return;
        }
        ("tools/call", _) => "HTTP/1.1 200 OK\r\ncontent-le".to_owned(),
        _ if id.is_null() => {
            "HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned()
        }
        _ => {
            let refusal = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}});
            response("application/json", &refusal.to_string())
        }
    };
    let _ = stream.write_all(said.as_bytes()).await;
}

async fn bad() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(misbehave(stream));
        }
    });
    url
}

async fn good() -> String {
    let server = Server::new("good", "1").tool("say", || async { "well" });
    let server = HttpServer::bind("127.0.0.1:0", Endpoint::new(server)).await.unwrap();
    let url = server.url();
    tokio::spawn(server.serve());
    url
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .unwrap_or_else(|_| panic!("{what}: nothing within {PATIENCE:?}"))
}

#[tokio::test]
async fn a_hostile_server_spoils_only_its_own_calls() {
    let servers = json!({"mcpServers": {"good": {"url": good().await}, "bad": {"url": bad().await}}});
    let config = ConfigLoader::new().parse("/nowhere/.mcp.json", &servers.to_string()).unwrap();
    let host = Host::builder(config).start().unwrap();
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = Client::builder().revision(revision).in_memory(host.gateway()).await.unwrap();
        for tool in
            ["bad__fine", "bad__deep", "bad__wrong", "bad__flood", "bad__endless", "bad__cut", "bad__fine"]
        {
            let call = async { client.call(tool, ()).timeout(PATIENCE).await };
            let (answer, beside) =
                soon(tool, async { tokio::join!(call, async { client.call("good__say", ()).await }) }).await;
            assert_eq!(beside.unwrap().all_text(), "well", "{revision}: beside {tool}");
            match tool {
                "bad__fine" => assert_eq!(answer.unwrap().all_text(), "fine", "{revision}"),
                "bad__flood" => assert_eq!(answer.unwrap().all_text(), "survived", "{revision}"),
                "bad__endless" | "bad__cut" => assert!(!answer.unwrap_err().to_string().is_empty()),
                // Forwarded as it came, or refused: in any case there was an answer.
                _ => drop(answer),
            }
        }
        client.close().await;
    }
    host.stop().await;
}

/// Returns the memory of this process in bytes, if the system reports it.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kib| kib * 1024)
}

#[tokio::test]
async fn a_hostile_child_spoils_only_its_own_calls() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/hostile.py");
    let text = format!(
        "[servers]\ngood = \"{}\"\n[servers.bad]\ncommand = [\"python3\", \"{script}\"]\nera = \"legacy\"\n\
         [servers.mute]\ncommand = [\"python3\", \"{script}\"]\nera = \"legacy\"\nrequest_timeout = \"1s\"\n\
         [servers.gusher]\ncommand = [\"python3\", \"{script}\"]\nera = \"legacy\"\n",
        good().await
    );
    let config = ConfigLoader::new().parse("/nowhere/hospes.toml", &text).unwrap();
    let mut settings = HostSettings::default();
    settings.start_wait = PATIENCE;
    let host = Host::builder(config).settings(settings).start().unwrap();
    let before = resident();
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = Client::builder().revision(revision).in_memory(host.gateway()).await.unwrap();
        let listed = soon("the list", async { client.tools().all().await }).await.unwrap();
        assert_eq!(listed.len(), 31, "{revision}: {:?}", host.status());
        // Forwarded as it came, and read by the application; or read here to be told in its revision.
        let deep = if revision.is_legacy() { "invalid response to" } else { "cannot be read" };
        for (tool, says) in [
            ("bad__fine", Ok("fine")),
            ("mute__silent", Err(&["`mute`", "1s (setting request_timeout)"][..])),
            ("bad__flood", Ok("fine")),
            ("bad__asks", Ok("fine")),
            ("bad__half", Ok("fine")),
            ("bad__deep", Err(&[deep])),
            ("bad__twice", Ok("fine")),
            ("bad__unknown", Ok("fine")),
            ("bad__dies", Err(&["`bad`", "status 7"])),
            ("bad__fine", Ok("fine")),
            ("gusher__endless", Err(&["`gusher`", "a line over the limit (setting max_message_bytes)"])),
        ] {
            let call = async { client.call(tool, ()).timeout(PATIENCE).await };
            let beside = async {
                assert_eq!(client.call("good__say", ()).await.unwrap().all_text(), "well", "beside {tool}");
                assert!(!client.tools().all().await.unwrap().is_empty(), "beside {tool}");
            };
            let (answer, ()) = soon(tool, async { tokio::join!(call, beside) }).await;
            match (says, answer) {
                (Ok(text), answer) => assert_eq!(answer.unwrap().all_text(), text, "{revision}: {tool}"),
                (Err(parts), Err(error)) => {
                    let error = error.to_string();
                    for part in parts {
                        assert!(error.contains(part), "{revision}: {tool}: {part} in {error}");
                    }
                }
                (Err(_), Ok(answer)) => panic!("{revision}: {tool}: {answer:?}"),
            }
        }
        soon("a new start", async {
            let mut seen = 0;
            while client.call("gusher__fine", ()).await.is_err() {
                seen = host.changed(seen).await;
            }
        })
        .await;
        client.close().await;
    }
    if let (Some(before), Some(after)) = (before, resident()) {
        let grown = after.saturating_sub(before) / 1024 / 1024;
        assert!(grown < 400, "{grown} MiB more than before, and one line may have 64");
    }
    host.stop().await;
}
