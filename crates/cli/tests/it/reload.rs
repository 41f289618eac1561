//! Changes of the configuration file while the host runs.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{House, Running, eventually};

/// A running host whose configuration the tests change.
struct ReloadedHost {
    house: House,
    config: String,
    host: Running,
    url: String,
}

impl ReloadedHost {
    fn start(servers: &[(&str, Value)]) -> Self {
        let house = House::new();
        let config = house.config(servers);
        Self::with(house, config)
    }

    fn with(house: House, config: String) -> Self {
        let host = Running::start(house.command(&[
            "up",
            "--listen",
            "127.0.0.1:0",
            "--console",
            "off",
            "--config",
            &config,
        ]));
        let said = host.said(|line| line.contains("endpoint"));
        let url = said.split(&[' ', '='][..]).find(|word| word.starts_with("http://")).unwrap().to_owned();
        Self { house, config, host, url }
    }

    fn write(&self, servers: &[(&str, Value)]) {
        let servers: serde_json::Map<String, Value> =
            servers.iter().map(|(name, server)| ((*name).to_owned(), server.clone())).collect();
        std::fs::write(&self.config, json!({ "mcpServers": servers }).to_string()).unwrap();
    }

    /// Names of the tools at the endpoint, or at that of one server. Empty if nothing is there.
    fn tools(&self, path: &str) -> Vec<String> {
        let listed = self.house.run(&["list", &format!("{}{path}", self.url), "--json"]);
        let value: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        let tools = value["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    fn lists(&self, expected: &[&str]) {
        let mut last = Vec::new();
        eventually(&format!("the tools are {expected:?}"), || {
            last = self.tools("");
            last.retain(|name| !name.starts_with("hospes__"));
            last == expected
        });
    }
}

#[test]
fn servers_are_added_changed_and_removed_while_the_host_runs() {
    let house = House::new();
    let one = house.server("one", &["greet"], "");
    let two = house.server("two", &["greet"], "");
    let other = house.server("other", &["part"], "");
    let host = ReloadedHost::start(&[("one", one.clone())]);
    host.lists(&["one__greet"]);

    host.write(&[("one", one.clone()), ("two", two.clone())]);
    host.lists(&["one__greet", "two__greet"]);
    assert_eq!(host.tools("/two"), ["greet"], "the new server has an endpoint of its own");
    let said = host.host.said(|text| text.contains("event=reload"));
    assert!(said.contains("added=two"), "{said}");

    // The same name with another program, and its endpoint follows it.
    host.write(&[("one", one.clone()), ("two", other)]);
    host.lists(&["one__greet", "two__part"]);
    assert_eq!(host.tools("/two"), ["part"]);
    assert!(!Path::new(&house.path("gone")).exists());

    host.write(&[("one", one.clone())]);
    host.lists(&["one__greet"]);
    let gone = host.house.run(&["list", &format!("{}/two", host.url)]);
    assert_ne!(gone.code, Some(0), "the endpoint of a removed server is gone: {gone:?}");
    eventually("the removed servers have ended", || !house.is_running("two") && !house.is_running("other"));
    assert!(house.is_running("one"), "a server that did not change goes on");

    host.write(&[("one", one), ("two", two)]);
    host.lists(&["one__greet", "two__greet"]);
}

#[test]
fn a_configuration_with_mistakes_stops_no_server() {
    let house = House::new();
    let one = house.server("one", &["greet"], "");
    let two = house.server("two", &["greet"], "");
    let host = ReloadedHost::start(&[("one", one.clone())]);
    host.lists(&["one__greet"]);

    std::fs::write(&host.config, "{ \"mcpServers\": {").unwrap();
    host.host.said(|text| text.contains("the servers go on as they were"));
    host.lists(&["one__greet"]);

    // A mistake in one entry concerns that entry alone, and its server goes on.
    host.write(&[("one", json!({ "command": 7 })), ("two", two.clone())]);
    host.lists(&["one__greet", "two__greet"]);
    host.host.said(|text| text.contains("the entry of `one` cannot be used"));

    // Names that look alike.
    host.write(&[("one", one.clone()), ("0ne", two.clone()), ("One", two)]);
    host.host.said(|text| text.contains("rename one of them"));
    host.lists(&["one__greet", "two__greet"]);
    assert!(house.is_running("one"));
}

/// A call that runs on a removed server ends with an error, and does not wait for its time limit.
#[test]
fn a_running_call_on_a_removed_server_ends() {
    let house = House::new();
    let one = house.server("one", &["greet"], "");
    let slow = house.server("slow", &["wait"], r#"*'"method":"tools/call"'*) : ;;"#);
    let host = ReloadedHost::start(&[("one", one.clone()), ("slow", slow)]);
    host.lists(&["one__greet", "slow__wait"]);
    let mut call = Running::start(host.house.command(&["call", &host.url, "slow__wait"]));
    eventually("the call runs", || house.read("slow.log").contains("tools/call"));
    host.write(&[("one", one)]);
    call.said(|line| line.contains("error"));
    assert_ne!(call.wait(), Some(0));
}

/// An application of an older revision hears of new tools in its session.
#[cfg(target_os = "linux")]
#[test]
fn applications_are_told_of_changed_lists() {
    let house = House::new();
    let one = house.server("one", &["greet"], "");
    let two = house.server("two", &["greet"], "");
    let host = ReloadedHost::start(&[("one", one.clone())]);
    host.lists(&["one__greet"]);
    let mut application = Running::start(host.house.command(&["stdio", "--application", "cursor"]));
    application.initialize(&json!({}));
    application.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    host.write(&[("one", one), ("two", two)]);
    loop {
        if application.next()["method"] == "notifications/tools/list_changed" {
            break;
        }
    }
    eventually("the new tool is listed", || {
        application.send(&json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/list" }));
        loop {
            let answer = application.next();
            if answer["id"] == 5 {
                break answer.to_string().contains("two__greet");
            }
        }
    });
}

#[test]
fn arguments_are_recorded_from_the_time_at_which_the_configuration_asks_for_it() {
    let house = House::new();
    let config =
        |table: &str| house.write("host.toml", &format!("{table}\n[servers.clock]\nbuiltin = \"time\"\n"));
    let file = config("").to_string_lossy().into_owned();
    let up = ["up", "--listen", "127.0.0.1:0", "--console", "off", "--config", &file];
    let host = Running::start(house.command(&up));
    let said = host.said(|line| line.contains("endpoint"));
    let url = said.split(&[' ', '='][..]).find(|word| word.starts_with("http://")).unwrap().to_owned();
    let call = |zone: &str| {
        let called = house.run(&["call", &url, "clock__now", &format!("timezone={zone}")]);
        assert_eq!(called.code, Some(0), "{called:?}");
    };
    call("Europe/Paris");
    config("[audit]\narguments = true");
    host.said(|line| line.contains("event=reload") && line.contains("audit_arguments=on"));
    call("Europe/Rome");
    config("");
    host.said(|line| line.contains("event=reload") && line.contains("audit_arguments=off"));
    call("Europe/Vienna");

    // The entry of a call that only reads is written after its answer.
    eventually("all calls are recorded, one with arguments", || {
        let exported = house.run(&["audit", "export", "--arguments"]).stdout;
        let entries = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let zones: Vec<Value> = entries
            .filter(|entry| entry["entry"]["kind"] == "call" && entry["entry"]["server"] == "clock")
            .map(|entry| entry["arguments"]["timezone"].clone())
            .collect();
        zones == [Value::Null, json!("Europe/Rome"), Value::Null]
    });
}

fn status(house: &House) -> Value {
    serde_json::from_str(&house.run(&["--json", "status"]).stdout).unwrap_or_default()
}

/// A server of the status by its name; null if it is not there.
fn server_status(house: &House, name: &str) -> Value {
    let status = status(house);
    let servers = status["servers"].as_array().cloned().unwrap_or_default();
    servers.into_iter().find(|server| server["name"] == name).unwrap_or_default()
}

/// The mode of acceptance was computed once, when the host started.
///
/// covers: HOST-03
#[test]
fn new_servers_are_reviewed_once_a_policy_file_is_written_and_for_as_long_as_its_rules_hold() {
    let house = House::new();
    let servers: Vec<(&str, Value)> =
        ["one", "two", "three"].map(|name| (name, house.server(name, &["greet"], ""))).into();
    let host = ReloadedHost::start(&servers[..1]);
    let waits = |name: &str, expected: bool| {
        let mut last = Value::Null;
        eventually(&format!("{name} is ready, and waits for review: {expected}"), || {
            last = server_status(&host.house, name);
            last["state"] == "ready" && (last["needsReview"] == true) == expected
        });
    };
    waits("one", false);
    std::fs::create_dir_all(host.house.path("config/hospes")).unwrap();
    let policy = host.house.write("config/hospes/policy.toml", "[[rule]]\ndecide = 'allow'\n");
    host.host.said(|line| line.contains("policy reloaded: 1 rule from"));
    host.write(&servers[..2]);
    waits("two", true);
    waits("one", false);
    let shown = host.house.run(&["status"]).stdout;
    assert!(shown.contains("◍ two") && shown.contains("waits for review, 1 tool"), "{shown}");
    assert!(shown.contains("● one"), "{shown}");

    // What waits goes on to wait: it was not accepted.
    std::fs::remove_file(&policy).unwrap();
    host.host.said(|line| line.contains("policy.toml was deleted; the previous rules remain in effect"));
    host.write(&servers);
    waits("three", true);
    waits("two", true);
}

/// The host went on without a secret until its configuration was touched.
#[test]
fn a_server_starts_once_its_secret_is_stored() {
    let house = House::new();
    let [one, needing] = ["one", "needing"].map(|name| {
        let script = house.server(name, &["greet"], "")["args"][0].clone();
        format!("[servers.{name}]\ncommand = 'sh'\nargs = [{script}]\n")
    });
    let config = format!("{one}{needing}env = {{ TOKEN = '${{secret:needed.token}}' }}\n");
    let config = house.write("hospes.toml", &config).to_str().unwrap().to_owned();
    let host = ReloadedHost::with(house, config);
    let mut last = Value::Null;
    eventually("it is not started", || {
        last = status(&host.house);
        last["leftOut"][0][0] == "needing"
    });
    assert!(last["leftOut"][0][1].as_str().unwrap().contains("`hospes secret set needed.token`"), "{last}");
    let shown = host.house.run(&["status"]).stdout;
    assert!(shown.contains("✗ needing") && shown.contains("not started"), "{shown}");
    let doctor = host.house.run(&["doctor", "needing", "--config", &host.config]);
    assert!(doctor.stdout.contains("mend  hospes secret set needed.token\n"), "{doctor:?}");
    assert!(!doctor.stdout.contains("correct the entry"), "{doctor:?}");
    let mut set = host.house.command(&["secret", "set", "needed.token"]);
    let mut child = set.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"sesame").unwrap();
    assert!(child.wait().unwrap().success());
    eventually("it is ready", || server_status(&host.house, "needing")["state"] == "ready");
    assert_eq!(status(&host.house)["leftOut"], Value::Null);
}

/// The end of a long line, with the mistake, was cut, and the status had nothing of it.
#[test]
fn a_mistake_in_a_followed_file_is_in_the_status_until_it_is_corrected() {
    let house = House::new();
    let one = house.server("one", &["greet"], "");
    let host = ReloadedHost::start(&[("one", one.clone())]);
    host.lists(&["one__greet"]);
    let problems = || status(&host.house)["fileProblems"].clone();
    assert_eq!(problems(), Value::Null);
    std::fs::create_dir_all(host.house.path("config/hospes")).unwrap();
    host.house.write("config/hospes/policy.toml", "[[rule]]\ndecide = 'perhaps'\n");
    let said = host.host.said(|line| line.contains("the previous rules remain in effect"));
    assert!(said.find("perhaps").unwrap() < said.find("policy.toml:2:").unwrap(), "{said}");
    let mut last = Value::Null;
    eventually("it is in the status", || {
        last = problems();
        last[0]["problem"].is_string()
    });
    assert!(last[0]["file"].as_str().unwrap().ends_with("policy.toml"), "{last}");
    assert!(
        last[0]["since"].is_string() && last[0]["problem"].as_str().unwrap().contains("perhaps"),
        "{last}"
    );
    let shown = host.house.run(&["status"]).stdout;
    assert!(shown.contains("policy.toml has had a mistake since"), "{shown}");
    host.house.write("config/hospes/policy.toml", "[[rule]]\ndecide = 'allow'\n");
    eventually("it is corrected", || problems().is_null());

    std::fs::write(&host.config, "{ \"mcpServers\": {").unwrap();
    eventually("the configuration has a mistake", || problems()[0]["problem"].is_string());
    // An entry whose server goes on is not one that was not started.
    host.write(&[("one", json!({ "command": 7 }))]);
    let goes_on =
        |problem: &Value| problem.as_str().is_some_and(|text| text.contains("`one` goes on as it was"));
    host.write(&[("one", json!({ "command": 7 })), ("two", house.server("two", &["greet"], ""))]);
    eventually("the entry has a mistake", || goes_on(&problems()[0]["problem"]));
    assert_eq!(status(&host.house)["leftOut"], Value::Null);
    host.write(&[("one", one)]);
    eventually("the configuration is corrected", || problems().is_null());
}
