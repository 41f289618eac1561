//! Google's Gemini: `generateContent`, streamed.

mod request;
mod response;

use std::sync::Arc;

use hospes_model::CreateMessageParams;

use super::{ComposedRequest, ProviderAccess, WireFormat, provider};
use crate::http::{KeyHeader, ProviderEndpoint, StreamStyle};
use crate::tool_names::ToolNameMap;
use crate::{ModelError, SettingError};

const DEFAULT_BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";

/// The member of a tool use's `_meta` in which Gemini's thought signature travels: newer models want it back with the
/// tool's result.
pub(super) const THOUGHT_SIGNATURE: &str = "geminiThoughtSignature";

/// A model behind Gemini's `streamGenerateContent`. A [`base_url`](ProviderAccess::base_url) stands before
/// `/models/MODEL:streamGenerateContent`. The key goes in a header, never in the address.
#[derive(Debug)]
pub struct Gemini {
    endpoint: ProviderEndpoint,
    model: String,
}

impl Gemini {
    /// The model of this name, such as `gemini-2.5-flash`. At Google's own address a key is wanted.
    ///
    /// # Errors
    /// Which setting cannot be used, and why.
    pub fn new(model: impl Into<String>, access: ProviderAccess) -> Result<Self, SettingError> {
        let model = model.into();
        // Google lists models with this prefix, which the address has already.
        let model = model.strip_prefix("models/").unwrap_or(&model).to_owned();
        // It becomes a part of the address.
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
