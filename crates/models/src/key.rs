//! API keys, which nothing prints.

use std::fmt;

use serde::Deserialize;
use zeroize::Zeroizing;

/// An API key, or the value of a header that may be one. Printing it shows `[redacted]`, and its memory is wiped.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct ApiKey(Zeroizing<String>);

impl ApiKey {
    /// Hides a key. Blanks around it, which come along from files, are cut off.
    pub fn new(key: impl Into<String>) -> Self {
        let key = Zeroizing::new(key.into());
        Self(Zeroizing::new(key.trim().to_owned()))
    }

    /// The key itself, to be sent and not to be printed.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// `text` without the key, should somebody have put it there.
    pub(crate) fn redact(&self, text: &str) -> String {
        // What is shorter than this is no key, and would be found in any text.
        if self.0.len() < 4 { text.to_owned() } else { text.replace(self.0.as_str(), "[redacted]") }
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
