//! OpenAI's chat completions, which many others speak too.

mod read;
mod write;

use std::sync::Arc;

use hospes_model::CreateMessageParams;

use super::{Access, Composed, Wire, provider};
use crate::http::{Endpoint, KeyHeader, Style};
use crate::names::Names;
use crate::{ModelError, SettingError};

const OWN: &str = "https://api.openai.com/v1";

/// A model behind OpenAI's chat completions: at OpenAI, or at whatever speaks as it does (llama.cpp, vLLM, LM Studio,
/// OpenRouter, Mistral, Groq and so on) under another [`base_url`](Access::base_url), which ends in `/v1` as a rule.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    model: String,
    max_tokens_field: MaxTokensField,
    stream_usage: bool,
}

/// Name of the field for the maximum number of tokens in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MaxTokensField {
    /// `max_tokens`, which every compatible server knows: the default elsewhere than at OpenAI.
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's own newer models want: the default there.
    MaxCompletionTokens,
}

impl OpenAi {
    /// The model of this name. At OpenAI's own address a key is wanted.
    ///
    /// # Errors
    /// Which setting cannot be used, and why.
    pub fn new(model: impl Into<String>, access: Access) -> Result<Self, SettingError> {
        let endpoint = access.endpoint(OWN, KeyHeader::Bearer)?;
        let max_tokens_field = match endpoint.host() {
            "api.openai.com" => MaxTokensField::MaxCompletionTokens,
            _ => MaxTokensField::MaxTokens,
        };
        Ok(Self { endpoint, model: model.into(), max_tokens_field, stream_usage: true })
    }

    /// Sets the name of the field for the maximum number of tokens.
    #[must_use]
    pub fn max_tokens_field(mut self, field: MaxTokensField) -> Self {
        self.max_tokens_field = field;
        self
    }

    /// Sets whether requests ask for token counts (`stream_options.include_usage`); the default is yes. Some servers
    /// reject the option.
    #[must_use]
    pub fn stream_usage(mut self, ask: bool) -> Self {
        self.stream_usage = ask;
        self
    }

    /// Returns true if the provider is OpenAI itself, whose limits are known.
    fn is_own(&self) -> bool {
        self.endpoint.host() == "api.openai.com"
    }
}

impl Wire for OpenAi {
    const NAME: &'static str = "OpenAI";
    const STYLE: Style = Style::Events;
    type Reader = read::ChunkReader;

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn compose(&self, params: &CreateMessageParams) -> Result<Composed, ModelError> {
        write::compose(self, params)
    }

    fn reader(&self, names: &Arc<Names>) -> read::ChunkReader {
        read::ChunkReader::new(Arc::clone(names))
    }
}

provider!(OpenAi);
