//! Secret texts, and texts that are displayed without their secret parts.

use std::fmt;

use url::Url;

pub(super) use super::secret_finder::is_secret_name;
use super::secret_finder::{
    has_key_prefix, is_path_key, is_source_scheme, may_be_secret, names_secret, secret_ranges, url_secrets,
    user_info_end,
};

pub(super) const HIDDEN: &str = "[redacted]";

/// A value that is never printed: an environment variable, a header.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the value, which must not be printed.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// Text from a configuration file whose references to variables have been replaced.
///
/// Formatting shows the references as written in the file, without their defaults. Only [`reveal`](Self::reveal)
/// returns the expanded text.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct ExpandedText {
    written: String,
    value: String,
}

impl ExpandedText {
    /// Creates a text without references.
    pub fn literal(text: impl Into<String>) -> Self {
        let value = text.into();
        Self { written: value.clone(), value }
    }

    pub(super) fn new(written: String, value: String) -> Self {
        Self { written, value }
    }

    /// Returns the text as it is written, with its references.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Returns the expanded text.
    pub fn reveal(&self) -> &str {
        &self.value
    }

    pub(super) fn into_secret(self) -> Secret {
        Secret(self.value)
    }
}

impl fmt::Debug for ExpandedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&redact_argument(&self.written), f)
    }
}

impl fmt::Display for ExpandedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact_argument(&self.written))
    }
}

/// The address of a server, printed without credentials.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServerUrl {
    written: String,
    url: Url,
}

impl ServerUrl {
    /// Creates a URL that does not come from a configuration file.
    pub fn new(url: Url) -> Self {
        Self { written: url.as_str().to_owned(), url }
    }

    pub(super) fn expanded(written: String, url: Url) -> Self {
        Self { written, url }
    }

    /// Creates a URL whose references are not resolved. It is good for a file, and leads nowhere.
    pub(super) fn unresolved(written: String) -> Self {
        let url = Url::parse(&written).or_else(|_| Url::parse("http://unresolved.invalid/"));
        let url = url.expect("the second URL is valid");
        Self { written, url }
    }

    /// Returns the URL as it is written, with its references.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Returns the URL to connect to.
    pub fn reveal(&self) -> &Url {
        &self.url
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&redact_url(&self.written), f)
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact_url(&self.written))
    }
}

/// Redacts a URL: removes its user information, the values of its query, its fragment, and path segments that look like
/// keys. References such as `${TOKEN}` stay. Text that is not a URL is returned unchanged.
pub fn redact_url(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let is_source = is_source_scheme(scheme.rsplit(['=', ' ']).next().unwrap_or_default());
    let mut shown = format!("{scheme}://");
    // As parsers of URLs do, everything up to the last `@` is taken for the user information.
    let rest = match user_info_end(rest) {
        Some(at) => {
            shown.extend([if is_reference(&rest[..at]) { &rest[..at] } else { HIDDEN }, "@"]);
            &rest[at + 1..]
        }
        None => rest,
    };
    // The fragment goes first, since it may hold a `?` of its own (RFC 3986, section 3.5).
    let (rest, fragment) = cut(rest, '#');
    let (rest, query) = cut(rest, '?');
    let (authority, path) = match rest.find('/') {
        Some(index) => rest.split_at(index),
        None => (rest, ""),
    };
    shown.push_str(authority);
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            shown.push('/');
        }
        let is_key = !is_source && !is_reference(segment) && is_path_key(segment);
        shown.push_str(if is_key { HIDDEN } else { segment });
    }
    if let Some(query) = query {
        shown.push('?');
        for (index, pair) in query.split('&').enumerate() {
            if index > 0 {
                shown.push('&');
            }
            match pair.split_once('=') {
                Some((name, value)) if is_reference(value) => shown.extend([name, "=", value]),
                Some((name, _)) => shown.extend([name, "=", HIDDEN]),
                None if is_reference(pair) || pair.is_empty() => shown.push_str(pair),
                // A word alone may be the key itself.
                None => shown.push_str(HIDDEN),
            }
        }
    }
    match fragment {
        Some(commit) if is_source => shown.extend(["#", commit]),
        Some(_) => shown.extend(["#", HIDDEN]),
        None => {}
    }
    shown
}

