//! Spending limits of servers and principals for models.

mod account;
mod error;
mod ledger;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{GenerationFailure, ModelAnswer, Money, RequestEstimate, TokenPrices, TokenUsage, estimate};
use ledger::SpendingLedger;

pub use account::{Allowance, BudgetAccount, ParseAccountError, RequestRate};
pub use error::BudgetError;

/// Maximum number of open requests, which limits memory if callers never settle.
const MAX_OPEN: usize = 10_000;

/// Minimum time for which an unsettled reservation counts, independent of the window. It is longer than any request
/// takes.
const MIN_RESERVATION_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Spending limits of servers and principals, and the amounts they have spent.
///
/// An account without an allowance may spend nothing. Before a request, its maximum cost is [reserved](Self::reserve)
/// from every account that pays for it; if that exceeds an allowance, the request is refused. After the request, its
/// actual cost is [settled](Self::settle). So concurrent requests never spend the same tokens. Amounts count for the
/// length of the allowance's window.
///
/// The [spending](Self::spending) is a separate value, which can be saved and [restored](Self::replace_spending) after
/// a restart, or shared by several processes that take turns.
///
/// ```
/// use hospes_models::{BudgetAccount, Allowance, Budget, Model, ScriptedProvider, RequestEstimate, ActualUsage, TokenUsage};
/// use hospes_model::{CreateMessageParams, SamplingMessage};
///
/// let model = Model::new("demo", ScriptedProvider::new(["Hello."]));
/// let params = CreateMessageParams::new(vec![SamplingMessage::user("Say hello.")], 100);
/// let estimate = RequestEstimate::of(&model, &params);
/// let (files, now) = (BudgetAccount::server("files"), jiff::Timestamp::now());
///
/// let mut budget = Budget::new();
/// assert!(budget.reserve(&[files.clone()], &estimate, now).is_err(), "nothing until it is set");
/// budget.allow(files.clone(), Allowance::tokens(1_000));
/// let reserved = budget.reserve(&[files.clone()], &estimate, now)?;
/// budget.settle(reserved, ActualUsage::Used(TokenUsage::new(12, 3)), now);
/// assert_eq!(budget.remaining(&files, now).unwrap().tokens, Some(985));
/// # Ok::<(), hospes_models::BudgetError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    allowances: BTreeMap<BudgetAccount, Allowance>,
    /// Default allowances of servers, and of principals.
    servers: Option<Allowance>,
    principals: Option<Allowance>,
    spending: SpendingRecord,
}

/// Spent and reserved amounts by account: the part of a [`Budget`] that must be persisted.
///
/// A reservation counts until it is settled. If its owner is gone and cannot settle it, it counts until its window
/// ends, and for at least an hour. That is longer than a request takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpendingRecord {
    ledgers: BTreeMap<BudgetAccount, SpendingLedger>,
    open: BTreeMap<u64, OpenReservation>,
    next: u64,
}

/// A request in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OpenReservation {
    accounts: Vec<BudgetAccount>,
    tokens: u64,
    money: Money,
    /// Prices of a million tokens, input and output.
    prices: Option<(Money, Money)>,
    /// Time of the reservation, in microseconds since 1970.
    since: i64,
}

/// Reservation for one request. It counts as spent until it is [settled](Budget::settle). A clone is the same
/// reservation, for a change that is made again because its transaction was rolled back.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "what is reserved counts as spent until it is settled"]
pub struct SpendingReservation {
    id: u64,
    open: OpenReservation,
}

/// Actual usage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActualUsage {
    /// These tokens were used.
    Used(TokenUsage),
    /// Nothing was used, because the request did not reach a model.
    Nothing,
    /// The usage is unknown, so the whole reservation counts.
    Unknown,
}

impl ActualUsage {
    /// Returns the usage of an answer: the provider's count or, if there is none, an estimate of the received text.
    #[must_use]
    pub fn of_answer(answer: &ModelAnswer, estimate: &RequestEstimate) -> Self {
        let text = || {
            let blocks = serde_json::to_string(&answer.result.content).unwrap_or_default();
            TokenUsage::new(estimate.input.likely, estimate::text_tokens(&blocks))
        };
        Self::Used(answer.usage.unwrap_or_else(text))
    }

    /// Returns the usage of a failed request.
    #[must_use]
    pub fn of_failure(failure: &GenerationFailure) -> Self {
        match failure.usage {
            // A count from the middle of an answer is lower than that of its end.
            _ if failure.may_have_cost => Self::Unknown,
            Some(usage) => Self::Used(usage),
            None => Self::Nothing,
        }
    }
}

/// Status of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetStatus {
    /// Allowance of the account. `None` means that no allowance is set, so the account may spend nothing.
    pub allowance: Option<Allowance>,
    /// Tokens spent within the window.
    pub spent_tokens: u64,
    /// Money spent within the window.
    pub spent_money: Money,
    /// Tokens reserved for requests in progress.
    pub reserved_tokens: u64,
    /// Money reserved for requests in progress.
    pub reserved_money: Money,
}

