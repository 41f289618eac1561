//! Lock of a server while it is added, updated or removed, so that two commands do not use its folders at once.

use std::fs::{File, OpenOptions, TryLockError};

use crate::exit::{CliError, CliResult};
use crate::output::printable;
use crate::paths;

/// Lock of one server. It ends on drop, and with the process.
#[derive(Debug)]
pub(crate) struct ServerLock {
    _file: Option<File>,
}

impl ServerLock {
    /// Locks a server.
    ///
    /// # Errors
    /// If another command holds the lock, or its file cannot be written.
    pub(crate) fn acquire(server: &str) -> CliResult<Self> {
        let failed = |error: &std::io::Error| {
            CliError::usage("cannot write into the state folder")
                .with_cause(error)
                .hint("`hospes doctor` finds the reason")
        };
        let file = paths::server_lock(server)
            .ok_or_else(|| CliError::usage("no folder found for the state of the server").hint("set HOME"))?;
        hospes_fs::create_private_folder(file.parent().unwrap_or(&file)).map_err(|error| failed(&error))?;
        let mut options = OpenOptions::new();
        let opened =
            options.create(true).truncate(false).write(true).open(&file).map_err(|error| failed(&error))?;
        match opened.try_lock() {
            Ok(()) => Ok(Self { _file: Some(opened) }),
            Err(TryLockError::WouldBlock) => Err(CliError::usage(format!(
                "another `hospes add`, `update` or `remove` is at work on `{}`",
                printable(server)
            ))
            .hint("wait until it has ended, or end it; nothing was changed")),
            // Some network file systems have no locks. The configuration file is still compared before it is replaced.
            Err(TryLockError::Error(error)) => {
                tracing::debug!(%error, "the state folder has no locks");
                Ok(Self { _file: None })
            }
        }
    }
}
