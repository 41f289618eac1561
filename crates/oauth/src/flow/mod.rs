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
mod authorize_record;
mod cause;
mod device;
mod discovered_server;
mod effect;
mod grant_types;
mod redeem;
mod redirect;
mod register;
mod resource;
mod server;
mod step;
#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "scripts read better without ampersands")]
mod tests;
mod token_exchange;
mod unattended;

use std::sync::Arc;

use hospes_auth::{Issuer, Seed};
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use self::authorize::PendingAuthorization;
use self::authorize_record::AuthorizationRecord;
pub use self::cause::AuthorizationCause;
use self::device::DeviceAuthorization;
pub use self::effect::{AuthorizationPrompt, DevicePrompt, FlowEffect, FlowInput};
use self::redeem::RedeemGrant;
pub(super) use self::redirect::PENDING_SECONDS;
use self::register::{RegisterClient, RegisterState};
use self::resource::{FindResource, ResourceState};
use self::server::{FindServer, ServerState};
use self::step::{FlowContext, FlowStep, into_state};
use self::token_exchange::TokenExchange;
use self::unattended::UnattendedState;
use super::error::FlowError;
use super::settings::OAuthClientSettings;

/// State machine of an authorization flow.
#[derive(Debug)]
pub struct AuthorizationFlow {
    facts: FlowContext,
    state: FlowState,
    effect: FlowEffect,
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

impl From<ResourceState> for FlowState {
    fn from(state: ResourceState) -> Self {
        match state {
            ResourceState::Resource(state) => Self::Resource(state),
            ResourceState::Server(state) => state.into(),
        }
    }
}

impl From<ServerState> for FlowState {
    fn from(state: ServerState) -> Self {
        match state {
            ServerState::Server(state) => Self::Server(state),
            ServerState::Register(state) => state.into(),
        }
    }
}

impl From<RegisterState> for FlowState {
    fn from(state: RegisterState) -> Self {
        match state {
            RegisterState::Register(state) => Self::Register(state),
            RegisterState::Pending(state) => Self::Pending(state),
            RegisterState::Device(state) => Self::Device(state),
            RegisterState::Unattended(UnattendedState::Vouch(state)) => Self::Vouch(state),
            RegisterState::Unattended(UnattendedState::Redeem(state)) => Self::Redeem(state),
        }
    }
}

impl From<Box<RedeemGrant>> for FlowState {
    fn from(state: Box<RedeemGrant>) -> Self {
        Self::Redeem(state)
    }
}

impl From<Option<Box<RedeemGrant>>> for FlowState {
    fn from(state: Option<Box<RedeemGrant>>) -> Self {
        state.map_or(Self::Over, Self::Redeem)
    }
}

impl From<Option<Box<DeviceAuthorization>>> for FlowState {
    fn from(state: Option<Box<DeviceAuthorization>>) -> Self {
        state.map_or(Self::Over, Self::Device)
    }
}

impl AuthorizationFlow {
    /// Begins, at `now` (seconds since 1970).
    #[must_use]
    pub fn new(settings: Arc<OAuthClientSettings>, cause: AuthorizationCause, seed: Seed, now: u64) -> Self {
        let facts = FlowContext { settings, cause, seed, now, assumed: None };
        let mut flow =
            Self { state: FlowState::Over, effect: FlowEffect::Failed(FlowError::OutOfOrder), facts };
        let first = FindResource::begin(&flow.facts);
        flow.advance(first.map(into_state));
        flow
    }

    /// Returns a flow that waits for a redirect as a document, with which another process can continue it. `None` for any
    /// other flow.
    pub(super) fn to_document(&self) -> Option<SecretString> {
        let FlowState::Pending(pending) = &self.state else { return None };
        serde_json::to_string(&AuthorizationRecord::of(pending)).ok().map(SecretString::from)
    }

    /// Continues the flow of a document of [`Self::to_document`], at the endpoint for which it was begun. It expects
    /// [`FlowInput::Redirected`]. `None` if the document does not fit the settings.
    pub(super) fn from_document(
        document: &SecretString,
        settings: Arc<OAuthClientSettings>,
        endpoint: Url,
        seed: Seed,
        now: u64,
    ) -> Option<Self> {
        let record: AuthorizationRecord = serde_json::from_str(document.expose_secret()).ok()?;
        let pending = record.pending(&settings)?;
        let cause = AuthorizationCause::new(endpoint, None);
        let facts = FlowContext { settings, cause, seed, now, assumed: None };
        // There is nothing to do but to wait: whoever is asked to visit a page was asked before.
        let effect = FlowEffect::Failed(FlowError::OutOfOrder);
        Some(Self { state: FlowState::Pending(Box::new(pending)), effect, facts })
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

    /// Returns the authorization endpoint that is assumed because there is no metadata. It may not exist.
    pub(super) fn assumed_endpoint(&self) -> Option<&Url> {
        self.facts.assumed.as_ref()
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
            (FlowState::Resource(state), FlowInput::Response(response)) => {
                state.handle(facts, response).map(into_state)
            }
            (FlowState::Server(state), FlowInput::Response(response)) => {
                state.handle(facts, response).map(into_state)
            }
            (FlowState::Register(state), input) => state.handle(facts, input).map(into_state),
            (FlowState::Pending(state), FlowInput::Redirected(url)) => {
                state.handle(facts, &url).map(into_state)
            }
            (FlowState::Device(state), input) => state.handle(facts, input).map(into_state),
            (FlowState::Vouch(state), FlowInput::Response(response)) => {
                state.handle(facts, response).map(into_state)
            }
            (FlowState::Redeem(state), FlowInput::Response(response)) => {
                state.handle(facts, response).map(into_state)
            }
            _ => Err(FlowError::OutOfOrder),
        };
        self.advance(next);
    }

    fn advance(&mut self, next: FlowStep<FlowState>) {
        (self.state, self.effect) = next.unwrap_or_else(|error| (FlowState::Over, FlowEffect::Failed(error)));
    }
}
