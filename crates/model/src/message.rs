//! The JSON-RPC envelope, borrowed; params and results are not decoded.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::RpcError;

/// A request id: a string or an integer, never null. JSON-RPC also allows fractions, but the specification does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the specification allows exactly these two")]
pub enum RequestId {
    /// An integer id.
    Number(i64),
    /// A string id.
    Text(Box<str>),
}

impl From<i64> for RequestId {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RequestIdVisitor;
        impl Visitor<'_> for RequestIdVisitor {
            type Value = RequestId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an integer")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<RequestId, E> {
                Ok(RequestId::Number(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<RequestId, E> {
                i64::try_from(number).map(RequestId::Number).map_err(|_| E::custom("id is out of range"))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RequestId, E> {
                Ok(RequestId::Text(text.into()))
            }
        }
        deserializer.deserialize_any(RequestIdVisitor)
    }
}

/// One JSON-RPC message, borrowing from the bytes it was read from.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has exactly these three")]
pub enum JsonRpcMessage<'a> {
    /// A request, which requires exactly one response.
    Request(JsonRpcRequest<'a>),
    /// A notification, which has no response.
    Notification(JsonRpcNotification<'a>),
    /// A response to a request sent from this side.
    Response(JsonRpcResponse<'a>),
}

/// A request.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the envelope is fixed by JSON-RPC")]
pub struct JsonRpcRequest<'a> {
    /// Id, which the response repeats.
    pub id: RequestId,
    /// Name of the method.
    pub method: Cow<'a, str>,
    /// Undecoded params.
    pub params: Option<&'a RawValue>,
}

/// A notification.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the envelope is fixed by JSON-RPC")]
pub struct JsonRpcNotification<'a> {
    /// Name of the method.
    pub method: Cow<'a, str>,
    /// Undecoded params.
    pub params: Option<&'a RawValue>,
}

/// A response.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the envelope is fixed by JSON-RPC")]
pub struct JsonRpcResponse<'a> {
    /// Id of the request. Absent (or null) only if the peer could not read it.
    pub id: Option<RequestId>,
    /// Undecoded result, or the error.
    pub outcome: Result<&'a RawValue, RpcError>,
}

/// Contents of one line, HTTP body or event.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "JSON-RPC has exactly these two")]
pub enum Frame<'a> {
    /// One message.
    Single(JsonRpcMessage<'a>),
    /// A batch (2025-03-26 only), each message decoded separately. Never empty.
    Batch(Vec<Result<JsonRpcMessage<'a>, DecodeError>>),
}

/// Error for bytes that are not a message, with the request that the error response belongs to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct DecodeError {
    /// Id of the invalid request, if it could be read; the error response goes to that request. `None` for an invalid
    /// response: responses are not answered, and their ids belong to the receiver.
    pub id: Option<RequestId>,
    /// Id of the receiver's own request that this may have been the response to: there is an id, but no method.
    pub answers: Option<RequestId>,
    /// Error to respond with.
    #[source]
    pub error: RpcError,
}

impl DecodeError {
    /// Returns true if the bytes were meant as a response and nothing else. No error response is sent for these.
    #[must_use]
    pub fn is_for_response(&self) -> bool {
        self.id.is_none() && self.answers.is_some()
    }

    fn new(id: Option<RequestId>, error: RpcError) -> Self {
        Self { id, answers: None, error }
    }
}

/// Maximum number of messages in one batch.
pub const MAX_BATCH: usize = 256;

/// Decodes one frame. Params and results are not decoded.
///
/// # Errors
/// [`DecodeError`] with `-32700` for text that is not JSON and `-32600` for JSON that is not a message.
pub fn decode(bytes: &[u8]) -> Result<Frame<'_>, DecodeError> {
    let array = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
    if !array {
        return decode_single(bytes).map(Frame::Single);
    }
    let BatchParts { parts, more } = serde_json::from_slice(bytes).map_err(|e| not_json(&e))?;
    if parts.is_empty() {
        return Err(DecodeError::new(None, RpcError::invalid_request("an empty batch")));
    }
    if more > 0 {
        let why = format!("a batch of {} messages; the limit is {MAX_BATCH} (max_batch)", parts.len() + more);
        return Err(DecodeError::new(None, RpcError::invalid_request(why)));
    }
    Ok(Frame::Batch(parts.into_iter().map(|part| decode_single(part.get().as_bytes())).collect()))
}

/// Messages of a batch. Those over the limit are only counted.
struct BatchParts<'a> {
    parts: Vec<&'a RawValue>,
    more: usize,
}

