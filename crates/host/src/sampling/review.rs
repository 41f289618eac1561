//! Reviews of a server's request and of the model's answer by a person.

use hospes::{Call, redact};
use hospes_inspect::secrets::find_secrets;
use hospes_model::{CreateMessageParams, CreateMessageResult, IncludeContext, RawJson, RpcError};
use hospes_models::{BudgetAccount, ModelChoice, Money};
use hospes_store::DecisionBasis;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::generate::GeneratedMessage;
use super::{Sampler, SamplingCause, rejected};
use crate::approvals::{
    ApprovalCard, ApprovalOutcome, ApprovalQueueError, DecisionOptions, EditCheck, NewApproval,
    SamplingRequestCard, SamplingResultCard,
};
use crate::guard::{PolicyEnforcer, wait_for_decision};

/// Details of a request that the person is shown besides its params.
pub(super) struct SamplingReviewContext<'a> {
    pub(super) cause: SamplingCause<'a>,
    pub(super) choice: &'a ModelChoice<'a>,
    pub(super) accounts: &'a [BudgetAccount],
    pub(super) context: Option<&'a IncludeContext>,
}

/// Error of a review with the basis of the denial.
type ReviewError = (RpcError, DecisionBasis);

/// The model named in an edit of the params.
#[derive(Deserialize)]
struct EditedModelName {
    model: Option<String>,
}

impl Sampler {
    /// Returns the request that the person approved, the name of another model if they chose one, and the author of the
    /// approval with its basis.
    pub(super) async fn review_request(
        &self,
        guard: &PolicyEnforcer,
        call: &Call,
        asked: &SamplingReviewContext<'_>,
        params: &CreateMessageParams,
    ) -> Result<(CreateMessageParams, Option<String>, String, DecisionBasis), ReviewError> {
        let SamplingReviewContext { cause, choice, accounts, context } = *asked;
        let request = written(params).map_err(by_host)?;
        let card = SamplingRequestCard {
            cause: cause.subject.map(str::to_owned),
            request: request.clone(),
            context: context
                .filter(|context| **context != IncludeContext::None)
                .map(|context| format!("the server requested context ({}); none is added", context.as_str())),
            model: choice.model.name.clone(),
            reason: choice.reason.to_string(),
            models: self.catalogue.iter().map(|model| model.name.clone()).collect(),
            tokens: choice.estimate.input.likely,
            max_tokens: choice.estimate.max_tokens,
            cost: choice.estimate.cost.map(|cost| cost.to_string()),
            remaining: self.describe_remaining(accounts),
        };
        let models: Vec<String> = card.models.clone();
        let most = params.max_tokens;
        let check: EditCheck = Box::new(move |edited| read_request(edited, most, &models).map(drop));
        let card = ApprovalCard::SamplingRequest(Box::new(card));
        let waiting = self.submit_review(guard, call, cause, card, &request, check).map_err(by_host)?;
        match wait_for_decision(call, &waiting).await {
            // The person may have taken long: an approval does not outlast the rules.
            Ok(ApprovalOutcome::Allowed { .. }) if guard.has_forbidden_sampling(call, cause.server) => {
                Err((rejected("the rules have changed in the meantime"), DecisionBasis::Rule))
            }
            Ok(ApprovalOutcome::Allowed { edited: None, by, basis, .. }) => {
                Ok((params.clone(), None, by, basis))
            }
            Ok(ApprovalOutcome::Allowed { edited: Some(edited), by, basis, .. }) => {
                // The check before the decision only says whether it can be read, so it is read once more.
                let models: Vec<String> = self.catalogue.iter().map(|model| model.name.clone()).collect();
                let read = read_request(&edited, most, &models).map_err(RpcError::invalid_params);
                let (edited, model) = read.map_err(by_host)?;
                let name = model.as_deref().unwrap_or(&choice.model.name);
                if self.estimate_named(name, &edited, choice).is_none() {
                    return Err(by_host(RpcError::invalid_params(format!("unknown model `{name}`"))));
                }
                Ok((edited, model, format!("{by}, with edits"), basis))
            }
            denied => Err(denial_error(denied)),
        }
    }

