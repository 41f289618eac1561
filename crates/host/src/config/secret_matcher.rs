//! Search for secret values in texts, as they are and in the encodings in which programs repeat them.

use std::ops::Range;

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Minimum length of a value that is searched for in base64, in bytes. A shorter one has too few letters there.
const MIN_ENCODED_BYTES: usize = 8;
/// Maximum length of a value that is searched for in base64, in bytes. It bounds the size of the automaton.
const MAX_ENCODED_BYTES: usize = 4096;

/// Maximum number of places where a text was shortened that are looked at.
const MAX_CUTS: usize = 8;
/// Minimum and maximum length of the beginning of a value that is recognized there.
const MIN_CUT_BYTES: usize = 6;
const MAX_CUT_BYTES: usize = 128;

/// Form in which a value is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SecretForm {
    /// As it is.
    Plain,
    /// In base64. The letters that depend on what is beside the value are no part of the pattern; the flags say whether
    /// there is one on the left and on the right.
    Base64 { left: bool, right: bool },
}

/// Automaton that finds values in one pass. JSON and percent escapes are undone for the search.
#[derive(Clone, Debug)]
pub(super) struct SecretMatcher {
    automaton: AhoCorasick,
    forms: Vec<SecretForm>,
    values: Vec<String>,
}

impl SecretMatcher {
    /// Creates the automaton. `None` if there is nothing to search for.
    pub(super) fn new(values: &[String]) -> Option<Self> {
        let (mut patterns, mut forms): (Vec<Vec<u8>>, Vec<SecretForm>) = (Vec::new(), Vec::new());
        let mut add = |pattern: Vec<u8>, form| {
            patterns.push(pattern);
            forms.push(form);
        };
        for value in values {
            add(value.clone().into_bytes(), SecretForm::Plain);
            // As forms are encoded.
            if value.contains(' ') {
                add(value.replace(' ', "+").into_bytes(), SecretForm::Plain);
            }
            if !(MIN_ENCODED_BYTES..=MAX_ENCODED_BYTES).contains(&value.len()) {
                continue;
            }
            for before in 0..3 {
                let (pattern, form) = base64_pattern(value.as_bytes(), before);
                if pattern.contains(['+', '/']) {
                    add(pattern.replace('+', "-").replace('/', "_").into_bytes(), form);
                }
                add(pattern.into_bytes(), form);
            }
        }
        if patterns.is_empty() {
            return None;
        }
        // It fails only beyond 2^31 states.
        AhoCorasick::new(patterns).ok().map(|automaton| Self { automaton, forms, values: values.to_vec() })
    }

    /// Returns the places of the values, in order and without overlaps.
    pub(super) fn find(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        self.find_in(text.as_bytes(), |range| range, &mut found);
        // Two levels: JSON within JSON, or a URL within either.
        for outer in [undo_json_escapes, undo_percent_escapes] {
            let Some(once) = outer(text.as_bytes()) else { continue };
            self.find_in(&once.bytes, |range| once.source_range(range), &mut found);
            for inner in [undo_json_escapes, undo_percent_escapes] {
                let Some(twice) = inner(&once.bytes) else { continue };
                let source = |range| once.source_range(twice.source_range(range));
                self.find_in(&twice.bytes, source, &mut found);
            }
        }
        self.find_cut(text, &mut found);
        found.sort_by_key(|range| (range.start, range.end));
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for range in found {
            // An escape may stand for a part of a letter.
            let range = text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end);
            match merged.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        merged
    }

    /// Finds the beginnings of values at the places where a text was shortened.
    fn find_cut(&self, text: &str, found: &mut Vec<Range<usize>>) {
        for (end, _) in text.match_indices('…').take(MAX_CUTS) {
            let before = &text.as_bytes()[..end];
            for value in &self.values {
                let longest = value.len().min(MAX_CUT_BYTES).min(end);
                let is_cut = |length: &usize| before.ends_with(&value.as_bytes()[..*length]);
                if let Some(length) = (MIN_CUT_BYTES..=longest).rev().find(is_cut) {
                    found.push(end - length..end);
                }
            }
        }
    }

    fn find_in(
        &self,
        bytes: &[u8],
        source: impl Fn(Range<usize>) -> Range<usize>,
        found: &mut Vec<Range<usize>>,
    ) {
        for hit in self.automaton.find_overlapping_iter(bytes) {
            let range = match self.forms[hit.pattern().as_usize()] {
                SecretForm::Plain => hit.range(),
                SecretForm::Base64 { left, right } => widen(bytes, hit.range(), left, right),
            };
            found.push(source(range));
        }
    }
}

