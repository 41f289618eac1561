//! Ollama's chat API.

mod request;
mod response;

use std::sync::Arc;

use hospes_model::CreateMessageParams;

use super::{ComposedRequest, ProviderAccess, WireFormat, provider};
use crate::http::{KeyHeader, ProviderEndpoint, StreamStyle};
use crate::tool_names::ToolNameMap;
use crate::{ModelError, SettingError};

const DEFAULT_BASE_URL: &str = "http://127.0.0.1:11434";

/// A model with Ollama's `/api/chat`, on this machine unless a [`base_url`](ProviderAccess::base_url) is set. A key,
/// for an Ollama behind an authenticating proxy, is sent as `Authorization: Bearer`.
#[derive(Debug)]
pub struct Ollama {
    endpoint: ProviderEndpoint,
    model: String,
    num_ctx: Option<u64>,
}

impl Ollama {
    /// Creates a client for the model with this name, such as `llama3.2`.
    ///
    /// # Errors
    /// The invalid setting and the reason.
    pub fn new(model: impl Into<String>, access: ProviderAccess) -> Result<Self, SettingError> {
        let endpoint = access.endpoint(DEFAULT_BASE_URL, KeyHeader::Bearer)?;
        Ok(Self { endpoint, model: model.into(), num_ctx: None })
    }

    /// Sets the context size with which the model is loaded, in tokens. By default Ollama uses a short context, and
    /// silently drops the beginning of a longer conversation.
    #[must_use]
    pub fn num_ctx(mut self, tokens: u64) -> Self {
        self.num_ctx = Some(tokens);
        self
    }
}

impl WireFormat for Ollama {
    const NAME: &'static str = "Ollama";
    const STYLE: StreamStyle = StreamStyle::Lines;
    type StreamReader = response::LineReader;

    fn endpoint(&self) -> &ProviderEndpoint {
        &self.endpoint
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn compose(&self, params: &CreateMessageParams) -> Result<ComposedRequest, ModelError> {
        request::compose(self, params)
    }

    fn reader(&self, names: &Arc<ToolNameMap>) -> response::LineReader {
        response::LineReader::new(Arc::clone(names))
    }
}

provider!(Ollama);
