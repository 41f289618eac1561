//! Behaviour of every store.

use std::sync::Arc;
#[cfg(all(feature = "postgres", target_os = "linux"))]
use std::time::Duration;

#[cfg(all(feature = "postgres", target_os = "linux"))]
use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use proptest::prelude::*;

use super::{AuthRecord, AuthStore, MemoryAuthStore, RecordKind, RefreshSwapResult, TakeRecordResult};

const NOW: u64 = 1_000;

/// Two ways into the same store, as two nodes have them.
type Pair = (Arc<dyn AuthStore>, Arc<dyn AuthStore>);

fn memory() -> Pair {
    let store: Arc<dyn AuthStore> = Arc::new(MemoryAuthStore::new());
    (Arc::clone(&store), store)
}

#[cfg(feature = "sqlite")]
fn sqlite(folder: &tempfile::TempDir) -> Pair {
    let open = || Arc::new(super::SqlAuthStore::open(folder.path().join("auth.db")).unwrap());
    (open(), open())
}

/// Settings with long times, because a busy machine is slow.
#[cfg(all(feature = "postgres", target_os = "linux"))]
pub(crate) fn settings(url: String) -> hospes_sql::PostgresSettings {
    let mut settings = hospes_sql::PostgresSettings::new(url.into());
    (settings.connect_timeout, settings.statement_timeout) =
        (Duration::from_secs(10), Duration::from_secs(20));
    settings.retry_timeout = Duration::from_secs(60);
    settings
}

/// A node.
#[cfg(all(feature = "postgres", target_os = "linux"))]
pub(super) async fn connect(server: &PostgresServer) -> Arc<super::SqlAuthStore> {
    Arc::new(super::SqlAuthStore::connect(settings(server.url())).await.unwrap())
}

/// Returns the time of this machine, and so of the database.
#[cfg(all(feature = "postgres", target_os = "linux"))]
pub(super) fn real_time() -> u64 {
    hospes_auth::UnixClock::system().now()
}

/// Two nodes with connections of their own. The tests turn the clock.
#[cfg(all(feature = "postgres", target_os = "linux"))]
async fn postgres(server: &PostgresServer) -> Pair {
    let connect = async || {
        Arc::new(super::SqlAuthStore::connect(settings(server.url())).await.unwrap().with_process_clock())
    };
    (connect().await, connect().await)
}

macro_rules! for_every_store {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        mod memory {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                super::$name(super::memory()).await;
            })*
        }

        #[cfg(feature = "sqlite")]
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                let folder = tempfile::tempdir().unwrap();
                super::$name(super::sqlite(&folder)).await;
            })*
        }

        #[cfg(all(feature = "postgres", target_os = "linux"))]
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                let server = super::PostgresServer::start(super::PostgresOptions::default());
                super::$name(super::postgres(&server).await).await;
            })*
        }
    };
}

for_every_store! {
    keeps_until_it_runs_out,
    what_is_there_once_is_taken_once,
    a_refresh_token_is_swapped_once,
    a_revoked_grant_leaves_nothing_and_stays_revoked,
    a_claim_holds_until_it_runs_out,
}

fn code(key: &str, until: u64) -> AuthRecord {
    AuthRecord::new(RecordKind::Code, key, "{}", until).of("g1")
}

fn refresh(key: &str) -> AuthRecord {
    AuthRecord::new(RecordKind::Refresh, key, format!("\"{key}\""), NOW + 100).of("g1")
}

async fn keeps_until_it_runs_out((one, other): Pair) {
    assert!(one.put(code("c", NOW + 10)).await.unwrap());
    assert_eq!(other.get(RecordKind::Code, "c", NOW).await.unwrap(), Some(code("c", NOW + 10)));
    assert_eq!(other.get(RecordKind::Code, "c", NOW + 10).await.unwrap(), None);
    assert_eq!(other.get(RecordKind::Access, "c", NOW).await.unwrap(), None, "kinds are apart");
    assert_eq!(other.take(RecordKind::Code, "c", NOW + 10).await.unwrap(), TakeRecordResult::Unknown);
    assert!(one.put(code("c", NOW + 20)).await.unwrap(), "in place of the first");
    assert_eq!(
        (other.count(RecordKind::Code).await.unwrap(), other.count(RecordKind::Access).await.unwrap()),
        (1, 0)
    );
    assert_eq!(other.list(RecordKind::Code, NOW, 10).await.unwrap(), [code("c", NOW + 20)]);
    one.sweep(NOW + 20).await.unwrap();
    assert_eq!(other.count(RecordKind::Code).await.unwrap(), 0);
    one.put(code("c", NOW + 10)).await.unwrap();
    assert!(
        other.forget(RecordKind::Code, "c").await.unwrap()
            && !other.forget(RecordKind::Code, "c").await.unwrap()
    );
}

