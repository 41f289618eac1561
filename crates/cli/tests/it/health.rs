//! `/healthz` and `/readyz` at the endpoint of `hospes up`.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::support::{House, LIMIT, Running};

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

/// Returns a free address. It is free again when the listener is dropped.
fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
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
