//! Store of budgets and spending, in the host's state if there is one.

use std::sync::Arc;

use hospes_models::{
    ActualUsage, Budget, BudgetAccount, BudgetError, Money, RequestEstimate, SpendingRecord,
    SpendingReservation,
};
use hospes_store::StoreError;
use hospes_store::budgets::BudgetRecords;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

/// In-memory copy of the budget, and its store. Cheap to clone; all clones share one budget.
#[derive(Clone, Debug)]
pub(super) struct BudgetStore(Arc<BudgetStoreInner>);

#[derive(Debug)]
struct BudgetStoreInner {
    /// Budget, with the spending as last read or written.
    budget: Mutex<Budget>,
    kept: Option<BudgetRecords>,
}

/// Reasons for which nothing can be spent.
#[derive(Debug, thiserror::Error)]
pub(super) enum BudgetStoreError {
    /// The budget is exceeded.
    #[error(transparent)]
    Refused(#[from] BudgetError),
    /// The spending cannot be read or written, so nothing more may be spent.
    #[error("the spending on models cannot be read or written, so no more is spent: {0}")]
    Store(#[from] StoreError),
    /// The stored spending is malformed.
    #[error("the stored spending on models is malformed, so no more is spent: {0}")]
    Misread(String),
}

/// Reservation of budget for a request. If it is dropped, it is settled as `otherwise`.
pub(super) struct BudgetReservation {
    purse: BudgetStore,
    reservation: Option<SpendingReservation>,
    otherwise: ActualUsage,
}

impl BudgetStore {
    pub(super) fn new(budget: Budget, kept: Option<BudgetRecords>) -> Self {
        Self(Arc::new(BudgetStoreInner { budget: Mutex::new(budget), kept }))
    }

    /// Returns the last known budget.
    pub(super) fn view(&self) -> MutexGuard<'_, Budget> {
        self.0.budget.lock()
    }

    pub(super) fn is_kept(&self) -> bool {
        self.0.kept.is_some()
    }

    /// Reads the spending of other processes.
    pub(super) async fn refresh(&self) -> Result<(), BudgetStoreError> {
        let Some(kept) = &self.0.kept else { return Ok(()) };
        let spending = read(kept.read().await?.as_deref())?;
        self.view().replace_spending(spending);
        Ok(())
    }

    /// Reserves the maximum cost of a request. The reservation is stored before the request is sent, so a process that
    /// is killed meanwhile has spent it.
    pub(super) async fn set_aside(
        &self,
        accounts: &[BudgetAccount],
        estimate: &RequestEstimate,
    ) -> Result<BudgetReservation, BudgetStoreError> {
        let (accounts, estimate) = (accounts.to_vec(), *estimate);
        let set_aside = move |budget: &mut Budget| budget.reserve(&accounts, &estimate, Timestamp::now());
        let reserved = |purse: Self, reservation| BudgetReservation {
            purse,
            reservation: Some(reservation),
            otherwise: ActualUsage::Nothing,
        };
        if self.0.kept.is_none() {
            return Ok(reserved(self.clone(), self.change(set_aside).await??));
        }
        // Whoever goes away while it is written has it given back: nothing is sent for them.
        let purse = self.clone();
        let done = tokio::spawn(async move {
            let reservation = purse.change(set_aside).await??;
            Ok(reserved(purse, reservation))
        });
        done.await.unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }

    /// Changes the spending exclusively.
    async fn change<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Budget) -> T + Send + Sync + 'static,
    ) -> Result<T, BudgetStoreError> {
        let Some(kept) = &self.0.kept else { return Ok(work(&mut self.view())) };
        let known = self.view().clone();
        let change = move |body: Option<String>| {
            // A copy: the one in memory changes only once the new spending is written.
            let mut budget = known.clone();
            let spending = match read(body.as_deref()) {
                Ok(spending) => spending,
                Err(error) => return (None, Err(error)),
            };
            budget.replace_spending(spending.clone());
            let made = work(&mut budget);
            // What was refused leaves nothing to write.
            if *budget.spending() == spending {
                return (None, Ok((made, spending)));
            }
            match serde_json::to_string(budget.spending()) {
                Ok(body) => (Some(body), Ok((made, budget.spending().clone()))),
                Err(error) => (None, Err(BudgetStoreError::Misread(error.to_string()))),
            }
        };
        let (made, spending) = kept.update(change).await??;
        self.view().replace_spending(spending);
        Ok(made)
    }

    async fn settle(&self, reservation: SpendingReservation, spent: ActualUsage) -> Money {
        let settled =
            self.change(move |budget| budget.settle(reservation.clone(), spent, Timestamp::now())).await;
        settled.map(|(_, money)| money).unwrap_or_else(|error| {
            tracing::error!(%error, "failed to settle a budget reservation; all of it counts as spent");
            Money::ZERO
        })
    }
}

fn read(body: Option<&str>) -> Result<SpendingRecord, BudgetStoreError> {
    let Some(body) = body else { return Ok(SpendingRecord::default()) };
    serde_json::from_str(body).map_err(|error| BudgetStoreError::Misread(error.to_string()))
}

impl BudgetReservation {
    /// Marks the spending as unknown until the reservation is settled.
    pub(super) fn begin(&mut self) {
        self.otherwise = ActualUsage::Unknown;
    }

