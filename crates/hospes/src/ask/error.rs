//! Errors of questions.

use hospes_model::RpcError;

use super::form::FormError;

/// Reasons a question has no answer, or none yet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Not yet: the question is on its way, and the handler runs again once it is answered. Hand it on through `?`.
    #[error("the question is not answered yet; the handler has to end here, and runs again with the answer")]
    Pending,
    /// The person said no.
    #[error("the person declined to answer: {question}")]
    Declined {
        /// Question that was asked.
        question: String,
    },
    /// The person said nothing, and put the question away.
    #[error("the person put the question away without an answer: {question}")]
    Cancelled {
        /// Question that was asked.
        question: String,
    },
    /// The client did not declare that it can be asked this.
    #[error("the client cannot be asked this")]
    Unsupported(#[source] RpcError),
    /// A form cannot ask for the type.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The URL to send the person to is not a valid URL.
    #[error("not a URL to send a person to: {url}")]
    Url {
        /// URL that was given.
        url: String,
        /// Parse error.
        #[source]
        source: url::ParseError,
    },
    /// A form may not ask for a secret: send the person to a URL instead.
    #[error("a form may not ask for a secret, which {field:?} seems to be; use `elicit_url`")]
    Secret {
        /// The field.
        field: String,
    },
    /// A form may have no link in it: send the person to a URL instead.
    #[error("a form may have no link in it, and {place} has one; use `elicit_url`")]
    Link {
        /// The message, or a field.
        place: String,
    },
    /// The URL to send the person to would give something away.
    #[error("nobody may be sent to this URL: {why}")]
    Unsafe {
        /// Description of the problem.
        why: &'static str,
    },
    /// The operating system gave no random numbers for the question's id.
    #[error("no random id for the question: {0}")]
    Random(String),
    /// The conversation to sample from breaks a rule on tool results.
    #[error("the conversation cannot be sampled from: {0}")]
    Conversation(&'static str),
}

impl AskError {
    /// Returns true if the handler only has to return for now.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self, Self::Pending)
    }
}
