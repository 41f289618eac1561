//! Requests of servers that the host answers itself if the application cannot: with its own model, or by the person at
//! the console.

use std::sync::Arc;

use hospes::client::UrlReview;
use hospes::{Call, Outcome, PendingInput, redact};
use hospes_model::{
    CallToolResult, ClientCapabilities, ElicitAction, ElicitParams, ElicitResult, ElicitSchema, InputRequest,
    Method, RawJson, RpcError, code,
};
use hospes_policy::{PolicyDecision as Ruling, PolicyVerdict};
use hospes_store::{AuditEntry, AuditEntryKind, AuditOutcome, DecisionBasis};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::declared_extensions::shares_extension;
use super::elicitation;
use super::handle::Gateway;
use crate::approvals::{ApprovalCard, ApprovalOutcome, DecisionOptions, FormCard, NewApproval, UrlCard};
use crate::guard::{PendingAuditEntry, PolicyEnforcer, basis_of, wait_for_decision};
use crate::sampling::SamplingCause;
use crate::server::CapabilitySet;
use crate::upstream::ReadyConnection;

/// Maximum number of rounds of a server's questions that are answered here in one call.
pub(super) const MAX_OWN_ROUNDS: u32 = 32;

/// Result of answering a server's questions.
pub(super) enum LocalAnswerOutcome {
    /// All questions have answers; the call continues.
    All(Box<hospes::Round>),
    /// Some are left, for the application.
    Left(PendingInput),
    /// The call ends with this outcome.
    Ended(Outcome),
}

impl Gateway {
    /// Returns the capabilities that the host adds to those of the application.
    pub(crate) fn own_abilities(&self) -> CapabilitySet {
        self.shared.own_abilities()
    }

    /// Declares on a call the requests that the host can answer in addition to the application.
    pub(super) fn declare_local_answers(&self, call: &Call) {
        let own = self.own_abilities();
        if own != CapabilitySet::NONE {
            let theirs = CapabilitySet::of(&call.context.peer().capabilities);
            let mut all = ClientCapabilities::clone(&call.context.peer().capabilities);
            let both = theirs.and(own).capabilities();
            // Only these two can be answered here; roots and extensions stay as the application declared them.
            (all.sampling, all.elicitation) = (both.sampling, both.elicitation);
            call.context.set_answerable_capabilities(all);
        }
    }

