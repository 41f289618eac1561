//! Inspection of oversize messages, which are not kept.

use hospes_model::{RequestId, RpcError};

/// Number of bytes inspected at the beginning of a message.
const HEAD: usize = 1024;
/// Number of bytes inspected at the end of a message, because some senders write `id` last.
const TAIL: usize = 512;

/// A message over the limit, which was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OversizeMessage {
    /// Subject of the message, determined from its first and last few hundred bytes.
    pub subject: OversizeSubject,
    /// Length of the message in bytes.
    pub seen: u64,
    /// Limit that the message exceeded: the setting `max_message_bytes`.
    pub limit: usize,
}

/// Subject of an oversize message. It ensures that only the exchange it belongs to fails.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "every way a message can fail its receiver")]
pub enum OversizeSubject {
    /// A request with this id, which needs a response.
    Request(RequestId),
    /// The response to our request with this id, which therefore fails.
    Response(RequestId),
    /// A notification, or a message that could not be identified.
    Unknown,
}

impl OversizeMessage {
    /// Returns the id if the message was a request.
    #[must_use]
    pub fn request(&self) -> Option<&RequestId> {
        match &self.subject {
            OversizeSubject::Request(id) => Some(id),
            _ => None,
        }
    }

    /// Returns the id of our request if the message was its response.
    #[must_use]
    pub fn response(&self) -> Option<&RequestId> {
        match &self.subject {
            OversizeSubject::Response(id) => Some(id),
            _ => None,
        }
    }

    /// Returns the error to respond with, or to return to the caller that waits for the lost response. It names the
    /// setting.
    #[must_use]
    pub fn to_error(&self) -> RpcError {
        let Self { seen, limit, .. } = self;
        RpcError::invalid_request(format!(
            "message of {seen} bytes is over the limit of {limit} (setting max_message_bytes)"
        ))
    }
}

/// Keeps the two ends of a message while its middle is skipped.
#[derive(Debug, Default)]
pub(crate) struct OversizePeeker {
    head: Vec<u8>,
    tail: Vec<u8>,
    seen: u64,
}

impl OversizePeeker {
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        let room = HEAD - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() >= TAIL {
            self.tail.clear();
            self.tail.extend_from_slice(&bytes[bytes.len() - TAIL..]);
        } else {
            let surplus = (self.tail.len() + bytes.len()).saturating_sub(TAIL);
            self.tail.drain(..surplus);
            self.tail.extend_from_slice(bytes);
        }
    }

    pub(crate) fn finish(self, limit: usize) -> OversizeMessage {
        OversizeMessage { subject: self.subject(), seen: self.seen, limit }
    }

    fn subject(&self) -> OversizeSubject {
        let mut found = EnvelopeMembers::default();
        found.read_head(&self.head);
        // The head is more reliable; the tail is only used for messages whose id comes last.
        if found.id.is_none() {
            found.read_tail(&self.tail);
        }
        match (found.id, found.asks, found.answers) {
            (Some(id), _, true) => OversizeSubject::Response(id),
            (Some(id), true, false) => OversizeSubject::Request(id),
            _ => OversizeSubject::Unknown,
        }
    }
}

/// Members that certainly belong to the envelope and not to a nested object.
#[derive(Default)]
struct EnvelopeMembers {
    id: Option<RequestId>,
    asks: bool,
    answers: bool,
}

impl EnvelopeMembers {
    fn record_member(&mut self, key: &[u8], value: Option<&[u8]>) {
        match key {
            b"id" => self.id = value.and_then(|text| serde_json::from_slice(text).ok()),
            b"method" | b"params" => self.asks = true,
            b"result" | b"error" => self.answers = true,
            _ => {}
        }
    }

    /// Reads members from the beginning until the text is cut off.
    fn read_head(&mut self, text: &[u8]) {
        let mut at = skip_blanks(text, 0);
        if text.get(at) != Some(&b'{') {
            return;
        }
        at += 1;
        loop {
            at = skip_blanks(text, at);
            let Some(end) = value_end(text, at).filter(|_| text.get(at) == Some(&b'"')) else { return };
            let key = &text[at + 1..end - 1];
            at = skip_blanks(text, end);
            if text.get(at) != Some(&b':') {
                return;
            }
            at = skip_blanks(text, at + 1);
            // The value that is cut off is the long one, but its key still identifies the message.
            let Some(end) = value_end(text, at) else { return self.record_member(key, None) };
            self.record_member(key, Some(&text[at..end]));
            at = skip_blanks(text, end);
            if text.get(at) != Some(&b',') {
                return;
            }
            at += 1;
        }
    }

