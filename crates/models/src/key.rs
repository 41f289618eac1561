//! API keys, which are never printed.

use std::fmt;

use serde::Deserialize;
use zeroize::Zeroizing;

/// An API key, or another secret header value. Debug output shows `[redacted]`, and its memory is wiped on drop.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct ApiKey(Zeroizing<String>);

impl ApiKey {
    /// Wraps a key. Surrounding whitespace, common in files, is removed.
    pub fn new(key: impl Into<String>) -> Self {
        // The text before trimming is a copy of the key, so it is wiped as well.
        let key = Zeroizing::new(key.into());
        Self(Zeroizing::new(key.trim().to_owned()))
    }

    /// Returns the key, to be sent but not printed.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns `text` without the key, wherever it occurs: the whole value, or the part after a scheme (`Bearer KEY`).
    pub(crate) fn redact(&self, text: &str) -> String {
        let last = self.0.rsplit(' ').next().unwrap_or_default();
        // A shorter part is not a key, and would occur in any text.
        let parts = [self.0.as_str(), last].into_iter().filter(|part| part.len() >= 4);
        parts.fold(text.to_owned(), |text, part| text.replace(part, "[redacted]"))
    }
}

impl From<String> for ApiKey {
    fn from(key: String) -> Self {
        Self::new(key)
    }
}

impl From<&str> for ApiKey {
    fn from(key: &str) -> Self {
        Self::new(key)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_whole_or_behind_its_scheme() {
        let key = ApiKey::new("Bearer abcd1234\n");
        assert_eq!(key.redact("you sent 'Bearer abcd1234', abcd1234"), "you sent '[redacted]', [redacted]");
        assert_eq!(ApiKey::new("abc").redact("abcabc"), "abcabc");
        assert_eq!(format!("{key} {key:?}"), "[redacted] [redacted]");
    }
}
