//! Servers as child processes. A child has a clean environment and a process group of its own. It is watched by its
//! exit, never by the end of a pipe, which a helper may hold open. At the end it is stopped with everything it started.

#[cfg_attr(unix, path = "group_unix.rs")]
#[cfg_attr(windows, path = "group_windows.rs")]
mod group;
mod input;
mod stderr;

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client::target::CommandTarget;
use crate::client::target::env_secrets::EnvSecrets;
use crate::client::target::process_event::ProcessEvent;

pub(crate) use input::{UnreadInput, count_input};
pub(crate) use stderr::{StderrCallback, StderrTail};

/// Time for a server to exit once its stdin is closed.
pub(crate) const EXIT_GRACE: Duration = Duration::from_millis(1000);
/// Time for it to exit once it was told to terminate.
pub(crate) const TERMINATE_GRACE: Duration = Duration::from_millis(500);
/// Time for the kernel to end it once it was killed.
const KILL_GRACE: Duration = Duration::from_millis(300);
/// Time for a launcher to kill everything that the server has started.
const LAUNCHER_GRACE: Duration = Duration::from_secs(2);
/// Time after which processes that outlive the server that started them are killed.
const SWEEP_GRACE: Duration = Duration::from_millis(100);
/// Time for the end of stderr to arrive once the process has ended.
const STDERR_GRACE: Duration = Duration::from_millis(50);

/// Called with what becomes of a process.
pub(crate) type ProcessCallback = Arc<dyn Fn(ProcessEvent<'_>) + Send + Sync>;

/// Callbacks for events of a child.
#[derive(Clone, Default)]
pub(crate) struct ChildListeners {
    /// Callback for each line on stderr.
    pub(crate) stderr: Option<StderrCallback>,
    /// Callback for its start and its end.
    pub(crate) process: Option<ProcessCallback>,
}

/// A started child: its pipes, and the handle to the rest.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) handle: ChildHandle,
}

/// State of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChildState {
    Running,
    /// The process has ended; what it started may still be there.
    Exited(Box<str>),
    /// Nothing is left of it.
    Gone(Box<str>),
}

/// Ends the child when dropped, in the background.
#[derive(Debug)]
pub(crate) struct ChildHandle {
    life: watch::Receiver<ChildState>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    stderr: Arc<StderrTail>,
}

impl ChildProcess {
    /// Starts `command`. Must be called within a runtime.
    pub(crate) fn spawn(command: &CommandTarget, listeners: ChildListeners) -> io::Result<Self> {
        let tell = |news: ProcessEvent<'_>| {
            if let Some(process) = &listeners.process {
                process(news);
            }
        };
        let mut child = prepare(command)
            .spawn()
            .map_err(|error| group::explain_start_error(&command.program, error))
            .inspect_err(|why| tell(ProcessEvent::NotStarted { why }))?;
        let pid = child.id();
        tell(ProcessEvent::Started { pid });
        group::widen(&mut *child);
        let (Some(stdin), Some(stdout), Some(errors)) =
            (child.stdin().take(), child.stdout().take(), child.stderr().take())
        else {
            return Err(io::Error::other("the child has no pipes"));
        };
        let stderr = Arc::new(StderrTail::new(listeners.stderr, EnvSecrets::from_env(&command.env)));
        let mut reader = tokio::spawn(Arc::clone(&stderr).read(errors));
        let (announce, life) = watch::channel(ChildState::Running);
        let (stop, stopped) = oneshot::channel();
        let is_launcher = command.launcher.is_some();
        let supervised =
            SupervisedChild { child, is_launcher, left_alone: false, on_end: listeners.process, pid };
        tokio::spawn(async move {
            supervised.run(stopped, announce, &mut reader).await;
            // A helper that holds stderr open would keep the reader for good.
            reader.abort();
        });
        Ok(Self { stdin, stdout, handle: ChildHandle { life, stop: Mutex::new(Some(stop)), stderr } })
    }
}

impl ChildHandle {
    /// Resolves when the process has ended, with how it ended.
    pub(crate) async fn exited(&self) -> Box<str> {
        self.wait_for_state(|life| *life != ChildState::Running).await
    }

    /// Resolves when nothing of it is left.
    pub(crate) async fn gone(&self) {
        self.wait_for_state(|life| matches!(life, ChildState::Gone(_))).await;
    }

