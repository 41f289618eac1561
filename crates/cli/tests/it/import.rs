//! Tests of `hospes import`, `hospes secret` and `hospes export`, with the files of applications in a folder of their own.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use support::terminal::Terminal;
use support::{House, Ran};

const TOKEN: &str = "hunter2-of-the-tests";

/// Cursor with a BOM, CRLF, comments, trailing commas and a bad entry.
const CURSOR: &str = "\u{feff}{\r\n  // mine\r\n  \"mcpServers\": {\r\n    \"github\": {\"command\": \"npx\", \"args\": [\"-y\", \"github-mcp\"], \"env\": {\"GITHUB_TOKEN\": \"hunter2-of-the-tests\", \"LOG\": \"${env:LEVEL}\"},},\r\n    \"bad\": {\"command\": 1},\r\n    \"search\": {\"command\": \"one\"},\r\n  },\r\n}\r\n";

const CLAUDE: &str = r#"{"numStartups": 1, "mcpServers": {
    "github": {"type": "stdio", "command": "npx", "args": ["-y", "github-mcp"], "env": {"GITHUB_TOKEN": "hunter2-of-the-tests", "LOG": "${LEVEL}"}},
    "search": {"type": "http", "url": "https://search.example/mcp", "headers": {"Authorization": "Bearer hunter2-of-the-tests"}},
    "live": {"type": "ws", "url": "wss://e.com"}
}}"#;

const VS_CODE: &str = r#"{"inputs": [{"id": "key", "type": "promptString", "description": "Key of the mail", "password": true}],
  "servers": {"mail": {"type": "stdio", "command": "mail", "env": {"KEY": "${input:key}"}}}}"#;

const OWN: &str = "# my servers\n[servers]\ntime = 'cat'   # keep\n";

struct Person(House);

impl Person {
    fn new() -> Self {
        let person = Self(House::new());
        person.write("home/.cursor/mcp.json", CURSOR);
        person.write("home/.claude.json", CLAUDE);
        person.write("config/Code/User/mcp.json", VS_CODE);
        person.write(".vscode/mcp.json", r#"{"servers": {"of-project": {"command": "x"}}}"#);
        person
    }

    fn write(&self, file: &str, text: &str) {
        let file = self.0.path(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn run(&self, args: &[&str]) -> Ran {
        let ran = self.0.run(args);
        assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN), "a secret is shown: {ran:?}");
        ran
    }

    fn with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.0.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The program may refuse its arguments before it reads.
        let _closed = child.stdin.take().unwrap().write_all(input.as_bytes());
        Ran::of(child.wait_with_output().unwrap())
    }

    fn config(&self) -> String {
        self.0.read("config/hospes/config.toml")
    }

    fn applications_are_unchanged(&self) {
        assert_eq!(self.0.read("home/.cursor/mcp.json"), CURSOR);
        assert_eq!(self.0.read("home/.claude.json"), CLAUDE);
        assert_eq!(self.0.read("config/Code/User/mcp.json"), VS_CODE);
    }
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
}

/// State and origins of a server in the result.
fn states(result: &Value, name: &str) -> Vec<(String, Vec<String>)> {
    let servers = result["servers"].as_array().unwrap().iter().filter(|server| server["name"] == name);
    servers
        .map(|server| {
            let origins = server["origins"].as_array().unwrap().iter();
            let origins = origins.map(|origin| origin["source"].as_str().unwrap().to_owned()).collect();
            (server["state"].as_str().unwrap().to_owned(), origins)
        })
        .collect()
}

