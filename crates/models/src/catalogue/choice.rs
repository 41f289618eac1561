//! Choice of a model for a request: hints first, then priorities, among the models that can take the request.

use hospes_model::{
    ContentBlock, CreateMessageParams, ModelPreferences, SamplingMessageContentBlock as Block,
};

use super::reason::{ChoiceReason, ExcludedModel, HintMatch, PriorityKind, WeighedPriority};
use super::{Model, ModelCatalogue, ModelScores};
use crate::estimate::{self, TokenEstimate};
use crate::{ModelError, Money, TokenPrices, TokenUsage};

/// The chosen model, and the reason for the choice.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelChoice<'c> {
    /// The model.
    pub model: &'c Model,
    /// Reason for the choice.
    pub reason: ChoiceReason,
    /// Estimated tokens of the request.
    pub estimate: RequestEstimate,
}

/// Estimated tokens of a request to a certain model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct RequestEstimate {
    /// Tokens of the prompt.
    pub input: TokenEstimate,
    /// Maximum number of tokens of the answer: the requested number, or less if the model generates fewer. Send this as
    /// `max_tokens`.
    pub max_tokens: u64,
    /// Maximum cost, from [`TokenEstimate::high`] and all of `max_tokens`. `None` without prices.
    pub cost: Option<Money>,
    /// Prices of the model.
    #[serde(skip)]
    pub prices: Option<TokenPrices>,
}

impl RequestEstimate {
    /// Estimates a request to this model.
    #[must_use]
    pub fn of(model: &Model, params: &CreateMessageParams) -> Self {
        Self::with(model, params, estimate::input_tokens(params))
    }

    fn with(model: &Model, params: &CreateMessageParams, input: TokenEstimate) -> Self {
        let max_tokens = model.abilities.max_output.unwrap_or(u64::MAX).min(params.max_tokens);
        let cost = model.prices.map(|prices| prices.of(TokenUsage::new(input.high, max_tokens)));
        Self { input, max_tokens, cost, prices: model.prices }
    }

    /// Returns the maximum total number of tokens, which a budget reserves.
    #[must_use]
    pub fn most_tokens(&self) -> u64 {
        self.input.high.saturating_add(self.max_tokens)
    }
}

/// Reasons a model is excluded.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExclusionReason {
    /// The request has images, which the model does not take.
    Images,
    /// The request has audio, which the model does not take.
    Audio,
    /// The request has tools, which the model does not take.
    Tools,
    /// The request exceeds the model's context.
    Context {
        /// Tokens that the request needs.
        needed: u64,
        /// Context of the model, in tokens.
        room: u64,
    },
    /// The provider cannot represent a part of the request.
    Cannot {
        /// Part of the request that the provider cannot take.
        what: String,
    },
    /// The budget does not allow the request, with its message.
    Budget {
        /// Message such as `the budget of the server "files" has 120 of 1000 tokens left`.
        words: String,
    },
}

/// Error if no model can take a request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("no model can handle this request{}", shown(passed_over))]
#[non_exhaustive]
pub struct ModelChoiceError {
    /// All models, each with the reason it cannot take the request. Empty if there are no models.
    pub passed_over: Vec<ExcludedModel>,
}

fn shown(passed_over: &[ExcludedModel]) -> String {
    if passed_over.is_empty() {
        return ": none is configured".to_owned();
    }
    let each: Vec<String> = passed_over.iter().map(ToString::to_string).collect();
    format!(": {}", each.join("; "))
}

impl ModelCatalogue {
    /// Returns the model that suits a request best, regardless of budgets.
    ///
    /// # Errors
    /// If no model can take the request.
    pub fn choose(&self, params: &CreateMessageParams) -> Result<ModelChoice<'_>, ModelChoiceError> {
        self.choose_within(params, |_, _| Ok(()))
    }

    /// Chooses as [`choose`](Self::choose) does, among the models that `affordable` accepts. On rejection `affordable`
    /// returns the reason. It is called for models that could take the request.
    ///
    /// Hints are evaluated in order. Each matches a part of a model's names or aliases, ignoring case (SAMP-17,
    /// SAMP-18, SAMP-20), and the first hint with a match limits the choice to its matches. Among these, the model with
    /// the largest sum of priority times score is chosen (SAMP-19); ties are decided by the order of the configuration.
    /// A priority outside of 0 to 1 counts as the nearest bound.
    ///
    /// # Errors
    /// If no model can take the request.
    pub fn choose_within(
        &self,
        params: &CreateMessageParams,
        affordable: impl Fn(&Model, &RequestEstimate) -> Result<(), String>,
    ) -> Result<ModelChoice<'_>, ModelChoiceError> {
        let needs = RequestNeeds::of(params);
        let (mut able, mut passed_over) = (Vec::new(), Vec::new());
        for model in &self.models {
            let estimate = RequestEstimate::with(model, params, needs.input);
            let words = |words| ExclusionReason::Budget { words };
            let cannot = || match model.provider.check(params) {
                Err(ModelError::Unsupported { what, .. }) => Some(ExclusionReason::Cannot { what }),
                // An error that concerns every model is reported when one is asked.
                _ => None,
            };
            let short = needs.find_exclusion(model, &estimate).or_else(cannot);
            let short = short.or_else(|| affordable(model, &estimate).err().map(words));
            match short {
                Some(shortage) => passed_over.push(ExcludedModel { model: model.name.clone(), shortage }),
                None => able.push((model, estimate)),
            }
        }
        let wishes = params.model_preferences.clone().unwrap_or_default();
        let mut missed = Vec::new();
        for hint in
            wishes.hints.iter().filter_map(|hint| hint.name.as_deref()).filter(|name| !name.trim().is_empty())
        {
            let found: Vec<_> = able
                .iter()
                .filter_map(|&(model, estimate)| Some((model, estimate, matches(model, hint)?)))
                .collect();
            let others = found.len();
            let Some((model, estimate, matched)) = best(&wishes, found, |(model, ..)| *model) else {
                missed.push(hint.to_owned());
                continue;
            };
            let reason = ChoiceReason {
                model: model.name.clone(),
                hint: Some((hint.to_owned(), matched)),
                missed,
                weighed: weigh_priorities(&wishes, model, others),
                among: others,
                passed_over,
            };
            return Ok(ModelChoice { model, reason, estimate });
        }
        let among = able.len();
        match best(&wishes, able, |(model, _)| *model) {
            Some((model, estimate)) => {
                let (name, weighed) = (model.name.clone(), weigh_priorities(&wishes, model, among));
                let reason = ChoiceReason { model: name, hint: None, missed, weighed, among, passed_over };
                Ok(ModelChoice { model, reason, estimate })
            }
            None => Err(ModelChoiceError { passed_over }),
        }
    }
}

