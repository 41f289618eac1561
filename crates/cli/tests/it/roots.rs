//! Tests of the roots that servers receive: real servers over pipes, of both eras.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::{House, Running, eventually, text};

/// Script that asks for the roots during a call and keeps the answer in `NAME.sh.roots`.
const ASKS: &str = r#"*'"method":"tools/call"'*) call=$id; printf '{"jsonrpc":"2.0","id":99,"method":"roots/list"}\n'; IFS= read -r line; printf '%s\n' "$line" >> "$0.roots"; id=$call; answer '{"content":[]}';;"#;

/// A house whose path has no symbolic link in it.
fn folders(house: &House, names: &[&str]) -> PathBuf {
    for name in names {
        std::fs::create_dir_all(house.path(name)).unwrap();
    }
    house.path(".").canonicalize().unwrap()
}

/// An older server that asks for the roots, as a table of the configuration.
fn older(house: &House, name: &str, roots: &str) -> String {
    house.server(name, &["ask"], ASKS);
    let script = text(&house.path(&format!("{name}.sh")));
    format!("[servers.{name}]\ncommand = ['sh', '{script}']\n{roots}\n")
}

fn host(house: &House, config: &str, more: &[&str], capabilities: &Value) -> Running {
    let file = text(&house.write("hospes.toml", config));
    let args = [&["stdio", "--config", &file, "--start-wait", "10"], more].concat();
    let mut host = Running::start(house.command(&args));
    host.initialize(capabilities);
    host
}

/// The paths that a server was told the last time.
fn told(house: &House, name: &str) -> Vec<String> {
    let answers = house.read(&format!("{name}.sh.roots"));
    let answer: Value = serde_json::from_str(answers.lines().last().unwrap()).unwrap();
    let roots = answer["result"]["roots"].as_array().unwrap_or_else(|| panic!("{answer}"));
    roots.iter().map(|root| root["uri"].as_str().unwrap().trim_start_matches("file://").to_owned()).collect()
}

fn ask(host: &mut Running, server: &str) {
    let answer = host.ask(5, "tools/call", &json!({ "name": format!("{server}__ask") }));
    assert!(answer["result"]["content"].is_array(), "{answer}");
}

fn paths(base: &Path, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| text(&base.join(name))).collect()
}

/// covers: ROOT-01 ROOT-05 ROOT-08 ROOT-09 ROOT-10
#[test]
fn each_server_is_told_what_was_granted_to_it() {
    let house = House::new();
    let base = folders(&house, &["a", "b", "c"]);
    std::os::unix::fs::symlink(base.join("b"), base.join("link")).unwrap();
    let config = [
        older(&house, "one", "roots = ['a', 'link', 'gone']"),
        older(&house, "two", "roots = ['b/../b']"),
        older(&house, "three", ""),
        older(&house, "four", "roots = []"),
    ];
    let shared = text(&base.join("c"));
    let mut host = host(&house, &config.concat(), &["--root", &shared], &json!({}));
    for (server, expected) in [("one", &["a", "b"][..]), ("two", &["b"]), ("three", &["c"])] {
        ask(&mut host, server);
        assert_eq!(told(&house, server), paths(&base, expected), "{server}");
    }
    // Nothing is declared to a server that is told nothing.
    ask(&mut host, "four");
    assert!(house.read("four.sh.roots").contains("-32601"), "{}", house.read("four.sh.roots"));
    let read = host.ask(8, "resources/read", &json!({ "uri": "hospes://status" }));
    let status: Value =
        serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(status["servers"][2]["roots"], json!([shared]));
    // The commands that do without a host say the same.
    let mut call = house.command(&["call", "two", "ask", "--config", &text(&house.path("hospes.toml"))]);
    assert!(call.output().unwrap().status.success());
    assert_eq!(told(&house, "two"), paths(&base, &["b"]));
}

/// covers: ROOT-03 ROOT-11 ROOT-17 ROOT-18
#[test]
fn a_root_that_goes_or_comes_or_becomes_another_is_told() {
    let house = House::new();
    let base = folders(&house, &["a", "b", "secret"]);
    let config = older(&house, "one", "roots = ['a', 'b', 'later']");
    let mut host = host(&house, &config, &[], &json!({}));
    ask(&mut host, "one");
    assert_eq!(told(&house, "one"), paths(&base, &["a", "b"]));
    let changes = || house.read("one.log").matches("notifications/roots/list_changed").count();
    assert_eq!(changes(), 0);
    std::fs::remove_dir(base.join("b")).unwrap();
    std::os::unix::fs::symlink(base.join("secret"), base.join("b")).unwrap();
    // Nobody has to wait until that is noticed.
    ask(&mut host, "one");
    assert_eq!(told(&house, "one"), paths(&base, &["a"]));
    eventually("the change is told", || changes() == 1);
    std::fs::create_dir(base.join("later")).unwrap();
    eventually("the change is told", || changes() == 2);
    ask(&mut host, "one");
    assert_eq!(told(&house, "one"), paths(&base, &["a", "later"]));
}