impl<'de> Deserialize<'de> for BatchParts<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BatchVisitor;

        impl<'de> Visitor<'de> for BatchVisitor {
            type Value = BatchParts<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let (mut parts, mut more) = (Vec::new(), 0);
                while parts.len() < MAX_BATCH {
                    let Some(part) = array.next_element()? else { return Ok(BatchParts { parts, more }) };
                    parts.push(part);
                }
                // Read to the end, so that invalid JSON is not reported as an overlong batch.
                while array.next_element::<IgnoredAny>()?.is_some() {
                    more += 1;
                }
                Ok(BatchParts { parts, more })
            }
        }

        deserializer.deserialize_seq(BatchVisitor)
    }
}

/// Determines the error code for undecodable bytes. The parser also rejects some valid JSON that is not a message, such
/// as a number out of range, which has another code than invalid JSON.
fn classify_parse_failure(bytes: &[u8], error: &serde_json::Error) -> DecodeError {
    match serde_json::from_slice::<IgnoredAny>(bytes) {
        // `IgnoredAny` skips strings without checking their UTF-8, which JSON text requires as well.
        Ok(_) if std::str::from_utf8(bytes).is_ok() => {
            DecodeError::new(None, RpcError::invalid_request(error.to_string()))
        }
        Ok(_) => not_json(error),
        Err(error) => not_json(&error),
    }
}

fn not_json(error: &serde_json::Error) -> DecodeError {
    DecodeError::new(None, RpcError::parse(format!("not valid JSON: {error}")))
}

fn decode_single(bytes: &[u8]) -> Result<JsonRpcMessage<'_>, DecodeError> {
    serde_json::from_slice(bytes)
        .map_err(|error| classify_parse_failure(bytes, &error))
        .and_then(EnvelopeParts::into_message)
}

/// Members of an envelope before validation.
#[derive(Default)]
struct EnvelopeParts<'a> {
    version_ok: bool,
    id: Option<Result<RequestId, ()>>,
    id_null: bool,
    has_method: bool,
    method: Option<Cow<'a, str>>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    fault: Option<&'static str>,
}

impl<'a> EnvelopeParts<'a> {
    fn into_message(self) -> Result<JsonRpcMessage<'a>, DecodeError> {
        let id = match &self.id {
            Some(Ok(id)) => Some(id.clone()),
            _ => None,
        };
        let is_answer = !self.has_method && (self.result.is_some() || self.error.is_some());
        let refuse = |why: &'static str| {
            Err(DecodeError {
                id: id.clone().filter(|_| !is_answer),
                answers: id.clone().filter(|_| !self.has_method),
                error: RpcError::invalid_request(why),
            })
        };
        if let Some(fault) = self.fault {
            return refuse(fault);
        }
        if !self.version_ok {
            return refuse("the member \"jsonrpc\" must be \"2.0\"");
        }
        if matches!(self.id, Some(Err(()))) {
            return refuse("the member \"id\" must be a string or an integer");
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                if self.params.is_some_and(|p| !matches!(p.get().as_bytes().first(), Some(b'{'))) {
                    return refuse("the member \"params\" must be an object");
                }
                // With a null id it would be neither a request nor a notification (MSG-07).
                if self.id_null {
                    return refuse("the member \"id\" must not be null");
                }
                let params = self.params;
                Ok(match id {
                    Some(id) => JsonRpcMessage::Request(JsonRpcRequest { id, method, params }),
                    None => JsonRpcMessage::Notification(JsonRpcNotification { method, params }),
                })
            }
            (None, Some(result), None) => match id {
                Some(id) => {
                    Ok(JsonRpcMessage::Response(JsonRpcResponse { id: Some(id), outcome: Ok(result) }))
                }
                None => refuse("a result without \"id\""),
            },
            (None, None, Some(error)) => match serde_json::from_str::<RpcError>(error.get()) {
                Ok(error) => Ok(JsonRpcMessage::Response(JsonRpcResponse { id, outcome: Err(error) })),
                Err(_) => refuse("the member \"error\" must have a code and a message"),
            },
            (Some(_), _, _) => refuse("\"method\" together with \"result\" or \"error\""),
            (None, Some(_), Some(_)) => refuse("\"result\" together with \"error\""),
            (None, None, None) => refuse("neither \"method\" nor \"result\" nor \"error\""),
        }
    }
}

impl<'de> Deserialize<'de> for EnvelopeParts<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopePartsVisitor)
    }
}

struct EnvelopePartsVisitor;

