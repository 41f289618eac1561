//! The enforcer of the policy: its rules, its approval queue and its audit log.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hospes_model::RawJson;
use hospes_policy::Policy;
use hospes_store::{AuditLog, AuditReader};
use parking_lot::{Mutex, RwLock};

use super::approved_rounds::ApprovedRounds;
use super::call_activity::CallActivity;
use super::data_flow::DataFlowTracker;
use super::edit_check;
use super::open_plans::OpenPlans;
use super::shared_flow::SharedFlowLabels;
use super::subscriptions::RecordedSubscriptions;
use super::tool_hashes::ToolHashCache;
use crate::approvals::ApprovalQueue;
use crate::checks::{CallChecks, CheckSettings};
use crate::metrics::HostMetrics;

/// Default time for a person to decide about a call: the setting `approval_timeout`. No decision counts as a denial.
pub const DEFAULT_APPROVAL_TIMEOUT: Duration = Duration::from_secs(120);

/// Treatment of a call that needs a person's decision while nobody can be asked: the option `--unattended`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnattendedMode {
    /// The call is refused.
    #[default]
    Refuse,
    /// The call waits for the approval timeout, in case somebody comes.
    Queue,
    /// The guard's question is dropped if the conversation has read no untrusted text; otherwise the call is refused.
    /// It is also refused if a rule asks, or if an argument has a secret of another server, a local address that the guard
    /// asks about, or shell characters.
    AllowClean,
}

impl UnattendedMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Refuse, Self::Queue, Self::AllowClean];

    /// Returns the word of the mode.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Queue => "queue",
            Self::AllowClean => "allow-clean",
        }
    }

    /// Returns the mode with this word.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

/// Decides about every call, and records it.
#[derive(Debug)]
pub struct PolicyEnforcer {
    /// The rules in force; `None` if every call is allowed.
    pub(super) policy: Arc<RwLock<Option<Arc<Policy>>>>,
    /// Time since which the rules are in force.
    policy_since: RwLock<Instant>,
    /// Notified whenever the rules are replaced.
    pub(super) replaced: tokio::sync::watch::Sender<()>,
    pub(super) audit: Option<AuditLog>,
    /// Record of all nodes, to which the log is shipped.
    pub(super) shared_audit: Option<AuditReader>,
    /// True if arguments are recorded. It may change while calls run.
    keeps_arguments: AtomicBool,
    pub(super) queue: ApprovalQueue,
    pub(super) answers_questions: bool,
    pub(super) approval_timeout: Duration,
    pub(super) running: ApprovedRounds,
    pub(super) plans: OpenPlans,
    /// Arguments approved last, by tool and application.
    pub(super) last: Mutex<HashMap<String, RawJson>>,
    /// Arguments approved lately, by tool and application, from which a permission is suggested.
    pub(super) allowed: Mutex<HashMap<String, VecDeque<RawJson>>>,
    /// Subscriptions that have already been recorded.
    pub(super) followers: RecordedSubscriptions,
    /// The problem that was found when the record was gone through.
    pub(super) record_problem: std::sync::OnceLock<String>,
    pub(super) unattended: UnattendedMode,
    /// Data that each session has read.
    pub(super) flows: DataFlowTracker,
    /// Checks of arguments and results, with what they remember.
    checks: CallChecks,
    /// Selected checks, if they do not depend on the policy.
    selected_checks: Option<CheckSettings>,
    /// Hashes of the tools that calls were compared with grants for.
    pub(super) tool_hashes: ToolHashCache,
    /// Calls as they run, for viewers.
    pub(super) activity: Arc<CallActivity>,
    /// Metrics of the host, once it has started.
    pub(super) metrics: std::sync::OnceLock<Arc<HostMetrics>>,
}

impl PolicyEnforcer {
    /// With these rules; without any, everything may be called. Nothing is recorded.
    #[must_use]
    pub fn new(policy: impl Into<Option<Policy>>) -> Self {
        Self {
            policy: Arc::new(RwLock::new(policy.into().map(Arc::new))),
            policy_since: RwLock::new(Instant::now()),
            replaced: tokio::sync::watch::Sender::default(),
            audit: None,
            shared_audit: None,
            keeps_arguments: AtomicBool::new(false),
            queue: ApprovalQueue::new(),
            answers_questions: false,
            approval_timeout: DEFAULT_APPROVAL_TIMEOUT,
            running: ApprovedRounds::default(),
            plans: OpenPlans::default(),
            last: Mutex::default(),
            allowed: Mutex::default(),
            followers: RecordedSubscriptions::default(),
            record_problem: std::sync::OnceLock::new(),
            unattended: UnattendedMode::default(),
            flows: DataFlowTracker::default(),
            checks: CallChecks::default(),
            selected_checks: None,
            tool_hashes: ToolHashCache::default(),
            activity: Arc::default(),
            metrics: std::sync::OnceLock::new(),
        }
    }

