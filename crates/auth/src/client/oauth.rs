//! What drives the flows: asks servers, keeps what they say, and lets requests of an MCP client in.

mod authorizer;
mod authorizing;
mod builder;
mod keeping;
mod later;
mod renewing;
mod repair;
mod revoking;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use secrecy::ExposeSecret as _;
use tokio::sync::{OnceCell, OwnedMutexGuard};
use url::Url;

pub use self::authorizer::RESOURCE_MISMATCH_HINT;
use self::authorizer::Steps;
pub use self::builder::{InvalidEndpoint, OAuthClientBuilder};
use self::later::Later;
pub use self::repair::{Repair, Repaired};
pub use self::revoking::Revoked;
use super::error::FlowError;
use super::flow::Input;
use super::settings::Settings;
use super::sign_in::SignIn;
use super::store::Store;
use super::tokens::Tokens;
use crate::egress::GuardedClient;
use crate::{Challenge, Clock, Scopes, Seed};

/// How long nobody is asked again after somebody was asked and it came to nothing, in seconds: what waited meanwhile
/// fails with it.
const COOL_DOWN_SECONDS: u64 = 5;

/// Signs in to one MCP server over HTTP, and keeps the tokens for it: an `Authorizer` of the SDK's client.
///
/// ```no_run
/// use std::sync::Arc;
/// use hospes::client::{Client, Target};
/// use hospes_auth::client::{Browser, OAuthClient};
///
/// # async fn f(open: fn(&url::Url) -> std::io::Result<()>) -> Result<(), Box<dyn std::error::Error>> {
/// let url = "https://example.com/mcp";
/// let oauth = OAuthClient::builder(url)?.sign_in(Browser::new(open)).build();
/// let client = Client::connect(Target::url(url).authorizer(Arc::new(oauth))).await?;
/// # Ok(())
/// # }
/// ```
///
/// Cheap to clone; all clones share their tokens.
#[derive(Clone)]
pub struct OAuthClient(Arc<Inner>);

struct Inner {
    endpoint: Url,
    account: String,
    settings: Arc<Settings>,
    http: GuardedClient,
    store: Arc<dyn Store>,
    sign_in: Option<Arc<dyn SignIn>>,
    clock: Clock,
    /// What was kept has been looked at.
    loaded: OnceCell<()>,
    held: Mutex<Held>,
    /// Held by whoever authorizes or renews; the others wait and use what came of it.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Sign-ins that others were asked for.
    later: Mutex<Later>,
}

#[derive(Default)]
struct Held {
    tokens: Option<Arc<Tokens>>,
    /// The tokens came of an authorization, not of a renewal or the store, and no request has been let in by them yet.
    is_new: bool,
    /// The store could not be given them, so what it has is older.
    is_unsaved: bool,
    /// Before this moment, in seconds since 1970, tokens that are still good are not renewed: it failed just now.
    not_before: u64,
    /// When a person was last asked for nothing, in seconds since 1970, and what came of it.
    denied: Option<(u64, FlowError)>,
    /// How often more was asked for because an operation wanted more.
    steps: HashMap<String, Steps>,
    /// What the next proof to the server must carry.
    nonce: Option<String>,
}

/// The right to authorize or renew; whoever has a share of it has it still.
type Turn = Arc<OwnedMutexGuard<()>>;

/// What became of an attempt to get tokens.
enum Got {
    Tokens(Arc<Tokens>),
    /// A person has to visit this first.
    Later(Url),
}

impl OAuthClient {
    /// For the MCP endpoint at this URL.
    ///
    /// # Errors
    /// When it is no URL, or a token would go there in the open: over http to another machine.
    pub fn builder(endpoint: &str) -> Result<OAuthClientBuilder, InvalidEndpoint> {
        OAuthClientBuilder::new(endpoint)
    }

    /// The tokens that are held, if any are.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tokens(&self) -> Result<Option<Arc<Tokens>>, FlowError> {
        self.load().await?;
        Ok(self.held().tokens.clone())
    }

    /// Signs in now, whatever is held: the server is asked what it wants of `challenge`, or of nothing.
    ///
    /// # Errors
    /// Why it came to nothing.
    pub async fn sign_in(&self, challenge: Option<Challenge>) -> Result<Arc<Tokens>, FlowError> {
        let turn = self.turn().await;
        match self.authorize(&turn, challenge, Scopes::none()).await? {
            Got::Tokens(tokens) => Ok(tokens),
            Got::Later(url) => Err(FlowError::Visit(url)),
        }
    }

    /// Forgets the tokens. A renewal that another program is at is waited for.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sign_out(&self) -> Result<(), FlowError> {
        let turn = self.turn().await;
        self.load().await?;
        let this = self.clone();
        Self::to_the_end(&turn, async move { this.give_up().await.1 }).await
    }

    /// Looks again at what is kept: another program may have signed in or out meanwhile, or as somebody else. While tokens are being got
    /// here, nothing is looked at.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn recheck(&self) -> Result<(), FlowError> {
        self.load().await?;
        // Whoever is getting new ones has not kept them yet.
        let Ok(_turn) = self.0.turn.try_lock() else { return Ok(()) };
        let kept = self.kept_document().await?.and_then(|document| self.read_tokens(&document));
        let mut held = self.held();
        let is_same = match (&held.tokens, &kept) {
            (Some(held), Some(kept)) => held.access.expose_secret() == kept.access.expose_secret(),
            (held, kept) => held.is_none() && kept.is_none(),
        };
        // What could never be kept is still good.
        if !held.is_unsaved && !is_same {
            (held.tokens, held.is_new) = (kept.map(Arc::new), false);
        }
        Ok(())
    }

    /// Goes on with a sign-in that somebody else was asked for: `redirected` is the URL to which their browser was sent
    /// back.
    ///
    /// # Errors
    /// When nothing like it is waited for, or it comes to nothing.
    pub async fn finish(&self, redirected: &str) -> Result<Arc<Tokens>, FlowError> {
        let turn = self.turn().await;
        let state = Url::parse(redirected).ok().and_then(|url| {
            url.query_pairs().find(|(name, _)| name == "state").map(|(_, state)| state.into_owned())
        });
        let flow = state.and_then(|state| self.later().take(&state));
        let mut flow = flow.ok_or(super::RedirectError::State)?;
        flow.handle(Input::Redirected(redirected.to_owned()), self.0.clock.now());
        self.redeem(&turn, flow).await
    }

    async fn turn(&self) -> Turn {
        Arc::new(Arc::clone(&self.0.turn).lock_owned().await)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn later(&self) -> MutexGuard<'_, Later> {
        self.0.later.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether tokens come without a person.
    fn asks_nobody(&self) -> bool {
        !self.0.settings.grant.asks_a_person()
    }
}

fn seed() -> Result<Seed, FlowError> {
    Seed::from_system().map_err(|_| FlowError::Crypto("randomness"))
}

impl fmt::Debug for OAuthClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthClient")
            .field("endpoint", &crate::exchange::without_query(&self.0.endpoint))
            .finish_non_exhaustive()
    }
}
