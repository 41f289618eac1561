//! Failures of registries and indexes of packages, as a person reads them, and hostile answers.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::process::{Command, Stdio};

use hospes_registry_testkit::{RegistryFault, RegistryServer};
use serde_json::{Value, json};

use crate::support::terminal::Terminal;
use crate::support::{House, Ran, installed};

/// Maximum length of what is printed about one entry or failure.
const MAX_TEXT: usize = 20_000;

/// A folder and a registry.
struct FaultyHouse {
    house: House,
    registry: RegistryServer,
}

impl FaultyHouse {
    fn new() -> Self {
        let registry = RegistryServer::start();
        registry.publish_clocks(true);
        Self { house: House::new(), registry }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.house.command_at(&self.registry, args);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        Ran::of(self.command(args).envs(env.iter().copied()).output().unwrap())
    }

    fn config(&self) -> String {
        self.house.read("config/hospes/config.toml")
    }
}

/// Arguments, fault of the registry, a variable of the environment, and texts of the error.
type FailureCase<'a> = (&'a [&'a str], Option<RegistryFault>, Option<(&'a str, &'a str)>, &'a [&'a str]);

/// Every failure says what happened, why, and what to do; and nothing is left behind.
#[test]
fn failures_say_what_why_and_what_to_do() {
    let house = FaultyHouse::new();
    let nobody = ("HOSPES_REGISTRY", "http://127.0.0.1:1");
    let no_npm = ("npm_config_registry", "http://127.0.0.1:1");
    let no_pypi = ("UV_DEFAULT_INDEX", "http://127.0.0.1:1/simple");
    let empty = house.house.path("empty").display().to_string();
    let no_programs = ("PATH", empty.as_str());
    let no_data = house.house.write("a-file", "").display().to_string();
    let no_data = ("XDG_DATA_HOME", no_data.as_str());
    let clock = ["add", "--yes", "io.github.loopback/clock-pypi"];
    let npm = ["add", "--yes", "npm:loopback-clock"];
    let pypi = ["add", "--yes", "pypi:loopback-clock"];
    let status = |status| Some(RegistryFault::Status(status));
    let html = || Some(RegistryFault::Html);
    let cases: Vec<FailureCase<'_>> = vec![
        (&["add", "--yes", "io.github.nobody/nothing"], None, None, &["has no", "hospes search"]),
        (&["search", "words-that-nobody-has"], None, None, &["no server"]),
        (
            &["search", "clock"],
            None,
            Some(nobody),
            &["could not be reached: no connection", "check the network"],
        ),
        (&clock, None, Some(nobody), &["could not be reached: no connection", "check the network"]),
        (&clock, status(429), None, &["answered 429", "try again in some minutes"]),
        (&clock, status(500), None, &["answered 500", "try again later"]),
        (&clock, status(403), None, &["answered 403", "refuses this network"]),
        (&clock, html(), None, &["a page of HTML", "check the URL"]),
        (&clock, Some(RegistryFault::Redirect("https://other.example/".to_owned())), None, &["redirects to"]),
        (&clock, Some(RegistryFault::Body("{".to_owned())), None, &["not valid JSON", "check the URL"]),
        (&["add", "--yes", "npm:loopback-nothing"], None, None, &["has no package loopback-nothing@latest"]),
        (
            &["add", "--yes", "pypi:loopback-nothing"],
            None,
            None,
            &["has no package loopback-nothing==latest"],
        ),
        (&["add", "--yes", "npm:loopback-clock@9.9.9"], None, None, &["has no package loopback-clock@9.9.9"]),
        (&npm, None, Some(no_npm), &["could not be reached: no connection", "check the network"]),
        (&pypi, None, Some(no_pypi), &["could not be reached: no connection", "check the network"]),
        (&npm, status(429), None, &["status 429", "try again in some minutes"]),
        (&npm, status(500), None, &["status 500", "try again later"]),
        (&npm, status(401), None, &["status 401", "demands a sign-in"]),
        (&npm, html(), None, &["a page of HTML", "npm_config_registry"]),
        (&pypi, html(), None, &["a page of HTML", "UV_DEFAULT_INDEX"]),
        (&npm, Some(RegistryFault::Body("{".to_owned())), None, &["not valid JSON", "npm_config_registry"]),
        (&npm, None, Some(no_programs), &["npm is needed", "https://nodejs.org"]),
        (&pypi, None, Some(no_programs), &["uv is needed", "https://docs.astral.sh/uv"]),
        (
            &["add", "--yes", "--no-install", "npm:loopback-clock"],
            None,
            Some(no_programs),
            &["npx could not be started", "npx was not found in PATH", "https://nodejs.org"],
        ),
        (&npm, None, Some(no_data), &["cannot install into", "free some space"]),
        (&["add", "--yes", "https://example.com/x.mcpb"], None, None, &["hash of the bundle", "--sha256"]),
        (
            &["add", "--yes", "./nothing.mcpb"],
            None,
            None,
            &["cannot read ./nothing.mcpb: No such file", "correct the path"],
        ),
        (
            &["update", "nothing"],
            None,
            None,
            &["has no server `nothing`", "there are no servers; `hospes add`"],
        ),
        (
            &["remove", "nothing", "--yes"],
            None,
            None,
            &["has no server `nothing`", "there are no servers; `hospes add`"],
        ),
    ];
    for (args, fault, env, expected) in cases {
        if env == Some(no_data) && installed("npm").is_none() {
            continue;
        }
        house.registry.set_index_fault(fault.clone());
        let ran = house.run(args, env.as_slice());
        // For the reader of the test's output.
        eprintln!("$ hospes {} {env:?} {fault:?}\n{}", args.join(" "), ran.stderr);
        for text in expected {
            assert!(ran.stderr.contains(text), "{args:?} {fault:?}: no {text:?} in {ran:?}");
        }
        // A search without results is no failure.
        assert!(ran.code != Some(0) || ran.stderr.contains("has all words"), "{ran:?}");
        assert!(!ran.stderr.contains("could not be reached: the server could not be reached"), "{ran:?}");
        assert!(
            ran.stderr.contains("hint: ") || args[0] == "search",
            "{args:?} {fault:?}: no advice in {ran:?}"
        );
        assert_eq!(house.config(), "", "{args:?}");
    }
}

/// Texts of a hostile registry and index reach the terminal without their control characters, in bounded length, and none of
/// them becomes an option or a path.
#[test]
fn hostile_entries_are_printed_harmlessly_and_not_run() {
    let house = FaultyHouse::new();
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}gnp.exe\u{2066}\r\nerror: \u{9b}31m";
    let long = "x".repeat(90);
    let package = |change: &dyn Fn(&mut Value)| {
        let mut package = json!({
            "registryType": "npm", "identifier": "loopback-clock", "version": "1.0.0",
            "transport": { "type": "stdio" },
        });
        change(&mut package);
        package
    };
    let input = |name: &str| json!({ "name": name, "description": evil, "value": evil });
    let packages: Vec<(&str, Value)> = vec![
        ("option", package(&|one| one["identifier"] = "--registry=http://evil.example".into())),
        ("dots", package(&|one| one["identifier"] = "../../../../etc".into())),
        ("escape", package(&|one| one["identifier"] = evil.into())),
        ("version", package(&|one| one["version"] = "../../../../tmp".into())),
        ("versionopt", package(&|one| one["version"] = "--global".into())),
        ("url", package(&|one| one["version"] = "https://evil.example/x.tgz".into())),
        (
            "python",
            package(&|one| {
                one["registryType"] = "pypi".into();
                one["identifier"] = "--index-url".into();
            }),
        ),
        (
            "gopath",
            package(&|one| {
                one["registryType"] = "go".into();
                one["identifier"] = "-toolexec=sh".into();
            }),
        ),
        (
            "crate",
            package(&|one| {
                one["registryType"] = "cargo".into();
                one["identifier"] = "--git=https://evil.example".into();
            }),
        ),
        ("variable", package(&|one| one["environmentVariables"] = json!([input("LD_PRELOAD=x")]))),
        ("loader", package(&|one| one["environmentVariables"] = json!([input("LD_PRELOAD")]))),
        (
            "argument",
            package(&|one| one["packageArguments"] = json!([{ "type": "positional", "value": evil }])),
        ),
        (
            "many",
            package(&|one| {
                let all: Vec<Value> = (0..3000).map(|index| input(&format!("V{index}"))).collect();
                one["environmentVariables"] = all.into();
            }),
        ),
    ];
    for (name, package) in &packages {
        let entry = json!({
            "name": format!("io.github.evil/{name}"), "title": evil, "description": format!("{evil}{long}"),
            "version": "1.0.0", "packages": [package], "websiteUrl": format!("https://evil.example/{evil}"),
        });
        house.registry.publish(entry);
    }
    let mut many = json!({ "name": "io.github.evil/kinds", "description": "x", "version": "1.0.0" });
    many["packages"] = (0..2000).map(|_| package(&|_| {})).collect();
    house.registry.publish(many);
    for version in 0..300 {
        house.registry.publish(json!({
            "name": "io.github.evil/versions", "description": "x", "version": format!("1.0.{version}"),
            "packages": [package(&|_| {})],
        }));
    }
    let is_harmless = |text: &str| {
        let is_hostile = |sign: char| {
            (sign.is_control() && sign != '\n')
                || matches!(sign, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        !text.contains(is_hostile) && text.len() <= MAX_TEXT
    };
    let check = |args: &[&str]| {
        let ran = house.run(args, &[]);
        for text in [&ran.stdout, &ran.stderr] {
            assert!(is_harmless(text), "{args:?}: {:?}", text.chars().take(2000).collect::<String>());
        }
        ran
    };
    assert_eq!(check(&["search", "evil"]).code, Some(0));
    for name in
        ["option", "dots", "escape", "version", "versionopt", "url", "python", "gopath", "crate", "variable"]
    {
        let ran = check(&["add", "--yes", &format!("io.github.evil/{name}")]);
        assert_eq!(ran.code, Some(1), "{name}: {ran:?}");
    }
    for name in ["loader", "argument", "many", "kinds", "versions"] {
        check(&["add", "--dry-run", "--no-install", &format!("io.github.evil/{name}")]);
    }
    // An index that answers with hostile versions.
    for version in ["../../../../tmp", "--global", evil, "https://evil.example/x.tgz", ""] {
        let document =
            json!({ "name": "hostile", "version": version, "dist": { "integrity": "sha512-AAAA" } });
        house.registry.add_file("evil/hostile/latest", document.to_string());
        let index = format!("{}/evil", house.registry.url());
        let ran = house.run(&["add", "--yes", "npm:hostile"], &[("npm_config_registry", &index)]);
        assert!(ran.code != Some(0) && is_harmless(&ran.stderr), "{version:?}: {ran:?}");
    }
    for word in
        ["npm:--global", "npm:../x", "pypi:-e==1", "go:-x@v1.0.0", "cargo:../x@1.0.0", "oci:--privileged"]
    {
        assert_eq!(check(&["add", "--yes", word]).code, Some(1), "{word}");
    }
    assert_eq!(house.config(), "");
    assert!(!house.house.path("data/hospes/packages").exists());
}

/// Ctrl-C at each question leaves nothing behind.
#[test]
fn an_interruption_at_any_question_leaves_nothing() {
    if installed("npm").is_none() {
        return;
    }
    let house = FaultyHouse::new();
    let add = ["add", "io.github.loopback/clock-npm"];
    let questions = ["CLOCK_TOKEN", "Install and start it?", "keep the server?"];
    for last in 0..questions.len() {
        let mut terminal = Terminal::start(&house.command(&add), 150, 60);
        for question in &questions[..last] {
            terminal.sees(question);
            terminal.type_keys(if *question == "CLOCK_TOKEN" { "a-secret\r" } else { "\r" });
        }
        terminal.sees(questions[last]);
        terminal.type_keys("\u{3}");
        assert_ne!(terminal.wait(), 0, "{}", terminal.text());
        assert_eq!(house.config(), "", "{}", questions[last]);
        let left: Vec<_> = std::fs::read_dir(house.house.path("data/hospes/packages/clock-npm"))
            .into_iter()
            .flatten()
            .collect();
        assert!(left.is_empty(), "{}: {left:?}", questions[last]);
        assert_eq!(house.run(&["secret", "list"], &[]).stdout.trim(), "");
        // A typed secret that is used again would be asked for no more.
        let _gone = std::fs::remove_file(house.house.path("state/hospes/pending-secrets"));
        let _gone = std::fs::remove_file(house.house.path("state/hospes/credentials"));
    }
}
