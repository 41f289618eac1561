//! Language models for sampling: requests to providers, choice of a model, and budgets.
//!
//! For the host, and for clients that answer sampling with a model of their own.
//!
//! A server requests a completion with `sampling/createMessage` and leaves the choice of the model to the client. This
//! crate implements that choice and the request. The review by a person is part of the host.
//!
//! - A [`ModelProvider`] is one model at a provider: [`OpenAi`] and compatible servers, [`Anthropic`], [`Gemini`],
//!   [`Ollama`], a file in this process with the feature `local-model`, and [`ScriptedProvider`] for tests. Requests
//!   and results have the types of the specification. A part that the provider cannot represent is an error before
//!   anything is sent.
//! - A [`ModelCatalogue`] contains the configured [`Model`]s and [chooses](ModelCatalogue::choose) one for a request,
//!   with a [`ChoiceReason`].
//! - A [`Budget`] limits the spending of servers and principals. They may spend nothing without an allowance.
//! - A [`ModelConfig`] is a table `[models.NAME]` of a configuration, and an [`AllowanceConfig`] a table with an
//!   allowance.
//!
//! A complete request:
//!
//! ```
//! use hospes_model::{CreateMessageParams, ModelHint, ModelPreferences, SamplingMessage};
//! use hospes_models::{BudgetAccount, Allowance, Budget, ModelCatalogue, Model, ScriptedProvider, ActualUsage};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let catalogue = ModelCatalogue::new([
//!     Model::new("small", ScriptedProvider::new(["Paris."])).aliases(["claude-3-haiku"]),
//!     Model::new("large", ScriptedProvider::new(["The capital of France is Paris."])),
//! ])?;
//! let mut budget = Budget::new();
//! budget.allow(BudgetAccount::server("travel"), Allowance::tokens(10_000));
//!
//! let wishes = ModelPreferences::new().with_hints(vec![ModelHint::new().with_name("haiku")]);
//! let mut params = CreateMessageParams::new(vec![SamplingMessage::user("The capital of France?")], 50)
//!     .with_model_preferences(wishes);
//! let (accounts, now) = ([BudgetAccount::server("travel")], jiff::Timestamp::now());
//! let choice = catalogue.choose_within(&params, |_, estimate| {
//!     budget.check(&accounts, estimate, now).map_err(|refused| refused.to_string())
//! })?;
//! assert_eq!(
//!     choice.reason.to_string(),
//!     "hint `haiku` → `claude-3-haiku`, alias of `small`, the only one that matches the hint"
//! );
//!
//! params.max_tokens = choice.estimate.max_tokens;
//! let reserved = budget.reserve(&accounts, &choice.estimate, now)?;
//! let outcome = choice.model.provider.generate(&params, &mut |_| {}).await;
//! let spent = match &outcome {
//!     Ok(answer) => ActualUsage::of_answer(answer, &choice.estimate),
//!     Err(failure) => ActualUsage::of_failure(failure),
//! };
//! budget.settle(reserved, spent, now);
//! assert_eq!(outcome?.result.text(), "Paris.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! # Map of the crate
//!
//! | Module | Content |
//! |---|---|
//! | `provider`, `providers` | [`ModelProvider`], and one module for each format |
//! | `http`, `limits`, `key` | requests over HTTP, with limits and retries; [`ApiKey`] |
//! | `conversation`, `answer_draft`, `tool_names` | what requests and answers have in common |
//! | `catalogue`, [`estimate`] | choosing a model; estimating the tokens of a request |
//! | `budget`, `money` | what may be spent |
//! | `config` | the tables of a configuration |
//! | `error` | errors of requests and settings |

mod answer_draft;
mod budget;
mod catalogue;
mod config;
mod conversation;
mod error;
pub mod estimate;
mod http;
mod key;
mod limits;
mod money;
mod provider;
mod providers;
mod tool_names;

pub use budget::{
    ActualUsage, Allowance, Budget, BudgetAccount, BudgetError, BudgetStatus, ParseAccountError,
    RemainingBudget, RequestRate, SpendingRecord, SpendingReservation,
};
pub use catalogue::{
    ChoiceReason, DuplicateModelError, ExcludedModel, ExclusionReason, HintMatch, Model, ModelAbilities,
    ModelCatalogue, ModelChoice, ModelChoiceError, ModelScores, PriorityKind, RequestEstimate,
    WeighedPriority,
};
pub use config::{AllowanceConfig, InputModality, ModelConfig, ProviderKind, ScriptedCall, ScriptedReply};
pub use error::{GenerationFailure, ModelError, SettingError, TimeoutStage};
pub use estimate::TokenEstimate;
pub use key::ApiKey;
pub use limits::ModelLimits;
pub use money::{Money, TokenPrices};
pub use provider::{
    AnswerDelta, DeltaListener, GenerationFuture, ModelAnswer, ModelProvider, OmittedPart, TokenUsage,
};
#[cfg(feature = "local-model")]
pub use providers::LocalModel;
pub use providers::{
    Anthropic, Gemini, MaxTokensField, Ollama, OpenAi, ProviderAccess, ScriptLine, ScriptedProvider,
    ScriptedRequest,
};
