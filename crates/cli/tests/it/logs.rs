//! The log of a host and its servers, as `hospes logs` prints it.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use support::terminal::Terminal;
use support::{House, Running, eventually};

const SECRET: &str = "a-secret-of-the-server";

/// A server that writes to standard error when it starts and at each call.
const TALKATIVE: &str =
    r#"*'"method":"tools/call"'*) printf 'called \033[31mred\n' >&2; answer '{"content":[]}';;"#;

/// A running host with one server.
fn host(house: &House) -> Running {
    let mut server = house.server("one", &["greet"], TALKATIVE);
    let script = format!("echo \"key is $API_KEY\" >&2\n{}", house.read("one.sh"));
    house.write("one.sh", &script);
    server["env"] = json!({ "API_KEY": SECRET });
    let config = house.config(&[("one", server)]);
    let host = house.up(&["--config", &config]);
    eventually("the start is logged", || house.run(&["logs"]).stdout.contains("server is ready"));
    host
}

#[test]
fn the_log_has_the_events_of_the_host_and_the_output_of_its_servers() {
    let house = House::new();
    let mut running = host(&house);
    running.signal("-TERM");
    running.wait();

    let all = house.run(&["logs"]);
    assert_eq!((all.code, all.stderr.as_str()), (Some(0), ""), "{all:?}");
    assert!(all.stdout.contains("host started") && all.stdout.contains("server is ready"), "{all:?}");
    assert!(!all.stdout.contains('\u{1b}'), "colour where nobody sees it: {all:?}");
    // The value of a variable of the server's environment is redacted.
    assert!(all.stdout.contains("stderr one  key is [redacted]"), "{all:?}");
    let warnings = house.run(&["logs", "--level", "warn"]);
    assert!(!warnings.stdout.contains("host started") && !warnings.stdout.contains("key is"), "{warnings:?}");
    assert_eq!(house.run(&["logs", "--level", "info"]).stdout, all.stdout);
    let one = house.run(&["logs", "one", "--lines", "1000", "--since", "1h"]).stdout;
    assert!(!one.contains("host started") && one.contains("key is"), "{one}");
    assert_eq!(house.run(&["logs", "one", "--lines", "1"]).stdout.lines().count(), 1);
    assert_eq!(house.run(&["logs", "--since", "2100-01-01"]).stdout, "");
    let json = house.run(&["logs", "one", "--json"]).stdout;
    let entries: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(entries.iter().any(|entry| entry["level"] == "stderr" && entry["server"] == "one"), "{json}");

    let folder = house.path("state/hospes/logs");
    for file in std::fs::read_dir(&folder).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
        assert!(!std::fs::read_to_string(file.path()).unwrap().contains(SECRET));
    }
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_followed_log_shows_new_lines_until_it_is_interrupted() {
    let house = House::new();
    let mut running = host(&house);
    let mut follow = Running::start(house.command(&["logs", "one", "--follow", "--lines", "0"]));
    // The endpoint of the server, where its tools have their own names.
    let url = running_url(&house) + "/one";
    // Called again until it is seen, because the call must come after the first look into the files.
    eventually("a new line is printed", || {
        assert_eq!(house.run(&["call", &url, "greet"]).code, Some(0));
        follow.stdout.try_iter().any(|line| line.contains("called \\u{1b}[31mred"))
    });
    follow.signal("-INT");
    assert_eq!(follow.wait(), Some(0));
    running.signal("-TERM");
    running.wait();
}

fn running_url(house: &House) -> String {
    let status: Value = serde_json::from_str(&house.run(&["--json", "status"]).stdout).unwrap();
    status["endpoint"].as_str().unwrap().to_owned()
}

#[test]
fn a_terminal_has_colours_and_a_server_cannot_send_any() {
    let house = House::new();
    std::fs::create_dir_all(house.path("state/hospes/logs")).unwrap();
    let entry = json!({
        "at": "2026-11-25T12:00:00Z", "level": "error", "host": 1, "server": "one", "text": "\u{1b}[32mgreen",
    });
    house.write("state/hospes/logs/a-1.log", &format!("{entry}\n"));
    let terminal = Terminal::start(&house.command(&["logs"]), 100, 10);
    terminal.sees("\\u{1b}[32mgreen");
    let red = vt100::Color::Idx(1);
    terminal.until("a red level", |screen| {
        (0..60).any(|column| screen.cell(0, column).unwrap().fgcolor() == red)
    });
}

#[test]
fn an_unknown_server_and_an_empty_log_are_told_apart() {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/config.toml", "[servers.mail]\nbuiltin = 'time'\n");
    let empty = house.run(&["logs", "mail"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (Some(0), ""));
    assert!(empty.stderr.contains("no matching lines"), "{empty:?}");
    let unknown = house.run(&["logs", "mial"]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.stderr.contains("no server is called `mial`") && unknown.stderr.contains("`mail`"),
        "{unknown:?}"
    );
    assert_eq!(house.run(&["logs", "--lines", "many"]).code, Some(1));
}
