//! Other forms of a text: what its encoded, spelled out or stretched parts stand for.
//!
//! A form holds only the parts that are written differently, so that a long text with one encoded word has one short
//! form. Encodings within encodings are followed to a depth of two.

use std::sync::LazyLock;

use regex::Regex;

use crate::encoding::{decode_base64, decode_hexadecimal};

/// Depth to which encodings within encodings are followed.
const MAX_DEPTH: usize = 2;

/// Maximum length of all forms of one text, as a multiple of its own length. A decoded part is shorter than its code,
/// so honest text stays far below.
const MAX_GROWTH: usize = 4;

/// Share of printable characters from which decoded bytes count as text, in percent.
const MIN_PRINTABLE_PERCENT: usize = 95;

/// Number of short words before a stretched word that are left out in turn.
const MAX_WORDS_BEFORE: usize = 3;

fn pattern(text: &str) -> Option<Regex> {
    // A pattern that does not compile is left out; a test checks that all of them do.
    Regex::new(text).ok()
}

static BASE64: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"[A-Za-z0-9+/_-]{8,}={0,2}"));
static HEX: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"\b(?:0x)?(?:[0-9a-fA-F]{2}[ :]?){5,}[0-9a-fA-F]{2}\b"));
static AT_SIGN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?i)\s*[\[({<]\s*(?:at|@)\s*[\])}>]\s*|\s+at\s+(?P<after>[\w-]+(?:\.\w|\s+dot\s+|\s*[\[({<]\s*dot))",
    )
});
static DOT: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"(?i)\s*[\[({<]\s*(?:dot|\.)\s*[\])}>]\s*|\s+dot\s+"));
static DISARMED: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"(?i)\bhxxp"));
static SPACED: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"(?:^|\s)(?:\S{1,2}[ \t\u{a0}]+){5,}\S{1,2}(?:\s|$)"));
static GROUPED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"\b[A-Za-z]{2}\d{2}(?:[ .-]?[A-Za-z0-9]{2,4}){3,8}\b|\+?\b\d{1,4}(?:[ ()/.-]{1,2}\d{2,4}){2,6}\b",
    )
});
static WRAPPED: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"[^\s-]+-\r?\n[ \t]*\S+"));
static PERCENT: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"\S*%[0-9a-fA-F]{2}\S*"));
static ENTITY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"\S*&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos|commat|period|sol|colon);\S*")
});
static QUOTED_PRINTABLE: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"\S*=[0-9A-F]{2}\S*"));
static BACKSLASH: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"\S*\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})\S*"));

/// Returns the other forms of a text, each different from the text itself.
#[must_use]
pub fn other_forms(text: &str) -> Vec<String> {
    let mut forms = Vec::new();
    let mut room = text.len().saturating_mul(MAX_GROWTH);
    add_forms(text, MAX_DEPTH, &mut room, &mut forms);
    forms
}

fn add_forms(text: &str, depth: usize, room: &mut usize, forms: &mut Vec<String>) {
    let begin = forms.len();
    add_decoded(text, forms);
    if let Some(plain) = respelled(text) {
        forms.push(plain);
    }
    add_joined(text, forms);
    // The texts of this level only; those of deeper levels have added their own.
    let found: Vec<String> = forms.split_off(begin);
    for form in found {
        if form.len() > *room {
            return;
        }
        *room -= form.len();
        if depth > 1 {
            add_forms(&form, depth - 1, room, forms);
        }
        forms.push(form);
    }
}

/// Adds what Base64, hexadecimal digits, and escapes stand for.
fn add_decoded(text: &str, forms: &mut Vec<String>) {
    for word in matches(&BASE64, text) {
        forms.extend(decode_base64(word.as_bytes()).and_then(printable));
    }
    for word in matches(&HEX, text) {
        forms.extend(hexadecimal(word).and_then(printable));
    }
    if text.contains('%') {
        forms.extend(matches(&PERCENT, text).filter_map(|word| escaped_bytes(word, '%').and_then(printable)));
    }
    if text.contains('=') {
        let words = matches(&QUOTED_PRINTABLE, text);
        forms.extend(words.filter_map(|word| escaped_bytes(word, '=').and_then(printable)));
    }
    if text.contains('&') {
        forms.extend(matches(&ENTITY, text).map(entities));
    }
    if text.contains('\\') {
        forms.extend(matches(&BACKSLASH, text).map(backslashes));
    }
}

/// Adds what is written with spaces or hyphens in between.
fn add_joined(text: &str, forms: &mut Vec<String>) {
    for stretched in matches(&SPACED, text) {
        // Short words before it are not a part of it.
        for before in 0..=MAX_WORDS_BEFORE {
            forms.push(stretched.split_whitespace().skip(before).collect());
        }
    }
    for grouped in matches(&GROUPED, text) {
        let joined: String = grouped.chars().filter(|ch| ch.is_alphanumeric() || *ch == '+').collect();
        if joined.len() != grouped.len() {
            forms.push(joined);
        }
    }
    if text.contains('\n') {
        for wrapped in matches(&WRAPPED, text) {
            let parts = || wrapped.split_whitespace();
            forms.push(parts().collect());
            forms.push(parts().map(|part| part.strip_suffix('-').unwrap_or(part)).collect());
        }
    }
}

