//! `hospes add` and `hospes update` of servers at URLs: with a sign-in, and with secret headers.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::process::{Command, Stdio};

use hospes_registry_testkit::RegistryServer;
use serde_json::{Value, json};

use crate::auth;
use crate::sign_in::agree;
use crate::support::site::{Site, browse, signed_in};
use crate::support::terminal::Terminal;
use crate::support::{House, Ran, eventually};

/// Name of the remote server in the registry.
const NAME: &str = "io.github.loopback/greeter";

/// Checks that nothing of an addition is left.
fn assert_clean(house: &House) {
    assert_eq!(house.read("config/hospes/config.toml"), "");
    assert!(!house.path("state/hospes/credentials").exists(), "no token is stored");
    let pins = house.run(&["pins", "list", "--json"]);
    assert!(pins.stdout.trim() == "[]" || pins.stderr.contains("no server"), "{pins:?}");
}

/// Starts an addition at a terminal that is wide enough for the URL of a sign-in.
fn add_at_terminal(house: &House, url: &str) -> Terminal {
    let mut command = house.command(&["add", "--name", "there", url]);
    // There is no browser here, so that the URL has to be opened by hand.
    command.env("BROWSER", "false").env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    let mut terminal = Terminal::start(&command, 1200, 60);
    terminal.sees("Start it?");
    terminal.type_keys("\r");
    terminal.sees("asks you to sign in");
    terminal
}

/// Goes to the page of the authorization server, which is another host, and signs in there.
fn sign_in(terminal: &mut Terminal) {
    terminal.type_keys("\r");
    assert!(agree(&page_of(terminal)).contains("Sign-in response received"));
    terminal.sees("keep the server?");
}

/// Waits for the page of the authorization server.
fn page_of(terminal: &Terminal) -> String {
    let text = terminal.until("a page", |screen| screen.contents().contains("/authorize?"));
    text.lines().map(str::trim).find(|line| line.starts_with("http")).unwrap().to_owned()
}

/// A server that requires a sign-in is added with one, and a running host uses it without a restart.
#[test]
fn a_server_that_requires_a_sign_in_is_added_with_it_or_leaves_nothing() {
    let (there, house) = (House::new(), House::new());
    let (_server, url, _) = auth::up(&there, "127.0.0.1:0", "[auth]\nusers = { ann = \"correct horse\" }");

    // Without a person, the command that signs in is named.
    let refused = house.run(&["add", "--yes", "--name", "there", &url]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.contains(&format!("hospes auth login {url}")), "{refused:?}");
    assert_clean(&house);

    // A no to the sign-in.
    let mut terminal = add_at_terminal(&house, &url);
    terminal.type_keys("q\r");
    terminal.sees("not signed in");
    assert_eq!(terminal.wait(), 3, "{}", terminal.text());
    assert_clean(&house);

    // A no to what the server offers.
    let mut terminal = add_at_terminal(&house, &url);
    sign_in(&mut terminal);
    terminal.type_keys("r\r");
    terminal.sees("not added");
    assert_eq!(terminal.wait(), 1, "{}", terminal.text());
    assert_clean(&house);

    // The host has started before there is a store of credentials.
    let _host = house.up(&[]);
    eventually("the host runs", || house.run(&["status"]).code == Some(0));
    let mut terminal = add_at_terminal(&house, &url);
    sign_in(&mut terminal);
    terminal.type_keys("\r");
    assert_eq!(terminal.wait(), 0, "{}", terminal.text());
    assert!(terminal.text().contains("Applications see it now"), "{}", terminal.text());
    let config = house.read("config/hospes/config.toml");
    assert!(config.contains("[servers.there]") && !config.contains("Authorization"), "{config}");
    let called = house.run(&["call", "there", "time__now", "timezone=Asia/Tokyo"]);
    assert!(called.code == Some(0) && called.stdout.contains("+09:00"), "{called:?}");
}

/// Requests that a server answers before a sign-in if only its lists and calls require one.
const OPEN_METHODS: &[&str] = &["server/discover", "subscriptions/listen"];

