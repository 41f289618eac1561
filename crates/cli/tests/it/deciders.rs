//! Tests of deciders: a person in a browser or at a terminal, and programs only with a token from that person.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::Value;
use support::terminal::Terminal;
use support::{House, LIMIT, Running, eventually, text};

/// A host whose calls are all asked about.
struct Up {
    house: House,
    _host: Running,
    endpoint: String,
}

impl Up {
    fn new(house: House, setting: &str) -> Self {
        let config = house.config(&[("one", house.server("one", &["greet"], ""))]);
        let own = text(&house.write("hospes.toml", setting));
        let rules = text(&house.write("rules.toml", "[[rule]]\ndecide = 'ask'\n"));
        let args =
            ["up", "--json", "--config", &config, "--config", &own, "--policy", &rules, "--pins", "off"];
        let places = ["--listen", "127.0.0.1:0", "--console", "127.0.0.1:0", "--start-wait", "20"];
        let args: Vec<&str> = args.into_iter().chain(places).collect();
        let host = Running::start(house.command(&args));
        let greeting = host.greeting();
        let endpoint = greeting["endpoint"].as_str().unwrap().to_owned();
        Self { house, _host: host, endpoint }
    }

    /// A call that waits, and its id.
    fn waiting(&self) -> (Running, String) {
        let call = Running::start(self.house.command(&["call", &self.endpoint, "one__greet"]));
        let mut id = String::new();
        eventually("the call waits", || {
            let list = self.house.run(&["approve", "--json", "--list"]);
            let Some(line) = list.stdout.lines().next() else { return false };
            id = serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned();
            true
        });
        (call, id)
    }

    fn is_called(&self) -> bool {
        self.house.read("one.log").contains("tools/call")
    }

    /// Runs the program in a terminal of its own. Returns its exit code and the screen.
    fn in_terminal(&self, args: &[&str]) -> (u32, String) {
        let mut terminal = Terminal::start(&self.house.command(args), 160, 24);
        let code = terminal.wait();
        (code, terminal.text())
    }

    /// Returns the socket of the console.
    fn socket(&self) -> std::path::PathBuf {
        let folder = self.house.path("run/hospes");
        let mut sockets = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        sockets.find(|path| path.extension().is_some_and(|end| end == "sock")).unwrap()
    }

