//! Locks of commands, so that two of them do not change the same files at once.

use std::time::Duration;

use hospes_fs::{FileLock, FileLockError, LockHolder};

use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, DIM, paint, printable};
use crate::paths;

/// Maximum time that a command waits for another one that changes connections. One takes 2 seconds longer than its changes
/// if its application runs, and the console waits 25 seconds for all.
const CONNECTIONS_WAIT: Duration = Duration::from_secs(15);

/// Lock of a command. It ends on drop, and with the process.
#[derive(Debug)]
pub(crate) struct CommandLock {
    _lock: FileLock,
}

impl CommandLock {
    /// Locks a server while it is added, updated or removed by a command, such as `hospes add`. Does not wait.
    ///
    /// # Errors
    /// If another command holds the lock, or its file cannot be written.
    pub(crate) fn of_server(server: &str, command: &str) -> CliResult<Self> {
        let file = paths::server_lock(server)
            .ok_or_else(|| CliError::usage("no folder found for the state of the server").hint("set HOME"))?;
        let held = |holder: Option<LockHolder>| {
            let holder = holder_text(holder.as_ref(), "another `hospes add`, `update` or `remove`");
            CliError::usage(format!("{holder} is at work on `{}`", printable(server)))
                .hint("wait until it has ended, or end it; nothing was changed")
        };
        match FileLock::acquire(&file, command, Duration::ZERO, |_| {}) {
            Ok(lock) => Ok(Self::new(lock)),
            Err(FileLockError::Held(holder)) => Err(held(holder)),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Locks the connections of all applications, with their records and tokens. Waits for at most 15 seconds.
    ///
    /// # Errors
    /// If another command still holds the lock, or its file cannot be written.
    pub(crate) fn of_connections(command: &str, output: CliOutput) -> CliResult<Self> {
        let file = paths::connections_lock()
            .ok_or_else(|| CliError::usage("no folder found for the records").hint("set HOME"))?;
        let other = "another `hospes connect` or `disconnect`";
        let on_wait = |holder: Option<&LockHolder>| {
            output.say(paint(DIM, format!("waiting for {} …", holder_text(holder, other))));
        };
        match FileLock::acquire(&file, command, CONNECTIONS_WAIT, on_wait) {
            Ok(lock) => Ok(Self::new(lock)),
            Err(FileLockError::Held(holder)) => {
                let holder = holder_text(holder.as_ref(), other);
                let waited = CONNECTIONS_WAIT.as_secs();
                Err(CliError::usage(format!("{holder} has not ended within {waited} seconds")).hint(
                    "nothing was changed; wait until it has ended, or end it, and run the command again",
                ))
            }
            Err(error) => Err(failed(&error)),
        }
    }

    fn new(lock: FileLock) -> Self {
        // Some network file systems have no locks. Files are still compared before they are replaced.
        if let Some(error) = lock.failure() {
            tracing::debug!(%error, "the state folder has no locks");
        }
        Self { _lock: lock }
    }
}

fn holder_text(holder: Option<&LockHolder>, unknown: &str) -> String {
    match holder {
        Some(holder) => format!("`{}` (process {})", printable(&holder.command), holder.process),
        None => unknown.to_owned(),
    }
}

fn failed(error: &FileLockError) -> CliError {
    CliError::usage("cannot write into the state folder")
        .with_cause(error)
        .hint("nothing was changed; `hospes doctor` finds the reason")
}
