//! An admitted call, until it has ended and is recorded.

use std::sync::Arc;
use std::time::Instant;

use hospes::transport::http_server::PrincipalGroups;
use hospes::{Call, Context, Outcome, Peer, Round};
use hospes_model::{CallToolResult, RawJson, Reply, RpcError};
use hospes_policy::{FlowLabels, PolicyCaller, ToolDescription, ToolEffectSet};
use hospes_store::{AuditEntry, AuditEntryKind, AuditOutcome, DecisionBasis, StoreError};

use super::approval_binding::ApprovalBinding;
use super::approved_rounds::{APPROVED_STEP, ApprovedCall};
use super::call_activity::RunningCall;
use super::call_target::{CallTarget, TargetItem};
use super::enforcer::PolicyEnforcer;
use super::open_plans::PlanStep;
use super::pending_entry::later;
use super::planned_call::RunningStep;
use super::policy_caller::caller_groups;
use super::recorded_text::clipped;
use super::review::ResultReview;
use crate::metrics::is_tool_error;

/// A call that may go, once. Dropped before it has ended, it is recorded as cancelled.
#[derive(Debug)]
pub(crate) struct AdmittedCall {
    guard: Arc<PolicyEnforcer>,
    begun: Instant,
    /// Audit entry. `None` if nothing is recorded, or once it has been submitted.
    entry: Option<AuditEntry>,
    /// The call as viewers see it. `None` while nobody watches.
    seen: Option<RunningCall>,
    server: String,
    peer: Arc<Peer>,
    /// Labels of the result for the session's data flow. `None` if data flow is not tracked.
    labels: Option<FlowLabels>,
    /// Description of the tool, if the text of the result is remembered.
    description: Option<ToolDescription>,
    /// Tool, prompt or URI that is asked.
    name: String,
    principal: Option<String>,
    groups: PrincipalGroups,
    application: Option<String>,
    /// True if the call may change something. Its end is then on disk before the response is sent.
    may_change: bool,
    /// True if a person decided about it: then, too.
    by_person: bool,
    /// The approved call, if the person was asked.
    approved: Option<ApprovedCall>,
    /// Review of the result, if one is required.
    review: Option<ResultReview>,
}

impl AdmittedCall {
    pub(super) fn new(guard: &Arc<PolicyEnforcer>, call: &Call, going: &CallTarget<'_>) -> Self {
        let entry = guard.audit.as_ref().map(|audit| {
            let peer = call.context.peer();
            let mut entry = AuditEntry::new(going.kind());
            entry.server = Some(going.server.to_owned());
            entry.profile = going.profile.map(str::to_owned);
            entry.subject = Some(clipped(going.subject()));
            entry.principal = call.context.principal().map(str::to_owned);
            entry.application = super::approval_form::sender(peer);
            let arguments = call.params.view().arguments.as_ref();
            entry.sent = arguments.map(|raw| raw.as_str().len() as u64);
            if let Some(arguments) = arguments.filter(|_| guard.keeps_arguments()) {
                audit.seal(&mut entry, arguments.as_str());
            }
            entry
        });
        Self {
            guard: Arc::clone(guard),
            begun: Instant::now(),
            entry,
            seen: guard.activity.begin(call, going),
            server: going.server.to_owned(),
            peer: Arc::clone(call.context.peer()),
            labels: None,
            description: None,
            name: going.subject().to_owned(),
            may_change: guard.may_change(going),
            by_person: false,
            principal: call.context.principal().map(str::to_owned),
            groups: caller_groups(&call.context).cloned().unwrap_or_default(),
            application: call.context.peer().info.as_ref().map(|info| info.name.clone()),
            approved: None,
            review: None,
        }
    }

