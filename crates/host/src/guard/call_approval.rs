//! Approval of a call by a person: by a form in the application, at the console, or while the call waits.

use std::ops::ControlFlow;
use std::sync::Arc;

use hospes::{Call, Outcome};
use hospes_model::RawJson;
use hospes_policy::{
    CallArguments, CallDestinations, DecisionReason, Policy, PolicyAction, PolicyCaller, PolicyRequest,
    PolicyVerdict,
};
use hospes_store::DecisionBasis;

use super::admitted_call::AdmittedCall;
use super::approval_binding::ApprovalBinding;
use super::approval_form;
use super::approved_rounds::{APPROVED_STEP, ApprovedCall};
use super::call_decision::CallDecision;
use super::call_summary::summarize;
use super::call_target::{CallTarget, TargetItem};
use super::denials::{NO_CONSOLE, NO_FORM, NO_REQUESTER, NOBODY, UNREVIEWED, basis_of};
use super::edit_check::can_become;
use super::enforcer::{PolicyEnforcer, UnattendedMode};
use super::question::{ApprovalAnswer, ApprovalQuestion};
use super::review::ResultReview;
use crate::approvals::{
    ApprovalCard, ApprovalOutcome, ApprovalQueueError, CallCard, CallSummary, DecisionOptions,
    DeclaredEffects, EditCheck, GrantEffect, GrantQuery, GrantSession, GuardCard, GuardFinding, NewApproval,
    RepeatedAnswers, SuggestedPermission,
};

/// Maximum length of a call's arguments, in bytes, that a person is asked about. Longer arguments would not be read,
/// and pending calls are kept in memory.
pub(super) const MAX_ARGUMENT_BYTES: usize = 256 * 1024;

/// Maximum number of approved calls whose arguments are kept for comparison with the next call.
const MAX_LAST: usize = 256;

/// Maximum length of such arguments, in bytes.
const MAX_LAST_LENGTH: usize = 64 * 1024;

/// Maximum number of allowed calls of one tool for one application from which a permission is suggested.
const MAX_REPEATED: usize = 5;

/// Maximum length of the arguments of such a call, in bytes.
const MAX_REPEATED_LENGTH: usize = 4096;

/// A call that a person is to decide about.
pub(super) struct CallApproval<'a, 'g> {
    pub(super) policy: &'a Policy,
    pub(super) verdict: &'a PolicyVerdict,
    pub(super) going: &'a CallTarget<'g>,
    pub(super) asked: &'a PolicyRequest<'a>,
    pub(super) arguments: &'a CallArguments,
    /// Arguments as received.
    pub(super) text: &'a str,
    /// The hash of the tool's definition.
    pub(super) definition: Option<Arc<str>>,
    /// Reason of the preset to ask, if it has one.
    pub(super) guard: Option<GuardCard>,
}

impl PolicyEnforcer {
    /// Continues once the person has approved exactly this call.
    pub(super) async fn require_approval(
        &self,
        call: &Call,
        asking: &CallApproval<'_, '_>,
        answer: Option<ApprovalAnswer>,
        passage: &mut AdmittedCall,
    ) -> ControlFlow<Outcome> {
        // What the person said goes before anything that was said about other calls.
        if let Some(answer) = answer {
            let bond = (asking.bond().call, asking.verdict.strong);
            let settled = self.redeem_answer(call, &answer, bond).await;
            return self.apply_decision(call, settled, asking, passage).await;
        }
        let mut round = call.context.round();
        // A later round of a call that was approved: its server asks something.
        if let Some(token) = round.steps.remove(APPROVED_STEP) {
            let token: String = token.decode().unwrap_or_default();
            let approved = match self.running.redeem_token(&token, &asking.bond()) {
                Ok(approved) => approved,
                Err(refused) => {
                    return passage.conclude(asking.going, CallDecision::unapproved(refused)).await;
                }
            };
            let ApprovedCall { edited, flow, basis, step, .. } = approved;
            // What goes now was read since, and nobody said that it may be carried out.
            let concern = match (&asking.verdict.flow, asking.verdict.guard) {
                (Some(flow), _) => Some(flow.to_string()),
                (None, cause) => cause.map(|cause| cause.to_string()),
            };
            if !flow && let Some(concern) = concern {
                let why = format!("{concern} since it was approved; call it again to request a new approval");
                return passage.conclude(asking.going, CallDecision::deny(why)).await;
            }
            if let Some(edited) = &edited {
                self.check_edit(call, asking, edited, passage).await?;
            }
            call.context.begin_round(round);
            let decision = CallDecision::Allow { by: "approved in an earlier round".into(), basis };
            passage.conclude(asking.going, decision).await?;
            passage.approved(ApprovedCall { bond: asking.bond(), edited, flow, basis, step });
            return ControlFlow::Continue(());
        }
        let CallApproval { going, asked, .. } = asking;
        let (what, name, definition) = (going.call_kind(), going.subject(), asking.definition.as_deref());
        let (strong, peer) = (asking.verdict.strong, Some(call.context.peer()));
        let subject = GrantQuery { asked, target: going.target, what, name, definition, strong, peer };
        // What must be asked about each time is, whatever was granted once.
        if asking.verdict.may_remember
            && let Some(grant) = self.queue.find_grant(&subject, GrantEffect::Allow)
        {
            let decision = CallDecision::Allow { by: (&*grant).into(), basis: DecisionBasis::Grant };
            return passage.conclude(asking.going, decision).await;
        }
        passage.note_asked();
        self.ask_person(call, asking, passage).await
    }

