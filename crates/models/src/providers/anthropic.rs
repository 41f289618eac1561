//! Anthropic's Messages API.

mod request;
mod response;

use std::sync::Arc;

use hospes_model::CreateMessageParams;

use super::{ComposedRequest, ProviderAccess, WireFormat, provider};
use crate::http::{KeyHeader, ProviderEndpoint, StreamStyle};
use crate::tool_names::ToolNameMap;
use crate::{ModelError, SettingError};

const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";

/// A model with Anthropic's Messages API. A [`base_url`](ProviderAccess::base_url) precedes `/v1/messages`.
#[derive(Debug)]
pub struct Anthropic {
    endpoint: ProviderEndpoint,
    model: String,
}

impl Anthropic {
    /// Creates a client for the model with this name. Anthropic's own API requires a key.
    ///
    /// # Errors
    /// The invalid setting and the reason.
    pub fn new(model: impl Into<String>, access: ProviderAccess) -> Result<Self, SettingError> {
        let endpoint = access.endpoint(DEFAULT_BASE_URL, KeyHeader::Plain("x-api-key"))?;
        Ok(Self { endpoint: endpoint.header("anthropic-version", "2023-06-01"), model: model.into() })
    }
}

impl WireFormat for Anthropic {
    const NAME: &'static str = "Anthropic";
    const STYLE: StreamStyle = StreamStyle::Events;
    type StreamReader = response::EventReader;

    fn endpoint(&self) -> &ProviderEndpoint {
        &self.endpoint
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn compose(&self, params: &CreateMessageParams) -> Result<ComposedRequest, ModelError> {
        request::compose(&self.model, params)
    }

    fn reader(&self, names: &Arc<ToolNameMap>) -> response::EventReader {
        response::EventReader::new(Arc::clone(names))
    }
}

provider!(Anthropic);