/// The tokens of an earlier sign-in are used by an addition and by an update, and an update without them changes nothing.
#[test]
fn an_addition_and_an_update_use_the_tokens_of_an_earlier_sign_in() {
    // The server refuses the first request, or only the one for its tools.
    for open_methods in [&[], OPEN_METHODS] {
        let (house, site, registry) = (House::new(), Site::open(), RegistryServer::start());
        site.script().open_methods = open_methods;
        let entry = |version: &str| {
            json!({
                "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
                "name": NAME, "description": "Greets.", "version": version,
                "remotes": [{ "type": "streamable-http", "url": site.mcp() }],
            })
        };
        registry.publish(entry("1.0.0"));
        let run = |args: &[&str]| {
            let mut command: Command = house.command_at(&registry, args);
            Ran::of(command.stdin(Stdio::null()).output().unwrap())
        };
        let refused = run(&["add", "--yes", NAME]);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert_clean(&house);

        let login = signed_in(&house, &["auth", "login", &site.mcp()], &[]);
        assert_eq!(login.code, Some(0), "{login:?}");
        let added = run(&["add", "--yes", NAME]);
        assert_eq!(added.code, Some(0), "{added:?}");
        let called = house.run(&["call", "greeter", "greet"]);
        assert_eq!(called.stdout, "let in\n", "{called:?}");

        registry.publish(entry("1.1.0"));
        let updated = run(&["update", "greeter", "--yes"]);
        assert_eq!(updated.code, Some(0), "{updated:?}");
        let config = house.read("config/hospes/config.toml");
        assert!(config.contains("1.1.0"), "{config}");

        assert_eq!(house.run(&["auth", "logout", &site.mcp()]).code, Some(0));
        registry.publish(entry("1.2.0"));
        let refused = run(&["update", "greeter", "--yes"]);
        assert_eq!(refused.code, Some(3), "{refused:?}");
        assert!(refused.stderr.contains("hospes auth login greeter"), "{refused:?}");
        assert_eq!(house.read("config/hospes/config.toml"), config);
    }
}

/// A server that lets everybody connect and refuses only the list of its tools is signed in to like any other.
#[test]
fn a_server_that_refuses_only_its_list_is_added_with_a_sign_in() {
    let (house, site) = (House::new(), Site::open());
    site.script().open_methods = OPEN_METHODS;
    let mut terminal = add_at_terminal(&house, &site.mcp());
    terminal.type_keys("\r");
    browse(&page_of(&terminal));
    terminal.sees("keep the server?");
    terminal.type_keys("\r");
    assert_eq!(terminal.wait(), 0, "{}", terminal.text());
    let called = house.run(&["call", "there", "greet"]);
    assert_eq!(called.stdout, "let in\n", "{called:?}");
}

/// The tokens of a sign-in for a server that is not added are revoked, whether its trial fails or the person refuses it.
#[test]
fn the_tokens_of_a_server_that_is_not_added_are_revoked() {
    // The sign-in needs two requests with the token: the discovery, and the list of the tools.
    for (admits, seen, code) in [(None, "keep the server?", 1), (Some(2), "did not start", 4)] {
        let (house, site) = (House::new(), Site::open());
        site.script().admits = admits;
        let mut terminal = add_at_terminal(&house, &site.mcp());
        terminal.type_keys("\r");
        browse(&page_of(&terminal));
        terminal.sees(seen);
        if admits.is_none() {
            assert!(site.script().revoked.is_empty(), "the person may still keep it");
            terminal.type_keys("r\r");
        }
        assert_eq!(terminal.wait(), code, "{}", terminal.text());
        assert_clean(&house);
        assert_eq!(site.script().revoked, ["s3cret-token"], "{seen}");
    }
}

/// Secrets that an authorization server repeats are not shown, also if the command did not ask for them.
#[test]
fn a_sign_in_that_fails_during_an_update_shows_no_secret() {
    let (house, site, registry) = (House::new().with_token(), Site::open(), RegistryServer::start());
    let entry = |version: &str| {
        json!({
            "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
            "name": NAME, "description": "Greets.", "version": version,
            "remotes": [{
                "type": "streamable-http", "url": site.mcp(),
                "headers": [{ "name": "X-Key", "isRequired": true, "isSecret": true }],
            }],
        })
    };
    registry.publish(entry("1.0.0"));
    let file = house.write("key", "hidden-key-1\n").display().to_string();
    assert_eq!(signed_in(&house, &["auth", "login", &site.mcp()], &[]).code, Some(0));
    let add = ["add", "--yes", NAME, "--secret", &format!("X-Key=@{file}")];
    let added = Ran::of(house.command_at(&registry, &add).stdin(Stdio::null()).output().unwrap());
    assert_eq!(added.code, Some(0), "{added:?}");
    assert_eq!(house.run(&["auth", "logout", &site.mcp()]).code, Some(0));

    registry.publish(entry("1.1.0"));
    let refusal = json!({ "error": "invalid_grant", "error_description": "no hidden-key-1 here" });
    site.script().token = Some(("400 Bad Request", refusal.to_string()));
    let mut command = house.command_at(&registry, &["update", "greeter"]);
    command.env("BROWSER", "false").env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    let mut terminal = Terminal::start(&command, 1200, 60);
    terminal.sees("asks you to sign in");
    terminal.type_keys("\r");
    browse(&page_of(&terminal));
    terminal.sees("not signed in to");
    assert_eq!(terminal.wait(), 3, "{}", terminal.text());
    let text = terminal.text();
    assert!(text.contains("no ••• here") && !text.contains("hidden-key-1"), "{text}");
}

