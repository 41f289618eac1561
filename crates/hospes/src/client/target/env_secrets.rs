//! Secrets that a program was told, to be hidden wherever its words go.

use std::borrow::Cow;
#[cfg(feature = "stdio")]
use std::ffi::OsString;
use std::fmt;

/// Replacement text for a secret.
const REDACTION_MARK: &str = "[redacted]";
/// Shorter values are words such as `debug` and `true`; to hide them would spoil more than it saves.
#[cfg(feature = "stdio")]
const MIN_SECRET_BYTES: usize = 8;

/// The values that only one program was told.
#[derive(Default)]
pub(crate) struct EnvSecrets(Vec<String>);

impl EnvSecrets {
    /// `env` is what the program alone was told: programs that fail like to print it, and errors travel as far as to
    /// models. Its values are hidden, except for paths, which errors are about.
    #[cfg(feature = "stdio")]
    pub(crate) fn from_env(env: &[(OsString, OsString)]) -> Self {
        let values = env.iter().filter_map(|(_, value)| value.to_str());
        let secrets = values.filter(|value| value.len() >= MIN_SECRET_BYTES && !value.starts_with('/'));
        let mut secrets: Vec<String> = secrets.map(str::to_owned).collect();
        // One that holds another goes first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// Returns the text with all secrets replaced.
    pub(crate) fn redact<'t>(&self, text: Cow<'t, str>) -> Cow<'t, str> {
        self.0.iter().fold(text, |text, secret| {
            if text.contains(secret.as_str()) {
                text.replace(secret.as_str(), REDACTION_MARK).into()
            } else {
                text
            }
        })
    }
}

impl fmt::Debug for EnvSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hidden({})", self.0.len())
    }
}
