//! Calls that need an approval: asked for at one node, decided at another, used at a third.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::cluster::NodeCluster;
use crate::decider;
use crate::node::NodeSettings;
use crate::plain_client::{PlainAnswer, PlainClient};

/// Tool of the calls.
pub(crate) const TOOL: &str = "modern__echo";

/// Pause between the looks of the person who decides, and between the calls of a client.
const PAUSE: Duration = Duration::from_millis(200);

/// Time in which a call has to be decided, after which its client gives up.
const DECISION_LIMIT: Duration = Duration::from_secs(60);

/// End of the names of clients that come back for a decision only after a time, so that some decisions are acknowledged
/// before a fault and used after it.
const PATIENT: &str = "-patient";
const PATIENCE: Duration = Duration::from_secs(4);

/// Number of used rounds that are sent again.
const MAX_REPEATED: usize = 200;

/// Time that clients get for their last calls.
const LAST_CALLS: Duration = Duration::from_secs(90);

/// One call, as its client and the person who decides have seen it.
#[derive(Debug, Default)]
struct ApprovalRecord {
    asked: Option<Instant>,
    /// Times at which the decision was begun and acknowledged.
    deciding: Option<Instant>,
    decided: Option<Instant>,
    /// Id of the approval whose decision was acknowledged.
    approval: Option<String>,
    /// Time at which its client came back for the decision.
    using: Option<Instant>,
    ended: Option<Instant>,
    is_answered: bool,
    failure: Option<String>,
}

/// Record of all calls.
#[derive(Debug, Default)]
struct ApprovalJournal {
    records: Mutex<HashMap<String, ApprovalRecord>>,
    /// Decisions that failed.
    failures: Mutex<Vec<String>>,
    /// Rounds that were used, to be sent again after the fault.
    used: Mutex<Vec<(PlainClient, String, PlainAnswer)>>,
    /// Rounds whose use was refused, to be used after the fault.
    refused: Mutex<Vec<(PlainClient, String, PlainAnswer)>>,
    decided: Notify,
}

impl ApprovalJournal {
    fn note(&self, key: &str, change: impl FnOnce(&mut ApprovalRecord)) {
        change(self.records.lock().entry(key.to_owned()).or_default());
    }

    /// Waits until the decision on a call is acknowledged.
    async fn wait_for_decision(&self, key: &str) -> bool {
        let decided = async {
            loop {
                let notified = self.decided.notified();
                if self.records.lock().get(key).is_some_and(|record| record.decided.is_some()) {
                    return;
                }
                // Woken by each decision, and by the time in case one came in between.
                let _ = timeout(PAUSE, notified).await;
            }
        };
        timeout(DECISION_LIMIT, decided).await.is_ok()
    }
}

/// Clients and a person, until their time is up.
#[derive(Debug)]
pub(crate) struct ApprovalRun {
    journal: Arc<ApprovalJournal>,
    clients: JoinSet<()>,
    person: JoinSet<()>,
}

/// Decision that was acknowledged and had no effect.
#[derive(Debug)]
pub(crate) struct UnusedDecision {
    pub(crate) key: String,
    pub(crate) approval: String,
    /// True if the client came back for it, and then once more after the fault.
    pub(crate) was_presented: bool,
    failure: String,
}

impl UnusedDecision {
    /// Describes it as a violation.
    pub(crate) fn describe(&self) -> String {
        format!("{} was allowed, and never took effect: {}", self.key, self.failure)
    }
}

/// Longest of several steps.
#[derive(Debug, Default)]
pub(crate) struct LongestStep {
    pub(crate) took: Duration,
    what: String,
}

impl LongestStep {
    fn take_in(&mut self, key: &str, what: &str, (from, to): (Instant, Instant), fault: Instant) {
        let took = to.saturating_duration_since(from);
        if took > self.took {
            let after = from.saturating_duration_since(fault).as_secs_f64();
            let before = fault.saturating_duration_since(from).as_secs_f64();
            let what = format!("{key}, {what}, begun {:+.1} s from the loss", after - before);
            *self = Self { took, what };
        }
    }
}

impl fmt::Display for LongestStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s ({})", self.took.as_secs_f64(), self.what)
    }
}

