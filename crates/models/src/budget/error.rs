//! Errors of requests that exceed a budget.

use std::time::Duration;

use super::{BudgetAccount, RequestRate};
use crate::Money;

/// Reasons a request exceeds a budget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// No allowance is set for the account, so it may spend nothing.
    #[error("{account} has no budget for models; without one it is 0")]
    NotSet {
        /// Account that cannot pay.
        account: BudgetAccount,
    },
    /// Not enough tokens remain.
    #[error("{account} has {left} of {limit} tokens left in {}, and the request may take {needed}", shown(*window))]
    Tokens {
        /// Account that cannot pay.
        account: BudgetAccount,
        /// Maximum number of tokens that the request can take.
        needed: u64,
        /// Remaining tokens.
        left: u64,
        /// Allowance.
        limit: u64,
        /// Window of the allowance.
        window: Duration,
    },
    /// Not enough money remains.
    #[error("{account} has {left} of {limit} left in {}, and the request may cost {needed}", shown(*window))]
    Money {
        /// Account that cannot pay.
        account: BudgetAccount,
        /// Maximum cost of the request.
        needed: Money,
        /// Remaining money.
        left: Money,
        /// Allowance.
        limit: Money,
        /// Window of the allowance.
        window: Duration,
    },
    /// The account is limited in money, but the model has no prices.
    #[error("{account} has a budget in money, and the model has no prices (setting prices)")]
    NoPrices {
        /// Account that cannot pay.
        account: BudgetAccount,
    },
    /// The account exceeds its rate of requests.
    #[error("{account} is limited to {} requests per {:?}; the next one is possible in {wait:?}", rate.calls, rate.per)]
    Rate {
        /// Account that exceeds its rate.
        account: BudgetAccount,
        /// Allowed rate.
        rate: RequestRate,
        /// Time to wait before the next request.
        wait: Duration,
    },
    /// Too many requests are open.
    #[error("the limit of {limit} open requests to models is reached")]
    TooManyOpen {
        /// Maximum number of open requests.
        limit: usize,
    },
}

/// Formats a window for people: `24h`, not `86400s`.
fn shown(window: Duration) -> String {
    jiff::SignedDuration::try_from(window)
        .map_or_else(|_| format!("{window:?}"), |window| format!("{window:#}"))
}
