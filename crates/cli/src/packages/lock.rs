//! Lock of the folders of a server, so that two runs do not install into one of them at once.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::exit::{CliError, CliResult};
use crate::output::CliOutput;
use crate::paths;
use crate::progress::StepBar;

/// Maximum time that another run may take, which compiles perhaps.
const LOCK_TIMEOUT: Duration = Duration::from_secs(35 * 60);
/// Interval at which the lock is tried.
const LOCK_POLL: Duration = Duration::from_millis(100);

/// Lock of the folders of a server. It is released on drop.
#[derive(Debug)]
pub(crate) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Waits until no other run installs into the folders beside `folder`.
    ///
    /// # Errors
    /// If the lock file cannot be opened, or another run holds it for 35 minutes.
    pub(crate) async fn acquire(folder: &Path, output: CliOutput) -> CliResult<Self> {
        let path = lock_file(folder);
        let failed = |error: &std::io::Error| {
            CliError::usage(format!("cannot lock {}", paths::display_path(&path))).with_cause(error)
        };
        if let Some(parent) = path.parent() {
            paths::create_private_folder(parent).map_err(|error| failed(&error))?;
        }
        let mut options = OpenOptions::new();
        // Never truncated or removed, because another process may hold the lock on it.
        options.write(true).create(true).truncate(false);
        crate::platform::make_private(&mut options);
        let file = options.open(&path).map_err(|error| failed(&error))?;
        let begun = Instant::now();
        let mut bar = None;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(error)) => return Err(failed(&error)),
                Err(TryLockError::WouldBlock) if begun.elapsed() > LOCK_TIMEOUT => {
                    return Err(CliError::usage("another run of hospes installs this server")
                        .hint("wait for its end, or end it"));
                }
                Err(TryLockError::WouldBlock) => {}
            }
            bar.get_or_insert_with(|| StepBar::spinner("waiting for another installation", output));
            // Polled, because a wait in the lock itself could not be interrupted.
            tokio::time::sleep(LOCK_POLL).await;
        }
    }
}

/// Returns the lock file of a folder `SERVER/VERSION`: beside the folder of the server, and with a name that none has.
fn lock_file(folder: &Path) -> PathBuf {
    let server = folder.parent().unwrap_or(folder);
    let name = server.file_name().unwrap_or_default().to_string_lossy();
    server.with_file_name(format!(".{name}.lock"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[tokio::test]
    async fn a_second_run_waits_for_the_first() {
        let output = CliOutput { json: false, quiet: true };
        let folder = tempfile::tempdir().unwrap();
        let version = |name: &str| folder.path().join("server").join(name);
        let first = FolderLock::acquire(&version("1"), output).await.unwrap();
        let version = version("2");
        let mut second = std::pin::pin!(FolderLock::acquire(&version, output));
        let waits = tokio::time::timeout(3 * LOCK_POLL, &mut second).await;
        assert!(waits.is_err(), "{waits:?}");
        drop(first);
        second.await.unwrap();
    }
}
