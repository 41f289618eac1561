//! Servers whose programs only the login shell finds, as with applications that were started from a dock.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{House, Running};

fn script(file: &Path, text: &str) {
    std::fs::write(file, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A server `one` whose program is in no folder of `PATH`, and a shell that knows the folder.
fn house() -> (House, String) {
    let house = House::new();
    let server = house.server("one", &["greet"], "");
    let words: Vec<&str> =
        server["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    std::fs::create_dir(house.path("only-here")).unwrap();
    script(
        &house.path("only-here").join("greeter"),
        &format!("exec {} \"$@\"", server["command"].as_str().unwrap()),
    );
    let folder = house.path("only-here").display().to_string();
    // What the user's own files print is not taken for the value.
    let shell =
        format!("echo hello; PATH=\"$PATH:{folder}\"; export PATH; for last; do :; done; eval \"$last\"");
    script(&house.path("shell"), &shell);
    let config = house.config(&[("one", json!({ "command": "greeter", "args": words }))]);
    (house, config)
}

#[test]
fn a_program_that_only_the_login_shell_finds_is_started() {
    let (house, config) = house();
    let mut command = house.command(&["stdio", "--config", &config, "--start-wait", "10"]);
    command.env("SHELL", house.path("shell"));
    let mut host = Running::start(command);
    host.said(|line| {
        line.contains("PATH is extended by that of your login shell") && line.contains("greeter")
    });
    host.initialize(&json!({}));
    let listed = host.ask(1, "tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "one__greet"), "{listed}");
}

#[test]
fn without_the_program_there_the_process_goes_on_as_it_was() {
    let (house, config) = house();
    std::fs::remove_dir_all(house.path("only-here")).unwrap();
    let mut command = house.command(&["stdio", "--config", &config, "--start-wait", "1"]);
    command.env("SHELL", house.path("shell"));
    let mut host = Running::start(command);
    host.initialize(&json!({}));
    let listed: Value = host.ask(1, "tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(!tools.iter().any(|tool| tool["name"] == "one__greet"), "{listed}");
}
