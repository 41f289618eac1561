//! A fleet: nodes with a connection of their own to one Redis, and requests between them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hospes::model::{
    CallToolResult, DiscoverResult, Implementation, Method, RawJson, Revision, RpcError, ServerCapabilities,
    ToolsCapability, meta_key,
};
use hospes::transport::http_server::{Body, Endpoint};
use hospes::{Call, Outcome, Service};
use hospes_fleet::redis::{RedisRelay, RedisSettings};
use hospes_fleet::sealing::FleetKeys;
use hospes_fleet_testkit::net_proxy::{AcceptMode, NetProxy};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};
use hospes_node::{FleetSecrets, FleetSessions, Membership, NodePeers, NodeServer};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Lease of a node, long enough for a machine under load and short enough for a test.
const LEASE: Duration = Duration::from_millis(1000);
const RENEWAL: Duration = Duration::from_millis(100);
/// Maximum time that a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(20);

/// Length of the text that the tool `large` returns: several windows of HTTP/2.
pub(crate) const LARGE: usize = 1 << 20;

/// Service with tools that take time.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlowService(Arc<SlowState>);

#[derive(Debug, Default)]
struct SlowState {
    calls: AtomicUsize,
    go: tokio::sync::Notify,
}

impl SlowService {
    /// Number of tools that have been called.
    pub(crate) fn calls(&self) -> usize {
        self.0.calls.load(Ordering::SeqCst)
    }

    /// Lets the tool `wait` finish.
    pub(crate) fn finish(&self) {
        self.0.go.notify_one();
    }
}

impl Service for SlowService {
    async fn call(&self, call: Call) -> Outcome {
        match call.method {
            Method::Discover => {
                let capabilities = ServerCapabilities::new()
                    .with_tools(ToolsCapability::new())
                    .with_logging(RawJson::empty_object());
                let mut result = DiscoverResult::new(vec![Revision::LATEST.to_string()], capabilities);
                let info = Implementation::new("slow", "1.0");
                result.meta.insert(meta_key::SERVER_INFO, RawJson::from_serialize(&info).unwrap());
                Outcome::Complete(result.into())
            }
            Method::ToolsCall => {
                self.0.calls.fetch_add(1, Ordering::SeqCst);
                if call.params.view().name.as_deref() == Some("wait") {
                    call.context.progress(1.0, None, None);
                    self.0.go.notified().await;
                    call.context.progress(2.0, None, None);
                }
                if call.params.view().name.as_deref() == Some("large") {
                    return Outcome::Complete(CallToolResult::text("x".repeat(LARGE)).into());
                }
                Outcome::Complete(CallToolResult::text("done").into())
            }
            other => Outcome::Failed(RpcError::method_not_found(other.name())),
        }
    }
}

/// A node.
pub(crate) struct Node {
    pub(crate) membership: Membership,
    pub(crate) endpoint: Endpoint,
    pub(crate) other: Endpoint,
    pub(crate) service: SlowService,
    pub(crate) address: SocketAddr,
    link: NetProxy,
    /// Runs what serves other nodes, so that it can end as a process does.
    runtime: Mutex<Option<Runtime>>,
}

impl Node {
    /// Starts a node whose sessions live so long without a request.
    async fn start(redis: u16, secrets: FleetSecrets, lifetime: Duration, lease: Duration) -> Self {
        let link = NetProxy::to_port(redis).await;
        let mut settings = RedisSettings::new(format!("redis://127.0.0.1:{}", link.port()).into());
        settings.relay.lease = lease;
        settings.relay.lease_margin = Duration::from_millis(100);
        settings.relay.recovery_window = Duration::ZERO;
        let relay = Arc::new(RedisRelay::new(settings, FleetKeys::new([[7; 32]]).unwrap()).unwrap());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.spawn(NodeServer::bind("127.0.0.1:0")).await.unwrap().unwrap();
        let address = listener.local_addr();
        let membership = Membership::start(relay, &address.to_string(), RENEWAL).unwrap();
        tokio::time::timeout(PATIENCE, membership.joined()).await.expect("no lease");
        let peers = Arc::new(NodePeers::new(membership.clone(), secrets.clone()));
        let service = SlowService::default();
        let endpoint = |path: &str| {
            let directory = FleetSessions::new(membership.clone(), Arc::clone(&peers) as _, path, lifetime);
            Endpoint::builder(service.clone())
                .path(path)
                .session_idle_timeout(lifetime)
                .session_directory(Arc::new(directory))
                .build()
        };
        let (main, other) = (endpoint("/mcp"), endpoint("/mcp/other"));
        let served = [main.clone(), other.clone()];
        let find = move |path: &str| served.iter().find(|endpoint| endpoint.serves(path)).cloned();
        let server = listener.server(membership.clone(), secrets, find);
        runtime.spawn(server.serve_until(std::future::pending(), Duration::ZERO));
        let runtime = Mutex::new(Some(runtime));
        Self { membership, endpoint: main, other, service, address, link, runtime }
    }

