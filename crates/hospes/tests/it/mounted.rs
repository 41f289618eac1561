//! The endpoint behind somebody else's router and layers, and extractors of one's own.
#![cfg(all(feature = "macros", feature = "http"))]
#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    clippy::unused_async,
    reason = "helpers of tests; methods as people write them"
)]

use bytes::Bytes;
use hospes::prelude::*;
use hospes::server::{CallParts, FromCall};
use hospes::transport::http_server::Endpoint;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::Value;

/// A fact that a layer around the endpoint finds out.
#[derive(Clone)]
struct Tenant(&'static str);

/// An extractor of one's own.
struct Lang(String);

impl FromCall for Lang {
    fn from_call(parts: &CallParts<'_>) -> Result<Self, hospes::Error> {
        let head = parts.context().http().and_then(|head| head.headers.get("accept-language"));
        Ok(Self(head.and_then(|value| value.to_str().ok()).unwrap_or("none").to_owned()))
    }
}

/// Called like an extractor, and sent by the peer.
#[derive(Deserialize, JsonSchema)]
struct Uri {
    host: String,
}

struct Mounted;

#[hospes::server]
impl Mounted {
    #[tool]
    fn tenant(tenant: Extension<Tenant>) -> String {
        tenant.0.0.to_owned()
    }

    #[tool]
    async fn perhaps(tenant: Option<Extension<Tenant>>) -> String {
        tenant.map_or("nobody", |tenant| tenant.0.0).to_owned()
    }

    #[tool]
    fn greet(&self, #[arg(from_call)] lang: &Lang, name: &str, #[arg(from_call = false)] uri: Uri) -> String {
        format!("{} {name} {}", lang.0, uri.host)
    }

    #[prompt(inline)]
    fn hello(#[arg(from_call)] lang: Lang) -> String {
        lang.0
    }
}

fn request(path: &str, method: &str, params: Value) -> Request<Full<Bytes>> {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("accept-language", "rm")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method)
        .header("mcp-name", name)
        .body(Full::from(body))
        .unwrap()
}

async fn answer(request: Request<Full<Bytes>>) -> (StatusCode, Value) {
    let mut endpoint = Endpoint::new(Mounted);
    let answer = tower_service::Service::call(&mut endpoint, request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn tool(name: &str, arguments: Value) -> Request<Full<Bytes>> {
    request("/mcp", "tools/call", json!({"name": name, "arguments": arguments}))
}

#[tokio::test]
async fn what_a_layer_left_in_the_request_reaches_handlers() {
    for name in ["tenant", "perhaps"] {
        let mut request = tool(name, json!({}));
        request.extensions_mut().insert(Tenant("acme"));
        let (_, answer) = answer(request).await;
        assert_eq!(answer["result"]["content"][0]["text"], "acme", "{answer}");
    }
    let (_, without) = answer(tool("perhaps", json!({}))).await;
    assert_eq!(without["result"]["content"][0]["text"], "nobody", "{without}");
    let (_, without) = answer(tool("tenant", json!({}))).await;
    assert_eq!(without["error"]["code"], -32603, "{without}");
}

#[tokio::test]
async fn an_extractor_of_ones_own_works_in_a_method() {
    let arguments = json!({"name": "Ada", "uri": {"host": "a.example"}});
    let (_, greeted) = answer(tool("greet", arguments)).await;
    assert_eq!(greeted["result"]["content"][0]["text"], "rm Ada a.example", "{greeted}");
    let (_, listed) = answer(request("/mcp", "tools/list", json!({}))).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let greet = tools.iter().find(|tool| tool["name"] == "greet").unwrap();
    assert_eq!(greet["inputSchema"]["required"], json!(["name", "uri"]), "{greet}");
}

/// Routers take the path under which a service is nested off the request's.
#[tokio::test]
async fn an_endpoint_nested_under_any_path_answers_there() {
    for (path, status) in [("/mcp", 200), ("/", 200), ("/elsewhere", 404)] {
        let (got, answer) = answer(request(path, "tools/list", json!({}))).await;
        assert_eq!(got, status, "{path}: {answer}");
    }
}

/// The clock stands still unless somebody waits for it.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_too_long_by_its_head_is_refused_without_waiting_for_it() {
    for expect in [false, true] {
        let body =
            StreamBody::new(futures::stream::pending::<Result<http_body::Frame<Bytes>, std::io::Error>>());
        let mut request = tool("perhaps", json!({})).map(|_| body);
        request.headers_mut().insert("content-length", http::HeaderValue::from_static("100000000"));
        if expect {
            request.headers_mut().insert("expect", http::HeaderValue::from_static("100-continue"));
        }
        let start = tokio::time::Instant::now();
        let answer = Endpoint::new(Mounted).handle(request).await;
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert!(start.elapsed() < std::time::Duration::from_secs(1), "{:?}", start.elapsed());
    }
}