/// Writes a command line without the values of options, headers and URLs that look secret.
pub fn redact_command<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words = redact_words(words);
    join_command(words.iter().map(String::as_str))
}

/// Writes a command line with quotes around words that would not be read as one. Nothing is hidden.
pub fn join_command<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut shown = String::new();
    for text in words {
        if !shown.is_empty() {
            shown.push(' ');
        }
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"') {
            shown.push_str(&format!("{text:?}"));
        } else {
            shown.push_str(text);
        }
    }
    shown
}

/// Returns the words of a command line without the values that look secret. A word that shows no secret stays the same.
pub fn redact_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut hide_next = false;
    let shown = words.into_iter().map(|word| {
        let text = if hide_next && !is_reference(word) { HIDDEN.to_owned() } else { redact_argument(word) };
        // The value of such an option is the next word.
        hide_next = word.starts_with('-') && !word.contains('=') && is_secret_name(word);
        text
    });
    shown.collect()
}

/// Redacts a word of a command. A reference is shown as it is, or the word is hidden.
pub(super) fn redact_argument(word: &str) -> String {
    if is_reference(word) {
        return word.to_owned();
    }
    if let Some((name, value)) = word.split_once('=')
        && !name.contains("://")
        && is_secret_name(name)
        && !is_reference(value)
    {
        return format!("{name}={HIDDEN}");
    }
    if let Some((name, value)) = word.split_once(':')
        && !value.starts_with("//")
        && is_secret_name(name)
        && !is_reference(value.trim_start().trim_start_matches("Bearer "))
    {
        return format!("{name}: {HIDDEN}");
    }
    if let Some(index) = word.find("Bearer ") {
        let (head, value) = word.split_at(index + "Bearer ".len());
        return if is_reference(value) { word.to_owned() } else { format!("{head}{HIDDEN}") };
    }
    if has_key_prefix(word) || has_secret_default(word) {
        return HIDDEN.to_owned();
    }
    // What an import would seal.
    let mut shown = word.to_owned();
    for range in secret_ranges(word, "", false, false, url_secrets(word)).into_iter().rev() {
        if is_in_reference(word, range.start) || is_in_reference(word, range.end) {
            return HIDDEN.to_owned();
        }
        if !is_reference(&word[range.clone()]) {
            shown.replace_range(range, HIDDEN);
        }
    }
    redact_url(&shown)
}

/// Returns true if a reference in the text has a secret as its default.
fn has_secret_default(text: &str) -> bool {
    let bodies = text.split("${").skip(1).filter_map(|inner| inner.split_once('}'));
    bodies.filter_map(|(body, _)| body.split_once(":-")).any(|(name, default)| {
        names_secret(name) || may_be_secret(default) || !url_secrets(default).is_empty()
    })
}

/// Returns true if a place is within a reference such as `${NAME}`.
fn is_in_reference(text: &str, at: usize) -> bool {
    let before = &text[..at];
    before.rfind("${").is_some_and(|start| !before[start..].contains('}'))
}

