//! Search for secrets in the texts of an entry: what an import seals, and what is hidden on a screen.

use std::ops::Range;

/// Maximum size of the value of a secret, in bytes.
pub const MAX_SECRET_VALUE: usize = 64 * 1024;

/// Returns true if the name of a variable, header, option or part of a query denotes a secret.
pub(super) fn names_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let ends = ["_key", "-key", "_pat", "_pwd", "_auth", "_pass", "-pass", "_passphrase"];
    let names = ["pat", "pwd", "pass", "pgpass", "passphrase", "bearer"];
    is_secret_name(name) || names.contains(&&*lower) || ends.iter().any(|end| lower.ends_with(end))
}

/// Returns true if a word has the form of a key or token: long, and no word of a language.
pub(super) fn may_be_secret(word: &str) -> bool {
    /// Length from which a word without digits is none of a language.
    const MIN_LONG_WORD: usize = 24;
    let is_mixed =
        word.bytes().any(|byte| byte.is_ascii_digit()) && word.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_word = word.bytes().all(|byte| byte.is_ascii_graphic());
    is_word && (word.len() >= 8 && is_mixed || word.len() >= MIN_LONG_WORD) || has_key_prefix(word)
}

/// Returns false for values that nobody hides, even if their name contains `token`: `TOKEN_LIMIT=4096`.
pub(super) fn is_worth_sealing(value: &str) -> bool {
    let is_word = ["true", "false", "yes", "no", "on", "off", "none", "null"].contains(&value);
    let is_number = value.len() < 6 && value.bytes().all(|byte| byte.is_ascii_digit());
    !value.is_empty() && value.len() <= MAX_SECRET_VALUE && !is_word && !is_number
}

pub(super) fn has_secret(field: &str, value: &str) -> bool {
    hospes_inspect::secrets::has_secret(value)
        || hospes_inspect::secrets::has_secret(&format!("{field}={value}"))
}

/// Finds the secrets of a literal text, in order and without overlaps. `in_urls` are those of the URLs in it.
pub(super) fn secret_ranges(
    literal: &str,
    field: &str,
    is_secret: bool,
    is_url: bool,
    in_urls: Vec<Range<usize>>,
) -> Vec<Range<usize>> {
    if let Some(start) = secret_end_part(literal, is_secret, is_url) {
        return std::iter::once(start..literal.len()).collect();
    }
    let mut ranges: Vec<Range<usize>> =
        hospes_inspect::secrets::find_secrets(literal).into_iter().map(|found| found.range).collect();
    ranges.extend(in_urls);
    if !is_url {
        ranges.extend(pair_secrets(literal));
        ranges.extend(bearer_tokens(literal));
    }
    if ranges.is_empty() && (has_key_prefix(literal) || has_secret(field, literal)) {
        return std::iter::once(0..literal.len()).collect();
    }
    without_overlaps(ranges)
}

fn without_overlaps(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Returns the start of the secret that a text ends with: after the scheme of an `Authorization` header, or after a
/// name that denotes a secret (`--token=…`, `X-Api-Key: …`).
fn secret_end_part(literal: &str, is_secret: bool, is_url: bool) -> Option<usize> {
    const SCHEMES: [&str; 6] = ["Bearer ", "bearer ", "Basic ", "Token ", "token ", "ApiKey "];
    let scheme = |text: &str| {
        SCHEMES.iter().find(|scheme| text.starts_with(**scheme)).map_or(0, |scheme| scheme.len())
    };
    let start = scheme(literal);
    if (is_secret || start > 0 && !literal[start..].contains(' ')) && is_worth_sealing(&literal[start..]) {
        return Some(start);
    }
    if is_url {
        return None;
    }
    if let Some((name, value)) = literal.split_once('=')
        && names_secret(name.trim_start_matches('-'))
        && is_worth_sealing(value)
    {
        return Some(literal.len() - value.len());
    }
    let (name, value) = literal.split_once(':')?;
    let value = value.trim_start();
    let is_header = names_secret(name) && !value.starts_with("//") && is_worth_sealing(value);
    is_header.then(|| literal.len() - value.len() + scheme(value))
}

/// Returns the tokens after `Bearer` in a text with more in it, such as headers in JSON.
fn bearer_tokens(text: &str) -> Vec<Range<usize>> {
    const SCHEME: &str = "Bearer ";
    /// Shorter words after it may be prose.
    const MIN_TOKEN: usize = 8;
    let ends = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | ',' | ';' | '}' | '\\');
    let starts = text.match_indices(SCHEME).map(|(at, _)| at + SCHEME.len());
    let tokens =
        starts.map(|start| start..text[start..].find(ends).map_or(text.len(), |length| start + length));
    tokens.filter(|range| range.len() >= MIN_TOKEN && !text[range.clone()].contains("${")).collect()
}