    /// Cuts the node off from Redis; other nodes still reach it.
    pub(crate) fn cut_off(&self) {
        self.link.set_accept(AcceptMode::Reset);
        self.link.reset_connections();
    }

    pub(crate) fn heal(&self) {
        self.link.set_accept(AcceptMode::Forward);
        self.link.heal();
    }

    /// Ends the node without a word: from now on it reaches nobody, and nobody reaches it.
    pub(crate) fn kill(&self) {
        self.cut_off();
        self.end_runtime();
    }

    fn end_runtime(&self) {
        if let Some(runtime) = self.runtime.lock().unwrap().take() {
            runtime.shutdown_background();
        }
    }

    /// Sends a request to this node.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let handled = tokio::time::timeout(PATIENCE, self.endpoint.handle(request)).await;
        let (parts, body) = handled.expect("no response came").into_parts();
        Answer { status: parts.status, headers: parts.headers, body, rest: String::new() }
    }

    pub(crate) async fn post(&self, session: &str, body: Value) -> Answer {
        self.send(request("/mcp", "POST", session, body.to_string())).await
    }

    pub(crate) async fn resume(&self, session: &str, last: &str) -> Answer {
        let mut request = request("/mcp", "GET", session, String::new());
        request.headers_mut().insert("last-event-id", last.parse().unwrap());
        self.send(request).await
    }

    /// Opens a session and returns its id.
    pub(crate) async fn session(&self, revision: &str) -> String {
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
        let answer = self.post("", initialize).await;
        assert_eq!(answer.status, StatusCode::OK);
        let id = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&id, initialized).await.status, StatusCode::ACCEPTED);
        id
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end_runtime();
    }
}

/// The fleet.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) redis: RedisServer,
}

impl Cluster {
    pub(crate) async fn new(count: usize) -> Self {
        Self::with_lifetime(count, Duration::from_secs(600)).await
    }

    pub(crate) async fn with_lifetime(count: usize, lifetime: Duration) -> Self {
        Self::with(vec![vec![1]; count], lifetime, LEASE).await
    }

    pub(crate) async fn with_lease(count: usize, lease: Duration) -> Self {
        Self::with(vec![vec![1]; count], Duration::from_secs(600), lease).await
    }

    /// Starts nodes with these secrets.
    pub(crate) async fn with_secrets(secrets: Vec<Vec<u8>>) -> Self {
        Self::with(secrets, Duration::from_secs(600), LEASE).await
    }

    async fn with(secrets: Vec<Vec<u8>>, lifetime: Duration, lease: Duration) -> Self {
        let mut options = RedisOptions::default();
        options.append_only = true;
        let redis = RedisServer::start(options);
        let mut nodes = Vec::new();
        for secrets in secrets {
            let secrets = FleetSecrets::new(secrets.into_iter().map(|secret| [secret; 32])).unwrap();
            nodes.push(Node::start(redis.port(), secrets, lifetime, lease).await);
        }
        Self { nodes, redis }
    }
}

pub(crate) fn request(path: &str, method: &str, session: &str, body: String) -> Request<Full<Bytes>> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if !session.is_empty() {
        request = request.header("mcp-session-id", session);
    }
    request.body(Full::new(body.into())).unwrap()
}

pub(crate) fn call(id: u32, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": tool, "arguments": {}, "_meta": {"progressToken": id}}})
}

/// A response; its events are read as they come.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Body,
    rest: String,
}

impl Answer {
    pub(crate) async fn text(self) -> String {
        let read = tokio::time::timeout(PATIENCE, self.body.collect()).await.expect("the body did not end");
        String::from_utf8(read.unwrap().to_bytes().to_vec()).unwrap()
    }

    pub(crate) async fn json(self) -> Value {
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}"))
    }

    /// The next event with data: its id and message; `None` when the stream has ended.
    pub(crate) async fn event(&mut self) -> Option<(String, Value)> {
        tokio::time::timeout(PATIENCE, self.next_event()).await.expect("no event came")
    }

    async fn next_event(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some((event, rest)) = self.rest.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.rest = rest;
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                if let Some(data) = field("data: ").filter(|data| !data.is_empty()) {
                    let id = field("id: ").unwrap_or_default().to_owned();
                    return Some((id, serde_json::from_str(data).unwrap()));
                }
            }
            let frame = self.body.frame().await?.unwrap();
            self.rest.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
    }
}
