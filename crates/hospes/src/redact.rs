//! Redaction of secrets and personal data in logs.
//!
//! What is hidden is found by its name (`password=…`, `"api_key": …`), by its place (`Bearer …`, `://user:password@`) or by
//! its form (tokens of well-known services, private keys, JSON web tokens, e-mail addresses, card numbers). Whatever
//! looks like one is hidden: too much rather than too little.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

/// Text that replaces redacted parts.
pub const REDACTED: &str = "[redacted]";

/// Last words of names that denote a secret.
const SECRET_WORDS: [&str; 22] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "token",
    "jwt",
    "otp",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "cvv",
    "cvc",
    "ssn",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "cardnumber",
];
/// Last two words of names that denote a secret.
const SECRET_PAIRS: [(&str, &str); 9] = [
    ("api", "key"),
    ("access", "key"),
    ("secret", "key"),
    ("private", "key"),
    ("signing", "key"),
    ("encryption", "key"),
    ("card", "number"),
    ("security", "code"),
    ("session", "id"),
];
/// Prefixes of the tokens of well-known services.
const TOKEN_PREFIXES: [&str; 17] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "AIza",
    "hf_",
];
/// Shorter words that begin so are words.
const MIN_TOKEN_LENGTH: usize = 16;

/// Returns true if the name denotes a secret: `api_key`, `clientSecret`, `Card number`; not `token_count`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let words = split_words(name);
    match words.as_slice() {
        [.., before, last] => {
            SECRET_WORDS.contains(&last.as_str()) || SECRET_PAIRS.contains(&(before.as_str(), last.as_str()))
        }
        [only] => SECRET_WORDS.contains(&only.as_str()),
        [] => false,
    }
}

/// Returns the text with secrets and personal data redacted.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    let mut hidden = Vec::new();
    find_private_keys(text, &mut hidden);
    find_assignments(text, &mut hidden);
    find_credentials(text, &mut hidden);
    find_tokens(text, &mut hidden);
    find_email_addresses(text, &mut hidden);
    find_card_numbers(text, &mut hidden);
    if hidden.is_empty() {
        return Cow::Borrowed(text);
    }
    hidden.sort_by_key(|range| range.start);
    let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
    for range in hidden {
        // Ranges of different searches overlap: what begins within one is hidden together with it.
        if range.start >= at {
            shown.push_str(&text[at..range.start]);
            shown.push_str(REDACTED);
        }
        at = at.max(range.end);
    }
    shown.push_str(&text[at..]);
    Cow::Owned(shown)
}

