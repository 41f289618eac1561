//! Tests of `hospes doctor`: faults of the system, of launchers, packages and sign-ins.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and say what they skip")]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::checks::{NOT_FOUND, assert_found, check, doctor, json_answer, program, report, web};
use crate::support::{House, Ran, text};

#[test]
fn old_and_missing_launchers_are_found() {
    let house = House::new();
    std::fs::create_dir_all(house.path("old")).unwrap();
    std::fs::create_dir_all(house.path("broken")).unwrap();
    program(&house, "old/node", "echo v16.3.0");
    program(&house, "old/npx", "echo 'SyntaxError: Unexpected token ||=' >&2\nexit 1");
    program(&house, "broken/uv", "exit 1");
    program(&house, "broken/uvx", "exit 1");
    program(&house, "broken/docker", "echo 'Cannot connect to the Docker daemon' >&2\nexit 1");
    let path = |folder: &str| format!("{}:/usr/bin:/bin", house.path(folder).display());
    let server = house.server("works", &["look"], "");
    let works = program(
        &house,
        "old/python3",
        &format!(
            "case $1 in --version) echo Python 3.8.1;; *) exec sh '{}';; esac",
            server["args"][0].as_str().unwrap()
        ),
    );
    let servers = json!({
        "node": { "command": text(&house.path("old/npx")), "args": ["-y", "./server"], "env": { "PATH": path("old") } },
        "uv": { "command": "uvx", "args": ["./server"], "env": { "PATH": path("broken") } },
        "docker": { "command": "docker", "args": ["run", "-i", "image"], "env": { "PATH": path("broken") } },
        "works": { "command": works },
    });
    let config = text(&house.write("config.json", &json!({ "mcpServers": servers }).to_string()));
    let (ran, found) = doctor(&house, &["--config", &config]);
    assert_eq!(ran.code, Some(1));
    assert_found(&found, "node", "C04", "fault", "16.3.0", "nodejs.org");
    assert_eq!(check(&found, "node", "S01")["status"], "not_reached", "the old launcher explains it");
    assert_found(&found, "uv", "C04", "fault", "uv", "docs.astral.sh");
    assert_found(&found, "docker", "C04", "fault", "docker", "docker");
    // A server that works with an old version is no fault.
    assert_found(&found, "works", "C04", "warning", "3.8", "Python 3.10");
    assert_eq!(check(&found, "works", "T01")["status"], "ok");
}

#[test]
fn packages_that_do_not_exist_or_were_exchanged_are_not_started() {
    let house = House::new();
    let index = web(Box::new(|path, _| match path {
        "/server/1.2.4" | "/server/latest" => json_answer(
            &json!({ "name": "server", "version": "1.2.4", "dist": { "integrity": "sha512-bmV3" } }),
        ),
        "/pypi/server/1.0/json" => json_answer(&json!({
            "info": { "version": "1.0" },
            "urls": [{ "filename": "server-1.0-py3-none-any.whl", "packagetype": "bdist_wheel", "url": "https://x", "digests": { "sha256": "0".repeat(64) } }],
        })),
        _ => NOT_FOUND.to_owned(),
    }));
    std::fs::create_dir_all(house.path("bin")).unwrap();
    program(&house, "bin/node", "echo v22.1.0");
    program(&house, "bin/uv", "echo uv 0.8.4");
    let started = house.path("started").display().to_string();
    for launcher in ["npx", "uvx"] {
        program(&house, &format!("bin/{launcher}"), &format!("touch '{started}'\nexit 1"));
    }
    let entry = |name: &str, command: &str, package: &str, digest: &str| {
        let args = if command == "npx" { format!("'-y', '{package}'") } else { format!("'{package}'") };
        format!(
            "[servers.{name}]\ncommand = '{command}'\nargs = [{args}]\ndigest = '{digest}'\n\
             env = {{ PATH = '{}:/usr/bin:/bin', npm_config_registry = 'http://{index}', UV_DEFAULT_INDEX = 'http://{index}/simple' }}\n",
            house.path("bin").display()
        )
    };
    let config = [
        entry("gone", "npx", "server@1.2.9", "sha512-b2xk"),
        entry("misspelt", "npx", "servre", ""),
        entry("exchanged", "npx", "server@1.2.4", "sha512-b2xk"),
        entry("wheel", "uvx", "server==1.0", &format!("sha256:{}", "1".repeat(64))),
    ];
    let config = text(&house.write("own.toml", &config.concat().replace("digest = ''\n", "")));
    let (_, found) = doctor(&house, &["--config", &config]);
    assert_found(&found, "gone", "C06", "fault", "server@1.2.4", "server@1.2.4");
    assert_found(&found, "misspelt", "C06", "fault", "servre", "hospes search");
    assert_found(&found, "exchanged", "C07", "fault", "sha512-bmV3", "do not start it");
    assert_found(&found, "wheel", "C07", "fault", "sha256:1111", "do not start it");
    assert!(!house.path("started").exists(), "none of them was started");
    // The same archives are started.
    let same = [
        entry("same", "npx", "server@1.2.4", "sha512-bmV3"),
        entry("wheel", "uvx", "server==1.0", &format!("sha256:{}", "0".repeat(64))),
    ];
    let config = text(&house.write("own.toml", &same.concat()));
    let (_, found) = doctor(&house, &["--config", &config]);
    for name in ["same", "wheel"] {
        assert_eq!(check(&found, name, "C07")["status"], "ok");
        assert_eq!(check(&found, name, "S01")["status"], "fault", "{found:#}");
    }
    assert!(house.path("started").exists());
}

