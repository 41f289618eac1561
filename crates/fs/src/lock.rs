//! Locks between processes.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two attempts to lock a file. Waiting for a lock itself has no time limit.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum size of the note about a holder that is read, in bytes.
const MAX_NOTE: u64 = 256;

/// Exclusive lock of a file between processes and threads. It ends on drop, and with the process. The file stays.
///
/// The holder is named in a note beside the file, with the ending `holder`: on Windows, a locked file cannot be read.
#[derive(Debug)]
pub struct FileLock {
    file: io::Result<File>,
    note: PathBuf,
}

/// Process that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// Id of the process.
    pub process: u32,
    /// Command that it carries out, as it was given to [`FileLock::acquire`].
    pub command: String,
}

/// Error of locking a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileLockError {
    /// The lock was not released in time. The holder is unknown if its note cannot be read.
    #[error("locked by another process")]
    Held(Option<LockHolder>),
    /// The file cannot be created or opened.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl FileLock {
    /// Locks a file, which is created, with its folder, if it does not exist. Blocks for at most `wait`; `on_wait` is
    /// called once if the lock is held by another.
    ///
    /// On a file system without locks nothing is locked: see [`FileLock::failure`].
    ///
    /// # Errors
    /// If the lock is still held after this time, or the file cannot be created.
    pub fn acquire(
        path: &Path,
        command: &str,
        wait: Duration,
        on_wait: impl FnOnce(Option<&LockHolder>),
    ) -> Result<Self, FileLockError> {
        if let Some(folder) = path.parent() {
            super::create_private_folder(folder)?;
        }
        let file = super::open_private(path)?;
        let note = path.with_extension("holder");
        let until = Instant::now() + wait;
        let mut on_wait = Some(on_wait);
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Ok(Self { file: Err(error), note }),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                    return Err(FileLockError::Held(read_note(&note)));
                }
                Err(TryLockError::WouldBlock) => {
                    if let Some(on_wait) = on_wait.take() {
                        on_wait(read_note(&note).as_ref());
                    }
                    thread::sleep(POLL_INTERVAL);
                }
            }
        }
        // It only helps people, so that it may be missing or incomplete.
        let _none = fs::remove_file(&note);
        let _unnamed = super::create_private(&note)
            .and_then(|mut file| write!(file, "{}\n{command}", std::process::id()));
        Ok(Self { file: Ok(file), note })
    }

    /// Returns the error of the system if its file system has no locks, so that nothing is locked.
    #[must_use]
    pub fn failure(&self) -> Option<&io::Error> {
        self.file.as_ref().err()
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if self.file.is_ok() {
            let _gone = fs::remove_file(&self.note);
        }
    }
}

fn read_note(note: &Path) -> Option<LockHolder> {
    let mut text = String::new();
    File::open(note).ok()?.take(MAX_NOTE).read_to_string(&mut text).ok()?;
    let (process, command) = text.split_once('\n')?;
    Some(LockHolder { process: process.parse().ok()?, command: command.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_lock_is_held_by_one_who_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/a.lock");
        let never = |_: Option<&LockHolder>| panic!("nobody holds it");
        let first = FileLock::acquire(&path, "first", Duration::ZERO, never).unwrap();
        assert!(first.failure().is_none());
        let holder = Some(LockHolder { process: std::process::id(), command: "first".to_owned() });
        let held = FileLock::acquire(&path, "second", Duration::ZERO, |_| {}).unwrap_err();
        assert!(matches!(held, FileLockError::Held(found) if found == holder));
        // One that waits gets it when it is released.
        let (waits, is_waiting) = mpsc::channel();
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                let says = move |holder: Option<&LockHolder>| waits.send(holder.cloned()).unwrap();
                FileLock::acquire(&path, "second", Duration::from_secs(30), says).map(drop)
            });
            assert_eq!(is_waiting.recv().unwrap(), holder);
            drop(first);
            second.join().unwrap().unwrap();
        });
        assert!(!folder.path().join("state/a.holder").exists());
    }

    #[test]
    fn a_broken_note_names_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let _first = FileLock::acquire(&path, "first", Duration::ZERO, |_| {}).unwrap();
        fs::write(folder.path().join("a.holder"), "nonsense").unwrap();
        let held = FileLock::acquire(&path, "second", Duration::ZERO, |_| {}).unwrap_err();
        assert!(matches!(held, FileLockError::Held(None)));
    }
}