    /// Begins to end the child: its stdin must have been closed (or be about to be).
    pub(crate) fn stop(&self) {
        drop(self.stop.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The last lines of its stderr.
    pub(crate) fn stderr(&self) -> Option<String> {
        self.stderr.tail()
    }

    async fn wait_for_state(&self, wanted: impl FnMut(&ChildState) -> bool) -> Box<str> {
        let mut life = self.life.clone();
        let life = life.wait_for(wanted).await;
        match life.as_deref() {
            Ok(ChildState::Exited(how) | ChildState::Gone(how)) => how.clone(),
            _ => "has exited".into(),
        }
    }
}

/// A child and everything it started; killed when this is dropped too early, as at the end of the runtime.
struct SupervisedChild {
    child: Box<dyn ChildWrapper>,
    /// True for a launcher, which kills the server's processes when told to terminate; killed itself, it could not.
    is_launcher: bool,
    left_alone: bool,
    /// Callback for its end; taken once called.
    on_end: Option<ProcessCallback>,
    pid: Option<u32>,
}

impl SupervisedChild {
    async fn run(
        mut self,
        stopped: oneshot::Receiver<()>,
        announce: watch::Sender<ChildState>,
        stderr: &mut JoinHandle<()>,
    ) {
        // Nothing is ever sent to `stopped`: it resolves when
        // its sender is dropped, by `stop` or with the handle.
        let (status, was_asked) = tokio::select! {
            status = self.child.wait() => (status.ok(), false),
            _ = stopped => (self.shut_down().await, true),
        };
        let how: Box<str> = status.map_or_else(|| "did not exit".into(), |status| describe(status).into());
        tracing::debug!(%how, "server process exited");
        self.report_end(&how, was_asked, status.is_some_and(|status| status.success()));
        // Its last words explain its end. A helper may hold the pipe open for good, so they are not waited for long.
        let _ = timeout(STDERR_GRACE, stderr).await;
        announce.send_replace(ChildState::Exited(how.clone()));
        self.sweep().await;
        self.left_alone = true;
        announce.send_replace(ChildState::Gone(how));
    }

    /// Before anybody who waits for the end knows of it.
    fn report_end(&mut self, how: &str, was_asked: bool, is_success: bool) {
        if let Some(tell) = self.on_end.take() {
            tell(ProcessEvent::Ended { pid: self.pid, how, was_asked, is_success });
        }
    }

    /// The specification's order: its stdin is closed already; wait, ask it to terminate, kill it.
    async fn shut_down(&mut self) -> Option<ExitStatus> {
        if let Ok(status) = timeout(EXIT_GRACE, self.child.wait()).await {
            return status.ok();
        }
        self.terminate();
        if let Ok(status) = timeout(TERMINATE_GRACE, self.child.wait()).await {
            return status.ok();
        }
        self.kill();
        if self.is_launcher {
            if let Ok(status) = timeout(LAUNCHER_GRACE, self.child.wait()).await {
                return status.ok();
            }
            let _ = self.child.start_kill();
        }
        timeout(KILL_GRACE, self.child.wait()).await.ok()?.ok()
    }

    /// Everything at once.
    fn kill(&mut self) {
        if self.is_launcher {
            group::kill_by_launcher(&mut *self.child);
        } else {
            let _ = self.child.start_kill();
        }
    }

    /// The group is signalled even when its leader has ended: helpers outlive the wrapper that started them.
    async fn sweep(&mut self) {
        if !self.terminate() {
            return;
        }
        tokio::time::sleep(SWEEP_GRACE).await;
        // This fails if all are gone already.
        let _ = self.child.start_kill();
    }

    /// Signals the group. Returns true if there was a process left to terminate.
    fn terminate(&mut self) -> bool {
        group::terminate(&mut *self.child)
    }
}

impl Drop for SupervisedChild {
    fn drop(&mut self) {
        if !self.left_alone {
            self.kill();
            self.report_end("was killed when the program that started it ended", true, false);
        }
    }
}

fn prepare(command: &CommandTarget) -> CommandWrap {
    let program = command.launcher.as_ref().map_or(command.program.as_os_str(), |it| it.program.as_os_str());
    let mut wrap = CommandWrap::with_new(program, |process| {
        if let Some(launcher) = &command.launcher {
            process.args(&launcher.args).arg("--").arg(&command.program);
        }
        process.args(&command.args).env_clear().envs(environment(command));
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(folder) = &command.cwd {
            process.current_dir(folder);
        }
    });
    group::wrap(&mut wrap);
    wrap
}

fn environment(command: &CommandTarget) -> Vec<(OsString, OsString)> {
    let names: Vec<&OsStr> = match &command.inherited {
        Some(names) => names.iter().map(OsString::as_os_str).collect(),
        None => group::INHERITED.iter().map(OsStr::new).collect(),
    };
    let inherited = names.into_iter().filter_map(|name| {
        let value = std::env::var_os(name)?;
        // A shell function that travels in a variable is code, not a setting.
        let is_function = value.to_string_lossy().starts_with("()");
        (!is_function).then(|| (name.to_owned(), value))
    });
    let all = inherited.chain(command.env.iter().cloned());
    let Some(launcher) = &command.launcher else { return all.collect() };
    let prefixed = all.map(|(name, value)| {
        let mut behind = launcher.env_prefix.clone();
        behind.push(name);
        (behind, value)
    });
    prefixed.collect()
}

fn describe(status: ExitStatus) -> String {
    if let Some(code) = status.code() {
        return format!("exited with status {code}");
    }
    if let Some(signal) = group::signal_of(status) {
        return format!("was terminated by signal {signal}");
    }
    format!("exited ({status})")
}

#[cfg(test)]
mod tests;
