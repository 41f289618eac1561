//! Approvals that nodes of a fleet hold: each transition is made once, on both engines.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hospes_fleet_testkit::postgres_server::{PostgresOptions, PostgresServer};
use hospes_sql::{ChangeScope, SqlEngine, SqliteSchema, sql_values};
use hospes_store::approvals::{ApprovalHolder, ApprovalRecords, NewDecision, StoredApproval};
use hospes_store::{PostgresSettings, StateStore};
use jiff::Timestamp;
use zeroize::Zeroizing;

const BOND: [u8; 32] = [1; 32];

/// Attempts to use the same approval at once.
const ATTEMPTS: [&str; 4] = ["u1", "u2", "u3", "u4"];

/// Use of a held approval: the id and the attempt in, true out for the one attempt that uses it.
trait UseApproval: Clone + Send + Sync + 'static {
    fn use_it(&self, id: String, attempt: String) -> impl Future<Output = bool> + Send;
}

impl UseApproval for ApprovalRecords {
    async fn use_it(&self, id: String, attempt: String) -> bool {
        self.use_held(id, attempt, Timestamp::now()).await.unwrap().is_some()
    }
}

/// An engine that is broken on purpose: it selects the approval in one transaction and updates it in another.
/// Engine in which every attempt selects before the first of them updates.
#[derive(Clone)]
struct SelectThenUpdate(Arc<SqlEngine>, Arc<tokio::sync::Barrier>);

impl UseApproval for SelectThenUpdate {
    async fn use_it(&self, id: String, attempt: String) -> bool {
        let select = "SELECT used_by FROM matters WHERE id = ?1 AND decided IS NOT NULL AND NOT orphaned";
        let wanted = id.clone();
        let found: Option<Option<String>> =
            self.0.read(move |view| view.query_value(select, sql_values![wanted])).await.unwrap();
        if found.is_none_or(|used_by| used_by.is_some_and(|used_by| used_by != attempt)) {
            return false;
        }
        self.1.wait().await;
        let update = "UPDATE matters SET used_by = ?2 WHERE id = ?1";
        let change =
            self.0.write(ChangeScope::Rows, move |change| change.execute(update, sql_values![id, attempt]));
        change.await.unwrap() == 1
    }
}

