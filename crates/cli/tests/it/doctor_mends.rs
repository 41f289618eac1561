//! Tests of `hospes doctor`: what mends a fault is a command, or names the place.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use serde_json::json;

use crate::support::checks::{NOT_FOUND, assert_found, check, doctor, json_answer, program, report, web};
use crate::support::{House, Ran, text};

#[test]
fn a_launcher_gets_the_settings_of_its_packages_and_others_do_not() {
    let house = House::new();
    std::fs::create_dir_all(house.path("bin")).unwrap();
    program(&house, "bin/node", "echo v22.1.0");
    let seen = house.path("seen").display().to_string();
    let probe = format!("env > '{seen}.'${{0##*/}}\nexit 1");
    for name in ["npx", "other"] {
        program(&house, &format!("bin/{name}"), &probe);
    }
    let index = web(Box::new(|path, _| match path {
        "/server/1.2.4" => json_answer(&json!({ "name": "server", "version": "1.2.4" })),
        _ => NOT_FOUND.to_owned(),
    }));
    let entry =
        |name: &str| json!({ "command": house.path("bin").join(name), "args": ["-y", "server@1.2.4"] });
    let config = house.config(&[("npx", entry("npx")), ("other", entry("other"))]);
    let url = format!("http://{index}");
    let run = |variables: &[(&str, &str)]| {
        let mut command = house.command(&["doctor", "--json", "--config", &config]);
        let path = format!("{}:/usr/bin:/bin", house.path("bin").display());
        command.envs(variables.iter().copied()).env("PATH", path).stdin(Stdio::null());
        report(&Ran::of(command.output().unwrap()))
    };
    let secret = [
        ("npm_config_registry", &*url),
        ("HTTPS_PROXY", "http://me:s3cret@127.0.0.1:1"),
        ("no_proxy", "here"),
    ];
    let found = run(&secret);
    assert_eq!(check(&found, "npx", "C06")["what"], "", "the mirror answered: {found:#}");
    let seen = house.read("seen.npx");
    assert!(
        seen.contains(&format!("npm_config_registry={url}\n")) && seen.contains("no_proxy=here\n"),
        "{seen}"
    );
    assert!(!seen.contains("s3cret"), "{seen}");
    let other = house.read("seen.other");
    assert!(other.contains("PATH=") && !other.contains("npm_config") && !other.contains("proxy"), "{other}");
    // The file of npm names the mirror, too.
    std::fs::create_dir_all(house.path("home")).unwrap();
    house.write("home/.npmrc", &format!("//127.0.0.1/:_authToken=s3cret\nregistry={url}/\n"));
    let found = run(&[]);
    assert_eq!(check(&found, "npx", "C06")["what"], "", "{found:#}");
}

#[test]
fn links_whose_targets_are_gone_are_named() {
    let house = House::new();
    std::fs::create_dir_all(house.path("home/.cursor")).unwrap();
    symlink("/none/cursor.json", house.path("home/.cursor/mcp.json")).unwrap();
    symlink("gone/server", house.path("deadlink")).unwrap();
    symlink(house.path("gone/folder"), house.path("cwd")).unwrap();
    let config = house.config(&[
        ("program", json!({ "command": house.path("deadlink") })),
        ("folder", json!({ "command": "cat", "cwd": house.path("cwd") })),
    ]);
    let (_, found) = doctor(&house, &["--config", &config]);
    for found in [&found, &doctor(&house, &["cursor"]).1] {
        assert_found(
            found,
            "cursor",
            "A01",
            "fault",
            "is a link to a file that does not exist",
            "; hospes connect cursor",
        );
    }
    let target = text(&house.path("gone/server"));
    assert_found(&found, "program", "C02", "fault", &format!("is a link to {target}"), &target);
    let folder = text(&house.path("gone/folder"));
    assert_found(&found, "folder", "C05", "fault", "it is a link to", &format!("mkdir -p {folder}"));
}

