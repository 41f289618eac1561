//! Nodes of a fleet over a real Redis and PostgreSQL: any node serves a session, whichever ends.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Deref;
use std::time::{Duration, Instant};

use hospes_fleet_testkit::certificates::TestCertificates;
use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use hospes_fleet_testkit::redis_server::{RedisOptions, RedisServer};
use serde_json::{Value, json};

use crate::support::{House, LIMIT, Running, eventually, text};

pub(crate) const SECRET: &str = "a secret of all nodes, of 32 or more";

/// Redis and PostgreSQL of a fleet.
pub(crate) struct FleetEngines {
    pub(crate) redis: RedisServer,
    pub(crate) postgres: PostgresServer,
}

/// A node with a folder of its own.
pub(crate) struct FleetNode {
    pub(crate) house: House,
    endpoint: NodeEndpoint,
    pub(crate) host: Running,
}

/// Endpoint of a node, which several threads may use.
#[derive(Clone)]
pub(crate) struct NodeEndpoint {
    pub(crate) address: String,
}

/// Status, headers and body of a response.
pub(crate) struct NodeResponse {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl FleetEngines {
    pub(crate) fn start() -> Self {
        Self {
            redis: RedisServer::start(RedisOptions::default()),
            postgres: PostgresServer::start(PostgresOptions::default()),
        }
    }

    pub(crate) fn config(&self, house: &House, secret: &str) -> String {
        self.config_with(house, secret, "placement = 'any'")
    }

    /// Configuration of a server with these settings.
    fn config_with(&self, house: &House, secret: &str, settings: &str) -> String {
        // The answer to its question has the id `question`.
        let extra = r#"*'"name":"ask"'*) call=$id; printf '%s\n' '{"jsonrpc":"2.0","id":"question","method":"elicitation/create","params":{"message":"Which?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}';;
    *'"id":"question"'*) id=$call; answer '{"content":[{"type":"text","text":"the answer has come"}]}';;
    *'"name":"count"'*) count=$((count + 1)); answer '{"content":[{"type":"text","text":"process '$$' call '$count' was counted"}]}';;
    *'"name":"slow"'*) sleep 1; answer '{"content":[{"type":"text","text":"slow was called"}]}';;"#;
        let server = house.server("one", &["quick", "slow", "ask", "count"], extra);
        let text = format!(
            "[fleet]\nsecret = {secret:?}\npostgres = {:?}\nredis = {:?}\nnode_listen = \"127.0.0.1:0\"\n\
             [servers.one]\ncommand = [\"sh\", {}]\n{settings}\n",
            self.postgres.url(),
            self.redis.url(),
            server["args"][0],
        );
        house.write("hospes.toml", &text).to_string_lossy().into_owned()
    }

    fn node(&self) -> FleetNode {
        self.node_in(House::new(), &["--console", "off", "--preset", "off"])
    }

    /// A node at which each call is asked about, and a person can decide.
    fn deciding_node(&self) -> FleetNode {
        let house = House::new().with_token();
        let rules = text(&house.write("rules.toml", "[[rule]]\ndecide = 'ask'\n"));
        self.node_in(house, &["--console", "127.0.0.1:0", "--policy", &rules, "--pins", "off"])
    }

    pub(crate) fn node_in(&self, house: House, options: &[&str]) -> FleetNode {
        self.node_with(house, "placement = 'any'", options)
    }

    /// A node whose server has these settings.
    pub(crate) fn node_with(&self, house: House, settings: &str, options: &[&str]) -> FleetNode {
        let config = self.config_with(&house, SECRET, settings);
        FleetNode::start(house, &config, options)
    }
}

impl FleetEngines {
    pub(crate) fn stop_redis(&mut self) {
        self.redis.kill();
    }
}

impl FleetNode {
    /// Starts a node with this configuration, and waits for its lease.
    fn start(house: House, config: &str, options: &[&str]) -> Self {
        // Free again when the listener is dropped.
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let args = ["up", "--listen", &address, "--config", config];
        let host = Running::start(house.command(&[&args[..], options].concat()));
        host.said(|line| line.contains("event=ready"));
        let node = Self { house, endpoint: NodeEndpoint { address }, host };
        eventually("the node has its lease", || node.page("/readyz/sessions") == 200);
        node
    }

