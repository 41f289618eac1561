//! Pending approvals, and decisions that have not been used yet.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;
use jiff::{SignedDuration, Timestamp};

use super::grants::NewGrant;
use super::store::StatePart;
use crate::audit::AuditEntry;
use crate::error::StoreError;
use crate::key::SealCipher;
use hospes_sql::{SqlError, sql_values};

/// Migration steps, each run once in order. Never change a step; add one.
pub(super) const SQLITE: &[&str] = &["
    CREATE TABLE matters (id TEXT PRIMARY KEY, until INTEGER NOT NULL, matter BLOB NOT NULL, decided BLOB);
    CREATE INDEX matters_until ON matters (until);
"];

/// The same in PostgreSQL. Never change a step; add one.
#[cfg(feature = "postgres")]
pub(super) const POSTGRES: &[&str] = &["
    CREATE TABLE matters (
        id text PRIMARY KEY, until bigint NOT NULL, matter bytea NOT NULL, decided bytea,
        rowid bigint GENERATED ALWAYS AS IDENTITY
    );
    CREATE INDEX matters_until ON matters (until);
"];

/// Columns of approvals that a node of a fleet holds. They are a part of their own, which an older program leaves alone:
/// with a further step of `matters` it would refuse to start beside a newer one. Never change a step; add one.
pub(super) const HELD_SQLITE: &[&str] = &["
    ALTER TABLE matters ADD COLUMN holder TEXT;
    ALTER TABLE matters ADD COLUMN bond BLOB;
    ALTER TABLE matters ADD COLUMN orphaned BOOLEAN NOT NULL DEFAULT FALSE;
    ALTER TABLE matters ADD COLUMN used_by TEXT;
    CREATE INDEX matters_holder ON matters (holder) WHERE holder IS NOT NULL;
    CREATE INDEX matters_bond ON matters (bond) WHERE orphaned;
"];

/// The same in PostgreSQL. Never change a step; add one.
#[cfg(feature = "postgres")]
pub(super) const HELD_POSTGRES: &[&str] = &["
    ALTER TABLE matters ADD COLUMN holder text, ADD COLUMN bond bytea,
        ADD COLUMN orphaned boolean NOT NULL DEFAULT FALSE, ADD COLUMN used_by text;
    CREATE INDEX matters_holder ON matters (holder) WHERE holder IS NOT NULL;
    CREATE INDEX matters_bond ON matters (bond) WHERE orphaned;
"];

/// Time for which a held approval stays stored after its end: a repeated use finds its own mark, and other nodes see why
/// it ended.
const ENDED_RETENTION: SignedDuration = SignedDuration::from_secs(60);

/// Approvals, each a text that the host interprets, and a second text once it is decided. Both are sealed, because they
/// contain the calls and their arguments. A copy of the file reveals nothing without the key. Rows written without the
/// key count neither as approvals nor as decisions.
///
/// Several processes may share them. Only one of them can decide an approval, and only one can take the decision.
///
/// # Held approvals
/// In a fleet, the node at which a call waits is the holder of its approval:
///
/// ```text
/// open -decide-> decided -use_held-> used              by the holder
/// open -withdraw_held-> withdrawn                      the holder has ended
/// decided -withdraw_held-> orphaned -use_orphaned-> used   by the same call, at any node
/// ```
///
/// Each use stores an attempt id. A repetition with the same id, after an answer that was lost, finds its own mark and
/// gets the decision again.
///
/// # Older programs
/// Nodes of the version before work with the same table. They do not know the columns of held approvals, so they take a
/// held approval for one whose requester comes back. They show and decide it, which is right. They never take it, because
/// no requester has its id. What is used or withdrawn must be over for them, too: each of these transitions sets `until`
/// to the present. They may remove such a row at once, so that the mark of a use is gone early; then a repeated use is
/// refused.
#[derive(Clone)]
pub struct ApprovalRecords {
    state: StatePart,
    seal: Arc<SealCipher>,
    /// Key of stored bonds. A bond is a digest of a call, from which its arguments could be guessed.
    bonds: Arc<hmac::Key>,
}

/// A stored approval.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredApproval {
    /// Id of the approval.
    pub id: String,
    /// Text of the approval; `None` if it was sealed with another key, or changed.
    pub matter: Option<String>,
    /// Decision, if there is one. A decision that cannot be opened does not count.
    pub decided: Option<String>,
    /// Id of the node at which the call waits. `None` if the requester comes back for the decision.
    pub holder: Option<String>,
}

/// A held approval, for [`ApprovalRecords::insert_held`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApprovalHolder {
    /// Id of the node at which the call waits.
    pub node: String,
    /// Digest of the call. A call with the same digest can use the decision if the node ends.
    pub bond: [u8; 32],
}

impl ApprovalHolder {
    /// Creates the holder of an approval.
    #[must_use]
    pub const fn new(node: String, bond: [u8; 32]) -> Self {
        Self { node, bond }
    }
}

/// Decision about an approval, for [`ApprovalRecords::decide`].
#[derive(Clone)]
#[non_exhaustive]
pub struct NewDecision {
    /// Text of the decision.
    pub text: String,
    /// Time until which the decision is kept.
    pub until: Timestamp,
    /// Lasting grant that is given with it.
    pub grant: Option<NewGrant>,
    /// Audit entry of the decision, for a state that records decisions.
    pub entry: Option<AuditEntry>,
}

impl NewDecision {
    /// Creates a decision that gives nothing that lasts.
    #[must_use]
    pub const fn new(text: String, until: Timestamp) -> Self {
        Self { text, until, grant: None, entry: None }
    }
}

/// Changes of the stored approvals since the last query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalChanges {
    /// Approvals that were not known, and those that were known as undecided and are now decided.
    pub news: Vec<StoredApproval>,
    /// Ids of known approvals that no longer exist: taken, removed or expired.
    pub gone: Vec<String>,
    /// Those of them that were withdrawn, because the node that held them has ended.
    pub withdrawn: Vec<String>,
}

impl ApprovalRecords {
    pub(super) fn new(state: StatePart) -> Result<Self, StoreError> {
        let seal = Arc::new(SealCipher::new(&*state.secret("matters")?));
        let bonds = Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &*state.secret("bonds of matters")?));
        Ok(Self { state, seal, bonds })
    }

    /// Stores a pending approval until it expires.
    ///
    /// # Errors
    /// If it cannot be written, or the id is already in use.
    pub async fn insert(&self, id: String, matter: String, until: Timestamp) -> Result<(), StoreError> {
        let matter = self.seal.seal(matter.as_bytes(), &seal_context("matter", &id));
        let insert = "INSERT INTO matters (id, until, matter) VALUES (?1, ?2, ?3)";
        self.state
            .write(move |change| {
                change.execute(insert, sql_values![id, until.as_microsecond(), matter]).map(drop)
            })
            .await
    }

    /// Stores a pending approval that a node holds, until it expires.
    ///
    /// # Errors
    /// If it cannot be written, or the id is already in use.
    pub async fn insert_held(
        &self,
        id: String,
        matter: String,
        until: Timestamp,
        holder: ApprovalHolder,
    ) -> Result<(), StoreError> {
        let matter = self.seal.seal(matter.as_bytes(), &seal_context("matter", &id));
        let (bond, node, until) = (self.keyed(&holder.bond), holder.node, until.as_microsecond());
        let insert = "INSERT INTO matters (id, until, matter, holder, bond) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.state
            .write(move |change| change.execute(insert, sql_values![id, until, matter, node, bond]).map(drop))
            .await
    }

    /// Returns the stored approvals at `now` that are not in `known`. Each known id states if it is known to be
    /// decided.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn changes_since(
        &self,
        now: Timestamp,
        known: HashMap<String, bool>,
    ) -> Result<ApprovalChanges, StoreError> {
        let seal = Arc::clone(&self.seal);
        self.state
            .read(move |view| {
                let mut known = known.clone();
                let mut look = ApprovalChanges::default();
                // The text of known approvals is not read again, because it may be large.
                // A used row has ended by the clock of the node that used it, which may be ahead of this one.
                let all = "SELECT id, decided IS NOT NULL FROM matters WHERE until > ?1 AND used_by IS NULL
                               AND (decided IS NOT NULL OR NOT orphaned) ORDER BY rowid";
                let one = "SELECT matter, decided, holder FROM matters WHERE id = ?1";
                let withdrawn = "SELECT id FROM matters WHERE id = ?1 AND orphaned AND decided IS NULL";
                for row in view.query(all, sql_values![now.as_microsecond()])? {
                    let (id, is_decided): (String, bool) = (row.get(0)?, row.get(1)?);
                    if known.remove(&id).is_some_and(|was_decided| was_decided || !is_decided) {
                        continue;
                    }
                    let row = view.query_first(one, sql_values![id])?.ok_or(SqlError::Missing)?;
                    let (matter, decided): (Vec<u8>, Option<Vec<u8>>) = (row.get(0)?, row.get(1)?);
                    let holder = row.get(2)?;
                    let matter = opened(&seal, &matter, &seal_context("matter", &id));
                    let decided =
                        decided.and_then(|decided| opened(&seal, &decided, &seal_context("decided", &id)));
                    look.news.push(StoredApproval { id, matter, decided, holder });
                }
                look.gone = known.into_keys().collect();
                for id in &look.gone {
                    look.withdrawn.extend(view.query_value::<String>(withdrawn, sql_values![id])?);
                }
                Ok(look)
            })
            .await
    }

    /// Decides an approval that has not expired at `now`. Returns true if it was still undecided. Only one of several
    /// deciders succeeds; only its grant is stored, and only its entry is recorded, both in the same transaction.
    ///
    /// # Errors
    /// If the decision cannot be written. The approval stays undecided then.
    pub async fn decide(
        &self,
        id: String,
        decision: NewDecision,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let NewDecision { text, until, grant, entry } = decision;
        let decided = self.seal.seal(text.as_bytes(), &seal_context("decided", &id));
        let update =
            "UPDATE matters SET decided = ?2, until = ?4 WHERE id = ?1 AND decided IS NULL AND until > ?3
                          AND used_by IS NULL AND NOT orphaned";
        let (until, decisions) = (until.as_microsecond(), self.state.decisions());
        self.state
            .write(move |change| {
                if change.execute(update, sql_values![id, decided, now.as_microsecond(), until])? == 0 {
                    return Ok(false);
                }
                if let Some(grant) = &grant {
                    grant.insert(change, now)?;
                }
                decisions.record(change, entry.as_slice())?;
                Ok(true)
            })
            .await
    }

    /// Removes an approval that no node holds and that has not expired at `now`, and returns its decision; `None` if there
    /// is no such approval. Only one of several callers gets it. Once this returns it, no other caller gets it, even after a power
    /// failure.
    ///
    /// # Errors
    /// If the removal cannot be written. The approval stays as it was then.
    pub async fn take(&self, id: String, now: Timestamp) -> Result<Option<Option<String>>, StoreError> {
        let (now, seal) = (now.as_microsecond(), Arc::clone(&self.seal));
        self.state
            .write(move |change| {
                // One statement finds and deletes the row, so that only one of several processes gets it.
                let delete =
                    "DELETE FROM matters WHERE id = ?1 AND until > ?2 AND holder IS NULL RETURNING decided";
                let taken: Option<Option<Vec<u8>>> = change.query_value(delete, sql_values![id, now])?;
                Ok(taken.map(|decided| opened(&seal, &decided?, &seal_context("decided", &id))))
            })
            .await
    }

    /// Uses an approval that this node holds and that has not expired at `now`, and returns its decision; `None` if it
    /// was used by another attempt, or withdrawn. A repetition with the same attempt id has the same result.
    ///
    /// # Errors
    /// If the use cannot be written. Whether it was made is then not known; a repetition finds out.
    pub async fn use_held(
        &self,
        id: String,
        attempt: String,
        now: Timestamp,
    ) -> Result<Option<Option<String>>, StoreError> {
        let (now, seal) = (now.as_microsecond(), Arc::clone(&self.seal));
        // One statement, so that neither a withdrawal nor another use comes in between.
        let update = "UPDATE matters SET used_by = ?2, until = ?3 WHERE id = ?1 AND NOT orphaned
                          AND ((used_by IS NULL AND until > ?3) OR used_by = ?2) RETURNING decided";
        self.state
            .write(move |change| {
                let used: Option<Option<Vec<u8>>> =
                    change.query_value(update, sql_values![id, attempt, now])?;
                Ok(used.map(|decided| opened(&seal, &decided?, &seal_context("decided", &id))))
            })
            .await
    }

    /// Uses the oldest decided approval of a call with this bond whose holder has ended, and returns its id and its
    /// decision. Only one of several callers gets it. A repetition with the same attempt id has the same result.
    ///
    /// # Errors
    /// If the use cannot be written. Whether it was made is then not known; a repetition finds out.
    pub async fn use_orphaned(
        &self,
        bond: [u8; 32],
        attempt: String,
        now: Timestamp,
    ) -> Result<Option<(String, Option<String>)>, StoreError> {
        let (now, seal, bond) = (now.as_microsecond(), Arc::clone(&self.seal), self.keyed(&bond));
        // The condition is repeated outside, where it holds for the row as it is when it is written.
        let update = "UPDATE matters SET used_by = ?2, until = ?3 WHERE id = (
                          SELECT id FROM matters WHERE bond = ?1 AND orphaned AND decided IS NOT NULL
                              AND ((used_by IS NULL AND until > ?3) OR used_by = ?2)
                          ORDER BY used_by IS NULL, rowid LIMIT 1
                      ) AND (used_by IS NULL OR used_by = ?2) RETURNING id, decided";
        self.state
            .write(move |change| {
                let Some(row) = change.query_first(update, sql_values![bond, attempt, now])? else {
                    return Ok(None);
                };
                let (id, decided): (String, Vec<u8>) = (row.get(0)?, row.get(1)?);
                let decided = opened(&seal, &decided, &seal_context("decided", &id));
                Ok(Some((id, decided)))
            })
            .await
    }

    /// Returns the ids of the nodes that hold approvals at `now`.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn holders(&self, now: Timestamp) -> Result<Vec<String>, StoreError> {
        let select = "SELECT DISTINCT holder FROM matters
                          WHERE holder IS NOT NULL AND NOT orphaned AND used_by IS NULL AND until > ?1";
        self.state
            .read(move |view| {
                let rows = view.query(select, sql_values![now.as_microsecond()])?;
                rows.iter().map(|row| row.get(0)).collect()
            })
            .await
    }

    /// Withdraws the undecided approvals of a node that has ended, and returns their ids. Its decided ones are orphaned:
    /// from then on the node cannot use them, and a call with the same bond can ([`ApprovalRecords::use_orphaned`]).
    ///
    /// # Errors
    /// If the withdrawal cannot be written.
    pub async fn withdraw_held(&self, node: String, now: Timestamp) -> Result<Vec<String>, StoreError> {
        let now = now.as_microsecond();
        let decided = "UPDATE matters SET orphaned = TRUE
                           WHERE holder = ?1 AND NOT orphaned AND used_by IS NULL AND decided IS NOT NULL";
        let open = "UPDATE matters SET orphaned = TRUE, until = ?2
                        WHERE holder = ?1 AND NOT orphaned AND decided IS NULL AND until > ?2 RETURNING id";
        self.state
            .write(move |change| {
                // Those that are open now first: one that is decided in between is then found by the second statement.
                let rows = change.query(open, sql_values![node, now])?;
                change.execute(decided, sql_values![node])?;
                rows.iter().map(|row| row.get(0)).collect()
            })
            .await
    }

    /// Gives the approvals that a node holds to another id of the same node. Those that were withdrawn stay so.
    ///
    /// # Errors
    /// If the change cannot be written.
    pub async fn rehold(&self, old: String, new: String) -> Result<u64, StoreError> {
        let update = "UPDATE matters SET holder = ?2 WHERE holder = ?1 AND NOT orphaned AND used_by IS NULL";
        self.state.write(move |change| change.execute(update, sql_values![old, new])).await
    }

    /// Removes these approvals, and all that have expired at `now`. Orphaned approvals stay until they expire, and held
    /// ones for a minute after that.
    ///
    /// # Errors
    /// If the removal cannot be written.
    pub async fn remove(&self, ids: Vec<String>, now: Timestamp) -> Result<(), StoreError> {
        let ended = now.checked_sub(ENDED_RETENTION).unwrap_or(Timestamp::MIN).as_microsecond();
        let now = now.as_microsecond();
        self.state
            .write(move |change| {
                let expired = "DELETE FROM matters WHERE until <= ?1 AND (holder IS NULL OR until <= ?2)";
                change.execute(expired, sql_values![now, ended])?;
                let remove = "DELETE FROM matters WHERE id = ?1 AND NOT orphaned AND used_by IS NULL";
                for id in &ids {
                    change.execute(remove, sql_values![id])?;
                }
                Ok(())
            })
            .await
    }

    /// Computes the stored form of a bond.
    fn keyed(&self, bond: &[u8; 32]) -> Vec<u8> {
        hmac::sign(&self.bonds, bond).as_ref().to_vec()
    }
}