async fn what_is_there_once_is_taken_once((one, other): Pair) {
    for round in 0..5 {
        let key = format!("c{round}");
        one.put(code(&key, NOW + 10)).await.unwrap();
        let takers = (0..100).map(|taker| {
            let (store, key) = (Arc::clone(if taker % 2 == 0 { &one } else { &other }), key.clone());
            tokio::spawn(async move { store.take(RecordKind::Code, &key, NOW).await.unwrap() })
        });
        let mut first = 0;
        for taker in takers.collect::<Vec<_>>() {
            match taker.await.unwrap() {
                TakeRecordResult::First(_) => first += 1,
                TakeRecordResult::Again(record) => assert_eq!(record.grant.as_deref(), Some("g1")),
                TakeRecordResult::Unknown => panic!("it is remembered"),
            }
        }
        assert_eq!(first, 1);
        assert_eq!(one.get(RecordKind::Code, &key, NOW).await.unwrap(), None);
    }
}

async fn a_refresh_token_is_swapped_once((one, other): Pair) {
    one.put(refresh("r0")).await.unwrap();
    let swappers = (0..100).map(|swapper| {
        let store = Arc::clone(if swapper % 2 == 0 { &one } else { &other });
        tokio::spawn(async move {
            let (new, note) = (refresh(&format!("r1-{swapper}")), format!("note {swapper}"));
            store.swap_refresh("r0", new, &note, NOW, 10).await.unwrap()
        })
    });
    let mut done = 0;
    let mut notes = Vec::new();
    for swapper in swappers.collect::<Vec<_>>() {
        match swapper.await.unwrap() {
            RefreshSwapResult::Done(old) => {
                done += 1;
                assert_eq!(old, refresh("r0"));
            }
            RefreshSwapResult::Replayed(_, note) => notes.push(note),
            other => panic!("{other:?}"),
        }
    }
    notes.dedup();
    assert_eq!((done, notes.len()), (1, 1), "all hear of the same successor");
    assert_eq!(one.count(RecordKind::Refresh).await.unwrap(), 2, "and there is one");
    assert_eq!(one.get(RecordKind::Refresh, "r0", NOW).await.unwrap(), None);
    let late = other.swap_refresh("r0", refresh("r2"), "late", NOW + 10, 10).await.unwrap();
    assert_eq!(late, RefreshSwapResult::Reused(refresh("r0")));
    let unknown = other.swap_refresh("r9", refresh("r2"), "", NOW, 10).await.unwrap();
    assert_eq!(unknown, RefreshSwapResult::Unknown);
    let expired = other.swap_refresh("r0", refresh("r2"), "", NOW + 100, 10).await.unwrap();
    assert_eq!(expired, RefreshSwapResult::Unknown);
}

async fn a_revoked_grant_leaves_nothing_and_stays_revoked((one, other): Pair) {
    one.put(code("c", NOW + 10)).await.unwrap();
    one.put(refresh("r")).await.unwrap();
    one.put(AuthRecord::new(RecordKind::Access, "a", "{}", NOW + 10).of("g2")).await.unwrap();
    let rested = AuthRecord::new(RecordKind::Upstream, "g1", "theirs", NOW + 10).of("g1");
    one.put(rested.clone()).await.unwrap();
    assert_eq!(
        other.revoke_grant("g1", NOW + 1000).await.unwrap(),
        Some(rested),
        "what it rested on is told"
    );
    assert_eq!(other.revoke_grant("g1", NOW + 1000).await.unwrap(), None, "once");
    assert_eq!(one.get(RecordKind::Upstream, "g1", NOW).await.unwrap(), None);
    assert_eq!(one.get(RecordKind::Refresh, "r", NOW).await.unwrap(), None);
    assert_eq!(one.take(RecordKind::Code, "c", NOW).await.unwrap(), TakeRecordResult::Unknown);
    assert!(one.get(RecordKind::Access, "a", NOW).await.unwrap().is_some(), "of another grant");
    // Whoever was about to give out something for it comes too late.
    assert!(!one.put(refresh("r")).await.unwrap());
    assert_eq!(one.get(RecordKind::Refresh, "r", NOW).await.unwrap(), None);
    one.sweep(NOW + 1000).await.unwrap();
    assert!(one.put(refresh("r")).await.unwrap());
}

async fn a_claim_holds_until_it_runs_out((one, other): Pair) {
    let claims = (0..50).map(|claimer| {
        let store = Arc::clone(if claimer % 2 == 0 { &one } else { &other });
        tokio::spawn(async move { store.claim("jti", "me", NOW + 10, NOW).await.unwrap() })
    });
    let mut won = 0;
    for claim in claims.collect::<Vec<_>>() {
        won += usize::from(claim.await.unwrap());
    }
    assert_eq!(won, 1);
    assert!(!one.claim("jti", "me", NOW + 20, NOW + 9).await.unwrap());
    assert!(other.claim("jti", "me", NOW + 20, NOW + 10).await.unwrap());
}