    /// Reads members backwards from the closing brace while their values are scalars, which certainly belong to the
    /// envelope.
    fn read_tail(&mut self, text: &[u8]) {
        let Some(rest) = text.trim_ascii_end().strip_suffix(b"}") else { return };
        let mut rest = rest.trim_ascii_end();
        loop {
            let Some(start) = plain_start(rest) else { return };
            let (before, value) = rest.split_at(start);
            let Some(before) = before.trim_ascii_end().strip_suffix(b":") else { return };
            let before = before.trim_ascii_end();
            if before.last() != Some(&b'"') {
                return;
            }
            let Some(start) = plain_start(before) else { return };
            self.record_member(&before[start + 1..before.len() - 1], Some(value));
            let Some(next) = before[..start].trim_ascii_end().strip_suffix(b",") else { return };
            rest = next.trim_ascii_end();
        }
    }
}

fn skip_blanks(text: &[u8], from: usize) -> usize {
    from + text[from..].iter().take_while(|b| b.is_ascii_whitespace()).count()
}

/// Returns the position after the JSON value that begins at `from`. `None` if the text ends first.
fn value_end(text: &[u8], from: usize) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (offset, &byte) in text[from..].iter().enumerate() {
        let at = from + offset;
        if quoted {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    quoted = false;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            // A number or literal ends at the next delimiter.
            b',' | b'}' | b']' if depth == 0 => return (offset > 0).then_some(at),
            b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// Returns the start of the string, number or literal that ends `text`. `None` for a closing bracket or a text cut too
/// short.
fn plain_start(text: &[u8]) -> Option<usize> {
    match text.last()? {
        b'"' => {
            // An opening quote never follows a backslash; an escaped quote follows an odd number of them.
            let mut end = text.len() - 1;
            loop {
                let quote = memchr::memrchr(b'"', &text[..end])?;
                let slashes = text[..quote].iter().rev().take_while(|b| **b == b'\\').count();
                if slashes % 2 == 0 {
                    // At the start of the remaining text, backslashes may have been cut off.
                    return (quote > slashes).then_some(quote);
                }
                end = quote;
            }
        }
        b'}' | b']' => None,
        _ => text.iter().rposition(|b| matches!(b, b':' | b' ' | b'\t')).map(|at| at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(text: &str) -> OversizeSubject {
        let mut peeker = OversizePeeker::default();
        peeker.push(text.as_bytes());
        peeker.subject()
    }

    fn big() -> String {
        format!("{{\"a\":\"{}\",\"id\":\"inner\"}}", "x\\\"}]".repeat(2000))
    }

    #[test]
    fn the_id_is_found_wherever_senders_write_it() {
        let big = big();
        let first = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{big}}}");
        assert_eq!(subject(&first), OversizeSubject::Request(RequestId::Number(7)));
        let late =
            format!("{{\"method\":\"tools/call\",\"params\":{big},\"jsonrpc\":\"2.0\",\"id\":\"q\\\"7\"}}\r");
        assert_eq!(subject(&late), OversizeSubject::Request(RequestId::from("q\"7")));
        let spaced = format!("{{ \"method\" : \"m\" , \"params\" : {big} , \"id\" : -3 }}");
        assert_eq!(subject(&spaced), OversizeSubject::Request(RequestId::Number(-3)));
        let early = format!("{{ \"id\" : 7 , \"method\":\"m\" ,\"params\":{big}}}");
        assert_eq!(subject(&early), OversizeSubject::Request(RequestId::Number(7)));
        let blank = format!("{{\"method\":\"m\",\"id\":7}}{}", " ".repeat(5000));
        assert_eq!(subject(&blank), OversizeSubject::Request(RequestId::Number(7)));
        let unnamed = format!("{{\"id\":1,\"params\":{big},\"method\":\"m\"}}");
        assert_eq!(subject(&unnamed), OversizeSubject::Request(RequestId::Number(1)));
    }

    #[test]
    fn an_answer_is_told_from_a_request() {
        let big = big();
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{big}}}");
        assert_eq!(subject(&answer), OversizeSubject::Response(RequestId::Number(7)));
        let late = format!("{{\"result\":{big},\"jsonrpc\":\"2.0\",\"id\":7}}");
        assert_eq!(subject(&late), OversizeSubject::Response(RequestId::Number(7)));
    }

    #[test]
    fn a_nested_id_is_never_taken_for_the_envelopes() {
        let big = big();
        for text in [
            format!("{{\"method\":\"notifications/x\",\"params\":{big}}}"),
            format!("[{{\"id\":1,\"method\":\"m\",\"params\":{big}}}]"),
            format!("{{\"method\":\"m\",\"params\":{{\"a\":{big},\"id\":5}}}}"),
            format!("{{\"id\":null,\"method\":\"m\",\"params\":{big}}}"),
            format!("{{\"a\":,\"id\":7,\"method\":\"m\",\"params\":{big}}}"),
            "x".repeat(5000),
            String::new(),
        ] {
            assert_eq!(subject(&text), OversizeSubject::Unknown, "{}", &text[..text.len().min(60)]);
        }
    }

    #[test]
    fn a_value_ends_where_its_end_is_certain() {
        for (text, end) in [
            (&br#"{"a":[1,{"b": 2}],"c":3},"id":7"#[..], Some(24)),
            (br#"[{"a":"]}"},[[]]],"#, Some(17)),
            (br#"{} x"#, Some(2)),
            (br#""a\\"b":1"#, Some(5)),
            (br#""a\"b":1"#, Some(6)),
            (br#""" "#, Some(2)),
            (b"12,3", Some(2)),
            (b"12}", Some(2)),
            (b"12 ,3", Some(2)),
            (b"true\t}", Some(4)),
            (b"null\r\n}", Some(4)),
            (b"1]", Some(1)),
            // The value is missing or incomplete.
            (b",1", None),
            (b"}", None),
            (b"12", None),
            (br#""a"#, None),
            (br#""a\""#, None),
            (br#""a\\\""#, None),
            (br#"{"a":{}"#, None),
            (b"[1,2", None),
            (b"", None),
        ] {
            assert_eq!(value_end(text, 0), end, "{}", String::from_utf8_lossy(text));
            let later = [b"{\"\":", text].concat();
            assert_eq!(value_end(&later, 4), end.map(|end| end + 4), "{}", String::from_utf8_lossy(text));
        }
    }

    /// Small objects before what matters are passed over whole.
    #[test]
    fn the_id_is_found_behind_small_values() {
        let big = big();
        let text = format!(
            "{{\"x\":[{{\"id\":1}},\"]\"],\"y\": {{ \"method\" : {{}} }} ,\"id\":7,\"result\":{big}}}"
        );
        assert_eq!(subject(&text), OversizeSubject::Response(RequestId::Number(7)));
    }

    #[test]
    fn a_plain_value_begins_where_its_beginning_is_certain() {
        for (text, start) in [
            (&br#"{"a":"b""#[..], Some(5)),
            (br#":"b\"c""#, Some(1)),
            (br#":"b\\""#, Some(1)),
            // The text before may have been cut off: another backslash, or the opening quote.
            (br#""b""#, None),
            (br#"\\"b""#, None),
            (br#"x\\"b""#, Some(3)),
            (br#"x\"b""#, None),
            (br#"b""#, None),
            (br#"{"a":12"#, Some(5)),
            (br#"{"a": true"#, Some(6)),
            (b"{\"a\":\t1", Some(6)),
            (b"12", None),
            (b"{}", None),
            (b"[]", None),
            (b"", None),
        ] {
            assert_eq!(plain_start(text), start, "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn it_is_of_use_to_whom_it_concerns_and_to_nobody_else() {
        let of = |subject| OversizeMessage { subject, seen: 9, limit: 8 };
        let id = RequestId::Number(7);
        let request = of(OversizeSubject::Request(id.clone()));
        assert_eq!((request.request(), request.response()), (Some(&id), None));
        let response = of(OversizeSubject::Response(id.clone()));
        assert_eq!((response.request(), response.response()), (None, Some(&id)));
        let unknown = of(OversizeSubject::Unknown);
        assert_eq!((unknown.request(), unknown.response()), (None, None));
        assert!(unknown.to_error().message.contains("9 bytes is over the limit of 8"));
    }

    #[test]
    fn no_more_than_the_ends_is_kept() {
        for step in [1, 300, TAIL, TAIL + 1, HEAD, 1500] {
            let mut peeker = OversizePeeker::default();
            (0..5000 / step).for_each(|_| peeker.push(&vec![b' '; step]));
            assert_eq!((peeker.head.len(), peeker.tail.len()), (HEAD, TAIL), "step {step}");
        }
    }

    #[test]
    fn the_ends_are_the_same_however_bytes_arrive() {
        let text = format!("{{\"method\":\"m\",\"params\":{},\"id\":12}}", big());
        for step in [1, 7, 511, 512, 513, 4096] {
            let mut peeker = OversizePeeker::default();
            text.as_bytes().chunks(step).for_each(|chunk| peeker.push(chunk));
            assert_eq!(peeker.subject(), OversizeSubject::Request(RequestId::Number(12)), "step {step}");
            assert_eq!(peeker.finish(10).seen, text.len() as u64);
        }
    }
}
