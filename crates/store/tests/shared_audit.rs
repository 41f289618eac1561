//! Record of all nodes: each entry is in it once, and what is altered, removed or moved is found.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;
use std::time::Duration;

use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::net_proxy::{LinkDirection, LinkRules, NetProxy};
use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use hospes_store::{
    AuditEntry, AuditEntryKind, AuditLog, AuditOutcome, AuditQuery, AuditReader, AuditShipper,
    PostgresSettings, SharedAuditLog, SharedTamperEvidence, StateStore, StoreError,
};
use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use zeroize::Zeroizing;

const LIMIT: Duration = Duration::from_secs(20);
/// Tables of the record, those that others refer to first.
const TABLES: [&str; 4] = ["audit_chains", "audit_order", "audit_blocks", "audit_anchors"];

async fn connect_at(url: String, secrets: &[u8]) -> SharedAuditLog {
    let secrets = secrets.iter().map(|byte| Zeroizing::new([*byte; 32])).collect();
    let state = StateStore::connect(PostgresSettings::new(url.into()), secrets).await.unwrap();
    state.audit().unwrap().expect("a record of all nodes")
}

async fn connect(server: &PostgresServer) -> SharedAuditLog {
    connect_at(server.url(), &[7]).await
}

/// Runs statements, as somebody does who has the database and not the secret.
fn meddle(server: &PostgresServer, sql: &str) {
    let _no_rows = server.query(sql);
}

/// Database of one test.
struct TestDatabase<'a> {
    server: &'a PostgresServer,
    name: &'a str,
}

impl TestDatabase<'_> {
    fn url(&self) -> String {
        self.server.url().replace("/postgres?", &format!("/{}?", self.name))
    }

    async fn connect(&self) -> SharedAuditLog {
        connect_at(self.url(), &[7]).await
    }
}

fn open(folder: &Path) -> AuditLog {
    AuditLog::open(folder.join("audit.db"), folder.join("audit.key")).unwrap()
}

/// File of a node.
struct TestNode {
    name: &'static str,
    folder: TempDir,
    log: AuditLog,
}

impl TestNode {
    fn new(name: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path());
        Self { name, folder, log }
    }

    /// Records calls of these tools, a transaction each.
    async fn record(&self, tools: &[&str]) {
        for tool in tools {
            self.log.record(call(self.name, tool)).await.unwrap();
        }
    }

    fn ship(&self, shared: &SharedAuditLog) -> AuditShipper {
        AuditShipper::spawn(&self.log, shared.clone(), self.name)
    }

    async fn ship_all(&self, shared: &SharedAuditLog) {
        assert!(self.ship(shared).finish(LIMIT).await, "{} is not shipped", self.name);
    }
}

fn call(principal: &str, tool: &str) -> AuditEntry {
    let mut entry = AuditEntry::new(AuditEntryKind::Call);
    entry.server = Some("files".to_owned());
    entry.subject = Some(tool.to_owned());
    entry.principal = Some(principal.to_owned());
    entry.ending = Some(AuditOutcome::Done);
    entry
}

/// Returns the node and the tool of each entry of the record, in order.
async fn recorded(shared: &SharedAuditLog) -> Vec<String> {
    let all = shared.after(0, 10_000).await.unwrap();
    for (place, one) in all.iter().enumerate() {
        assert_eq!(one.seq, all[0].seq + place as u64, "numbers have no gap");
    }
    let name = |one: &hospes_store::RecordedEntry| {
        format!("{} {}", one.origin.as_ref().unwrap().node, one.entry.subject.as_deref().unwrap())
    };
    all.iter().map(name).collect()
}

async fn found_wrong(shared: &SharedAuditLog) -> SharedTamperEvidence {
    match shared.verify(None).await {
        Err(StoreError::SharedTampered(found)) => found,
        other => panic!("not found: {other:?}"),
    }
}

/// Several tests with a database each, because starting a server takes longer than all of them.
#[tokio::test(flavor = "multi_thread")]
async fn the_record_of_all_nodes_is_one_order_of_their_chains() {
    let server = PostgresServer::start(PostgresOptions::default());
    let names = ["one", "two", "three", "four"];
    for name in names {
        meddle(&server, &format!("CREATE DATABASE {name}"));
    }
    let [one, two, three, four] = names.map(|name| TestDatabase { server: &server, name });
    tokio::join!(
        entries_of_all_nodes_are_in_one_order(&one),
        a_file_that_cannot_be_continued_begins_a_new_chain(&two),
        anchors_come_one_at_a_time_and_outlive_a_changed_secret(&three),
        retention_deletes_blocks_and_the_rest_is_verified(&four),
    );
}

