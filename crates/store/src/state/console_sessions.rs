//! Browser sessions of a team's console, and sign-ins that have begun.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::store::StatePart;
use crate::error::StoreError;
use crate::key::SealCipher;
use hospes_sql::{SqlResult, SqlRow, SqlTransaction, sql_values};

/// Migration steps, each run once in order. Never change a step; add one.
pub(super) const SQLITE: &[&str] = &[
    "
    CREATE TABLE console_sessions (
        key TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE, person TEXT NOT NULL, opened INTEGER NOT NULL,
        seen INTEGER NOT NULL, until INTEGER NOT NULL, checked INTEGER NOT NULL, body BLOB NOT NULL
    );
    CREATE INDEX console_sessions_person ON console_sessions (person, opened);
    CREATE INDEX console_sessions_until ON console_sessions (until);
    CREATE TABLE console_sign_ins (key TEXT PRIMARY KEY, until INTEGER NOT NULL, body BLOB NOT NULL);
    CREATE INDEX console_sign_ins_until ON console_sign_ins (until);
",
    "
    ALTER TABLE console_sessions ADD COLUMN provider_session TEXT NOT NULL DEFAULT '';
    CREATE INDEX console_sessions_provider ON console_sessions (provider_session);
    CREATE TABLE console_logouts (key TEXT PRIMARY KEY, until INTEGER NOT NULL);
    CREATE INDEX console_logouts_until ON console_logouts (until);
",
];

/// Steps of the tables in PostgreSQL. Never change a step; add one.
#[cfg(feature = "postgres")]
pub(super) const POSTGRES: &[&str] = &[
    "
    CREATE TABLE console_sessions (
        key text PRIMARY KEY, id text NOT NULL UNIQUE, person text NOT NULL, opened bigint NOT NULL,
        seen bigint NOT NULL, until bigint NOT NULL, checked bigint NOT NULL, body bytea NOT NULL
    );
    CREATE INDEX console_sessions_person ON console_sessions (person, opened);
    CREATE INDEX console_sessions_until ON console_sessions (until);
    CREATE TABLE console_sign_ins (key text PRIMARY KEY, until bigint NOT NULL, body bytea NOT NULL);
    CREATE INDEX console_sign_ins_until ON console_sign_ins (until);
",
    "
    ALTER TABLE console_sessions ADD COLUMN provider_session text NOT NULL DEFAULT '';
    CREATE INDEX console_sessions_provider ON console_sessions (provider_session);
    CREATE TABLE console_logouts (key text PRIMARY KEY, until bigint NOT NULL);
    CREATE INDEX console_logouts_until ON console_logouts (until);
",
];

/// Maximum number of sessions of one person; a further one ends the oldest.
pub const MAX_SESSIONS_OF_PERSON: usize = 32;
/// Maximum number of sessions of all people together; a further one is refused.
pub const MAX_SESSIONS: usize = 65_536;
/// Maximum number of sign-ins that have begun; a further one removes the oldest.
pub const MAX_SIGN_INS: usize = 16_384;
/// Maximum number of logout tokens of the provider that are remembered; a further one is refused.
pub const MAX_LOGOUTS: usize = 65_536;
/// Maximum number of sessions in a list.
const MAX_LISTED: i64 = 500;

/// Columns of a session, in the order of [`ConsoleSessionRecords::session`].
const COLUMNS: &str = "key, id, person, opened, seen, until, checked, provider_session, body";

/// Browser sessions of a team's console, and sign-ins that have begun. All nodes share them.
///
/// Each session and each sign-in is found by the hash of a secret that only the browser has. Their texts, which the
/// console interprets, are sealed, because they contain tokens of the provider.
#[derive(Clone)]
pub struct ConsoleSessionRecords {
    state: StatePart,
    seal: Arc<SealCipher>,
}

/// A session of a browser.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the console fills in all of it")]
pub struct ConsoleSession {
    /// Hash of the secret in the cookie.
    pub key: String,
    /// Id of the session, which is not secret.
    pub id: String,
    /// Principal of the person.
    pub person: String,
    /// Time of the sign-in.
    pub opened: Timestamp,
    /// Time of the last use, to within some minutes.
    pub seen: Timestamp,
    /// Latest end.
    pub until: Timestamp,
    /// Time at which the provider was asked for the claims.
    pub checked: Timestamp,
    /// Hash of the name of the session at the provider in which the person signed in. Empty if the provider has given none.
    pub provider_session: String,
    /// Text of the console.
    pub body: String,
}

