//! Detection of changed files.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio::time::{Interval, MissedTickBehavior};

/// Interval at which files are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Modification time and length of a file. `None` if there is no such file.
type FileStamp = Option<(SystemTime, u64)>;

/// Files that are looked at every half second. They need not exist.
#[derive(Debug)]
pub(crate) struct FileWatch {
    files: Vec<PathBuf>,
    /// Stamps of the state that was last reported, and of the last look.
    known: Vec<FileStamp>,
    before: Vec<FileStamp>,
    ticks: Interval,
}

impl FileWatch {
    /// Starts from the current state of the files. To be created before the files are read, so that later writes are
    /// noticed.
    pub(crate) fn new(files: Vec<PathBuf>) -> Self {
        let known: Vec<FileStamp> = files.iter().map(stamp).collect();
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        // A burst of missed ticks would look twice in a row and take an unfinished file for a settled one.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { files, before: known.clone(), known, ticks }
    }

    /// Waits for the next look. Returns true if a file has changed since the last report and looked the same twice,
    /// since it may still be being written.
    pub(crate) async fn look(&mut self) -> bool {
        self.ticks.tick().await;
        let now: Vec<FileStamp> = self.files.iter().map(stamp).collect();
        let is_settled = now == self.before;
        self.before.clone_from(&now);
        if now == self.known || !is_settled {
            return false;
        }
        self.known = now;
        true
    }
}

fn stamp(file: &PathBuf) -> FileStamp {
    let found = fs::metadata(file).ok()?;
    Some((found.modified().ok()?, found.len()))
}
