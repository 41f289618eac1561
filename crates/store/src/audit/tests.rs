use std::path::PathBuf;

use super::*;

struct Files {
    _folder: tempfile::TempDir,
    file: PathBuf,
    key: PathBuf,
}

fn files() -> Files {
    let folder = tempfile::tempdir().unwrap();
    Files { file: folder.path().join("audit.db"), key: folder.path().join("audit.key"), _folder: folder }
}

impl Files {
    fn open(&self) -> AuditLog {
        AuditLog::open(&self.file, &self.key).unwrap()
    }

    /// Changes the file without the key, as an attacker would.
    fn meddle(&self, sql: &str) {
        let connection = Connection::open(&self.file).unwrap();
        connection
            .execute_batch(&format!(
                "DROP TRIGGER audit_is_not_changed; DROP TRIGGER audit_is_not_cut; {sql}"
            ))
            .unwrap();
    }
}

fn call(subject: &str) -> AuditEntry {
    let mut entry = AuditEntry::new(AuditEntryKind::Call);
    entry.server = Some("files".to_owned());
    entry.subject = Some(subject.to_owned());
    entry
}

async fn filled(place: &Files, count: usize) -> AuditLog {
    let audit = place.open();
    for number in 0..count {
        audit.record(call(&format!("tool{number}"))).await.unwrap();
    }
    audit
}

async fn found_wrong(audit: &AuditLog) -> TamperEvidence {
    match audit.verify(None).await {
        Err(StoreError::Tampered { found, .. }) => found,
        other => panic!("not found: {other:?}"),
    }
}

#[tokio::test]
async fn entries_stand_in_order_and_are_there_after_a_restart() {
    let place = files();
    let audit = filled(&place, 2).await;
    for number in 2..600 {
        audit.enqueue(call(&format!("tool{number}"))).await.unwrap();
    }
    drop(audit);
    let audit = place.open();
    let verified = audit.verify(None).await.unwrap();
    assert_eq!((verified.entries, verified.cut), (600, 0));
    let all = audit.after(0, 1000).await.unwrap();
    assert!(all.iter().enumerate().all(|(index, one)| {
        one.seq == index as u64 + 1 && one.entry.subject == Some(format!("tool{index}"))
    }));
    assert_eq!(audit.after(598, 1000).await.unwrap().len(), 2);
    assert_eq!(verified.last, Some(super::AuditPosition { seq: 600, bound: all[599].bound }));
}

#[tokio::test]
async fn whatever_is_changed_put_in_or_taken_out_is_found() {
    for (meddling, wrong) in [
        (
            "UPDATE blocks SET entries = replace(entries, 'tool1', 'toolX') WHERE last = 2",
            TamperEvidence::Changed { seq: 2 },
        ),
        ("UPDATE blocks SET entries = entries || ' ' WHERE last = 1", TamperEvidence::Changed { seq: 1 }),
        ("UPDATE blocks SET bound = zeroblob(32) WHERE last = 3", TamperEvidence::Changed { seq: 3 }),
        ("DELETE FROM blocks WHERE last = 2", TamperEvidence::Missing { seq: 2 }),
        ("DELETE FROM blocks WHERE last = 1", TamperEvidence::Missing { seq: 1 }),
        ("DELETE FROM blocks WHERE last >= 4", TamperEvidence::Missing { seq: 4 }),
        (
            "INSERT INTO blocks (last, first, first_at, last_at, kinds, before, bound, entries) SELECT 5, 5, first_at, last_at, kinds, before, bound, entries FROM blocks WHERE last = 4",
            TamperEvidence::Changed { seq: 5 },
        ),
        (
            "UPDATE ends SET seq = 3, bound = (SELECT bound FROM blocks WHERE last = 3) WHERE which = 'last'; DELETE FROM blocks WHERE last = 4",
            TamperEvidence::End,
        ),
        (
            "UPDATE ends SET seq = 1, bound = (SELECT bound FROM blocks WHERE last = 1) WHERE which = 'first'; DELETE FROM blocks WHERE last = 1",
            TamperEvidence::End,
        ),
        ("DELETE FROM ends", TamperEvidence::End),
        ("DELETE FROM ends; DELETE FROM blocks WHERE last > 1", TamperEvidence::End),
        (
            "UPDATE blocks SET last = 9, first = 9 WHERE last = 2; UPDATE blocks SET last = 2, first = 2 WHERE last = 3; UPDATE blocks SET last = 3, first = 3 WHERE last = 9",
            TamperEvidence::Changed { seq: 2 },
        ),
        // What a block is found by is compared with its entries.
        ("UPDATE blocks SET kinds = 0 WHERE last = 2", TamperEvidence::Changed { seq: 2 }),
        ("UPDATE blocks SET last_at = 1 WHERE last = 3", TamperEvidence::Changed { seq: 3 }),
        ("UPDATE blocks SET before = zeroblob(32) WHERE last = 3", TamperEvidence::Changed { seq: 3 }),
        ("UPDATE blocks SET first = 1 WHERE last = 2", TamperEvidence::Changed { seq: 2 }),
        ("DELETE FROM block_names WHERE last = 2", TamperEvidence::Changed { seq: 2 }),
        ("INSERT INTO block_names VALUES ('a', 'b', 1)", TamperEvidence::Changed { seq: 4 }),
    ] {
        let place = files();
        drop(filled(&place, 4).await);
        place.meddle(meddling);
        assert_eq!(found_wrong(&place.open()).await, wrong, "{meddling}");
    }
}

