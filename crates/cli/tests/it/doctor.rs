//! Tests of `hospes doctor`: faults are made, and the doctor names the step and what mends it.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{House, Ran, Running, checks};

/// Answers each request with the response of its path, until the test ends.
fn web(responses: &'static [(&'static str, &'static str)]) -> SocketAddr {
    checks::web(Box::new(move |path, _| {
        let found = responses.iter().find(|(known, _)| *known == path);
        let response =
            found.map_or("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n", |(_, response)| response);
        let body = if response.contains("text/html") { "<html>Sign in</html>" } else { "" };
        format!("{response}Connection: close\r\n\r\n{body}")
    }))
}

fn script(house: &House, name: &str, text: &str, mode: u32) -> String {
    let file = house.write(name, text);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    file.to_str().unwrap().to_owned()
}

fn doctor(house: &House, args: &[&str]) -> (Ran, Value) {
    let mut all = vec!["doctor", "--json", "--connect-timeout", "5"];
    all.extend(args);
    let ran = house.run(&all);
    let value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (ran, value)
}

/// The code, and what mends it, of the first fault of a target.
fn fault(report: &Value, target: &str) -> (String, String) {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["target"] == target && check["status"] == "fault");
    let found = found.unwrap_or_else(|| panic!("no fault of {target}: {report:#}"));
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    (text("code"), text("mend"))
}

/// For a page of the console, each check is a line as soon as it ends; the report is the last one.
#[test]
fn the_checks_are_told_as_they_end_to_the_host_that_asks() {
    let house = House::new();
    let servers = json!({ "mcpServers": { "gone": { "command": house.path("nothing") } } });
    let config = house.write("mcp.json", &servers.to_string());
    let config = config.to_str().unwrap();
    let mut command = house.command(&["doctor", "--json", "--for-host=1", "--config", config, "--", "gone"]);
    // Standard input stays open: its end is the end of the host.
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let (report, steps) = lines.split_last().unwrap();
    assert!(steps.iter().all(|line| line["event"] == "check"), "{lines:?}");
    let fault = steps.iter().find(|line| line["status"] == "fault").unwrap();
    assert_eq!((&fault["code"], &fault["step"]), (&json!("C02"), &json!("command")));
    assert_eq!((&report["event"], &report["ok"]), (&json!("report"), &json!(false)));
    assert_eq!(report["checks"].as_array().unwrap().len(), steps.len(), "{lines:?}");
    // The host is gone: a server that never answers is not waited for.
    let mute = script(&house, "mute", "#!/bin/sh\nwhile read -r line; do :; done\n", 0o700);
    let servers = json!({ "mcpServers": { "mute": { "command": mute } } });
    let config = house.write("mute.json", &servers.to_string());
    let config = config.to_str().unwrap();
    let mut command = house.command(&["doctor", "--json", "--for-host=1", "--config", config, "--", "mute"]);
    let ran = Ran::of(command.stdin(Stdio::null()).output().unwrap());
    assert!(ran.code == Some(130) && ran.stderr.contains("interrupted"), "{ran:?}");
}