/// Context that a sealed text is bound to: a decision on one approval is not valid for another.
fn seal_context(what: &str, id: &str) -> Vec<u8> {
    format!("{what} {id}").into_bytes()
}

fn opened(seal: &SealCipher, sealed: &[u8], about: &[u8]) -> Option<String> {
    String::from_utf8(seal.open(sealed, about).ok()?).ok()
}

impl fmt::Debug for ApprovalRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApprovalRecords").field(&self.state).finish()
    }
}

impl fmt::Debug for NewDecision {
    /// Omits the content, which may contain arguments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewDecision").field("until", &self.until).finish_non_exhaustive()
    }
}

impl fmt::Debug for StoredApproval {
    /// Omits the content, which contains arguments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_decided = self.decided.is_some();
        f.debug_struct("StoredApproval")
            .field("id", &self.id)
            .field("decided", &is_decided)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::state::StateStore;

    fn after(seconds: u64) -> Timestamp {
        Timestamp::now() + Duration::from_secs(seconds)
    }

    fn yes(text: &str, until: Timestamp) -> NewDecision {
        NewDecision::new(text.to_owned(), until)
    }

    fn kept(id: &str, matter: &str, decided: Option<&str>) -> StoredApproval {
        StoredApproval {
            id: id.to_owned(),
            matter: Some(matter.to_owned()),
            decided: decided.map(str::to_owned),
            holder: None,
        }
    }