/// Findings of a run, in words where something is wrong.
#[derive(Debug, Default)]
pub(crate) struct ApprovalSummary {
    pub(crate) decided: usize,
    pub(crate) used: usize,
    pub(crate) effects: usize,
    pub(crate) repeated: usize,
    /// Calls that were under way during the fault, and calls that ended after it.
    pub(crate) spanning: usize,
    pub(crate) after: usize,
    /// Longest decision, or use by a client that comes back for it.
    pub(crate) longest: LongestStep,
    /// Longest time from a decision until a call that waits at its node has ended.
    pub(crate) longest_wait: LongestStep,
    /// Refused uses that were made after the fault.
    pub(crate) redeemed: usize,
    pub(crate) unused: Vec<UnusedDecision>,
    pub(crate) twice: Vec<String>,
    pub(crate) failures: Vec<String>,
    /// Those of calls that began after the fault.
    pub(crate) late_failures: Vec<String>,
}

impl ApprovalRun {
    /// Starts clients, of which every second one comes back for its decision, and the others wait.
    pub(crate) fn start(cluster: &NodeCluster, clients: usize, length: Duration) -> Self {
        let journal = Arc::new(ApprovalJournal::default());
        let until = Instant::now() + length;
        let (mut tasks, mut person) = (JoinSet::new(), JoinSet::new());
        for number in 0..clients {
            let client = PlainClient {
                port: cluster.balancer.port(),
                name: format!("c{number}{}", if number % 4 == 2 { PATIENT } else { "" }),
                can_ask: number % 2 == 0,
            };
            tasks.spawn(make_calls(client, Arc::clone(&journal), until));
        }
        let nodes = cluster.nodes.iter().map(|node| node.settings().clone()).collect();
        person.spawn(decide_all(nodes, Arc::clone(&journal)));
        Self { journal, clients: tasks, person }
    }

    /// Waits for the clients, and checks what happened; `fault` is the time without a primary.
    pub(crate) async fn finish(
        mut self,
        effects: &Path,
        (begun, ended): (Instant, Instant),
    ) -> Result<ApprovalSummary> {
        let all = async { while self.clients.join_next().await.is_some() {} };
        let has_ended = timeout(LAST_CALLS, all).await.is_ok();
        self.person.abort_all();
        let mut summary = ApprovalSummary {
            failures: std::mem::take(&mut *self.journal.failures.lock()),
            ..ApprovalSummary::default()
        };
        if !has_ended {
            summary.failures.push("clients have not ended".to_owned());
        }
        // What was used before the fault, the newest first: none of it may be executed again. What is said is not looked
        // at, but its effects are.
        let refused = std::mem::take(&mut *self.journal.refused.lock());
        for (client, key, first) in &refused {
            let answer = use_decision(client, key, first).await;
            summary.redeemed += usize::from(answer.is_ok_and(|answer| answer.is_result()));
        }
        let used = std::mem::take(&mut *self.journal.used.lock());
        for (client, key, first) in used.iter().rev().take(MAX_REPEATED) {
            let _refused = use_decision(client, key, first).await;
            summary.repeated += 1;
        }
        let mut effects_of: HashMap<String, usize> = HashMap::new();
        for line in std::fs::read_to_string(effects)?.lines() {
            let key = line.split(' ').next().unwrap_or_default();
            *effects_of.entry(key.to_owned()).or_default() += 1;
            summary.effects += 1;
        }
        for (key, record) in self.journal.records.lock().iter() {
            summary.take_in(key, record, effects_of.remove(key).unwrap_or_default(), (begun, ended));
        }
        let unknown = effects_of.into_keys().map(|key| format!("{key} took effect, but nobody called it"));
        summary.twice.extend(unknown);
        Ok(summary)
    }
}

