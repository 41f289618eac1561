//! Trace context members of `_meta`: the only unprefixed ones in the specification, with values defined by W3C
//! (META-08).

use hospes_model::meta_key::{BAGGAGE, TRACEPARENT, TRACESTATE};

/// Most list members of a `tracestate`, as W3C Trace Context has it.
const MAX_TRACESTATE_MEMBERS: usize = 32;

/// Returns true if `json` is valid under `key`. Only the keys of a trace restrict their values.
pub(crate) fn is_valid_member(key: &str, json: &[u8]) -> bool {
    let fits: fn(&str) -> bool = match key {
        TRACEPARENT => is_traceparent,
        TRACESTATE => is_tracestate,
        BAGGAGE => is_baggage,
        _ => return true,
    };
    serde_json::from_slice::<String>(json).is_ok_and(|text| fits(&text))
}

/// Checks `version-trace-parent-flags` in lower-case hexadecimal; later versions may append to it.
fn is_traceparent(text: &str) -> bool {
    let hex = |part: &str, digits: usize| {
        part.len() == digits && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let id = |part: &str, digits: usize| hex(part, digits) && part.bytes().any(|b| b != b'0');
    let mut parts = text.split('-');
    let mut next = || parts.next().unwrap_or_default();
    let (version, trace, parent, flags) = (next(), next(), next(), next());
    // W3C Trace Context forbids the version ff, and ids that are all zeros.
    let sound = hex(version, 2) && version != "ff" && id(trace, 32) && id(parent, 16) && hex(flags, 2);
    sound && (version != "00" || parts.next().is_none())
}

/// Checks `key=value,…`.
fn is_tracestate(text: &str) -> bool {
    let key = |key: &str| {
        let bytes = key.as_bytes();
        bytes.len() <= 256
            && bytes.first().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            && bytes.iter().all(|b| {
                b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-' | b'*' | b'/' | b'@')
            })
    };
    let value = |value: &str| {
        let visible = |b: u8| matches!(b, b' '..=b'~') && !matches!(b, b',' | b'=');
        (1..=256).contains(&value.len()) && value.bytes().all(visible)
    };
    // Empty members are allowed in a `tracestate`, and do not count.
    let members: Vec<&str> = text.split(',').map(str::trim).filter(|member| !member.is_empty()).collect();
    members.len() <= MAX_TRACESTATE_MEMBERS
        && members.iter().all(|member| member.split_once('=').is_some_and(|(k, v)| key(k) && value(v)))
}

/// Checks `key=value;property,…`, where keys are tokens and values percent-encoded.
fn is_baggage(text: &str) -> bool {
    let token = |key: &str| {
        !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    };
    let value = |value: &str| {
        value.bytes().all(|b| matches!(b, b'!'..=b'~') && !matches!(b, b'"' | b',' | b';' | b'\\'))
    };
    let pair = |member: &str| {
        member.split_once('=').is_some_and(|(k, v)| token(k.trim_end()) && value(v.trim_start()))
    };
    text.split(',').all(|member| {
        let mut parts = member.split(';').map(str::trim);
        parts.next().is_some_and(pair) && parts.all(|property| token(property) || pair(property))
    })
}
