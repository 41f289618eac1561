//! Process groups.

use std::io;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

/// A process and its descendants, which are killed on drop.
pub(crate) struct ProcessGroup(Child);

impl ProcessGroup {
    /// Starts a command in a group of its own.
    pub(crate) fn spawn(mut command: Command) -> io::Result<Self> {
        command.process_group(0).kill_on_drop(true).spawn().map(Self)
    }

    /// Takes standard input, output and error, as far as they are pipes.
    pub(crate) fn take_pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.0.stdin.take(), self.0.stdout.take(), self.0.stderr.take())
    }

    /// Waits for the end of the process that was started.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }

    /// Kills all processes of the group.
    pub(crate) fn kill(&mut self) {
        // Only as long as the id still belongs to the process.
        let pid = self.0.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid {
            // The process may have ended by itself.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