impl ApprovalSummary {
    fn take_in(
        &mut self,
        key: &str,
        record: &ApprovalRecord,
        effects: usize,
        (begun, ended): (Instant, Instant),
    ) {
        let Some(asked) = record.asked else {
            self.failures.push(format!("{key} was decided, but nobody asked"));
            return;
        };
        let end = record.ended.unwrap_or_else(Instant::now);
        self.spanning += usize::from(asked < ended && end > begun);
        self.after += usize::from(record.is_answered && end > ended);
        self.decided += usize::from(record.decided.is_some());
        self.used += usize::from(record.is_answered);
        if let Some(failure) = &record.failure {
            let text = format!("{key}: {failure}");
            if asked > ended {
                self.late_failures.push(text.clone());
            }
            self.failures.push(text);
        }
        let note = |longest: &mut LongestStep, what, from: Option<Instant>, to: Option<Instant>| {
            if let (Some(from), Some(to)) = (from, to) {
                longest.take_in(key, what, (from, to), begun);
            }
        };
        note(&mut self.longest, "its decision", record.deciding, record.decided);
        note(&mut self.longest, "its use", record.using, record.ended);
        let waiting = record.decided.filter(|_| record.using.is_none());
        note(&mut self.longest_wait, "its use at the node", waiting, record.ended);
        if let Some(approval) = record.approval.clone().filter(|_| effects == 0) {
            self.unused.push(UnusedDecision {
                key: key.to_owned(),
                approval,
                was_presented: record.using.is_some(),
                failure: record.failure.clone().unwrap_or_else(|| "no answer".to_owned()),
            });
        }
        if effects > 1 {
            self.twice.push(format!("{key}: {effects} effects of one approval"));
        }
        if effects > 0 && record.deciding.is_none() {
            self.twice.push(format!("{key} took effect, and nobody allowed it"));
        }
    }
}

async fn make_calls(client: PlainClient, journal: Arc<ApprovalJournal>, until: Instant) {
    let mut number = 0;
    while Instant::now() < until {
        number += 1;
        let key = format!("{}-{number}", client.name);
        journal.note(&key, |record| record.asked = Some(Instant::now()));
        let failure = make_call(&client, &key, &journal).await.err();
        journal.note(&key, |record| {
            record.ended.get_or_insert_with(Instant::now);
            record.is_answered = failure.is_none();
            record.failure = failure;
        });
        sleep(PAUSE).await;
    }
}

/// Makes a call; an error in words if it is not answered by its tool.
async fn make_call(client: &PlainClient, key: &str, journal: &ApprovalJournal) -> Result<(), String> {
    let first = client.call(TOOL, key, &Value::Null).await.map_err(|error| format!("{error:#}"))?;
    if !client.can_ask || first.approval().is_none() {
        return if first.is_result() { Ok(()) } else { Err(first.brief()) };
    }
    if !journal.wait_for_decision(key).await {
        return Err("nobody could decide".to_owned());
    }
    if client.name.ends_with(PATIENT) {
        sleep(PATIENCE).await;
    }
    journal.note(key, |record| record.using = Some(Instant::now()));
    let answer = use_decision(client, key, &first).await.map_err(|error| format!("{error:#}"))?;
    if !answer.is_result() {
        journal.refused.lock().push((client.clone(), key.to_owned(), first));
        return Err(answer.brief());
    }
    journal.used.lock().push((client.clone(), key.to_owned(), first));
    Ok(())
}

/// Comes back with an approval that was decided.
pub(crate) async fn use_decision(
    client: &PlainClient,
    key: &str,
    first: &PlainAnswer,
) -> Result<PlainAnswer> {
    client.call(TOOL, key, &first.next_round()).await
}

/// Allows what the nodes show, each time at another node.
async fn decide_all(nodes: Vec<NodeSettings>, journal: Arc<ApprovalJournal>) {
    let (mut turn, mut seen, mut deciding) = (0, HashSet::new(), JoinSet::new());
    loop {
        turn += 1;
        let node = &nodes[turn % nodes.len()];
        let open = match decider::list(node).await {
            Ok(open) => open,
            Err(error) => {
                journal.failures.lock().push(format!("the approvals cannot be listed: {error:#}"));
                Vec::new()
            }
        };
        for approval in open {
            // A decision that was made shows at other nodes a moment later.
            if !seen.insert(approval.id.clone()) {
                continue;
            }
            let (node, journal) = (node.clone(), Arc::clone(&journal));
            deciding.spawn(async move {
                journal.note(&approval.key, |record| record.deciding = Some(Instant::now()));
                match decider::allow(&node, &approval.id).await {
                    Ok(()) => {
                        let key = &approval.key;
                        journal.note(key, |record| {
                            record.decided = Some(Instant::now());
                            record.approval = Some(approval.id);
                        });
                        journal.decided.notify_waiters();
                        None
                    }
                    Err(error) => {
                        let text = format!("the decision on {} failed: {error:#}", approval.key);
                        journal.failures.lock().push(text);
                        Some(approval.id)
                    }
                }
            });
        }
        while let Some(done) = deciding.try_join_next() {
            // The person sees that it failed, and tries again if it is still shown.
            if let Ok(Some(failed)) = done {
                seen.remove(&failed);
            }
        }
        sleep(PAUSE).await;
    }
}
