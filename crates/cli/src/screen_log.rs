//! Lines of the log while a screen is shown: what the program prints and what servers write to standard error.
//!
//! [`begin`] starts to collect the lines of servers. [`show`] takes also what would be printed, because that would
//! corrupt the screen. Everything is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

use crate::printed_secrets;
use crate::tolerant_writer::TolerantWriter;

/// Maximum number of printed messages that are kept.
const MAX_LINES: usize = 500;
/// Maximum number of lines that are kept of each server.
const MAX_SERVER_LINES: usize = 200;
/// Maximum number of servers whose lines are kept.
const MAX_SERVERS: usize = 128;
/// Maximum length of a printed message, in bytes. The rest is cut. A warning may name several mistakes of an entry.
const MAX_LINE_BYTES: usize = 2000;
/// Maximum length of a line of a server, in bytes. The rest is cut.
const MAX_SERVER_LINE_BYTES: usize = 500;

/// An event of the log: what was printed at once, which may have several lines, or a line of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogLine {
    pub(crate) at: Timestamp,
    /// `error`, `warn`, `info`, `debug` or `trace`; `stderr` for a line of a server. Empty for what was printed.
    pub(crate) level: String,
    pub(crate) text: String,
}

#[derive(Debug)]
struct ScreenLog {
    lines: VecDeque<LogLine>,
    /// Text without an end of line yet.
    part: String,
    servers: BTreeMap<String, VecDeque<LogLine>>,
    /// Number of lines so far.
    count: u64,
}

static LOG: Mutex<ScreenLog> =
    Mutex::new(ScreenLog { lines: VecDeque::new(), part: String::new(), servers: BTreeMap::new(), count: 0 });
/// True if lines of servers are collected.
static IS_COLLECTING: AtomicBool = AtomicBool::new(false);
/// True from [`begin`] until a screen is shown. What is printed meanwhile is on the terminal, and the screen hides it.
static IS_COVERED: AtomicBool = AtomicBool::new(false);
/// True while a screen is shown.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// Starts to collect the lines of servers, and copies of what is printed until the screen is shown.
pub(crate) fn begin() {
    // Relaxed is enough for flags that guard no other data: a line at the moment of the change may go either way.
    IS_COLLECTING.store(true, Ordering::Relaxed);
    IS_COVERED.store(true, Ordering::Relaxed);
}

/// Takes what is printed from now on, or prints it again.
pub(crate) fn show(is_shown: bool) {
    IS_SHOWN.store(is_shown, Ordering::Relaxed);
    IS_COVERED.store(false, Ordering::Relaxed);
}

/// Takes a text that would be printed. Returns false if it is to be printed, because no screen is shown.
pub(crate) fn take(text: &str) -> bool {
    let is_shown = IS_SHOWN.load(Ordering::Relaxed);
    if !is_shown && !IS_COVERED.load(Ordering::Relaxed) {
        return false;
    }
    let plain = anstream::adapter::strip_str(text).to_string();
    let mut log = LOG.lock();
    // What is printed at once is one message. Its later lines continue it, and have no time of their own.
    let room = MAX_LINE_BYTES.saturating_sub(log.part.len());
    log.part.push_str(clip(&plain, room));
    if plain.ends_with('\n') {
        let message = std::mem::take(&mut log.part);
        let message = message.trim_end();
        if !message.trim().is_empty() {
            log.push(message);
        }
    }
    is_shown
}

/// Adds a line of a server, if lines are collected.
pub(crate) fn add_server_line(server: &str, level: &str, text: &str) {
    if !IS_COLLECTING.load(Ordering::Relaxed) {
        return;
    }
    let mut log = LOG.lock();
    log.count += 1;
    if log.servers.len() >= MAX_SERVERS && !log.servers.contains_key(server) {
        return;
    }
    let lines = log.servers.entry(server.to_owned()).or_default();
    if lines.len() >= MAX_SERVER_LINES {
        lines.pop_front();
    }
    lines.push_back(LogLine {
        at: Timestamp::now(),
        level: level.to_owned(),
        text: clip(text, MAX_SERVER_LINE_BYTES).to_owned(),
    });
}

/// Returns the last messages that were printed, at most `count`, the oldest first.
pub(crate) fn last_lines(count: usize) -> Vec<LogLine> {
    let log = LOG.lock();
    log.lines.iter().skip(log.lines.len().saturating_sub(count)).cloned().collect()
}

/// Returns the last lines of a server, at most `count`, the oldest first.
pub(crate) fn server_lines(server: &str, count: usize) -> Vec<LogLine> {
    let log = LOG.lock();
    let Some(lines) = log.servers.get(server) else { return Vec::new() };
    lines.iter().skip(lines.len().saturating_sub(count)).cloned().collect()
}

/// Returns the number of lines so far, by which a screen sees that there are new ones.
pub(crate) fn count() -> u64 {
    LOG.lock().count
}

impl ScreenLog {
    fn push(&mut self, line: &str) {
        self.count += 1;
        if self.lines.len() >= MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(LogLine { at: Timestamp::now(), level: String::new(), text: line.to_owned() });
    }
}

fn clip(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Writer of the log on standard error, which goes to the screen while one is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogWriter;

impl io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The log writes a whole event at once, so no secret is in two parts.
        let text = String::from_utf8_lossy(bytes);
        let shown = printed_secrets::mask(&text);
        if !take(&shown) {
            TolerantWriter(io::stderr()).write_all(shown.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        TolerantWriter(io::stderr()).flush()
    }
}

impl MakeWriter<'_> for LogWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because the log is one for the whole program.
    #[test]
    fn lines_are_taken_while_a_screen_is_shown_and_bounded() {
        assert!(!take("not taken\n"));
        add_server_line("mail", "stderr", "too early");
        begin();
        assert!(!take("warning: printed, and covered by the screen\n"));
        show(true);
        assert!(take("\u{1b}[31mone\u{1b}[0m\n  more of it\n"));
        assert!(take("tw"));
        assert!(take("o\n") && take("\n"));
        let texts = |lines: Vec<LogLine>| lines.into_iter().map(|line| line.text).collect::<Vec<_>>();
        assert_eq!(
            texts(last_lines(10)),
            ["warning: printed, and covered by the screen", "one\n  more of it", "two"]
        );
        assert!(take(&"x".repeat(10_000)));
        assert!(take("\n"));
        assert!(last_lines(1)[0].text.len() <= MAX_LINE_BYTES);
        for at in 0..2 * MAX_LINES {
            take(&format!("{at}\n"));
            add_server_line("mail", "stderr", &format!("{at}{}", "ü".repeat(5_000)));
        }
        assert_eq!(last_lines(usize::MAX).len(), MAX_LINES);
        let of_server = server_lines("mail", usize::MAX);
        assert_eq!(of_server.len(), MAX_SERVER_LINES);
        assert!(of_server.iter().all(|line| line.text.len() <= MAX_SERVER_LINE_BYTES));
        for at in 0..2 * MAX_SERVERS {
            add_server_line(&format!("server {at}"), "stderr", "x");
        }
        assert!(LOG.lock().servers.len() <= MAX_SERVERS);
        show(false);
        let count = last_lines(usize::MAX).len();
        assert!(!take("not taken\n"));
        assert_eq!(last_lines(usize::MAX).len(), count);
        assert!(!last_lines(1)[0].text.contains("not taken"));
    }
}