/// Returns how a hint matches a model: by its configured name, its name at the provider, or an alias.
fn matches(model: &Model, hint: &str) -> Option<HintMatch> {
    let hint = hint.trim().to_lowercase();
    let holds = |name: &str| name.to_lowercase().contains(&hint);
    if holds(&model.name) || holds(model.provider.model()) {
        return Some(HintMatch::Name);
    }
    model.aliases.iter().find(|alias| holds(alias)).map(|alias| HintMatch::Alias(alias.clone()))
}

/// Returns the first model with the largest sum.
fn best<'m, T>(wishes: &ModelPreferences, of: Vec<T>, model: impl Fn(&T) -> &'m Model) -> Option<T> {
    let mut best: Option<(f64, T)> = None;
    for one in of {
        let sum = weighted_priorities(wishes)
            .map(|(wish, priority)| priority * score(wish, &model(&one).scores))
            .sum();
        // Strictly larger, so that the first in the configuration wins a tie.
        if best.as_ref().is_none_or(|(most, _)| sum > *most) {
            best = Some((sum, one));
        }
    }
    best.map(|(_, one)| one)
}

fn weighted_priorities(wishes: &ModelPreferences) -> impl Iterator<Item = (PriorityKind, f64)> {
    let all = [
        (PriorityKind::Cost, wishes.cost_priority),
        (PriorityKind::Speed, wishes.speed_priority),
        (PriorityKind::Intelligence, wishes.intelligence_priority),
    ];
    all.into_iter().filter_map(|(wish, priority)| {
        // A NaN passes `clamp` unchanged and would make every comparison false.
        priority.filter(|priority| !priority.is_nan()).map(|priority| (wish, priority.clamp(0.0, 1.0)))
    })
}

fn score(wish: PriorityKind, scores: &ModelScores) -> f64 {
    let score = match wish {
        PriorityKind::Cost => scores.cost,
        PriorityKind::Speed => scores.speed,
        PriorityKind::Intelligence => scores.intelligence,
    };
    if score.is_finite() { score.clamp(0.0, 1.0) } else { 0.0 }
}

/// Returns the priorities that were weighed, highest first. It is empty if there was nothing to weigh.
fn weigh_priorities(wishes: &ModelPreferences, model: &Model, among: usize) -> Vec<WeighedPriority> {
    if among < 2 {
        return Vec::new();
    }
    let mut weighed: Vec<WeighedPriority> = weighted_priorities(wishes)
        .filter(|(_, priority)| *priority > 0.0)
        .map(|(wish, priority)| WeighedPriority { wish, priority, score: score(wish, &model.scores) })
        .collect();
    weighed.sort_by(|one, other| other.priority.total_cmp(&one.priority));
    weighed
}

/// Requirements of a request on a model.
struct RequestNeeds {
    images: bool,
    audio: bool,
    tools: bool,
    input: TokenEstimate,
}

impl RequestNeeds {
    fn of(params: &CreateMessageParams) -> Self {
        let mut needs = Self {
            images: false,
            audio: false,
            tools: !params.tools.is_empty(),
            input: estimate::input_tokens(params),
        };
        for block in params.messages.iter().flat_map(|message| &message.content) {
            match block {
                Block::Image(_) => needs.images = true,
                Block::Audio(_) => needs.audio = true,
                Block::ToolUse(_) => needs.tools = true,
                Block::ToolResult(result) => {
                    needs.tools = true;
                    needs.images |=
                        result.content.iter().any(|block| matches!(block, ContentBlock::Image(_)));
                    needs.audio |= result.content.iter().any(|block| matches!(block, ContentBlock::Audio(_)));
                }
                _ => {}
            }
        }
        needs
    }

    fn find_exclusion(&self, model: &Model, estimate: &RequestEstimate) -> Option<ExclusionReason> {
        let able = model.abilities;
        // The likely count, because the upper bound would rule out models whose context is large enough.
        let needed = self.input.likely.saturating_add(estimate.max_tokens);
        match able.context {
            _ if self.images && !able.images => Some(ExclusionReason::Images),
            _ if self.audio && !able.audio => Some(ExclusionReason::Audio),
            _ if self.tools && !able.tools => Some(ExclusionReason::Tools),
            Some(room) if needed > room => Some(ExclusionReason::Context { needed, room }),
            _ => None,
        }
    }
}
