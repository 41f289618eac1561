//! `hospes approve`: in a terminal, and for scripts.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::process::{Command, Stdio};

use serde_json::Value;
use support::terminal::Terminal;
use support::{House, Ran, Running, text};

const TYPED: &str = r#"*'"method":"tools/list"'*) answer '{"tools":[{"name":"greet","inputSchema":{"type":"object","properties":{"name":{"type":"string"},"count":{"type":"integer"}},"required":["name"]}}]}';;"#;

/// A host whose calls are all asked about.
struct Up {
    house: House,
    host: Running,
    endpoint: String,
}

impl Up {
    fn new(options: &[&str]) -> Self {
        let house = House::new().with_token();
        let config = house.config(&[("one", house.server("one", &[], TYPED))]);
        let rules = text(&house.write("rules.toml", "[[rule]]\ndecide = 'ask'\n"));
        let args =
            ["up", "--json", "--config", &config, "--policy", &rules, "--pins", "off", "--start-wait", "20"];
        let places = ["--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"];
        let args: Vec<&str> = args.iter().chain(&places).chain(options).copied().collect();
        let host = Running::start(house.command(&args));
        let greeting = host.greeting();
        let endpoint = greeting["endpoint"].as_str().unwrap().to_owned();
        Self { house, host, endpoint }
    }

    /// Calls the tool, as an application that cannot ask anybody.
    fn call(&self, words: &[&str]) -> Running {
        let mut args = vec!["call", self.endpoint.as_str(), "one__greet"];
        args.extend(words);
        Running::start(self.house.command(&args))
    }

    fn screen(&self, columns: u16, rows: u16, editor: &str) -> Terminal {
        let mut command: Command = self.house.command(&["approve"]);
        command.env("VISUAL", editor).env_remove("NO_COLOR");
        let terminal = Terminal::start(&command, columns, rows);
        terminal.sees("No pending approvals.");
        terminal
    }

    fn sent(&self) -> String {
        self.house.read("one.log").lines().filter(|line| line.contains("tools/call")).collect()
    }
}

/// Waits until the key that allows is taken for meant: then it stands out.
pub(crate) fn armed(terminal: &Terminal) {
    terminal.until("a key that is armed", |screen| {
        let (rows, columns) = screen.size();
        let last = rows - 1;
        (0..columns).any(|column| {
            let is = |at: u16, what: &str| screen.cell(last, at).is_some_and(|cell| cell.contents() == what);
            is(column, "o")
                && is(column + 2, "o")
                && is(column + 3, "n")
                && screen.cell(last, column).is_some_and(vt100::Cell::bold)
        })
    });
}

fn told(mut call: Running) -> (Option<i32>, String) {
    let code = call.wait();
    let mut told: Vec<String> = call.stdout.iter().collect();
    told.extend(call.stderr.iter());
    (code, told.join("\n"))
}

/// covers: HOST-02 HOST-03 HOST-08
#[test]
fn a_call_is_looked_at_and_allowed() {
    let up = Up::new(&[]);
    let mut terminal = up.screen(80, 24, "false");
    assert!(terminal.has_own_screen());
    let call = up.call(&["name=Ada", "count=9007199254740993"]);
    let seen = terminal.sees("count       9007199254740993");
    assert!(seen.contains("call the tool greet") && seen.contains("name        \"Ada\""), "{seen}");
    assert_eq!(up.sent(), "", "nothing is sent before somebody decides");
    terminal.type_keys("\r");
    terminal.resize(120, 40);
    armed(&terminal);
    assert_eq!(up.sent(), "", "Enter allows nothing");
    terminal.type_keys("o");
    let (code, said) = told(call);
    assert!(code == Some(0) && said.starts_with("one was called"), "{said}");
    terminal.sees("No pending approvals.");
    assert!(up.sent().contains("9007199254740993"), "{}", up.sent());
    terminal.type_keys("q");
    assert_eq!(terminal.wait(), 0);
    terminal.until("the shell", |screen| !screen.alternate_screen());
}

