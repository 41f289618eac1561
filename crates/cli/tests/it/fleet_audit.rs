//! The audit record of all nodes: shipped once, verified, and exported without secrets.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::BTreeSet;
use std::io::{BufReader, Read as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::fleet::{FleetEngines, FleetNode, SECRET};
use crate::support::{House, Ran, eventually};

/// Planted in arguments and headers.
const SENTINEL: &str = "sentinel-8c1f2b";

const OPTIONS: [&str; 5] = ["--console", "off", "--preset", "off", "--audit-arguments"];

fn start(engines: &FleetEngines, house: House) -> FleetNode {
    let config = engines.config(&house, SECRET);
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    std::fs::copy(config, house.path("config/hospes/config.toml")).unwrap();
    engines.node_in(house, &OPTIONS)
}

fn call(node: &FleetNode) {
    let round = json!({ "arguments": { "secret": SENTINEL } });
    node.send_round("one__quick", &round).says("one was called");
}

#[track_caller]
fn succeeded(ran: Ran) -> Ran {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

fn lines(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns true if an entry is of a decision: here, of definitions that were accepted or rejected.
fn is_decision(line: &Value) -> bool {
    line["entry"]["kind"] == "definition"
}

/// Returns what identifies an entry that is no decision: its hash, which binds all before it.
fn hashes(ran: &Ran) -> Vec<String> {
    let all = lines(ran).into_iter().filter(|line| !is_decision(line));
    all.map(|line| line["bound"].as_str().unwrap().to_owned()).collect()
}

/// Receives one connection, and returns what came.
fn syslog_server() -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut text = String::new();
        BufReader::new(listener.accept().unwrap().0).read_to_string(&mut text).unwrap();
        text
    });
    (url, server)
}

/// Splits messages, each of which has its length before it.
fn messages(mut text: &str) -> Vec<&str> {
    let mut all = Vec::new();
    while let Some((length, rest)) = text.split_once(' ') {
        let (message, after) = rest.split_at(length.parse().unwrap());
        all.push(message);
        text = after;
    }
    all
}

#[test]
fn the_record_of_all_nodes_has_each_entry_once_whatever_ends() {
    let mut engines = FleetEngines::start();
    let (mut one, other) = (start(&engines, House::new()), start(&engines, House::new().with_token()));
    call(&one);
    call(&other);
    // Killed before what it has just recorded is shipped.
    for _ in 0..3 {
        call(&one);
    }
    one.host.child.kill().unwrap();
    one.host.wait();
    let one = start(&engines, one.house);
    // PostgreSQL is away and back.
    engines.postgres.kill();
    call(&one);
    engines.postgres.restart();
    call(&other);
    let mut of_nodes = BTreeSet::new();
    let mut count = 0;
    eventually("everything is shipped", || {
        let local = [&one, &other].map(|node| succeeded(node.house.run(&["audit", "export", "--local"])));
        count = local.iter().map(|ran| hashes(ran).len()).sum();
        of_nodes = local.iter().flat_map(hashes).collect();
        hashes(&succeeded(other.house.run(&["audit", "export"]))).len() >= count
    });
    let exported = succeeded(one.house.run(&["audit", "export"]));
    assert_eq!(hashes(&exported).len(), count, "each once");
    assert_eq!(hashes(&exported).into_iter().collect::<BTreeSet<_>>(), of_nodes);
    decisions_are_in_no_file(&one, &other);
    let all = lines(&succeeded(one.house.run(&["audit", "export"])));
    let calls: Vec<&Value> = all.iter().filter(|line| line["entry"]["kind"] == "call").collect();
    assert_eq!(calls.len(), 7);
    let nodes: BTreeSet<&str> = calls.iter().map(|line| line["node"].as_str().unwrap()).collect();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    // Each node reads all of them, and one of them on request.
    let of = |node: &str| calls.iter().filter(|line| line["node"] == node).count();
    let node = nodes.iter().find(|node| of(node) == 5).unwrap();
    let found = |args: &[&str]| {
        let ran =
            succeeded(other.house.run(&[&["audit", "search", "--json", "--kind", "call"], args].concat()));
        serde_json::from_str::<Value>(&ran.stdout).unwrap().as_array().unwrap().len()
    };
    assert_eq!((found(&[]), found(&["--node", node]), found(&["--node", "no:1"])), (7, 5, 0));
    let shown = succeeded(other.house.run(&["audit", "search", "--kind", "call"])).stdout;
    assert!(nodes.iter().all(|node| shown.contains(node)), "{shown}");

    export_goes_on_and_has_no_secret(&one, all.len());
    altered_entries_are_found(&engines, &one);
}

