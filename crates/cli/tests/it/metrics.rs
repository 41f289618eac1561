//! `/metrics` of `hospes up`, and what another program reads in it.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{House, LIMIT, Running, eventually};

/// Part of every secret that is planted.
const SENTINEL: &str = "sentinel-4711";
/// Upper bounds of the histograms of operations and sessions, in seconds.
const DURATIONS: [&str; 15] =
    ["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10", "30", "60", "120", "300", "+Inf"];

/// Reads standard input with the parser of Prometheus' own Python client.
const PARSER: &str = r"
import json, sys
from prometheus_client.parser import text_string_to_metric_families
families = [
    {'name': family.name, 'kind': family.type, 'help': family.documentation,
     'samples': [{'name': one.name, 'labels': one.labels, 'value': one.value} for one in family.samples]}
    for family in text_string_to_metric_families(sys.stdin.read())
]
json.dump(families, sys.stdout)
";

#[derive(Debug, Deserialize)]
struct ReadFamily {
    name: String,
    kind: String,
    help: String,
    samples: Vec<ReadSample>,
}

#[derive(Debug, Deserialize)]
struct ReadSample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// The Python packages that `cargo xtask setup` has installed.
fn packages() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    target.join("tools/python/packages")
}

/// Reads a text as a scraper does. Without the parser, `None` and a line that says so; a failure with CI=true.
fn parse(text: &str) -> Option<Vec<ReadFamily>> {
    if !packages().join("prometheus_client").exists() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "prometheus-client is not installed");
        eprintln!("skipped: the Python package prometheus-client is not installed (cargo xtask setup)");
        return None;
    }
    let mut python = Command::new("python3");
    python.args(["-c", PARSER]).env("PYTHONPATH", packages()).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut python = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "the parser refuses\n{text}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Sends one request and returns the status, the head and the body of the answer.
fn ask(address: &str, line: &str, headers: &str, body: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.strip_prefix("HTTP/1.1 ").unwrap().get(..3).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

/// A host with metrics, a scripted server, a built-in one, and one that cannot be reached.
struct MeasuredHost {
    house: House,
    _host: Running,
    url: String,
    scraped: String,
}

impl MeasuredHost {
    fn start() -> Self {
        let house = House::new();
        let scraped = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let script = house.server("one", &["greet"], "")["args"][0].clone();
        let config = format!(
            "[metrics]\nlisten = \"{scraped}\"\n\
             [servers.one]\ncommand = [\"sh\", {script}]\nenv = {{ KEY = \"{SENTINEL}-variable\" }}\n\
             [servers.clock]\nbuiltin = \"time\"\n\
             [servers.away]\nurl = \"http://127.0.0.1:9/{SENTINEL}\"\n\
             headers = {{ Authorization = \"Bearer {SENTINEL}-upstream\" }}\n"
        );
        let config = house.write("hospes.toml", &config).to_string_lossy().into_owned();
        let host = house.up(&["--config", &config]);
        let said = host.said(|line| line.contains("endpoint"));
        let url = said.split([' ', '=']).find(|word| word.starts_with("http://")).unwrap().to_owned();
        Self { house, _host: host, url, scraped }
    }

    fn scrape(&self) -> String {
        let (status, head, text) =
            ask(&self.scraped, "GET /metrics", &format!("Host: {}\r\n", self.scraped), "");
        assert_eq!(status, 200);
        assert!(head.contains("text/plain; version=0.0.4"), "{head}");
        text
    }

    /// Sends a message of a session of 2025-06-18 with secrets in its headers.
    fn post(&self, session: Option<&str>, message: &Value) -> (u16, String) {
        let address = self.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
        let session = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        let headers = format!(
            "Host: {address}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Mcp-Protocol-Version: 2025-06-18\r\nX-Secret: {SENTINEL}-header\r\nCookie: a={SENTINEL}-cookie\r\n\
             Authorization: Bearer {SENTINEL}-token\r\n{session}"
        );
        let (status, head, _) = ask(address, "POST /mcp", &headers, &message.to_string());
        (status, head)
    }

    /// Makes calls with secrets wherever an application or a server can put them. Returns the id of a session.
    fn use_it(&self) -> String {
        for _ in 0..3 {
            let argument = format!("secret={SENTINEL}-argument");
            let called = self.house.run(&["call", &self.url, "one__greet", &argument]);
            assert_eq!(called.code, Some(0), "{called:?}");
        }
        let unknown = self.house.run(&["call", &self.url, &format!("one__{SENTINEL}")]);
        assert_ne!(unknown.code, Some(0), "{unknown:?}");
        let client = json!({ "name": format!("{SENTINEL}-client"), "version": SENTINEL });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let (status, head) =
            self.post(None, &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
        assert_eq!(status, 200, "{head}");
        let session = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.to_owned())
        });
        let session = session.unwrap();
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(Some(&session), &initialized).0, 202);
        let params = json!({
            "name": "one__greet",
            "arguments": { (format!("{SENTINEL}-name")): format!("{SENTINEL}-value") },
            "_meta": { "progressToken": format!("{SENTINEL}-progress") },
        });
        let id = format!("{SENTINEL}-id");
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        assert_eq!(self.post(Some(&session), &call).0, 200);
        let params = json!({ "name": format!("one__{SENTINEL}"), "arguments": {} });
        let unknown = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params });
        assert_eq!(self.post(Some(&session), &unknown).0, 200);
        let params = json!({ "uri": format!("file:///{SENTINEL}") });
        let read = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params });
        self.post(Some(&session), &read);
        let method = format!("{SENTINEL}/method");
        self.post(Some(&session), &json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": {} }));
        session
    }
}