#[test]
fn arguments_are_changed_in_an_editor_and_looked_at_by_the_host() {
    let up = Up::new(&[]);
    // The first time it takes away what the tool wants, the second time it writes what it does not.
    let script = "if [ -e once ]; then sed -i 's/\"Ada\"/\"Bob\"/; s/\"nam\"/\"name\"/' \"$1\"; else touch once; sed -i 's/\"name\"/\"nam\"/' \"$1\"; fi";
    let script = text(&up.house.write("editor.sh", script));
    let mut terminal = up.screen(100, 30, &format!("sh {script}"));
    let call = up.call(&["name=Ada", "count=12345678901234567"]);
    terminal.sees("call the tool greet");
    terminal.type_keys("e");
    terminal.sees("changed by you");
    armed(&terminal);
    terminal.type_keys("o");
    terminal.sees("required property");
    terminal.type_keys("e");
    terminal.sees("\"Bob\"");
    armed(&terminal);
    terminal.type_keys("o");
    assert_eq!(told(call).0, Some(0));
    assert!(up.sent().contains(r#""name":"Bob""#) || up.sent().contains(r#""name": "Bob""#), "{}", up.sent());
    assert!(up.sent().contains("12345678901234567"), "{}", up.sent());
    let left: Vec<_> = std::fs::read_dir(up.house.path("run/hospes")).unwrap().flatten().collect();
    assert!(left.iter().all(|file| !file.file_name().to_string_lossy().starts_with("edit-")), "{left:?}");
}

#[test]
fn a_denial_tells_the_model_why_and_a_block_asks_no_more() {
    let up = Up::new(&[]);
    let mut terminal = up.screen(80, 24, "false");
    let call = up.call(&["name=Ada"]);
    terminal.sees("call the tool greet");
    terminal.type_keys("dnot today\r");
    let (code, said) = told(call);
    assert_eq!(code, Some(5));
    assert!(said.contains("the user denied it: not today"), "{said}");
    terminal.sees("denied: greet");
    terminal.sees("No pending approvals.");
    let call = up.call(&["name=Ada"]);
    terminal.sees("call the tool greet");
    // After a decision a card is chosen before a key decides about it.
    terminal.type_keys("j");
    terminal.type_keys("b\r");
    assert_eq!(told(call).0, Some(5));
    terminal.sees("denied, now and in future: greet");
    let (code, _) = told(up.call(&["name=Ada"]));
    assert_eq!((code, up.sent()), (Some(5), String::new()));
}

#[test]
fn silence_is_a_no_and_is_seen() {
    let up = Up::new(&["--approval-timeout", "2"]);
    let terminal = up.screen(80, 24, "false");
    let call = up.call(&["name=Ada"]);
    terminal.sees("call the tool greet");
    terminal.sees("expired without a decision");
    assert_eq!((told(call).0, up.sent()), (Some(5), String::new()));
}

#[test]
fn the_terminal_is_given_back_when_the_program_is_asked_to_end() {
    let up = Up::new(&[]);
    for signal in ["-TERM", "-INT", "-HUP"] {
        let mut terminal = up.screen(80, 24, "false");
        let pid = terminal.pid().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        assert_eq!(terminal.wait(), 0, "{signal}");
        terminal.until("the shell", |screen| !screen.alternate_screen() && !screen.hide_cursor());
    }
}

#[test]
fn scripts_list_and_decide() {
    let up = Up::new(&[]);
    let house = &up.house;
    assert_eq!(house.run(&["approve", "--json"]).stdout, "");
    // Whoever follows can decide, so calls wait.
    let follow = Running::start(house.command(&["approve", "--json", "--follow"]));
    let first = loop {
        // Until it follows, nobody is there to be asked.
        let call = up.call(&["name=Ada", "count=12345678901234567890"]);
        match follow.stdout.recv_timeout(std::time::Duration::from_secs(2)) {
            Ok(line) => break (call, line),
            Err(_) => drop(call),
        }
    };
    let (call, line) = first;
    assert!(line.contains("12345678901234567890"), "{line}");
    let matter: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&matter["state"], &matter["card"]["name"]), (&"open".into(), &"greet".into()));
    let id = matter["id"].as_str().unwrap();
    let list = house.run(&["approve", "--json", "--list"]);
    assert_eq!(list.stdout, format!("{line}\n"));
    let list = house.run(&["approve"]);
    assert!(list.stdout.starts_with(&id[..8]) && list.stdout.contains("one · greet"), "{list:?}");

    let edit = text(&house.write("edit.json", r#"{"name":"Eve","count":98765432109876543210}"#));
    let wrong = text(&house.write("wrong.json", r#"{"nam":"Eve"}"#));
    let refused = house.run(&["approve", "--allow", &id[..6], "--edit", &wrong]);
    assert_eq!((refused.code, up.sent()), (Some(1), String::new()), "{refused:?}");
    assert!(refused.stderr.contains("required property"), "{refused:?}");
    let allowed = house.run(&["approve", "--allow", &id[..6], "--edit", &edit]);
    assert_eq!((allowed.code, allowed.stdout.as_str()), (Some(0), "allowed: greet of one\n"), "{allowed:?}");
    assert_eq!(told(call).0, Some(0));
    assert!(up.sent().contains(r#""count":98765432109876543210"#), "{}", up.sent());
    let over: Value = serde_json::from_str(&follow.stdout.recv_timeout(support::LIMIT).unwrap()).unwrap();
    assert_eq!((&over["id"], &over["state"]), (&id.into(), &"allowed".into()));

    let call = up.call(&["name=Ada"]);
    let line = follow.stdout.recv_timeout(support::LIMIT).unwrap();
    let matter: Value = serde_json::from_str(&line).unwrap();
    let id = matter["id"].as_str().unwrap();
    let denied = house.run(&["approve", "--json", "--deny", id, "--reason", "no"]);
    let answer: Value = serde_json::from_str(&denied.stdout).unwrap();
    assert_eq!((&answer["state"], &answer["decided"]["reason"]), (&"denied".into(), &"no".into()));
    assert!(told(call).1.contains("the user denied it: no"));
    let again = house.run(&["approve", "--json", "--allow", id]);
    assert_eq!(again.code, Some(1));
    assert!(again.envelope()["error"]["message"].as_str().unwrap().contains("already decided"), "{again:?}");
}

/// Calls the tool from a terminal, where the person can be asked.
fn asked_inline(up: &Up) -> Terminal {
    let command: Command = up.house.command(&["call", &up.endpoint, "one__greet", "name=Ada"]);
    let terminal = Terminal::start(&command, 100, 40);
    terminal.sees("s session >");
    terminal
}

#[test]
fn a_call_from_a_terminal_asks_with_the_same_keys() {
    let up = Up::new(&[]);
    let mut terminal = asked_inline(&up);
    let seen = terminal.text();
    assert!(
        seen.contains("May I call the tool `greet` of the server `one`?") && seen.contains("Ada"),
        "{seen}"
    );
    // An empty line allows nothing.
    terminal.type_keys("\n");
    terminal.until("the question again", |screen| screen.contents().matches("s session >").count() == 2);
    assert_eq!(up.sent(), "");
    terminal.type_keys("o\n");
    assert_eq!(terminal.wait(), 0);
    terminal.sees("one was called");

    let mut terminal = asked_inline(&up);
    terminal.type_keys("d not today\n");
    assert_eq!(terminal.wait(), 5);
    terminal.sees("the user denied it: not today");

    let mut terminal = asked_inline(&up);
    terminal.type_keys("s\n");
    assert_eq!(terminal.wait(), 0);
    // That session has ended with its program: another one is asked about again.
    let _call = up.call(&["name=Eve"]);
    let waits = || !up.house.run(&["approve", "--json", "--list"]).stdout.is_empty();
    support::eventually("the next session is asked about", waits);
    assert!(!up.sent().contains("Eve"), "{}", up.sent());
}

/// A question at the terminal of the caller ends with the decision that is made elsewhere.
///
/// covers: HOST-02
#[test]
fn a_question_at_a_terminal_ends_when_it_is_decided_elsewhere() {
    for (option, told, code, sent) in [("--allow", "allowed", 0, true), ("--deny", "denied", 5, false)] {
        let up = Up::new(&[]);
        let mut terminal = asked_inline(&up);
        let listed = up.house.run(&["approve", "--json", "--list"]);
        let listed: Value = serde_json::from_str(listed.stdout.lines().next().unwrap()).unwrap();
        let id = listed["id"].as_str().unwrap_or_else(|| panic!("{listed}"));
        let decided = up.house.run(&["approve", option, id]);
        assert_eq!(decided.code, Some(0), "{decided:?}");
        terminal.sees(&format!("decided elsewhere: {told}"));
        assert_eq!(terminal.wait(), code, "{}", terminal.text());
        assert_eq!(!up.sent().is_empty(), sent, "{}", up.sent());
        assert_eq!(terminal.text().matches("s session >").count(), 1, "{}", terminal.text());
    }
}

/// Ctrl-C and the end of input end a question, and the call waits for nobody any more. A wrong key is explained.
#[test]
fn a_question_at_a_terminal_is_ended_by_its_person() {
    for (key, code) in [("\u{3}", 130), ("\u{4}", 5)] {
        let up = Up::new(&[]);
        let mut terminal = asked_inline(&up);
        terminal.sees("Without a decision until ");
        terminal.type_keys("e\n");
        terminal.sees("`e` is a key of `hospes approve`");
        terminal.type_keys(key);
        assert_eq!(terminal.wait(), code, "{}", terminal.text());
        let waits = || up.house.run(&["approve", "--json", "--list"]).stdout;
        support::eventually("nothing waits", || waits().is_empty());
        assert_eq!(up.sent(), "");
    }
}

/// A question ends with the time of its approval.
#[test]
fn a_question_at_a_terminal_expires() {
    let up = Up::new(&["--approval-timeout", "3"]);
    let mut terminal = asked_inline(&up);
    terminal.sees("expired: it was not decided in time");
    assert_eq!(terminal.wait(), 5, "{}", terminal.text());
    assert_eq!(up.sent(), "");
}

/// An unattended call waits, reports that to its caller, and is listed as missed.
#[test]
fn a_call_that_nobody_attends_to_waits_says_so_and_is_listed_as_missed() {
    let up = Up::new(&["--approval-timeout", "3"]);
    let (code, said) = told(up.call(&["name=Ada"]));
    assert_eq!((code, up.sent()), (Some(5), String::new()));
    assert!(said.contains("is waiting for approval") && said.contains("hospes approve"), "{said}");
    let listed = up.house.run(&["approve", "--list"]);
    assert!(listed.stdout.contains("expired") && listed.stdout.contains("name: Ada"), "{listed:?}");
    assert!(listed.stderr.contains("missed"), "{listed:?}");
    let asked = up.host.said(|line| line.contains("\"event\":\"asked\""));
    let asked: Value = serde_json::from_str(&asked).unwrap();
    assert_eq!((&asked["server"], &asked["what"]), (&"one".into(), &"greet".into()), "{asked}");
    assert!(!asked.to_string().contains("Ada"), "a log that is kept has no arguments: {asked}");
    up.host.said(|line| line.contains("\"event\":\"expired\""));
}

#[test]
fn without_a_host_it_says_so() {
    let house = House::new();
    for args in [&["approve"][..], &["approve", "--allow", "abcd"], &["approve", "--json", "--follow"]] {
        let mut command = house.command(args);
        let ran = Ran::of(command.stdin(Stdio::null()).output().unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""), "{ran:?}");
        assert!(ran.stderr.contains("hospes up"), "{ran:?}");
    }
    let mistake = house.run(&["approve", "--reason", "x"]);
    assert_eq!(mistake.code, Some(1));
}
