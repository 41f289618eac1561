//! Headers of Streamable HTTP: their names, the encoding of their values, and their agreement with the body.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hospes_model::{Method, Revision, RpcError, code};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};

use super::admission::AdmittedHead;
use super::routing_fields::RoutingFields;

/// `MCP-Protocol-Version`.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// `Mcp-Session-Id`, up to 2025-11-25.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// `Mcp-Method`, from 2026-07-28.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// `Mcp-Name`, from 2026-07-28.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// `Last-Event-ID`, up to 2025-11-25.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Prefix of the headers that repeat arguments, from 2026-07-28.
pub const PARAM_PREFIX: &str = "mcp-param-";

const SENTINEL_START: &str = "=?base64?";
const SENTINEL_END: &str = "?=";

/// Error for a header value that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderValueError {
    /// The value has characters other than visible ASCII and inner blanks.
    #[error("it contains characters that are not allowed in a plain header value")]
    Characters,
    /// The value is marked as Base64 but not valid Base64.
    #[error("it is not valid Base64-encoded UTF-8")]
    Base64,
}

/// Decodes a value encoded by [`encode_value`] (HHDR-17, HHDR-18). Surrounding blanks are ignored.
///
/// # Errors
/// [`HeaderValueError`].
pub fn decode_value(value: &HeaderValue) -> Result<Cow<'_, str>, HeaderValueError> {
    let bytes = value.as_bytes().trim_ascii();
    if !bytes.iter().all(|b| matches!(b, 0x20..=0x7e)) {
        return Err(HeaderValueError::Characters);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| HeaderValueError::Characters)?;
    match sentinel(text) {
        None => Ok(Cow::Borrowed(text)),
        Some(encoded) => {
            let bytes = STANDARD.decode(encoded).map_err(|_| HeaderValueError::Base64)?;
            String::from_utf8(bytes).map(Cow::Owned).map_err(|_| HeaderValueError::Base64)
        }
    }
}

/// Encodes `text` as a header value: unchanged if it is plain, else as Base64 between markers (HHDR-15, HHDR-16).
#[must_use]
pub fn encode_value(text: &str) -> HeaderValue {
    // The receiver would decode a plain text that looks like this.
    let looks_encoded = text.starts_with(SENTINEL_START) && text.ends_with(SENTINEL_END);
    // HTTP removes surrounding blanks (RFC 9110, section 5.5).
    let outer_blank = text.starts_with(' ') || text.ends_with(' ');
    let plain = text.bytes().all(|b| matches!(b, 0x20..=0x7e));
    let value = if plain && !outer_blank && !looks_encoded {
        HeaderValue::from_str(text)
    } else {
        HeaderValue::from_str(&format!("{SENTINEL_START}{}{SENTINEL_END}", STANDARD.encode(text)))
    };
    value.expect("visible ASCII and inner blanks are allowed in a header")
}

/// Returns the text between the markers, which must match exactly.
fn sentinel(text: &str) -> Option<&str> {
    text.strip_prefix(SENTINEL_START)?.strip_suffix(SENTINEL_END)
}

/// Adds the headers of every POST of a client: the media types, and the version if the revision has that header. In
/// 2026-07-28 also the method, and the name if the method has one.
pub fn add_request_headers(headers: &mut HeaderMap, revision: Revision, method: &Method, name: Option<&str>) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    // `initialize` negotiates the version, so none is known yet (HHDR-01).
    if revision >= Revision::V2025_06_18 && *method != Method::Initialize {
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(revision.as_str()));
    }
    if !revision.is_legacy() {
        headers.insert(METHOD, encode_value(method.name()));
        if let Some(name) = name {
            headers.insert(NAME, encode_value(name));
        }
    }
}

