//! Export by OTLP of `hospes up`, judged by a collector that decodes with the official messages.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{House, LIMIT, Running, eventually};

/// Part of every secret that is planted.
const SENTINEL: &str = "sentinel-4711";
/// Trace and span of the application.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00f067aa0ba902b7";
/// Trace and span of the HTTP request.
const HTTP_TRACE: &str = "11111111111111111111111111111111";
const HTTP_SPAN: &str = "2222222222222222";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Python packages that `cargo xtask setup` has installed.
fn packages() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    target.join("tools/python/packages")
}

/// A collector in Python, which ends with the test.
struct Collector {
    child: Child,
    port: u16,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    /// Starts a collector that answers with a status after some seconds. Without the packages, `None` and a line that says
    /// so; a failure with CI=true.
    fn start(status: u16, delay: &str) -> Option<Self> {
        if !packages().join("opentelemetry/proto").exists() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "opentelemetry-proto is not installed");
            eprintln!("skipped: the Python package opentelemetry-proto is not installed (cargo xtask setup)");
            return None;
        }
        let mut python = Command::new("python3");
        python.arg(workspace().join("tools/otlp_collector.py")).args([&status.to_string(), delay]);
        python.env("PYTHONPATH", packages()).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lock().push(serde_json::from_str(&line).unwrap());
            }
        });
        Some(Self { child, port, seen })
    }

    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the items of all requests at a path, with their resources.
    fn items(&self, path: &str, keys: [&str; 3]) -> Vec<(Value, Value)> {
        let mut items = Vec::new();
        for request in self.seen.lock().iter().filter(|request| request["path"] == path) {
            assert!(request["problem"].is_null(), "{request}");
            assert_eq!(request["unknown_fields"], 0, "{request}");
            for resource in array(&request["message"][keys[0]]) {
                for scope in array(&resource[keys[1]]) {
                    assert_eq!(scope["scope"]["name"], "hospes");
                    items.extend(
                        array(&scope[keys[2]])
                            .iter()
                            .map(|item| (resource["resource"].clone(), item.clone())),
                    );
                }
            }
        }
        items
    }

    fn spans(&self) -> Vec<Value> {
        self.items("/v1/traces", ["resourceSpans", "scopeSpans", "spans"])
            .into_iter()
            .map(|(_, span)| span)
            .collect()
    }

    fn metrics(&self) -> Vec<Value> {
        let metrics = self.items("/v1/metrics", ["resourceMetrics", "scopeMetrics", "metrics"]);
        metrics.into_iter().map(|(_, metric)| metric).collect()
    }

    fn logs(&self) -> Vec<Value> {
        let logs = self.items("/v1/logs", ["resourceLogs", "scopeLogs", "logRecords"]);
        logs.into_iter().map(|(_, record)| record).collect()
    }

    /// Returns the span with a name, once it is there.
    fn span(&self, name: &str) -> Value {
        let found = || self.spans().into_iter().find(|span| span["name"] == name);
        eventually(&format!("the span `{name}` is exported"), || found().is_some());
        found().unwrap()
    }

    /// Returns the last export of a metric that satisfies a condition.
    fn metric(&self, name: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let found =
            || self.metrics().into_iter().rev().find(|metric| metric["name"] == name && is_wanted(metric));
        eventually(&format!("the metric `{name}` is exported"), || found().is_some());
        found().unwrap()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns an attribute as text.
fn attribute(item: &Value, key: &str) -> Option<String> {
    let found = array(&item["attributes"]).iter().find(|attribute| attribute["key"] == key)?;
    let value = &found["value"];
    Some(value["stringValue"].as_str().or_else(|| value["intValue"].as_str()).unwrap().to_owned())
}

/// Returns an id in hexadecimal: JSON has it in base64.
fn hex(id: &Value) -> String {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(id.as_str().unwrap_or_default()).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A host that exports to a collector.
/// Returns an address that was free a moment ago.
fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Returns the answer to a scrape.
fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

struct ExportingHost {
    house: House,
    host: Running,
    address: String,
}

impl ExportingHost {
    /// Starts a host whose table `[telemetry]` has these further lines.
    fn start(endpoint: &str, telemetry: &str, servers: &str) -> Self {
        let house = House::new();
        let extra = format!(
            "*'\"method\":\"tools/call\"'*fail*) echo '{SENTINEL}-noise'; echo '{SENTINEL}-stderr' >&2; answer '{{\"content\":[{{\"type\":\"text\",\"text\":\"{SENTINEL}-result\"}}],\
             \"isError\":true}}';;"
        );
        let script = house.server("one", &["greet", "fail"], &extra)["args"][0].clone();
        let config = format!(
            "[telemetry]\notlp_endpoint = \"{endpoint}\"\nmetric_interval = \"200ms\"\n{telemetry}\n\
             [servers.one]\ncommand = [\"sh\", {script}]\nenv = {{ KEY = \"{SENTINEL}-variable\" }}\n{servers}\n"
        );
        let config = house.write("hospes.toml", &config).to_string_lossy().into_owned();
        let host = house.up(&["--config", &config, "-v"]);
        let said = host.said(|line| line.contains("endpoint"));
        let url = said.split([' ', '=']).find(|word| word.starts_with("http://")).unwrap();
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
        Self { house, host, address }
    }

    /// Sends a message of a session of 2025-06-18, and returns the status, the head and the body of the answer.
    fn post(&self, session: Option<&str>, headers: &str, message: &Value) -> (u16, String, String) {
        let session = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let (body, address) = (message.to_string(), &self.address);
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2025-06-18\r\n\
             Cookie: a={SENTINEL}-cookie\r\nAuthorization: Bearer {SENTINEL}-token\r\nConnection: close\r\n\
             Content-Length: {}\r\n{session}{headers}\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.strip_prefix("HTTP/1.1 ").unwrap().get(..3).unwrap().parse().unwrap();
        (status, head.to_owned(), body.to_owned())
    }

    /// Opens a session and returns its id.
    fn open_session(&self) -> String {
        let client = json!({ "name": format!("{SENTINEL}-client"), "version": SENTINEL });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let (status, head, body) = self.post(None, "", &message);
        assert_eq!(status, 200, "{head} {body}");
        let session = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.to_owned())
        });
        let session = session.unwrap();
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(Some(&session), "", &message).0, 202);
        session
    }

    /// Calls a tool of the server `one` with secrets wherever they can be.
    fn call(&self, session: &str, tool: &str, headers: &str, meta: &Value) -> String {
        let arguments = json!({ (format!("{SENTINEL}-name")): format!("{SENTINEL}-value") });
        let params = json!({ "name": format!("one__{tool}"), "arguments": arguments, "_meta": meta });
        let message = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
        let (status, _, body) = self.post(Some(session), headers, &message);
        assert_eq!(status, 200, "{body}");
        body
    }
}