/// A tampered log is not sealed again by later writes.
#[tokio::test]
async fn a_record_whose_end_was_changed_is_not_gone_on_with() {
    let place = files();
    drop(filled(&place, 3).await);
    place.meddle("UPDATE ends SET seq = 2, bound = (SELECT bound FROM blocks WHERE last = 2) WHERE which = 'last'; DELETE FROM blocks WHERE last = 3");
    let audit = place.open();
    let refused = audit.record(call("more")).await;
    assert!(matches!(refused, Err(StoreError::Tampered { found: TamperEvidence::End, .. })), "{refused:?}");
    // And what need not be waited for says so too, once it is known.
    assert!(audit.enqueue(call("more")).await.is_err());
}

#[tokio::test]
async fn sql_itself_refuses_to_change_the_record() {
    let place = files();
    drop(filled(&place, 2).await);
    let connection = Connection::open(&place.file).unwrap();
    for sql in ["UPDATE blocks SET entries = '{}'", "DELETE FROM blocks WHERE last = 1"] {
        let error = connection.execute(sql, []).unwrap_err().to_string();
        assert!(error.contains("append-only"), "{error}");
    }
}

/// Somebody with the key and the file can make everything anew, but not what was noted elsewhere.
#[tokio::test]
async fn a_record_made_anew_does_not_have_what_was_noted() {
    let place = files();
    let noted = filled(&place, 3).await.verify(None).await.unwrap().last.unwrap();
    let noted: super::AuditPosition = noted.to_string().parse().unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", place.file.display()));
    }
    let audit = filled(&place, 2).await;
    let short = audit.verify(Some(noted)).await;
    assert!(
        matches!(short, Err(StoreError::Tampered { found: TamperEvidence::Missing { seq: 3 }, .. })),
        "{short:?}"
    );
    audit.record(call("other")).await.unwrap();
    assert!(audit.verify(None).await.is_ok());
    let other = audit.verify(Some(noted)).await;
    assert!(
        matches!(other, Err(StoreError::Tampered { found: TamperEvidence::NotAsNoted { seq: 3 }, .. })),
        "{other:?}"
    );
}

#[tokio::test]
async fn several_processes_add_to_one_record() {
    let place = files();
    let (one, other) = (place.open(), place.open());
    let both = async |audit: &AuditLog| {
        for _ in 0..40 {
            audit.record(call("both")).await.unwrap();
        }
    };
    tokio::join!(both(&one), both(&other));
    assert_eq!(one.verify(None).await.unwrap().entries, 80);
}

#[tokio::test]
async fn what_is_over_is_forgotten_in_order_and_that_is_sealed() {
    let place = files();
    let audit = place.open();
    let mut places = Vec::new();
    for at in [10, 20, 15, 30] {
        let mut entry = call("timed");
        entry.at = at;
        places.push(audit.record(entry).await.unwrap());
    }
    let moment = |micros| Timestamp::from_microsecond(micros).unwrap();
    // The third is older than 20, but what stands in order is not torn.
    assert_eq!(audit.delete_before(moment(20)).await.unwrap(), 1);
    let verified = audit.verify(None).await.unwrap();
    assert_eq!((verified.entries, verified.cut), (3, 1));
    assert!(audit.verify(Some(places[0])).await.is_ok(), "noted, and forgotten since");
    assert_eq!(audit.delete_before(moment(1000)).await.unwrap(), 3);
    audit.record(call("after")).await.unwrap();
    let verified = audit.verify(None).await.unwrap();
    assert_eq!((verified.entries, verified.cut, verified.last.unwrap().seq), (1, 4, 5));
}