/// Checks that the headers of a modern request agree with its body (HHDR-05, HHDR-06, HHDR-11..14).
pub(super) fn check_agreement(
    head: &AdmittedHead<'_>,
    method: &Method,
    facts: &RoutingFields<'_>,
    version: &str,
) -> Result<(), RpcError> {
    match head.version {
        None => return Err(mismatch("the header MCP-Protocol-Version is missing")),
        Some(value) if value.as_bytes() != version.as_bytes() => {
            return Err(mismatch("the header MCP-Protocol-Version differs from the version in _meta"));
        }
        Some(_) => {}
    }
    match head.method {
        None => return Err(mismatch("the header Mcp-Method is missing")),
        Some(value) if value.as_bytes().trim_ascii() != method.name().as_bytes() => {
            return Err(mismatch("the header Mcp-Method differs from the method in the body"));
        }
        Some(_) => {}
    }
    if method.info().and_then(|info| info.name_param).is_none() {
        return Ok(());
    }
    match (head.name, &facts.name) {
        // The method reports the missing member when it checks its params.
        (None, None) => Ok(()),
        (None, Some(_)) => Err(mismatch("the header Mcp-Name is missing")),
        (Some(_), None) => Err(mismatch("the header Mcp-Name has no matching name in the body")),
        (Some(value), Some(name)) => match decode_value(value) {
            Ok(value) if value == *name => Ok(()),
            Ok(_) => Err(mismatch("the header Mcp-Name differs from the name in the body")),
            Err(error) => Err(mismatch(format!("the header Mcp-Name cannot be decoded: {error}"))),
        },
    }
}

/// Creates the error `-32020`.
pub(super) fn mismatch(why: impl Into<Cow<'static, str>>) -> RpcError {
    RpcError::new(code::HEADER_MISMATCH, why)
}

/// Id of a legacy session: visible ASCII (HSES-03), short enough for a header, and unguessable.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SessionId(Box<str>);

/// Maximum length of a session id from a peer, in bytes.
pub const MAX_SESSION_ID_BYTES: usize = 1024;

impl SessionId {
    /// Creates an id from 16 random bytes of the operating system (HSES-02, HSES-13).
    #[must_use]
    pub fn from_random(random: [u8; 16]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(random).into())
    }

    /// Returns the id in a header. `None` if it is not valid.
    #[must_use]
    pub fn read(value: &HeaderValue) -> Option<&str> {
        let text = std::str::from_utf8(value.as_bytes()).ok()?;
        let sound = !text.is_empty() && text.len() <= MAX_SESSION_ID_BYTES;
        (sound && text.bytes().all(|b| matches!(b, 0x21..=0x7e))).then_some(text)
    }

    /// Returns the id as text. It is a secret: do not log it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id as a header value, marked as sensitive.
    #[must_use]
    pub fn to_header(&self) -> HeaderValue {
        let mut value = HeaderValue::from_str(&self.0).expect("session ids are visible ASCII");
        value.set_sensitive(true);
        value
    }
}

impl TryFrom<&HeaderValue> for SessionId {
    type Error = InvalidSessionId;

    fn try_from(value: &HeaderValue) -> Result<Self, Self::Error> {
        Self::read(value).map(|text| Self(text.into())).ok_or(InvalidSessionId)
    }
}