/// `_meta` of an application that traces.
fn traced(flags: &str) -> Value {
    json!({
        "traceparent": format!("00-{TRACE}-{PARENT}-{flags}"),
        "tracestate": "vendor=1",
        "baggage": format!("user={SENTINEL}-baggage"),
    })
}

/// covers: HOST-01, META-08
#[test]
fn spans_have_the_names_parents_and_attributes_of_the_conventions() {
    let Some(collector) = Collector::start(200, "0") else { return };
    let settings = "sample_ratio = 0.0\nservice_name = \"gate\"\nresource = { \"deployment.environment.name\" = \"test\" }\n\
                    headers = { X-Key = \"${KEY_OF_COLLECTOR:-key-4711}\" }";
    let host = ExportingHost::start(&collector.endpoint(), settings, "");
    let session = host.open_session();
    let http = format!("traceparent: 00-{HTTP_TRACE}-{HTTP_SPAN}-01\r\n");
    host.call(&session, "greet", &http, &traced("01"));
    host.call(&session, "fail", "", &traced("01"));
    // Neither a trace that is not recorded, nor a new one at this ratio.
    host.call(&session, "greet", "", &traced("00"));
    host.call(&session, "greet", "", &json!({}));
    let unknown = json!({ "name": format!("one__{SENTINEL}"), "arguments": {}, "_meta": traced("01") });
    host.post(
        Some(&session),
        "",
        &json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": unknown }),
    );

    let server = collector.span("tools/call one__greet");
    assert_eq!((hex(&server["traceId"]), hex(&server["parentSpanId"])), (TRACE.into(), PARENT.into()));
    assert_eq!((&server["kind"], &server["traceState"]), (&json!("SPAN_KIND_SERVER"), &json!("vendor=1")));
    assert!(server["status"].is_null(), "{server}");
    let link = &server["links"][0];
    assert_eq!((hex(&link["traceId"]), hex(&link["spanId"])), (HTTP_TRACE.into(), HTTP_SPAN.into()));
    let digest = {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(session.as_bytes());
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let mut found: Vec<String> =
        array(&server["attributes"]).iter().map(|one| one["key"].as_str().unwrap().to_owned()).collect();
    found.sort();
    let expected = [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "one__greet"),
        ("jsonrpc.request.id", "7"),
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2025-06-18"),
        ("mcp.session.id", &*digest),
        ("network.protocol.name", "http"),
        ("network.protocol.version", "1.1"),
        ("network.transport", "tcp"),
    ];
    assert_eq!(found, expected.map(|(key, _)| key));
    for (key, value) in expected {
        assert_eq!(attribute(&server, key).as_deref(), Some(value), "{key}");
    }

    let client = collector.span("tools/call greet");
    assert_eq!(client["kind"], "SPAN_KIND_CLIENT");
    assert_eq!((&client["traceId"], &client["parentSpanId"]), (&server["traceId"], &server["spanId"]));
    for (key, value) in
        [("hospes.server", "one"), ("network.transport", "pipe"), ("gen_ai.tool.name", "greet")]
    {
        assert_eq!(attribute(&client, key).as_deref(), Some(value), "{key}");
    }
    let times = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(times(&server, "startTimeUnixNano") <= times(&client, "startTimeUnixNano"));
    assert!(times(&client, "endTimeUnixNano") <= times(&server, "endTimeUnixNano"));

    let failed = collector.span("tools/call one__fail");
    assert_eq!(failed["status"]["code"], "STATUS_CODE_ERROR");
    assert_eq!(attribute(&failed, "error.type").as_deref(), Some("tool_error"));
    let unknown = collector.span("tools/call");
    assert_eq!(attribute(&unknown, "gen_ai.tool.name").as_deref(), Some("_OTHER"));
    assert_eq!(attribute(&unknown, "error.type").as_deref(), Some("-32602"));
    assert_eq!(attribute(&unknown, "rpc.response.status_code").as_deref(), Some("-32602"));
    let greets = collector.spans().iter().filter(|span| span["name"] == "tools/call one__greet").count();
    assert_eq!(greets, 1, "only the recorded trace is exported");

    // The server's parent is the span of the host, and it gets no baggage.
    let received = host.house.read("one.log");
    let calls: Vec<&str> = received.lines().filter(|line| line.contains("tools/call")).collect();
    let sent = format!("\"traceparent\":\"00-{TRACE}-{}-01\"", hex(&client["spanId"]));
    assert!(calls[0].contains(&sent) && calls[0].contains("\"tracestate\":\"vendor=1\""), "{}", calls[0]);
    assert!(calls[2].contains(&format!("\"traceparent\":\"00-{TRACE}-{PARENT}-00\"")), "{}", calls[2]);
    assert!(!calls[3].contains("traceparent"), "{}", calls[3]);
    assert!(!received.contains("baggage"), "{received}");

    let (resource, _) = collector.items("/v1/traces", ["resourceSpans", "scopeSpans", "spans"]).remove(0);
    assert_eq!(attribute(&resource, "service.name").as_deref(), Some("gate"));
    assert_eq!(attribute(&resource, "service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(attribute(&resource, "deployment.environment.name").as_deref(), Some("test"));
    assert_eq!(attribute(&resource, "service.instance.id").unwrap().len(), 32);
    let seen = collector.seen.lock();
    assert!(seen.iter().all(|request| request["headers"]["x-key"] == "key-4711"), "{seen:?}");
    assert!(seen.iter().all(|request| request["headers"]["content-type"] == "application/x-protobuf"));
}

/// covers: HOST-01
#[test]
fn metrics_are_those_of_a_scrape() {
    let Some(collector) = Collector::start(200, "0") else { return };
    let scraped = free_address();
    let host = ExportingHost::start(&collector.endpoint(), "", &format!("[metrics]\nlisten = \"{scraped}\""));
    let session = host.open_session();
    for _ in 0..3 {
        host.call(&session, "greet", "", &json!({}));
    }
    let points = |metric: &Value, kind: &str| array(&metric[kind]["dataPoints"]).to_vec();
    let greets = |metric: &Value| {
        points(metric, "histogram")
            .into_iter()
            .find(|point| attribute(point, "gen_ai.tool.name").as_deref() == Some("one__greet"))
    };
    let is_whole = |metric: &Value| greets(metric).is_some_and(|point| point["count"] == "3");
    let metric = collector.metric("mcp.server.operation.duration", is_whole);
    assert_eq!(metric["unit"], "s");
    assert_eq!(metric["histogram"]["aggregationTemporality"], "AGGREGATION_TEMPORALITY_CUMULATIVE");
    let point = greets(&metric).unwrap();
    let bounds = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
    assert_eq!(point["explicitBounds"], json!(bounds));
    let counts: u64 = array(&point["bucketCounts"])
        .iter()
        .map(|count| count.as_str().unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!((counts, array(&point["bucketCounts"]).len()), (3, bounds.len() + 1));
    assert!(point["sum"].as_f64().unwrap() > 0.0);
    assert_eq!(attribute(&point, "mcp.method.name").as_deref(), Some("tools/call"));
    let up = collector.metric("hospes.upstream_up", |metric| !points(metric, "gauge").is_empty());
    assert_eq!(attribute(&points(&up, "gauge")[0], "server").as_deref(), Some("one"));
    assert_eq!(points(&up, "gauge")[0]["asInt"], "1");
    let sent = collector.metric("hospes.telemetry.sent", |metric| {
        points(metric, "sum").iter().any(|point| point["asInt"].as_str().is_some_and(|count| count != "0"))
    });
    assert_eq!(sent["sum"]["isMonotonic"], true);

    // The names that a collector makes of them for Prometheus are those of a scrape.
    let text = scrape(scraped);
    let printed: std::collections::BTreeSet<String> = text
        .lines()
        .filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split_once(' ')?.0.to_owned()))
        .collect();
    let metrics = collector.metrics();
    let exported = metrics.iter().map(|metric| {
        let unit = match metric["unit"].as_str().unwrap_or_default() {
            "s" => "_seconds",
            "By" => "_bytes",
            _ if metric["sum"].is_object() => "_total",
            _ => "",
        };
        metric["name"].as_str().unwrap().replace('.', "_") + unit
    });
    assert_eq!(exported.collect::<std::collections::BTreeSet<_>>(), printed);
}

#[test]
fn no_secret_is_in_anything_that_is_exported() {
    let Some(collector) = Collector::start(200, "0") else { return };
    let servers = format!(
        "[servers.away]\nurl = \"http://127.0.0.1:9/{SENTINEL}\"\n\
         headers = {{ Authorization = \"Bearer {SENTINEL}-upstream\" }}\n"
    );
    let mut host = ExportingHost::start(&collector.endpoint(), "sample_ratio = 1.0", &servers);
    let session = host.open_session();
    host.call(&session, "greet", &format!("X-Secret: {SENTINEL}-header\r\n"), &traced("01"));
    host.call(&session, "fail", "", &json!({ "progressToken": format!("{SENTINEL}-progress") }));
    let method = format!("{SENTINEL}/method");
    for (method, params) in [
        ("tools/call", json!({ "name": format!("one__{SENTINEL}"), "arguments": {} })),
        ("resources/read", json!({ "uri": format!("file:///{SENTINEL}") })),
        ("prompts/get", json!({ "name": SENTINEL })),
        (&*method, json!({})),
    ] {
        let message = json!({ "jsonrpc": "2.0", "id": 9, "method": method, "params": params });
        host.post(Some(&session), "", &message);
    }
    collector.span("tools/call one__fail");
    collector.metric("mcp.client.operation.duration", |_| true);
    eventually("a log record is exported", || !collector.logs().is_empty());
    // The last of all signals.
    host.host.signal("-TERM");
    host.host.wait();
    let seen = collector.seen.lock();
    for path in ["/v1/traces", "/v1/metrics", "/v1/logs"] {
        assert!(seen.iter().any(|request| request["path"] == path), "{path}");
    }
    for request in seen.iter() {
        let raw = request["raw"].as_str().unwrap();
        for secret in [SENTINEL, &*session] {
            assert!(!raw.contains(secret), "{secret} is in {request}");
        }
    }
}

/// The last records are sent before the program ends.
#[test]
fn what_is_recorded_last_is_exported_at_the_end() {
    let Some(collector) = Collector::start(200, "0") else { return };
    let mut host = ExportingHost::start(&collector.endpoint(), "sample_ratio = 1.0", "");
    let session = host.open_session();
    host.call(&session, "greet", "", &json!({}));
    host.host.signal("-TERM");
    assert_eq!(host.host.wait(), Some(0));
    assert!(
        collector.spans().iter().any(|span| span["name"] == "tools/call one__greet"),
        "{:?}",
        collector.spans()
    );
}

/// Calls go on, there is one warning, and the program ends in time, whatever the collector does.
#[test]
fn a_dead_a_slow_and_a_refusing_collector_cost_one_warning_and_no_call() {
    // Bound without listening, so that connections are refused and no other test gets the port.
    let refused = tokio::net::TcpSocket::new_v4().unwrap();
    refused.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = refused.local_addr().unwrap().port();
    let (slow, refusing) = (Collector::start(200, "3600"), Collector::start(400, "0"));
    let collectors = [slow.as_ref(), refusing.as_ref()].into_iter().flatten().map(Collector::endpoint);
    for (endpoint, warns) in
        std::iter::once(format!("http://127.0.0.1:{free}")).chain(collectors).zip([true, false, true])
    {
        let scraped = free_address();
        let metrics = format!("[metrics]\nlisten = \"{scraped}\"");
        let mut host = ExportingHost::start(&endpoint, "sample_ratio = 1.0", &metrics);
        let session = host.open_session();
        let begun = Instant::now();
        for _ in 0..50 {
            host.call(&session, "greet", "", &json!({}));
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{endpoint}: {:?}", begun.elapsed());
        if warns {
            host.host.said(|line| line.contains("cannot export telemetry"));
            let failed = || {
                let text = scrape(scraped);
                let sample = text.lines().find_map(|line| {
                    line.strip_prefix("hospes_telemetry_dropped_total{signal=\"metrics\"} ")
                });
                sample.map_or(0.0, |count| count.parse::<f64>().unwrap())
            };
            let before = failed();
            eventually("more exports of metrics fail", || failed() >= before + 3.0);
        }
        let begun = Instant::now();
        host.host.signal("-TERM");
        assert_eq!(host.host.wait(), Some(0), "{endpoint}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{endpoint}: {:?}", begun.elapsed());
        let more =
            host.host.stderr.try_iter().filter(|line| line.contains("cannot export telemetry")).count();
        // What a slow collector has not taken by the end is reported then, if a request of the end ran into its limit.
        assert!(usize::from(warns) + more <= 1, "{endpoint}: there is one warning, and {more} more");
    }
}

#[test]
fn the_endpoint_of_the_environment_turns_the_export_on() {
    let Some(collector) = Collector::start(200, "0") else { return };
    let house = House::new();
    let config = house.config(&[("one", house.server("one", &["greet"], ""))]);
    let usual = ["up", "--listen", "127.0.0.1:0", "--console", "off", "--preset", "off", "--config", &config];
    let mut command = house.command(&usual);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        .env("OTEL_SERVICE_NAME", "of-environment");
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b").env("OTEL_METRIC_EXPORT_INTERVAL", "200");
    let host = Running::start(command);
    host.said(|line| line.contains("endpoint"));
    let metrics = || collector.items("/v1/metrics", ["resourceMetrics", "scopeMetrics", "metrics"]);
    eventually("metrics are exported", || !metrics().is_empty());
    assert_eq!(attribute(&metrics()[0].0, "service.name").as_deref(), Some("of-environment"));
    assert_eq!(collector.seen.lock()[0]["headers"]["x-key"], "a b");
}
