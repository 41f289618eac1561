//! The seam: one model at one provider.

use std::fmt;
use std::pin::Pin;

use hospes_model::{CreateMessageParams, CreateMessageResult};
use serde::{Deserialize, Serialize};

use crate::{GenerationFailure, ModelError};

/// Future of a provider's answer. Dropping it cancels the request: the connection is closed, and the provider stops.
pub type GenerationFuture<'a> =
    Pin<Box<dyn Future<Output = Result<ModelAnswer, GenerationFailure>> + Send + 'a>>;

/// Function that receives an answer while it arrives.
pub type DeltaListener<'a> = dyn FnMut(AnswerDelta<'_>) + Send + 'a;

/// One model at one provider, that can be asked.
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
    /// The provider's name for people, such as `OpenAI`.
    fn name(&self) -> &str;

    /// The model's name at the provider.
    fn model(&self) -> &str;

    /// The tokens that prompt and answer may have together, where that is known without being configured.
    fn context(&self) -> Option<u64> {
        None
    }

    /// Checks whether the request could be sent. Returns the parts of it that would be left out or changed. Sends
    /// nothing.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] and [`ModelError::Unsupported`], as [`generate`](Self::generate) gives them.
    fn check(&self, params: &CreateMessageParams) -> Result<Vec<OmittedPart>, ModelError>;

    /// Asks the model. `heard` receives the pieces of the answer as they arrive; the returned value contains the whole
    /// answer. The preferences, `includeContext` and `task` of `params` are handled by the host and ignored here.
    fn generate<'a>(
        &'a self,
        params: &'a CreateMessageParams,
        heard: &'a mut DeltaListener<'_>,
    ) -> GenerationFuture<'a>;
}

/// A piece of an answer that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerDelta<'a> {
    /// More text.
    Text(&'a str),
    /// The model begins to ask for the tool of this name.
    ToolUse(&'a str),
    /// The model thinks; what it thinks is not part of the answer.
    Thinking,
    /// The request is sent for this time, the second or a later one.
    Again(u32),
}

/// A model's answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelAnswer {
    /// Result for the server that asked.
    pub result: CreateMessageResult,
    /// The tokens that the provider counted, if it said so.
    pub usage: Option<TokenUsage>,
    /// Number of times the request was sent.
    pub tries: u32,
    /// Parts of the request that were left out or changed.
    pub left_out: Vec<OmittedPart>,
}

impl ModelAnswer {
    /// An answer at the first try.
    #[must_use]
    pub fn new(result: CreateMessageResult, usage: Option<TokenUsage>) -> Self {
        Self { result, usage, tries: 1, left_out: Vec::new() }
    }
}

/// Tokens, as a provider counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenUsage {
    /// Tokens of the prompt, including cached ones.
    pub input_tokens: u64,
    /// Tokens of the answer, including those of thinking.
    pub output_tokens: u64,
}

impl TokenUsage {
    /// These many.
    #[must_use]
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens }
    }

    /// Both together.
    #[must_use]
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// A part of a request that a provider was not given as it stands. The specification lets a client do so with these
/// (SAMP-15), so it is no error; a person who reviews the request should see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OmittedPart {
    /// The `metadata`, or members of it, and why.
    Metadata(String),
    /// The temperature is over the provider's range, and its upper end is used: `2 becomes 1`.
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
