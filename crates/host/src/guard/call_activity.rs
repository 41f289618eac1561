//! Calls as they run: what a viewer beside the audit log shows while it looks.
//!
//! Nothing is collected until somebody watches. All of it is bounded: the last calls, a number of servers and
//! applications, and a number of durations of each server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hospes::{Call, Context};
use hospes_model::RawJson;
use hospes_store::{AuditOutcome, DecisionBasis};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::call_target::CallTarget;
use super::recorded_text::clipped;

/// Maximum number of ended calls that are kept.
pub const MAX_ENDED_CALLS: usize = 500;
/// Maximum number of running calls that are kept. Of more, only the number is known.
const MAX_RUNNING_CALLS: usize = 1000;
/// Maximum number of servers, and of applications, that are counted apart. What others do is counted as done by the
/// last one, [`OTHERS`].
const MAX_NAMES: usize = 128;
/// Name under which more servers or applications than [`MAX_NAMES`] are counted.
const OTHERS: &str = "(others)";
/// Number of the last durations of each server, from which percentiles are computed.
const MAX_DURATIONS: usize = 512;
/// Number of periods of the history of a server.
pub const HISTORY_PERIODS: usize = 60;
/// Length of a period of the history.
pub const HISTORY_PERIOD: Duration = Duration::from_secs(5);
/// Maximum size of the arguments that are kept of a call, in bytes. Longer ones are left out.
const MAX_ARGUMENT_BYTES: usize = 16 << 10;
/// Maximum length of a progress message, in bytes.
const MAX_MESSAGE_BYTES: usize = 512;

/// A call that is running or has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ObservedCall {
    /// Number of the call, in the order in which calls begin.
    pub number: u64,
    /// Time at which it began.
    pub at: Timestamp,
    /// Name that the application reports for itself.
    pub application: Option<String>,
    /// Name of the server.
    pub server: String,
    /// Tool, prompt or URI of the server.
    pub subject: String,
    /// Arguments in their original form. `None` if there are none or they are very long. They may hold secrets, so a
    /// viewer must mask them.
    pub arguments: Option<RawJson>,
    /// Last progress that the server reported.
    pub progress: Option<CallProgress>,
    /// Decision, `allow` or `deny`, once it has been made; `ask` while a person is asked.
    pub decision: Option<String>,
    /// Decider: a rule, or a person at the console.
    pub by: Option<String>,
    /// Basis of the decision.
    #[serde(default)]
    pub basis: DecisionBasis,
    /// Outcome. `None` while the call runs.
    pub outcome: Option<AuditOutcome>,
    /// Duration so far, or of the whole call.
    pub duration: Duration,
}

/// Progress of a call, as its server reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallProgress {
    /// Amount that is done.
    pub done: f64,
    /// Total amount, if the server knows.
    pub total: Option<f64>,
    /// Message of the server.
    pub message: Option<String>,
}

/// Statistics of the calls of a server since somebody watches.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerCalls {
    /// Name of the server.
    pub name: String,
    /// Number of calls that have ended.
    pub calls: u64,
    /// Number of those that failed.
    pub failed: u64,
    /// Number of running calls.
    pub running: u64,
    /// Median duration of the last calls.
    pub p50: Option<Duration>,
    /// Duration that 95 of 100 of the last calls do not exceed.
    pub p95: Option<Duration>,
    /// Number of calls in each period of [`HISTORY_PERIOD`], the oldest first, the current one last.
    pub history: Vec<u32>,
}

/// Calls of an application.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ApplicationCalls {
    /// Name that the application reports for itself.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Time of the last call.
    pub last: Timestamp,
}

/// State of the calls at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallSnapshot {
    /// Running calls, the newest first.
    pub running: Vec<ObservedCall>,
    /// Ended calls, the newest first.
    pub ended: Vec<ObservedCall>,
    /// Statistics by server.
    pub servers: Vec<ServerCalls>,
    /// Applications, by name.
    pub applications: Vec<ApplicationCalls>,
}

