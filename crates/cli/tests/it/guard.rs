//! The rules and the record, with the whole program.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use serde_json::{Value, json};
use support::{House, Running, eventually};

fn call(host: &mut Running, id: u32, tool: &str, arguments: &Value) -> Value {
    host.ask(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))["result"].clone()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// covers: HOST-02 HOST-08 TOOL-28
#[test]
fn rules_are_gone_by_and_read_again_and_what_was_called_is_recorded() {
    let house = House::new();
    let rules = house.write(
        "rules.toml",
        "[[rule]]\ndecide = 'allow'\ntool = 'greet'\n[[rule]]\ndecide = 'deny'\nreason = 'not today'\n",
    );
    let config = house.config(&[("one", house.server("one", &["greet", "part"], ""))]);
    let args = [
        "stdio",
        "--config",
        &config,
        "--start-wait",
        "10",
        "--policy",
        rules.to_str().unwrap(),
        "--pins",
        "off",
        "--audit-arguments",
    ];
    let mut host = Running::start(house.command(&args));
    host.initialize(&json!({}));
    assert_eq!(
        text(&call(&mut host, 1, "one__greet", &json!({ "name": "Ada\u{202e}\u{9b}" }))),
        "one was called"
    );
    let refused = call(&mut host, 2, "one__part", &json!({}));
    assert_eq!(refused["isError"], true);
    assert!(text(&refused).ends_with("not today"), "{refused}");

    // A broken file changes nothing, and a whole one does.
    house.write("rules.toml", "[[rule]]\ndecide = 'allow'\ntoool = 'x'\n");
    let said = host.said(|line| line.contains("the previous rules remain in effect"));
    assert!(said.contains("rules.toml"), "{said}");
    assert!(text(&call(&mut host, 3, "one__part", &json!({}))).ends_with("not today"));
    house.write("rules.toml", "[[rule]]\ndecide = 'deny'\ntool = 'greet'\n[[rule]]\ndecide = 'allow'\n");
    host.said(|line| line.contains("policy reloaded: 2 rules"));
    assert_eq!(text(&call(&mut host, 4, "one__part", &json!({}))), "one was called");
    // Nobody can be asked here, and silence is no yes.
    house.write("rules.toml", "");
    host.said(|line| line.contains("policy reloaded: 0 rules"));
    assert!(text(&call(&mut host, 5, "one__part", &json!({}))).contains("cannot ask for one"));
    assert_eq!(house.read("one.log").matches("tools/call").count(), 2, "what was refused never arrived");
    host.close_stdin();
    host.child.wait().unwrap();

    let found = house.run(&["audit", "search", "--json", "--server", "one", "--kind", "call"]);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    let told: Vec<_> = found.as_array().unwrap().iter().rev().map(|one| &one["entry"]["ending"]).collect();
    assert_eq!(told, ["done", "refused", "refused", "done", "refused"]);
    let shown = house.run(&["audit", "search", "greet"]);
    assert!(shown.stdout.contains("one greet") && shown.stdout.contains("rule 1 (line 1)"), "{shown:?}");
    let exported = house.run(&["audit", "export", "--arguments"]);
    let exported = lines(&exported.stdout);
    let first = exported.iter().find(|one| one["entry"]["kind"] == "call").unwrap();
    assert_eq!(first["arguments"], json!({ "name": "Ada\u{202e}\u{9b}" }));
    // What was sent writes to no terminal.
    let raw = house.run(&["audit", "export", "--arguments"]).stdout;
    assert!(!raw.contains(['\u{202e}', '\u{9b}']) && raw.contains("Ada\\u202e\\u009b"), "{raw}");
    let plain = house.run(&["audit", "export"]);
    assert!(!plain.stdout.contains("Ada"), "{plain:?}");

    let verified = house.run(&["audit", "verify", "--json"]);
    let verified: Value = serde_json::from_str(&verified.stdout).unwrap();
    // The server was started, five calls were decided about, and it has ended.
    assert_eq!(verified["entries"], 7);
    let noted = verified["place"].as_str().unwrap();
    assert_eq!(house.run(&["audit", "verify", "--noted", noted]).code, Some(0));
    let forged = noted.replacen("7:", "6:", 1);
    let refused = house.run(&["audit", "verify", "--noted", &forged]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("entry 6 does not match the noted position"), "{refused:?}");
}