impl<'de> Visitor<'de> for EnvelopePartsVisitor {
    type Value = EnvelopeParts<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message, which is an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EnvelopeParts<'de>, A::Error> {
        const TWICE: &str = "a member of the envelope appears twice";
        let mut parts = EnvelopeParts::default();
        let (mut seen_version, mut seen_params) = (false, false);
        while let Some(key) = map.next_key::<EnvelopeKey>()? {
            let twice = match key {
                EnvelopeKey::Version => {
                    parts.version_ok = map.next_value::<&RawValue>()?.get() == "\"2.0\"";
                    std::mem::replace(&mut seen_version, true)
                }
                EnvelopeKey::Id => {
                    let raw = map.next_value::<&RawValue>()?.get();
                    parts.id_null = raw == "null";
                    let id = (!parts.id_null).then(|| serde_json::from_str(raw).map_err(|_| ()));
                    std::mem::replace(&mut parts.id, id).is_some()
                }
                EnvelopeKey::Method => {
                    match map.next_value::<OptionalStr<'de>>()?.0 {
                        Some(method) => parts.method = Some(method),
                        None => parts.fault = Some("the member \"method\" must be a string"),
                    }
                    std::mem::replace(&mut parts.has_method, true)
                }
                EnvelopeKey::Params => {
                    parts.params = Some(map.next_value()?);
                    std::mem::replace(&mut seen_params, true)
                }
                EnvelopeKey::Result => parts.result.replace(map.next_value()?).is_some(),
                EnvelopeKey::Error => parts.error.replace(map.next_value()?).is_some(),
                EnvelopeKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                    false
                }
            };
            if twice {
                parts.fault = Some(TWICE);
            }
        }
        Ok(parts)
    }
}

enum EnvelopeKey {
    Version,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl<'de> Deserialize<'de> for EnvelopeKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EnvelopeKeyVisitor;
        impl Visitor<'_> for EnvelopeKeyVisitor {
            type Value = EnvelopeKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }

            fn visit_str<E: de::Error>(self, key: &str) -> Result<EnvelopeKey, E> {
                Ok(match key {
                    "jsonrpc" => EnvelopeKey::Version,
                    "id" => EnvelopeKey::Id,
                    "method" => EnvelopeKey::Method,
                    "params" => EnvelopeKey::Params,
                    "result" => EnvelopeKey::Result,
                    "error" => EnvelopeKey::Error,
                    _ => EnvelopeKey::Other,
                })
            }
        }
        deserializer.deserialize_str(EnvelopeKeyVisitor)
    }
}

/// A string that is borrowed unless it contains escapes. `None` for any other JSON value.
struct OptionalStr<'a>(Option<Cow<'a, str>>);

impl<'de> Deserialize<'de> for OptionalStr<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        if !raw.starts_with('"') {
            return Ok(Self(None));
        }
        let inner = &raw[1..raw.len() - 1];
        if !inner.contains('\\') {
            return Ok(Self(Some(Cow::Borrowed(inner))));
        }
        serde_json::from_str::<String>(raw).map(|s| Self(Some(Cow::Owned(s)))).map_err(de::Error::custom)
    }
}

/// Appends `{"jsonrpc":"2.0","id":…,"method":…` and, where given, `,"params":…`, and closes the object.
///
/// # Errors
/// If `params` cannot be serialized.
pub fn write_request<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    id: &RequestId,
    method: &str,
    params: Option<&P>,
) -> Result<(), serde_json::Error> {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    write_id(out, Some(id));
    write_method(out, method, params)
}

/// Appends a notification.
///
/// # Errors
/// If `params` cannot be serialized.
pub fn write_notification<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    method: &str,
    params: Option<&P>,
) -> Result<(), serde_json::Error> {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    write_method(out, method, params)
}

fn write_method<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    method: &str,
    params: Option<&P>,
) -> Result<(), serde_json::Error> {
    out.extend_from_slice(b",\"method\":");
    serde_json::to_writer(&mut *out, method)?;
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        serde_json::to_writer(&mut *out, params)?;
    }
    out.push(b'}');
    Ok(())
}

/// Appends a response with the result that `write` appends. If `write` fails, `out` is unchanged.
///
/// # Errors
/// The error of `write`.
pub fn write_result<E>(
    out: &mut Vec<u8>,
    id: &RequestId,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    write_id(out, Some(id));
    out.extend_from_slice(b",\"result\":");
    match write(out) {
        Ok(()) => {
            out.push(b'}');
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

/// Appends an error response. Without an id it has the id `null`, as JSON-RPC requires.
pub fn write_error(out: &mut Vec<u8>, id: Option<&RequestId>, error: &RpcError) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    write_id(out, id);
    out.extend_from_slice(b",\"error\":");
    let start = out.len();
    if serde_json::to_writer(&mut *out, error).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"{\"code\":-32603,\"message\":\"the error could not be written\"}");
    }
    out.push(b'}');
}

fn write_id(out: &mut Vec<u8>, id: Option<&RequestId>) {
    match id {
        Some(RequestId::Number(number)) => {
            use std::io::Write as _;
            // Writing to memory cannot fail.
            let _ = write!(out, "{number}");
        }
        Some(RequestId::Text(text)) => {
            // Writing a string to memory cannot fail.
            let _ = serde_json::to_writer(out, text);
        }
        None => out.extend_from_slice(b"null"),
    }
}