#[tokio::test]
async fn a_search_finds_by_every_member_newest_first() {
    let place = files();
    let audit = place.open();
    for (number, kind) in AuditEntryKind::ALL.into_iter().enumerate() {
        let mut entry = AuditEntry::new(kind);
        entry.at = number as i64;
        entry.server = Some(format!("server{}", number % 2));
        entry.subject = Some("Some_Tool".to_owned());
        entry.principal = (number == 3).then(|| "alice".to_owned());
        entry.decision = (number == 4).then(|| "deny".to_owned());
        audit.record(entry).await.unwrap();
    }
    let seqs = async |search: AuditQuery| -> Vec<u64> {
        audit.search(search).await.unwrap().iter().map(|one| one.seq).collect()
    };
    let all = AuditEntryKind::ALL.len() as u64;
    assert_eq!(seqs(AuditQuery::new()).await, (1..=all).rev().collect::<Vec<_>>());
    // The second of each two.
    let last = all - all % 2;
    assert_eq!(seqs(AuditQuery::new().with_server("server1").with_limit(2)).await, [last, last - 2]);
    for (number, kind) in AuditEntryKind::ALL.into_iter().enumerate() {
        assert_eq!(seqs(AuditQuery::new().with_kind(kind)).await, [number as u64 + 1], "{kind:?}");
    }
    let mut search = AuditQuery::new();
    search.text = Some("some_tOOL".to_owned());
    search.before = Some(3);
    assert_eq!(seqs(search).await, [2, 1]);
    let mut search = AuditQuery::new();
    search.principal = Some("alice".to_owned());
    assert_eq!(seqs(search.clone()).await, [4]);
    search.decision = Some("deny".to_owned());
    assert!(seqs(search).await.is_empty());
    let mut search = AuditQuery::new();
    search.since = Some(Timestamp::from_microsecond(3).unwrap());
    search.until = Some(Timestamp::from_microsecond(5).unwrap());
    assert_eq!(seqs(search).await, [5, 4]);
}