#[test]
fn many_decisions_can_be_looked_at_at_once() {
    let house = House::new();
    house.write(
        "rules.toml",
        "[[rule]]\ndecide = 'deny'\nserver = 'files'\ndestinations = '~/.ssh'\n[[rule]]\ndecide = 'allow'\n",
    );
    let rules = house.path("rules.toml");
    let asked = |lines: &str| {
        house.write("calls.jsonl", lines);
        let mut command = house.command(&["policy", "batch", "--policy", rules.to_str().unwrap()]);
        command.stdin(std::fs::File::open(house.path("calls.jsonl")).unwrap()).output().unwrap()
    };
    let output = asked(
        "{\"server\":\"files\",\"tool\":\"read\",\"arguments\":{\"path\":\"~/.ssh/id\"}}\n\
         {\"server\":\"files\",\"tool\":\"read\",\"arguments\":{\"path\":\"~/work\"}}\n\
         {\"server\":\"files\",\"tool\":\"read\",\"arguments\":{\"a\":1,\"a\":2}}\n",
    );
    let answers: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let decisions: Vec<&Value> = answers.iter().map(|answer| &answer["decision"]).collect();
    assert_eq!(decisions, ["deny", "allow", "deny"], "{answers:?}");
    let wrong = asked("{\"server\":\"files\"}\n");
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("line 1 is not a valid call"), "{said}");
}