    /// Returns the caller, as rules see it.
    fn caller(&self) -> PolicyCaller<'_> {
        PolicyCaller::new(self.application.as_deref(), self.principal.as_deref(), self.groups.names())
    }

    /// Checks that the audit log can be written. A call is not forwarded while earlier entries cannot be recorded; the
    /// check retries the write.
    pub(super) async fn can_be_recorded(&self) -> Result<(), StoreError> {
        match &self.guard.audit {
            Some(audit) => audit.check_writable().await,
            None => Ok(()),
        }
    }

    pub(super) fn set_decision(&mut self, decision: &str, by: impl Into<String>, basis: DecisionBasis) {
        let by = by.into();
        if let Some(metrics) = self.guard.metrics.get() {
            metrics.count_decision(verdict_label(decision), basis_label(basis));
        }
        if let Some(seen) = &mut self.seen {
            seen.decide(decision, &by, basis);
        }
        if let Some(entry) = &mut self.entry {
            entry.decision = Some(decision.to_owned());
            entry.by = Some(by);
            entry.basis = basis;
        }
    }

    /// Lets viewers see that a person is asked.
    pub(super) fn note_asked(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.wait_for_person();
        }
    }

    /// Marks the call as approved by a person, possibly with edited arguments. If the server requests input, the next
    /// round is approved too.
    pub(super) fn approved(&mut self, approved: ApprovedCall) {
        if let Some(entry) = &mut self.entry
            && let Some(edited) = &approved.edited
        {
            entry.sent = Some(edited.as_str().len() as u64);
            if self.guard.keeps_arguments()
                && let Some(audit) = &self.guard.audit
            {
                audit.seal(entry, edited.as_str());
            }
        }
        self.approved = Some(approved);
    }

    /// Marks the call as approved with its plan.
    pub(super) fn approved_by_plan(&mut self, bond: ApprovalBinding, step: PlanStep) {
        let running = RunningStep::new(&self.guard, step.turn);
        let flow = step.has_concern;
        let basis = DecisionBasis::Grant;
        self.approved(ApprovedCall { bond, edited: None, flow, basis, step: Some(running) });
    }

    /// Sets the labels of the result for the session's data flow. With a description of its tool, the text of the result is
    /// remembered as well.
    pub(super) fn set_labels(&mut self, labels: Option<FlowLabels>, description: Option<ToolDescription>) {
        (self.labels, self.description) = (labels, description);
    }

    /// Marks this call as decided by a person.
    pub(super) fn mark_decided_by_person(&mut self) {
        self.by_person = true;
    }

    /// Clears the labels, because the host answers itself.
    pub(crate) fn clear_labels(&mut self) {
        self.labels = None;
    }

    /// Its server's answer is delivered.
    async fn deliver(&self, is_whole: bool, text: impl FnOnce() -> Option<RawJson>) {
        let Some(labels) = self.note_delivery(is_whole, text) else { return };
        self.guard.flows.tell(&self.peer, &self.server, labels).await;
    }

    /// Notes what its server's answer brings into the session, and returns the labels.
    fn note_delivery(&self, is_whole: bool, text: impl FnOnce() -> Option<RawJson>) -> Option<FlowLabels> {
        let mut labels = self.labels?;
        if let Some(description) = self.description.as_ref().filter(|_| is_whole) {
            let of = (&self.peer, &*self.server, &*self.name);
            labels = self.guard.remember_text(of, labels, description, text);
        }
        // The person has approved calls of this tool. What a label says of it they have not.
        let is_described = self.description.as_ref().is_none_or(|tool| tool.is_described);
        let is_planned = self.approved.as_ref().is_some_and(|approved| approved.step.is_some());
        if labels.untrusted && (!is_planned || is_described) {
            self.guard.end_plans(&self.peer, "a result of untrusted text");
        }
        // What is private comes with the result of its task.
        let labels = FlowLabels { private: labels.private && is_whole, ..labels };
        self.guard.flows.note(&self.peer, &self.server, labels);
        Some(labels)
    }

    /// Requires that the person reviews the result before it is delivered.
    pub(super) fn review(&mut self, review: ResultReview) {
        self.review = Some(review);
    }

    /// Returns true if a person approved the call, in this round or an earlier one.
    pub(crate) fn is_approved(&self) -> bool {
        self.approved.is_some()
    }

    /// Returns the edited arguments, if any.
    pub(crate) fn edited(&self) -> Option<&RawJson> {
        self.approved.as_ref()?.edited.as_ref()
    }

    /// Disables recording, because there is no audit log.
    pub(super) fn unrecorded(&mut self) {
        self.entry = None;
    }

    /// Ends the entry because the person is being asked. The decision is recorded as an entry of its own.
    pub(super) async fn end_asked(&mut self) {
        let _nothing_to_withhold = self.end(AuditOutcome::Asked, None, None).await;
    }

    pub(super) async fn end_refused(&mut self) {
        let _nothing_to_withhold = self.end(AuditOutcome::Refused, None, None).await;
    }

    /// Ends the call with the server's outcome.
    pub(crate) async fn finish(mut self, outcome: Result<Outcome, RpcError>) -> Result<Outcome, RpcError> {
        match outcome {
            Ok(Outcome::Complete(reply)) => {
                let reply = match self.review.take() {
                    Some(review) => {
                        match review.reviewed(&self.guard, &self.server, self.edited(), reply).await {
                            Ok(reply) => reply,
                            Err((by, basis, outcome)) => {
                                self.set_decision("deny", by, basis);
                                let _nothing_to_withhold = self.end(AuditOutcome::Refused, None, None).await;
                                return Ok(outcome);
                            }
                        }
                    }
                    None => reply,
                };
                // After the review: what the person withholds brings nothing into the session.
                self.deliver(!matches!(reply, Reply::CreateTask(_)), || text_of(&reply)).await;
                let ending = if is_tool_error(&reply) { AuditOutcome::ToolError } else { AuditOutcome::Done };
                match self.end(ending, None, length(&reply)).await {
                    Ok(()) => {
                        let step = self.approved.as_mut().and_then(|approved| approved.step.take());
                        if let Some(step) = step.filter(|_| ending == AuditOutcome::Done) {
                            step.succeed();
                        }
                        Ok(Outcome::Complete(reply))
                    }
                    Err(unrecorded) => unrecorded.outcome(),
                }
            }
            Ok(Outcome::InputRequired(questions))
                if let Some(what) = self.guard.forbidden_request(
                    &self.server,
                    self.caller(),
                    questions.requests.iter().map(|(_, request)| request),
                ) =>
            {
                self.set_decision("deny", format!("the server requested {what}"), DecisionBasis::Rule);
                self.end_refused().await;
                Err(RpcError::invalid_request(format!(
                    "the server `{}` requested {what} during the call, which is not allowed here; the call was ended",
                    self.server
                )))
            }
            Ok(Outcome::InputRequired(mut questions)) => {
                self.carry_approval(&mut questions.round);
                match self.end(AuditOutcome::Asked, None, None).await {
                    Ok(()) => Ok(Outcome::InputRequired(questions)),
                    Err(unrecorded) => unrecorded.outcome(),
                }
            }
            Ok(Outcome::Failed(error)) | Err(error) => {
                // It is in the words of the server.
                self.deliver(true, || RawJson::from_serialize(&error.message).ok()).await;
                match self.end(AuditOutcome::Failed, Some(error.code), None).await {
                    Ok(()) => Err(error),
                    Err(unrecorded) => unrecorded.outcome(),
                }
            }
        }
    }

    /// Suspends the call until its user has signed in at its server. The approval is not used up. It remains valid for
    /// this call only.
    pub(crate) async fn suspend_for_account(mut self, context: &Context) {
        let mut round = context.round();
        self.carry_approval(&mut round);
        context.begin_round(round);
        let _nothing_to_withhold = self.end(AuditOutcome::Asked, None, None).await;
    }

    /// Carries the approval over to the next round.
    fn carry_approval(&mut self, round: &mut Round) {
        let Some(approved) = self.approved.take() else { return };
        match self.guard.running.issue_token(approved).map(|token| RawJson::from_serialize(&token)) {
            Ok(Ok(token)) => drop(round.steps.insert(APPROVED_STEP.to_owned(), token)),
            _ => tracing::warn!("the user will be asked again: too many approved calls are in progress"),
        }
    }

    /// Records the end of the call. Calls that may change something and decisions of a person are on disk when this
    /// returns; other entries are queued.
    async fn end(
        &mut self,
        ending: AuditOutcome,
        code: Option<i64>,
        received: Option<u64>,
    ) -> Result<(), UnrecordedCall> {
        if let Some(mut seen) = self.seen.take() {
            seen.end(ending);
        }
        let Some(entry) = &mut self.entry else { return Ok(()) };
        let Some(audit) = &self.guard.audit else { return Ok(()) };
        entry.ending = Some(ending);
        entry.code = code;
        entry.received = received;
        entry.micros = Some(micros(self.begun));
        // It stays here until it has been handed over: whoever called may go away meanwhile.
        if !self.may_change && !self.by_person && self.approved.is_none() {
            let Some(entry) = self.entry.take() else { return Ok(()) };
            if let Err(full) = audit.try_enqueue(entry) {
                let waiting = self.entry.insert(*full).clone();
                if let Err(error) = audit.enqueue(waiting).await {
                    tracing::error!(%error, "a call could not be recorded");
                }
                self.entry = None;
            }
            return Ok(());
        }
        let handed_over = audit.submit(entry).await;
        // Taken only now: had the caller gone away before, `Drop` would have recorded it; from here on it must not.
        let Some(entry) = self.entry.take() else { return Ok(()) };
        let written = match handed_over {
            Ok(written) => written.place().await,
            Err(error) => Err(error),
        };
        let Err(error) = written else { return Ok(()) };
        tracing::error!(%error, "call completed but could not be recorded yet; its result is withheld");
        let unrecorded = UnrecordedCall {
            kind: entry.kind,
            server: self.server.clone(),
            subject: entry.subject.clone().unwrap_or_default(),
        };
        later(audit, entry);
        Err(unrecorded)
    }
}

