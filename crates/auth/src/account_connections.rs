//! Interface between the pages on which users connect accounts at other servers, and whoever keeps those accounts.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use url::Url;

use crate::scopes::Scopes;

/// Link with which one user connects an account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountLink {
    /// Principal that the link is for, as the resource server names it. Other users cannot use it.
    pub principal: Arc<str>,
    /// Name of the server in the configuration.
    pub server: Arc<str>,
    /// The host that the account is at.
    pub host: String,
    /// Page where the user signs in. Its query has a `state`, which the response returns.
    pub page: Url,
}

impl AccountLink {
    /// A link for this principal.
    #[must_use]
    pub fn new(principal: Arc<str>, server: Arc<str>, host: impl Into<String>, page: Url) -> Self {
        Self { principal, server, host: host.into(), page }
    }
}

/// Reasons an account was not connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each has a text of its own on the page")]
pub enum ConnectAccountError {
    /// No connection is pending for this response: it is too late, or the host was restarted.
    Unknown,
    /// The other server, or the user there, said no.
    Refused,
    /// Something failed. What exactly is for the log alone.
    Failed,
}

/// Future of an operation of [`AccountConnections`].
pub type AccountConnectionFuture<'a, T = ()> =
    Pin<Box<dyn Future<Output = Result<T, ConnectAccountError>> + Send + 'a>>;

/// Status of a user's account at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountStatus {
    /// Name of the server in the configuration.
    pub server: Arc<str>,
    /// The host that the account is at.
    pub host: String,
    /// Granted scopes if it is connected; empty if the other server does not name any.
    pub granted: Option<Scopes>,
}

impl AccountStatus {
    /// That of an account which is not connected.
    #[must_use]
    pub fn new(server: Arc<str>, host: impl Into<String>) -> Self {
        Self { server, host: host.into(), granted: None }
    }

    /// Returns true if it is connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.granted.is_some()
    }
}

/// Result of disconnecting an account. Its tokens are deleted here in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each has a text of its own on the page")]
pub enum DisconnectResult {
    /// There was none.
    Nothing,
    /// The other server has taken its tokens back (RFC 7009).
    Revoked,
    /// The other server has no way to take them back: there they are good until they run out.
    NotOffered,
    /// The other server has not taken them back. Why is for the log alone.
    NotRevoked,
}

/// Keeps the accounts that users have elsewhere, and makes links for those that are missing.
pub trait AccountConnections: fmt::Debug + Send + Sync + 'static {
    /// The link of this id, while it is good.
    fn link(&self, id: &str) -> Option<AccountLink>;

    /// Uses a link up: true for one caller only, while it is good.
    fn take(&self, id: &str) -> bool;

    /// The user does not want it.
    fn refuse(&self, id: &str);

    /// The browser came back for a link that was taken: `redirected` is where to, with the answer in its query.
    fn finish<'a>(&'a self, id: &'a str, redirected: String) -> AccountConnectionFuture<'a>;

    /// All accounts that this principal has or could have.
    fn accounts<'a>(&'a self, principal: &'a str) -> AccountConnectionFuture<'a, Vec<AccountStatus>>;

    /// Gives up the account of this principal at a server: forgets its tokens, and has the other server take them back.
    fn disconnect<'a>(
        &'a self,
        principal: &'a str,
        server: &'a str,
    ) -> AccountConnectionFuture<'a, DisconnectResult>;
}
