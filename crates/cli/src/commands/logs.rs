//! `hospes logs`: prints the log of hosts and of their servers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;

use super::InterruptListener;
use super::config_target::unknown_server;
use crate::args::LogsArgs;
use crate::exit::{CliError, CliResult};
use crate::log_file::{LogEntry, OLDER_ENDING, list_files};
use crate::output::{BOLD, CliOutput, DIM, RED, YELLOW, paint, printable};
use crate::{known_servers, paths, platform};

/// Interval at which the files are read while they are followed.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of bytes that are read of a file at once. A host writes smaller files.
const MAX_READ_BYTES: u64 = 8 << 20;

pub(crate) async fn run(args: LogsArgs, output: CliOutput) -> CliResult {
    let folder =
        paths::log_folder().ok_or_else(|| CliError::usage("no folder found for logs (HOME is not set)"))?;
    let mut reader = LogReader { folder, read: HashMap::new() };
    let wanted = |entry: &LogEntry| {
        args.server.as_ref().is_none_or(|server| entry.server.as_ref() == Some(server))
            && args.since.is_none_or(|since| entry.at >= since)
            && args.level.is_none_or(|level| level.includes(&entry.level))
    };
    let mut last = LastEntries { most: args.lines, entries: BinaryHeap::new() };
    reader.read_new(true, |entry| {
        if wanted(&entry) {
            last.push(entry);
        }
    });
    let last = last.into_sorted();
    if last.is_empty() && !args.follow {
        return nothing_found(&args, output);
    }
    for entry in last {
        print(&entry, output);
    }
    if !args.follow {
        return Ok(());
    }
    let mut ending = InterruptListener::new()?;
    let follow = async {
        loop {
            let mut news = Vec::new();
            reader.read_new(false, |entry| {
                if wanted(&entry) {
                    news.push(entry);
                }
            });
            // Lines of several hosts.
            news.sort();
            news.iter().for_each(|entry| print(entry, output));
            tokio::time::sleep(FOLLOW_INTERVAL).await;
        }
    };
    // Ctrl-C is the way to end it, so it is no failure.
    let _interrupted: Option<()> = ending.unless(follow).await;
    Ok(())
}

/// Returns the last entries of each server, and of hosts without a server.
pub(crate) fn last_by_server(most: usize) -> BTreeMap<Option<String>, Vec<LogEntry>> {
    let Some(folder) = paths::log_folder() else { return BTreeMap::new() };
    let mut last: BTreeMap<Option<String>, LastEntries> = BTreeMap::new();
    LogReader { folder, read: HashMap::new() }.read_new(true, |entry| {
        let new = || LastEntries { most, entries: BinaryHeap::new() };
        last.entry(entry.server.clone()).or_insert_with(new).push(entry);
    });
    last.into_iter().map(|(server, last)| (server, last.into_sorted())).collect()
}

fn nothing_found(args: &LogsArgs, output: CliOutput) -> CliResult {
    if let Some(server) = &args.server {
        let names = known_servers::names(&[]);
        if !names.contains(server) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let problem = format!("no server is called `{}`, and no log names one", printable(server));
            return Err(unknown_server(problem, server, &names));
        }
    }
    output.say("no matching lines; `hospes up` and `hospes stdio` write the log");
    Ok(())
}

/// The last entries by time.
struct LastEntries {
    most: usize,
    entries: BinaryHeap<Reverse<LogEntry>>,
}

impl LastEntries {
    fn push(&mut self, entry: LogEntry) {
        self.entries.push(Reverse(entry));
        if self.entries.len() > self.most {
            self.entries.pop();
        }
    }

    fn into_sorted(self) -> Vec<LogEntry> {
        let mut entries: Vec<LogEntry> = self.entries.into_iter().map(|Reverse(entry)| entry).collect();
        entries.sort();
        entries
    }
}

/// Reader of all log files that remembers the position in each.
struct LogReader {
    folder: PathBuf,
    read: HashMap<PathBuf, FilePosition>,
}

#[derive(Clone, Copy, Default)]
struct FilePosition {
    /// Identity of the file, which changes when it is rotated.
    id: u64,
    /// End of the last complete line that was read.
    offset: u64,
}