    /// Refuses those of a server's questions that no person should be asked, and requests of extensions that the two do not
    /// share (EXT-31); the others as a person may see them.
    pub(super) async fn screen_questions(
        &self,
        call: &Call,
        (cause, live): (SamplingCause<'_>, &ReadyConnection),
        questions: PendingInput,
    ) -> LocalAnswerOutcome {
        let PendingInput { requests, mut round, .. } = questions;
        let (mut left, mut refusals) = (Vec::new(), Vec::new());
        for (key, request) in requests {
            let error = match request {
                InputRequest::Elicit(params) => match elicitation::screen(*params) {
                    Ok(params) => {
                        left.push((key, InputRequest::Elicit(Box::new(params))));
                        continue;
                    }
                    Err(why) => {
                        tracing::warn!(server = cause.server, %why, "elicitation rejected");
                        self.note_refused(cause, &why.to_string()).await;
                        why.to_rpc_error()
                    }
                },
                InputRequest::Other { ref method, .. }
                    if !shares_extension(live, &call.context.peer().capabilities) =>
                {
                    tracing::debug!(
                        server = cause.server,
                        method,
                        "request rejected: no extension in common"
                    );
                    RpcError::method_not_found(method)
                }
                request => {
                    left.push((key, request));
                    continue;
                }
            };
            // A server of 2026-07-28 cannot be answered with an error, so its call ends.
            if !round.takes_refusals {
                return LocalAnswerOutcome::Ended(refused(call, cause, &error));
            }
            refusals.push((key, error));
        }
        if left.is_empty() && !refusals.is_empty() {
            round.record_answer_results(refusals.into_iter().map(|(key, error)| (key, Err(error))));
            return LocalAnswerOutcome::All(Box::new(round));
        }
        round.refused.extend(refusals);
        LocalAnswerOutcome::Left(PendingInput::new(left, round))
    }

    /// Records an elicitation that was refused.
    async fn note_refused(&self, cause: SamplingCause<'_>, why: &str) {
        let Some(guard) = &self.shared.guard else { return };
        let mut note = PendingAuditEntry::new(guard, elicitation_entry(cause));
        note.set_decision("deny", why, DecisionBasis::Host);
        note.end(AuditOutcome::Refused, None).await;
    }

    /// Answers those of a server's questions that the application cannot.
    pub(super) async fn answer_locally(
        &self,
        call: &Call,
        cause: SamplingCause<'_>,
        questions: PendingInput,
    ) -> Result<LocalAnswerOutcome, RpcError> {
        let theirs = &call.context.peer().capabilities;
        let can = |request: &InputRequest| request.check_required_capability(theirs).is_ok();
        let Some(guard) = &self.shared.guard else { return Ok(LocalAnswerOutcome::Left(questions)) };
        let PendingInput { requests, mut round, .. } = questions;
        let (left, ours): (Vec<_>, Vec<_>) = requests
            .into_iter()
            .partition(|(_, request)| can(request) || matches!(request, InputRequest::ListRoots(_)));
        if ours.is_empty() {
            return Ok(LocalAnswerOutcome::Left(PendingInput::new(left, round)));
        }
        let mut answers = Vec::new();
        for (key, request) in ours {
            let answer = match request {
                InputRequest::CreateMessage(params) => match &self.shared.sampler {
                    Some(sampler) => {
                        let answer = sampler.answer(guard, call, cause, *params).await;
                        answer.and_then(|result| written(&result))
                    }
                    None => Err(RpcError::method_not_found(Method::CreateMessage.name())),
                },
                InputRequest::Elicit(params) => {
                    let mut note = PendingAuditEntry::new(guard, elicitation_entry(cause));
                    let result = elicit(guard, call, cause, *params).await;
                    let (accepted, basis) = match &result {
                        Ok((result, basis)) => (result.action == ElicitAction::Accept, *basis),
                        Err(_) => (false, DecisionBasis::Host),
                    };
                    let decision = if accepted { "allow" } else { "deny" };
                    note.set_decision(decision, "the person, or the timeout", basis);
                    note.end(if accepted { AuditOutcome::Done } else { AuditOutcome::Refused }, None).await;
                    result.and_then(|(result, _)| written(&result))
                }
                _ => Err(RpcError::invalid_request("this request cannot be answered here")),
            };
            match answer {
                // A server of an older revision decides for itself what to make of a refusal; one of 2026-07-28 never hears
                // of it, and its call ends.
                Err(error) if !round.takes_refusals => {
                    return Ok(LocalAnswerOutcome::Ended(refused(call, cause, &error)));
                }
                answer => answers.push((key, answer)),
            }
        }
        if left.is_empty() {
            round.record_answer_results(answers);
            return Ok(LocalAnswerOutcome::All(Box::new(round)));
        }
        // They wait in the round for the others.
        for (key, answer) in answers {
            match answer {
                Ok(answer) => drop(round.answers.insert(key, answer)),
                Err(error) => drop(round.refused.insert(key, error)),
            }
        }
        Ok(LocalAnswerOutcome::Left(PendingInput::new(left, round)))
    }
}

/// Creates the audit entry of an elicitation.
fn elicitation_entry(cause: SamplingCause<'_>) -> AuditEntry {
    let mut entry = AuditEntry::new(AuditEntryKind::Elicitation);
    entry.server = Some(cause.server.to_owned());
    entry.profile = cause.endpoint_profile.map(str::to_owned);
    entry.subject = cause.subject.map(str::to_owned);
    entry
}

/// Returns the outcome of a call whose server's request is refused.
fn refused(call: &Call, cause: SamplingCause<'_>, error: &RpcError) -> Outcome {
    let server = cause.server;
    let text = format!("a request of the server `{server}` was rejected: {}", error.message);
    if call.method == Method::ToolsCall {
        return Outcome::Complete(CallToolResult::error(text).into());
    }
    // The code of a rejected sampling request would be wrong as the answer to another method.
    let code = if error.code == code::USER_REJECTED { code::INVALID_REQUEST } else { error.code };
    RpcError::new(code, text).into()
}

fn written(result: &impl serde::Serialize) -> Result<RawJson, RpcError> {
    RawJson::from_serialize(result).map_err(|error| RpcError::internal(error.to_string()))
}

/// Asks the person at the console for an elicitation. Returns the answer and its basis.
async fn elicit(
    guard: &Arc<PolicyEnforcer>,
    call: &Call,
    cause: SamplingCause<'_>,
    params: ElicitParams,
) -> Result<(ElicitResult, DecisionBasis), RpcError> {
    let denied = |verdict: &PolicyVerdict| Ok((ElicitResult::decline(), basis_of(&verdict.because)));
    let unanswered = || Ok((ElicitResult::cancel(), DecisionBasis::Unanswered));
    let verdict = guard.decide_elicitation(call, cause.server);
    if verdict.decision == Ruling::Deny {
        return denied(&verdict);
    }
    // Who is signed in elsewhere is not who is at the console: nobody answers for another.
    if call.context.principal().is_some() || !guard.approvals().is_decidable() {
        return unanswered();
    }
    let Some(shown) = ShownElicitation::of(params, cause.subject)? else {
        return Ok((ElicitResult::decline(), DecisionBasis::Host));
    };
    let asking = shown.into_approval(guard, call, cause)?;
    let waiting = match guard.approvals().submit(asking) {
        Ok(waiting) => waiting,
        Err(refused) => {
            tracing::warn!(server = cause.server, why = %refused.message(), "elicitation not queued");
            return unanswered();
        }
    };
    let settled = wait_for_decision(call, &waiting).await;
    // The rules may have changed meanwhile.
    let verdict = guard.decide_elicitation(call, cause.server);
    if verdict.decision == Ruling::Deny {
        return denied(&verdict);
    }
    Ok(match settled {
        Ok(ApprovalOutcome::Allowed { edited: Some(content), basis, .. }) => {
            (ElicitResult::accept(content), basis)
        }
        Ok(ApprovalOutcome::Allowed { edited: None, basis, .. }) => {
            (ElicitResult::new(ElicitAction::Accept), basis)
        }
        Ok(ApprovalOutcome::Denied { basis, .. }) => (ElicitResult::decline(), basis),
        Err(error) => (ElicitResult::cancel(), error.basis()),
    })
}

/// An elicitation as the person sees it.
struct ShownElicitation {
    card: ApprovalCard,
    /// Schema that the answer to a form has to match.
    form: Option<ElicitSchema>,
}

impl ShownElicitation {
    /// Creates the card of an elicitation. None if it must not be shown: a URL that no browser should open, or an
    /// unknown kind.
    fn of(params: ElicitParams, subject: Option<&str>) -> Result<Option<Self>, RpcError> {
        let cause = subject.map(str::to_owned);
        Ok(match params {
            ElicitParams::Form(form) => {
                let (message, wanted) = (form.message, form.requested_schema);
                let schema = written(&wanted)?;
                let secrets = wanted.properties.0.iter().filter(|(name, field)| looks_secret(name, field));
                let secrets = secrets.map(|(name, _)| name.clone()).collect();
                let card = ApprovalCard::Form(Box::new(FormCard { cause, message, schema, secrets }));
                Some(Self { card, form: Some(wanted) })
            }
            ElicitParams::Url(wanted) => UrlReview::of(&wanted.url).ok().map(|review| {
                let warnings = review.warnings.iter().map(ToString::to_string).collect();
                let card = UrlCard {
                    cause,
                    message: wanted.message,
                    url: review.url,
                    host: review.domain,
                    warnings,
                };
                Self { card: ApprovalCard::Url(Box::new(card)), form: None }
            }),
            _ => None,
        })
    }