/// Checks that one of several attempts at once uses each approval, and that it can be repeated.
///
/// # Errors
/// If several do, or none.
async fn check_single_use(fleet: &Fleet, prefix: &str, users: &[impl UseApproval; 2]) -> Result<(), String> {
    for round in 0..20 {
        let id = format!("{prefix}{round}");
        fleet.hold(&id, "one", BOND).await;
        assert!(fleet.decide(&id, "yes").await);
        let uses = ATTEMPTS.map(|attempt| {
            let (user, id) = (users[usize::from(attempt < "u3")].clone(), id.clone());
            tokio::spawn(async move { user.use_it(id, attempt.to_owned()).await.then_some(attempt) })
        });
        let mut winners = Vec::new();
        for used in uses {
            winners.extend(used.await.unwrap());
        }
        let [winner] = &winners[..] else {
            return Err(format!("{}: {id} is used by {winners:?}", fleet.engine));
        };
        if !users[0].use_it(id.clone(), (*winner).to_owned()).await {
            return Err(format!("{}: {winner} does not find its own use of {id}", fleet.engine));
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_approval_is_used_once_and_an_engine_in_two_steps_is_found() {
    for fleet in Fleet::on_both().await {
        check_single_use(&fleet, "sound", &fleet.nodes).await.unwrap();
        let engine = async || match &fleet.server {
            Some(server) => {
                SqlEngine::connect_postgres(PostgresSettings::new(server.url().into()), &[]).await
            }
            None => SqlEngine::open_sqlite(fleet.folder.path().join("state.db"), SqliteSchema::Parts(&[])),
        };
        let users = [engine().await.unwrap(), engine().await.unwrap()];
        let selected = Arc::new(tokio::sync::Barrier::new(ATTEMPTS.len()));
        let users = users.map(|engine| SelectThenUpdate(Arc::new(engine), Arc::clone(&selected)));
        let found = check_single_use(&fleet, "broken", &users).await.expect_err("the engine is broken");
        assert!(found.contains("is used by"), "{found}");
    }
}

/// Two nodes with one state on one of the engines.
struct Fleet {
    engine: &'static str,
    nodes: [ApprovalRecords; 2],
    server: Option<PostgresServer>,
    folder: tempfile::TempDir,
}

impl Fleet {
    /// Both engines, for the same test.
    async fn on_both() -> [Self; 2] {
        let server = PostgresServer::start(PostgresOptions::default());
        let connect = async || {
            let mut settings = PostgresSettings::new(server.url().into());
            // Several servers start at the same time, perhaps on a busy machine.
            (settings.connect_timeout, settings.retry_timeout) =
                (Duration::from_secs(20), Duration::from_secs(60));
            StateStore::connect(settings, vec![Zeroizing::new([7; 32])]).await.unwrap().approvals().unwrap()
        };
        let nodes = [connect().await, connect().await];
        let folder = || tempfile::tempdir().unwrap();
        let on_postgres = Self { engine: "PostgreSQL", nodes, server: Some(server), folder: folder() };
        let folder = folder();
        let open = || StateStore::open(folder.path().join("state.db")).unwrap().approvals().unwrap();
        let nodes = [open(), open()];
        [on_postgres, Self { engine: "SQLite", nodes, server: None, folder }]
    }

    async fn hold(&self, id: &str, node: &str, bond: [u8; 32]) {
        let holder = ApprovalHolder::new(node.to_owned(), bond);
        self.nodes[0].insert_held(id.to_owned(), "a call".to_owned(), after(60), holder).await.unwrap();
    }

    async fn decide(&self, id: &str, decision: &str) -> bool {
        let decision = NewDecision::new(decision.to_owned(), after(60));
        self.nodes[1].decide(id.to_owned(), decision, Timestamp::now()).await.unwrap()
    }

    async fn use_held(&self, id: &str, attempt: &str) -> Option<Option<String>> {
        self.nodes[0].use_held(id.to_owned(), attempt.to_owned(), Timestamp::now()).await.unwrap()
    }

    async fn use_orphaned(&self, bond: [u8; 32], attempt: &str) -> Option<(String, Option<String>)> {
        self.nodes[1].use_orphaned(bond, attempt.to_owned(), Timestamp::now()).await.unwrap()
    }

    async fn withdraw(&self, node: &str) -> Vec<String> {
        let mut ids = self.nodes[1].withdraw_held(node.to_owned(), Timestamp::now()).await.unwrap();
        ids.sort();
        ids
    }

    async fn shown(&self) -> Vec<StoredApproval> {
        self.nodes[1].changes_since(Timestamp::now(), HashMap::new()).await.unwrap().news
    }

    /// Changes the table as a program does that does not know the columns of held approvals.
    fn run_older(&self, sql: &str) {
        match &self.server {
            Some(server) => drop(server.query(&sql.replace("x''", "''"))),
            None => {
                let file = rusqlite::Connection::open(self.folder.path().join("state.db")).unwrap();
                file.execute_batch(sql).unwrap();
            }
        }
    }
}

fn after(seconds: u64) -> Timestamp {
    Timestamp::now() + Duration::from_secs(seconds)
}

fn allowed() -> Option<Option<String>> {
    Some(Some("yes".to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_used_by_one_attempt_which_can_be_repeated() {
    for fleet in Fleet::on_both().await {
        let engine = fleet.engine;
        for round in 0..20 {
            let id = format!("a{round}");
            fleet.hold(&id, "one", BOND).await;
            let shown = fleet.shown().await;
            assert_eq!(shown[0].holder.as_deref(), Some("one"), "{engine}");
            let decide = |place: usize| {
                let (records, id) = (fleet.nodes[place].clone(), id.clone());
                tokio::spawn(async move {
                    let yes = NewDecision::new("yes".to_owned(), after(60));
                    records.decide(id, yes, Timestamp::now()).await.unwrap()
                })
            };
            let decided = [decide(0), decide(1)];
            let mut made = 0;
            for decided in decided {
                made += usize::from(decided.await.unwrap());
            }
            assert_eq!(made, 1, "{engine}: one decision wins");
            let use_it = |place: usize, attempt: &str| {
                let (records, id, attempt) = (fleet.nodes[place].clone(), id.clone(), attempt.to_owned());
                tokio::spawn(async move {
                    records.use_held(id, attempt.clone(), Timestamp::now()).await.unwrap().map(|_| attempt)
                })
            };
            let uses = [use_it(0, "u1"), use_it(1, "u2"), use_it(0, "u3"), use_it(1, "u4")];
            let mut winners = Vec::new();
            for used in uses {
                winners.extend(used.await.unwrap());
            }
            assert_eq!(winners.len(), 1, "{engine}: {winners:?}");
            // The answer to the winner may have been lost: it asks again, and finds its own mark.
            assert_eq!(fleet.use_held(&id, &winners[0]).await, allowed(), "{engine}");
            assert_eq!(fleet.use_held(&id, "another").await, None, "{engine}");
            assert!(!fleet.decide(&id, "no").await, "{engine}");
            assert!(fleet.shown().await.is_empty(), "{engine}: what is used is over");
            // Neither the end of its holder nor a removal makes it usable again.
            assert!(fleet.withdraw("one").await.is_empty(), "{engine}");
            assert_eq!(fleet.use_orphaned(BOND, "late").await, None, "{engine}");
            fleet.nodes[1].remove(vec![id.clone()], Timestamp::now()).await.unwrap();
            assert_eq!(fleet.use_held(&id, &winners[0]).await, allowed(), "{engine}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn approvals_of_a_node_that_has_ended_are_withdrawn_and_the_allowed_ones_used_by_the_same_call() {
    for fleet in Fleet::on_both().await {
        let engine = fleet.engine;
        for (id, node) in [("open", "one"), ("allowed", "one"), ("later", "one"), ("living", "two")] {
            fleet.hold(id, node, if id == "later" { [2; 32] } else { BOND }).await;
        }
        assert!(fleet.decide("allowed", "yes").await && fleet.decide("later", "yes").await);
        assert_eq!(fleet.use_orphaned(BOND, "early").await, None, "{engine}: its holder lives");
        let mut holders = fleet.nodes[1].holders(Timestamp::now()).await.unwrap();
        holders.sort();
        assert_eq!(holders, ["one", "two"], "{engine}");

        let known: HashMap<String, bool> =
            fleet.shown().await.into_iter().map(|one| (one.id, false)).collect();
        assert_eq!(known.len(), 4, "{engine}");
        assert_eq!(fleet.withdraw("one").await, ["open"], "{engine}");
        assert!(fleet.withdraw("one").await.is_empty(), "{engine}: once");
        assert_eq!(fleet.nodes[1].holders(Timestamp::now()).await.unwrap(), ["two"], "{engine}");
        let look = fleet.nodes[1].changes_since(Timestamp::now(), known).await.unwrap();
        assert_eq!(
            (look.gone, look.withdrawn),
            (vec!["open".to_owned()], vec!["open".to_owned()]),
            "{engine}"
        );

        // The former holder lives and comes too late, whatever it tries.
        assert_eq!(fleet.use_held("allowed", "holder").await, None, "{engine}");
        assert_eq!(fleet.use_held("open", "holder").await, None, "{engine}");
        assert!(!fleet.decide("open", "yes").await, "{engine}");
        assert_eq!(fleet.nodes[0].rehold("one".to_owned(), "new".to_owned()).await.unwrap(), 0, "{engine}");
        fleet.nodes[0].remove(vec!["allowed".to_owned()], Timestamp::now()).await.unwrap();

        assert_eq!(fleet.use_orphaned([3; 32], "of another call").await, None, "{engine}");
        let uses = ["u1", "u2", "u3", "u4"].map(|attempt| {
            let records = fleet.nodes[usize::from(attempt < "u3")].clone();
            tokio::spawn(async move {
                let used = records.use_orphaned(BOND, attempt.to_owned(), Timestamp::now()).await.unwrap();
                used.map(|used| (attempt, used))
            })
        });
        let mut winners = Vec::new();
        for used in uses {
            winners.extend(used.await.unwrap());
        }
        let [(attempt, used)] = &winners[..] else { panic!("{engine}: {winners:?}") };
        assert_eq!(*used, ("allowed".to_owned(), Some("yes".to_owned())), "{engine}");
        assert_eq!(fleet.use_orphaned(BOND, attempt).await.as_ref(), Some(used), "{engine}: its own mark");
        assert_eq!(fleet.use_orphaned(BOND, "another").await, None, "{engine}: once");
        assert_eq!(fleet.use_orphaned([2; 32], "u5").await.unwrap().0, "later", "{engine}");
        let shown: Vec<String> = fleet.shown().await.into_iter().map(|one| one.id).collect();
        assert_eq!(shown, ["living"], "{engine}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_a_new_id_keeps_what_was_not_withdrawn() {
    for fleet in Fleet::on_both().await {
        let engine = fleet.engine;
        for id in ["open", "allowed"] {
            fleet.hold(id, "old", BOND).await;
        }
        assert!(fleet.decide("allowed", "yes").await);
        assert_eq!(fleet.nodes[0].rehold("old".to_owned(), "new".to_owned()).await.unwrap(), 2, "{engine}");
        assert!(fleet.withdraw("old").await.is_empty(), "{engine}");
        assert_eq!(fleet.use_held("allowed", "u").await, allowed(), "{engine}");
        assert_eq!(fleet.withdraw("new").await, ["open"], "{engine}");
    }
}

/// The version before uses the columns id, until, matter and decided of the same table.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_program_decides_what_is_held_and_does_not_see_what_is_over() {
    for fleet in Fleet::on_both().await {
        let engine = fleet.engine;
        for id in ["open", "used", "pair"] {
            fleet.hold(id, "one", BOND).await;
        }
        assert!(fleet.decide("used", "yes").await);
        assert_eq!(fleet.use_held("used", "u").await, allowed(), "{engine}");
        assert_eq!(fleet.withdraw("one").await, ["open", "pair"], "{engine}");
        fleet.hold("next", "two", BOND).await;
        let now = Timestamp::now().as_microsecond();
        // Its statements for a decision and for a use. The ids that it could change are those that it shows.
        fleet.run_older(&format!("DELETE FROM matters WHERE id IN ('open', 'used') AND until > {now}"));
        assert_eq!(fleet.use_held("used", "u").await, allowed(), "{engine}");
        fleet.run_older(&format!(
            "INSERT INTO matters (id, until, matter) VALUES ('older', {}, x'')",
            now + 60_000_000
        ));
        fleet.run_older(&format!(
            "UPDATE matters SET decided = x'', until = {} WHERE id = 'next' AND decided IS NULL AND until > {now}",
            now + 60_000_000
        ));
        // A decision that cannot be opened does not count, but the row is decided.
        assert!(!fleet.decide("next", "yes").await, "{engine}");
        assert_eq!(fleet.use_held("next", "u2").await, Some(None), "{engine}");
        let shown: Vec<_> = fleet.shown().await.into_iter().map(|one| (one.id, one.holder)).collect();
        assert_eq!(shown, [("older".to_owned(), None)], "{engine}");
        // It removes what is over for it.
        fleet.run_older(&format!("DELETE FROM matters WHERE until <= {}", Timestamp::now().as_microsecond()));
        assert_eq!(fleet.use_held("used", "u").await, None, "{engine}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_approvals_are_removed_after_a_while() {
    for fleet in Fleet::on_both().await {
        let engine = fleet.engine;
        fleet.hold("used", "one", BOND).await;
        assert!(fleet.decide("used", "yes").await);
        assert_eq!(fleet.use_held("used", "u").await, allowed(), "{engine}");
        fleet.nodes[1].remove(Vec::new(), after(30)).await.unwrap();
        assert_eq!(fleet.use_held("used", "u").await, allowed(), "{engine}");
        fleet.nodes[1].remove(Vec::new(), after(90)).await.unwrap();
        assert_eq!(fleet.use_held("used", "u").await, None, "{engine}");
    }
}
