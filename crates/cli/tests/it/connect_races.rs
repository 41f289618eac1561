//! Tests of `hospes connect` and `hospes disconnect` while others write the same files, and after they were killed.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Child, Stdio};

use serde_json::Value;
use support::{Ran, Running};

use crate::connect::{CODEX, CURSOR, GOOSE, Person};

const CLAUDE: &str = "home/.claude.json";
const CLAUDE_TEXT: &str = "{ \"mcpServers\": {}, \"history\": [] }";
const KIRO: &str = "home/.kiro/settings/mcp.json";

impl Person {
    fn start(&self, args: &[&str]) -> Child {
        let mut command = self.0.command(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// A process of the name of Claude Code that writes its file when `condition` holds for `$1`: the shell command
    /// `change`.
    fn start_claude(&self, condition: &str, change: &str) -> Running {
        let program = self.0.path("claude");
        fs::copy("/bin/sh", &program).unwrap();
        let script = format!("while [ -e \"$0\" ]; do if {condition}; then {change}; fi; sleep 0.02; done");
        let mut command = std::process::Command::new(&program);
        command.args(["-c", &script]).arg(&program).arg(self.0.path(CLAUDE));
        Running::start(command)
    }

    /// Number of records and back-ups.
    pub(crate) fn records(&self) -> usize {
        fs::read_dir(self.0.path("state/hospes/connections")).map_or(0, Iterator::count)
    }

    /// The only record.
    fn record(&self) -> std::path::PathBuf {
        let files = fs::read_dir(self.0.path("state/hospes/connections")).unwrap().flatten();
        let mut files = files.map(|file| file.path()).filter(|path| path.extension().unwrap() == "json");
        files.next().unwrap()
    }

    fn fails(&self, args: &[&str], reasons: &[&str]) {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        for reason in reasons {
            assert!(ran.stderr.contains(reason), "{reason}: {ran:?}");
        }
    }

    fn tokens(&self) -> Vec<String> {
        let text = self.0.read("state/hospes/application-tokens.json");
        let tokens: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
        tokens.iter().map(|token| token["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn ended(child: Child) -> Ran {
    Ran::of(child.wait_with_output().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn a_running_application_that_drops_the_entry_is_found() {
    let person = Person::new();
    person.write(CLAUDE, CLAUDE_TEXT);
    let write = format!("printf '%s' '{CLAUDE_TEXT}' > \"$1\"");
    let application = person.start_claude("grep -q hospes \"$1\"", &write);
    person.fails(&["connect", "claude-code"], &["without the entry", "quit Claude Code first"]);
    assert_eq!(person.state("claude-code").as_deref(), Some("not-connected"));
    assert_eq!(person.records(), 0);
    drop(application);
    person.succeeds(&["connect", "claude-code"]);
    assert_eq!(person.state("claude-code").as_deref(), Some("connected"));
}

/// The record is only forgotten if the file can be read and has no entry.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_being_written_is_not_taken_for_one_without_the_entry() {
    for (form, change, reason) in [
        ("half-written", "printf '{ \"mcpServers\": {' > \"$1\"", "it cannot be told"),
        ("empty", ": > \"$1\"", "it cannot be told"),
        ("deleted", "rm -f \"$1\"", "empty or gone"),
        ("a folder", "rm \"$1\"; mkdir \"$1\"", "not a regular file"),
        ("changed", "sed -i s/--application/--APPLICATION/ \"$1\"", "has changed the entry"),
    ] {
        let person = Person::new();
        person.write(CLAUDE, CLAUDE_TEXT);
        let saved = person.0.path("saved");
        let change = format!("cp \"$1\" '{0}.part'; mv '{0}.part' '{0}'; {change}", saved.display());
        let application = person.start_claude("grep -q -e --application \"$1\" 2>/dev/null", &change);
        person.fails(&["connect", "claude-code"], &[reason, "quit Claude Code first", "hospes disconnect"]);
        drop(application);
        assert_eq!(person.records(), 2, "{form}: the record and the back-up stay");
        // The application has written its file: the entry is there after all, and can be removed exactly.
        let _folder = fs::remove_dir(person.0.path(CLAUDE));
        fs::copy(&saved, person.0.path(CLAUDE)).unwrap();
        let ran = person.succeeds(&["disconnect", "claude-code"]);
        assert!(ran.stderr.contains("as it was before"), "{form}: {ran:?}");
        assert_eq!(person.0.read(CLAUDE), CLAUDE_TEXT, "{form}");
        assert_eq!(person.records(), 0);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_running_application_that_restores_the_entry_is_found() {
    let person = Person::new();
    person.write(CLAUDE, CLAUDE_TEXT);
    person.succeeds(&["connect", "claude-code"]);
    let memory = person.0.path("memory");
    fs::copy(person.0.path(CLAUDE), &memory).unwrap();
    let restore = format!("cp '{}' \"$1\"", memory.display());
    let application = person.start_claude("! grep -q hospes \"$1\"", &restore);
    let reasons = ["has written the entry", "quit Claude Code first; then `hospes disconnect claude-code`"];
    person.fails(&["disconnect", "claude-code"], &reasons);
    assert_eq!(person.state("claude-code").as_deref(), Some("connected"));
    drop(application);
    person.succeeds(&["disconnect", "claude-code"]);
    assert_eq!(person.0.read(CLAUDE), CLAUDE_TEXT);
    assert_eq!(person.records(), 0);
}

#[test]
fn several_connections_at_once_lose_no_record_and_no_token() {
    let person = Person::new();
    person.write("config/hospes/config.toml", "[endpoint]\nlisten = '127.0.0.1:7337'\ncallers = 'token'\n");
    let mut applications = ["codex", "crush", "cursor", "gemini", "goose", "kiro"];
    for round in ["connect", "disconnect"] {
        let all = applications.map(|id| person.start(&[round, id]));
        for ran in all.map(ended) {
            assert_eq!(ran.code, Some(0), "{ran:?}");
        }
        let mut tokens = person.tokens();
        tokens.sort();
        if round == "connect" {
            assert_eq!(tokens, applications);
            for id in applications {
                assert_eq!(person.state(id).as_deref(), Some("connected"), "{id}");
            }
            applications.reverse();
        }
    }
    assert!(person.tokens().is_empty() && person.records() == 0);
    assert_eq!(person.0.read("home/.cursor/mcp.json"), CURSOR);
    assert_eq!(person.0.read("home/.codex/config.toml"), CODEX);
    assert_eq!(person.0.read("config/goose/config.yaml"), GOOSE);
}

#[test]
fn one_application_is_connected_once_by_several_runs() {
    let person = Person::new();
    let all = [(); 4].map(|()| person.start(&["connect", "cursor"]));
    let all = all.map(ended);
    let count = |text: &str| all.iter().filter(|ran| ran.stderr.contains(text)).count();
    assert!(all.iter().all(|ran| ran.code == Some(0)), "{all:?}");
    assert_eq!((count("is connected"), count("is already connected")), (1, 3), "{all:?}");
    person.succeeds(&["disconnect", "cursor"]);
    assert_eq!(person.0.read("home/.cursor/mcp.json"), CURSOR);
}

#[test]
fn a_run_that_waits_says_for_whom() {
    let person = Person::new();
    fs::create_dir_all(person.0.path("state/hospes")).unwrap();
    let lock = fs::File::create(person.0.path("state/hospes/connections.lock")).unwrap();
    lock.lock().unwrap();
    person.0.write("state/hospes/connections.holder", "17\nhospes disconnect codex");
    let mut waiting = Running::start(person.0.command(&["connect", "cursor"]));
    waiting.said(|line| line.contains("waiting for `hospes disconnect codex` (process 17)"));
    assert_eq!(person.0.read("home/.cursor/mcp.json"), CURSOR);
    // What only looks does not wait.
    person.succeeds(&["connect", "--dry-run", "cursor"]);
    assert_eq!(person.state("cursor").as_deref(), Some("not-connected"));
    drop(lock);
    assert_eq!(waiting.wait(), Some(0));
    assert_eq!(person.state("cursor").as_deref(), Some("connected"));
}

#[test]
fn what_a_killed_run_has_left_is_cleared() {
    let person = Person::new();
    // Killed before the file was created: the folders and the record are there.
    person.succeeds(&["connect", "kiro"]);
    fs::remove_file(person.0.path(KIRO)).unwrap();
    person.succeeds(&["connect", "kiro"]);
    person.succeeds(&["disconnect", "kiro"]);
    assert!(!person.0.path("home/.kiro").exists(), "folders of the first run are left");
    // Killed after the file was deleted.
    person.succeeds(&["connect", "kiro"]);
    fs::remove_file(person.0.path(KIRO)).unwrap();
    person.succeeds(&["disconnect", "kiro"]);
    assert!(!person.0.path("home/.kiro").exists() && person.records() == 0);
    // Killed while a file was written: only what is known to be from Hospes goes.
    person.succeeds(&["connect", "kiro"]);
    person.succeeds(&["connect", "cursor"]);
    person.write("home/.kiro/settings/.hospes-1", &person.0.read(KIRO));
    person.write("home/.kiro/settings/.hospes-2", "");
    person.write("home/.cursor/.hospes-1", "of the application");
    person.write("state/hospes/connections/.hospes-1", CURSOR);
    person.succeeds(&["disconnect", "kiro"]);
    person.succeeds(&["disconnect", "cursor"]);
    assert!(!person.0.path("home/.kiro").exists() && person.records() == 0);
    assert_eq!(person.0.read("home/.cursor/.hospes-1"), "of the application");
    // Killed before the back-up was stored, or between the deletion of the back-up and of the record.
    person.succeeds(&["connect", "cursor"]);
    fs::remove_file(person.record().with_extension("backup")).unwrap();
    person.succeeds(&["disconnect", "cursor"]);
    assert_eq!(person.0.read("home/.cursor/mcp.json"), CURSOR);
    assert_eq!(person.records(), 0);
}

#[test]
fn a_damaged_record_leaves_an_entry_that_can_be_removed() {
    let person = Person::new();
    person.write("config/hospes/config.toml", "[endpoint]\nlisten = '127.0.0.1:7337'\ncallers = 'token'\n");
    for damage in ["", "{ \"version\": 1, \"applic", "\u{0}\u{0}"] {
        person.succeeds(&["connect", "cursor"]);
        assert_eq!(person.tokens(), ["cursor"]);
        fs::write(person.record(), damage).unwrap();
        let list = person.succeeds(&["connect"]);
        assert!(list.stdout.contains("is damaged"), "{list:?}");
        let ran = person.succeeds(&["disconnect", "cursor"]);
        assert!(ran.stderr.contains("is damaged") && ran.stderr.contains("is disconnected"), "{ran:?}");
        assert_eq!(person.0.read("home/.cursor/mcp.json"), CURSOR);
        assert!(person.tokens().is_empty() && person.records() == 0);
    }
    // One without an entry is replaced.
    person.succeeds(&["connect", "cursor"]);
    fs::write(person.record(), "").unwrap();
    person.write("home/.cursor/mcp.json", CURSOR);
    person.succeeds(&["connect", "cursor"]);
    let ran = person.succeeds(&["disconnect", "cursor"]);
    assert!(ran.stderr.contains("as it was before"), "{ran:?}");
}

#[test]
fn records_that_this_version_cannot_use_are_left_alone() {
    let person = Person::new();
    person.succeeds(&["connect", "cursor"]);
    let connected = person.0.read("home/.cursor/mcp.json");
    let record = person.record();
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace("\"version\": 1", "\"version\": 2")).unwrap();
    for command in ["connect", "disconnect"] {
        person.fails(
            &[command, "cursor"],
            &["was written by a newer version of Hospes", "nothing was changed"],
        );
    }
    assert_eq!(person.0.read("home/.cursor/mcp.json"), connected);
    assert!(record.exists());
    // A record of an earlier version has no number.
    fs::write(&record, text.replace("\"version\": 1,", "")).unwrap();
    person.succeeds(&["disconnect", "cursor"]);
    assert_eq!(person.0.read("home/.cursor/mcp.json"), CURSOR);
    // Something that cannot be read at all.
    fs::create_dir(&record).unwrap();
    person.fails(&["connect", "cursor"], &["cannot be read", "make the file readable"]);
    fs::remove_dir(&record).unwrap();
    let folder = person.0.path("state/hospes/connections");
    fs::remove_dir(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    for command in ["connect", "disconnect"] {
        person.fails(&[command, "cursor"], &["cannot read", "connections", "nothing was changed"]);
    }
    assert_eq!(person.0.read("home/.cursor/mcp.json"), CURSOR);
}

#[test]
fn a_link_in_place_of_the_file_stays() {
    let person = Person::new();
    // A created file was moved away, and a link leads to it.
    person.succeeds(&["connect", "kiro"]);
    let (file, moved) = (person.0.path(KIRO), person.0.path("dotfiles.json"));
    fs::rename(&file, &moved).unwrap();
    symlink(&moved, &file).unwrap();
    person.succeeds(&["disconnect", "kiro"]);
    assert!(file.is_symlink());
    let text = fs::read_to_string(&moved).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["mcpServers"], serde_json::json!({}), "{text}");
    fs::remove_file(&file).unwrap();
    // The target of a link is away for a while.
    person.succeeds(&["connect", "cursor"]);
    let file = person.0.path("home/.cursor/mcp.json");
    fs::rename(&file, &moved).unwrap();
    symlink(&moved, &file).unwrap();
    fs::rename(&moved, person.0.path("away")).unwrap();
    person.fails(&["disconnect", "cursor"], &["is a link to a file that does not exist"]);
    fs::rename(person.0.path("away"), &moved).unwrap();
    person.succeeds(&["disconnect", "cursor"]);
    assert!(file.is_symlink() && fs::read_to_string(&moved).unwrap() == CURSOR);
    // Another name of the file would keep the entry.
    fs::remove_file(&file).unwrap();
    person.write("home/.cursor/mcp.json", CURSOR);
    person.succeeds(&["connect", "cursor"]);
    fs::hard_link(&file, person.0.path("other")).unwrap();
    person.fails(&["disconnect", "cursor"], &["several hard links", "by hand"]);
    fs::remove_file(person.0.path("other")).unwrap();
    person.succeeds(&["disconnect", "cursor"]);
    assert_eq!(person.0.read("home/.cursor/mcp.json"), CURSOR);
}

/// Folder in which nobody can create another one, not even the administrator.
#[cfg(target_os = "linux")]
#[test]
fn folders_that_cannot_be_written_are_named() {
    let person = Person::new();
    symlink("/sys", person.0.path("home/.kiro")).unwrap();
    person.fails(&["connect", "kiro"], &["the file was not changed", "writable"]);
    assert_eq!(person.records(), 0, "a record is left");
    let person = Person::new();
    symlink("/sys", person.0.path("state")).unwrap();
    person.fails(&["connect", "cursor"], &["cannot write into the state folder", "nothing was changed"]);
    assert_eq!(person.0.read("home/.cursor/mcp.json"), CURSOR);
}
