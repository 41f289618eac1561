//! Spending on models.

use tokio::sync::watch;

use super::store::StatePart;
use crate::error::StoreError;
use hospes_sql::sql_values;

/// Migration steps, each run once in order. Never change a step; add one.
pub(super) const SQLITE: &[&str] =
    &["CREATE TABLE spending (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);"];

/// The same in PostgreSQL. Never change a step; add one.
#[cfg(feature = "postgres")]
pub(super) const POSTGRES: &[&str] =
    &["CREATE TABLE spending (one integer PRIMARY KEY CHECK (one = 1), body text NOT NULL);"];

/// Spending on models, stored as a text that the host interprets. Changes are exclusive: several processes that share
/// the file share one budget.
#[derive(Clone, Debug)]
pub struct BudgetRecords(StatePart);

impl BudgetRecords {
    pub(super) fn new(state: StatePart) -> Self {
        Self(state)
    }

    /// Returns the text that was written last; `None` before the first write.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub async fn read(&self) -> Result<Option<String>, StoreError> {
        self.0.read(|view| view.query_value("SELECT body FROM spending", &[])).await
    }

    /// Replaces the last text exclusively, across all processes. `change` receives the text and returns the new one, if
    /// any, and a result; it may be called again if the transaction was rolled back. Once started, the change completes even if the caller is dropped.
    ///
    /// # Errors
    /// If the state cannot be read or written. It is unchanged then.
    pub async fn update<T: Send + 'static>(
        &self,
        change: impl Fn(Option<String>) -> (Option<String>, T) + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        self.0
            .write(move |write| {
                // Read in the transaction that writes, so that two processes cannot spend the same money.
                let kept = write.query_value("SELECT body FROM spending", &[])?;
                let (body, said) = change(kept);
                if let Some(body) = body {
                    let put = "INSERT INTO spending (one, body) VALUES (1, ?1)
                               ON CONFLICT (one) DO UPDATE SET body = excluded.body";
                    write.execute(put, sql_values![body])?;
                }
                Ok(said)
            })
            .await
    }

    /// Returns a counter of changes of the state, by this and other processes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes()
    }
}

#[cfg(test)]
mod tests {
    use crate::state::StateStore;

    fn count(kept: Option<String>) -> (Option<String>, u64) {
        let next = kept.map_or(0, |kept| kept.parse::<u64>().unwrap()) + 1;
        (Some(next.to_string()), next)
    }

    /// Two handles on one file behave like two processes.
    #[tokio::test(flavor = "multi_thread")]
    async fn nobody_overwrites_what_another_has_written_and_a_restart_forgets_nothing() {
        const EACH: u64 = 40;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.db");
        let open = || StateStore::open(&file).unwrap().budgets();
        assert_eq!(open().read().await.unwrap(), None);
        let all = [open(), open()].map(|budgets| {
            tokio::spawn(async move {
                for _ in 0..EACH {
                    budgets.update(count).await.unwrap();
                }
            })
        });
        for one in all {
            one.await.unwrap();
        }
        assert_eq!(open().read().await.unwrap(), Some((2 * EACH).to_string()));
        assert_eq!(open().update(|kept| (None, kept)).await.unwrap(), Some((2 * EACH).to_string()));
        assert_eq!(open().read().await.unwrap(), Some((2 * EACH).to_string()), "nothing was to be written");
    }
}