/// Returns the values of the pairs of a connection string whose names denote secrets: `Server=db;Password=…`.
pub(super) fn pair_secrets(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    // Pairs of a URL are those of its query.
    if text.contains("://") || text.matches('=').count() < 2 {
        return ranges;
    }
    let mut at = 0;
    for piece in text.split([';', ' ', '&', '\n', '\t']) {
        if let Some((name, value)) = piece.split_once('=')
            && names_secret(name)
            && is_worth_sealing(value)
        {
            ranges.push(at + name.len() + 1..at + piece.len());
        }
        at += piece.len() + 1;
    }
    ranges
}

/// Returns the secrets of the URLs in a text: passwords, keys in paths, and values of queries whose names denote
/// secrets or that have the form of a key.
pub(super) fn url_secrets(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut done = 0;
    for (index, mark) in text.match_indices("://") {
        if index < done {
            continue;
        }
        let start = index + mark.len();
        let ends = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '<' | '>' | '`');
        let end = text[start..].find(ends).map_or(text.len(), |at| start + at);
        done = end;
        let mut scheme =
            text[..index].rsplit(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '+'));
        let is_source = is_source_scheme(scheme.next().unwrap_or_default());
        let found = secrets_after_scheme(&text[start..end], is_source);
        ranges.extend(found.into_iter().map(|range| start + range.start..start + range.end));
    }
    ranges
}

/// Returns true for the scheme of a repository, whose URLs have commits in them: `git+https`.
pub(super) fn is_source_scheme(scheme: &str) -> bool {
    scheme.starts_with("git")
}

/// Returns the end of the user information of a URL without its scheme. A password may have signs in it that would have
/// to be encoded.
pub(super) fn user_info_end(rest: &str) -> Option<usize> {
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if let Some(at) = authority.rfind('@') {
        return Some(at);
    }
    let (_, port) = authority.rsplit_once(':')?;
    let is_address = port.bytes().all(|byte| byte.is_ascii_digit()) || authority.contains(['$', '[', '{']);
    // `//host:80/@scope` has no user.
    if is_address { None } else { rest.rfind('@') }
}

fn secrets_after_scheme(url: &str, is_source: bool) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut authority = 0;
    if let Some(at) = user_info_end(url) {
        match url[..at].find(':') {
            Some(colon) if colon + 1 < at => ranges.push(colon + 1..at),
            None if may_be_secret(&url[..at]) => ranges.push(0..at),
            _ => {}
        }
        authority = at + 1;
    }
    let fragment = url[authority..].find('#').map_or(url.len(), |at| authority + at);
    let query = url[authority..fragment].find('?').map_or(fragment, |at| authority + at);
    let path = url[authority..query].find('/').map_or(query, |at| authority + at);
    let mut from = path;
    for segment in url[path..query].split('/') {
        if !is_source && is_path_key(segment) {
            ranges.push(from..from + segment.len());
        }
        from += segment.len() + 1;
    }
    let mut from = fragment.min(query + 1);
    for pair in url[from..fragment].split('&') {
        let (name, value) = pair.split_once('=').unwrap_or(("", pair));
        if !value.is_empty() && (names_secret(name) || may_be_secret(value)) {
            ranges.push(from + pair.len() - value.len()..from + pair.len());
        }
        from += pair.len() + 1;
    }
    if !is_source && fragment < url.len() && may_be_secret(&url[fragment + 1..]) {
        ranges.push(fragment + 1..url.len());
    }
    ranges
}

