//! Outgoing requests and notifications, as they are written.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use hospes_model::{LoggingLevel, Method, RawJson, Revision, meta_key};
use hospes_proto::session::client::TimeLimits;

use crate::client::error::CallError;

/// Negotiated revision and the `_meta` members that every request carries because of it.
#[derive(Clone, Debug)]
pub(crate) struct NegotiatedProtocol {
    pub(crate) revision: Revision,
    pub(crate) stamp: Bytes,
}

/// Outgoing request, before it has an id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingRequest<'a> {
    pub(crate) method: &'a Method,
    /// The tool, prompt or resource, where the method has one.
    pub(crate) name: Option<&'a str>,
    /// The arguments, as they stand in `members`.
    pub(crate) arguments: Option<&'a RawJson>,
    /// The members of `params`, without `_meta`.
    pub(crate) members: OutgoingParams<'a>,
    /// More of them, written out: what a further round adds.
    pub(crate) more: &'a [u8],
    pub(crate) meta: OutgoingMeta<'a>,
    pub(crate) limits: TimeLimits,
    /// Events that the caller receives before the answer.
    pub(crate) interest: EventInterest,
    /// Principal that the call is made for, if it is another client's.
    pub(crate) principal: Option<&'a Arc<str>>,
    /// True if the server is asked even when a cached response is still fresh.
    pub(crate) refresh: bool,
}

/// Events that a caller receives besides the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventInterest {
    /// Nothing.
    AnswerOnly,
    /// Its notifications.
    Notifications,
    /// Notifications and the server's questions. The caller forwards for another client, whose answers are needed and
    /// who alone receives the call's log messages.
    NotificationsAndRequests,
}

/// The members of `params`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutgoingParams<'a> {
    /// `name` and `arguments` of the request.
    Named,
    /// Any, written out, without the braces.
    Text(&'a [u8]),
}

/// The members of `_meta` besides the connection's own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutgoingMeta<'a> {
    /// Any, written out, without the braces.
    pub(crate) members: &'a [u8],
    /// True if progress is requested. It is requested wherever work may take long, because progress extends the
    /// timeout.
    pub(crate) progress: bool,
    /// The least severe log message wanted, where requests say so.
    pub(crate) log_level: Option<LoggingLevel>,
}

impl<'a> OutgoingRequest<'a> {
    /// A request without params.
    pub(crate) fn new(method: &'a Method, limits: TimeLimits) -> Self {
        Self {
            method,
            name: None,
            arguments: None,
            members: OutgoingParams::Text(b""),
            more: b"",
            meta: OutgoingMeta { progress: method.allows_input_requests(), ..OutgoingMeta::default() },
            limits,
            interest: EventInterest::AnswerOnly,
            principal: None,
            refresh: false,
        }
    }

    /// Appends the whole message. `stamp` are the members of `_meta` that every request of the connection has.
    pub(crate) fn write(&self, out: &mut Vec<u8>, id: i64, stamp: &[u8]) {
        // Writing into memory cannot fail.
        let _ = write!(out, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":");
        write_json_string(out, self.method.name());
        let mut open = self.write_members(out);
        if !self.more.is_empty() {
            out.extend_from_slice(if open { &b","[..] } else { b",\"params\":{" });
            out.extend_from_slice(self.more);
            open = true;
        }
        if !stamp.is_empty() || !self.meta.is_empty() {
            out.extend_from_slice(if open { &b",\"_meta\":{"[..] } else { b",\"params\":{\"_meta\":{" });
            self.meta.write(out, id, stamp);
            out.push(b'}');
            open = true;
        }
        out.extend_from_slice(if open { &b"}}"[..] } else { b"}" });
    }

    /// Writes the members. Returns true if there were any.
    fn write_members(&self, out: &mut Vec<u8>) -> bool {
        const PARAMS: &[u8] = b",\"params\":{";
        match self.members {
            OutgoingParams::Named => {
                out.extend_from_slice(PARAMS);
                out.extend_from_slice(b"\"name\":");
                write_json_string(out, self.name.unwrap_or_default());
                if let Some(arguments) = self.arguments {
                    out.extend_from_slice(b",\"arguments\":");
                    out.extend_from_slice(arguments.as_bytes());
                }
                true
            }
            OutgoingParams::Text(b"") => false,
            OutgoingParams::Text(text) => {
                out.extend_from_slice(PARAMS);
                out.extend_from_slice(text);
                true
            }
        }
    }
}

