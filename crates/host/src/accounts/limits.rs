//! Limits of users' accounts and of the links that connect them.

use std::time::Duration;

use crate::config::{AccountsConfig, MAX_LINK_LIFETIME};

/// The limits of users' accounts: the table `[accounts]` of a configuration, under the same names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountLimits {
    /// Lifetime of a link with which a user connects an account. Default and maximum: [`MAX_LINK_LIFETIME`].
    pub link_lifetime: Duration,
    /// Maximum number of pending links of all users: 16384. At the limit the oldest link is removed.
    pub max_links: usize,
    /// Maximum number of links of one account: 8. At the limit the oldest link is removed.
    pub max_links_per_account: usize,
    /// Maximum number of pending sign-ins of one account: 16. Further sign-ins fail.
    pub max_pending_sign_ins: usize,
    /// Maximum number of concurrent users: 1000. Calls of further users fail.
    pub max_users: usize,
    /// Time that a call waits for its user to sign in, after they agreed to, before it asks again: 50 seconds. Proxies
    /// before the host may time out a silent request if this is longer.
    pub sign_in_wait: Duration,
}

impl Default for AccountLimits {
    fn default() -> Self {
        Self {
            link_lifetime: MAX_LINK_LIFETIME,
            max_links: 16 * 1024,
            max_links_per_account: 8,
            max_pending_sign_ins: 16,
            max_users: 1000,
            sign_in_wait: Duration::from_secs(50),
        }
    }
}

impl From<&AccountsConfig> for AccountLimits {
    fn from(config: &AccountsConfig) -> Self {
        let usual = Self::default();
        Self {
            link_lifetime: config.link_lifetime.unwrap_or(usual.link_lifetime),
            max_links: config.max_links.unwrap_or(usual.max_links),
            max_links_per_account: config.max_links_per_account.unwrap_or(usual.max_links_per_account),
            max_pending_sign_ins: config.max_pending_sign_ins.unwrap_or(usual.max_pending_sign_ins),
            max_users: config.max_users.unwrap_or(usual.max_users),
            sign_in_wait: config.sign_in_wait.unwrap_or(usual.sign_in_wait),
        }
    }
}
