//! The record of the whole program, which is on the disk before an answer is given: while it is killed and while nothing can be
//! written.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::collections::HashSet;
use std::process::Command;

use serde_json::{Value, json};
use support::{House, Running, eventually};

/// A host with a server, started and recorded.
fn host(house: &House) -> Running {
    let config = house.config(&[("one", house.server("one", &["change"], ""))]);
    let mut host = Running::start(house.command(&["stdio", "--config", &config, "--start-wait", "10"]));
    host.initialize(&json!({}));
    host
}

/// The ends of the calls of a tool that stand in the record.
fn recorded(house: &House, subject: &str) -> Vec<String> {
    let verified = house.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let exported = house.run(&["audit", "export"]);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    let entries = exported.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let calls = entries.map(|line| line["entry"].clone()).filter(|entry| entry["kind"] == "call");
    calls
        .filter(|entry| entry["subject"] == subject)
        .map(|entry| entry["ending"].as_str().unwrap().to_owned())
        .collect()
}

fn change(host: &mut Running, id: u32) -> Value {
    host.ask(id, "tools/call", &json!({ "name": "one__change", "arguments": {} }))
}

/// The tool has no annotations, so it may change something.
#[test]
fn no_call_that_was_answered_is_lost_when_the_host_is_killed() {
    for killed_after in [1, 40, 300] {
        let house = House::new();
        let mut host = host(&house);
        // The answer that is waited for says that the server is there.
        assert!(change(&mut host, 1)["result"].is_object());
        for id in 2..=500 {
            let params = json!({ "name": "one__change", "arguments": {} });
            host.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
        }
        let mut answered = HashSet::from([1]);
        while answered.len() < killed_after {
            answered.extend(host.next()["id"].as_u64());
        }
        host.signal("-KILL");
        host.wait();
        // What went out before it was killed counts, too. The last line may be cut.
        let left: Vec<String> = host.stdout.iter().collect();
        let left = left.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        answered.extend(left.filter_map(|message| message["id"].as_u64()));
        let recorded = recorded(&house, "change").len();
        assert!(recorded >= answered.len(), "{} were answered, {recorded} are recorded", answered.len());
    }
}

/// The size of files that a process may write, as a person, a container or another process may have set it.
fn limit(host: &Running, what: &str) {
    let pid = host.child.id().to_string();
    let set = Command::new("prlimit").args(["--pid", &pid, what]).status();
    assert!(set.expect("util-linux has prlimit").success());
}

/// A record that cannot be written does not end the host: what was done is not told, nothing more is done, and once it can be
/// written again all of it stands in the record.
#[test]
fn a_limit_on_the_size_of_files_is_a_full_disk() {
    let house = House::new();
    let mut host = host(&house);
    assert!(change(&mut host, 1)["result"]["isError"].is_null());
    limit(&host, "--fsize=0:");
    limit(&host, "--cpu=1:");
    let withheld = change(&mut host, 2);
    let text = withheld["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(withheld["result"]["isError"] == true && text.contains("cannot be recorded"), "{withheld}");
    assert_eq!(house.read("one.log").matches("tools/call").count(), 2);
    for id in 3..6 {
        let refused = change(&mut host, id);
        assert_eq!(refused["result"]["isError"], true, "{refused}");
    }
    assert_eq!(house.read("one.log").matches("tools/call").count(), 2, "what cannot be recorded is not done");
    limit(&host, "--fsize=unlimited:");
    let answer = change(&mut host, 7);
    assert!(answer["result"]["isError"].is_null(), "{answer}");
    host.close_stdin();
    assert_eq!(host.wait(), Some(0));
    let done = recorded(&house, "change").iter().filter(|ending| *ending == "done").count();
    assert_eq!(done, 3);
}

/// A writer of the file does not have the key. New entries are needed as much as those before the tampering.
#[test]
fn a_host_says_that_its_record_was_tampered_with_and_goes_on_behind_an_entry_that_says_so() {
    let house = House::new();
    let mut first = host(&house);
    assert!(change(&mut first, 1)["result"].is_object());
    first.close_stdin();
    assert_eq!(first.wait(), Some(0));
    drop(first);
    let file = house.path("state/hospes/audit.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let tool = b"\"subject\":\"change\"";
    let at = bytes.windows(tool.len()).position(|found| found == tool).expect("what was called");
    bytes[at + 11..at + 17].copy_from_slice(b"chance");
    std::fs::write(&file, bytes).unwrap();

    let config = house.config(&[("one", house.server("one", &["change"], ""))]);
    let args = ["up", "--config", &config, "--listen", "0", "--console", "off"];
    let up = Running::start(house.command(&args));
    let said = up.said(|line| line.contains("tampered with"));
    assert!(said.contains("warning") && said.contains("was modified"), "{said}");
    let status = house.run(&["status"]);
    assert!(status.stdout.contains("was modified"), "{status:?}");
    let found = house.run(&["audit", "search", "failed verification"]);
    assert!(found.stdout.contains("the audit record failed verification: entry "), "{found:?}");
    assert_ne!(house.run(&["audit", "verify"]).code, Some(0));
}

/// Other operations continue: a signal about limits does not end the host.
#[test]
fn signals_about_limits_do_not_end_the_host() {
    let house = House::new();
    let mut host = host(&house);
    for signal in ["-XFSZ", "-XCPU"] {
        host.signal(signal);
        assert!(change(&mut host, 1)["result"].is_object(), "{signal}");
    }
}

#[test]
fn a_host_without_a_policy_says_what_is_asked() {
    let house = House::new();
    let config = house.config(&[("one", house.server("one", &["greet"], ""))]);
    let options = ["up", "--config", &config, "--listen", "127.0.0.1:0", "--console", "off"];
    let mut host = Running::start(house.command(&options));
    host.said(|line| line.contains("guard") && line.contains("preset balanced: asks about effects"));
    eventually("the host answers", || {
        house.run(&["status"]).stdout.contains("guard: preset balanced: asks about effects")
    });
    host.signal("-TERM");
    host.wait();

    let options = [&options[..], &["--preset", "off"]].concat();
    let mut host = Running::start(house.command(&options));
    host.said(|line| {
        line.contains("policy") && line.contains("none, so every call is allowed without approval")
    });
    let shown = || house.run(&["status"]);
    eventually("the host answers", || shown().code == Some(0));
    assert!(
        shown().stdout.contains("policy: none, so every call is allowed without approval"),
        "{:?}",
        shown()
    );

    // The host follows the file, and says no more that there is none.
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/policy.toml", "[[rule]]\ndecide = 'ask'\n");
    eventually("the rules are read", || !shown().stdout.contains("policy:"));
    host.signal("-TERM");
    host.wait();
}
