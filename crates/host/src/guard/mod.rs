//! Policy enforcement between a call and its server: the rules, the approvals, and the audit record.
//!
//! A call is looked at once it is known where it would go. The policy allows, denies or has the person asked; an approval
//! is good for exactly this call, once. However it ends, an entry of the audit record says so.

mod admitted_call;
mod approval_binding;
mod approval_form;
mod approved_rounds;
mod call_approval;
mod call_decision;
mod call_target;
mod data_flow;
mod pending_entry;
mod record_check;
mod refuse;
mod retention;
mod review;
mod subscriptions;
mod task_origin;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use hospes::{Call, Context, Outcome};
use hospes_model::{InputRequest, RawJson};
use hospes_policy::{
    CallArguments, DataFlowPolicy, DecisionReason, Policy, PolicyAction, PolicyDecision, PolicyRequest,
    PolicyVerdict, ToolEffectSet,
};
use hospes_store::{AuditEntry, AuditEntryKind, AuditLog, AuditOutcome};
use jiff::Timestamp;

use crate::approvals::{ApprovalQueue, GrantEffect, GrantQuery};
use crate::upstream::RootsRules;
pub(crate) use admitted_call::AdmittedCall;
use admitted_call::clipped;
use approval_binding::ApprovalBinding;
use approved_rounds::ApprovedRounds;
pub(crate) use call_approval::wait_for_decision;
use call_approval::{APPROVED_STEP, ApprovalAnswer, CallApproval, take_answer};
use call_decision::CallDecision;
pub(crate) use call_target::{CallTarget, METHOD_SUBJECT, TargetItem};
pub(crate) use pending_entry::PendingAuditEntry;
pub(crate) use refuse::refuse;
pub(crate) use task_origin::{StoredTaskOrigin, TaskEndReason, TaskOrigin};

/// Default time for a person to decide about a call: the setting `approval_timeout`. No decision counts as a denial.
pub const DEFAULT_APPROVAL_TIMEOUT: Duration = Duration::from_secs(120);

/// Reason for refusing a call whose result cannot be reviewed.
const UNREVIEWED: &str = "its result has to be reviewed before delivery, and no reviewer is available";

/// Reason for refusing a request that would need an approval but cannot be approved.
const UNASKED: &str =
    "the item it belongs to requires approval each time, and this request cannot be approved";

/// Decides about every call, and records it.
#[derive(Debug)]
pub struct PolicyEnforcer {
    /// None where everything may be called.
    policy: Arc<RwLock<Option<Arc<Policy>>>>,
    /// Notified whenever the rules are replaced.
    replaced: tokio::sync::watch::Sender<()>,
    audit: Option<AuditLog>,
    keeps_arguments: bool,
    queue: ApprovalQueue,
    answers_questions: bool,
    approval_timeout: Duration,
    running: ApprovedRounds,
    /// Arguments approved last, by tool and application.
    last: Mutex<HashMap<String, RawJson>>,
    /// Subscriptions that have already been recorded.
    followers: subscriptions::RecordedSubscriptions,
    /// The problem that was found when the record was gone through.
    record_problem: std::sync::OnceLock<String>,
    /// Data that each session has read.
    flows: data_flow::DataFlowTracker,
}

impl PolicyEnforcer {
    /// With these rules; without any, everything may be called. Nothing is recorded.
    #[must_use]
    pub fn new(policy: impl Into<Option<Policy>>) -> Self {
        Self {
            policy: Arc::new(RwLock::new(policy.into().map(Arc::new))),
            replaced: tokio::sync::watch::Sender::default(),
            audit: None,
            keeps_arguments: false,
            queue: ApprovalQueue::new(),
            answers_questions: false,
            approval_timeout: DEFAULT_APPROVAL_TIMEOUT,
            running: ApprovedRounds::default(),
            last: Mutex::default(),
            followers: subscriptions::RecordedSubscriptions::default(),
            record_problem: std::sync::OnceLock::new(),
            flows: data_flow::DataFlowTracker::default(),
        }
    }

    /// Records what happens.
    #[must_use]
    pub fn with_audit(mut self, audit: AuditLog) -> Self {
        self.queue.set_audit(&audit);
        self.audit = Some(audit);
        self
    }

    /// Sets whether arguments are recorded too, always sealed. By default they are not recorded.
    #[must_use]
    pub fn keeping_arguments(mut self, keeps: bool) -> Self {
        self.keeps_arguments = keeps;
        self
    }