/// Decisions of a node and of a command on its machine are in the record at once, and in the file of none.
fn decisions_are_in_no_file(one: &FleetNode, other: &FleetNode) {
    succeeded(other.house.run(&["pins", "reject", "one", "quick"]));
    let decisions = |node: &FleetNode, args: &[&str]| -> Vec<Value> {
        let ran = succeeded(node.house.run(&[&["audit", "export"], args].concat()));
        lines(&ran).into_iter().filter(is_decision).collect()
    };
    let all = decisions(one, &[]);
    let made = |decision: &str| all.iter().filter(|line| line["entry"]["decision"] == decision).count();
    assert!(made("allow") > 2, "each node has accepted its server at first use: {all:?}");
    let rejected = all.iter().find(|line| line["entry"]["decision"] == "reject").unwrap();
    assert_eq!(
        (&rejected["entry"]["subject"], &rejected["node"]),
        (&json!("tool quick"), &json!("127.0.0.1:0"))
    );
    for node in [one, other] {
        assert_eq!(decisions(node, &["--local"]), Vec::<Value>::new());
    }
}

fn export_goes_on_and_has_no_secret(node: &FleetNode, count: usize) {
    let run = |args: &[&str]| succeeded(node.house.run(&[&["audit", "export"], args].concat()));
    let first = lines(&run(&[]));
    let half = first[count / 2]["seq"].as_u64().unwrap();
    let (after, file) = (half.to_string(), node.house.path("audit.jsonl"));
    let rest = run(&["--after", &after]);
    assert_eq!(lines(&rest), first[count / 2 + 1..]);
    assert!(rest.stderr.contains(&format!("--after {count}")), "{}", rest.stderr);
    let file = file.to_str().unwrap();
    run(&["--file", file]);
    let again = node.house.run(&["audit", "export", "--file", file]);
    assert!(again.code != Some(0) && again.stderr.contains("exists"), "{again:?}");
    run(&["--file", file, "--after", &count.to_string()]);
    let written = std::fs::read_to_string(file).unwrap();
    assert_eq!(written.lines().count(), count);
    let (url, server) = syslog_server();
    run(&["--syslog", &url]);
    let sent = server.join().unwrap();
    let sent = messages(&sent);
    assert_eq!(sent.len(), count);
    for (message, line) in sent.iter().zip(&first) {
        let (head, json) = message.split_once(" - {").unwrap();
        assert_eq!(&serde_json::from_str::<Value>(&format!("{{{json}")).unwrap(), line);
        assert!(head.starts_with("<110>1 2") && head.contains(" 127.0.0.1 hospes - "), "{head}");
    }
    // Arguments are recorded, and only they have the sentinel.
    for text in [&written, &sent.join("\n")] {
        assert!(text.contains("\"sealed\"") && !text.contains(SENTINEL), "{text}");
    }
    assert_eq!(run(&["--arguments"]).stdout.matches(SENTINEL).count(), 7);
}

fn altered_entries_are_found(engines: &FleetEngines, node: &FleetNode) {
    let mut verified = Value::Null;
    eventually("an anchor is written", || {
        let ran = succeeded(node.house.run(&["audit", "verify", "--json"]));
        verified = serde_json::from_str(&ran.stdout).unwrap();
        verified["notAnchored"] == 0 && verified["place"].is_string()
    });
    // A file and the decisions of each node, and the decisions of a command.
    let chains = verified["chains"].as_array().unwrap();
    let of_decisions = chains.iter().filter(|chain| chain["decisions"] == true).count();
    assert_eq!((chains.len(), of_decisions), (5, 3), "{verified}");
    let noted = verified["place"].as_str().unwrap();
    let shown = succeeded(node.house.run(&["audit", "verify", "--noted", noted])).stdout;
    assert!(
        shown.contains("of all nodes in 5 chains")
            && shown.contains(", decisions  chain ")
            && shown.contains("all intact"),
        "{shown}"
    );
    let _changed = engines.postgres.query(
        "UPDATE audit_blocks SET entries = convert_to(replace(convert_from(entries, 'UTF8'), 'quick', 'other'), 'UTF8')",
    );
    let broken = node.house.run(&["audit", "verify"]);
    assert_eq!(broken.code, Some(1), "{broken:?}");
    for part in ["was modified", "(node 127.0.0.1:", "chain ", "hospes audit verify --local"] {
        assert!(broken.stderr.contains(part), "{part}: {}", broken.stderr);
    }
    succeeded(node.house.run(&["audit", "verify", "--local"]));
}
