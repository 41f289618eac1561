//! The error of handlers and of `main`.

use std::error::Error as StdError;
use std::fmt;

use hospes_model::RpcError;

/// Error of a handler; any error converts into it.
///
/// An [`RpcError`] becomes the protocol error it is; every other error becomes a tool result with `isError`, whose text
/// the model reads. Like `anyhow::Error`, this type converts from any error through `?` and does not implement `Error`
/// itself.
pub struct Error(Box<dyn StdError + Send + Sync>);

/// A result whose error converts from any other.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error from any other.
    pub fn new(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(error.into())
    }

    /// Creates an error with a message for the model.
    pub fn msg(text: impl fmt::Display) -> Self {
        Self(text.to_string().into())
    }

    /// Returns the protocol error, if this or one of its causes is one.
    #[must_use]
    pub fn protocol(&self) -> Option<&RpcError> {
        find_protocol(self.0.as_ref())
    }

    /// Returns the inner error.
    #[must_use]
    pub fn as_std(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self.0.as_ref()
    }
}

/// The protocol error among `error` and its causes.
pub(crate) fn find_protocol<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a RpcError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The message of `error`, then those of its causes, on one line.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        next = error.source();
        let cause = error.to_string();
        // Many errors repeat their cause in their own message.
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl From<Error> for Box<dyn StdError + Send + Sync> {
    fn from(error: Error) -> Self {
        error.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&chain(self.0.as_ref()))
    }
}

// `fn main() -> hospes::Result<()>` prints this: a sentence, not a structure.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