/// Returns true if a segment of a path is a key.
pub(super) fn is_path_key(segment: &str) -> bool {
    looks_like_key(segment) || has_key_prefix(segment) || hospes_inspect::secrets::has_secret(segment)
}

/// Prefixes of the keys of well-known services.
const KEY_PREFIXES: [&str; 8] = ["sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "AKIA", "eyJ"];

/// Returns true if a word begins like the key of a well-known service.
pub(super) fn has_key_prefix(word: &str) -> bool {
    KEY_PREFIXES.iter().any(|prefix| word.starts_with(prefix) && word.len() >= prefix.len() + 12)
}

const SECRET_WORDS: [&str; 13] = [
    "token",
    "secret",
    "password",
    "passwd",
    "apikey",
    "api-key",
    "api_key",
    "access-key",
    "access_key",
    "private-key",
    "credential",
    "authorization",
    "cookie",
];

pub(super) fn is_secret_name(name: &str) -> bool {
    // A long text with a colon in it is prose or code, not a header's name.
    let name = name.trim_start_matches('-').to_ascii_lowercase();
    name.len() <= 64
        // `${secret:NAME}` is a reference.
        && !name.contains(|letter: char| letter.is_whitespace() || "${}".contains(letter))
        && (name == "auth" || name == "key" || SECRET_WORDS.iter().any(|word| name.contains(word)))
}

/// Keys in paths (`/s/4f1c0ab93d7e/mcp`) are long runs of mixed digits and letters.
pub(super) fn looks_like_key(segment: &str) -> bool {
    segment.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| {
        run.len() >= 12
            && run.bytes().any(|b| b.is_ascii_digit())
            && run.bytes().any(|b| b.is_ascii_alphabetic())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_headers_within_json_are_found() {
        let text = r#"{"Authorization": "Bearer EnvJson-1029384756", "X": "a"}"#;
        let ranges = secret_ranges(text, "env.HEADERS", false, false, Vec::new());
        let found: Vec<&str> = ranges.into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, ["EnvJson-1029384756"]);
        assert!(bearer_tokens("the Bearer of news, Bearer ${TOKEN}").is_empty());
        for name in ["DB_PASS", "SMTP_PASS", "PASSPHRASE", "PGPASS", "BEARER"] {
            assert!(names_secret(name), "{name}");
        }
        assert!(!names_secret("BYPASS_PROXY") && !names_secret("COMPASS"));
    }

    fn found(text: &str) -> Vec<&str> {
        url_secrets(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn secrets_of_urls_are_found_wherever_they_stand() {
        for (text, expected) in [
            ("postgresql://app:pw@db/x", &["pw"][..]),
            ("--dsn=mysql://u:p/w#1@h/d", &["p/w#1"]),
            ("psql 'postgres://a:one@h/x' && curl https://b:two@h/", &["one", "two"]),
            ("https://host/mcp/ghp_0123456789abcd/x", &["ghp_0123456789abcd"]),
            ("https://host/s/4f1c0ab93d7e/mcp", &["4f1c0ab93d7e"]),
            ("https://4f1c0ab93d7e@host/", &["4f1c0ab93d7e"]),
            ("https://host/?api_key=k1&x=1&q=abcd1234#f", &["k1", "abcd1234"]),
            ("https://host?0123456789abcdef0123", &["0123456789abcdef0123"]),
            ("https://host:8080/@scope/a?x=1#f", &[]),
            ("git+https://github.com/o/r@4f1c0ab93d7e4f1c0ab93d7e#4f1c0ab93d7e", &[]),
            ("ssh://git@host/x", &[]),
            ("a://", &[]),
            ("://:@?&=#", &[]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn passwords_of_connection_strings_are_found() {
        let text = "Server=db;User Id=sa;Password=hunter2;Pwd=other";
        let values: Vec<&str> = pair_secrets(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(values, ["hunter2", "other"]);
        assert!(pair_secrets("a=b c=d token").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_searched(text in "(\\PC|://|[:/?#@&=]){0,40}") {
            for range in url_secrets(&text).into_iter().chain(pair_secrets(&text)) {
                assert!(text.get(range).is_some());
            }
        }
    }
}