    /// Records what happens.
    #[must_use]
    pub fn with_audit(mut self, audit: AuditLog) -> Self {
        self.queue.set_audit(&audit);
        self.audit = Some(audit);
        self
    }

    /// Sets the record of all nodes, to which the log is shipped. Retention applies to both.
    #[must_use]
    pub fn with_shared_audit(mut self, record: AuditReader) -> Self {
        self.shared_audit = Some(record);
        self
    }

    /// Sets whether arguments are recorded too, always sealed. By default they are not recorded.
    #[must_use]
    pub fn keeping_arguments(self, keeps: bool) -> Self {
        self.keep_arguments(keeps);
        self
    }

    /// Sets whether arguments of calls that begin from now on are recorded.
    pub fn keep_arguments(&self, keeps: bool) {
        self.keeps_arguments.store(keeps, Ordering::Relaxed);
    }

    /// Returns true if arguments of calls are recorded.
    #[must_use]
    pub fn keeps_arguments(&self) -> bool {
        self.keeps_arguments.load(Ordering::Relaxed)
    }

    /// Sets the time for a person to decide; by default [`DEFAULT_APPROVAL_TIMEOUT`].
    #[must_use]
    pub fn with_approval_timeout(mut self, timeout: Duration) -> Self {
        self.approval_timeout = timeout;
        self
    }

    /// Sets what happens to a call that needs a decision while nobody can be asked; by default it is refused.
    #[must_use]
    pub fn when_unattended(mut self, mode: UnattendedMode) -> Self {
        self.unattended = mode;
        self
    }

    /// Sets the queue for approvals; by default the guard has its own.
    #[must_use]
    pub fn with_approvals(mut self, queue: ApprovalQueue) -> Self {
        // The builders may be called in either order, so both of them tie the queue to the record.
        if let Some(audit) = &self.audit {
            queue.set_audit(audit);
        }
        queue.set_edit_check(edit_check::checker(Arc::clone(&self.policy)));
        self.queue = queue;
        self
    }

    /// Shares with other nodes what applications have read.
    #[must_use]
    pub fn with_shared_flows(mut self, store: Arc<dyn SharedFlowLabels>) -> Self {
        self.flows.share(store);
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

    /// Selects the checks of arguments and results, whatever the policy is.
    #[must_use]
    pub fn with_checks(mut self, checks: CheckSettings) -> Self {
        self.selected_checks = Some(checks);
        self
    }

    /// Returns the checks that are made on calls and results: all of them with a preset.
    #[must_use]
    pub fn checks(&self) -> CheckSettings {
        let has_preset = || self.policy.read().as_ref().is_some_and(|policy| policy.preset().is_some());
        let by_policy = || if has_preset() { CheckSettings::ALL } else { CheckSettings::NONE };
        self.selected_checks.unwrap_or_else(by_policy)
    }

    pub(crate) fn call_checks(&self) -> &CallChecks {
        &self.checks
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

    /// Returns the calls as they run. They are collected once somebody watches.
    #[must_use]
    pub fn activity(&self) -> &Arc<CallActivity> {
        &self.activity
    }

    /// The record of what happened, if there is one.
    #[must_use]
    pub fn audit(&self) -> Option<&AuditLog> {
        self.audit.as_ref()
    }

    /// Returns the record of all nodes, if there is one.
    #[must_use]
    pub fn shared_audit(&self) -> Option<&AuditReader> {
        self.shared_audit.as_ref()
    }

    /// Goes by other rules from now on. What was approved under the old ones is approved no more, except for what a person
    /// allowed until a day.
    pub fn replace_policy(&self, policy: impl Into<Option<Policy>>) {
        *self.policy.write() = policy.into().map(Arc::new);
        *self.policy_since.write() = Instant::now();
        self.queue.end_sessions();
        // Last, so that whoever is woken finds the new rules.
        self.replaced.send_replace(());
    }

    /// Returns the time for which the rules have been in force. `None` if everything may be called.
    #[must_use]
    pub fn policy_age(&self) -> Option<Duration> {
        self.policy.read().as_ref()?;
        Some(self.policy_since.read().elapsed())
    }

    /// Measures decisions and approvals from now on. Only the first call has an effect.
    pub(crate) fn set_metrics(&self, metrics: &Arc<HostMetrics>) {
        self.metrics.get_or_init(|| Arc::clone(metrics));
        self.approvals().set_metrics(metrics);
    }

    /// Returns true if applications can propose plans.
    pub(crate) fn allows_plans(&self) -> bool {
        self.policy.read().as_ref().is_some_and(|policy| policy.allows_plans())
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
        self.policy.read().clone()
    }
}
