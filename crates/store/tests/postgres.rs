//! The state on PostgreSQL: it answers as on SQLite, and broken connections neither lose nor repeat a change.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hospes_fleet_testkit::certificates::TestCertificates;
use hospes_fleet_testkit::eventually;
use hospes_fleet_testkit::net_proxy::{LinkDirection, LinkRules, NetProxy};
use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use hospes_store::approvals::NewDecision;
use hospes_store::budgets::BudgetRecords;
use hospes_store::console_sessions::{ConsoleSession, MAX_SESSIONS_OF_PERSON};
use hospes_store::grants::NewGrant;
use hospes_store::{PostgresSettings, StateStore, StoreError};
use jiff::{SignedDuration, Timestamp};
use zeroize::Zeroizing;

fn secrets(bytes: &[u8]) -> Vec<Zeroizing<[u8; 32]>> {
    bytes.iter().map(|byte| Zeroizing::new([*byte; 32])).collect()
}

fn key() -> Vec<Zeroizing<[u8; 32]>> {
    secrets(&[7])
}

fn settings(url: String) -> PostgresSettings {
    PostgresSettings::new(url.into())
}

async fn connect(server: &PostgresServer) -> StateStore {
    StateStore::connect(settings(server.url()), key()).await.unwrap()
}

fn after(seconds: u64) -> Timestamp {
    Timestamp::now() + Duration::from_secs(seconds)
}

fn count(kept: Option<String>) -> (Option<String>, u64) {
    let next = kept.map_or(0, |kept| kept.parse::<u64>().unwrap()) + 1;
    (Some(next.to_string()), next)
}

async fn counted(budgets: &BudgetRecords) -> u64 {
    budgets.read().await.unwrap().map_or(0, |kept| kept.parse().unwrap())
}

/// One of several nodes decides an approval, and one takes it.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_decided_once_and_taken_once() {
    let server = PostgresServer::start(PostgresOptions::default());
    let nodes = [connect(&server).await, connect(&server).await, connect(&server).await];
    let approvals = nodes.each_ref().map(|node| node.approvals().unwrap());
    for round in 0..20 {
        let id = format!("a{round}");
        approvals[0].insert(id.clone(), "a call".to_owned(), after(60)).await.unwrap();
        let again = approvals[1].insert(id.clone(), "another".to_owned(), after(60)).await;
        assert!(matches!(again, Err(StoreError::Rejected(_))), "{again:?}");
        let decide = |place: usize| {
            let (approvals, id) = (approvals[place].clone(), id.clone());
            let by = format!("node {place}");
            tokio::spawn(async move {
                approvals.decide(id, NewDecision::new(by, after(60)), Timestamp::now()).await.unwrap()
            })
        };
        let decided = [decide(0), decide(1), decide(2)];
        let mut winners = Vec::new();
        for (place, decided) in decided.into_iter().enumerate() {
            winners.extend(decided.await.unwrap().then(|| format!("node {place}")));
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        let seen = approvals[2].changes_since(Timestamp::now(), HashMap::new()).await.unwrap().news;
        assert_eq!(seen[0].matter.as_deref(), Some("a call"), "sealed with the key of all nodes");
        assert_eq!(seen[0].decided.as_ref(), winners.first());
        let take = |place: usize| {
            let (approvals, id) = (approvals[place].clone(), id.clone());
            tokio::spawn(async move { approvals.take(id, Timestamp::now()).await.unwrap() })
        };
        let mut taken = Vec::new();
        for take in [take(0), take(1), take(2), take(0)] {
            taken.extend(take.await.unwrap());
        }
        assert_eq!(taken, [winners.pop()]);
    }
}

/// Values that one node reads to write others are not changed by another node meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_overwrite_nothing_that_another_has_written() {
    const EACH: u64 = 40;
    let server = PostgresServer::start(PostgresOptions::default());
    let nodes = [connect(&server).await, connect(&server).await];
    let writers = nodes.map(|node| {
        tokio::spawn(async move {
            for _ in 0..EACH {
                node.budgets().update(count).await.unwrap();
            }
        })
    });
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(counted(&connect(&server).await.budgets()).await, 2 * EACH);
}