/// Error for a header value that cannot be a session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session id must consist of visible ASCII characters")]
#[non_exhaustive]
pub struct InvalidSessionId;

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Enough to follow a session through a log, too little to take it over.
        let shown = if self.0.len() >= 16 { &self.0[..4] } else { "" };
        write!(f, "SessionId({shown}…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(bytes: &[u8]) -> HeaderValue {
        HeaderValue::from_bytes(bytes).unwrap()
    }

    /// covers: HHDR-15 HHDR-16
    #[test]
    fn values_travel_plain_where_they_are_plain() {
        for (text, want) in [
            ("us-west1", "us-west1"),
            ("two words", "two words"),
            ("", ""),
            (" lead", "=?base64?IGxlYWQ=?="),
            ("trail ", "=?base64?dHJhaWwg?="),
            ("a\tb", "=?base64?YQli?="),
            ("a\r\nb", "=?base64?YQ0KYg==?="),
            ("héllo", "=?base64?aMOpbGxv?="),
            ("=?base64?SGVsbG8=?=", "=?base64?PT9iYXNlNjQ/U0dWc2JHOD0/PQ==?="),
            ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
            ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ] {
            assert_eq!(encode_value(text), want, "{text:?}");
        }
    }

    /// covers: HHDR-17 HHDR-18
    #[test]
    fn values_are_decoded_only_between_exact_markers() {
        for (bytes, want) in [
            (&b"=?base64?SGVsbG8=?="[..], Ok("Hello")),
            (b"  plain\t", Ok("plain")),
            (b"SGVsbG8=", Ok("SGVsbG8=")),
            (b"=?base64?SGVsbG8=", Ok("=?base64?SGVsbG8=")),
            (b"=?Base64?SGVsbG8=?=", Ok("=?Base64?SGVsbG8=?=")),
            (b"=?base64?=", Ok("=?base64?=")),
            (b"=?base64??=", Ok("")),
            (b"=?base64?SGVsbG8?=", Err(HeaderValueError::Base64)),
            (b"=?base64?SGVs!!!bG8=?=", Err(HeaderValueError::Base64)),
            (b"=?base64?/w==?=", Err(HeaderValueError::Base64)),
            (b"h\xc3\xa9", Err(HeaderValueError::Characters)),
            (b"a\tb", Err(HeaderValueError::Characters)),
        ] {
            assert_eq!(decode_value(&value(bytes)).as_deref(), want.as_ref().map(|s| *s), "{bytes:?}");
        }
    }

    proptest! {
        /// covers: HHDR-15 HHDR-16 HHDR-17
        #[test]
        fn any_text_survives_the_header(text in ".*", markers: bool) {
            let text = if markers { format!("=?base64?{text}?=") } else { text };
            let encoded = encode_value(&text);
            prop_assert!(encoded.as_bytes().iter().all(|b| matches!(b, 0x20..=0x7e)));
            prop_assert_eq!(decode_value(&encoded).unwrap(), text);
        }
    }

    /// covers: HHDR-01 HHDR-05 HHDR-11 HHDR-12 HTTP-09
    #[test]
    fn a_client_sends_the_headers_of_its_revision() {
        let names = |revision, method: &str| {
            let mut headers = HeaderMap::new();
            add_request_headers(&mut headers, revision, &Method::from_name(method), Some("a tool"));
            let mut names: Vec<_> = headers.keys().map(|name| name.as_str().to_owned()).collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!(names(Revision::V2025_03_26, "tools/call"), "accept content-type");
        assert_eq!(names(Revision::V2025_11_25, "initialize"), "accept content-type");
        assert_eq!(names(Revision::V2025_11_25, "tools/call"), "accept content-type mcp-protocol-version");
        assert_eq!(
            names(Revision::V2026_07_28, "tools/call"),
            "accept content-type mcp-method mcp-name mcp-protocol-version"
        );
    }

    /// covers: HSES-03
    #[test]
    fn session_ids_are_visible_ascii_and_not_shown() {
        let id = SessionId::from_random([0xff; 16]);
        assert_eq!(SessionId::read(&id.to_header()), Some(id.as_str()));
        assert!(
            !format!("{id:?}").contains(&id.as_str()[..5]) && format!("{:?}", id.to_header()) == "Sensitive"
        );
        // A long id shows enough to follow it through a log, a short one nothing.
        let debug =
            |text: &'static str| format!("{:?}", SessionId::try_from(&value(text.as_bytes())).unwrap());
        assert_eq!(debug("0123456789abcdef"), "SessionId(0123…)");
        assert_eq!(debug("0123456789abcde"), "SessionId(…)");
        for bad in [&b""[..], b"a b", b"a\tb", b"\xc3\xa9", &[b'a'; MAX_SESSION_ID_BYTES + 1]] {
            assert_eq!(SessionId::read(&value(bad)), None);
        }
    }
}
