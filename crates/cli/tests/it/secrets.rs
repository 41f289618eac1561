//! Tests of the program's output during sign-in, with all logs on and every possible error: it contains no secret.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use crate::support;

use std::fs;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use support::site::{Site, signed_in};
use support::{House, Ran, Running, eventually, text};

/// In the clear in everything that the site gives away.
const MARK: &str = "s3cret";

/// Filter of the log with the details of libraries, which are capped unless they are named.
const EVERYTHING: &str =
    "trace,h2=trace,hyper=trace,hyper_util=trace,reqwest=trace,rustls=trace,tokio_util=trace";

struct Eavesdropper {
    house: House,
    heard: Vec<String>,
}

impl Eavesdropper {
    /// Runs a command with all logs, and notes what it says.
    fn run(&mut self, args: &[&str], environment: &[(&str, &str)]) -> Ran {
        let mut command: Command = self.house.command(args);
        command.env("HOSPES_LOG", EVERYTHING).envs(environment.iter().copied());
        let ran = Ran::of(command.stdin(Stdio::null()).output().unwrap());
        self.note(args, &ran);
        ran
    }

    /// Signs in with a browser in which a person agrees, and keeps the output.
    fn login(&mut self, args: &[&str], environment: &[(&str, &str)]) -> Ran {
        let log = [("HOSPES_LOG", EVERYTHING)];
        let ran = signed_in(&self.house, args, &[&log[..], environment].concat());
        self.note(args, &ran);
        ran
    }

    fn note(&mut self, args: &[&str], ran: &Ran) {
        self.heard.push(format!("{args:?}\n{}\n{}", ran.stdout, ran.stderr));
    }

    /// Returns the files in the program's folders.
    fn files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        let mut folders: Vec<_> = ["state", "config", "run", "home"].map(|name| self.house.path(name)).into();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let kind = entry.file_type().unwrap();
                if kind.is_dir() {
                    folders.push(entry.path());
                } else if kind.is_file() {
                    // Sockets, such as the console's, hold nothing.
                    let bytes = fs::read(entry.path()).unwrap();
                    let read = String::from_utf8_lossy(&bytes).into_owned();
                    files.push((entry.path().display().to_string(), read));
                }
            }
        }
        files
    }
}

/// All verifiers, and whatever else is worth something, of what the site was sent.
fn secrets_in(seen: &[String]) -> Vec<String> {
    let worth =
        ["code_verifier", "code", "refresh_token", "device_code", "client_secret", "client_assertion"];
    let mut found = Vec::new();
    for form in seen {
        for (name, value) in url::form_urlencoded::parse(form.as_bytes()).into_owned() {
            if worth.contains(&&*name) {
                found.push(value);
            }
        }
    }
    found
}

