//! A server as peers of each revision see it.

#![expect(clippy::needless_pass_by_value, reason = "`json!` at the call reads better")]

mod changes;
mod clients;
mod limits;
mod logs;
mod progress;
mod questions;

use hospes_model::LoggingLevel;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::{Args, Completes, Server, Typed};
use crate::transport::stdio_server::StdioServer;
use crate::transport::stdio_server::tests::{Peer, code, modern, text, tool};
use crate::{Context, Rate};

const OLDER: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn peer(server: &Server) -> Peer {
    Peer::of(StdioServer::new(server.clone()))
}

async fn ask(peer: &mut Peer, message: Value) -> Value {
    peer.send(message).await;
    peer.read().await
}

fn request(id: u32, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Returns the messages before the answer, and the answer.
async fn until_answer(peer: &mut Peer) -> (Vec<Value>, Value) {
    let mut before = Vec::new();
    loop {
        let message = peer.read().await;
        if message.get("id").is_some() {
            return (before, message);
        }
        before.push(message);
    }
}

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

fn asking() -> Server {
    Server::new("x", "1")
        .tool("roots", |ctx: Context| async move {
            let first = ctx.roots().key("roots").await?;
            // The handler runs again after this; the roots are not asked for again.
            let _: bool = ctx.elicit("Go on?").key("go").await?;
            let again = ctx.roots().key("roots").await?;
            let uris: Vec<_> = first.iter().chain(&again).map(|root| root.uri.clone()).collect();
            Ok::<_, crate::Error>(uris.join(" "))
        })
        .tool("sample", |ctx: Context| async move {
            let n: String = ctx.sample("Say hello").key("hello").await?.text();
            Ok::<_, crate::Error>(n)
        })
        .tool("who", |ctx: Context| async move { ctx.principal().unwrap_or("nobody").to_owned() })
        .tool("visit", |ctx: Context| async move {
            ctx.elicit_url("Go there", "https://example.com/").key("go").id("e-1").await?;
            let done = hospes_model::ElicitationCompleteParams::new("e-1");
            ctx.notify(hospes_model::Notification::ElicitationComplete(done));
            Ok::<_, crate::Error>("visited")
        })
}

/// A request of 2026-07-28 by a client with these capabilities.
fn able(id: u32, params: Value, capabilities: Value) -> Value {
    let mut request = modern(id, "tools/call", params);
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    request
}
