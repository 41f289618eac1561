//! A server that was started by the helper.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use hospes_sandbox::{ENV_PREFIX, LaunchCommand};
use rustix::process::{Pid, Signal, kill_process};

use super::eventually;

/// The helper with a server.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
}

/// The command that starts it: as a host does it, with nothing in the environment but what is for the server.
pub(crate) fn command(launch: &LaunchCommand, server: &[&str], env: &[(&str, &str)]) -> Command {
    let mut command = Command::new(&launch.program);
    command.args(&launch.args).arg("--").args(server).env_clear().process_group(0);
    command.envs(env.iter().map(|(name, value)| (format!("{ENV_PREFIX}{name}"), value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the output of the server.
pub(crate) fn said(launch: &LaunchCommand, server: &[&str]) -> String {
    said_with(launch, server, &[("PATH", "/usr/bin:/bin")])
}

pub(crate) fn said_with(launch: &LaunchCommand, server: &[&str], env: &[(&str, &str)]) -> String {
    let ended = command(launch, server, env).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    if out.is_empty() { format!("nothing but {err:?}, {}", ended.status) } else { out.trim_end().to_owned() }
}

impl Started {
    pub(crate) fn new(launch: &LaunchCommand, server: &[&str]) -> Self {
        let mut child = command(launch, server, &[]).spawn().unwrap();
        let stdin = child.stdin.take();
        Self { child, stdin }
    }

    /// The next line of its stdout.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let read = BufReader::with_capacity(1, self.child.stdout.as_mut().unwrap()).read_line(&mut line);
        read.unwrap();
        if line.is_empty() {
            let mut errors = String::new();
            let _ = self.child.stderr.take().unwrap().read_to_string(&mut errors);
            panic!("it says nothing but {errors:?}");
        }
        line.trim_end().to_owned()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        let child = std::cell::RefCell::new(&mut self.child);
        eventually("the helper ends", || child.borrow_mut().try_wait().unwrap().is_some());
        self.child.wait().unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::QUIT);
            let _ = self.child.wait();
        }
    }
}
