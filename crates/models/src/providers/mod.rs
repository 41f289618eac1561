//! The APIs of the providers.

mod anthropic;
mod gemini;
#[cfg(feature = "local-model")]
mod local;
mod ollama;
mod openai;
mod scripted;

pub use anthropic::Anthropic;
pub use gemini::Gemini;
#[cfg(feature = "local-model")]
pub use local::LocalModel;
pub use ollama::Ollama;
pub use openai::{MaxTokensField, OpenAi};
pub use scripted::{ScriptLine, ScriptedProvider, ScriptedRequest};

use std::sync::Arc;

use hospes_model::{CreateMessageParams, SamplingMessageContentBlock as Block};

use crate::answer_draft::AnswerDraft;
use crate::http::{AnswerReader, KeyHeader, ProviderEndpoint, StreamStyle};
use crate::provider::DeltaListener;
use crate::tool_names::ToolNameMap;
use crate::{ApiKey, GenerationFailure, ModelAnswer, ModelError, ModelLimits, OmittedPart, SettingError};

/// Access to a provider: address, credentials and limits.
///
/// ```
/// use hospes_models::{ProviderAccess, OpenAi, ModelProvider};
///
/// let model = OpenAi::new("gpt-5-mini", ProviderAccess::key("sk-…"))?;
/// let local = OpenAi::new("smollm2", ProviderAccess::default().base_url("http://127.0.0.1:8080/v1"))?;
/// assert_eq!((model.model(), local.model()), ("gpt-5-mini", "smollm2"));
/// # Ok::<(), hospes_models::SettingError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ProviderAccess {
    /// Base URL of the provider. `None` for its public URL.
    pub base_url: Option<String>,
    /// API key, sent in the header that the provider expects.
    pub api_key: Option<ApiKey>,
    /// Additional headers, whose values are secret.
    pub headers: Vec<(String, ApiKey)>,
    /// Limits on the time and the size of answers.
    pub limits: ModelLimits,
}

impl ProviderAccess {
    /// Creates access with a key, at the provider's public URL.
    pub fn key(api_key: impl Into<ApiKey>) -> Self {
        Self { api_key: Some(api_key.into()), ..Self::default() }
    }

    /// Sets the base URL: an `http` or `https` URL without credentials, query and fragment.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<ApiKey>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: ModelLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Builds the endpoint. A provider with keys requires one at its public URL.
    fn endpoint(self, own: &str, key: KeyHeader) -> Result<ProviderEndpoint, SettingError> {
        let base = self.base_url.as_deref().filter(|url| !url.is_empty()).unwrap_or(own);
        // Servers on this machine require none.
        if base == own && own.starts_with("https:") && self.api_key.is_none() && self.headers.is_empty() {
            return Err(SettingError::new("api_key", format!("{own} requires an API key, and none is set")));
        }
        let key = self.api_key.as_ref().map(|api_key| (api_key, key));
        ProviderEndpoint::new(base, key, self.headers, self.limits)
    }
}

/// Format of a provider that is reached over HTTP.
trait WireFormat: Send + Sync {
    const NAME: &'static str;
    const STYLE: StreamStyle;
    type StreamReader: AnswerReader + IntoDraft;

    fn endpoint(&self) -> &ProviderEndpoint;
    fn model(&self) -> &str;
    /// Converts the request to the provider's format.
    fn compose(&self, params: &CreateMessageParams) -> Result<ComposedRequest, ModelError>;
    fn reader(&self, names: &Arc<ToolNameMap>) -> Self::StreamReader;
}

/// Reader that finishes with an answer.
trait IntoDraft {
    fn into_draft(self) -> AnswerDraft;
}

/// A request in the provider's format.
struct ComposedRequest {
    /// Path, appended to the base URL.
    path: String,
    body: Vec<u8>,
    names: ToolNameMap,
    left_out: Vec<OmittedPart>,
}

async fn generate<W: WireFormat>(
    wire: &W,
    params: &CreateMessageParams,
    heard: &mut DeltaListener<'_>,
) -> Result<ModelAnswer, GenerationFailure> {
    let ComposedRequest { path, body, names, left_out } = wire.compose(params)?;
    let names = Arc::new(names);
    let endpoint = wire.endpoint();
    let (reader, tries) = endpoint.ask(&path, body, W::STYLE, || wire.reader(&names), heard).await?;
    let (usage, partial) = (reader.usage(), reader.partial());
    match reader.into_draft().finish(wire.model(), &names, &ids(params)) {
        Ok(answer) => Ok(ModelAnswer { tries, left_out, ..answer }),
        Err(error) => Err(GenerationFailure {
            error: endpoint.explain_read_error(error),
            tries,
            may_have_cost: true,
            usage,
            partial,
        }),
    }
}

/// Implements `ModelProvider` for providers that are reached over HTTP.
macro_rules! provider {
    ($type:ty) => {
        impl crate::ModelProvider for $type {
            fn name(&self) -> &str {
                <Self as super::WireFormat>::NAME
            }

            fn model(&self) -> &str {
                super::WireFormat::model(self)
            }

            fn check(
                &self,
                params: &hospes_model::CreateMessageParams,
            ) -> Result<Vec<crate::OmittedPart>, crate::ModelError> {
                super::WireFormat::compose(self, params).map(|composed| composed.left_out)
            }

            fn generate<'a>(
                &'a self,
                params: &'a hospes_model::CreateMessageParams,
                heard: &'a mut crate::DeltaListener<'_>,
            ) -> crate::GenerationFuture<'a> {
                Box::pin(super::generate(self, params, heard))
            }
        }
    };
}
use provider;

/// Returns the ids of the tool uses in a conversation.
fn ids(params: &CreateMessageParams) -> Vec<&str> {
    let blocks = params.messages.iter().flat_map(|message| &message.content);
    blocks
        .filter_map(|block| match block {
            Block::ToolUse(tool_use) => Some(tool_use.id.as_str()),
            _ => None,
        })
        .collect()
}

/// Creates an error for an unsupported part of a request.
fn unsupported<T>(provider: &'static str, what: impl Into<String>) -> Result<T, ModelError> {
    Err(ModelError::Unsupported { provider, what: what.into() })
}

/// Returns the temperature, limited to the provider's range.
fn temperature(params: &CreateMessageParams, most: f64, left_out: &mut Vec<OmittedPart>) -> Option<f64> {
    let wanted = params.temperature?;
    if wanted > most {
        left_out.push(OmittedPart::Temperature(format!("{wanted} is reduced to the maximum of {most}")));
    }
    Some(wanted.min(most))
}

/// Records the metadata as omitted, because the provider has no place for it.
fn omit_metadata(params: &CreateMessageParams, provider: &str, left_out: &mut Vec<OmittedPart>) {
    // Leaving out an empty object loses nothing.
    if params.metadata.as_ref().is_some_and(|metadata| metadata.as_bytes() != b"{}") {
        left_out.push(OmittedPart::Metadata(format!("{provider} does not support it")));
    }
}

/// Image formats that most providers accept.
const COMMON_IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];

fn check_image_type(kind: &str, taken: &[&str], provider: &'static str) -> Result<(), ModelError> {
    if taken.iter().any(|known| kind.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    unsupported(provider, format!("an image of type {kind} (supported: {})", taken.join(", ")))
}

#[cfg(test)]
mod tests;
