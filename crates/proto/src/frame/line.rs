//! Framing of stdio: one message a line.
//!
//! The work is linear in the number of bytes: the search for a newline resumes at its last position. A line is a slice
//! of the buffer it was read into. A line over the limit is skipped to its newline and reported. Only that request
//! fails; the connection stays open.

use bytes::{Bytes, BytesMut};

use super::peek::{OversizeMessage, OversizePeeker};

/// Default maximum size of a message, in bytes: the setting `max_message_bytes`.
pub const DEFAULT_MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Maximum length of an oversize line, as a multiple of the limit on one message. A longer line counts as endless.
pub const MAX_OVERSIZE_FACTOR: u64 = 4;

/// Capacity offered to a read, in bytes.
const READ_CAPACITY: usize = 64 * 1024;
/// Minimum free capacity for a read, in bytes.
const MIN_READ_CAPACITY: usize = 8 * 1024;

/// Kind of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a line is kept or it is not")]
pub enum FramedLine {
    /// A line without its end, never blank. It shares the memory it was read into.
    Message(Bytes),
    /// A line over the limit, which was discarded.
    Oversize(OversizeMessage),
}

/// Splits a byte stream into lines.
///
/// ```
/// use hospes_proto::frame::{FramedLine, LineFramer};
///
/// let mut framer = LineFramer::default();
/// framer.buffer().extend_from_slice(b"{\"a\":1}\r\n\n{\"b\"");
/// assert_eq!(framer.poll_line(), Some(FramedLine::Message("{\"a\":1}".into())));
/// assert_eq!(framer.poll_line(), None);
/// framer.buffer().extend_from_slice(b":2}\n");
/// assert_eq!(framer.poll_line(), Some(FramedLine::Message("{\"b\":2}".into())));
/// ```
#[derive(Debug)]
pub struct LineFramer {
    buffer: BytesMut,
    /// Number of bytes of `buffer` that are known to contain no newline.
    scanned: usize,
    limit: usize,
    skipping: Option<OversizePeeker>,
}

impl Default for LineFramer {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_MESSAGE_BYTES)
    }
}

impl LineFramer {
    /// Creates a framer for lines of at most `max_message_bytes`.
    #[must_use]
    pub fn new(max_message_bytes: usize) -> Self {
        Self { buffer: BytesMut::new(), scanned: 0, limit: max_message_bytes, skipping: None }
    }

    /// Returns the buffer to append received bytes to. It has capacity for a read. Take all lines before reading again,
    /// or a long line is noticed late.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < MIN_READ_CAPACITY {
            self.buffer.reserve(READ_CAPACITY);
        }
        &mut self.buffer
    }

    /// Returns the next complete line, if there is one.
    pub fn poll_line(&mut self) -> Option<FramedLine> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) else {
                self.scanned = self.buffer.len();
                // One more byte is allowed, which may be the `\r` of the line's end.
                if self.skipping.is_some() || self.buffer.len() > self.limit + 1 {
                    self.discard_buffer();
                }
                return None;
            };
            let end = self.scanned + found;
            self.scanned = 0;
            let line = self.buffer.split_to(end + 1).freeze();
            if let Some(line) = self.classify_line(line.slice(..line.len() - 1)) {
                return Some(line);
            }
        }
    }

    /// Returns a line that exceeds the limit [`MAX_OVERSIZE_FACTOR`] times. Its end is not waited for, and nothing
    /// after it can be read.
    pub fn poll_endless(&mut self) -> Option<FramedLine> {
        let most = (self.limit as u64).saturating_mul(MAX_OVERSIZE_FACTOR);
        let peeker = self.skipping.take_if(|peeker| peeker.seen() > most)?;
        Some(FramedLine::Oversize(peeker.finish(self.limit)))
    }

    /// Returns the rest after the end of the stream: a last line without a newline.
    pub fn finish(&mut self) -> Option<FramedLine> {
        self.scanned = 0;
        let rest = self.buffer.split().freeze();
        self.classify_line(rest)
    }

    fn classify_line(&mut self, line: Bytes) -> Option<FramedLine> {
        if let Some(mut peeker) = self.skipping.take() {
            peeker.push(&line);
            return Some(FramedLine::Oversize(peeker.finish(self.limit)));
        }
        let line = match line.last() {
            Some(b'\r') => line.slice(..line.len() - 1),
            _ => line,
        };
        if line.len() > self.limit {
            let mut peeker = OversizePeeker::default();
            peeker.push(&line);
            return Some(FramedLine::Oversize(peeker.finish(self.limit)));
        }
        (!line.trim_ascii().is_empty()).then_some(FramedLine::Message(line))
    }

    /// Discards the buffer, which belongs to a line over the limit.
    fn discard_buffer(&mut self) {
        self.skipping.get_or_insert_default().push(&self.buffer);
        self.scanned = 0;
        if self.buffer.capacity() > 2 * READ_CAPACITY {
            // Releases the memory that the line had taken.
            self.buffer = BytesMut::new();
        } else {
            self.buffer.clear();
        }
    }
}