/// covers: HOST-01
#[test]
fn a_scrape_is_read_by_the_parser_of_prometheus() {
    let host = MeasuredHost::start();
    let session = host.use_it();
    let address = host.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    ask(address, "DELETE /mcp", &format!("Host: {address}\r\nMcp-Session-Id: {session}\r\n"), "");
    let is_over = |text: &str| {
        let count = "mcp_server_session_duration_seconds_count{mcp_protocol_version=\"2025-06-18\"";
        text.lines().any(|line| line.starts_with(count) && line.contains("tcp"))
    };
    eventually("the end of the session is measured", || is_over(&host.scrape()));
    let text = host.scrape();
    let Some(families) = parse(&text) else { return };

    let total = |name: &str, labels: &[(&str, &str)]| -> f64 {
        let samples = families.iter().flat_map(|family| &family.samples).filter(|sample| {
            let has =
                |(key, value): &(&str, &str)| sample.labels.get(*key).is_some_and(|found| found == value);
            sample.name == name && labels.iter().all(has)
        });
        samples.map(|sample| sample.value).sum()
    };
    let is = |name: &str, labels: &[(&str, &str)], expected: f64| {
        let found = total(name, labels);
        assert!((found - expected).abs() < 0.5, "{name} {labels:?} is {found}, not {expected}, in\n{text}");
    };
    let (server, client) =
        ("mcp_server_operation_duration_seconds_count", "mcp_client_operation_duration_seconds_count");
    let tool = [("gen_ai_tool_name", "one__greet"), ("gen_ai_operation_name", "execute_tool")];
    is(server, &tool, 4.0);
    is(server, &[("mcp_method_name", "initialize"), ("mcp_protocol_version", "2025-06-18")], 1.0);
    is(server, &[("network_transport", "pipe")], 0.0);
    is(server, &[("gen_ai_tool_name", "_OTHER"), ("error_type", "-32602")], 1.0);
    is(server, &[("mcp_method_name", "_OTHER")], 1.0);
    is(client, &[("gen_ai_tool_name", "greet"), ("server", "one"), ("network_transport", "pipe")], 4.0);
    for (name, value) in [("one", 1.0), ("clock", 1.0), ("away", 0.0)] {
        is("hospes_upstream_up", &[("server", name)], value);
    }
    is("hospes_metric_overflows_total", &[], 0.0);

    for family in families.iter().filter(|family| family.kind == "histogram") {
        let mut buckets: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
        let mut counts = BTreeMap::new();
        for sample in &family.samples {
            let mut labels = sample.labels.clone();
            let bound = labels.remove("le");
            let series = format!("{labels:?}");
            match bound {
                Some(bound) => buckets.entry(series).or_default().push((bound, sample.value)),
                None if sample.name.ends_with("_count") => {
                    counts.insert(series, sample.value);
                }
                None => assert!(sample.name.ends_with("_sum") && sample.value >= 0.0, "{sample:?}"),
            }
        }
        assert_eq!(buckets.keys().collect::<Vec<_>>(), counts.keys().collect::<Vec<_>>(), "{}", family.name);
        for (series, buckets) in &buckets {
            let values: Vec<f64> = buckets.iter().map(|(_, value)| *value).collect();
            assert!(values.is_sorted(), "{} {series}: {values:?}", family.name);
            assert!((values.last().unwrap() - counts[series]).abs() < 0.5, "{} {series}", family.name);
            if family.name.starts_with("mcp_") {
                let bounds: Vec<&str> = buckets.iter().map(|(bound, _)| &**bound).collect();
                assert_eq!(bounds, DURATIONS, "{}", family.name);
            }
        }
    }
}