#[test]
fn a_decision_can_be_looked_at_without_a_call() {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write(
        "config/hospes/policy.toml",
        "trusted = ['git']\n[[rule]]\nname = 'secrets'\ndecide = 'deny'\ndestinations = '~/.ssh'\n",
    );
    let checked = house.run(&["policy", "check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let denied = house.run(&["policy", "test", "files", "read", r#"{"path":"~/.ssh/id"}"#]);
    assert_eq!(
        denied.stdout,
        format!(
            "  rule 1 (line 2) `secrets`: matches, `destinations` is at `~/.ssh`\n  annotations: read_only, \
             not destructive, idempotent, not open_world (from the built-in server); ignored, because the server is \
             not in `trusted`\n  data flow: results contain private data; the call cannot send data out\n\
             deny  rule 1 (line 2) `secrets`\n"
        ),
        "{denied:?}"
    );
    let tested = house.run(&["--json", "policy", "test", "git", "log", "--read-only", "--closed-world"]);
    let tested: Value = serde_json::from_str(&tested.stdout).unwrap();
    assert_eq!((&tested["decision"], &tested["steps"][0]["fits"]), (&json!("allow"), &json!(false)));
    let log =
        ["--json", "policy", "test", "git", "log", "--read-only", "--private", "mail", "--untrusted", "web"];
    let closed = house.run(&[&log[..], &["--closed-world"]].concat());
    let closed: Value = serde_json::from_str(&closed.stdout).unwrap();
    let none = json!({ "private": false, "untrusted": false, "outbound": false });
    assert_eq!((&closed["decision"], &closed["labels"]), (&json!("allow"), &none));
    let sends = house.run(&["policy", "test", "git", "push", "--private", "mail", "--untrusted", "web"]);
    let said = "; this session has read private data from `mail` and untrusted text from `web`, and this can send things out\n";
    assert!(sends.stdout.contains("\nask  no rule matches") && sends.stdout.ends_with(said), "{sends:?}");
    let twice = house.run(&["policy", "test", "git", "log", r#"{"a":1,"a":2}"#]);
    assert!(twice.stdout.starts_with("deny") && twice.stdout.contains("duplicate key"), "{twice:?}");

    house.write("config/hospes/policy.toml", "[[rule]]\ndecide = 'alow'\n");
    let broken = house.run(&["policy", "check"]);
    assert_eq!(broken.code, Some(1));
    assert!(
        broken
            .stderr
            .contains("policy.toml:2:10: rule 1: `decide`: unknown value `alow`; did you mean `allow`?"),
        "{broken:?}"
    );
    // And nothing starts by rules that cannot be read.
    let config = house.config(&[("one", house.server("one", &["greet"], ""))]);
    let refused = house.run(&["stdio", "--config", &config]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused
            .stderr
            .contains("policy.toml:2:10: rule 1: `decide`: unknown value `alow`; did you mean `allow`?"),
        "{refused:?}"
    );
}

#[test]
fn without_rules_everything_may_be_called_and_is_recorded_unless_told_not_to_be() {
    let house = House::new();
    let config = house.config(&[("one", house.server("one", &["greet"], ""))]);
    let nothing = house.run(&["audit", "verify"]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.stderr.contains("there is no audit log yet"), "{nothing:?}");
    for (extra, entries) in [("--no-audit", None), ("--start-wait=10", Some(3))] {
        let mut host = Running::start(house.command(&["stdio", "--config", &config, extra]));
        host.initialize(&json!({}));
        assert_eq!(text(&call(&mut host, 1, "one__greet", &json!({}))), "one was called");
        host.close_stdin();
        host.child.wait().unwrap();
        let verified = house.run(&["audit", "verify", "--json"]);
        let told = serde_json::from_str::<Value>(&verified.stdout).ok().map(|told| told["entries"].clone());
        assert_eq!(told, entries.map(|entries: i32| json!(entries)));
    }
}

/// The entries about servers, the oldest first.
fn of_servers(house: &House) -> Vec<Value> {
    let found = house.run(&["audit", "search", "--json", "--kind", "server", "--limit", "1000"]);
    let Ok(found) = serde_json::from_str::<Vec<Value>>(&found.stdout) else { return Vec::new() };
    found.into_iter().rev().map(|one| one["entry"].clone()).collect()
}

/// covers: SECP-08
#[test]
fn each_launch_of_a_server_is_recorded_with_what_it_was_and_how_it_ended() {
    let house = House::new();
    house.server("well", &["greet"], "");
    let script = house.path("well.sh").display().to_string();
    let config = format!(
        r#"
[servers.well]
command = ["sh", "{script}", "--api-key", "s3cret"]
env = {{ TOKEN = "s3cret" }}
[servers.ends]
command = ["sh", "-c", "exit 3"]
[servers.absent]
command = ["{absent}"]
[servers.confined]
command = ["sh", "{script}"]
sandbox = {{ files = {{ read = ["gone"] }} }}
"#,
        absent = house.path("absent").display(),
    );
    let config = house.write("hospes.toml", &config).display().to_string();
    let mut host = Running::start(house.command(&["stdio", "--config", &config, "--start-wait", "10"]));
    host.initialize(&json!({}));
    assert_eq!(text(&call(&mut host, 1, "well__greet", &json!({}))), "well was called");
    let has = |server: &str, what: &str| {
        of_servers(&house).iter().any(|entry| entry["server"] == server && entry["decision"] == what)
    };
    eventually("failed launches are recorded", || {
        has("ends", "exited") && has("absent", "not started") && has("confined", "not started")
    });
    assert!(has("well", "started") && !has("well", "exited"), "recorded while it runs");
    host.close_stdin();
    host.child.wait().unwrap();

    let entries = of_servers(&house);
    let of = |server: &str| entries.iter().filter(move |entry| entry["server"] == server).collect::<Vec<_>>();
    let words = |entry: &Value, names: &[&str]| -> Vec<String> {
        names.iter().map(|name| entry[name].as_str().unwrap_or("-").to_owned()).collect()
    };
    let [started, exited] = of("well")[..] else { panic!("{entries:?}") };
    let common = ["decision", "ending", "by"];
    let place = |line: usize| format!("{config}:{line}:");
    for (entry, expected) in [(started, ["started", "done"]), (exited, ["exited", "done"])] {
        let said = words(entry, &common);
        assert_eq!(said[..2], expected, "{entry}");
        assert!(said[2].starts_with(&place(2)), "{entry}");
        let command = entry["subject"].as_str().unwrap();
        assert!(command.ends_with(&format!("/sh {script} --api-key [redacted]")), "{entry}");
        assert!(command.starts_with('/'), "the file that is run: {entry}");
        assert_eq!(entry["target"].as_str().unwrap().len(), 64, "{entry}");
        assert_eq!(entry["sandbox"], "not confined: all files and the network of its user");
    }
    assert_eq!(exited["how"], "exited with status 0, after it was asked to stop");
    assert!(started["call"].is_string() && started["call"] == exited["call"], "{started} {exited}");
    assert!(exited["micros"].as_u64().unwrap() > 0 && started["micros"].is_null());

    // A server that ends at once: each process once, and no more of them than the growing waits between them allow.
    let ends = of("ends");
    assert!(ends.len() <= 40, "{ends:?}");
    let pairs = ends.chunks(2).map(|pair| <[_; 2]>::try_from(pair).unwrap_or_else(|_| panic!("{ends:?}")));
    for (index, [started, exited]) in pairs.enumerate() {
        assert_eq!(words(started, &common)[..2], ["started", "done"], "{started}");
        assert_eq!(started["call"], exited["call"]);
        let said = words(exited, &["decision", "ending", "how"]);
        // The host may have ended between the two of the last process.
        let is_stopped = index > 0 && 2 * (index + 1) == ends.len() && said[2].contains("asked to stop");
        assert!(is_stopped || said == ["exited", "failed", "exited with status 3"], "{exited}");
    }
    for entry in of("absent") {
        assert_eq!(words(entry, &common)[..2], ["not started", "failed"], "{entry}");
        assert!(entry["how"].as_str().unwrap().contains("there is no file"), "{entry}");
    }
    for entry in of("confined") {
        assert_eq!(words(entry, &common)[..2], ["not started", "refused"], "{entry}");
        assert!(entry["how"].as_str().unwrap().starts_with("its sandbox cannot be enforced"), "{entry}");
    }
    let all = house.run(&["audit", "export"]).stdout;
    assert!(!all.contains("s3cret"), "{all}");
    let shown = house.run(&["audit", "search", "--kind", "server", "--server", "ends"]).stdout;
    assert!(shown.contains("exited") && shown.contains("exited with status 3"), "{shown}");
    assert!(shown.contains(&place(5)), "{shown}");
    // Each try starts it once, and the listing has one line for all of them.
    let tries = ends.len() / 2;
    assert_eq!(shown.lines().count(), if tries > 1 { 1 } else { 2 }, "{shown}");
    assert!(tries == 1 || shown.contains(&format!("{tries} times since")), "{tries}: {shown}");
    let each = house.run(&["audit", "search", "--kind", "server", "--server", "ends", "--each"]).stdout;
    assert_eq!(each.lines().count(), ends.len(), "{each}");
    let wrong = house.run(&["audit", "search", "--kind", "sever"]);
    assert!(wrong.code != Some(0) && wrong.stderr.contains("server"), "{wrong:?}");
}

#[test]
fn what_was_recorded_longer_ago_than_it_is_kept_is_forgotten_when_a_host_starts() {
    let house = House::new();
    house.server("one", &["greet"], "");
    let folder = house.path("state/hospes");
    let config = |audit: &str| {
        let script = house.path("one.sh").display().to_string();
        let text = format!("{audit}\n[servers.one]\ncommand = [\"sh\", \"{script}\"]\n");
        house.write("hospes.toml", &text).display().to_string()
    };
    let run = |config: String| {
        let mut host = Running::start(house.command(&["stdio", "--config", &config, "--start-wait", "10"]));
        host.initialize(&json!({}));
        assert_eq!(text(&call(&mut host, 1, "one__greet", &json!({}))), "one was called");
        host.close_stdin();
        host.child.wait().unwrap();
    };
    let counts = || {
        let verified = house.run(&["audit", "verify", "--json"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
        let told = serde_json::from_str::<Value>(&verified.stdout).unwrap();
        (told["entries"].as_u64().unwrap(), told["forgotten"].as_u64().unwrap())
    };
    std::fs::create_dir_all(&folder).unwrap();
    {
        let audit = hospes_store::AuditLog::open(folder.join("audit.db"), folder.join("audit.key")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for days in [100, 91, 89] {
            let mut entry = hospes_store::AuditEntry::new(hospes_store::AuditEntryKind::Call);
            entry.at -= days * 24 * 60 * 60 * 1_000_000;
            runtime.block_on(audit.record(entry)).unwrap();
        }
    }
    run(config(""));
    let (before, forgotten) = counts();
    assert_eq!(forgotten, 0, "for ever, unless it is said otherwise");
    run(config("[audit]\nkeep_days = 90"));
    let (after, forgotten) = counts();
    assert!(forgotten == 2 && after > before - forgotten, "{before} {after} {forgotten}");
}
