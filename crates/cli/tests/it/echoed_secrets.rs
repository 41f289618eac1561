//! Tests of secrets that a server repeats: no output, log or archive of the program has them, in no encoding.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::support::{House, Ran, eventually};

/// A stored token, one that stands in the configuration, a key of a query, and a password.
const STORED: &str = "S3nt/inel+stored~~?>>tok";
const LITERAL: &str = "L1ter4l-token-of-the-tests";
const KEY: &str = "K3y-of-the-query-0001";
const PASSWORD: &str = "P4ss-of-the-url-0001";

/// Forms of a secret in which it must not be found.
fn forms(secret: &str) -> Vec<String> {
    let percent = |is_upper: bool| -> String {
        let encode = |byte: u8| match (byte.is_ascii_alphanumeric() || b"-._~".contains(&byte), is_upper) {
            (true, _) => char::from(byte).to_string(),
            (false, true) => format!("%{byte:02X}"),
            (false, false) => format!("%{byte:02x}"),
        };
        secret.bytes().map(encode).collect()
    };
    let user = format!("user:{secret}");
    vec![
        secret.to_owned(),
        percent(true),
        percent(false),
        secret.replace('/', "\\/"),
        secret.chars().map(|letter| format!("\\u{:04x}", u32::from(letter))).collect(),
        STANDARD.encode(secret),
        STANDARD.encode(format!("u{secret}")),
        STANDARD.encode(&user),
        URL_SAFE_NO_PAD.encode(&user),
        STANDARD_NO_PAD.encode(format!("us{secret}")),
    ]
}

/// A letter at each end may differ, so the middle of a form is searched for.
fn assert_no_secret(text: &str, of: &str) {
    for secret in [STORED, LITERAL, KEY, PASSWORD] {
        for form in forms(secret) {
            let middle = &form[form.len() / 3..form.len() - 3];
            assert!(!text.contains(middle), "{of} has {form}:\n{text}");
        }
    }
}

/// Starts a site that refuses every request with this status, and repeats in the challenge and the body what it was
/// sent, in all forms. Returns its address.
fn echo(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            // A client that breaks off wants no answer.
            thread::spawn(move || answer(&stream, status));
        }
    });
    address
}

fn answer(mut stream: &TcpStream, status: &str) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut token, mut length) = (String::new(), String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.to_ascii_lowercase().starts_with("authorization:") {
            token = line.trim().rsplit(' ').next()?.to_owned();
        }
        head.push_str(line.trim());
        head.push(' ');
    }
    std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).ok()?;
    let repeated = forms(&token).join(" ");
    let body = format!("{token} {head}");
    write!(
        stream,
        "HTTP/1.1 {status}\r\nwww-authenticate: Bearer error=\"invalid_token\", \
         error_description=\"token {} is unknown {}\"\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        token.replace('"', ""),
        repeated.replace(['"', '\\'], ""),
        body.len(),
    )
    .ok()
}

