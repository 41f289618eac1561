//! Input of the person: lines from standard input, and signals.

use std::io::{self, BufRead, Read};
use std::sync::mpsc as blocking;

use tokio::sync::{Mutex, mpsc};

use crate::exit::{CliError, CliResult};
use crate::platform::ChatInterrupts;

/// Maximum size of a line, in bytes.
const MAX_LINE: u64 = 1024 * 1024;

/// A line of input, or an error if it is too long.
pub(super) type InputLine = Result<String, LineTooLong>;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineTooLong;

impl std::fmt::Display for LineTooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "input line is longer than {MAX_LINE} bytes and was ignored")
    }
}

/// Reader of input lines on demand. A line typed before a question is asked is not an answer to it. A cancelled wait
/// leaves its read to the next caller.
pub(super) struct InputLines {
    want: blocking::SyncSender<()>,
    reading: Mutex<InputState>,
}

struct InputState {
    got: mpsc::Receiver<Option<InputLine>>,
    is_wanted: bool,
}

impl InputLines {
    /// Creates a reader of standard input.
    pub(super) fn new() -> Self {
        Self::of(|| read(&mut io::stdin().lock()))
    }

    /// Creates a reader that calls `read` on a thread of its own.
    pub(super) fn of(mut read: impl FnMut() -> Option<InputLine> + Send + 'static) -> Self {
        // Capacity for one is enough: a read is requested only after the line before it was taken.
        let (want, wanted) = blocking::sync_channel(1);
        let (give, got) = mpsc::channel(1);
        // A thread of its own: a read of the terminal cannot be cancelled and must not block the runtime.
        std::thread::spawn(move || {
            while wanted.recv().is_ok() {
                let line = read();
                let is_end = line.is_none();
                if give.blocking_send(line).is_err() || is_end {
                    return;
                }
            }
        });
        let reading = Mutex::new(InputState { got, is_wanted: false });
        Self { want, reading }
    }

    /// Returns true if no read is outstanding.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.reading.try_lock().is_ok_and(|reading| !reading.is_wanted)
    }

    /// Waits for the next line. Returns `None` at the end of input.
    pub(super) async fn next(&self) -> Option<InputLine> {
        // Held while it waits, so that of two callers the second cannot take the first one's line. It is an
        // async lock, because it is held over an await.
        let mut reading = self.reading.lock().await;
        // A line that arrived while no caller was waiting.
        if reading.is_wanted && reading.got.try_recv().is_ok() {
            reading.is_wanted = false;
        }
        if !reading.is_wanted {
            // This fails only after the end of input, when the thread has ended.
            self.want.try_send(()).ok()?;
            reading.is_wanted = true;
        }
        // When this is dropped, `is_wanted` stays set, and the next caller takes over the read.
        let line = reading.got.recv().await.flatten();
        reading.is_wanted = false;
        line
    }
}

fn read(input: &mut impl BufRead) -> Option<InputLine> {
    let mut line = Vec::new();
    let read = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
    // An error of the terminal ends the input, as its end does.
    if !matches!(read, Ok(1..)) {
        return None;
    }
    if line.last() != Some(&b'\n') && line.len() as u64 == MAX_LINE {
        // The rest is skipped, or it would be read as the next line. An error shows up at the next read.
        let _ended = input.skip_until(b'\n');
        return Some(Err(LineTooLong));
    }
    let line = String::from_utf8_lossy(&line);
    Some(Ok(line.trim_end_matches(['\r', '\n']).to_owned()))
}

/// Request made by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChatSignal {
    /// Ctrl-C: stop the current turn.
    Stop,
    /// The program is asked to end.
    End,
}

pub(super) struct ChatSignals(ChatInterrupts);

impl ChatSignals {
    pub(super) fn new() -> CliResult<Self> {
        let failed = |error| CliError::usage("cannot wait for signals").with_cause(&error);
        ChatInterrupts::new().map(Self).map_err(failed)
    }

    pub(super) async fn next(&mut self) -> ChatSignal {
        if self.0.next().await { ChatSignal::End } else { ChatSignal::Stop }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_no_line_and_the_next_one_is_read() {
        let mut input = vec![b'x'; 1024 * 1024];
        input.extend(b"yy\nshort\r\nlast");
        let mut input = input.as_slice();
        assert_eq!(read(&mut input), Some(Err(LineTooLong)));
        assert_eq!(read(&mut input), Some(Ok("short".to_owned())));
        assert_eq!(read(&mut input), Some(Ok("last".to_owned())));
        assert_eq!(read(&mut input), None);
    }

    #[tokio::test]
    async fn what_is_typed_while_nobody_asks_is_no_answer_to_the_next_question() {
        let (typed, waiting) = blocking::channel::<&str>();
        let lines = InputLines::of(move || waiting.recv().ok().map(|line| Ok(line.to_owned())));
        tokio::select! {
            biased;
            line = lines.next() => panic!("{line:?}"),
            () = std::future::ready(()) => {}
        }
        typed.send("o").unwrap();
        while lines.reading.lock().await.got.is_empty() {
            tokio::task::yield_now().await;
        }
        let next = async { tokio::join!(lines.next(), async { typed.send("d").unwrap() }).0 };
        assert_eq!(next.await, Some(Ok("d".to_owned())));
        drop(typed);
        assert_eq!(lines.next().await, None);
        assert_eq!(lines.next().await, None, "the end lasts");
    }
}
