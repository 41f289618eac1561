//! Configured models.

use std::sync::Arc;

use serde::Deserialize;

use crate::{ModelProvider, TokenPrices};

/// A configured model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Model {
    /// Name in the configuration.
    pub name: String,
    /// Provider of the model.
    pub provider: Arc<dyn ModelProvider>,
    /// Names of other models that this one replaces. A hint that matches a part of one selects this model (SAMP-20).
    pub aliases: Vec<String>,
    /// Scores of the model for the priorities of servers.
    pub scores: ModelScores,
    /// Prices of the model. `None` if they are unknown. Only a budget of money needs them.
    pub prices: Option<TokenPrices>,
    /// Input that the model takes.
    pub abilities: ModelAbilities,
}

/// Scores of a model from 0 to 1, set by the operator. The default of each is 0.5.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelScores {
    /// Cheapness: 1 is the cheapest.
    pub cost: f64,
    /// Speed: 1 is the fastest.
    pub speed: f64,
    /// Capability: 1 is the most capable.
    pub intelligence: f64,
}

impl ModelScores {
    /// Creates scores, each from 0 to 1.
    #[must_use]
    pub fn new(cost: f64, speed: f64, intelligence: f64) -> Self {
        Self { cost, speed, intelligence }
    }
}

impl Default for ModelScores {
    fn default() -> Self {
        Self { cost: 0.5, speed: 0.5, intelligence: 0.5 }
    }
}

/// Input and sizes that a model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelAbilities {
    /// Accepts images.
    pub images: bool,
    /// Accepts audio.
    pub audio: bool,
    /// Accepts tools and their results.
    pub tools: bool,
    /// Maximum number of tokens of prompt and answer together. `None` if unknown.
    pub context: Option<u64>,
    /// Maximum number of tokens of an answer. `None` if unknown. A request for more is lowered to it (SAMP-14).
    pub max_output: Option<u64>,
}

impl Default for ModelAbilities {
    /// Returns the abilities of a model that takes text and tools of any length.
    fn default() -> Self {
        Self { images: false, audio: false, tools: true, context: None, max_output: None }
    }
}

impl Model {
    /// Creates a model that takes text and tools.
    pub fn new(name: impl Into<String>, provider: impl ModelProvider) -> Self {
        Self::shared(name, Arc::new(provider))
    }

    /// Creates a model with a provider that other models share. Otherwise as [`new`](Self::new).
    pub fn shared(name: impl Into<String>, provider: Arc<dyn ModelProvider>) -> Self {
        Self {
            name: name.into(),
            provider,
            aliases: Vec::new(),
            scores: ModelScores::default(),
            prices: None,
            abilities: ModelAbilities::default(),
        }
    }

    /// Sets the names of other models that this one replaces.
    #[must_use]
    pub fn aliases<S: Into<String>>(mut self, aliases: impl IntoIterator<Item = S>) -> Self {
        self.aliases.extend(aliases.into_iter().map(Into::into));
        self
    }

    /// Sets the scores.
    #[must_use]
    pub fn scores(mut self, scores: ModelScores) -> Self {
        self.scores = scores;
        self
    }

    /// Sets the prices.
    #[must_use]
    pub fn prices(mut self, prices: TokenPrices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// Declares that the model takes images.
    #[must_use]
    pub fn images(mut self) -> Self {
        self.abilities.images = true;
        self
    }

    /// Declares that the model takes audio.
    #[must_use]
    pub fn audio(mut self) -> Self {
        self.abilities.audio = true;
        self
    }

    /// Declares that the model takes no tools.
    #[must_use]
    pub fn without_tools(mut self) -> Self {
        self.abilities.tools = false;
        self
    }

    /// Sets the context size in tokens, prompt and answer together.
    #[must_use]
    pub fn context(mut self, tokens: u64) -> Self {
        self.abilities.context = Some(tokens);
        self
    }

    /// Sets the maximum number of tokens of an answer.
    #[must_use]
    pub fn max_output(mut self, tokens: u64) -> Self {
        self.abilities.max_output = Some(tokens);
        self
    }
}

/// The configured models. Their order decides ties.
#[derive(Clone, Debug, Default)]
pub struct ModelCatalogue {
    pub(super) models: Vec<Model>,
}

/// Error for two models with the same name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("duplicate model name `{name}`")]
#[non_exhaustive]
pub struct DuplicateModelError {
    /// Name of the models.
    pub name: String,
}

impl ModelCatalogue {
    /// Creates a catalogue of these models.
    ///
    /// # Errors
    /// If two models have the same name.
    pub fn new(models: impl IntoIterator<Item = Model>) -> Result<Self, DuplicateModelError> {
        let mut catalogue = Self::default();
        for model in models {
            if catalogue.get(&model.name).is_some() {
                return Err(DuplicateModelError { name: model.name });
            }
            catalogue.models.push(model);
        }
        Ok(catalogue)
    }

    /// Returns the model with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.name == name)
    }

    /// Iterates over all models in order.
    pub fn iter(&self) -> impl Iterator<Item = &Model> {
        self.models.iter()
    }

    /// Returns true if there are no models. A host then does not offer sampling.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// Returns true if at least one model takes tools. Otherwise a host does not declare `sampling.tools`.
    #[must_use]
    pub fn takes_tools(&self) -> bool {
        self.models.iter().any(|model| model.abilities.tools)
    }
}
