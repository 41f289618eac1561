//! Accounts that pay for requests, and their allowances.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Money;

/// Account that pays for a request. It is written as `server:NAME` or `principal:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BudgetAccount {
    /// A server, by its configured name.
    Server(String),
    /// The principal on whose behalf the server sends requests.
    Principal(String),
}

impl BudgetAccount {
    /// Creates the account of a server.
    pub fn server(name: impl Into<String>) -> Self {
        Self::Server(name.into())
    }

    /// Creates the account of a principal.
    pub fn principal(name: impl Into<String>) -> Self {
        Self::Principal(name.into())
    }
}

impl fmt::Display for BudgetAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(name) => write!(f, "server:{name}"),
            Self::Principal(name) => write!(f, "principal:{name}"),
        }
    }
}

/// Error for text that names no account.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an account has the form server:NAME or principal:NAME")]
#[non_exhaustive]
pub struct ParseAccountError;

impl FromStr for BudgetAccount {
    type Err = ParseAccountError;

    fn from_str(text: &str) -> Result<Self, ParseAccountError> {
        // Split at the first colon, because a name may contain colons.
        match text.split_once(':') {
            Some(("server", name)) => Ok(Self::server(name)),
            Some(("principal", name)) => Ok(Self::principal(name)),
            _ => Err(ParseAccountError),
        }
    }
}

impl Serialize for BudgetAccount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BudgetAccount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Spending limits of an account. A limit of `None` does not apply; all others apply together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Allowance {
    /// Maximum number of tokens, input and output, within a window.
    pub tokens: Option<u64>,
    /// Maximum amount of money within a window. Models without prices cannot be used then.
    pub money: Option<Money>,
    /// Time for which spending counts (one day by default).
    pub window: Duration,
    /// Maximum rate of requests.
    pub rate: Option<RequestRate>,
}

/// Maximum number of requests in a period. All of them may be sent at the same time; afterwards one is allowed each
/// time its share of the period has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequestRate {
    /// Number of requests; 0 allows none.
    pub calls: u32,
    /// Length of the period.
    pub per: Duration,
}

impl RequestRate {
    /// Creates a rate of this many requests in a period.
    #[must_use]
    pub fn new(calls: u32, per: Duration) -> Self {
        Self { calls, per }
    }
}

impl Allowance {
    /// Default time for which spending counts.
    pub const WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

    /// Creates an allowance without limits.
    #[must_use]
    pub fn unlimited() -> Self {
        Self { tokens: None, money: None, window: Self::WINDOW, rate: None }
    }

    /// Creates an allowance of this many tokens a day.
    #[must_use]
    pub fn tokens(tokens: u64) -> Self {
        Self { tokens: Some(tokens), ..Self::unlimited() }
    }

    /// Creates an allowance of this much money a day.
    #[must_use]
    pub fn money(money: Money) -> Self {
        Self { money: Some(money), ..Self::unlimited() }
    }

    /// Also limits the number of tokens.
    #[must_use]
    pub fn and_tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Sets the window; the default is one day.
    #[must_use]
    pub fn every(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Limits the rate of requests.
    #[must_use]
    pub fn rate(mut self, rate: RequestRate) -> Self {
        self.rate = Some(rate);
        self
    }
}