/// Returns the text with written-out signs replaced, if there are any.
fn respelled(text: &str) -> Option<String> {
    let has = |regex: &LazyLock<Option<Regex>>| regex.as_ref().is_some_and(|regex| regex.is_match(text));
    if !has(&AT_SIGN) && !has(&DOT) && !has(&DISARMED) {
        return None;
    }
    let mut plain = text.to_owned();
    for (regex, sign) in [(&AT_SIGN, "@${after}"), (&DOT, "."), (&DISARMED, "http")] {
        if let Some(regex) = regex.as_ref() {
            plain = regex.replace_all(&plain, sign).into_owned();
        }
    }
    Some(plain)
}

fn matches<'t>(regex: &'static LazyLock<Option<Regex>>, text: &'t str) -> impl Iterator<Item = &'t str> {
    regex.as_ref().into_iter().flat_map(move |regex| regex.find_iter(text)).map(|found| found.as_str())
}

/// Returns bytes as text, if most of it can be printed.
fn printable(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let is_printable = |ch: &char| !ch.is_control() || ch.is_whitespace();
    let (all, good) = (text.chars().count(), text.chars().filter(is_printable).count());
    (all > 0 && good * 100 >= all * MIN_PRINTABLE_PERCENT).then_some(text)
}

/// Decodes hexadecimal digits with an optional `0x` and separators between bytes.
fn hexadecimal(word: &str) -> Option<Vec<u8>> {
    decode_hexadecimal(word.trim_start_matches("0x").chars().filter(|ch| !matches!(ch, ' ' | ':')))
}

/// Replaces an escape sign and two hexadecimal digits by their byte.
fn escaped_bytes(word: &str, sign: char) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find(sign) {
        let (before, from) = rest.split_at_checked(at)?;
        bytes.extend_from_slice(before.as_bytes());
        let code = from.get(1..3).and_then(|code| u8::from_str_radix(code, 16).ok());
        let taken = match code {
            Some(byte) => {
                bytes.push(byte);
                3
            }
            None => {
                bytes.extend_from_slice(sign.encode_utf8(&mut [0; 4]).as_bytes());
                sign.len_utf8()
            }
        };
        rest = from.get(taken..)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

/// Replaces HTML character references.
fn entities(word: &str) -> String {
    let mut plain = String::with_capacity(word.len());
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let named = after.split_once(';').and_then(|(name, after)| Some((entity(name)?, after)));
        match named {
            Some((character, after)) => {
                plain.push(character);
                rest = after;
            }
            None => {
                plain.push('&');
                rest = after;
            }
        }
    }
    plain + rest
}

fn entity(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "commat" => Some('@'),
        "period" => Some('.'),
        "sol" => Some('/'),
        "colon" => Some(':'),
        _ => {
            let digits = name.strip_prefix('#')?;
            let hexadecimal = digits.strip_prefix(['x', 'X']);
            let code = hexadecimal
                .map_or_else(|| digits.parse().ok(), |digits| u32::from_str_radix(digits, 16).ok());
            char::from_u32(code?)
        }
    }
}

/// Replaces `\uXXXX` and `\xXX`.
fn backslashes(word: &str) -> String {
    let mut plain = String::with_capacity(word.len());
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let width = match after.chars().next() {
            Some('u') => 5,
            Some('x') => 3,
            _ => 0,
        };
        let code = after.get(1..width).and_then(|code| u32::from_str_radix(code, 16).ok());
        match code.and_then(char::from_u32) {
            Some(character) => {
                plain.push(character);
                rest = after.get(width..).unwrap_or_default();
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_patterns_compile() {
        for regex in [
            &BASE64,
            &HEX,
            &AT_SIGN,
            &DOT,
            &DISARMED,
            &SPACED,
            &GROUPED,
            &WRAPPED,
            &PERCENT,
            &ENTITY,
            &QUOTED_PRINTABLE,
            &BACKSLASH,
        ] {
            assert!(regex.is_some());
        }
    }

    #[test]
    fn what_is_encoded_or_spelled_out_has_its_plain_form() {
        for (text, plain) in [
            ("write to bWFya0B4LmV4YW1wbGU= now", "mark@x.example"),
            ("write to bWFya0B4LmV4YW1wbGU now", "mark@x.example"),
            ("6d61726b40782e6578616d706c65", "mark@x.example"),
            ("0x6d 61 72 6b 40 78 2e 65 78", "mark@x.ex"),
            ("%6dark%40x.example", "mark@x.example"),
            ("m&#x61;rk&#64;x&period;example", "mark@x.example"),
            ("mark=40x.example", "mark@x.example"),
            (r"m\u0061rk\x40x.example", "mark@x.example"),
            ("mark [at] x [dot] example", "mark@x.example"),
            ("mark at x dot example", "mark@x.example"),
            ("see hxxp://x.example", "see http://x.example"),
            ("send to m a r k @ x . e x a m p l e", "mark@x.example"),
            ("GB29 NWBK 6016 1331 9268 19", "GB29NWBK60161331926819"),
            ("call +41 79 123 45 67", "+41791234567"),
            ("www.secure-\n systems.example", "www.secure-systems.example"),
            // Base64 within Base64.
            ("YldGeWEwQjRMbVY0WVcxd2JHVT0=", "mark@x.example"),
        ] {
            let forms = other_forms(text);
            assert!(forms.iter().any(|form| form.trim() == plain), "{text}: {forms:?}");
        }
    }

    #[test]
    fn ordinary_text_has_no_other_form() {
        for text in [
            "",
            "Dear Ann, the meeting is at noon.",
            "password important information",
            "100 % is all",
            "a & b",
        ] {
            assert_eq!(other_forms(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn forms_of_forms_are_bounded() {
        let text = "%25".repeat(10_000);
        let size: usize = other_forms(&text).iter().map(String::len).sum();
        assert!(size <= text.len() * MAX_GROWTH, "{size}");
    }
}