/// Returns true if the text is exactly one reference to a variable, without a default, which may be a secret.
pub(super) fn is_reference(text: &str) -> bool {
    let inner = text
        .strip_prefix("${")
        .or_else(|| text.strip_prefix("{env:"))
        .or_else(|| text.strip_prefix("{file:"));
    match inner {
        Some(inner) => {
            inner.strip_suffix('}').is_some_and(|name| !name.contains(['{', '}']) && !name.contains(":-"))
        }
        None => text
            .strip_prefix('$')
            .is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':')),
    }
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((head, tail)) => (head, Some(tail)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "[redacted] [redacted]");
        assert_eq!(secret.reveal(), "hunter2");
    }

    #[test]
    fn expanded_text_prints_its_references() {
        let text = ExpandedText::new("--root=${HOME}".into(), "--root=/home/me".into());
        assert_eq!(format!("{text} {text:?}"), "--root=${HOME} \"--root=${HOME}\"");
        assert_eq!(text.reveal(), "--root=/home/me");
    }

    #[test]
    fn urls_print_without_credentials() {
        for (url, shown) in [
            ("https://example.com/mcp", "https://example.com/mcp"),
            ("https://me:pw@example.com:8080/mcp", "https://[redacted]@example.com:8080/mcp"),
            ("https://e.com/mcp?key=abc&x=1", "https://e.com/mcp?key=[redacted]&x=[redacted]"),
            ("https://e.com?abc", "https://e.com?[redacted]"),
            ("https://e.com/?k=${KEY}", "https://e.com/?k=${KEY}"),
            ("https://e.com/?k=${KEY:-abc}", "https://e.com/?k=[redacted]"),
            ("https://${U:-me:pw}@e.com/", "https://[redacted]@e.com/"),
            ("https://e.com/#abc", "https://e.com/#[redacted]"),
            ("https://e.com/s/4f1c0ab93d7e/mcp", "https://e.com/s/[redacted]/mcp"),
            ("https://e.com/api/v2/everything", "https://e.com/api/v2/everything"),
            ("https://e.com/mcp/ghp_abcdefghijkl/x", "https://e.com/mcp/[redacted]/x"),
            ("not a url", "not a url"),
        ] {
            assert_eq!(redact_url(url), shown);
        }
        let url = ServerUrl::new(Url::parse("https://u:p@e.com/?t=abc").unwrap());
        assert_eq!(format!("{url} {url:?}").matches("[redacted]").count(), 4);
    }

    #[test]
    fn command_lines_print_without_keys() {
        for (words, shown) in [
            (&["npx", "-y", "server"][..], "npx -y server"),
            (&["x", "--api-key", "abc", "y"], "x --api-key [redacted] y"),
            (&["x", "--token=abc"], "x --token=[redacted]"),
            (&["x", "--token", "${TOKEN}"], "x --token ${TOKEN}"),
            (&["x", "--token", "${TOKEN:-abc}"], "x --token [redacted]"),
            (&["x", "--token=${T:-abc}"], "x --token=[redacted]"),
            (&["x", "-H", "X-Any: Bearer ${T:-abc}"], "x -H \"X-Any: Bearer [redacted]\""),
            (&["x", "--header", "Authorization: Bearer abc"], "x --header \"Authorization: [redacted]\""),
            (&["x", "-H", "Authorization: Bearer ${T}"], "x -H \"Authorization: Bearer ${T}\""),
            (&["x", "ghp_abcdefghijkl0123"], "x [redacted]"),
            (&["x", "postgres://u:p@db/app"], "x postgres://[redacted]@db/app"),
            (&["sh", "-c", "echo a: b"], "sh -c \"echo a: b\""),
            (&["x", "--author", "me"], "x --author me"),
            (&["x", "--api-key", "${secret:docs.arg1}"], "x --api-key ${secret:docs.arg1}"),
            (&["x", "${secret:docs.arg1}", "--u=${secret:d.u}"], "x ${secret:docs.arg1} --u=${secret:d.u}"),
            (&["x", "--a=b-${secret:docs.token1234}"], "x --a=b-${secret:docs.token1234}"),
            (&["x", "${TOKEN:-abc}", "${DIR:-here}"], "x [redacted] ${DIR:-here}"),
            (&["x", "postgresql://app:${secret:db.pw}@db/x"], "x postgresql://[redacted]@db/x"),
            (
                &["x", "https://e.com/${secret:a.b0123456789c}/x"],
                "x https://e.com/${secret:a.b0123456789c}/x",
            ),
            (&["x", "Server=db;Password=abc"], "x Server=db;Password=[redacted]"),
            (&["x", "mysql://u:p/w@h/d"], "x mysql://[redacted]@h/d"),
            (&["sh", "-c", "a://u:p@h b://u:q@h"], "sh -c \"a://[redacted]@h b://u:[redacted]@h\""),
            (&["uvx", "git+https://e.com/r@4f1c0ab93d7e4f1c"], "uvx git+https://e.com/r@4f1c0ab93d7e4f1c"),
        ] {
            assert_eq!(redact_command(words.iter().copied()), shown);
        }
    }
}
