//! Notifications on the desktop: a real message bus, with a notification daemon of the test's own.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests may panic, and say what they skip")]

use crate::support;

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::Value;
use support::desktop::start_bus;
use support::{House, LIMIT, Running, eventually, installed, text};
use zbus::blocking::connection::Builder;
use zbus::zvariant::OwnedValue;

const SERVICE: &str = "org.freedesktop.Notifications";
const PATH: &str = "/org/freedesktop/Notifications";

const TYPED: &str = r#"*'"method":"tools/list"'*) answer '{"tools":[{"name":"greet","title":"prose of the server","inputSchema":{"type":"object","properties":{"name":{"type":"string"}}}}]}';;"#;

/// A call that the daemon received.
#[derive(Debug, PartialEq, Eq)]
enum DaemonCall {
    Notify { replaces: u32, summary: String, body: String, actions: Vec<String> },
    Close(u32),
}

/// A notification daemon that gives each notification the id 7, unless it replaces one.
struct Daemon(Sender<DaemonCall>);

#[zbus::interface(name = "org.freedesktop.Notifications")]
impl Daemon {
    fn get_capabilities(&self) -> Vec<String> {
        ["actions", "body", "body-markup"].map(str::to_owned).to_vec()
    }

    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value, reason = "the specification says so")]
    fn notify(
        &self,
        application: String,
        replaces: u32,
        icon: String,
        summary: String,
        body: String,
        actions: Vec<String>,
        hints: HashMap<String, OwnedValue>,
        timeout: i32,
    ) -> u32 {
        assert_eq!((application.as_str(), icon.as_str()), ("Hospes", ""));
        assert!(hints.contains_key("urgency") && timeout > 0);
        self.0.send(DaemonCall::Notify { replaces, summary, body, actions }).unwrap();
        if replaces == 0 { 7 } else { replaces }
    }

    fn close_notification(&self, id: u32) {
        self.0.send(DaemonCall::Close(id)).unwrap();
    }
}

/// A session bus that ends with the test.
struct Bus(Child);

impl Drop for Bus {
    fn drop(&mut self) {
        let _gone = (self.0.kill(), self.0.wait());
    }
}

/// A session with a notification daemon.
struct Session {
    house: House,
    _bus: Bus,
    address: String,
    daemon: zbus::blocking::Connection,
    calls: Receiver<DaemonCall>,
}

impl Session {
    fn new() -> Option<Self> {
        let program = installed("dbus-daemon")?;
        let house = House::new().with_token();
        let (bus, address) = start_bus(&program, &house.path(""));
        let (send, calls) = channel();
        let daemon = Builder::address(address.as_str()).unwrap().name(SERVICE).unwrap();
        let daemon = daemon.serve_at(PATH, Daemon(send)).unwrap().build().unwrap();
        Some(Self { house, _bus: Bus(bus), address, daemon, calls })
    }

    fn received(&self) -> DaemonCall {
        self.calls.recv_timeout(LIMIT).expect("a call of the host")
    }

    fn invoke(connection: &zbus::blocking::Connection, id: u32, key: &str) {
        connection.emit_signal(None::<()>, PATH, SERVICE, "ActionInvoked", &(id, key)).unwrap();
    }
}

/// A host whose calls are all asked about, and its endpoint.
fn host(house: &House, bus: Option<&str>, settings: &str, options: &[&str]) -> (Running, String) {
    let config = house.config(&[("one", house.server("one", &[], TYPED))]);
    let own = text(&house.write("own.toml", settings));
    let rules = text(&house.write("rules.toml", "[[rule]]\ndecide = 'ask'\n"));
    let args = ["up", "--config", &config, "--config", &own, "--policy", &rules, "--pins", "off"];
    let places = ["--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"];
    let mut command = house.command(&[&args[..], &places, options].concat());
    if let Some(address) = bus {
        command.env("DBUS_SESSION_BUS_ADDRESS", address);
    }
    let browser =
        house.write("browser", &format!("#!/bin/sh\necho \"$1\" >> '{}'\n", house.path("opened").display()));
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    command.env("BROWSER", &browser).env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    let running = Running::start(command);
    running.said(|line| line.contains("event=ready server=one"));
    let status: Value = serde_json::from_str(&house.run(&["--json", "status"]).stdout).unwrap();
    let endpoint = status["endpoint"].as_str().unwrap().to_owned();
    (running, endpoint)
}

fn call(house: &House, endpoint: &str) -> Running {
    Running::start(house.command(&["call", endpoint, "one__greet", "name=a-secret-argument"]))
}

