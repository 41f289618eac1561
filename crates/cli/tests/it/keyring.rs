//! The key to the tokens in the keyring of the desktop: GNOME's, as Debian has it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and say what they skip")]

use crate::support;

use std::fs;
use std::process::Stdio;

use serde_json::Value;
use support::desktop::Desktop;
use support::site::{Site, signed_in};
use support::{House, Ran};

const SEALED: &str = "state/hospes/credentials";
const KEY: &str = "config/hospes/credentials.key";

/// Somebody at a desktop.
struct Person {
    house: House,
    desktop: Desktop,
}

impl Person {
    fn new() -> Option<Self> {
        Some(Self { house: House::new(), desktop: Desktop::open()? })
    }

    fn run(&self, args: &[&str]) -> Ran {
        let mut command = self.house.command(args);
        command.env("DBUS_SESSION_BUS_ADDRESS", &self.desktop.address);
        Ran::of(command.stdin(Stdio::null()).output().unwrap())
    }

    fn login(&self, url: &str, args: &[&str]) -> Ran {
        let bus = [("DBUS_SESSION_BUS_ADDRESS", self.desktop.address.as_str())];
        signed_in(&self.house, &[&["auth", "login", url], args].concat(), &bus)
    }

    /// Returns true if a call by a process of its own is authorized.
    fn is_let_in(&self, url: &str) -> bool {
        let ran = self.run(&["call", url, "greet"]);
        assert!(ran.code == Some(0) || ran.code == Some(3), "{ran:?}");
        ran.code == Some(0)
    }

    /// Returns the location of the key, according to `auth status`.
    fn key_is(&self) -> String {
        let status = self.run(&["auth", "status", "--json"]);
        let known: Value = serde_json::from_str(&status.stdout).unwrap_or_else(|_| panic!("{status:?}"));
        known["key"].as_str().unwrap().to_owned()
    }

    fn has(&self, file: &str) -> bool {
        self.house.path(file).exists()
    }

    /// Everything that is in its files.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        for folder in ["state/hospes", "config/hospes"] {
            for entry in fs::read_dir(self.house.path(folder)).unwrap().flatten() {
                files.push((entry.path().display().to_string(), fs::read(entry.path()).unwrap()));
            }
        }
        files
    }
}

/// covers: AUTC-16
#[test]
fn the_key_to_the_tokens_is_in_the_keyring_and_nowhere_else() {
    let Some(mut person) = Person::new() else { return };
    person.desktop.start(true);
    let site = Site::open();
    let login = person.login(&site.mcp(), &["-vvv"]);
    assert_eq!(login.code, Some(0), "{login:?}");
    assert!(person.has(SEALED) && !person.has(KEY));
    assert!(person.is_let_in(&site.mcp()), "by another process");
    assert_eq!(person.key_is(), "keyring");
    let key = person.desktop.key();
    assert_eq!(key.len(), 43, "32 bytes");
    assert!(
        login.stderr.contains("DEBUG") || login.stderr.contains("TRACE"),
        "it was listened to: {login:?}"
    );
    for (name, text) in person.files() {
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!text.contains(&key) && !text.contains("s3cret"), "{name}");
    }
    let called = person.run(&["call", &site.mcp(), "greet", "-vvv"]);
    for said in [format!("{login:?}"), format!("{called:?}")] {
        assert!(!said.contains(&key) && !said.contains("s3cret"), "{said}");
    }
    // The desktop is started anew.
    person.desktop.stop();
    person.desktop.start(true);
    assert!(person.is_let_in(&site.mcp()));
}

#[test]
fn a_locked_keyring_says_so_and_loses_nothing() {
    let Some(mut person) = Person::new() else { return };
    person.desktop.start(true);
    let site = Site::open();
    assert_eq!(person.login(&site.mcp(), &[]).code, Some(0));
    let (before, url) = (person.files(), site.mcp());
    let refused = |person: &Person, why: &str| {
        for args in [&["call", &url, "greet"][..], &["auth", "status"], &["auth", "logout", &url]] {
            let ran = person.run(args);
            assert!(ran.code == Some(1) && ran.stderr.contains(why), "{args:?}: {ran:?}");
            assert!(ran.stderr.contains("nothing was changed"), "{ran:?}");
        }
        for what in ["login", "repair"] {
            let ran = person.run(&["auth", what, &url, "--device"]);
            assert!(ran.code == Some(1) && ran.stderr.contains(why), "{what}: {ran:?}");
        }
        assert_eq!(before, person.files(), "{why}");
    };
    person.desktop.stop();
    refused(&person, "no system keyring is available");
    person.desktop.start(false);
    refused(&person, "the keyring is locked");
    person.desktop.stop();
    person.desktop.start(true);
    assert!(person.is_let_in(&site.mcp()));
}

