//! Tests of the program's command line: exit codes, results, errors and hints.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::net::TcpListener;

use serde_json::{Value, json};
use support::{House, Running, eventually, text};

/// A server for the shell, as words after `--`.
fn command(entry: &Value) -> Vec<&str> {
    let args = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    std::iter::once(entry["command"].as_str().unwrap()).chain(args).collect()
}

const FAIL: &str =
    r#"*'"method":"tools/call"'*) answer '{"isError":true,"content":[{"type":"text","text":"no luck"}]}';;"#;

const TYPED: &str = r#"*'"method":"tools/list"'*) answer '{"tools":[{"name":"add","inputSchema":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}]}';;"#;

#[test]
fn help_is_a_result_and_a_mistake_is_not() {
    let house = House::new();
    let help = house.run(&["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("Usage: hospes"), "{help:?}");
    let mistake = house.run(&["upp"]);
    assert_eq!((mistake.code, mistake.stdout.as_str()), (Some(1), ""));
    assert!(mistake.stderr.contains("similar subcommand exists: 'up'"), "{mistake:?}");
}

#[test]
fn a_list_shows_signatures_on_standard_output_and_nothing_else() {
    let house = House::new();
    let server = house.server("one", &["greet"], TYPED);
    let mut args = vec!["list", "--"];
    args.extend(command(&server));
    let ran = house.run(&args);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout, "Tools\n  add(a: integer)\n");
    assert_eq!(ran.stderr, "one 1 speaks 2025-06-18\n");
}

#[test]
fn a_call_prints_its_result() {
    let house = House::new();
    let config = house.config(&[("one", house.server("one", &["greet"], ""))]);
    let ran = house.run(&["call", "one", "greet", "--config", &config]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "one was called\n"), "{ran:?}");
    let ran = house.run(&["call", "--json", "--config", &config, "one", "greet"]);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(result["content"][0]["text"], "one was called");
}

#[test]
fn a_tool_that_fails_prints_why_and_is_code_5() {
    let house = House::new();
    let server = house.server("one", &["greet"], FAIL);
    let mut args = vec!["call", "greet", "--"];
    args.extend(command(&server));
    let ran = house.run(&args);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), "no luck\n"), "{ran:?}");
}

#[test]
fn a_tool_that_is_not_there_is_code_5_and_a_suggestion() {
    let house = House::new();
    let server = house.server("one", &["greet"], "");
    let mut args = vec!["call", "--json", "gret", "--"];
    args.extend(command(&server));
    let ran = house.run(&args);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(5), ""));
    let error = &ran.envelope()["error"];
    assert_eq!(error["code"], "tool_error");
    assert_eq!(error["message"], "unknown tool `gret`; did you mean `greet`?");
}

/// R6: a peer sends `null` for text that is no integer.
#[test]
fn an_argument_of_the_wrong_type_is_refused_and_nothing_is_sent() {
    let house = House::new();
    let server = house.server("one", &[], TYPED);
    let mut args = vec!["call", "add", "a=x", "--"];
    args.extend(command(&server));
    let ran = house.run(&args);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("a: expected integer, got \"x\""), "{ran:?}");
    assert!(!house.read("one.log").contains("tools/call"));
}

#[test]
fn a_target_is_never_silently_something_else() {
    let house = House::new();
    let config = house.config(&[("notes", house.server("notes", &[], ""))]);
    let ran = house.run(&["list", "ntoes", "--config", &config, "--json"]);
    assert_eq!(ran.code, Some(1));
    let error = &ran.envelope()["error"];
    assert_eq!(error["hint"], "did you mean `notes`?");
    // An entry with a mistake is not another program.
    let broken = house.write("broken.toml", "[servers.gh]\ncommand = 'x'\nenv = { A = '${NOPE_VAR}' }\n");
    let ran = house.run(&["call", "gh", "ping", "--config", &text(&broken)]);
    assert!(ran.code == Some(1) && ran.stderr.contains("NOPE_VAR"), "{ran:?}");
    let ran = house.run(&["list", "https://", "--json"]);
    assert_eq!((ran.code, ran.envelope()["error"]["code"].as_str()), (Some(1), Some("usage")));
}