    /// Asks the person by the available means: a form in the application, the console in a browser, or a waiting call.
    async fn ask_person(
        &self,
        call: &Call,
        asking: &CallApproval<'_, '_>,
        passage: &mut AdmittedCall,
    ) -> ControlFlow<Outcome> {
        let way = match &asking.verdict.approvers {
            Some(approvers) if approvers.excludes_requester() && asking.asked.principal.is_none() => {
                return passage.conclude(asking.going, CallDecision::unanswered(NO_REQUESTER)).await;
            }
            Some(_) => self.way_to_ask_approvers(),
            None => self.way_to_ask(call, asking.verdict.strong),
        };
        let Some(way) = way else {
            return self.conclude_unasked(asking, passage).await;
        };
        if asking.text.len() > MAX_ARGUMENT_BYTES {
            let why = "its arguments are too long for an approval request (more than 262144 bytes)";
            return passage.conclude(asking.going, CallDecision::deny(why)).await;
        }
        let form = || {
            let session = GrantSession::of(call.context.peer()).describe();
            let shown = approval_form::ShownCall {
                going: asking.going,
                arguments: asking.arguments,
                verdict: asking.verdict,
                is_trusted: asking.policy.trusts(asking.going.server),
                summary: &asking.summary(),
                guard: asking.guard.as_ref(),
            };
            approval_form::form(&shown, asking.offers(), &session)
        };
        let question = ApprovalQuestion {
            approval: self.new_approval(call, asking),
            form: &form,
            at_console: approval_form::decide_at(asking.going),
            why: asking.verdict.why(),
        };
        let (_, settled) = self.ask(call, asking.going, (question, way), passage).await?;
        self.apply_decision(call, settled, asking, passage).await
    }

    /// Concludes a call that nobody can be asked about.
    async fn conclude_unasked(
        &self,
        asking: &CallApproval<'_, '_>,
        passage: &mut AdmittedCall,
    ) -> ControlFlow<Outcome> {
        if self.unattended == UnattendedMode::AllowClean
            && asking.is_clean()
            && !asking.is_organization_guarded()
        {
            let by = "nobody can be asked, and nothing untrusted was read".into();
            let decision = CallDecision::Allow { by, basis: basis_of(&asking.verdict.because) };
            return passage.conclude(asking.going, decision).await;
        }
        let why = if asking.verdict.strong { NO_CONSOLE } else { NO_FORM };
        let why = match &asking.guard {
            _ if asking.verdict.approvers.is_some() => {
                let approvers = asking.describe_approvers();
                format!("{approvers} has to approve it, and nobody can sign in to do so ([console.team])")
                    .into()
            }
            Some(guard) => format!("{}; {NOBODY}", guard.because).into(),
            None => std::borrow::Cow::Borrowed(why),
        };
        passage.conclude(asking.going, CallDecision::unanswered(why)).await
    }