/// Servers without tokens start and can be reached; the others report the error.
#[test]
fn a_locked_keyring_holds_up_no_host() {
    let Some(mut person) = Person::new() else { return };
    person.desktop.start(true);
    let site = Site::open();
    assert_eq!(person.login(&site.mcp(), &[]).code, Some(0));
    person.desktop.stop();
    person.desktop.start(false);
    let text = format!("[servers.time]\nbuiltin = \"time\"\n[servers.site]\nurl = \"{}\"\n", site.mcp());
    let config = person.house.write("hospes.toml", &text);
    let args = ["up", "--config", &support::text(&config), "--listen", "127.0.0.1:0", "--json"];
    let mut command = person.house.command(&args);
    command.env("DBUS_SESSION_BUS_ADDRESS", &person.desktop.address);
    let host = support::Running::start(command);
    let mut said = String::new();
    let started: Value = loop {
        said += &host.stdout.recv_timeout(support::LIMIT).expect("it starts");
        if let Ok(started) = serde_json::from_str(&said) {
            break started;
        }
    };
    let url = started["endpoint"].as_str().unwrap();
    let called = person.house.run(&["call", url, "time__now", "timezone=Asia/Tokyo"]);
    assert!(called.stdout.contains("+09:00"), "{called:?}");
    support::eventually("it says why", || {
        let status = person.house.run(&["status", url]);
        status.stdout.contains("the keyring is locked")
    });
}

#[test]
fn a_key_that_was_taken_away_is_missed_and_repair_begins_anew() {
    let Some(mut person) = Person::new() else { return };
    person.desktop.start(true);
    let site = Site::open();
    let url = site.mcp();
    assert_eq!(person.login(&url, &[]).code, Some(0));
    let sealed = fs::read(person.house.path(SEALED)).unwrap();
    let key = person.desktop.key();
    person.desktop.forget();
    for args in [&["call", &url, "greet"][..], &["auth", "login", &url], &["auth", "status"]] {
        let ran = person.run(args);
        assert!(ran.code == Some(1) && ran.stderr.contains("was not found in"), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("hospes auth repair"), "{ran:?}");
    }
    assert_eq!(person.desktop.key(), "", "no other is made in its place");
    let repaired = person.run(&["auth", "repair", &url, "--device"]);
    assert!(repaired.code == Some(0) && repaired.stderr.contains("credentials.lost-1"), "{repaired:?}");
    assert!(person.is_let_in(&url));
    assert_eq!(fs::read(person.house.path("state/hospes/credentials.lost-1")).unwrap(), sealed);
    assert!(person.desktop.key().len() == 43 && person.desktop.key() != key);
}

#[test]
fn where_there_is_no_keyring_the_key_is_in_a_file_until_there_is_one() {
    let Some(mut person) = Person::new() else { return };
    let (one, other) = (Site::open(), Site::open());
    let wanted = person.login(&one.mcp(), &["--credentials-store", "keyring"]);
    assert!(wanted.code == Some(1) && wanted.stderr.contains("no system keyring is available"), "{wanted:?}");
    assert!(!person.has(KEY) && !person.has(SEALED));
    let first = person.login(&one.mcp(), &[]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let lines: Vec<_> = first.stderr.lines().filter(|line| line.contains("keyring")).collect();
    assert!(lines.len() == 1 && lines[0].contains("no system keyring is available"), "{first:?}");
    assert!(person.has(KEY) && person.key_is() == "file");
    // A desktop, from now on. Who only calls moves nothing.
    person.desktop.start(true);
    assert!(person.is_let_in(&one.mcp()) && person.has(KEY) && person.desktop.key().is_empty());
    let second = person.login(&other.mcp(), &[]);
    assert!(second.code == Some(0) && second.stderr.contains("to the system keyring"), "{second:?}");
    assert!(!person.has(KEY) && person.key_is() == "keyring");
    assert!(person.is_let_in(&one.mcp()) && person.is_let_in(&other.mcp()), "the key is the same");
    // And out of it again.
    let third = person.login(&other.mcp(), &["--credentials-store", "file"]);
    assert_eq!(third.code, Some(0), "{third:?}");
    person.desktop.stop();
    assert!(person.key_is() == "file" && person.is_let_in(&one.mcp()) && person.is_let_in(&other.mcp()));
}

/// Somebody else's key, or that of another folder of the same person's.
#[test]
fn a_key_that_is_in_the_keyring_already_is_never_written_over() {
    let Some(mut person) = Person::new() else { return };
    let site = Site::open();
    assert_eq!(person.login(&site.mcp(), &[]).code, Some(0), "into a file");
    person.desktop.start(true);
    let elsewhere = Person { house: House::new(), desktop: person.desktop };
    assert_eq!(elsewhere.login(&site.mcp(), &[]).code, Some(0));
    let key = elsewhere.desktop.key();
    person = Person { house: person.house, desktop: elsewhere.desktop };
    let again = person.login(&site.mcp(), &[]);
    assert!(again.code == Some(0) && person.key_is() == "file", "{again:?}");
    let wanted = person.login(&site.mcp(), &["--credentials-store", "keyring"]);
    assert!(wanted.code == Some(1) && wanted.stderr.contains("a different key"), "{wanted:?}");
    assert!(person.is_let_in(&site.mcp()));
    assert_eq!(person.desktop.key(), key);
}

#[test]
fn two_that_sign_in_at_once_have_one_key() {
    let Some(mut person) = Person::new() else { return };
    person.desktop.start(true);
    let sites = [Site::open(), Site::open(), Site::open()];
    std::thread::scope(|scope| {
        for site in &sites {
            let person = &person;
            scope.spawn(move || assert_eq!(person.login(&site.mcp(), &[]).code, Some(0)));
        }
    });
    for site in &sites {
        assert!(person.is_let_in(&site.mcp()));
    }
}