#[test]
fn each_fault_is_found_at_its_step_with_what_mends_it() {
    let house = House::new();
    let web = web(&[
        ("/locked", "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n"),
        ("/page", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"),
        ("/proxy", "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n"),
        ("/host", "HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n"),
    ]);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let future = house.server("future", &[], "");
    house.write("future.sh", &house.read("future.sh").replace("2025-06-18", "2099-01-01"));
    let servers = json!({
        "missing": { "command": house.path("nothing") },
        "launcher": { "command": "uvx-of-nobody" },
        "forbidden": { "command": script(&house, "forbidden", "#!/bin/sh\n", 0o600) },
        "interpreter": { "command": script(&house, "interpreter", "#!/none/dnx\n", 0o700) },
        "folder": { "command": "cat", "cwd": house.path("none") },
        "unset": { "command": "cat", "env": { "KEY": "${NOBODY_SETS_THIS}" } },
        "noisy": { "command": script(&house, "noisy", "#!/bin/sh\necho 'Listening on stdin'\ncat > /dev/null\n", 0o700) },
        "dies": { "command": script(&house, "dies", "#!/bin/sh\necho 'KEY is required' >&2\nexit 3\n", 0o700) },
        "mute": { "command": script(&house, "mute", "#!/bin/sh\nwhile read -r line; do :; done\n", 0o700) },
        "future": future,
        "refused": { "url": format!("http://{closed}/mcp") },
        "dns": { "url": "https://does-not-exist.invalid/mcp" },
        "tls": { "url": format!("https://{web}/mcp") },
        "locked": { "url": format!("http://{web}/locked") },
        "page": { "url": format!("http://{web}/page") },
        "proxy": { "url": format!("http://{web}/proxy") },
        "host-header": { "url": format!("http://{web}/host") },
        "path": { "url": format!("http://{web}/elsewhere") },
        "well": house.server("well", &["look"], ""),
    });
    let config = house.write("config.json", &json!({ "mcpServers": servers }).to_string());
    let (ran, report) = doctor(&house, &["--config", config.to_str().unwrap()]);
    assert_eq!((ran.code, &report["ok"]), (Some(1), &json!(false)), "{ran:?}");
    for (target, code, mend) in [
        ("missing", "C02", "correct the path"),
        ("launcher", "C02", "install uv"),
        ("forbidden", "C03", "chmod +x"),
        ("interpreter", "C03", "install the .NET"),
        ("folder", "C05", "mkdir -p"),
        ("unset", "C01", "hospes secret set unset.NOBODY_SETS_THIS"),
        ("noisy", "S02", "log to stderr"),
        ("dies", "S01", "when you run it: "),
        ("mute", "S03", "--connect-timeout"),
        ("refused", "N02", "start the server, or correct the port"),
        ("dns", "N01", "correct the name"),
        ("tls", "N04", "https"),
        ("locked", "O01", "hospes secret set locked.TOKEN"),
        ("page", "N03", "/mcp"),
        ("proxy", "N03", "export HTTP_PROXY="),
        ("host-header", "N06", "allowed hosts"),
        ("path", "N05", "/mcp"),
    ] {
        let (found, said) = fault(&report, target);
        assert_eq!(found, code, "{target}: {report:#}");
        assert!(said.contains(mend), "{target}: {said}");
    }
    let (found, _) = fault(&report, "future");
    assert_eq!(found, "S04", "{report:#}");
    let checks = report["checks"].as_array().unwrap();
    let said = checks.iter().find(|check| check["target"] == "dies" && check["status"] == "fault").unwrap();
    assert_eq!(said["evidence"], "KEY is required");
    let well: Vec<&Value> = checks.iter().filter(|check| check["target"] == "well").collect();
    assert!(!well.is_empty() && well.iter().all(|check| check["status"] == "ok"), "{well:?}");
    for name in ["well", "future", "mute"] {
        let running = house.read(&format!("{name}.pid"));
        let is_gone = running.trim().is_empty() || !Path::new("/proc").join(running.trim()).exists();
        assert!(is_gone, "{name} is ended");
    }
}

#[test]
fn the_host_and_applications_are_checked() {
    let house = House::new();
    for folder in ["home/.cursor", "home/.codex", "config/hospes", "state/hospes"] {
        std::fs::create_dir_all(house.path(folder)).unwrap();
    }
    house.write("config/hospes/policy.toml", "[[rule]]\ndecide = 'maybe'\n");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    house.write(
        "config/hospes/config.toml",
        &format!("[endpoint]\nlisten = '{address}'\n[servers.time]\nbuiltin = 'time'\n"),
    );
    script(&house, "state/hospes/audit.key", "00", 0o644);
    let entry = json!({ "command": house.path("bin/hospes"), "args": ["stdio"] });
    house.write("home/.cursor/mcp.json", &json!({ "mcpServers": { "hospes": entry } }).to_string());
    house.write("home/.codex/config.toml", "[mcp_servers\n");
    let (ran, report) = doctor(&house, &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let codes: Vec<&str> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["target"] == "host" && check["status"] == "fault")
        .map(|check| check["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes, ["H01", "H06", "H13"], "{report:#}");
    let port = report["checks"].as_array().unwrap().iter().find(|check| check["code"] == "H01").unwrap();
    assert!(port["what"].as_str().unwrap().contains(&address.to_string()), "{port:#}");
    if cfg!(target_os = "linux") {
        let mend = port["mend"].as_str().unwrap();
        let is_named = mend.ends_with(&format!(" (process {})", std::process::id()));
        assert!(
            is_named && mend.contains(", or end ") && !mend.contains("kill"),
            "this test has the port: {port:#}"
        );
    }
    // An address that no other program can have.
    drop(taken);
    house.write("config/hospes/config.toml", "[endpoint]\nlisten = '192.0.2.1:1'\n");
    let (_, report_of_address) = doctor(&house, &[]);
    let (code, found) = fault(&report_of_address, "host");
    assert!(code == "H01" && !found.contains("other program"), "{report_of_address:#}");
    assert_eq!(fault(&report, "cursor").0, "A04");
    assert_eq!(fault(&report, "codex").0, "A02");
    let (_, report) = doctor(&house, &["zed"]);
    assert_eq!(fault(&report, "zed").0, "A01");
    // A file where the folder of the state should be.
    std::fs::remove_dir_all(house.path("state")).unwrap();
    house.write("state", "");
    let (_, report) = doctor(&house, &[]);
    let host = report["checks"].as_array().unwrap().iter().filter(|check| check["target"] == "host");
    let faults: Vec<&Value> = host.filter(|check| check["status"] == "fault").collect();
    assert!(faults.iter().any(|check| check["code"] == "H02"), "{report:#}");

    house.write("config/hospes/config.toml", "[servers\n");
    let (ran, report) = doctor(&house, &[]);
    assert_eq!((ran.code, &*fault(&report, "configuration").0), (Some(1), "C01"));
    let unknown = house.run(&["doctor", "tiem"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
}

#[test]
fn a_report_says_at_its_end_whether_all_is_well() {
    let house = House::new();
    let config = json!({ "mcpServers": { "well": house.server("well", &["look"], ""), "bad": { "command": "none-such" } } });
    let config = house.write("config.json", &config.to_string());
    let config = config.to_str().unwrap();
    let ran = house.run(&["doctor", "--config", config, "well"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.contains("1 tool") && ran.stdout.trim().ends_with("everything that was checked is well"),
        "{ran:?}"
    );
    let ran = house.run(&["doctor", "--config", config, "bad"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stdout.contains("FAILED at command (step 2 of")
            && ran.stdout.trim().ends_with("1 fault, 0 warnings: not ready"),
        "{ran:?}"
    );
    let unknown = house.run(&["doctor", "--config", config, "wel"]);
    assert!(unknown.stderr.contains("did you mean `well`?"), "{unknown:?}");
    let codes = house.run(&["doctor", "--codes"]);
    assert!(codes.stdout.contains("S02  stdout"), "{codes:?}");
}

#[test]
fn a_server_that_is_ready_in_the_running_host_is_not_started_again() {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.server("well", &["look"], "");
    let script = house.path("well.sh");
    let config = format!("[servers.well]\ncommand = ['sh', '{}']\n", script.display());
    house.write("config/hospes/config.toml", &config);
    let args = ["up", "--listen", "127.0.0.1:0", "--console", "off"];
    let host = Running::start(house.command(&args));
    host.said(|line| line.contains("event=ready"));
    let before = house.read("well.pid");
    let (ran, report) = doctor(&house, &["well"]);
    assert_eq!(ran.code, Some(0), "{report:#}");
    assert_eq!(report["checks"][0]["what"], "ready in the running host");
    assert_eq!(house.read("well.pid"), before, "no other process was started");
}
