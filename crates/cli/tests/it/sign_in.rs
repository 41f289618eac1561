//! Signing in to a server, and what a call says before and after.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use support::House;
use support::site::{Site, browse, signed_in};

/// Sends a form as a page does; the whole answer.
fn send(url: &url::Url, path: &str, fields: &[(&str, &str)], cookie: &str) -> String {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let address = url.socket_addrs(|| None).unwrap()[0];
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncookie: {cookie}\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Signs in as Ann on our pages and agrees; what the application says to it.
pub(crate) fn agree(page: &str) -> String {
    let url = url::Url::parse(page).unwrap();
    let header = |answer: &str, name: &str| {
        let line = answer.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name}: {answer}")).trim().to_owned()
    };
    let hidden = |answer: &str, name: &str| {
        let (_, rest) = answer.split_once(&format!("name=\"{name}\" value=\"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let first = browse(page);
    let cookie = header(&first, "set-cookie").split(';').next().unwrap().to_owned();
    let (request, csrf) = (hidden(&first, "request"), hidden(&first, "csrf"));
    let who = [("request", &*request), ("csrf", &*csrf), ("user", "ann"), ("password", "correct horse")];
    let consent = send(&url, "/sign-in", &who, &cookie);
    let cookie = header(&consent, "set-cookie").split(';').next().unwrap().to_owned();
    let (request, csrf) = (hidden(&consent, "request"), hidden(&consent, "csrf"));
    let yes = [("request", &*request), ("csrf", &*csrf), ("decision", "allow")];
    browse(&header(&send(&url, "/consent", &yes, &cookie), "location"))
}

/// covers: AUTG-02
#[test]
fn a_call_says_how_to_sign_in_and_works_when_that_is_done() {
    let house = House::new();
    let url = Site::open().mcp();
    let before = house.run(&["call", &url, "greet"]);
    assert_eq!(before.code, Some(3), "{before:?}");
    assert!(before.stderr.contains("hospes auth login"), "{before:?}");
    assert!(house.run(&["auth", "status"]).stderr.contains("not signed in to any server"));

    let mut login = house.command(&["auth", "login", &url]);
    // There is no browser here, so that the URL has to be opened by hand.
    login.env("BROWSER", "false").env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    let mut child = login.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let page =
        lines.find_map(|line| line.trim().starts_with("http").then(|| line.trim().to_owned())).unwrap();
    assert!(browse(&page).contains("Sign-in response received"));
    let rest: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("signed in to")), "{rest:?}");

    let after = house.run(&["call", &url, "greet"]);
    assert_eq!((after.code, after.stdout.as_str()), (Some(0), "let in\n"), "{after:?}");
    let status = house.run(&["auth", "status", "--json"]);
    let known: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(
        (&known["servers"][0]["url"], &known["servers"][0]["scopes"]),
        (&json!(url), &json!(["read"]))
    );
    assert!(!format!("{status:?} {after:?} {rest:?}").contains("s3cret"));
    for kept in ["state/hospes/credentials", "config/hospes/credentials.key"] {
        let text = std::fs::read(house.path(kept)).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("s3cret"), "{kept}");
    }

    let out = house.run(&["auth", "logout", &url, "--json"]);
    let said: Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!((&said["signedOut"], out.stderr.contains("deleted")), (&json!(true), true), "{out:?}");
    assert_eq!(house.run(&["call", &url, "greet"]).code, Some(3));
    let again = house.run(&["auth", "logout", &url, "--json"]);
    let said: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(said["signedOut"], json!(false), "{again:?}");
}

/// A client that was registered by hand is in the configuration, where `hospes up` finds it too.
#[test]
fn who_signs_in_is_the_client_that_the_configuration_names() {
    let house = House::new();
    let site = Site::open();
    let entry = format!(
        "[servers.site]\nurl = \"{}\"\nclient_id = \"mine\"\nclient_secret = \"${{MINE}}\"\n",
        site.mcp()
    );
    let config = support::text(&house.write("hospes.toml", &entry));
    let environment = [("MINE", "s3cret-mine"), ("OTHER", "s3cret-other")];
    let login = |more: &[&str]| {
        site.script().seen.clear();
        site.script().shown.clear();
        let args = [&["auth", "login", "site", "--config", &config], more].concat();
        let ran = signed_in(&house, &args, &environment);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let script = site.script();
        assert!(!script.seen.iter().any(|seen| seen.contains("redirect_uris")), "it registers nobody");
        let asked = script.seen.iter().find(|seen| seen.contains("code_challenge=")).unwrap();
        let id = url::form_urlencoded::parse(asked.as_bytes()).find(|(name, _)| name == "client_id");
        let shown = script.shown.iter().find(|shown| shown.starts_with("Basic ")).cloned();
        (id.unwrap().1.into_owned(), shown.unwrap_or_default())
    };
    let shows = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
    assert_eq!(login(&[]), ("mine".to_owned(), shows("mine:s3cret-mine")));
    let mut call = house.command(&["call", "site", "greet", "--config", &config]);
    let called = support::Ran::of(call.envs(environment).output().unwrap());
    assert_eq!(called.stdout, "let in\n", "{called:?}");
    // What the command line says counts more.
    let other = ["--client-id", "other", "--client-secret-env", "OTHER"];
    assert_eq!(login(&other), ("other".to_owned(), shows("other:s3cret-other")));
}

