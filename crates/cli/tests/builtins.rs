//! The built-in servers as programs of their own.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

#[allow(dead_code, clippy::unwrap_used, reason = "each test program uses its part, and tests may panic")]
mod support;

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
