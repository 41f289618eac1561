//! The error of handlers and of `main`.

use std::error::Error as StdError;
use std::fmt;

use hospes_model::RpcError;

/// Error of a handler; any error converts into it.
///
/// An [`RpcError`] becomes the protocol error it is; every other error becomes a tool result with `isError`, whose
/// text the model reads. Like `anyhow::Error` this type takes in any error through `?` and is itself none.
pub struct Error(Box<dyn StdError + Send + Sync>);

/// A result whose error takes in any other.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The error, whatever it is.
    pub fn new(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(error.into())
    }

    /// An error with a sentence for the model.
    pub fn msg(text: impl fmt::Display) -> Self {
        Self(text.to_string().into())
    }

    /// The protocol error, where it is one, looking through the causes.
    #[must_use]
    pub fn protocol(&self) -> Option<&RpcError> {
        find_protocol(self.0.as_ref())
    }

    /// The error inside.
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