#[test]
fn faults_of_authorization_are_told_apart() {
    let house = House::new();
    let site = web(Box::new(|path, address| {
        let (place, rest) = match path.rsplit_once('/') {
            Some((rest, place)) => (place, rest),
            None => (path, ""),
        };
        let origin = format!("http://{address}");
        match (rest, place) {
            ("/.well-known/oauth-protected-resource", server) if server != "locked" => json_answer(&json!({
                "resource": format!("{origin}/{server}"), "authorization_servers": [format!("{origin}/as/{server}")],
            })),
            ("/.well-known/oauth-authorization-server/as", server) if server != "nowhere" => {
                let issuer = if server == "imposter" {
                    "https://other.example".to_owned()
                } else {
                    format!("{origin}/as/{server}")
                };
                let mut metadata = json!({
                    "issuer": issuer,
                    "authorization_endpoint": format!("{origin}/authorize"),
                    "token_endpoint": format!("{origin}/token"),
                    "response_types_supported": ["code"],
                });
                if server != "pkce" {
                    metadata["code_challenge_methods_supported"] = json!(["S256"]);
                }
                if server != "closed" {
                    metadata["registration_endpoint"] = json!(format!("{origin}/register"));
                }
                json_answer(&metadata)
            }
            (_, server) => {
                let challenge = match server {
                    "expired" => "Bearer error=\"invalid_token\", error_description=\"The token expired\"",
                    "scope" => "Bearer error=\"insufficient_scope\", scope=\"files:write\"",
                    _ => "Bearer",
                };
                format!(
                    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: {challenge}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
            }
        }
    }));
    let names = ["locked", "well", "imposter", "pkce", "closed", "nowhere"];
    let mut servers: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| ((*name).to_owned(), json!({ "url": format!("http://{site}/{name}") })))
        .collect();
    for name in ["expired", "scope"] {
        let headers = json!({ "Authorization": "Bearer a-token-of-the-entry" });
        servers
            .insert(name.to_owned(), json!({ "url": format!("http://{site}/{name}"), "headers": headers }));
    }
    let config = text(&house.write("config.json", &json!({ "mcpServers": servers }).to_string()));
    let (ran, found) = doctor(&house, &["--config", &config]);
    assert_found(&found, "locked", "O01", "fault", "names no metadata", "hospes secret set locked.TOKEN");
    assert_found(&found, "well", "O01", "fault", "asks for a sign-in", "hospes auth login well");
    assert_found(&found, "imposter", "O02", "fault", "other.example", "report it");
    assert_found(&found, "pkce", "O02", "fault", "PKCE", "report it");
    assert_found(&found, "closed", "O02", "fault", "register", "--client-id");
    assert_found(&found, "nowhere", "O02", "fault", "no metadata", "report it");
    assert_found(&found, "expired", "O03", "fault", "The token expired", "hospes secret set");
    assert_found(&found, "scope", "O03", "fault", "files:write", "--scope files:write");
    assert!(!ran.stdout.contains("a-token-of-the-entry"), "{ran:?}");
}