/// Amounts that an account can still spend. `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RemainingBudget {
    /// Tokens, input and output.
    pub tokens: Option<u64>,
    /// Money.
    pub money: Option<Money>,
    /// Time for which spending counts.
    pub window: Duration,
}

impl Budget {
    /// Creates a budget in which no account may spend anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the allowance of an account, replacing an earlier one.
    pub fn allow(&mut self, account: BudgetAccount, allowance: Allowance) {
        self.allowances.insert(account, allowance);
    }

    /// Removes an account's own allowance. The default allowance of its kind then applies, if there is one.
    pub fn forbid(&mut self, account: &BudgetAccount) {
        self.allowances.remove(account);
    }

    /// Sets the allowance of every server without its own allowance. `None` allows nothing.
    pub fn allow_servers(&mut self, allowance: Option<Allowance>) {
        self.servers = allowance;
    }

    /// Sets the allowance of every principal without their own allowance. `None` allows nothing.
    pub fn allow_principals(&mut self, allowance: Option<Allowance>) {
        self.principals = allowance;
    }

    /// Returns the allowance of every server without its own allowance. `None` allows nothing.
    #[must_use]
    pub fn servers_allowance(&self) -> Option<&Allowance> {
        self.servers.as_ref()
    }

    /// Returns the allowance of an account, or `None` if none is set.
    #[must_use]
    pub fn allowance(&self, account: &BudgetAccount) -> Option<&Allowance> {
        let of_all = match account {
            BudgetAccount::Server(_) => self.servers.as_ref(),
            BudgetAccount::Principal(_) => self.principals.as_ref(),
        };
        self.allowances.get(account).or(of_all)
    }

    /// Checks whether a request could be reserved now. The error is a sentence for
    /// [`choose_within`](crate::ModelCatalogue::choose_within).
    ///
    /// # Errors
    /// The account that cannot pay, and the reason.
    pub fn check(
        &self,
        accounts: &[BudgetAccount],
        estimate: &RequestEstimate,
        now: Timestamp,
    ) -> Result<(), BudgetError> {
        if self.spending.open.len() >= MAX_OPEN {
            return Err(BudgetError::TooManyOpen { limit: MAX_OPEN });
        }
        accounts.iter().try_for_each(|account| self.check_one(account, estimate, now))
    }

    fn check_one(
        &self,
        account: &BudgetAccount,
        estimate: &RequestEstimate,
        now: Timestamp,
    ) -> Result<(), BudgetError> {
        let who = || account.clone();
        let Some(allowance) = self.allowance(account) else {
            return Err(BudgetError::NotSet { account: who() });
        };
        let ledger = self.spending.ledgers.get(account);
        if let Some(rate) = allowance.rate
            && let Some(wait) = ledger.and_then(|ledger| ledger.wait(rate, now))
        {
            return Err(BudgetError::Rate { account: who(), rate, wait });
        }
        let (spent_tokens, spent_money) = self.spent(account, now);
        if let Some(limit) = allowance.tokens {
            let (needed, left) = (estimate.most_tokens(), limit.saturating_sub(spent_tokens));
            if needed > left {
                return Err(BudgetError::Tokens {
                    account: who(),
                    needed,
                    left,
                    limit,
                    window: allowance.window,
                });
            }
        }
        if let Some(limit) = allowance.money {
            // A cost that cannot be computed cannot be limited.
            let Some(needed) = estimate.cost else { return Err(BudgetError::NoPrices { account: who() }) };
            let left = limit.minus(spent_money);
            if needed > left {
                return Err(BudgetError::Money {
                    account: who(),
                    needed,
                    left,
                    limit,
                    window: allowance.window,
                });
            }
        }
        Ok(())
    }

    /// Reserves the maximum cost of a request from all of the accounts, or from none.
    ///
    /// # Errors
    /// The account that cannot pay, and the reason.
    pub fn reserve(
        &mut self,
        accounts: &[BudgetAccount],
        estimate: &RequestEstimate,
        now: Timestamp,
    ) -> Result<SpendingReservation, BudgetError> {
        // All accounts are checked before the first of them is changed.
        self.check(accounts, estimate, now)?;
        for account in accounts {
            let rate = self.allowance(account).and_then(|allowance| allowance.rate);
            if let Some(rate) = rate {
                self.spending.ledgers.entry(account.clone()).or_default().record_call(rate, now);
            }
        }
        self.remove_expired(now);
        let open = OpenReservation {
            accounts: accounts.to_vec(),
            tokens: estimate.most_tokens(),
            money: estimate.cost.unwrap_or_default(),
            prices: estimate.prices.map(|prices| (prices.input, prices.output)),
            since: now.as_microsecond(),
        };
        let id = self.spending.next;
        self.spending.next = id.wrapping_add(1);
        self.spending.open.insert(id, open.clone());
        Ok(SpendingReservation { id, open })
    }

