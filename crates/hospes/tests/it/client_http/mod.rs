//! Tests of the client over HTTP, against a scripted server.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::client::fake_http;

use crate::client::clock;
use crate::client::log;

mod authorizer;
mod eras;
mod headers;
mod messages;
mod network;
mod questions;
mod sessions;
mod streams;

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clock::Clock;
use fake_http::{Asked, Fake, Said, Step, event, result};
use hospes::client::{CallError, Client, ConnectStage, Target, TimeLimit};
use hospes::model::{ElicitResult, RawJson, Revision};
use serde_json::{Value, json};
use tokio::sync::mpsc;

fn text(asked: &Asked, text: &str) -> Value {
    let mut answer = json!({ "content": [{ "type": "text", "text": text }] });
    if asked.header("mcp-protocol-version") == Some("2026-07-28") {
        answer["resultType"] = "complete".into();
    }
    result(asked, &answer)
}

/// A server of the older era with sessions; `call` answers what is no part of the handshake.
fn legacy(
    call: impl Fn(&Asked) -> Said + Send + Sync + 'static,
) -> impl Fn(&Asked) -> Said + Send + Sync + 'static {
    let sessions = AtomicUsize::new(0);
    move |asked| match (asked.verb.as_str(), asked.method()) {
        ("POST", "initialize") => {
            let session = sessions.fetch_add(1, Ordering::Relaxed);
            let capabilities = json!({ "tools": {}, "resources": { "subscribe": true } });
            Said::json(&result(
                asked,
                &json!({ "protocolVersion": asked.body["params"]["protocolVersion"], "capabilities": capabilities,
                    "serverInfo": { "name": "fake", "version": "1" } }),
            ))
            .header("Mcp-Session-Id", &format!("session-{session}"))
        }
        ("POST", "notifications/initialized") => Said::status(202),
        ("DELETE", _) => Said::status(204),
        ("GET", _) if asked.header("last-event-id").is_none() => Said::status(405),
        _ => call(asked),
    }
}

/// Creates a server of an older revision with a stream for each of two sessions. Text sent into the channels appears on
/// the streams.
fn legacy_with_streams(
    call: impl Fn(&Asked) -> Said + Send + Sync + 'static,
) -> (impl Fn(&Asked) -> Said + Send + Sync + 'static, [mpsc::Sender<String>; 2]) {
    let inner = legacy(call);
    let channels = [mpsc::channel(8), mpsc::channel(8)];
    let (mut senders, mut streams) = (Vec::new(), HashMap::new());
    for (number, (sender, stream)) in channels.into_iter().enumerate() {
        senders.push(sender);
        streams.insert(format!("session-{number}"), stream);
    }
    let streams = Mutex::new(streams);
    let serve = move |asked: &Asked| match asked.verb.as_str() {
        "GET" => {
            let stream = streams.lock().unwrap().remove(asked.header("mcp-session-id").unwrap_or_default());
            stream.map_or_else(|| Said::status(405), |stream| Said::stream(vec![Step::Relay(stream)]))
        }
        _ => inner(asked),
    };
    (serve, senders.try_into().unwrap())
}

/// A server of 2026-07-28.
fn modern(
    call: impl Fn(&Asked) -> Said + Send + Sync + 'static,
) -> impl Fn(&Asked) -> Said + Send + Sync + 'static {
    move |asked| match asked.method() {
        "server/discover" => Said::json(&result(
            asked,
            &json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
                "ttlMs": 0, "cacheScope": "private" }),
        )),
        _ => call(asked),
    }
}

async fn older(fake: &Fake) -> Client {
    Client::builder().revision(Revision::V2025_11_25).connect(&fake.url).await.unwrap()
}

async fn newer(fake: &Fake) -> Client {
    Client::builder().revision(Revision::V2026_07_28).connect(&fake.url).await.unwrap()
}

/// Elicitation request of a server, as an event.
fn question(id: u32) -> String {
    let form = json!({ "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } });
    let question = json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": form });
    format!("data: {question}\n\n")
}
