//! Tests of `hospes connect` and `hospes disconnect`, with the files of applications in a folder of their own.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Stdio;

use serde_json::{Value, json};
use support::{House, Ran, Running};

const TOKEN: &str = "hunter2-of-the-tests";

/// Cursor with a BOM, CRLF, comments and trailing commas.
pub(crate) const CURSOR: &str = "\u{feff}{\r\n  // mine\r\n  \"mcpServers\": {\r\n    \"github\": {\"command\": \"npx\", \"env\": {\"T\": \"hunter2-of-the-tests\"},},\r\n  },\r\n}\r\n";
pub(crate) const CODEX: &str = "model = \"x\" # mine\n[mcp_servers.a]\ncommand = \"a\"";
pub(crate) const GOOSE: &str =
    "# mine\nextensions:\n  a:\n    name: a\n    type: stdio\n    cmd: a\n    enabled: true\n# end\n";

pub(crate) struct Person(pub(crate) House);

impl Person {
    pub(crate) fn new() -> Self {
        let person = Self(House::new());
        person.write("home/.cursor/mcp.json", CURSOR);
        person.write("home/.codex/config.toml", CODEX);
        person.write("config/goose/config.yaml", GOOSE);
        person
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        let file = self.0.path(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let ran = self.0.run(args);
        assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN), "a secret is shown: {ran:?}");
        ran
    }

    pub(crate) fn succeeds(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran
    }

    /// State of an application in the list.
    pub(crate) fn state(&self, application: &str) -> Option<String> {
        let ran = self.succeeds(&["connect", "--json"]);
        let all: Value = serde_json::from_str(&ran.stdout).unwrap();
        let found = all.as_array().unwrap().iter().find(|one| one["application"] == application)?;
        Some(found["state"].as_str().unwrap().to_owned())
    }
}

#[test]
fn connected_files_get_their_bytes_back() {
    let person = Person::new();
    for (id, file, text) in [
        ("cursor", "home/.cursor/mcp.json", CURSOR),
        ("codex", "home/.codex/config.toml", CODEX),
        ("goose", "config/goose/config.yaml", GOOSE),
    ] {
        assert_eq!(person.state(id).unwrap(), "not-connected");
        let ran = person.succeeds(&["connect", id]);
        assert!(ran.stderr.contains("is connected"), "{ran:?}");
        let connected = person.0.read(file);
        let program = env!("CARGO_BIN_EXE_hospes");
        assert!(connected.contains(program) && connected.contains("--application"), "{connected}");
        assert_eq!(person.state(id).unwrap(), "connected");
        let ran = person.succeeds(&["connect", id]);
        assert!(ran.stderr.contains("already connected"), "{ran:?}");
        assert_eq!(person.0.read(file), connected);
        let ran = person.succeeds(&["disconnect", id]);
        assert!(ran.stderr.contains("the file is as it was before"), "{ran:?}");
        assert_eq!(person.0.read(file), text);
        assert_eq!(person.state(id).unwrap(), "not-connected");
    }
    // No back-up is left.
    assert_eq!(std::fs::read_dir(person.0.path("state/hospes/connections")).unwrap().count(), 0);
}

#[test]
fn later_edits_stay() {
    let person = Person::new();
    let file = "home/.cursor/mcp.json";
    person.succeeds(&["connect", "cursor"]);
    let edit = |text: &str| text.replace("// mine", "// mine, edited").replace("npx", "bunx");
    person.write(file, &edit(&person.0.read(file)));
    assert_eq!(person.state("cursor").unwrap(), "connected");
    let ran = person.succeeds(&["disconnect", "cursor"]);
    assert!(ran.stderr.contains("later changes of the file stay"), "{ran:?}");
    assert_eq!(person.0.read(file), edit(CURSOR));
    // An edited entry is removed, too.
    person.write(file, CURSOR);
    person.succeeds(&["connect", "cursor"]);
    person.write(file, &person.0.read(file).replace("\"--application\"", "\"-v\", \"--application\""));
    assert_eq!(person.state("cursor").unwrap(), "changed");
    person.succeeds(&["disconnect", "cursor"]);
    assert_eq!(person.0.read(file), CURSOR);
}