    /// Applies the decision.
    async fn apply_decision(
        &self,
        call: &Call,
        settled: Result<ApprovalOutcome, ApprovalQueueError>,
        asking: &CallApproval<'_, '_>,
        passage: &mut AdmittedCall,
    ) -> ControlFlow<Outcome> {
        if settled.is_ok() {
            passage.mark_decided_by_person();
        }
        match settled {
            Ok(ApprovalOutcome::Allowed { edited, by, basis, lasts }) => {
                // The call may have waited for long: it goes by the rules as they are now, or not at all.
                let is_as_asked =
                    self.policy().is_some_and(|policy| policy.version() == asking.policy.version());
                let CallApproval { asked, going, .. } = asking;
                if !is_as_asked || self.find_block(asked, going).is_some() {
                    let decision = CallDecision::unapproved(ApprovalQueueError::Changed);
                    return passage.conclude(going, decision).await;
                }
                if let Some(edited) = &edited {
                    self.check_edit(call, asking, edited, passage).await?;
                }
                let (changed, longer) = (edited.is_some(), if lasts { ", and for longer" } else { "" });
                let changed = if changed { " with edits" } else { "" };
                let by = format!("approved{changed} by {by}{longer}{}", asking.flow()).into();
                passage.conclude(going, CallDecision::Allow { by, basis }).await?;
                // What others approve says nothing about what the person allows.
                if asking.verdict.approvers.is_none() {
                    self.remember_last(asking, edited.as_ref(), basis);
                }
                let knows = asking.verdict.flow.is_some() || asking.verdict.guard.is_some();
                let bond = asking.bond();
                passage.approved(ApprovedCall { bond, edited, flow: knows, basis, step: None });
                ControlFlow::Continue(())
            }
            Ok(ApprovalOutcome::Denied { reason, by, basis }) => {
                let by = format!("{by}{}", asking.flow()).into();
                let who = if asking.verdict.approvers.is_some() { "a person" } else { "the user" };
                let why = match reason {
                    Some(reason) => format!("{who} denied it: {reason}").into(),
                    None => format!("{who} denied it").into(),
                };
                let decision = CallDecision::Deny { recorded: "deny", by, basis, why };
                passage.conclude(asking.going, decision).await
            }
            Err(refused @ ApprovalQueueError::Expired) if asking.verdict.approvers.is_some() => {
                let approvers = asking.describe_approvers();
                let why = format!(
                    "{approvers} has to approve it, and nobody did in time (setting approval_timeout); call it again to \
                     ask again"
                );
                let (recorded, basis) = (refused.decision(), refused.basis());
                let decision = CallDecision::Deny { recorded, by: refused.message(), basis, why: why.into() };
                passage.conclude(asking.going, decision).await
            }
            Err(refused) => passage.conclude(asking.going, CallDecision::unapproved(refused)).await,
        }
    }

    /// Applies the current rules to an edited call. It is refused if they deny it. Its result is reviewed if they
    /// require that for the original or the edited arguments.
    async fn check_edit(
        &self,
        call: &Call,
        asking: &CallApproval<'_, '_>,
        edited: &RawJson,
        passage: &mut AdmittedCall,
    ) -> ControlFlow<Outcome> {
        let verdict = match asking.can_become(edited) {
            Ok(verdict) => verdict,
            Err(why) => return passage.conclude(asking.going, CallDecision::deny(why)).await,
        };
        if verdict.review {
            if !self.queue.is_attended() {
                return passage.conclude(asking.going, CallDecision::unanswered(UNREVIEWED)).await;
            }
            passage.review(ResultReview::new(call, asking.going, verdict.because.to_string()));
        }
        ControlFlow::Continue(())
    }