/// Ends the message written to `out` from `start` on and makes it exactly one line.
///
/// Forwarded JSON may span several lines. A raw newline can only occur between tokens, where a blank is equivalent.
pub fn end_line(out: &mut Vec<u8>, start: usize) {
    flatten(&mut out[start..]);
    out.push(b'\n');
}

/// Replaces raw line ends by blanks.
pub(super) fn flatten(json: &mut [u8]) {
    let mut from = 0;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &json[from..]) {
        from += found;
        json[from] = b' ';
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::peek::OversizeSubject;
    use super::*;
    use hospes_model::RequestId;

    fn lines(framer: &mut LineFramer, input: &[u8], step: usize) -> Vec<FramedLine> {
        let mut lines = Vec::new();
        for chunk in input.chunks(step.max(1)) {
            framer.buffer().extend_from_slice(chunk);
            lines.extend(std::iter::from_fn(|| framer.poll_line()));
        }
        lines.extend(framer.finish());
        lines
    }

    fn message(text: &str) -> FramedLine {
        FramedLine::Message(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// covers: STDIO-03
    #[test]
    fn lines_are_cut_at_newlines_and_blank_ones_are_dropped() {
        let input = b"{\"a\":1}\n\r\n \n{\"b\":2}\r\n{\"c\":3}";
        for step in 1..=input.len() {
            let got = lines(&mut LineFramer::default(), input, step);
            assert_eq!(
                got,
                [message("{\"a\":1}"), message("{\"b\":2}"), message("{\"c\":3}")],
                "step {step}"
            );
        }
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_the_next_one_is_whole() {
        let long =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"m\",\"params\":\"{}\"}}", "x".repeat(3000));
        let input = format!("{{}}\n{long}\r\n{{\"next\":true}}\n");
        for step in [1, 2, 100, 1999, 2001, 10_000] {
            let mut framer = LineFramer::new(2000);
            let got = lines(&mut framer, input.as_bytes(), step);
            assert_eq!(got.len(), 3, "step {step}");
            assert_eq!(got[0], message("{}"));
            let FramedLine::Oversize(over) = &got[1] else { panic!("not oversize at step {step}") };
            assert_eq!(over.subject, OversizeSubject::Request(RequestId::Number(9)));
            assert_eq!((over.request(), over.response()), (Some(&RequestId::Number(9)), None));
            assert!((over.seen as usize).abs_diff(long.len()) <= 1);
            assert!(over.to_error().message.contains("max_message_bytes"));
            assert_eq!(got[2], message("{\"next\":true}"));
        }
    }

    #[test]
    fn the_limit_counts_the_line_without_its_end() {
        for end in ["\n", "\r\n", ""] {
            for step in [1, 100] {
                let input = format!("12345678{end}");
                let got = lines(&mut LineFramer::new(8), input.as_bytes(), step);
                assert_eq!(got, [message("12345678")], "{end:?} step {step}");
                let input = format!("123456789{end}");
                let got = lines(&mut LineFramer::new(8), input.as_bytes(), step);
                assert!(matches!(got[..], [FramedLine::Oversize(_)]), "{end:?} step {step}: {got:?}");
            }
        }
    }

    #[test]
    fn an_endless_line_takes_no_memory() {
        let mut framer = LineFramer::new(100_000);
        for _ in 0..1000 {
            framer.buffer().extend_from_slice(&[b'x'; 10_000]);
            assert_eq!(framer.poll_line(), None);
            assert!(framer.buffer.capacity() < 500_000, "{}", framer.buffer.capacity());
        }
        framer.buffer().extend_from_slice(b"\n");
        assert!(matches!(framer.poll_line(), Some(FramedLine::Oversize(over)) if over.seen == 10_000_000));
    }

    #[test]
    fn an_endless_line_is_given_up() {
        let mut framer = LineFramer::new(1000);
        for bytes in [3000, 1000] {
            framer.buffer().extend_from_slice(&vec![b'x'; bytes]);
            assert_eq!((framer.poll_line(), framer.poll_endless()), (None, None), "its end may still come");
        }
        framer.buffer().extend_from_slice(b"x");
        assert_eq!(framer.poll_line(), None);
        assert!(matches!(framer.poll_endless(), Some(FramedLine::Oversize(over)) if over.seen == 4001));
        assert_eq!(framer.poll_endless(), None);
    }

    #[test]
    fn a_read_is_offered_room_and_the_buffer_grows_only_for_that() {
        let mut framer = LineFramer::default();
        for _ in 0..4 {
            let buffer = framer.buffer();
            let (capacity, room) = (buffer.capacity(), buffer.capacity() - buffer.len());
            assert!(room >= MIN_READ_CAPACITY, "{room}");
            // As long as there is enough capacity, the buffer stays the same.
            buffer.extend_from_slice(&vec![b'x'; room - MIN_READ_CAPACITY]);
            assert_eq!(framer.buffer().capacity(), capacity);
            framer.buffer.extend_from_slice(b"x");
        }
    }

    #[test]
    fn only_the_memory_of_a_long_line_is_given_back() {
        for (capacity, kept) in [
            (READ_CAPACITY, READ_CAPACITY),
            (2 * READ_CAPACITY, 2 * READ_CAPACITY),
            (2 * READ_CAPACITY + 1, 0),
        ] {
            let mut framer = LineFramer::new(4);
            framer.buffer = BytesMut::with_capacity(capacity);
            framer.buffer.extend_from_slice(b"too long");
            assert_eq!(framer.poll_line(), None);
            assert_eq!((framer.buffer.len(), framer.buffer.capacity()), (0, kept));
        }
    }

    #[test]
    fn a_line_shares_the_memory_it_was_read_into() {
        let mut framer = LineFramer::default();
        framer.buffer().extend_from_slice(b"{\"a\":1}\n{\"b\":2}\n");
        let start = framer.buffer.as_ptr() as usize;
        let Some(FramedLine::Message(line)) = framer.poll_line() else { panic!("a line") };
        assert_eq!(line.as_ptr() as usize, start);
    }

    /// covers: STDIO-03
    #[test]
    fn a_message_laid_out_over_lines_is_written_as_one() {
        let mut out = b"{}\n".to_vec();
        let start = out.len();
        out.extend_from_slice(b"{\r\n  \"a\": \"\\n\"\n}");
        end_line(&mut out, start);
        assert_eq!(out, b"{}\n{    \"a\": \"\\n\" }\n");
        let mut out = b"\n\n{}\r\r".to_vec();
        end_line(&mut out, 0);
        assert_eq!(out, b"  {}  \n");
    }

    proptest! {
        /// covers: STDIO-03
        #[test]
        fn lines_do_not_depend_on_how_bytes_are_split(
            parts in proptest::collection::vec("[a{}\" \r]{0,40}", 0..20),
            cuts in proptest::collection::vec(1usize..30, 1..60),
            limit in 4usize..50,
        ) {
            let input = parts.join("\n");
            let whole = lines(&mut LineFramer::new(limit), input.as_bytes(), usize::MAX);
            let mut framer = LineFramer::new(limit);
            let mut split = Vec::new();
            let mut rest = input.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, left) = rest.split_at((*cut).min(rest.len()));
                rest = left;
                framer.buffer().extend_from_slice(chunk);
                split.extend(std::iter::from_fn(|| framer.poll_line()));
            }
            split.extend(framer.finish());
            prop_assert_eq!(kinds(&whole), kinds(&split));
        }
    }

    /// The count of an oversize line includes its `\r` only when that came with the rest.
    fn kinds(lines: &[FramedLine]) -> Vec<Option<Bytes>> {
        lines
            .iter()
            .map(|line| match line {
                FramedLine::Message(text) => Some(text.clone()),
                FramedLine::Oversize(_) => None,
            })
            .collect()
    }
}
