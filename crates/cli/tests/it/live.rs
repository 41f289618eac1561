//! The live screen of `hospes up` in a terminal, and the lines that are printed where there is none.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::process::Command;

use serde_json::Value;
use support::terminal::Terminal;
use support::{House, Running, eventually, text};

/// A host on a terminal, with a server whose calls report progress and return once the file `go` is there, and one that
/// cannot start.
struct Live {
    house: House,
    terminal: Terminal,
}

/// Control sequences, a bidirectional control and wide characters, as a server may print them.
const HOSTILE: &str = r"\033[2J\033[31m\342\200\256\346\274\242";

fn house() -> House {
    let house = House::new();
    let go = house.path("go");
    let slow = format!(
        r#"*'"method":"tools/call"'*)
        token=$(printf '%s' "$line" | sed -n 's/.*"progressToken":\([0-9]*\).*/\1/p')
        printf '{HOSTILE} was called\n' >&2
        head -c 10000 /dev/zero | tr '\0' 'x' >&2; echo >&2
        printf '{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":%s,"progress":2,"total":5,"message":"page 2\\u001b[2J\\u202e"}}}}\n' "$token"
        while [ ! -e '{}' ]; do sleep 0.05; done
        answer '{{"content":[]}}';;"#,
        go.display()
    );
    let one = house.server("one", &["greet"], &slow);
    let dead = serde_json::json!({ "command": "sh", "args": ["-c", "echo no database >&2; exit 3"] });
    house.config(&[("one", one), ("dead", dead)]);
    house
}

/// The command line of a host of the house, with more options.
fn command(house: &House, options: &[&str]) -> Command {
    let config = text(&house.path("mcp.json"));
    let args =
        ["up", "--config", &config, "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0", "--pins", "off"];
    let args: Vec<&str> = args.iter().chain(options).copied().collect();
    let mut command = house.command(&args);
    command.env_remove("CI").env_remove("NO_COLOR");
    command
}

impl Live {
    fn start(size: (u16, u16), options: &[&str]) -> Self {
        let house = house();
        let terminal = Terminal::start(&command(&house, options), size.0, size.1);
        Self { house, terminal }
    }

    /// Calls the tool, from another program.
    fn call(&self) -> Running {
        let screen = self.terminal.sees("/mcp");
        let url = screen.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
        self.terminal.sees("● one");
        Running::start(self.house.command(&["call", &url, "one__greet"]))
    }

    fn go(&self) {
        self.house.write("go", "");
    }

