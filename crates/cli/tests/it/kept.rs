//! Tests that pending approvals outlive the program: it is killed, started again, and continues where it was.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use support::{House, LIMIT, Ran, Running, eventually, text};

const TYPED: &str = r#"*'"method":"tools/list"'*) answer '{"tools":[{"name":"greet","inputSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}]}';;"#;

/// A call that never ends.
const ENDLESS: &str = r#"*'"method":"tools/call"'*) ;;"#;

/// A machine with a server whose calls are all asked about.
struct Machine {
    house: House,
    config: String,
    rules: String,
}

/// `hospes up` on it.
struct Up {
    running: Running,
    endpoint: url::Url,
}

impl Machine {
    fn new(branches: &str) -> Self {
        let house = House::new().with_token();
        let config = house.config(&[("one", house.server("one", &[], branches))]);
        let rules = text(&house.write("rules.toml", "[[rule]]\ndecide = 'ask'\n"));
        Self { house, config, rules }
    }

    fn up(&self) -> Up {
        let args = ["up", "--json", "--config", &self.config, "--policy", &self.rules, "--pins", "off"];
        let places = ["--listen", "127.0.0.1:0", "--console", "127.0.0.1:0", "--start-wait", "20"];
        let args: Vec<&str> = args.into_iter().chain(places).collect();
        let running = Running::start(self.house.command(&args));
        let greeting = running.greeting();
        Up { running, endpoint: greeting["endpoint"].as_str().unwrap().parse().unwrap() }
    }

    fn approve(&self, args: &[&str]) -> Ran {
        let args: Vec<&str> = ["approve", "--json"].iter().chain(args).copied().collect();
        self.house.run(&args)
    }

    /// The one that waits.
    fn waiting(&self) -> Value {
        let list = self.approve(&["--list"]);
        let mut lines = list.stdout.lines();
        let one = serde_json::from_str(lines.next().unwrap_or_else(|| panic!("nothing waits: {list:?}")));
        assert_eq!(lines.next(), None);
        one.unwrap()
    }

    /// Returns the arguments of the calls that the server received.
    fn called(&self) -> Vec<Value> {
        let log = self.house.read("one.log");
        let calls = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        calls
            .filter(|call| call["method"] == "tools/call")
            .map(|call| call["params"]["arguments"].clone())
            .collect()
    }
}

impl Up {
    /// It is gone from one moment to the next.
    fn killed(mut self) {
        self.running.child.kill().unwrap();
        self.running.child.wait().unwrap();
    }

    /// A call of an application of 2026-07-28 whose person can be asked there; `more` is what it comes back with.
    fn send(&self, arguments: &Value, more: &Value) -> TcpStream {
        let mut params = json!({ "name": "one__greet", "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
        } });
        for (key, value) in more.as_object().into_iter().flatten() {
            params[key] = value.clone();
        }
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let address = self.endpoint.socket_addrs(|| None).unwrap()[0];
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let path = self.endpoint.path();
        write!(stream, "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n").unwrap();
        write!(stream, "content-type: application/json\r\naccept: application/json, text/event-stream\r\n")
            .unwrap();
        write!(
            stream,
            "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: one__greet\r\n"
        )
        .unwrap();
        write!(stream, "content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream
    }

    fn call(&self, arguments: &Value, more: &Value) -> Value {
        let mut answer = String::new();
        self.send(arguments, more).read_to_string(&mut answer).unwrap();
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        serde_json::from_str(body).unwrap_or_else(|_| panic!("no answer: {answer}"))
    }

    /// The question that a call leads to: what the application comes back with when its person says yes.
    fn asks(&self, arguments: &Value) -> Value {
        let answer = self.call(arguments, &json!({}));
        let result = &answer["result"];
        assert_eq!(result["resultType"], "input_required", "{answer}");
        let (key, _) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
        let yes = json!({ "action": "accept", "content": { "decision": "once" } });
        json!({ "requestState": result["requestState"], "inputResponses": { key: yes } })
    }
}

fn said(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}