#[test]
fn an_entry_that_is_gone_is_noticed() {
    let person = Person::new();
    person.succeeds(&["connect", "codex"]);
    person.write("home/.codex/config.toml", "model = \"y\"\n");
    assert_eq!(person.state("codex").unwrap(), "gone");
    let ran = person.succeeds(&["disconnect", "codex"]);
    assert!(ran.stderr.contains("already gone"), "{ran:?}");
    assert_eq!(person.0.read("home/.codex/config.toml"), "model = \"y\"\n");
    assert_eq!(person.state("codex").unwrap(), "not-connected");
    person.succeeds(&["connect", "codex"]);
    std::fs::remove_file(person.0.path("home/.codex/config.toml")).unwrap();
    person.succeeds(&["disconnect", "codex"]);
    assert!(!person.0.path("home/.codex/config.toml").exists());
}

#[test]
fn a_created_file_is_deleted() {
    let person = Person::new();
    for edit in ["", "\n"] {
        person.succeeds(&["connect", "kiro"]);
        let file = "home/.kiro/settings/mcp.json";
        let text = person.0.read(file);
        assert!(text.starts_with("{\n  \"mcpServers\": {\n    \"hospes\": {"), "{text}");
        person.write(file, &format!("{text}{edit}"));
        person.succeeds(&["disconnect", "kiro"]);
        assert!(!person.0.path("home/.kiro").exists());
    }
    // One with something else in it stays.
    person.succeeds(&["connect", "kiro"]);
    let file = "home/.kiro/settings/mcp.json";
    person.write(file, &person.0.read(file).replacen('{', "{ \"a\": 1,", 1));
    person.succeeds(&["disconnect", "kiro"]);
    assert!(person.0.read(file).contains("\"a\": 1"));
}

#[test]
fn a_dry_run_shows_a_diff_and_no_values() {
    let person = Person::new();
    let ran = person.succeeds(&["connect", "--dry-run", "cursor"]);
    assert!(ran.stdout.contains("@@ -2,5 +2,9 @@"), "{ran:?}");
    assert!(ran.stdout.contains("\n+    \"hospes\": {\n"), "{ran:?}");
    assert!(ran.stdout.contains("\"T\": \"…\""), "{ran:?}");
    assert_eq!(person.0.read("home/.cursor/mcp.json"), CURSOR);
    assert!(!person.0.path("state/hospes").exists());
}

#[test]
fn files_that_must_not_be_changed_are_left_alone() {
    let person = Person::new();
    let file = person.0.path("home/.cursor/mcp.json");
    let refused = |text: &str, reason: &str| {
        let before = std::fs::read(&file).unwrap();
        let ran = person.run(&["connect", "cursor"]);
        assert!(ran.code == Some(1) && ran.stderr.contains(reason), "{text}: {ran:?}");
        assert_eq!(std::fs::read(&file).unwrap(), before);
    };
    std::fs::write(&file, "{\"mcpServers\": {\"hospes\": {\"url\": \"http://127.0.0.1:7337/mcp\"}}}")
        .unwrap();
    refused("another entry", "another server `hospes`");
    let ran = person.run(&["disconnect", "cursor"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("was not written by `hospes connect`"), "{ran:?}");
    std::fs::write(&file, "{\"mcpServers\": }").unwrap();
    refused("syntax", "not valid JSON");
    assert_eq!(person.state("cursor").unwrap(), "unreadable");
    std::fs::write(&file, "{\"mcpServers\": []}").unwrap();
    refused("form", "add this by hand");
    std::fs::write(&file, b"\xff\xfe{\0}\0").unwrap();
    refused("UTF-16", "iconv -f UTF-16 -t UTF-8");
    std::fs::write(&file, b"{\"a\": \"\xe9\"}").unwrap();
    refused("Latin-1", "save the file as UTF-8");
    std::fs::write(&file, r#"{"mcpServers": {"a": {"command": "a"}}, "mcpServers": {}}"#).unwrap();
    refused("a key twice", "mcpServers");
    std::fs::write(&file, " ".repeat((16 << 20) + 1)).unwrap();
    refused("too large", "at most 16 MiB");
    std::fs::write(&file, CURSOR).unwrap();
    std::fs::hard_link(&file, person.0.path("other")).unwrap();
    refused("hard link", "several hard links");
    std::fs::remove_file(person.0.path("other")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o444)).unwrap();
    refused("read-only", "read-only");
    assert_eq!(std::fs::read_dir(person.0.path("state/hospes/connections")).unwrap().count(), 0);
}

#[test]
fn links_and_modes_stay_and_backups_are_private() {
    let person = Person::new();
    let link = person.0.path("home/.cursor/mcp.json");
    let real = person.0.path("dotfiles.json");
    std::fs::rename(&link, &real).unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&real, &link).unwrap();
    person.succeeds(&["connect", "cursor"]);
    assert!(link.is_symlink());
    assert_eq!(std::fs::metadata(&real).unwrap().mode() & 0o777, 0o640);
    for entry in std::fs::read_dir(person.0.path("state/hospes/connections")).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().mode() & 0o777, 0o600);
    }
    person.succeeds(&["disconnect", "cursor"]);
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(&real).unwrap(), CURSOR);
}

