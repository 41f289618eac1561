//! Tests of what README and `docs/` print: every command is run, or read by the program's own parser
//! where it cannot be run here, and every setting and rule is read by what reads them. What is not known to this test is an
//! error. Examples in Rust are compiled as documentation tests of the crate `hospes`, which includes the README.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hospes_host::config::ConfigLoader;
use support::{House, Ran, Running, text};

/// The test of a line of a block of shell commands.
enum Means {
    /// A run that succeeds.
    Runs,
    /// A run, with these words added, that continues and prints this text.
    Stays(&'static str, &'static str),
    /// A reading by the program's parser alone, for this reason.
    IsParsed(&'static str),
    /// No test, for this reason: the line is not a command of the program.
    IsListed(&'static str),
}

/// The tests by the beginning of a line; the first that fits.
const LINES: &[(&str, Means)] = &[
    // Before the beginning that fits it, too.
    ("hospes upgrade", Means::Runs),
    ("hospes update", Means::IsParsed("its server is not there; tests/update.rs runs it")),
    ("hospes up", Means::Stays(" --listen 127.0.0.1:0 --console off", "endpoint")),
    ("hospes stdio --profile", Means::IsParsed("its profile is not there; tests/profiles.rs runs it")),
    ("hospes stdio", Means::Runs),
    ("hospes status", Means::Runs),
    ("hospes doctor", Means::Runs),
    ("hospes serve", Means::Stays("", "http://")),
    ("hospes policy", Means::Runs),
    (
        "hospes audit export --syslog",
        Means::IsParsed("no server listens there; tests/fleet_audit.rs runs it"),
    ),
    ("hospes audit", Means::Runs),
    ("hospes pins list", Means::Runs),
    ("hospes pins show", Means::Runs),
    ("hospes pins history", Means::Runs),
    ("hospes state migrate", Means::IsParsed("it needs PostgreSQL; tests/state_migrate.rs runs it")),
    ("hospes pins accept", Means::IsParsed("a person decides; tests/pins.rs runs it")),
    ("hospes pins reject", Means::IsParsed("a person decides; tests/pins.rs runs it")),
    ("hospes grants", Means::IsParsed("it asks a running host; tests/browser runs it")),
    ("hospes approve", Means::IsParsed("what waits has other ids; tests/approve.rs runs it")),
    (
        "hospes import --yes",
        Means::IsParsed("it changes the configuration of the other lines; tests/import.rs runs it"),
    ),
    ("hospes search", Means::IsParsed("it asks a registry on the public network; tests/search.rs runs it")),
    ("hospes add", Means::IsParsed("it starts what others publish; tests/add.rs runs it")),
    ("hospes remove", Means::IsParsed("its server is not there; tests/add.rs runs it")),
    ("hospes import", Means::Runs),
    (
        "hospes connect cursor --profile",
        Means::IsParsed("its profile is not there; tests/profiles.rs runs it"),
    ),
    ("hospes connect", Means::Runs),
    ("hospes profile show", Means::IsParsed("its profile is not there; tests/profiles.rs runs it")),
    ("hospes profile list", Means::Runs),
    ("hospes disconnect", Means::Runs),
    ("hospes export", Means::Runs),
    ("hospes bundle", Means::Runs),
    ("hospes secret set", Means::IsParsed("it reads a value; tests/import.rs runs it")),
    ("hospes secret remove", Means::IsParsed("its secret is not there; tests/import.rs runs it")),
    ("hospes secret list", Means::Runs),
    (
        "hospes list \"npx",
        Means::IsParsed("it fetches a package from the public network; cargo xtask peers does"),
    ),
    ("hospes list", Means::IsParsed("it may reach the public network; tests/usage.rs runs it")),
    ("hospes call", Means::IsParsed("its server is on the public network; tests/usage.rs runs it")),
    ("hospes chat", Means::IsParsed("it wants a model; tests/chat.rs runs it")),
    ("hospes auth", Means::IsParsed("it opens a browser; cargo xtask browser does")),
    ("hospes console", Means::IsParsed("it opens a browser; cargo xtask browser does")),
    ("cargo run --release", Means::IsListed("it builds the program and is then a command of the program")),
    ("cargo build", Means::IsListed("it builds")),
    ("cargo install", Means::IsListed("it builds")),
    ("cargo xtask", Means::IsListed("a chore of the repository: its name is looked up")),
    ("hospes completions", Means::Runs),
    ("hospes man", Means::Runs),
    ("hospes logs", Means::Runs),
    ("hospes service", Means::IsParsed("it changes the person's services; tests/service.rs runs it")),
    ("man ", Means::IsListed("not a command of the program; tests/man.rs runs it")),
    ("cd ", Means::IsListed("the shell's")),
];

/// The languages of blocks that hold no command, setting or rule.
const OTHERS: [&str; 6] = ["text", "rust", "rust,no_run", "json", "mermaid", "console"];

struct Block {
    place: String,
    language: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn blocks() -> Vec<Block> {
    let mut files = vec!["README.md".to_owned(), "crates/host/src/config/format.md".to_owned()];
    for file in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if Path::new(&name).extension().is_some_and(|ending| ending == "md") {
            files.push(format!("docs/{name}"));
        }
    }
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let mut blocks: Vec<Block> = files.iter().flat_map(|name| of(name, &read(name))).collect();
    // Configurations of nodes, as files and in a manifest.
    let node = |name: &str, text: String| Block { place: name.to_owned(), language: "toml".to_owned(), text };
    blocks.extend(
        ["deploy/compose/hospes.toml", "deploy/systemd/hospes.toml"].map(|name| node(name, read(name))),
    );
    let manifest = read("deploy/kubernetes/configuration.yaml");
    let (_, inner) = manifest.split_once("hospes.toml: |\n").unwrap();
    let inner: Vec<&str> = inner.lines().map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    blocks.push(node("deploy/kubernetes/configuration.yaml", inner.join("\n")));
    blocks
}

/// Folders with the secrets of nodes.
const SECRET_FOLDERS: [&str; 2] = ["/run/secrets", "/run/credentials/hospes-node.service"];

/// The fenced blocks of a page.
fn of(name: &str, page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (number, line) in page.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_open = !is_open;
            if is_open {
                let place = format!("{name}:{}", number + 1);
                blocks.push(Block { place, language: language.to_owned(), text: String::new() });
            }
        } else if is_open && let Some(block) = blocks.last_mut() {
            block.text.push_str(line);
            block.text.push('\n');
        }
    }
    assert!(!is_open, "{name}: a block is not closed");
    blocks
}