#[test]
fn no_secret_is_in_a_scrape() {
    let host = MeasuredHost::start();
    let session = host.use_it();
    let text = host.scrape();
    assert!(text.contains("gen_ai_tool_name=\"one__greet\""), "{text}");
    for secret in [SENTINEL, &*session, "127.0.0.1", host.house.path("").to_str().unwrap()] {
        assert!(!text.contains(secret), "{secret} is in\n{text}");
    }
}

/// The table in docs/operations.md names each metric with its type and labels, and no other.
#[test]
fn the_documented_metrics_are_those_of_a_scrape() {
    let host = MeasuredHost::start();
    host.use_it();
    let text = host.scrape();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n## Metrics\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let words =
        |text: &str| -> BTreeSet<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let operations = section.lines().skip_while(|line| !line.starts_with("- Labels of operations"));
    let operations: Vec<&str> = operations.take_while(|line| !line.starts_with("- `error_type`")).collect();
    let operations = words(&operations.join("\n"));
    let mut documented = BTreeMap::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels] = cells[..] else { panic!("{row}") };
        let mut known = words(labels);
        if labels.contains("those of operations") {
            known.extend(operations.iter().cloned());
        }
        documented.insert(name.trim_matches('`').to_owned(), (kind.to_owned(), known));
    }
    let printed: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let listed: BTreeMap<&str, &str> =
        documented.iter().map(|(name, (kind, _))| (&**name, &**kind)).collect();
    assert_eq!(listed, printed);

    let Some(families) = parse(&text) else { return };
    for family in &families {
        assert!(!family.help.is_empty(), "{}", family.name);
        let full =
            if family.kind == "counter" { format!("{}_total", family.name) } else { family.name.clone() };
        let (_, known) = &documented[&full];
        for label in family.samples.iter().flat_map(|sample| sample.labels.keys()) {
            assert!(label == "le" || known.contains(label), "{full} has the label {label}");
        }
    }
}

#[test]
fn only_scrapers_of_this_machine_get_an_answer() {
    let host = MeasuredHost::start();
    let at = |line: &str, name: &str| ask(&host.scraped, line, &format!("Host: {name}\r\n"), "").0;
    assert_eq!(at("POST /metrics", &host.scraped), 405);
    assert_eq!(at("GET /mcp", &host.scraped), 404);
    // The name of a page that leads to this machine.
    assert_eq!(at("GET /metrics", "rebound.example"), 403);
    assert_eq!(at("GET /metrics", &host.scraped), 200);
}