#[test]
fn the_file_of_the_project_is_changed_on_request() {
    let person = Person::new();
    person.succeeds(&["connect", "claude-code", "--project"]);
    assert!(person.0.read(".mcp.json").contains("\"type\": \"stdio\""));
    assert!(!person.0.path("home/.claude.json").exists());
    let ran = person.succeeds(&["disconnect", "claude-code"]);
    assert!(ran.stderr.contains("not connected") && person.0.path(".mcp.json").exists(), "{ran:?}");
    person.succeeds(&["disconnect", "claude-code", "--project"]);
    assert!(!person.0.path(".mcp.json").exists());
    let ran = person.run(&["connect", "goose", "--project"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("has no file of a project"), "{ran:?}");
}

/// Sends lines to `hospes stdio --application cursor`, closes its input and waits.
fn ask(house: &House, lines: &[Value]) -> Ran {
    let mut command = house.command(&["stdio", "--application", "cursor"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for line in lines {
        writeln!(input, "{line}").unwrap();
    }
    drop(input);
    Ran::of(child.wait_with_output().unwrap())
}

fn session() -> Vec<Value> {
    let opening = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
    vec![
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
    ]
}

#[cfg(target_os = "linux")]
#[test]
fn an_application_is_attached_to_the_running_host() {
    let house = House::new();
    let notes = house.server("notes", &["add"], "");
    let config = house.config(&[("notes", notes)]);
    let args = ["up", "--config", &config, "--listen", "127.0.0.1:0", "--console", "off"];
    let mut host = Running::start(house.command(&args));
    host.said(|line| line.contains("event=ready") || line.contains("event=review-needed"));
    for _ in 0..2 {
        let mut lines = session();
        let call = json!({ "name": "notes__add", "arguments": {} });
        lines.push(json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call }));
        let ran = ask(&house, &lines);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.contains("notes was called"), "{ran:?}");
        assert!(!ran.stderr.contains("no running host can be used"), "{ran:?}");
    }
    let audit = house.run(&["audit", "search", "--json"]);
    assert!(audit.stdout.contains("cursor: hospes, process "), "{audit:?}");
    let files = std::fs::read_dir(house.path("run/hospes")).unwrap().flatten();
    let sockets: Vec<_> =
        files.filter(|file| file.file_name().to_string_lossy().ends_with(".attach")).collect();
    assert_eq!(sockets.len(), 1);
    assert_eq!(sockets[0].metadata().unwrap().mode() & 0o777, 0o600);
    host.signal("-TERM");
    host.wait();
    assert!(!sockets[0].path().exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_of_the_host_cannot_attach() {
    let house = House::new();
    let log = house.path("said");
    let script = format!(
        "'{}' stdio --application thief </dev/null >/dev/null 2>'{}.part'; mv '{1}.part' '{1}'; exit 3",
        env!("CARGO_BIN_EXE_hospes"),
        log.display()
    );
    let environment: serde_json::Map<String, Value> = house
        .command(&[])
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value?.to_str()?.into())))
        .collect();
    let thief = json!({ "command": "sh", "args": ["-c", script], "env": environment });
    let config = house.config(&[("thief", thief)]);
    let args = ["up", "--config", &config, "--listen", "127.0.0.1:0", "--console", "off"];
    let mut host = Running::start(house.command(&args));
    support::eventually("the server has tried", || log.exists());
    let said = house.read("said");
    assert!(said.contains("no running host can be used"), "{said}");
    host.signal("-TERM");
    host.wait();
}