/// Calls of a host as they run. Nothing is collected until [`CallActivity::watch`] is called.
#[derive(Debug)]
pub struct CallActivity {
    is_watched: AtomicBool,
    next: AtomicU64,
    state: Mutex<ActivityState>,
    changed: watch::Sender<u64>,
}

impl Default for CallActivity {
    fn default() -> Self {
        Self {
            is_watched: AtomicBool::new(false),
            next: AtomicU64::new(0),
            state: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }
}

#[derive(Debug, Default)]
struct ActivityState {
    running: BTreeMap<u64, (ObservedCall, Instant)>,
    ended: VecDeque<ObservedCall>,
    servers: BTreeMap<String, ServerTally>,
    applications: BTreeMap<String, ApplicationCalls>,
    /// Begin of the history. `None` before the first call.
    begun: Option<Instant>,
}

#[derive(Debug, Default)]
struct ServerTally {
    calls: u64,
    failed: u64,
    running: u64,
    durations: VecDeque<Duration>,
    /// Number of calls by period, the current one last, and the number of that period.
    history: VecDeque<u32>,
    period: u64,
}

impl CallActivity {
    /// Starts to collect, and returns a receiver of changes.
    pub fn watch(&self) -> watch::Receiver<u64> {
        // Relaxed is enough for a flag that guards no other data.
        self.is_watched.store(true, Ordering::Relaxed);
        self.changed.subscribe()
    }

    /// Returns the current state, with at most `limit` of the running and of the ended calls.
    #[must_use]
    pub fn snapshot(&self, limit: usize) -> CallSnapshot {
        let mut state = self.state.lock();
        let now = state.period();
        let running = state.running.values().rev().take(limit).map(|(call, since)| {
            let mut call = call.clone();
            call.duration = since.elapsed();
            call
        });
        let running = running.collect();
        let servers = state.servers.iter_mut().map(|(name, tally)| tally.summary(name, now)).collect();
        CallSnapshot {
            running,
            ended: state.ended.iter().take(limit).cloned().collect(),
            servers,
            applications: state.applications.values().cloned().collect(),
        }
    }

    /// Registers a call that begins. `None` while nobody watches.
    pub(super) fn begin(self: &Arc<Self>, call: &Call, going: &CallTarget<'_>) -> Option<RunningCall> {
        if !self.is_watched.load(Ordering::Relaxed) {
            return None;
        }
        let arguments = call.params.view().arguments.as_ref();
        let observed = ObservedCall {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            at: Timestamp::now(),
            application: super::approval_form::sender(call.context.peer()),
            server: going.server.to_owned(),
            subject: clipped(going.subject()),
            arguments: arguments.filter(|raw| raw.as_str().len() <= MAX_ARGUMENT_BYTES).cloned(),
            progress: None,
            decision: None,
            by: None,
            basis: DecisionBasis::Unknown,
            outcome: None,
            duration: Duration::ZERO,
        };
        let number = observed.number;
        self.state.lock().begin(&observed);
        self.notify();
        self.observe(&call.context, number);
        Some(RunningCall { activity: Arc::clone(self), begun: Instant::now(), call: Some(observed) })
    }