#[tokio::test]
async fn sealed_arguments_open_in_their_own_entry_only() {
    let place = files();
    let audit = place.open();
    let mut entry = call("send");
    audit.seal(&mut entry, r#"{"password":"hunter2"}"#);
    audit.record(entry).await.unwrap();
    let found = audit.search(AuditQuery::new()).await.unwrap().remove(0).entry;
    assert_eq!(audit.unseal(&found).unwrap().as_deref(), Some(r#"{"password":"hunter2"}"#));

    let mut moved = found.clone();
    moved.subject = Some("read".to_owned());
    assert!(matches!(audit.unseal(&moved), Err(StoreError::Sealed)));
    drop(audit);
    let whole = std::fs::read(&place.file).unwrap();
    assert!(!whole.windows(7).any(|bytes| bytes == b"hunter2"));
}

#[tokio::test]
async fn without_the_key_there_is_no_going_on() {
    let place = files();
    drop(filled(&place, 1).await);
    std::fs::remove_file(&place.key).unwrap();
    assert!(matches!(AuditLog::open(&place.file, &place.key), Err(StoreError::KeyGone(_))));
    std::fs::write(&place.key, "00").unwrap();
    assert!(AuditLog::open(&place.file, &place.key).is_err());
    assert!(AuditLog::open(&place.file, place.file.with_file_name("another.key")).is_err());
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_kept_is_for_its_owner_alone() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let place = files();
    let audit = filled(&place, 1).await;
    for file in [&place.file, &place.key, &place.file.with_extension("db-wal")] {
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", file.display());
    }
    drop(audit);
    let linked = place.key.with_file_name("linked.key");
    symlink(&place.key, &linked).unwrap();
    assert!(matches!(AuditLog::open(&place.file, &linked), Err(StoreError::Exposed(_))));
    std::fs::set_permissions(&place.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(AuditLog::open(&place.file, &place.key), Err(StoreError::Exposed(_))));
}

/// An entry without a waiting caller is written later if the file is locked or the disk is full.
#[tokio::test]
async fn what_could_not_be_written_is_written_later() {
    let place = files();
    let audit = filled(&place, 1).await;
    let other = Connection::open(&place.file).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER full BEFORE INSERT ON blocks BEGIN SELECT RAISE(ABORT, 'the disk is full'); END",
        )
        .unwrap();
    audit.enqueue(call("noted")).await.unwrap();
    let refused = audit.record(call("recorded")).await;
    assert!(matches!(refused, Err(StoreError::Database { .. })), "{refused:?}");
    assert!(audit.check_writable().await.is_err());
    other.execute_batch("DROP TRIGGER full").unwrap();
    audit.record(call("after")).await.unwrap();
    audit.check_writable().await.unwrap();
    let all = audit.after(0, 10).await.unwrap();
    let subjects: Vec<&str> = all.iter().map(|one| one.entry.subject.as_deref().unwrap()).collect();
    assert_eq!(subjects, ["tool0", "noted", "after"]);
}

/// Gathered entries are visible to a search at once.
#[tokio::test]
async fn what_was_noted_is_found_at_once() {
    let place = files();
    let audit = place.open();
    for number in 0..20_u64 {
        audit.try_enqueue(call(&format!("tool{number}"))).unwrap();
        let found = audit.search(AuditQuery::default()).await.unwrap();
        assert_eq!(found.first().map(|one| one.seq), Some(number + 1));
    }
    audit.try_enqueue(call("noted")).unwrap();
    assert_eq!(audit.record(call("recorded")).await.unwrap().seq, 22);
}

/// Counts the transactions of the writer: each seals the end once.
fn count_transactions(other: &Connection) {
    other
        .execute_batch(
            "CREATE TABLE transactions (one INTEGER);
             CREATE TRIGGER counted AFTER INSERT ON ends BEGIN INSERT INTO transactions VALUES (1); END",
        )
        .unwrap();
}

/// Callers that wait while a transaction cannot begin share the next one. None is told before the entry is on disk.
#[tokio::test]
async fn waiting_callers_share_a_transaction_and_none_is_told_before_it() {
    const CALLERS: usize = 100;
    let place = files();
    let audit = filled(&place, 1).await;
    let other = Connection::open(&place.file).unwrap();
    count_transactions(&other);
    // The writer cannot begin a transaction while another connection has one.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut pending = Vec::new();
    for number in 0..CALLERS {
        pending.push(audit.submit(&call(&format!("shared{number}"))).await.unwrap());
    }
    for PendingWrite(written) in &mut pending {
        assert!(written.try_recv().is_err(), "told before the entry is on disk");
    }
    other.execute_batch("COMMIT").unwrap();
    for (number, pending) in pending.into_iter().enumerate() {
        let seq = u64::try_from(number).unwrap() + 2;
        assert_eq!(pending.place().await.unwrap().seq, seq);
        // Read by another connection, as after a crash of the process.
        let sql = "SELECT EXISTS (SELECT 1 FROM blocks WHERE last >= ?1)";
        assert!(other.query_row(sql, [chain::number(seq)], |row| row.get::<_, bool>(0)).unwrap());
    }
    let transactions: i64 =
        other.query_row("SELECT count(*) FROM transactions", [], |row| row.get(0)).unwrap();
    // One had begun to wait for the lock, with the callers until then.
    assert!(transactions <= 2, "{transactions}");
    audit.verify(None).await.unwrap();
}

#[tokio::test]
async fn a_failed_transaction_is_told_to_every_waiting_caller() {
    let place = files();
    let audit = filled(&place, 1).await;
    let other = Connection::open(&place.file).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER full BEFORE INSERT ON blocks BEGIN SELECT RAISE(ABORT, 'the disk is full'); END;
             BEGIN IMMEDIATE",
        )
        .unwrap();
    let mut pending = Vec::new();
    for number in 0..50 {
        pending.push(audit.submit(&call(&format!("lost{number}"))).await.unwrap());
    }
    other.execute_batch("COMMIT").unwrap();
    for pending in pending {
        let told = pending.place().await;
        assert!(matches!(told, Err(StoreError::Database { .. })), "{told:?}");
    }
    assert!(audit.is_failing());
    other.execute_batch("DROP TRIGGER full").unwrap();
    audit.check_writable().await.unwrap();
    // Nothing that was told as failed appears later.
    let subjects: Vec<_> =
        audit.after(1, 100).await.unwrap().into_iter().map(|one| one.entry.subject.unwrap()).collect();
    assert_eq!(subjects, ["audit log writes resumed"]);
}

/// A caller that waits alone is not kept waiting for others that no longer come.
#[tokio::test]
async fn callers_that_stay_away_delay_the_others_briefly() {
    let place = files();
    let audit = place.open();
    for round in 0..3 {
        let mut pending = Vec::new();
        for number in 0..32 {
            pending.push(audit.submit(&call(&format!("{round}-{number}"))).await.unwrap());
        }
        for pending in pending {
            pending.place().await.unwrap();
        }
        audit.record(call("alone")).await.unwrap();
    }
    assert_eq!(audit.verify(None).await.unwrap().entries, 3 * 33);
}

/// Entries without a waiting caller are a row together, and each has its own position.
#[tokio::test]
async fn entries_that_are_written_together_are_one_block() {
    let place = files();
    let audit = filled(&place, 1).await;
    for number in 0..300 {
        let mut entry = call(&format!("tool{}", number % 3));
        entry.at = number;
        audit.try_enqueue(entry).unwrap();
    }
    audit.flush().await.unwrap();
    let noted = audit.after(150, 1).await.unwrap().remove(0);
    assert_eq!((noted.seq, noted.entry.at), (151, 149));
    let noted = AuditPosition { seq: noted.seq, bound: noted.bound };
    assert!(audit.verify(Some(noted)).await.is_ok());
    let other = AuditPosition { bound: [0; 32], ..noted };
    let found = audit.verify(Some(other)).await.unwrap_err();
    assert!(matches!(found, StoreError::Tampered { found: TamperEvidence::NotAsNoted { seq: 151 }, .. }));
    let mut search = AuditQuery::new().with_server("files").with_limit(2);
    (search.subject, search.before) = (Some("tool1".to_owned()), Some(151));
    let found: Vec<u64> = audit.search(search).await.unwrap().iter().map(|one| one.seq).collect();
    assert_eq!(found, [150, 147]);
    let rows = Connection::open(&place.file).unwrap();
    let rows: i64 = rows.query_row("SELECT count(*) FROM blocks", [], |row| row.get(0)).unwrap();
    assert!(rows < 20, "{rows}");
    // Changed in the middle of a block.
    drop(audit);
    place.meddle("UPDATE blocks SET entries = replace(entries, '\"at\":250,', '\"at\":251,')");
    assert!(matches!(found_wrong(&place.open()).await, TamperEvidence::Changed { .. }));
}

/// A log of the first version: a row for each entry.
#[tokio::test]
async fn a_log_with_a_row_for_each_entry_becomes_one_with_blocks() {
    let place = files();
    let keys = AuditKeys::open(&place.key, true).unwrap();
    let connection = sqlite::open(&place.file, &chain::MIGRATIONS[..1]).unwrap();
    let mut here = AuditPosition { seq: 0, bound: [0; 32] };
    let seal = |which: &str, at: AuditPosition| {
        let sealed = keys.bind(&[b"end", which.as_bytes(), &at.seq.to_be_bytes(), &at.bound]);
        let values = rusqlite::params![which, chain::number(at.seq), at.bound, sealed];
        connection.execute("INSERT INTO ends VALUES (?1, ?2, ?3, ?4)", values).unwrap();
    };
    seal("first", here);
    for kind in AuditEntryKind::ALL {
        let mut entry = AuditEntry::new(kind);
        entry.server = (kind != AuditEntryKind::Policy).then(|| "files".to_owned());
        let text = serde_json::to_string(&entry).unwrap();
        here = chain::following(&keys, here, &text);
        let values = rusqlite::params![chain::number(here.seq), text, here.bound];
        connection.execute("INSERT INTO audit (seq, entry, bound) VALUES (?1, ?2, ?3)", values).unwrap();
    }
    seal("last", here);
    drop(connection);
    let audit = place.open();
    let count = AuditEntryKind::ALL.len() as u64;
    assert_eq!(audit.verify(Some(here)).await.unwrap().entries, count);
    for (number, kind) in AuditEntryKind::ALL.into_iter().enumerate() {
        let found = audit.search(AuditQuery::new().with_kind(kind)).await.unwrap();
        assert_eq!((found.len(), found[0].seq), (1, number as u64 + 1), "{kind:?}");
    }
    let of_server = AuditQuery::new().with_server("files");
    assert_eq!(audit.search(of_server).await.unwrap().len() as u64, count - 1);
    audit.record(call("more")).await.unwrap();
    audit.verify(None).await.unwrap();
}

#[test]
fn entries_without_a_known_basis_are_read_as_unknown() {
    let mut entry = AuditEntry::new(AuditEntryKind::Call);
    let old = serde_json::to_value(&entry).unwrap();
    assert!(old.get("basis").is_none(), "{old}");
    assert_eq!(serde_json::from_value::<AuditEntry>(old.clone()).unwrap(), entry);
    entry.basis = DecisionBasis::Grant;
    let mut now = serde_json::to_value(&entry).unwrap();
    assert_eq!(now["basis"], "grant");
    assert_eq!(serde_json::from_value::<AuditEntry>(now.clone()).unwrap(), entry);
    now["basis"] = "of a newer version".into();
    assert_eq!(serde_json::from_value::<AuditEntry>(now).unwrap().basis, DecisionBasis::Unknown);
}
