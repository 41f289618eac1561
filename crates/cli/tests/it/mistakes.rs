//! Tests of common mistakes: each is told by its cause, with a remedy that can be followed.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::Value;

use crate::support::terminal::Terminal;
use crate::support::{House, Ran, eventually, text};

/// Text of an error without its line breaks.
fn said(ran: &Ran) -> String {
    ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asserts that a command fails with this code, and says all of these texts.
fn assert_refused(ran: &Ran, code: i32, texts: &[&str]) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    let said = said(ran);
    for text in texts {
        assert!(said.contains(text), "`{text}` is missing: {said}");
    }
}

fn configure(house: &House, config: &str) {
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/config.toml", config);
}

#[test]
fn an_entry_with_mistakes_is_found_and_removed() {
    let house = House::new();
    let well = "[servers.time]\nbuiltin = 'time'\n";
    configure(&house, &format!("{well}\n[servers.b]\ncomand = 'x'\n"));
    assert_refused(&house.run(&["update", "b"]), 1, &["entry of the server `b` has mistakes", "comand"]);
    let removed = house.run(&["remove", "b", "--yes"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert_eq!(house.read("config/hospes/config.toml"), well);
}

/// A hint that sends to a host is of no use to a person who has none.
#[test]
fn an_unknown_server_is_answered_with_the_names_that_there_are() {
    let house = House::new();
    configure(&house, "[servers.time]\nbuiltin = 'time'\n\n[servers.broken]\ncomand = 'x'\n");
    for args in [&["remove", "x", "--yes"][..], &["update", "x"]] {
        assert_refused(&house.run(args), 1, &["has no server `x`", "known servers: time, broken"]);
    }
    assert_refused(&house.run(&["logs", "x"]), 1, &["no server is called `x`", "known servers: time"]);
    assert_refused(&house.run(&["remove", "tmie", "--yes"]), 1, &["did you mean `time`?"]);
    let logout = house.run(&["auth", "logout", "x"]);
    assert_refused(&logout, 1, &["known names are time, "]);
    assert_eq!(said(&logout).matches("time").count(), 1, "{logout:?}");
}

#[test]
fn an_addition_to_a_file_that_no_host_reads_is_warned_of() {
    let house = House::new();
    configure(&house, "[server.c]\ncommand = 'x'\n");
    let program = env!("CARGO_BIN_EXE_hospes");
    let added = house.run(&["add", "--name", "z", "--yes", "--", program, "serve", "time"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(said(&added).contains("cannot start z"), "{added:?}");
    assert!(said(&added).contains("unknown key `server`; did you mean `servers`?"), "{added:?}");
    assert!(said(&added).contains("z added. Correct the file; then `hospes up` starts it."), "{added:?}");
}

#[test]
fn a_truncated_file_of_an_application_is_told_from_one_with_comments() {
    let house = House::new();
    std::fs::create_dir_all(house.path("home")).unwrap();
    for (content, remedy, other) in [
        ("{\"mcpServers\":", "correct the file", "trailing commas"),
        ("{\"a\": 1, // mine\n}", "remove the comments and trailing commas", "correct the file"),
    ] {
        house.write("home/.claude.json", content);
        let ran = house.run(&["connect", "claude-code"]);
        assert_refused(&ran, 1, &[remedy, "hospes connect claude-code"]);
        assert!(!said(&ran).contains(other), "{ran:?}");
    }
}

#[test]
fn a_program_that_downloads_first_is_said_to_do_so() {
    let house = House::new();
    std::fs::create_dir(house.path("bin")).unwrap();
    let npx = house.write("bin/npx", "#!/bin/sh\nexec sleep 60\n");
    std::fs::set_permissions(&npx, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", house.path("bin").display(), std::env::var("PATH").unwrap());
    let run = |words: &str| {
        let mut command = house.command(&["list", words, "--connect-timeout", "1"]);
        Ran::of(command.env("PATH", &path).stdin(Stdio::null()).output().unwrap())
    };
    let downloading = "npx may still be downloading the package; try again, or raise --connect-timeout";
    assert_refused(&run("npx -y some-server"), 4, &["no response", downloading]);
    let other = run("sleep 60");
    assert_refused(&other, 4, &["is it an MCP server?"]);
    assert!(!said(&other).contains("downloading"), "{other:?}");
}

#[test]
fn arguments_that_are_no_object_are_a_mistake_and_no_decision() {
    let house = House::new();
    configure(&house, "[servers.files]\nbuiltin = 'files'\nargs = ['.']\n");
    house.write("config/hospes/policy.toml", "[[rule]]\ndecide = 'allow'\nserver = 'files'\n");
    for (arguments, problem) in [
        ("{bad", "the arguments are not valid JSON"),
        ("path=a", "the arguments are not valid JSON"),
        ("[1]", "the arguments are not a JSON object"),
    ] {
        let ran = house.run(&["policy", "test", "files", "read", arguments]);
        assert_refused(&ran, 1, &[problem, "quote the object"]);
        assert_eq!(ran.stdout, "", "{ran:?}");
    }
    // Two values of one key are a call that the host denies.
    let ran = house.run(&["policy", "test", "files", "read", r#"{"path":"a","path":"b"}"#]);
    assert!(ran.code == Some(0) && ran.stdout.contains("deny"), "{ran:?}");
}

#[test]
fn without_a_policy_file_the_preset_is_tested() {
    let house = House::new();
    configure(&house, "[servers.files]\nbuiltin = 'files'\nargs = ['.']\n");
    let ran = house.run(&["policy", "test", "files", "read", r#"{"path":"a"}"#]);
    assert!(ran.code == Some(0) && ran.stdout.contains("allow"), "{ran:?}");
    assert!(said(&ran).contains("there is no policy file: the preset `balanced` decides"), "{ran:?}");
    assert_refused(&house.run(&["policy", "check"]), 1, &["there is no policy file"]);
}

#[test]
fn a_file_that_is_missing_is_said_to_be() {
    let house = House::new();
    let missing = ["No such file or directory", "correct the path"];
    assert_refused(&house.run(&["import", "nofile.json"]), 1, &missing);
    let bundle = house.run(&["add", "./nofile.mcpb", "--yes"]);
    assert_refused(&bundle, 1, &missing);
    assert!(!said(&bundle).contains("--check"), "{bundle:?}");
}

/// A file in the place of a folder cannot be written by anybody, not even by the administrator.
#[test]
fn folders_that_cannot_be_used_are_named_with_a_remedy() {
    let house = House::new();
    house.write("blocked", "");
    let run = |variable: &str, args: &[&str]| {
        let mut command = house.command(args);
        command.env(variable, house.path("blocked"));
        Ran::of(command.stdin(Stdio::null()).output().unwrap())
    };
    let up = ["up", "--no-audit", "--listen", "127.0.0.1:0", "--console", "off"];
    assert_refused(&run("XDG_STATE_HOME", &up), 1, &["blocked/hospes", "hint:", "XDG_STATE_HOME"]);
    let init = run("XDG_CONFIG_HOME", &["policy", "init"]);
    assert_refused(&init, 1, &["blocked/hospes/policy.toml", "hint:", "--policy"]);
    assert_refused(&house.run(&["serve", "files", "/nonexistent"]), 1, &["/nonexistent", "hint:"]);
}

#[test]
fn commands_for_a_host_say_that_none_runs() {
    let house = House::new();
    for args in [&["approve", "--list"][..], &["grants", "list"], &["console", "--no-browser"]] {
        let ran = house.run(args);
        assert_refused(&ran, 4, &["no host is running here", "hospes up"]);
    }
}

#[test]
fn a_name_that_is_taken_comes_with_the_option_for_another() {
    let house = House::new();
    configure(&house, "[servers.search]\ncommand = 'one'\n");
    let file = house.write("mcp.json", r#"{"mcpServers":{"search":{"command":"two"}}}"#);
    for option in ["--dry-run", "--yes"] {
        let ran = house.run(&["import", &text(&file), option]);
        assert!(ran.stdout.contains("--rename search=NEW"), "{ran:?}");
    }
    let mut terminal = Terminal::start(&house.command(&["import", &text(&file)]), 120, 30);
    terminal.sees("Name for it?");
    terminal.type_keys("search\n");
    terminal.sees("the name search is taken");
    terminal.type_keys("a b\n");
    terminal.sees("a name has up to 64 letters");
    terminal.type_keys("other\n");
    terminal.sees("Import 1 server");
}

/// Each application is found by every name that the program shows, regardless of case.
#[test]
fn applications_are_known_by_the_names_that_are_shown() {
    let house = House::new();
    let none = house.run(&["connect"]);
    assert!(said(&none).contains("supported applications: Claude Desktop, Claude Code, VS Code"), "{none:?}");
    std::fs::create_dir_all(house.path("home/.cursor")).unwrap();
    let listed = house.run(&["connect"]);
    assert!(said(&listed).contains("`hospes connect APP` connects one"), "{listed:?}");
    for name in ["Cursor", "CURSOR"] {
        let ran = house.run(&["connect", name, "--dry-run", "--json"]);
        let value: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
        assert_eq!(value["application"], "cursor");
    }
    assert_eq!(house.run(&["connect", "Claude Codex"]).code, Some(1));
    configure(&house, "[servers.time]\nbuiltin = 'time'\n[profiles.work]\nservers = ['time']\n");
    let ran = house.run(&["export", "--format", "vs code"]);
    assert!(ran.code == Some(0) && ran.stdout.contains("time"), "{ran:?}");
    assert_eq!(house.run(&["connect", "cursor"]).code, Some(0));
    let all = house.run(&["connect"]);
    assert!(!said(&all).contains("connects one"), "nothing is left to connect: {all:?}");
    let changed = house.run(&["connect", "cursor", "--profile", "work"]);
    assert!(said(&changed).contains("Cursor was connected"), "{changed:?}");
}

/// Ctrl-C has one exit code, and its error begins on a line of its own.
#[test]
fn an_interruption_is_code_130_on_a_line_of_its_own() {
    let house = House::new();
    let server = house.server("one", &[], r#"*'"method":"tools/list"'*) ;;"#);
    let file = server["args"][0].as_str().unwrap().to_owned();
    let mut terminal = Terminal::start(&house.command(&["list", "--", "sh", &file]), 100, 20);
    eventually("it is asked", || house.read("one.log").contains("tools/list"));
    terminal.type_keys("\u{3}");
    assert_eq!(terminal.wait(), 130, "{}", terminal.text());
    let shown = terminal.text();
    assert!(shown.lines().any(|line| line.starts_with("error: interrupted")), "{shown}");
}

#[test]
fn a_prefix_without_a_name_misses_the_name() {
    let house = House::new();
    for prefix in ["npm:", "pypi:", "cargo:", "oci:"] {
        let ran = house.run(&["add", prefix, "--yes"]);
        assert_refused(&ran, 1, &[&format!("a package name is missing after `{prefix}`")]);
    }
    assert_refused(&house.run(&["add", "npm:@1.0.0", "--yes"]), 1, &["a package name is missing"]);
}

/// A link to a file that is gone counted as no file: rules that deny vanished without a word.
#[test]
#[cfg(unix)]
fn files_that_cannot_be_reached_are_not_taken_for_none() {
    for name in ["policy.toml", "config.toml"] {
        let house = House::new();
        std::fs::create_dir_all(house.path("config/hospes")).unwrap();
        std::os::unix::fs::symlink(house.path("gone"), house.path(&format!("config/hospes/{name}"))).unwrap();
        let ran = house.run(&["up", "--plain", "--listen", "127.0.0.1:0", "--console", "off"]);
        assert!(ran.code == Some(1) && ran.stderr.contains(name), "{name}: {ran:?}");
        let ran = house.run(&["doctor"]);
        assert!(ran.code != Some(0) && ran.stdout.contains(name), "{name}: {ran:?}");
    }
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    std::os::unix::fs::symlink(house.path("gone"), house.path("config/hospes/policy.toml")).unwrap();
    let ran = house.run(&["policy", "test", "files", "read", "{}"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("policy.toml"), "{ran:?}");
}
