//! An account at one upstream server.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hospes::client::{
    Authorizer, AuthorizerError, AuthorizerFuture, OutboundRequest, RejectedRequest, RetryDecision,
};
use hospes_auth::{AccountLink, AccountStatus, Challenge, ConnectAccountError, DisconnectResult, Seed};
use hospes_oauth::{FlowError, OAuthClient, RedirectError, RevocationResult};
use hospes_policy::visible_line;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{UpstreamAccounts, UpstreamAccountsInner};
use crate::server::{AccountAuthorizer, ConnectorFuture, SignInChanges};
use crate::shell_word::shell_word;

/// Minimum interval between checks whether another program has signed in or out.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Authorizes requests to a server with an account.
pub(crate) struct UpstreamAccount {
    this: Weak<Self>,
    oauth: OAuthClient,
    /// Name of the server in the configuration.
    server: Arc<str>,
    /// Profile whose secrets the server has, if it runs for one.
    profile: Option<Box<str>>,
    /// Host at which the account exists.
    host: String,
    /// Owner of the account. `None` if it is the operator's.
    owner: Option<AccountOwner>,
    changes: watch::Sender<SignInChanges>,
    /// Mark of the tokens that requests last carried.
    mark: Mutex<Option<String>>,
    looked: Mutex<Instant>,
}

/// User who owns an account, and the source of sign-in links for that user.
pub(super) struct AccountOwner {
    pub(super) user: Arc<str>,
    /// They have links, which have us.
    pub(super) accounts: Weak<UpstreamAccountsInner>,
}

impl UpstreamAccount {
    /// Creates the account that all users share, or that all users of a profile do.
    pub(super) fn shared(
        oauth: OAuthClient,
        server: Arc<str>,
        profile: Option<&str>,
        host: String,
    ) -> Arc<Self> {
        Self::new(oauth, (server, profile), host, None)
    }

    /// Creates the account of one user.
    pub(super) fn of_user(
        oauth: OAuthClient,
        server: Arc<str>,
        host: String,
        owner: AccountOwner,
    ) -> Arc<Self> {
        Self::new(oauth, (server, None), host, Some(owner))
    }

