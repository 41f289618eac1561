//! Tests that configured servers are started as written, and that no request changes the configuration.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::{House, LIMIT, Running, eventually};

/// Each is one argument, whatever a shell would make of it.
const SLY: [&str; 12] = [
    "$(touch PWNED)",
    "`touch PWNED`",
    "; touch PWNED",
    "&& touch PWNED",
    "| tee PWNED",
    "> PWNED",
    "a  b",
    "*",
    "~",
    "\"'\\",
    "line\nbreak",
    "-c",
];

/// No shell stands between the configuration and the server, and what would be started is shown to its end.
#[test]
fn metacharacters_of_a_command_line_reach_the_server_as_they_stand_and_are_shown_whole() {
    let house = House::new();
    let server = house.server("one", &["greet"], "");
    let script = house.read("one.sh");
    house.write("one.sh", &format!("printf '%s\\0' \"$@\" > '{}'\n{script}", house.path("args").display()));
    let long = format!("--{}end", "x".repeat(4000));
    let mut args: Vec<Value> = server["args"].as_array().unwrap().clone();
    args.extend(SLY.iter().map(|arg| json!(arg)));
    args.push(json!(long));
    let entry = json!({ "command": "sh", "args": args, "env": { "LD_PRELOAD": "/nobody/has/this.so" } });
    let config = house.config(&[("one", entry)]);
    let mut host =
        Running::start(house.command(&["up", "--config", &config, "--listen", "127.0.0.1:0", "--json"]));
    let _greeting = host.greeting();
    eventually("it is started", || house.path("args").exists() && house.is_running("one"));
    let given = house.read("args");
    let given: Vec<&str> = given.trim_end_matches('\0').split('\0').collect();
    let mut wanted = SLY.to_vec();
    wanted.push(&long);
    assert_eq!(given, wanted);
    assert!(!files(&house.path("")).keys().any(|file| file.ends_with("PWNED")));
    eventually("it is pinned", || house.run(&["pins", "show", "one"]).code == Some(0));
    let shown = house.run(&["pins", "show", "one"]).stdout;
    for part in ["$(touch PWNED)", "`touch PWNED`", "; touch PWNED", long.as_str()] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // What decides which code is loaded is named, too.
    let status = house.run(&["--json", "status"]).stdout;
    assert!(status.contains("LD_PRELOAD"), "{status}");
    host.signal("-TERM");
    host.wait();
}

/// Neither an application at the endpoint nor anybody at the console's address who is not let in there adds a server, or
/// changes a file of the configuration or the rules: there is no such request, and what looks like one is refused.
#[test]
fn nobody_changes_the_configuration_by_asking() {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/policy.toml", "[[rule]]\ndecide = 'allow'\n");
    let config = house.config(&[("one", house.server("one", &["greet"], ""))]);
    let args = ["up", "--config", &config, "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0", "--json"];
    let mut host = Running::start(house.command(&args));
    let greeting = host.greeting();
    let at = |what: &str| url::Url::parse(greeting[what].as_str().unwrap()).unwrap();
    let (endpoint, console) = (at("endpoint"), at("console"));
    eventually("it is started", || house.is_running("one"));
    let before = configured(&house);
    assert_eq!(before.len(), 3, "{before:?}");

    let evil = json!({ "command": "sh", "args": ["-c", format!("touch {}", house.path("PWNED").display())] });
    let entry = json!({ "name": "evil", "server": evil, "mcpServers": { "evil": evil }, "servers": { "evil": evil },
                        "command": "sh", "args": evil["args"], "path": config, "content": "x", "uri": format!("file://{config}") });
    let methods = hospes::model::METHODS.iter().map(|row| row.name);
    let invented = [
        "servers/add",
        "servers/set",
        "config/set",
        "config/write",
        "hospes/configure",
        "resources/write",
        "policy/set",
    ];
    for method in methods.chain(invented) {
        for revision in ["2026-07-28", "2025-06-18"] {
            let mut params = entry.clone();
            params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientInfo": { "name": "evil", "version": "1" }, "io.modelcontextprotocol/clientCapabilities": {} });
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
            let headers = format!(
                "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {revision}\r\nMcp-Method: {method}\r\nMcp-Name: evil\r\n"
            );
            // What is followed does not end by itself.
            if method != "subscriptions/listen" {
                send(&endpoint, "POST", endpoint.path(), &headers, &body);
            }
        }
    }
    // At the console, without a session of it: whatever there is, and what there could be.
    let paths = [
        "servers",
        "servers/evil",
        "servers/one",
        "servers/one/restart",
        "config",
        "configuration",
        "rules",
        "policy",
        "definitions/one/accept",
        "definitions/one/reject",
        "grants",
        "approvals",
        "approvals/1",
        "links",
        "console",
        "models",
    ];
    for verb in ["POST", "PUT", "PATCH", "DELETE"] {
        for path in paths {
            for origin in ["", &format!("Origin: {}\r\n", console.origin().ascii_serialization())] {
                let status = send(&console, verb, &format!("/api/{path}"), origin, &entry.to_string());
                assert!([401, 403, 404, 405].contains(&status), "{verb} {path}: {status}");
            }
        }
    }
    // Nor does the endpoint have what the console has.
    for path in ["/api/servers", "/api/links", "/api/open", "/config", "/servers"] {
        let status = send(&endpoint, "POST", path, "", &entry.to_string());
        assert!((400..500).contains(&status), "{path}: {status}");
    }
    assert_eq!(configured(&house), before);
    assert!(!house.path("PWNED").exists());
    let status: Value = serde_json::from_str(&house.run(&["--json", "status"]).stdout).unwrap();
    let names: Vec<&str> =
        status["servers"].as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one"]);
    host.signal("-TERM");
    host.wait();
}

/// Every file below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return all };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else if let Ok(content) = std::fs::read(&path) {
            all.insert(path, content);
        }
    }
    all
}

/// The files that say what is started, and what may be called.
fn configured(house: &House) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = files(&house.path("config"));
    for name in ["mcp.json", "one.sh"] {
        all.insert(house.path(name), std::fs::read(house.path(name)).unwrap());
    }
    all.retain(|path, _| !path.ends_with("audit.key"));
    all
}

/// One request by hand; the status of its answer.
fn send(url: &url::Url, verb: &str, path: &str, headers: &str, body: &str) -> u16 {
    let address = url.socket_addrs(|| None).unwrap()[0];
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(
        stream,
        "{verb} {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("{verb} {path}: {answer}"))
}
