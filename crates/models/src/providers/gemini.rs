//! Google's Gemini API: `streamGenerateContent`.

mod request;
mod response;

use std::sync::Arc;

use hospes_model::CreateMessageParams;

use super::{ComposedRequest, ProviderAccess, WireFormat, provider};
use crate::http::{KeyHeader, ProviderEndpoint, StreamStyle};
use crate::tool_names::ToolNameMap;
use crate::{ModelError, SettingError};

const DEFAULT_BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

/// Member of a tool use's `_meta` with Gemini's thought signature, which newer models require to be returned with the
/// tool's result.
pub(super) const THOUGHT_SIGNATURE: &str = "geminiThoughtSignature";

/// A model with Gemini's `streamGenerateContent`. A [`base_url`](ProviderAccess::base_url) precedes
/// `/models/MODEL:streamGenerateContent`. The key is sent in a header, never in the URL.
#[derive(Debug)]
pub struct Gemini {
    endpoint: ProviderEndpoint,
    model: String,
}

impl Gemini {
    /// Creates a client for the model with this name, such as `gemini-2.5-flash`. Google's own API requires a key.
    ///
    /// # Errors
    /// The invalid setting and the reason.
    pub fn new(model: impl Into<String>, access: ProviderAccess) -> Result<Self, SettingError> {
        let model = model.into();
        // Google lists models with this prefix, which the URL already contains.
        let model = model.strip_prefix("models/").unwrap_or(&model).to_owned();
        // The name becomes part of the URL.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if model.is_empty() || !model.chars().all(plain) {
            return Err(SettingError::new(
                "model",
                "it is not a valid name of a Gemini model: letters, digits, `-`, `_` and `.`",
            ));
        }
        let endpoint = access.endpoint(DEFAULT_BASE_URL, KeyHeader::Plain("x-goog-api-key"))?;
        Ok(Self { endpoint, model })
    }
}

impl WireFormat for Gemini {
    const NAME: &'static str = "Gemini";
    const STYLE: StreamStyle = StreamStyle::Events;
    type StreamReader = response::PartReader;

    fn endpoint(&self) -> &ProviderEndpoint {
        &self.endpoint
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn compose(&self, params: &CreateMessageParams) -> Result<ComposedRequest, ModelError> {
        request::compose(&self.model, params)
    }

    fn reader(&self, names: &Arc<ToolNameMap>) -> response::PartReader {
        response::PartReader::new(Arc::clone(names))
    }
}

provider!(Gemini);
