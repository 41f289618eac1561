//! An authorization flow without I/O, from a rejected request to tokens. It outputs actions and takes their results as
//! input.
//!
//! ```text
//! FindResource ─▶ FindServer ─▶ Register ─▶ Pending ─▶ Redeem ─▶ (tokens)
//!                     │                                  ▲
//!                     │             └──── Device ─▶ (tokens)
//!                     ├── client credentials, workload ──┤
//!                     └── Vouch (enterprise) ────────────┘
//! ```
//!
//! Each state is consumed to create the next, so no response, code or verifier is used twice.

mod authorize;
mod device;
mod discovered_server;
mod grant_types;
mod redeem;
mod redirect;
mod register;
mod resource;
mod server;
#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "scripts read better without ampersands")]
mod tests;
mod token_exchange;
mod unattended;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hospes_auth::egress::FetchError;
use hospes_auth::{Challenge, FetchRequest, FetchResponse, Issuer, RedirectUri, Scopes, Seed, without_query};
use url::Url;

use self::authorize::PendingAuthorization;
use self::device::DeviceAuthorization;
use self::redeem::RedeemGrant;
pub(super) use self::redirect::PENDING_SECONDS;
use self::register::RegisterClient;
use self::resource::FindResource;
use self::server::FindServer;
use self::token_exchange::TokenExchange;
use super::error::FlowError;
use super::proof_key::ProofKey;
use super::settings::{ClientRegistration, OAuthClientSettings};
use super::tokens::TokenSet;

/// Next action that the flow requires from its caller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FlowEffect {
    /// Send this request; the result is [`FlowInput::Response`].
    Fetch(FetchRequest),
    /// Look up how this server knows us; [`FlowInput::Registration`].
    Recall(Issuer),
    /// Be ready where answers come to, there if that is possible; [`FlowInput::Listening`].
    Listen {
        /// Redirect URI that the server expects.
        preferred: Option<RedirectUri>,
    },
    /// Keep this, under its issuer; [`FlowInput::Kept`].
    Keep(Box<ClientRegistration>),
    /// Bring the user to this page and wait for the redirect; the result is [`FlowInput::Redirected`].
    Visit(AuthorizationPrompt),
    /// Show the user a code, and continue; [`FlowInput::Shown`].
    Show(Box<DevicePrompt>),
    /// Let so much time pass; [`FlowInput::Waited`].
    Wait(Duration),
    /// The flow has succeeded.
    Done(Box<TokenSet>),
    /// The flow has failed.
    Failed(FlowError),
}

/// Authorization page that a user has to visit.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthorizationPrompt {
    /// The page. It is https, or on this machine.
    pub url: Url,
    /// Redirect URI that receives the response.
    pub redirect_uri: RedirectUri,
    /// Value of `state` that the matching response carries.
    pub state: String,
    /// Issuer that asks for authorization.
    pub issuer: Issuer,
    /// Requested scopes.
    pub scopes: Scopes,
}

impl fmt::Debug for AuthorizationPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationPrompt")
            .field("url", &without_query(&self.url))
            .field("issuer", &self.issuer)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// Code and page for a user who authorizes on another device.
#[derive(Clone)]
#[non_exhaustive]
pub struct DevicePrompt {
    /// The page on which the code is entered. It is https, or on this machine.
    pub verification_uri: Url,
    /// The page with the code included, to be shown as a QR code or opened.
    pub verification_uri_complete: Option<Url>,
    /// Code to enter.
    pub user_code: String,
    /// Issuer that asks for authorization.
    pub issuer: Issuer,
    /// Requested scopes.
    pub scopes: Scopes,
    /// Until when it can be entered, in seconds since 1970; half an hour at the most.
    pub ends_at: u64,
}

// Whoever knows the code can enter it.
impl fmt::Debug for DevicePrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevicePrompt")
            .field("verification_uri", &without_query(&self.verification_uri))
            .field("issuer", &self.issuer)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// Result of an action.
#[non_exhaustive]
pub enum FlowInput {
    /// The response, or the error that prevented it.
    Response(Result<FetchResponse, FetchError>),
    /// The known client registration with the server, if there is one.
    Registration(Option<Box<ClientRegistration>>),
    /// Redirect URI of the listener.
    Listening(RedirectUri),
    /// The data was stored.
    Kept,
    /// The URL to which the browser was sent back.
    Redirected(String),
    /// The person has the code.
    Shown,
    /// The time has passed.
    Waited,
    /// It could not be done.
    Failed(FlowError),
}

// The URL carries the code.
impl fmt::Debug for FlowInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Response(_) => "Response(..)",
            Self::Registration(_) => "Registration(..)",
            Self::Listening(_) => "Listening(..)",
            Self::Kept => "Kept",
            Self::Redirected(_) => "Redirected(..)",
            Self::Shown => "Shown",
            Self::Waited => "Waited",
            Self::Failed(_) => "Failed(..)",
        })
    }
}

/// Reason for an authorization, and the known facts.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthorizationCause {
    /// The MCP endpoint.
    pub endpoint: Url,
    /// Challenge of the refused request.
    pub challenge: Option<Challenge>,
    /// Scopes of the earlier request. They are requested again, so that step-up authorization adds scopes and replaces
    /// none.
    pub requested_before: Scopes,
    /// The authorization servers that know us.
    pub known: Vec<Issuer>,
    /// Key that tokens are bound to, if required.
    pub proof_key: Option<Arc<ProofKey>>,
    /// The authorization server to which the given client was bound when it was first used.
    pub bound: Option<Issuer>,
}

