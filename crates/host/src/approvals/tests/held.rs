//! Approvals that the nodes of a fleet hold, in one PostgreSQL database.

use std::collections::HashSet;

use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use hospes_store::{AuditEntry, PostgresSettings};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::*;

type Settled = Result<ApprovalOutcome, ApprovalQueueError>;

/// A node that believes what the test says.
struct TestNode {
    id: Mutex<String>,
    ended: Arc<Mutex<HashSet<String>>>,
}

impl ApprovalNodes for TestNode {
    fn node(&self) -> Option<String> {
        Some(self.id.lock().clone())
    }

    fn ended(&self, mut nodes: Vec<String>) -> EndedNodes<'_> {
        nodes.retain(|node| self.ended.lock().contains(node));
        Box::pin(async move { Ok(nodes) })
    }
}

struct Fleet {
    server: PostgresServer,
    ended: Arc<Mutex<HashSet<String>>>,
}

impl Fleet {
    fn start() -> Self {
        Self { server: PostgresServer::start(PostgresOptions::default()), ended: Arc::default() }
    }

    async fn state(&self) -> StateStore {
        let mut settings = PostgresSettings::new(self.server.url().into());
        // Several servers start at the same time, perhaps on a busy machine.
        (settings.connect_timeout, settings.retry_timeout) =
            (Duration::from_secs(20), Duration::from_secs(60));
        StateStore::connect(settings, vec![[7; 32].into()]).await.unwrap()
    }

    async fn node(&self, id: &str) -> (ApprovalQueue, Arc<TestNode>) {
        let node = Arc::new(TestNode { id: Mutex::new(id.to_owned()), ended: Arc::clone(&self.ended) });
        let nodes: Arc<dyn ApprovalNodes> = node.clone();
        (ApprovalQueue::open_shared(&self.state().await, nodes).await.unwrap(), node)
    }

    fn end(&self, id: &str) {
        self.ended.lock().insert(id.to_owned());
    }

    fn rows(&self) -> String {
        self.server.query("SELECT count(*) FROM matters WHERE used_by IS NULL")
    }
}

/// Begins a call that waits at this node.
fn hold(queue: &ApprovalQueue, bond: u8) -> (String, JoinHandle<Settled>) {
    hold_as(queue, asking(bond, 1))
}

fn hold_as(queue: &ApprovalQueue, asking: NewApproval) -> (String, JoinHandle<Settled>) {
    let waiting = queue.submit(asking).unwrap();
    (waiting.id().to_owned(), tokio::spawn(async move { waiting.wait_settled().await }))
}