/// Each change is made once, although connections break at every place of its way.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_takes_effect_once_whatever_connections_break() {
    let server = PostgresServer::start(PostgresOptions::default());
    let proxy = NetProxy::to_port(server.port()).await;
    let through = settings(server.url_at(proxy.port()));
    let (direct, flaky) =
        (connect(&server).await.budgets(), { StateStore::connect(through, key()).await.unwrap().budgets() });
    // Bytes of a change on a new connection, from the greeting to the answer of the commit.
    proxy.reset_connections();
    let before = [LinkDirection::ToServer, LinkDirection::ToClient].map(|direction| proxy.passed(direction));
    assert_eq!(flaky.update(count).await.unwrap(), 1);
    let whole = [LinkDirection::ToServer, LinkDirection::ToClient].map(|direction| proxy.passed(direction));
    let (asked, answered) = (whole[0] - before[0], whole[1] - before[1]);
    // Cuts everywhere in coarse steps, and at each few bytes around the commit, whose answer is the last.
    let places = |whole: u64| (0..whole).step_by(151).chain((whole.saturating_sub(90)..=whole).step_by(6));
    let cuts = places(asked).map(|bytes| (LinkDirection::ToServer, bytes));
    let cuts = cuts.chain(places(answered).map(|bytes| (LinkDirection::ToClient, bytes)));
    let mut made = 1;
    for (direction, bytes) in cuts {
        let accepted = proxy.accepted();
        proxy.set(direction, LinkRules::cut_after(bytes));
        proxy.reset_connections();
        let changing = tokio::spawn({
            let flaky = flaky.clone();
            async move { flaky.update(count).await }
        });
        // The first connection is cut, unless the change was short enough; the next ones pass.
        eventually("a connection", async || {
            (proxy.accepted() > accepted + 1 || changing.is_finished()).then_some(())
        })
        .await;
        proxy.heal();
        made += 1;
        assert_eq!(changing.await.unwrap().unwrap(), made, "{direction:?} after {bytes} bytes");
        assert_eq!(counted(&direct).await, made, "{direction:?} after {bytes} bytes");
    }
}

