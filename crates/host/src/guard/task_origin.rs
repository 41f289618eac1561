//! Origins of tasks. A task that continues after its call still belongs to that call, and the current rules apply to
//! it.

use std::sync::Arc;

use hospes::Context;
use hospes_model::{InputRequest, InputResponses, RawJson, Tool};
use hospes_policy::{
    CallArguments, DataFlowPolicy, Policy, PolicyAction, PolicyCaller, PolicyDecision, PolicyRequest,
    ToolEffectSet,
};
use hospes_store::AuditEntryKind;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::denials::denial;
use super::enforcer::PolicyEnforcer;
use super::pending_entry::PendingAuditEntry;
use super::policy_caller::policy_caller;
use super::recorded_text::clipped;
use crate::approvals::{ApprovalCallKind, GrantEffect, GrantQuery};
use crate::server::UpstreamServer;

/// Maximum length of a call's arguments, in bytes, that are kept for the lifetime of its task.
const MAX_REMEMBERED: usize = 4096;

/// The call that began a task.
#[derive(Debug)]
pub(crate) struct TaskOrigin {
    tool: String,
    effects: ToolEffectSet,
    /// Arguments of the call. `None` if they were too long, or after a restart, because they are not stored.
    arguments: Option<RawJson>,
    application: Option<String>,
    /// Version of the rules under which the task began.
    rules: Option<[u8; 32]>,
}

/// Stored form of a task's origin, for later runs of the host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredTaskOrigin {
    tool: String,
    read_only: bool,
    destructive: bool,
    idempotent: bool,
    open_world: bool,
    application: Option<String>,
    rules: Option<[u8; 32]>,
}

/// Reason that a task has to end.
#[derive(Debug)]
pub(crate) struct TaskEndReason {
    /// Reason, for the caller.
    pub(crate) why: String,
    /// Reason, for the audit log.
    pub(crate) by: String,
}

impl TaskOrigin {
    /// Creates the origin for a tool call with the shown name and the arguments sent to the server.
    pub(crate) fn new(
        guard: &PolicyEnforcer,
        context: &Context,
        (tool, listed): (&str, Option<&Tool>),
        arguments: Option<&RawJson>,
    ) -> Self {
        let arguments = arguments.filter(|raw| !raw.is_null()).map_or_else(
            || Some(RawJson::empty_object()),
            // What is kept is not a part of a larger message.
            |raw| {
                (raw.as_str().len() <= MAX_REMEMBERED)
                    .then(|| RawJson::parse(raw.as_str().to_owned()).ok())?
            },
        );
        Self {
            tool: tool.to_owned(),
            effects: ToolEffectSet::from_annotations(listed.and_then(|tool| tool.annotations.as_deref())),
            arguments,
            application: context.peer().info.as_ref().map(|info| info.name.clone()),
            rules: guard.policy().map(|policy| *policy.version()),
        }
    }
}

impl From<&TaskOrigin> for StoredTaskOrigin {
    fn from(origin: &TaskOrigin) -> Self {
        let TaskOrigin { tool, effects, arguments: _, application, rules } = origin;
        Self {
            tool: tool.clone(),
            read_only: effects.read_only,
            destructive: effects.destructive,
            idempotent: effects.idempotent,
            open_world: effects.open_world,
            application: application.clone(),
            rules: *rules,
        }
    }
}

impl From<StoredTaskOrigin> for TaskOrigin {
    fn from(kept: StoredTaskOrigin) -> Self {
        let mut effects = ToolEffectSet::unknown();
        effects.read_only = kept.read_only;
        effects.destructive = kept.destructive;
        effects.idempotent = kept.idempotent;
        effects.open_world = kept.open_world;
        let StoredTaskOrigin { tool, application, rules, .. } = kept;
        Self { tool, effects, arguments: None, application, rules }
    }
}

impl PolicyEnforcer {
    /// Returns true if only tasks with a judged call are accepted, which is the case if there are rules.
    pub(crate) fn wants_origins(&self) -> bool {
        self.policy().is_some()
    }

    /// Returns the reason that a task of this origin has to end. The rules may deny its call by now, or a person may
    /// have blocked its tool.
    pub(crate) fn task_end_reason(
        &self,
        (server, target): (&str, &str),
        context: &Context,
        origin: &TaskOrigin,
    ) -> Option<TaskEndReason> {
        let policy = self.policy()?;
        let arguments = origin.arguments.as_ref().and_then(|raw| CallArguments::read(raw.as_str()).ok());
        let are_known = arguments.is_some();
        let arguments = arguments.unwrap_or_else(CallArguments::none);
        // The application that began the task; its person, as they ask now.
        let PolicyCaller { principal, groups, .. } = policy_caller(context);
        let caller = PolicyCaller::new(origin.application.as_deref(), principal, groups);
        let asked = PolicyRequest::new(server, PolicyAction::tool(&origin.tool, origin.effects, &arguments))
            .with_caller(caller);
        // Without its arguments the call cannot be judged anew; it goes on under the very rules that let it begin.
        if are_known {
            let verdict = policy.decide(&asked, Timestamp::now());
            if verdict.decision == PolicyDecision::Deny {
                return Some(TaskEndReason { why: denial(&verdict), by: verdict.because.to_string() });
            }
        } else if origin.rules != Some(*policy.version()) {
            let why = format!(
                "the rules have changed since it began, and its arguments are no longer known: they were longer than \
                 {MAX_REMEMBERED} bytes, or the host was restarted"
            );
            return Some(TaskEndReason { by: why.clone(), why });
        }
        let (what, name) = (ApprovalCallKind::Tool, origin.tool.as_str());
        let subject =
            GrantQuery { asked: &asked, target, what, name, definition: None, strong: true, peer: None };
        let block = self.queue.find_grant(&subject, GrantEffect::Deny)?;
        Some(TaskEndReason { why: "the user has blocked it".to_owned(), by: block.to_string() })
    }

