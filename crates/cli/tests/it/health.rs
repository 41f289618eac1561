//! `/healthz` and `/readyz` at the endpoint of `hospes up`.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::support::{House, LIMIT, Running, eventually};

/// Sends one request and returns the status and everything else of the answer. `None` if nothing listens.
fn ask(address: &str, line: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    // A balancer addresses a host by whatever it likes.
    write!(
        stream,
        "{line} HTTP/1.1\r\nHost: balancer.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (status, rest) = answer.strip_prefix("HTTP/1.1 ")?.split_once(' ')?;
    Some((status.parse().unwrap(), rest.to_owned()))
}

fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Returns a free address. It is free again when the listener is dropped.
fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn a_host_says_whether_it_is_ready_while_it_starts_serves_and_drains() {
    let house = House::new();
    let gate = house.path("gate");
    let slow = format!(
        r#"*'"method":"initialize"'*) while [ ! -e '{}' ]; do sleep 0.02; done; answer '{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"one","version":"1"}}}}';;"#,
        gate.display()
    );
    let mut secretive = house.server("secretive", &["greet"], &slow);
    secretive["required"] = json!(true);
    let dead = json!({ "command": "sh", "args": ["-c", "echo sentinel-message >&2; exit 1"] });
    let args = secretive["args"].clone();
    let config = house.write(
        "hospes.toml",
        &format!(
            "[servers.secretive]\ncommand = [\"sh\", {}]\nrequired = true\n[servers.dead]\ncommand = {}\n",
            args[0],
            json!(["sh", "-c", dead["args"][1]])
        ),
    );
    let config = config.to_string_lossy().into_owned();
    let address = free_address();
    let arguments =
        ["up", "--config", &config, "--listen", &address, "--console", "off", "--drain-notice", "600"];
    let mut host = Running::start(house.command(&arguments));

    let mut starting = String::new();
    eventually("the endpoint answers while a required server starts", || {
        let Some((status, answer)) = ask(&address, "GET /readyz") else { return false };
        starting = answer;
        status == 503
    });
    assert_eq!(body(&starting)["status"], "starting", "{starting}");
    assert_eq!(ask(&address, "GET /healthz").unwrap().0, 200);

    // An application that comes early is served once the host is ready.
    let early = {
        let address = address.clone();
        std::thread::spawn(move || ask(&address, "GET /mcp/unknown"))
    };
    house.write("gate", "");
    host.said(|line| line.contains("endpoint"));
    let mut ready = String::new();
    eventually("the host is ready, and one server has failed", || {
        let (status, answer) = ask(&address, "GET /readyz").unwrap();
        ready = answer;
        status == 200 && body(&ready)["servers"]["failed"] == 1
    });
    let health = body(&ready);
    assert_eq!(health["servers"], json!({ "ready": 1, "starting": 0, "failed": 1 }));
    assert_eq!(
        (&health["status"], &health["state"], &health["audit"]),
        (&json!("ready"), &json!("ok"), &json!("ok"))
    );
    assert!(health["policy"]["age_seconds"].is_u64(), "{health}");
    let lines = ready.split_once("\r\n\r\n").unwrap().1.lines().count();
    assert_eq!(lines, 2 + health.as_object().unwrap().len(), "one line a part: {ready}");
    for secret in ["secretive", "dead", "sentinel", house.path("").to_str().unwrap(), ".sh"] {
        assert!(!ready.contains(secret), "{secret}: {ready}");
    }
    assert!(early.join().unwrap().is_some_and(|(status, _)| status >= 400));

    let (status, head) = ask(&address, "HEAD /readyz").unwrap();
    assert!(status == 200 && head.ends_with("\r\n\r\n"), "no body: {head}");
    for method in ["POST", "DELETE", "PUT", "OPTIONS"] {
        let (status, answer) = ask(&address, &format!("{method} /readyz")).unwrap();
        assert_eq!(status, 405, "{method}");
        assert!(answer.to_ascii_lowercase().contains("allow: get, head"), "{answer}");
    }
    assert_ne!(ask(&address, "GET /mcp/healthz").unwrap().0, 200, "a path of servers and profiles");

    host.signal("-TERM");
    let mut draining = String::new();
    eventually("the host drains", || {
        let (status, answer) = ask(&address, "GET /readyz").unwrap();
        draining = answer;
        status == 503
    });
    assert_eq!(body(&draining)["status"], "draining", "{draining}");
    assert_eq!(ask(&address, "GET /healthz").unwrap().0, 200, "the process still serves");
    // Asked again, it does not wait for the balancers.
    host.signal("-TERM");
    host.wait();
}

#[test]
fn health_needs_no_sign_in() {
    let house = House::new();
    let config = house.write("hospes.toml", "[auth]\nenabled = true\n").to_string_lossy().into_owned();
    let address = free_address();
    let host =
        Running::start(house.command(&["up", "--config", &config, "--listen", &address, "--console", "off"]));
    host.said(|line| line.contains("endpoint"));
    assert_eq!(ask(&address, "GET /readyz").unwrap().0, 200);
    assert_eq!(ask(&address, "GET /healthz").unwrap().0, 200);
    assert_ne!(ask(&address, "GET /mcp").unwrap().0, 200);
}