/// Acknowledged changes are there after the server was killed, and changes meanwhile wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_nothing_that_was_acknowledged() {
    let mut server = PostgresServer::start(PostgresOptions::default());
    let state = connect(&server).await;
    let acknowledged = Arc::new(AtomicU64::new(0));
    let (budgets, told) = (state.budgets(), Arc::clone(&acknowledged));
    let writer = tokio::spawn(async move {
        loop {
            let made = budgets.update(count).await.unwrap();
            told.store(made, Ordering::SeqCst);
        }
    });
    for _ in 0..3 {
        let before = acknowledged.load(Ordering::SeqCst);
        eventually("changes are made", async || {
            (acknowledged.load(Ordering::SeqCst) > before + 20).then_some(())
        })
        .await;
        server.kill();
        let told = acknowledged.load(Ordering::SeqCst);
        server.restart();
        assert!(counted(&state.budgets()).await >= told);
    }
    let before = acknowledged.load(Ordering::SeqCst);
    eventually("it goes on", async || (acknowledged.load(Ordering::SeqCst) > before).then_some(())).await;
    writer.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_server_is_an_error_after_the_time_for_tries() {
    let mut server = PostgresServer::start(PostgresOptions::default());
    let mut short = settings(server.url());
    short.retry_timeout = Duration::from_millis(200);
    let state = StateStore::connect(short.clone(), key()).await.unwrap();
    server.kill();
    let failed = state.grants().insert(NewGrant::new("g".to_owned(), "a grant".to_owned(), None), None).await;
    assert!(matches!(failed, Err(StoreError::Unavailable { is_unknown: false, .. })), "{failed:?}");
    let failed = StateStore::connect(short, key()).await;
    let said = failed.unwrap_err().to_string();
    assert!(said.starts_with("the database cannot be used: "), "{said}");
    assert!(!said.contains(server.password()), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_another_node_are_noticed() {
    let server = PostgresServer::start(PostgresOptions::default());
    let (one, other) = (connect(&server).await, connect(&server).await);
    let mut changes = one.changes();
    // The first poll sets what later ones are compared with.
    eventually("a change is noticed", async || {
        other.grants().insert(NewGrant::new("g".to_owned(), "a grant".to_owned(), None), None).await.unwrap();
        tokio::time::timeout(Duration::from_secs(1), changes.changed()).await.ok()
    })
    .await
    .unwrap();
    assert_eq!(one.grants().all(Timestamp::now()).await.unwrap()[0].body, "a grant");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_together_migrate_once_and_newer_parts_are_respected() {
    let server = PostgresServer::start(PostgresOptions::default());
    let starts = [0; 6].map(|_| {
        let settings = settings(server.url());
        tokio::spawn(async move { StateStore::connect(settings, key()).await.map(drop) })
    });
    for start in starts {
        start.await.unwrap().unwrap();
    }
    let _ = server.query("INSERT INTO parts VALUES ('of a newer program', 9)");
    drop(connect(&server).await);
    let _ = server.query("UPDATE parts SET version = 9 WHERE name = 'grants'");
    let refused = StateStore::connect(settings(server.url()), key()).await;
    assert!(matches!(refused, Err(StoreError::NewerDatabase)), "{refused:?}");
}

/// Stored data stay readable while nodes change their secret one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn the_secret_of_the_nodes_can_change() {
    let server = PostgresServer::start(PostgresOptions::default());
    let connect = async |bytes: &[u8]| StateStore::connect(settings(server.url()), secrets(bytes)).await;
    let purpose = async |bytes: &[u8]| *connect(bytes).await.unwrap().secret("purpose").unwrap();
    let before = purpose(&[1]).await;
    assert_eq!(purpose(&[1, 2]).await, before);
    let strange = connect(&[2]).await.unwrap_err();
    assert!(matches!(strange, StoreError::Sealed), "{strange:?}");
    assert_eq!(purpose(&[2, 1]).await, before);
    // The key is sealed with the new secret by now.
    assert_eq!(purpose(&[2]).await, before);
    assert_eq!(purpose(&[1, 2]).await, before, "a node that has not been restarted for the second step");
    assert_eq!(purpose(&[2, 1]).await, before);
    assert_eq!(purpose(&[2]).await, before);
    assert!(connect(&[1]).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_required_and_the_certificate_verified() {
    let options = || {
        let mut options = PostgresOptions::default();
        options.certificates = Some(TestCertificates::issue("127.0.0.1"));
        options
    };
    let server = PostgresServer::start(options());
    let certificates = server.certificates().unwrap();
    let mut good = settings(server.url());
    good.ca_pem = Some(certificates.ca_pem.clone().into_bytes());
    let client = (certificates.client_pem.clone().into_bytes(), certificates.client_key_pem.clone().into());
    good.client_identity = Some(client);
    good.retry_timeout = Duration::from_millis(100);
    StateStore::connect(good.clone(), key()).await.unwrap();
    let mut of_another = good.clone();
    of_another.ca_pem = Some(TestCertificates::issue("127.0.0.1").ca_pem.into_bytes());
    let refused = StateStore::connect(of_another, key()).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    let mut without = good.clone();
    without.client_identity = None;
    assert!(
        StateStore::connect(without, key()).await.is_err(),
        "the server asks for the client's certificate"
    );
    let mut plain = good;
    plain.url = format!("{}?sslmode=disable", server.url()).into();
    assert!(matches!(StateStore::connect(plain, key()).await, Err(StoreError::Settings(_))));
    // A server without TLS is not used unless the URL says so.
    let server = PostgresServer::start(PostgresOptions::default());
    let mut encrypted = settings(server.url().replace("?sslmode=disable", ""));
    encrypted.ca_pem = Some(TestCertificates::issue("127.0.0.1").ca_pem.into_bytes());
    encrypted.retry_timeout = Duration::from_millis(100);
    assert!(StateStore::connect(encrypted, key()).await.is_err());
}

/// The commands of docs/fleet.md restore what was decided when the backup was made, sealed under the same secret.
#[tokio::test(flavor = "multi_thread")]
async fn the_documented_backup_is_restored() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fleet.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n## Backup and restore\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let commands: Vec<&str> = section.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let [backup, create, restore] = commands[..] else { panic!("{commands:?}") };

    let server = PostgresServer::start(PostgresOptions::default());
    let _ = server.query("CREATE DATABASE hospes");
    let url = |database: &str| server.url().replacen("/postgres?", &format!("/{database}?"), 1);
    let connect = async |database: &str| StateStore::connect(settings(url(database)), key()).await.unwrap();
    let approvals = connect("hospes").await.approvals().unwrap();
    for id in ["before", "open"] {
        approvals.insert(id.to_owned(), "a call".to_owned(), after(60)).await.unwrap();
    }
    assert!(
        approvals
            .decide("before".to_owned(), NewDecision::new("ann".to_owned(), after(60)), Timestamp::now())
            .await
            .unwrap()
    );
    let folder = tempfile::tempdir().unwrap();
    let run = |line: &str| {
        let path = std::env::var("PATH").unwrap();
        let ran = std::process::Command::new("sh")
            .args(["-c", line])
            .current_dir(folder.path())
            .env("PATH", format!("/usr/lib/postgresql/15/bin:{path}"))
            .envs([("PGHOST", "127.0.0.1"), ("PGUSER", "postgres"), ("PGPASSWORD", server.password())])
            .env("PGPORT", server.port().to_string())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    run(backup);
    approvals.insert("after".to_owned(), "a call".to_owned(), after(60)).await.unwrap();
    assert_eq!(
        approvals.take("before".to_owned(), Timestamp::now()).await.unwrap().flatten().as_deref(),
        Some("ann")
    );

    run(create);
    run(restore);
    let restored = connect("hospes_restored").await.approvals().unwrap();
    let seen = restored.changes_since(Timestamp::now(), HashMap::new()).await.unwrap().news;
    let mut matters: Vec<_> = seen.iter().map(|approval| approval.matter.as_deref()).collect();
    matters.sort_unstable();
    assert_eq!(matters, [Some("a call"); 2], "the one after the backup is not there");
    // The page warns of this.
    assert_eq!(
        restored.take("before".to_owned(), Timestamp::now()).await.unwrap().flatten().as_deref(),
        Some("ann")
    );
}

/// Of several nodes one ends a sign-in and renews a session's claims, and a session that one ends is over at all.
#[tokio::test(flavor = "multi_thread")]
async fn sign_ins_and_sessions_of_the_console_are_those_of_all_nodes() {
    let server = PostgresServer::start(PostgresOptions::default());
    let nodes = [connect(&server).await, connect(&server).await, connect(&server).await];
    let consoles = nodes.each_ref().map(|node| node.console_sessions().unwrap());
    let (now, idle) = (Timestamp::now(), SignedDuration::from_hours(12));
    for round in 0..10 {
        let state = format!("state {round}");
        consoles[0].begin_sign_in(state.clone(), "a nonce", after(60)).await.unwrap();
        let taken = consoles.each_ref().map(|console| {
            let (console, state) = (console.clone(), state.clone());
            tokio::spawn(async move { console.take_sign_in(state, Timestamp::now()).await.unwrap() })
        });
        let mut times = 0;
        for taken in taken {
            if let Some(body) = taken.await.unwrap() {
                assert_eq!(body, "a nonce");
                times += 1;
            }
        }
        assert_eq!(times, 1, "once");
    }
    let session = |name: &str, person: &str| ConsoleSession {
        key: format!("hash {name}"),
        id: format!("id {name}"),
        person: person.to_owned(),
        opened: now,
        seen: now,
        until: after(3600),
        checked: now,
        provider_session: String::new(),
        body: "a token".to_owned(),
    };
    for number in 0..=MAX_SESSIONS_OF_PERSON {
        let mut session = session(&number.to_string(), "ann");
        session.opened = now + SignedDuration::from_secs(i64::try_from(number).unwrap());
        assert!(consoles[0].insert(session).await.unwrap());
    }
    assert!(consoles[1].insert(session("b", "bob")).await.unwrap());
    let list = async |person: Option<&str>| {
        consoles[2].list(person.map(str::to_owned), now, idle).await.unwrap().len()
    };
    assert_eq!((list(Some("ann")).await, list(Some("bob")).await), (MAX_SESSIONS_OF_PERSON, 1));
    assert_eq!(list(None).await, MAX_SESSIONS_OF_PERSON + 1);
    let find = async |place: usize, name: &str| {
        consoles[place].find(format!("hash {name}"), now, idle).await.unwrap()
    };
    assert!(find(0, "0").await.is_none(), "the oldest has ended");
    assert_eq!(find(2, "b").await.unwrap().body, "a token");
    let later = now + SignedDuration::from_hours(1);
    let claim = async |place: usize| {
        let known = find(place, "b").await.unwrap().checked;
        consoles[place].claim_check("hash b".to_owned(), known, later).await.unwrap()
    };
    assert!(claim(0).await);
    let checked = session("b", "bob").checked;
    assert!(!consoles[1].claim_check("hash b".to_owned(), checked, later).await.unwrap());
    consoles[1].record_use("hash b".to_owned(), later).await.unwrap();
    consoles[1].set_body("hash b".to_owned(), "another token").await.unwrap();
    assert_eq!(find(0, "b").await.unwrap().body, "another token");
    assert!(!consoles[0].end("id b".to_owned(), Some("ann".to_owned())).await.unwrap());
    assert!(consoles[0].end("id b".to_owned(), None).await.unwrap());
    assert!(find(2, "b").await.is_none());
}