    fn new_approval(&self, call: &Call, asking: &CallApproval<'_, '_>) -> NewApproval {
        let CallApproval { policy, verdict, going, asked, arguments, text, ref guard, .. } = *asking;
        let peer = call.context.peer();
        let action = going.action(arguments);
        let (effects, destinations) = match &action {
            PolicyAction::Tool { effects, .. } => {
                let destinations = CallDestinations::from_arguments(arguments);
                let mut found: Vec<String> = destinations.found().iter().map(ToString::to_string).collect();
                found.dedup();
                (Some(DeclaredEffects::new(*effects, policy.trusts(going.server))), found)
            }
            _ => (None, Vec::new()),
        };
        let (tool, is_tool) = match going.what {
            TargetItem::Tool(_, tool) => (tool, true),
            _ => (None, false),
        };
        let last = self.last.lock();
        let mut card = CallCard {
            what: going.call_kind(),
            name: going.subject().to_owned(),
            summary: asking.summary(),
            title: tool.and_then(|tool| tool.title.clone()),
            description: tool.and_then(|tool| tool.description.clone()),
            input_schema: tool.map(|tool| tool.input_schema.clone()),
            arguments: RawJson::parse(text.to_owned()).unwrap_or_else(|_| RawJson::empty_object()),
            // Others see this call, and none that the person made before.
            last_arguments: last.get(&asking.last_key()).filter(|_| verdict.approvers.is_none()).cloned(),
            effects,
            destinations,
            because: verdict.because.to_string(),
            data_flow: verdict.flow.clone(),
            guard: guard.clone(),
            suggestion: is_tool.then(|| SuggestedPermission::of(arguments)),
            repeated: None,
        };
        let offers = asking.offers();
        // What the guard asks about is not offered to be silenced.
        card.repeated = offers.always.then(|| self.repeated_answers(asking, &card.arguments)).flatten();
        NewApproval {
            principal: asked.principal.map(str::to_owned),
            groups: asked.groups.to_vec(),
            approvers: verdict.approvers.clone(),
            application: peer.info.as_ref().map(|info| info.name.clone()),
            server: going.server.to_owned(),
            profile: going.own_profile.map(str::to_owned),
            endpoint_profile: going.profile.map(str::to_owned),
            offers,
            card: ApprovalCard::Call(Box::new(card)),
            timeout: self.approval_timeout,
            bond: asking.bond().call,
            asker: asking.bond().asker,
            caller: peer.caller.clone(),
            is_weak: false,
            definition: asking.definition.as_deref().map(str::to_owned),
            target: going.target.to_owned(),
            check: is_tool.then(|| asking.check()),
            session: (offers.session || offers.values).then(|| GrantSession::of(peer)),
            returns: false,
        }
    }

    fn remember_last(&self, asking: &CallApproval<'_, '_>, edited: Option<&RawJson>, basis: DecisionBasis) {
        let text = edited.map_or(asking.text, RawJson::as_str);
        if !matches!(asking.going.what, TargetItem::Tool(..)) || text.len() > MAX_LAST_LENGTH {
            return;
        }
        let Ok(arguments) = RawJson::parse(text.to_owned()) else { return };
        // What a program answers suggests nothing to the person.
        if basis == DecisionBasis::Person {
            let mut allowed = self.allowed.lock();
            if allowed.len() >= MAX_LAST {
                // Only a suggestion comes later, so no order of use is kept.
                allowed.clear();
            }
            let answers = allowed.entry(asking.last_key()).or_default();
            // A call with other arguments than the ones before it begins anew only after as many as are kept.
            if arguments.as_str().len() <= MAX_REPEATED_LENGTH {
                answers.push_back(arguments.clone());
                while answers.len() > MAX_REPEATED {
                    answers.pop_front();
                }
            }
        }
        let mut last = self.last.lock();
        if last.len() >= MAX_LAST {
            // Only the comparison on the card is lost, so no order of use is kept.
            last.clear();
        }
        last.insert(asking.last_key(), arguments);
    }

    /// Returns the permission that like answers suggest for a call with these arguments.
    fn repeated_answers(&self, asking: &CallApproval<'_, '_>, now: &RawJson) -> Option<RepeatedAnswers> {
        let allowed = self.allowed.lock();
        RepeatedAnswers::of(allowed.get(&asking.last_key())?.iter(), now)
    }
}

impl CallApproval<'_, '_> {
    /// Computes what an approval of the call is bound to. Calls under a grant do without.
    fn bond(&self) -> ApprovalBinding {
        let Self { policy, asked, going, text, .. } = self;
        ApprovalBinding::new(policy, asked, going, self.definition.as_deref(), text)
            .with_approvers(self.verdict.approvers.as_ref())
    }