/// Answers the requests for roots that come in the middle of a call.
fn call_with(host: &mut Running, roots: &Value, tool: &str) -> Value {
    host.send(&json!({ "jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": { "name": tool, "arguments": {} } }));
    loop {
        let message = host.next();
        if message["method"] == "roots/list" {
            host.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "roots": roots } }));
        } else if message["id"] == 6 {
            return message;
        }
    }
}

/// Both eras: the older server is asked by a request, the newer one by what its result requires.
/// covers: ROOT-08 ROOT-09 ROOT-10
#[test]
fn an_applications_roots_are_told_within_what_was_granted() {
    let house = House::new();
    let base = folders(&house, &["granted/inner", "granted/other", "outside"]);
    std::os::unix::fs::symlink(base.join("outside"), base.join("granted/leak")).unwrap();
    let modern = |name: &str, roots: &str| {
        let program = env!("CARGO_BIN_EXE_hospes");
        format!("[servers.{name}]\ncommand = ['{program}', 'serve', 'everything']\n{roots}\n")
    };
    let config = [
        older(&house, "old", "roots = ['granted']"),
        older(&house, "free", ""),
        older(&house, "none", "roots = []"),
        modern("new", "roots = ['granted']"),
    ];
    let capabilities = json!({ "roots": {} });
    let mut host = host(&house, &config.concat(), &[], &capabilities);
    let uri = |path: &str| format!("file://{}/{path}", base.display());
    let inner = uri("granted/inner");
    let given = json!([
        { "uri": inner, "name": "mine" },
        { "uri": uri("outside") },
        { "uri": uri("") },
        { "uri": uri("granted/leak") },
        { "uri": uri("granted/../outside") },
        { "uri": uri("granted/gone") },
        { "uri": "https://example.com/granted" },
    ]);
    call_with(&mut host, &given, "old__ask");
    assert_eq!(told(&house, "old"), paths(&base, &["granted/inner"]));
    assert!(house.read("old.sh.roots").contains(r#""name":"mine""#));
    call_with(&mut host, &json!([{ "uri": inner }, { "uri": uri("outside") }]), "free__ask");
    assert_eq!(
        told(&house, "free"),
        paths(&base, &["granted/inner", "outside"]),
        "nothing was said about it"
    );
    call_with(&mut host, &given, "none__ask");
    assert_eq!(told(&house, "none"), [""; 0]);
    let answer = call_with(&mut host, &given, "new__test_input_required_result_list_roots");
    assert_eq!(answer["result"]["content"][0]["text"], format!("The roots are {inner}"), "{answer}");
    host.close_stdin();
    host.wait();
    let recorded = house.run(&["audit", "export"]).stdout;
    let entries: Vec<Value> =
        recorded.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["entry"].clone()).collect();
    let of = |server: &str| {
        let mut found = entries.iter().filter(|entry| entry["kind"] == "roots" && entry["server"] == server);
        found.next().unwrap_or_else(|| panic!("{recorded}"))
    };
    for (server, decision, subject) in
        [("old", "allow", "1 of 7"), ("new", "allow", "1 of 7"), ("none", "deny", "0 of 7")]
    {
        assert_eq!(
            (&of(server)["decision"], &of(server)["subject"]),
            (&json!(decision), &json!(subject)),
            "{server}"
        );
        assert_eq!(of(server)["application"], "test 1");
    }
}

/// A server of 2026-07-28 asks anew with every call; a rule that forbids roots holds for those of the host, too.
/// covers: ROOT-08 ROOT-17
#[test]
fn a_newer_server_is_told_what_there_is_and_nothing_where_a_rule_forbids_it() {
    let house = House::new();
    let base = folders(&house, &["a", "b"]);
    let program = env!("CARGO_BIN_EXE_hospes");
    let config = format!(
        "[servers.new]\ncommand = ['{program}', 'serve', 'everything']\nroots = ['a', 'b']\n{}",
        older(&house, "old", "roots = ['a']")
    );
    let tool = json!({ "name": "new__test_input_required_result_list_roots", "arguments": {} });
    let asked = |host: &mut Running| host.ask(7, "tools/call", &tool)["result"]["content"][0]["text"].clone();
    let uris = |names: &[&str]| {
        let uris: Vec<String> =
            names.iter().map(|name| format!("file://{}", base.join(name).display())).collect();
        json!(format!("The roots are {}", if uris.is_empty() { "none".to_owned() } else { uris.join(", ") }))
    };
    let mut open = host(&house, &config, &[], &json!({}));
    assert_eq!(asked(&mut open), uris(&["a", "b"]));
    std::fs::remove_dir(base.join("b")).unwrap();
    assert_eq!(asked(&mut open), uris(&["a"]));
    drop(open);
    let rules = "[[rule]]\ndecide = 'deny'\nabout = 'roots'\n[[rule]]\ndecide = 'allow'\n";
    let rules = text(&house.write("rules.toml", rules));
    let mut closed = host(&house, &config, &["--policy", &rules], &json!({}));
    assert_eq!(asked(&mut closed), uris(&[]));
    ask(&mut closed, "old");
    assert_eq!(told(&house, "old"), [""; 0]);
}