impl OutgoingMeta<'_> {
    fn is_empty(&self) -> bool {
        self.members.is_empty() && !self.progress && self.log_level.is_none()
    }

    fn write(&self, out: &mut Vec<u8>, id: i64, stamp: &[u8]) {
        let start = out.len();
        let comma = |out: &mut Vec<u8>| {
            if out.len() > start {
                out.push(b',');
            }
        };
        out.extend_from_slice(stamp);
        if !self.members.is_empty() {
            comma(out);
            out.extend_from_slice(self.members);
        }
        if let Some(level) = self.log_level {
            comma(out);
            let _ = write!(out, "\"{}\":\"{}\"", meta_key::LOG_LEVEL, level.as_str());
        }
        if self.progress {
            comma(out);
            // The id is the token: it is unique among the active requests already (PROG-03).
            let _ = write!(out, "\"{}\":{id}", meta_key::PROGRESS_TOKEN);
        }
    }
}

/// A notification of an extension as it is sent. `members` are those of its params, `meta` and `stamp` those of `_meta`.
pub(crate) fn written_notification(method: &Method, members: &[u8], meta: &[u8], stamp: &[u8]) -> Vec<u8> {
    let mut out = b"{\"jsonrpc\":\"2.0\",\"method\":".to_vec();
    write_json_string(&mut out, method.name());
    let meta = OutgoingMeta { members: meta, ..OutgoingMeta::default() };
    if !members.is_empty() || !stamp.is_empty() || !meta.is_empty() {
        out.extend_from_slice(b",\"params\":{");
        out.extend_from_slice(members);
        if !stamp.is_empty() || !meta.is_empty() {
            out.extend_from_slice(if members.is_empty() { &b"\"_meta\":{"[..] } else { b",\"_meta\":{" });
            meta.write(&mut out, 0, stamp);
            out.push(b'}');
        }
        out.push(b'}');
    }
    out.push(b'}');
    out
}

/// Appends a JSON string.
pub(crate) fn write_json_string(out: &mut Vec<u8>, text: &str) {
    // A string can always be written, and memory does not fail.
    let _ = serde_json::to_writer(out, text);
}

/// The members of a value, written out, without the braces.
pub(crate) fn json_members<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, CallError> {
    let mut text = serde_json::to_vec(value).map_err(|error| CallError::Arguments(Arc::new(error)))?;
    text.pop();
    if !text.is_empty() {
        text.remove(0);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(outgoing: &OutgoingRequest<'_>, stamp: &str) -> String {
        let mut out = Vec::new();
        outgoing.write(&mut out, 7, stamp.as_bytes());
        let text = String::from_utf8(out).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        text
    }

    #[test]
    fn a_request_is_written_with_what_it_has_and_nothing_else() {
        let list = OutgoingRequest::new(&Method::ToolsList, TimeLimits::NONE);
        assert_eq!(written(&list, ""), r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#);
        assert_eq!(
            written(&list, r#""a/b":1"#),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"a/b":1}}}"#
        );
        let page = OutgoingRequest { members: OutgoingParams::Text(br#""cursor":"x""#), ..list };
        assert_eq!(
            written(&page, ""),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"x"}}"#
        );
        let arguments = RawJson::parse(r#"{"a":1}"#).unwrap();
        let call = OutgoingRequest {
            name: Some(r#"say "hi""#),
            arguments: Some(&arguments),
            members: OutgoingParams::Named,
            ..OutgoingRequest::new(&Method::ToolsCall, TimeLimits::NONE)
        };
        assert_eq!(
            written(&call, ""),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"say \"hi\"","arguments":{"a":1},"_meta":{"progressToken":7}}}"#
        );
        let meta =
            OutgoingMeta { members: br#""x":0"#, progress: true, log_level: Some(LoggingLevel::Error) };
        let again = OutgoingRequest { more: br#""requestState":"s""#, meta, ..call };
        assert_eq!(
            written(&again, r#""a/b":1"#),
            concat!(
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"say \"hi\"","arguments":{"a":1},"#,
                r#""requestState":"s","_meta":{"a/b":1,"x":0,"io.modelcontextprotocol/logLevel":"error","progressToken":7}}}"#
            )
        );
    }
}
