//! Requests to the model within a reserved budget.

use std::time::Duration;

use hospes::Call;
use hospes_model::{CreateMessageParams, CreateMessageResult, RpcError};
use hospes_models::{ActualUsage, BudgetAccount, ModelChoice, Money, RequestEstimate, TokenUsage};
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::Sampler;
use super::budget_store::BudgetStoreError;

/// Interval between progress notifications while a model generates an answer.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Answer of a model, with its usage and cost.
pub(super) struct GeneratedMessage {
    pub(super) result: CreateMessageResult,
    pub(super) usage: Option<TokenUsage>,
    pub(super) cost: Money,
}

impl Sampler {
    pub(super) async fn generate(
        &self,
        call: &Call,
        model: &str,
        accounts: &[BudgetAccount],
        params: &CreateMessageParams,
    ) -> Result<GeneratedMessage, RpcError> {
        let found = self.catalogue.get(model);
        let model = found.ok_or_else(|| RpcError::invalid_params(format!("unknown model `{model}`")))?;
        // The person may have changed what is sent, and others may have spent meanwhile.
        let estimate = RequestEstimate::of(model, params);
        let mut aside = self.purse.set_aside(accounts, &estimate).await.map_err(|error| match error {
            BudgetStoreError::Refused(refused) => RpcError::invalid_request(refused.to_string()),
            unknown => RpcError::internal(unknown.to_string()),
        })?;
        // Whoever goes away from here on pays for all of it: nobody knows what it took.
        aside.begin();
        self.history.changed();
        let mut say = |_: hospes_models::AnswerDelta<'_>| {};
        let mut generating = model.provider.generate(params, &mut say);
        let mut reminders = interval_at(Instant::now() + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
        reminders.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // More than the reviews before can have reported (`hold`), because progress has to increase.
        let mut progress = 1e-6;
        let outcome = loop {
            // The answer first, so that nothing is reported about what is done.
            tokio::select! {
                biased;
                outcome = &mut generating => break outcome,
                _ = reminders.tick() => {
                    progress += 1e-9;
                    call.context.progress(progress, None, Some("waiting for the model"));
                }
            }
        };
        drop(generating);
        match outcome {
            Ok(answer) => {
                let cost = aside.settle(ActualUsage::of_answer(&answer, &estimate)).await;
                Ok(GeneratedMessage { usage: answer.usage, result: answer.result, cost })
            }
            Err(failure) => {
                aside.settle(ActualUsage::of_failure(&failure)).await;
                Err(RpcError::internal(format!("the model request failed: {}", failure.error)))
            }
        }
    }

    /// Describes the rest of the accounts' budgets.
    pub(super) fn describe_remaining(&self, accounts: &[BudgetAccount]) -> String {
        let (budget, now) = (self.purse.view(), Timestamp::now());
        let each = accounts.iter().map(|account| match budget.remaining(account, now) {
            None => format!("{account}: no allowance is set"),
            Some(left) => {
                let tokens = left.tokens.map(|tokens| format!("{tokens} tokens"));
                let money = left.money.map(|money| format!("{money} in the currency of your prices"));
                let parts: Vec<String> = tokens.into_iter().chain(money).collect();
                let left = if parts.is_empty() { "no limit".to_owned() } else { parts.join(" and ") };
                format!("{account}: {left}")
            }
        });
        each.collect::<Vec<_>>().join("; ")
    }

    /// Returns the estimate for a model that the person named instead of the chosen one.
    pub(super) fn estimate_named(
        &self,
        name: &str,
        params: &CreateMessageParams,
        choice: &ModelChoice<'_>,
    ) -> Option<RequestEstimate> {
        if choice.model.name == name {
            return Some(RequestEstimate::of(choice.model, params));
        }
        self.catalogue.get(name).map(|model| RequestEstimate::of(model, params))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hospes_models::{Allowance, Budget, Model, ModelCatalogue, ScriptedProvider};

    use super::*;

    #[test]
    fn money_that_is_left_names_its_currency() {
        let catalogue = ModelCatalogue::new([Model::shared(
            "small",
            Arc::new(ScriptedProvider::repeating(["Yes."])) as _,
        )]);
        let mut budget = Budget::new();
        let allowance = Allowance::money(Money::units(1.5).unwrap()).and_tokens(1000);
        budget.allow(BudgetAccount::server("notes"), allowance);
        let sampler = Sampler::new(catalogue.unwrap(), budget);
        let said = sampler.describe_remaining(&[BudgetAccount::server("notes")]);
        assert!(said.ends_with("1000 tokens and 1.50 in the currency of your prices"), "{said}");
    }
}