#[cfg(all(feature = "sqlite", unix))]
#[test]
fn the_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auth.db");
    let store = super::SqlAuthStore::open(&path).unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", entry.path().display());
    }
    drop(store);
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 1000).unwrap();
    let error = super::SqlAuthStore::open(&path).unwrap_err();
    assert!(error.to_string().contains("newer version"), "{error}");
}

/// Operation on a code or a refresh token of the same grant.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Take,
    Swap,
    Revoke,
}

/// Results of the operations.
#[derive(Default)]
struct Winners {
    took: usize,
    swapped: usize,
    revoked: bool,
}

/// All do what they do at once, half of them at each node.
async fn at_once((one, other): Pair, all: Vec<(bool, Doing)>, round: usize) -> (Winners, Pair) {
    let (grant, code, refresh) = (format!("g{round}"), format!("c{round}"), format!("r{round}"));
    one.put(AuthRecord::new(RecordKind::Code, &code, "{}", NOW + 10).of(&grant)).await.unwrap();
    one.put(AuthRecord::new(RecordKind::Refresh, &refresh, "{}", NOW + 10).of(&grant)).await.unwrap();
    let start = Arc::new(tokio::sync::Barrier::new(all.len()));
    let tasks = all.into_iter().enumerate().map(|(at, (first, doing))| {
        let store = Arc::clone(if first { &one } else { &other });
        let (grant, code, refresh, start) =
            (grant.clone(), code.clone(), refresh.clone(), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            let mut won = Winners::default();
            match doing {
                Doing::Take => {
                    let taken = store.take(RecordKind::Code, &code, NOW).await.unwrap();
                    won.took += usize::from(matches!(taken, TakeRecordResult::First(_)));
                }
                Doing::Swap => {
                    let new = AuthRecord::new(RecordKind::Refresh, format!("{refresh} {at}"), "{}", NOW + 10)
                        .of(&grant);
                    let swapped = store.swap_refresh(&refresh, new, "", NOW, 0).await.unwrap();
                    won.swapped += usize::from(matches!(swapped, RefreshSwapResult::Done(_)));
                }
                Doing::Revoke => {
                    store.revoke_grant(&grant, NOW + 100).await.unwrap();
                    won.revoked = true;
                }
            }
            won
        })
    });
    let mut all = Winners::default();
    for task in tasks.collect::<Vec<_>>() {
        let won = task.await.unwrap();
        all.took += won.took;
        all.swapped += won.swapped;
        all.revoked |= won.revoked;
    }
    if all.revoked {
        assert_eq!(one.take(RecordKind::Code, &code, NOW).await.unwrap(), TakeRecordResult::Unknown);
        let left = other.list(RecordKind::Refresh, NOW, 1000).await.unwrap();
        assert!(left.iter().all(|record| record.grant.as_ref() != Some(&grant)), "{left:?}");
    }
    (all, (one, other))
}

fn at_most_one_wins(pair: impl AsyncFnOnce() -> Pair) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let mut pair = runtime.block_on(pair());
    let doing = prop_oneof![3 => Just(Doing::Take), 3 => Just(Doing::Swap), 1 => Just(Doing::Revoke)];
    let all = prop::collection::vec((any::<bool>(), doing), 1..16);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(48));
    let mut round = 0;
    let shared = std::cell::RefCell::new((&mut pair, &mut round));
    let done = runner.run(&all, |all| {
        let (pair, round) = &mut *shared.borrow_mut();
        **round += 1;
        let asked = |what: fn(&Doing) -> bool| all.iter().any(|(_, doing)| what(doing));
        let (takes, swaps) =
            (asked(|doing| matches!(doing, Doing::Take)), asked(|doing| matches!(doing, Doing::Swap)));
        let both = (Arc::clone(&pair.0), Arc::clone(&pair.1));
        let (won, _) = runtime.block_on(at_once(both, all.clone(), **round));
        prop_assert!(won.took <= 1 && won.swapped <= 1, "{} took, {} swapped", won.took, won.swapped);
        if !won.revoked {
            prop_assert_eq!(
                (won.took == 1, won.swapped == 1),
                (takes, swaps),
                "nobody is turned away for nothing"
            );
        }
        Ok(())
    });
    done.unwrap();
}

#[test]
fn whatever_comes_at_once_at_most_one_wins_in_memory() {
    at_most_one_wins(async || memory());
}

#[cfg(feature = "sqlite")]
#[test]
fn whatever_comes_at_once_at_most_one_wins_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    at_most_one_wins(async || sqlite(&folder));
}

#[cfg(all(feature = "postgres", target_os = "linux"))]
#[test]
fn whatever_comes_at_once_at_most_one_wins_in_postgres() {
    let server = PostgresServer::start(PostgresOptions::default());
    at_most_one_wins(async || postgres(&server).await);
}