/// A call that was made but cannot be recorded. Its result is withheld.
struct UnrecordedCall {
    kind: AuditEntryKind,
    server: String,
    subject: String,
}

impl UnrecordedCall {
    /// Returns the outcome that replaces the result: a tool result for a model, which may never see protocol errors.
    fn outcome(self) -> Result<Outcome, RpcError> {
        let Self { kind, server, subject } = self;
        let text = format!(
            "`{subject}` of the server `{server}` was called, but its result is withheld because it cannot be recorded \
             at the moment; the call may have taken effect, so check before you call it again"
        );
        match kind {
            AuditEntryKind::Call => Ok(Outcome::Complete(CallToolResult::error(text).into())),
            _ => Err(RpcError::internal(text)),
        }
    }
}

impl PolicyEnforcer {
    /// Returns true if an action may change something: a tool does, unless it is declared read-only and its server is
    /// built in or trusted.
    fn may_change(&self, going: &CallTarget<'_>) -> bool {
        // What a method of an extension does, nobody here knows.
        let TargetItem::Tool(_, listed) = going.what else {
            return matches!(going.what, TargetItem::Method(..) | TargetItem::Notification(..));
        };
        let said = ToolEffectSet::from_annotations(listed.and_then(|tool| tool.annotations.as_deref()));
        let is_believed =
            going.known.program.is_some() || self.policy().is_some_and(|policy| policy.trusts(going.server));
        !(said.read_only && is_believed)
    }
}

