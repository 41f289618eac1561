//! Overview of the models, their recent use and the budgets, for display to a person.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hospes_models::{Allowance, Budget, BudgetAccount, Model, TokenUsage};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tokio::sync::watch;

use super::Sampler;

/// Maximum number of history entries.
const MAX_HISTORY_ENTRIES: usize = 50;

/// Overview of the models and their use. Amounts of money are texts, in the currency of the prices.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingOverview {
    /// The models, in the order of the configuration.
    pub models: Vec<ModelOverview>,
    /// Time that a person has for each review of a request, in milliseconds.
    pub review_timeout_ms: u64,
    /// Allowance of servers without their own. `None` if they may spend nothing.
    pub every_server: Option<AllowanceOverview>,
    /// Allowances and spending of servers and principals, by name.
    pub budgets: Vec<BudgetOverview>,
    /// True if spending persists across restarts.
    pub is_kept: bool,
    /// Recent sampling requests since the host started, newest first, at most 50.
    pub lately: Vec<SamplingHistoryEntry>,
}

/// A configured model, without secrets.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelOverview {
    /// The name it is configured under.
    pub name: String,
    /// Name of the provider, such as `OpenAI`.
    pub provider: String,
    /// Name of the model at the provider.
    pub model: String,
    /// Other names that match it.
    pub aliases: Vec<String>,
    /// Cost priority, from 0 to 1; 1 is the cheapest.
    pub cost: f64,
    /// Speed, from 0 to 1.
    pub speed: f64,
    /// Intelligence, from 0 to 1.
    pub intelligence: f64,
    /// Prices of a million tokens of the prompt, and of the answer.
    pub prices: Option<(String, String)>,
    /// True if it accepts images.
    pub images: bool,
    /// True if it accepts audio.
    pub audio: bool,
    /// True if it supports tools.
    pub tools: bool,
    /// The tokens that prompt and answer may have together.
    pub context: Option<u64>,
    /// The tokens that an answer may have.
    pub max_output: Option<u64>,
}

/// Limits of spending. A missing limit does not apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AllowanceOverview {
    /// Tokens, in and out, within the window.
    pub tokens: Option<u64>,
    /// Money within the window.
    pub money: Option<String>,
    /// Time for which spending counts, in milliseconds.
    pub window_ms: u64,
    /// Maximum number of requests in `per_ms`.
    pub calls: Option<u32>,
    /// Period of the rate, in milliseconds.
    pub per_ms: Option<u64>,
}

/// Status of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BudgetOverview {
    /// The account, such as `server:files`.
    pub account: String,
    /// Allowance of the account. `None` if it is not set; the account may then spend nothing.
    pub allowance: Option<AllowanceOverview>,
    /// Tokens that were spent within the window.
    pub spent_tokens: u64,
    /// Tokens reserved for requests in progress.
    pub reserved_tokens: u64,
    /// Tokens that may still be spent. `None` means no limit.
    pub left_tokens: Option<u64>,
    /// Money that was spent within the window.
    pub spent_money: String,
    /// Money that is set aside.
    pub reserved_money: String,
    /// Money that may still be spent. `None` means no limit.
    pub left_money: Option<String>,
}

/// A sampling request with the chosen model and its outcome.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingHistoryEntry {
    /// Sequence number.
    pub number: u64,
    /// Time of the request.
    pub at: Timestamp,
    /// Server that sent the request.
    pub server: String,
    /// Tool, prompt or URI whose call caused the request.
    pub cause: Option<String>,
    /// The model; another than was chosen where the person named one.
    pub model: String,
    /// Reason that the model was chosen, as text.
    pub reason: String,
    /// True if the person named this model in place of the chosen one.
    pub is_named: bool,
    /// State of the request.
    pub state: SamplingEntryState,
    /// Input and output tokens, if the provider reported them.
    pub usage: Option<(u64, u64)>,
    /// Cost of the request. `None` without prices.
    pub cost: Option<String>,
}

/// State of a sampling request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SamplingEntryState {
    /// It waits for a person or for the model.
    UnderWay,
    /// The server got an answer.
    Answered,
    /// Denied by a person or a rule.
    Refused,
    /// The model gave no answer.
    Failed,
    /// The requester disconnected.
    Cancelled,
}

/// History of sampling requests. Cheap to clone; all clones share one history.
#[derive(Clone, Debug, Default)]
pub(super) struct SamplingHistory(Arc<SamplingHistoryInner>);

#[derive(Debug, Default)]
struct SamplingHistoryInner {
    /// Recent requests, newest last.
    chosen: Mutex<VecDeque<SamplingHistoryEntry>>,
    changes: watch::Sender<u64>,
}

/// A request in progress. Dropping it before its end marks it as cancelled.
pub(super) struct SamplingInProgress {
    history: SamplingHistory,
    number: u64,
}

