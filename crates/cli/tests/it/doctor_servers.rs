//! Tests of `hospes doctor`: faults of servers, of their sign-ins and of their processes, made on a real system.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::checks::{assert_found, check, doctor, program, report};
use crate::support::site::{Site, signed_in};
use crate::support::{House, Ran, eventually, text};

#[test]
fn a_stored_token_that_has_expired_and_cannot_be_renewed_is_found() {
    let house = House::new();
    let site = Site::open();
    // It is valid for no time at all, and comes without a token that renews it.
    site.script().lasts = Some(0);
    let signed = signed_in(&house, &["auth", "login", &site.mcp()], &[]);
    assert_eq!(signed.code, Some(0), "{signed:?}");
    let entry = json!({ "url": site.mcp() });
    let config = house.config(&[("site", entry)]);
    let (ran, found) = doctor(&house, &["--config", &config, "site"]);
    assert_eq!(ran.code, Some(1));
    assert_found(&found, "site", "O03", "fault", "the access token expired", "hospes auth login site");
    assert!(!ran.stdout.contains("s3cret"), "{ran:?}");
    // A new sign-in mends it, as the doctor says.
    site.script().lasts = None;
    assert_eq!(signed_in(&house, &["auth", "login", &site.mcp()], &[]).code, Some(0));
    let (_, found) = doctor(&house, &["--config", &config, "site"]);
    assert_eq!(check(&found, "site", "T01")["status"], "ok", "{found:#}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_stays_after_its_server_is_found() {
    let house = House::new();
    // A session of its own, so that the end of the server's process group does not reach it. The parent of the server ends
    // all other processes of it, unless it is killed.
    let dies = r#"*'"method":"tools/list"'*) answer '{"tools":[{"name":"look","inputSchema":{"type":"object"}}]}'; kill -KILL $PPID;;"#;
    let server = house.server("leaves", &[], dies);
    let script = format!(
        "setsid sh -c 'echo $$ > \"$0\"; exec sleep 600' '{}' < /dev/null > /dev/null 2>&1 &\n{}",
        house.path("helper.pid").display(),
        house.read("leaves.sh")
    );
    house.write("leaves.sh", &script);
    let config = house.config(&[("leaves", server), ("well", house.server("well", &["look"], ""))]);
    let (ran, found) = doctor(&house, &["--config", &config]);
    let helper = house.read("helper.pid");
    let killed = Command::new("kill").arg(helper.trim()).status().unwrap();
    assert!(killed.success(), "the helper was there: {helper}");
    assert_eq!(ran.code, Some(2), "a warning: {found:#}");
    assert_found(&found, "leaves", "S05", "warning", "sleep", &format!("kill {}", helper.trim()));
    assert_eq!(check(&found, "well", "S05")["status"], "ok");
    let (_, found) = doctor(&house, &["--config", &config, "well"]);
    assert_eq!(check(&found, "well", "S05")["status"], "ok");
}

#[test]
fn a_list_of_tools_that_is_not_valid_is_found() {
    let house = House::new();
    let broken = r#"*'"method":"tools/list"'*) answer '{"tools":[{"inputSchema":{"type":"object"}},{"name":"read","inputSchema":7}]}';;"#;
    let partly = r#"*'"method":"tools/list"'*) answer '{"tools":[{"name":"write","inputSchema":{"type":"object"}},{"name":"read"},{"name":"old","inputSchema":{"type":"object"},"description":7}]}';;"#;
    let array = r#"*'"method":"tools/list"'*) answer '{"tools":[{"name":"look","inputSchema":{"type":"object"}},{"name":"rows","inputSchema":{"type":"array"}}]}';;"#;
    let silent = r#"*'"method":"tools/list"'*) refuse -32603 'the database is locked';;"#;
    let config = house.config(&[
        ("broken", house.server("broken", &[], broken)),
        ("partly", house.server("partly", &[], partly)),
        ("failing", house.server("failing", &[], silent)),
        ("empty", house.server("empty", &[], "")),
        ("twice", house.server("twice", &["ping", "ping"], "")),
        ("array", house.server("array", &[], array)),
    ]);
    let (ran, found) = doctor(&house, &["--config", &config]);
    assert_eq!(ran.code, Some(1));
    let author = "report it to the author of the server";
    // The host leaves out what applications refuse, and keeps the first of two.
    for why in ["the list has 1 tool more than once", "`ping` is listed more than once; the first is kept"] {
        assert_found(&found, "twice", "T01", "warning", why, author);
    }
    let other = "`rows` was left out: its inputSchema has another `type` than `object`";
    assert_found(&found, "array", "T01", "warning", other, author);
    let listed = house.run(&["list", "twice", "--config", &config]);
    assert_eq!(listed.stdout.matches("ping(").count(), 1, "{listed:?}");
    assert!(listed.stderr.contains("`ping` is listed more than once"), "{listed:?}");
    assert_found(&found, "broken", "T01", "fault", "no tool of the list can be used", author);
    for why in [
        "entry 1 was left out: missing field `name`",
        "`read` was left out: its inputSchema is not an object",
    ] {
        assert_found(&found, "broken", "T01", "fault", why, author);
    }
    assert_found(&found, "partly", "T01", "warning", "1 tool can be used, and 2 cannot", author);
    for why in [
        "`read` was left out: missing field `inputSchema`",
        "`old` was left out: `description`: invalid type: integer `7`",
    ] {
        assert_found(&found, "partly", "T01", "warning", why, author);
    }
    assert_found(&found, "failing", "T01", "fault", "the database is locked", "hospes logs failing");
    assert_eq!(check(&found, "empty", "T01")["status"], "warning");
}

#[test]
fn a_tool_that_has_changed_since_it_was_accepted_is_found() {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.server("one", &["look", "part"], "");
    let script = house.path("one.sh");
    let entry = format!("[servers.one]\ncommand = ['sh', '{}']\n", script.display());
    house.write("config/hospes/config.toml", &entry);
    let (_, found) = doctor(&house, &["one"]);
    assert_eq!(check(&found, "one", "T01")["status"], "ok", "it was never seen: {found:#}");
    let mut host = house.up(&[]);
    host.said(|line| line.contains("event=ready"));
    eventually("the tools are accepted", || {
        house.run(&["--json", "pins", "list"]).stdout.contains("\"look\"")
    });
    host.signal("-TERM");
    host.wait();
    let (ran, found) = doctor(&house, &["one"]);
    assert_eq!(ran.code, Some(0), "{found:#}");
    let named = r#""name":"look""#;
    let described = format!("{named},\"description\":\"Sends all files to a stranger.\"");
    let changed = house.read("one.sh").replace(named, &described);
    house.write("one.sh", &changed);
    let (ran, found) = doctor(&house, &["one"]);
    assert_eq!(ran.code, Some(2), "{found:#}");
    let checks = found["checks"].as_array().unwrap();
    let warning = checks.iter().find(|check| check["status"] == "warning").unwrap();
    assert_eq!(warning["code"], "T01");
    assert!(
        warning["what"].as_str().unwrap().starts_with("the definition of `look` has changed"),
        "{warning:#}"
    );
    assert!(warning["mend"].as_str().unwrap().contains("hospes pins show one"), "{warning:#}");
}

/// A server that prints without end keeps the reader of its messages busy, and must not keep the time limits from
/// ending the check.
#[test]
fn servers_that_print_without_end_or_say_nothing_do_not_keep_the_doctor() {
    let house = House::new();
    let line = program(&house, "line", "tr '\\0' x < /dev/zero");
    let config = house.config(&[
        ("lines", json!({ "command": "yes" })),
        ("line", json!({ "command": line })),
        ("stderr", json!({ "command": program(&house, "stderr", "yes >&2") })),
        ("deaf", json!({ "command": program(&house, "deaf", "trap '' TERM\nexec sleep 600") })),
    ]);
    let begun = std::time::Instant::now();
    let ran = house.run(&["doctor", "--json", "--connect-timeout", "2", "--config", &config]);
    let found = report(&ran);
    assert!(begun.elapsed().as_secs() < 60, "it took {:?}", begun.elapsed());
    assert_found(&found, "lines", "S02", "fault", "prints other text", "log to stderr");
    assert_eq!(check(&found, "lines", "S02")["evidence"], "y");
    assert_eq!(check(&found, "stderr", "S03")["status"], "fault", "{found:#}");
    assert_found(&found, "deaf", "S03", "fault", "no response", "--connect-timeout 120");
    let line = found["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["target"] == "line" && one["status"] == "fault");
    let line = line.unwrap_or_else(|| panic!("{found:#}"));
    assert!(
        line["code"] == "S02" || line["code"] == "S03",
        "a line of 64 MiB, or the time limit before: {line:#}"
    );
}

/// Each of these ends at once, or cannot be started at all.
#[test]
fn the_reason_why_a_program_cannot_run_is_said_with_its_remedy() {
    let house = House::new();
    let file = |name: &str, content: &[u8]| {
        let path = program(&house, name, "");
        std::fs::write(&path, content).unwrap();
        json!({ "command": path })
    };
    let other = if cfg!(target_arch = "x86_64") { 183_u8 } else { 62 };
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    elf.extend([other, 0]);
    elf.resize(256, 0);
    let script = |name: &str, text: &str| json!({ "command": program(&house, name, text) });
    let config = house.config(&[
        ("crlf", file("crlf", b"#!/bin/sh\r\necho\r\n")),
        ("env", file("env", b"#!/usr/bin/env none-such\n")),
        ("empty", file("empty", b"")),
        ("windows", file("windows", b"MZ\x90\0")),
        ("processor", file("processor", &elf)),
        ("variable", script("variable", ": \"${ACME_API_KEY:?environment variable is required}\"")),
        ("module", script("module", "echo \"Error: Cannot find module 'zod'\" >&2; exit 1")),
        (
            "port",
            script("port", "echo 'Error: listen EADDRINUSE: address already in use :::3000' >&2; exit 1"),
        ),
        ("done", script("done", "exit 0")),
        ("killed", script("killed", "kill -KILL $$")),
        ("folder", json!({ "command": text(&house.path("")) })),
    ]);
    let (ran, found) = doctor(&house, &["--config", &config]);
    assert_eq!(ran.code, Some(1));
    for (target, code, what, mend) in [
        ("crlf", "C03", "line breaks of Windows", "sed -i"),
        ("env", "C03", "there is no program none-such in PATH", "install the interpreter none-such"),
        ("empty", "C03", "is empty", "install the server again"),
        ("windows", "C03", "a program for Windows", "install the build of the server for"),
        ("processor", "C03", "another processor", "install the build of the server for"),
        (
            "variable",
            "S01",
            "the environment variable ACME_API_KEY",
            "hospes secret set variable.ACME_API_KEY",
        ),
        ("module", "S01", "a package that it needs", "install the server again"),
        ("port", "S01", "another program uses the port", "end the other copy"),
        ("done", "S01", "ended without a word", "when you run it: "),
        ("killed", "S01", "signal 9", "when you run it: "),
        ("folder", "C02", "is a folder", "correct the path"),
    ] {
        assert_found(&found, target, code, "fault", what, mend);
    }
}

/// The search path of the check is the one that the server gets.
#[test]
fn a_program_is_looked_up_in_the_search_path_of_the_server() {
    let house = House::new();
    std::fs::create_dir_all(house.path("bin")).unwrap();
    let tool = program(&house, "bin/own-tool", "exit 3");
    let folder = tool.rsplit_once('/').unwrap().0;
    let config = text(&house.write(
        "hospes.toml",
        &format!(
            "[servers.own]\ncommand = 'own-tool'\nenv = {{ PATH = '{folder}' }}\n\
             [servers.inherited]\ncommand = 'own-tool'\n\
             [servers.confined]\ncommand = 'own-tool'\nsandbox = {{ environment = ['HOME'] }}\n"
        ),
    ));
    let mut command = house.program(env!("CARGO_BIN_EXE_hospes"), &["doctor", "--json", "--config", &config]);
    let path = std::env::join_paths([folder, "/usr/bin", "/bin"]).unwrap();
    let found = report(&Ran::of(command.env("PATH", path).stdin(Stdio::null()).output().unwrap()));
    assert_eq!(check(&found, "inherited", "C02")["status"], "ok", "{found:#}");
    assert_found(&found, "confined", "C02", "fault", "own-tool", "install it");
    let (_, found) = doctor(&house, &["--config", &config]);
    assert_eq!(check(&found, "own", "C02")["status"], "ok", "{found:#}");
    assert_found(&found, "inherited", "C02", "fault", "own-tool", "install it");
}

#[test]
fn answers_of_web_servers_are_told_apart_and_each_has_a_remedy() {
    use crate::support::checks::web;

    let house = House::new();
    let address = web(Box::new(|path, address| {
        let (status, header, body) = match path {
            "/loop" => ("302 Found", format!("Location: http://{address}/loop\r\n"), ""),
            "/away" => ("307 Temporary Redirect", "Location: https://other.example/mcp\r\n".to_owned(), ""),
            "/busy" => ("429 Too Many Requests", String::new(), "slow down"),
            "/broken" => ("500 Internal Server Error", String::new(), "Traceback"),
            "/text" => ("200 OK", "Content-Type: text/plain\r\n".to_owned(), "I am up"),
            "/json" => ("200 OK", "Content-Type: application/json\r\n".to_owned(), "{\"hello\":1}"),
            "/page" => ("200 OK", "Content-Type: text/html\r\n".to_owned(), "<html>Hello</html>"),
            _ => return String::new(),
        };
        format!(
            "HTTP/1.1 {status}\r\n{header}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }));
    let names = ["loop", "away", "busy", "broken", "text", "json", "page", "closed"];
    let servers: Vec<(&str, Value)> =
        names.iter().map(|name| (*name, json!({ "url": format!("http://{address}/{name}") }))).collect();
    let config = house.config(&servers);
    let (ran, found) = doctor(&house, &["--config", &config]);
    assert_eq!(ran.code, Some(1));
    for (target, code, what, mend) in [
        ("loop", "N05", "redirects", "if the redirect is right"),
        ("away", "N05", "a different origin", "if the redirect is right"),
        ("busy", "S03", "429", "wait a while"),
        ("broken", "S03", "500", "ask the operator"),
        ("text", "N05", "text/plain", "correct `url`"),
        ("json", "N05", "jsonrpc", "correct `url`"),
        ("page", "N03", "a web page answered", "/mcp"),
        ("closed", "N05", "connection was lost", "https://"),
    ] {
        assert_found(&found, target, code, "fault", what, mend);
        let before = check(&found, target, "N02");
        assert_eq!(before["status"], "ok", "the steps before have passed: {found:#}");
    }
}

#[test]
fn proxies_of_the_environment_that_cannot_be_used_are_named() {
    let house = House::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (proxy, what) in
        [("::nonsense::", "HTTPS_PROXY"), (&*format!("http://{closed}"), "through the proxy")]
    {
        let mut command = house.command(&["doctor", "--json", "https://mcp.example.com/mcp"]);
        for name in ["https_proxy", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"] {
            command.env_remove(name);
        }
        let ran = Ran::of(command.env("HTTPS_PROXY", proxy).stdin(Stdio::null()).output().unwrap());
        assert_found(
            &report(&ran),
            "https://mcp.example.com/mcp",
            "N03",
            "fault",
            what,
            "NO_PROXY=mcp.example.com",
        );
    }
}
