//! OpenAI's chat completions API, which many other servers support.

mod request;
mod response;

use std::sync::Arc;

use hospes_model::CreateMessageParams;

use super::{ComposedRequest, ProviderAccess, WireFormat, provider};
use crate::http::{KeyHeader, ProviderEndpoint, StreamStyle};
use crate::tool_names::ToolNameMap;
use crate::{ModelError, SettingError};

const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// A model with OpenAI's chat completions API: at OpenAI, or at a compatible server (llama.cpp, vLLM, LM Studio,
/// OpenRouter, Mistral, Groq and others) with another [`base_url`](ProviderAccess::base_url), which usually ends in
/// `/v1`.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: ProviderEndpoint,
    model: String,
    max_tokens_field: MaxTokensField,
    stream_usage: bool,
}

/// Name of the field for the maximum number of tokens in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MaxTokensField {
    /// `max_tokens`, which every compatible server supports. The default for base URLs other than OpenAI's.
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's newer models require. The default at OpenAI.
    MaxCompletionTokens,
}

impl OpenAi {
    /// Creates a client for the model with this name. OpenAI's own API requires a key.
    ///
    /// # Errors
    /// The invalid setting and the reason.
    pub fn new(model: impl Into<String>, access: ProviderAccess) -> Result<Self, SettingError> {
        let endpoint = access.endpoint(DEFAULT_BASE_URL, KeyHeader::Bearer)?;
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

impl WireFormat for OpenAi {
    const NAME: &'static str = "OpenAI";
    const STYLE: StreamStyle = StreamStyle::Events;
    type StreamReader = response::ChunkReader;

    fn endpoint(&self) -> &ProviderEndpoint {
        &self.endpoint
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn compose(&self, params: &CreateMessageParams) -> Result<ComposedRequest, ModelError> {
        request::compose(self, params)
    }

    fn reader(&self, names: &Arc<ToolNameMap>) -> response::ChunkReader {
        response::ChunkReader::new(Arc::clone(names))
    }
}

provider!(OpenAi);