#[test]
fn all_applications_are_found_and_nothing_is_changed_without_a_yes() {
    let person = Person::new();
    let ran = person.run(&["import", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let result = json(&ran);
    let origin = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(states(&result, "github"), [("new".to_owned(), origin(&["claude-code", "cursor"]))]);
    assert_eq!(
        states(&result, "search"),
        [("conflict".to_owned(), origin(&["claude-code"])), ("conflict".to_owned(), origin(&["cursor"])),]
    );
    let refused: Vec<_> =
        result["refused"].as_array().unwrap().iter().map(|one| one["name"].as_str()).collect();
    assert_eq!(refused, [Some("live"), Some("bad")]);
    assert_eq!((result["imported"].as_bool(), result["files"].as_array().unwrap().len()), (Some(false), 4));
    let shown = person.run(&["import", "--dry-run"]);
    assert!(shown.stdout.contains("+ github"), "{shown:?}");
    assert!(shown.stdout.contains("applications differ: --server cursor:search takes this one"), "{shown:?}");
    assert!(shown.stdout.contains("WebSocket"), "{shown:?}");
    assert_eq!(person.config(), "");
    assert!(!person.0.path("state/hospes").exists());
    person.applications_are_unchanged();
}

#[test]
fn an_import_keeps_the_file_and_seals_secrets() {
    let person = Person::new();
    person.write("config/hospes/config.toml", OWN);
    let ran = person.run(&["import", "--yes", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let config = person.config();
    assert!(config.starts_with(OWN), "{config}");
    assert!(!config.contains(TOKEN) && !config.contains("of-project"), "{config}");
    assert!(
        config.contains(
            "[servers.github]\ncommand = [\"npx\", \"-y\", \"github-mcp\"]\nenv = { GITHUB_TOKEN = \
             \"${secret:github.GITHUB_TOKEN}\", LOG = \"${LEVEL}\" }\n"
        ),
        "{config}"
    );
    // A typed value cannot be asked for here.
    assert!(config.contains("env = { KEY = \"${secret:vscode.key}\" }"), "{config}");
    let listed = json(&person.run(&["secret", "list", "--json"]));
    assert_eq!(
        listed,
        serde_json::json!([
            { "name": "github.GITHUB_TOKEN", "stored": true, "servers": ["github"] },
            { "name": "vscode.key", "stored": false, "servers": ["mail"] },
        ])
    );
    // The stores are sealed.
    for entry in std::fs::read_dir(person.0.path("state/hospes")).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes()));
    }
    // The second time there is nothing to do.
    let again = json(&person.run(&["import", "--yes", "--json"]));
    assert_eq!(states(&again, "github")[0].0, "present");
    assert_eq!(person.config(), config);
    person.applications_are_unchanged();
}

#[test]
fn what_the_screen_hides_of_urls_is_sealed() {
    let person = Person::new();
    person.write(
        "urls.json",
        r#"{"mcpServers": {
            "db": {"command": "db", "args": ["postgresql://app:hunter2-of-the-tests@db/x"], "env": {"DATABASE_URL": "mysql://u:hunter2-of-the-tests@h/d"}},
            "web": {"url": "https://host.example/mcp/ghp_0123456789abcdef/x"},
            "docs": {"command": "docs-server", "args": ["--api-key", "sk-hunter2-of-the-tests"]}
        }}"#,
    );
    let shown = person.run(&["import", "--dry-run", "urls.json"]);
    assert!(!shown.stdout.contains("ghp_0123456789abcdef"), "{shown:?}");
    assert_eq!(person.run(&["import", "--yes", "urls.json"]).code, Some(0));
    let config = person.config();
    assert!(!config.contains(TOKEN) && !config.contains("ghp_0123456789abcdef"), "{config}");
    assert!(config.contains("postgresql://app:${secret:db.arg0}@db/x"), "{config}");
    assert!(config.contains("https://host.example/mcp/${secret:web.url}/x"), "{config}");
    for format in ["cursor", "goose", "codex"] {
        let exported = person.run(&["export", "--format", format]);
        assert!(!exported.stdout.contains("ghp_0123456789abcdef"), "{exported:?}");
    }
    // A reference is shown as it is.
    let again = person.run(&["import", "--dry-run", "urls.json"]);
    let config = person.run(&["status"]);
    for ran in [again, config] {
        assert!(!ran.stdout.contains("[redacted]\"") && !ran.stdout.contains("${secret: "), "{ran:?}");
    }
}

