//! The end of what a child wrote to stderr: kept for errors, handed on line by line.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;

use crate::client::target::env_secrets::EnvSecrets;

/// Called with each line.
pub(crate) type StderrCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// The most lines that are kept.
const MAX_LINES: usize = 50;
/// The longest line that is kept whole.
const MAX_LINE_BYTES: usize = 2048;
/// Number of lines that an error shows.
const MAX_SHOWN_LINES: usize = 10;
pub(crate) struct StderrTail {
    lines: Mutex<VecDeque<String>>,
    on_line: Option<StderrCallback>,
    hidden: EnvSecrets,
}

impl StderrTail {
    /// Creates an empty tail; `hidden` values are redacted everywhere.
    pub(crate) fn new(on_line: Option<StderrCallback>, hidden: EnvSecrets) -> Self {
        Self { lines: Mutex::new(VecDeque::new()), on_line, hidden }
    }

    /// The last lines, if there are any.
    pub(crate) fn tail(&self) -> Option<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let skipped = lines.len().saturating_sub(MAX_SHOWN_LINES);
        let shown: Vec<&str> = lines.iter().skip(skipped).map(String::as_str).collect();
        (!shown.is_empty()).then(|| shown.join("\n"))
    }

    /// Reads to the end.
    pub(super) async fn read(self: Arc<Self>, mut from: ChildStderr) {
        let mut line = Vec::new();
        let mut chunk = vec![0; 4096];
        while let Ok(read @ 1..) = from.read(&mut chunk).await {
            for byte in &chunk[..read] {
                if *byte == b'\n' {
                    self.push(&line);
                    line.clear();
                } else if line.len() < MAX_LINE_BYTES {
                    line.push(*byte);
                }
            }
        }
        self.push(&line);
    }

    fn push(&self, line: &[u8]) {
        let line = self.hidden.redact(String::from_utf8_lossy(line));
        let line = line.trim_end();
        if line.is_empty() {
            return;
        }
        tracing::debug!(target: "hospes::stderr", "{line}");
        if let Some(on_line) = &self.on_line {
            on_line(line);
        }
        // Locked only after the callback, which may ask for the tail itself.
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }
}

impl fmt::Debug for StderrTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StderrTail").finish_non_exhaustive()
    }
}