impl LogReader {
    /// Passes on the lines that were not read yet. `is_first` includes the older parts of files.
    fn read_new(&mut self, is_first: bool, mut each: impl FnMut(LogEntry)) {
        for path in list_files(&self.folder) {
            let Ok(id) = platform::file_id(&path) else { continue };
            let before = self.read.get(&path).copied();
            let older = path.with_extension(OLDER_ENDING);
            let mut offset = before.map_or(0, |before| before.offset);
            match before {
                None if is_first => drop(read_from(&older, 0, &mut each)),
                // The file was rotated: its rest is in the older part.
                Some(before) if before.id != id => {
                    read_from(&older, before.offset, &mut each);
                    offset = 0;
                }
                _ => {}
            }
            let offset = read_from(&path, offset, &mut each);
            self.read.insert(path, FilePosition { id, offset });
        }
    }
}

/// Passes on the complete lines after `offset`, and returns their end. Lines that are no entries are left out.
fn read_from(path: &Path, offset: u64, each: &mut impl FnMut(LogEntry)) -> u64 {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(offset))?;
        file.take(MAX_READ_BYTES).read_to_end(&mut text)
    });
    // A file may have been removed since the folder was listed.
    if read.is_err() {
        return offset;
    }
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines = text[..end].split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).for_each(each);
    offset + end as u64
}

fn print(entry: &LogEntry, output: CliOutput) {
    if output.json {
        if let Ok(json) = serde_json::to_string(entry) {
            output.json_line(&json);
        }
    } else {
        output.line(&line(entry, &TimeZone::system()));
    }
}

/// Formats an entry for people. Further lines of its text are indented, so that a server cannot imitate an entry.
fn line(entry: &LogEntry, zone: &TimeZone) -> String {
    let at = entry.at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.3f").to_string();
    let level = match entry.level.as_str() {
        "error" => paint(RED, "error "),
        "warn" => paint(YELLOW, "warn  "),
        other => paint(DIM, format!("{:<6}", visible(other))),
    };
    let server = match &entry.server {
        Some(name) => format!(" {}", paint(BOLD, visible(name))),
        None => String::new(),
    };
    let text: Vec<String> = entry.text.lines().map(visible).collect();
    format!("{} {level}{server}  {}", paint(DIM, at), text.join("\n    "))
}

/// Makes control characters and hidden characters visible.
fn visible(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\t' => safe.push(letter),
            _ if letter.is_control() || hospes_policy::is_hidden(letter) => {
                safe.extend(letter.escape_unicode())
            }
            _ => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use jiff::Timestamp;

    fn entry(second: i64, text: &str) -> LogEntry {
        LogEntry {
            at: Timestamp::from_second(second).unwrap(),
            level: "stderr".to_owned(),
            host: 1,
            server: Some("mail".to_owned()),
            text: text.to_owned(),
        }
    }

    fn write(path: &Path, entries: &[LogEntry]) {
        let lines: Vec<String> =
            entries.iter().map(|one| serde_json::to_string(one).unwrap() + "\n").collect();
        fs::write(path, lines.concat()).unwrap();
    }

    #[test]
    fn a_server_can_neither_control_the_terminal_nor_imitate_an_entry() {
        let shown = line(&entry(0, "a\u{1b}[2Jb\u{202e}\r\n1970-01-01 error x"), &TimeZone::UTC);
        let bare = anstream::adapter::strip_str(&shown).to_string();
        assert_eq!(
            bare,
            "1970-01-01 00:00:00.000 stderr mail  a\\u{1b}[2Jb\\u{202e}\n    1970-01-01 error x"
        );
    }

    #[test]
    fn the_last_entries_are_those_of_the_latest_times() {
        let mut last = LastEntries { most: 2, entries: BinaryHeap::new() };
        [3, 1, 4, 2].into_iter().for_each(|second| last.push(entry(second, "")));
        let seconds: Vec<i64> = last.into_sorted().iter().map(|one| one.at.as_second()).collect();
        assert_eq!(seconds, [3, 4]);
    }

    #[test]
    fn a_rotated_file_is_followed_without_a_gap_and_an_incomplete_line_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a-1.log");
        let mut reader = LogReader { folder: folder.path().to_owned(), read: HashMap::new() };
        let mut read = |is_first| {
            let mut texts = Vec::new();
            reader.read_new(is_first, |one| texts.push(one.text));
            texts
        };
        write(&path, &[entry(1, "one")]);
        assert_eq!(read(true), ["one"]);
        assert!(read(false).is_empty());
        // Written after the last look, and rotated before the next one.
        write(&path, &[entry(1, "one"), entry(2, "two")]);
        fs::rename(&path, path.with_extension(OLDER_ENDING)).unwrap();
        write(&path, &[entry(3, "three")]);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}not an entry\n{}", &whole[..10])).unwrap();
        assert_eq!(read(false), ["two", "three"]);
        fs::write(&path, format!("{whole}not an entry\n{whole}")).unwrap();
        assert_eq!(read(false), ["three"]);
    }
}
