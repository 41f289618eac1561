//! The accounts of users at servers: the table `[accounts]`.

use std::time::Duration;

use super::table::{Report, Table};
use crate::accounts::MAX_LINK_LIFETIME;

/// What is said of the accounts of users at servers. What is not said is as [`AccountLimits`](crate::AccountLimits) has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountsConfig {
    /// How long a link is good by which a user connects an account; five minutes at most.
    pub link_lifetime: Option<Duration>,
    /// How many such links there are at once, of all users.
    pub max_links: Option<usize>,
    /// How many of one account.
    pub max_links_per_account: Option<usize>,
    /// How many sign-ins of one account are waited for at once.
    pub max_pending_sign_ins: Option<usize>,
    /// How many users there are at once.
    pub max_users: Option<usize>,
    /// How long a call waits for its user to sign in before it asks again.
    pub sign_in_wait: Option<Duration>,
    /// Whether the host says who it is in a document of its own, where its public address is https.
    pub client_document: Option<bool>,
}

/// Reads the table.
pub(super) fn read_accounts(table: &mut Table<'_>, report: &mut Report) -> AccountsConfig {
    let mut accounts = AccountsConfig {
        max_links: table.count(&["max_links"], report),
        max_links_per_account: table.count(&["max_links_per_account"], report),
        max_pending_sign_ins: table.count(&["max_pending_sign_ins"], report),
        max_users: table.count(&["max_users"], report),
        client_document: table.boolean(&["client_document"], report),
        ..AccountsConfig::default()
    };
    if let Some(entry) = table.take(&["link_lifetime"], report)
        && let Some(time) = table.duration(entry, Duration::from_secs(1), report)
    {
        match time <= MAX_LINK_LIFETIME {
            true => accounts.link_lifetime = Some(time),
            false => {
                let field = table.field(entry);
                table.invalid::<()>(&entry.node.at, &field, "a time of at most \"5m\"", "", report);
            }
        }
    }
    if let Some(entry) = table.take(&["sign_in_wait"], report) {
        accounts.sign_in_wait = table.duration(entry, Duration::from_secs(1), report);
    }
    table.refuse_unread(report);
    accounts
}
