//! The whole host as a process, with servers that behave and servers that do not.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use serde_json::{Value, json};
use support::{House, Running, eventually, names};

/// The host's own tool, which is listed where the policy allows plans, as without a policy file.
const PROPOSE_PLAN: &str = "hospes__propose_plan";

fn stdio(house: &House, servers: &[(&str, Value)]) -> Running {
    let config = house.config(servers);
    Running::start(house.command(&["stdio", "--config", &config, "--start-wait", "10"]))
}

/// R1: a peer shows a modern client the tools of modern servers only, and drops a server silently.
#[test]
fn every_tool_of_every_server_is_listed_under_its_servers_name() {
    let house = House::new();
    let servers =
        [("one", house.server("one", &["greet", "part"], "")), ("two", house.server("two", &["greet"], ""))];
    let mut host = stdio(&house, &servers);
    let server = host.initialize(&json!({}));
    assert_eq!(server["serverInfo"]["name"], "hospes");
    let listed = host.ask(1, "tools/list", &json!({}));
    assert_eq!(names(&listed["result"], "tools"), [PROPOSE_PLAN, "one__greet", "one__part", "two__greet"]);
    for name in ["one", "two"] {
        let answer = host.ask(
            2,
            "tools/call",
            &json!({ "name": format!("{name}__greet"), "arguments": { "a": 1.0 } }),
        );
        assert_eq!(answer["result"]["content"][0]["text"], format!("{name} was called"));
        let sent = house.read(&format!("{name}.log"));
        let call = sent.lines().find(|line| line.contains("tools/call")).unwrap();
        assert!(call.contains(r#""name":"greet""#) && call.contains(r#""arguments":{"a":1.0}"#), "{call}");
    }
    let wrong = host.ask(3, "tools/call", &json!({ "name": "one__gret" }));
    assert_eq!(wrong["error"]["code"], -32602);
    assert!(wrong["error"]["message"].as_str().unwrap().contains("did you mean one__greet?"), "{wrong}");
}

#[test]
fn servers_that_are_dead_or_noisy_or_silent_hide_nothing() {
    let house = House::new();
    let noisy = r#"*'"method":"tools/list"'*) echo 'listing the tools now'; answer '{"tools":[{"name":"shout","inputSchema":{"type":"object"}}]}';;"#;
    let servers = [
        ("dead", json!({ "command": "sh", "args": ["-c", "echo 'no licence' >&2; exit 1"] })),
        ("missing", json!({ "command": "/no/such/program" })),
        ("noisy", house.server("noisy", &[], noisy)),
        ("silent", json!({ "command": "sh", "args": ["-c", "while read -r line; do :; done"] })),
        ("well", house.server("well", &["greet", "greet"], "")),
    ];
    let config = house.config(&servers);
    let mut host = Running::start(house.command(&["stdio", "--config", &config, "--start-wait", "1"]));
    host.initialize(&json!({}));
    let listed = host.ask(1, "tools/list", &json!({}));
    assert_eq!(names(&listed["result"], "tools"), [PROPOSE_PLAN, "noisy__shout", "well__greet"]);

    let mut status = Value::Null;
    // On a busy machine the time to start is over before the first try of each has failed.
    eventually("the dead and the missing one have failed once", || {
        let read = host.ask(2, "resources/read", &json!({ "uri": "hospes://status" }));
        status = serde_json::from_str(read["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
        let servers = status["servers"].as_array().unwrap();
        let problems = servers.iter().filter(|server| server["problem"].is_string()).count();
        problems >= 2
    });
    let state = |name: &str| {
        let servers = status["servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == name).unwrap().clone()
    };
    assert_eq!(state("well")["state"], "ready");
    assert_eq!(state("well")["tools"], 1, "a tool listed twice is one tool");
    // Between two tries, or in the middle of the next.
    let dead = state("dead");
    assert!(["retrying", "starting"].contains(&dead["state"].as_str().unwrap()), "{dead}");
    assert!(state("dead")["problem"].as_str().unwrap().contains("no licence"), "{status}");
    assert!(state("missing")["problem"].as_str().unwrap().contains("/no/such/program"), "{status}");
    assert_eq!(state("silent")["state"], "starting");
    host.said(|line| line.contains("cannot be reached") && line.contains("dead"));
}

/// covers: STDIO-14
#[test]
fn a_server_that_exits_is_started_again_and_stays_listed() {
    let house = House::new();
    // The first call ends it.
    let fragile = format!(
        r#"*'"method":"tools/call"'*) if [ ! -e '{once}' ]; then touch '{once}'; exit 7; fi; answer '{{"content":[{{"type":"text","text":"back again"}}]}}';;"#,
        once = house.path("once").display()
    );
    let mut host = stdio(&house, &[("fragile", house.server("fragile", &["work"], &fragile))]);
    host.initialize(&json!({}));
    host.ask(1, "tools/list", &json!({}));
    let broken = host.ask(2, "tools/call", &json!({ "name": "fragile__work" }));
    assert!(broken["error"]["message"].as_str().unwrap().contains("status 7"), "{broken}");
    let listed = host.ask(3, "tools/list", &json!({}));
    assert_eq!(names(&listed["result"], "tools"), ["fragile__work", PROPOSE_PLAN]);
    // Waits for the restart instead of failing.
    let answer = host.ask(4, "tools/call", &json!({ "name": "fragile__work" }));
    assert_eq!(answer["result"]["content"][0]["text"], "back again");
}

/// covers: STDIO-15
#[test]
fn a_modern_server_is_asked_for_its_changes_again_when_it_is_started_again() {
    let house = House::new();
    let modern = format!(
        r#"*'"method":"server/discover"'*) answer '{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{"listChanged":true}}}},"ttlMs":0,"cacheScope":"private"}}';;
    *'"method":"subscriptions/listen"'*) printf '{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{{"toolsListChanged":true}},"_meta":{{"io.modelcontextprotocol/subscriptionId":%s}}}}}}\n' "$id";;
    *'"method":"tools/list"'*) answer '{{"resultType":"complete","tools":[{{"name":"work","inputSchema":{{"type":"object"}}}}],"ttlMs":0,"cacheScope":"private"}}';;
    *'"method":"tools/call"'*) if [ ! -e '{once}' ]; then touch '{once}'; exit 7; fi; answer '{{"resultType":"complete","content":[{{"type":"text","text":"back again"}}]}}';;"#,
        once = house.path("once").display()
    );
    let mut host = stdio(&house, &[("fragile", house.server("fragile", &[], &modern))]);
    host.initialize(&json!({}));
    host.ask(1, "tools/list", &json!({}));
    let listens = || house.read("fragile.log").matches("subscriptions/listen").count();
    let until = |count: usize| {
        let begun = std::time::Instant::now();
        while listens() < count {
            assert!(begun.elapsed() < support::LIMIT, "{}", house.read("fragile.log"));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    until(1);
    let broken = host.ask(2, "tools/call", &json!({ "name": "fragile__work" }));
    assert!(broken["error"]["message"].as_str().unwrap().contains("status 7"), "{broken}");
    let answer = host.ask(3, "tools/call", &json!({ "name": "fragile__work" }));
    assert_eq!(answer["result"]["content"][0]["text"], "back again", "{answer}");
    until(2);
}

/// R7: a peer sends what comes before its own session stands on without one, shows the application the error, and
/// writes whole bodies into its log.
#[test]
fn r7_what_comes_before_the_servers_session_stands_waits_in_order_and_no_body_is_logged() {
    const CALLS: u32 = 25;
    for more in [&[][..], &["-vv"]] {
        let house = House::new();
        let gate = house.path("gate");
        let slow = format!(
            r#"*'"method":"initialize"'*) while [ ! -e '{}' ]; do sleep 0.02; done; answer '{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"one","version":"1"}}}}';;"#,
            gate.display()
        );
        let config = house.config(&[("one", house.server("one", &["greet"], &slow))]);
        let args = [more, &["stdio", "--config", &config, "--start-wait", "30"]].concat();
        let mut host = Running::start(house.command(&args));
        // All at once, and nothing is waited for.
        let client = json!({ "name": "eager", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        host.send(&json!({ "jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello }));
        host.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        for id in 0..CALLS {
            let params = json!({ "name": "one__greet", "arguments": { "n": id, "say": "s3ntinel" } });
            host.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
        }
        host.send(&json!({ "jsonrpc": "2.0", "id": "list", "method": "tools/list" }));
        assert_eq!(host.next()["id"], "hello");
        house.write("gate", "");
        let mut answers = Vec::new();
        while answers.len() < CALLS as usize + 1 {
            let answer = host.next();
            if answer.get("method").is_some() {
                continue;
            }
            assert!(answer.get("result").is_some(), "{answer}");
            answers.push(answer["id"].clone());
        }
        for id in (0..CALLS).map(Value::from).chain(["list".into()]) {
            assert_eq!(answers.iter().filter(|answer| **answer == id).count(), 1, "{id}: {answers:?}");
        }
        let sent = house.read("one.log");
        let calls = sent.lines().filter(|line| line.contains(r#""method":"tools/call""#));
        let order: Vec<Value> = calls
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["params"]["arguments"]["n"].clone())
            .collect();
        assert_eq!(order, (0..CALLS).map(Value::from).collect::<Vec<_>>());
        host.close_stdin();
        host.wait();
        while let Ok(line) = host.stderr.recv() {
            assert!(!line.contains("s3ntinel"), "{line}");
        }
    }
}

/// The folders of `--root` are sent to servers even if the application has no roots.
/// covers: ROOT-01
#[test]
fn the_hosts_roots_are_told_to_servers() {
    let house = House::new();
    let ask = r#"*'"method":"tools/call"'*) call=$id; printf '{"jsonrpc":"2.0","id":99,"method":"roots/list"}\n'; IFS= read -r line; printf '%s\n' "$line" >> "$0.roots"; id=$call; answer '{"content":[]}';;"#;
    let config = house.config(&[("one", house.server("one", &["greet"], ask))]);
    let folder = support::text(&house.path("shared"));
    std::fs::create_dir(&folder).unwrap();
    let mut host = Running::start(house.command(&[
        "stdio",
        "--config",
        &config,
        "--root",
        &folder,
        "--start-wait",
        "10",
    ]));
    host.initialize(&json!({}));
    host.ask(1, "tools/call", &json!({ "name": "one__greet" }));
    let told = house.read("one.sh.roots");
    assert!(told.contains(&format!("file://{folder}")), "{told}");
    let sent = house.read("one.log");
    let opened = sent.lines().find(|line| line.contains(r#""method":"initialize""#)).unwrap();
    let opened: Value = serde_json::from_str(opened).unwrap();
    assert!(opened["params"]["capabilities"]["roots"].is_object(), "{opened}");
}

/// The probe of a server's era is paid once for each definition of a server.
#[test]
fn the_era_of_a_server_is_remembered() {
    let house = House::new();
    let servers = [("one", house.server("one", &["greet"], ""))];
    for run in 0..2 {
        let mut host = stdio(&house, &servers);
        host.initialize(&json!({}));
        host.ask(1, "tools/list", &json!({}));
        host.close_stdin();
        host.wait();
        let probes = house.read("one.log").matches("server/discover").count();
        assert_eq!(probes, 1, "after run {run}");
    }
}

/// Each set of capabilities has a connection on which nothing more is declared.
/// covers: ROOT-01
#[test]
fn a_server_is_told_what_the_application_can_do_and_no_more() {
    let house = House::new();
    let mut host = stdio(&house, &[("one", house.server("one", &["greet"], ""))]);
    host.initialize(&json!({ "sampling": {}, "roots": { "listChanged": true } }));
    host.ask(1, "tools/list", &json!({}));
    let sent = house.read("one.log");
    let told: Vec<Value> = sent
        .lines()
        .filter(|line| line.contains(r#""method":"initialize""#))
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["params"]["capabilities"].clone())
        .collect();
    assert_eq!(told.len(), 2, "{sent}");
    assert!(told.contains(&json!({})) && told.contains(&json!({ "sampling": {}, "roots": {} })), "{told:?}");
}

#[test]
fn nothing_is_left_when_the_host_is_stopped() {
    let house = House::new();
    // One that does not want to go.
    let stubborn = house.server("stubborn", &["greet"], "");
    let script = house.read("stubborn.sh");
    house.write("stubborn.sh", &format!("trap '' TERM INT HUP\n{script}\nwhile :; do sleep 1; done"));
    for signal in ["-INT", "-TERM"] {
        let servers = [("stubborn", stubborn.clone()), ("one", house.server("one", &["greet"], ""))];
        let config = house.config(&servers);
        let mut host = Running::start(house.command(&["up", "--config", &config, "--listen", "127.0.0.1:0"]));
        host.said(|line| line.contains("http://127.0.0.1:") && line.contains("/mcp"));
        host.said(|line| {
            line.contains("event=ready server=stubborn") || line.contains("event=ready server=one")
        });
        eventually("both servers run", || house.is_running("stubborn") && house.is_running("one"));
        host.signal(signal);
        assert_eq!(host.wait(), Some(0));
        eventually("both are gone", || !house.is_running("stubborn") && !house.is_running("one"));
        std::fs::remove_file(house.path("stubborn.pid")).unwrap();
        std::fs::remove_file(house.path("one.pid")).unwrap();
    }
}

/// The host ends the servers that it has already started.
#[test]
fn asked_to_end_while_it_starts_the_host_ends_what_it_started() {
    let house = House::new();
    let script = format!(
        "trap '' TERM INT HUP; echo $$ > '{}'; while :; do sleep 1; done",
        house.path("slow.pid").display()
    );
    let script = house.write("slow.sh", &script);
    let toml = format!("[servers.slow]\ncommand = 'sh'\nargs = ['{}']\nrequired = true\n", script.display());
    let config = support::text(&house.write("hospes.toml", &toml));
    for start in [&["up", "--listen", "127.0.0.1:0"][..], &["stdio"]] {
        let mut args = start.to_vec();
        args.extend(["--config", &config]);
        let mut host = Running::start(house.command(&args));
        eventually("the server runs", || house.is_running("slow"));
        host.signal("-INT");
        assert_eq!(host.wait(), Some(0), "{start:?}");
        eventually("it is gone", || !house.is_running("slow"));
        std::fs::remove_file(house.path("slow.pid")).unwrap();
    }
}

#[test]
fn asked_twice_to_end_the_host_does_not_wait_for_calls() {
    let house = House::new();
    let hangs = r#"*'"method":"tools/call"'*) ;;"#;
    let config = house.config(&[("one", house.server("one", &["work"], hangs))]);
    let args = ["up", "--config", &config, "--listen", "127.0.0.1:0", "--shutdown-timeout", "10000"];
    let mut host = Running::start(house.command(&args));
    let line = host.said(|line| line.contains("endpoint") && line.contains("http://127.0.0.1:"));
    let url = &line[line.find("http://").unwrap()..];
    let mut call = Running::start(house.command(&["call", url.trim(), "one__work"]));
    eventually("the call is at the server", || house.read("one.log").contains("tools/call"));
    host.signal("-INT");
    host.said(|line| line.contains("Ctrl-C again"));
    host.signal("-INT");
    assert_eq!(host.wait(), Some(0));
    eventually("the server is gone", || !house.is_running("one"));
    assert_ne!(call.wait(), Some(0));
}

/// Standard output belongs to the protocol, whatever a server prints.
#[test]
fn malformed_input_is_answered_and_the_session_lives_on() {
    let house = House::new();
    let mut host = stdio(&house, &[("one", house.server("one", &["greet"], ""))]);
    host.initialize(&json!({}));
    host.send(&json!("not a message"));
    assert!(host.next()["error"]["code"].is_i64());
    let answer = host.ask(1, "tools/call", &json!({ "name": 7 }));
    assert_eq!(answer["error"]["code"], -32602);
    let answer = host.ask(2, "no/such/method", &json!({}));
    assert_eq!(answer["error"]["code"], -32601);
    let answer = host.ask(3, "tools/list", &json!({ "cursor": "forged" }));
    assert_eq!(answer["error"]["code"], -32602);
    let answer = host.ask(4, "tools/call", &json!({ "name": "one__greet" }));
    assert_eq!(answer["result"]["content"][0]["text"], "one was called");
}

/// The command finds a running host over HTTP without being given its address.
#[test]
fn a_running_host_is_found_and_asked() {
    let house = House::new();
    let mut time = Running::start(house.command(&["serve", "time", "--http", "127.0.0.1:0"]));
    let line = time.said(|line| line.starts_with("listening on "));
    let time_url = line.trim_start_matches("listening on ").to_owned();
    let servers = [("one", house.server("one", &["greet"], "")), ("clock", json!({ "url": time_url }))];
    let config = house.config(&servers);
    let mut host =
        Running::start(house.command(&["up", "--config", &config, "--listen", "127.0.0.1:0", "--json"]));
    let mut text = String::new();
    let started: Value = loop {
        text += &host.stdout.recv_timeout(support::LIMIT).expect("it starts");
        if let Ok(started) = serde_json::from_str(&text) {
            break started;
        }
    };
    let console = started["console"].as_str().unwrap();
    assert!(console.starts_with("http://127.0.0.1:") && console.contains("/open#"), "{console}");
    assert_eq!(started["servers"], json!(["one", "clock"]));
    let url = started["endpoint"].as_str().unwrap().to_owned();
    eventually("both are ready", || {
        let status = house.run(&["status", "--json"]);
        let status: Value = serde_json::from_str(&status.stdout).unwrap_or_default();
        let servers = status["servers"].as_array().cloned().unwrap_or_default();
        status["endpoint"] == *url
            && servers.iter().all(|server| server["state"] == "ready")
            && servers.len() == 2
    });
    let called = house.run(&["call", &url, "clock__now", "timezone=Asia/Tokyo"]);
    assert!(called.code == Some(0) && called.stdout.contains("+09:00"), "{called:?}");
    let called = house.run(&["call", &url, "one__greet"]);
    assert_eq!(called.stdout, "one was called\n");

    // The server goes away: calls say so, the state tells, and it comes back by itself.
    time.signal("-TERM");
    time.wait();
    let gone = house.run(&["call", &url, "clock__now"]);
    assert_eq!(gone.code, Some(5), "{gone:?}");
    eventually("it is noticed", || house.run(&["status"]).stdout.contains("retrying"));
    let address = time_url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let _again = Running::start(house.command(&["serve", "time", "--http", &address]));
    eventually("it is back", || house.run(&["call", &url, "clock__now"]).code == Some(0));
    host.signal("-INT");
    assert_eq!(host.wait(), Some(0));
    assert_eq!(house.run(&["status"]).code, Some(4));
}

/// "There is no such tool" was true, and no help.
#[test]
fn a_call_of_a_server_that_is_down_says_how_it_is() {
    let house = House::new();
    let servers =
        [("one", house.server("one", &["greet"], "")), ("dead", json!({ "command": "/no/such/program" }))];
    let config = house.config(&servers);
    let mut host =
        Running::start(house.command(&["up", "--config", &config, "--listen", "127.0.0.1:0", "--json"]));
    let mut text = String::new();
    let started = loop {
        text.push_str(&host.stdout.recv_timeout(support::LIMIT).unwrap());
        if let Ok(started) = serde_json::from_str::<Value>(&text) {
            break started;
        }
    };
    let url = started["endpoint"].as_str().unwrap();
    let called = house.run(&["call", url, "dead__greet"]);
    assert_eq!(called.code, Some(4), "{called:?}");
    assert!(called.stderr.contains("the server `dead` is"), "{called:?}");
    let called = house.run(&["call", url, "one__great"]);
    assert!(called.code == Some(5) && called.stderr.contains("did you mean `one__greet`"), "{called:?}");
    host.signal("-INT");
    assert_eq!(host.wait(), Some(0));
}

#[test]
fn a_required_server_that_cannot_be_reached_ends_the_start() {
    let house = House::new();
    let file = house.write(
        "hospes.toml",
        "[servers.needed]\ncommand = \"/no/such/program\"\nargs = []\nrequired = true\n",
    );
    let ran = house.run(&["up", "--config", &support::text(&file), "--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(ran.stderr.contains("`needed` is required"), "{ran:?}");
}

/// Without a configuration the built-in servers run, and the program says so.
#[test]
fn without_a_configuration_the_built_in_servers_are_there() {
    let house = House::new();
    house.write("note.txt", "both host and guest");
    let mut host = Running::start(house.command(&["stdio"]));
    host.initialize(&json!({}));
    let listed = host.ask(1, "tools/list", &json!({}));
    let names = names(&listed["result"], "tools");
    for prefix in ["files__", "time__", "everything__"] {
        assert!(names.iter().any(|name| name.starts_with(prefix)), "{prefix}: {names:?}");
    }
}

/// Log messages that belong to no call reach an application of the older era.
#[test]
fn log_messages_outside_of_calls_come_through() {
    let house = House::new();
    let talk = r#"*'"method":"tools/call"'*) answer '{"content":[]}'; printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"disk","data":"nearly full"}}\n';;"#;
    let mut host = stdio(&house, &[("one", house.server("one", &["work"], talk))]);
    host.initialize(&json!({}));
    host.ask(1, "logging/setLevel", &json!({ "level": "info" }));
    // The message belongs to no call, so it may come before the answer or after it.
    host.send(
        &json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "one__work" } }),
    );
    let message = loop {
        let message = host.next();
        if message["method"] == "notifications/message" {
            break message;
        }
    };
    assert_eq!(message["params"]["data"], "nearly full");
}