    /// Settles a reservation. Returns the cost.
    pub(super) async fn settle(mut self, spent: ActualUsage) -> Money {
        // Whoever goes away meanwhile spends no more than that.
        self.otherwise = spent;
        let Some(reservation) = self.reservation.take() else { return Money::ZERO };
        let purse = self.purse.clone();
        if self.purse.0.kept.is_none() {
            return purse.settle(reservation, spent).await;
        }
        // To the end, even if whoever asked goes away: the reservation is taken out, so `Drop` would do nothing.
        tokio::spawn(async move { purse.settle(reservation, spent).await }).await.unwrap_or_default()
    }
}

impl Drop for BudgetReservation {
    fn drop(&mut self) {
        let Some(reservation) = self.reservation.take() else { return };
        let (purse, spent) = (self.purse.clone(), self.otherwise);
        if purse.0.kept.is_none() {
            purse.view().settle(reservation, spent, Timestamp::now());
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { purse.settle(reservation, spent).await });
        }
        // Where nothing runs any more it counts for as long as its window, as if the process had been killed.
    }
}

#[cfg(test)]
mod tests {
    use hospes_model::{CreateMessageParams, SamplingMessage};
    use hospes_models::{Allowance, Model, ScriptedProvider, TokenUsage};
    use hospes_store::StateStore;

    use super::*;

    /// Time limit of each test step.
    const LIMIT: std::time::Duration = std::time::Duration::from_secs(20);

    fn files() -> BudgetAccount {
        BudgetAccount::server("files")
    }

    fn estimate(max_tokens: u64) -> RequestEstimate {
        let model = Model::new("m", ScriptedProvider::new(["x"]));
        RequestEstimate::of(&model, &CreateMessageParams::new(vec![SamplingMessage::user("x")], max_tokens))
    }

    /// Creates the store as a process has it that shares the file.
    fn purse(folder: &std::path::Path, tokens: u64) -> BudgetStore {
        let mut budget = Budget::new();
        budget.allow(files(), Allowance::tokens(tokens));
        let state = StateStore::open(folder.join("state.db")).unwrap();
        BudgetStore::new(budget, Some(state.budgets()))
    }

    async fn left(purse: &BudgetStore) -> u64 {
        purse.refresh().await.unwrap();
        purse.view().remaining(&files(), Timestamp::now()).unwrap().tokens.unwrap()
    }

    #[tokio::test]
    async fn what_was_spent_is_not_forgotten_by_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let aside = purse(folder.path(), 1_000).set_aside(&[files()], &estimate(100)).await.unwrap();
        aside.settle(ActualUsage::Used(TokenUsage::new(12, 30))).await;
        assert_eq!(left(&purse(folder.path(), 1_000)).await, 958);
        // What is allowed is what the configuration says now.
        assert_eq!(left(&purse(folder.path(), 500)).await, 458);
    }

    #[tokio::test]
    async fn two_processes_cannot_spend_the_same_tokens() {
        let folder = tempfile::tempdir().unwrap();
        let one = estimate(100);
        let limit = one.most_tokens() * 3 + 1;
        let (here, there) = (purse(folder.path(), limit), purse(folder.path(), limit));
        let mut held = Vec::new();
        for purse in [&here, &there, &here] {
            held.push(purse.set_aside(&[files()], &one).await.unwrap());
        }
        // Neither knows what the other has reserved until it looks; nothing is paid out of what is not known.
        for purse in [&here, &there] {
            let refused = purse.set_aside(&[files()], &one).await.err().expect("it is all reserved");
            assert!(
                matches!(refused, BudgetStoreError::Refused(BudgetError::Tokens { left: 1, .. })),
                "{refused}"
            );
        }
        held.remove(0).settle(ActualUsage::Nothing).await;
        assert!(there.set_aside(&[files()], &one).await.is_ok());
    }

    #[tokio::test]
    async fn whoever_goes_away_pays_for_what_was_sent_and_for_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let purse = purse(folder.path(), 1_000);
        let one = estimate(100);
        let state = StateStore::open(folder.path().join("state.db")).unwrap();
        let mut changes = state.changes();
        drop(purse.set_aside(&[files()], &one).await.unwrap());
        let given_back = async {
            while left(&purse).await != 1_000 {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(LIMIT, given_back).await.expect("it is given back");
        let mut aside = purse.set_aside(&[files()], &one).await.unwrap();
        aside.begin();
        drop(aside);
        let settled = async {
            while purse.view().status(&files(), Timestamp::now()).reserved_tokens > 0 {
                changes.changed().await.unwrap();
                purse.refresh().await.unwrap();
            }
        };
        tokio::time::timeout(LIMIT, settled).await.expect("it is settled");
        assert_eq!(left(&purse).await, 1_000 - one.most_tokens());
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_no_empty_budget() {
        let folder = tempfile::tempdir().unwrap();
        let purse = purse(folder.path(), 1_000);
        let state = StateStore::open(folder.path().join("state.db")).unwrap();
        state.budgets().update(|_| (Some("{".to_owned()), ())).await.unwrap();
        assert!(matches!(purse.refresh().await, Err(BudgetStoreError::Misread(_))));
        let refused = purse.set_aside(&[files()], &estimate(1)).await.err().expect("nothing is paid");
        assert!(matches!(refused, BudgetStoreError::Misread(_)), "{refused}");
        let kept = state.budgets().read().await.unwrap();
        assert_eq!(kept.as_deref(), Some("{"), "it is left for somebody to look at");
    }
}