impl fmt::Debug for AuthorizationCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationCause")
            .field("endpoint", &without_query(&self.endpoint))
            .field("challenge", &self.challenge)
            .field("requested_before", &self.requested_before)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

impl AuthorizationCause {
    /// Creates the cause for an endpoint that rejected a request.
    #[must_use]
    pub fn new(endpoint: Url, challenge: Option<Challenge>) -> Self {
        Self {
            endpoint,
            challenge,
            requested_before: Scopes::none(),
            known: Vec::new(),
            proof_key: None,
            bound: None,
        }
    }
}

/// State machine of an authorization flow.
#[derive(Debug)]
pub struct AuthorizationFlow {
    facts: FlowContext,
    state: FlowState,
    effect: FlowEffect,
}

/// Data that all states share.
#[derive(Debug)]
struct FlowContext {
    settings: Arc<OAuthClientSettings>,
    cause: AuthorizationCause,
    seed: Seed,
    now: u64,
}

#[derive(Debug)]
enum FlowState {
    Resource(FindResource),
    Server(Box<FindServer>),
    Register(Box<RegisterClient>),
    Pending(Box<PendingAuthorization>),
    Device(Box<DeviceAuthorization>),
    Vouch(Box<TokenExchange>),
    Redeem(Box<RedeemGrant>),
    Over,
}

/// Next state and action, or the error that ends the flow.
type FlowStep = Result<(FlowState, FlowEffect), FlowError>;

impl AuthorizationFlow {
    /// Begins, at `now` (seconds since 1970).
    #[must_use]
    pub fn new(settings: Arc<OAuthClientSettings>, cause: AuthorizationCause, seed: Seed, now: u64) -> Self {
        let facts = FlowContext { settings, cause, seed, now };
        let mut flow =
            Self { state: FlowState::Over, effect: FlowEffect::Failed(FlowError::OutOfOrder), facts };
        let first = FindResource::begin(&flow.facts);
        flow.advance(first);
        flow
    }

    /// Returns the action to perform next.
    #[must_use]
    pub fn poll_effect(&self) -> &FlowEffect {
        &self.effect
    }

    /// Returns the discovered authorization server and its token endpoint, once they are known.
    #[must_use]
    pub fn server(&self) -> Option<(&Issuer, Url)> {
        let (issuer, token_endpoint) = match &self.state {
            FlowState::Register(state) => state.server()?,
            FlowState::Vouch(state) => state.server()?,
            FlowState::Pending(state) => (&state.order.issuer, state.order.token_endpoint.clone()),
            FlowState::Device(state) => (&state.order().issuer, state.order().token_endpoint.clone()),
            FlowState::Redeem(state) => (&state.order().issuer, state.order().token_endpoint.clone()),
            FlowState::Resource(_) | FlowState::Server(_) | FlowState::Over => return None,
        };
        Some((issuer, token_endpoint))
    }

    /// Returns true if the response to the pending request may contain tokens, which are delivered only once.
    pub(super) fn is_redeeming(&self) -> bool {
        match &self.state {
            FlowState::Redeem(_) => true,
            FlowState::Device(state) => state.is_polling(),
            _ => false,
        }
    }

    /// Handles the result of an action at `now`. An unexpected input ends the flow.
    pub fn handle(&mut self, input: FlowInput, now: u64) {
        self.facts.now = now;
        let facts = &mut self.facts;
        let next = match (std::mem::replace(&mut self.state, FlowState::Over), input) {
            // A flow that is over keeps its last effect: the tokens or the error.
            (FlowState::Over, _) => return,
            (_, FlowInput::Failed(error)) => Err(error),
            (FlowState::Resource(state), FlowInput::Response(response)) => state.handle(facts, response),
            (FlowState::Server(state), FlowInput::Response(response)) => state.handle(facts, response),
            (FlowState::Register(state), input) => state.handle(facts, input),
            (FlowState::Pending(state), FlowInput::Redirected(url)) => state.handle(facts, &url),
            (FlowState::Device(state), input) => state.handle(facts, input),
            (FlowState::Vouch(state), FlowInput::Response(response)) => state.handle(facts, response),
            (FlowState::Redeem(state), FlowInput::Response(response)) => state.handle(facts, response),
            _ => Err(FlowError::OutOfOrder),
        };
        self.advance(next);
    }

    fn advance(&mut self, next: FlowStep) {
        (self.state, self.effect) = next.unwrap_or_else(|error| (FlowState::Over, FlowEffect::Failed(error)));
    }
}

/// Returns the response, unless it is a failure of the other side.
fn check_response(
    what: &'static str,
    url: &Url,
    response: Result<FetchResponse, FetchError>,
) -> Result<FetchResponse, FlowError> {
    match response {
        Err(why) => Err(FlowError::Fetch { what, url: without_query(url), why }),
        // Redirects are not followed: a code or a secret would be sent to a place that nobody has checked.
        Ok(response) if response.status.is_server_error() || response.status.is_redirection() => {
            Err(FlowError::Status { what, url: without_query(url), status: response.status })
        }
        Ok(response) => Ok(response),
    }
}
