//! Profiles as users meet them: endpoints, standard input and output, applications, and changes while the host runs.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::{House, Ran, Running, eventually, names};

const WORK: &str =
    "[profiles.work]\ntitle = 'Work'\nservers = ['open']\ntools.open = { exclude = ['hidden'] }\n";

/// A host with two servers, and its configuration.
struct Office {
    house: House,
    servers: String,
    url: String,
    host: Running,
}

/// Writes the default configuration: the servers `open` and `shut`, and these profiles.
fn configure(house: &House, profiles: &str) -> String {
    let servers: String = [("open", &["say", "hidden"][..]), ("shut", &["say"])]
        .into_iter()
        .map(|(name, tools)| {
            let entry = house.server(name, tools, "");
            format!("# {name}\n[servers.{name}]\ncommand = \"sh\"\nargs = {}\n", entry["args"])
        })
        .collect();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write("config/hospes/config.toml", &format!("{servers}{profiles}"));
    servers
}

impl Office {
    fn open(profiles: &str) -> Self {
        let house = House::new();
        let servers = configure(&house, profiles);
        let host = Running::start(house.command(&["up", "--listen", "127.0.0.1:0", "--console", "off"]));
        let said = host.said(|line| line.contains("endpoint"));
        let url = said.split(&[' ', '='][..]).find(|word| word.starts_with("http://")).unwrap().to_owned();
        Self { house, servers, url, host }
    }

    fn change(&self, profiles: &str) {
        self.house.write("config/hospes/config.toml", &format!("{}{profiles}", self.servers));
    }

    fn tools(&self, path: &str) -> Vec<String> {
        let listed = self.house.run(&["list", &format!("{}{path}", self.url), "--json"]);
        let value: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
        if value["tools"].is_null() { Vec::new() } else { names(&value, "tools") }
    }

    /// Sends a request to a path below the endpoint. Returns the status, the session's id and the body.
    fn post(&self, path: &str, session: Option<&str>, body: &Value) -> (u16, Option<String>, String) {
        let url = url::Url::parse(&self.url).unwrap();
        let address = url.socket_addrs(|| None).unwrap()[0];
        let mut stream = TcpStream::connect(address).unwrap();
        let body = body.to_string();
        let session = session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        write!(
            stream,
            "POST {}{path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, \
             text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n{session}\r\n{body}",
            url.path(),
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let session = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.to_owned())
        });
        (status, session, body.to_owned())
    }

    /// Opens a session of the older era.
    fn session(&self, path: &str, revision: &str) -> String {
        let client = json!({ "name": "t", "version": "1" });
        let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client });
        let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        let (status, session, body) = self.post(path, None, &hello);
        assert_eq!(status, 200, "{body}");
        let session = session.unwrap();
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(path, Some(&session), &ready).0, 202);
        session
    }
}

fn call(tool: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": tool, "arguments": {} } })
}

#[test]
fn each_profile_has_an_endpoint_and_follows_the_configuration() {
    let office = Office::open(WORK);
    eventually("the servers are there", || office.tools("").len() >= 3);
    let mut tools = office.tools("/work");
    tools.retain(|name| !name.starts_with("hospes__"));
    assert_eq!(tools, ["open__say"]);
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = office.session("/work", revision);
        let (status, _, body) = office.post("/work", Some(&session), &call("open__say"));
        assert!(status == 200 && body.contains("open was called"), "{revision}: {status} {body}");
        for hidden in ["shut__say", "open__hidden"] {
            let (_, _, body) = office.post("/work", Some(&session), &call(hidden));
            assert!(body.contains(&format!("unknown tool: {hidden}")), "{revision}: {body}");
        }
        // A session is that of its profile.
        assert_eq!(office.post("", Some(&session), &call("open__say")).0, 404, "{revision}");
    }
    let (status, _, body) = office.post("/wrok", None, &call("open__say"));
    assert_eq!(status, 404);
    assert!(body.contains("unknown profile `wrok`; did you mean `work`? known profiles: work"), "{body}");
    assert_eq!(office.post("/a%20b", None, &call("x")).0, 404);

    let status = office.house.run(&["status"]);
    assert!(status.stdout.contains(&format!("{}/work", office.url)), "{status:?}");

    let session = office.session("/work", "2025-06-18");
    office.change("[profiles.work]\n[profiles.home]\nservers = ['shut']\n");
    let said = office.host.said(|line| line.contains("event=reload"));
    assert!(said.contains("profiles_added=home") && said.contains("profiles_changed=work"), "{said}");
    let (_, _, body) = office.post("/work", Some(&session), &call("shut__say"));
    assert!(body.contains("shut was called"), "the session goes on with what the profile now shows: {body}");
    eventually("the new profile is served", || office.tools("/home").contains(&"shut__say".to_owned()));

    office.change("[profiles.home]\nservers = ['gone']\n");
    office.host.said(|line| line.contains("expected the name of a configured server"));
    office.change("[profiles.home]\nservers = ['shut']\n");
    office.host.said(|line| line.contains("profiles_removed=work"));
    let (status, _, body) = office.post("/work", Some(&session), &call("open__say"));
    assert!(
        status == 404 && body.contains("unknown profile `work`; known profiles: home"),
        "{status} {body}"
    );
}

