//! Automatic updates of a running host: once a day, by `hospes update --auto` in a process of its own.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use super::super::config_target::ConfigTarget;
use super::super::update::automatic;
use super::events::EventWriter;
use crate::paths;

/// Minimum time between two looks for updates, of all hosts of this user.
const PERIOD: SignedDuration = SignedDuration::from_hours(24);
/// Interval at which a host asks whether it is time.
const INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Maximum size of the result, in bytes.
const MAX_RESULT: u64 = 1024 * 1024;

/// Updates the servers of a file once a day, if their entries allow it. Never returns.
pub(super) async fn repeat(file: Option<PathBuf>, events: EventWriter) -> Infallible {
    let (Some(file), Some(note)) = (file, paths::auto_update_note()) else {
        return std::future::pending().await;
    };
    loop {
        if is_wanted(&file) && is_due(&note, Timestamp::now()) {
            write_note(&note, Timestamp::now());
            match update(&file).await {
                Ok(rows) => rows.iter().for_each(|row| report(row, events)),
                Err(error) => tracing::warn!(%error, "the automatic updates were not made"),
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn is_wanted(file: &Path) -> bool {
    // A file with mistakes is reported where it is loaded.
    let target = ConfigTarget::read(Some(file.to_owned()));
    file.is_file() && target.and_then(|target| target.auto_updated()).is_ok_and(|names| !names.is_empty())
}

/// Returns true if the last look was a day ago, or at a time that cannot be.
fn is_due(note: &Path, now: Timestamp) -> bool {
    let text = std::fs::read_to_string(note).unwrap_or_default();
    text.trim().parse::<Timestamp>().map_or(true, |last| last > now || now.duration_since(last) >= PERIOD)
}

fn write_note(note: &Path, now: Timestamp) {
    let folder = note.parent().unwrap_or(note);
    let written = hospes_fs::create_private_folder(folder)
        .and_then(|()| paths::write_private(note, now.to_string().as_bytes()));
    if let Err(error) = written {
        tracing::warn!(%error, "the time of the automatic updates was not noted");
    }
}

/// Runs the updates in a process of its own, so that an installation does not hold up the calls of the host.
async fn update(file: &Path) -> std::io::Result<Vec<Value>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--json", "--quiet", "update", "--auto", "--config"]).arg(file);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = RunningUpdate(command.spawn()?);
    let mut result = Vec::new();
    if let Some(output) = running.0.stdout.take() {
        output.take(MAX_RESULT).read_to_end(&mut result).await?;
    }
    running.0.wait().await?;
    Ok(serde_json::from_slice(&result)?)
}

/// Prints what was done. Servers that are up to date are left out.
fn report(row: &Value, events: EventWriter) {
    let state = row["state"].as_str().unwrap_or_default();
    if state != "current" {
        let field = |name: &'static str| (name, row[name].clone());
        let fields =
            [field("server"), ("state", json!(state)), field("from"), field("version"), field("why")];
        events.event("update", &fields, || automatic::line(row));
    }
}

/// The process that updates. It is asked to end on drop, and then leaves nothing behind.
struct RunningUpdate(Child);

impl Drop for RunningUpdate {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(id) =
            self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
        {
            let _gone = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
        #[cfg(not(unix))]
        let _gone = self.0.start_kill();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn a_host_looks_once_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let note = folder.path().join("note");
        let now: Timestamp = "2026-03-02T12:00:00Z".parse().unwrap();
        assert!(is_due(&note, now), "never before");
        write_note(&note, now);
        assert!(!is_due(&note, now + SignedDuration::from_hours(23)));
        assert!(is_due(&note, now + SignedDuration::from_hours(24)));
        assert!(is_due(&note, now - SignedDuration::from_hours(1)), "by a clock that was set back");
    }
}
