//! Decisions in a database that nodes share: each is recorded in the transaction that makes it, or neither is there.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use hospes_fleet_testkit::net_proxy::{LinkDirection, LinkRules, NetProxy};
use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use hospes_sql::{ChangeScope, SqlEngine, sql_values};
use hospes_store::approvals::{ApprovalRecords, NewDecision};
use hospes_store::grants::NewGrant;
use hospes_store::pins::{
    ItemDefinition, ItemKind, ServerFingerprint, ServerSighting, Sha256Digest, SightingReport, TrustDecision,
    TrustMode,
};
use hospes_store::{
    AuditEntry, AuditEntryKind, AuditLog, AuditQuery, AuditShipper, PostgresSettings, RecordedEntry,
    SharedAuditLog, StateStore, StoreError,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use zeroize::Zeroizing;

const LIMIT: Duration = Duration::from_secs(20);

fn after(seconds: u64) -> Timestamp {
    Timestamp::now() + Duration::from_secs(seconds)
}

async fn connect_with(settings: PostgresSettings, node: &str) -> StateStore {
    let state = StateStore::connect(settings, vec![Zeroizing::new([7; 32])]).await.unwrap();
    state.recording_decisions(node).unwrap()
}

async fn connect(server: &PostgresServer, node: &str) -> StateStore {
    connect_with(PostgresSettings::new(server.url().into()), node).await
}

/// Connects a node that gives up soon.
async fn connect_hasty(server: &PostgresServer, node: &str) -> StateStore {
    let mut settings = PostgresSettings::new(server.url().into());
    (settings.statement_timeout, settings.retry_timeout) = (Duration::from_secs(1), Duration::from_secs(2));
    connect_with(settings, node).await
}

fn entry(decision: &str, id: &str) -> AuditEntry {
    let mut entry = AuditEntry::new(AuditEntryKind::Decision);
    (entry.server, entry.subject) = (Some("files".to_owned()), Some("write".to_owned()));
    (entry.decision, entry.matter) = (Some(decision.to_owned()), Some(id.to_owned()));
    entry
}

/// Returns a decision that allows a call and gives a lasting permission, with its entry.
fn lasting(id: &str) -> NewDecision {
    let mut decision = NewDecision::new("yes".to_owned(), after(60));
    decision.grant = Some(NewGrant::new(format!("grant of {id}"), "a grant".to_owned(), None));
    decision.entry = Some(entry("allow", id));
    decision
}

async fn ask(approvals: &ApprovalRecords, id: &str) {
    approvals.insert(id.to_owned(), "a call".to_owned(), after(600)).await.unwrap();
}

/// Returns node, decision and id of the recorded entries, in order.
async fn recorded(record: &SharedAuditLog) -> Vec<String> {
    let all = record.after(0, 10_000).await.unwrap();
    let shown = |one: &RecordedEntry| {
        let (node, entry) = (&one.origin.as_ref().unwrap().node, &one.entry);
        format!("{node} {} {}", entry.decision.as_deref().unwrap(), entry.matter.as_deref().unwrap_or("-"))
    };
    all.iter().map(shown).collect()
}

/// Returns what the database has of an approval: decided, with its grant, and its number of entries.
async fn stored(server: &PostgresServer, record: &SharedAuditLog, id: &str) -> (bool, bool, usize) {
    let has = |sql: &str| server.query(&format!("SELECT count(*) FROM {sql}")) == "1";
    let is_decided = has(&format!("matters WHERE id = '{id}' AND decided IS NOT NULL"));
    let is_granted = has(&format!("grants WHERE id = 'grant of {id}'"));
    let entries = recorded(record).await.iter().filter(|line| line.ends_with(&format!(" {id}"))).count();
    (is_decided, is_granted, entries)
}

fn digest(byte: u8) -> Sha256Digest {
    Sha256Digest::new([byte; 32])
}

fn sighting() -> ServerSighting {
    let mut sighting =
        ServerSighting::new("files", ServerFingerprint::new(digest(1), "run files"), "anybody");
    sighting.definitions = vec![ItemDefinition::new(ItemKind::Tool, "write", digest(2), "writes")];
    sighting
}

/// Decisions about approvals, grants and pins are in the record once they are made, in one order with the calls.
#[tokio::test(flavor = "multi_thread")]
async fn each_decision_is_recorded_once_and_its_chain_is_anchored() {
    let server = PostgresServer::start(PostgresOptions::default());
    let (one, other) = (connect(&server, "one").await, connect(&server, "other").await);
    let record = one.audit().unwrap().unwrap();
    let approvals = [one.approvals().unwrap(), other.approvals().unwrap()];
    ask(&approvals[0], "a").await;
    let (first, second) = tokio::join!(
        approvals[0].decide("a".to_owned(), lasting("a"), Timestamp::now()),
        approvals[1].decide("a".to_owned(), lasting("a"), Timestamp::now()),
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_ne!(first, second);
    let winner = if first { "one" } else { "other" };
    assert_eq!(recorded(&record).await, [format!("{winner} allow a")], "that which counts");
    assert_eq!(stored(&server, &record, "a").await, (true, true, 1));
    // A grant is revoked once.
    for (state, is_there) in [(&other, true), (&one, false)] {
        let removed = state.grants().remove("grant of a".to_owned(), Some(entry("revoke", "g"))).await;
        assert_eq!(removed.unwrap(), is_there);
    }
    one.grants()
        .insert(NewGrant::new("g2".to_owned(), "a grant".to_owned(), None), Some(entry("allow", "g2")))
        .await
        .unwrap();
    // Pins: accepted at first use, again, and by somebody who has seen something else.
    let seen_entries =
        |seen: &SightingReport| seen.news.iter().map(|(_, name, _)| entry("allow", name)).collect::<Vec<_>>();
    for state in [&one, &other] {
        state.pins().record_audited_sighting(sighting(), TrustMode::FirstUse, seen_entries).await.unwrap();
    }
    let hash = one.pins().server("files", digest(1)).await.unwrap().unwrap().hash;
    for (hash, is_made) in [(digest(9), false), (hash, true)] {
        let decision =
            TrustDecision::accept("files", digest(1), hash, "ann").with_entry(entry("accept", "p"));
        assert_eq!(one.pins().decide(decision).await.unwrap().is_ok(), is_made);
    }
    let expected = ["other revoke g", "one allow g2", "one allow write", "one accept p"];
    assert_eq!(recorded(&record).await[1..], expected);
    // Calls of a node come by its file, in a chain of their own.
    let folder = tempfile::tempdir().unwrap();
    let log = AuditLog::open(folder.path().join("audit.db"), folder.path().join("audit.key")).unwrap();
    log.record(entry("allow", "call")).await.unwrap();
    assert!(AuditShipper::spawn(&log, record.clone(), "one").finish(LIMIT).await);
    record.anchor(Duration::ZERO).await.unwrap().expect("an anchor");
    let verified = record.verify(None).await.unwrap();
    assert_eq!((verified.entries, verified.not_anchored), (6, 0));
    let mut chains: Vec<_> =
        verified.chains.iter().map(|chain| (&*chain.node, chain.has_decisions)).collect();
    chains.sort_unstable();
    assert_eq!(chains, [("one", false), ("one", true), ("other", true)]);
    let mut query = AuditQuery::new();
    query.decision = Some("accept".to_owned());
    assert_eq!(record.search(query).await.unwrap().len(), 1);
    // A state that does not record leaves it to the host.
    let silent =
        StateStore::connect(PostgresSettings::new(server.url().into()), vec![Zeroizing::new([7; 32])]);
    let silent = silent.await.unwrap();
    assert!(one.records_decisions() && !silent.records_decisions());
    ask(&silent.approvals().unwrap(), "b").await;
    assert!(
        silent.approvals().unwrap().decide("b".to_owned(), lasting("b"), Timestamp::now()).await.unwrap()
    );
    assert_eq!(stored(&server, &record, "b").await, (true, true, 0));
}

/// A transaction that fails before or at its commit leaves neither the decision nor its entry.
#[tokio::test(flavor = "multi_thread")]
async fn what_fails_leaves_neither_the_decision_nor_its_entry() {
    let server = PostgresServer::start(PostgresOptions::default());
    let state = connect_hasty(&server, "one").await;
    let (approvals, record) = (state.approvals().unwrap(), state.audit().unwrap().unwrap());
    let _done = server.query(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$",
    );
    let triggers = [
        (
            "at the entry",
            "CREATE TRIGGER refused BEFORE INSERT ON audit_blocks FOR EACH ROW EXECUTE FUNCTION refuse()",
        ),
        (
            "at the commit",
            "CREATE CONSTRAINT TRIGGER refused AFTER INSERT ON audit_blocks DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION refuse()",
        ),
    ];
    for (place, (what, trigger)) in triggers.into_iter().enumerate() {
        let id = format!("a{place}");
        ask(&approvals, &id).await;
        let _done = server.query(trigger);
        let failed = approvals.decide(id.clone(), lasting(&id), Timestamp::now()).await;
        assert!(failed.is_err(), "{what}: {failed:?}");
        assert_eq!(stored(&server, &record, &id).await, (false, false, 0), "{what}");
        let decision = TrustDecision::reject("files", digest(1), "ann").with_entry(entry("reject", "p"));
        if place == 0 {
            state.pins().record_sighting(sighting(), TrustMode::FirstUse).await.unwrap();
        }
        state.pins().decide(decision).await.unwrap_err();
        let grants = state.grants();
        let removed =
            grants.remove(format!("grant of a{}", place.saturating_sub(1)), Some(entry("revoke", "g")));
        assert_eq!(removed.await.is_ok(), place == 0, "there is no grant at first: {what}");
        let _done = server.query("DROP TRIGGER refused ON audit_blocks");
        assert!(approvals.decide(id.clone(), lasting(&id), Timestamp::now()).await.unwrap());
        assert_eq!(stored(&server, &record, &id).await, (true, true, 1), "{what}");
    }
    assert_eq!(server.query("SELECT state FROM pinned_servers"), "accepted");
    assert_eq!(recorded(&record).await, ["one allow a0", "one allow a1"]);
    assert_eq!(record.verify(None).await.unwrap().entries, 2);
}

/// A transaction is made once, wherever its connection breaks: before, during or after its commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_transaction_writes_its_entry_once() {
    let mut server = PostgresServer::start(PostgresOptions::default());
    let sound = connect(&server, "sound").await;
    let record = sound.audit().unwrap().unwrap();
    let proxy = NetProxy::to_port(server.port()).await;
    let flaky = connect_with(PostgresSettings::new(server.url_at(proxy.port()).into()), "flaky").await;
    let (approvals, asking) = (flaky.approvals().unwrap(), sound.approvals().unwrap());
    for direction in [LinkDirection::ToServer, LinkDirection::ToClient] {
        ask(&asking, &format!("whole {direction:?}")).await;
        proxy.reset_connections();
        let before = proxy.passed(direction);
        let id = format!("whole {direction:?}");
        assert!(approvals.decide(id.clone(), lasting(&id), Timestamp::now()).await.unwrap());
        let whole = proxy.passed(direction) - before;
        for bytes in (0..whole + 60).step_by(700) {
            let id = format!("{direction:?} {bytes}");
            ask(&asking, &id).await;
            proxy.set(direction, LinkRules::cut_after(bytes));
            proxy.reset_connections();
            let (approvals, decision) = (approvals.clone(), lasting(&id));
            let (of, accepted) = (id.clone(), proxy.accepted());
            let deciding =
                tokio::spawn(async move { approvals.decide(of, decision, Timestamp::now()).await.unwrap() });
            hospes_fleet_testkit::eventually("a connection", async || {
                (proxy.accepted() > accepted || deciding.is_finished()).then_some(())
            })
            .await;
            proxy.heal();
            assert!(deciding.await.unwrap(), "{id}: the decision is made by its own attempt");
            assert_eq!(stored(&server, &record, &id).await, (true, true, 1), "{id}");
        }
    }
    // The engine is killed while decisions are made.
    for round in 0..3 {
        let ids: Vec<String> = (0..8).map(|number| format!("killed {round} {number}")).collect();
        for id in &ids {
            ask(&asking, id).await;
        }
        let deciding: Vec<_> = ids
            .iter()
            .map(|id| {
                let (approvals, id) = (asking.clone(), id.clone());
                tokio::spawn(
                    async move { approvals.decide(id.clone(), lasting(&id), Timestamp::now()).await },
                )
            })
            .collect();
        hospes_fleet_testkit::eventually("the first is made", async || {
            deciding.iter().any(tokio::task::JoinHandle::is_finished).then_some(())
        })
        .await;
        server.kill();
        server.restart();
        for (id, deciding) in ids.iter().zip(deciding) {
            assert!(deciding.await.unwrap().unwrap(), "{id}");
            assert_eq!(stored(&server, &record, id).await, (true, true, 1), "{id}");
        }
    }
    record.anchor(Duration::ZERO).await.unwrap();
    record.verify(None).await.unwrap();
}

/// Entries of decisions that somebody with the database has changed, removed or cut off are found.
#[tokio::test(flavor = "multi_thread")]
async fn changed_and_removed_decisions_are_found() {
    let server = PostgresServer::start(PostgresOptions::default());
    let state = connect_hasty(&server, "one").await;
    let (approvals, record) = (state.approvals().unwrap(), state.audit().unwrap().unwrap());
    let tables = ["audit_chains", "audit_order", "audit_blocks", "audit_anchors"];
    let save = |name: &str| {
        tables
            .iter()
            .for_each(|table| drop(server.query(&format!("CREATE TABLE {name}_{table} AS TABLE {table}"))));
    };
    for id in ["a", "b", "c"] {
        ask(&approvals, id).await;
        if id == "c" {
            save("early");
        }
        assert!(approvals.decide(id.to_owned(), lasting(id), Timestamp::now()).await.unwrap());
        record.anchor(Duration::ZERO).await.unwrap().unwrap();
    }
    save("whole");
    let restore = || {
        for table in tables {
            let _done =
                server.query(&format!("TRUNCATE {table} CASCADE; INSERT INTO {table} TABLE whole_{table}"));
        }
    };
    let change = "UPDATE audit_blocks SET entries =
        convert_to(replace(convert_from(entries, 'UTF8'), '\"allow\"', '\"denies\"'), 'UTF8') WHERE last_number = 2";
    let cut = "DELETE FROM audit_blocks WHERE last_number = 3; UPDATE audit_order SET entries = 2;
        UPDATE audit_chains SET last_seq = early.last_seq, last_bound = early.last_bound, last_seal = early.last_seal
        FROM early_audit_chains AS early WHERE early.id = audit_chains.id";
    let cases = [
        (change, "entry 2 was modified (node one"),
        ("DELETE FROM audit_blocks WHERE last_number = 2", "entry 2 is missing (node one"),
        ("DELETE FROM audit_blocks WHERE last_number = 3", "entry 3 is missing (node one"),
        (cut, "had 3 entries then, and now has 2"),
        ("DELETE FROM audit_blocks; DELETE FROM audit_chains", "the numbers 1 to 3 are missing"),
        ("UPDATE audit_chains SET last_seq = 2", "the sealed first or last entry of the log does not match"),
    ];
    for (meddling, expected) in cases {
        let _done = server.query(meddling);
        let found = match record.verify(None).await {
            Err(StoreError::SharedTampered(found)) => found.to_string(),
            other => panic!("{meddling}: {other:?}"),
        };
        assert!(found.contains(expected), "{meddling}: {found}");
        restore();
    }
    record.verify(None).await.unwrap();
    // A chain whose end was changed is not continued: nothing is decided.
    let _done = server.query("UPDATE audit_chains SET last_seq = 2");
    ask(&approvals, "d").await;
    let refused = approvals.decide("d".to_owned(), lasting("d"), Timestamp::now()).await.unwrap_err();
    assert!(refused.to_string().contains("`hospes audit verify` says where"), "{refused}");
    restore();
    assert_eq!(stored(&server, &record, "d").await, (false, false, 0));
    // After a beginning anew, the numbers and the anchors do not fit.
    let _done = server.query("DELETE FROM audit_blocks; DELETE FROM audit_chains");
    assert!(approvals.decide("d".to_owned(), lasting("d"), Timestamp::now()).await.unwrap());
    let found = record.verify(None).await.unwrap_err();
    assert!(matches!(found, StoreError::SharedTampered(_)), "{found:?}");
}

/// Decisions of several nodes and entries that are shipped meanwhile get numbers of one order.
#[tokio::test(flavor = "multi_thread")]
async fn decisions_and_shipped_entries_have_one_order() {
    let server = PostgresServer::start(PostgresOptions::default());
    let states =
        [connect(&server, "one").await, connect(&server, "other").await, connect(&server, "one").await];
    let record = states[0].audit().unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let log = AuditLog::open(folder.path().join("audit.db"), folder.path().join("audit.key")).unwrap();
    let deciding = states.each_ref().map(|state| {
        let state = state.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                let id = Timestamp::now().as_nanosecond();
                let grant = NewGrant::new(format!("{id}"), "a grant".to_owned(), None);
                state.grants().insert(grant, Some(entry("allow", "g"))).await.unwrap();
                state.pins().record_sighting(sighting(), TrustMode::FirstUse).await.unwrap();
            }
        })
    });
    for _ in 0..10 {
        log.record(entry("allow", "call")).await.unwrap();
        assert!(AuditShipper::spawn(&log, record.clone(), "one").finish(LIMIT).await);
        record.anchor(Duration::ZERO).await.unwrap();
    }
    for deciding in deciding {
        deciding.await.unwrap();
    }
    let verified = record.verify(None).await.unwrap();
    assert_eq!(
        (verified.entries, verified.chains.len()),
        (70, 3),
        "two processes of one node have one chain"
    );
}