async fn seen(queue: &ApprovalQueue, id: &str, state: ApprovalState) -> Approval {
    let mut changes = queue.subscribe();
    let found = async {
        loop {
            changes.mark_unchanged();
            if let Some(approval) = queue.get(id).filter(|approval| approval.state == state) {
                return approval;
            }
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found).await.expect("seen")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_at_one_node_is_decided_at_another() {
    let fleet = Fleet::start();
    let ((one, _), (other, _)) = (fleet.node("one").await, fleet.node("other").await);
    let (id, waiting) = hold(&one, 1);
    let shown = seen(&other, &id, ApprovalState::Open).await;
    assert_eq!(shown.card, card(r#"{"path":"/srv/a"}"#));
    assert!(!shown.offers.session && shown.offers.always, "a session is known to its node only");
    assert!(other.pending_unpersisted().is_empty() && one.pending_unpersisted().len() == 1);
    // Nobody but the call that waits can use it.
    assert!(!other.is_redeemable(&id, &[1; 32]));
    assert_eq!(other.redeem(&id, &[1; 32], None).await, Err(ApprovalQueueError::Expired));
    let session = ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Session };
    assert!(matches!(other.decide(&id, session, CONSOLE).await, Err(DecideError::NotOffered(_))));
    let decided = std::time::Instant::now();
    other.decide(&id, ApprovalDecision::allow(), CONSOLE).await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(allowed(CONSOLE)));
    // The bar is a second. A busy machine gets more, which is still less than the interval of anything else.
    assert!(decided.elapsed() < Duration::from_secs(5), "{:?}", decided.elapsed());
    // It is over for all.
    eventually("the use is seen", async || (other.0.state.lock().entries.is_empty()).then_some(())).await;
    assert_eq!(other.get(&id).unwrap().state, ApprovalState::Allowed);
    assert_eq!(other.decide(&id, ApprovalDecision::deny(), CONSOLE).await, Err(DecideError::Over));
    assert_eq!(other.redeem_orphaned(&asking(1, 1)).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_decisions_at_several_nodes_one_counts() {
    let fleet = Fleet::start();
    let ((one, _), (other, _)) = (fleet.node("one").await, fleet.node("other").await);
    for round in 0..10 {
        let (id, waiting) = hold(&one, 1);
        seen(&other, &id, ApprovalState::Open).await;
        let (first, second) = tokio::join!(
            one.decide(&id, ApprovalDecision::allow(), "one"),
            other.decide(&id, ApprovalDecision::allow(), "other")
        );
        assert!(first.is_ok() != second.is_ok(), "{round}: {first:?} {second:?}");
        let by = if first.is_ok() { "one" } else { "other" };
        assert_eq!(waiting.await.unwrap(), Ok(allowed(by)), "{round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_goes_away_takes_its_approval_with_it() {
    let fleet = Fleet::start();
    let ((one, _), (other, _)) = (fleet.node("one").await, fleet.node("other").await);
    let (id, waiting) = hold(&one, 1);
    seen(&other, &id, ApprovalState::Open).await;
    waiting.abort();
    let ended = seen(&other, &id, ApprovalState::Withdrawn).await;
    assert!(!ended.node_ended, "its requester went away");
    // It goes away at any point of its beginning.
    for polls in 0..20 {
        let (_, waiting) = hold(&one, 1);
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        waiting.abort();
    }
    eventually("nothing is left", async || (fleet.rows().trim() == "0").then_some(())).await;
    eventually("nothing is shown", async || other.pending().is_empty().then_some(())).await;
    // What still waits when the host ends is withdrawn.
    let (id, _waiting) = hold(&one, 1);
    seen(&other, &id, ApprovalState::Open).await;
    one.shut_down().await;
    seen(&other, &id, ApprovalState::Withdrawn).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_held_that_has_ended_is_withdrawn_and_what_was_allowed_used_once_by_the_same_call() {
    let fleet = Fleet::start();
    let ((one, _), (other, _), (third, _)) =
        (fleet.node("one").await, fleet.node("other").await, fleet.node("third").await);
    let (open, waiting) = hold(&one, 1);
    // Allowed, and the node is gone before the call can use it.
    let held = one.submit(asking(2, 1)).unwrap();
    let allowed_id = held.persist().await.unwrap();
    let denied_id = one.submit(asking(3, 1)).unwrap().persist().await.unwrap();
    for id in [&open, &allowed_id, &denied_id] {
        seen(&other, id, ApprovalState::Open).await;
    }
    other.decide(&allowed_id, ApprovalDecision::allow(), CONSOLE).await.unwrap();
    other.decide(&denied_id, ApprovalDecision::deny(), CONSOLE).await.unwrap();
    seen(&third, &allowed_id, ApprovalState::Allowed).await;
    seen(&third, &denied_id, ApprovalState::Denied).await;
    assert_eq!(other.redeem_orphaned(&asking(2, 1)).await, None, "its node lives");
    fleet.end("one");
    for queue in [&other, &third] {
        assert!(seen(queue, &open, ApprovalState::Withdrawn).await.node_ended);
    }
    assert_eq!(other.redeem_orphaned(&asking(1, 1)).await, None, "it was not decided");
    assert_eq!(other.redeem_orphaned(&asking(3, 1)).await, None, "what was denied is asked again");
    let both = [&other, &third, &other, &third];
    let same = asking(2, 1);
    let used = futures::future::join_all(both.map(|queue| queue.redeem_orphaned(&same))).await;
    let used: Vec<_> = used.into_iter().flatten().collect();
    assert_eq!(used, [(allowed_id.clone(), allowed(CONSOLE))], "once");
    // The former holder lives and comes too late.
    assert_eq!(waiting.await.unwrap(), Err(ApprovalQueueError::Expired));
    assert_eq!(one.redeem(&allowed_id, &[2; 32], None).await, Err(ApprovalQueueError::Expired));
}

/// The lease has ended, but the process lives: what it holds is either its own under a new id, or lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_new_id_goes_on_with_what_it_holds() {
    let fleet = Fleet::start();
    let ((one, node), (other, _)) = (fleet.node("one").await, fleet.node("other").await);
    let (id, waiting) = hold(&one, 1);
    seen(&other, &id, ApprovalState::Open).await;
    *node.id.lock() = "one again".to_owned();
    eventually("the approval is held under the new id", async || {
        let holder = fleet.server.query("SELECT holder FROM matters WHERE used_by IS NULL");
        (holder.trim() == "one again").then_some(())
    })
    .await;
    fleet.end("one");
    other.withdraw_ended().await.unwrap();
    other.decide(&id, ApprovalDecision::allow(), CONSOLE).await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(allowed(CONSOLE)));
}

/// Another node can check edits of calls only. The rest is checked where the call waits.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_is_made_elsewhere_is_checked_where_the_call_waits() {
    let fleet = Fleet::start();
    let ((one, _), (other, _)) = (fleet.node("one").await, fleet.node("other").await);
    let edited = |text: &str| ApprovalDecision::Allow {
        edited: Some(json!({ "text": text }).into()),
        scope: ApprovalScope::Once,
    };
    let review = || {
        let card = json!({
            "kind": "result", "what": "tool", "name": "read", "arguments": {}, "result": {}, "because": "a rule",
        });
        let card: ApprovalCard = serde_json::from_str(&card.to_string()).unwrap();
        NewApproval { card, ..asking(1, 1) }
    };
    let (id, waiting) = hold_as(&one, review());
    seen(&other, &id, ApprovalState::Open).await;
    other.decide(&id, edited("bad"), CONSOLE).await.unwrap();
    let settled = waiting.await.unwrap();
    let Ok(ApprovalOutcome::Denied { reason: Some(reason), .. }) = settled else { panic!("{settled:?}") };
    assert!(reason.contains("bad is not good"), "{reason}");
    let (id, waiting) = hold_as(&one, review());
    seen(&other, &id, ApprovalState::Open).await;
    other.decide(&id, edited("fine"), CONSOLE).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Ok(ApprovalOutcome::Allowed { edited: Some(_), .. })));
    // That of a call is checked at once.
    let (id, _waiting) = hold(&one, 1);
    seen(&other, &id, ApprovalState::Open).await;
    let refused = other.decide(&id, edited("fine"), CONSOLE).await;
    assert!(matches!(refused, Err(DecideError::Edit(_))), "{refused:?}");
}

/// Without a fleet nothing is written for a call that waits.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_fleet_what_is_held_is_not_stored() {
    let fleet = Fleet::start();
    let queue = ApprovalQueue::open(&fleet.state().await).await.unwrap();
    let (id, waiting) = hold(&queue, 1);
    seen(&queue, &id, ApprovalState::Open).await;
    assert_eq!(fleet.rows().trim(), "0");
    queue.decide(&id, ApprovalDecision::allow(), CONSOLE).await.unwrap();
    assert_eq!(waiting.await.unwrap(), Ok(allowed(CONSOLE)));
    let written = fleet.server.query("SELECT coalesce(sum(count), 0) FROM part_changes");
    assert_eq!(written.trim(), "0", "no change was made");
}

/// A queue whose state records decisions, with the audit log of its node.
struct RecordingQueue {
    queue: ApprovalQueue,
    log: AuditLog,
    _folder: tempfile::TempDir,
}

impl RecordingQueue {
    /// `is_node` is false for a host beside the nodes.
    async fn open(fleet: &Fleet, name: &str, is_node: bool) -> Self {
        let state = fleet.state().await.recording_decisions(name).unwrap();
        let queue = if is_node {
            let id = Mutex::new(name.to_owned());
            let node = Arc::new(TestNode { id, ended: Arc::clone(&fleet.ended) });
            ApprovalQueue::open_shared(&state, node).await.unwrap()
        } else {
            ApprovalQueue::open(&state).await.unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let log = AuditLog::open(folder.path().join("audit.db"), folder.path().join("audit.key")).unwrap();
        queue.set_audit(&log);
        Self { queue, log, _folder: folder }
    }

    /// Returns decision and scope of the entries in the file, in order.
    async fn in_file(&self) -> Vec<String> {
        self.log.after(0, 100).await.unwrap().iter().map(|one| shown(&one.entry)).collect()
    }
}

fn shown(entry: &AuditEntry) -> String {
    format!("{} {}", entry.decision.as_deref().unwrap(), entry.scope.as_deref().unwrap_or("-"))
}

/// Decisions of nodes are in the record of all of them and not in the file of a node, which has what changes nothing in the
/// state.
#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_recorded_where_they_are_stored() {
    let fleet = Fleet::start();
    let (one, other) =
        (RecordingQueue::open(&fleet, "one", true).await, RecordingQueue::open(&fleet, "other", true).await);
    let record = fleet.state().await.audit().unwrap().unwrap();
    let in_record = async || -> Vec<String> {
        let all = record.after(0, 100).await.unwrap();
        all.iter().map(|one| format!("{} {}", one.origin.as_ref().unwrap().node, shown(&one.entry))).collect()
    };
    let always = || ApprovalDecision::Allow {
        edited: None,
        scope: ApprovalScope::Always(LastingPermission::default()),
    };
    // At another node than that of the call, with what lasts.
    let (id, waiting) = hold(&one.queue, 1);
    seen(&other.queue, &id, ApprovalState::Open).await;
    other.queue.decide(&id, always(), CONSOLE).await.unwrap();
    assert_eq!(other.queue.decide(&id, ApprovalDecision::deny(), CONSOLE).await, Err(DecideError::Over));
    assert!(matches!(waiting.await.unwrap(), Ok(ApprovalOutcome::Allowed { lasts: true, .. })));
    let mut expected = vec!["other allow always".to_owned()];
    assert_eq!(in_record().await, expected);
    let entry = record.after(0, 1).await.unwrap().remove(0).entry;
    assert_eq!((entry.matter, entry.by.as_deref()), (Some(id), Some(CONSOLE)));
    eventually("the grant is known", async || (one.queue.grants().len() == 1).then_some(())).await;
    let grant = one.queue.grants().remove(0);
    one.queue.revoke(&grant.id, CONSOLE).await.unwrap();
    expected.push("one revoke -".to_owned());
    assert_eq!(in_record().await, expected);
    // By the form of an application, which may not come back for it.
    let answer = |decision| Some((decision, "the person, in the application"));
    for (bond, decision, scope) in [(2, always(), "allow always"), (3, ApprovalDecision::deny(), "deny once")]
    {
        let waiting = one.queue.submit(NewApproval { returns: true, ..asking(bond, 1) }).unwrap();
        let id = waiting.persist().await.unwrap();
        let settled = one.queue.redeem(&id, &[bond; 32], answer(decision)).await.unwrap().unwrap();
        assert_eq!(matches!(settled, ApprovalOutcome::Allowed { .. }), bond == 2);
        expected.push(format!("one {scope}"));
        assert_eq!(in_record().await, expected);
        assert_eq!(
            one.queue.redeem(&id, &[bond; 32], answer(ApprovalDecision::allow())).await,
            Err(ApprovalQueueError::Expired)
        );
    }
    assert!(one.queue.grants()[0].weak && fleet.rows() == "0");
    // What was not offered was not meant.
    let offers = DecisionOptions { always: false, ..asking(4, 1).offers };
    let waiting = one.queue.submit(NewApproval { returns: true, offers, ..asking(4, 1) }).unwrap();
    let id = waiting.persist().await.unwrap();
    let settled = one.queue.redeem(&id, &[4; 32], answer(always())).await.unwrap().unwrap();
    assert!(matches!(settled, ApprovalOutcome::Allowed { lasts: false, .. }), "{settled:?}");
    expected.push("one allow once".to_owned());
    assert_eq!(in_record().await, expected);
    // Nobody decides about what is withdrawn.
    let (_, waiting) = hold(&one.queue, 5);
    eventually("it waits", async || (one.queue.pending().len() == 1).then_some(())).await;
    waiting.abort();
    eventually("it is withdrawn", async || (one.in_file().await == ["withdrawn -"]).then_some(())).await;
    assert!(other.in_file().await.is_empty());
    // The approvals of a host beside the nodes are in its memory, and what lasts is in the state.
    let beside = RecordingQueue::open(&fleet, "beside", false).await;
    for decision in [always(), ApprovalDecision::deny()] {
        let id = beside.queue.submit(asking(6, 1)).unwrap().detach();
        beside.queue.decide(&id, decision, CONSOLE).await.unwrap();
    }
    let id = beside.queue.submit(asking(7, 1)).unwrap().detach();
    beside.queue.redeem(&id, &[7; 32], answer(always())).await.unwrap().unwrap();
    expected.extend(["beside allow always".to_owned(), "beside allow always".to_owned()]);
    assert_eq!(in_record().await, expected);
    assert_eq!(beside.in_file().await, ["deny once"]);
    record.verify(None).await.unwrap();
}

/// A decision that cannot be recorded is not made, and nothing of it is in force.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_cannot_be_recorded_is_not_made() {
    let fleet = Fleet::start();
    let node = RecordingQueue::open(&fleet, "one", true).await;
    let (id, waiting) = hold(&node.queue, 1);
    seen(&node.queue, &id, ApprovalState::Open).await;
    let _done = fleet.server.query(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
         CREATE TRIGGER refused BEFORE INSERT ON audit_blocks FOR EACH ROW EXECUTE FUNCTION refuse()",
    );
    let always =
        ApprovalDecision::Allow { edited: None, scope: ApprovalScope::Always(LastingPermission::default()) };
    let refused = node.queue.decide(&id, always.clone(), CONSOLE).await;
    assert!(matches!(refused, Err(DecideError::Store(_))), "{refused:?}");
    assert!(node.queue.grants().is_empty() && node.queue.pending().len() == 1 && !waiting.is_finished());
    let _done = fleet.server.query("DROP TRIGGER refused ON audit_blocks");
    node.queue.decide(&id, always, CONSOLE).await.unwrap();
    assert!(waiting.await.unwrap().is_ok() && node.queue.grants().len() == 1);
    assert!(node.in_file().await.is_empty());
}