    /// Records in the session's data flow that the result of a task is delivered. It has the labels of the call that
    /// began the task.
    pub(crate) fn deliver_of_task(
        &self,
        server: &UpstreamServer,
        context: &Context,
        origin: &TaskOrigin,
        text: impl FnOnce() -> Option<RawJson>,
    ) {
        let watches =
            |policy: &Arc<Policy>| policy.preset().is_some() || policy.data_flow() != DataFlowPolicy::Off;
        let Some(policy) = self.policy().filter(watches) else { return };
        // Labels are the same whatever it was called with.
        let arguments = CallArguments::none();
        let asked =
            PolicyRequest::new(&server.name, PolicyAction::tool(&origin.tool, origin.effects, &arguments));
        let known = server.known_labels(Some(&origin.tool));
        let mut labels = policy.labels(&asked, known);
        if policy.preset().is_some() {
            let description = policy.describe(&asked, known);
            labels =
                self.remember_text((context.peer(), &server.name, &origin.tool), labels, &description, text);
        }
        if labels.untrusted {
            self.end_plans(context.peer(), "a result of untrusted text");
        }
        self.flows.note(context.peer(), &server.name, labels);
        self.flows.tell_soon(context.peer(), &server.name, labels);
    }

    /// Returns the reason that a task of this origin receives no further input: its session has read data that its
    /// server could send out.
    pub(crate) async fn withholds_from_task(
        &self,
        server: &UpstreamServer,
        context: &Context,
        origin: &TaskOrigin,
    ) -> Option<TaskEndReason> {
        let policy = self.policy().filter(|policy| policy.data_flow() != DataFlowPolicy::Off)?;
        self.flows.refresh(context.peer()).await;
        let flow = self.flows.tainted(context.peer())?;
        let arguments = CallArguments::none();
        let asked =
            PolicyRequest::new(&server.name, PolicyAction::tool(&origin.tool, origin.effects, &arguments));
        let why = format!("{flow}, and its input can be sent out");
        policy
            .labels(&asked, server.known_labels(Some(&origin.tool)))
            .outbound
            .then(|| TaskEndReason { by: why.clone(), why })
    }

    /// Returns a description of the first request of a task that its server may not make.
    pub(crate) fn forbidden_question<'r>(
        &self,
        server: &str,
        context: &Context,
        requests: impl Iterator<Item = &'r InputRequest>,
    ) -> Option<&'static str> {
        self.forbidden_request(server, policy_caller(context), requests)
    }

    /// Returns a description of the first answer to a task that its server may not receive. An answer does not name its
    /// request, so its kind is derived from its members.
    pub(crate) fn forbidden_answer(
        &self,
        server: &str,
        context: &Context,
        answers: &InputResponses,
    ) -> Option<&'static str> {
        let policy = self.policy()?;
        answers.values().find_map(|answer| {
            let has = |key: &str| answer.members().any(|member| member.key() == key);
            let (action, what) = match () {
                () if has("action") => (PolicyAction::Elicitation, "an answer from you"),
                () if has("roots") => (PolicyAction::Roots, "your roots"),
                () => (PolicyAction::Sampling, "an answer from your model"),
            };
            let is_sampling = matches!(action, PolicyAction::Sampling);
            let asked = PolicyRequest::new(server, action).with_caller(policy_caller(context));
            let verdict = policy.decide(&asked, Timestamp::now());
            let is_for_others = is_sampling && verdict.approvers.is_some();
            (is_for_others || verdict.decision == PolicyDecision::Deny).then_some(what)
        })
    }

    /// Begins an audit entry for an operation on a task, at the endpoint of a profile.
    pub(crate) fn note_of_task(
        self: &Arc<Self>,
        server: (&str, Option<&str>),
        context: &Context,
        origin: Option<&TaskOrigin>,
        id: &str,
    ) -> PendingAuditEntry {
        let mut entry = self.entry(AuditEntryKind::Task, server, context);
        entry.subject = origin.map(|origin| clipped(&origin.tool));
        entry.call = Some(clipped(id));
        PendingAuditEntry::new(self, entry)
    }
}
