//! PostgreSQL with faults: connections that break, a server that is killed, and nodes that contend.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::net_proxy::{AcceptMode, LinkDirection, LinkRules, NetProxy};
use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};

use super::tests::{connect, real_time, settings};
use super::{AuthRecord, AuthStore, RecordKind, RefreshSwapResult, SqlAuthStore, TakeRecordResult};

/// Bytes after which a connection is cut: some while it is opened, and more around the commit, whose answer is the
/// last. `hospes-store` has a test with more places.
fn cuts(asked: u64, answered: u64) -> impl Iterator<Item = (LinkDirection, u64)> {
    let places = |whole: u64| (0..whole).step_by(450).chain((whole.saturating_sub(80)..=whole).step_by(13));
    let to_server = places(asked).map(|bytes| (LinkDirection::ToServer, bytes));
    to_server.chain(places(answered).map(|bytes| (LinkDirection::ToClient, bytes)))
}

/// The one who takes a code, or swaps a token, is told so wherever the connection breaks: it is no second taker.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_no_second_use() {
    let (server, time) = (PostgresServer::start(PostgresOptions::default()), real_time());
    let proxy = NetProxy::to_port(server.port()).await;
    let mut through = settings(server.url_at(proxy.port()));
    through.max_connections = 1;
    let direct = connect(&server).await;
    let flaky = Arc::new(SqlAuthStore::connect(through).await.unwrap());
    let of = |kind, key: &str| AuthRecord::new(kind, key, "{}", time + 10_000).of("g");
    let both = [LinkDirection::ToServer, LinkDirection::ToClient];
    for is_swap in [false, true] {
        let kind = if is_swap { RecordKind::Refresh } else { RecordKind::Code };
        let use_once = |key: String| {
            let (flaky, next) = (Arc::clone(&flaky), of(RecordKind::Refresh, &format!("{key} next")));
            tokio::spawn(async move {
                if is_swap {
                    let swapped = flaky.swap_refresh(&key, next, "note", time, 0).await.unwrap();
                    (matches!(swapped, RefreshSwapResult::Done(_)), format!("{swapped:?}"))
                } else {
                    let taken = flaky.take(RecordKind::Code, &key, time).await.unwrap();
                    (matches!(taken, TakeRecordResult::First(_)), format!("{taken:?}"))
                }
            })
        };
        // Bytes of a use on a new connection.
        direct.put(of(kind, "measured")).await.unwrap();
        proxy.reset_connections();
        let before = both.map(|direction| proxy.passed(direction));
        assert!(use_once("measured".to_owned()).await.unwrap().0);
        let [asked, answered] = both.map(|direction| proxy.passed(direction));
        for (direction, bytes) in cuts(asked - before[0], answered - before[1]) {
            let key = format!("{direction:?} {bytes}");
            direct.put(of(kind, &key)).await.unwrap();
            let accepted = proxy.accepted();
            proxy.set(direction, LinkRules::cut_after(bytes));
            proxy.reset_connections();
            let using = use_once(key.clone());
            eventually("a connection", async || {
                (proxy.accepted() > accepted + 1 || using.is_finished()).then_some(())
            })
            .await;
            proxy.heal();
            let (is_first, said) = using.await.unwrap();
            assert!(is_first, "{said} after {key} bytes");
            // Another one comes too late.
            if is_swap {
                let again = direct.swap_refresh(&key, of(kind, "other"), "", time, 0).await.unwrap();
                assert_eq!(again, RefreshSwapResult::Reused(of(kind, &key)));
                assert!(direct.get(kind, &format!("{key} next"), time).await.unwrap().is_some());
            } else {
                let again = direct.take(kind, &key, time).await.unwrap();
                assert_eq!(again, TakeRecordResult::Again(of(kind, &key)));
            }
        }
    }
}

