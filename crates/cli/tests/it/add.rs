//! `hospes add` and `hospes remove`, with a registry on loopback that has real packages.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::process::Command;
use std::time::{Duration, Instant};

use hospes_registry_testkit::RegistryServer;
use serde_json::{Value, json};

use crate::support::terminal::Terminal;
use crate::support::{House, Ran, Running, eventually, installed};

/// Maximum time from a name to the first answered call.
const FIRST_CALL: Duration = Duration::from_secs(60);

/// A folder and a registry.
struct AddHouse {
    house: House,
    registry: RegistryServer,
}

impl AddHouse {
    fn new() -> Self {
        let registry = RegistryServer::start();
        registry.publish_clocks(true);
        Self { house: House::new(), registry }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.house.command(args);
        command.env("HOSPES_REGISTRY", self.registry.url()).env("HOSPES_CREDENTIALS_STORE", "file");
        command.envs(self.registry.environment(&self.house.path("packages")));
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).stdin(std::process::Stdio::null()).output().unwrap())
    }

    fn config(&self) -> String {
        self.house.read("config/hospes/config.toml")
    }
}

/// The stopwatch: from a name to the first answered call, with three keys beside the secret.
#[test]
fn a_name_becomes_an_answered_call_within_a_minute_and_three_keys() {
    if installed("npx").is_none() {
        return;
    }
    let house = AddHouse::new();
    let begun = Instant::now();
    let mut terminal = Terminal::start(&house.command(&["add", "clock npm"]), 100, 40);
    let mut keys = 0;
    let mut press = |terminal: &mut Terminal, seen: &str| {
        terminal.until(seen, |screen| {
            let text = screen.contents();
            text.contains(seen) && !text.ends_with('\n')
        });
        terminal.type_keys("\r");
        keys += 1;
    };
    let seen = terminal.until("a choice or a question", |screen| {
        let text = screen.contents();
        text.contains("Which one?") || text.contains("CLOCK_TOKEN")
    });
    if seen.contains("Which one?") {
        press(&mut terminal, "Which one?");
    }
    terminal.sees("CLOCK_TOKEN");
    terminal.type_keys("a-secret-of-the-test\r");
    press(&mut terminal, "Start it?");
    press(&mut terminal, "keep the server?");
    terminal.sees("added");
    assert_eq!(terminal.wait(), 0, "{}", terminal.text());
    let text = terminal.text();
    assert!(!text.contains("a-secret-of-the-test"), "{text}");
    let called = house.run(&["call", "clock-npm", "now", "--json"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    let took = begun.elapsed();
    eprintln!("from the name to the answer: {took:?}, {keys} keys beside the secret");
    assert!(took <= FIRST_CALL && keys <= 3, "{took:?}, {keys} keys");

    // The person's yes has accepted the definitions: no host holds them back.
    let pins = house.run(&["pins", "list", "--json"]);
    let pins: Value = serde_json::from_str(&pins.stdout).unwrap();
    assert_eq!((&pins[0]["server"], &pins[0]["state"]), (&json!("clock-npm"), &json!("accepted")), "{pins}");
    assert_ne!(pins[0]["decidedBy"], "first use", "{pins}");

    let config = house.config();
    assert!(config.contains("registry = \"io.github.loopback/clock-npm\""), "{config}");
    assert!(config.contains("digest = \"sha512-"), "{config}");
    assert!(config.contains("${secret:") && !config.contains("a-secret-of-the-test"), "{config}");
}

/// A running host uses the new server at once, and stops it when it is removed.
#[test]
fn a_running_host_uses_what_is_added_and_stops_what_is_removed() {
    let house = AddHouse::new();
    let host = Running::start(house.command(&["up", "--listen", "127.0.0.1:0", "--console", "off"]));
    let said = host.said(|line| line.contains("endpoint"));
    let url = said.split(&[' ', '='][..]).find(|word| word.starts_with("http://")).unwrap().to_owned();
    let server = house.house.server("own", &["greet"], "");
    let script = server["args"][0].as_str().unwrap().to_owned();
    let added = house.run(&["add", "--yes", "--json", "--name", "own", "--", "sh", &script]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let value: Value = serde_json::from_str(&added.stdout).unwrap();
    assert_eq!((&value["server"], &value["running"]), (&json!("own"), &json!(true)), "{value}");
    let called = house.run(&["call", &url, "own__greet"]);
    assert_eq!(called.code, Some(0), "{called:?}");

    let removed = house.run(&["remove", "own", "--yes"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    eventually("the removed server has ended", || !house.house.is_running("own"));
    assert!(!house.config().contains("own"), "{}", house.config());
    let unknown = house.run(&["remove", "own", "--yes"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
}

/// A server that does not start leaves nothing behind.
#[test]
fn nothing_stays_of_a_server_that_does_not_start() {
    let house = AddHouse::new();
    let failed = house.run(&["add", "--yes", "--", "sh", "-c", "echo 'no licence' >&2; exit 3"]);
    assert_eq!(failed.code, Some(4), "{failed:?}");
    assert!(
        failed.stderr.contains("no licence") && failed.stderr.contains("nothing was added"),
        "{failed:?}"
    );
    assert_eq!(house.config(), "");
    assert!(!house.house.path("data").exists());
    let missing = house.run(&["add", "--yes", "--", "no-such-program-here"]);
    assert_eq!(missing.code, Some(4), "{missing:?}");
    assert_eq!(house.config(), "");
}

/// A bundle of the registry is checked, unpacked and started; a changed one is refused.
#[test]
fn a_bundle_is_added_if_its_hash_is_right() {
    if installed("node").is_none() {
        return;
    }
    let house = AddHouse::new();
    let secret = format!("token=@{}", house.house.write("token", "s3cret\n").display());
    let added = house.run(&["add", "--yes", "io.github.loopback/clock-bundle", "--secret", &secret]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let config = house.config();
    assert!(config.contains("digest = \"sha256:") && config.contains("bundles"), "{config}");
    let called = house.run(&["call", "clock-bundle", "now"]);
    assert_eq!(called.code, Some(0), "{called:?}");
    assert_eq!(house.run(&["remove", "clock-bundle", "--yes"]).code, Some(0));

    house.registry.add_file("loopback-clock.mcpb", "PK another file".to_owned());
    let refused = house.run(&["add", "--yes", "--name", "other", "io.github.loopback/clock-bundle"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("SHA-256"), "{refused:?}");
    assert!(!house.config().contains("other"));
}

/// The unpacked folder of a bundle goes with a server that does not start.
#[test]
fn the_folder_of_a_bundle_that_does_not_start_is_removed() {
    let house = AddHouse::new();
    std::fs::create_dir(house.house.path("bad")).unwrap();
    let manifest = json!({
        "manifest_version": "0.3", "name": "bad", "version": "1.0.0", "description": "Ends at once",
        "author": { "name": "Tests" },
        "server": {
            "type": "binary", "entry_point": "end.sh",
            "mcp_config": { "command": "sh", "args": ["${__dirname}/end.sh"] },
        },
    });
    house.house.write("bad/manifest.json", &manifest.to_string());
    house.house.write("bad/end.sh", "pwd > \"$HOME/was-here\"; exit 3\n");
    std::fs::create_dir(house.house.path("home")).unwrap();
    let packed = house.run(&["bundle", "bad", "--output", "bad.mcpb"]);
    assert_eq!(packed.code, Some(0), "{packed:?}");
    let failed = house.run(&["add", "--yes", "./bad.mcpb"]);
    assert_eq!(failed.code, Some(4), "{failed:?}");
    let folder = house.house.read("home/was-here");
    assert!(folder.contains("hospes/bundles/bad/1.0.0-"), "it ran in its folder: {folder}");
    assert!(!std::path::Path::new(folder.trim()).exists(), "{folder}");
    assert_eq!(house.config(), "");
}

/// Without a terminal and without `--yes`, nothing is started, and the plan is shown.
#[test]
fn without_a_person_nothing_is_added() {
    let house = AddHouse::new();
    let planned = house.run(&["add", "io.github.loopback/clock-npm"]);
    assert_eq!(planned.code, Some(1), "{planned:?}");
    assert!(planned.stderr.contains("CLOCK_TOKEN"), "the missing secret is named: {planned:?}");
    let secret = house.house.write("token", "s3cret\n");
    let secret = format!("CLOCK_TOKEN=@{}", secret.display());
    let planned = house.run(&["add", "io.github.loopback/clock-npm", "--secret", &secret]);
    assert_eq!(planned.code, Some(1), "{planned:?}");
    assert!(planned.stdout.contains("npx") && !planned.stdout.contains("s3cret"), "{planned:?}");
    assert!(planned.stderr.contains("nobody can be asked"), "{planned:?}");
    assert_eq!(house.config(), "");
    // A secret in an argument is refused, and not repeated.
    let refused = house.run(&["add", "io.github.loopback/clock-npm", "--set", "CLOCK_TOKEN=s3cret", "--yes"]);
    assert!(refused.code == Some(1) && !refused.stderr.contains("s3cret"), "{refused:?}");
    // A name that is not in the registry is not taken from elsewhere.
    let unknown = house.run(&["add", "no-server-has-this-name", "--yes"]);
    assert!(unknown.stderr.contains("npm:NAME@VERSION"), "{unknown:?}");
}