    fn new(
        oauth: OAuthClient,
        (server, profile): (Arc<str>, Option<&str>),
        host: String,
        owner: Option<AccountOwner>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            oauth,
            server,
            profile: profile.map(Box::from),
            host,
            owner,
            changes: watch::Sender::default(),
            mark: Mutex::default(),
            looked: Mutex::new(Instant::now()),
        })
    }

    /// Returns the current status of the account.
    pub(super) async fn status(&self) -> Result<AccountStatus, FlowError> {
        self.oauth.recheck().await?;
        let mut status = AccountStatus::new(Arc::clone(&self.server), self.host.clone());
        status.granted = self.oauth.tokens().await?.map(|tokens| tokens.granted.clone());
        Ok(status)
    }

    /// Its user gives it up.
    pub(super) async fn disconnect(&self) -> Result<DisconnectResult, ConnectAccountError> {
        if let Some(accounts) = self.owner.as_ref().and_then(|owner| owner.accounts.upgrade()) {
            // Nobody connects it again by a link from before.
            UpstreamAccounts(accounts).links().remove_links_of(self);
        }
        let revoked = self.oauth.revoke().await;
        // Whoever has a connection on its account is to close it.
        self.detect_identity_change(true).await;
        match revoked {
            Ok(RevocationResult::Nothing) => Ok(DisconnectResult::Nothing),
            Ok(RevocationResult::Revoked) => {
                tracing::info!(server = %self.server, "account disconnected; tokens revoked");
                Ok(DisconnectResult::Revoked)
            }
            Ok(RevocationResult::NotOffered) => {
                tracing::warn!(server = %self.server, "account disconnected; server does not support token revocation");
                Ok(DisconnectResult::NotOffered)
            }
            Ok(RevocationResult::Failed(error)) => {
                tracing::warn!(server = %self.server, %error, "account disconnected; token revocation failed");
                Ok(DisconnectResult::NotRevoked)
            }
            Ok(_) => Ok(DisconnectResult::NotRevoked),
            Err(error) => {
                tracing::error!(server = %self.server, %error, "failed to remove the stored account");
                Err(ConnectAccountError::Failed)
            }
        }
    }

    /// Detects whether the account now belongs to another identity. `is_told` is true if a sign-in or sign-out is
    /// already known.
    async fn detect_identity_change(&self, is_told: bool) {
        let now = match self.oauth.tokens().await {
            Ok(tokens) => tokens.map(|tokens| tokens.mark.clone()),
            // What is not known is not another.
            Err(_) => return,
        };
        let is_other = {
            let mut last = self.mark.lock();
            // Before the first mark no request carried any, so there is nobody who could have been replaced.
            let is_other = last.is_some() && *last != now;
            *last = now;
            is_other
        };
        if is_told || is_other {
            self.changes.send_modify(|changes| {
                changes.times += 1;
                changes.others += u64::from(is_other);
            });
        }
    }

    /// Completes the sign-in with the redirect URL that the browser returned.
    pub(super) async fn finish(&self, redirected: &str) -> Result<(), ConnectAccountError> {
        match self.oauth.finish(redirected).await {
            Ok(_) => {
                tracing::info!(server = %self.server, "account connected");
                self.detect_identity_change(true).await;
                Ok(())
            }
            Err(error) => {
                tracing::warn!(server = %self.server, %error, "account connection failed");
                Err(match error {
                    FlowError::Redirect(RedirectError::Refused(_)) => ConnectAccountError::Refused,
                    FlowError::Redirect(RedirectError::State | RedirectError::Expired) => {
                        ConnectAccountError::Unknown
                    }
                    _ => ConnectAccountError::Failed,
                })
            }
        }
    }

    /// Checks again from time to time.
    async fn recheck_if_due(&self) {
        // The guard ends with the block, so that it is not held over the look at the store.
        {
            let mut looked = self.looked.lock();
            if looked.elapsed() < RECHECK_INTERVAL {
                return;
            }
            // Set before looking, so that requests that come meanwhile do not all look.
            *looked = Instant::now();
        }
        self.recheck().await;
    }

    /// Reads the store again, which another program may have changed.
    async fn recheck(&self) {
        if let Err(error) = self.oauth.recheck().await {
            tracing::warn!(server = %self.server, %error, "failed to check whether the account is still connected");
        }
        self.detect_identity_change(false).await;
    }

    /// Returns the stored tokens, if there are some.
    #[cfg(test)]
    pub(super) async fn tokens(&self) -> Option<Arc<hospes_oauth::TokenSet>> {
        self.oauth.tokens().await.unwrap()
    }

    /// Returns true if the mark of the previous tokens is known.
    fn has_mark(&self) -> bool {
        self.mark.lock().is_some()
    }

    async fn handle_refusal(&self, refusal: RejectedRequest<'_>) -> Result<RetryDecision, AuthorizerError> {
        let Some(owner) = &self.owner else {
            return self.oauth.handle_rejection(refusal).await.map_err(|error| {
                let cause = error.source.as_deref().and_then(|source| source.downcast_ref::<FlowError>());
                match self.shared_hint(cause).filter(|_| error.sign_in.is_none()) {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            });
        };
        let Some(accounts) = owner.accounts.upgrade().map(UpstreamAccounts) else {
            return Ok(RetryDecision::Refuse);
        };
        let wanted = Challenge::for_tokens(refusal.headers).and_then(|challenge| challenge.scopes());
        let wanted = wanted.map(|scopes| scopes.to_string());
        // 403 with scopes asks for more of them (RFC 6750, section 3.1); anything else is about the token itself.
        let is_missing = match refusal.status {
            StatusCode::FORBIDDEN => wanted.is_some(),
            _ => matches!(self.oauth.tokens().await, Ok(None)),
        };
        if is_missing && !refusal.request.background {
            // They were asked a moment ago, and may be about to say yes.
            let known = accounts.links().find_reusable(self, wanted.as_deref()).map(str::to_owned);
            if let Some(id) = known {
                return Err(self.sign_in_error(&accounts.link_url(&id)));
            }
        }
        self.oauth.handle_rejection(refusal).await.map_err(|error| match &error.sign_in {
            Some(page) => match self.create_link(&accounts, owner, page, wanted) {
                Some(url) => self.sign_in_error(&url),
                None => AuthorizerError::new("a sign-in link could not be created").because(error),
            },
            None => error,
        })
    }

    /// Returns the remedy for an account that everybody shares. A sign-in is named only where one is possible.
    fn shared_hint(&self, cause: Option<&FlowError>) -> Option<String> {
        let profile = self.profile.as_ref().map(|profile| format!(" --profile {profile}"));
        let server = shell_word(&visible_line(&self.server));
        let login = format!("hospes auth login {server}{}", profile.unwrap_or_default());
        match cause {
            Some(FlowError::NoMetadata) => {
                Some(format!("it offers no sign-in: {}", token_hint(&self.server)))
            }
            Some(FlowError::NeedsClientId(_)) => {
                Some(format!("register a client there; then: {login} --client-id ID"))
            }
            // The other side is at fault, or this machine.
            Some(
                FlowError::NoServerMetadata(_)
                | FlowError::Fetch { .. }
                | FlowError::Status { .. }
                | FlowError::Malformed { .. }
                | FlowError::Resource(_)
                | FlowError::Server(_)
                | FlowError::Registration { .. }
                | FlowError::Store(_)
                | FlowError::Crypto(_)
                | FlowError::Workload(_),
            ) => None,
            _ => Some(format!("sign in once for all users: {login}")),
        }
    }

    /// Creates a link that replaces the server's sign-in page. Only the account's user can open it.
    fn create_link(
        &self,
        accounts: &UpstreamAccounts,
        owner: &AccountOwner,
        page: &str,
        wanted: Option<String>,
    ) -> Option<String> {
        let account = self.this.upgrade()?;
        let id = Seed::from_system().ok()?.draw_text();
        let page = url::Url::parse(page).ok()?;
        let link =
            AccountLink::new(Arc::clone(&owner.user), Arc::clone(&self.server), self.host.clone(), page);
        let url = accounts.link_url(&id);
        accounts.links().create(id, link, account, wanted, accounts.current_limits());
        tracing::info!(server = %self.server, "account connection requested");
        Some(url)
    }

    fn sign_in_error(&self, url: &str) -> AuthorizerError {
        AuthorizerError::new(format!("`{}` requires you to sign in at {}", self.server, self.host))
            .sign_in(url)
    }
}

