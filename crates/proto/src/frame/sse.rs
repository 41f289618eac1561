//! Server-Sent Events: one message an event, for streamed responses.
//!
//! The encoder writes JSON directly into the output buffer; the decoder returns slices of the received chunks.

use std::fmt;
use std::io::Write as _;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};

use super::line::flatten;
use super::peek::{OversizeMessage, OversizePeeker};

/// Maximum length of an event id, in bytes. A longer id is ignored, because it could not be sent back in a header.
pub const MAX_EVENT_ID_BYTES: usize = 4096;

/// Fields before the data of an event.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "the fields that the SSE format has besides data")]
pub struct SseEventHead<'a> {
    /// Type of the event; without it receivers assume `message`.
    pub name: Option<&'a str>,
    /// Id of the event, a cursor in its stream. It must not contain line ends.
    pub id: Option<fmt::Arguments<'a>>,
    /// Time to wait before reconnecting.
    pub retry: Option<Duration>,
}

/// Appends an event whose data is `json`.
pub fn write_event(out: &mut Vec<u8>, head: SseEventHead<'_>, json: &[u8]) {
    let start = begin_event(out, head);
    out.extend_from_slice(json);
    end_event(out, start);
}

/// Appends the beginning of an event. Append its JSON, then pass the returned position to [`end_event`].
pub fn begin_event(out: &mut Vec<u8>, head: SseEventHead<'_>) -> usize {
    // Writing to memory cannot fail.
    if let Some(name) = head.name {
        let _ = writeln!(out, "event: {name}");
    }
    if let Some(id) = head.id {
        let _ = writeln!(out, "id: {id}");
    }
    if let Some(retry) = head.retry {
        let _ = writeln!(out, "retry: {}", retry.as_millis());
    }
    out.extend_from_slice(b"data: ");
    out.len()
}

/// Ends the event whose JSON begins at `start`. Line ends between its tokens become blanks.
pub fn end_event(out: &mut Vec<u8>, start: usize) {
    flatten(&mut out[start..]);
    out.extend_from_slice(b"\n\n");
}

/// Appends a comment, which receivers ignore and which keeps the connection alive.
pub fn write_comment(out: &mut Vec<u8>, text: &str) {
    // Writing to memory cannot fail.
    let _ = write!(out, ": {text}\n\n");
}

/// An event, or a block that only sets the cursor or the delay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SseEvent {
    /// Type of the event; `None` means `message`.
    pub name: Option<Box<str>>,
    /// Data of the event. `None` if the block had no such field. A priming event has empty data.
    pub data: Option<Bytes>,
    /// True if the block had an id, which is now [`SseDecoder::last_event_id`].
    pub has_id: bool,
    /// Delay before reconnecting, if the block set one.
    pub retry: Option<Duration>,
}

impl SseEvent {
    /// Returns the type of the event, `message` by default.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("message")
    }
}

/// Decodes events from a byte stream that arrives in arbitrary pieces.
///
/// ```
/// use hospes_proto::frame::SseDecoder;
///
/// let mut decoder = SseDecoder::default();
/// let mut chunk = "id: 3-1\ndata: {}\n\n".into();
/// let event = decoder.poll_event(&mut chunk).expect("an event").expect("a short one");
/// assert_eq!(event.data.as_deref(), Some(&b"{}"[..]));
/// assert_eq!(decoder.last_event_id(), "3-1");
/// ```
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    begun: bool,
    /// True if the last line ended in `\r`; a following `\n` belongs to the same line end.
    after_cr: bool,
    /// A line whose end has not been received.
    line: BytesMut,
    skip: Option<SkippedLine>,
    name: Option<Box<str>>,
    data: SseEventData,
    has_id: bool,
    retry: Option<Duration>,
    over: Option<OversizePeeker>,
    last_id: String,
}

/// Reason the rest of a line is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SkippedLine {
    /// The line is data of an event over the limit.
    Data,
    /// The line is a comment or an unknown field.
    Other,
}