    /// Creates the approval with which the person answers.
    fn into_approval(
        self,
        guard: &PolicyEnforcer,
        call: &Call,
        cause: SamplingCause<'_>,
    ) -> Result<NewApproval, RpcError> {
        let Self { card, form } = self;
        let shown = written(&card)?;
        Ok(NewApproval {
            principal: call.context.principal().map(str::to_owned),
            groups: Vec::new(),
            approvers: None,
            application: call.context.peer().info.as_ref().map(|info| info.name.clone()),
            server: cause.server.to_owned(),
            profile: cause.profile.map(str::to_owned),
            endpoint_profile: cause.endpoint_profile.map(str::to_owned),
            offers: DecisionOptions { edit: form.is_some(), ..DecisionOptions::default() },
            card,
            timeout: guard.approval_timeout(),
            // A decision holds for exactly what the card shows.
            bond: Sha256::digest(shown.as_bytes()).into(),
            asker: Sha256::digest(cause.server).into(),
            caller: call.context.peer().caller.clone(),
            is_weak: false,
            definition: None,
            target: String::new(),
            session: None,
            returns: false,
            check: Some(Box::new(move |content| {
                let Some(form) = &form else { return Err("there is no form to fill in".to_owned()) };
                let content: Map<String, Value> = content.decode().map_err(|error| error.to_string())?;
                hospes::ask::check_content(form, &content).map_err(|misfit| misfit.to_string())
            })),
        })
    }
}

/// Returns true if a field appears to ask for a secret, which no server may do in a form (ELIC-09).
fn looks_secret(name: &str, field: &hospes_model::PrimitiveSchemaDefinition) -> bool {
    redact::is_secret_name(name)
        || serde_json::to_value(field).is_ok_and(|field| {
            ["title", "description"].iter().any(|key| {
                let text = field.get(*key).and_then(Value::as_str).unwrap_or_default();
                text.split(|letter: char| !letter.is_alphanumeric()).any(redact::is_secret_name)
            })
        })
}

#[cfg(test)]
mod tests {
    use hospes_model::{PrimitiveSchemaDefinition, StringSchema};

    use super::*;

    #[test]
    fn a_form_is_shown_with_the_fields_that_ask_for_secrets() {
        let text = || PrimitiveSchemaDefinition::String(StringSchema::default());
        let schema = ElicitSchema::new().with_required("city", text()).with_required("api_key", text());
        let shown = ShownElicitation::of(ElicitParams::form("Where?", schema.clone()), Some("forecast"));
        let shown = shown.unwrap().unwrap();
        assert_eq!(shown.form, Some(schema));
        let ApprovalCard::Form(card) = shown.card else { panic!("no form") };
        assert_eq!((&*card.message, card.cause.as_deref()), ("Where?", Some("forecast")));
        assert_eq!(card.secrets, ["api_key"]);
    }

    #[test]
    fn a_url_is_shown_unless_no_browser_should_open_it() {
        let shown = |url: &str| ShownElicitation::of(ElicitParams::url("Sign in", url), None).unwrap();
        let card = shown("https://login.example.org/start").unwrap().card;
        let ApprovalCard::Url(card) = card else { panic!("no URL") };
        assert_eq!(card.host, "login.example.org");
        assert!(shown("javascript:alert(1)").is_none());
    }
}