/// Returns the letters of base64 that a value alone decides if this number of bytes is before it, modulo three.
fn base64_pattern(value: &[u8], before: usize) -> (String, SecretForm) {
    let mut bytes = vec![0; before];
    bytes.extend(value);
    let encoded = STANDARD_NO_PAD.encode(&bytes);
    let (first_bit, end_bit) = (before * 8, bytes.len() * 8);
    let (start, end) = (first_bit.div_ceil(6), end_bit / 6);
    let form = SecretForm::Base64 { left: first_bit % 6 != 0, right: end_bit % 6 != 0 };
    (encoded[start..end].to_owned(), form)
}

/// Adds the letters of base64 that share bits with the value, and the padding.
fn widen(bytes: &[u8], range: Range<usize>, left: bool, right: bool) -> Range<usize> {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    let (mut start, mut end) = (range.start, range.end);
    if left && start > 0 && is_letter(&bytes[start - 1]) {
        start -= 1;
    }
    if right && bytes.get(end).is_some_and(is_letter) {
        end += 1;
    }
    while end < range.end + 3 && bytes.get(end) == Some(&b'=') {
        end += 1;
    }
    start..end
}

/// A text whose escapes are undone.
struct UnescapedText {
    bytes: Vec<u8>,
    /// The place of each byte in the source, and the end of the source.
    places: Vec<usize>,
}

impl UnescapedText {
    fn source_range(&self, range: Range<usize>) -> Range<usize> {
        self.places[range.start]..self.places[range.end]
    }
}

/// Undoes the escapes that `read` finds: the bytes of an escape, and its length in the source. `None` if there are none.
fn undo_escapes(
    source: &[u8],
    sign: u8,
    read: impl Fn(&[u8]) -> Option<(Vec<u8>, usize)>,
) -> Option<UnescapedText> {
    let mut at = memchr::memchr(sign, source)?;
    let mut text = UnescapedText {
        bytes: Vec::with_capacity(source.len()),
        places: Vec::with_capacity(source.len() + 1),
    };
    text.bytes.extend(&source[..at]);
    text.places.extend(0..at);
    let mut is_changed = false;
    while at < source.len() {
        let (bytes, length) = match source[at] == sign {
            true => read(&source[at..]).unwrap_or_else(|| (vec![sign], 1)),
            false => {
                let end = memchr::memchr(sign, &source[at..]).map_or(source.len(), |next| at + next);
                text.bytes.extend(&source[at..end]);
                text.places.extend(at..end);
                at = end;
                continue;
            }
        };
        is_changed |= length > 1;
        text.places.extend(std::iter::repeat_n(at, bytes.len()));
        text.bytes.extend(bytes);
        at += length;
    }
    text.places.push(source.len());
    is_changed.then_some(text)
}

fn undo_percent_escapes(source: &[u8]) -> Option<UnescapedText> {
    undo_escapes(source, b'%', |rest| {
        let code = hexadecimal(rest.get(1..3)?)?;
        Some((vec![u8::try_from(code).ok()?], 3))
    })
}

/// Undoes the escapes of JSON, and those of texts that Rust and other languages print for programmers.
fn undo_json_escapes(source: &[u8]) -> Option<UnescapedText> {
    undo_escapes(source, b'\\', |rest| {
        let plain = match rest.get(1)? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'f' => 12,
            b'0' => 0,
            b'x' => {
                let code = hexadecimal(rest.get(2..4)?)?;
                return Some((vec![u8::try_from(code).ok()?], 4));
            }
            b'u' => return unicode_escape(rest),
            sign @ (b'"' | b'\\' | b'/' | b'\'') => *sign,
            _ => return None,
        };
        Some((vec![plain], 2))
    })
}

