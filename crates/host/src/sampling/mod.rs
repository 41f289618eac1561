//! Sampling with the host's models, for servers whose applications offer none.
//!
//! A person sees the request, the chosen model with the reason, and the maximum cost. The person then sees the answer
//! before the server gets it. Both can be edited or denied. A server's budget is zero until it is set.

mod budget_store;
mod generate;
mod overview;
mod review;

use std::sync::Arc;
use std::time::Duration;

use hospes::Call;
use hospes_model::{CreateMessageParams, CreateMessageResult, IncludeContext, RpcError, code};
use hospes_models::{Budget, BudgetAccount, ModelCatalogue, ModelChoice, Money};
use hospes_policy::PolicyDecision;
use hospes_store::{AuditEntry, AuditEntryKind, AuditOutcome, DecisionBasis, StateStore};
use jiff::Timestamp;

use crate::config::ModelsConfig;
use crate::guard::{PendingAuditEntry, PolicyEnforcer, basis_of};
use budget_store::BudgetStore;
use overview::{SamplingHistory, SamplingInProgress};

pub use overview::{
    AllowanceOverview, BudgetOverview, ModelOverview, SamplingEntryState, SamplingHistoryEntry,
    SamplingOverview,
};

/// Time that a person has for each review of a server's sampling request: the setting `review_timeout`. Without a
/// decision the request is denied.
pub const DEFAULT_REVIEW_TIMEOUT: Duration = Duration::from_secs(300);

/// Models and the budgets of servers for them.
#[derive(Debug)]
pub struct Sampler {
    catalogue: ModelCatalogue,
    purse: BudgetStore,
    history: SamplingHistory,
    review_timeout: Duration,
}

/// Origin of a sampling request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SamplingCause<'a> {
    pub(crate) server: &'a str,
    /// Profile for which the server runs, if it has the secrets of one.
    pub(crate) profile: Option<&'a str>,
    /// Profile whose endpoint the application uses.
    pub(crate) endpoint_profile: Option<&'a str>,
    /// Tool, prompt or URI whose call caused the request.
    pub(crate) subject: Option<&'a str>,
}

/// Decisions about a sampling request.
struct SamplingPlan<'a> {
    choice: ModelChoice<'a>,
    /// Accounts that are charged.
    accounts: Vec<BudgetAccount>,
    context: Option<IncludeContext>,
    /// True if a person reviews the request.
    asks: bool,
    /// True if a person reviews the answer.
    reviews: bool,
}

impl Sampler {
    /// Creates the sampler that a configuration describes. None without a model.
    #[must_use]
    pub fn from_config(config: ModelsConfig) -> Option<Self> {
        if config.models.is_empty() {
            return None;
        }
        let mut budget = Budget::new();
        budget.allow_servers(config.every_server);
        for (server, allowance) in config.servers {
            budget.allow(BudgetAccount::server(server), allowance);
        }
        // The reader of the file rejects a second table of the same name.
        let catalogue = ModelCatalogue::new(config.models).ok()?;
        let sampler = Self::new(catalogue, budget);
        Some(match config.review_timeout {
            Some(timeout) => sampler.with_review_timeout(timeout),
            None => sampler,
        })
    }

    /// Creates a sampler with these models and budgets. The spending is lost when this is dropped, unless it is
    /// [kept](Self::kept_in).
    #[must_use]
    pub fn new(catalogue: ModelCatalogue, budget: Budget) -> Self {
        let (purse, history) = (BudgetStore::new(budget, None), SamplingHistory::default());
        Self { catalogue, purse, history, review_timeout: DEFAULT_REVIEW_TIMEOUT }
    }

    /// Stores the spending in the host's state, so that it survives restarts and is shared with other processes. While
    /// the state cannot be read or written, nothing is spent.
    #[must_use]
    pub fn kept_in(mut self, state: &StateStore) -> Self {
        let budget = self.purse.view().clone();
        self.purse = BudgetStore::new(budget, Some(state.budgets()));
        self
    }

    /// Sets the time that a person has for each review; by default [`DEFAULT_REVIEW_TIMEOUT`].
    #[must_use]
    pub fn with_review_timeout(mut self, timeout: Duration) -> Self {
        self.review_timeout = timeout;
        self
    }

    /// Returns the models.
    #[must_use]
    pub fn catalogue(&self) -> &ModelCatalogue {
        &self.catalogue
    }

    /// Returns true if there is no model. Sampling is then not offered to servers.
    pub(crate) fn is_empty(&self) -> bool {
        self.catalogue.is_empty()
    }

    /// Answers a server's request, if the rules and the person let it.
    ///
    /// # Errors
    /// An error for the server, with the code -1 if a person or a rule denied the request.
    pub(crate) async fn answer(
        &self,
        guard: &Arc<PolicyEnforcer>,
        call: &Call,
        cause: SamplingCause<'_>,
        params: CreateMessageParams,
    ) -> Result<CreateMessageResult, RpcError> {
        let mut entry = AuditEntry::new(AuditEntryKind::Sampling);
        entry.server = Some(cause.server.to_owned());
        entry.profile = cause.endpoint_profile.map(str::to_owned);
        entry.principal = call.context.principal().map(str::to_owned);
        let mut note = PendingAuditEntry::new(guard, entry);
        let answered = self.answer_noted(guard, call, cause, params, &mut note).await;
        match &answered {
            Ok(_) => note.end(AuditOutcome::Done, None).await,
            Err(error) if error.code == code::USER_REJECTED => note.end(AuditOutcome::Refused, None).await,
            Err(error) => note.end(AuditOutcome::Failed, Some(error.code)).await,
        }
        answered
    }