    /// Returns the verdict of the rules on the call with the edited arguments. Fails if the arguments do not fit the
    /// tool's schema or the rules deny the call.
    fn can_become(&self, edited: &RawJson) -> Result<PolicyVerdict, String> {
        can_become(self.policy, self.asked.caller(), self.going, edited)
    }

    /// Returns a check of edited arguments for later use.
    fn check(&self) -> EditCheck {
        // Owned copies, because the queue keeps the check longer than this call is borrowed.
        let policy = self.policy.clone();
        let application = self.asked.application.map(str::to_owned);
        let principal = self.asked.principal.map(str::to_owned);
        let groups = self.asked.groups.to_vec();
        let (server, target) = (self.going.server.to_owned(), self.going.target.to_owned());
        let known = self.going.known;
        let (name, tool) = match self.going.what {
            TargetItem::Tool(name, tool) => (name.to_owned(), tool.cloned()),
            _ => (String::new(), None),
        };
        Box::new(move |edited| {
            let what = TargetItem::Tool(&name, tool.as_ref());
            let going = CallTarget { known, ..CallTarget::unknown(&server, &target, what) };
            let caller = PolicyCaller::new(application.as_deref(), principal.as_deref(), &groups);
            can_become(&policy, caller, &going, edited).map(drop)
        })
    }

    /// Returns the head of the card.
    fn summary(&self) -> CallSummary {
        let labels = self.policy.labels(self.asked, self.going.known);
        let description = self.policy.describe(self.asked, self.going.known);
        let known = (labels, &description);
        summarize(self.asked, self.arguments, known, self.guard.as_ref(), self.verdict.flow.as_ref())
    }

    /// Returns the options of the decision besides allow and deny.
    fn offers(&self) -> DecisionOptions {
        // An approver decides about the call that somebody else wants, as it is, and about no other.
        if self.verdict.approvers.is_some() {
            return DecisionOptions::default();
        }
        let is_tool = matches!(self.going.what, TargetItem::Tool(..));
        let remembered = self.verdict.may_remember && is_tool;
        let guard = self.guard.as_ref();
        DecisionOptions {
            edit: is_tool,
            session: remembered,
            always: remembered,
            block: true,
            targets: guard.is_some_and(|guard| !guard.targets.is_empty()),
            // A value can be right for what can be undone. What is asked about each time is, whatever is right.
            values: guard.is_some_and(|guard| {
                !guard.cause.is_asked_each_time()
                    && guard.values.iter().any(|value| value.finding == GuardFinding::Untrusted)
            }),
        }
    }

    /// Returns true if nothing but the preset asks, the conversation has read no untrusted text, and no argument has what
    /// is asked about in every conversation.
    fn is_clean(&self) -> bool {
        let is_clean = |guard: &GuardCard| {
            guard.is_clean && !guard.values.iter().any(|value| value.finding.is_independent_of_reads())
        };
        matches!(self.verdict.because, DecisionReason::Guard(_)) && self.guard.as_ref().is_some_and(is_clean)
    }

    /// Returns true if the organisation has a preset, whose questions no option of the user drops.
    fn is_organization_guarded(&self) -> bool {
        self.policy.organization().is_some_and(|policy| policy.preset().is_some())
    }

    /// Describes who has to approve the call, at the beginning of a text.
    fn describe_approvers(&self) -> String {
        let approvers = self.verdict.approvers.as_ref();
        approvers.map_or_else(|| "a person".to_owned(), |approvers| format!("a member of {approvers}"))
    }

    /// Returns the data flow of the verdict as text for the record.
    fn flow(&self) -> String {
        self.verdict.flow.as_ref().map_or_else(String::new, |flow| format!("; {flow}"))
    }

    /// Key under which the last approved arguments are stored.
    fn last_key(&self) -> String {
        let part =
            |part: Option<&str>| part.map_or_else(|| "-".to_owned(), |part| format!("{}:{part}", part.len()));
        let PolicyRequest { application, principal, .. } = self.asked;
        let (server, name) = (self.going.server, self.going.subject());
        format!("{}/{}/{}/{name}", part(*principal), part(*application), part(Some(server)))
    }
}
