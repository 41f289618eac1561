//! Removal of what was kept for a limited time: secrets that were typed for a server that was not added, and records and files
//! of removed servers. It runs at the start of `up`, `add` and `update`, and every hour while a host runs.

use std::time::Duration;

use jiff::Timestamp;

use crate::known_configs::KnownConfigs;
use crate::packages::removed;
use crate::secrets::pending;
use crate::{paths, removed_record};

/// Interval of the sweeps of a running host.
const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Removes all whose time is over. Failures are logged, because they must not keep a command from its work.
pub(crate) fn run(now: Timestamp) {
    pending::sweep(now);
    // First: a record that is put back keeps its folders.
    removed_record::sweep(now);
    let known = KnownConfigs::read_all();
    // What cannot be read may use everything.
    if known.is_complete() {
        removed::sweep(&paths::version_folders(), |folder| known.uses_folder(folder), now);
    }
}

/// Sweeps every hour. Never returns.
pub(crate) async fn repeat() -> std::convert::Infallible {
    loop {
        // In a thread, because folders of packages are large.
        let _panicked = tokio::task::spawn_blocking(|| run(Timestamp::now())).await;
        tokio::time::sleep(INTERVAL).await;
    }
}