#[test]
fn a_chosen_server_of_several_is_taken() {
    let person = Person::new();
    let ran = person.run(&["import", "--yes", "--server", "search"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("--server claude-code:search, --server cursor:search"), "{ran:?}");
    let ran = person.run(&["import", "--yes", "--server", "claude-code:serch"]);
    assert!(ran.stderr.contains("did you mean `claude-code:search`?"), "{ran:?}");
    let ran = person.run(&["import", "--yes", "--server", "claude-code:search", "--server", "of-project"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let config = person.config();
    assert!(config.contains("Authorization = \"Bearer ${secret:search.Authorization}\""), "{config}");
    assert!(config.contains("[servers.of-project]") && !config.contains("github"), "{config}");
    // The other one cannot take its place.
    let ran = person.run(&["import", "--yes", "--server", "cursor:search"]);
    assert!(ran.stderr.contains("the configuration has another server `search`"), "{ran:?}");
}

#[test]
fn sources_are_chosen_and_mistyped_ones_are_named() {
    let person = Person::new();
    person.write("other.json", r#"{"mcpServers": {"named": {"command": "x"}}}"#);
    let result = json(&person.run(&["import", "--json", "other.json", "vscode"]));
    let names: Vec<_> =
        result["servers"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mail", "of-project", "named"]);
    let ran = person.run(&["import", "curser"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("did you mean `cursor`?"), "{ran:?}");
    let ran = person.run(&["import", "none.json"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("none.json: cannot be read"), "{ran:?}");
    let ran = person.run(&["import", "--yes", "--config", "mcp.json"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("expected the extension `.toml`"), "{ran:?}");
}

#[test]
fn a_file_that_cannot_be_extended_is_left_alone() {
    let person = Person::new();
    let inline = "servers = { time = 'cat' }\n";
    person.write("config/hospes/config.toml", inline);
    let ran = person.run(&["import", "--yes"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("[servers.github]"), "{ran:?}");
    assert_eq!(person.config(), inline);
    assert!(!person.0.path("state/hospes/credentials").exists());
}

#[test]
fn a_person_chooses_and_types_hidden_values() {
    let person = Person::new();
    let mut terminal = Terminal::start(&person.0.command(&["import"]), 160, 50);
    terminal.sees("stored encrypted: github.GITHUB_TOKEN");
    terminal.sees("Which one?");
    terminal.type_keys("2\r");
    terminal.sees("Key of the mail");
    terminal.type_keys("typed-by-the-person\r");
    terminal.sees("[y/N]");
    terminal.type_keys("y\r");
    assert_eq!(terminal.wait(), 0, "{}", terminal.text());
    assert!(!terminal.text().contains("typed-by-the-person"), "{}", terminal.text());
    let config = person.config();
    assert!(config.contains("command = [\"one\"]") && config.contains("${secret:vscode.key}"), "{config}");
    let listed = json(&person.run(&["secret", "list", "--json"]));
    assert!(listed.as_array().unwrap().iter().all(|secret| secret["stored"] == true), "{listed}");
}

#[test]
fn a_secret_is_set_from_standard_input_and_reaches_its_server() {
    let person = Person::new();
    let log = person.0.path("seen");
    let script = format!("printf '%s' \"$KEY\" > '{}'; exit 3", log.display());
    person.write(
        "config/hospes/config.toml",
        &format!(
            "[servers.one]\ncommand = ['sh', '-c', '''{script}''']\nenv = {{ KEY = '${{secret:my-key}}' }}\n"
        ),
    );
    let ran = person.run(&["list", "one"]);
    assert!(
        ran.stderr.contains("the secret `my-key` is not stored; `hospes secret set my-key` stores it"),
        "{ran:?}"
    );
    let ran = person.with_input(&["secret", "set", "my-key"], "line one\nhunter2-of-the-tests\n");
    assert!(ran.code == Some(0) && ran.stderr.contains("stored"), "{ran:?}");
    let ran = person.run(&["list", "one"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "line one\nhunter2-of-the-tests");
    let ran = person.run(&["secret", "remove", "my-kay"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("did you mean `my-key`?"), "{ran:?}");
    let ran = person.run(&["secret", "remove", "my-key"]);
    assert!(
        ran.code == Some(0) && ran.stderr.contains("servers that refer to it cannot start any more: one"),
        "{ran:?}"
    );
    assert_eq!(json(&person.run(&["secret", "list", "--json"]))[0]["stored"], false);
}

#[test]
fn a_value_is_never_an_argument() {
    let person = Person::new();
    let ran = person.with_input(&["secret", "set", "my-key", "value"], "");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for (name, input, problem) in [
        ("my key", "x", "not the name of a secret"),
        ("key", "", "the value is empty"),
        ("key", "a\0b", "NUL"),
    ] {
        let ran = person.with_input(&["secret", "set", name], input);
        assert!(ran.code == Some(1) && ran.stderr.contains(problem), "{ran:?}");
    }
    let large = "x".repeat(64 * 1024 + 1);
    assert!(person.with_input(&["secret", "set", "key"], &large).stderr.contains("larger than 65536"));
    assert!(!Path::new(&person.0.path("state/hospes/credentials")).exists());
}

#[test]
fn a_typed_secret_is_not_shown() {
    let person = Person::new();
    let mut terminal = Terminal::start(&person.0.command(&["secret", "set", "key"]), 100, 20);
    terminal.sees("it is not shown");
    terminal.type_keys("hunter2-of-the-tests\r");
    assert_eq!(terminal.wait(), 0, "{}", terminal.text());
    assert!(
        !terminal.text().contains(TOKEN) && terminal.text().contains("${secret:key}"),
        "{}",
        terminal.text()
    );
}

#[test]
fn servers_are_exported_without_secrets_and_imported_again() {
    let person = Person::new();
    person.run(&["import", "--yes", "--server", "github", "--server", "claude-code:search"]);
    let before = person.config();
    let ran = person.run(&["export", "--format", "cursor", "--output", "cursor.json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("Cursor needs values for AUTHORIZATION, GITHUB_TOKEN"), "{ran:?}");
    let written = person.0.read("cursor.json");
    assert!(
        written.contains("\"GITHUB_TOKEN\": \"${env:GITHUB_TOKEN}\"") && !written.contains(TOKEN),
        "{written}"
    );
    // An existing file is not replaced.
    let ran = person.run(&["export", "--format", "cursor", "--output", "cursor.json"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("an existing file is not replaced"), "{ran:?}");
    // What was written is read as the same servers.
    let result = json(&person.run(&["import", "--json", "cursor.json", "--config", "other.toml"]));
    let names: Vec<_> =
        result["servers"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["github", "search"]);
    assert_eq!(person.config(), before);
}

#[test]
fn secrets_are_exported_on_request_into_a_private_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let person = Person::new();
    person.run(&["import", "--yes", "--server", "github"]);
    let args =
        ["export", "--format", "claude-desktop", "--with-secrets", "--output", "desktop.json", "github"];
    let ran = person.run(&args);
    assert!(ran.code == Some(0) && ran.stderr.contains("the text has secrets in it"), "{ran:?}");
    let written = person.0.read("desktop.json");
    assert!(written.contains(TOKEN) && written.contains("<LEVEL>"), "{written}");
    let mode = std::fs::metadata(person.0.path("desktop.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    person.run(&["secret", "remove", "github.GITHUB_TOKEN"]);
    let ran = person.run(&["export", "--format", "zed", "--with-secrets"]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains("the secret `github.GITHUB_TOKEN` is not stored"),
        "{ran:?}"
    );
    let ran = person.run(&["export", "--format", "zed", "gihtub"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("did you mean `github`?"), "{ran:?}");
}

#[test]
fn a_server_is_imported_under_another_name_if_its_own_is_taken() {
    let house = House::new();
    std::fs::create_dir_all(house.path("home/.cursor")).unwrap();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("home/.cursor/mcp.json", r#"{ "mcpServers": { "notes": { "command": "other-notes" } } }"#);
    house.write("config/hospes/config.toml", "[servers.notes]\ncommand = 'notes'\n");
    let taken = house.run(&["import", "--yes", "--server", "notes"]);
    assert!(taken.stderr.contains("--rename notes=NEW"), "{taken:?}");
    for wrong in ["notes", "notes=a b", "=x"] {
        assert_eq!(house.run(&["import", "--yes", "--rename", wrong]).code, Some(1), "{wrong}");
    }
    let unknown = house.run(&["import", "--yes", "--rename", "nobody=new"]);
    assert!(unknown.stderr.contains("no application has a server `nobody`"), "{unknown:?}");
    let ran = house.run(&["import", "--yes", "--rename", "cursor:notes=notes2"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let config = house.read("config/hospes/config.toml");
    assert!(
        config.contains("[servers.notes]\ncommand = 'notes'") && config.contains("[servers.notes2]"),
        "{config}"
    );

    // A person is asked for the name.
    house.write("config/hospes/config.toml", "[servers.notes]\ncommand = 'notes'\n");
    let mut terminal = crate::support::terminal::Terminal::start(&house.command(&["import"]), 100, 30);
    terminal.sees("Name for it?");
    terminal.type_keys("notes\r");
    terminal.sees("the name notes is taken");
    terminal.type_keys("mine\r");
    terminal.sees("Import 1 server");
    terminal.type_keys("y\r");
    assert_eq!(terminal.wait(), 0, "{}", terminal.text());
    assert!(house.read("config/hospes/config.toml").contains("[servers.mine]"));
}

/// Imported is only what was shown: a file may change in between.
#[test]
fn a_server_that_changed_since_it_was_shown_is_not_imported() {
    let person = Person::new();
    let found = json(&person.run(&["import", "--dry-run", "--json"]));
    let digest_of = |found: &Value, name: &str| {
        let servers = found["servers"].as_array().unwrap();
        let one = servers.iter().find(|one| one["name"] == name).unwrap();
        one["digest"].as_str().unwrap().to_owned()
    };
    let (mail, github) = (digest_of(&found, "mail"), digest_of(&found, "github"));
    assert_ne!(mail, github);
    // The digest of another server is of no use.
    let import = |digest: &str| {
        person.run(&["import", "--yes", "--json", "--server=mail", &format!("--seen={digest}")])
    };
    assert_ne!(import(&github).code, Some(0));
    for changed in [
        VS_CODE.replace("\"command\": \"mail\"", "\"command\": \"mallory\""),
        VS_CODE.replace("\"KEY\":", "\"LD_PRELOAD\": \"x\", \"KEY\":"),
    ] {
        person.write("config/Code/User/mcp.json", &changed);
        let refused = import(&mail);
        assert!(refused.stderr.contains("has changed since it was shown"), "{refused:?}");
        assert!(!person.0.path("config/hospes/config.toml").exists(), "nothing is written");
    }
    person.write("config/Code/User/mcp.json", VS_CODE);
    let ran = import(&mail);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(person.config().contains("mail"), "{}", person.config());
}