/// A configuration with a server of each kind, and the sealed secret.
fn house(address: &str) -> House {
    let house = House::new();
    std::fs::create_dir_all(house.path("config/hospes")).unwrap();
    house.write(
        "config/hospes/config.toml",
        &format!(
            "[servers.stored]\nurl = 'http://{address}/mcp'\nheaders = {{ Authorization = 'Bearer ${{secret:tok}}' }}\n\
             [servers.literal]\nurl = 'http://{address}/mcp?api_key={KEY}'\n\
             headers = {{ Authorization = 'Bearer {LITERAL}' }}\n"
        ),
    );
    let mut command = house.command(&["secret", "set", "tok"]);
    command.env("HOSPES_CREDENTIALS_STORE", "file");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(STORED.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    house
}

fn run(house: &House, args: &[&str], log: Option<&str>) -> Ran {
    let mut command = house.command(args);
    command.env("HOSPES_CREDENTIALS_STORE", "file").envs(log.map(|log| ("HOSPES_LOG", log)));
    let ran = Ran::of(command.stdin(Stdio::null()).output().unwrap());
    let of = format!("{args:?}");
    assert_no_secret(&ran.stdout, &of);
    assert_no_secret(&ran.stderr, &of);
    ran
}

#[test]
fn a_secret_that_a_server_repeats_is_in_no_output() {
    for status in ["401 Unauthorized", "500 Internal Server Error"] {
        let address = echo(status);
        let house = house(&address);
        let url = format!("http://user:{PASSWORD}@{address}/mcp?api_key={KEY}");
        for name in ["stored", "literal", &url] {
            let doctor = run(&house, &["doctor", name], None);
            assert_ne!(doctor.code, Some(0), "{doctor:?}");
            run(&house, &["--json", "doctor", name], None);
            run(&house, &["-vvv", "doctor", name], Some("trace"));
            for words in [&["call", name, "x"][..], &["list", name]] {
                let ran = run(&house, words, None);
                assert_ne!(ran.code, Some(0), "{ran:?}");
                assert!(ran.stderr.contains("•••") || name.starts_with("http"), "it was repeated: {ran:?}");
                run(&house, &[&["--json"], words].concat(), None);
                run(&house, &[&["-vvv"], words].concat(), None);
                run(&house, words, Some("trace"));
                run(&house, words, Some("trace,hyper=trace,h2=trace,reqwest=trace,hyper_util=trace"));
            }
        }
        run(&house, &["doctor", "--all"], None);
        let bundle = house.path("report.zip");
        run(&house, &["doctor", &format!("--bundle={}", bundle.display())], None);
        assert!(bundle.is_file());
        let header = format!("Authorization: Bearer {LITERAL}");
        let plain = format!("http://{address}/mcp");
        run(&house, &["call", &plain, "x", "--header", &header], None);
    }
}

#[test]
fn a_secret_that_a_server_repeats_is_in_no_log_of_a_host() {
    let address = echo("401 Unauthorized");
    let house = house(&address);
    // What a process writes to standard error.
    let script = house.write(
        "talks.sh",
        &forms(STORED).iter().map(|form| format!("echo '{form}' >&2\n")).collect::<String>(),
    );
    let entry = format!(
        "[servers.talks]\ncommand = ['sh', '{}']\nenv = {{ API_KEY = '${{secret:tok}}' }}\n",
        script.display()
    );
    let file = "config/hospes/config.toml";
    house.write(file, &(house.read(file) + &entry));
    let mut command =
        house.command(&["up", "--listen", "127.0.0.1:0", "--console", "off", "--preset", "off"]);
    command.env("HOSPES_LOG", "trace").env("HOSPES_CREDENTIALS_STORE", "file");
    let mut host = crate::support::Running::start(command);
    eventually("the lines of the process are logged", || {
        run(&house, &["logs", "talks"], None).stdout.matches("•••").count() + 1 >= forms(STORED).len()
    });
    eventually("the refusal is in the status", || {
        run(&house, &["status", "--json"], None).stdout.contains("401")
    });
    run(&house, &["status"], None);
    run(&house, &["logs"], None);
    host.signal("-TERM");
    host.wait();
    assert_no_secret(&host.stderr.try_iter().collect::<Vec<_>>().join("\n"), "the log of the host");
    assert_no_secret(&host.stdout.try_iter().collect::<Vec<_>>().join("\n"), "the output of the host");
    for file in std::fs::read_dir(house.path("state/hospes/logs")).unwrap() {
        assert_no_secret(&std::fs::read_to_string(file.unwrap().path()).unwrap(), "a log file");
    }
}

#[test]
fn a_secret_of_the_configuration_is_exported_on_request_only() {
    let house = house("127.0.0.1:9");
    for format in ["cursor", "codex", "goose"] {
        let ran = run(&house, &["export", "--format", format], None);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let file = format!("{format}.txt");
        let path = house.path(&file);
        run(&house, &["export", "--format", format, "--output", &path.to_string_lossy()], None);
        assert_no_secret(&house.read(&file), format);
        let mut command = house.command(&["export", "--format", format, "--with-secrets"]);
        let ran = Ran::of(command.env("HOSPES_CREDENTIALS_STORE", "file").output().unwrap());
        for secret in [STORED, LITERAL, KEY] {
            assert!(ran.stdout.contains(secret), "{secret}: {ran:?}");
        }
        assert!(ran.stderr.contains("the text has secrets in it"), "{ran:?}");
    }
}
