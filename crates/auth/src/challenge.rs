//! Authentication challenges: parsing and formatting of `WWW-Authenticate`.

use std::fmt;

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

use crate::Scopes;

/// Maximum length of one field line, in bytes. A longer line is ignored.
const MAX_LINE_BYTES: usize = 16 * 1024;

/// One challenge: a scheme and its parameters (RFC 9110, section 11.6.1).
///
/// ```
/// # use hospes_auth::Challenge;
/// let line = r#"Basic realm="x", Bearer error="insufficient_scope", scope="files:write""#;
/// let challenges = Challenge::parse(line);
/// assert_eq!(challenges[1].scopes().unwrap().to_string(), "files:write");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge {
    scheme: Box<str>,
    params: Vec<(Box<str>, Box<str>)>,
}

impl Challenge {
    /// Creates a challenge without parameters.
    pub fn new(scheme: impl Into<String>) -> Self {
        Self { scheme: scheme.into().into(), params: Vec::new() }
    }

    /// Adds a parameter. Characters that a header cannot contain become `?`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        let value: String =
            value.to_string().chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect();
        self.params.push((name.into(), value.into()));
        self
    }

    /// Parses the challenges of one header line. A malformed line has none.
    #[must_use]
    pub fn parse(line: &str) -> Vec<Self> {
        if line.len() > MAX_LINE_BYTES {
            return Vec::new();
        }
        let Ok(challenges) = http_auth::parse_challenges(line) else { return Vec::new() };
        let read = |challenge: http_auth::ChallengeRef<'_>| Self {
            scheme: challenge.scheme.into(),
            params: challenge
                .params
                .iter()
                .map(|(name, value)| ((*name).into(), value.to_unescaped().into()))
                .collect(),
        };
        challenges.into_iter().map(read).collect()
    }

    /// Returns the challenges of all `WWW-Authenticate` lines, in order.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap) -> Vec<Self> {
        let lines = headers.get_all(WWW_AUTHENTICATE).iter();
        // A realm in another alphabet is no reason not to see what else is said.
        let read = |byte: &u8| if byte.is_ascii() { char::from(*byte) } else { '?' };
        lines.flat_map(|line| Self::parse(&line.as_bytes().iter().map(read).collect::<String>())).collect()
    }

    /// Returns the first challenge for a bearer token or a key-bound token.
    #[must_use]
    pub fn for_tokens(headers: &HeaderMap) -> Option<Self> {
        Self::from_headers(headers)
            .into_iter()
            .find(|challenge| challenge.has_scheme("Bearer") || challenge.has_scheme("DPoP"))
    }

    /// Returns true if this is the scheme of the challenge; case does not matter.
    #[must_use]
    pub fn has_scheme(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// Returns the value of a parameter, whose name is case-insensitive.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.params.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    /// Returns the scopes that the challenge requires, if it names any.
    #[must_use]
    pub fn scopes(&self) -> Option<Scopes> {
        self.get("scope").map(Scopes::parse).filter(|scopes| !scopes.is_empty())
    }

    /// Returns true if the token is valid but lacks scopes (`insufficient_scope`; RFC 6750, section 3.1).
    #[must_use]
    pub fn wants_more_scopes(&self) -> bool {
        self.get("error") == Some("insufficient_scope")
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme)?;
        for (index, (name, value)) in self.params.iter().enumerate() {
            let before = if index == 0 { " " } else { ", " };
            write!(f, "{before}{name}=\"")?;
            for c in value.chars() {
                // Nothing else needs a backslash in a quoted string (RFC 9110, section 5.6.4).
                if matches!(c, '"' | '\\') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
            f.write_str("\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (WWW_AUTHENTICATE, HeaderValue::from_str(line).unwrap())).collect()
    }

    #[test]
    fn several_challenges_on_several_lines_are_read() {
        let headers = headers(&[
            "Basic realm=\"a, b\", Digest realm=x",
            r#"bEaReR REALM="say \"hi\" \\", Scope="a b", other=token, resource_metadata="https://m/x""#,
            "DPoP algs=\"ES256\"",
        ]);
        assert_eq!(Challenge::from_headers(&headers).len(), 4);
        let ours = Challenge::for_tokens(&headers).unwrap();
        assert_eq!(ours.get("realm"), Some(r#"say "hi" \"#));
        assert_eq!(ours.scopes().unwrap().to_string(), "a b");
        assert_eq!(ours.get("Resource_Metadata"), Some("https://m/x"));
        assert!(!ours.wants_more_scopes());
    }

    #[test]
    fn a_byte_beyond_ascii_drops_no_line() {
        let line = HeaderValue::from_bytes(b"Bearer realm=\"caf\xe9\", scope=\"a\"").unwrap();
        let headers: HeaderMap = [(WWW_AUTHENTICATE, line)].into_iter().collect();
        assert_eq!(Challenge::for_tokens(&headers).unwrap().scopes().unwrap().to_string(), "a");
    }

    #[test]
    fn a_malformed_line_counts_as_none() {
        let long = format!("Bearer scope=\"{}\"", "x".repeat(MAX_LINE_BYTES));
        for line in ["", "Bearer scope=\"open", "Bearer =", "\"", ",,", "Bearer scope=a b=c d", &long] {
            assert_eq!(Challenge::parse(line), Vec::new(), "{line:.40}");
        }
        let headers = headers(&["Bearer scope=\"open", "Bearer scope=good"]);
        assert_eq!(Challenge::for_tokens(&headers).unwrap().scopes().unwrap().to_string(), "good");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(params in prop::collection::vec(("[a-z_]{1,8}", "[ -~]{0,20}"), 1..5)) {
            let challenge = params.iter().fold(Challenge::new("Bearer"), |all, (name, value)| all.with(name, value));
            prop_assert_eq!(Challenge::parse(&challenge.to_string()), vec![challenge]);
        }

        #[test]
        fn nothing_that_is_read_panics(line in "\\PC{0,80}") {
            let _ = Challenge::parse(&line);
        }

        #[test]
        fn nothing_alike_that_is_read_panics(line in "(Bearer|DPoP|,| |=|\"|\\\\|a|scope|\\t){0,24}") {
            let _ = Challenge::parse(&line);
        }
    }
}