async fn entries_of_all_nodes_are_in_one_order(server: &TestDatabase<'_>) {
    let shared = server.connect().await;
    let (one, other) = (TestNode::new("one"), TestNode::new("other"));
    assert_eq!(shared.verify(None).await.unwrap().entries, 0);
    one.record(&["a", "b"]).await;
    let mut sealed = call("one", "c");
    one.log.seal(&mut sealed, r#"{"path":"here"}"#);
    one.log.record(sealed).await.unwrap();
    one.ship_all(&shared).await;
    other.record(&["d"]).await;
    other.ship_all(&shared).await;
    for number in 0..600 {
        one.log.enqueue(call("one", &format!("e{number}"))).await.unwrap();
    }
    one.ship_all(&server.connect().await).await;
    let all = recorded(&shared).await;
    assert_eq!(all.len(), 604);
    assert_eq!(all[..5], ["one a", "one b", "one c", "other d", "one e0"]);
    assert_eq!(all[603], "one e599");
    // Each node reads all of them, as if they were its own.
    let reader = AuditReader::Shared(server.connect().await);
    let find = async |change: &dyn Fn(&mut AuditQuery)| {
        let mut query = AuditQuery::new().with_limit(2);
        change(&mut query);
        let found = reader.search(query).await.unwrap();
        found.iter().map(|one| (one.seq, one.entry.subject.clone().unwrap())).collect::<Vec<_>>()
    };
    let at = |seq: u64, tool: &str| (seq, tool.to_owned());
    assert_eq!(find(&|_| ()).await, [at(604, "e599"), at(603, "e598")]);
    assert_eq!(find(&|query| query.before = Some(603)).await, [at(602, "e597"), at(601, "e596")]);
    assert_eq!(find(&|query| query.principal = Some("other".to_owned())).await, [at(4, "d")]);
    let named = |query: &mut AuditQuery| {
        (query.server, query.subject) = (Some("files".to_owned()), Some("b".to_owned()));
    };
    assert_eq!(find(&named).await, [at(2, "b")]);
    assert_eq!(find(&|query| query.kind = Some(AuditEntryKind::Server)).await, []);
    assert_eq!(find(&|query| query.server = Some("none".to_owned())).await, []);
    let third = reader.after(2, 1).await.unwrap().remove(0);
    assert_eq!(reader.unseal(&third).await.unwrap().as_deref(), Some(r#"{"path":"here"}"#));
    assert_eq!(reader.digest(Timestamp::MIN, Timestamp::MAX).await.unwrap().servers[0].calls, 604);
    let verified = reader_log(&reader).verify(None).await.unwrap();
    assert_eq!((verified.entries, verified.chains.len(), verified.not_anchored), (604, 2, 604));
}

fn reader_log(reader: &AuditReader) -> &SharedAuditLog {
    let AuditReader::Shared(log) = reader else { panic!("not shared") };
    log
}

/// Blocks are appended once, wherever connections break and whoever ships the same file.
async fn a_block_is_appended_once_whatever_connections_break(server: &PostgresServer) {
    let shared = connect(server).await;
    let node = TestNode::new("one");
    node.record(&["first"]).await;
    node.ship_all(&shared).await;
    let proxy = NetProxy::to_port(server.port()).await;
    let flaky = connect_at(server.url_at(proxy.port()), &[7]).await;
    proxy.reset_connections();
    let before = proxy.passed(LinkDirection::ToServer);
    node.record(&["measured"]).await;
    node.ship_all(&flaky).await;
    let whole = proxy.passed(LinkDirection::ToServer) - before;
    let mut expected = vec!["one first".to_owned(), "one measured".to_owned()];
    for (round, bytes) in (0..whole + 60).step_by(1000).enumerate() {
        let tool = format!("t{round}");
        node.record(&[&tool]).await;
        expected.push(format!("one {tool}"));
        proxy.set(LinkDirection::ToServer, LinkRules::cut_after(bytes));
        proxy.reset_connections();
        let accepted = proxy.accepted();
        // Another process of the same machine ships the same file.
        let (shipping, also) = (node.ship(&flaky), node.ship(&shared));
        eventually("a connection", async || (proxy.accepted() > accepted).then_some(())).await;
        proxy.heal();
        assert!(shipping.finish(LIMIT).await && also.finish(LIMIT).await);
    }
    assert_eq!(recorded(&shared).await, expected);
    shared.verify(None).await.unwrap();
}

/// While the database is away, entries stay in the file, and recording goes on.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_the_database_is_away() {
    let mut server = PostgresServer::start(PostgresOptions::default());
    a_block_is_appended_once_whatever_connections_break(&server).await;
    meddle(&server, "TRUNCATE audit_chains, audit_order, audit_blocks, audit_anchors");
    let shared = connect(&server).await;
    let node = TestNode::new("one");
    node.record(&["before"]).await;
    let shipping = node.ship(&shared);
    eventually("the first is shipped", async || (recorded(&shared).await.len() == 1).then_some(())).await;
    server.kill();
    let began = std::time::Instant::now();
    node.record(&["meanwhile"]).await;
    assert!(began.elapsed() < Duration::from_secs(1), "recording does not wait for the database");
    // The process is killed as well; the next one goes on.
    drop(shipping);
    server.restart();
    let log = node.log.clone();
    drop(node.log);
    drop(log);
    let node = TestNode { log: open(node.folder.path()), ..node };
    node.record(&["after"]).await;
    node.ship_all(&shared).await;
    assert_eq!(recorded(&shared).await, ["one before", "one meanwhile", "one after"]);
    assert_eq!(shared.verify(None).await.unwrap().chains.len(), 1);
}

/// A file that was replaced begins a chain of its own, and what is missing is said.
async fn a_file_that_cannot_be_continued_begins_a_new_chain(server: &TestDatabase<'_>) {
    let shared = server.connect().await;
    let node = TestNode::new("one");
    node.record(&["a"]).await;
    node.ship_all(&shared).await;
    // Deleted after their retention time before they were shipped.
    node.record(&["b", "c"]).await;
    node.log.delete_before(Timestamp::MAX).await.unwrap();
    node.record(&["d"]).await;
    node.ship_all(&shared).await;
    assert_eq!(recorded(&shared).await, ["one a", "one d"]);
    let verified = shared.verify(None).await.unwrap();
    let mut missing: Vec<u64> = verified.chains.iter().map(|chain| chain.missing_before).collect();
    missing.sort_unstable();
    assert_eq!(missing, [0, 2]);
    // A copy of another machine, which has gone on there.
    let copy = tempfile::tempdir().unwrap();
    for file in ["audit.db", "audit.db-wal", "audit.key"] {
        let _not_there = std::fs::copy(node.folder.path().join(file), copy.path().join(file));
    }
    node.record(&["e"]).await;
    node.ship_all(&shared).await;
    let copied = TestNode { name: "copy", log: open(copy.path()), folder: copy };
    copied.record(&["f"]).await;
    copied.ship_all(&shared).await;
    assert_eq!(recorded(&shared).await, ["one a", "one d", "one e", "copy d", "copy f"]);
    assert_eq!(shared.verify(None).await.unwrap().chains.len(), 3);
}

/// Changes of the database by somebody without the secret are found.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_altered_removed_or_truncated_is_found() {
    let server = PostgresServer::start(PostgresOptions::default());
    let shared = connect(&server).await;
    let (one, other) = (TestNode::new("one"), TestNode::new("other"));
    let for_all = |sql: &dyn Fn(&str) -> String| {
        meddle(&server, &TABLES.map(sql).join("; "));
    };
    let save = |name: &str| for_all(&|table| format!("CREATE TABLE {name}_{table} AS TABLE {table}"));
    for tool in ["a", "b", "c"] {
        one.record(&[tool]).await;
        one.ship_all(&shared).await;
        other.record(&[tool]).await;
        other.ship_all(&shared).await;
        if tool == "b" {
            // The chains in between, as they were sealed.
            save("old");
        }
        shared.anchor(Duration::ZERO).await.unwrap().expect("an anchor");
    }
    assert_eq!(shared.anchor(Duration::ZERO).await.unwrap(), None, "nothing is new");
    let verified = shared.verify(None).await.unwrap();
    assert_eq!((verified.entries, verified.anchors, verified.not_anchored), (6, 3, 0));
    let noted = verified.last_anchor.unwrap();
    shared.verify(Some(noted)).await.unwrap();
    save("whole");
    let restore = || {
        for_all(&|table| format!("TRUNCATE {table} CASCADE; INSERT INTO {table} TABLE whole_{table}"));
    };
    let back = "DELETE FROM audit_blocks WHERE last_number > 4; UPDATE audit_order SET entries = 4;
        UPDATE audit_chains SET last_seq = old.last_seq, last_bound = old.last_bound, last_seal = old.last_seal
        FROM old_audit_chains AS old WHERE old.id = audit_chains.id;";
    let alter = "UPDATE audit_blocks SET entries =
        convert_to(replace(convert_from(entries, 'UTF8'), '\"subject\":\"b\"', '\"subject\":\"x\"'), 'UTF8')";
    let cases: [(&str, &str); 17] = [
        (&format!("{alter} WHERE last_number = 3"), "entry 2 was modified (node one"),
        ("DELETE FROM audit_blocks WHERE last_number = 4", "entry 2 is missing (node other"),
        ("DELETE FROM audit_blocks WHERE last_number = 1", "entry 1 is missing (node one"),
        // The end of one chain, and of the whole record.
        ("DELETE FROM audit_blocks WHERE last_number = 6", "entry 3 is missing (node other"),
        // Both chains lost an entry, and the one with the lower random id is named.
        (back, "had 3 entries then, and now has 2"),
        ("DELETE FROM audit_anchors WHERE n = 2", "anchor 2 is missing"),
        // What a block is found by, and its place.
        ("UPDATE audit_blocks SET kinds = 0 WHERE last_number = 2", "entry 1 was modified (node other"),
        ("UPDATE audit_blocks SET names = '{}' WHERE last_number = 2", "entry 1 was modified (node other"),
        ("UPDATE audit_order SET entries = 7", "the entries with the numbers 7 to 7 are missing"),
        ("UPDATE audit_order SET cut = 1", "the sealed beginning of the record does not match"),
        (
            "UPDATE audit_blocks SET last_number = 9, first_number = 9 WHERE last_number = 3;
             UPDATE audit_blocks SET last_number = 3, first_number = 3 WHERE last_number = 4;
             UPDATE audit_blocks SET last_number = 4, first_number = 4 WHERE last_number = 9;
             UPDATE audit_blocks SET last_number = 9, first_number = 9 WHERE last_number = 2;
             UPDATE audit_blocks SET last_number = 2, first_number = 2 WHERE last_number = 4;
             UPDATE audit_blocks SET last_number = 4, first_number = 4 WHERE last_number = 9;
             UPDATE audit_blocks SET last_number = 9, first_number = 9 WHERE last_number = 3;
             UPDATE audit_blocks SET last_number = 3, first_number = 3 WHERE last_number = 4;
             UPDATE audit_blocks SET last_number = 4, first_number = 4 WHERE last_number = 9",
            "the entries before anchor 1 have another order, or were replaced",
        ),
        ("UPDATE audit_chains SET sealed = '\\x00'", "was modified"),
        ("UPDATE audit_chains SET last_seq = 2", "the sealed first or last entry of the log does not match"),
        // Anchors.
        ("UPDATE audit_anchors SET at = at + 1 WHERE n = 2", "anchor 2 was modified, or is not bound"),
        ("UPDATE audit_anchors SET tails = '' WHERE n = 3", "anchor 3 was modified, or is not bound"),
        ("UPDATE audit_anchors SET previous = '\\x00' WHERE n = 2", "anchor 2 was modified, or is not bound"),
        ("DELETE FROM audit_anchors WHERE n = 1", "anchor 1 is missing"),
    ];
    for (meddling, expected) in cases {
        meddle(&server, meddling);
        let found = found_wrong(&shared).await.to_string();
        assert!(found.contains(expected), "{meddling}: {found}");
        restore();
    }
    shared.verify(Some(noted)).await.unwrap();
    // A record that was created anew, or that lost its newest anchors, is not the noted one.
    meddle(&server, "DELETE FROM audit_anchors WHERE n = 3");
    shared.verify(None).await.unwrap();
    let lost = shared.verify(Some(noted)).await;
    let is_found =
        matches!(lost, Err(StoreError::SharedTampered(SharedTamperEvidence::NotAsNoted { anchor: 3 })));
    assert!(is_found, "{lost:?}");
    restore();
    // A beginning that is not sealed is not sealed anew.
    meddle(&server, "UPDATE audit_order SET cut = 1");
    assert_eq!(shared.delete_before(Timestamp::MAX).await.unwrap(), 0);
    assert_eq!(found_wrong(&shared).await, SharedTamperEvidence::Beginning);
    meddle(&server, "TRUNCATE audit_chains, audit_order, audit_blocks, audit_anchors");
    an_anchor_that_is_not_bound_to_the_one_before_is_refused(&server).await;
}

/// An anchor of another history is refused although nothing else is wrong with it: it is not bound to the one before.
async fn an_anchor_that_is_not_bound_to_the_one_before_is_refused(server: &PostgresServer) {
    let shared = connect(server).await;
    let node = TestNode::new("one");
    node.record(&["a"]).await;
    node.ship_all(&shared).await;
    let first = shared.anchor(Duration::ZERO).await.unwrap().unwrap();
    meddle(server, "CREATE TABLE earlier AS TABLE audit_anchors; DELETE FROM audit_anchors");
    // The same entries and number, at another time.
    let again = shared.anchor(Duration::ZERO).await.unwrap().unwrap();
    assert_eq!((first.position.seq, first.entries), (again.position.seq, again.entries));
    assert_ne!(first.position.bound, again.position.bound);
    node.record(&["b"]).await;
    node.ship_all(&shared).await;
    shared.anchor(Duration::ZERO).await.unwrap().unwrap();
    shared.verify(None).await.unwrap();
    meddle(server, "DELETE FROM audit_anchors WHERE n = 1; INSERT INTO audit_anchors TABLE earlier");
    assert_eq!(found_wrong(&shared).await, SharedTamperEvidence::Anchor { anchor: 2 });
}

/// One of several nodes writes an anchor, and a changed secret leaves all of them verifiable.
async fn anchors_come_one_at_a_time_and_outlive_a_changed_secret(server: &TestDatabase<'_>) {
    let nodes = [server.connect().await, server.connect().await, server.connect().await];
    let node = TestNode::new("one");
    node.record(&["a"]).await;
    node.ship_all(&nodes[0]).await;
    let all = nodes.each_ref().map(|shared| {
        let shared = shared.clone();
        tokio::spawn(async move { shared.anchor(Duration::from_secs(10)).await.unwrap() })
    });
    let mut written = Vec::new();
    for one in all {
        written.extend(one.await.unwrap());
    }
    assert_eq!(written.len(), 1);
    node.record(&["b"]).await;
    node.ship_all(&nodes[1]).await;
    assert_eq!(nodes[1].anchor(Duration::from_secs(10)).await.unwrap(), None, "too early");
    // Old and new, new and old, new alone.
    for secrets in [&[7, 8][..], &[8, 7], &[8]] {
        let shared = connect_at(server.url(), secrets).await;
        let verified = shared.verify(written.first().map(|anchor| anchor.position)).await.unwrap();
        assert_eq!((verified.entries, verified.anchors), (2, 1));
    }
    let shared = connect_at(server.url(), &[8]).await;
    shared.anchor(Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(shared.verify(None).await.unwrap().anchors, 2);
}

/// Entries past their retention time go, and what stays is verified from there.
async fn retention_deletes_blocks_and_the_rest_is_verified(server: &TestDatabase<'_>) {
    let shared = server.connect().await;
    let (one, other) = (TestNode::new("one"), TestNode::new("other"));
    let now = Timestamp::now();
    let days_ago = |days: i64| (now - SignedDuration::from_hours(24 * days)).as_microsecond();
    for (days, node) in [(40, &one), (35, &other), (32, &one), (10, &other), (31, &one), (0, &other)] {
        let mut entry = call(node.name, &format!("{days} days"));
        entry.at = days_ago(days);
        node.log.record(entry).await.unwrap();
        node.ship_all(&shared).await;
        shared.anchor(Duration::ZERO).await.unwrap().unwrap();
    }
    let before = Timestamp::from_microsecond(days_ago(30)).unwrap();
    let third = shared.verify(None).await.unwrap().last_anchor.unwrap();
    assert_eq!(shared.delete_before(before).await.unwrap(), 3);
    assert_eq!(shared.delete_before(before).await.unwrap(), 0);
    // The order is kept: what comes after a younger entry stays with it.
    assert_eq!(recorded(&shared).await, ["other 10 days", "one 31 days", "other 0 days"]);
    let verified = shared.verify(Some(third)).await.unwrap();
    assert_eq!((verified.entries, verified.cut, verified.anchors), (3, 3, 3));
    one.record(&["new"]).await;
    one.ship_all(&shared).await;
    shared.anchor(Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(shared.verify(None).await.unwrap().entries, 4);
    // Everything, also anchors.
    assert_eq!(shared.delete_before(Timestamp::MAX).await.unwrap(), 4);
    let verified = shared.verify(None).await.unwrap();
    assert_eq!((verified.entries, verified.cut, verified.anchors), (0, 7, 0));
    other.record(&["last"]).await;
    other.ship_all(&shared).await;
    shared.anchor(Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(shared.verify(None).await.unwrap().last_anchor.unwrap().seq, 8);
}