    fn observe(self: &Arc<Self>, context: &Context, number: u64) {
        // Weak, because the context may outlive the host.
        let activity = Arc::downgrade(self);
        context.observe_progress(move |done, total, message| {
            let Some(activity) = activity.upgrade() else { return };
            if let Some((call, _)) = activity.state.lock().running.get_mut(&number) {
                let message = message.map(|text| clip(text, MAX_MESSAGE_BYTES));
                call.progress = Some(CallProgress { done, total, message });
            }
            activity.notify();
        });
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl ActivityState {
    fn begin(&mut self, call: &ObservedCall) {
        self.begun.get_or_insert_with(Instant::now);
        named(&mut self.servers, &call.server, ServerTally::default).running += 1;
        // Without the process, which is another one after each start.
        let application = call.application.as_deref().unwrap_or("(unnamed)");
        let application = application.split(" (").next().unwrap_or(application);
        let new = || ApplicationCalls { name: application.to_owned(), calls: 0, last: call.at };
        let seen = named(&mut self.applications, application, new);
        (seen.calls, seen.last) = (seen.calls.saturating_add(1), call.at);
        if self.running.len() < MAX_RUNNING_CALLS {
            self.running.insert(call.number, (call.clone(), Instant::now()));
        }
    }

    fn end(&mut self, mut call: ObservedCall) {
        let period = self.period();
        if let Some((last, _)) = self.running.remove(&call.number) {
            call.progress = last.progress;
        }
        let tally = named(&mut self.servers, &call.server, ServerTally::default);
        tally.running = tally.running.saturating_sub(1);
        // The call goes on as another one once the person has answered.
        if call.outcome != Some(AuditOutcome::Asked) {
            tally.end(&call, period);
        }
        if self.ended.len() >= MAX_ENDED_CALLS {
            self.ended.pop_back();
        }
        self.ended.push_front(call);
    }

    /// Returns the number of the current period.
    fn period(&self) -> u64 {
        let elapsed = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        elapsed.as_secs() / HISTORY_PERIOD.as_secs()
    }
}

impl ServerTally {
    fn end(&mut self, call: &ObservedCall, period: u64) {
        self.calls = self.calls.saturating_add(1);
        let is_failed = matches!(call.outcome, Some(AuditOutcome::Failed | AuditOutcome::ToolError));
        self.failed = self.failed.saturating_add(u64::from(is_failed));
        self.advance(period);
        if let Some(last) = self.history.back_mut() {
            *last = last.saturating_add(1);
        }
        // A refusal, or the time that a person takes, does not measure the server.
        let came_back = is_failed || call.outcome == Some(AuditOutcome::Done);
        if !came_back || call.basis.is_answer() {
            return;
        }
        if self.durations.len() >= MAX_DURATIONS {
            self.durations.pop_front();
        }
        self.durations.push_back(call.duration);
    }

    /// Begins a period, and drops those that are too old.
    fn advance(&mut self, period: u64) {
        let missing = if self.history.is_empty() { 1 } else { period.saturating_sub(self.period) };
        for _ in 0..missing.min(HISTORY_PERIODS as u64) {
            if self.history.len() >= HISTORY_PERIODS {
                self.history.pop_front();
            }
            self.history.push_back(0);
        }
        self.period = period;
    }

    fn summary(&mut self, name: &str, period: u64) -> ServerCalls {
        self.advance(period);
        let mut sorted: Vec<Duration> = self.durations.iter().copied().collect();
        sorted.sort_unstable();
        // The nearest-rank method, as in the console.
        let rank =
            |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        ServerCalls {
            name: name.to_owned(),
            calls: self.calls,
            failed: self.failed,
            running: self.running,
            p50: rank(50),
            p95: rank(95),
            history: self.history.iter().copied().collect(),
        }
    }
}

/// Returns the entry of a name, or that of [`OTHERS`] if there are too many names.
fn named<'a, T>(all: &'a mut BTreeMap<String, T>, name: &str, new: impl FnOnce() -> T) -> &'a mut T {
    let name = if all.len() < MAX_NAMES || all.contains_key(name) { name } else { OTHERS };
    all.entry(name.to_owned()).or_insert_with(new)
}

fn clip(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

/// A call until it has ended. Dropped before, it counts as cancelled.
#[derive(Debug)]
pub(super) struct RunningCall {
    activity: Arc<CallActivity>,
    begun: Instant,
    call: Option<ObservedCall>,
}

impl RunningCall {
    pub(super) fn decide(&mut self, decision: &str, by: &str, basis: DecisionBasis) {
        let Some(call) = &mut self.call else { return };
        (call.decision, call.by) = (Some(decision.to_owned()), (!by.is_empty()).then(|| by.to_owned()));
        call.basis = basis;
        if let Some((shown, _)) = self.activity.state.lock().running.get_mut(&call.number) {
            (shown.decision, shown.by, shown.basis) = (call.decision.clone(), call.by.clone(), basis);
        }
        self.activity.notify();
    }

    pub(super) fn wait_for_person(&mut self) {
        self.decide("ask", "", DecisionBasis::Unanswered);
    }

    pub(super) fn end(&mut self, outcome: AuditOutcome) {
        let Some(mut call) = self.call.take() else { return };
        (call.outcome, call.duration) = (Some(outcome), self.begun.elapsed());
        self.activity.state.lock().end(call);
        self.activity.notify();
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.end(AuditOutcome::Cancelled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(activity: &Arc<CallActivity>, server: &str, application: &str) -> RunningCall {
        let observed = ObservedCall {
            number: activity.next.fetch_add(1, Ordering::Relaxed),
            at: Timestamp::now(),
            application: Some(application.to_owned()),
            server: server.to_owned(),
            subject: "read".to_owned(),
            arguments: None,
            progress: None,
            decision: None,
            by: None,
            basis: DecisionBasis::Unknown,
            outcome: None,
            duration: Duration::ZERO,
        };
        activity.state.lock().begin(&observed);
        RunningCall { activity: Arc::clone(activity), begun: Instant::now(), call: Some(observed) }
    }

    #[test]
    fn a_call_runs_is_decided_and_ends() {
        let activity = Arc::new(CallActivity::default());
        let mut changes = activity.watch();
        changes.mark_unchanged();
        let mut one = call(&activity, "files", "cursor");
        one.decide("allow", "rule 1", DecisionBasis::Rule);
        assert!(changes.has_changed().unwrap());
        let seen = activity.snapshot(10);
        assert_eq!((seen.running.len(), seen.ended.len(), seen.servers[0].running), (1, 0, 1));
        assert_eq!(seen.running[0].by.as_deref(), Some("rule 1"));
        one.end(AuditOutcome::Done);
        drop(one);
        drop(call(&activity, "files", "cursor"));
        let seen = activity.snapshot(10);
        let outcomes: Vec<_> = seen.ended.iter().map(|call| call.outcome.unwrap()).collect();
        assert_eq!(outcomes, [AuditOutcome::Cancelled, AuditOutcome::Done]);
        let files = &seen.servers[0];
        assert_eq!((files.calls, files.running, files.history.iter().sum::<u32>()), (2, 0, 2));
        assert!(files.p50.is_some() && files.p95 >= files.p50);
        assert_eq!(seen.applications[0].calls, 2);
    }

    #[test]
    fn everything_is_bounded() {
        let activity = Arc::new(CallActivity::default());
        for at in 0..2000 {
            drop(call(&activity, &format!("server {at}"), &format!("application {at}")));
        }
        let running: Vec<_> = (0..2000).map(|_| call(&activity, "x", "y")).collect();
        let seen = activity.snapshot(usize::MAX);
        assert_eq!(seen.ended.len(), MAX_ENDED_CALLS);
        assert_eq!(seen.running.len(), MAX_RUNNING_CALLS);
        assert!(seen.servers.len() <= MAX_NAMES + 1 && seen.applications.len() <= MAX_NAMES + 1);
        assert_eq!(seen.servers.iter().map(|server| server.calls).sum::<u64>(), 2000);
        drop(running);
        assert!(activity.snapshot(1).running.is_empty());
    }

    #[test]
    fn the_history_moves_on_with_time() {
        let mut tally = ServerTally::default();
        tally.advance(0);
        *tally.history.back_mut().unwrap() = 3;
        tally.advance(2);
        assert_eq!(tally.history, [3, 0, 0]);
        tally.advance(1000);
        assert_eq!(tally.history.len(), HISTORY_PERIODS);
        assert_eq!(tally.history.iter().sum::<u32>(), 0);
    }
}
