//! Child processes. Each leads its own process group, and ends with the thread that started it.

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::net::TcpStream;

/// Number of lines of a log that an error repeats.
const TAIL_LINES: usize = 15;

/// Interval of attempts to connect.
const LISTEN_INTERVAL: Duration = Duration::from_millis(20);

/// Child process. It is killed with its process group when it is dropped.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    child: Child,
    log: PathBuf,
}

impl ChildProcess {
    /// Starts a program whose output is appended to a log.
    ///
    /// The kernel ends it with the thread that calls this, so call it on the main thread.
    pub(crate) fn start(
        program: &Path,
        arguments: &[String],
        variables: &[(&str, String)],
        log: &Path,
    ) -> Result<Self> {
        let output = OpenOptions::new().create(true).append(true).open(log);
        let output: File = output.with_context(|| format!("opening {}", log.display()))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program).args(arguments);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).process_group(0);
        let child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Returns an error with the end of the log if the process has ended.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                bail!("the process ended ({status}); {} ends with:\n{}", self.log.display(), self.tail())
            }
        }
    }

    /// Waits until something listens on a loopback port, while the process runs.
    pub(crate) async fn wait_until_it_listens(&mut self, port: u16, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            self.check_alive()?;
            let seconds = limit.as_secs();
            ensure!(start.elapsed() < limit, "nothing listens on {port} after {seconds} s:\n{}", self.tail());
            tokio::time::sleep(LISTEN_INTERVAL).await;
        }
        Ok(())
    }

    /// Returns the last lines of the log.
    pub(crate) fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }

    /// Kills the process alone (SIGKILL), as a crash would.
    pub(crate) fn kill(&mut self) {
        // A process that has ended is not an error: it is to be gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ChildProcess {
    /// Id of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops the process alone (SIGSTOP) until [`ChildProcess::resume`].
    pub(crate) fn pause(&self) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::STOP)?)
    }

    /// Continues the process (SIGCONT).
    pub(crate) fn resume(&self) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }

    /// Tells the process to end (SIGTERM).
    pub(crate) fn terminate(&self) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), Signal::TERM)?)
    }

    /// Returns how the process ended; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // The group has the number of its leader, which is not given away before it is waited for.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