    fn signal(&self, name: &str) {
        let pid = self.terminal.pid().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Waits for the end, and checks that the terminal is as before.
    fn ends(mut self) -> String {
        assert_eq!(self.terminal.wait(), 0, "{}", self.terminal.text());
        assert!(!self.terminal.has_own_screen());
        let said = self.terminal.text();
        assert!(said.contains("stopped"), "{said}");
        eventually("the server is gone", || !self.house.is_running("one"));
        said
    }
}

#[test]
fn a_call_is_seen_while_it_runs_and_what_was_said_stays_after_the_end() {
    let mut live = Live::start((80, 24), &["--preset", "off"]);
    live.terminal.sees("no calls yet");
    assert!(live.terminal.has_own_screen());
    let mut call = live.call();
    let seen = live.terminal.until("progress", |screen| {
        let text = screen.contents();
        text.contains("running") && text.contains("40 %") && text.contains("greet")
    });
    assert!(seen.contains("▰▰▰▱▱"), "{seen}");
    // The log of the server is text, whatever is in it.
    live.terminal.type_keys("l");
    let log = live.terminal.sees("LOG of");
    assert!(log.contains("hospes 0"), "the header is still there: {log}");
    live.terminal.type_keys("\u{1b}");
    // With a call that runs, `q` asks.
    live.terminal.sees("CALLS");
    live.terminal.type_keys("q");
    live.terminal.sees("Stop the host?");
    live.terminal.type_keys("n");
    live.go();
    assert_eq!(call.wait(), Some(0));
    live.terminal.until("the end of the call", |screen| screen.contents().contains("done"));
    live.terminal.type_keys("q");
    let said = live.ends();
    assert!(!said.contains("/open#"), "the link of the console is not kept: {said}");
}

#[test]
fn the_end_leaves_the_endpoint_and_the_last_lines() {
    let mut live = Live::start((100, 60), &["--preset", "off"]);
    live.terminal.sees("hospes doctor dead");
    live.terminal.sees("● one");
    live.terminal.type_keys("q");
    let said = live.ends();
    assert!(said.contains("endpoint  http://127.0.0.1:"), "{said}");
    assert!(said.contains("no database"), "the last lines of the log: {said}");
    // Advice for a host that runs is of no use after its end.
    assert!(!said.contains("Paste into") && !said.contains("Ctrl-C stops"), "{said}");
}

#[test]
fn what_waits_is_decided_through_the_screen_of_approvals() {
    let rules = "[[rule]]\ndecide = 'ask'\n";
    let house = house();
    let rules = text(&house.write("rules.toml", rules));
    let terminal = Terminal::start(&command(&house, &["--policy", &rules]), 100, 30);
    let mut live = Live { house, terminal };
    live.go();
    let mut call = live.call();
    let seen = live.terminal.sees("▲ 1 waits");
    assert!(seen.contains("[a] look"), "{seen}");
    live.terminal.sees("▲ waits for you");
    live.terminal.type_keys("a");
    live.terminal.sees("nothing is selected yet");
    // Neither Enter nor a key that allows decides before the card was selected and shown for a while.
    live.terminal.type_keys("o");
    live.terminal.sees("select this card first");
    live.terminal.type_keys("\r");
    crate::approve::armed(&live.terminal);
    live.terminal.type_keys("o");
    live.terminal.sees("allowed once: greet");
    assert_eq!(call.wait(), Some(0));
    live.terminal.type_keys("q");
    live.terminal.sees("CALLS");
    live.terminal.sees("allowed by you, terminal");
    live.terminal.type_keys("q");
    live.ends();
}

#[test]
fn a_server_that_fails_shows_why_and_what_mends_it() {
    let mut live = Live::start((80, 24), &["--preset", "off"]);
    let seen = live.terminal.sees("hospes doctor dead");
    assert!(seen.contains("○ dead") || seen.contains("✗ dead"), "{seen}");
    live.terminal.sees("● one");
    // The servers are in the order of the file, and the first is selected.
    live.terminal.until("the dead one is selected", |screen| {
        let text = screen.contents();
        text.lines().any(|line| line.starts_with('▌'))
    });
    for _ in 0..2 {
        if live.terminal.text().lines().any(|line| line.starts_with('▌') && line.contains("dead")) {
            break;
        }
        live.terminal.type_keys("j");
        live.terminal.until("the next one is selected", |screen| {
            screen.contents().lines().any(|line| line.starts_with('▌') && line.contains("dead"))
        });
    }
    live.terminal.type_keys("d");
    // The row has the reason, too.
    let doctor = live.terminal.sees("problem ");
    assert!(
        doctor.contains("exited with status 3")
            && doctor.contains("mend")
            && doctor.contains("hospes doctor dead"),
        "{doctor}"
    );
    live.terminal.type_keys("\u{3}");
    live.ends();
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let mut live = Live::start((80, 24), &["--preset", "off"]);
    live.terminal.sees("● one");
    live.terminal.resize(120, 40);
    live.terminal.sees("APPLICATIONS");
    live.terminal.resize(50, 12);
    let small = live.terminal.sees("servers ready");
    assert!(!small.contains("CALLS"), "{small}");
    live.terminal.resize(80, 24);
    live.terminal.sees("CALLS");
    live.terminal.type_keys("q");
    live.ends();
}

#[test]
fn the_terminal_is_restored_by_every_signal_that_ends_or_suspends() {
    for signal in ["-TERM", "-INT", "-HUP"] {
        let live = Live::start((80, 24), &["--preset", "off"]);
        live.terminal.sees("● one");
        live.signal(signal);
        live.ends();
    }
    let mut live = Live::start((80, 24), &["--preset", "off"]);
    live.terminal.sees("● one");
    live.signal("-TSTP");
    live.terminal.until("the normal screen", |screen| !screen.alternate_screen());
    live.signal("-CONT");
    live.terminal
        .until("the screen again", |screen| screen.alternate_screen() && screen.contents().contains("● one"));
    live.terminal.type_keys("q");
    live.ends();
}

/// A call that takes long is waited for, unless the person asks again.
#[test]
fn the_second_request_does_not_wait_for_calls() {
    let mut live = Live::start((80, 24), &["--preset", "off", "--shutdown-timeout", "10000"]);
    let mut call = live.call();
    live.terminal.sees("running");
    live.terminal.type_keys("\u{3}");
    live.terminal.until("the normal screen", |screen| {
        !screen.alternate_screen() && screen.contents().contains("Ctrl-C again aborts them")
    });
    live.terminal.type_keys("\u{3}");
    live.ends();
    assert_ne!(call.wait(), Some(0));
}

#[test]
fn without_colour_and_without_more_than_ascii() {
    let house = house();
    let mut command = command(&house, &["--preset", "off", "--ascii"]);
    command.env("NO_COLOR", "1");
    let terminal = Terminal::start(&command, 80, 24);
    let mut live = Live { house, terminal };
    let seen = live.terminal.sees("* one");
    live.terminal.until("no colour", |screen| {
        (0..24).all(|row| {
            (0..80).all(|column| {
                screen.cell(row, column).is_none_or(|cell| cell.fgcolor() == vt100::Color::Default)
            })
        })
    });
    assert!(seen.is_ascii(), "{seen}");
    live.terminal.type_keys("q");
    live.ends();
}

/// Where a screen makes no sense, lines are printed.
#[test]
fn plain_lines_are_printed_on_request_and_on_a_simple_terminal() {
    let house = house();
    let in_ci = {
        let mut command = command(&house, &["--preset", "off"]);
        command.env("CI", "true");
        command
    };
    let simple = {
        let own = command(&house, &["--preset", "off"]);
        let words: Vec<_> = own.get_args().map(|word| word.to_str().unwrap().to_owned()).collect();
        let line = format!("TERM=dumb exec {} {}", env!("CARGO_BIN_EXE_hospes"), words.join(" "));
        let mut command = house.program("sh", &["-c", &line]);
        command.env_remove("CI");
        command
    };
    for command in [command(&house, &["--preset", "off", "--plain"]), in_ci, simple] {
        let mut terminal = Terminal::start(&command, 100, 60);
        let seen = terminal.sees("● one");
        assert!(!terminal.has_own_screen() && seen.contains("Paste into your application"), "{seen}");
        terminal.type_keys("\u{3}");
        assert_eq!(terminal.wait(), 0);
    }
}

#[test]
fn a_pipe_gets_one_line_for_each_event() {
    let house = house();
    let mut host = Running::start(command(&house, &["--preset", "off"]));
    let start = host.said(|line| line.contains("event=start"));
    assert!(start.contains(" endpoint=http://127.0.0.1:") && start.contains(" servers=2 "), "{start}");
    let time = start.split(' ').next().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z') && time.contains('T'), "{start}");
    let mut lines = Vec::new();
    let has = |lines: &[String], part: &str| lines.iter().any(|line| line.contains(part));
    while !(has(&lines, "event=ready server=one tools=1")
        && has(&lines, "event=retry server=dead state=retrying"))
    {
        lines.push(host.stderr.recv_timeout(support::LIMIT).unwrap_or_else(|_| panic!("{lines:?}")));
    }
    assert!(!has(&lines, "\u{1b}"), "{lines:?}");
    host.signal("-TERM");
    host.said(|line| line.ends_with("event=stop"));
    assert_eq!(host.wait(), Some(0));
}

#[test]
fn with_json_there_is_one_object_a_line() {
    let house = house();
    let mut host = Running::start(command(&house, &["--preset", "off", "--json"]));
    let greeting: Value = serde_json::from_str(&host.stdout.recv_timeout(support::LIMIT).unwrap()).unwrap();
    assert!(greeting["endpoint"].is_string(), "{greeting}");
    let ready = host.said(|line| line.contains("\"event\":\"ready\""));
    let ready: Value = serde_json::from_str(&ready).unwrap();
    assert_eq!((&ready["server"], &ready["tools"]), (&"one".into(), &1.into()), "{ready}");
    host.signal("-TERM");
    host.said(|line| serde_json::from_str::<Value>(line).is_ok_and(|event| event["event"] == "stop"));
    assert_eq!(host.wait(), Some(0));
}

/// Somebody without a configuration is told what they have and what to do next. Nothing is started for that.
#[test]
fn without_a_configuration_the_next_steps_are_named() {
    let house = House::new();
    std::fs::create_dir_all(house.path("home/.cursor")).unwrap();
    let servers = r#"{"mcpServers":{"a":{"command":"sh","args":["-c","touch started"]},"b":{"url":"https://e.example/mcp"}}}"#;
    house.write("home/.cursor/mcp.json", servers);
    let args = ["up", "--listen", "127.0.0.1:0", "--console", "off"];
    let mut host = Running::start(house.command(&args));
    host.said(|line| line.contains("2 servers found in Cursor: `hospes import` takes them over."));
    host.said(|line| line.contains("`hospes connect`") && line.contains("`hospes add`"));
    host.said(|line| line.contains("event=ready"));
    host.signal("-TERM");
    assert_eq!(host.wait(), Some(0));
    assert!(!house.path("started").exists());
    let mut command = house.command(&args);
    command.env_remove("CI");
    let mut terminal = Terminal::start(&command, 80, 24);
    terminal.sees("2 servers found in Cursor");
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
}

/// The first steps stand there for as long as the built-in servers run.
#[test]
fn the_first_steps_go_when_a_configuration_is_written() {
    let house = House::new();
    let mut command = house.command(&["up", "--listen", "127.0.0.1:0", "--console", "off"]);
    command.env_remove("CI").env_remove("NO_COLOR");
    let terminal = Terminal::start(&command, 100, 30);
    terminal.sees("No configuration");
    let server = house.server("one", &["greet"], "");
    let script = server["args"][0].as_str().unwrap();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/config.toml", &format!("[servers.one]\ncommand = [\"sh\", \"{script}\"]\n"));
    terminal.sees("● one");
    terminal.until("no first steps", |screen| !screen.contents().contains("No configuration"));
}