    /// Sets the time for a person to decide; by default [`DEFAULT_APPROVAL_TIMEOUT`].
    #[must_use]
    pub fn with_approval_timeout(mut self, timeout: Duration) -> Self {
        self.approval_timeout = timeout;
        self
    }

    /// Sets the queue for approvals; by default the guard has its own.
    #[must_use]
    pub fn with_approvals(mut self, queue: ApprovalQueue) -> Self {
        // The builders may be called in either order, so both of them tie the queue to the record.
        if let Some(audit) = &self.audit {
            queue.set_audit(audit);
        }
        queue.set_edit_check(call_approval::checker(Arc::clone(&self.policy)));
        self.queue = queue;
        self
    }

    /// Sets whether elicitations that the application cannot answer go to the approval queue; by default they do not.
    /// Each application then has its own connection to each older server, because a question there does not name its
    /// application.
    #[must_use]
    pub fn answering_questions(mut self, answers: bool) -> Self {
        self.answers_questions = answers;
        self
    }

    pub(crate) fn answers_questions(&self) -> bool {
        self.answers_questions
    }

    /// Returns the queue of pending approvals.
    #[must_use]
    pub fn approvals(&self) -> &ApprovalQueue {
        &self.queue
    }

    /// Returns the time for a person to decide.
    #[must_use]
    pub fn approval_timeout(&self) -> Duration {
        self.approval_timeout
    }

    /// The record of what happened, if there is one.
    #[must_use]
    pub fn audit(&self) -> Option<&AuditLog> {
        self.audit.as_ref()
    }

    /// Goes by other rules from now on. What was approved under the old ones is approved no more, except for what a person
    /// allowed until a day.
    pub fn replace_policy(&self, policy: impl Into<Option<Policy>>) {
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy.into().map(Arc::new);
        self.queue.end_sessions();
        // Last, so that whoever is woken finds the new rules.
        self.replaced.send_replace(());
    }

    /// A receiver that is notified whenever the rules are replaced.
    #[must_use]
    pub fn policy_changes(&self) -> tokio::sync::watch::Receiver<()> {
        self.replaced.subscribe()
    }

    /// The rules; none where everything may be called.
    #[must_use]
    pub fn policy(&self) -> Option<Arc<Policy>> {
        // Cloned, so that nobody holds the lock while they decide.
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Decides whether a call may be sent. Continues with its entry of the audit log. Breaks if the call ends here: with a
    /// refusal, or with a question to the application.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        call: &Call,
        going: CallTarget<'_>,
    ) -> ControlFlow<Outcome, Box<AdmittedCall>> {
        let mut passage = AdmittedCall::new(self, call, &going);
        if let Err(error) = passage.can_be_recorded().await {
            tracing::error!(%error, "call refused because it cannot be recorded");
            passage.unrecorded();
            return ControlFlow::Break(going.refusal("calls cannot be recorded at the moment"));
        }
        // An answer to a question of ours is nobody else's, whatever the rules say by now.
        let answer = take_answer(call);
        match self.policy() {
            Some(policy) => self.apply_rules(call, &going, &policy, answer, &mut passage).await?,
            None => {
                let decision = CallDecision::Allow { by: "there are no rules".into() };
                passage.conclude(&going, decision).await?;
            }
        }
        ControlFlow::Continue(Box::new(passage))
    }