/// covers: HOST-07 HOST-08
#[test]
fn a_call_that_was_asked_about_before_the_program_was_killed_goes_on_after() {
    let machine = Machine::new(TYPED);
    let arguments = json!({ "name": "hunter2" });
    let up = machine.up();
    let back = up.asks(&arguments);
    let before = machine.waiting();
    up.killed();
    let state = machine.house.path("state/hospes");
    for file in ["state.db", "state.db-wal", "state.key"] {
        let bytes = std::fs::read(state.join(file)).unwrap_or_default();
        assert!(!bytes.windows(7).any(|window| window == b"hunter2"), "{file} says what would be called");
    }

    // Killed between the question and the decision.
    let up = machine.up();
    assert_eq!(machine.waiting(), before, "as it was");
    let id = before["id"].as_str().unwrap();
    let allowed = machine.approve(&["--allow", id]);
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    up.killed();

    // Killed between the decision and its use.
    let up = machine.up();
    assert_eq!(machine.approve(&["--list"]).stdout, "", "it is decided");
    assert_eq!(machine.called(), Vec::<Value>::new());
    let other = up.call(&json!({ "name": "Eve" }), &back);
    assert!(other["error"]["message"].as_str().unwrap().contains("requestState"), "{other}");
    assert_eq!(said(&up.call(&arguments, &back)), "one was called");
    assert!(said(&up.call(&arguments, &back)).contains("it was already used"));
    up.killed();
    let up = machine.up();
    assert!(said(&up.call(&arguments, &back)).contains("it was already used"));
    assert_eq!(machine.called(), [arguments]);
}

#[test]
fn what_is_changed_or_denied_after_the_program_was_killed_is() {
    let machine = Machine::new(TYPED);
    let arguments = json!({ "name": "Ada" });
    let up = machine.up();
    let back = up.asks(&arguments);
    up.killed();
    let up = machine.up();
    let id = machine.waiting()["id"].as_str().unwrap().to_owned();
    let wrong = text(&machine.house.write("wrong.json", r#"{"nam":"Eve"}"#));
    let edit = text(&machine.house.write("edit.json", r#"{"name":"Eve"}"#));
    let refused = machine.approve(&["--allow", &id, "--edit", &wrong]);
    assert!(refused.stderr.contains("required property"), "{refused:?}");
    assert_eq!(machine.approve(&["--allow", &id, "--edit", &edit]).code, Some(0));
    assert_eq!(said(&up.call(&arguments, &back)), "one was called");
    assert_eq!(machine.called(), [json!({ "name": "Eve" })]);

    let back = up.asks(&arguments);
    up.killed();
    let up = machine.up();
    let id = machine.waiting()["id"].as_str().unwrap().to_owned();
    assert_eq!(machine.approve(&["--deny", &id, "--reason", "not today"]).code, Some(0));
    up.killed();
    let up = machine.up();
    assert!(said(&up.call(&arguments, &back)).contains("the user denied it: not today"));

    // Other rules than those that it was asked under.
    let back = up.asks(&arguments);
    let id = machine.waiting()["id"].as_str().unwrap().to_owned();
    assert_eq!(machine.approve(&["--allow", &id]).code, Some(0));
    up.killed();
    machine.house.write("rules.toml", "[[rule]]\ndecide = 'ask'\n# by others\n");
    let up = machine.up();
    assert!(said(&up.call(&arguments, &back)).contains("the call differs from the one that was approved"));
    assert_eq!(machine.called().len(), 1);
}

/// The effect of such a call at the server is unknown.
#[test]
fn a_call_that_was_under_way_when_the_program_was_killed_is_not_made_again() {
    let machine = Machine::new(&format!("{TYPED}\n{ENDLESS}"));
    let arguments = json!({ "name": "Ada" });
    let up = machine.up();
    let back = up.asks(&arguments);
    let calling = up.send(&arguments, &back);
    eventually("the call has gone out", || machine.called().len() == 1);
    up.killed();
    drop(calling);
    let up = machine.up();
    assert_eq!(machine.approve(&["--list"]).stdout, "");
    assert!(said(&up.call(&arguments, &back)).contains("it was already used"));
    assert_eq!(machine.called(), [arguments]);
}

/// The connection of a call that waits ends with the program, and what waits for it with both.
#[test]
fn what_nobody_can_come_back_for_is_withdrawn_and_recorded() {
    let machine = Machine::new(TYPED);
    let mut up = machine.up();
    let follow = Running::start(machine.house.command(&["approve", "--json", "--follow"]));
    let endpoint = up.endpoint.to_string();
    let (_call, line) = loop {
        // Until it follows, nobody is there to be asked.
        let call = Running::start(machine.house.command(&["call", &endpoint, "one__greet", "name=Ada"]));
        match follow.stdout.recv_timeout(std::time::Duration::from_secs(2)) {
            Ok(line) => break (call, line),
            Err(_) => drop(call),
        }
    };
    let matter: Value = serde_json::from_str(&line).unwrap();
    up.running.signal("-TERM");
    up.running.wait();
    let found = machine.house.run(&["audit", "search", "--json", "--server", "one"]);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    let withdrawn = found.as_array().unwrap().iter().map(|one| &one["entry"]);
    let withdrawn: Vec<_> = withdrawn.filter(|entry| entry["decision"] == "withdrawn").collect();
    assert!(withdrawn.iter().any(|entry| entry["matter"] == matter["id"]), "{found}");
    let _up = machine.up();
    assert_eq!(machine.approve(&["--list"]).stdout, "");
}