    /// Returns the result that the person approved for the server.
    pub(super) async fn review_result(
        &self,
        guard: &PolicyEnforcer,
        call: &Call,
        cause: SamplingCause<'_>,
        params: &CreateMessageParams,
        generated: GeneratedMessage,
    ) -> Result<CreateMessageResult, ReviewError> {
        let result = written(&generated.result).map_err(by_host)?;
        let card = SamplingResultCard {
            cause: cause.subject.map(str::to_owned),
            request: written(params).map_err(by_host)?,
            findings: findings(&result),
            result: result.clone(),
            usage: generated.usage.map(|usage| (usage.input_tokens, usage.output_tokens)),
            cost: Some(generated.cost).filter(|cost| *cost != Money::ZERO).map(|cost| cost.to_string()),
        };
        let check: EditCheck = Box::new(|edited| read_result(edited).map(drop));
        let card = ApprovalCard::SamplingResult(Box::new(card));
        let waiting = self.submit_review(guard, call, cause, card, &result, check).map_err(by_host)?;
        match wait_for_decision(call, &waiting).await {
            Ok(ApprovalOutcome::Allowed { .. }) if guard.has_forbidden_sampling(call, cause.server) => {
                Err((rejected("the rules have changed in the meantime"), DecisionBasis::Rule))
            }
            Ok(ApprovalOutcome::Allowed { edited: None, .. }) => Ok(generated.result),
            Ok(ApprovalOutcome::Allowed { edited: Some(edited), .. }) => {
                read_result(&edited).map_err(RpcError::invalid_params).map_err(by_host)
            }
            denied => Err(denial_error(denied)),
        }
    }

    fn submit_review(
        &self,
        guard: &PolicyEnforcer,
        call: &Call,
        cause: SamplingCause<'_>,
        card: ApprovalCard,
        shown: &RawJson,
        check: EditCheck,
    ) -> Result<crate::approvals::ApprovalWaiter, RpcError> {
        let asking = NewApproval {
            principal: call.context.principal().map(str::to_owned),
            groups: Vec::new(),
            approvers: None,
            application: call.context.peer().info.as_ref().map(|info| info.name.clone()),
            server: cause.server.to_owned(),
            profile: cause.profile.map(str::to_owned),
            endpoint_profile: cause.endpoint_profile.map(str::to_owned),
            offers: DecisionOptions { edit: true, ..DecisionOptions::default() },
            card,
            timeout: self.review_timeout,
            bond: Sha256::digest(shown.as_bytes()).into(),
            // One server's questions leave room for those of others.
            asker: Sha256::digest(cause.server).into(),
            caller: call.context.peer().caller.clone(),
            is_weak: false,
            definition: None,
            target: String::new(),
            session: None,
            returns: false,
            check: Some(check),
        };
        guard.approvals().submit(asking).map_err(|refused| rejected(&refused.message()))
    }
}

fn denial_error(settled: Result<ApprovalOutcome, ApprovalQueueError>) -> ReviewError {
    match settled {
        Ok(ApprovalOutcome::Denied { reason, basis, .. }) => {
            (rejected(reason.as_deref().unwrap_or("the user denied it")), basis)
        }
        Ok(ApprovalOutcome::Allowed { basis, .. }) => (rejected("the user denied it"), basis),
        Err(error) => (rejected("it was not reviewed in time (setting review_timeout)"), error.basis()),
    }
}

fn by_host(error: RpcError) -> ReviewError {
    (error, DecisionBasis::Host)
}

fn written(value: &impl serde::Serialize) -> Result<RawJson, RpcError> {
    RawJson::from_serialize(value).map_err(|error| RpcError::internal(error.to_string()))
}

/// Validates an edited request: it must not raise the token limit, and must name an existing model.
fn read_request(
    edited: &RawJson,
    most: u64,
    models: &[String],
) -> Result<(CreateMessageParams, Option<String>), String> {
    let named: EditedModelName = edited.decode().map_err(|error| error.to_string())?;
    let params: CreateMessageParams = edited.decode().map_err(|error| error.to_string())?;
    // The cost that the person is shown, and the budget, are reckoned with no more than that.
    if params.max_tokens > most {
        return Err(format!("maxTokens cannot be greater than {most}"));
    }
    if params.max_tokens == 0 || params.messages.is_empty() {
        return Err("messages and maxTokens are required".to_owned());
    }
    if let Some(name) = &named.model
        && !models.contains(name)
    {
        return Err(format!("unknown model `{name}`; available models: {}", models.join(", ")));
    }
    Ok((params, named.model))
}

fn read_result(edited: &RawJson) -> Result<CreateMessageResult, String> {
    edited.decode().map_err(|error: serde_json::Error| error.to_string())
}

/// Describes content that looks like a secret.
fn findings(result: &RawJson) -> Vec<String> {
    let Ok(before) = result.to_value() else { return Vec::new() };
    let mut hidden = before.clone();
    redact::value(&mut hidden);
    let mut all = Vec::new();
    if hidden != before {
        all.push("it contains text that looks like a secret or an address".to_owned());
    }
    let mut kinds: Vec<_> = find_secrets(result.as_str()).into_iter().map(|found| found.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    all.extend(kinds.into_iter().map(|kind| format!("it contains a secret: {kind}")));
    all
}