#[test]
fn the_audit_log_names_the_profile_of_a_call() {
    let office = Office::open(WORK);
    eventually("the servers are there", || office.tools("").len() >= 3);
    // A call at the endpoint of all servers has none.
    for path in ["/work", ""] {
        succeeds(&office.house, &["call", &format!("{}{path}", office.url), "open__say"]);
    }
    let mut found = Vec::new();
    eventually("both calls are recorded", || {
        let searched = office.house.run(&["audit", "search", "--json", "--kind", "call"]);
        let entries: Vec<Value> = serde_json::from_str(&searched.stdout).unwrap();
        found = entries.iter().rev().map(|one| one["entry"]["profile"].clone()).collect();
        found.len() == 2
    });
    assert_eq!(found, [json!("work"), Value::Null]);
    // Raw requests of a session of an older revision, with the endpoint and nothing else to tell the profile.
    let revisions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
    for revision in revisions {
        let session = office.session("/work", revision);
        assert_eq!(office.post("/work", Some(&session), &call("open__say")).0, 200, "{revision}");
    }
    eventually("the calls of the sessions are recorded", || {
        let searched = office.house.run(&["audit", "search", "--json", "--kind", "call"]);
        let entries: Vec<Value> = serde_json::from_str(&searched.stdout).unwrap();
        found = entries.iter().rev().skip(2).map(|one| one["entry"]["profile"].clone()).collect();
        found.len() == revisions.len()
    });
    assert_eq!(found, ["work"; 4]);
    let shown = office.house.run(&["audit", "search"]);
    assert!(shown.stdout.contains("profile work"), "{shown:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn stdio_serves_a_profile_of_the_running_host() {
    let office = Office::open(WORK);
    eventually("the servers are there", || office.tools("").len() >= 3);
    let args = ["stdio", "--application", "cursor", "--profile"];
    let unknown = office.house.run(&[&args[..], &["play"]].concat());
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.stderr.contains("unknown profile `play`"), "{unknown:?}");
    assert!(unknown.stderr.contains("known profiles: work"), "{unknown:?}");
    // The endpoint names the profiles, so that the path is no riddle.
    let unknown = office.house.run(&["list", &format!("{}/play", office.url)]);
    assert_eq!(unknown.code, Some(4), "{unknown:?}");
    assert!(unknown.stderr.contains("known profiles: work"), "{unknown:?}");
    assert!(!unknown.stderr.contains("is the path correct"), "{unknown:?}");
    let mut application = Running::start(office.house.command(&[&args[..], &["work"]].concat()));
    application.initialize(&json!({}));
    let tools = application.ask(3, "tools/list", &json!({}));
    let tools = names(&tools["result"], "tools");
    assert!(
        tools.contains(&"open__say".to_owned()) && !tools.iter().any(|name| name.contains("shut")),
        "{tools:?}"
    );
    let hidden = application.ask(4, "tools/call", &json!({ "name": "shut__say", "arguments": {} }));
    assert_eq!(hidden["error"]["message"], "unknown tool: shut__say");
    office.change("");
    assert_eq!(application.wait(), Some(4), "a removed profile ends its applications");
}

#[test]
fn stdio_alone_starts_only_the_servers_of_the_profile() {
    let house = House::new();
    configure(&house, WORK);
    let mut alone = Running::start(house.command(&["stdio", "--profile", "work"]));
    alone.initialize(&json!({}));
    let called = alone.ask(3, "tools/call", &json!({ "name": "open__say", "arguments": {} }));
    assert!(called.to_string().contains("open was called"), "{called}");
    let hidden = alone.ask(4, "tools/call", &json!({ "name": "open__hidden", "arguments": {} }));
    assert_eq!(hidden["error"]["message"], "unknown tool: open__hidden");
    assert!(house.is_running("open") && !house.is_running("shut"));
    alone.close_stdin();
    assert_eq!(alone.wait(), Some(0));
    let unknown = house.run(&["stdio", "--profile", "wrok"]);
    assert!(unknown.stderr.contains("did you mean `work`?"), "{unknown:?}");
    assert!(house.run(&["stdio", "--profile", "../x"]).stderr.contains("1 to 32 lower-case letters"));
}

fn succeeds(house: &House, args: &[&str]) -> Ran {
    let ran = house.run(args);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran
}

