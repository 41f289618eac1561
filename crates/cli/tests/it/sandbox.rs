//! Servers of the whole program: what they may touch, what of them is shown, and that nothing of them is left.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and say what they leave out")]

use crate::support;

use std::process::{Command, Stdio};

use hospes_sandbox::{SandboxFiles, SandboxHelper, SandboxKind, SandboxProfile};
use serde_json::{Value, json};
use support::{House, Running, eventually, text};

/// A server that does `attempt`, a command of the shell, when it is called, and answers with what that prints.
fn server(house: &House, name: &str, attempt: &str) -> String {
    let branch = format!(
        r#"*'"method":"tools/call"'*) out=$({{ {attempt}; }} 2>&1 | tr '\n"' '  '); answer "{{\"content\":[{{\"type\":\"text\",\"text\":\"$out\"}}]}}";;"#
    );
    house.server(name, &["try"], &branch);
    text(&house.path(&format!("{name}.sh")))
}

/// Writes the configuration of one server that runs the script.
fn toml(house: &House, script: &str, more: &str) -> String {
    let file =
        house.write("hospes.toml", &format!("[servers.one]\ncommand = [\"sh\", \"{script}\"]\n{more}\n"));
    text(&file)
}

fn stdio(mut command: Command) -> Running {
    command.args(["--start-wait", "10", "--no-audit"]);
    let mut host = Running::start(command);
    host.initialize(&json!({}));
    host
}

fn called(host: &mut Running) -> String {
    let answer = host.ask(7, "tools/call", &json!({ "name": "one__try" }));
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn status(host: &mut Running) -> Value {
    let read = host.ask(8, "resources/read", &json!({ "uri": "hospes://status" }));
    let status: Value =
        serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    status["servers"][0].clone()
}

/// Those of the two that work on this machine.
fn kinds() -> Vec<&'static str> {
    let all = [("bubblewrap", SandboxKind::Bubblewrap), ("landlock", SandboxKind::Landlock)];
    let works = |kind| {
        SandboxHelper::at("any")
            .launch(&SandboxProfile::new().with_files(SandboxFiles::new()).with_kind(kind), None)
    };
    let found = all.into_iter().filter_map(|(name, kind)| match works(kind) {
        Ok(_) => Some(name),
        Err(why) => {
            eprintln!("SKIPPED, not tested on this machine: {why}");
            None
        }
    });
    found.collect()
}

#[test]
fn a_server_touches_what_it_was_granted_and_nothing_else() {
    let house = House::new();
    let shared = house.path("shared");
    std::fs::create_dir(&shared).unwrap();
    house.write("shared/note", "granted");
    house.write("secret", "s3cret");
    let at = |name: &str| text(&house.path(name));
    let attempt = format!(
        "cat '{}'; cat '{}'; echo x > '{}' && echo written",
        at("shared/note"),
        at("secret"),
        at("new")
    );
    let script = server(&house, "one", &attempt);
    // What the script writes down for the test.
    let logs = ["one.log", "one.pid"].map(|name| text(&house.write(name, "")));
    let open = toml(&house, &script, "");
    let mut host = stdio(house.command(&["stdio", "--config", &open]));
    assert_eq!(called(&mut host).trim(), "granteds3cretwritten");
    std::fs::remove_file(house.path("new")).unwrap();
    for kind in kinds() {
        let sandbox = format!(
            "sandbox = {{ kind = \"{kind}\", network = \"none\", files = {{ read = [\"{script}\", \"shared\"], write = {logs:?} }} }}"
        );
        let config = toml(&house, &script, &sandbox);
        let mut host = stdio(house.command(&["stdio", "--config", &config]));
        let said = called(&mut host);
        assert!(said.starts_with("granted"), "{kind}: {said}");
        assert!(!said.contains("s3cret"), "{kind}: {said}");
        // In a `/tmp` of its own it may write what it likes.
        assert!(!house.path("new").exists(), "{kind}");
        let status = status(&mut host);
        assert_eq!(status["process"]["sandbox"]["means"], kind, "{status}");
        assert_eq!(status["process"]["sandbox"]["network"], "none", "{status}");
        assert_eq!(status["process"]["sandbox"]["files"]["read"], json!([script, at("shared")]), "{status}");
    }
}

#[test]
fn a_server_gets_no_variable_that_is_not_for_it() {
    let house = House::new();
    let script = server(&house, "one", "env | sed 's/=.*//' | sort");
    for (more, expected) in [
        ("env = { OWN = 'x' }", vec!["HOME", "OWN", "PATH"]),
        ("sandbox = { environment = ['PATH', 'LANG', 'UNSET'] }", vec!["LANG", "PATH"]),
        ("sandbox = { environment = [] }", vec![]),
    ] {
        let config = toml(&house, &script, more);
        let mut command = house.command(&["stdio", "--config", &config]);
        let secrets =
            [("API_TOKEN", "s3cret"), ("NODE_OPTIONS", "--x"), ("LD_LIBRARY_PATH", "/tmp"), ("LANG", "C")];
        command.envs(secrets);
        for name in ["LOGNAME", "SHELL", "TERM", "USER"] {
            command.env_remove(name);
        }
        let said = called(&mut stdio(command));
        // The shell sets these itself.
        let names = said.split_whitespace().filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
        assert_eq!(names.collect::<Vec<_>>(), expected, "{more}");
    }
}

