//! Servers as processes of their own: pipes, sockets, files, signals, the flag for HTTP.
#![cfg(all(unix, feature = "server", feature = "stdio", feature = "http"))]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

fn tiny() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hospes-tiny-server"))
}

/// A child that does not outlive its test.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Owned {
    fn ended(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("the child can be waited for") {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).expect("the child can be signalled");
    }
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }})
}

fn tool(id: u32, name: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
           "params": {"name": name, "arguments": arguments}})
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}

fn read(from: &mut impl std::io::BufRead) -> Value {
    let mut line = String::new();
    from.read_line(&mut line).expect("the server's output can be read");
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a message: {line:?}"))
}

/// covers: STDIO-02 STDIO-04 STDIO-07 STDIO-13
#[test]
fn a_server_on_pipes_keeps_stdout_for_itself() {
    let mut child =
        tiny().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut errors = child.stderr.take().unwrap();
    let mut child = Owned(child);
    writeln!(input, "{}", initialize()).unwrap();
    assert_eq!(read(&mut output)["result"]["serverInfo"]["name"], "tiny");
    writeln!(input, "{}", tool(1, "noise", &json!({}))).unwrap();
    writeln!(input, "{}", tool(2, "echo", &json!({"text": "hi"}))).unwrap();
    assert_eq!(text(&read(&mut output)), "read 0 bytes of somebody else's");
    assert_eq!(text(&read(&mut output)), "hi");
    // The end of its input is the end of the server, behind what it owes.
    writeln!(input, "{}", tool(3, "sleep", &json!({"millis": 100}))).unwrap();
    drop(input);
    assert_eq!(text(&read(&mut output)), "slept");
    assert!(child.ended().success());
    let mut noise = String::new();
    errors.read_to_string(&mut noise).unwrap();
    assert_eq!(noise, "this is noise on stdout\n");
}

#[test]
fn a_server_on_sockets_serves_too() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let stdin = OwnedFd::from(theirs.try_clone().unwrap());
    let mut child = Owned(tiny().stdin(stdin).stdout(OwnedFd::from(theirs)).spawn().unwrap());
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut input = ours.try_clone().unwrap();
    let mut output = BufReader::new(ours);
    writeln!(input, "{}", initialize()).unwrap();
    assert_eq!(read(&mut output)["id"], 0);
    let long = "x".repeat(3 * 1024 * 1024);
    let write = std::thread::spawn(move || {
        writeln!(input, "{}", tool(1, "echo", &json!({"text": long}))).unwrap();
        input.shutdown(std::net::Shutdown::Write).unwrap();
    });
    assert_eq!(text(&read(&mut output)).len(), 3 * 1024 * 1024);
    write.join().unwrap();
    assert!(child.ended().success());
}

#[test]
fn a_server_on_files_serves_too() {
    let folder = tempfile::tempdir().unwrap();
    let (requests, answers) = (folder.path().join("requests"), folder.path().join("answers"));
    let script = format!(
        "{}\n{}\n{}\n",
        initialize(),
        tool(1, "echo", &json!({"text": "hi"})),
        tool(2, "sleep", &json!({"millis": 50}))
    );
    std::fs::write(&requests, script).unwrap();
    let stdin = std::fs::File::open(&requests).unwrap();
    let stdout = std::fs::File::create(&answers).unwrap();
    let mut child = Owned(tiny().stdin(stdin).stdout(stdout).spawn().unwrap());
    assert!(child.ended().success());
    let answers = std::fs::read_to_string(&answers).unwrap();
    let answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 3);
    assert_eq!((text(&answers[1]), text(&answers[2])), ("hi", "slept"));
}

/// covers: STDIO-12
#[test]
fn a_signal_ends_a_server_behind_what_it_owes() {
    use rustix::process::Signal;

    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut child = tiny().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut child = Owned(child);
        writeln!(input, "{}", initialize()).unwrap();
        read(&mut output);
        writeln!(input, "{}", tool(1, "sleep", &json!({"millis": 150}))).unwrap();
        writeln!(input, "{}", tool(2, "echo", &json!({"text": "hi"}))).unwrap();
        // The second answer shows that the first call is running.
        assert_eq!(read(&mut output)["id"], 2);
        child.signal(signal);
        assert_eq!(text(&read(&mut output)), "slept");
        assert!(child.ended().success(), "{signal:?}");
        drop(input);
    }
}

/// A server that spins on a broken pipe is among the loudest complaints about peers.
#[test]
fn a_broken_pipe_ends_a_server() {
    let mut child = tiny().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    drop(child.stdout.take());
    let mut child = Owned(child);
    writeln!(input, "{}", initialize()).unwrap();
    assert!(child.ended().success());
}

/// covers: HTTP-03
#[test]
fn the_flag_and_the_variable_ask_for_http() {
    for by_flag in [true, false] {
        let mut command = tiny();
        if by_flag {
            command.args(["--http", "127.0.0.1:0"]);
        } else {
            command.env("HOSPES_HTTP", "0").env("HOSPES_ALLOWED_HOSTS", "one.example, two.example");
        }
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut child = Owned(child);
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/mcp"));
        let address = address.unwrap_or_else(|| panic!("{line:?}"));
        let mut sessions = std::collections::HashSet::new();
        let theirs = if by_flag { "403" } else { "200" };
        for (host, status) in [("localhost", "200"), ("two.example", theirs), ("localhost", "200")] {
            let body = initialize().to_string();
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            write!(
                stream,
                "POST /mcp HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\naccept: */*\r\n\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
            let session = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
            sessions.extend(session.map(str::to_owned));
        }
        // One process, a session for each that may come in.
        assert_eq!(sessions.len(), if by_flag { 2 } else { 3 });
        child.signal(rustix::process::Signal::TERM);
        assert!(child.ended().success());
    }
}

#[test]
fn an_address_that_is_taken_is_a_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = tiny().arg("--http").arg(&address).stdin(Stdio::null()).output().unwrap();
    let why = String::from_utf8_lossy(&ended.stderr);
    assert!(
        !ended.status.success() && why.contains(&address) && why.contains("choose another port"),
        "{why}"
    );
}
