//! Exit codes for scripts, and errors with a hint.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use hospes::client::{CallError, ConnectError};
use hospes_host::config::SecretValues;

/// Kind of failure; the number is the exit code. The codes are those of the Inspector's command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureCode {
    /// Wrong usage, an invalid file, or any failure without a code of its own.
    Usage = 1,
    /// Only warnings; `hospes doctor` alone ends so.
    Warnings = 2,
    /// Sign-in is required.
    Unauthorized = 3,
    /// The server or host cannot be reached.
    Unreachable = 4,
    /// The tool failed or does not exist.
    Tool = 5,
    /// A newer version of a server is available (`hospes update --check`).
    Outdated = 6,
    /// The person has interrupted the program. As shells report a program that SIGINT has ended.
    Interrupted = 130,
}

impl FailureCode {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Warnings => "warnings",
            Self::Unauthorized => "auth_required",
            Self::Unreachable => "unreachable",
            Self::Tool => "tool_error",
            Self::Outdated => "outdated",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Error of the program, with a hint for the user.
#[derive(Clone, Debug)]
pub(crate) struct CliError {
    pub(crate) code: FailureCode,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) url: Option<String>,
    pub(crate) cause: Option<String>,
    /// True if the failure has already been reported, so that nothing is printed.
    pub(crate) is_silent: bool,
}

pub(crate) type CliResult<T = ()> = Result<T, CliError>;

impl CliError {
    pub(crate) fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            status: None,
            url: None,
            cause: None,
            is_silent: false,
        }
    }

    /// Adds what helps if a file could not be written because its folder is read-only.
    pub(crate) fn hint_if_unwritable(self, error: &(dyn StdError + 'static)) -> Self {
        let mut is_unwritable = false;
        let mut next = Some(error);
        while let Some(error) = next {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            is_unwritable |=
                matches!(kind, Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem));
            next = error.source();
        }
        match is_unwritable {
            true => self.hint("nothing was changed; make the folder writable for this user"),
            false => self,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureCode::Usage, message)
    }

    /// Converts a clap error. The parser's usage text is dropped.
    pub(crate) fn from_clap(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        // clap separates the message, the tip and the usage by blank lines.
        let mut parts =
            text.split("\n\n").map(|part| part.trim().lines().map(str::trim).collect::<Vec<_>>().join(" "));
        let first = parts.next().unwrap_or_default();
        let failure = Self::usage(first.strip_prefix("error: ").unwrap_or(&first));
        match parts.find_map(|part| part.strip_prefix("tip: ").map(str::to_owned)) {
            Some(tip) => failure.hint(tip),
            None => failure,
        }
    }

    /// Creates a failure whose reason is already part of the printed result.
    pub(crate) fn silent(code: FailureCode) -> Self {
        Self { is_silent: true, ..Self::new(code, "") }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn with_cause(mut self, cause: &dyn StdError) -> Self {
        self.cause = Some(error_chain(cause));
        self
    }

    /// Masks the secrets of a server in what it has said.
    pub(crate) fn masked(self, secrets: &SecretValues) -> Self {
        let mask = |text: String| secrets.mask(&text);
        Self {
            message: mask(self.message),
            hint: self.hint.map(mask),
            url: self.url.map(mask),
            cause: self.cause.map(mask),
            ..self
        }
    }

    /// Formats the error as one line of JSON.
    pub(crate) fn to_json_line(&self) -> String {
        let mut error = serde_json::Map::new();
        error.insert("code".to_owned(), self.code.word().into());
        error.insert("message".to_owned(), self.message.clone().into());
        let optional = [
            ("status", self.status.map(Into::into)),
            ("url", self.url.clone().map(Into::into)),
            ("cause", self.cause.clone().map(Into::into)),
            ("hint", self.hint.clone().map(Into::into)),
        ];
        error.extend(optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        serde_json::json!({ "error": error }).to_string()
    }
}

/// Formats an error with all its causes.
pub(crate) fn error_chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl From<ConnectError> for CliError {
    fn from(error: ConnectError) -> Self {
        let is_locked = matches!(error.status, Some(401 | 403));
        let mut failure =
            Self::new(if is_locked { FailureCode::Unauthorized } else { FailureCode::Unreachable }, "");
        failure.status = error.status;
        failure.url = error.target.starts_with("http").then(|| error.target.clone());
        // The hint gets a line of its own.
        let text = error.to_string();
        failure.hint.clone_from(&error.hint);
        let hint = error.hint.as_deref().map(|hint| format!("\n  hint: {hint}"));
        failure.message = match hint.and_then(|hint| text.strip_suffix(&hint).map(str::to_owned)) {
            Some(without) => without,
            None => text,
        };
        failure
    }
}

impl From<CallError> for CliError {
    fn from(error: CallError) -> Self {
        let code = match &error {
            CallError::Http(http) if matches!(http.status, Some(401 | 403)) => FailureCode::Unauthorized,
            CallError::NotAuthorized(_) => FailureCode::Unauthorized,
            CallError::Closed(_) | CallError::Http(_) | CallError::SessionEnded => FailureCode::Unreachable,
            _ => FailureCode::Tool,
        };
        let mut failure = Self::new(code, error.to_string());
        if let CallError::Http(http) = &error {
            failure.status = http.status;
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_written_to_has_a_hint() {
        let hint = |kind: io::ErrorKind| {
            let error = io::Error::from(kind);
            CliError::usage("cannot write").hint_if_unwritable(&error).hint
        };
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem] {
            assert!(hint(kind).is_some_and(|hint| hint.contains("make the folder writable")), "{kind}");
        }
        assert_eq!(hint(io::ErrorKind::StorageFull), None);
    }

    #[test]
    fn no_part_of_an_error_shows_a_masked_value() {
        let mut secrets = SecretValues::default();
        secrets.add("Bearer s3cret-token");
        let mut error = CliError::usage("no s3cret-token").hint("not s3cret-token");
        error.cause = Some("it is s3cret-token".to_owned());
        error.url = Some("https://a.example/s3cret-token".to_owned());
        let line = error.masked(&secrets).to_json_line();
        assert!(!line.contains("s3cret") && line.matches("•••").count() == 4, "{line}");
    }
}