/// Hides in every text of a value, and whatever stands under the name of a secret.
pub fn value(value: &mut Value) {
    match value {
        Value::String(said) => {
            if let Cow::Owned(shown) = text(said) {
                *said = shown;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(self::value),
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::Null | Value::Bool(_) => {}
                    _ if is_secret_name(name) => *member = REDACTED.into(),
                    _ => self::value(member),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The words of a name in small letters: at `_`, `-`, blanks and dots, and where capitals begin.
fn split_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || (small && letter.is_uppercase()) {
            words.push(String::new());
        }
        small = letter.is_lowercase();
        if let Some(word) = words.last_mut()
            && letter.is_alphanumeric()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn find_private_keys(text: &str, hidden: &mut Vec<Range<usize>>) {
    const BEGIN: &str = "-----BEGIN ";
    const MARK: &str = "PRIVATE KEY-----";
    // What is hidden already is not looked at again: texts come from anybody, and may repeat what begins a key.
    let mut done = 0;
    for (begin, _) in text.match_indices(BEGIN) {
        if begin < done {
            continue;
        }
        let rest = &text[begin..];
        // The label of a key is short. A search of the whole rest
        // for each beginning would take the square of the length.
        let near = &rest.as_bytes()[..rest.len().min(64 + MARK.len())];
        let Some(mark) = memchr::memmem::find(near, MARK.as_bytes()) else { continue };
        let after = mark + MARK.len();
        let end = rest[after..].find(MARK).map_or(rest.len(), |at| after + at + MARK.len());
        done = begin + end;
        hidden.push(begin..done);
    }
}

/// `password=…`, `"token": "…"`, `Authorization: Bearer …`.
fn find_assignments(text: &str, hidden: &mut Vec<Range<usize>>) {
    let mut done = 0;
    for (at, _) in text.match_indices(['=', ':']) {
        if at < done {
            continue;
        }
        let before = text[..at].trim_end_matches([' ', '"', '\'']);
        let begin = before.rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')));
        let name =
            &before[begin.map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8))..];
        if name.is_empty() || !is_secret_name(name) {
            continue;
        }
        let mut value = text[at + 1..].trim_start_matches(' ');
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        value = value.trim_start_matches(['"', '\'']);
        for scheme in ["bearer ", "basic ", "digest ", "token "] {
            if value.get(..scheme.len()).is_some_and(|said| said.eq_ignore_ascii_case(scheme)) {
                value = &value[scheme.len()..];
            }
        }
        let end = match quote {
            Some(quote) => value.find(quote),
            None => {
                value.find(|c: char| c.is_whitespace() || matches!(c, '&' | ';' | '"' | '\'' | '}' | ')'))
            }
        };
        let begin = text.len() - value.len();
        done = begin + end.unwrap_or(value.len());
        push(hidden, begin..done);
    }
}

/// After `Bearer`, and between `://` and `@`.
fn find_credentials(text: &str, hidden: &mut Vec<Range<usize>>) {
    let lower = text.to_ascii_lowercase();
    for scheme in ["bearer ", "basic "] {
        for (at, _) in lower.match_indices(scheme) {
            let begin = at + scheme.len();
            let length = text[begin..].find(|c: char| !is_token(c)).unwrap_or(text.len() - begin);
            // `basic understanding` has a shorter word; what is no longer than this is no credential.
            if length >= MIN_TOKEN_LENGTH
                || (length >= 8 && text[begin..begin + length].contains(|c: char| c.is_ascii_digit()))
            {
                hidden.push(begin..begin + length);
            }
        }
    }
    for (at, mark) in text.match_indices("://") {
        let begin = at + mark.len();
        let rest = &text[begin..];
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"'))
            .unwrap_or(rest.len());
        if let Some(at) = rest[..end].rfind('@') {
            push(hidden, begin..begin + at);
        }
    }
}

/// Words that have the form of a token.
fn find_tokens(text: &str, hidden: &mut Vec<Range<usize>>) {
    let mut begin = 0;
    for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))) {
        let is_jwt = word.starts_with("eyJ") && word.matches('.').count() == 2;
        if word.len() >= MIN_TOKEN_LENGTH
            && (is_jwt || TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix)))
        {
            hidden.push(begin..begin + word.len());
        }
        begin += word.len();
        // A separator may be longer than a byte.
        begin += text[begin..].chars().next().map_or(0, char::len_utf8);
    }
}

/// E-mail addresses.
fn find_email_addresses(text: &str, hidden: &mut Vec<Range<usize>>) {
    // By their beginnings, each with the furthest end of all before it.
    let mut before: Vec<(usize, usize)> = hidden.iter().map(|range| (range.start, range.end)).collect();
    before.sort_unstable();
    let mut furthest = 0;
    for (_, end) in &mut before {
        furthest = furthest.max(*end);
        *end = furthest;
    }
    let free = |begin: usize| {
        let next = before.partition_point(|(start, _)| *start <= begin);
        next.checked_sub(1).is_none_or(|at| before[at].1 <= begin)
    };
    for (at, _) in text.match_indices('@') {
        let local = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '%' | '+' | '-');
        let begin = text[..at].char_indices().rev().take_while(|(_, c)| local(*c)).last();
        let rest = &text[at + 1..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-'))).unwrap_or(rest.len());
        let domain = rest[..end].trim_end_matches(['.', '-']);
        let known = domain.rsplit_once('.').is_some_and(|(name, top)| {
            !name.is_empty() && top.chars().count() >= 2 && top.chars().all(char::is_alphabetic)
        });
        // The end of `://user:password@host` is no address.
        if let (Some((begin, _)), true) = (begin, known)
            && free(begin)
        {
            hidden.push(begin..at + 1 + domain.len());
        }
    }
}