    /// A request at the console's socket by this very process, which has no terminal.
    fn at_socket(&self, path: &str, header: &str, body: &str) -> String {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let length = body.len();
        let request = format!(
            "POST /api/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{header}\
             Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        // In one piece: it may be refused, and the connection closed, before all of it is read.
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn recorded(&self, wanted: &str) {
        eventually("it is in the record", || {
            let export = self.house.run(&["audit", "export"]).stdout;
            export.lines().any(|line| line.contains("\"decision\"") && line.contains(wanted))
        });
    }
}

const ALLOW: &str = r#"{"decision":"allow"}"#;

#[test]
fn a_program_without_a_terminal_decides_nothing() {
    let up = Up::new(House::new(), "");
    let (_call, id) = up.waiting();
    for args in [
        &["approve", "--allow", &id][..],
        &["approve", "--allow", &id, "--session"],
        &["approve", "--deny", &id, "--block"],
    ] {
        let ran = up.house.run(args);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("only a person can decide this"), "{ran:?}");
        // What a model reads through the program that it runs tells it no way round.
        assert!(!ran.stderr.contains("hospes approve") && !ran.stderr.contains("--make-token"), "{ran:?}");
    }
    for (path, header) in [
        (format!("approvals/{id}"), ""),
        (
            format!("approvals/{id}"),
            "Authorization: Bearer hospes-0123456789012345678901234567890123456789012\r\n",
        ),
        ("grants/1/revoke".to_owned(), ""),
        ("definitions/one/accept".to_owned(), ""),
        ("links".to_owned(), ""),
    ] {
        let body = if path.starts_with("approvals") { ALLOW } else { "{}" };
        let answer = up.at_socket(&path, header, body);
        assert!(answer.starts_with("HTTP/1.1 403"), "{path}: {answer}");
    }
    let made = up.house.run(&["approve", "--make-token", "mine"]);
    assert!(made.code == Some(1) && made.stdout.is_empty(), "{made:?}");
    let link = up.house.run(&["console", "--no-browser"]);
    assert!(link.code != Some(0) && !link.stdout.contains("http"), "{link:?}");
    assert!(!up.is_called());
}

#[test]
fn a_person_at_a_terminal_decides_and_the_record_says_where() {
    let up = Up::new(House::new(), "");
    let (_call, id) = up.waiting();
    // In the background of a terminal it is no person who types.
    let hidden =
        format!("'{}' approve --allow {id} </dev/null >out 2>&1; echo ended", env!("CARGO_BIN_EXE_hospes"));
    let shell = up.house.program("sh", &["-c", &hidden]);
    let mut terminal = Terminal::start(&shell, 80, 24);
    terminal.sees("ended");
    terminal.wait();
    assert!(up.house.read("out").contains("only a person can decide this"), "{}", up.house.read("out"));
    assert!(!up.is_called());

    let (code, seen) = up.in_terminal(&["approve", "--allow", &id]);
    assert!(code == 0 && seen.contains("allowed: greet of one"), "{seen}");
    eventually("it goes", || up.is_called());
    up.recorded("at the terminal pts/");
    let (code, seen) = up.in_terminal(&["console", "--no-browser"]);
    assert!(code == 0 && seen.contains("/open#"), "{seen}");
}

#[test]
fn a_program_decides_with_a_token_that_the_person_made_while_it_holds() {
    let up = Up::new(House::new().with_token(), "");
    let (_call, id) = up.waiting();
    let allowed = up.house.run(&["approve", "--allow", &id]);
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    eventually("it goes", || up.is_called());
    up.recorded("a program with the token tests: hospes, process ");
    // It is for decisions: a link would let a browser in for days.
    let link = up.house.run(&["console", "--no-browser"]);
    assert!(link.code != Some(0) && !link.stdout.contains("http"), "{link:?}");
    let listed = up.house.run(&["approve", "--tokens"]);
    assert!(listed.stdout.starts_with("tests ") && !listed.stdout.contains("hospes-"), "{listed:?}");
    assert_eq!(up.house.run(&["approve", "--end-token", "tests"]).code, Some(0));
    let (_call, id) = up.waiting();
    let refused = up.house.run(&["approve", "--allow", &id]);
    assert!(refused.code == Some(1) && refused.stderr.contains("token"), "{refused:?}");
}

#[test]
fn where_it_is_said_the_browser_alone_decides() {
    let up = Up::new(House::new().with_token(), "[console]\ndecisions_from = \"browser\"\n");
    let (_call, id) = up.waiting();
    let refused = up.house.run(&["approve", "--allow", &id]);
    assert!(refused.code == Some(1) && refused.stderr.contains("only in the browser"), "{refused:?}");
    for args in [&["approve", "--allow", &id][..], &["pins", "accept", "one", "--yes"]] {
        let (code, seen) = up.in_terminal(args);
        assert!(code != 0, "{args:?}: {seen}");
    }
    let (code, seen) = up.in_terminal(&["console", "--no-browser"]);
    assert!(code == 0 && seen.contains("/open#"), "{seen}");
    assert!(!up.is_called());
}

#[test]
fn where_it_is_said_every_program_of_the_user_decides() {
    let up = Up::new(House::new(), "[console]\ndecisions_from = \"programs\"\n");
    let (_call, id) = up.waiting();
    let allowed = up.house.run(&["approve", "--allow", &id]);
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    up.recorded("a program without a terminal: hospes, process ");
}

/// A program opens as many streams and connections as it gets, and the person at a terminal still decides.
#[test]
fn a_program_does_not_take_the_console_from_the_person() {
    let up = Up::new(House::new(), "");
    let (_call, id) = up.waiting();
    let connect = || UnixStream::connect(up.socket()).unwrap();
    let mut held = Vec::new();
    let refused = loop {
        let mut stream = connect();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        if !head.ends_with(b"200") {
            let mut body = String::new();
            stream.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
            let _until_silent = stream.read_to_string(&mut body);
            break body;
        }
        held.push(stream);
        assert!(held.len() < 64, "it takes all streams");
    };
    assert!(
        refused.contains("at most 16 of one client") && refused.contains("console.max_streams"),
        "{refused}"
    );
    held.extend((0..200).map(|_| connect()));
    let (code, seen) = up.in_terminal(&["approve", "--allow", &id]);
    assert!(code == 0 && seen.contains("allowed: greet of one"), "{seen}");
    eventually("it goes", || up.is_called());
}

/// A program sets the variables of a command that it runs. Neither a file that one of them names nor a host lets it decide.
#[test]
fn no_variable_loosens_who_decides_without_a_host() {
    let house = House::new();
    let config = house.config(&[("one", house.server("one", &["greet"], ""))]);
    let mut host = Running::start(house.command(&["stdio", "--config", &config, "--pins", "ask"]));
    host.initialize(&serde_json::json!({}));
    let listed = || house.run(&["--json", "pins", "list"]).stdout;
    eventually("it waits to be accepted", || listed().contains("\"new\""));
    let setting = |value: &str| format!("[console]\ndecisions_from = \"{value}\"\n");
    let programs = house.write("programs.toml", &setting("programs"));
    let empty = house.write("empty.toml", "");
    std::fs::create_dir_all(house.path("home/.config/hospes")).unwrap();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    let accept = |variables: &[(&str, &std::path::Path)]| {
        let mut command = house.command(&["pins", "accept", "one", "--yes"]);
        command.envs(variables.iter().copied());
        command
    };
    let run = |variables: &[(&str, &std::path::Path)]| support::Ran::of(accept(variables).output().unwrap());

    // Without a terminal, whatever a file says.
    for place in ["config/hospes/config.toml", "home/.config/hospes/config.toml"] {
        house.write(place, &setting("programs"));
        for variables in [&[("HOSPES_CONFIG", &*programs)][..], &[]] {
            let refused = run(variables);
            assert!(
                refused.code == Some(1) && refused.stderr.contains("only a person can decide this"),
                "{place}: {refused:?}"
            );
        }
    }

    // At a terminal, the strictest file counts, also one that no variable leads to.
    let elsewhere = house.path("nowhere");
    for place in ["config/hospes/config.toml", "home/.config/hospes/config.toml"] {
        for file in ["config/hospes/config.toml", "home/.config/hospes/config.toml"] {
            house.write(file, if file == place { "[console]\ndecisions_from = \"browser\"\n" } else { "" });
        }
        let mut variables = vec![("HOSPES_CONFIG", &*empty)];
        if place.starts_with("home") {
            variables.push(("XDG_CONFIG_HOME", &*elsewhere));
        }
        let mut terminal = Terminal::start(&accept(&variables), 160, 24);
        assert_eq!(terminal.wait(), 1, "{place}: {}", terminal.text());
        assert!(terminal.text().contains("only in the browser"), "{place}: {}", terminal.text());
    }
    assert!(!listed().contains("\"accepted\""), "{}", listed());

    house.write("home/.config/hospes/config.toml", "");
    let mut terminal = Terminal::start(&accept(&[("HOSPES_CONFIG", &*programs)]), 160, 24);
    assert_eq!(terminal.wait(), 0, "{}", terminal.text());
}