/// The servers that the examples name: the real built-in ones, and two that stand for servers of others.
const SERVERS: [&str; 8] = ["everything", "fetch", "files", "git", "mail", "memory", "time", "web"];

/// A person's home with what the examples name.
fn house() -> House {
    let house = House::new();
    for folder in ["home/.cursor", "home/work", "home/project", "home/notes", "config/hospes"] {
        std::fs::create_dir_all(house.path(folder)).unwrap();
    }
    let mail = house.server("mail", &["search", "read_message", "send_email"], "");
    let web = house.server("web", &["search", "read_page"], "");
    let config = house.config(&[("mail", mail), ("web", web)]);
    std::fs::copy(&config, house.path("home/.cursor/mcp.json")).unwrap();
    let work = text(&house.path("home/work"));
    let servers: String = SERVERS
        .iter()
        .map(|name| match *name {
            "files" => {
                format!("[servers.files]\nbuiltin = 'files'\nargs = ['--write', '--delete', '{work}']\n")
            }
            "git" => format!("[servers.git]\nbuiltin = 'git'\nargs = ['--write', '{work}']\n"),
            "mail" | "web" => {
                let script = text(&house.path(&format!("{name}.sh")));
                format!("[servers.{name}]\ncommand = ['sh', '{script}']\n")
            }
            builtin => format!("[servers.{builtin}]\nbuiltin = '{builtin}'\n"),
        })
        .collect();
    house.write("config/hospes/config.toml", &servers);
    std::fs::create_dir(house.path("demo")).unwrap();
    house.write("demo/manifest.json", &smallest_manifest());
    house.write("demo/server.js", "");
    house.write("login.secret", "secret");
    std::fs::create_dir(house.path("secrets")).unwrap();
    for (name, value) in [
        ("ann_password", "0123456789abcdef"),
        ("fleet_secret", "0123456789abcdef0123456789abcdef"),
        ("postgres_password", "0123456789abcdef"),
        ("postgres_url", "postgres://hospes:0123456789abcdef@db.example.org/hospes"),
        ("redis_password", "0123456789abcdef"),
        ("redis_url", "rediss://hospes:0123456789abcdef@redis.example.org"),
    ] {
        house.write(&format!("secrets/{name}"), &format!("{value}\n"));
    }
    house.write("notes.env", "A=b\n");
    house.write("robot.jwks.json", "{\"keys\":[]}");
    house
}

/// The manifest that `docs/bundles.md` shows.
fn smallest_manifest() -> String {
    let shown =
        blocks().into_iter().find(|block| block.place.contains("bundles.md") && block.language == "json");
    shown.expect("the page shows a manifest").text
}

