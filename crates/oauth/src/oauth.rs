//! The OAuth client: runs the flows, stores tokens and authorizes the requests of an MCP client.

mod authorization;
mod authorizer;
mod builder;
mod pending_sign_ins;
mod refreshing;
mod repair;
mod revocation;
#[cfg(test)]
mod tests;
mod token_storage;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hospes_auth::egress::GuardedClient;
use hospes_auth::{Challenge, Scopes, Seed, UnixClock};
use secrecy::ExposeSecret as _;
use tokio::sync::{OnceCell, OwnedMutexGuard};
use url::Url;

use self::authorizer::StepUpAttempts;
pub use self::authorizer::{NO_SIGN_IN_HINT, RESOURCE_MISMATCH_HINT};
pub use self::builder::{InvalidEndpoint, OAuthClientBuilder};
pub use self::repair::{RepairReport, RepairStep};
pub use self::revocation::RevocationResult;
use super::error::FlowError;
use super::flow::FlowInput;
use super::pending::PendingStore;
use super::settings::OAuthClientSettings;
use super::sign_in::SignInHandler;
use super::store::CredentialStore;
use super::tokens::TokenSet;

/// Time for which no user is asked again after a failed sign-in, in seconds. Requests that waited meanwhile fail with
/// the same error.
const COOL_DOWN_SECONDS: u64 = 5;

/// Signs in to one MCP server over HTTP, and keeps the tokens for it: an `Authorizer` of the SDK's client.
///
/// ```no_run
/// use std::sync::Arc;
/// use hospes::client::{Client, Target};
/// use hospes_oauth::{BrowserSignIn, OAuthClient};
///
/// # async fn f(open: fn(&url::Url) -> std::io::Result<()>) -> Result<(), Box<dyn std::error::Error>> {
/// let url = "https://example.com/mcp";
/// let oauth = OAuthClient::builder(url)?.sign_in(BrowserSignIn::new(open)).build();
/// let client = Client::connect(Target::url(url).authorizer(Arc::new(oauth))).await?;
/// # Ok(())
/// # }
/// ```
///
/// Cheap to clone; all clones share their tokens.
#[derive(Clone)]
pub struct OAuthClient(Arc<OAuthClientInner>);

struct OAuthClientInner {
    endpoint: Url,
    account: String,
    settings: Arc<OAuthClientSettings>,
    http: GuardedClient,
    store: Arc<dyn CredentialStore>,
    sign_in: Option<Arc<dyn SignInHandler>>,
    clock: UnixClock,
    /// Set once the stored tokens have been loaded.
    loaded: OnceCell<()>,
    held: Mutex<HeldTokens>,
    /// Held while a task authorizes or renews. Other tasks wait and use its result.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Sign-ins that others were asked for.
    pending: Arc<dyn PendingStore>,
}

#[derive(Default)]
struct HeldTokens {
    tokens: Option<Arc<TokenSet>>,
    /// True if the tokens come from a new authorization and have not been accepted by a request yet.
    is_new: bool,
    /// True if the tokens could not be stored, so the store has older ones.
    is_unsaved: bool,
    /// Earliest time of a renewal of tokens that are still valid, in seconds since 1970. Set after a failed renewal.
    not_before: u64,
    /// Time of the last failed sign-in, in seconds since 1970, and its error.
    denied: Option<(u64, FlowError)>,
    /// Number of step-up authorizations per operation.
    steps: HashMap<String, StepUpAttempts>,
    /// Nonce that the next proof to the server must carry.
    nonce: Option<String>,
}

/// Lock for authorizing or renewing; held as long as any clone exists.
type AuthorizationLock = Arc<OwnedMutexGuard<()>>;

/// Result of an attempt to get tokens.
enum AuthorizeResult {
    Tokens(Arc<TokenSet>),
    /// A person has to visit this first.
    Later(Url),
}

