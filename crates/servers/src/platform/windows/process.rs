//! Job objects.

use std::io;
use std::process::ExitStatus;

use process_wrap::tokio::{ChildWrapper, CommandWrap, CreationFlags, JobObject, KillOnDrop};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use windows::Win32::System::Threading::CREATE_NO_WINDOW;

/// A process and its descendants, which are killed on drop, and also when this process is killed.
pub(crate) struct ProcessGroup(Box<dyn ChildWrapper>);

impl ProcessGroup {
    /// Starts a command in a job of its own, without a console window.
    pub(crate) fn spawn(command: Command) -> io::Result<Self> {
        let mut wrap = CommandWrap::from(command);
        wrap.wrap(CreationFlags(CREATE_NO_WINDOW)).wrap(JobObject).wrap(KillOnDrop);
        wrap.spawn().map(Self)
    }

    /// Takes standard input, output and error, as far as they are pipes.
    pub(crate) fn take_pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.0.stdin().take(), self.0.stdout().take(), self.0.stderr().take())
    }

    /// Waits for the end of the process that was started.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.0.wait().await
    }

    /// Kills all processes of the job.
    pub(crate) fn kill(&mut self) {
        // They may have ended by themselves.
        let _ = self.0.start_kill();
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