#[derive(Debug, Default)]
enum SseEventData {
    #[default]
    None,
    /// One line, shared with its chunk.
    One(Bytes),
    /// Several lines, joined.
    Many(BytesMut),
}

impl SseEventData {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::One(line) => line.len(),
            Self::Many(lines) => lines.len(),
        }
    }

    fn len_with(&self, line: &[u8]) -> usize {
        match self {
            Self::None => line.len(),
            _ => self.len() + 1 + line.len(),
        }
    }

    fn push(&mut self, line: Bytes) {
        match self {
            Self::None => *self = Self::One(line),
            Self::One(first) => {
                let mut lines = BytesMut::with_capacity(first.len() + 1 + line.len());
                lines.extend_from_slice(first);
                lines.extend_from_slice(b"\n");
                lines.extend_from_slice(&line);
                *self = Self::Many(lines);
            }
            Self::Many(lines) => {
                lines.extend_from_slice(b"\n");
                lines.extend_from_slice(&line);
            }
        }
    }

    fn take(&mut self) -> Option<Bytes> {
        match std::mem::take(self) {
            Self::None => None,
            Self::One(line) => Some(line),
            Self::Many(lines) => Some(lines.freeze()),
        }
    }
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::new(super::line::DEFAULT_MAX_MESSAGE_BYTES)
    }
}

/// Maximum number of bytes of a line besides the data: field name, blank and byte-order mark.
const LINE_OVERHEAD: usize = 16;

impl SseDecoder {
    /// Creates a decoder for events with at most `max_message_bytes` of data.
    #[must_use]
    pub fn new(max_message_bytes: usize) -> Self {
        Self {
            limit: max_message_bytes,
            begun: false,
            after_cr: false,
            line: BytesMut::new(),
            skip: None,
            name: None,
            data: SseEventData::None,
            has_id: false,
            retry: None,
            over: None,
            last_id: String::new(),
        }
    }

    /// Returns the id to resume after. It is empty if the stream has sent none.
    #[must_use]
    pub fn last_event_id(&self) -> &str {
        &self.last_id
    }

    /// Consumes bytes from the front of `chunk` up to the end of the next event. `None` means that the chunk is
    /// consumed; a partial event is remembered. As the format requires, an event cut off by the end of the stream is
    /// dropped.
    ///
    /// # Errors
    /// [`OversizeMessage`] in place of an event over the limit; the stream continues after it.
    pub fn poll_event(&mut self, chunk: &mut Bytes) -> Option<Result<SseEvent, OversizeMessage>> {
        while !chunk.is_empty() {
            if std::mem::take(&mut self.after_cr) && chunk[0] == b'\n' {
                chunk.advance(1);
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', chunk) else {
                self.buffer_partial_line(&std::mem::take(chunk));
                return None;
            };
            self.after_cr = chunk[end] == b'\r';
            let part = chunk.split_to(end);
            chunk.advance(1);
            if let Some(event) = self.end_line(part) {
                return Some(event);
            }
        }
        None
    }

    /// Keeps the beginning of a line, unless it is already too long.
    fn buffer_partial_line(&mut self, part: &[u8]) {
        if let Some(skip) = self.skip {
            return self.drop_part(skip, part);
        }
        self.line.extend_from_slice(part);
        if self.exceeds_limit(self.line.len()) {
            let line = std::mem::take(&mut self.line);
            self.skip = Some(self.skip_line(&line));
        }
    }

    fn exceeds_limit(&self, line: usize) -> bool {
        line + self.data.len() > self.limit.saturating_add(LINE_OVERHEAD)
    }

    /// Discards a line that is too long in any case.
    fn skip_line(&mut self, line: &[u8]) -> SkippedLine {
        let line = if std::mem::replace(&mut self.begun, true) { line } else { without_bom(line) };
        let Some(value) = line.strip_prefix(b"data:") else { return SkippedLine::Other };
        self.overflow();
        self.drop_part(SkippedLine::Data, value.strip_prefix(b" ").unwrap_or(value));
        SkippedLine::Data
    }