    pub(crate) fn endpoint(&self) -> &NodeEndpoint {
        &self.endpoint
    }
}

impl Deref for FleetNode {
    type Target = NodeEndpoint;

    fn deref(&self) -> &NodeEndpoint {
        &self.endpoint
    }
}

impl NodeEndpoint {
    fn request(&self, line: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (address, length) = (&self.address, body.len());
        write!(
            stream,
            "{line} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Accept: application/json, text/event-stream\r\nConnection: close\r\n{headers}\r\n{body}"
        )
        .unwrap();
        stream
    }

    pub(crate) fn send(&self, line: &str, headers: &[(&str, &str)], body: &Value) -> NodeResponse {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut text = String::new();
        self.request(line, headers, &body).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {text}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        NodeResponse { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn page(&self, path: &str) -> u16 {
        self.send(&format!("GET {path}"), &[], &Value::Null).status
    }

    /// Opens a session, and returns its id.
    pub(crate) fn initialize(&self) -> String {
        let response = self.send("POST /mcp", &[], &initialize("2025-06-18"));
        assert_eq!(response.status, 200, "{}", response.body);
        let session = response.header("mcp-session-id").expect("a session").to_owned();
        let done = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.send("POST /mcp", &[("Mcp-Session-Id", &session)], &done).status, 202);
        session
    }

    /// Calls a tool in a session. The body of the response has the text of its result.
    pub(crate) fn call(&self, session: &str, tool: &str) -> NodeResponse {
        let params = json!({ "name": tool, "arguments": {} });
        let call = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
        let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-06-18")];
        self.send("POST /mcp", &headers, &call)
    }

    /// Calls a tool as clients of 2026-07-28 do.
    pub(crate) fn call_without_session(&self, tool: &str) -> NodeResponse {
        self.send_round(tool, &json!({}))
    }

    /// Sends a round of such a call; `round` has the members of its params besides the tool.
    pub(crate) fn send_round(&self, tool: &str, round: &Value) -> NodeResponse {
        self.call_as("test", tool, round)
    }

    /// Lists the tools as clients of 2026-07-28 do, and returns the body of the response.
    pub(crate) fn list_tools(&self) -> String {
        let params = json!({ "_meta": request_meta("test", false) });
        let list = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": params });
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list")];
        self.send("POST /mcp", &headers, &list).body
    }

    /// Sends a round of a call as an application of this name.
    pub(crate) fn call_as(&self, application: &str, tool: &str, round: &Value) -> NodeResponse {
        // Only who is asked, so that others share a process of an older server.
        let meta = request_meta(application, tool.ends_with("ask"));
        let mut params = json!({ "name": tool, "arguments": {}, "_meta": meta });
        params.as_object_mut().unwrap().extend(round.as_object().unwrap().clone());
        self.request_as("tools/call", tool, &params)
    }

    /// Sends a request about a task, as an application of this name.
    pub(crate) fn ask_task(&self, application: &str, method: &str, task: &str) -> NodeResponse {
        let params = json!({ "taskId": task, "_meta": request_meta(application, false) });
        self.request_as(method, task, &params)
    }

    fn request_as(&self, method: &str, name: &str, params: &Value) -> NodeResponse {
        let request = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", name)];
        self.send("POST /mcp", &headers, &request)
    }
}

impl NodeResponse {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    #[track_caller]
    pub(crate) fn says(&self, text: &str) {
        assert!(self.status == 200 && self.body.contains(text), "{}: {}", self.status, self.body);
    }
}

/// Metadata of a request of 2026-07-28.
fn request_meta(application: &str, answers: bool) -> Value {
    let mut capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    if answers {
        capabilities["elicitation"] = json!({ "form": {} });
    }
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": application, "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

fn initialize(revision: &str) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

/// covers: HSES-06
#[test]
fn any_node_serves_a_session_also_after_its_owner_was_killed() {
    let engines = FleetEngines::start();
    let (mut one, other) = (engines.node(), engines.node());
    let session = one.initialize();
    for node in [&other, &one, &other] {
        node.call(&session, "one__quick").says("one was called");
    }
    one.host.child.kill().unwrap();
    let mut last = None;
    // A call that was under way to the node that was killed is answered so and not repeated. And a node that has just
    // started waits until it knows the leases of all others.
    eventually("the other node has the session", || {
        let response = other.call(&session, "one__quick");
        let is_over = response.status != 503 && !response.body.contains("may or may not have taken effect");
        last = Some(response);
        is_over
    });
    last.unwrap().says("one was called");
    let end = other.send("DELETE /mcp", &[("Mcp-Session-Id", &session)], &Value::Null);
    assert_eq!(end.status, 204, "{}", end.body);
    assert_eq!(other.call(&session, "one__quick").status, 404);
}

/// A node that is asked to end finishes its calls, and its sessions go on at the other node without a wait for its lease.
#[test]
fn a_node_that_ends_leaves_its_sessions_to_the_others() {
    let engines = FleetEngines::start();
    let (mut one, other) = (engines.node(), engines.node());
    let sessions = [one.initialize(), one.initialize()];
    let [first, second] = [&*sessions[0], &*sessions[1]];
    let running = std::thread::scope(|scope| {
        let (here, there) = (one.endpoint.clone(), other.endpoint.clone());
        let call = scope.spawn(move || here.call(first, "one__slow"));
        let forwarded = scope.spawn(move || there.call(second, "one__slow"));
        eventually("the calls have begun", || one.house.read("one.log").matches("tools/call").count() == 2);
        one.host.signal("-TERM");
        eventually("the node tells balancers", || one.page("/readyz") == 503);
        // Held until the running calls have ended, then served elsewhere.
        other.call(&sessions[0], "one__quick").says("one was called");
        [call.join().unwrap(), forwarded.join().unwrap()]
    });
    for response in running {
        response.says("slow was called");
    }
    assert_eq!(one.host.wait(), Some(0));
    for session in &sessions {
        other.call(session, "one__quick").says("one was called");
    }
    let calls = one.house.read("one.log").matches("tools/call").count();
    assert_eq!(calls, 2, "what was held is called by its new owner");
}

/// covers: SSE-03
#[test]
fn a_message_of_http_sse_finds_its_stream_from_any_node() {
    let engines = FleetEngines::start();
    let (one, other) = (engines.node(), engines.node());
    let stream = one.request("GET /sse", &[], "");
    let mut events = BufReader::new(stream).lines().map_while(Result::ok);
    let mut next =
        || events.find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).expect("an event");
    let place = next();
    let post = |node: &FleetNode, message: &Value| node.send(&format!("POST {place}"), &[], message).status;
    assert_eq!(post(&other, &initialize("2024-11-05")), 202);
    assert!(next().contains("2024-11-05"));
    assert_eq!(post(&one, &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })), 202);
    let call =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "one__quick" } });
    assert_eq!(post(&other, &call), 202);
    assert!(next().contains("one was called"));
    drop(events);
    eventually("the stream has ended for all", || post(&other, &call) == 404);
}

