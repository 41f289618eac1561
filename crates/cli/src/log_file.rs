//! Log file of a running host: events of the host, and what its servers write to standard error.
//!
//! Each host writes a file of its own below the state folder, one JSON object a line. `hospes logs` reads all of them.
//! Known secrets are masked, as in the log on standard error.

use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;

use crate::{paths, printed_secrets, screen_log};

/// Maximum size of a file before it becomes the older one of two.
const MAX_FILE_BYTES: u64 = 2 << 20;
/// Maximum length of one text, in bytes.
const MAX_TEXT_BYTES: usize = 4096;
/// Number of ended hosts whose files are kept.
const MAX_ENDED_HOSTS: usize = 16;
/// Ending of a current file.
pub(crate) const ENDING: &str = "log";
/// Ending of the older part of a file.
pub(crate) const OLDER_ENDING: &str = "log.1";
/// Target of the events with lines of servers.
const STDERR_TARGET: &str = "hospes::stderr";

/// A line of a log file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LogEntry {
    pub(crate) at: Timestamp,
    /// `error`, `warn`, `info`, `debug` or `trace`; `stderr` for a line of a server.
    pub(crate) level: String,
    /// Process id of the host.
    pub(crate) host: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
    pub(crate) text: String,
}

/// Subscriber layer that writes events to the log file.
#[derive(Debug)]
pub(crate) struct LogFileLayer {
    file: Mutex<RotatedFile>,
}

impl LogFileLayer {
    /// Creates the file of this host, and removes those of hosts that ended long ago.
    pub(crate) fn create(folder: &Path) -> std::io::Result<Self> {
        hospes_fs::create_private_folder(folder)?;
        remove_old_files(folder);
        let begun = Timestamp::now().strftime("%Y%m%dT%H%M%S");
        let path = folder.join(format!("{begun}-{}.{ENDING}", std::process::id()));
        Ok(Self { file: Mutex::new(RotatedFile::create(path, MAX_FILE_BYTES)?) })
    }

    /// Filter of the events that are written. It is independent of the level on standard error.
    pub(crate) fn filter() -> Targets {
        Targets::new()
            .with_default(Level::WARN)
            .with_targets(["hospes", "hospes_host", "hospes_cli"].map(|target| (target, Level::INFO)))
            .with_target(STDERR_TARGET, Level::DEBUG)
    }
}

impl<S: Subscriber> Layer<S> for LogFileLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let is_stderr = event.metadata().target() == STDERR_TARGET;
        // The SDK reports each line, too, without the name of the server.
        if is_stderr && fields.server.is_none() {
            return;
        }
        let level =
            if is_stderr { "stderr".to_owned() } else { event.metadata().level().as_str().to_lowercase() };
        let entry = LogEntry {
            at: Timestamp::now(),
            level,
            host: std::process::id(),
            server: fields.server.take(),
            text: fields.into_text(),
        };
        if let Some(server) = &entry.server {
            screen_log::add_server_line(server, &entry.level, &entry.text);
        }
        let Ok(mut line) = serde_json::to_vec(&entry) else { return };
        line.push(b'\n');
        // A full disk must not stop the host, and the event stands on standard error as well.
        let _unwritten = self.file.lock().append(&line);
    }
}

/// The fields of an event as text.
#[derive(Default)]
struct EventFields {
    message: String,
    server: Option<String>,
    others: String,
}

impl EventFields {
    fn into_text(self) -> String {
        let text = self.message + &self.others;
        // Before it is cut, because the beginning of a secret is not recognized.
        let mut text = printed_secrets::mask(&text).into_owned();
        if text.len() > MAX_TEXT_BYTES {
            text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
            text.push('…');
        }
        text
    }
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a string cannot fail.
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "server" => self.server = Some(format!("{value:?}")),
            name => drop(write!(self.others, " {name}={value:?}")),
        }
    }
}

/// A file that is replaced by a new one when it is full. The full one is kept until the next is full.
#[derive(Debug)]
struct RotatedFile {
    path: PathBuf,
    /// `None` if the last one could not be replaced.
    file: Option<File>,
    written: u64,
    max_bytes: u64,
}

