//! The first stage of the helper: it starts the server and stays until all its processes have ended.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal as Caught};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper,
    setrlimit, wait,
};
use tempfile::TempDir;

use super::helper_task::{HelperStage, HelperTask};
use super::parent_process::ParentProcess;
use super::{CANNOT_START, bubblewrap, process_tree, say};
use crate::ENV_PREFIX;
use crate::profile::SandboxMechanism;

/// Time for the server to end after the host has died.
const HOST_GRACE: Duration = Duration::from_millis(500);
/// Time that descendants of the server may outlive it.
const SWEEP_GRACE: Duration = Duration::from_millis(100);
/// Interval at which remaining processes are killed again.
const KILL_INTERVAL: Duration = Duration::from_millis(10);
/// Interval at which the host is checked, if the kernel does not report its end.
const HOST_INTERVAL: Duration = Duration::from_millis(250);

/// Starts the server. Returns its exit status once all its processes have ended.
pub(super) fn supervise(order: &HelperTask, word: Option<OsString>) -> ExitCode {
    let cannot = |why: &dyn std::fmt::Display| {
        say(&format!("the server cannot be started: {why}"));
        ExitCode::from(CANNOT_START)
    };
    // Otherwise process lists show the name of its file, which is `exe`.
    let _only_a_name = rustix::thread::set_name(c"hospes-child");
    let host = ParentProcess::watch(order.parent);
    let signals = match signals() {
        Ok(signals) => signals,
        Err(error) => return cannot(&error),
    };
    // Orphans of the server become children of this process, which can then find and reap them.
    if let Err(error) = set_child_subreaper(Some(getpid())) {
        return cannot(&error);
    }
    // After the watch has started, because the host may have ended before it.
    if host.is_gone() {
        return cannot(&"the host process has exited");
    }
    // Landlock cannot make `/tmp` private, so the server gets a temporary folder.
    let temporary = (order.means == SandboxMechanism::Landlock && order.files.is_some())
        .then(|| tempfile::Builder::new().prefix("hospes-").tempdir());
    let temporary = match temporary.transpose() {
        Ok(temporary) => temporary,
        Err(error) => {
            return cannot(&format_args!("cannot create a folder for its temporary files: {error}"));
        }
    };
    let server = match start(order, word, temporary.as_ref()) {
        Ok(server) => server,
        Err(error) => return cannot(&error),
    };
    let mut watch =
        ServerSupervisor { host, signals, server, order, status: None, deadline: None, killing: false };
    watch.run();
    // Explicitly, because the process may end by a signal below, without running destructors.
    drop(temporary);
    exit_like(watch.status)
}

/// Blocks the signals that this process waits for, and returns a descriptor for them.
fn signals() -> nix::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [Caught::SIGCHLD, Caught::SIGTERM, Caught::SIGINT, Caught::SIGHUP, Caught::SIGQUIT] {
        set.add(signal);
    }
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

/// Starts the second stage, inside bubblewrap if that confines the server.
fn start(order: &HelperTask, word: Option<OsString>, temporary: Option<&TempDir>) -> io::Result<Pid> {
    let this = PathBuf::from("/proc/self/exe");
    let mut inner = order.clone();
    inner.stage = HelperStage::Become;
    inner.parent = std::process::id();
    inner.bubblewrap = None;
    inner.temporary = temporary.map(|folder| folder.path().to_owned());
    let mut process = match &order.bubblewrap {
        None => Command::new(&this),
        Some(program) => {
            // Inside bubblewrap, the link would refer to bubblewrap itself.
            let this = this.read_link()?;
            let home = std::env::var_os(format!("{ENV_PREFIX}HOME")).map(PathBuf::from);
            let mut process = Command::new(program);
            process.args(bubblewrap::arguments(order, &this, home.as_deref())).arg(&this);
            process
        }
    };
    process.args(word).args(inner.into_args()).arg("--").args(&order.command);
    // Confined servers create their own session, which a group leader cannot do.
    if order.means == SandboxMechanism::Nothing {
        process.process_group(0);
    }
    let child = process.spawn().map_err(|error| match &order.bubblewrap {
        Some(program) => io::Error::new(error.kind(), format!("{}: {error}", program.display())),
        None => error,
    })?;
    // After the start, because the server inherits the pipes from this process.
    leave_pipes()?;
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("the process has no id"))
}