#[test]
fn what_waits_is_one_notification_that_leads_to_the_console_and_decides_nothing() {
    let Some(session) = Session::new() else { return };
    let house = &session.house;
    let (mut up, endpoint) = host(house, Some(&session.address), "", &[]);
    let mut first = call(house, &endpoint);
    let DaemonCall::Notify { replaces, summary, body, actions } = session.received() else {
        panic!("closed")
    };
    assert_eq!((replaces, summary.as_str()), (0, "Hospes: 1 call waits for you"));
    assert!(body.contains("call · greet of one"), "{body}");
    assert!(!body.contains("secret") && !body.contains("prose"), "{body}");
    assert_eq!(actions, ["default", "Look", "look", "Look"]);

    // A second call replaces the notification, which a stranger could not use up.
    let stranger = Builder::address(session.address.as_str()).unwrap().build().unwrap();
    Session::invoke(&stranger, 7, "look");
    let mut second = call(house, &endpoint);
    let DaemonCall::Notify { replaces, summary, .. } = session.received() else { panic!("closed") };
    assert_eq!((replaces, summary.as_str()), (7, "Hospes: 2 calls wait for you"));

    // Neither another notification nor another key opens the console; the button does, and the calls still wait.
    Session::invoke(&session.daemon, 8, "look");
    Session::invoke(&session.daemon, 7, "allow");
    Session::invoke(&session.daemon, 7, "look");
    eventually("the console is opened", || house.read("opened").contains("console-"));
    let listed = house.run(&["approve", "--json", "--list"]).stdout;
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert_eq!(house.read("opened").lines().count(), 1, "{}", house.read("opened"));
    for line in listed.lines() {
        let approval: Value = serde_json::from_str(line).unwrap();
        assert_eq!(house.run(&["approve", "--deny", approval["id"].as_str().unwrap()]).code, Some(0));
    }
    assert!(first.wait().is_some() && second.wait().is_some());

    // A notification that was not used is closed when nothing waits any more.
    let third = call(house, &endpoint);
    assert!(matches!(session.received(), DaemonCall::Notify { replaces: 0, .. }));
    drop(third);
    assert_eq!(session.received(), DaemonCall::Close(7));
    up.signal("-TERM");
    up.wait();
}

#[test]
fn a_setting_disables_notifications() {
    let Some(session) = Session::new() else { return };
    let settings = "[notify]\ndesktop = false\n";
    let (mut up, endpoint) =
        host(&session.house, Some(&session.address), settings, &["--approval-timeout", "8"]);
    // The call waits for longer than it takes until a notification would come.
    assert_ne!(call(&session.house, &endpoint).wait(), Some(0));
    assert!(session.calls.try_recv().is_err());
    up.signal("-TERM");
    up.wait();
}

#[test]
fn a_machine_without_a_desktop_is_reported_once() {
    let house = House::new();
    let (mut up, endpoint) = host(&house, None, "", &["--approval-timeout", "11"]);
    // Two notifications are due in that time: at 5 s and at 8 s.
    assert_ne!(call(&house, &endpoint).wait(), Some(0));
    let log = house.run(&["logs"]).stdout;
    let reports = log.lines().filter(|line| line.contains("desktop notifications cannot be shown")).count();
    assert_eq!(reports, 1, "{log}");
    up.signal("-TERM");
    up.wait();
}

#[test]
fn a_program_and_a_service_are_told_without_arguments() {
    use std::io::{Read as _, Write as _};

    let house = House::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, posted) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let mut request = Vec::new();
            // The body is one line of at most some hundred bytes; its length is in the head.
            while !String::from_utf8_lossy(&request).contains("of one") {
                let mut part = [0; 4096];
                match stream.read(&mut part) {
                    Ok(count @ 1..) => request.extend(&part[..count]),
                    _ => break,
                }
            }
            let _gone =
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            send.send(String::from_utf8_lossy(&request).into_owned()).unwrap();
        }
    });
    let told = house.path("told");
    let script = house
        .write("tell", &format!("#!/bin/sh\n{{ echo \"$1\"; echo \"$2\"; cat; }} > '{}'\n", told.display()));
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = format!(
        "[notify]\ndesktop = false\ncommand = ['{}', '{{summary}}', '{{body}}']\nwebhook = 'http://{address}/topic'\nwebhook_token = 'a-token'\n",
        script.display()
    );
    let (mut up, endpoint) = host(&house, None, &settings, &[]);
    let waiting = call(&house, &endpoint);
    let posted = posted.recv_timeout(LIMIT).unwrap();
    let (head, body) = posted.split_once("\r\n\r\n").unwrap();
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("post /topic http/1.1"), "{posted}");
    assert!(
        head.contains("title: hospes: 1 call waits for you")
            && head.contains("authorization: bearer a-token"),
        "{posted}"
    );
    assert!(
        body.ends_with("call · greet of one") && !posted.contains("secret") && !posted.contains("prose"),
        "{posted}"
    );
    eventually("the program is told", || house.read("told").lines().count() == 3);
    let told = house.read("told");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!((lines[0], lines[1], lines[2]), ("Hospes: 1 call waits for you", body, body));
    drop(waiting);
    up.signal("-TERM");
    up.wait();
    let log = house.run(&["logs"]).stdout;
    assert!(!log.contains("of `notify` failed") && !log.contains("a-token"), "{log}");
}