#[test]
fn a_proxy_that_wants_a_password_is_named() {
    let house = House::new();
    let proxy = web(Box::new(|_, _| {
        let body = "<html>Proxy Authentication Required</html>";
        format!(
            "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }));
    for (scheme, variable) in [("http", "HTTP_PROXY"), ("https", "HTTPS_PROXY")] {
        let url = format!("{scheme}://mcp.example.com/mcp");
        let mut command = house.command(&["doctor", "--json", &url]);
        command.env(variable, format!("http://{proxy}")).stdin(Stdio::null());
        let found = report(&Ran::of(command.output().unwrap()));
        let what = format!("the proxy {proxy} answers 407: it wants a user name and password");
        let mend = format!("export {variable}=http://USER:PASSWORD@{proxy}");
        assert_found(&found, &url, "N03", "fault", &what, &mend);
        assert_found(&found, &url, "N03", "fault", &what, "export NO_PROXY=mcp.example.com");
    }
}

#[test]
fn the_endpoint_beside_a_wrong_url_is_found() {
    let house = House::new();
    let site = web(Box::new(|path, _| match path {
        "/mcp" | "/api/mcp" => {
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned()
        }
        _ => NOT_FOUND.to_owned(),
    }));
    let url = |path: &str| format!("http://{site}{path}");
    let config =
        house.config(&[("root", json!({ "url": url("/") })), ("below", json!({ "url": url("/api") }))]);
    let (_, found) = doctor(&house, &["--config", &config]);
    for (name, path) in [("root", "/mcp"), ("below", "/api/mcp")] {
        let mend = format!("write url = \"{}\" in the entry `{name}`", url(path));
        assert_found(&found, name, "N05", "fault", &format!("the endpoint is at {}", url(path)), &mend);
    }
    let named = url("/");
    let (_, found) = doctor(&house, &[&named]);
    assert_found(
        &found,
        &named,
        "N05",
        "fault",
        "the endpoint is at",
        &format!("hospes doctor {}", url("/mcp")),
    );
}

#[test]
fn remedies_name_what_they_are_about() {
    let house = House::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = house.write(
        "own.toml",
        &format!(
            "[servers.gh]\ncommand = ['cat', '${{secret:gh.EX_TOKEN}}']\n\
             [servers.refused]\nurl = 'http://{closed}/mcp'\n\
             [servers.script]\ncommand = ['{}']\n",
            program(&house, "script", "")
        ),
    );
    house.write("script", "#!/opt/none/bin/sh9\n");
    let (_, found) = doctor(&house, &["--config", &text(&config)]);
    assert_eq!(check(&found, "gh", "C01")["mend"], "hospes secret set gh.EX_TOKEN", "{found:#}");
    assert_found(&found, "refused", "N02", "fault", &closed.to_string(), "start the server");
    assert_found(&found, "script", "C03", "fault", "/opt/none/bin/sh9", "correct line 1 of ");
}

#[test]
fn a_sign_in_is_offered_only_where_one_is_possible() {
    let house = House::new();
    let site = web(Box::new(|path, _| match path {
        "/mcp" => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
        _ => NOT_FOUND.to_owned(),
    }));
    let url = format!("http://{site}/mcp");
    let refused = house.run(&["add", "--yes", "--name", "locked", &url]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("--header Authorization=@FILE"), "{refused:?}");
    assert!(!refused.stderr.contains("auth login"), "{refused:?}");
    let listed = house.run(&["list", &url]);
    assert!(
        listed.stderr.contains("offers no sign-in") && !listed.stderr.contains("auth login"),
        "{listed:?}"
    );
}

#[test]
fn a_server_that_prints_to_stdout_is_added_with_a_warning() {
    let house = House::new();
    let server = house.server("noisy", &["look"], "");
    let script = format!("echo 'Listening on stdin'\n{}", house.read("noisy.sh"));
    house.write("noisy.sh", &script);
    let args: Vec<String> = serde_json::from_value(server["args"].clone()).unwrap();
    let command = server["command"].as_str().unwrap();
    let mut words = vec!["add", "--yes", "--name", "noisy", "--", command];
    words.extend(args.iter().map(String::as_str));
    let added = house.run(&words);
    assert_eq!(added.code, Some(0), "{added:?}");
    let said = format!("{}{}", added.stdout, added.stderr);
    assert!(said.contains("prints other text to stdout") && said.contains("Listening on stdin"), "{added:?}");
}