/// A host that has seen all servers, so that it is known what they offer.
fn host(house: &House) -> Running {
    let args = ["up", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"];
    let host = Running::start(house.command(&args));
    for _ in SERVERS {
        host.said(|line| line.contains("event=ready") || line.contains("event=review-needed"));
    }
    host
}

/// A line of the shell, with the program in its `PATH`.
fn shell(house: &House, line: &str) -> Command {
    let own = house.command(&[]);
    let mut command = Command::new("sh");
    let program = Path::new(env!("CARGO_BIN_EXE_hospes"));
    let path = std::env::var("PATH").unwrap();
    command.args(["-c", line]).current_dir(own.get_current_dir().unwrap());
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("PATH", format!("{}:{path}", program.parent().unwrap().display()));
    command
}

fn run(house: &House, line: &str) -> Ran {
    Ran::of(shell(house, line).stdin(Stdio::null()).output().unwrap())
}

fn is_rules(text: &str) -> bool {
    ["[[rule]]", "[[label]]", "trusted =", "data_flow ="].iter().any(|word| text.contains(word))
}

#[test]
fn every_command_that_is_printed_is_one() {
    let house = house();
    // The README's own rules, and something that was recorded and pinned.
    let rules = blocks().into_iter().find(|block| block.language == "toml" && is_rules(&block.text));
    house.write("config/hospes/policy.toml", &rules.expect("the README shows rules").text);
    let mut host = host(&house);
    let mut seen = 0;
    for block in blocks().iter().filter(|block| block.language == "sh") {
        let lines =
            block.text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            let place = &block.place;
            let means = LINES.iter().find(|(begin, _)| line.starts_with(begin));
            let (_, means) =
                means.unwrap_or_else(|| panic!("{place}: nobody knows what to do with `{line}`"));
            // Two spaces and more stand before a remark.
            let bare = line.split("  ").next().unwrap().trim_end().split(" #").next().unwrap();
            check(&house, bare, means, place);
            seen += 1;
        }
    }
    assert!(seen > 20, "only {seen} commands were found");
    host.signal("-TERM");
    host.wait();
}

fn check(house: &House, line: &str, means: &Means, place: &str) {
    match means {
        Means::Runs => {
            let ran = run(house, line);
            // Servers of the examples wait for a person to accept them, which is a warning.
            let has_warnings = ran.code == Some(2) && line.starts_with("hospes doctor");
            assert!(ran.code == Some(0) || has_warnings, "{place}: `{line}`: {ran:?}");
        }
        Means::Stays(more, said) => {
            // A port of its own, whatever the example says.
            let words: Vec<String> = line.split(' ').map(a_free_port).collect();
            let line = format!("exec {}{more}", words.join(" "));
            let mut running = Running::start(shell(house, &line));
            running.said(|heard| heard.contains(said));
            running.signal("-TERM");
            running.wait();
        }
        Means::IsParsed(why) => {
            assert!(!why.is_empty(), "{place}: `{line}` is not run, for no reason");
            // The parser stops at the first word that it does not know, which is the last.
            let ran = run(house, &format!("{line} --no-such-flag"));
            assert_eq!(ran.code, Some(1), "{place}: `{line}`: {ran:?}");
            assert!(ran.stderr.contains("--no-such-flag"), "{place}: `{line}`: {}", ran.stderr);
        }
        Means::IsListed(why) => {
            assert!(!why.is_empty(), "{place}: `{line}` is not run, for no reason");
            let Some(chore) = line.strip_prefix("cargo xtask ").and_then(|rest| rest.split(' ').next())
            else {
                return;
            };
            let xtask = std::fs::read_to_string(root().join("xtask/src/main.rs")).unwrap().to_lowercase();
            assert!(xtask.contains(chore), "{place}: xtask has no chore `{chore}`");
        }
    }
}

fn a_free_port(word: &str) -> String {
    match word.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && host.starts_with("127.") => format!("{host}:0"),
        _ => word.to_owned(),
    }
}

