//! What was spent on models.

use rusqlite::OptionalExtension as _;
use tokio::sync::watch;

use super::State;
use crate::error::StoreError;

/// Every step is run once, in order. Never change one, add one.
pub(super) const STEPS: &[&str] =
    &["CREATE TABLE spending (one INTEGER PRIMARY KEY CHECK (one = 1), body TEXT NOT NULL);"];

/// What was spent, a text whose meaning is the host's. Whoever changes it does so alone: several processes that share the
/// file spend of one budget.
#[derive(Clone, Debug)]
pub struct Budgets(State);

impl Budgets {
    pub(super) fn new(state: State) -> Self {
        Self(state)
    }

    /// What was written last; none before anything was.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn read(&self) -> Result<Option<String>, StoreError> {
        self.0.read(|view| view.query_row("SELECT body FROM spending", (), |row| row.get(0)).optional()).await
    }

    /// Makes something else of what was written last, while nobody else does, here or in another process. `change` is given
    /// that, and returns what is to be written, if anything, and what to say. Once begun it is done, even if the caller
    /// goes away.
    ///
    /// # Errors
    /// When it cannot be read or written. Then it is as it was.
    pub async fn update<T: Send + 'static>(
        &self,
        change: impl FnOnce(Option<String>) -> (Option<String>, T) + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0
            .write(move |write| {
                let kept = write.query_row("SELECT body FROM spending", (), |row| row.get(0)).optional()?;
                let (body, said) = change(kept);
                if let Some(body) = body {
                    write.execute("INSERT OR REPLACE INTO spending (one, body) VALUES (1, ?1)", [body])?;
                }
                Ok(said)
            })
            .await
    }

    /// Counts the changes of the state, here and by other processes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(kept: Option<String>) -> (Option<String>, u64) {
        let next = kept.map_or(0, |kept| kept.parse::<u64>().unwrap()) + 1;
        (Some(next.to_string()), next)
    }

    /// Two handles on one file are what two processes are.
    #[tokio::test(flavor = "multi_thread")]
    async fn nobody_overwrites_what_another_has_written_and_a_restart_forgets_nothing() {
        const EACH: u64 = 40;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.db");
        let open = || State::open(&file).unwrap().budgets();
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
