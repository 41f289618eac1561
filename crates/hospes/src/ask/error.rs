//! Errors of questions.

use hospes_model::RpcError;

use super::form::FormError;

/// Reasons a question has no answer, or none yet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The answer is pending: the question is being sent, and the handler runs again once it is answered. Return this
    /// error with `?`.
    #[error(
        "the question is not answered yet; return this error, and the handler runs again with the answer"
    )]
    Pending,
    /// The user declined.
    #[error("the user declined to answer: {question}")]
    Declined {
        /// Question that was asked.
        question: String,
    },
    /// The user dismissed the question.
    #[error("the user dismissed the question: {question}")]
    Cancelled {
        /// Question that was asked.
        question: String,
    },
    /// The client did not declare that it can be asked this.
    #[error("the client does not support this question")]
    Unsupported(#[source] RpcError),
    /// A form cannot ask for the type.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The URL to send the person to is not a valid URL.
    #[error("invalid URL for elicitation: {url}")]
    Url {
        /// URL that was given.
        url: String,
        /// Parse error.
        #[source]
        source: iri_string::validate::Error,
    },
    /// A form may not ask for a secret: send the person to a URL instead.
    #[error("a form cannot ask for a secret, and {field:?} appears to be one; use `elicit_url`")]
    Secret {
        /// Name of the field.
        field: String,
    },
    /// A form may have no link in it: send the person to a URL instead.
    #[error("a form cannot contain a link, and {place} has one; use `elicit_url`")]
    Link {
        /// The message, or a field.
        place: String,
    },
    /// The URL would disclose sensitive data.
    #[error("unsafe URL for elicitation: {why}")]
    Unsafe {
        /// Description of the problem.
        why: &'static str,
    },
    /// The operating system gave no random numbers for the question's id.
    #[error("cannot create a random id for the question: {0}")]
    Random(String),
    /// The conversation to sample from breaks a rule on tool results.
    #[error("invalid messages for sampling: {0}")]
    Conversation(&'static str),
}

impl AskError {
    /// Returns true if the handler only has to return for now.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self, Self::Pending)
    }
}
