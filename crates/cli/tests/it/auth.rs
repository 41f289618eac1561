//! `hospes up` where it asks for tokens, as a process.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use support::{House, LIMIT, Running, eventually, text};

/// A host with this configuration, and where this machine reaches it.
pub(crate) fn up(house: &House, listen: &str, auth: &str) -> (Running, String, String) {
    let config = house.write("hospes.toml", &format!("{auth}\n[servers.time]\nbuiltin = \"time\"\n"));
    let args = ["up", "--config", &text(&config), "--listen", listen, "--json"];
    let host = Running::start(house.command(&args));
    let mut said = String::new();
    let started: Value = loop {
        said += &host.stdout.recv_timeout(LIMIT).expect("it starts");
        if let Ok(started) = serde_json::from_str(&said) {
            break started;
        }
    };
    let public = started["endpoint"].as_str().unwrap().to_owned();
    let notes = std::fs::read_dir(house.path("run/hospes")).unwrap();
    // Beside it may be a socket of the host's.
    let is_note = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    let note = notes.flatten().find(is_note).unwrap().path();
    let note: Value = serde_json::from_slice(&std::fs::read(note).unwrap()).unwrap();
    (host, public, note["endpoint"].as_str().unwrap().to_owned())
}

/// One request of the simplest kind; the whole response.
fn get(url: &str, path: &str) -> String {
    let address = url.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn body(response: &str) -> Value {
    serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn who_has_no_token_is_told_where_to_get_one() {
    let house = House::new();
    let auth = "[auth]\nusers = { ann = \"correct horse\" }\ntokens = { ci = \"the-ci-token\" }";
    let (host, public, local) = up(&house, "127.0.0.1:0", auth);
    assert_eq!(public, local);
    let refused = get(&local, "/mcp");
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let origin = local.trim_end_matches("/mcp");
    let place = format!("resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"");
    assert!(refused.contains(&place) && refused.contains("scope=\"mcp\""), "{refused}");
    let resource = body(&get(&local, "/.well-known/oauth-protected-resource/mcp"));
    assert_eq!(resource["authorization_servers"], json!([origin]));
    let server = body(&get(&local, "/.well-known/oauth-authorization-server"));
    assert_eq!(server["issuer"], *origin);
    assert_eq!(server["client_id_metadata_document_supported"], true);
    let call = |header: &str| house.run(&["call", &local, "time__now", "timezone=Asia/Tokyo", "-H", header]);
    let good = call("Authorization: Bearer the-ci-token");
    assert!(good.code == Some(0) && good.stdout.contains("+09:00"), "{good:?}");
    assert_ne!(call("Authorization: Bearer other").code, Some(0));
    // Whoever runs the host need not sign in to ask how it is.
    eventually("the status is there", || house.run(&["status"]).stdout.contains("time"));
    #[cfg(unix)]
    for file in ["run/hospes", "state/hospes"] {
        use std::os::unix::fs::PermissionsExt as _;
        for entry in std::fs::read_dir(house.path(file)).unwrap().flatten() {
            let mode = entry.metadata().unwrap().permissions().mode();
            let secret =
                entry.path().extension().is_some_and(|kind| kind != "json") || file.starts_with("run");
            assert!(!secret || mode & 0o077 == 0, "{}: {mode:o}", entry.path().display());
        }
    }
    drop(host);
}

/// Registers an application from behind a proxy; the status line.
fn register(local: &str, forwarded: &str) -> String {
    let address = local.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let body =
        json!({ "redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none" });
    let body = body.to_string();
    write!(
        stream,
        "POST /register HTTP/1.1\r\nhost: mcp.example.org\r\nconnection: close\r\nx-forwarded-for: {forwarded}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn visitors_behind_a_proxy_are_told_apart_where_the_proxy_is_trusted() {
    let house = House::new();
    let auth = "[auth]\nbase_url = \"https://mcp.example.org\"\nusers = { ann = \"correct horse\" }\n";
    let trusting = format!("{auth}trusted_proxies = [\"127.0.0.0/8\"]\n");
    let (_host, _, local) = up(&house, "127.0.0.1:0", &trusting);
    for _ in 0..10 {
        assert_eq!(register(&local, "203.0.113.1"), "HTTP/1.1 201 Created");
    }
    assert!(register(&local, "203.0.113.1").contains(" 429 "));
    assert!(
        register(&local, "198.51.100.7, 203.0.113.1").contains(" 429 "),
        "what the visitor writes itself"
    );
    assert_eq!(register(&local, "203.0.113.2"), "HTTP/1.1 201 Created", "another visitor");

    let other = House::new();
    let (host, _, local) = up(&other, "127.0.0.1:0", auth);
    host.said(|line| line.contains("all clients share one limit"));
    for number in 0..10 {
        assert_eq!(register(&local, &format!("203.0.113.{number}")), "HTTP/1.1 201 Created");
    }
    assert!(register(&local, "203.0.113.99").contains(" 429 "), "anybody can write the header");

    let wrong = house.write(
        "wrong.toml",
        "[auth]\ntrusted_proxies = [\"localhost\"]\n[servers.time]\nbuiltin = \"time\"\n",
    );
    let wrong = house.run(&["up", "--config", &text(&wrong), "--listen", "127.0.0.1:0"]);
    assert!(
        wrong.stderr.contains("auth.trusted_proxies[0]") && wrong.stderr.contains("10.0.0.0/8"),
        "{wrong:?}"
    );
}

/// Stands before an endpoint and hears everything; where it listens, and what it has heard.
fn spy(endpoint: &str) -> (String, Arc<Mutex<Vec<u8>>>) {
    let address = endpoint.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
    let shared = Arc::clone(&heard);
    std::thread::spawn(move || {
        for mut near in listener.incoming().map_while(Result::ok) {
            let Ok(mut far) = TcpStream::connect(&address) else { continue };
            let (mut back_from, mut back_to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut back_from, &mut back_to));
            let heard = Arc::clone(&shared);
            std::thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(length @ 1..) = near.read(&mut piece) {
                    heard.lock().extend_from_slice(&piece[..length]);
                    if far.write_all(&piece[..length]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (url, heard)
}

/// A server behind the host is sent what the configuration has for it, and never what the application has sent us.
///
/// covers: AUTR-11
#[test]
fn the_token_of_an_application_goes_no_further() {
    let house = House::new();
    let time = Running::start(house.command(&["serve", "time", "--http", "127.0.0.1:0"]));
    let line = time.said(|line| line.starts_with("listening on "));
    let (url, heard) = spy(line.trim_start_matches("listening on "));
    let auth = format!(
        "[auth]\ntokens = {{ ci = \"the-ci-token\" }}\n[servers.clock]\nurl = \"{url}\"\n\
         headers = {{ Authorization = \"Bearer the-upstream-token\" }}"
    );
    let (_host, _, local) = up(&house, "127.0.0.1:0", &auth);
    for era in ["legacy", "modern"] {
        let header = "Authorization: Bearer the-ci-token";
        let args = ["call", &local, "clock__now", "timezone=Asia/Tokyo", "-H", header, "--era", era];
        eventually("the server is there", || house.run(&args).code == Some(0));
    }
    let heard = String::from_utf8_lossy(&heard.lock()).into_owned();
    assert!(heard.contains("clock") || heard.contains("Asia/Tokyo"), "it was called");
    assert!(heard.contains("the-upstream-token"), "with a token of its own");
    assert!(!heard.contains("the-ci-token"), "{heard}");
}

#[test]
fn beyond_loopback_tokens_are_asked_for_or_nothing_starts() {
    let house = House::new();
    let config = house.write("bare.toml", "[servers.time]\nbuiltin = \"time\"\n");
    let refused = house.run(&["up", "--config", &text(&config), "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("base_url"), "{refused:?}");
    let plain = "[auth]\nbase_url = \"http://mcp.example.org\"\n[servers.time]\nbuiltin = \"time\"\n";
    let config = house.write("plain.toml", plain);
    let refused = house.run(&["up", "--config", &text(&config), "--listen", "0.0.0.0:0"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("https"), "{refused:?}");

    let (host, public, local) = up(&house, "0.0.0.0:0", "[auth]\nbase_url = \"https://mcp.example.org\"");
    assert_eq!(public, "https://mcp.example.org/mcp");
    let refused = get(&local, "/mcp");
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    assert!(
        refused.contains("https://mcp.example.org/.well-known/oauth-protected-resource/mcp"),
        "{refused}"
    );
    drop(host);
    let house = House::new();
    let (_host, public, local) = up(&house, "0.0.0.0:0", "[auth]\nenabled = false");
    assert!(
        public.starts_with("http://0.0.0.0:") && local.starts_with("http://127.0.0.1:"),
        "{public} {local}"
    );
    assert!(!get(&local, "/mcp").starts_with("HTTP/1.1 401"));
}

/// The authorization server is this host, or the configured issuer.
///
/// covers: AUTS-01
#[test]
fn somebody_elses_authorization_server_takes_the_place_of_ours() {
    let house = House::new();
    let auth = "[auth]\nissuer = \"https://login.example.org\"\ntokens = { ci = \"the-ci-token\" }";
    let (_host, _, local) = up(&house, "127.0.0.1:0", auth);
    let resource = body(&get(&local, "/.well-known/oauth-protected-resource/mcp"));
    assert_eq!(resource["authorization_servers"], json!(["https://login.example.org"]));
    for path in ["/.well-known/oauth-authorization-server", "/authorize", "/token"] {
        assert!(get(&local, path).starts_with("HTTP/1.1 404"), "{path}");
    }
    let header = "Authorization: Bearer the-ci-token";
    let called = house.run(&["call", &local, "time__now", "timezone=Asia/Tokyo", "-H", header]);
    assert_eq!(called.code, Some(0), "{called:?}");
}

#[test]
fn what_the_configuration_says_of_authorization_is_checked() {
    let house = House::new();
    for (auth, said) in [
        ("[auth]\nbase_url = \"mcp.example.org\"", "auth.base_url"),
        ("[auth]\nuser = { ann = \"x\" }", "did you mean"),
        ("[auth]\nusers = { ann = \"\" }", "auth.users.ann"),
        ("[auth]\nusers = { ann = \"pbkdf2-sha256$1$x$y\" }", "auth.users.ann"),
        (
            "[auth]\nusers = { ann = \"$argon2id$v=19$m=4194304,t=2,p=1$c2FsdCBvZiB0aGUgdGVzdA\
             $8AuVhKmJqTavu5sT1YIWuXxC/WNA/pwMhOrfKzM4MEg\" }",
            "`auth.users.ann`: password hash is too expensive: m is 4194304, and at most 65536 is allowed",
        ),
        ("[auth]\nusers = { ann = \"$2b$12$x\" }", "`auth.users.ann`: unsupported algorithm"),
        ("[auth]\nresources = [\"x\"]", "auth.resources"),
        ("[auth]\nissuer = \"https://login.example.org\"\nscopes = [\"a b\"]", "auth.scopes"),
        ("[auth]\nscopes = [\"a b\"]", "auth.scopes"),
        ("[auth]\nscopes = [\"offline_access\"]", "auth.scopes"),
        (
            "[auth]\nissuer = \"https://login.example.org\"\nresources = [\"https://o.example/mcp\"]",
            "not both",
        ),
        ("[auth.clients.app]\njwks_uri = \"http://app.example/keys\"", "auth.clients.app.jwks_uri"),
        ("[auth.clients.app]\njwks = \"{}\"", "between 1 and 16 keys"),
        (
            "[auth.clients.app]\nsecret = \"x\"\nserves = [\"https://o.example/mcp\"]",
            "one of `auth.resources`",
        ),
        (
            "[auth]\nidentity_providers = [\"http://idp.example\"]\n[auth.clients.app]\nsecret = \"x\"\n\
             enterprise_managed = true",
            "auth.identity_providers",
        ),
        ("[auth.sign_in]\nclient_id = \"x\"", "`auth.issuer` to be set too"),
        (
            "[auth]\nissuer = \"https://login.example.org\"\n[auth.sign_in]\nclient_secret = \"x\"",
            "auth.sign_in.client_id",
        ),
        ("[auth.clients.app]\nredirect_uris = [\"http://app.example/cb\"]", "auth.clients.app"),
    ] {
        let config = house.write("h.toml", &format!("{auth}\n[servers.time]\nbuiltin = \"time\"\n"));
        let refused = house.run(&["up", "--config", &text(&config), "--listen", "127.0.0.1:0"]);
        assert!(refused.code == Some(1) && refused.stderr.contains(said), "{auth}: {refused:?}");
    }
}

/// Accounts of each user require sign-in.
#[test]
fn accounts_of_users_want_users() {
    let house = House::new();
    let server = "[servers.mail]\nurl = \"http://127.0.0.1:9/mcp\"\naccount = \"per-user\"\n";
    for (auth, url, why) in [
        ("", "", "no sign-in is configured for this host"),
        ("[auth]\nissuer = \"https://login.example\"\n", "", "`client_id` under [auth.sign_in] is missing"),
        ("[auth]\nusers = { ann = \"x\" }\n", "http://mail.example/mcp", "over http"),
    ] {
        let server = match url {
            "" => server.to_owned(),
            url => server.replace("http://127.0.0.1:9/mcp", url),
        };
        let config = house.write("users.toml", &format!("{auth}{server}"));
        let refused = house.run(&["up", "--config", &text(&config), "--listen", "127.0.0.1:0"]);
        assert!(refused.code == Some(1) && refused.stderr.contains(why), "{refused:?}");
        assert!(refused.stderr.contains("server `mail`"), "{refused:?}");
    }
    // Whoever signs in elsewhere has the pages, too.
    for auth in [
        "[auth]\nissuer = \"https://login.example\"\n[auth.sign_in]\nclient_id = \"hospes\"\n",
        "[auth.provider]\nissuer = \"https://login.example\"\nclient_id = \"hospes\"\nallow = \"everybody\"\n",
    ] {
        let house = House::new();
        let (_host, _, local) = up(&house, "127.0.0.1:0", &format!("{auth}{server}"));
        let gone = get(&local, &format!("/connect/{}", "A".repeat(43)));
        assert!(gone.starts_with("HTTP/1.1 404") && gone.contains("no longer valid"), "{gone}");
    }
    let auth = format!("[auth]\nusers = {{ ann = \"correct horse\" }}\n{server}");
    let (host, _, local) = up(&house, "127.0.0.1:0", &auth);
    let gone = get(&local, &format!("/connect/{}", "A".repeat(43)));
    assert!(gone.starts_with("HTTP/1.1 404") && gone.contains("no longer valid"), "{gone}");
    eventually("it stands by", || house.run(&["status"]).stdout.contains("an account for each user"));
    drop(host);
}