/// Redirects this process's standard streams to `/dev/null`, so that only the server holds the pipes.
fn leave_pipes() -> io::Result<()> {
    let nothing = File::options().read(true).write(true).open(Path::new("/dev/null"))?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

/// Exits with the status or signal of the server.
fn exit_like(status: Option<WaitStatus>) -> ExitCode {
    let Some(status) = status else { return ExitCode::from(CANNOT_START) };
    if let Some(code) = status.exit_status() {
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    let Some(number) = status.terminating_signal() else { return ExitCode::from(CANNOT_START) };
    // One core dump is enough.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // The signal may be blocked here and would stay pending.
    let _ = SigSet::empty().thread_set_mask();
    if let Some(signal) = Signal::from_named_raw(number) {
        let _ = kill_process(getpid(), signal);
    }
    // Exit code of shells for a signal, if the signal did not end this process.
    ExitCode::from(u8::try_from(128 + number).unwrap_or(u8::MAX))
}

struct ServerSupervisor<'o> {
    host: ParentProcess,
    signals: SignalFd,
    /// Process that was started: the server, or bubblewrap around it.
    server: Pid,
    order: &'o HelperTask,
    /// Exit status of the server.
    status: Option<WaitStatus>,
    /// Time at which all remaining processes are killed.
    deadline: Option<Instant>,
    killing: bool,
}

impl ServerSupervisor<'_> {
    fn run(&mut self) {
        let mut host_is_gone = false;
        while self.reap() {
            if !host_is_gone && self.host.is_gone() {
                host_is_gone = true;
                self.terminate();
                self.limit_deadline(HOST_GRACE);
            }
            if self.killing || self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                self.killing = true;
                process_tree::kill();
            }
            self.wait(host_is_gone);
            while let Ok(Some(signal)) = self.signals.read_signal() {
                match i32::try_from(signal.ssi_signo).ok().and_then(|number| Caught::try_from(number).ok()) {
                    Some(Caught::SIGCHLD) | None => {}
                    Some(Caught::SIGQUIT) => self.killing = true,
                    Some(_) => self.terminate(),
                }
            }
        }
    }

    /// Reaps the processes that have ended. Returns true if any are left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.server => {
                    self.status = Some(status);
                    self.terminate();
                    self.limit_deadline(SWEEP_GRACE);
                }
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return true,
                // No children are left (`ECHILD`).
                Err(_) => return false,
            }
        }
    }

    fn limit_deadline(&mut self, grace: Duration) {
        let deadline = Instant::now() + grace;
        // A new deadline never postpones an earlier one.
        self.deadline = Some(self.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
    }

    /// Asks all processes to end. Bubblewrap is left out, because it would end immediately, with everything inside it.
    fn terminate(&self) {
        let mut asked = process_tree::descendants();
        if self.order.means == SandboxMechanism::Bubblewrap {
            asked.remove(&self.server);
            for inner in process_tree::children(self.server) {
                asked.remove(&inner);
            }
        }
        asked.into_iter().for_each(|pid| process_tree::send(pid, Signal::TERM));
    }

    /// Waits for a signal, the end of the host, or the deadline.
    fn wait(&self, host_is_gone: bool) {
        let mut limit = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if self.killing {
            limit = Some(KILL_INTERVAL);
        } else if self.host.end.is_none() && !host_is_gone {
            limit = Some(limit.map_or(HOST_INTERVAL, |limit| limit.min(HOST_INTERVAL)));
        }
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut ends = vec![PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN)];
        if let (Some(end), false) = (&self.host.end, host_is_gone) {
            ends.push(PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN));
        }
        let _interrupted = poll(&mut ends, limit.as_ref());
    }
}