impl Drop for AdmittedCall {
    fn drop(&mut self) {
        let Some(mut entry) = self.entry.take() else { return };
        let Some(audit) = &self.guard.audit else { return };
        // An ending that is set stays: the future may have been dropped while `end` was writing it.
        entry.ending.get_or_insert(AuditOutcome::Cancelled);
        entry.micros.get_or_insert_with(|| micros(self.begun));
        if audit.try_enqueue(entry).is_err() {
            tracing::error!("cancelled call not recorded: the audit queue is full");
        }
    }
}

fn micros(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Returns a reply as JSON.
fn text_of(reply: &Reply) -> Option<RawJson> {
    match reply {
        Reply::Raw { json, .. } => Some(json.clone()),
        Reply::CallTool(result) => RawJson::from_serialize(result).ok(),
        Reply::GetPrompt(result) => RawJson::from_serialize(result).ok(),
        Reply::ReadResource(result) => RawJson::from_serialize(result).ok(),
        _ => None,
    }
}

/// Returns the length of a reply in bytes, if it is in its original form.
fn length(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Raw { json, .. } => Some(json.as_str().len() as u64),
        _ => None,
    }
}

/// Returns the value of a label for a recorded decision.
fn verdict_label(decision: &str) -> &'static str {
    match decision {
        "allow" => "allow",
        "ask" => "ask",
        "expired" => "expired",
        _ => "deny",
    }
}

/// Returns the value of a label for the basis of a decision.
fn basis_label(basis: DecisionBasis) -> &'static str {
    match basis {
        DecisionBasis::Person => "person",
        DecisionBasis::Program => "program",
        DecisionBasis::Unanswered => "unanswered",
        DecisionBasis::Grant => "grant",
        DecisionBasis::Rule => "rule",
        DecisionBasis::Default => "default",
        DecisionBasis::Host => "host",
        _ => "unknown",
    }
}
