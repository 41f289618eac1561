//! An account at one upstream server.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hospes::client::{
    Authorizer, AuthorizerError, AuthorizerFuture, OutboundRequest, RejectedRequest, RetryDecision,
};
use hospes_auth::{AccountLink, AccountStatus, Challenge, ConnectAccountError, DisconnectResult, Seed};
use hospes_oauth::{FlowError, OAuthClient, RedirectError, RevocationResult, StepError};
use hospes_policy::visible_line;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::{UpstreamAccounts, UpstreamAccountsInner};
use crate::server::{AccountAuthorizer, ConnectorFuture, SignInChanges};
use crate::shell_word::shell_word;

/// Minimum interval between checks whether another program has signed in or out, if the store does not tell.
const RECHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum time for which a request waits for a check. A database that several nodes share may be out of reach.
const RECHECK_LIMIT: Duration = Duration::from_secs(1);

/// Authorizes requests to a server with an account.
pub(crate) struct UpstreamAccount {
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
    checks: Mutex<StoreChecks>,
}

/// What tells when to look at the store again.
struct StoreChecks {
    looked: Instant,
    /// Counter of changes of the store, if it has one.
    changes: Option<watch::Receiver<u64>>,
    /// True if the last check did not succeed.
    has_failed: bool,
}

impl StoreChecks {
    /// Returns true if a check is due, and begins it.
    fn begin_if_due(&mut self) -> bool {
        let is_time = self.looked.elapsed() >= RECHECK_INTERVAL;
        let is_due = match &mut self.changes {
            // Unless it changes, the store is not asked: requests go on while it is out of reach.
            Some(changes) => {
                let has_changed = changes.has_changed().unwrap_or_default();
                changes.mark_unchanged();
                has_changed || (self.has_failed && is_time)
            }
            None => is_time,
        };
        if is_due {
            // Set before looking, so that requests that come meanwhile do not all look.
            self.looked = Instant::now();
        }
        is_due
    }
}

/// User who owns an account, and the source of sign-in links for that user.
pub(super) struct AccountOwner {
    pub(super) user: Arc<str>,
    /// They have links, which have us.
    pub(super) accounts: Weak<UpstreamAccountsInner>,
}

impl UpstreamAccount {
    /// Creates the account that all users share, or that all users of a profile do. `changes` counts changes of the store,
    /// if it can tell.
    pub(super) fn shared(
        oauth: OAuthClient,
        server: Arc<str>,
        profile: Option<&str>,
        host: String,
        changes: Option<watch::Receiver<u64>>,
    ) -> Arc<Self> {
        Self::new(oauth, (server, profile), host, None, changes)
    }

    /// Creates the account of one user.
    pub(super) fn of_user(
        oauth: OAuthClient,
        server: Arc<str>,
        host: String,
        owner: AccountOwner,
        changes: Option<watch::Receiver<u64>>,
    ) -> Arc<Self> {
        Self::new(oauth, (server, None), host, Some(owner), changes)
    }

    fn new(
        oauth: OAuthClient,
        (server, profile): (Arc<str>, Option<&str>),
        host: String,
        owner: Option<AccountOwner>,
        changes: Option<watch::Receiver<u64>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            oauth,
            server,
            profile: profile.map(Box::from),
            host,
            owner,
            changes: watch::Sender::default(),
            mark: Mutex::default(),
            checks: Mutex::new(StoreChecks { looked: Instant::now(), changes, has_failed: false }),
        })
    }

    /// Returns the name of the account among pending documents: of its server and its user.
    pub(super) fn family(&self) -> String {
        // The name of a server has no line break.
        format!("{}\n{}", self.server, self.owner.as_ref().map_or("", |owner| &owner.user))
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
            UpstreamAccounts(accounts).links().remove_links_of(self).await.map_err(|error| {
                tracing::error!(server = %self.server, %error, "failed to remove the links of an account");
                ConnectAccountError::Failed
            })?;
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

    /// Checks again if the store may have changed.
    async fn recheck_if_due(&self) {
        // The guard ends with the statement, so that it is not held over the look at the store.
        let is_due = self.checks.lock().begin_if_due();
        if is_due {
            self.recheck().await;
        }
    }

    /// Reads the store again, which another program or another node may have changed.
    pub(super) async fn recheck(&self) {
        let had_tokens = matches!(self.oauth.tokens().await, Ok(Some(_)));
        let checked = match timeout(RECHECK_LIMIT, self.oauth.recheck()).await {
            Ok(Ok(is_checked)) => is_checked,
            Ok(Err(error)) => {
                tracing::warn!(server = %self.server, %error, "failed to check whether the account is still connected");
                false
            }
            Err(_) => {
                tracing::warn!(server = %self.server, "the credential store did not tell in time whether the account is still connected");
                false
            }
        };
        self.checks.lock().has_failed = !checked;
        // Whoever waits for a sign-in goes on after one elsewhere.
        let is_connected = !had_tokens && matches!(self.oauth.tokens().await, Ok(Some(_)));
        self.detect_identity_change(is_connected).await;
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
            let known = accounts.links().find_reusable(self, wanted.as_deref()).await;
            if let Some(id) = known.map_err(link_error)? {
                return Err(self.sign_in_error(&accounts.link_url(&id)));
            }
        }
        let error = match self.oauth.handle_rejection(refusal).await {
            Ok(decision) => return Ok(decision),
            Err(error) => error,
        };
        let Some(page) = &error.sign_in else { return Err(error) };
        match self.create_link(&accounts, owner, page, wanted).await {
            Ok(Some(url)) => Err(self.sign_in_error(&url)),
            Ok(None) => Err(AuthorizerError::new("a sign-in link could not be created").because(error)),
            Err(failure) => Err(link_error(failure)),
        }
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
    async fn create_link(
        &self,
        accounts: &UpstreamAccounts,
        owner: &AccountOwner,
        page: &str,
        wanted: Option<String>,
    ) -> Result<Option<String>, StepError> {
        let (Ok(mut seed), Ok(page)) = (Seed::from_system(), url::Url::parse(page)) else { return Ok(None) };
        let id = seed.draw_text();
        let link =
            AccountLink::new(Arc::clone(&owner.user), Arc::clone(&self.server), self.host.clone(), page);
        let url = accounts.link_url(&id);
        accounts.links().create(id, link, self, wanted, accounts.current_limits()).await?;
        tracing::info!(server = %self.server, "account connection requested");
        Ok(Some(url))
    }

    fn sign_in_error(&self, url: &str) -> AuthorizerError {
        AuthorizerError::new(format!("`{}` requires you to sign in at {}", self.server, self.host))
            .sign_in(url)
    }
}

/// Returns the error of a link that could not be stored or read.
// By value, for use with `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn link_error(error: StepError) -> AuthorizerError {
    AuthorizerError::new(format!("sign-in links are not available at the moment: {error}"))
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