/// covers: AUTG-12
#[test]
fn nothing_secret_is_said_while_people_sign_in() {
    let mut ear = Eavesdropper { house: House::new(), heard: Vec::new() };
    let site = Site::open();
    let url = site.mcp();
    {
        let mut script = site.script();
        (script.gives_secrets, script.renews, script.lasts) = (true, true, Some(1));
    }
    assert_eq!(ear.run(&["call", &url, "greet"], &[]).code, Some(3));
    assert_eq!(ear.login(&["auth", "login", &url], &[]).code, Some(0));
    assert_eq!(ear.run(&["auth", "status"], &[]).code, Some(0));
    assert_eq!(ear.run(&["auth", "status", "--json"], &[]).code, Some(0));
    // The token has to be renewed for every call; then it is refused, broken, or held back.
    let refused = |error: &str| Some(("400 Bad Request", format!("{{\"error\":\"{error}\"}}")));
    let broken = |text: &str| Some(("200 OK", text.to_owned()));
    eventually("a renewal", || {
        ear.run(&["call", &url, "greet"], &[]);
        site.script().seen.iter().any(|form| form.contains("grant_type=refresh_token"))
    });
    for wrong in [
        Some(("503 Service Unavailable", "s3cret-page".to_owned())),
        refused("invalid_client"),
        refused("invalid_request"),
        broken("\"s3cret-token\""),
        broken("s3cret-token"),
        broken("{\"access_token\":[\"s3cret-token\"],\"token_type\":\"Bearer\"}"),
        broken("{\"access_token\":\"s3cret-token\",\"token_type\":{\"s3cret-kind\":1}}"),
        broken(
            "{\"access_token\":\"s3cret-token\",\"token_type\":\"Bearer\",\"refresh_token\":[\"s3cret\"]}",
        ),
        refused("invalid_grant"),
    ] {
        let is_overloaded = wrong.as_ref().is_some_and(|(status, _)| status.starts_with("503"));
        site.script().token = wrong;
        ear.run(&["call", &url, "greet"], &[]);
        assert_ne!(ear.login(&["auth", "login", &url], &[]).code, Some(0));
        // Whoever is only overloaded is asked again for a minute.
        if !is_overloaded {
            assert_ne!(ear.run(&["auth", "repair", &url, "--device"], &[]).code, Some(0));
        }
        site.script().token = None;
        assert_eq!(ear.login(&["auth", "login", &url], &[]).code, Some(0));
    }
    // Other ways in, a server that fails, and out again.
    site.script().lasts = None;
    let device = ear.run(&["auth", "login", &url, "--device"], &[]);
    assert_eq!(device.code, Some(0), "{device:?}");
    assert_eq!(ear.run(&["auth", "repair", &url, "--device"], &[]).code, Some(0));
    let given = ["auth", "login", &url, "--client-id", "mine", "--client-secret-env", "MINE"];
    assert_eq!(ear.login(&given, &[("MINE", "s3cret-mine")]).code, Some(0));
    for status in ["401 Unauthorized", "403 Forbidden", "500 Internal Server Error"] {
        site.script().mcp = Some(status);
        assert_ne!(ear.run(&["call", &url, "greet"], &[]).code, Some(0));
    }
    site.script().mcp = None;
    assert_eq!(ear.login(&["auth", "login", &url], &[]).code, Some(0));
    // A host that uses what was left.
    let config = ear.house.write("hospes.toml", &format!("[servers.site]\nurl = \"{url}\"\n"));
    let mut up = ear.house.command(&["up", "--config", &text(&config), "--listen", "127.0.0.1:0"]);
    up.env("HOSPES_LOG", EVERYTHING);
    let host = Running::start(up);
    let mut said = Vec::new();
    let endpoint = loop {
        let line = host.stderr.recv_timeout(support::LIMIT).expect("it starts");
        let words = line.split_whitespace().map(|word| word.trim_matches(|c: char| c.is_control()));
        let found =
            words.filter(|word| word.starts_with("http://127.0.0.1")).find(|word| word.ends_with("/mcp"));
        let found = found.filter(|found| *found != url).map(str::to_owned);
        said.push(line);
        if let Some(found) = found {
            break found;
        }
    };
    eventually("it is reached through the host", || {
        ear.run(&["call", &endpoint, "site__greet"], &[]).stdout.contains("let in")
    });
    ear.run(&["status", &endpoint], &[]);
    drop(host.stdout.try_iter().collect::<Vec<_>>());
    said.extend(host.stderr.try_iter());
    drop(host);
    ear.heard.push(said.join("\n"));
    assert_eq!(ear.run(&["auth", "logout", &url], &[]).code, Some(0));
    // Sealed with a passphrase.
    let mut other = Eavesdropper { house: House::new(), heard: Vec::new() };
    let passphrase = [("HOSPES_PASSPHRASE", "s3cret-passphrase")];
    assert_eq!(other.login(&["auth", "login", &url], &passphrase).code, Some(0));
    let wrong = other.run(&["auth", "status"], &[("HOSPES_PASSPHRASE", "s3cret-other")]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("cannot decrypt"), "{wrong:?}");

    let mut secrets = secrets_in(&site.script().seen);
    secrets.retain(|secret| secret.len() > 3);
    assert!(secrets.iter().any(|secret| secret.len() == 43), "a verifier: {secrets:?}");
    secrets.push(MARK.to_owned());
    for pair in ["new:s3cret-client", "mine:s3cret-mine"] {
        secrets.push(STANDARD.encode(pair));
    }
    let key = fs::read(ear.house.path("config/hospes/credentials.key")).unwrap();
    secrets.extend([STANDARD.encode(&key), URL_SAFE_NO_PAD.encode(&key), format!("{key:?}")]);
    let heard: Vec<String> = ear.heard.iter().chain(&other.heard).cloned().collect();
    assert!(heard.iter().filter(|text| text.contains("TRACE")).count() > 20, "everything was listened to");
    for text in &heard {
        for secret in &secrets {
            let at = text.find(secret.as_str());
            assert!(
                at.is_none(),
                "{secret} is in: {}",
                text.lines().find(|line| line.contains(secret.as_str())).unwrap_or(text)
            );
        }
    }
    for (file, text) in ear.files().into_iter().chain(other.files()) {
        assert!(!secrets.iter().any(|secret| text.contains(secret.as_str())), "{file}");
    }
}