/// After the time for tries, an error says whether the change may have been made. A repetition is an attempt of its own:
/// it takes what was not taken, and finds taken what was.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_fails_is_made_or_not_and_the_next_attempt_finds_which() {
    let (server, time) = (PostgresServer::start(PostgresOptions::default()), real_time());
    let proxy = NetProxy::to_port(server.port()).await;
    let mut through = settings(server.url_at(proxy.port()));
    (through.max_connections, through.retry_timeout) = (1, Duration::from_secs(1));
    let direct = connect(&server).await;
    let flaky = Arc::new(SqlAuthStore::connect(through).await.unwrap());
    let code = |key: &str| AuthRecord::new(RecordKind::Code, key, "{}", time + 10_000).of("g");
    let take = |key: &'static str| {
        let flaky = Arc::clone(&flaky);
        tokio::spawn(async move { flaky.take(RecordKind::Code, key, time).await })
    };
    for key in ["measured", "unreached", "unanswered"] {
        direct.put(code(key)).await.unwrap();
    }
    let passed = || proxy.passed(LinkDirection::ToClient);
    proxy.reset_connections();
    let before = passed();
    take("measured").await.unwrap().unwrap();
    let whole = passed() - before;

    proxy.set_accept(AcceptMode::Reset);
    proxy.reset_connections();
    let error = take("unreached").await.unwrap().unwrap_err().to_string();
    assert!(error.contains("cannot be used: "), "{error}");
    let first = direct.take(RecordKind::Code, "unreached", time).await.unwrap();
    assert_eq!(first, TakeRecordResult::First(code("unreached")));

    proxy.heal();
    proxy.set(LinkDirection::ToClient, LinkRules::cut_after(whole - 8));
    let before = passed();
    let taking = take("unanswered");
    // One connection, which is cut in the answer of the commit, and no more after it.
    eventually("an answer", async || (passed() > before).then_some(())).await;
    proxy.set_accept(AcceptMode::Reset);
    let error = taking.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("whether the change was made is not known"), "{error}");
    let again = direct.take(RecordKind::Code, "unanswered", time).await.unwrap();
    assert_eq!(again, TakeRecordResult::Again(code("unanswered")));
}

/// What was acknowledged is there after the server was killed, and changes meanwhile wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing_that_was_acknowledged() {
    let (mut server, time) = (PostgresServer::start(PostgresOptions::default()), real_time());
    let store = connect(&server).await;
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let writer = tokio::spawn({
        let (store, told) = (Arc::clone(&store), Arc::clone(&acknowledged));
        async move {
            for round in 0_u64.. {
                let (code, token) = (format!("code {round}"), format!("token {round}"));
                let grant = format!("grant {round}");
                let record = |kind, key: &str| AuthRecord::new(kind, key, "{}", time + 10_000).of(&grant);
                assert!(store.put(record(RecordKind::Code, &code)).await.unwrap());
                let taken = store.take(RecordKind::Code, &code, time).await.unwrap();
                assert!(matches!(taken, TakeRecordResult::First(_)), "{taken:?}");
                assert!(store.put(record(RecordKind::Access, &token)).await.unwrap());
                told.lock().unwrap().push(round);
            }
        }
    });
    let count = || acknowledged.lock().unwrap().len();
    for _ in 0..3 {
        let before = count();
        eventually("changes are made", async || (count() > before + 15).then_some(())).await;
        server.kill();
        server.restart();
    }
    let before = count();
    eventually("it goes on", async || (count() > before).then_some(())).await;
    writer.abort();
    let rounds = acknowledged.lock().unwrap().clone();
    for round in rounds {
        let again = store.take(RecordKind::Code, &format!("code {round}"), time).await.unwrap();
        assert!(matches!(again, TakeRecordResult::Again(_)), "round {round}: {again:?}");
        let token = store.get(RecordKind::Access, &format!("token {round}"), time).await.unwrap();
        assert!(token.is_some(), "round {round}");
    }
}

/// A record of a grant that is revoked at the same moment does not stay.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_put_beside_the_end_of_its_grant() {
    let (server, time) = (PostgresServer::start(PostgresOptions::default()), real_time());
    let nodes = [connect(&server).await, connect(&server).await];
    for round in 0..40 {
        let grant = format!("g{round}");
        let puts = (0..6).map(|at| {
            let store = Arc::clone(&nodes[at % 2]);
            let record =
                AuthRecord::new(RecordKind::Access, format!("{round} {at}"), "{}", time + 1_000).of(&grant);
            tokio::spawn(async move { store.put(record).await.unwrap() })
        });
        let puts: Vec<_> = puts.collect();
        nodes[1].revoke_grant(&grant, time + 10_000).await.unwrap();
        for put in puts {
            put.await.unwrap();
        }
        assert_eq!(nodes[0].count(RecordKind::Access).await.unwrap(), 0, "round {round}");
    }
}