    /// Continues if the rules, and the person where they ask, let the call pass.
    async fn apply_rules(
        &self,
        call: &Call,
        going: &CallTarget<'_>,
        policy: &Policy,
        answer: Option<ApprovalAnswer>,
        passage: &mut AdmittedCall,
    ) -> ControlFlow<Outcome> {
        let text = going.arguments(call);
        let arguments = match CallArguments::read(text) {
            Ok(arguments) => arguments,
            Err(error) => {
                let (by, why) = ("the arguments are ambiguous".into(), error.to_string().into());
                return passage.conclude(going, CallDecision::Deny { recorded: "deny", by, why }).await;
            }
        };
        let peer = call.context.peer();
        let asked = PolicyRequest::new(going.server, going.action(&arguments))
            .with_application(peer.info.as_ref().map(|info| info.name.as_str()))
            .with_principal(call.context.principal());
        let verdict = policy.decide(&asked, Timestamp::now());
        let verdict = self.weigh_data_flow(policy, &asked, going, verdict, passage);
        if verdict.decision != PolicyDecision::Deny
            && let Some(denial) = self.denial_before_asking(&asked, going, &verdict)
        {
            return passage.conclude(going, denial).await;
        }
        let bound = || {
            let definition = approval_binding::definition(going);
            (ApprovalBinding::new(policy, &asked, going, definition.as_deref(), text), definition)
        };
        // What a person was asked about is theirs to decide, though nothing would have them asked by now: what a session had
        // read before a restart, nobody knows after it. Nor do later rounds of it, which may have other arguments by then.
        let was_asked = verdict.decision == PolicyDecision::Allow
            && (answer.as_ref().is_some_and(|answer| answer.is_awaited(&self.queue, &bound().0))
                || call.context.round().steps.contains_key(APPROVED_STEP));
        match verdict.decision {
            PolicyDecision::Allow if !was_asked => {
                let decision = CallDecision::Allow { by: verdict.because.to_string().into() };
                passage.conclude(going, decision).await?;
            }
            PolicyDecision::Deny => {
                let (by, why) = (verdict.because.to_string().into(), denial(&verdict).into());
                return passage.conclude(going, CallDecision::Deny { recorded: "deny", by, why }).await;
            }
            PolicyDecision::Ask if !going.can_be_asked_about() => {
                let by = format!("{UNASKED}: {}", verdict.why()).into();
                let decision = CallDecision::Deny { recorded: "deny", by, why: UNASKED.into() };
                return passage.conclude(going, decision).await;
            }
            PolicyDecision::Allow | PolicyDecision::Ask => {
                let (bond, definition) = bound();
                let asking = CallApproval {
                    policy,
                    verdict: &verdict,
                    going,
                    asked: &asked,
                    arguments: &arguments,
                    text,
                    bond,
                    definition,
                };
                self.require_approval(call, &asking, answer, passage).await?;
            }
        }
        if verdict.review {
            passage.review(review::ResultReview::new(call, going, verdict.because.to_string()));
        }
        ControlFlow::Continue(())
    }

    /// The verdict in the light of what its session has read; the passage knows what this brings into it.
    fn weigh_data_flow(
        &self,
        policy: &Policy,
        asked: &PolicyRequest<'_>,
        going: &CallTarget<'_>,
        verdict: PolicyVerdict,
        passage: &mut AdmittedCall,
    ) -> PolicyVerdict {
        if policy.data_flow() == DataFlowPolicy::Off {
            return verdict;
        }
        let labels = policy.labels(asked, going.known);
        passage.set_labels(labels);
        match self.flows.tainted(passage.peer()).filter(|_| labels.outbound) {
            Some(flow) => policy.apply_data_flow(verdict, labels, flow),
            None => verdict,
        }
    }

