//! What the program does with what it is told: exit codes, results, errors and hints.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[allow(dead_code, clippy::unwrap_used, reason = "each test program uses its part, and tests may panic")]
mod support;

use std::net::TcpListener;

use serde_json::{Value, json};
use support::{House, text};

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
    assert_eq!(error["message"], "there is no tool `gret`; did you mean `greet`?");
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
fn without_a_host_the_status_is_code_4() {
    let house = House::new();
    let ran = house.run(&["status"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""));
    assert!(ran.stderr.contains("hospes up"), "{ran:?}");
}