    async fn answer_noted(
        &self,
        guard: &Arc<PolicyEnforcer>,
        call: &Call,
        cause: SamplingCause<'_>,
        mut params: CreateMessageParams,
        note: &mut PendingAuditEntry,
    ) -> Result<CreateMessageResult, RpcError> {
        let verdict = guard.decide_sampling(call, cause.server);
        let because = verdict.because.to_string();
        note.set_decision(&verdict.decision.to_string(), &because, basis_of(&verdict.because));
        if verdict.decision == PolicyDecision::Deny {
            return Err(rejected("it is not allowed by the rules"));
        }
        if let Some(approvers) = &verdict.approvers {
            note.set_decision("deny", "approvers decide about calls only", DecisionBasis::Host);
            return Err(rejected(&format!(
                "a member of {approvers} has to approve it, and approvers decide about calls only; a rule above with \
                 `about = \"sampling\"` decides otherwise"
            )));
        }
        let asks = verdict.decision == PolicyDecision::Ask;
        let reviews = asks || verdict.review;
        if reviews && !guard.approvals().is_attended() {
            note.set_decision("deny", "no approver is available", DecisionBasis::Unanswered);
            return Err(rejected("it requires review by a person, and none is available"));
        }
        // What of the conversation could be added is the application's, and not known here.
        let context = params.include_context.take();
        // What others have spent is known before anybody chooses, or nothing is.
        self.purse.refresh().await.map_err(|error| RpcError::internal(error.to_string()))?;
        let accounts = self.accounts(call, cause.server);
        let choice = self.choose(&params, &accounts)?;
        // The model is asked for no more than what is set aside for it.
        params.max_tokens = choice.estimate.max_tokens;
        let model = choice.model.name.clone();
        note.subject(&model);
        let mark = self.history.begin(cause.server, cause.subject, &model, choice.reason.to_string());
        let plan = SamplingPlan { choice, accounts, context, asks, reviews };
        let answered = self.answer_chosen(guard, call, cause, params, &plan, (note, &mark)).await;
        mark.end(match &answered {
            Ok(_) => SamplingEntryState::Answered,
            Err(error) if error.code == code::USER_REJECTED => SamplingEntryState::Refused,
            Err(_) => SamplingEntryState::Failed,
        });
        answered
    }

    /// Answers the request with the chosen model.
    async fn answer_chosen(
        &self,
        guard: &Arc<PolicyEnforcer>,
        call: &Call,
        cause: SamplingCause<'_>,
        mut params: CreateMessageParams,
        plan: &SamplingPlan<'_>,
        (note, mark): (&mut PendingAuditEntry, &SamplingInProgress),
    ) -> Result<CreateMessageResult, RpcError> {
        let SamplingPlan { choice, accounts, context, asks, reviews } = plan;
        let mut model = choice.model.name.clone();
        if *asks {
            let asked = review::SamplingReviewContext { cause, choice, accounts, context: context.as_ref() };
            let reviewed = self.review_request(guard, call, &asked, &params).await;
            let reviewed = reviewed.map_err(|(error, basis)| {
                note.set_decision("deny", "the person", basis);
                error
            });
            let (edited, other, by, basis) = reviewed?;
            note.set_decision("allow", &by, basis);
            params = edited;
            model = other.unwrap_or(model);
            note.subject(&model);
            mark.named(&model);
        }
        let generated = self.generate(call, &model, accounts, &params).await?;
        let cost = Some(generated.cost).filter(|cost| *cost != Money::ZERO).map(|cost| cost.to_string());
        mark.answered(generated.usage, cost);
        if !*reviews {
            return Ok(generated.result);
        }
        self.review_result(guard, call, cause, &params, generated).await.map_err(|(error, basis)| {
            note.set_decision("deny", "the person, reviewing the answer", basis);
            error
        })
    }

    /// Returns the accounts that are charged: the server, and the signed-in user if an allowance is set for it.
    fn accounts(&self, call: &Call, server: &str) -> Vec<BudgetAccount> {
        let mut accounts = vec![BudgetAccount::server(server)];
        let principal = call.context.principal().map(BudgetAccount::principal);
        accounts.extend(principal.filter(|account| self.purse.view().allowance(account).is_some()));
        accounts
    }

    fn choose(
        &self,
        params: &CreateMessageParams,
        accounts: &[BudgetAccount],
    ) -> Result<ModelChoice<'_>, RpcError> {
        // A copy, so that the lock is not held while all models are compared.
        let (budget, now) = (self.purse.view().clone(), Timestamp::now());
        let affordable = |_: &_, estimate: &_| {
            budget.check(accounts, estimate, now).map_err(|refused| refused.to_string())
        };
        self.catalogue
            .choose_within(params, affordable)
            .map_err(|none| RpcError::invalid_request(format!("no model is available: {none}")))
    }
}

/// Creates the error for a server whose request is denied.
fn rejected(why: &str) -> RpcError {
    RpcError::new(code::USER_REJECTED, format!("User rejected sampling request: {why}"))
}
