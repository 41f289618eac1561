//! Arguments that headers repeat, through the gateway.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hospes::server::{Server, Tool};
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes_host::Host;
use hospes_host::config::ConfigLoader;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const LOOPBACK: (&str, u16) = ("127.0.0.1", 0);

/// Each tool has a marked argument, and counts its calls.
async fn upstream(calls: &Arc<AtomicUsize>) -> SocketAddr {
    let counted = Arc::clone(calls);
    let schema = json!({ "type": "object", "properties": {
        "region": { "type": "string", "x-mcp-header": "Region" },
        "day": { "type": "integer", "x-mcp-header": "Day" },
    } });
    let server = Server::new("trains", "1").tool(
        Tool::new("find").input_schema(schema),
        move |_: hospes::model::RawJson| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { "found" }
        },
    );
    let server = HttpServer::bind(LOOPBACK, Endpoint::new(server)).await.unwrap();
    let address = server.local_addr();
    tokio::spawn(server.serve());
    address
}

async fn post(address: SocketAddr, name: &str, arguments: &Value, headers: &str) -> (u16, Value) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: {name}\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::time::timeout(Duration::from_secs(60), exchange).await.expect("no answer");
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")))
}

/// The gateway refuses what the server itself refuses, and passes nothing of it on.
/// covers: HHDR-21 HHDR-22 HHDR-23 HHDR-24
#[tokio::test]
async fn the_gateway_refuses_calls_whose_headers_contradict_their_arguments() {
    let calls = Arc::new(AtomicUsize::new(0));
    let direct = upstream(&calls).await;
    let text = format!(
        "[servers.trains]\nurl = \"http://{direct}/mcp\"\n[servers.old]\nurl = \"http://{direct}/mcp\"\nera = \"legacy\"\n"
    );
    let host =
        Host::builder(ConfigLoader::new().parse("/nowhere/hospes.toml", &text).unwrap()).start().unwrap();
    let server = HttpServer::bind(LOOPBACK, Endpoint::new(host.gateway())).await.unwrap();
    let gateway = server.local_addr();
    tokio::spawn(server.serve());
    let arguments = json!({ "region": "north", "day": 7 });
    let right = "mcp-param-region: north\r\nmcp-param-day: 7\r\n";
    for (address, name) in [(direct, "find"), (gateway, "trains__find"), (gateway, "old__find")] {
        let before = calls.load(Ordering::SeqCst);
        for wrong in [
            "",
            "mcp-param-region: north\r\n",
            "mcp-param-region: south\r\nmcp-param-day: 7\r\n",
            "mcp-param-region: north\r\nmcp-param-day: 8\r\n",
            "mcp-param-region: north\r\nmcp-param-region: north\r\nmcp-param-day: 7\r\n",
        ] {
            let (status, answer) = post(address, name, &arguments, wrong).await;
            assert_eq!(
                (status, &answer["error"]["code"]),
                (400, &json!(-32020)),
                "{name} {wrong:?}: {answer}"
            );
        }
        let (status, answer) =
            post(address, name, &json!({ "region": null }), "mcp-param-region: x\r\n").await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32020)), "{name}: {answer}");
        assert_eq!(calls.load(Ordering::SeqCst), before, "{name}");
        for (arguments, right) in [
            (&arguments, right),
            (&arguments, "mcp-param-region: north\r\nmcp-param-day: 7.0\r\n"),
            (&json!({}), ""),
        ] {
            let (status, answer) = post(address, name, arguments, right).await;
            assert_eq!((status, &answer["error"]), (200, &Value::Null), "{name} {right:?}: {answer}");
        }
        assert_eq!(calls.load(Ordering::SeqCst), before + 3, "{name}");
    }
}
