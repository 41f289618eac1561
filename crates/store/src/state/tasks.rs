//! Origins of tasks: the calls and users that started them. Servers continue their tasks while the host restarts.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::store::StatePart;
use crate::error::StoreError;
use hospes_sql::{SqlResult, SqlTransaction, sql_values};

/// Maximum number of tasks kept; the oldest is removed for one more.
pub const MAX_TASKS: u32 = 10_000;
/// Time for which a task is kept.
pub const RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Migration steps, each run once in order. Never change a step; add one.
pub(super) const SQLITE: &[&str] = &["
    CREATE TABLE tasks (id TEXT PRIMARY KEY, body TEXT NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX tasks_at ON tasks (at);
"];

/// The same in PostgreSQL. Never change a step; add one.
#[cfg(feature = "postgres")]
pub(super) const POSTGRES: &[&str] = &["
    CREATE TABLE tasks (id text PRIMARY KEY, body text NOT NULL, at bigint NOT NULL);
    CREATE INDEX tasks_at ON tasks (at);
"];

/// Records of tasks, each a text that the host interprets.
#[derive(Clone, Debug)]
pub struct TaskRecords(StatePart);

impl TaskRecords {
    pub(super) fn new(state: StatePart) -> Self {
        Self(state)
    }

    /// Stores the record of a task for [`RETENTION`]. At most [`MAX_TASKS`] records are kept.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub async fn insert(&self, id: String, body: String) -> Result<(), StoreError> {
        let now = self.0.now();
        self.0.write(move |change| put(change, (&id, &body), now, MAX_TASKS)).await
    }

    /// Returns the record of a task, if it has not expired.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn find(&self, id: String) -> Result<Option<String>, StoreError> {
        let now = self.0.now();
        self.0.read(move |view| find(view, &id, now)).await
    }
}

fn put(change: &mut dyn SqlTransaction, (id, body): (&str, &str), now: Timestamp, max: u32) -> SqlResult<()> {
    change.execute("DELETE FROM tasks WHERE at <= ?1", sql_values![expiry_cutoff(now)])?;
    let put = "INSERT INTO tasks (id, body, at) VALUES (?1, ?2, ?3)
               ON CONFLICT (id) DO UPDATE SET body = excluded.body, at = excluded.at";
    change.execute(put, sql_values![id, body, now.as_microsecond()])?;
    let too_many = "DELETE FROM tasks WHERE id IN (
        SELECT id FROM (SELECT id, row_number() OVER (ORDER BY at DESC) AS place FROM tasks) AS placed
        WHERE place > ?1)";
    change.execute(too_many, sql_values![i64::from(max)])?;
    Ok(())
}

fn find(view: &mut dyn SqlTransaction, id: &str, now: Timestamp) -> SqlResult<Option<String>> {
    let found = "SELECT body FROM tasks WHERE id = ?1 AND at > ?2";
    view.query_value(found, sql_values![id, expiry_cutoff(now)])
}

/// Returns the time at or before which records have expired.
fn expiry_cutoff(now: Timestamp) -> i64 {
    let kept = SignedDuration::try_from(RETENTION).unwrap_or(SignedDuration::MAX);
    now.saturating_sub(kept).unwrap_or(Timestamp::MIN).as_microsecond()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::StateStore;

    #[tokio::test]
    async fn the_oldest_make_room_and_each_has_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.db");
        let state = StateStore::open(&file).unwrap();
        let now = Timestamp::now();
        let at = move |hours: i64| now + SignedDuration::from_hours(hours);
        for (hours, id) in [(0, "a"), (1, "b"), (2, "c"), (3, "d")] {
            state.part("tasks").write(move |change| put(change, (id, "it"), at(hours), 3)).await.unwrap();
        }
        drop(state);
        // After a restart.
        let state = StateStore::open(&file).unwrap();
        let kept = async |hours: i64| {
            let mut kept = Vec::new();
            for id in ["a", "b", "c", "d"] {
                let found = state.part("tasks").read(move |view| find(view, id, at(hours))).await.unwrap();
                kept.extend(found.map(|_| id));
            }
            kept
        };
        assert_eq!(kept(3).await, ["b", "c", "d"]);
        let week = 7 * 24;
        assert_eq!(kept(week + 2).await, ["d"]);
        state.part("tasks").write(move |change| put(change, ("e", "it"), at(week + 2), 3)).await.unwrap();
        assert_eq!(kept(3).await, ["d"], "what is over is gone");
        state.tasks().insert("f".to_owned(), "that".to_owned()).await.unwrap();
        assert_eq!(state.tasks().find("f".to_owned()).await.unwrap().as_deref(), Some("that"));
        assert_eq!(state.tasks().find("g".to_owned()).await.unwrap(), None);
    }
}
