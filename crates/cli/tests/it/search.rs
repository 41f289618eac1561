//! `hospes search`, against a registry on loopback.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use hospes_registry_testkit::RegistryServer;
use serde_json::Value;

use crate::support::House;

fn texts(house: &House, args: &[&str]) -> (i32, String, String) {
    let done = house.command(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap(), text(&done.stdout), text(&done.stderr))
}

#[test]
fn servers_are_found_and_described() {
    let registry = RegistryServer::start();
    registry.set_status("io.github.rivermill/clock-nuget", "1.0.8", "deprecated", Some("use clock-py"));
    let house = House::new();
    let (code, out, err) = texts(&house, &["search", "clock", "--registry", &registry.url()]);
    assert_eq!(code, 0, "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].starts_with("io.github.rivermill/clock-py 1.0.6") && lines[0].ends_with("12 months ago"),
        "{out}"
    );
    assert_eq!(lines[1], "  The current time in UTC.");
    assert!(
        lines[2].starts_with("io.github.rivermill/clock-nuget 1.0.8") && lines[2].contains("nuget"),
        "{out}"
    );
    assert_eq!(lines[3], "  deprecated: use clock-py");
    assert!(err.contains(&format!("2 servers in {}", registry.image_host())), "{err}");
    let (_, out, _) = texts(&house, &["search", "rivermill", "-n", "1", "--registry", &registry.url()]);
    assert_eq!(out.lines().filter(|line| line.starts_with("io.")).count(), 1, "{out}");
}

#[test]
fn a_list_answers_without_a_connection() {
    let registry = RegistryServer::start();
    let house = House::new();
    let url = registry.url();
    let (code, _, err) = texts(&house, &["search", "--refresh", "weather", "--registry", &url]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("read all entries: 34 servers"), "{err}");
    drop(registry);
    let (code, out, err) = texts(&house, &["search", "random place", "--registry", &url]);
    assert_eq!((code, out.contains("weather-dotnet")), (0, true), "{out}{err}");
    let (code, out, err) = texts(&house, &["search", "--refresh", "weather", "--registry", &url]);
    assert_eq!((code, out.contains("weather-dotnet")), (0, true), "{out}{err}");
    assert!(err.contains("warning: 127.0.0.1"), "{err}");
    let (code, out, err) = texts(&house, &["search", "nonsense", "--registry", &url]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.contains(" has all words of `nonsense`") && err.contains("--refresh"), "{err}");
}

#[test]
fn failures_say_what_to_do() {
    let registry = RegistryServer::start();
    let house = House::new();
    let url = registry.url();
    registry.set_fault(Some(hospes_registry_testkit::RegistryFault::Html));
    let (code, _, err) = texts(&house, &["search", "x", "--registry", &url]);
    assert_eq!(code, 1);
    assert!(err.contains("a page of HTML") && err.contains("hint: check the URL"), "{err}");
    drop(registry);
    let (code, _, err) = texts(&house, &["search", "x", "--registry", &url]);
    assert_eq!(code, 4);
    assert!(err.contains("could not be reached") && err.contains("hint: check the network"), "{err}");
    let (code, _, err) = texts(&house, &["search", "x", "--registry", "ftp://registry.example"]);
    assert_eq!(code, 1);
    assert!(err.contains("it must begin with https://"), "{err}");
    assert_eq!(texts(&house, &["search"]).0, 1, "a word is required");
}

#[test]
fn results_are_available_as_json() {
    let registry = RegistryServer::start();
    let house = House::new();
    let mut command = house.command(&["--json", "search", "tables"]);
    let done = command.env("HOSPES_REGISTRY", registry.url()).output().unwrap();
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        (&found["total"], &found["source"], &found["offline"]),
        (&1.into(), &"registry".into(), &Value::Null)
    );
    let server = &found["servers"][0];
    assert_eq!(server["name"], "io.github.rivermill/tables-mcp");
    assert_eq!(server["kinds"], serde_json::json!(["npm", "oci", "mcpb"]));
    assert_eq!(server["status"], "active");
    assert!(server["publishedAt"].as_str().unwrap().ends_with('Z'), "{server}");
}

#[test]
fn an_entry_cannot_write_to_the_terminal() {
    let mut evil = hospes_registry_testkit::entry("io.github.rivermill/clock-py");
    evil["description"] = "a\u{1b}[2Jb\u{202e}c\nd".into();
    evil["title"] = "\u{9b}31m".into();
    evil["name"] = "io.github.evil/\u{1b}]0;x\u{7}".into();
    let registry = RegistryServer::start_with(vec![evil]);
    let house = House::new();
    let (code, out, err) = texts(&house, &["search", "evil", "--registry", &registry.url()]);
    assert_eq!(code, 0, "{err}");
    let steers = |letter: char| (letter.is_control() && letter != '\n') || hospes_policy_hidden(letter);
    assert!(out.contains("evil") && !out.chars().any(steers), "{out:?}");
    assert_eq!(out.lines().count(), 2, "{out}");
}

fn hospes_policy_hidden(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
}