/// 13 to 19 digits, perhaps in groups, with the check digit of a payment card.
fn find_card_numbers(text: &str, hidden: &mut Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let (begin, mut end, mut digits) = (at, at, Vec::new());
        while let Some(byte) = bytes.get(at) {
            if byte.is_ascii_digit() {
                digits.push(u32::from(byte - b'0'));
                end = at + 1;
            } else if !(matches!(byte, b' ' | b'-') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)) {
                break;
            }
            at += 1;
        }
        // What begins with another digit is a time more often than a card.
        if (13..=19).contains(&digits.len()) && (3..=6).contains(&digits[0]) && has_check_digit(&digits) {
            hidden.push(begin..end);
        }
    }
}

/// Luhn's algorithm.
fn has_check_digit(digits: &[u32]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, digit * 2) {
            (0, _) => *digit,
            (_, double) => double / 10 + double % 10,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '~' | '+' | '/' | '=' | '-')
}

fn push(hidden: &mut Vec<Range<usize>>, range: Range<usize>) {
    if !range.is_empty() {
        hidden.push(range);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The author of a text must not be able to keep the process busy with it. With work that grows as its square these
    /// take minutes.
    #[test]
    fn a_long_text_of_beginnings_is_no_more_work_than_any_other() {
        const TIMES: usize = 200_000;
        assert_eq!(text(&"token=".repeat(TIMES)), "token=[redacted]");
        assert_eq!(text(&"-----BEGIN ".repeat(TIMES)).len(), 11 * TIMES);
        let many = text(&"a@b.example token=x ".repeat(TIMES)).into_owned();
        assert_eq!(many, "[redacted] token=[redacted] ".repeat(TIMES));
    }

    #[test]
    fn secrets_are_hidden_and_the_rest_is_not() {
        for (said, shown) in [
            ("password=hunter2 next", "password=[redacted] next"),
            ("DB_PASSWORD: 'a b c', host: x", "DB_PASSWORD: '[redacted]', host: x"),
            (r#"{"apiKey":"k","n":1}"#, r#"{"apiKey":"[redacted]","n":1}"#),
            ("GET /a?access_token=abc,def&page=2", "GET /a?access_token=[redacted]&page=2"),
            ("Authorization: Bearer abc", "Authorization: Bearer [redacted]"),
            ("sent bearer abcdef0123456789.x", "sent bearer [redacted]"),
            ("postgres://ann:pw@db.local/x", "postgres://[redacted]@db.local/x"),
            ("used ghp_0123456789abcdef01 for it", "used [redacted] for it"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln is old", "[redacted] is old"),
            ("mail to ann.lee+x@example.co.uk.", "mail to [redacted]."),
            ("card 4111 1111 1111 1111 declined", "card [redacted] declined"),
            (
                "k:\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\ndone",
                "k:\n[redacted]\ndone",
            ),
            ("\u{e4}\u{f6} token=\u{fc}\u{fc} \u{df}", "\u{e4}\u{f6} token=[redacted] \u{df}"),
        ] {
            assert_eq!(text(said), shown);
        }
        for plain in [
            "token_count=5 of 10",
            "a basic understanding of user@host and 10:30",
            "took 1700000000000000003 ns, id 4111 1111 1111 1112",
            "https://example.com/a?page=2",
            "the secret is out",
            "",
        ] {
            assert!(matches!(text(plain), Cow::Borrowed(_)), "{}", text(plain));
        }
    }

    #[test]
    fn values_are_hidden_by_their_names() {
        let mut said = json!({
            "user": { "clientSecret": { "a": 1 }, "note": "pwd=x", "has_token": true },
            "list": ["ann@example.com", 5],
            "Set-Cookie": "a=b",
        });
        value(&mut said);
        let shown = json!({
            "user": { "clientSecret": "[redacted]", "note": "pwd=[redacted]", "has_token": true },
            "list": ["[redacted]", 5],
            "Set-Cookie": "[redacted]",
        });
        assert_eq!(said, shown);
    }

    #[test]
    fn names_are_read_as_words() {
        for name in ["password", "API key", "apiKey", "X-Api-Key", "cardNumber", "db.secret", "CVV"] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["", "key", "token_count", "secretary", "passwordless", "pageSize", "number", "code"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_looked_at(said in "\\PC*([=:@]|://|bearer |-----BEGIN PRIVATE KEY-----)\\PC*") {
            let _ = text(&said);
        }
    }
}
