//! Web servers and programs with faults, and what `hospes doctor` reports of them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::{House, Ran, text};

pub(crate) type WebAnswer = dyn Fn(&str, SocketAddr) -> String + Send + Sync;

/// Answers each request with what `answer` returns for its path: a head and a body.
pub(crate) fn web(answer: Box<WebAnswer>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = [0; 8192];
            let count = stream.read(&mut request).unwrap_or_default();
            let head = String::from_utf8_lossy(&request[..count]).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default();
            let _gone = stream.write_all(answer(path, address).as_bytes());
        }
    });
    address
}

pub(crate) fn json_answer(body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

pub(crate) const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

pub(crate) fn program(house: &House, name: &str, script: &str) -> String {
    let file = house.write(name, &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    text(&file)
}

/// Returns the report, after a check of its form. Each fault has a remedy.
pub(crate) fn report(ran: &Ran) -> Value {
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert!(report["ok"].is_boolean(), "{report:#}");
    for check in report["checks"].as_array().unwrap() {
        let is_text = |name: &str| check[name].is_string();
        let known = ["code", "target", "status", "what", "why", "mend", "evidence", "ms"];
        let mut names = check.as_object().unwrap().keys();
        assert!(names.all(|name| known.contains(&name.as_str())), "{check:#}");
        assert!(is_text("code") && is_text("target") && is_text("what") && check["ms"].is_u64(), "{check:#}");
        let status = check["status"].as_str().unwrap();
        assert!(["ok", "warning", "ignored", "fault", "not_reached"].contains(&status), "{check:#}");
        assert!(
            status != "fault" || is_text("mend") && check["what"] != "",
            "a fault without a remedy: {check:#}"
        );
    }
    report
}

pub(crate) fn check<'r>(report: &'r Value, target: &str, code: &str) -> &'r Value {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["target"] == target && check["code"] == code);
    found.unwrap_or_else(|| panic!("no {code} of {target}: {report:#}"))
}

pub(crate) fn assert_found(report: &Value, target: &str, code: &str, status: &str, what: &str, mend: &str) {
    let found = check(report, target, code);
    assert_eq!(found["status"], status, "{found:#}");
    let said = format!("{} {}", found["what"], found["why"]);
    assert!(said.contains(what), "{found:#}");
    assert!(found["mend"].as_str().unwrap_or_default().contains(mend), "{found:#}");
}

pub(crate) fn doctor(house: &House, args: &[&str]) -> (Ran, Value) {
    let ran = house.run(&[&["doctor", "--json", "--connect-timeout", "5"], args].concat());
    let value = report(&ran);
    (ran, value)
}
