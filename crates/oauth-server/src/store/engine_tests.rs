//! The engines beside each other, files of earlier versions, and what PostgreSQL has of its own.

use std::path::Path;
use std::sync::Arc;

use super::{AuthRecord, AuthStore, RecordKind, RefreshSwapResult, SqlAuthStore, TakeRecordResult};

/// Schema of the first version, as files have it. Never change it.
const FIRST_SCHEMA: &str = "
    CREATE TABLE records (
        kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, grant_id TEXT, until INTEGER NOT NULL,
        taken INTEGER NOT NULL DEFAULT 0, note TEXT, swapped_at INTEGER,
        PRIMARY KEY (kind, key)
    ) WITHOUT ROWID;
    CREATE INDEX records_of_grant ON records (grant_id) WHERE grant_id IS NOT NULL;
    CREATE INDEX records_until ON records (until);
    CREATE TABLE revoked (grant_id TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
    PRAGMA user_version = 1;
";

/// Returns all rows of a file, as text.
fn rows(path: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let all = "SELECT concat_ws('|', kind, key, value, grant_id, until, taken, note, swapped_at) FROM records
               UNION ALL SELECT concat_ws('|', grant_id, until) FROM revoked ORDER BY 1";
    let mut statement = connection.prepare(all).unwrap();
    let rows = statement.query_map((), |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// A file of an earlier version keeps its rows, and what was used stays so.
#[tokio::test]
async fn a_file_of_an_earlier_version_opens_unchanged() {
    const NOW: u64 = 1_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auth.db");
    let earlier = rusqlite::Connection::open(&path).unwrap();
    earlier.execute_batch(FIRST_SCHEMA).unwrap();
    earlier
        .execute_batch(
            "INSERT INTO records VALUES
                ('code', 'used', '{}', 'g', 2000, 1, NULL, NULL), ('code', 'new', '{}', 'g', 2000, 0, NULL, NULL),
                ('refresh', 'old', '{}', 'g', 2000, 0, 'a note', 990), ('client', 'app', '{}', NULL, 2000, 0, NULL, NULL);
             INSERT INTO revoked VALUES ('ended', 2000);",
        )
        .unwrap();
    drop(earlier);
    let before = rows(&path);
    let store = SqlAuthStore::open(&path).unwrap();
    assert_eq!(rows(&path), before);
    let of = |kind, key: &str| AuthRecord::new(kind, key, "{}", 2000).of("g");
    let again = store.take(RecordKind::Code, "used", NOW).await.unwrap();
    assert_eq!(again, TakeRecordResult::Again(of(RecordKind::Code, "used")));
    let first = store.take(RecordKind::Code, "new", NOW).await.unwrap();
    assert_eq!(first, TakeRecordResult::First(of(RecordKind::Code, "new")));
    let swapped = store.swap_refresh("old", of(RecordKind::Refresh, "next"), "", NOW, 60).await.unwrap();
    assert_eq!(swapped, RefreshSwapResult::Replayed(of(RecordKind::Refresh, "old"), "a note".to_owned()));
    assert!(store.get(RecordKind::Client, "app", NOW).await.unwrap().is_some());
    let late = AuthRecord::new(RecordKind::Access, "a", "{}", 2000).of("ended");
    assert!(!store.put(late).await.unwrap(), "its grant has ended");
    drop(store);
    let version = |path| -> i64 {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    };
    assert_eq!(version(&path), 1, "the earlier version of the program can still open it");
}

#[cfg(all(feature = "postgres", target_os = "linux"))]
mod postgres {
    use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};

    use super::*;
    use crate::MemoryAuthStore;
    use crate::store::tests::{connect, real_time, settings};

    const OPERATIONS: usize = 500;

    /// Numbers from a seed, so that a failure can be repeated.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 % limit as u64).unwrap()
        }

        fn pick<T: Copy>(&mut self, all: &[T]) -> T {
            all[self.below(all.len())]
        }
    }

    const KINDS: [RecordKind; 5] =
        [RecordKind::Code, RecordKind::Refresh, RecordKind::Upstream, RecordKind::Claim, RecordKind::Client];
    /// Keys that engines could order or compare differently.
    const KEYS: [&str; 8] = ["a", "B", "b", "é", "a b", "?1", "it's", "Z"];
    const GRANTS: [&str; 3] = ["g", "G", "g'2"];

    /// One operation, whose numbers are drawn once for all engines.
    struct Operation {
        number: usize,
        kind: RecordKind,
        key: &'static str,
        record: AuthRecord,
        grant: &'static str,
        now: u64,
        window: u64,
    }

    impl Operation {
        fn draw(numbers: &mut Numbers, step: usize, now: u64) -> Self {
            let (kind, grant) = (numbers.pick(&KINDS), numbers.pick(&GRANTS));
            // One record of this kind a grant, as the server has it.
            let key = if kind == RecordKind::Upstream { grant } else { numbers.pick(&KEYS) };
            let until = now + numbers.pick(&[0, 1, 20, 200, u64::MAX / 4]);
            let mut record = AuthRecord::new(kind, key, format!("\"{step} '?1'\""), until);
            if kind == RecordKind::Upstream || numbers.below(3) > 0 {
                record = record.of(grant);
            }
            Self {
                number: numbers.below(20),
                kind,
                key,
                record,
                grant,
                now,
                window: numbers.pick(&[0, 1, 30, u64::MAX]),
            }
        }

        async fn run(&self, store: &dyn AuthStore) -> String {
            let Self { kind, key, now, .. } = *self;
            match self.number {
                0..=6 => format!("{:?}", store.put(self.record.clone()).await.unwrap()),
                7..=9 => format!("{:?}", store.take(kind, key, now).await.unwrap()),
                10..=12 => {
                    let mut new = self.record.clone();
                    (new.kind, new.key) = (RecordKind::Refresh, format!("{key} next"));
                    let swapped = store.swap_refresh(key, new, "a 'note'", now, self.window).await;
                    format!("{:?}", swapped.unwrap())
                }
                13..=15 => format!("{}", store.claim(key, "me", self.record.until, now).await.unwrap()),
                16 | 17 => format!("{}", store.forget(kind, key).await.unwrap()),
                18 => format!("{:?}", store.revoke_grant(self.grant, now + 50).await.unwrap()),
                _ => format!("{:?}", store.sweep(now).await.unwrap()),
            }
        }
    }

    /// The same operations have the same results on both engines, and those that the store in memory has.
    #[tokio::test(flavor = "multi_thread")]
    async fn random_operations_are_the_same_on_every_engine() {
        let folder = tempfile::tempdir().unwrap();
        // Nothing crashes here.
        let server = PostgresServer::start(PostgresOptions::default().with("fsync", "off"));
        let postgres = SqlAuthStore::connect(settings(server.url())).await.unwrap().with_process_clock();
        let sqlite = SqlAuthStore::open(folder.path().join("auth.db")).unwrap();
        let stores: [Arc<dyn AuthStore>; 3] =
            [Arc::new(MemoryAuthStore::new()), Arc::new(sqlite), Arc::new(postgres)];
        let (mut numbers, mut now) = (Numbers(0x5eed), 1_000);
        for step in 0..OPERATIONS {
            now += numbers.below(4) as u64;
            let operation = Operation::draw(&mut numbers, step, now);
            let mut results = Vec::new();
            for store in &stores {
                let said = operation.run(&**store).await;
                let got = store.get(operation.kind, operation.key, now).await.unwrap();
                let count = store.count(operation.kind).await.unwrap();
                let list = store.list(operation.kind, now, numbers_of(step)).await.unwrap();
                results.push((said, got, count, list));
            }
            assert_eq!(results[0], results[1], "SQLite, step {step}, operation {}", operation.number);
            assert_eq!(results[0], results[2], "PostgreSQL, step {step}, operation {}", operation.number);
        }
    }

    /// Lengths of lists that cut some records off.
    const fn numbers_of(step: usize) -> usize {
        2 + step % 9
    }

    /// A node whose clock is wrong neither uses what has expired nor misses what has not.
    #[tokio::test(flavor = "multi_thread")]
    async fn expiry_is_compared_with_the_clock_of_the_database() {
        let server = PostgresServer::start(PostgresOptions::default());
        let (store, time) = (connect(&server).await, real_time());
        let (behind, ahead) = (time - 100_000, time + 100_000);
        let of = |kind, key: &str, until| AuthRecord::new(kind, key, "{}", until);
        for kind in [RecordKind::Code, RecordKind::Refresh] {
            store.put(of(kind, "old", time - 1_000)).await.unwrap();
            store.put(of(kind, "good", time + 1_000)).await.unwrap();
            assert_eq!(store.get(kind, "old", behind).await.unwrap(), None);
            assert!(store.get(kind, "good", ahead).await.unwrap().is_some());
            assert_eq!(store.list(kind, behind, 9).await.unwrap(), [of(kind, "good", time + 1_000)]);
        }
        let unknown = store.take(RecordKind::Code, "old", behind).await.unwrap();
        assert_eq!(unknown, TakeRecordResult::Unknown);
        let first = store.take(RecordKind::Code, "good", ahead).await.unwrap();
        assert!(matches!(first, TakeRecordResult::First(_)), "{first:?}");
        let swap = |old: &'static str, now, window| {
            let (store, new) = (Arc::clone(&store), of(RecordKind::Refresh, "next", time + 1_000));
            async move { store.swap_refresh(old, new, "note", now, window).await.unwrap() }
        };
        assert_eq!(swap("old", behind, 500).await, RefreshSwapResult::Unknown);
        assert!(matches!(swap("good", behind, 500).await, RefreshSwapResult::Done(_)));
        let again = swap("good", ahead, 500).await;
        assert!(matches!(again, RefreshSwapResult::Replayed(..)), "a moment ago: {again:?}");
        assert!(matches!(swap("good", behind, 0).await, RefreshSwapResult::Reused(_)));
        assert!(store.claim("jti", "me", time + 1_000, ahead).await.unwrap());
        assert!(!store.claim("jti", "another", time + 1_000, ahead).await.unwrap(), "it has not expired");
        store.sweep(ahead).await.unwrap();
        assert_eq!(store.count(RecordKind::Refresh).await.unwrap(), 2, "what has expired went");
    }

    /// Several nodes start together, beside the state of the host in the same database.
    #[tokio::test(flavor = "multi_thread")]
    async fn nodes_that_start_together_migrate_once_and_a_newer_part_is_respected() {
        let server = PostgresServer::start(PostgresOptions::default());
        let starts = [0; 4].map(|_| {
            let settings = settings(server.url());
            tokio::spawn(async move { SqlAuthStore::connect(settings).await.map(drop) })
        });
        for start in starts {
            start.await.unwrap().unwrap();
        }
        let _ = server.query("UPDATE parts SET version = 9 WHERE name = 'auth'");
        let refused = SqlAuthStore::connect(settings(server.url())).await.unwrap_err();
        assert!(refused.to_string().contains("newer version"), "{refused}");
        assert!(!refused.to_string().contains(server.password()), "{refused}");
    }
}