impl OAuthClient {
    /// Creates a builder of a client for the MCP endpoint at this URL.
    ///
    /// # Errors
    /// If it is not a URL, or tokens would be sent unencrypted: over http to another machine.
    pub fn builder(endpoint: &str) -> Result<OAuthClientBuilder, InvalidEndpoint> {
        OAuthClientBuilder::new(endpoint)
    }

    /// Returns the current tokens, if there are any.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn tokens(&self) -> Result<Option<Arc<TokenSet>>, FlowError> {
        self.load().await?;
        Ok(self.held().tokens.clone())
    }

    /// Signs in, even if there are tokens. `challenge` is the challenge of the server, if there is one.
    ///
    /// # Errors
    /// The reason why the sign-in failed.
    pub async fn sign_in(&self, challenge: Option<Challenge>) -> Result<Arc<TokenSet>, FlowError> {
        let turn = self.lock_authorization().await;
        match self.authorize(&turn, challenge, Scopes::none()).await? {
            AuthorizeResult::Tokens(tokens) => Ok(tokens),
            AuthorizeResult::Later(url) => Err(FlowError::Visit(url)),
        }
    }

    /// Forgets the tokens. A renewal that another program is at is waited for.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sign_out(&self) -> Result<(), FlowError> {
        let turn = self.lock_authorization().await;
        self.load().await?;
        let this = self.clone();
        // Even if the caller is dropped: half a sign-out would leave the tokens in memory or in the store.
        Self::run_to_completion(&turn, async move { this.take_for_sign_out().await.1 }).await
    }

    /// Reloads the stored tokens: another program may have signed in or out, or as another user. Does nothing while new
    /// tokens are being obtained here, and returns false then.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn recheck(&self) -> Result<bool, FlowError> {
        self.load().await?;
        // Whoever is getting new ones has not kept them yet.
        let Ok(_turn) = self.0.turn.try_lock() else { return Ok(false) };
        let kept = self.read_stored_document().await?.and_then(|document| self.read_tokens(&document));
        let mut held = self.held();
        let is_same = match (&held.tokens, &kept) {
            (Some(held), Some(kept)) => held.access.expose_secret() == kept.access.expose_secret(),
            (held, kept) => held.is_none() && kept.is_none(),
        };
        // What could never be kept is still good.
        if !held.is_unsaved && !is_same {
            (held.tokens, held.is_new) = (kept.map(Arc::new), false);
        }
        Ok(true)
    }

    /// Completes a sign-in that was deferred. `redirected` is the URL to which the browser was sent back.
    ///
    /// # Errors
    /// When nothing like it is waited for, or it comes to nothing.
    pub async fn finish(&self, redirected: &str) -> Result<Arc<TokenSet>, FlowError> {
        let turn = self.lock_authorization().await;
        let state = Url::parse(redirected).ok().and_then(|url| {
            url.query_pairs().find(|(name, _)| name == "state").map(|(_, state)| state.into_owned())
        });
        // Taken out, so that an answer is used once, even if it is refused.
        let flow = match state {
            Some(state) => self.take_sign_in(&state).await?,
            None => None,
        };
        let mut flow = flow.ok_or(super::RedirectError::State)?;
        flow.handle(FlowInput::Redirected(redirected.to_owned()), self.0.clock.now());
        self.redeem(&turn, flow).await
    }

    async fn lock_authorization(&self) -> AuthorizationLock {
        Arc::new(Arc::clone(&self.0.turn).lock_owned().await)
    }

    fn held(&self) -> MutexGuard<'_, HeldTokens> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if tokens are obtained without a user.
    fn is_unattended(&self) -> bool {
        !self.0.settings.grant.needs_user()
    }
}

fn seed() -> Result<Seed, FlowError> {
    Seed::from_system().map_err(|_| FlowError::Crypto("random numbers"))
}

impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthClient")
            .field("endpoint", &hospes_auth::without_query(&self.0.endpoint))
            .finish_non_exhaustive()
    }
}