/// A call that waits for the answer to a question waits at one node. Its next round comes in at another one.
///
/// covers: MRTR-11
#[test]
fn the_answer_to_a_question_reaches_the_call_that_asked() {
    let engines = FleetEngines::start();
    let (mut one, other) = (engines.node(), engines.node());
    let round = |node: &FleetNode| {
        let asked = node.call_without_session("one__ask");
        let result: Value = serde_json::from_str(&asked.body).unwrap();
        let result = &result["result"];
        let question = result["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let answer = json!({ "action": "accept", "content": { "name": "this" } });
        json!({ "requestState": result["requestState"], "inputResponses": { question: answer } })
    };
    let first = round(&one);
    other.send_round("one__ask", &first).says("the answer has come");
    assert_eq!(other.house.read("one.log").matches("tools/call").count(), 0);
    // If the node has ended, the call is not made again.
    let second = round(&one);
    one.host.child.kill().unwrap();
    one.host.wait();
    eventually("the answer is refused", || {
        let refused = other.send_round("one__ask", &second);
        assert!(!refused.body.contains("the answer has come"), "{}", refused.body);
        refused.body.contains("error")
    });
    assert_eq!(other.house.read("one.log").matches("tools/call").count(), 0);
}

/// A call waits at one node, and a person decides at another.
///
/// covers: HOST-02
#[test]
fn a_waiting_call_is_decided_at_any_node() {
    let engines = FleetEngines::start();
    let (mut one, other) = (engines.deciding_node(), engines.deciding_node());
    let session = one.initialize();
    let listed = |node: &FleetNode| node.house.run(&["approve", "--json", "--list"]).stdout;
    let waiting = |node: &FleetNode| {
        let mut list = String::new();
        eventually("the approval is listed", || {
            list = listed(node);
            !list.is_empty()
        });
        let first: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
        first["id"].as_str().unwrap().to_owned()
    };
    let begin = || {
        let (node, session) = (one.endpoint.clone(), session.clone());
        std::thread::spawn(move || node.call(&session, "one__quick"))
    };
    let call = begin();
    let id = waiting(&other);
    let allowed = other.house.run(&["approve", "--allow", &id]);
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    call.join().unwrap().says("one was called");
    for node in [&one, &other] {
        eventually("nothing waits any more", || listed(node).is_empty());
    }
    let again = other.house.run(&["approve", "--allow", &id]);
    assert_ne!(again.code, Some(0), "it was used: {again:?}");
    // A node that ends takes its questions with it.
    let (node, session) = (one.endpoint.clone(), session.clone());
    let lost = std::thread::spawn(move || {
        let call = std::panic::catch_unwind(|| node.call(&session, "one__quick"));
        assert!(call.is_err(), "its connection breaks");
    });
    waiting(&other);
    one.host.child.kill().unwrap();
    lost.join().unwrap();
    eventually("the approval is withdrawn", || listed(&other).is_empty());
    assert_eq!(other.house.read("one.log").matches("tools/call").count(), 0);
}

/// Without Redis, sessions are refused for the time being, and requests without one go on.
#[test]
fn a_node_without_redis_serves_what_needs_no_session() {
    let mut engines = FleetEngines::start();
    let node = engines.node();
    let session = node.initialize();
    engines.redis.kill();
    eventually("the node gives up its lease", || node.page("/readyz/sessions") == 503);
    let refused = node.call(&session, "one__quick");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{}", refused.body);
    node.call_without_session("one__quick").says("one was called");
    assert_eq!(node.page("/readyz"), 200);
    assert_eq!(node.page("/healthz"), 200);
}

/// Without PostgreSQL, calls go on that need no decision.
#[test]
fn a_node_without_postgres_serves_what_needs_no_decision() {
    let mut engines = FleetEngines::start();
    let node = engines.node();
    let session = node.initialize();
    engines.postgres.kill();
    node.call(&session, "one__quick").says("one was called");
    node.call_without_session("one__quick").says("one was called");
    for page in ["/readyz", "/readyz/sessions", "/healthz"] {
        assert_eq!(node.page(page), 200, "{page}");
    }
}

/// Both engines ask for a certificate of their client. `hospes doctor` reaches them as a node does.
#[test]
fn a_node_names_itself_to_engines_by_a_certificate() {
    let [of_redis, of_postgres] =
        [TestCertificates::issue("127.0.0.1"), TestCertificates::issue("127.0.0.1")];
    let house = House::new();
    let mut keys = String::new();
    for (engine, certificates) in [("redis", &of_redis), ("postgres", &of_postgres)] {
        let file = |name: &str, pem: &str| text(&house.write(&format!("{engine}-{name}.pem"), pem));
        let (ca, certificate) = (file("ca", &certificates.ca_pem), file("cert", &certificates.client_pem));
        let key = file("key", &certificates.client_key_pem);
        keys.push_str(&format!(
            "{engine}_ca = '{ca}'\n{engine}_cert = '{certificate}'\n{engine}_key = '{key}'\n"
        ));
    }
    let mut redis = RedisOptions::default();
    redis.certificates = Some(of_redis);
    let mut postgres = PostgresOptions::default();
    postgres.certificates = Some(of_postgres);
    let engines =
        FleetEngines { redis: RedisServer::start(redis), postgres: PostgresServer::start(postgres) };
    let config = engines.config(&house, SECRET);
    let whole = std::fs::read_to_string(&config).unwrap();
    house.write("hospes.toml", &whole.replacen("[fleet]\n", &format!("[fleet]\n{keys}"), 1));
    let node = FleetNode::start(house, &config, &["--console", "off", "--preset", "off"]);
    let session = node.initialize();
    node.call(&session, "one__quick").says("one was called");
    let examined = node.house.command(&["doctor", "--config", &config]).output().unwrap();
    let said = String::from_utf8_lossy(&examined.stdout);
    assert!(said.contains("everything that was checked is well"), "{said}");
}

/// Commands of "A trial on one machine" in docs/fleet.md, typed into one shell as they are printed, at the engines and
/// ports of the test.
#[test]
fn the_trial_of_the_documentation_works_as_printed() {
    let page = include_str!("../../../../docs/fleet.md");
    let trial = page.split_once("## A trial on one machine").unwrap().1;
    let trial = trial.split_once("\n## ").unwrap().0;
    let block = |language: &str| {
        let blocks = trial.split("```").skip(1).step_by(2);
        let of = blocks.filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n'));
        of.collect::<Vec<_>>()
    };
    let (engines, house) = (FleetEngines::start(), House::new());
    house.write("node.toml", block("toml")[0]);
    let free =
        || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let ports = [free(), free()];
    let mut script = String::from("set -em\n");
    for line in block("console").concat().lines() {
        let line = line.strip_prefix("$ ").unwrap_or_else(|| panic!("no command: {line}"));
        let line =
            line.replace(":7001", &format!(":{}", ports[0])).replace(":7002", &format!(":{}", ports[1]));
        let (before, after) = match line.split_once('=') {
            _ if line.starts_with("curl -si") => (line, "| tee response\n"),
            _ if line.contains(" up ") => (line.replace('&', "> up.log 2>&1 &"), ""),
            // The Redis of the test has just started, so a node that takes a session is in doubt for some seconds.
            _ if line.contains("Mcp-Session-Id: ID") => {
                let call = line.replace("Id: ID'", "Id: '$session");
                let again = "grep -q 'retry in' called || break; sleep 0.1; done; cat called";
                (format!("for i in $(seq 200); do {call} > called; {again}"), "")
            }
            Some(("export FLEET_POSTGRES", _)) => {
                (format!("export FLEET_POSTGRES='{}'", engines.postgres.url()), "")
            }
            Some(("export FLEET_REDIS", _)) => (format!("export FLEET_REDIS='{}'", engines.redis.url()), ""),
            _ => (line, ""),
        };
        if before.starts_with("accept=") {
            for port in &ports {
                let ready = format!("curl -sf http://127.0.0.1:{port}/readyz/sessions");
                script.push_str(&format!("for i in $(seq 200); do {ready} && break; sleep 0.1; done\n"));
            }
        }
        if before.starts_with("kill -9") {
            script.push_str("session=$(sed -n 's/\\r//; s/^mcp-session-id: //p' response)\n");
        }
        script.push_str(&format!("{before} {after}\n"));
    }
    let own = house.command(&[]);
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &script]).current_dir(house.path("."));
    for (name, value) in own.get_envs().filter_map(|(name, value)| Some((name, value?))) {
        command.env(name, value);
    }
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_hospes")).parent().unwrap();
    command.env("PATH", format!("{}:{}", program.display(), std::env::var("PATH").unwrap()));
    let ran = command.stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let whole = format!("{script}\n{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{whole}");
    for text in ["everything that was checked is well", "weekday", "node: reached by the others at"] {
        assert!(said.contains(text), "{text}: {whole}");
    }
}

#[test]
fn a_node_with_another_secret_is_refused_and_nothing_secret_is_said() {
    let engines = FleetEngines::start();
    let _first = engines.node();
    let house = House::new();
    let config = engines.config(&house, "another secret, also of 32 letters");
    let args = ["up", "--listen", "127.0.0.1:0", "--console", "off", "--config", &config];
    let began = Instant::now();
    let refused = house.run(&args);
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("all nodes need the same `fleet.secret`"), "{}", refused.stderr);
    for secret in [engines.postgres.password(), "another secret"] {
        assert!(!refused.stderr.contains(secret), "{}", refused.stderr);
    }
}