/// A sign-out at the provider, for [`ConsoleSessionRecords::end_by_provider`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the console fills in all of it")]
pub struct ProviderLogoutRecord {
    /// Hash of the identifier of the logout token, which is used once.
    pub key: String,
    /// Time until which the identifier is remembered.
    pub until: Timestamp,
    /// Principal of the person who has signed out. `None` if only the session is named.
    pub person: Option<String>,
    /// Hash of the name of the session at the provider. `None` if all sessions of the person have ended.
    pub provider_session: Option<String>,
}

/// Result of a sign-out at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the console answers something else to each")]
pub enum ProviderLogoutResult {
    /// So many sessions were ended.
    Ended(usize),
    /// The token was used before.
    Used,
    /// There are [`MAX_LOGOUTS`] already.
    TooMany,
}

impl fmt::Debug for ConsoleSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleSession").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ConsoleSessionRecords {
    pub(super) fn new(state: StatePart) -> Result<Self, StoreError> {
        let seal = Arc::new(SealCipher::new(&*state.secret("console sessions")?));
        Ok(Self { state, seal })
    }

    /// Stores a new session. Returns false if there are [`MAX_SESSIONS`] already.
    ///
    /// # Errors
    /// If the session cannot be written.
    pub async fn insert(&self, session: ConsoleSession) -> Result<bool, StoreError> {
        self.insert_within(session, MAX_SESSIONS).await
    }

    async fn insert_within(&self, session: ConsoleSession, most: usize) -> Result<bool, StoreError> {
        let body = self.seal.seal(session.body.as_bytes(), session.key.as_bytes());
        self.state
            .write(move |change| {
                let ConsoleSession {
                    key, id, person, opened, seen, until, checked, provider_session, ..
                } = &session;
                let expired = "DELETE FROM console_sessions WHERE until <= ?1";
                change.execute(expired, sql_values![opened.as_microsecond()])?;
                // The newest stay, with room for one more.
                let oldest = "DELETE FROM console_sessions WHERE person = ?1 AND key NOT IN (
                    SELECT key FROM console_sessions WHERE person = ?1 ORDER BY opened DESC, key LIMIT ?2)";
                change.execute(oldest, sql_values![person, count(MAX_SESSIONS_OF_PERSON - 1)])?;
                let all: Option<i64> =
                    change.query_value("SELECT count(*) FROM console_sessions", sql_values![])?;
                if all.unwrap_or_default() >= count(most) {
                    return Ok(false);
                }
                let put = "INSERT INTO console_sessions
                           (key, id, person, opened, seen, until, checked, body, provider_session)
                           VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
                let times = [opened, seen, until, checked].map(|time| time.as_microsecond());
                let [opened, seen, until, checked] = times;
                change.execute(
                    put,
                    sql_values![key, id, person, opened, seen, until, checked, body, provider_session],
                )?;
                Ok(true)
            })
            .await
    }

    /// Returns the session with this key, if it has not ended and was used within `idle`.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn find(
        &self,
        key: String,
        now: Timestamp,
        idle: SignedDuration,
    ) -> Result<Option<ConsoleSession>, StoreError> {
        let idle_since = since(now, idle);
        let found = self.state.read(move |view| {
            let sql =
                format!("SELECT {COLUMNS} FROM console_sessions WHERE key = ?1 AND until > ?2 AND seen > ?3");
            view.query_first(&sql, sql_values![key, now.as_microsecond(), idle_since])?
                .map(|row| stored(&row))
                .transpose()
        });
        Ok(found.await?.and_then(|stored| self.session(stored)))
    }

    /// Returns the sessions that have not ended, the newest first: those of this person, or of everybody.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn list(
        &self,
        person: Option<String>,
        now: Timestamp,
        idle: SignedDuration,
    ) -> Result<Vec<ConsoleSession>, StoreError> {
        let idle_since = since(now, idle);
        let found = self.state.read(move |view| {
            let whose = if person.is_some() { "person = ?4" } else { "?4 = ''" };
            let sql = format!(
                "SELECT {COLUMNS} FROM console_sessions WHERE until > ?1 AND seen > ?2 AND {whose}
                 ORDER BY opened DESC, key LIMIT ?3"
            );
            let person = person.as_deref().unwrap_or_default();
            let now = now.as_microsecond();
            view.query(&sql, sql_values![now, idle_since, MAX_LISTED, person])?
                .iter()
                .map(stored)
                .collect::<SqlResult<Vec<_>>>()
        });
        Ok(found.await?.into_iter().filter_map(|stored| self.session(stored)).collect())
    }

    /// Records that a session was used.
    ///
    /// # Errors
    /// If the use cannot be written.
    pub async fn record_use(&self, key: String, now: Timestamp) -> Result<(), StoreError> {
        let update = "UPDATE console_sessions SET seen = ?2 WHERE key = ?1 AND seen < ?2";
        self.state
            .write(move |change| change.execute(update, sql_values![key, now.as_microsecond()]))
            .await?;
        Ok(())
    }

    /// Claims the renewal of a session's claims, which were read at `checked`. Of several nodes, one gets true.
    ///
    /// # Errors
    /// If the claim cannot be written.
    pub async fn claim_check(
        &self,
        key: String,
        checked: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let update = "UPDATE console_sessions SET checked = ?3 WHERE key = ?1 AND checked = ?2";
        let values = (checked.as_microsecond(), now.as_microsecond());
        self.state
            .write(move |change| Ok(change.execute(update, sql_values![key, values.0, values.1])? == 1))
            .await
    }

    /// Replaces the text of a session.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub async fn set_body(&self, key: String, body: &str) -> Result<(), StoreError> {
        let body = self.seal.seal(body.as_bytes(), key.as_bytes());
        let update = "UPDATE console_sessions SET body = ?2 WHERE key = ?1";
        self.state.write(move |change| change.execute(update, sql_values![key, body])).await?;
        Ok(())
    }

    /// Ends the session with this id, if it is one of `person`, or anybody's without one. Returns false if there is none.
    ///
    /// # Errors
    /// If the removal cannot be written.
    pub async fn end(&self, id: String, person: Option<String>) -> Result<bool, StoreError> {
        self.state
            .write(move |change| {
                let removed = match &person {
                    Some(person) => change.execute(
                        "DELETE FROM console_sessions WHERE id = ?1 AND person = ?2",
                        sql_values![id, person],
                    ),
                    None => change.execute("DELETE FROM console_sessions WHERE id = ?1", sql_values![id]),
                };
                Ok(removed? == 1)
            })
            .await
    }

    /// Ends the sessions of a person who has signed out at the provider, at all nodes, and uses the logout token. Without a
    /// session at the provider, all sessions of the person end. With one, sessions end that were opened in it, and those of
    /// the person of which that is not known.
    ///
    /// # Errors
    /// If the removal cannot be written. The token was not used then.
    pub async fn end_by_provider(
        &self,
        logout: ProviderLogoutRecord,
        now: Timestamp,
    ) -> Result<ProviderLogoutResult, StoreError> {
        self.end_within(logout, now, MAX_LOGOUTS).await
    }

    async fn end_within(
        &self,
        logout: ProviderLogoutRecord,
        now: Timestamp,
        most: usize,
    ) -> Result<ProviderLogoutResult, StoreError> {
        self.state
            .write(move |change| {
                let ProviderLogoutRecord { key, until, person, provider_session } = &logout;
                let expired = "DELETE FROM console_logouts WHERE until <= ?1";
                change.execute(expired, sql_values![now.as_microsecond()])?;
                let all: Option<i64> =
                    change.query_value("SELECT count(*) FROM console_logouts", sql_values![])?;
                if all.unwrap_or_default() >= count(most) {
                    return Ok(ProviderLogoutResult::TooMany);
                }
                let put = "INSERT INTO console_logouts (key, until) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
                if change.execute(put, sql_values![key, until.as_microsecond()])? == 0 {
                    return Ok(ProviderLogoutResult::Used);
                }
                let ended = match (person, provider_session) {
                    (Some(person), Some(session)) => change.execute(
                        "DELETE FROM console_sessions WHERE person = ?1 AND provider_session IN (?2, '')",
                        sql_values![person, session],
                    )?,
                    (Some(person), None) => change
                        .execute("DELETE FROM console_sessions WHERE person = ?1", sql_values![person])?,
                    (None, Some(session)) => change.execute(
                        "DELETE FROM console_sessions WHERE provider_session = ?1 AND provider_session <> ''",
                        sql_values![session],
                    )?,
                    (None, None) => 0,
                };
                Ok(ProviderLogoutResult::Ended(usize::try_from(ended).unwrap_or(usize::MAX)))
            })
            .await
    }

    /// Stores a sign-in that has begun, until it is taken or `until`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn begin_sign_in(&self, key: String, body: &str, until: Timestamp) -> Result<(), StoreError> {
        let body = self.seal.seal(body.as_bytes(), key.as_bytes());
        self.state
            .write(move |change| {
                let expired = "DELETE FROM console_sign_ins WHERE until <= ?1 OR key IN (
                    SELECT key FROM console_sign_ins ORDER BY until DESC, key LIMIT 1000 OFFSET ?2)";
                let (now, most) = (Timestamp::now().as_microsecond(), count(MAX_SIGN_INS - 1));
                change.execute(expired, sql_values![now, most])?;
                let put = "INSERT INTO console_sign_ins (key, until, body) VALUES (?1, ?2, ?3)";
                change.execute(put, sql_values![key, until.as_microsecond(), body])?;
                Ok(())
            })
            .await
    }

    /// Takes a sign-in, at any node and once. Returns `None` if it was taken, or has expired.
    ///
    /// # Errors
    /// If it cannot be taken.
    pub async fn take_sign_in(&self, key: String, now: Timestamp) -> Result<Option<String>, StoreError> {
        let about = key.clone();
        // The engine finds its own attempt after a lost connection, so that a repetition is no second use.
        let taken: Option<Vec<u8>> = self.state.write(move |change| take(change, &key, now)).await?;
        let opened = taken.map(|body| self.seal.open(&body, about.as_bytes())).transpose()?;
        Ok(opened.and_then(|body| String::from_utf8(body).ok()))
    }

    /// Returns a session with its text. `None` if it was sealed with another key, or changed.
    fn session(&self, StoredSession { mut session, body }: StoredSession) -> Option<ConsoleSession> {
        let opened = self.seal.open(&body, session.key.as_bytes()).ok()?;
        session.body = String::from_utf8(opened).ok()?;
        Some(session)
    }
}