/// Transaction that has the lock of the order and then stands still, as that of a stopped process does.
struct StoppedNode {
    going_on: Sender<()>,
    ended: tokio::task::JoinHandle<()>,
}

impl StoppedNode {
    async fn stop(server: &PostgresServer) -> Self {
        let mut settings = PostgresSettings::new(server.url().into());
        settings.statement_timeout = Duration::from_secs(1);
        let engine = SqlEngine::connect_postgres(settings, &[]).await.unwrap();
        let (going_on, gate) = channel::<()>();
        let (locked, is_locked) = channel();
        let gate: Arc<Mutex<Receiver<()>>> = Arc::new(Mutex::new(gate));
        let ended = tokio::spawn(async move {
            let change = engine.write(ChangeScope::Rows, move |change| {
                change.execute("UPDATE audit_order SET id = 1", sql_values![])?;
                let _told = locked.send(());
                let _goes_on = gate.lock().recv();
                change.query("SELECT CAST(1 AS bigint)", sql_values![]).map(drop)
            });
            change.await.unwrap();
        });
        tokio::task::spawn_blocking(move || is_locked.recv().unwrap()).await.unwrap();
        Self { going_on, ended }
    }
}

/// A node that stands still in the middle of a transaction does not keep the others from deciding.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_node_does_not_keep_others_from_deciding() {
    let server = PostgresServer::start(PostgresOptions::default());
    let state = connect(&server, "one").await;
    let (approvals, record) = (state.approvals().unwrap(), state.audit().unwrap().unwrap());
    for id in ["a", "b"] {
        ask(&approvals, id).await;
    }
    assert!(approvals.decide("a".to_owned(), lasting("a"), Timestamp::now()).await.unwrap());
    let stopped = StoppedNode::stop(&server).await;
    assert!(approvals.decide("b".to_owned(), lasting("b"), Timestamp::now()).await.unwrap());
    drop(stopped.going_on);
    stopped.ended.await.unwrap();
    assert_eq!(recorded(&record).await, ["one allow a", "one allow b"]);
}
