//! The interface to a model at a provider.

use std::fmt;
use std::pin::Pin;

use hospes_model::{CreateMessageParams, CreateMessageResult};
use serde::{Deserialize, Serialize};

use crate::{GenerationFailure, ModelError};

/// Future of a provider's answer. Dropping it cancels the request: the connection is closed, and the provider stops.
pub type GenerationFuture<'a> =
    Pin<Box<dyn Future<Output = Result<ModelAnswer, GenerationFailure>> + Send + 'a>>;

/// Callback that receives the pieces of an answer as they arrive.
pub type DeltaListener<'a> = dyn FnMut(AnswerDelta<'_>) + Send + 'a;

/// A model at a provider.
///
/// ```
/// use hospes_model::{CreateMessageParams, SamplingMessage};
/// use hospes_models::{AnswerDelta, ModelProvider, ScriptedProvider};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let model = ScriptedProvider::new(["The capital of France is Paris."]);
/// let params = CreateMessageParams::new(vec![SamplingMessage::user("What is the capital of France?")], 50);
/// let mut heard = String::new();
/// let answer = model
///     .generate(&params, &mut |delta| {
///         if let AnswerDelta::Text(text) = delta {
///             heard.push_str(text);
///         }
///     })
///     .await?;
/// assert_eq!(answer.result.text(), "The capital of France is Paris.");
/// assert_eq!(heard, answer.result.text());
/// # Ok::<(), hospes_models::GenerationFailure>(())
/// # }).unwrap();
/// ```
pub trait ModelProvider: fmt::Debug + Send + Sync + 'static {
    /// Returns the provider's name for people, such as `OpenAI`.
    fn name(&self) -> &str;

    /// Returns the model's name at the provider.
    fn model(&self) -> &str;

    /// Returns the maximum number of tokens of prompt and answer together, if it is known without configuration.
    fn context(&self) -> Option<u64> {
        None
    }

    /// Checks a request without sending it. Returns the parts of it that would be left out or changed.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] and [`ModelError::Unsupported`], as returned by [`generate`](Self::generate).
    fn check(&self, params: &CreateMessageParams) -> Result<Vec<OmittedPart>, ModelError>;

    /// Sends the request to the model. `heard` receives the pieces of the answer as they arrive; the returned value
    /// contains the whole answer. The preferences, `includeContext` and `task` of `params` are handled by the host and
    /// ignored here.
    fn generate<'a>(
        &'a self,
        params: &'a CreateMessageParams,
        heard: &'a mut DeltaListener<'_>,
    ) -> GenerationFuture<'a>;
}

/// A piece of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerDelta<'a> {
    /// Further text.
    Text(&'a str),
    /// The model starts a use of the tool with this name.
    ToolUse(&'a str),
    /// The model is thinking. Its thoughts are not part of the answer.
    Thinking,
    /// The request is retried; this is the number of the attempt, 2 or more.
    Again(u32),
}

/// A model's answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelAnswer {
    /// Result for the server that asked.
    pub result: CreateMessageResult,
    /// Tokens counted by the provider, if it reported them.
    pub usage: Option<TokenUsage>,
    /// Number of times the request was sent.
    pub tries: u32,
    /// Parts of the request that were left out or changed.
    pub left_out: Vec<OmittedPart>,
}

impl ModelAnswer {
    /// Creates an answer of the first attempt.
    #[must_use]
    pub fn new(result: CreateMessageResult, usage: Option<TokenUsage>) -> Self {
        Self { result, usage, tries: 1, left_out: Vec::new() }
    }
}

/// Token counts as reported by a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenUsage {
    /// Tokens of the prompt, including cached ones.
    pub input_tokens: u64,
    /// Tokens of the answer, including those of thinking.
    pub output_tokens: u64,
}

impl TokenUsage {
    /// Creates a usage of these tokens.
    #[must_use]
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens }
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// A part of the request that the provider did not receive unchanged. The specification allows this for these parts
/// (SAMP-15), so it is not an error, but a person who reviews the request should see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OmittedPart {
    /// The `metadata` or members of it, with the reason.
    Metadata(String),
    /// The temperature exceeds the provider's range and was lowered to its upper end: `2 becomes 1`.
    Temperature(String),
}

impl fmt::Display for OmittedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata(why) => write!(f, "metadata is not sent: {why}"),
            Self::Temperature(how) => write!(f, "the temperature is changed: {how}"),
        }
    }
}