    fn drop_part(&mut self, skip: SkippedLine, part: &[u8]) {
        if skip == SkippedLine::Data {
            self.over.get_or_insert_default().push(part);
        }
    }

    /// Discards the data of the current event.
    fn overflow(&mut self) {
        let peeker = self.over.get_or_insert_default();
        if let Some(data) = self.data.take() {
            peeker.push(&data);
            peeker.push(b"\n");
        }
    }

    fn end_line(&mut self, part: Bytes) -> Option<Result<SseEvent, OversizeMessage>> {
        if let Some(skip) = self.skip.take() {
            self.drop_part(skip, &part);
            return None;
        }
        let mut line = if self.line.is_empty() {
            part
        } else {
            self.line.extend_from_slice(&part);
            self.line.split().freeze()
        };
        if self.exceeds_limit(line.len()) {
            self.skip_line(&line);
            return None;
        }
        // A byte-order mark is valid only at the start of the stream (HTML Standard, section 9.2.6).
        if !std::mem::replace(&mut self.begun, true) {
            line.advance(line.len() - without_bom(&line).len());
        }
        if line.is_empty() {
            return self.end_block();
        }
        self.field(&line);
        None
    }

    fn field(&mut self, line: &Bytes) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let mut value = line.slice(line.len().min(colon + 1)..);
        // One blank belongs to the syntax (HTML Standard, section 9.2.6).
        if value.first() == Some(&b' ') {
            value.advance(1);
        }
        match &line[..colon] {
            b"data" if self.over.is_some() || self.data.len_with(&value) > self.limit => {
                self.overflow();
                self.drop_part(SkippedLine::Data, &value);
            }
            b"data" => self.data.push(value),
            b"event" => {
                self.name = (value != "message").then(|| String::from_utf8_lossy(&value).into());
            }
            // An id with a NUL is ignored too (HTML Standard, section 9.2.6), and the last one stays.
            b"id" if value.len() <= MAX_EVENT_ID_BYTES && !value.contains(&0) => {
                self.last_id.clear();
                self.last_id.push_str(&String::from_utf8_lossy(&value));
                self.has_id = true;
            }
            // Anything but digits is ignored (HTML Standard, section 9.2.6).
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let millis = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
                self.retry = millis.map(Duration::from_millis);
            }
            // A comment (an empty name), or an unknown field.
            _ => {}
        }
    }

    fn end_block(&mut self) -> Option<Result<SseEvent, OversizeMessage>> {
        let event = SseEvent {
            name: self.name.take(),
            data: self.data.take(),
            has_id: std::mem::take(&mut self.has_id),
            retry: self.retry.take(),
        };
        if let Some(peeker) = self.over.take() {
            return Some(Err(peeker.finish(self.limit)));
        }
        // Blocks with only an id matter: they move the point to resume from.
        (event.data.is_some() || event.has_id || event.retry.is_some()).then_some(Ok(event))
    }
}