impl SamplingHistory {
    pub(super) fn begin(
        &self,
        server: &str,
        cause: Option<&str>,
        model: &str,
        reason: String,
    ) -> SamplingInProgress {
        let mut chosen = self.chosen();
        let number = chosen.back().map_or(1, |last| last.number + 1);
        if chosen.len() >= MAX_HISTORY_ENTRIES {
            chosen.pop_front();
        }
        chosen.push_back(SamplingHistoryEntry {
            number,
            at: Timestamp::now(),
            server: server.to_owned(),
            cause: cause.map(str::to_owned),
            model: model.to_owned(),
            reason,
            is_named: false,
            state: SamplingEntryState::UnderWay,
            usage: None,
            cost: None,
        });
        // Whoever is woken by the change looks at the list.
        drop(chosen);
        self.changed();
        SamplingInProgress { history: self.clone(), number }
    }

    pub(super) fn changed(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }

    fn chosen(&self) -> MutexGuard<'_, VecDeque<SamplingHistoryEntry>> {
        self.0.chosen.lock()
    }
}

impl SamplingInProgress {
    pub(super) fn named(&self, model: &str) {
        self.change(|chosen| {
            chosen.is_named |= chosen.model != model;
            model.clone_into(&mut chosen.model);
        });
    }

    pub(super) fn answered(&self, usage: Option<TokenUsage>, cost: Option<String>) {
        self.change(|chosen| {
            chosen.usage = usage.map(|usage| (usage.input_tokens, usage.output_tokens));
            chosen.cost = cost;
        });
    }

    pub(super) fn end(self, state: SamplingEntryState) {
        self.change(|chosen| chosen.state = state);
    }

    fn change(&self, change: impl FnOnce(&mut SamplingHistoryEntry)) {
        if let Some(chosen) = self.history.chosen().iter_mut().find(|chosen| chosen.number == self.number) {
            change(chosen);
        }
        self.history.changed();
    }
}

impl Drop for SamplingInProgress {
    fn drop(&mut self) {
        self.change(|chosen| {
            if chosen.state == SamplingEntryState::UnderWay {
                chosen.state = SamplingEntryState::Cancelled;
            }
        });
    }
}

impl Sampler {
    /// Returns an overview of the models, with the budgets of these servers.
    ///
    /// # Errors
    /// A description, if the spending cannot be read.
    pub async fn overview<'s>(
        &self,
        servers: impl IntoIterator<Item = &'s str>,
    ) -> Result<SamplingOverview, String> {
        self.purse.refresh().await.map_err(|error| error.to_string())?;
        let (budget, now) = (self.purse.view(), Timestamp::now());
        let mut accounts: BTreeSet<BudgetAccount> = servers.into_iter().map(BudgetAccount::server).collect();
        accounts.extend(budget.accounts().cloned());
        Ok(SamplingOverview {
            models: self.catalogue.iter().map(ModelOverview::new).collect(),
            review_timeout_ms: millis(self.review_timeout),
            every_server: budget.servers_allowance().map(AllowanceOverview::new),
            budgets: accounts.iter().map(|account| BudgetOverview::new(&budget, account, now)).collect(),
            is_kept: self.purse.is_kept(),
            lately: self.history.chosen().iter().rev().cloned().collect(),
        })
    }

    /// Returns a counter of changes of requests and spending.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.history.0.changes.subscribe()
    }
}

impl ModelOverview {
    fn new(model: &Model) -> Self {
        Self {
            name: model.name.clone(),
            provider: model.provider.name().to_owned(),
            model: model.provider.model().to_owned(),
            aliases: model.aliases.clone(),
            cost: model.scores.cost,
            speed: model.scores.speed,
            intelligence: model.scores.intelligence,
            prices: model.prices.map(|prices| (prices.input.to_string(), prices.output.to_string())),
            images: model.abilities.images,
            audio: model.abilities.audio,
            tools: model.abilities.tools,
            context: model.abilities.context,
            max_output: model.abilities.max_output,
        }
    }
}

impl AllowanceOverview {
    fn new(allowance: &Allowance) -> Self {
        Self {
            tokens: allowance.tokens,
            money: allowance.money.map(|money| money.to_string()),
            window_ms: millis(allowance.window),
            calls: allowance.rate.map(|rate| rate.calls),
            per_ms: allowance.rate.map(|rate| millis(rate.per)),
        }
    }
}

impl BudgetOverview {
    fn new(budget: &Budget, account: &BudgetAccount, now: Timestamp) -> Self {
        let (standing, left) = (budget.status(account, now), budget.remaining(account, now));
        Self {
            account: account.to_string(),
            allowance: standing.allowance.as_ref().map(AllowanceOverview::new),
            spent_tokens: standing.spent_tokens,
            reserved_tokens: standing.reserved_tokens,
            left_tokens: left.and_then(|left| left.tokens),
            spent_money: standing.spent_money.to_string(),
            reserved_money: standing.reserved_money.to_string(),
            left_money: left.and_then(|left| left.money).map(|money| money.to_string()),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