#[test]
fn a_wrong_clock_is_found_by_the_answers_of_servers() {
    let house = House::new();
    let early = || {
        web(Box::new(|_, _| {
            "HTTP/1.1 404 Not Found\r\nDate: Wed, 21 Oct 2015 07:28:00 GMT\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
        }))
    };
    let now = || {
        web(Box::new(|_, _| {
            let now = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            format!("HTTP/1.1 404 Not Found\r\nDate: {now}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }))
    };
    for (servers, status) in [([early(), early()], "fault"), ([early(), now()], "ok"), ([now(), now()], "ok")]
    {
        let [one, two] =
            servers.map(|address| json!({ "url": format!("http://{address}/mcp?secret=value") }));
        let config = text(
            &house.write("config.json", &json!({ "mcpServers": { "one": one, "two": two } }).to_string()),
        );
        let (_, found) = doctor(&house, &["--config", &config]);
        let clock = check(&found, "host", "H08");
        assert_eq!(clock["status"], status, "{clock:#}");
        if status == "fault" {
            assert_found(&found, "host", "H08", "fault", "ahead of that of 127.0.0.1", "set-ntp");
        }
    }
}

#[test]
fn damaged_and_newer_databases_and_a_lost_key_are_found() {
    let house = House::new();
    std::fs::create_dir_all(house.path("state/hospes")).unwrap();
    let config = text(&house.write("config.json", "{ \"mcpServers\": {} }"));
    let audit = house.path("state/hospes/audit.db");
    house.write(
        "state/hospes/audit.db",
        "not a database, but long enough to be taken for one".repeat(50).as_str(),
    );
    std::fs::set_permissions(&audit, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (_, found) = doctor(&house, &["--config", &config]);
    assert_found(&found, "host", "H05", "fault", "not a database", "mv ");
    std::fs::remove_file(&audit).unwrap();
    let database = rusqlite::Connection::open(house.path("state/hospes/state.db")).unwrap();
    database.pragma_update(None, "user_version", 1000).unwrap();
    drop(database);
    std::fs::set_permissions(house.path("state/hospes/state.db"), std::fs::Permissions::from_mode(0o600))
        .unwrap();
    let (_, found) = doctor(&house, &["--config", &config]);
    assert_found(&found, "host", "H05", "fault", "newer version", "hospes upgrade");
    std::fs::remove_file(house.path("state/hospes/state.db")).unwrap();
    // Tokens, and no key for them.
    house.write("state/hospes/credentials", "sealed");
    std::fs::set_permissions(house.path("state/hospes/credentials"), std::fs::Permissions::from_mode(0o600))
        .unwrap();
    let (ran, found) = doctor(&house, &["--config", &config]);
    assert_found(&found, "host", "H07", "fault", "key", "");
    assert!(check(&found, "host", "H07")["mend"].is_string(), "{ran:?}");
}

#[test]
fn full_read_only_and_exhausted_disks_are_told_apart() {
    for (options, fill, code) in [
        ("size=64k", "cat /dev/zero > \"$1/fill\" 2> /dev/null; true", "H03"),
        ("size=1g,nr_inodes=2", "touch \"$1/fill\"", "H04"),
        ("size=1g,ro", "true", "H02"),
    ] {
        let house = House::new();
        std::fs::create_dir_all(house.path("state/hospes")).unwrap();
        let config = text(&house.write("config.json", "{ \"mcpServers\": {} }"));
        let script = format!("mount -t tmpfs -o {options} tmpfs \"$1\" && {{ {fill}; shift; exec \"$@\"; }}");
        let state = text(&house.path("state/hospes"));
        let program = env!("CARGO_BIN_EXE_hospes");
        let mut command = house
            .program("unshare", &["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh", &state]);
        command.args([program, "doctor", "--json", "--config", &config]).stdin(Stdio::null());
        let Ok(output) = command.output() else { return eprintln!("skipped: there is no unshare") };
        let ran = Ran::of(output);
        if ran.stdout.is_empty() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{ran:?}");
            return eprintln!("skipped: a disk cannot be mounted here: {}", ran.stderr);
        }
        let found = report(&ran);
        assert_eq!(check(&found, "host", code)["status"], "fault", "{options}: {found:#}");
        assert!(check(&found, "host", code)["mend"].as_str().unwrap().contains("XDG_STATE_HOME"));
    }
}

#[test]
fn another_program_of_the_name_is_found() {
    let house = House::new();
    std::fs::create_dir_all(house.path("other")).unwrap();
    program(&house, "other/hospes", "echo hospes 0.0.1");
    let config = text(&house.write("config.json", "{ \"mcpServers\": {} }"));
    let mut command = house.command(&["doctor", "--json", "--config", &config]);
    command.env("PATH", format!("{}:/usr/bin:/bin", house.path("other").display()));
    let found = report(&Ran::of(command.output().unwrap()));
    assert_found(&found, "host", "H11", "warning", "0.0.1", "rm ");
}

#[test]
fn a_project_entry_that_shadows_the_one_of_the_user_is_found() {
    let house = House::new();
    std::fs::create_dir_all(house.path("home/.cursor")).unwrap();
    std::fs::create_dir_all(house.path(".cursor")).unwrap();
    assert_eq!(house.run(&["connect", "cursor"]).code, Some(0));
    let (_, found) = doctor(&house, &["cursor"]);
    assert_eq!(check(&found, "cursor", "A06")["status"], "ok");
    house.write(".cursor/mcp.json", r#"{ "mcpServers": { "hospes": { "command": "other" } } }"#);
    let (ran, found) = doctor(&house, &["cursor"]);
    assert_eq!(ran.code, Some(2), "a warning: {ran:?}");
    assert_found(&found, "cursor", "A06", "warning", "wins in this folder", "rename or remove");
}