fn without_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use hospes_model::RequestId;
    use proptest::prelude::*;

    use super::super::peek::OversizeSubject;
    use super::*;

    type Read = (String, Option<Bytes>, Option<String>, Option<u64>);

    fn read(decoder: &mut SseDecoder, input: &[u8], cuts: &[usize]) -> Vec<Result<Read, OversizeMessage>> {
        let (mut events, mut rest) = (Vec::new(), input);
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, left) = rest.split_at((*cut).min(rest.len()));
            rest = left;
            let mut chunk = Bytes::copy_from_slice(chunk);
            while let Some(event) = decoder.poll_event(&mut chunk) {
                events.push(event.map(|event| {
                    let id = event.has_id.then(|| decoder.last_event_id().to_owned());
                    let retry = event.retry.map(|d| d.as_millis() as u64);
                    (event.name().to_owned(), event.data, id, retry)
                }));
            }
        }
        events
    }

    fn plain(text: &'static str) -> Result<Read, OversizeMessage> {
        Ok(("message".into(), Some(text.into()), None, None))
    }

    /// covers: HTTP-41 HRES-01
    #[test]
    fn every_field_is_read_and_comments_are_not() {
        let input = "\u{feff}: hello\n\nid: 7\nretry: 500\ndata:\n\nevent: endpoint\ndata: /m?s=1\n\n\
             event: message\nfoo: bar\ndata: a\ndata:b\ndata\n\nid\ndata: {}\n\nid: 8\n\nretry: 1x\n\ndata: cut";
        for end in ["\n", "\r", "\r\n"] {
            let input = input.replace('\n', end);
            for cut in 1..input.len() {
                let got = read(&mut SseDecoder::default(), input.as_bytes(), &[cut]);
                let want = [
                    Ok(("message".into(), Some("".into()), Some("7".into()), Some(500))),
                    Ok(("endpoint".into(), Some("/m?s=1".into()), None, None)),
                    plain("a\nb\n"),
                    Ok(("message".into(), Some("{}".into()), Some(String::new()), None)),
                    Ok(("message".into(), None, Some("8".into()), None)),
                ];
                assert_eq!(got, want, "{end:?} cut {cut}");
            }
        }
    }

    #[test]
    fn a_field_that_cannot_be_used_changes_nothing() {
        let longest = "7".repeat(MAX_EVENT_ID_BYTES);
        for (input, id, retry) in [
            ("id: a\nid: b\u{0}c\n", "a", None),
            (&format!("id: a\nid: {longest}\n"), &*longest, None),
            (&format!("id: a\nid: {longest}7\n"), "a", None),
            ("id: a\nretry: 500\nretry: 1x\nretry:\nretry: -1\n", "a", Some(500)),
        ] {
            let mut decoder = SseDecoder::default();
            let got = read(&mut decoder, format!("{input}data: x\n\n").as_bytes(), &[usize::MAX]);
            assert_eq!(got, [Ok(("message".into(), Some("x".into()), Some(id.into()), retry))]);
        }
        // A delay alone makes an event; a name does not.
        let got = read(&mut SseDecoder::default(), b"retry: 9\n\nevent: x\n\n", &[usize::MAX]);
        assert_eq!(got, [Ok(("message".into(), None, None, Some(9)))]);
    }

    #[test]
    fn a_comment_is_a_line_of_its_own() {
        let mut out = b"data: 1\n\n".to_vec();
        write_comment(&mut out, "still here");
        assert_eq!(out, b"data: 1\n\n: still here\n\n");
    }

    #[test]
    fn data_shares_the_memory_of_its_chunk() {
        let mut chunk = Bytes::from_static(b"data: {\"a\":1}\n\n");
        let start = chunk.as_ptr() as usize;
        let event = SseDecoder::default().poll_event(&mut chunk).unwrap().unwrap();
        assert_eq!(event.data.unwrap().as_ptr() as usize, start + "data: ".len());
    }

    #[test]
    fn an_event_over_the_limit_fails_alone() {
        let big = "x".repeat(5000);
        let long = format!("id: 4\ndata: {{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":\ndata: \"{big}\"}}\n\n");
        let input = format!("data: 1\n\n:{big}\ndata: 2\n\n{long}data: 3\n\n");
        for cut in [1, 10, 999, 1001, 100_000] {
            let mut decoder = SseDecoder::new(1000);
            let got = read(&mut decoder, input.as_bytes(), &[cut]);
            assert_eq!(got.len(), 4, "cut {cut}");
            assert_eq!((&got[0], &got[1], &got[3]), (&plain("1"), &plain("2"), &plain("3")));
            let Err(over) = &got[2] else { panic!("not over at cut {cut}") };
            assert_eq!(over.subject, OversizeSubject::Response(RequestId::Number(3)));
            assert_eq!(decoder.last_event_id(), "4");
        }
    }

    #[test]
    fn the_limit_counts_the_data() {
        for cut in [1, 3, 100] {
            let got =
                read(&mut SseDecoder::new(4), b"data: 1234\n\ndata: 12345\n\ndata: 12\ndata: 34\n\n", &[cut]);
            assert_eq!(got[0], plain("1234"));
            assert!(got[1].is_err() && got[2].is_err(), "cut {cut}");
            let got = read(&mut SseDecoder::new(5), b"data: 12\ndata: 34\n\n", &[cut]);
            assert_eq!(got, [plain("12\n34")]);
        }
    }

    /// There is a little room around data that is as long as it may be; what else stands on a line may have it, too.
    #[test]
    fn other_fields_are_kept_while_they_are_no_longer_than_data() {
        for (id, kept) in [("0123456789abc", true), ("0123456789abcd", false)] {
            for cut in [1, 3, 100] {
                let input = format!("id: {id}\ndata: x\n\n");
                let got = read(&mut SseDecoder::new(1), input.as_bytes(), &[cut]);
                let id = kept.then(|| id.to_owned());
                assert_eq!(got, [Ok(("message".into(), Some("x".into()), id, None))], "cut {cut}");
            }
        }
    }

    #[test]
    fn a_byte_order_mark_stands_only_at_the_very_beginning() {
        let input = "\u{feff}data: a\n\n\u{feff}data: b\n\ndata: c\n\n";
        for cut in 1..input.len() {
            let got = read(&mut SseDecoder::default(), input.as_bytes(), &[cut]);
            assert_eq!(got, [plain("a"), plain("c")], "cut {cut}");
        }
    }

    #[test]
    fn an_endless_event_takes_no_memory() {
        let mut decoder = SseDecoder::new(10_000);
        let mut first = Bytes::from_static(b"data: ");
        assert_eq!(decoder.poll_event(&mut first), None);
        for _ in 0..1000 {
            let mut chunk = Bytes::from_static(&[b'x'; 5000]);
            assert_eq!(decoder.poll_event(&mut chunk), None);
            assert!(decoder.line.capacity() < 50_000);
        }
        let mut last = Bytes::from_static(b"\n\n");
        assert!(matches!(decoder.poll_event(&mut last), Some(Err(over)) if over.seen == 5_000_000));
    }

    #[test]
    fn a_message_laid_out_over_lines_is_one_line_of_data() {
        let mut out = Vec::new();
        write_event(&mut out, SseEventHead::default(), b"{\r\n \"a\":\n1}");
        assert_eq!(out, b"data: {   \"a\": 1}\n\n");
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_however_it_is_split(
            events in proptest::collection::vec(
                ("[a-z0-9{}:\" é]{0,30}", proptest::option::of("[0-9a-f-]{1,8}"), proptest::option::of(0u64..9999)),
                0..8,
            ),
            cuts in proptest::collection::vec(1usize..20, 1..40),
        ) {
            let (mut out, mut want) = (Vec::new(), Vec::new());
            for (data, id, retry) in &events {
                let at = out.len();
                match id {
                    Some(id) => {
                        let retry = retry.map(Duration::from_millis);
                        write_event(&mut out, SseEventHead { id: Some(format_args!("{id}")), retry, name: None }, data.as_bytes());
                        want.push(Ok(("message".to_owned(), Some(Bytes::from(data.clone())), Some(id.clone()), retry.map(|d| d.as_millis() as u64))));
                    }
                    None => {
                        write_event(&mut out, SseEventHead { name: Some("endpoint"), ..SseEventHead::default() }, data.as_bytes());
                        want.push(Ok(("endpoint".to_owned(), Some(Bytes::from(data.clone())), None, None)));
                    }
                }
                prop_assert!(out.len() > at);
                write_comment(&mut out, "still here");
            }
            prop_assert_eq!(read(&mut SseDecoder::default(), &out, &cuts), want);
        }

        #[test]
        fn events_do_not_depend_on_how_bytes_are_split(
            input in "(data|id|event|retry|:|[\n\r]|\u{feff}| |[a-c0-2]){0,80}",
            cuts in proptest::collection::vec(1usize..9, 1..40),
            limit in 1usize..12,
        ) {
            let whole = read(&mut SseDecoder::new(limit), input.as_bytes(), &[usize::MAX]);
            let split = read(&mut SseDecoder::new(limit), input.as_bytes(), &cuts);
            prop_assert_eq!(whole, split);
        }
    }
}