#[test]
fn an_application_is_connected_with_a_profile() {
    let house = House::new();
    configure(&house, &format!("{WORK}[profiles.home]\n"));
    std::fs::create_dir_all(house.path("home/.cursor")).unwrap();
    house.write("home/.cursor/mcp.json", "{}");
    let unknown = house.run(&["connect", "cursor", "--profile", "play"]);
    assert!(unknown.stderr.contains("known profiles: work, home"), "{unknown:?}");
    let ran = succeeds(&house, &["connect", "cursor", "--profile", "work"]);
    assert!(ran.stderr.contains("connected with the profile `work`"), "{ran:?}");
    let entry = || {
        let file: Value = serde_json::from_str(&house.read("home/.cursor/mcp.json")).unwrap();
        file["mcpServers"]["hospes"]["args"].clone()
    };
    assert_eq!(entry(), json!(["stdio", "--application", "cursor", "--profile", "work"]));
    let listed = succeeds(&house, &["connect", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        (&listed[0]["state"], &listed[0]["profile"]),
        (&json!("connected"), &json!("work")),
        "{listed}"
    );
    let records: Vec<_> = std::fs::read_dir(house.path("state/hospes/connections")).unwrap().collect();
    let journal =
        records.into_iter().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap_or_default());
    assert!(journal.collect::<String>().contains("\"profile\":"), "the journal names it");
    let doctor = house.run(&["doctor", "cursor"]);
    assert!(
        doctor.stdout.lines().next().unwrap().contains("entry `hospes` of the profile `work`"),
        "{doctor:?}"
    );

    // The change of a profile is shown without what stands between the old and the new entry.
    let before = house.read("home/.cursor/mcp.json");
    let mut with_other: Value = serde_json::from_str(&before).unwrap();
    with_other["mcpServers"]["other"] = json!({ "command": "x", "env": { "TOKEN": "s3cret" } });
    for text in [&before, &format!("{with_other:#}")] {
        house.write("home/.cursor/mcp.json", text);
        let dry = succeeds(&house, &["connect", "cursor", "--dry-run", "--profile", "home"]);
        let removed = "(the entry of hospes with the profile `work` is removed first)\n";
        assert!(dry.stdout.starts_with(removed), "{dry:?}");
        assert!(dry.stdout.lines().any(|line| line.starts_with('+') && line.contains("\"home\"")), "{dry:?}");
        assert!(!dry.stdout.contains("s3cret") && !dry.stdout.contains("\"work\""), "{dry:?}");
        assert_eq!(&house.read("home/.cursor/mcp.json"), text);
    }
    house.write("home/.cursor/mcp.json", &before);

    // One that fails leaves the entry.
    configure(&house, &format!("{WORK}[profiles.home]\n[endpoint]\nlisten = '127.0.0.1:0'\n"));
    let failed = house.run(&["connect", "cursor", "--http", "--profile", "home"]);
    assert!(failed.stderr.contains("the port of the endpoint"), "{failed:?}");
    assert_eq!(house.read("home/.cursor/mcp.json"), before);
    configure(&house, &format!("{WORK}[profiles.home]\n"));

    // Another profile takes its place, and then none.
    succeeds(&house, &["connect", "cursor", "--profile", "home"]);
    assert_eq!(entry()[4], "home");
    configure(&house, WORK);
    let doctor = house.run(&["doctor", "cursor"]);
    let first = doctor.stdout.lines().next().unwrap();
    assert!(first.contains("FAILED at profile") && doctor.stdout.contains("A07"), "{doctor:?}");
    assert!(
        doctor.stdout.contains("`home` is not configured") && doctor.stdout.contains("known profiles: work")
    );
    succeeds(&house, &["connect", "cursor"]);
    assert_eq!(entry(), json!(["stdio", "--application", "cursor"]));
    succeeds(&house, &["disconnect", "cursor"]);
    assert_eq!(house.read("home/.cursor/mcp.json"), "{}");
}

#[test]
fn profiles_are_listed_shown_and_kept_true_by_remove() {
    let house = House::new();
    let servers = configure(
        &house,
        "\n# Mine\n[profiles.work] # w\nservers = ['open', 'shut'] # both\ntools.shut = { exclude = ['x'] }\n",
    );
    let listed = succeeds(&house, &["profile", "list"]);
    assert_eq!(listed.stdout.trim(), "work  open, shut");
    let shown = succeeds(&house, &["profile", "show", "work", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&shown["path"], &shown["servers"]), (&json!("/mcp/work"), &json!(["open", "shut"])));
    assert_eq!(shown["tools"]["shut"]["exclude"], json!(["x"]));
    let text_shown = succeeds(&house, &["profile", "show", "work"]);
    assert!(text_shown.stdout.contains("hospes stdio --profile work"), "{text_shown:?}");
    assert!(house.run(&["profile", "show", "wrok"]).stderr.contains("did you mean `work`?"));
    let mut completing = house.command(&["--", "hospes", "profile", "show", ""]);
    completing.env("HOSPES_COMPLETE", "fish");
    let completed = Ran::of(completing.output().unwrap());
    assert!(completed.stdout.contains("work"), "{completed:?}");

    let removed = succeeds(&house, &["remove", "shut", "--yes"]);
    assert!(removed.stderr.contains("taken out of the profiles that named it: work"), "{removed:?}");
    let after = house.read("config/hospes/config.toml");
    let open = servers.split("# shut").next().unwrap();
    assert_eq!(after, format!("{open}\n# Mine\n[profiles.work] # w\nservers = ['open'] # both\n"), "{after}");
}