/// A header of a server at a URL is sealed, and sent.
#[test]
fn a_header_of_a_url_is_sealed_and_sent() {
    let (house, site) = (House::new(), Site::open());
    let file = house.write("token", "Bearer s3cret-token\n").display().to_string();
    for (header, why) in [
        ("Authorization=Bearer s3cret-token", "must not be an argument"),
        ("Authorization: Bearer s3cret-token", "expected NAME=VALUE"),
        ("Bad Name=@token", "not the name of a header"),
        ("X=@nothing", "cannot read"),
    ] {
        let refused = house.run(&["add", "--yes", &site.mcp(), "--header", header]);
        assert!(refused.code == Some(1) && refused.stderr.contains(why), "{header}: {refused:?}");
        assert!(!refused.stderr.contains("s3cret-token"), "{refused:?}");
    }
    let unused = house.run(&["add", "--yes", "npm:x@1.0.0", "--header", "X=@token"]);
    assert!(unused.stderr.contains("--header is not used for"), "{unused:?}");
    assert_clean(&house);

    let header = format!("Authorization=@{file}");
    let planned = house.run(&["add", "--dry-run", "--name", "site", &site.mcp(), "--header", &header]);
    assert!(planned.stderr.contains("Authorization"), "{planned:?}");
    assert!(!format!("{planned:?}").contains("s3cret-token"), "{planned:?}");
    let added = house.run(&["add", "--yes", "--name", "site", &site.mcp(), "--header", &header, "-v"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(!format!("{added:?}").contains("s3cret-token"), "{added:?}");
    let config = house.read("config/hospes/config.toml");
    assert!(config.contains("${secret:") && !config.contains("s3cret-token"), "{config}");
    site.script().shown.clear();
    let called = house.run(&["call", "site", "greet"]);
    assert_eq!(called.stdout, "let in\n", "{called:?}");
    assert!(site.script().shown.iter().all(|shown| shown == "Bearer s3cret-token"));
    let secrets = house.run(&["secret", "list", "--json"]);
    assert!(secrets.stdout.contains("Authorization"), "{secrets:?}");

    // A wrong value is refused by the server, and is in no text.
    house.write("token", "Bearer wr0ng-token");
    let refused = house.run(&["add", "--yes", "--name", "other", &site.mcp(), "--header", &header]);
    assert!(refused.code != Some(0) && !refused.stderr.contains("wr0ng"), "{refused:?}");
    assert_eq!(house.read("config/hospes/config.toml"), config);
}

/// A remote server of a registry whose entry declares a secret header.
#[test]
fn a_remote_server_of_a_registry_gets_its_secret_header() {
    let (house, site, registry) = (House::new(), Site::open(), RegistryServer::start());
    registry.publish(json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": NAME, "description": "Greets.", "version": "1.0.0",
        "remotes": [{
            "type": "streamable-http", "url": site.mcp(),
            "headers": [{
                "name": "Authorization", "value": "Bearer {token}", "isRequired": true,
                "variables": { "token": { "description": "A token", "isRequired": true, "isSecret": true } },
            }],
        }],
    }));
    let file = house.write("token", "s3cret-token\n").display().to_string();
    let add = |more: &[&str]| {
        let args = [&["add", "--yes", NAME], more].concat();
        let mut command = house.command_at(&registry, &args);
        Ran::of(command.stdin(Stdio::null()).output().unwrap())
    };
    let missing = add(&[]);
    assert!(missing.code == Some(1) && missing.stderr.contains("--secret token=@FILE"), "{missing:?}");
    let mut shown = house.command_at(&registry, &["add", "--dry-run", NAME]);
    let shown = Ran::of(shown.stdin(Stdio::null()).output().unwrap());
    assert!(shown.code == Some(0) && shown.stderr.contains("It would ask for token."), "{shown:?}");
    let added = add(&["--secret", &format!("token=@{file}")]);
    assert_eq!(added.code, Some(0), "{added:?}");
    // The secret was stored just now.
    assert!(!added.stderr.contains("mistake"), "{added:?}");
    let config = house.read("config/hospes/config.toml");
    assert!(config.contains("Bearer ${secret:") && !config.contains("s3cret-token"), "{config}");
    let called = house.run(&["call", "greeter", "greet"]);
    assert_eq!(called.stdout, "let in\n", "{called:?}");
    let listed: Value = serde_json::from_str(&house.run(&["pins", "list", "--json"]).stdout).unwrap();
    assert_eq!(listed[0]["server"], "greeter");
}