/// A rule that is printed fits a tool of the server that it names, as the real server offers it.
#[test]
fn every_setting_and_rule_that_is_printed_is_read_and_fits_something() {
    let house = house();
    let home = text(&house.path("home"));
    let mut host = host(&house);
    host.signal("-TERM");
    host.wait();
    let (mut settings, mut rules) = (0, 0);
    for block in blocks().iter().filter(|block| block.language == "toml") {
        if is_rules(&block.text) {
            let file = text(&house.write("rules.toml", &block.text));
            let option =
                if block.text.contains("\ndelegable = ") { "--organization-policy" } else { "--policy" };
            let ran = house.run(&["--json", "policy", "check", option, &file]);
            assert_eq!(ran.code, Some(0), "{}: {ran:?}", block.place);
            let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
            // The house has no sign-in, and so no groups and no team.
            let is_of_groups = |part: &serde_json::Value| {
                let is_said = |message: &str| {
                    message.contains("no groups are read") || message.contains("set [console.team]")
                };
                part["message"].as_str().is_some_and(is_said)
            };
            let mut unmatched = told["unmatched"].as_array().unwrap().clone();
            unmatched.retain(|part| !is_of_groups(part));
            let nothing = serde_json::json!([]);
            assert_eq!((&unmatched.into(), &told["unseen"]), (&nothing, &nothing), "{}", block.place);
            rules += 1;
        } else {
            let secrets = text(&house.path("secrets"));
            let settings_text =
                SECRET_FOLDERS.iter().fold(block.text.clone(), |read, folder| read.replace(folder, &secrets));
            let file = house.write("hospes.toml", &settings_text);
            let variables = |name: &str| match name {
                "HOME" => Some(home.clone()),
                "HOSPES_NODE_ADDRESS" => Some("10.0.0.7:7400".to_owned()),
                "FLEET_POSTGRES" => Some("postgres://hospes@localhost/hospes".to_owned()),
                "FLEET_REDIS" => Some("redis://localhost".to_owned()),
                _ => Some("0123456789abcdef0123456789abcdef".to_owned()),
            };
            let read = ConfigLoader::new()
                .variables(variables)
                .secrets(|name| Ok(Some(name.to_owned())))
                .load([&file]);
            assert!(read.is_ok(), "{}: {}", block.place, read.as_ref().err().unwrap());
            for profile in &read.unwrap().profiles {
                let ran = house.run(&["profile", "show", &profile.name, "--config", &text(&file)]);
                assert_eq!(
                    (ran.code, ran.stderr.as_str()),
                    (Some(0), ""),
                    "{}: {}",
                    block.place,
                    profile.name
                );
            }
            settings += 1;
        }
    }
    assert!(settings >= 2 && rules >= 2, "only {settings} settings and {rules} rules were found");
    // And one that fits nothing is found.
    let file =
        text(&house.write("rules.toml", "[[rule]]\ndecide = 'allow'\nserver = 'files'\ntool = 'read_*'\n"));
    let ran = house.run(&["--json", "policy", "check", "--policy", &file]);
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        told["unmatched"][0]["message"],
        "rule 1: `tool`: no tool of `files` matches `read_*`; did you mean `read`?"
    );
}

/// Commands of `docs/policy.md` say what is printed below them, by the rules that are printed above them.
#[test]
fn what_the_reference_of_rules_shows_is_what_is_said() {
    let house = house();
    let mut host = host(&house);
    host.signal("-TERM");
    host.wait();
    let home = text(&house.path("home"));
    let blocks: Vec<Block> =
        blocks().into_iter().filter(|block| block.place.starts_with("docs/policy.md")).collect();
    let mut compared = 0;
    for pair in blocks.windows(2) {
        let [block, below] = pair else { unreachable!("windows of two") };
        match (block.language.as_str(), below.language.as_str()) {
            ("toml", _) => {
                house.write("config/hospes/policy.toml", &block.text);
            }
            ("sh", "text") => {
                let ran = block.text.lines().map(|line| {
                    let ran = run(&house, &line.replace("/home/ada", &home));
                    assert_eq!(ran.code, Some(0), "{}: `{line}`: {ran:?}", block.place);
                    assert_eq!(ran.stderr, "", "{}: `{line}`", block.place);
                    ran.stdout
                });
                let said: String = ran.collect();
                let said =
                    said.replace(&text(&house.path("config")), "~/.config").replace(&home, "/home/ada");
                assert_eq!(said, below.text, "{}", below.place);
                compared += 1;
            }
            _ => (),
        }
    }
    assert!(compared >= 3, "only {compared} outputs were compared");
}

#[test]
fn what_is_printed_is_of_a_kind_that_is_looked_at() {
    for block in blocks() {
        let language = block.language.as_str();
        let is_known = ["sh", "toml"].contains(&language) || OTHERS.contains(&language);
        assert!(is_known, "{}: nobody looks at blocks of `{language}`", block.place);
    }
    let library = std::fs::read_to_string(root().join("crates/hospes/src/lib.rs")).unwrap();
    assert!(library.contains("include_str!(\"../../../README.md\")"), "nothing compiles the README's Rust");
    let broken = of("x", "```sh\nhospes fly\n```\n");
    assert!(LINES.iter().all(|(begin, _)| !broken[0].text.starts_with(begin)));
}
