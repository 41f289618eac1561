//! Random values beside a name that denotes a secret.

use std::ops::Range;

/// Parts of names that denote a secret, without regard to case.
pub(super) const NAME_PARTS: [&str; 6] = ["key", "token", "secret", "password", "passwd", "auth"];

/// Last words of names that denote a secret.
const SECRET_WORDS: [&str; 9] =
    ["key", "token", "secret", "password", "passwd", "auth", "authorization", "apikey", "bearer"];

/// Words before `key`, `token` or `secret` in names of other values.
const OTHER_VALUES: [&str; 24] = [
    "public",
    "primary",
    "foreign",
    "cache",
    "idempotency",
    "sort",
    "partition",
    "object",
    "page",
    "next",
    "prev",
    "previous",
    "cursor",
    "continuation",
    "sync",
    "resume",
    "progress",
    "issue",
    "project",
    "license",
    "map",
    "foreignkey",
    "change",
    "dedup",
];

/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 64;

/// Minimum length of a value, in bytes.
const MIN_VALUE: usize = 20;

/// Maximum length of a value, in bytes.
const MAX_VALUE: usize = 256;

/// Minimum entropy of a value, in bits for each character.
const MIN_ENTROPY: f64 = 3.5;

/// Minimum entropy of a value of hexadecimal digits.
const MIN_HEX_ENTROPY: f64 = 3.0;

/// Minimum length of the part of a value that has letters and digits, in bytes.
const MIN_RANDOM_RUN: usize = 16;

/// Returns the random value beside the name that has one of [`NAME_PARTS`] at this place.
pub(super) fn find_named_value(text: &str, part: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let after = bytes[part.end..].iter().take(MAX_NAME).take_while(|byte| is_name(byte)).count();
    let end = part.end + after;
    let value = value_after(bytes, end, bytes[..part.start].last() == Some(&b'-'))?;
    let before = bytes[..part.start].iter().rev().take(MAX_NAME).take_while(|byte| is_name(byte)).count();
    // Both ends are ASCII or the ends of ASCII, so they are between characters.
    let name = text.get(part.start - before..end)?;
    (denotes_secret(name) && is_random(text.get(value.clone())?, name)).then_some(value)
}

/// Returns true if the last word of a name denotes a secret, and the word before it does not say otherwise.
fn denotes_secret(name: &str) -> bool {
    let words = words(name);
    let Some((last, before)) = words.split_last() else { return false };
    SECRET_WORDS.contains(&last.as_str())
        && !before.last().is_some_and(|word| OTHER_VALUES.contains(&word.as_str()))
}

/// Splits a name into words in lower case: at signs, and before a capital that follows a small letter.
fn words(name: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut was_small = false;
    for byte in name.bytes() {
        if !byte.is_ascii_alphanumeric() || was_small && byte.is_ascii_uppercase() {
            all.push(String::new());
        }
        was_small = byte.is_ascii_lowercase();
        if byte.is_ascii_alphanumeric()
            && let Some(word) = all.last_mut()
        {
            word.push(char::from(byte.to_ascii_lowercase()));
        }
    }
    all.retain(|word| !word.is_empty());
    all
}

/// Finds the value after a name: `name=VALUE`, `"name": "VALUE"`, `name: Bearer VALUE`, `<name>VALUE<`, `--name VALUE`.
fn value_after(bytes: &[u8], end: usize, is_option: bool) -> Option<Range<usize>> {
    let mut at = end;
    let skip = |at: &mut usize, signs: &[u8], most: usize| {
        let count = bytes[*at..].iter().take(most).take_while(|byte| signs.contains(byte)).count();
        *at += count;
        count
    };
    skip(&mut at, b"\"'`\\*] ", 6);
    let separated = skip(&mut at, b":=>|", 3) > 0;
    if !separated && !is_option {
        return None;
    }
    skip(&mut at, b"\"'`\\* ", 6);
    for scheme in ["bearer ", "basic ", "token "] {
        let rest = &bytes[at..];
        if rest.len() > scheme.len() && rest[..scheme.len()].eq_ignore_ascii_case(scheme.as_bytes()) {
            at += scheme.len();
        }
    }
    let is_value = |byte: &u8| byte.is_ascii_graphic() && !b"\"'`\\<>,;{}()[]|&".contains(byte);
    let length = bytes[at..].iter().take(MAX_VALUE).take_while(|byte| is_value(byte)).count();
    let value = &bytes[at..at + length];
    // The end of a sentence is not part of the value.
    let length = length - value.iter().rev().take_while(|byte| b".:!?*".contains(byte)).count();
    (length >= MIN_VALUE).then_some(at..at + length)
}

/// Returns true if a value looks random and not like words, a path, a URL or a reference.
fn is_random(value: &str, name: &str) -> bool {
    if value.starts_with('$') || value.starts_with('%') || value.contains("://") || value.contains("...") {
        return false;
    }
    let bytes = value.as_bytes();
    let entropy = entropy(bytes);
    if bytes.iter().all(u8::is_ascii_hexdigit) {
        return entropy >= MIN_HEX_ENTROPY;
    }
    if entropy < MIN_ENTROPY {
        return false;
    }
    let lower_name = name.to_ascii_lowercase();
    let classes = [
        bytes.iter().any(u8::is_ascii_lowercase),
        bytes.iter().any(u8::is_ascii_uppercase),
        bytes.iter().any(u8::is_ascii_digit),
        bytes.iter().any(u8::is_ascii_punctuation),
    ];
    // People choose passwords with signs; machines make runs of letters and digits.
    if lower_name.contains("passw") && classes.iter().filter(|class| **class).count() >= 3 {
        return !is_uuid(value);
    }
    let run = |part: &&[u8]| {
        let digits = part.iter().filter(|byte| byte.is_ascii_digit()).count();
        part.len() >= MIN_RANDOM_RUN && digits >= 2 && digits < part.len() && entropy_of_run(part)
    };
    bytes.split(|byte| !byte.is_ascii_alphanumeric()).any(|part| run(&part))
}

/// Returns true if the letters and digits of a run change often, as they do in a random text.
fn entropy_of_run(part: &[u8]) -> bool {
    let kind = |byte: u8| match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        _ => 2,
    };
    let changes = part.windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count();
    changes * 6 >= part.len()
}

fn is_uuid(value: &str) -> bool {
    let parts: Vec<usize> = value.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12]
}

/// Shannon entropy, in bits for each byte.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    // Values have at most `MAX_VALUE` bytes.
    let total = f64::from(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    let parts = counts.iter().filter(|count| **count > 0).map(|count| {
        let share = f64::from(*count) / total;
        -share * share.log2()
    });
    parts.sum()
}