#[test]
fn a_server_that_cannot_be_reached_is_code_4_and_says_what_was_tried() {
    let house = House::new();
    let ran = house.run(&["list", "--json", "--", "/no/such/program"]);
    assert_eq!(ran.code, Some(4));
    assert_eq!(ran.envelope()["error"]["code"], "unreachable");
    let ran = house.run(&["list", "--", "sh", "-c", "echo 'set the TOKEN' >&2; exit 3"]);
    assert_eq!(ran.code, Some(4));
    assert!(ran.stderr.contains("exited with status 3") && ran.stderr.contains("set the TOKEN"), "{ran:?}");
    assert!(!ran.stderr.contains('\u{1b}'), "colour where nobody sees it: {ran:?}");
}

/// The log repeated each problem of a server, without its name.
#[test]
fn commands_that_report_a_problem_print_no_log_of_it() {
    let house = House::new();
    let noisy = ["list", "--", "sh", "-c", "echo 'Welcome to the server!'; exit 3"];
    let ran = house.run(&noisy);
    assert_eq!(ran.code, Some(4));
    assert!(!ran.stderr.contains("WARN"), "{ran:?}");
    assert_eq!(ran.stderr.matches("printed this on stdout: Welcome").count(), 1, "{ran:?}");
    // It works, so its noise is a warning of the doctor.
    let mut server = house.server("one", &["greet"], "");
    let script = server["args"][0].as_str().unwrap().to_owned();
    server["args"] = json!(["-c", format!("echo 'Welcome to the server!'; exec sh '{script}'")]);
    let config = house.config(&[("one", server)]);
    let ran = house.run(&["doctor", "one", "--config", &config]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(!ran.stderr.contains("WARN"), "{ran:?}");
    assert!(ran.stdout.contains("works, with a warning") && ran.stdout.contains("code  S02"), "{ran:?}");
    assert!(ran.stdout.contains("said  Welcome to the server!"), "{ran:?}");
}

#[test]
fn what_was_tried_is_told_to_who_wants_to_know() {
    let house = House::new();
    let failing = ["list", "--", "sh", "-c", "exit 3"];
    let short = house.run(&failing).stderr;
    assert!(short.contains("exited with status 3") && !short.contains("tried: "), "{short}");
    let mut args = vec!["-v"];
    args.extend(failing);
    assert!(house.run(&args).stderr.contains("  tried: server/discover"));
    args[0] = "--json";
    let message = house.run(&args).envelope()["error"]["message"].to_string();
    assert!(message.contains("tried: server/discover"), "{message}");
}

#[test]
fn a_call_that_fails_for_want_of_something_says_what_to_do() {
    let house = House::new();
    let hint =
        |args: &[&str]| house.run(args).envelope()["error"]["hint"].as_str().unwrap_or_default().to_owned();
    assert!(
        hint(&["--json", "call", "everything", "test_elicitation", "message=x"]).contains("from a terminal")
    );
    assert!(hint(&["--json", "call", "everything", "test_sampling", "prompt=x"]).contains("with a model"));
    let slow = ["--json", "call", "everything", "slow_compute", "seconds=1000", "--timeout", "0.01"];
    assert!(hint(&slow).contains("--timeout SECONDS"));
}

#[test]
fn a_mistake_in_a_configuration_names_the_line_and_starts_nothing() {
    let house = House::new();
    let file = house.write("hospes.toml", "[servers.one]\ncommand = \"sh\"\nargz = []\n");
    let ran = house.run(&["up", "--config", &text(&file), "--listen", "127.0.0.1:0"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("hospes.toml:3:1") && ran.stderr.contains("args"), "{ran:?}");
}

#[test]
fn a_variable_that_is_not_set_is_a_named_error() {
    let house = House::new();
    let entry = json!({ "command": "sh", "env": { "TOKEN": "${HOSPES_TEST_UNSET}" } });
    let config = house.config(&[("one", entry)]);
    let ran = house.run(&["up", "--config", &config, "--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, Some(1));
    for part in ["mcp.json:1:", "one", "env.TOKEN", "HOSPES_TEST_UNSET"] {
        assert!(ran.stderr.contains(part), "{part}: {ran:?}");
    }
}

/// One misspelt key or unset variable stopped nine good servers.
#[test]
fn a_server_with_a_mistake_is_reported_and_the_others_are_started() {
    let house = House::new();
    let unset = json!({ "command": "sh", "env": { "TOKEN": "${HOSPES_TEST_UNSET}" } });
    house.write(
        "hospes.toml",
        &format!(
            "[servers.one]\ncommand = 'sh'\nargs = {}\n[servers.two]\ncommand = 'sh'\nargz = []\n\
             [servers.three]\ncommand = 'sh'\nenv.TOKEN = '${{HOSPES_TEST_UNSET}}'\n",
            house.server("one", &["greet"], "")["args"]
        ),
    );
    let own = house.path("hospes.toml").display().to_string();
    let foreign = house.config(&[("one", house.server("one", &["greet"], "")), ("three", unset)]);
    for (config, bad) in [(own, &["two", "three"][..]), (foreign, &["three"])] {
        let args = ["up", "--config", &config, "--listen", "127.0.0.1:0", "--console", "off", "--json"];
        let mut host = Running::start(house.command(&args));
        eventually("it is started", || house.is_running("one"));
        let mut status = Value::Null;
        eventually("its status is known", || {
            status = serde_json::from_str(&house.run(&["--json", "status"]).stdout).unwrap_or_default();
            status["servers"][0]["state"] == "ready"
        });
        let left_out = status["leftOut"].as_array().unwrap();
        assert_eq!(left_out.iter().map(|one| one[0].as_str().unwrap()).collect::<Vec<_>>(), bad, "{status}");
        let said = status["leftOut"].to_string();
        assert!(said.contains("HOSPES_TEST_UNSET"), "{said}");
        host.signal("-TERM");
        host.wait();
        let ran = house.run(&["up", "--config", &config, "--listen", "127.0.0.1:0", "--strict"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("HOSPES_TEST_UNSET"), "{ran:?}");
        let listed = house.run(&["list", "one", "--config", &config]);
        assert_eq!(listed.code, Some(0), "{listed:?}");
        assert!(listed.stdout.contains("greet"), "{listed:?}");
    }
}

/// A server that the host is not to start without is one that must not be left out.
#[test]
fn a_required_server_with_a_mistake_stops_the_start() {
    let house = House::new();
    house.write(
        "hospes.toml",
        "[servers.one]\nbuiltin = 'time'\n[servers.two]\ncommand = 'sh'\nargz = []\nrequired = true\n",
    );
    let config = house.path("hospes.toml").display().to_string();
    let ran = house.run(&["up", "--config", &config, "--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("argz"), "{ran:?}");
}

#[test]
fn a_port_in_use_is_said_with_a_way_out() {
    let house = House::new();
    let config = house.config(&[("one", house.server("one", &[], ""))]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = house.run(&["up", "--config", &config, "--listen", &address]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains(&format!("cannot listen on {address}")), "{ran:?}");
    assert!(ran.stderr.contains("hint: ") && ran.stderr.contains("--listen"), "{ran:?}");
    assert!(!house.path("one.log").exists(), "nothing was started");
}

#[test]
fn values_that_cannot_be_used_are_refused_by_the_name_of_their_flag() {
    let house = House::new();
    house.write("file", "");
    for (args, expected) in [
        (&["up", "--allow-host", "http://x/"][..], "--allow-host: expected a name such as"),
        (&["serve", "time", "--http", "0", "--allow-host", "x/y"], "--allow-host: expected a name such as"),
        (&["up", "--allow-origin", "nope"], "--allow-origin: expected an origin such as `https://"),
        (&["up", "--root", "nowhere"], "--root: folder not found: nowhere"),
        (&["list", "time", "--root", "file"], "--root: not a folder: file"),
        (&["list", "time", "--cwd", "nowhere"], "--cwd: folder not found: nowhere"),
        (&["up", "--listen", "nope"], "--listen: expected an address and a port"),
        (&["up", "--start-wait", "soon"], "expected a time in seconds, such as 30"),
        (&["list", "time", "--connect-timeout", "0"], "expected a time above zero"),
        (&["call", "time", "now", "--timeout", "-1"], "expected a time in seconds, such as 30"),
        (&["status", "time"], "expected the URL of a host, such as http://127.0.0.1:7337/mcp, got `time`"),
    ] {
        let ran = house.run(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{args:?} {ran:?}");
        assert!(ran.stderr.contains(expected), "{args:?} {ran:?}");
    }
}

#[test]
fn a_mistake_on_the_command_line_is_json_where_json_is_wanted() {
    let house = House::new();
    let error = &house.run(&["--json", "upp"]).envelope()["error"];
    assert_eq!(error["message"], "unrecognized subcommand 'upp'");
    assert_eq!(
        (&error["code"], &error["hint"]),
        (&json!("usage"), &json!("a similar subcommand exists: 'up'"))
    );
    let error = &house.run(&["list", "--json"]).envelope()["error"];
    assert_eq!(error["message"], "the following required arguments were not provided: <TARGET>");
}

#[test]
fn a_configuration_that_cannot_be_read_says_why() {
    let house = House::new();
    std::fs::write(house.path("latin.json"), b"{\n\"caf\xe9\": 1}").unwrap();
    for (file, expected) in [
        ("latin.json", "latin.json:2:5: the byte here is not UTF-8"),
        ("missing.json", "missing.json: cannot be read: No such file or directory"),
        (".", ".: cannot be read: Is a directory"),
    ] {
        let ran = house.run(&["list", "one", "--config", file]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains(expected), "{ran:?}");
    }
}

/// The command that an application is to launch must find the same servers.
#[test]
fn what_is_to_be_pasted_names_the_configuration() {
    let house = House::new();
    let config = house.config(&[("one", house.server("one", &[], ""))]);
    let mut host = Running::start(house.command(&["up", "--config", "mcp.json", "--listen", "127.0.0.1:0"]));
    let line = host.said(|line| line.contains("\"stdio\""));
    let snippet: Value = serde_json::from_str(&line[line.find('{').unwrap()..]).unwrap();
    assert_eq!(snippet["mcpServers"]["hospes"]["args"], json!(["stdio", "--config", config]));
    host.signal("-INT");
    host.wait();
}

#[test]
fn a_list_that_takes_too_long_can_be_interrupted() {
    let house = House::new();
    let server = house.server("one", &[], r#"*'"method":"tools/list"'*) ;;"#);
    let mut args = vec!["list", "--"];
    args.extend(command(&server));
    let mut list = Running::start(house.command(&args));
    eventually("it is asked", || house.read("one.log").contains("tools/list"));
    list.signal("-INT");
    list.said(|line| line.contains("interrupted"));
    assert_eq!(list.wait(), Some(130));
    eventually("the server is gone", || !house.is_running("one"));
}

/// covers: CANC-11
#[test]
fn a_call_that_is_interrupted_says_that_it_is_being_cancelled() {
    let house = House::new();
    // It never answers, and does not end when it is left alone.
    let server = house.server("one", &["greet"], r#"*'"method":"tools/call"'*) trap '' TERM;; *never*) ;;"#);
    let script = house.read("one.sh") + "sleep 60\n";
    house.write("one.sh", &script);
    let mut args = vec!["call", "greet", "--"];
    args.extend(command(&server));
    let mut call = Running::start(house.command(&args));
    eventually("it is called", || house.read("one.log").contains("tools/call"));
    call.signal("-INT");
    call.said(|line| line.contains("cancelling greet"));
    assert!(call.child.try_wait().unwrap().is_none(), "said at once, before the server has ended");
    call.said(|line| line.contains("interrupted; the call was cancelled and the server was notified"));
    assert_eq!(call.wait(), Some(130));
    assert!(house.read("one.log").contains("notifications/cancelled"), "{}", house.read("one.log"));
}

#[test]
fn without_a_host_the_status_is_code_4() {
    let house = House::new();
    let ran = house.run(&["status"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""));
    assert!(ran.stderr.contains("hospes up"), "{ran:?}");
}