/// The account that a profile uses with its own client is another than the one of everybody.
#[test]
fn a_profile_with_a_client_of_its_own_is_signed_in_by_itself() {
    let house = House::new();
    let site = Site::open();
    let config = format!(
        "[servers.site]\nurl = \"{}\"\nclient_id = \"mine\"\nclient_secret = \"${{secret:site}}\"\n\
         [profiles.work]\nsecrets = {{ site = \"site-work\" }}\n[profiles.plain]\n",
        site.mcp()
    );
    let config = support::text(&house.write("hospes.toml", &config));
    for (name, value) in [("site", "s3cret-mine"), ("site-work", "s3cret-work")] {
        let mut set = house.command(&["secret", "set", name]);
        let mut child =
            set.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(value.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{name}");
    }
    let login = |more: &[&str]| {
        site.script().shown.clear();
        let ran = signed_in(&house, &[&["auth", "login", "site", "--config", &config], more].concat(), &[]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        site.script().shown.iter().find(|shown| shown.starts_with("Basic ")).cloned().unwrap()
    };
    let principals = || {
        let known: Value = serde_json::from_str(&house.run(&["auth", "status", "--json"]).stdout).unwrap();
        let mut found: Vec<String> = known["servers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|server| server["principal"].as_str().unwrap_or_default().to_owned())
            .collect();
        found.sort();
        found
    };
    let call = || house.run(&["call", "site", "greet", "--config", &config]).code;
    let shows = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
    assert_eq!(login(&["--profile", "work"]), shows("mine:s3cret-work"));
    assert_eq!(
        (principals(), call()),
        (vec!["profile work".to_owned()], Some(3)),
        "everybody is not signed in"
    );
    assert_eq!(login(&[]), shows("mine:s3cret-mine"));
    assert_eq!((principals(), call()), (vec![String::new(), "profile work".to_owned()], Some(0)));
    let gone = house.run(&["auth", "logout", "site", "--profile", "work", "--config", &config]);
    assert_eq!((gone.code, principals(), call()), (Some(0), vec![String::new()], Some(0)), "{gone:?}");
    for (profile, why) in [("plain", "replaces no secret of a server `site`"), ("none", "unknown profile")] {
        let ran = house.run(&["auth", "login", "site", "--profile", profile, "--config", &config]);
        assert!(ran.code == Some(1) && ran.stderr.contains(why), "{ran:?}");
    }
}

/// The page's URL, which a stranger has a part in, is one argument of the browser's, and no shell reads it.
///
/// covers: SECP-06
#[cfg(unix)]
#[test]
fn a_browser_is_given_the_page_as_one_argument() {
    use std::os::unix::fs::PermissionsExt as _;

    let house = House::new();
    let told = house.path("told");
    let browser = house.write("browser", &format!("#!/bin/sh\necho \"$#\" \"$1\" > '{}'\n", told.display()));
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o700)).unwrap();
    let url = Site::open().mcp();
    let mut login = house.command(&["auth", "login", &url]);
    login.env("BROWSER", &browser).env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    let mut child = login.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let page =
        lines.find_map(|line| line.trim().starts_with("http").then(|| line.trim().to_owned())).unwrap();
    support::eventually("the browser was opened", || !house.read("told").is_empty());
    assert_eq!(house.read("told").trim(), format!("1 {page}"));
    assert!(page.contains('&'), "what a shell would act on: {page}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// One host issues the tokens and another accepts them. A user who signs in at the first is admitted at the second,
/// with the scopes that the second requests.
#[test]
fn who_signs_in_elsewhere_is_let_in_with_the_scopes_that_are_asked_for() {
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (issuer, guarded) = (port(), port());
    let (one, other) = (House::new(), House::new());
    let start = |house: &House, listen: std::net::SocketAddr, auth: &str| {
        let config =
            house.write("hospes.toml", &format!("[auth]\n{auth}\n[servers.time]\nbuiltin = \"time\"\n"));
        let args = ["up", "--config", &support::text(&config), "--listen", &listen.to_string(), "--json"];
        let host = support::Running::start(house.command(&args));
        host.stdout.recv_timeout(support::LIMIT).expect("it starts");
        host
    };
    // Their tokens are bound to a key, and both want nonces.
    let auth = format!(
        "users = {{ ann = \"correct horse\" }}\nresources = [\"http://{guarded}/mcp\"]\n\
         dpop = \"allowed\"\ndpop_nonces = true"
    );
    let _issuer = start(&one, issuer, &auth);
    let url = format!("http://{guarded}/mcp");
    let login = |house: &House| {
        let mut login = house.command(&["auth", "login", &url]);
        login.env("BROWSER", "false").env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
        let mut child =
            login.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let page = lines.find_map(|line| line.trim().starts_with("http").then(|| line.trim().to_owned()));
        assert!(agree(&page.expect("a page to open")).contains("Sign-in response received"));
        let rest: Vec<String> = lines.collect();
        assert!(child.wait().unwrap().success(), "{rest:?}");
    };
    let call = || other.run(&["call", &url, "time__now", "timezone=Asia/Tokyo"]);
    let issuer = format!("issuer = \"http://{issuer}\"\ndpop = \"required\"\ndpop_nonces = true");
    {
        let _guarded = start(&other, guarded, &format!("{issuer}\nscopes = [\"mcp\"]"));
        assert_eq!(call().code, Some(3), "nobody has signed in");
        login(&other);
        let answer = call();
        assert!(answer.code == Some(0) && answer.stdout.contains("+09:00"), "{answer:?}");
    }
    // The same token, where more is asked for than it has.
    let _guarded = start(&other, guarded, &format!("{issuer}\nscopes = [\"mcp\", \"admin\"]"));
    let refused = call();
    assert_ne!(refused.code, Some(0), "{refused:?}");
}

#[test]
fn a_sign_in_is_put_right_and_what_was_done_is_said() {
    let house = House::new();
    let url = Site::open().mcp();
    let repair = || house.run(&["auth", "repair", &url, "--device"]);
    let first = repair();
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(first.stderr.contains("ABCD-EFGH") && first.stderr.contains("/enter"), "{first:?}");
    assert!(first.stderr.contains("signed in again"), "{first:?}");
    assert_eq!(house.run(&["call", &url, "greet"]).code, Some(0));
    let again = repair();
    assert!(again.code == Some(0) && again.stderr.contains("token refresh failed"), "{again:?}");
    assert!(again.stderr.contains("the client registration with"), "{again:?}");
    assert!(!format!("{first:?} {again:?}").contains("s3cret"));
    let status = house.run(&["auth", "status", "--json"]);
    let known: Value = serde_json::from_str(&status.stdout).unwrap();
    assert!(known["store"].as_str().unwrap().contains("credentials"), "{known}");
}

#[test]
fn a_code_is_entered_on_another_machine() {
    let house = House::new();
    let url = Site::open().mcp();
    let login = house.run(&["auth", "login", &url, "--device"]);
    assert!(login.code == Some(0) && login.stderr.contains("signed in to"), "{login:?}");
    assert_eq!(house.run(&["call", &url, "greet"]).code, Some(0));
    let both = house.run(&["auth", "login", &url, "--device", "--no-browser"]);
    assert_eq!(both.code, Some(1), "{both:?}");
}

/// covers: AUTC-37
#[test]
fn the_document_of_this_client_is_printed() {
    let house = House::new();
    let url = "https://apps.example/hospes.json";
    let ran = house.run(&["auth", "client-metadata", url, "--name", "Ann's"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&document["client_id"], &document["client_name"]), (&json!(url), &json!("Ann's")));
    assert_eq!(document["redirect_uris"][0], "http://127.0.0.1/callback");
    for bad in [
        vec!["http://apps.example/x"],
        vec!["https://apps.example"],
        vec![url, "--redirect-uri", "http://apps.example/cb"],
        // It could not sign.
        vec![url, "--jwks-uri", "https://apps.example/keys"],
    ] {
        let ran = house.run(&[&["auth", "client-metadata"], &bad[..]].concat());
        assert!(ran.code == Some(1) && ran.stdout.is_empty(), "{bad:?}: {ran:?}");
    }
}

#[test]
fn help_shows_what_does_something() {
    let house = House::new();
    for command in ["login", "repair", "logout"] {
        let help = house.run(&["auth", command, "--help"]).stdout;
        assert!(help.contains("--header") && help.contains("--config"), "{command}: {help}");
        for other in ["--env", "--cwd", "--root", "--era"] {
            assert!(!help.contains(other), "{command} {other}");
        }
    }
    let open = house.run(&["auth", "login", "http://mcp.example/mcp"]);
    assert!(open.code == Some(1) && open.stderr.contains("use https"), "{open:?}");
}

/// covers: AUTG-03
#[test]
fn only_servers_with_a_url_are_signed_in_to() {
    let house = House::new();
    let ran = house.run(&["auth", "login", "everything"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("for servers with a URL only"), "{ran:?}");
}
