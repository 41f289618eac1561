//! Language models behind sampling: asking them, choosing one, paying for it.
//!
//! A server asks for a generation with `sampling/createMessage` and leaves the choice of the model to the client. This
//! crate is what stands behind that choice; the reviews by a person stand before it, in the host.
//!
//! - A [`Provider`] is one model that can be asked: [`OpenAi`] and what is compatible with it, [`Anthropic`], [`Gemini`],
//!   [`Ollama`], a file in this process with the feature `local-model`, and [`Scripted`] for tests. Requests and results are those of the specification; a part that the
//!   provider has no place for is an error before anything is sent.
//! - A [`Catalogue`] holds the configured [`Model`]s and [chooses](Catalogue::choose) one for a request, with the
//!   [`Reason`] in words.
//! - A [`Budget`] says what servers and principals may spend: nothing, until somebody allows it.
//! - A [`ModelConfig`] is a table `[models.NAME]` of a configuration, an [`AllowanceConfig`] a table of what somebody may
//!   spend.
//!
//! One request, from end to end:
//!
//! ```
//! use hospes_model::{CreateMessageParams, ModelHint, ModelPreferences, SamplingMessage};
//! use hospes_models::{Account, Allowance, Budget, Catalogue, Model, Scripted, Spent};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let catalogue = Catalogue::new([
//!     Model::new("small", Scripted::new(["Paris."])).aliases(["claude-3-haiku"]),
//!     Model::new("large", Scripted::new(["The capital of France is Paris."])),
//! ])?;
//! let mut budget = Budget::new();
//! budget.allow(Account::server("travel"), Allowance::tokens(10_000));
//!
//! let wishes = ModelPreferences::new().with_hints(vec![ModelHint::new().with_name("haiku")]);
//! let mut params = CreateMessageParams::new(vec![SamplingMessage::user("The capital of France?")], 50)
//!     .with_model_preferences(wishes);
//! let (accounts, now) = ([Account::server("travel")], jiff::Timestamp::now());
//! let choice = catalogue.choose_within(&params, |_, estimate| {
//!     budget.check(&accounts, estimate, now).map_err(|refused| refused.to_string())
//! })?;
//! assert_eq!(
//!     choice.reason.to_string(),
//!     "hint `haiku` → `claude-3-haiku`, alias of `small`, the only one that fits the hint"
//! );
//!
//! params.max_tokens = choice.estimate.max_tokens;
//! let reserved = budget.reserve(&accounts, &choice.estimate, now)?;
//! let outcome = choice.model.provider.generate(&params, &mut |_| {}).await;
//! let spent = match &outcome {
//!     Ok(answer) => Spent::of_answer(answer, &choice.estimate),
//!     Err(failure) => Spent::of_failure(failure),
//! };
//! budget.settle(reserved, spent, now);
//! assert_eq!(outcome?.result.text(), "Paris.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod budget;
mod catalogue;
mod config;
mod conversation;
mod draft;
mod error;
pub mod estimate;
mod http;
mod key;
mod limits;
mod money;
mod names;
mod provider;
mod providers;

pub use budget::{
    Account, Allowance, BadAccount, Budget, Left, Rate, Refused, Reservation, Spending, Spent, Standing,
};
pub use catalogue::{
    Abilities, Catalogue, Choice, DuplicateModel, Estimate, Matched, Model, NoModel, PassedOver, Reason,
    Scores, Shortage, Weighed, Wish,
};
pub use config::{AllowanceConfig, Modality, ModelConfig, ProviderKind, ScriptedCall, ScriptedReply};
pub use error::{Failure, ModelError, SettingError, Stage};
pub use estimate::TokenEstimate;
pub use key::ApiKey;
pub use limits::Limits;
pub use money::{Money, Prices};
pub use provider::{Answer, Delta, Generating, LeftOut, Listener, Provider, Usage};
#[cfg(feature = "local-model")]
pub use providers::LocalModel;
pub use providers::{Access, Anthropic, Asked, Gemini, MaxTokensField, Ollama, OpenAi, Reply, Scripted};
