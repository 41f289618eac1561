//! Interface between the pages on which users connect accounts at other servers, and the storage of those accounts.

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
    /// Creates a link for this principal.
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
    /// The other server or the user refused.
    Refused,
    /// The connection failed. Details are only in the log.
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
    /// Creates the state of an account that is not connected.
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
    /// There were no tokens.
    Nothing,
    /// The other server has revoked its tokens (RFC 7009).
    Revoked,
    /// The other server does not support revocation; the tokens stay valid there until they expire.
    NotOffered,
    /// Revocation failed at the other server. The reason is only in the log.
    NotRevoked,
}

/// Storage of the accounts that users have elsewhere, and of links for connecting them.
pub trait AccountConnections: fmt::Debug + Send + Sync + 'static {
    /// Returns the link with this id, while it is valid.
    fn link<'a>(&'a self, id: &'a str) -> AccountConnectionFuture<'a, Option<AccountLink>>;

    /// Marks a link as used. Returns true for one caller only, while it is valid.
    fn take<'a>(&'a self, id: &'a str) -> AccountConnectionFuture<'a, bool>;

    /// Records that the user refused to connect the account.
    fn refuse<'a>(&'a self, id: &'a str) -> AccountConnectionFuture<'a>;

    /// Completes the connection of a used link. `redirected` is the final redirect URL with the response in its query.
    fn finish<'a>(&'a self, id: &'a str, redirected: String) -> AccountConnectionFuture<'a>;

    /// Returns all accounts that this principal has or could connect.
    fn accounts<'a>(&'a self, principal: &'a str) -> AccountConnectionFuture<'a, Vec<AccountStatus>>;

    /// Disconnects the account of this principal at a server: deletes its tokens and revokes them at the other server.
    fn disconnect<'a>(
        &'a self,
        principal: &'a str,
        server: &'a str,
    ) -> AccountConnectionFuture<'a, DisconnectResult>;
}