#[test]
fn without_a_running_host_one_is_started() {
    let house = House::new();
    let ran = ask(&house, &session());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.contains("\"tools\"") && ran.stderr.contains("no running host can be used"),
        "{ran:?}"
    );
}

/// Asks the endpoint with a token. Returns the status.
fn status_with(endpoint: &str, token: &str) -> String {
    use std::io::Read as _;

    let address = endpoint.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn an_application_has_a_token_of_its_own_until_it_is_disconnected() {
    let person = Person::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    person.write(
        "config/hospes/config.toml",
        &format!(
            "[endpoint]\nlisten = '127.0.0.1:{port}'\ncallers = 'token'\n[servers.time]\nbuiltin = 'time'\n"
        ),
    );
    let mut up = Running::start(person.0.command(&["up", "--console", "off"]));
    up.said(|line| line.contains("event=ready"));
    let endpoint = format!("http://127.0.0.1:{port}/mcp");
    let dry = person.succeeds(&["connect", "--dry-run", "cursor"]).stdout;
    assert!(dry.contains(&endpoint) && dry.contains("<TOKEN>"), "{dry}");
    assert!(!person.0.path("state/hospes/application-tokens.json").exists());
    let connected = person.succeeds(&["connect", "cursor"]);
    let text = person.0.read("home/.cursor/mcp.json");
    let token = text.split("Bearer ").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(text.contains(&endpoint) && token.len() > 30, "{text}");
    assert!(!connected.stdout.contains(&token) && !connected.stderr.contains(&token));
    assert_ne!(status_with(&endpoint, &token), "401");
    assert_eq!(status_with(&endpoint, "another-token"), "401");
    assert_eq!(person.state("cursor").as_deref(), Some("connected"));
    // Another application has another token, and a project's file has none.
    person.succeeds(&["connect", "codex"]);
    let refused = person.run(&["connect", "--project", "--http", "cursor"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("never written into the file of a project"), "{refused:?}");
    person.succeeds(&["connect", "--project", "cursor"]);
    assert!(!person.0.read(".cursor/mcp.json").contains("Bearer"));
    person.succeeds(&["disconnect", "cursor"]);
    assert_eq!(person.0.read("home/.cursor/mcp.json"), CURSOR);
    assert_eq!(status_with(&endpoint, &token), "401", "it is revoked in the running host");
    let codex = person.0.read("home/.codex/config.toml");
    let other = codex.split("Bearer ").nth(1).unwrap().split('"').next().unwrap();
    assert_ne!(status_with(&endpoint, other), "401");
    person.succeeds(&["disconnect", "codex"]);
    assert_eq!(person.0.read("home/.codex/config.toml"), CODEX);
    up.signal("-TERM");
    up.wait();
}

/// Each form of a file is connected, and gets its bytes back; or it is refused with an error that says what to do.
#[test]
fn every_form_of_a_file_is_undone_byte_for_byte() {
    let large = |entry: &str, between: &str| {
        let entries: Vec<String> =
            (0..80_000).map(|number| entry.replace('#', &number.to_string())).collect();
        entries.join(between)
    };
    let history =
        large("\"project-#\": { \"history\": [\"a question of many words\", \"and another\"] }", ",\n    ");
    let cursor = [
        ("an empty file", String::new()),
        ("blanks", " \n\n".to_owned()),
        ("an empty object", "{}".to_owned()),
        ("no key", "{\"theme\": \"dark\"}\n".to_owned()),
        ("an empty key", "{\n\t\"mcpServers\": {}\n}\n".to_owned()),
        ("null", "{\n  \"mcpServers\": null,\n  \"a\": 1\n}".to_owned()),
        (
            "tabs",
            "{\n\t\"mcpServers\": {\n\t\t\"a\": {\n\t\t\t\"command\": \"a\"\n\t\t}\n\t}\n}\n".to_owned(),
        ),
        ("one line", "{ \"mcpServers\": { \"a\": { \"command\": \"a\" } } }".to_owned()),
        ("a mark and CRLF", CURSOR.to_owned()),
        ("mixed line breaks", CURSOR.replacen("\r\n", "\n", 2)),
        (
            "comments",
            "{ // a\n \"mcpServers\": { // b\n  \"a\": {} // c\n  /* d */ }, // e\n}// f".to_owned(),
        ),
        ("a trailing comma", "{\"mcpServers\": {\"a\": {},},}\n".to_owned()),
        ("large", format!("{{\n  \"mcpServers\": {{}},\n  \"projects\": {{\n    {history}\n  }}\n}}\n")),
    ];
    let codex = [
        ("an empty file", String::new()),
        ("CRLF and a mark", "\u{feff}model = 'x'\r\n[mcp_servers.a]\r\ncommand = 'a'\r\n".to_owned()),
        ("no line break at the end", CODEX.to_owned()),
        ("an inline table", "mcp_servers = { a = { command = 'a' } } # mine\n".to_owned()),
        ("dotted keys", "mcp_servers.a.command = 'a'\n[other]\nb = 1\n".to_owned()),
    ];
    let goose = [
        ("an empty file", String::new()),
        ("CRLF", GOOSE.replace('\n', "\r\n")),
        ("no value", "extensions:\n".to_owned()),
        ("null", "a: 1\nextensions: null\n".to_owned()),
        ("a flow", "extensions: {a: {name: a, type: stdio, cmd: a}} # mine\nb: 1\n".to_owned()),
    ];
    let person = Person::new();
    assert!(cursor[12].1.len() > 5 << 20, "{}", cursor[12].1.len());
    for (id, file, forms) in [
        ("cursor", "home/.cursor/mcp.json", &cursor[..]),
        ("codex", "home/.codex/config.toml", &codex),
        ("goose", "config/goose/config.yaml", &goose),
    ] {
        for (form, text) in forms {
            person.write(file, text);
            let ran = person.run(&["connect", id]);
            assert_eq!(ran.code, Some(0), "{id}, {form}: {ran:?}");
            assert_ne!(person.0.read(file), *text, "{id}, {form}");
            assert_eq!(person.state(id).as_deref(), Some("connected"), "{id}, {form}");
            person.succeeds(&["disconnect", id]);
            assert!(person.0.read(file) == *text, "{id}, {form}: {:.400}", person.0.read(file));
        }
        // Nothing of this is a text in which an entry could be inserted.
        for (form, text) in [("null", "null"), ("a list", "[]"), ("a text", "\"a\"")] {
            if id != "codex" {
                person.write(file, text);
                let ran = person.run(&["connect", id]);
                let is_refused = ran.code == Some(1) && ran.stderr.contains("by hand");
                assert!(is_refused || form == "null" && ran.code == Some(0), "{id}, {form}: {ran:?}");
                if ran.code == Some(0) {
                    person.succeeds(&["disconnect", id]);
                }
                assert_eq!(person.0.read(file), text, "{id}, {form}");
            }
        }
    }
}

/// The change that is made is the one that was shown: the file may change in between.
#[test]
fn a_change_that_was_not_shown_is_not_made() {
    let person = Person::new();
    let shown = person.succeeds(&["connect", "--dry-run", "--json", "codex"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let seen = format!("--seen={}", shown["digest"].as_str().unwrap());
    let changed = format!("{CODEX}\n[mcp_servers.b]\ncommand = \"b\"");
    person.write("home/.codex/config.toml", &changed);
    let refused = person.run(&["connect", "codex", &seen]);
    assert!(
        refused.code != Some(0) && refused.stderr.contains("no longer the one that was shown"),
        "{refused:?}"
    );
    assert_eq!(person.0.read("home/.codex/config.toml"), changed);
    person.write("home/.codex/config.toml", CODEX);
    person.succeeds(&["connect", "codex", &seen]);
    assert_eq!(person.state("codex").unwrap(), "connected");
}
