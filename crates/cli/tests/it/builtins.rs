//! The built-in servers as programs of their own.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use serde_json::json;
use support::{House, Running, text};

#[test]
fn help_shows_the_servers_and_what_each_takes() {
    let house = House::new();
    let all = house.run(&["serve", "--help"]);
    assert_eq!(all.code, Some(0), "{all:?}");
    for builtin in hospes_servers::BUILTINS {
        assert!(all.stdout.contains(builtin.name) && all.stdout.contains(builtin.about), "{}", all.stdout);
        let one = house.run(&["serve", builtin.name, "--help"]);
        assert_eq!(one.code, Some(0), "{one:?}");
        assert!(one.stdout.contains(builtin.about) && one.stdout.contains("--http"), "{}", one.stdout);
    }
    assert!(house.run(&["serve", "files", "--help"]).stdout.contains("--write"));
    let wrong = house.run(&["serve", "tmie"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("time"), "{wrong:?}");
    let wrong = house.run(&["serve", "files", "--writ", "."]);
    assert!(wrong.stderr.contains("--write"), "{wrong:?}");
    let wrong = house.run(&["serve", "files", "absent"]);
    assert!(wrong.stderr.contains("cannot serve files from absent: No such file"), "{wrong:?}");
}

#[test]
fn a_server_takes_its_options_from_the_configuration_too() {
    let house = House::new();
    std::fs::create_dir(house.path("notes")).unwrap();
    let entry = |args: &str| {
        let text = format!("[servers.notes]\nbuiltin = \"files\"\nargs = [{args}]\n");
        text_of(&house, &text)
    };
    let config = entry(&format!("\"--write\", {:?}", text(&house.path("notes"))));
    let write = ["call", "--config", &config, "notes", "write_file", "path=a.txt", "content=written"];
    let ran = house.run(&write);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(house.read("notes/a.txt"), "written");
    let config = entry(&format!("{:?}", text(&house.path("notes"))));
    let ran = house.run(&["call", "--config", &config, "notes", "write_file", "path=a.txt", "content=again"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert_eq!(house.read("notes/a.txt"), "written");
}

fn text_of(house: &House, content: &str) -> String {
    text(&house.write("hospes.toml", content))
}

/// Returns the sockets of a process that others could reach: the listening ones, according to the kernel.
#[cfg(target_os = "linux")]
fn listening(pid: u32) -> Vec<String> {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = links.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let own: Vec<String> = links
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut found = Vec::new();
    // Where the state of a socket stands, and its number: 0A is a TCP socket that listens, UDP ones all receive, and
    // with 00010000 among its flags a Unix socket takes connections.
    for (table, state, wanted, inode) in [
        ("tcp", 3, Some("0A"), 9),
        ("tcp6", 3, Some("0A"), 9),
        ("udp", 3, None, 9),
        ("udp6", 3, None, 9),
        ("unix", 3, Some("00010000"), 6),
    ] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_open = wanted.is_none_or(|wanted| fields.get(state) == Some(&wanted));
            if is_open && fields.get(inode).is_some_and(|inode| own.iter().any(|own| own == inode)) {
                found.push(format!("{table} {line}"));
            }
        }
    }
    found
}

/// covers: SECP-03
#[cfg(target_os = "linux")]
#[test]
fn a_server_is_spoken_to_over_its_pipes_and_by_nobody_else_unless_it_is_told_otherwise() {
    let house = House::new();
    for builtin in hospes_servers::BUILTINS {
        let folder = text(&house.path(""));
        let mut args = vec!["serve", builtin.name];
        if matches!(builtin.name, "files" | "git") {
            args.push(&folder);
        }
        let mut server = Running::start(house.command(&args));
        server.initialize(&json!({}));
        server.ask(1, "tools/list", &json!({}));
        assert_eq!(listening(server.child.id()), [""; 0], "{}", builtin.name);
        // Who started it has the other end of its pipes, and leaves by closing them.
        server.close_stdin();
        assert_eq!(server.wait(), Some(0), "{}", builtin.name);
    }
    let server = Running::start(house.command(&["serve", "time", "--http", "127.0.0.1:0"]));
    let said = server.said(|line| line.contains("listening on http://127.0.0.1:"));
    assert_eq!(listening(server.child.id()).len(), 1, "it is found where there is one: {said}");
}

/// Killed in the middle of writing, again and again: what is there is one whole file.
#[cfg(unix)]
#[test]
fn a_kill_leaves_no_half_written_file() {
    const BYTES: usize = 1 << 20;
    let house = House::new();
    std::fs::create_dir(house.path("notes")).unwrap();
    let folder = text(&house.path("notes"));
    for kill_after in 0..12 {
        let mut server = Running::start(house.command(&["serve", "files", "--write", &folder]));
        server.initialize(&json!({}));
        let write = |id: usize| {
            let content = char::from(b'a' + u8::try_from(id % 26).unwrap()).to_string().repeat(BYTES);
            let arguments = json!({ "path": "file.txt", "content": content });
            let params = json!({ "name": "write_file", "arguments": arguments });
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
        };
        for id in 1..=4 + kill_after {
            server.send(&write(id));
        }
        // Calls are under way; some are done.
        for _ in 0..kill_after / 4 + 1 {
            server.next();
        }
        server.signal("-KILL");
        server.wait();
        let content = std::fs::read(house.path("notes/file.txt")).unwrap();
        assert_eq!(content.len(), BYTES);
        assert!(content.iter().all(|byte| *byte == content[0]), "two files in one");
    }
}