    /// Replaces a reservation by the actual usage, even if that is higher. Returns the counted amounts.
    pub fn settle(
        &mut self,
        reservation: SpendingReservation,
        spent: ActualUsage,
        now: Timestamp,
    ) -> (u64, Money) {
        let SpendingReservation { id, open } = reservation;
        // A reservation that has expired is counted too, because its usage is known now.
        self.spending.open.remove(&id);
        let (tokens, money) = match spent {
            // Only the amounts are released; the call still counts for the rate.
            ActualUsage::Nothing => return (0, Money::ZERO),
            ActualUsage::Unknown => (open.tokens, open.money),
            ActualUsage::Used(usage) => {
                let cost = |(input, output)| TokenPrices::new(input, output).of(usage);
                (usage.total(), open.prices.map(cost).unwrap_or_default())
            }
        };
        for account in &open.accounts {
            let window = self.window(account);
            let ledger = self.spending.ledgers.entry(account.clone()).or_default();
            ledger.spend(tokens, money, window, now);
        }
        (tokens, money)
    }

    /// Returns the spent and reserved amounts.
    #[must_use]
    pub fn spending(&self) -> &SpendingRecord {
        &self.spending
    }

    /// Replaces the spending by a restored value, or by one that other processes have updated.
    pub fn replace_spending(&mut self, spending: SpendingRecord) {
        self.spending = spending;
    }

    /// Iterates over the accounts with an allowance, spending or reservations.
    pub fn accounts(&self) -> impl Iterator<Item = &BudgetAccount> {
        let open = self.spending.open.values().flat_map(|open| &open.accounts);
        let all: BTreeSet<&BudgetAccount> =
            self.allowances.keys().chain(self.spending.ledgers.keys()).chain(open).collect();
        all.into_iter()
    }

    /// Returns the status of an account.
    #[must_use]
    pub fn status(&self, account: &BudgetAccount, now: Timestamp) -> BudgetStatus {
        let ledger = self.spending.ledgers.get(account);
        let (spent_tokens, spent_money) =
            ledger.map(|ledger| ledger.spent(self.window(account), now)).unwrap_or_default();
        let (mut reserved_tokens, mut reserved_money) = (0_u64, Money::ZERO);
        let open = self.spending.open.values();
        for open in open.filter(|open| open.accounts.contains(account) && self.counts(open, now)) {
            reserved_tokens = reserved_tokens.saturating_add(open.tokens);
            reserved_money = reserved_money.plus(open.money);
        }
        let allowance = self.allowance(account).cloned();
        BudgetStatus { allowance, spent_tokens, spent_money, reserved_tokens, reserved_money }
    }

    /// Returns the amounts an account can still spend, or `None` if no allowance is set.
    #[must_use]
    pub fn remaining(&self, account: &BudgetAccount, now: Timestamp) -> Option<RemainingBudget> {
        let allowance = self.allowance(account)?;
        let (tokens, money) = self.spent(account, now);
        Some(RemainingBudget {
            tokens: allowance.tokens.map(|limit| limit.saturating_sub(tokens)),
            money: allowance.money.map(|limit| limit.minus(money)),
            window: allowance.window,
        })
    }

    /// Returns the amounts that count against an account now: spent within the window, or reserved.
    fn spent(&self, account: &BudgetAccount, now: Timestamp) -> (u64, Money) {
        let standing = self.status(account, now);
        (
            standing.spent_tokens.saturating_add(standing.reserved_tokens),
            standing.spent_money.plus(standing.reserved_money),
        )
    }

    fn window(&self, account: &BudgetAccount) -> Duration {
        self.allowance(account).map_or(Allowance::WINDOW, |allowance| allowance.window)
    }

    /// Returns true if a reservation still counts. The process that made it may have ended.
    fn counts(&self, open: &OpenReservation, now: Timestamp) -> bool {
        let window = open.accounts.iter().map(|account| self.window(account)).max();
        let longest = i64::try_from(window.unwrap_or_default().max(MIN_RESERVATION_LIFETIME).as_micros())
            .unwrap_or(i64::MAX);
        open.since.saturating_add(longest) > now.as_microsecond()
    }

    /// Removes spending that no longer counts.
    fn remove_expired(&mut self, now: Timestamp) {
        // Taken out, because the closures below look up allowances in `self`.
        let mut spending = std::mem::take(&mut self.spending);
        spending.ledgers.retain(|account, ledger| {
            ledger.remove_expired(self.window(account), now);
            !ledger.is_empty(now)
        });
        spending.open.retain(|_, open| self.counts(open, now));
        self.spending = spending;
    }
}

#[cfg(test)]
mod tests;