    async fn all(matters: &ApprovalRecords) -> Vec<StoredApproval> {
        matters.changes_since(Timestamp::now(), HashMap::new()).await.unwrap().news
    }

    /// Two handles on one file behave like two processes.
    #[tokio::test(flavor = "multi_thread")]
    async fn of_several_who_decide_or_take_one_does() {
        let folder = tempfile::tempdir().unwrap();
        let open = || StateStore::open(folder.path().join("state.db")).unwrap().approvals().unwrap();
        let (one, other) = (open(), open());
        for round in 0..20 {
            let id = format!("m{round}");
            one.insert(id.clone(), "a call".to_owned(), after(60)).await.unwrap();
            let decide = |matters: &ApprovalRecords, by: &'static str| {
                let (matters, id) = (matters.clone(), id.clone());
                tokio::spawn(async move {
                    matters.decide(id, yes(by, after(60)), Timestamp::now()).await.unwrap()
                })
            };
            let (first, second) = (decide(&one, "one"), decide(&other, "other"));
            let (first, second) = (first.await.unwrap(), second.await.unwrap());
            assert!(first != second);
            let winner = if first { "one" } else { "other" };
            assert_eq!(all(&open()).await, [kept(&id, "a call", Some(winner))], "after a restart, too");
            let take = |matters: &ApprovalRecords| {
                let (matters, id) = (matters.clone(), id.clone());
                tokio::spawn(async move { matters.take(id, Timestamp::now()).await.unwrap() })
            };
            let taken = [take(&one), take(&other), take(&one), take(&other)];
            let mut got = Vec::new();
            for taken in taken {
                got.extend(taken.await.unwrap());
            }
            assert_eq!(got, [Some(winner.to_owned())], "once");
            assert!(all(&open()).await.is_empty());
        }
    }

    #[tokio::test]
    async fn what_is_over_is_neither_decided_nor_taken_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateStore::open(folder.path().join("state.db")).unwrap();
        let matters = state.approvals().unwrap();
        let (now, later) = (Timestamp::now(), after(60));
        matters.insert("a".to_owned(), "a call".to_owned(), later).await.unwrap();
        matters.insert("b".to_owned(), "another".to_owned(), after(120)).await.unwrap();
        assert!(matters.insert("b".to_owned(), "a third".to_owned(), later).await.is_err());
        assert!(!matters.decide("a".to_owned(), yes("yes", after(120)), later).await.unwrap());
        assert_eq!(matters.take("a".to_owned(), later).await.unwrap(), None);
        let known = HashMap::from([("a".to_owned(), false)]);
        let look = matters.changes_since(later, known.clone()).await.unwrap();
        assert_eq!((look.news, look.gone), (vec![kept("b", "another", None)], vec!["a".to_owned()]));
        assert_eq!(matters.changes_since(now, known).await.unwrap().news, [kept("b", "another", None)]);
        // A decision in time extends the lifetime.
        assert!(matters.decide("a".to_owned(), yes("yes", after(180)), now).await.unwrap());
        let known = HashMap::from([("a".to_owned(), false), ("b".to_owned(), false)]);
        assert_eq!(
            matters.changes_since(later, known).await.unwrap().news,
            [kept("a", "a call", Some("yes"))]
        );
        matters.remove(vec!["none".to_owned()], after(150)).await.unwrap();
        assert_eq!(all(&matters).await, [kept("a", "a call", Some("yes"))]);
        matters.remove(vec!["a".to_owned()], now).await.unwrap();
        assert!(all(&matters).await.is_empty());
    }

    #[tokio::test]
    async fn what_is_kept_is_told_to_nobody_without_the_key_and_believed_of_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.db");
        let open = || StateStore::open(&file).unwrap().approvals().unwrap();
        let matters = open();
        for id in ["a", "b"] {
            matters.insert(id.to_owned(), "arguments hunter2".to_owned(), after(60)).await.unwrap();
        }
        let decided = yes("yes hunter2", after(60));
        assert!(matters.decide("a".to_owned(), decided, Timestamp::now()).await.unwrap());
        for part in folder.path().read_dir().unwrap() {
            let bytes = std::fs::read(part.unwrap().path()).unwrap();
            assert!(!bytes.windows(7).any(|window| window == b"hunter2"));
        }
        // A decision of one approval is copied to another, and one is forged.
        let forger = rusqlite::Connection::open(&file).unwrap();
        forger
            .execute_batch(
                "UPDATE matters SET decided = (SELECT decided FROM matters WHERE id = 'a') WHERE id = 'b'",
            )
            .unwrap();
        forger
            .execute(
                "INSERT INTO matters (id, until, matter, decided)
                     SELECT 'c', until, matter, x'00' FROM matters WHERE id = 'a'",
                (),
            )
            .unwrap();
        let found = all(&matters).await;
        assert_eq!(
            found[..2],
            [kept("a", "arguments hunter2", Some("yes hunter2")), kept("b", "arguments hunter2", None)]
        );
        assert_eq!((&found[2].matter, &found[2].decided), (&None, &None));
        assert_eq!(matters.take("b".to_owned(), Timestamp::now()).await.unwrap(), Some(None));
        // With another key no row counts as an approval.
        std::fs::remove_file(folder.path().join("state.key")).unwrap();
        assert!(all(&open()).await.iter().all(|kept| kept.matter.is_none() && kept.decided.is_none()));
        assert!(!format!("{:?}", all(&matters).await).contains("hunter2"));
    }

    #[test]
    fn secrets_are_the_same_after_a_restart_and_for_one_purpose_each() {
        let folder = tempfile::tempdir().unwrap();
        let open = || StateStore::open(folder.path().join("state.db")).unwrap();
        let secret = open().secret("one").unwrap();
        assert_eq!(open().secret("one").unwrap(), secret);
        assert_ne!(open().secret("other").unwrap(), secret);
        let key = folder.path().join("state.key");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
            assert!(matches!(open().secret("one"), Err(StoreError::Exposed(_))));
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        std::fs::write(&key, "no key").unwrap();
        assert!(matches!(open().secret("one"), Err(StoreError::NotAKey(_))));
    }
}