impl RotatedFile {
    fn create(path: PathBuf, max_bytes: u64) -> std::io::Result<Self> {
        let file = paths::create_private_file(&path)?;
        Ok(Self { path, file: Some(file), written: 0, max_bytes })
    }

    fn append(&mut self, line: &[u8]) -> std::io::Result<()> {
        let length = line.len() as u64;
        if self.written > 0 && self.written + length > self.max_bytes {
            // Closed first, because Windows may refuse to rename an open file.
            self.file = None;
            hospes_fs::rename(&self.path, &self.path.with_extension(OLDER_ENDING))?;
            self.written = 0;
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(paths::create_private_file(&self.path)?),
        };
        file.write_all(line)?;
        self.written += length;
        Ok(())
    }
}

/// Returns the current log files of a folder, the least recently written first.
pub(crate) fn list_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == ENDING) && path.is_file())
        .map(|path| (fs::metadata(&path).and_then(|data| data.modified()).ok(), path))
        .collect();
    files.sort();
    files.into_iter().map(|(_, path)| path).collect()
}

/// Removes the files of all but the last ended hosts.
fn remove_old_files(folder: &Path) {
    let mut ended: Vec<PathBuf> =
        list_files(folder).into_iter().filter(|file| !is_of_running_host(file)).collect();
    ended.truncate(ended.len().saturating_sub(MAX_ENDED_HOSTS - 1));
    for file in ended {
        let _gone = (fs::remove_file(file.with_extension(OLDER_ENDING)), fs::remove_file(&file));
    }
}

/// Returns true if the process that wrote the file exists. Elsewhere than on Linux, only the time of the last line
/// decides which files are kept.
fn is_of_running_host(file: &Path) -> bool {
    let pid = file.file_stem().and_then(|name| name.to_str()).and_then(|name| name.rsplit_once('-'));
    pid.is_some_and(|(_, pid)| pid.parse::<u32>().is_ok() && Path::new("/proc").join(pid).exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt as _;

    #[test]
    fn a_full_file_becomes_the_older_one_and_two_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a-1.log");
        let mut file = RotatedFile::create(path.clone(), 10).unwrap();
        for line in ["one one\n", "two two\n", "three three three\n", "4\n"] {
            file.append(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "4\n");
        assert_eq!(fs::read_to_string(path.with_extension(OLDER_ENDING)).unwrap(), "three three three\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn files_of_ended_hosts_are_removed_and_those_of_running_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let running = format!("0-{}.log", std::process::id());
        fs::write(folder.path().join(&running), "").unwrap();
        for host in 0..MAX_ENDED_HOSTS + 3 {
            // No process has an id beyond the system's limit of 2^22.
            fs::write(folder.path().join(format!("{host}-{}.log", 4_200_000_000_u32)), "").unwrap();
        }
        remove_old_files(folder.path());
        let left = list_files(folder.path());
        if cfg!(target_os = "linux") {
            assert_eq!(left.len(), MAX_ENDED_HOSTS);
            assert!(left.iter().any(|file| file.ends_with(&running)), "{left:?}");
        }
    }

    #[test]
    fn an_event_is_one_private_line_with_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let layer = LogFileLayer::create(&folder.path().join("logs")).unwrap();
        let path = layer.file.lock().path.clone();
        let subscriber = tracing_subscriber::registry().with(layer.with_filter(LogFileLayer::filter()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(target: "hospes_host::x", server = "mail", tries = 3, "dead\nagain");
            tracing::debug!(target: "hospes::stderr", server = %"mail", "hello");
            tracing::debug!(target: "hospes::stderr", "hello");
            tracing::debug!(target: "hospes_host::x", "not recorded");
            tracing::error!(target: "hospes_host::x", "{}", "ü".repeat(MAX_TEXT_BYTES));
        });
        let text = fs::read_to_string(&path).unwrap();
        let entries: Vec<LogEntry> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let seen: Vec<_> =
            entries.iter().take(2).map(|one| (&*one.level, one.server.as_deref(), &*one.text)).collect();
        let expected = [("warn", Some("mail"), "dead\nagain tries=3"), ("stderr", Some("mail"), "hello")];
        assert_eq!(seen, expected);
        assert_eq!(entries.len(), 3);
        assert!(entries[2].text.len() <= MAX_TEXT_BYTES + '…'.len_utf8());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        }
    }
}