/// Reads `\u0041`, a pair of surrogates, or `\u{41}`.
fn unicode_escape(rest: &[u8]) -> Option<(Vec<u8>, usize)> {
    let encode = |letter: char, length| Some((letter.to_string().into_bytes(), length));
    if rest.get(2) == Some(&b'{') {
        let length = memchr::memchr(b'}', &rest[3..rest.len().min(10)])?;
        return encode(char::from_u32(hexadecimal(&rest[3..3 + length])?)?, length + 4);
    }
    let code = hexadecimal(rest.get(2..6)?)?;
    if let Some(letter) = char::from_u32(code) {
        return encode(letter, 6);
    }
    let second = rest.get(6..8).filter(|sign| sign == b"\\u").and_then(|_| hexadecimal(rest.get(8..12)?))?;
    let units = [u16::try_from(code).ok()?, u16::try_from(second).ok()?];
    encode(char::decode_utf16(units).next()?.ok()?, 12)
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    digits
        .iter()
        .try_fold(0_u32, |code, digit| Some(code.checked_mul(16)? + char::from(*digit).to_digit(16)?))
        .filter(|_| !digits.is_empty())
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};

    use super::*;

    const TOKEN: &str = "S3nt/inel?\u{e9}\"~~?>>\\tok";

    fn masked(text: &str) -> String {
        let matcher = SecretMatcher::new(&[TOKEN.to_owned()]).unwrap();
        let mut text = text.to_owned();
        for range in matcher.find(&text).into_iter().rev() {
            text.replace_range(range, "•");
        }
        text
    }

    fn percent(text: &str, is_plain: impl Fn(u8) -> bool, is_upper: bool) -> String {
        let encode = |byte: u8| match (is_plain(byte), is_upper) {
            (true, _) => char::from(byte).to_string(),
            (false, true) => format!("%{byte:02X}"),
            (false, false) => format!("%{byte:02x}"),
        };
        text.bytes().map(encode).collect()
    }

    #[test]
    fn base64_is_found_at_each_alignment_and_in_each_alphabet() {
        for before in ["", "u", "us", "use", "user:", "me@e.example:"] {
            for after in ["", "x", "xy", "xyz", " more"] {
                let text = format!("{before}{TOKEN}{after}");
                for encoded in [
                    STANDARD.encode(&text),
                    STANDARD_NO_PAD.encode(&text),
                    URL_SAFE.encode(&text),
                    URL_SAFE_NO_PAD.encode(&text),
                ] {
                    let shown = masked(&format!("got {encoded} {encoded}."));
                    assert_eq!(shown.matches('•').count(), 2, "{text}: {shown}");
                    // The letters beside it are at most those of the other text.
                    let left = shown.len() - "got • •.".len();
                    assert!(left / 2 <= (before.len() + after.len()) * 4 / 3 + 2, "{text}: {shown}");
                    let percent = percent(&encoded, |byte| byte.is_ascii_alphanumeric(), false);
                    assert!(masked(&percent).contains('•'), "{percent}");
                }
            }
        }
    }

    #[test]
    fn escaped_values_are_found_and_no_part_of_an_escape_is_left() {
        let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let json = serde_json::to_string(TOKEN).unwrap();
        let json = json.trim_matches('"');
        let units = |text: &str| text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect::<String>();
        let twice = serde_json::to_string(json).unwrap();
        for encoded in [
            TOKEN.to_owned(),
            percent(TOKEN, unreserved, true),
            percent(TOKEN, unreserved, false),
            percent(TOKEN, |_| false, true),
            percent(&percent(TOKEN, unreserved, true), unreserved, true),
            json.to_owned(),
            json.replace('/', "\\/"),
            units(TOKEN),
            twice.trim_matches('"').to_owned(),
            percent(json, unreserved, true),
            format!("{TOKEN:?}").trim_matches('"').to_owned(),
            TOKEN.escape_default().to_string(),
        ] {
            assert_eq!(masked(&format!("a {encoded} b %4 \\u12 \\")), "a • b %4 \\u12 \\", "{encoded}");
        }
        assert_eq!(
            masked("S3nt/inel? is another; 100%, C:\\temp\\u"),
            "S3nt/inel? is another; 100%, C:\\temp\\u"
        );
    }

    #[test]
    fn values_that_overlap_leave_nothing() {
        let values = ["abcdefgh", "efghijkl", "cdefgh"].map(str::to_owned);
        let matcher = SecretMatcher::new(&values).unwrap();
        assert_eq!(matcher.find("xabcdefghijkly abcdefgh"), [1..13, 15..23]);
        assert_eq!(matcher.find("body: abcdefg… abcde…"), std::iter::once(6..13).collect::<Vec<_>>());
        assert!(SecretMatcher::new(&[]).is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_searched(text in "(\\PC|%|\\\\|u|[0-9a-f]|\\{|\\}){0,64}") {
            let matcher = SecretMatcher::new(&["a".to_owned(), "\u{e9}".to_owned(), "0".to_owned()]).unwrap();
            let mut end = 0;
            for range in matcher.find(&text) {
                assert!(end <= range.start && text.get(range.clone()).is_some());
                end = range.end;
            }
        }
    }
}
