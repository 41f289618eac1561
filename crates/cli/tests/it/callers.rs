//! Tests of the programs that the endpoint of `hospes up` serves.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and say what they leave out")]

use crate::support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::{House, LIMIT, Running, text};

/// A user without rights.
const NOBODY: u32 = 65_534;

fn up(house: &House, config: &Path) -> (Running, Value, String) {
    let args = ["up", "--config", &text(config), "--listen", "127.0.0.1:0", "--console", "off", "--json"];
    let host = Running::start(house.command(&args));
    let mut text = String::new();
    let said: Value = loop {
        text.push_str(&host.stdout.recv_timeout(LIMIT).expect("what it says"));
        if let Ok(value) = serde_json::from_str(&text) {
            break value;
        }
    };
    let url = said["endpoint"].as_str().unwrap();
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    (host, said, address)
}

/// A request of 2026-07-28, as it goes over the wire.
fn request(address: &str, tool: &str, more: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "app", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": {}, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
         Mcp-Name: {tool}\r\n{more}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn ask(address: &str, tool: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(request(address, tool, more).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn has_bash() -> bool {
    let found = Command::new("bash").args(["-c", "true"]).status().is_ok_and(|status| status.success());
    if !found {
        eprintln!("SKIPPED: there is no bash, which the programs of this test connect with");
    }
    found
}

/// A command that sends a request that is in a file, and prints the answer.
fn sender(address: &str, file: &Path) -> String {
    let (host, port) = address.split_once(':').unwrap();
    format!("exec 3<>/dev/tcp/{host}/{port}; cat '{}' >&3; cat <&3", text(file))
}

/// A server confined to its own folder asks the endpoint for a tool of another server.
#[test]
fn a_confined_server_gets_nothing_through_the_endpoint() {
    if !has_bash() {
        return;
    }
    let house = House::new();
    let (wire, ask_file, address_file) = (house.path("wire"), house.path("ask.sh"), house.path("address"));
    let branch = format!(
        r#"*'"method":"tools/call"'*) out=$(bash '{}' 2>&1 | tr '\r\n"\\' '    '); answer "{{\"content\":[{{\"type\":\"text\",\"text\":\"$out\"}}]}}";;"#,
        text(&ask_file)
    );
    house.server("confined", &["try"], &branch);
    house.server("open", &["secret"], "");
    let (confined, open) = (text(&house.path("confined.sh")), text(&house.path("open.sh")));
    let logs = ["confined.log", "confined.pid"].map(|name| text(&house.write(name, "")));
    let read = [&wire, &ask_file, &address_file].map(|file| text(&house.write(&text(file), "")));
    let sandbox = format!(
        "{{ kind = \"landlock\", network = \"host\", files = {{ read = [\"{confined}\", {}], write = {logs:?} }} }}",
        read.map(|file| format!("{file:?}")).join(", ")
    );
    let config = house.write(
        "hospes.toml",
        &format!(
            "[servers.open]\ncommand = [\"sh\", \"{open}\"]\n[servers.confined]\ncommand = [\"sh\", \"{confined}\"]\n\
             sandbox = {sandbox}\n"
        ),
    );
    let (_host, _, address) = up(&house, &config);
    house.write("wire", &request(&address, "open__secret", ""));
    // It goes on in a session of its own whose parent has ended: it is still what a server has started.
    house.write("ask.sh", &format!("( {} ) &\nwait\n", sender(&address, &wire)));
    let answer = ask(&address, "confined__try", "");
    assert!(answer.contains("403 Forbidden") && answer.contains("a server started by a host"), "{answer}");
    assert!(!answer.contains("open was called"), "{answer}");
    // Whoever asks from outside gets it, and is in the record as who they are.
    let answer = ask(&address, "open__secret", "");
    assert!(answer.contains("open was called"), "{answer}");
    let recorded = || house.run(&["audit", "export"]).stdout;
    let me = format!("process {} of user ", std::process::id());
    support::eventually("the record says who called", || recorded().contains(&me));
}

#[test]
fn a_program_of_another_user_is_served_by_the_token_alone() {
    if !has_bash() {
        return;
    }
    let house = House::new();
    house.server("open", &["secret"], "");
    let config =
        house.write("hospes.toml", &format!("[servers]\nopen = \"sh {}\"\n", text(&house.path("open.sh"))));
    let (_host, said, address) = up(&house, &config);
    assert_eq!(said.get("token"), None, "programs of the same user need none");
    let token = house.read("state/hospes/endpoint.token");
    assert!(token.len() >= 20, "{token}");
    let shown = format!("Authorization: Bearer {token}\r\n");
    let wrong = "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n";
    let mut stranger = Command::new("bash");
    if stranger.args(["-c", "true"]).uid(NOBODY).status().is_err() {
        eprintln!("SKIPPED: no program can be run as another user here");
        return;
    }
    for (more, is_served) in [("", false), (wrong, false), (&*shown, true)] {
        let folder = tempfile::Builder::new().prefix("wire").tempdir_in("/tmp").unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let wire = folder.path().join("wire");
        std::fs::write(&wire, request(&address, "open__secret", more)).unwrap();
        let mut stranger = Command::new("bash");
        stranger.args(["-c", &sender(&address, &wire)]).uid(NOBODY).current_dir("/").stdin(Stdio::null());
        let answer = String::from_utf8(stranger.output().unwrap().stdout).unwrap();
        assert_eq!(answer.contains("open was called"), is_served, "{answer}");
        assert_eq!(answer.contains("403 Forbidden"), !is_served, "{answer}");
        assert!(!answer.contains(&token), "{answer}");
    }
}

#[test]
fn who_comes_through_a_proxy_is_not_taken_for_the_proxy() {
    let house = House::new();
    house.server("open", &["secret"], "");
    let open = text(&house.path("open.sh"));
    let config = house.write("hospes.toml", &format!("[servers]\nopen = \"sh {open}\"\n"));
    let (_host, _, address) = up(&house, &config);
    let token = std::fs::read_to_string(house.path("state/hospes/endpoint.token")).unwrap();
    for header in ["X-Forwarded-For: 203.0.113.9\r\n", "Forwarded: for=203.0.113.9\r\n"] {
        let answer = ask(&address, "open__secret", header);
        assert!(answer.contains("403 Forbidden") && answer.contains("a proxy has forwarded"), "{answer}");
        let shown = format!("{header}Authorization: Bearer {}\r\n", token.trim());
        assert!(ask(&address, "open__secret", &shown).contains("open was called"), "{header}");
    }
}

#[test]
fn who_is_served_is_a_setting() {
    let house = House::new();
    house.server("open", &["secret"], "");
    let open = text(&house.path("open.sh"));
    let with = |callers: &str| {
        house.write(
            "hospes.toml",
            &format!("[endpoint]\ncallers = \"{callers}\"\n[servers]\nopen = \"sh {open}\"\n"),
        )
    };
    let (_host, said, address) = up(&house, &with("token"));
    let answer = ask(&address, "open__secret", "");
    assert!(answer.contains("401 Unauthorized"), "{answer}");
    let shown = format!("Authorization: Bearer {}\r\n", said["token"].as_str().unwrap());
    let answer = ask(&address, "open__secret", &shown);
    assert!(answer.contains("open was called"), "{answer}");
    let status = house.run(&["status", "--json"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    let (host, said, address) = up(&house, &with("any"));
    assert_eq!(said.get("token"), None);
    assert!(ask(&address, "open__secret", "").contains("open was called"));
    host.said(|line| line.contains("endpoint.callers"));
    let wrong = house.run(&["up", "--config", &text(&with("same_user")), "--listen", "127.0.0.1:0"]);
    assert!(wrong.stderr.contains("same-user"), "{wrong:?}");
}

/// Both endpoints follow one rule: nothing is served beyond this machine without authentication unless that is set
/// explicitly.
#[test]
fn a_server_by_itself_is_not_served_to_the_network_unless_that_is_said() {
    let house = House::new();
    let refused = house.run(&["serve", "time", "--http", "0.0.0.0:0"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("from other machines") && refused.stderr.contains("--no-auth"),
        "{refused:?}"
    );
    let host = Running::start(house.command(&["serve", "time", "--http", "0.0.0.0:0", "--no-auth"]));
    host.said(|line| line.contains("every client that can reach 0.0.0.0:"));
    host.said(|line| line.contains("listening on http://0.0.0.0:"));
}
