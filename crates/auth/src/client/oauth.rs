//! What drives the flows: asks servers, keeps what they say, and lets requests of an MCP client in.

mod authorizer;
mod builder;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::{OnceCell, OwnedMutexGuard};
use url::Url;

pub use builder::OAuthClientBuilder;

use super::error::FlowError;
use super::flow::{Cause, Effect, Flow, Input};
use super::proof::ProofKey;
use super::renew::{Renewal, Renewed};
use super::settings::{Grant, Registration, Settings};
use super::sign_in::{Answer, Listening, SignIn};
use super::store::{self, Store, StoreError};
use super::tokens::Tokens;
use crate::egress::GuardedClient;
use crate::metadata::is_secure;
use crate::{Challenge, Clock, Issuer, Scopes, Seed};

/// How long nobody is asked again after somebody was asked and it came to nothing, in seconds: what waited meanwhile
/// fails with it.
const COOL_DOWN_SECONDS: u64 = 5;
/// How many sign-ins that others were asked for are remembered.
const MAX_LATER: usize = 16;

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
    later: Mutex<Vec<Flow>>,
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
    steps: HashMap<String, u32>,
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
    /// When it is no URL.
    pub fn builder(endpoint: &str) -> Result<OAuthClientBuilder, url::ParseError> {
        Ok(OAuthClientBuilder::new(Url::parse(endpoint)?))
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
            Got::Later(url) => Err(FlowError::SignIn(format!("somebody has to visit {url}"))),
        }
    }

    /// Forgets the tokens.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sign_out(&self) -> Result<(), FlowError> {
        let _turn = self.turn().await;
        self.load().await?;
        self.forget().await
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
        let flow = {
            let mut later = self.0.later.lock().unwrap_or_else(PoisonError::into_inner);
            let found = later.iter().position(|flow| {
                matches!(flow.poll_effect(), Effect::Visit(visit) if Some(&visit.state) == state.as_ref())
            });
            found.map(|index| later.remove(index))
        };
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

    /// Looks once at what was kept.
    async fn load(&self) -> Result<(), FlowError> {
        let load = || async {
            let kept = self.kept_document().await?;
            let tokens = kept.and_then(|document| self.read_tokens(&document));
            let mut held = self.held();
            // What somebody got meanwhile is newer.
            if held.tokens.is_none() {
                held.tokens = tokens.map(Arc::new);
            }
            Ok(())
        };
        self.0.loaded.get_or_try_init(load).await.map(|_| ())
    }

    async fn kept_document(&self) -> Result<Option<SecretString>, FlowError> {
        let name = store::tokens_key(&self.0.endpoint, &self.0.account);
        self.stored(move |store| store.read(&name)).await
    }

    fn read_tokens(&self, document: &SecretString) -> Option<Tokens> {
        store::read_tokens(document, &self.0.endpoint, self.0.settings.given.as_ref())
    }

    /// Asks the store, which may take its time.
    async fn stored<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, FlowError> {
        let store = Arc::clone(&self.0.store);
        let done = tokio::task::spawn_blocking(move || work(&*store)).await;
        let failed = |error: &dyn fmt::Display| FlowError::Store(error.to_string());
        done.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
    }

    /// Keeps new tokens in the place of the old.
    async fn keep(&self, tokens: Tokens, is_new: bool) -> Result<Arc<Tokens>, FlowError> {
        let name = store::tokens_key(&self.0.endpoint, &self.0.account);
        let document = store::write_tokens(&tokens);
        let tokens = Arc::new(tokens);
        {
            let mut held = self.held();
            held.tokens = Some(Arc::clone(&tokens));
            held.is_new = is_new;
        }
        tracing::info!(
            resource = %tokens.resource,
            issuer = %tokens.issuer,
            token = crate::fingerprint(tokens.access.expose_secret()),
            "the server's token was replaced"
        );
        let written = match document {
            Some(document) => self.stored(move |store| store.write(&name, &document)).await,
            None => Err(FlowError::Store("it cannot be written".into())),
        };
        // They are good as long as the program runs; but not to say so would be to ask again next time for no visible
        // reason.
        if let Err(error) = &written {
            tracing::warn!(%error, "the tokens could not be kept");
        }
        self.held().is_unsaved = written.is_err();
        Ok(tokens)
    }

    async fn forget(&self) -> Result<(), FlowError> {
        let name = store::tokens_key(&self.0.endpoint, &self.0.account);
        {
            let mut held = self.held();
            held.tokens = None;
            held.is_new = false;
            held.is_unsaved = false;
        }
        self.stored(move |store| store.remove(&name)).await
    }

    /// Does what must be done to its end: the token that a server takes only once is gone when it is sent, and what
    /// comes back for it would be lost with whoever waits for it.
    async fn to_the_end<T: Send + 'static>(
        turn: &Turn,
        work: impl Future<Output = Result<T, FlowError>> + Send + 'static,
    ) -> Result<T, FlowError> {
        let turn = Arc::clone(turn);
        let working = tokio::spawn(async move {
            let _turn = turn;
            work.await
        });
        working.await.unwrap_or(Err(FlowError::OutOfOrder))
    }

    /// Renews the tokens, if they are still these and can be renewed.
    async fn renew(&self, turn: &Turn, tokens: &Arc<Tokens>) -> Result<Outcome, FlowError> {
        let (this, tokens) = (self.clone(), Arc::clone(tokens));
        Self::to_the_end(turn, async move { this.renew_now(&tokens).await }).await
    }

    async fn renew_now(&self, tokens: &Arc<Tokens>) -> Result<Outcome, FlowError> {
        let _lock = self.stored(|store| store.lock()).await?;
        // Another process may have been faster; its refresh token is the only one that is still good.
        let is_unsaved = self.held().is_unsaved;
        match self.kept_document().await? {
            Some(document) => {
                let newer = self.read_tokens(&document).filter(|kept| {
                    let is_later = if is_unsaved {
                        kept.issued_at > tokens.issued_at
                    } else {
                        kept.issued_at >= tokens.issued_at
                    };
                    is_later && kept.access.expose_secret() != tokens.access.expose_secret()
                });
                if let Some(kept) = newer.map(Arc::new) {
                    {
                        let mut held = self.held();
                        held.tokens = Some(Arc::clone(&kept));
                        held.is_unsaved = false;
                    }
                    if !kept.is_stale(self.0.clock.now()) {
                        return Ok(Outcome::Renewed(kept));
                    }
                }
            }
            None if is_unsaved => {}
            // Another process has signed out.
            None => {
                let mut held = self.held();
                held.tokens = None;
                held.is_new = false;
                return Ok(Outcome::Impossible);
            }
        }
        let current = self.held().tokens.clone().unwrap_or_else(|| Arc::clone(tokens));
        let mut seed = seed()?;
        let audience = self.0.settings.assertion_audience.as_deref();
        let begun = Renewal::begin(&current, audience, &mut seed, self.0.clock.now())?;
        let Some((mut renewal, mut request)) = begun else { return Ok(Outcome::Impossible) };
        loop {
            let url = crate::exchange::without_query(&request.url);
            let response = self.0.http.fetch(request).await;
            let response =
                response.map_err(|why| FlowError::Fetch { what: "the token endpoint", url, why })?;
            match renewal.handle(&response, &mut seed, self.0.clock.now()) {
                Renewed::Tokens(tokens) => return Ok(Outcome::Renewed(self.keep(*tokens, false).await?)),
                Renewed::Again(again) => request = again,
                Renewed::Lost => {
                    self.forget().await?;
                    return Ok(Outcome::Impossible);
                }
                Renewed::Failed(error) => return Err(error),
            }
        }
    }

    /// Runs a whole authorization.
    async fn authorize(
        &self,
        turn: &Turn,
        challenge: Option<Challenge>,
        before: Scopes,
    ) -> Result<Got, FlowError> {
        if !is_secure(&self.0.endpoint) {
            return Err(FlowError::Insecure);
        }
        let mut cause = Cause::new(self.0.endpoint.clone(), challenge);
        cause.requested_before = before;
        let beginning = store::registration_key("");
        let known = self.stored(move |store| store.names(&beginning)).await?;
        let issuers = known.iter().filter_map(|name| name.split_once(' ')).map(|(_, issuer)| issuer);
        cause.known = issuers.filter_map(|issuer| Issuer::new(issuer).ok()).collect();
        let held_key = self.held().tokens.as_ref().and_then(|tokens| tokens.proof_key.clone());
        cause.proof_key = Some(match held_key {
            Some(key) => key,
            None => Arc::new(ProofKey::generate()?),
        });
        if let Some(given) = &self.0.settings.given {
            let name = store::binding_key(&self.0.endpoint, &self.0.account, &given.id);
            let bound = self.stored(move |store| store.read(&name)).await?;
            let bound =
                bound.and_then(|text| serde_json::from_str::<store::Binding>(text.expose_secret()).ok());
            cause.bound = bound.map(|bound| bound.issuer);
        }
        let flow = Flow::new(Arc::clone(&self.0.settings), cause, seed()?, self.0.clock.now());
        self.run(turn, flow).await
    }

    /// The answer has come; what it is worth is worth it only once.
    async fn redeem(&self, turn: &Turn, mut flow: Flow) -> Result<Arc<Tokens>, FlowError> {
        let this = self.clone();
        let redeeming = async move {
            loop {
                let input = match flow.poll_effect().clone() {
                    Effect::Done(tokens) => return this.keep(*tokens, true).await,
                    Effect::Failed(error) => return Err(error),
                    Effect::Fetch(request) => Input::Response(this.0.http.fetch(request).await),
                    _ => return Err(FlowError::OutOfOrder),
                };
                flow.handle(input, this.0.clock.now());
            }
        };
        Self::to_the_end(turn, redeeming).await
    }

    /// Somebody was asked, and it came to nothing.
    fn denied(&self, error: FlowError) -> FlowError {
        self.held().denied = Some((self.0.clock.now(), error.clone()));
        error
    }

    async fn run(&self, turn: &Turn, mut flow: Flow) -> Result<Got, FlowError> {
        let mut listening: Option<Box<dyn Listening>> = None;
        loop {
            let input = match flow.poll_effect().clone() {
                Effect::Done(tokens) => return Ok(Got::Tokens(self.keep(*tokens, true).await?)),
                Effect::Failed(error) => return Err(error),
                Effect::Fetch(request) => Input::Response(self.0.http.fetch(request).await),
                Effect::Recall(issuer) => {
                    let name = store::registration_key(issuer.as_str());
                    let document = self.stored(move |store| store.read(&name)).await?;
                    Input::Registration(
                        document.and_then(|text| store::read_registration(&text)).map(Box::new),
                    )
                }
                Effect::Keep(registration) => {
                    self.keep_registration(&registration).await?;
                    Input::Kept
                }
                Effect::Listen { preferred } => match &self.0.sign_in {
                    None => Input::Failed(FlowError::SignIn("nobody here can".into())),
                    Some(sign_in) => match sign_in.listen(preferred.as_ref()).await {
                        Ok(ready) => Input::Listening(listening.insert(ready).redirect_uri()),
                        Err(error) => Input::Failed(FlowError::SignIn(error.to_string())),
                    },
                },
                Effect::Visit(visit) => {
                    tracing::info!(issuer = %visit.issuer, scopes = %visit.scopes, "somebody is asked to sign in");
                    let url = visit.url.clone();
                    match listening.take() {
                        None => Input::Failed(FlowError::OutOfOrder),
                        Some(ready) => match ready.visit(visit).await {
                            Ok(Answer::Redirected(url)) => {
                                flow.handle(Input::Redirected(url), self.0.clock.now());
                                let redeemed = self.redeem(turn, flow).await;
                                return redeemed.map(Got::Tokens).map_err(|error| self.denied(error));
                            }
                            Ok(Answer::Later) => {
                                let mut later = self.0.later.lock().unwrap_or_else(PoisonError::into_inner);
                                if later.len() >= MAX_LATER {
                                    later.remove(0);
                                }
                                later.push(flow);
                                return Ok(Got::Later(url));
                            }
                            Err(error) => {
                                return Err(self.denied(FlowError::SignIn(error.to_string())));
                            }
                        },
                    }
                }
            };
            flow.handle(input, self.0.clock.now());
        }
    }

    async fn keep_registration(&self, registration: &Registration) -> Result<(), FlowError> {
        let failed = || FlowError::Store("it cannot be written".into());
        let (name, document) = if registration.redirect_uri.is_some() {
            (store::registration_key(registration.issuer.as_str()), store::write_registration(registration))
        } else {
            let binding = store::Binding { issuer: registration.issuer.clone() };
            let name = store::binding_key(&self.0.endpoint, &self.0.account, &registration.client.id);
            (name, serde_json::to_string(&binding).ok().map(Into::into))
        };
        let document = document.ok_or_else(failed)?;
        self.stored(move |store| store.write(&name, &document)).await
    }

    /// Whether tokens come without a person.
    fn asks_nobody(&self) -> bool {
        !matches!(self.0.settings.grant, Grant::Code)
    }
}

/// What became of a renewal.
enum Outcome {
    Renewed(Arc<Tokens>),
    /// There is nothing to renew by.
    Impossible,
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
