//! Programs that the tests start, and end.

use std::io::{BufRead as _, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Maximum time to wait for anything before a test fails. The machine may be busy with a hundred other tests.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Program in a process group, which is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Program {
    leader: Child,
    guard: Child,
    said: Arc<Mutex<String>>,
}

impl Program {
    /// Starts the program. `line` receives each line of its output, on either stream.
    pub(crate) fn start(mut command: Command, line: mpsc::Sender<String>) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut leader = command.spawn().expect("the program starts");
        // A test that is killed drops nothing: this one sees its standard input close then, and ends the group.
        let guard = Command::new("sh")
            .args(["-c", "read -r _; kill -s KILL -- \"-$1\"", "guard", &leader.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh starts");
        let said = Arc::new(Mutex::new(String::new()));
        follow(leader.stdout.take().expect("its output"), Arc::clone(&said), line.clone());
        follow(leader.stderr.take().expect("its errors"), Arc::clone(&said), line);
        Self { leader, guard, said }
    }

    /// Returns the output so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _gone = kill_process_group(Pid::from_child(&self.leader), Signal::KILL);
        let _gone = self.guard.kill();
        let (_one, _other) = (self.leader.wait(), self.guard.wait());
    }
}

fn follow(stream: impl Read + Send + 'static, said: Arc<Mutex<String>>, told: mpsc::Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
            said.push_str(&line);
            said.push('\n');
            drop(said);
            let _deaf = told.send(line);
        }
    });
}

/// A port that is free now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

/// Waits until a program listens on the port.
pub(crate) fn wait_for(port: u16, program: &mut Program) {
    let (address, begun) = (SocketAddr::from(([127, 0, 0, 1], port)), Instant::now());
    while TcpStream::connect(address).is_err() {
        let ended = program.leader.try_wait().ok().flatten();
        assert!(
            ended.is_none() && begun.elapsed() < LIMIT,
            "nobody listens at {address}; it said:\n{}",
            program.said()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the value of the variable. Prints a line if it is not set.
pub(crate) fn named(variable: &str) -> Option<String> {
    let found = std::env::var(variable).ok().filter(|text| !text.is_empty());
    if found.is_none() {
        skip(variable);
    }
    found
}

#[expect(clippy::print_stderr, reason = "whoever runs the tests is told")]
fn skip(variable: &str) {
    eprintln!("skipped: {variable} names nothing; `cargo xtask models` installs it and runs this");
}