    /// Returns the denial of a call that no rule can allow. This applies to items a person has blocked, and to calls
    /// whose result needs review while no reviewer is present.
    fn denial_before_asking(
        &self,
        asked: &PolicyRequest<'_>,
        going: &CallTarget<'_>,
        verdict: &PolicyVerdict,
    ) -> Option<CallDecision<'static>> {
        let (what, name) = (going.call_kind(), going.subject());
        // A block is bound to no definition and no session, so there is nothing of these to compare.
        let subject = GrantQuery {
            asked,
            target: going.target,
            what,
            name,
            definition: None,
            strong: true,
            peer: None,
        };
        if let Some(block) = self.queue.find_grant(&subject, GrantEffect::Deny) {
            let by = format!("blocked by {}", block.by).into();
            return Some(CallDecision::Deny { recorded: "deny", by, why: "the user has blocked it".into() });
        }
        let is_reviewable = self.queue.is_attended() && going.can_be_asked_about();
        // Better nothing than what looks reviewed and is not.
        (verdict.review && !is_reviewable).then(|| CallDecision::deny(UNREVIEWED))
    }

    /// A call ends here that was under way: what was approved of it is approved no more.
    pub(crate) fn abandon(&self, context: &Context) {
        let mut round = context.round();
        let Some(token) = round.steps.remove(APPROVED_STEP) else { return };
        context.begin_round(round);
        self.running.forget(&token.decode::<String>().unwrap_or_default());
    }

    /// Returns the verdict on a sampling request of a server. Without rules the person is asked, because sampling
    /// spends their money and may use their words.
    pub(crate) fn decide_sampling(&self, call: &Call, server: &str) -> PolicyVerdict {
        self.of_wish(call, server, PolicyAction::Sampling)
    }

    /// Returns true if the current rules deny sampling, regardless of an earlier approval.
    pub(crate) fn has_forbidden_sampling(&self, call: &Call, server: &str) -> bool {
        self.decide_sampling(call, server).decision == PolicyDecision::Deny
    }

    /// Returns the verdict on an elicitation of a server.
    pub(crate) fn decide_elicitation(&self, call: &Call, server: &str) -> PolicyVerdict {
        self.of_wish(call, server, PolicyAction::Elicitation)
    }

    fn of_wish(&self, call: &Call, server: &str, action: PolicyAction<'_>) -> PolicyVerdict {
        let peer = call.context.peer();
        let asked = PolicyRequest::new(server, action)
            .with_application(peer.info.as_ref().map(|info| info.name.as_str()))
            .with_principal(call.context.principal());
        let policy = self.policy().unwrap_or_else(|| Arc::new(Policy::without_rules()));
        policy.decide(&asked, Timestamp::now())
    }

    /// Returns a description of the first request a server may not make in the middle of a call.
    fn forbidden_request<'r>(
        &self,
        server: &str,
        (principal, application): (Option<&str>, Option<&str>),
        mut requests: impl Iterator<Item = &'r InputRequest>,
    ) -> Option<&'static str> {
        let policy = self.policy()?;
        let nothing = CallArguments::none();
        requests.find_map(|request| {
            // Declared out here, because the action borrows it beyond its arm.
            let subject;
            let (action, what) = match request {
                InputRequest::CreateMessage(_) => (PolicyAction::Sampling, "an answer from your model"),
                InputRequest::Elicit(_) => (PolicyAction::Elicitation, "an answer from you"),
                InputRequest::ListRoots(_) => (PolicyAction::Roots, "your roots"),
                InputRequest::Other { method, .. } => {
                    subject = format!("{METHOD_SUBJECT}{method}");
                    (
                        PolicyAction::tool(&subject, ToolEffectSet::unknown(), &nothing),
                        "an answer from your application",
                    )
                }
                _ => return None,
            };
            let asked =
                PolicyRequest::new(server, action).with_application(application).with_principal(principal);
            let verdict = policy.decide(&asked, Timestamp::now());
            // What is to be asked about is: the application asks its person.
            (verdict.decision == PolicyDecision::Deny).then_some(what)
        })
    }
}

/// Returns the text of a denial: the reason given in the rule, which is meant for the caller.
fn denial(verdict: &PolicyVerdict) -> String {
    match &verdict.because {
        DecisionReason::Rule { reason: Some(reason), .. } => format!("it is not allowed here: {reason}"),
        _ => "it is not allowed here".to_owned(),
    }
}

impl RootsRules for PolicyEnforcer {
    fn may_share_roots(&self, server: &str, context: Option<&Context>, told: usize, of: usize) -> bool {
        let verdict = self
            .policy()
            .map(|policy| policy.decide(&PolicyRequest::new(server, PolicyAction::Roots), Timestamp::now()));
        // Whoever configured the host's own was asked by that; an application asks its person.
        let denied = verdict.filter(|verdict| verdict.decision == PolicyDecision::Deny);
        let Some(audit) = &self.audit else { return denied.is_none() };
        let mut entry = AuditEntry::new(AuditEntryKind::Roots);
        entry.server = Some(server.to_owned());
        entry.subject = Some(format!("{} of {of}", if denied.is_none() { told } else { 0 }));
        entry.by = Some(match (&denied, context) {
            (Some(verdict), _) => verdict.because.to_string(),
            (None, Some(_)) => "the application, within `roots` of the server".to_owned(),
            (None, None) => "the configuration".to_owned(),
        });
        let is_allowed = denied.is_none() && (told > 0 || of == 0);
        entry.decision = Some(if is_allowed { "allow" } else { "deny" }.to_owned());
        entry.ending = Some(if is_allowed { AuditOutcome::Done } else { AuditOutcome::Refused });
        if let Some(context) = context {
            entry.principal = context.principal().map(str::to_owned);
            let info = context.peer().info.as_ref();
            entry.application = info.map(|info| clipped(&format!("{} {}", info.name, info.version)));
        }
        let noted = audit.try_enqueue(entry).is_ok();
        if !noted {
            tracing::error!(server, "roots withheld from a server: the audit queue is full");
        }
        noted && denied.is_none()
    }
}
