//! Secrets in a child process's environment, which are redacted in its output.

use std::borrow::Cow;
#[cfg(feature = "stdio")]
use std::ffi::OsString;
use std::fmt;

/// Replacement text for a secret.
const REDACTION_MARK: &str = "[redacted]";
/// Minimum length of a redacted value, in bytes. Shorter values are words such as `debug` and `true`, which are better
/// left readable.
#[cfg(feature = "stdio")]
const MIN_SECRET_BYTES: usize = 8;

/// Values of environment variables that only the child process has.
#[derive(Default)]
pub(crate) struct EnvSecrets(Vec<String>);

impl EnvSecrets {
    /// Collects the values of `env`, which failing programs may print into errors that reach logs and models. Paths are
    /// not redacted, because errors refer to them.
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