#[test]
fn what_cannot_be_enforced_is_not_started() {
    let house = House::new();
    let script = server(&house, "one", "echo run");
    let sh = "/bin/sh";
    for (sandbox, problem, hint) in [
        ("{ kind = 'bubblewrap', network = 'none' }", "bubblewrap is not installed", "package `bubblewrap`"),
        ("{ files = { read = ['gone'] } }", "cannot grant access to", "create it"),
        ("{ files = { read = ['one.sh'] } }\ncwd = '.'", "is not readable for it", "`cwd`"),
    ] {
        let file = house.write(
            "hospes.toml",
            &format!("[servers.one]\ncommand = ['{sh}', '{script}']\nsandbox = {sandbox}\n"),
        );
        let mut command = house.command(&["stdio", "--config", &text(&file)]);
        // Where there is no bubblewrap.
        command.env("PATH", house.path("."));
        let mut host = stdio(command);
        let status = status(&mut host);
        assert_eq!(status["state"], "retrying", "{status}");
        assert!(status["problem"].as_str().unwrap().contains(problem), "{status}");
        assert!(status["hint"].as_str().unwrap().contains(hint), "{status}");
        // Nor is it by the commands that do without a host.
        let mut list = house.command(&["list", "one", "--config", &text(&file)]);
        let ran = support::Ran::of(list.env("PATH", house.path(".")).stdin(Stdio::null()).output().unwrap());
        assert!(ran.code == Some(4) && ran.stderr.contains(problem), "{ran:?}");
        assert_eq!(house.read("one.log"), "", "it was started");
    }
}

#[test]
fn the_status_shows_the_whole_command() {
    let house = House::new();
    let script = server(&house, "one", "echo");
    let long = "x".repeat(300);
    let config = house.write(
        "hospes.toml",
        &format!(
            "[servers.one]\ncommand = 'sh'\nargs = ['{script}', '{long}', '--token', 'hunter2hunter2']\nenv = {{ NODE_OPTIONS = '--x' }}\n"
        ),
    );
    let host =
        Running::start(house.command(&["up", "--config", &text(&config), "--listen", "0", "--no-audit"]));
    host.said(|line| line.contains("event=ready server=one"));
    let shown = house.run(&["status"]);
    let wanted =
        [&format!("/sh {script} {long} --token [redacted]"), "sandbox: not confined", "NODE_OPTIONS"];
    assert!(wanted.iter().all(|wanted| shown.stdout.contains(wanted)), "{}", shown.stdout);
    assert!(!shown.stdout.contains("hunter2"), "{}", shown.stdout);
    let shown: Value = serde_json::from_str(&house.run(&["status", "--json"]).stdout).unwrap();
    let process = &shown["servers"][0]["process"];
    assert!(process["command"].as_str().unwrap().starts_with('/'), "{process}");
    assert_eq!(process["loaderVariables"], json!(["NODE_OPTIONS"]));
}

/// All processes, with their command lines.
fn processes() -> impl Iterator<Item = (String, Vec<u8>)> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|process| {
        let line = std::fs::read(process.path().join("cmdline")).ok()?;
        Some((process.file_name().into_string().ok()?, line))
    })
}

/// Processes started by a server end with it, however the server or the host ends.
#[test]
fn nothing_of_a_server_outlives_the_host() {
    let marker = format!("hospes-marker-{}", std::process::id());
    let left = || processes().filter(|(_, line)| String::from_utf8_lossy(line).contains(&marker)).count();
    // It daemonises what ignores signals, which the end of its input does not reach.
    let attempt = format!(
        "setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' {marker} </dev/null >/dev/null 2>&1 & echo begun"
    );
    let kinds = std::iter::once("off").chain(kinds());
    for kind in kinds {
        for signal in ["-KILL", "-TERM", "crash"] {
            let house = House::new();
            let script = server(&house, "one", &attempt);
            let config = toml(&house, &script, &format!("sandbox = {{ kind = \"{kind}\" }}"));
            let mut host = stdio(house.command(&["stdio", "--config", &config]));
            assert_eq!(called(&mut host).trim(), "begun");
            eventually("the daemon is there", || left() > 0);
            match signal {
                "crash" => {
                    // The server itself, not what looks after it.
                    let server = format!("sh\0{script}\0");
                    let is_it = |line: &[u8]| {
                        line.starts_with(b"/")
                            && line.ends_with(server.as_bytes())
                            && line.len() < server.len() + 20
                    };
                    let found = processes().find(|(_, line)| is_it(line)).unwrap().0;
                    assert!(Command::new("kill").args(["-KILL", &found]).status().unwrap().success());
                }
                signal => host.signal(signal),
            }
            eventually(&format!("{kind}, {signal}: nothing is left"), || left() == 0);
        }
    }
}
