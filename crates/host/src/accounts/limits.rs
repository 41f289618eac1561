//! How much there may be of everything.

use std::time::Duration;

use crate::config::AccountsConfig;

/// The longest life of a link. From then on the other server's answer is still waited for as long again.
pub const MAX_LINK_LIFETIME: Duration = Duration::from_secs(300);

/// The limits of users' accounts: the table `[accounts]` of a configuration, under the same names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountLimits {
    /// How long a link is good by which a user connects an account; [`MAX_LINK_LIFETIME`] without this, and at most.
    pub link_lifetime: Duration,
    /// How many such links there are at once, of all users: 16384. At the limit the oldest goes.
    pub max_links: usize,
    /// How many of one account: 8. At the limit the oldest goes.
    pub max_links_per_account: usize,
    /// How many sign-ins of one account are waited for at once: 16. Further ones fail.
    pub max_pending_sign_ins: usize,
    /// How many users there are at once: 1000. Calls of further ones fail.
    pub max_users: usize,
    /// How long a call waits, once its user has agreed to go and sign in, before it asks again: 50 seconds. Whoever stands
    /// between us and the application may have no more patience with a silent request.
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