/// The banner stayed where the configuration has built-in servers, such as the one of the first steps of the documentation.
#[test]
fn the_first_steps_go_also_when_the_servers_are_built_in() {
    let house = House::new();
    let mut command = house.command(&["up", "--listen", "127.0.0.1:0", "--console", "off"]);
    command.env_remove("CI").env_remove("NO_COLOR");
    let mut terminal = Terminal::start(&command, 100, 30);
    terminal.sees("No configuration");
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/config.toml", "[servers.clock]\nbuiltin = 'time'\n");
    terminal.sees("● clock");
    terminal.until("no first steps", |screen| !screen.contents().contains("No configuration"));
    house.write("config/hospes/config.toml", "[servers.clock]\nbuiltin = 7\n");
    terminal.sees("▲ config.toml, mistake since");
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.text().contains("No configuration"), "{}", terminal.text());
}

/// An entry with a mistake was in `hospes status` alone: its warning was printed before the screen was opened.
#[test]
fn a_server_that_was_not_started_is_on_the_screen_and_its_warning_in_the_log() {
    let house = house();
    let mut config: Value = serde_json::from_slice(&std::fs::read(house.path("mcp.json")).unwrap()).unwrap();
    config["mcpServers"]["unset"] =
        serde_json::json!({ "command": "sh", "env": { "TOKEN": "${HOSPES_TEST_UNSET}" } });
    house.write("mcp.json", &config.to_string());
    let mut terminal = Terminal::start(&command(&house, &["--preset", "off"]), 80, 24);
    let row = terminal.sees("✗ unset");
    assert!(row.contains("not started: "), "{row}");
    terminal.type_keys("L");
    // The overview has the begin of it, and the log the rest.
    terminal.sees("the server `unset` is left out");
    terminal.sees("HOSPES_TEST_UNSET");
    terminal.type_keys("\u{1b}");
    terminal.sees("CALLS");
    terminal.type_keys("q");
    Live { house, terminal }.ends();
}

/// Text that a server prints instead of messages is a likelier reason of its silence than a slow start.
#[test]
fn a_server_that_prints_other_text_to_stdout_is_named_as_that() {
    let house = House::new();
    let script = "trap '' TERM; echo 'Welcome to the server!'; while true; do sleep 1; done";
    let config =
        format!("[servers.one]\ncommand = 'sh'\nargs = ['-c', \"{script}\"]\nconnect_timeout = '2s'\n");
    let config = text(&house.write("hospes.toml", &config));
    let args =
        ["up", "--config", &config, "--listen", "127.0.0.1:0", "--console", "off", "--pins", "off", "--json"];
    let mut host = Running::start(house.command(&args));
    let mut status = Value::Null;
    eventually("its problem is known", || {
        let whole: Value = serde_json::from_str(&house.run(&["--json", "status"]).stdout).unwrap_or_default();
        status = whole["servers"][0].clone();
        status["problem"].is_string()
    });
    assert!(status["problem"].as_str().unwrap().contains("Welcome to the server!"), "{status}");
    assert!(status["hint"].as_str().unwrap().contains("stderr"), "{status}");
    host.signal("-TERM");
    host.wait();
}
