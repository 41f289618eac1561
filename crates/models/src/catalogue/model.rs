//! Models, as they are configured.

use std::sync::Arc;

use serde::Deserialize;

use crate::{ModelProvider, TokenPrices};

/// A configured model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Model {
    /// The name it is configured under.
    pub name: String,
    /// Provider that is asked.
    pub provider: Arc<dyn ModelProvider>,
    /// Other models' names that it stands in for. A server's hint that is a part of one finds this model (SAMP-20).
    pub aliases: Vec<String>,
    /// Scores of the model for the priorities of servers.
    pub scores: ModelScores,
    /// Prices of the model; none if they are unknown. Only a budget of money needs them.
    pub prices: Option<TokenPrices>,
    /// Input that the model takes.
    pub abilities: ModelAbilities,
}

/// Scores of a model, from 0 to 1 each, as the operator rates it. The default of each is in the middle.
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
    /// These, each from 0 to 1.
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
    /// Pictures.
    pub images: bool,
    /// Sounds.
    pub audio: bool,
    /// Tools on offer, and what they returned.
    pub tools: bool,
    /// The tokens that prompt and answer may have together; none where it is not known.
    pub context: Option<u64>,
    /// The tokens that an answer may have; none where it is not known. A request for more is lowered to it (SAMP-14).
    pub max_output: Option<u64>,
}

impl Default for ModelAbilities {
    /// Text and tools, of any length.
    fn default() -> Self {
        Self { images: false, audio: false, tools: true, context: None, max_output: None }
    }
}

impl Model {
    /// A model of which nothing is known but that it takes text and tools.
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

    /// Stands in for these.
    #[must_use]
    pub fn aliases<S: Into<String>>(mut self, aliases: impl IntoIterator<Item = S>) -> Self {
        self.aliases.extend(aliases.into_iter().map(Into::into));
        self
    }

    /// With scores.
    #[must_use]
    pub fn scores(mut self, scores: ModelScores) -> Self {
        self.scores = scores;
        self
    }

    /// With prices.
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

    /// Answers with so many tokens at most.
    #[must_use]
    pub fn max_output(mut self, tokens: u64) -> Self {
        self.abilities.max_output = Some(tokens);
        self
    }
}

/// The configured models, in the order of the configuration, which settles ties.
#[derive(Clone, Debug, Default)]
pub struct ModelCatalogue {
    pub(super) models: Vec<Model>,
}

/// Two models have one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("duplicate model name `{name}`")]
#[non_exhaustive]
pub struct DuplicateModelError {
    /// The name.
    pub name: String,
}

impl ModelCatalogue {
    /// These models.
    ///
    /// # Errors
    /// When two have one name.
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

    /// The model with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Model> {
        self.models.iter().find(|model| model.name == name)
    }

    /// All of them, in order.
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
