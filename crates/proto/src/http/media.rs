//! The two media types of the protocol, in `Accept` and `Content-Type`.

use http::HeaderValue;

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";

/// Media types that the peer accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the protocol has two media types")]
pub struct AcceptedMedia {
    /// Accepts `application/json`.
    pub json: bool,
    /// Accepts `text/event-stream`.
    pub sse: bool,
}

impl AcceptedMedia {
    /// Accepts everything, as an absent `Accept` means (RFC 9110 §12.5.1).
    pub const ALL: Self = Self { json: true, sse: true };

    /// Parses the values of `Accept`. The most specific range decides, and a quality of zero means that the type is not
    /// accepted.
    pub fn read<'a>(values: impl IntoIterator<Item = &'a HeaderValue>) -> Self {
        let (mut json, mut sse) = (BestRange::default(), BestRange::default());
        for value in values {
            match value.as_bytes() {
                // The usual values, so that they cost only two comparisons.
                b"application/json, text/event-stream" | b"text/event-stream, application/json" => {
                    return Self::ALL;
                }
                _ => {}
            }
            let Ok(value) = value.to_str() else { continue };
            for range in split_quoted(value, b',') {
                let mut parts = split_quoted(range, b';');
                let name = parts.next().unwrap_or_default().trim_matches([' ', '\t']);
                let wanted = !parts.any(is_zero_quality);
                json.consider(name, JSON, wanted);
                sse.consider(name, SSE, wanted);
            }
        }
        Self { json: json.wanted, sse: sse.wanted }
    }
}

#[derive(Default)]
struct BestRange {
    specificity: u8,
    wanted: bool,
}

impl BestRange {
    fn consider(&mut self, range: &str, media_type: &str, wanted: bool) {
        let specificity = if range.eq_ignore_ascii_case(media_type) {
            3
        } else if range == "*/*" {
            1
        } else {
            let (kind, _) = media_type.split_once('/').unwrap_or_default();
            match range.split_once('/') {
                Some((range_kind, "*")) if range_kind.eq_ignore_ascii_case(kind) => 2,
                _ => return,
            }
        };
        // Of two equally specific ranges, the accepted one counts.
        if specificity > self.specificity || (specificity == self.specificity && wanted) {
            *self = Self { specificity, wanted };
        }
    }
}

fn is_zero_quality(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return false };
    name.trim().eq_ignore_ascii_case("q") && value.trim().parse::<f32>().is_ok_and(|q| q <= 0.0)
}

/// Splits a text at `separator` outside quoted strings.
fn split_quoted(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |c: char| {
        if escaped {
            escaped = false;
        } else if c == '"' {
            quoted = !quoted;
        } else if quoted && c == '\\' {
            escaped = true;
        }
        !quoted && c == char::from(separator)
    })
}

/// Returns true if a `Content-Type` is JSON in UTF-8, the only valid type of a body.
#[must_use]
pub fn is_json(content_type: &HeaderValue) -> bool {
    // The value that nearly every client sends needs no parser.
    if content_type.as_bytes() == JSON.as_bytes() {
        return true;
    }
    let parsed = content_type.to_str().ok().and_then(|text| text.parse::<mime::Mime>().ok());
    // JSON is always UTF-8 (RFC 8259, section 8.1), so a body in another charset could not be read.
    parsed.is_some_and(|mime| {
        mime.essence_str() == JSON
            && mime.get_param(mime::CHARSET).is_none_or(|charset| charset == mime::UTF_8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(values: &[&'static str]) -> (bool, bool) {
        let values: Vec<_> = values.iter().map(|value| HeaderValue::from_static(value)).collect();
        let accepts = AcceptedMedia::read(&values);
        (accepts.json, accepts.sse)
    }

    #[test]
    fn accept_is_read_by_quality_and_not_by_substring() {
        for (value, want) in [
            ("application/json, text/event-stream", (true, true)),
            ("text/event-stream, application/json", (true, true)),
            ("text/event-stream;q=0.5,application/json ; q=1", (true, true)),
            ("*/*", (true, true)),
            ("application/*, text/*;q=0.1", (true, true)),
            ("APPLICATION/JSON", (true, false)),
            ("text/event-stream", (false, true)),
            ("application/json-seq, text/event-streams", (false, false)),
            ("application/json;q=0, */*", (false, true)),
            ("*/*, text/event-stream; q=0.000", (true, false)),
            // Of two equal ranges the accepted one counts, and only `q` is a quality.
            ("application/json, application/json;q=0", (true, false)),
            ("application/json;q=0, application/json", (true, false)),
            ("*/*;q=0, text/*", (false, true)),
            ("text/event-stream;x=0;q=0.1", (false, true)),
            ("text/event-stream;x=1;q=-0", (false, false)),
            ("text/html;x=\"application/json, text/event-stream\"", (false, false)),
            ("text/html;x=\"a, application/json, b\"", (false, false)),
            ("text/html;x=\"a\\\", application/json\", text/event-stream", (false, true)),
            ("application/json;charset=utf-8, text/event-stream", (true, true)),
            ("", (false, false)),
        ] {
            assert_eq!(accepts(&[value]), want, "{value:?}");
        }
        assert_eq!(accepts(&["application/json", "text/event-stream"]), (true, true));
    }

    #[test]
    fn content_type_is_json_in_utf_8() {
        for (value, want) in [
            ("application/json", true),
            ("application/json; charset=utf-8", true),
            ("Application/JSON;Charset=\"UTF-8\"", true),
            ("application/json; charset=latin1", false),
            ("application/json-patch+json", false),
            ("text/plain", false),
            ("text/plain; x=application/json", false),
            ("", false),
        ] {
            assert_eq!(is_json(&HeaderValue::from_static(value)), want, "{value:?}");
        }
    }
}
