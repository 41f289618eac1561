//! Anthropic's Messages.

mod read;
mod write;

use std::sync::Arc;

use hospes_model::CreateMessageParams;

use super::{Access, Composed, Wire, provider};
use crate::http::{Endpoint, KeyHeader, Style};
use crate::names::Names;
use crate::{ModelError, SettingError};

const OWN: &str = "https://api.anthropic.com";

/// A model behind Anthropic's Messages. A [`base_url`](Access::base_url) stands before `/v1/messages`.
#[derive(Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    model: String,
}

impl Anthropic {
    /// The model of this name. At Anthropic's own address a key is wanted.
    ///
    /// # Errors
    /// Which setting cannot be used, and why.
    pub fn new(model: impl Into<String>, access: Access) -> Result<Self, SettingError> {
        let endpoint = access.endpoint(OWN, KeyHeader::Plain("x-api-key"))?;
        Ok(Self { endpoint: endpoint.header("anthropic-version", "2023-06-01"), model: model.into() })
    }
}

impl Wire for Anthropic {
    const NAME: &'static str = "Anthropic";
    const STYLE: Style = Style::Events;
    type Reader = read::EventReader;

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn compose(&self, params: &CreateMessageParams) -> Result<Composed, ModelError> {
        write::compose(&self.model, params)
    }

    fn reader(&self, names: &Arc<Names>) -> read::EventReader {
        read::EventReader::new(Arc::clone(names))
    }
}

provider!(Anthropic);
