//! Configuration of users' accounts at servers: the table `[accounts]`.

use std::time::Duration;

use super::table::{ConfigReport, SettingsTable};

/// The longest life of a link. From then on the other server's answer is still waited for as long again.
pub const MAX_LINK_LIFETIME: Duration = Duration::from_secs(300);

/// Settings of the accounts of users at servers. Missing values default to those of
/// [`AccountLimits`](crate::AccountLimits).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountsConfig {
    /// Lifetime of a link with which a user connects an account; five minutes at most.
    pub link_lifetime: Option<Duration>,
    /// Maximum number of pending links of all users.
    pub max_links: Option<usize>,
    /// Maximum number of links of one account.
    pub max_links_per_account: Option<usize>,
    /// Maximum number of pending sign-ins of one account.
    pub max_pending_sign_ins: Option<usize>,
    /// Maximum number of concurrent users.
    pub max_users: Option<usize>,
    /// Time that a call waits for its user to sign in before it asks again.
    pub sign_in_wait: Option<Duration>,
    /// True if the host publishes a client metadata document of itself. Requires a public address with https.
    pub client_document: Option<bool>,
}

/// Reads the table.
pub(super) fn read_accounts(table: &mut SettingsTable<'_>, report: &mut ConfigReport) -> AccountsConfig {
    let mut accounts = AccountsConfig {
        max_links: table.count("max_links", report),
        max_links_per_account: table.count("max_links_per_account", report),
        max_pending_sign_ins: table.count("max_pending_sign_ins", report),
        max_users: table.count("max_users", report),
        client_document: table.boolean("client_document", report),
        ..AccountsConfig::default()
    };
    if let Some(entry) = table.take("link_lifetime", report)
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
    if let Some(entry) = table.take("sign_in_wait", report) {
        accounts.sign_in_wait = table.duration(entry, Duration::from_secs(1), report);
    }
    table.report_unknown_keys(report);
    accounts
}