/// Returns what gives a server of the configuration a token of the person, in a header.
#[must_use]
pub fn token_hint(server: &str) -> String {
    format!(
        "hospes secret set {server}.TOKEN, and in the entry: headers = {{ Authorization = \"Bearer ${{secret:{server}.TOKEN}}\" }}"
    )
}

impl AccountAuthorizer for UpstreamAccount {
    fn changes(&self) -> watch::Receiver<SignInChanges> {
        self.changes.subscribe()
    }

    fn has_tokens(&self) -> ConnectorFuture<'_, bool> {
        Box::pin(async {
            self.recheck().await;
            matches!(self.oauth.tokens().await, Ok(Some(_)))
        })
    }
}

impl Authorizer for UpstreamAccount {
    fn headers<'a>(&'a self, request: OutboundRequest<'a>) -> AuthorizerFuture<'a, HeaderMap> {
        Box::pin(async move {
            self.recheck_if_due().await;
            if !self.has_mark() {
                self.detect_identity_change(false).await;
            }
            self.oauth.headers(request).await
        })
    }

    fn handle_rejection<'a>(&'a self, refusal: RejectedRequest<'a>) -> AuthorizerFuture<'a, RetryDecision> {
        Box::pin(self.handle_refusal(refusal))
    }
}

impl fmt::Debug for UpstreamAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamAccount").field("server", &self.server).finish_non_exhaustive()
    }
}