fn take(change: &mut dyn SqlTransaction, key: &str, now: Timestamp) -> SqlResult<Option<Vec<u8>>> {
    let delete = "DELETE FROM console_sign_ins WHERE key = ?1 AND until > ?2 RETURNING body";
    let row = change.query_first(delete, sql_values![key, now.as_microsecond()])?;
    row.map(|row| row.get(0)).transpose()
}

/// A session whose text is sealed.
struct StoredSession {
    session: ConsoleSession,
    body: Vec<u8>,
}

fn stored(row: &SqlRow) -> SqlResult<StoredSession> {
    let time = |at: i64| Timestamp::from_microsecond(at).unwrap_or(Timestamp::MIN);
    let session = ConsoleSession {
        key: row.get(0)?,
        id: row.get(1)?,
        person: row.get(2)?,
        opened: time(row.get(3)?),
        seen: time(row.get(4)?),
        until: time(row.get(5)?),
        checked: time(row.get(6)?),
        provider_session: row.get(7)?,
        body: String::new(),
    };
    Ok(StoredSession { session, body: row.get(8)? })
}

fn since(now: Timestamp, time: SignedDuration) -> i64 {
    now.saturating_sub(time).unwrap_or(Timestamp::MIN).as_microsecond()
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl fmt::Debug for ConsoleSessionRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConsoleSessionRecords").field(&self.state).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StateStore;

    const IDLE: SignedDuration = SignedDuration::from_hours(12);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn session(key: &str, person: &str, opened: i64) -> ConsoleSession {
        ConsoleSession {
            key: format!("hash of {key}"),
            id: format!("id of {key}"),
            person: person.to_owned(),
            opened: at(opened),
            seen: at(opened),
            until: at(opened + 7 * 24 * 3600),
            checked: at(opened),
            provider_session: String::new(),
            body: format!("{person} with a token"),
        }
    }

    fn records(folder: &tempfile::TempDir) -> ConsoleSessionRecords {
        StateStore::open(folder.path().join("state.db")).unwrap().console_sessions().unwrap()
    }

    #[tokio::test]
    async fn a_session_ends_unused_at_its_end_and_when_it_is_ended_by_its_person_or_anybody_entitled() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = records(&folder);
        for (key, person) in [("a", "ann"), ("b", "bob")] {
            assert!(sessions.insert(session(key, person, 0)).await.unwrap());
        }
        let find = async |key: &str, seconds| {
            sessions.find(format!("hash of {key}"), at(seconds), IDLE).await.unwrap()
        };
        assert_eq!(find("a", 1).await, Some(session("a", "ann", 0)));
        assert_eq!(find("c", 1).await, None);
        assert_eq!(find("a", 12 * 3600).await, None, "unused");
        sessions.record_use("hash of a".to_owned(), at(11 * 3600)).await.unwrap();
        assert!(find("a", 12 * 3600).await.is_some());
        sessions.record_use("hash of a".to_owned(), at(7 * 24 * 3600 - 1)).await.unwrap();
        assert_eq!(find("a", 7 * 24 * 3600).await, None, "at its end");
        let ids = async |person: Option<&str>| {
            let all = sessions.list(person.map(str::to_owned), at(1), IDLE).await.unwrap();
            all.into_iter().map(|one| one.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(Some("bob")).await, ["id of b"]);
        assert_eq!(ids(None).await.len(), 2);
        let end = async |id: &str, person: Option<&str>| {
            sessions.end(id.to_owned(), person.map(str::to_owned)).await.unwrap()
        };
        assert!(!end("id of b", Some("ann")).await, "not hers");
        assert!(end("id of b", Some("bob")).await && !end("id of b", Some("bob")).await);
        assert!(end("id of a", None).await);
        assert!(ids(None).await.is_empty());
    }

    #[tokio::test]
    async fn a_person_and_all_have_a_most_of_sessions() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = records(&folder);
        sessions.insert(session("bob", "bob", 0)).await.unwrap();
        for number in 0..=MAX_SESSIONS_OF_PERSON {
            let opened = i64::try_from(number).unwrap();
            assert!(sessions.insert(session(&number.to_string(), "ann", opened)).await.unwrap());
        }
        let all = sessions.list(Some("ann".to_owned()), at(60), IDLE).await.unwrap();
        assert_eq!(all.len(), MAX_SESSIONS_OF_PERSON);
        assert!(all.iter().all(|one| one.id != "id of 0"), "the oldest has ended");
        assert_eq!(sessions.list(Some("bob".to_owned()), at(60), IDLE).await.unwrap().len(), 1);
        let full = MAX_SESSIONS_OF_PERSON + 1;
        assert!(!sessions.insert_within(session("eve", "eve", 61), full).await.unwrap());
        assert!(sessions.insert_within(session("eve", "eve", 61), full + 1).await.unwrap());
    }

    #[tokio::test]
    async fn a_sign_in_is_taken_once_and_claims_are_renewed_by_one() {
        let folder = tempfile::tempdir().unwrap();
        // Two processes, as two nodes.
        let (one, other) = (records(&folder), records(&folder));
        let key = || "hash of a state".to_owned();
        let now = Timestamp::now();
        let until = now + SignedDuration::from_mins(10);
        one.begin_sign_in(key(), "nonce", until).await.unwrap();
        assert_eq!(other.take_sign_in(key(), until).await.unwrap(), None, "too late");
        assert_eq!(other.take_sign_in(key(), now).await.unwrap().as_deref(), Some("nonce"));
        assert_eq!(one.take_sign_in(key(), now).await.unwrap(), None, "a second time");
        one.insert(session("a", "ann", 0)).await.unwrap();
        let claim = async |by: &ConsoleSessionRecords| {
            by.claim_check("hash of a".to_owned(), at(0), at(3600)).await.unwrap()
        };
        assert!(claim(&one).await && !claim(&other).await);
        one.set_body("hash of a".to_owned(), "new").await.unwrap();
        assert_eq!(other.find("hash of a".to_owned(), at(1), IDLE).await.unwrap().unwrap().body, "new");
    }

    #[tokio::test]
    async fn a_sign_out_at_the_provider_ends_the_sessions_that_it_names_once() {
        let folder = tempfile::tempdir().unwrap();
        // Two processes, as two nodes.
        let (one, other) = (records(&folder), records(&folder));
        let open = async |key: &str, person: &str, provider_session: &str| {
            let provider_session = provider_session.to_owned();
            assert!(
                one.insert(ConsoleSession { provider_session, ..session(key, person, 0) }).await.unwrap()
            );
        };
        let left = async || {
            let all = other.list(None, at(1), IDLE).await.unwrap();
            let mut ids: Vec<String> = all.into_iter().map(|one| one.id.replace("id of ", "")).collect();
            ids.sort_unstable();
            ids.join(" ")
        };
        let end = async |token: &str, person: Option<&str>, session: Option<&str>| {
            let logout = ProviderLogoutRecord {
                key: token.to_owned(),
                until: at(60),
                person: person.map(str::to_owned),
                provider_session: session.map(str::to_owned),
            };
            other.end_by_provider(logout, at(1)).await.unwrap()
        };
        for (key, person, session) in
            [("a", "ann", "s1"), ("b", "ann", "s2"), ("c", "ann", ""), ("d", "bob", "s3"), ("e", "bob", "")]
        {
            open(key, person, session).await;
        }
        assert_eq!(end("1", None, Some("s2")).await, ProviderLogoutResult::Ended(1));
        assert_eq!(left().await, "a c d e");
        // What names no session is not the session without a name, and another's session is not hers.
        assert_eq!(end("2", None, Some("")).await, ProviderLogoutResult::Ended(0));
        assert_eq!(end("3", None, None).await, ProviderLogoutResult::Ended(0));
        assert_eq!(
            end("4", Some("ann"), Some("s3")).await,
            ProviderLogoutResult::Ended(1),
            "it may be that one"
        );
        assert_eq!(left().await, "a d e");
        assert_eq!(end("5", Some("ann"), None).await, ProviderLogoutResult::Ended(1));
        assert_eq!(end("6", Some("bob"), Some("s3")).await, ProviderLogoutResult::Ended(2));
        assert_eq!(left().await, "");
        open("f", "ann", "s1").await;
        assert_eq!(end("5", Some("ann"), None).await, ProviderLogoutResult::Used);
        assert_eq!(left().await, "f");
        let logout = ProviderLogoutRecord {
            key: "7".to_owned(),
            until: at(120),
            person: Some("ann".to_owned()),
            provider_session: None,
        };
        let full = one.end_within(logout.clone(), at(1), 6).await.unwrap();
        assert_eq!(full, ProviderLogoutResult::TooMany);
        // Tokens that have expired leave their room.
        assert_eq!(one.end_within(logout, at(60), 6).await.unwrap(), ProviderLogoutResult::Ended(1));
    }

    /// Tokens of the provider must not be in a copy of the file, and a text must not become that of another session.
    #[tokio::test]
    async fn texts_are_sealed_to_their_session() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = records(&folder);
        for (key, person) in [("a", "ann"), ("b", "bob")] {
            sessions.insert(session(key, person, 0)).await.unwrap();
        }
        let file = rusqlite::Connection::open(folder.path().join("state.db")).unwrap();
        let body: Vec<u8> = file
            .query_row("SELECT body FROM console_sessions WHERE id = 'id of a'", [], |row| row.get(0))
            .unwrap();
        assert!(!String::from_utf8_lossy(&body).contains("token"));
        file.execute("UPDATE console_sessions SET body = ?1 WHERE id = 'id of b'", [&body]).unwrap();
        assert_eq!(sessions.find("hash of b".to_owned(), at(1), IDLE).await.unwrap(), None);
        assert!(sessions.find("hash of a".to_owned(), at(1), IDLE).await.unwrap().is_some());
    }
}
